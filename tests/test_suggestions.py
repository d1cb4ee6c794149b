"""Plans from public hints: bounds, noise, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.budget import Budget
from ddpmi.errors import InputError
from ddpmi.plan import Plan
from ddpmi.spec import Bounds
from ddpmi.suggestions import expected_sum, suggested_bounds

BUDGET = Budget(1, 1e-7)


@given(st.lists(st.floats(1, 10_000), min_size=2, max_size=2).map(sorted))
@settings(deadline=None)
def test_more_pairs_per_unit_never_lower_the_bound(pairs: list[float]) -> None:
    """K grows with what a usual unit has, and never exceeds it."""
    low, high = (suggested_bounds(number).pairs for number in pairs)
    assert 1 <= low <= high
    assert high <= max(1, pairs[1])


@pytest.mark.parametrize(("hint", "pairs"), [(1, 1), (2, 1), (39, 20), (92, 46), (97, 49)])
def test_half_of_a_usual_units_pairs_count_in_full(hint: int, pairs: int) -> None:
    """The rule, as written down."""
    assert Plan.suggest(budget=BUDGET, units=50_000, pairs_per_unit=hint, labels=150).bounds == Bounds(pairs=pairs)


def test_the_noise_is_never_worse_than_the_other() -> None:
    """The suggested noise has the lower threshold, or less noise where both thresholds are far below."""
    for units in (10_000, 10**6, 10**9):
        for pairs in (1, 5, 50):
            plan = Plan.suggest(budget=Budget(1, 1e-10), units=units, pairs_per_unit=pairs, labels=20)
            other = Plan(
                budget=plan.budget,
                bounds=plan.bounds,
                mechanism="laplace" if plan.mechanism_name == "gaussian" else "gaussian",
            )
            noise = [one.calibration.tables["pairs"].mechanism.sd * float(one.step) for one in (plan, other)]
            assert plan.calibration.badness <= other.calibration.badness or noise[0] <= noise[1]


def test_many_units_prefer_little_noise() -> None:
    """Far above both thresholds the smaller deviation decides; near them the lower threshold does."""
    big, small = (
        Plan.suggest(budget=Budget(1, 1e-12), units=units, pairs_per_unit=8, labels=5) for units in (10**11, 10**4)
    )
    assert small.mechanism_name == Plan(budget=small.budget, bounds=small.bounds).mechanism_name
    noise = {
        name: Plan(budget=big.budget, bounds=big.bounds, mechanism=name).calibration.tables["pairs"].mechanism.sd
        for name in ("laplace", "gaussian")
    }
    assert big.mechanism_name == min(noise, key=noise.__getitem__)


def test_settled_fields_stay() -> None:
    """Bounds, noise and declarations that are given are kept."""
    plan = Plan.suggest(budget=BUDGET, units=10_000, bounds=Bounds(pairs=7), mechanism="laplace", distinct=True)
    assert (plan.bounds.pairs, plan.mechanism, plan.distinct) == (7, "laplace", True)


def test_releases_are_completed_where_units_have_several_pairs() -> None:
    """It is free and was measured to help; options that settle what is shown are kept."""
    for hint, options, completed in (
        (1, {}, False),
        (5, {}, True),
        (5, {"public_labels": ["a"]}, True),
        (5, {"complete": False}, False),
        (5, {"grid": True}, False),
        (5, {"marginals": "other"}, False),
        (5, {"thresholds": "every"}, False),
        (5, {"public_labels": ["a"], "public_features": ["f"]}, False),
        (5, {"selection": "sips", "public_labels": ["a"]}, False),
    ):
        plan = Plan.suggest(budget=BUDGET, units=10_000, pairs_per_unit=hint, labels=3, **options)
        assert plan.complete == completed, options
    many = Plan.suggest(budget=BUDGET, units=10_000, pairs_per_unit=5, labels=1001)
    assert not many.complete  # the release would have too many rows


def test_larger_data_have_larger_pairs() -> None:
    """The expected count grows with the total and shrinks with the number of labels."""
    assert expected_sum(1e7, 20) == pytest.approx(10 * expected_sum(1e6, 20))
    assert expected_sum(1e6, 10) > expected_sum(1e6, 100)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"units": 0}, "units="),
        ({"units": 1.5}, "units="),
        ({"units": 10**8}, "too large for 100000000 units"),
        ({"pairs_per_unit": 0.5}, "pairs_per_unit="),
        ({"pairs_per_unit": float("nan")}, "pairs_per_unit="),
        ({"labels": 0}, "labels="),
        ({"labels": True}, "labels="),
    ],
)
def test_wrong_hints_are_refused(wrong: dict[str, Any], said: str) -> None:
    """Each error names what was got."""
    hints = {"units": 10_000, "pairs_per_unit": 5, "labels": 3} | wrong
    with pytest.raises(InputError, match=said):
        Plan.suggest(budget=BUDGET, **hints)
