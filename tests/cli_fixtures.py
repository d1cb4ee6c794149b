"""The command line in this process and in one of its own, and small data files for it."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from ddpmi.cli import main
from ddpmi.ledger import Ledger

SRC = Path(__file__).resolve().parents[1] / "src"
CANARY = "canary"
BUDGET = ("--epsilon", "1", "--delta", "1e-6")
PAIRS = ("--pairs", "2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder with data and a ledger, and the command line inside it."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *words: str) -> Ran:
        """Run one command in this process."""
        self.capture.readouterr()
        code = main(words)
        out, err = self.capture.readouterr()
        return Ran(code=code, out=out, err=err)

    def release(self, *words: str, data: str = "visits.csv", output: str = "visits.release") -> Ran:
        """Release a file with the usual budget, ledger and bounds, and more words."""
        return self.run("release", data, *BUDGET, *PAIRS, *self.paid(output), *words)

    def paid(self, output: str) -> tuple[str, ...]:
        """Return the words that say who pays and where the release goes."""
        return ("--ledger", "visits.ledger", "-o", output)

    def charges(self, dataset: str = "default") -> list[str]:
        """Return the states of what the ledger was charged."""
        return [entry.state for entry in Ledger(self.folder / "visits.ledger").status(dataset).entries]

    def names(self) -> set[str]:
        """Return everything in the folder, hidden files too."""
        return {path.name for path in self.folder.iterdir()}

    def write(self, name: str, rows: list[tuple[object, ...]], head: str = "unit,feature,label") -> str:
        """Write a CSV file."""
        with (self.folder / name).open("w", encoding="utf-8", newline="") as file:
            file.write(head + "\n")
            csv.writer(file, lineterminator="\n").writerows(rows)
        return name


@cache
def visits(units: int = 4000) -> list[tuple[object, ...]]:
    """Return rows in which half of the units have a feature of their own; names of units are canaries.

    With 4,000 units the ranking could be wrong only if the total's noise passed ten standard deviations.
    """
    rows: list[tuple[object, ...]] = []
    for unit in range(units):
        label = ("north", "south")[unit % 2]
        rows += [(f"{CANARY}-{unit}", feature, label) for feature in ("everyone", f"only {label}")]
    return rows


def drinks() -> list[tuple[object, ...]]:
    """Return rows of unit, feature, label and value; names of units are canaries."""
    names = ("Tea", "tea", "Mate")
    return [(f"{CANARY}-{unit}", names[unit % 3], f"202{unit % 4}-03-01", unit % 7) for unit in range(90)]


@pytest.fixture(scope="session", name="empty_ledger")
def make_empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Make a ledger once; each test takes a copy."""
    file = tmp_path_factory.mktemp("ledger") / "visits.ledger"
    assert main(["ledger", "create", str(file), "--epsilon", "4", "--delta", "1e-5"]) == 0
    return file.read_bytes()


@pytest.fixture(name="place")
def make_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    empty_ledger: bytes,
) -> Place:
    """Make a folder with visits.csv and visits.ledger, and go there."""
    monkeypatch.chdir(tmp_path)
    made = Place(folder=tmp_path, capture=capsys)
    made.write("visits.csv", visits())
    (tmp_path / "visits.ledger").write_bytes(empty_ledger)
    return made


@pytest.fixture(name="ranked")
def make_ranked(place: Place) -> Place:
    """Make an exact release with names that are hostile, ten features for each of two labels."""
    rows: list[tuple[object, ...]] = []
    for unit in range(60):
        label = ("x", "y")[unit % 2]
        rows += [(unit, f"f{number:02}", label) for number in range(12) if (unit * 7 + number) % 5]
    rows += [(unit, "[red]\x1b[31m=SUM(A1)", "x") for unit in range(0, 60, 2)]
    place.write("names.csv", rows)
    assert place.run("exact", "names.csv", "-o", "names").code == 0
    return place


def told_clearly(ran: Ran) -> bool:
    """Say whether a refusal has one message and one hint on stderr, nothing on stdout, no row, no traceback."""
    clean = CANARY not in ran.err and "Traceback" not in ran.err and "internal error" not in ran.err
    return ran.out == "" and clean and (ran.err.count("Error: "), ran.err.count("Hint: ")) == (1, 1)


def in_its_own_process(folder: Path, *words: str, python: tuple[str, ...] = ("-m", "ddpmi")) -> Ran:
    """Run one command as a user would."""
    done = subprocess.run(
        [sys.executable, *python, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)
