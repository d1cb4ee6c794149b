"""Processes that charge, create and die at the same time neither overspend nor lose what was acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from ddpmi.errors import BudgetExceeded
from ddpmi.ledger.ledger import Ledger
from ddpmi.privacy.accounting import Cost
from ddpmi.privacy.budget import Budget

if TYPE_CHECKING:
    from pathlib import Path

# Arguments: path, name, attempts. Waits for a line, then charges 1 each time and prints what was charged.
WRITER = """
import os, sys
from ddpmi.privacy.accounting import Cost
from ddpmi.privacy.budget import Budget
from ddpmi.errors import BudgetExceeded
from ddpmi.ledger.ledger import Ledger
path, name, attempts = sys.argv[1], sys.argv[2], int(sys.argv[3])
def charge_all(ledger, name):
    for number in range(attempts):
        try:
            entry = ledger.charge(
                cost=Cost.of_laplace([1]), guarantee=Budget(1), release_id=f"{name}-{number}",
                dataset="default", mechanism="laplace", plan_digest="", columns_digest="",
            )
        except BudgetExceeded:
            continue
        os.write(1, f"{entry.release_id}\\n".encode())
print("ready", flush=True)
sys.stdin.readline()
"""
CHARGE = WRITER + "charge_all(Ledger(path), name)\n"
CREATE = WRITER + "charge_all(Ledger(path, limit=Budget(25)), name)\n"
FORK = (
    WRITER
    + """
ledger = Ledger(path)
charge_all(ledger, name)
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        charge_all(ledger, f"{name}-{child}")
        os._exit(0)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
"""
)


def start(script: str, path: Path, name: str, attempts: int) -> subprocess.Popen[str]:
    """Start a writer and wait until it is at the gate."""
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(path), name, str(attempts)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def go(writer: subprocess.Popen[str]) -> None:
    """Open the gate of one writer."""
    assert writer.stdin is not None
    writer.stdin.write("\n")
    writer.stdin.flush()


def read(writer: subprocess.Popen[str], *, everything: bool = False) -> list[str]:
    """Read one acknowledged id, or all that are left of a writer that ended."""
    assert writer.stdout is not None
    if not everything:
        return [writer.stdout.readline().strip()]
    lines = writer.stdout.read().splitlines()
    writer.communicate()
    return lines


def race(script: str, path: Path, writers: int, attempts: int) -> list[str]:
    """Let writers run together; return the ids that were acknowledged."""
    running = [start(script, path, str(number), attempts) for number in range(writers)]
    for writer in running:
        go(writer)
    outputs = [writer.communicate(timeout=1500) for writer in running]
    assert [(0, "")] * writers == [(w.returncode, err) for w, (_, err) in zip(running, outputs, strict=True)]
    return [line for out, _ in outputs for line in out.splitlines()]


def check(path: Path, acknowledged: list[str], expected: int) -> None:
    """The file holds exactly what was acknowledged, and as much as the limit allows."""
    ledger = Ledger(path)
    ledger.verify()
    assert sorted(acknowledged) == sorted(entry.release_id for entry in ledger.status().entries)
    assert len(acknowledged) == expected
    assert ledger.status().spent.epsilon == expected


def check_killed_writers(path: Path, rounds: int, *, seed: int = 20) -> None:
    """Kill two writers at some moment after the first charge of one, again and again on one file."""
    Ledger(path, limit=Budget(10**6))
    moments = random.Random(seed)
    acknowledged: list[str] = []
    for number in range(rounds):
        writers = [start(CHARGE, path, f"{number}-{twin}", 100_000) for twin in range(2)]
        for writer in writers:
            go(writer)
        acknowledged += read(writers[number % 2])
        time.sleep(moments.random() * 0.03)
        for writer in writers:
            writer.kill()
        # A line is written whole or not at all, so the last one counts too.
        acknowledged += [line for writer in writers for line in read(writer, everything=True)]
        ledger = Ledger(path)
        ledger.verify()
        stored = {entry.release_id for entry in ledger.status().entries}
        assert set(acknowledged) <= stored
        # One charge of each dead writer may have been committed and not yet acknowledged.
        assert len(stored) <= len(acknowledged) + 2 * (number + 1)
    assert len(acknowledged) >= rounds


def test_processes_never_overspend_together(tmp_path: Path) -> None:
    """Of 80 attempts by 4 processes exactly the 25 that fit succeed."""
    path = tmp_path / "a.ledger"
    Ledger(path, limit=Budget(25))
    check(path, race(CHARGE, path, 4, 20), 25)


def test_processes_may_create_the_same_ledger(tmp_path: Path) -> None:
    """All of them get the one file, and its limit holds for all."""
    path = tmp_path / "a.ledger"
    check(path, race(CREATE, path, 4, 8), 25)
    assert {path.name, f"{path.name}.head"} == {file.name for file in tmp_path.iterdir()}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_a_ledger_survives_a_fork(tmp_path: Path) -> None:
    """Children that inherit an open ledger charge beside each other."""
    path = tmp_path / "a.ledger"
    Ledger(path, limit=Budget(15))
    check(path, race(FORK, path, 1, 5), 15)


def test_threads_never_overspend_together(tmp_path: Path) -> None:
    """Threads share one ledger while others open and read the same file."""
    path = tmp_path / "a.ledger"
    ledger = Ledger(path, limit=Budget(25))
    gate = threading.Barrier(4)

    def charge_all(name: int) -> list[str]:
        done = []
        gate.wait()
        for number in range(10):
            try:
                entry = ledger.charge(
                    cost=Cost.of_laplace([1]),
                    guarantee=Budget(1),
                    release_id=f"{name}-{number}",
                    dataset="default",
                    mechanism="laplace",
                    plan_digest="",
                    columns_digest="",
                )
            except BudgetExceeded:
                continue
            done.append(entry.release_id)
            assert Ledger(path).find(entry.release_id) == entry
        return done

    with ThreadPoolExecutor(4) as pool:
        acknowledged = [name for done in pool.map(charge_all, range(4)) for name in done]
    check(path, acknowledged, 25)


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    """After each of 5 double kills the file opens, verifies, and holds every acknowledged charge."""
    check_killed_writers(tmp_path / "a.ledger", 5)


@pytest.mark.full
def test_many_processes_never_overspend_together(tmp_path: Path) -> None:
    """Twenty times, of 1600 attempts by 8 processes exactly the 100 that fit succeed."""
    for repetition in range(20):
        path = tmp_path / f"{repetition}.ledger"
        Ledger(path, limit=Budget(100))
        check(path, race(CHARGE, path, 8, 200), 100)


@pytest.mark.full
def test_many_killed_writers_lose_nothing(tmp_path: Path) -> None:
    """After each of 100 double kills the file opens, verifies, and holds every acknowledged charge."""
    for repetition in range(20):
        check_killed_writers(tmp_path / f"{repetition}.ledger", 5, seed=repetition)
