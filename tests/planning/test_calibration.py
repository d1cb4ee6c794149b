"""Scales and thresholds from parameters alone."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import Bounds, Budget, InputError, Plan
from ddpmi._typing import TABLES
from ddpmi.privacy.accounting import epsilon_for
from ddpmi.privacy.noise import DiscreteLaplace


def plan(**options: object) -> Plan:
    bounds = Bounds(
        pairs=options.pop("pairs", 50), labels=options.pop("labels", 1), strategy=options.pop("strategy", "scale")
    )
    return Plan(budget=options.pop("budget", Budget(1, 1e-6)), bounds=bounds, **options)


def test_laplace_epsilons_sum_to_the_budget() -> None:
    """Sensitivity over scale, summed over tables, never exceeds epsilon and uses it up."""
    made = plan(mechanism="laplace").calibration
    moved = made.sensitivities
    used = sum(moved[name].l1 / made.tables[name].mechanism.scale for name in TABLES)
    assert 1 - Fraction(1, 10**12) < used <= 1


def test_gaussian_rhos_convert_to_the_budget() -> None:
    """The rho of all tables converts to at most epsilon at half of delta, and nearly reaches it."""
    made = plan(mechanism="gaussian").calibration
    moved = made.sensitivities
    rho = sum(moved[name].l2_squared / (2 * made.tables[name].mechanism.variance) for name in TABLES)
    assert rho <= made.cost.rho
    assert Fraction(999, 1000) < epsilon_for(rho, Fraction(1, 2 * 10**6)) <= 1


def test_only_pairs_have_a_threshold() -> None:
    """Features, labels and the total are measured over known keys."""
    tables = plan().calibration.tables
    assert [name for name in TABLES if tables[name].threshold is not None] == ["pairs"]


@pytest.mark.parametrize(("pairs", "expected"), [(1, "laplace"), (50, "gaussian")])
def test_auto_takes_the_lower_threshold(pairs: int, expected: str) -> None:
    """Few pairs favour Laplace, many favour Gaussian noise."""
    assert plan(pairs=pairs).mechanism_name == expected


def test_labels_widen_the_noise_of_features() -> None:
    """A unit under m labels moves one feature's sum by up to m pairs; forgetting it is the classic bug."""
    one, five = (
        plan(labels=m, mechanism="gaussian", space="events").calibration.tables["features"].mechanism.variance
        for m in (1, 5)
    )
    assert 4.99 < five / one < 5.01


@pytest.mark.parametrize(("labels", "pairs", "times"), [(1, 50, 1), (5, 50, 5), (5, 3, 3)])
def test_units_widen_the_noise_of_labels_alone(labels: int, pairs: int, times: int) -> None:
    """A unit under m labels adds its weight to min(m, K) of them, and still once to each feature and to the total."""
    one, several = (
        plan(labels=m, pairs=pairs, mechanism="gaussian", space="units").calibration.tables for m in (1, labels)
    )
    grown = {name: several[name].mechanism.variance / one[name].mechanism.variance for name in TABLES}
    assert grown == {"pairs": 1, "features": 1, "labels": pytest.approx(times), "total": 1}


def test_one_row_per_unit_needs_less_noise_for_labels() -> None:
    """Declared single rows cannot pile up in one label."""
    budget, bounds = Budget(1, 1e-6), Bounds(pairs=1)
    general, single = (
        Plan(budget=budget, bounds=bounds, mechanism="gaussian", distinct=d)
        .calibration.tables["total"]
        .mechanism.variance
        for d in (False, "units")
    )
    assert single < general


def test_values_that_would_overflow_are_refused_before_any_row_is_read() -> None:
    """Too fine a grid is an error with a hint, not a wrong sum."""
    with pytest.raises(InputError, match="raise step"):
        Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=1000, clip=10**9))


def test_a_wide_grid_lowers_the_weight_before_it_gives_up() -> None:
    """g shrinks where the noise would be wider than 2^55 grid steps."""
    bounds = Bounds(pairs=1000, cap=1000, clip=10**5)
    made = Plan(budget=Budget(1e-5, 1e-6), bounds=bounds, mechanism="laplace").calibration
    assert made.bounding.g < 8
    assert max(noise.mechanism.scale for noise in made.tables.values()) < 2**55


def test_a_cap_that_would_make_weights_vanish_is_refused() -> None:
    """cap is at most 32 times pairs."""
    with pytest.raises(InputError, match="at most 32 times"):
        Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=10, cap=321))


def test_delta_zero_is_refused() -> None:
    """Unknown keys need a delta with both kinds of noise."""
    with pytest.raises(InputError, match="delta must be positive"):
        Plan(budget=Budget(1), bounds=Bounds(pairs=5))


@settings(max_examples=30, deadline=None)
@given(
    epsilon=st.floats(0.01, 20),
    delta=st.floats(1e-12, 1e-2),
    pairs=st.integers(1, 300),
    labels=st.integers(1, 10),
    mechanism=st.sampled_from(["laplace", "gaussian"]),
    space=st.sampled_from(["events", "units"]),
)
def test_every_plan_spends_at_most_its_budget(epsilon, delta, pairs, labels, mechanism, space) -> None:
    """For all parameters the noise costs no more than epsilon and delta, and T exceeds one unit's weight."""
    budget = Budget(epsilon, delta)
    made = plan(budget=budget, pairs=pairs, labels=labels, mechanism=mechanism, space=space).calibration
    moved = made.sensitivities
    if mechanism == "laplace":
        assert sum(moved[name].l1 / made.tables[name].mechanism.scale for name in TABLES) <= budget.epsilon
    else:
        rho = sum(moved[name].l2_squared / (2 * made.tables[name].mechanism.variance) for name in TABLES)
        assert epsilon_for(rho, budget.delta / 2) <= budget.epsilon
    assert made.cost.delta == budget.delta / 2
    assert made.tables["pairs"].threshold > made.unit_weight


def test_units_with_one_pair_are_counted_on_the_grid_of_the_counts() -> None:
    """No weight is needed, so one unit moves a sum by its value alone, and noise is drawn on whole counts."""
    made = plan(pairs=1, distinct="units").calibration
    assert made.bounding.g == 0
    assert made.sensitivities["pairs"].l1 == 1
    assert isinstance(made.tables["pairs"].mechanism, DiscreteLaplace)
    assert plan(pairs=1).calibration.bounding.g == 8
