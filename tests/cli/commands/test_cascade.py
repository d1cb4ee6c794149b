"""`ddpmi cascade`. Half of 4,000 units has a feature of its own, so noise decides no test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_fixtures import SEED_SPEC, Place


def test_a_dry_run_costs_nothing(seen: Place) -> None:
    """It prints the folds and their total, and neither charges nor writes."""
    before = seen.names()
    ran = seen.run("cascade", "spec.toml", "--dry-run")
    assert (ran.code, "Total of dataset 'default': epsilon=2, delta=2e-06" in ran.out) == (0, True), ran.err
    assert (seen.names(), seen.charges()) == (before, [])


def test_a_cascade_runs_and_resumes(seen: Place) -> None:
    """The plan is printed first, each fold is shown, and a second run draws nothing."""
    ran = seen.run("cascade", "spec.toml", "--top", "1", "--format", "json")
    assert (ran.code, ran.err.index("Total of") < ran.err.index("Fold sites released")) == (0, True), ran.err
    best = [row["feature"] for row in json.loads(ran.out)["places"] if row["label"] == "seed"]
    assert (best, seen.charges()) == (["north"], ["released", "released"])
    again = seen.run("cascade", "spec.toml", "--top", "1")
    assert (again.code, again.err.count("was released before"), "Fold places\n" in again.out) == (0, 2, True)
    assert seen.charges() == ["released", "released"]


def test_a_repeated_cascade_says_why_it_ends(seen: Place) -> None:
    """The rounds end before the last one where the ledger has too little left, and the command says so."""
    repeated = SEED_SPEC.replace('output = "out"', 'output = "out"\nrepeat = 9')
    (seen.folder / "spec.toml").write_text(repeated)
    ran = seen.run("cascade", "spec.toml", "--dry-run")
    assert (ran.code, "At most, for 9 rounds: Total of dataset 'default': epsilon=18" in ran.out) == (0, True), ran.err
    ran = seen.run("cascade", "spec.toml")
    assert (ran.code, "Stopped after round " in ran.err) == (0, True), ran.err
    assert set(seen.charges()) == {"released"}


@pytest.mark.parametrize(
    ("change", "by", "code"),
    [
        ('ledger = "visits.ledger"', "", 2),
        ('ledger = "visits.ledger"', 'ledger = "no.ledger"', 2),
        ('output = "out"', "", 2),
        ('output = "out"', 'output = "seen.csv"', 2),
        ('data = "seen.csv"', 'data = "nowhere.csv"', 2),
        ("epsilon = 1", "epsilon = 8", 3),
    ],
)
def test_a_cascade_that_cannot_run_charges_nothing(seen: Place, change: str, by: str, code: int) -> None:
    """It is refused before its first fold."""
    (seen.folder / "spec.toml").write_text(SEED_SPEC.replace(change, by))
    ran = seen.run("cascade", "spec.toml")
    assert (ran.code, ran.out, ran.err.count("Hint: "), seen.charges()) == (code, "", 1, []), ran.err


def test_wrong_words_of_a_cascade(seen: Place) -> None:
    """A missing file and an empty list are wrong usage."""
    assert [seen.run("cascade", *words).code for words in (("no.toml",), ("spec.toml", "--top", "0"))] == [2, 2]


def test_a_seed_that_cannot_occur_is_refused_by_a_dry_run(seen: Place) -> None:
    """A seed that cannot occur is refused before any charge, in a dry run too."""
    Path("spec.toml").write_text(SEED_SPEC.replace('seed_column = "feature"\n', ""))
    for words in (("--dry-run",), ()):
        ran = seen.run("cascade", "spec.toml", *words)
        assert (ran.code, "seed_column = 'feature'" in ran.err) == (2, True), ran.err
    assert seen.charges() == []
