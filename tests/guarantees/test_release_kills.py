"""kill -9 at named and at random moments of a release.

What is readable was charged, no id shows two noises, the ledger opens, and the folder's name is free again. After the
next release nothing is left of the killed one: no reserved name beside it, and no temporary folder.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from ddpmi import DdpmiError, Ledger, Release
from ddpmi.datasets import paper_shape
from ddpmi.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks of POSIX")
SRC = Path(__file__).resolve().parents[2] / "src"
#: Answers each request with the exit code of a release. Forked from here a release loads no modules, and takes a third of
#: the time. A request is a folder, the words, a named moment or null, and the seconds until a kill or null.
SERVER = """
import json, os, signal, sys, time
import cryptography.hazmat.primitives.ciphers.modes, duckdb, pandas, pyarrow.pandas_compat, pyarrow.parquet, rich.progress
from ddpmi.cli import app, main
from ddpmi.curator import door
from ddpmi.engines.duckdb import engine, source
from ddpmi.ledger.ledger import Ledger
from ddpmi.planning import explain
from ddpmi.privacy import randomness, samplers
from ddpmi.releases.release import Release

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def patch(owner, name, *, after=False, calls=1):
    real, left = getattr(owner, name), [calls]
    def dying(*words, **more):
        left[0] -= 1
        if not left[0] and not after:
            die()
        found = real(*words, **more)
        if not left[0]:
            die()
        return found
    setattr(owner, name, dying)

MOMENTS = {
    "reserved": lambda: patch(door, "rehearse"),
    "rehearsed": lambda: patch(Ledger, "charge_many"),
    "charged": lambda: patch(Ledger, "charge_many", after=True),
    "drawn": lambda: patch(door, "measure", after=True),
    "writing": lambda: patch(pyarrow.parquet, "write_table", calls=3),
    "synced": lambda: patch(os, "fsync", calls=4),
    "published": lambda: patch(Release, "save", after=True),
    "marking": lambda: patch(Ledger, "mark"),
    "marked": lambda: patch(Ledger, "mark", after=True),
}

def release(folder, words, moment):
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.chdir(folder)
    if moment:
        MOMENTS[moment]()
    sys.exit(main(words))

for line in sys.stdin:
    folder, words, moment, seconds = json.loads(line)
    pid = os.fork()
    if pid == 0:
        release(folder, words, moment)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
#: Moment -> how far the release had come; None where the number of calls decides.
MOMENTS = {
    "reserved": "not charged",
    "rehearsed": "not charged",
    "charged": "charged",
    "drawn": "charged",
    "writing": "charged",
    "synced": None,
    "published": "published",
    "marking": "published",
    "marked": "published",
}


class Forks:
    """Releases in processes that are forked from one that has loaded all modules."""

    def __init__(self, folder: Path) -> None:
        (folder / "temporary").mkdir()
        self.folder = folder
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env={**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(folder / "temporary")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.communicate()

    def release(
        self, name: str, *, dying: str | None = None, id_: str | None = None, seconds: float | None = None
    ) -> int:
        """Release the folder's data under an id, and return the exit code.

        It kills itself at a named moment, or is killed after some seconds.
        """
        request = [str(self.folder), words(name, id_), dying, seconds]
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())


