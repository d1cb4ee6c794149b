"""Parts of a budget: measured defaults, equal ones, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ddpmi import InputError
from ddpmi._typing import TABLES
from ddpmi.planning.plan import checked_shares, default_shares, equal_shares

MEASURED = [default_shares(noise, finding_labels=found) for noise in ("laplace", "gaussian") for found in (False, True)]


@pytest.mark.parametrize("shares", [*MEASURED, equal_shares()])
def test_shares_name_every_table_and_sum_to_one(shares: dict[str, Fraction]) -> None:
    """Nothing of a budget is lost or spent twice, to the last digit."""
    assert tuple(shares) == TABLES
    assert sum(shares.values()) == 1
    assert checked_shares(shares, selecting=False) == shares


def test_pairs_get_the_largest_part() -> None:
    """Rank errors come from the pairs first, with both kinds of noise."""
    for parts in MEASURED:
        assert list(parts.values()) == sorted(parts.values(), reverse=True)


def test_a_selection_takes_its_part_from_all_others_alike() -> None:
    """Left out it is a tenth; given it is kept."""
    parts = checked_shares(equal_shares(), selecting=True)
    assert parts["selection"] == Fraction(1, 10)
    assert {parts[table] for table in TABLES} == {Fraction(9, 40)}
    assert checked_shares(parts, selecting=True) == parts


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        7,
        {"pairs": 1},
        {"pairs": 0.5, "features": 0.5, "labels": 0, "total": 0},
        {"pairs": 0.5, "features": 0.3, "labels": 0.1, "total": 0.2},
        {"pairs": 0.5, "features": 0.3, "labels": 0.1, "total": 0.1, "selection": 0.1},
    ],
)
def test_wrong_shares_are_refused(wrong: object) -> None:
    """Each is an InputError with a hint that can be pasted."""
    with pytest.raises(InputError, match="Hint: shares="):
        checked_shares(wrong, selecting=False)
