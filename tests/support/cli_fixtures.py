"""The command line in this process and in one of its own, and small data files for it."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import ddpmi
from ddpmi.cli import main
from ddpmi.ledger.ledger import Ledger

#: The sources under test: a copy of them, where a mutant is tested.
SRC = Path(ddpmi.__file__).resolve().parents[1]
CANARY = "canary"
BUDGET = ("--epsilon", "1", "--delta", "1e-6")
PAIRS = ("--pairs", "2")
DAYS = {"unit": "who", "feature": "drink", "label": "day"}
DAY_WORDS = ("--unit", "who", "--feature", "drink", "--label", "day")
PYTHON = re.compile(r"\w=['\"\[]|\b(?:observe|sql|Plan|Bounds|Budget)\(")
"""What a hint for Python has, and a hint for the command line has not."""
SEED_SPEC = """
id = "c1"
ledger = "visits.ledger"
output = "out"
[defaults]
data = "seen.csv"
epsilon = 1
delta = 1e-6
mechanism = "gaussian"
[[fold]]
name = "sites"
seed = ["only north"]
pairs = 3
[[fold]]
name = "places"
feature = "place"
from = "sites"
top = 1
seed_column = "feature"
pairs = 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The exit code and the output of a command."""

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
        """Return the options that name the ledger and the folder of the release."""
        return ("--ledger", "visits.ledger", "-o", output)

    def charges(self, dataset: str = "default") -> list[str]:
        """Return the states of the ledger's entries."""
        return [entry.state for entry in Ledger(self.folder / "visits.ledger").status(dataset).entries]

    def names(self) -> set[str]:
        """Return everything in the folder, hidden files too, except the file that keeps the ledger's head."""
        return {path.name for path in self.folder.iterdir()} - {"visits.ledger.head"}

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
    """Make a folder with visits.csv and visits.ledger, and change to it."""
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


@pytest.fixture(name="lists")
def make_lists(place: Place) -> Place:
    """Add public lists, and data with a value, a day and counts."""
    (place.folder / "labels.txt").write_text("south\nnorth\nwest\n", encoding="utf-8")
    (place.folder / "features.txt").write_text("everyone\nonly north\nnobody\n", encoding="utf-8")
    place.write("days.csv", drinks(), head="who,drink,day,cups")
    counts = [("tea", "uk", 4000), ("tea", "nz", 900), ("mate", "uk", 700), ("mate", "nz", 2500), ("mate", "nz", 10)]
    place.write("counts.csv", counts, head="feature,label,units")
    return place


@pytest.fixture(scope="session", name="two_releases")
def make_two_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two exact releases with pairs in common; each test takes a copy."""
    folder = tmp_path_factory.mktemp("releases")
    rows = pa.Table.from_pylist([dict(zip(("unit", "feature", "label"), row, strict=False)) for row in drinks()])
    for name, where in (("a", "true"), ("b", "feature <> 'Tea' OR label < '2022'")):
        ddpmi.exact(ddpmi.observe(rows, where=where), to=folder / name)
    return folder


@pytest.fixture(name="pair")
def make_pair(place: Place, two_releases: Path) -> Place:
    """Add the releases a and b."""
    shutil.copytree(two_releases, place.folder, dirs_exist_ok=True)
    return place


@pytest.fixture(name="seen")
def make_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Place:
    """Make a folder with seen.csv, which has no labels, a ledger and the cascade spec.toml."""
    monkeypatch.chdir(tmp_path)
    made = Place(folder=tmp_path, capture=capsys)
    rows = [(unit, feature, label) for unit, feature, label in visits()]
    rows += [(unit, f"too {label}", label) for unit, _, label in visits()[::2]]
    made.write("seen.csv", rows, head="unit,feature,place")
    Ledger(tmp_path / "visits.ledger", limit=ddpmi.Budget(2, "1e-4"))
    (tmp_path / "spec.toml").write_text(SEED_SPEC)
    return made


def tables_of(release: ddpmi.Release) -> list:
    """Return everything that a release holds, as plain values."""
    return [release.pairs.to_pylist(), release.features.to_pylist(), release.labels.to_pylist(), release.total]


def refused_clearly(ran: Ran) -> bool:
    """Whether a refusal has one message and one hint on stderr, nothing on stdout, no row, no traceback, no Python."""
    clean = CANARY not in ran.err and "Traceback" not in ran.err and "internal error" not in ran.err
    once = (ran.err.count("Error: "), ran.err.count("Hint: ")) == (1, 1)
    return ran.out == "" and clean and once and PYTHON.search(hint_of(ran)) is None


def hint_of(ran: Ran) -> str:
    """Return the hint of a refusal."""
    return ran.err.partition("Hint: ")[2].strip()


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
