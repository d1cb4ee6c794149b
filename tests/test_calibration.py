"""Scales and thresholds from parameters alone."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import Bounds, Budget, InputError, Plan
from ddpmi.accounting import epsilon_for
from ddpmi.calibration import TABLES, TableNoise, sensitivities
from ddpmi.noise import DiscreteGaussian, DiscreteLaplace


def plan(**options: object) -> Plan:
    bounds = Bounds(
        pairs=options.pop("pairs", 50), labels=options.pop("labels", 1), strategy=options.pop("strategy", "scale")
    )
    return Plan(budget=options.pop("budget", Budget(1, 1e-6)), bounds=bounds, **options)


def test_laplace_epsilons_sum_to_the_budget() -> None:
    """Sensitivity over scale, summed over tables, never exceeds epsilon and uses it up."""
    made = plan(mechanism="laplace").calibration
    moved = sensitivities(made.bounding)
    used = sum(moved[name].l1 / made.tables[name].mechanism.scale for name in TABLES)
    assert 1 - Fraction(1, 10**12) < used <= 1


def test_gaussian_rhos_convert_to_the_budget() -> None:
    """The rho of all tables converts to at most epsilon at half of delta, and nearly reaches it."""
    made = plan(mechanism="gaussian").calibration
    moved = sensitivities(made.bounding)
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


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", ["scale", "sample"])
@pytest.mark.parametrize("pairs", [1, 3, 20])
def test_the_threshold_is_the_smallest_that_the_tail_allows(mechanism, strategy, pairs: int) -> None:
    """At T the worst unit shows with probability at most delta/2; at T - 1 some unit shows more often."""
    made = plan(mechanism=mechanism, strategy=strategy, pairs=pairs).calibration
    noise = made.tables["pairs"]

    def worst(threshold: int) -> float:
        from ddpmi.contributions import weight_of_equal_pairs

        return max(
            t * _tail(noise.mechanism, threshold - weight_of_equal_pairs(made.bounding, t))
            for t in range(1, made.bounding.bounds.cap + 1)
        )

    assert worst(noise.threshold) <= 5e-7
    assert worst(noise.threshold - 2) > 5e-7 * (1 - 1e-6)


def _tail(mechanism: object, t: int) -> float:
    """P[Z >= t], computed apart from the product's own bound."""
    if isinstance(mechanism, DiscreteLaplace):
        q = math.exp(-1 / mechanism.scale)
        return q**t / (1 + q)
    assert isinstance(mechanism, DiscreteGaussian)
    sigma = math.sqrt(mechanism.variance)
    if sigma > 200:
        return 0.5 * math.erfc((t - 0.5) / (sigma * math.sqrt(2)))
    mass = [math.exp(-z * z / (2 * mechanism.variance)) for z in range(int(40 * sigma))]
    return math.fsum(mass[t:]) / (2 * math.fsum(mass) - 1)


def test_labels_widen_the_noise_of_features() -> None:
    """A unit under m labels moves one feature's sum by up to m pairs; forgetting it is the classic bug."""
    one, five = (plan(labels=m, mechanism="gaussian").calibration.tables["features"].mechanism.variance for m in (1, 5))
    assert 4.99 < five / one < 5.01


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
    """Unknown keys need a delta whatever the noise."""
    with pytest.raises(InputError, match="delta must be positive"):
        Plan(budget=Budget(1), bounds=Bounds(pairs=5))


@settings(max_examples=30, deadline=None)
@given(
    epsilon=st.floats(0.01, 20),
    delta=st.floats(1e-12, 1e-2),
    pairs=st.integers(1, 300),
    labels=st.integers(1, 10),
    mechanism=st.sampled_from(["laplace", "gaussian"]),
)
def test_every_plan_spends_at_most_its_budget(epsilon, delta, pairs, labels, mechanism) -> None:
    """Whatever the parameters, the noise pays for no more than epsilon and delta, and T exceeds one unit's weight."""
    budget = Budget(epsilon, delta)
    made = plan(budget=budget, pairs=pairs, labels=labels, mechanism=mechanism).calibration
    moved = sensitivities(made.bounding)
    if mechanism == "laplace":
        assert sum(moved[name].l1 / made.tables[name].mechanism.scale for name in TABLES) <= budget.epsilon
    else:
        rho = sum(moved[name].l2_squared / (2 * made.tables[name].mechanism.variance) for name in TABLES)
        assert epsilon_for(rho, budget.delta / 2) <= budget.epsilon
    assert made.cost.delta == budget.delta / 2
    assert made.tables["pairs"].threshold > made.unit_weight


def assert_smallest(noise: TableNoise, linf: int, most: int, allowed: float) -> None:
    """At the threshold keys of a lone unit show as rarely as allowed, and one step below it they do not."""
    assert math.log(most) + noise.mechanism.log_tail(noise.threshold - linf) <= allowed
    assert math.log(most) + noise.mechanism.log_tail(noise.threshold - linf - 1) > allowed


def test_every_threshold_is_the_smallest_that_its_part_of_delta_allows() -> None:
    """With thresholds on three tables each takes a third of half of delta: one lower and a lone unit shows too often."""
    for options in ({"strategy": "sample"}, {"strategy": "sample", "labels": 3}, {"pairs": 1, "distinct": "units"}):
        made = plan(thresholds="every", mechanism="laplace", **options).calibration
        moved = sensitivities(made.bounding)
        keys = {"features": made.bounding.most_pairs, "labels": made.bounding.bounds.labels}
        allowed = math.log(1e-6 / 6)
        for table, most in keys.items():
            assert_smallest(made.tables[table], moved[table].linf, most, allowed)
        assert made.tables["total"].threshold is None
        assert made.cost.delta == Fraction(1, 2 * 10**6)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("space", ["events", "units"])
def test_a_grid_divides_delta_between_features_and_labels(mechanism: str, space: str) -> None:
    """Each threshold is the smallest that a quarter of delta allows; pairs have none, and half of delta is charged."""
    made = plan(pairs=4, labels=2, grid=True, mechanism=mechanism, space=space).calibration
    moved = sensitivities(made.bounding, units=space == "units")
    allowed = math.log(1e-6 / 4)
    # In units space all pairs of a unit weigh the same in features, which allows a lower threshold than this one.
    keys = {"labels": 2} if space == "units" else {"labels": 2, "features": made.bounding.most_pairs}
    for table, most in keys.items():
        assert_smallest(made.tables[table], moved[table].linf, most, allowed)
    assert made.tables["pairs"].threshold is None
    assert made.cost.delta == Fraction(1, 2 * 10**6)
    assert list(made.units_to_show) == ["features", "labels"]


def test_units_with_one_pair_are_counted_on_the_grid_of_the_counts() -> None:
    """No weight is needed, so one unit moves a sum by its value alone, and noise is drawn on whole counts."""
    made = plan(pairs=1, distinct="units").calibration
    assert made.bounding.g == 0
    assert sensitivities(made.bounding)["pairs"].l1 == 1
    assert made.tables["pairs"].mechanism == DiscreteLaplace(scale=made.tables["pairs"].mechanism.scale)
    assert plan(pairs=1).calibration.bounding.g == 8
