"""`ddpmi expand`. Half of 4,000 units has a feature of its own, so noise decides no test."""

from __future__ import annotations

import json

import pytest

from tests.support.cli_fixtures import BUDGET, CANARY, PAIRS, Place, Ran


def expanded(seen: Place, *words: str) -> Ran:
    return seen.run("expand", "seen.csv", *BUDGET, *PAIRS, "--ledger", "visits.ledger", *words)


def test_expand_lists_what_goes_with_the_seed(seen: Place) -> None:
    """Features, shares and the promise go to stdout; messages go to stderr; no unit is named."""
    ran = expanded(seen, "--seed", "only north", "--top", "1")
    assert (ran.code, "too north" in ran.out, "inside" in ran.out, "epsilon=1" in ran.out) == (0, True, True, True)
    assert "only north" not in ran.out
    assert CANARY not in ran.out + ran.err
    assert seen.charges() == ["released"]


def test_expand_stops_at_the_end_of_the_budget(seen: Place) -> None:
    """Rounds that were charged are shown and stored, and the refusal is printed to stderr with exit 0."""
    paid = ("--epsilon", "2", "--delta", "1e-6", "--ledger", "visits.ledger", "-o", "rounds")
    words = ("--seed", "only north", "--top", "1", "--rounds", "50", "--format", "json")
    ran = seen.run("expand", "seen.csv", *PAIRS, *paid, *words)
    rows = json.loads(ran.out)
    assert (ran.code, rows[0]["round"], rows[0]["feature"], rows[0]["direction"]) == (0, 1, "too north", "presence")
    assert "Stopped after round 1: this release needs epsilon=2" in ran.err
    assert [path.name for path in (seen.folder / "rounds").iterdir()] == ["round-1"]
    assert seen.charges() == ["released"]


def test_expand_says_that_nothing_is_new(seen: Place) -> None:
    """A seed that no unit shows is no error: one round is charged, and nothing is found."""
    ran = expanded(seen, "--seed", "nobody", "--rounds", "3")
    assert (ran.code, "nothing new was found" in ran.err, seen.charges()) == (0, True, ["released"])


def test_expand_is_refused_without_budget(seen: Place) -> None:
    """The first round is refused with exit 3."""
    paid = ("--epsilon", "9", "--delta", "1e-6", "--ledger", "visits.ledger")
    ran = seen.run("expand", "seen.csv", "--seed", "a", *PAIRS, *paid)
    assert (ran.code, ran.out, seen.charges()) == (3, "", [])


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
def test_expand_refuses_wrong_usage(seen: Place, words: tuple[str, ...]) -> None:
    """Exit 2, one message, a hint, and no charge."""
    ran = expanded(seen, *words)
    assert (ran.code, ran.out, ran.err.count("Hint: "), seen.charges()) == (2, "", 1, []), ran.err


@pytest.mark.parametrize("number", ["0", "99999999999999999999"])
def test_counts_on_the_command_line_are_within_a_limit(seen: Place, number: str) -> None:
    """Counts of 0 and counts that are too large end with exit 2 before any charge."""
    for ran in (
        expanded(seen, "--seed", "only north", "--top", number),
        expanded(seen, "--seed", "only north", "--rounds", number),
        seen.run("cascade", "spec.toml", "--top", number),
    ):
        assert (ran.code, "must be a whole number from 1 to" in ran.err) == (2, True), ran.err
    assert seen.charges() == []
