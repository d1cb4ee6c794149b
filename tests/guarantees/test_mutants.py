"""Known mistakes of privacy code, put into a copy of the sources: the tests named beside each must fail.

A quarter of them runs every time; `scripts/test --full` runs all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.mutants import MUTANTS

if TYPE_CHECKING:
    from tests.support.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]


QUICK = {
    "noise is halved",
    "nothing is thresholded",
    "threshold forgets the unit's own weight",
    "features ignore that units have several labels",
    "values of one pair are not clipped",
    "the charge comes after the data is read",
    "weights of a set union do not shrink with the features",
    "releases share their coins",
    "the header comes from the first JSON record",
    "names of files are patterns",
    "objects are cast by the column",
    "a function that was not swept is called",
}


def outcome_of(sources: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run some tests against a copy of the sources."""
    name, *select = tests.split(" ", 2)
    selected = [select[0], select[1].strip("'")] if select else []
    # Only whether a test fails matters: a smallest example or a difference of long tables may take minutes to find.
    fast = ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--hypothesis-profile=no-shrinking"]
    command = [sys.executable, "-m", "pytest", *fast, "-o", "addopts=", "-m", "not full"]
    return subprocess.run(
        [*command, str(ROOT / "tests" / name), *selected],
        env={**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=sources.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Copy the sources."""
    copied: Path = shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.mark.parametrize(
    "mutant", [pytest.param(m, id=m.name, marks=() if m.name in QUICK else pytest.mark.full) for m in MUTANTS]
)
def test_every_mutant_is_caught(mutant: Mutant, sources: Path) -> None:
    """The mistake makes the named tests fail, and fails them by an assertion or error of the product, not by a typo."""
    file = sources / "ddpmi" / mutant.file
    text = file.read_text()
    assert mutant.old in text, "the mutant no longer fits the sources"
    file.write_text(text.replace(mutant.old, mutant.new))
    done = outcome_of(sources, mutant.tests)
    assert done.returncode == 1, done.stdout[-2000:]
    assert "failed" in done.stdout
    assert "SyntaxError" not in done.stdout


def test_every_mutant_still_fits_the_sources() -> None:
    """A mutant whose line is gone would test nothing; each must be found in its file."""
    lost = [m.name for m in MUTANTS if m.old not in (ROOT / "src" / "ddpmi" / m.file).read_text()]
    assert lost == []


def test_the_same_tests_pass_without_a_mutant(sources: Path) -> None:
    """A copy without a mistake passes, so a failure above means that the mistake was seen."""
    done = outcome_of(sources, "planning/test_calibration.py -k labels_widen")
    assert done.returncode == 0, done.stdout[-2000:]
