"""Plans from public hints: bounds, noise, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.errors import InputError
from ddpmi.pipeline.bounds import Bounds
from ddpmi.planning.plan import Plan
from ddpmi.planning.suggest import Best, Hints, expected_sum, suggested_bounds
from ddpmi.privacy.budget import Budget

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


def test_given_fields_are_kept() -> None:
    """Bounds, noise and declarations that are given are kept."""
    plan = Plan.suggest(budget=BUDGET, units=10_000, bounds=Bounds(pairs=7), mechanism="laplace", distinct=True)
    assert (plan.bounds.pairs, plan.mechanism, plan.distinct) == (7, "laplace", True)


def test_releases_are_completed_where_units_have_several_pairs() -> None:
    """It is free and was measured to help; options that decide what is released are kept."""
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


LISTED = {"public_labels": [f"label-{at:02d}" for at in range(22)]}


@pytest.mark.parametrize("options", [{}, LISTED])
def test_a_grid_is_taken_where_a_threshold_on_pairs_hides_too_much(options: dict[str, Any]) -> None:
    """Ten million units of one pair: at 0.5 features can be found by their totals, at 0.1 neither shows, at 1 both do."""
    for epsilon, grid in (("0.1", False), ("0.5", True), (1, False), (8, False)):
        plan = Plan.suggest(budget=Budget(epsilon, 1e-8), units=10**7, labels=22, distinct="units", **options)
        assert (plan.grid, plan.complete, plan.mechanism_name) == (grid, False, "laplace"), epsilon
        assert (plan.calibration.tables["pairs"].threshold is None) == grid


def test_given_options_are_not_replaced_by_a_grid() -> None:
    """Options that say what shows, shares or Gaussian noise keep the threshold; so do labels that would make it too long."""
    small = {"budget": Budget("0.5", 1e-8), "units": 10**7, "labels": 22}
    assert Plan.suggest(**small).grid
    shares = {"pairs": "0.65", "features": "0.3", "labels": "0.04", "total": "0.01"}
    for options in (
        {"grid": False},
        {"shares": shares},
        {"mechanism": "gaussian"},
        {"complete": True},
        {"labels": 1001},
    ):
        assert not Plan.suggest(**(small | options)).grid, options
    # A list says how many labels there are; the hint is ignored.
    assert Plan.suggest(**(small | {"labels": 3000, "public_labels": [str(at) for at in range(22)]})).grid
    assert not Plan.suggest(**(small | {"labels": 1})).grid
    # One label against everybody else: there are as many labels as before.
    assert Plan.suggest(**(small | {"labels_only": ["a"]})).grid
    assert not Plan.suggest(budget=Budget("0.5", 1e-16), units=1 << 50).grid


def test_the_best_pairs_are_those_of_the_declared_shape() -> None:
    """Common features of small labels lead; a lower threshold shows no fewer of them, and a grid grows with it."""
    seen = Best.expected(Hints(units=10**6, labels=10, features=1000))
    assert len(seen.joint) == len(seen.feature) == 100
    assert np.all(seen.joint < seen.feature)
    assert seen.feature.min() > np.median(seen.features)
    parts = [seen.part(seen.joint, threshold) for threshold in (0, 100, 10_000, 10**7)]
    assert parts[0] == 1
    assert parts == sorted(parts, reverse=True)
    assert parts[-1] == 0
    assert seen.rows(0) == 10 * 1000
    assert seen.rows(float(seen.features[9])) == 10 * 10


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
