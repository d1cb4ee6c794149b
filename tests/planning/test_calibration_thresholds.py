"""Which noisy sums may be shown: noise and threshold together, against laws that are computed apart from the product."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, Plan
from ddpmi.errors import LARGEST_COUNT
from ddpmi.pipeline.contributions import Bounding, Norm, weight_of_equal_pairs
from ddpmi.planning.calibration import Calibration, _equal_weights, calibrate, sensitivities
from ddpmi.privacy.noise import DiscreteGaussian, DiscreteLaplace, TableNoise
from ddpmi.testing import threshold_check


def plan(**options: Any) -> Plan:
    bounds = Bounds(**{name: options.pop(name) for name in ("pairs", "labels", "strategy", "clip") if name in options})
    return Plan(budget=options.pop("budget", Budget(1, 1e-6)), bounds=bounds, **options)


def masses(mechanism: DiscreteLaplace | DiscreteGaussian, bound: int) -> dict[int, float]:
    """The mass function of noise that is held within a bound."""
    if isinstance(mechanism, DiscreteLaplace):
        weights = {z: math.exp(-abs(z) / mechanism.scale) for z in range(-bound, bound + 1)}
    else:
        weights = {z: math.exp(-z * z / (2 * mechanism.variance)) for z in range(-bound, bound + 1)}
    whole = math.fsum(weights.values())
    return {z: weight / whole for z, weight in weights.items()}


def edge(mechanism: DiscreteLaplace | DiscreteGaussian, bound: int, weight: int) -> float:
    """P[Z > bound - weight] of noise that is held within a bound."""
    if isinstance(mechanism, DiscreteLaplace):
        q = math.exp(-1 / mechanism.scale)
        return q ** (bound - weight + 1) * (1 - q**weight) / (1 + q - 2 * q ** (bound + 1))
    sigma = math.sqrt(mechanism.variance)
    if sigma < 200:
        law = masses(mechanism, bound)
        return math.fsum(law[z] for z in range(max(bound - weight + 1, -bound), bound + 1))

    def tail(t: int) -> float:
        return 0.5 * math.erfc((t - 0.5) / (sigma * math.sqrt(2)))

    return (tail(bound - weight + 1) - tail(bound + 1)) / (1 - 2 * tail(bound + 1))


def bound_of(noise: TableNoise) -> int:
    """The bound of the noise, which the threshold is one above."""
    assert noise.mechanism.bound is not None
    assert noise.threshold == noise.mechanism.bound + 1
    return noise.mechanism.bound


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", ["scale", "sample"])
@pytest.mark.parametrize("pairs", [1, 3, 20])
def test_the_bound_is_the_smallest_that_delta_allows(mechanism: str, strategy: str, pairs: int) -> None:
    """At the bound the worst unit leaves the noise with probability at most delta/2; half a percent lower it does not."""
    made = plan(mechanism=mechanism, strategy=strategy, pairs=pairs).calibration
    noise = made.tables["pairs"]
    bound = bound_of(noise)

    def worst(at: int) -> float:
        sizes = range(1, made.bounding.bounds.cap + 1)
        return max(t * edge(noise.mechanism, at, weight_of_equal_pairs(made.bounding, t)) for t in sizes)

    assert worst(bound) <= 5e-7
    assert worst(math.floor(0.995 * bound) - 1) > 5e-7


@pytest.mark.parametrize("options", [{}, {"pairs": 1, "distinct": "units"}, {"grid": True}, {"clip": 4}])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_a_bound_lowers_the_threshold_and_nothing_else(options: dict[str, Any], mechanism: str, epsilon: str) -> None:
    """The noise is as wide as without a bound, and thresholds are never higher; at a small epsilon they are much lower."""
    made = plan(**{"pairs": 50, "mechanism": mechanism, "budget": Budget(epsilon, 1e-7)} | options)
    found = made.calibration
    shares = {table: noise.share for table, noise in found.tables.items()}
    free = calibrate(
        made.budget, made.bounds, shares, name=mechanism, scheme=replace(found.scheme, bounded=False)
    ).tables
    for table, noise in found.tables.items():
        assert free[table].mechanism == replace(noise.mechanism, bound=None)
        if noise.threshold is None:
            assert (free[table].threshold, noise.mechanism.bound) == (None, None)
        elif noise.mechanism.bound is None:
            assert noise.threshold == free[table].threshold
        else:
            assert bound_of(noise) + 1 <= free[table].threshold
        if noise.threshold is not None and epsilon == "0.1":
            assert noise.threshold < 0.92 * free[table].threshold


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "4"])
@pytest.mark.parametrize("delta", [1e-3, 1e-7])
def test_one_pair_is_as_private_as_it_says(epsilon: str, delta: float) -> None:
    """For every count of others, over all outputs of one pair, one more unit changes chances by eps and delta_T at most."""
    made = plan(pairs=1, distinct="units", budget=Budget(epsilon, delta), mechanism="laplace").calibration
    noise = made.tables["pairs"]
    spent, bound = float(noise.share * Fraction(epsilon)), bound_of(noise)
    law = masses(noise.mechanism, bound)

    def shown(count: int) -> dict[int | None, float]:
        """Outputs; None is "not shown", which a pair of nobody always is."""
        found: dict[int | None, float] = {count + z: mass for z, mass in law.items() if count + z >= noise.threshold}
        return found | {None: 1 - math.fsum(found.values())}

    assert shown(0) == {None: 1.0}
    laws = [shown(count) for count in range(2 * bound + 5)]
    worst = 0.0
    for fewer, more in pairwise(laws):
        for one, two in ((fewer, more), (more, fewer)):
            worst = max(worst, math.fsum(max(0.0, p - math.exp(spent) * two.get(y, 0.0)) for y, p in one.items()))
    assert worst <= delta / 2 * (1 + 1e-9)
    assert worst > delta / 2 * math.exp(-spent)  # an integer threshold cannot come closer


@settings(max_examples=150, deadline=None)
@given(
    sigma=st.floats(0.2, 40),
    shift=st.integers(1, 60),
    room=st.integers(0, 20),
    order=st.floats(1.0001, 400),
)
def test_bounded_gaussian_noise_is_as_concentrated_as_without_a_bound(
    sigma: float, shift: int, room: int, order: float
) -> None:
    """Where both laws can be, their Rényi divergence is at most order * shift^2 / (2 sigma^2)."""
    bound = shift + math.ceil(3 * sigma + 3) + room
    both = range(shift - bound, bound + 1)

    def log_sum(values: list[float]) -> float:
        top = max(values)
        return top + math.log(math.fsum(math.exp(value - top) for value in values))

    whole = log_sum([-y * y / (2 * sigma**2) for y in both])
    moment = log_sum([-(order * y * y + (1 - order) * (y - shift) ** 2) / (2 * sigma**2) for y in both]) - whole
    assert moment / (order - 1) <= order * shift**2 / (2 * sigma**2) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("epsilon", [1, 20])
def test_gaussian_bounds_leave_room(epsilon: int) -> None:
    """However large delta is, the bound has three deviations and three steps beside what one unit adds, or there is none."""
    for pairs in (1, 5, 50):
        made = plan(pairs=pairs, mechanism="gaussian", budget=Budget(epsilon, 0.5)).calibration
        noise = made.tables["pairs"]
        if noise.mechanism.bound is not None:
            assert bound_of(noise) >= made.unit_weight + 3 * noise.mechanism.sd + 3
        assert noise.threshold > made.unit_weight


def test_noise_so_wide_that_nothing_lies_within_a_small_bound() -> None:
    """The edge is bounded by 1 where noise is wider than its tail is rounded; at the least epsilon a bound makes it uniform."""
    for mechanism in (DiscreteLaplace(scale=Fraction(1 << 55)), DiscreteGaussian(variance=Fraction(1 << 110))):
        assert mechanism.log_edge(1, 1) <= 0
    made = plan(pairs=1, distinct="units", budget=Budget("1e-9", 1e-6), mechanism="laplace").calibration
    bound = bound_of(made.tables["pairs"])
    assert bound == pytest.approx(1e6, rel=1e-3)  # one of about 2 million values is the edge, and delta/2 is 5e-7
    assert edge(made.tables["pairs"].mechanism, bound, 1) <= 5e-7


@settings(max_examples=60, deadline=None)
@given(
    mechanism=st.sampled_from(["laplace", "gaussian"]),
    table=st.sampled_from(["pairs", "features", "labels"]),
    sizes=st.lists(st.floats(0.01, 1), min_size=1, max_size=30),
    labels=st.integers(1, 4),
)
def test_no_unit_leaves_the_noise_more_often_than_allowed(
    mechanism: str, table: str, sizes: list[float], labels: int
) -> None:
    """For every contribution of one unit within the declared norms, sums leave the bounded noise with at most its part of delta."""
    grid = table != "pairs"
    made = plan(pairs=3, labels=labels, clip=4, grid=grid, mechanism=mechanism).calibration
    noise, moved = made.tables[table], made.sensitivities[table]
    bound = bound_of(noise)
    keys = min(labels, made.bounding.most_pairs) if table == "labels" else made.bounding.most_pairs
    sizes = sizes[:keys]
    norm = math.fsum(sizes) / moved.l1 if moved.l1 is not None else math.hypot(*sizes) / math.sqrt(moved.l2_squared)
    parts = [min(math.floor(size / norm), moved.linf) for size in sizes]
    leaves = math.fsum(edge(noise.mechanism, bound, part) for part in parts if part)
    assert leaves <= 1e-6 / (4 if grid else 2)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("pairs", [1, 3])
def test_lone_units_show_no_more_often_than_delta_where_noise_is_wide(mechanism: str, pairs: int) -> None:
    """Over 20,000 lone units a pair of theirs shows within delta/2 = 1e-2 (false alarm below 1e-7), and often enough to tell.

    At this epsilon noise without a bound would show them several times as often.
    """
    made = plan(pairs=pairs, mechanism=mechanism, budget=Budget("0.2", 0.02))
    noise = made.calibration.tables["pairs"]
    rate = threshold_check(ddpmi.observe, made, pairs=pairs, units=20_000)
    assert rate.p_value > 1e-7
    if mechanism == "laplace":
        free = replace(noise.mechanism, bound=None)
        without = pairs * math.exp(free.log_tail(noise.threshold - made.calibration.unit_weight))
        assert without > 0.03
        assert rate.events > 80


def assert_smallest(noise: TableNoise, linf: int, most: int, allowed: float) -> None:
    """Without a bound keys of a lone unit show as rarely as allowed at the threshold, and one step below it they do not."""
    assert noise.mechanism.bound is None
    assert math.log(most) + noise.mechanism.log_tail(noise.threshold - linf) <= allowed
    assert math.log(most) + noise.mechanism.log_tail(noise.threshold - linf - 1) > allowed


def test_every_threshold_of_the_papers_way_is_the_smallest_that_its_part_of_delta_allows() -> None:
    """With thresholds on three tables each takes a third of half of delta: one lower and a lone unit shows too often."""
    for options in ({"strategy": "sample"}, {"strategy": "sample", "labels": 3}, {"pairs": 1, "distinct": "units"}):
        made = plan(thresholds="every", mechanism="laplace", **({"pairs": 50, "space": "events"} | options)).calibration
        moved = made.sensitivities
        keys = {"features": made.bounding.most_pairs, "labels": made.bounding.bounds.labels}
        allowed = math.log(1e-6 / 6)
        for table, most in keys.items():
            assert_smallest(made.tables[table], moved[table].linf, most, allowed)
        assert made.tables["pairs"].mechanism.bound is None
        assert made.tables["total"].threshold is None
        assert made.cost.delta == Fraction(1, 2 * 10**6)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("space", ["events", "units"])
def test_a_grid_divides_delta_between_features_and_labels(mechanism: str, space: str) -> None:
    """Each bound is the smallest, within half a percent, that a quarter of delta allows; pairs have none."""
    made = plan(pairs=4, labels=2, grid=True, mechanism=mechanism, space=space).calibration
    moved = made.sensitivities
    # In units space all pairs of a unit weigh the same in features, which allows a lower threshold than this one.
    keys = {"labels": 2} if space == "units" else {"labels": 2, "features": made.bounding.most_pairs}
    for table, most in keys.items():
        noise, linf = made.tables[table], moved[table].linf
        reach = moved[table].l1 if moved[table].l1 is not None else math.sqrt(most * moved[table].l2_squared)
        cells = min(most, reach / linf)
        bound = bound_of(noise)
        assert cells * edge(noise.mechanism, bound, linf) <= 1e-6 / 4
        assert cells * edge(noise.mechanism, math.floor(0.995 * bound) - 1, linf) > 1e-6 / 4
    assert made.tables["pairs"].threshold is None
    assert made.cost.delta == Fraction(1, 2 * 10**6)
    assert list(made.units_to_show) == ["features", "labels"]


def partitions(total: int, largest: int) -> list[tuple[int, ...]]:
    """All ways to write a number as a sum of parts, the largest first."""
    if total == 0:
        return [()]
    return [(part, *rest) for part in range(min(total, largest), 0, -1) for rest in partitions(total - part, part)]


def shapes(made: Calibration, table: str, *, units: bool) -> set[tuple[int, ...]]:
    """What one unit can add to the cells of a table, for every way its pairs can lie in features and labels."""
    bounds, found = made.bounding.bounds, set()
    assert bounds is not None
    for t in range(1, made.bounding.most_pairs + 1):
        weight = weight_of_equal_pairs(made.bounding, t)
        # How many pairs share a cell: one, or up to the labels of a feature, or all features of a label.
        parts = {
            "pairs": [(1,) * t],
            "features": partitions(t, bounds.labels),
            "labels": [p for p in partitions(t, t) if len(p) <= bounds.labels],
        }[table]
        for part in parts:
            once = {"features": (weight,) * len(part), "labels": (weight,) * len(part)} if units else {}
            found.add(once.get(table, tuple(count * weight for count in part)))
    return found


def chance(noise: TableNoise, cells: tuple[int, ...]) -> float:
    """How often a unit gives itself away: an own cell is shown, or a cell leaves what noise within a bound can give."""
    mechanism, at = noise.mechanism, noise.threshold
    assert at is not None
    if (bound := mechanism.bound) is not None:
        return math.fsum(kept_edge(mechanism, bound, cell) for cell in cells)
    return -math.expm1(math.fsum(math.log1p(-upper_tail(mechanism, at - cell)) for cell in cells))


kept_edge = cache(edge)


@cache
def upper_tail(mechanism: DiscreteLaplace | DiscreteGaussian, t: int) -> float:
    """P[Z >= t] of noise without a bound, for t above 0, from the mass function."""
    if isinstance(mechanism, DiscreteLaplace):
        q = math.exp(-1 / mechanism.scale)
        return q**t / (1 + q)
    sigma = math.sqrt(mechanism.variance)
    if sigma > 200:
        return 0.5 * math.erfc((t - 0.5) / (sigma * math.sqrt(2)))
    reach = math.ceil(12 * sigma) + 2
    weights = [math.exp(-z * z / (2 * mechanism.variance)) for z in range(t + reach)]
    return math.fsum(weights[t:]) / (2 * math.fsum(weights) - 1)


THRESHOLDED: dict[str, dict[str, Any]] = {"one": {}, "every": {"thresholds": "every"}, "grid": {"grid": True}}
SMALL_PLANS = {
    f"{mechanism}, {space}, {name}": {"mechanism": mechanism, "space": space, **options}
    for mechanism in ("laplace", "gaussian")
    for space in ("events", "units")
    for name, options in THRESHOLDED.items()
}


@pytest.mark.parametrize("options", SMALL_PLANS.values(), ids=SMALL_PLANS)
@pytest.mark.parametrize("labels", [1, 2, 3])
@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_no_shape_of_a_unit_gives_itself_away(pairs: int, labels: int, options: dict[str, Any]) -> None:
    """However a unit's pairs lie in features and labels, what it has alone is shown at most as often as delta says."""
    for cap in {pairs, pairs + 1, 7}:
        for epsilon in (1, 4, 10):
            bounds = Bounds(pairs=pairs, labels=labels, cap=cap)
            made = Plan(budget=Budget(epsilon, "1e-5"), bounds=bounds, **options).calibration
            share = float(made.threshold_delta) / len(made.scheme.thresholded)
            for table in made.scheme.thresholded:
                noise = made.tables[table]
                found = shapes(made, table, units=options["space"] == "units")
                often, cells = max((chance(noise, cells), cells) for cells in found)
                assert often <= share * (1 + 1e-9), (table, cap, epsilon, cells, noise)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    ("pairs", "cap", "g"), [(1, 10, 8), (1, 32, 8), (3, 30, 7), (7, 7, 8), (50, 77, 8), (200, 2000, 8)]
)
def test_few_weights_stand_for_units_of_every_size(norm: Norm, pairs: int, cap: int, g: int) -> None:
    """Every size has a larger or equal one of at least its weight among those that are looked at, and none is made up."""
    bounding = Bounding(bounds=Bounds(pairs=pairs, cap=cap), norm=norm, g=g)
    looked_at = _equal_weights(bounding, sensitivities(bounding)["pairs"], cap)
    for t in range(1, cap + 1):
        weight = weight_of_equal_pairs(bounding, t)
        assert any(number >= t and at >= weight for number, at in looked_at)
    assert all(number <= cap and weight_of_equal_pairs(bounding, int(number)) >= at for number, at in looked_at)
    assert len(looked_at) <= 2**g


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_largest_bounds_have_a_plan(mechanism: str) -> None:
    """The threshold for a million pairs is found from a few hundred weights, not from ten million sizes."""
    noise = plan(pairs=LARGEST_COUNT, mechanism=mechanism).calibration.tables["pairs"]
    assert noise.threshold is not None
