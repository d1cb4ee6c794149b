"""Words: the names in captions, and the sentence on what bounds changed."""

from __future__ import annotations

from typing import Any

import pytest

from ddpmi import Bounds, Budget, Plan
from ddpmi.pipeline.seeds import SEED_LABELS
from ddpmi.releases.receipts import Origin, describe, private_receipt
from ddpmi.releases.words import Words, bounding_note

COLUMNS = {"unit": "CustomerID", "feature": "Description", "label": "Country", "value": "Quantity"}


def receipt(columns: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """The receipt of a plan."""
    plan = Plan(**{"budget": Budget(2, 1e-6), "bounds": Bounds(pairs=18), **options})
    origin = Origin(
        dataset="d", unit="CustomerID", engine="-", version="-", columns=COLUMNS if columns is None else columns
    )
    balance = {"epsilon": 1.0, "delta": 0.0}
    return private_receipt(plan, origin, release_id="r", ledger={"entry": 1, "spent": balance, "left": balance})


@pytest.mark.parametrize(
    ("name", "one", "several"),
    [
        ("CustomerID", "customer", "customers"),
        ("user_id", "user", "users"),
        ("userId", "user", "users"),
        ("id", "unit", "units"),
        ("paid", "paid", "paids"),
        ("Country", "country", "countries"),
        ("days", "days", "days"),
        ("tax", "tax", "taxes"),
        ("x1", "x1", "x1"),
        ("device_key", "device key", "device keys"),
        ("\x1b[31m", "\\x1b[31m", "\\x1b[31m"),
    ],
)
def test_the_name_of_a_column_becomes_a_noun(name: str, one: str, several: str) -> None:
    """A name that is no word stays as it is, without signs that control a terminal."""
    words = Words(unit=name)
    assert (words.one_unit, words.units, words.counted) == (one, several, several)


def test_words_say_what_is_counted() -> None:
    """Units, the value, or pairs."""
    assert Words.of(receipt()).counted == "customers"
    assert Words.of(receipt(bounds=Bounds(pairs=3, clip=5))).counted == "Quantity"
    assert Words.of(receipt(columns={"unit": "CustomerID"}, space="events")).counted == "pairs"


def test_old_receipts_know_the_unit_alone() -> None:
    """The words that stand in for an expression or for counts are no names."""
    old = {"guarantee": {"unit": "visitor"}, "plan": {"space": "events"}}
    assert Words.of(old) == Words(unit="visitor", space="events")
    for unit in ("an expression", "one counted unit"):
        assert Words.of({"guarantee": {"unit": unit}}).unit == "unit"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "A customer with more than 18 pairs or in more than 1 country counts less"),
        (
            {"bounds": Bounds(pairs=1, labels=2, clip=100)},
            "A customer with more than 1 pair, in more than 2 countries or with more than 100 of Quantity in a pair counts less",
        ),
        ({"public_labels": SEED_LABELS}, "A customer with more than 18 pairs counts less"),
        ({"bounds": Bounds(pairs=1), "distinct": "units"}, ""),
        (
            {"bounds": Bounds(pairs=1, clip="0.5", step="0.5"), "distinct": "units"},
            "A customer with more than 0.5 of Quantity in a pair counts less",
        ),
    ],
)
def test_the_note_has_the_plans_own_numbers(options: dict[str, Any], expected: str) -> None:
    """One sentence; empty where no unit can count less. The printed receipt has it too."""
    made = receipt(**options)
    note = bounding_note(made)
    assert note == (f"{expected}: intervals cover the noise, not this." if expected else "")
    assert (f"Bounds: {note}" in describe(made)) == bool(expected)
    assert bounding_note({"plan": None, "guarantee": {"unit": "u"}}) == ""
