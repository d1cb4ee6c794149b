"""kill -9 at named and at random moments of a release.

What is readable was charged, no id shows two noises, the ledger opens, and the folder's name is free again. After the
next release nothing is left of the killed one: no reserved name beside it, and no temporary folder.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddpmi import DdpmiError, Ledger, Release
from ddpmi.datasets import paper_shape
from ddpmi.privacy.budget import Budget

SRC = Path(__file__).resolve().parents[2] / "src"
#: Seconds that a release may take on a busy machine.
PATIENCE = 300
#: Runs the command line in a process that kills itself at a named moment.
DYING = """
import os, signal, sys
import pyarrow.parquet
from ddpmi.cli import main
from ddpmi.curator import door
from ddpmi.ledger.ledger import Ledger
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
MOMENTS[sys.argv[1]]()
sys.exit(main(sys.argv[2:]))
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


def started(folder: Path, name: str, *, dying: str | None = None, id_: str | None = None) -> subprocess.Popen[bytes]:
    """Start a release of the folder's data under an id, which kills itself at a moment."""
    words = ["release", "visits.parquet", "--epsilon", "0.01", "--delta", "1e-7", "--distinct=units"]
    words += ["--ledger", "visits.ledger", "-o", f"{name}.release", "--release-id", id_ or name]
    program = ["-m", "ddpmi"] if dying is None else ["-c", DYING, dying]
    return subprocess.Popen(
        [sys.executable, *program, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(folder / "temporary")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def contents(folder: Path) -> list[bytes] | None:
    """Return the bytes of a release, or None where there is none."""
    try:
        Release.load(folder)
    except DdpmiError:
        return None
    return [file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()]


def check(folder: Path, name: str) -> str:
    """Look at what a killed release left, try it again, and tell how far it had come."""
    ledger = Ledger(folder / "visits.ledger")
    ledger.verify()
    entry = ledger.find(name)
    before = contents(folder / f"{name}.release")
    assert before is None or entry is not None, "a release can be read that was never charged"
    process = started(folder, name)
    process.wait(timeout=PATIENCE)
    after = contents(folder / f"{name}.release")
    if before is not None:
        assert (process.returncode, after) == (0, before)
        assert ledger.find(name).state == "released"
        return "published"
    if entry is not None:
        assert process.returncode != 0, "a charged id was drawn a second time"
        assert after is None
        assert started(folder, name, id_=f"{name}-new").wait(timeout=PATIENCE) == 0, "the folder's name stayed reserved"
        return "charged"
    assert process.returncode == 0
    assert after is not None
    return "not charged"


def prepared(folder: Path) -> float:
    """Write data and a ledger, and return how long a release takes."""
    (folder / "temporary").mkdir()
    paper_shape(200_000, 2000, 5, folder / "visits.parquet", seed=1)
    Ledger(folder / "visits.ledger", limit=Budget(1000, 1e-2))
    start = time.monotonic()
    assert started(folder, "whole").wait(timeout=PATIENCE) == 0
    return time.monotonic() - start


def check_nothing_left(folder: Path) -> None:
    """Make one more release, and look for what killed ones left beside releases and among temporary files."""
    assert started(folder, "last").wait(timeout=PATIENCE) == 0
    assert [place.name for place in folder.iterdir() if place.name.startswith(".")] == []
    assert list((folder / "temporary").iterdir()) == []


def killed_at_random(folder: Path, moments: int, seed: int) -> dict[str, int]:
    """Kill that many releases after random times, and count how far they had come."""
    usual = prepared(folder)
    moment = random.Random(seed)
    reached: dict[str, int] = {}
    for number in range(moments):
        process = started(folder, f"k{number}")
        time.sleep(moment.uniform(0.1, 1.1) * usual)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=PATIENCE)
        stage = check(folder, f"k{number}")
        reached[stage] = reached.get(stage, 0) + 1
    check_nothing_left(folder)
    return reached


def check_named(folder: Path, times: int) -> int:
    """Kill releases at each named moment, and return how many were killed."""
    prepared(folder)
    for moment, stage in MOMENTS.items():
        for number in range(times):
            name = f"{moment}-{number}"
            assert started(folder, name, dying=moment).wait(timeout=PATIENCE) == -signal.SIGKILL, moment
            found = check(folder, name)
            assert found == (stage or found), moment
    check_nothing_left(folder)
    return times * len(MOMENTS)


def test_a_release_killed_at_a_random_moment_is_charged_before_it_can_be_read(tmp_path: Path) -> None:
    """Four kills at different moments: the ledger verifies and no id shows two noises."""
    assert sum(killed_at_random(tmp_path, 4, seed=1).values()) == 4


def test_a_release_killed_between_reserve_and_digest_keeps_the_promise(tmp_path: Path) -> None:
    """A kill at each named moment leaves a charge or nothing, one noise for each id, and a free name."""
    assert check_named(tmp_path, 1) == len(MOMENTS)


@pytest.mark.full
def test_two_hundred_killed_releases(tmp_path: Path) -> None:
    """200 kills reach every stage, and none breaks the promise."""
    reached = killed_at_random(tmp_path, 200, seed=2)
    assert sum(reached.values()) == 200
    assert set(reached) == {"not charged", "charged", "published"}


@pytest.mark.full
def test_two_hundred_kills_between_reserve_and_digest(tmp_path: Path) -> None:
    """More than 200 kills at named moments: none breaks the promise."""
    assert check_named(tmp_path, 23) >= 200
