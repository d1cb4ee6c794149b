"""The commands expand and cascade, in this process. Half of 4,000 units has a feature of its own: no chance decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_fixtures import BUDGET, CANARY, PAIRS, Place, Ran, visits
from ddpmi import Budget, Ledger

SPEC = """
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


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Place:
    """Make a folder with rows without labels, a ledger and a cascade."""
    monkeypatch.chdir(tmp_path)
    made = Place(folder=tmp_path, capture=capsys)
    rows = [(unit, feature, label) for unit, feature, label in visits()]
    rows += [(unit, f"too {label}", label) for unit, _, label in visits()[::2]]
    made.write("seen.csv", rows, head="unit,feature,place")
    Ledger(tmp_path / "visits.ledger", limit=Budget(2, "1e-4"))
    (tmp_path / "spec.toml").write_text(SPEC)
    return made


def expanded(place: Place, *words: str) -> Ran:
    return place.run("expand", "seen.csv", *BUDGET, *PAIRS, "--ledger", "visits.ledger", *words)


def test_expand_lists_what_goes_with_the_seed(place: Place) -> None:
    """Features, directions and the promise go to stdout; talk goes to stderr; no unit is named."""
    ran = expanded(place, "--seed", "only north", "--top", "1")
    assert (ran.code, "too north" in ran.out, "presence" in ran.out, "epsilon=1" in ran.out) == (0, True, True, True)
    assert "only north" not in ran.out
    assert CANARY not in ran.out + ran.err
    assert place.charges() == ["released"]


def test_expand_stops_at_the_end_of_the_budget(place: Place) -> None:
    """Rounds that were paid are shown and stored, and the refusal is told on stderr with exit 0."""
    paid = ("--epsilon", "2", "--delta", "1e-6", "--ledger", "visits.ledger", "-o", "rounds")
    words = ("--seed", "only north", "--top", "1", "--rounds", "50", "--format", "json")
    ran = place.run("expand", "seen.csv", *PAIRS, *paid, *words)
    rows = json.loads(ran.out)
    assert (ran.code, rows[0]["round"], rows[0]["feature"], rows[0]["direction"]) == (0, 1, "too north", "presence")
    assert "Stopped after round 1: this release needs epsilon=2" in ran.err
    assert [path.name for path in (place.folder / "rounds").iterdir()] == ["round-1"]
    assert place.charges() == ["released"]


def test_expand_says_that_nothing_is_new(place: Place) -> None:
    """A seed that nobody shows is no error and tells nothing more."""
    ran = expanded(place, "--seed", "nobody", "--rounds", "3")
    assert (ran.code, "nothing new was found" in ran.err, place.charges()) == (0, True, ["released"])


def test_expand_is_refused_without_budget(place: Place) -> None:
    """The first round is refused with exit 3."""
    paid = ("--epsilon", "9", "--delta", "1e-6", "--ledger", "visits.ledger")
    ran = place.run("expand", "seen.csv", "--seed", "a", *PAIRS, *paid)
    assert (ran.code, ran.out, place.charges()) == (3, "", [])


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--seed", "a", "--rounds", "0"),
        ("--seed", "a", "--top", "0"),
        ("--seed", "a", "--label", "place"),
        ("--seed", "a", "--labels", "2"),
        ("--seed", "a", "-o", "seen.csv"),
        ("--seed", "a", "--space", "both"),
        ("--seed", "a", "--feature", "nowhere"),
    ],
)
def test_expand_refuses_wrong_usage(place: Place, words: tuple[str, ...]) -> None:
    """Exit 2, one message, a hint, and no charge."""
    ran = expanded(place, *words)
    assert (ran.code, ran.out, ran.err.count("Hint: "), place.charges()) == (2, "", 1, []), ran.err


def test_a_dry_run_costs_nothing(place: Place) -> None:
    """It prints the folds and their total, and neither charges nor writes."""
    before = place.names()
    ran = place.run("cascade", "spec.toml", "--dry-run")
    assert (ran.code, "Total of dataset 'default': epsilon=2, delta=2e-06" in ran.out) == (0, True), ran.err
    assert (place.names(), place.charges()) == (before, [])


def test_a_cascade_runs_and_resumes(place: Place) -> None:
    """The plan is told first, each fold is shown, and a second run draws nothing."""
    ran = place.run("cascade", "spec.toml", "--top", "1", "--format", "json")
    assert (ran.code, ran.err.index("Total of") < ran.err.index("Fold sites released")) == (0, True), ran.err
    best = [row["feature"] for row in json.loads(ran.out)["places"] if row["label"] == "seed"]
    assert (best, place.charges()) == (["north"], ["released", "released"])
    again = place.run("cascade", "spec.toml", "--top", "1")
    assert (again.code, again.err.count("was released before"), "Fold places\n" in again.out) == (0, 2, True)
    assert place.charges() == ["released", "released"]


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
def test_a_cascade_that_cannot_run_charges_nothing(place: Place, change: str, by: str, code: int) -> None:
    """It is refused before its first fold."""
    (place.folder / "spec.toml").write_text(SPEC.replace(change, by))
    ran = place.run("cascade", "spec.toml")
    assert (ran.code, ran.out, ran.err.count("Hint: "), place.charges()) == (code, "", 1, []), ran.err


def test_wrong_words_of_a_cascade(place: Place) -> None:
    """A missing file and an empty list are wrong usage."""
    assert [place.run("cascade", *words).code for words in (("no.toml",), ("spec.toml", "--top", "0"))] == [2, 2]


def test_a_seed_that_cannot_occur_is_refused_by_a_dry_run(place: Place) -> None:
    """A dry run finds what a run would pay for in vain; nothing is charged by either."""
    Path("spec.toml").write_text(SPEC.replace('seed_column = "feature"\n', ""))
    for words in (("--dry-run",), ()):
        ran = place.run("cascade", "spec.toml", *words)
        assert (ran.code, "seed_column = 'feature'" in ran.err) == (2, True), ran.err
    assert place.charges() == []


@pytest.mark.parametrize("number", ["0", "99999999999999999999"])
def test_counts_on_the_command_line_are_within_a_limit(place: Place, number: str) -> None:
    """What no machine could serve ends with exit 2 before anything is charged."""
    for ran in (
        expanded(place, "--seed", "only north", "--top", number),
        expanded(place, "--seed", "only north", "--rounds", number),
        place.run("cascade", "spec.toml", "--top", number),
    ):
        assert (ran.code, "must be a whole number from 1 to" in ran.err) == (2, True), ran.err
    assert place.charges() == []
