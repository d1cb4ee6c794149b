"""Reservations: one release wins a name before it is charged, and the death of a process gives the name back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from ddpmi import Release, ReleaseError, exact, observe
from ddpmi.releases.reservations import Reservation, check_target, reserve

SRC = Path(__file__).resolve().parents[2] / "src"
ROWS = pa.table({"unit": ["u", "v"], "feature": ["f", "g"], "label": ["x", "y"]})
HOLD = """import sys, time
from ddpmi.releases.reservations import reserve
with reserve(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)"""


def test_a_reserved_name_is_refused_to_others(tmp_path: Path) -> None:
    """A second call is refused while the name is held, also under another spelling, and wins afterwards."""
    target = tmp_path / "out"
    with reserve(target):
        for spelling in (target, tmp_path / "." / "out", str(target)):
            with pytest.raises(ReleaseError, match="Another release is about to write"):
                reserve(spelling)
        with reserve(tmp_path / "other"):
            pass
    with reserve(target):
        pass
    assert list(tmp_path.iterdir()) == []


def test_one_of_many_wins(tmp_path: Path) -> None:
    """Of 16 threads that reserve one name at once, one wins and all others are refused."""

    def take(_: int) -> Reservation | None:
        try:
            return reserve(tmp_path / "out")
        except ReleaseError:
            return None

    with ThreadPoolExecutor(16) as pool:
        won = [found for found in pool.map(take, range(16)) if found is not None]
    assert len(won) == 1
    won[0].cancel()
    assert list(tmp_path.iterdir()) == []


def kill_while_held(folder: Path) -> None:
    """Let a process reserve a name, check that it is held, and kill it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ReleaseError, match="about to write"):
            reserve(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_killed_process_gives_the_name_back(tmp_path: Path) -> None:
    """After kill -9 the name is free, and a reservation of another name removes what was left."""
    kill_while_held(tmp_path / "out")
    with reserve(tmp_path / "out"):
        pass
    kill_while_held(tmp_path / "out")
    assert len(list(tmp_path.iterdir())) == 1
    with reserve(tmp_path / "another"):
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_release_is_written_under_its_reservation(tmp_path: Path) -> None:
    """It is saved with the reservation, under no other name, and not after the reservation has ended."""
    found = exact(observe(ROWS))
    with reserve(tmp_path / "out") as reservation:
        with pytest.raises(ReleaseError, match="not reserved"):
            found.save(tmp_path / "other", reservation=reservation)
        assert found.save(tmp_path / "out", reservation=reservation) == tmp_path / "out"
    with pytest.raises(ReleaseError, match="not reserved"):
        found.save(tmp_path / "out", reservation=reservation)
    assert Release.load(tmp_path / "out").pairs.equals(found.pairs)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["empty folder", "file", "link"])
def test_publishing_replaces_nothing(tmp_path: Path, kind: str) -> None:
    """What appears at the target after the reservation stays, even an empty folder, and nothing is written."""
    found, target = exact(observe(ROWS)), tmp_path / "out"
    with reserve(target) as reservation:
        {"empty folder": target.mkdir, "file": target.touch, "link": lambda: target.symlink_to("nowhere")}[kind]()
        with pytest.raises(ReleaseError, match="exists already"):
            found.save(target, reservation=reservation)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("length", [244, 245, 250, 255])
def test_a_long_name_works(tmp_path: Path, length: int) -> None:
    """Names of 245 and more characters, which failed after the charge, are written."""
    folder = exact(observe(ROWS)).save(tmp_path / ("n" * length))
    assert Release.load(folder).total == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n" * 256, "too long"),
        ("é" * 128, "too long"),
        ("a\0b", "NUL"),
        ("\ud800", "not Unicode"),
        ("d/" * 2500 + "out", "too long"),
    ],
)
def test_a_name_that_cannot_be_written_is_refused(tmp_path: Path, name: str, words: str) -> None:
    """Each is refused before anything is charged, with our error."""
    for check in (check_target, reserve):
        with pytest.raises(ReleaseError, match=words):
            check(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_to_write_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder is made before the charge, so a read-only disk refuses then."""

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(ReleaseError, match="Read-only file system"):
        reserve(tmp_path / "out")