class Programs:
    """Releases as a user runs them: each starts the program."""

    def __init__(self, folder: Path) -> None:
        (folder / "temporary").mkdir()
        self.folder = folder

    def release(self, name: str, *, id_: str | None = None, seconds: float | None = None) -> int:
        """Release the folder's data under an id, and return the exit code. It is killed after some seconds."""
        process = subprocess.Popen(
            [sys.executable, "-m", "ddpmi", *words(name, id_)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(self.folder / "temporary")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if seconds is not None:
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
        return process.wait()


def words(name: str, id_: str | None) -> list[str]:
    """Return the words of a release."""
    plan = ["--epsilon", "0.01", "--delta", "1e-7", "--distinct=units"]
    return [
        *("release", "visits.parquet", *plan, "--ledger", "visits.ledger"),
        *("-o", f"{name}.release", "--release-id", id_ or name),
    ]


def contents(folder: Path) -> list[bytes] | None:
    """Return the bytes of a release, or None where there is none."""
    try:
        Release.load(folder)
    except DdpmiError:
        return None
    return [file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()]


def check(maker: Forks | Programs, name: str) -> str:
    """Look at what a killed release left, try it again, and tell how far it had come."""
    ledger, folder = Ledger(maker.folder / "visits.ledger"), maker.folder / f"{name}.release"
    ledger.verify()
    entry, before = ledger.find(name), contents(folder)
    assert before is None or entry is not None, "a release can be read that was never charged"
    code = maker.release(name)
    after = contents(folder)
    if before is not None:
        assert (code, after) == (0, before)
        assert ledger.find(name).state == "released"
        return "published"
    if entry is not None:
        assert code != 0, "a charged id was drawn a second time"
        assert after is None
        assert maker.release(name, id_=f"{name}-new") == 0, "the folder's name stayed reserved"
        return "charged"
    assert (code, after is None) == (0, False)
    return "not charged"


def prepared(maker: Forks | Programs) -> float:
    """Write data and a ledger, and return how long a release takes."""
    paper_shape(200_000, 2000, 5, maker.folder / "visits.parquet", seed=1)
    Ledger(maker.folder / "visits.ledger", limit=Budget(1000, 1e-2))
    assert maker.release("first") == 0  # fills the cache of the disk
    start = time.monotonic()
    assert maker.release("whole") == 0
    return time.monotonic() - start


def check_nothing_left(maker: Forks | Programs) -> None:
    """Make one more release, and look for what killed ones left beside releases and among temporary files."""
    assert maker.release("last") == 0
    assert [place.name for place in maker.folder.iterdir() if place.name.startswith(".")] == []
    assert list((maker.folder / "temporary").iterdir()) == []


def killed_at_random(maker: Forks | Programs, moments: int, seed: int) -> Counter[str]:
    """Kill that many releases after random times, and count how far they had come."""
    usual, moment, reached = prepared(maker), random.Random(seed), Counter[str]()
    for number in range(moments):
        maker.release(f"k{number}", seconds=moment.uniform(0.1, 1.1) * usual)
        reached[check(maker, f"k{number}")] += 1
    check_nothing_left(maker)
    return reached


def check_named(folder: Path, moments: Iterable[str], times: int) -> Counter[str]:
    """Kill releases at named moments, and count how far they had come."""
    reached = Counter[str]()
    with Forks(folder) as maker:
        prepared(maker)
        for moment in moments:
            stage = MOMENTS[moment]
            for number in range(times):
                name = f"{moment}-{number}"
                assert maker.release(name, dying=moment) == -signal.SIGKILL, moment
                found = check(maker, name)
                assert found == (stage or found), moment
                reached[found] += 1
        check_nothing_left(maker)
    return reached


def test_a_release_killed_at_a_random_moment_is_charged_before_it_can_be_read(tmp_path: Path) -> None:
    """Four kills of the program at different moments: the ledger verifies and no id shows two noises."""
    assert killed_at_random(Programs(tmp_path), 4, seed=1).total() == 4


def test_a_release_killed_between_reserve_and_digest_keeps_the_promise(tmp_path: Path) -> None:
    """A kill at each named moment leaves a charge or nothing, one noise for each id, and a free name."""
    assert check_named(tmp_path, MOMENTS, 1).total() == len(MOMENTS)


@pytest.mark.full
def test_two_hundred_killed_releases(tmp_path: Path) -> None:
    """200 kills reach every stage, and none breaks the promise."""
    with Forks(tmp_path) as maker:
        reached = killed_at_random(maker, 200, seed=2)
    print(f"kills at random {dict(reached)}")  # noqa: T201 - for the record of long checks
    assert reached.total() == 200
    assert set(reached) == {"not charged", "charged", "published"}


@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS)
def test_kills_between_reserve_and_digest(tmp_path: Path, moment: str) -> None:
    """23 kills at each of nine moments, 207 in all: none breaks the promise."""
    reached = check_named(tmp_path, [moment], 23)
    print(f"kills at the moment {moment!r}: {dict(reached)}")  # noqa: T201 - for the record of long checks
    assert reached.total() == 23
