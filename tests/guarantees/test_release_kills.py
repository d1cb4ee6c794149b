"""kill -9 at random moments of a release: charged before readable, never two noises for one id, a ledger that opens."""

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


def started(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """Start a release of the folder's data under an id."""
    words = ["release", "visits.parquet", "--epsilon", "0.01", "--delta", "1e-7", "--distinct=units"]
    words += ["--ledger", "visits.ledger", "-o", f"{name}.release", "--release-id", name]
    return subprocess.Popen(
        [sys.executable, "-m", "ddpmi", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SRC)},
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
    process.wait(timeout=60)
    after = contents(folder / f"{name}.release")
    if before is not None:
        assert (process.returncode, after) == (0, before)
        return "published"
    if entry is not None:
        assert process.returncode != 0, "a charged id was drawn a second time"
        assert after is None
        return "charged"
    assert process.returncode == 0
    assert after is not None
    return "not charged"


def killed_releases(folder: Path, moments: int, seed: int) -> dict[str, int]:
    """Kill that many releases after random times, and count how far they had come."""
    paper_shape(200_000, 2000, 5, folder / "visits.parquet", seed=1)
    Ledger(folder / "visits.ledger", limit=Budget(1000, 1e-2))
    start = time.monotonic()
    assert started(folder, "whole").wait(timeout=60) == 0
    usual = time.monotonic() - start
    moment = random.Random(seed)
    reached: dict[str, int] = {}
    for number in range(moments):
        process = started(folder, f"k{number}")
        time.sleep(moment.uniform(0.1, 1.1) * usual)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        stage = check(folder, f"k{number}")
        reached[stage] = reached.get(stage, 0) + 1
    return reached


def test_a_killed_release_is_charged_before_it_can_be_read(tmp_path: Path) -> None:
    """Six kills at different moments: the ledger verifies and no id shows two noises."""
    assert sum(killed_releases(tmp_path, 6, seed=1).values()) == 6


@pytest.mark.full
def test_two_hundred_killed_releases(tmp_path: Path) -> None:
    """200 kills reach every stage, and none breaks the promise."""
    reached = killed_releases(tmp_path, 200, seed=2)
    assert sum(reached.values()) == 200
    assert set(reached) == {"not charged", "charged", "published"}
