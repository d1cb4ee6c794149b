"""Derivatives against finite differences, and intervals against simulated noise with a fixed seed."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.errors import InputError
from ddpmi.mi import feasible, mutual_information
from ddpmi.uncertainty import Noise, interval, moments, widen_near_threshold

Mechanism = Literal["gaussian", "laplace"]
TOTAL = 10**8
DEVIATIONS = (1e3, 1.8e3, 1e4, 3e4)
CELLS = st.lists(st.integers(50, 1000), min_size=4, max_size=4)
# J, F, L: independent, weak, strong, feature only inside, hardly above noise, absent, halves, rare label.
TABLES = [
    (20_000, 100_000, 20_000_000),
    (25_000, 100_000, 20_000_000),
    (60_000, 100_000, 20_000_000),
    (100_000, 100_000, 20_000_000),
    (3_000, 5_000, 1_000_000),
    (0, 500_000, 10_000_000),
    (5_000_000, 10_000_000, 50_000_000),
    (2_000, 2_000, 50_000),
]
KEPT_TABLES = [(3_000, 5_000, 1_000_000), (6_000, 400_000, 10_000_000), (8_000, 10_000, 1_000_000)]
THRESHOLD = 6_000


def table_of(cells: list[int]) -> np.ndarray:
    """Return pxy, px, py of four counts as columns of length 1."""
    a, b, c, d = cells
    return np.array([[a], [a + b], [a + c]]) / (a + b + c + d)


def noise_of(sums: tuple[float, float, float, float], *, heavy: bool = False) -> Noise:
    joint, feature, label, total = (sd / TOTAL for sd in sums)
    return Noise(joint=joint, feature=feature, label=label, total=total, heavy=heavy)


@given(CELLS)
@settings(deadline=None)
def test_small_noise_has_the_gradient_of_finite_differences(cells: list[int]) -> None:
    """With tiny noise in one sum the deviation is the slope of mutual information along that sum."""
    p, step, sd = table_of(cells), 1e-6, 1e-9
    for at, name in enumerate(("joint", "feature", "label", "total")):
        way = -p if name == "total" else np.eye(3)[:, [at]]
        slope = (mutual_information(*(p + step * way)) - mutual_information(*(p - step * way))) / (2 * step)
        sds = [sd if at == which else 0.0 for which in range(4)]
        noise = Noise(joint=sds[0], feature=sds[1], label=sds[2], total=sds[3])
        _, variance = moments((p[0], p[1], p[2]), noise)
        assert math.sqrt(variance[0]) == pytest.approx(sd * abs(float(slope[0])), rel=1e-4, abs=1e-4 * sd)


@given(CELLS)
@settings(deadline=None)
def test_bias_is_the_printed_formula(cells: list[int]) -> None:
    """Half the trace of Hessian and covariance is the sum of reciprocals of the design."""
    p = table_of(cells)
    a, x, y = (float(value[0]) for value in p)
    b, c, d = x - a, y - a, 1 - x - y + a
    sd_j, sd_f, sd_l = 1e-6, 2e-6, 3e-6
    expected = (
        sd_j**2 / 2 * (1 / a + 1 / b + 1 / c + 1 / d)
        + sd_f**2 / 2 * (1 / b + 1 / d - 1 / x - 1 / (1 - x))
        + sd_l**2 / 2 * (1 / c + 1 / d - 1 / y - 1 / (1 - y))
    )
    bias, _ = moments((p[0], p[1], p[2]), Noise(joint=sd_j, feature=sd_f, label=sd_l, total=0.0))
    assert float(bias[0]) == pytest.approx(expected, rel=1e-9)


@given(CELLS)
@settings(max_examples=40, deadline=None)
def test_variance_is_that_of_a_numeric_hessian(cells: list[int]) -> None:
    """Variance is g.S.g + 1/2 tr((H S)^2) with g and H from finite differences, the total's noise included."""
    p, step = table_of(cells), 1e-4

    def mi(*ways: np.ndarray) -> float:
        return float(mutual_information(*(p[:, 0] + step * sum(ways, np.zeros(3)))))

    axes = np.eye(3)
    gradient = np.array([mi(axis) - mi(-axis) for axis in axes]) / (2 * step)
    hessian = np.array(
        [[mi(u, v) - mi(u, -v) - mi(-u, v) + mi(-u, -v) for v in axes] for u in axes],
    ) / (4 * step**2)
    noise = Noise(joint=0.004, feature=0.005, label=0.006, total=0.007)
    spread = np.diag([noise.joint**2, noise.feature**2, noise.label**2]) + noise.total**2 * p @ p.T
    product = hessian @ spread
    expected = gradient @ spread @ gradient + np.trace(product @ product) / 2
    _, variance = moments((p[0], p[1], p[2]), noise)
    assert float(variance[0]) == pytest.approx(expected, rel=1e-2)


@given(CELLS, st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_summed_margins_have_the_covariance_of_their_parts(cells: list[int], pairs: int, others: int) -> None:
    """Independent noise of a pair, of its neighbours and of the rests gives the variance, to first order."""
    p, sd = table_of(cells), 1e-9
    noise = Noise(joint=sd, feature=2 * sd, label=3 * sd, total=0.5 * sd)
    step = 1e-6
    slope = np.array(
        [
            float((mutual_information(*(p + step * way)) - mutual_information(*(p - step * way)))[0]) / (2 * step)
            for way in np.eye(3)[:, :, None]
        ]
    )
    in_all, in_feature, in_label = slope.sum(), slope[1], slope[2]
    expected = (
        in_all**2 * sd**2
        + in_feature**2 * ((2 * sd) ** 2 + (pairs - 1) * sd**2)
        + in_label**2 * ((3 * sd) ** 2 + (others - 1) * sd**2)
        + float(p[:, 0] @ slope) ** 2 * (0.5 * sd) ** 2
    )
    summed = (np.array([float(pairs)]), np.array([float(others)]))
    _, variance = moments((p[0], p[1], p[2]), noise, summed=summed)
    assert float(variance[0]) == pytest.approx(expected, rel=1e-3, abs=1e-6 * sd**2)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("table", [TABLES[1], TABLES[2], TABLES[3], TABLES[6]])
def test_intervals_of_summed_margins_hold_the_truth(table: tuple[int, int, int], mechanism: Mechanism) -> None:
    """At least 92% hold where F and L are sums of 5 and 30 released pairs and a noisy rest (fixed seed)."""
    rng, size, pairs, others = np.random.default_rng(11), 20_000, 5, 30

    def draw(sd: float, count: int = 1) -> np.ndarray:
        if mechanism == "gaussian":
            return np.asarray(rng.normal(0, sd, (count, size)).sum(axis=0))
        return np.asarray(rng.laplace(0, sd / math.sqrt(2), (count, size)).sum(axis=0))

    sd_joint, sd_feature, sd_label, sd_total = DEVIATIONS
    own = draw(sd_joint)
    noisy = (
        table[0] + own,
        table[1] + own + draw(sd_joint, pairs - 1) + draw(sd_feature),
        table[2] + own + draw(sd_joint, others - 1) + draw(sd_label),
        TOTAL + draw(sd_total),
    )
    p = feasible(*(np.rint(column).astype(np.int64) for column in noisy))
    summed = (np.full(size, float(pairs)), np.full(size, float(others)))
    low, high = interval(mutual_information(*p), p, noise_of(DEVIATIONS, heavy=mechanism == "laplace"), summed=summed)
    truth = float(mutual_information(*feasible(*table, TOTAL)))
    assert np.mean((low <= truth) & (truth <= high)) >= 0.92


def test_near_the_threshold_summed_margins_fall_with_the_joint() -> None:
    """A pair that is all of its feature stays so however low its sum may have been."""
    p = (np.array([0.06]), np.array([0.06]), np.array([0.2]))
    noise = Noise(joint=0.01, feature=0, label=0, total=0)
    bounds = (np.array([0.09]), np.array([0.1]))
    low, high = widen_near_threshold(bounds, p, np.ones(1), noise, mechanism="gaussian", summed=True)
    assert 0 < low[0] < 0.09
    assert high[0] == 0.1
    alone = widen_near_threshold(bounds, p, np.ones(1), noise, mechanism="gaussian")
    assert alone[0][0] < low[0]


def test_second_order_takes_over_at_independence() -> None:
    """Where the gradient is zero the deviation is that of a scaled chi-square."""
    p = (np.array([0.02]), np.array([0.1]), np.array([0.2]))
    sd = 1e-5
    _, variance = moments(p, Noise(joint=sd, feature=0.0, label=0.0, total=0.0))
    assert math.sqrt(variance[0]) == pytest.approx(sd**2 / (0.1 * 0.2 * 0.9 * 0.8) / math.sqrt(2), rel=1e-6)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("table", TABLES)
def test_intervals_hold_the_truth(table: tuple[int, int, int], mechanism: Mechanism) -> None:
    """At least 92% of 95% intervals hold the exact value, on easy and on hard tables (fixed seed)."""
    noise = noise_of(DEVIATIONS, heavy=mechanism == "laplace")
    p = feasible(*_noisy((*table, TOTAL), mechanism))
    low, high = interval(mutual_information(*p), p, noise)
    truth = float(mutual_information(*feasible(*table, TOTAL)))
    assert np.mean((low <= truth) & (truth <= high)) >= 0.92


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("table", KEPT_TABLES)
def test_intervals_of_kept_pairs_hold_the_truth(table: tuple[int, int, int], mechanism: Mechanism) -> None:
    """Given that a pair was kept by the threshold, its widened interval still holds the exact value."""
    noise = noise_of(DEVIATIONS, heavy=mechanism == "laplace")
    sums = _noisy((*table, TOTAL), mechanism, size=200_000)
    sums = tuple(column[sums[0] >= THRESHOLD] for column in sums)
    p = feasible(*sums)
    bounds = interval(mutual_information(*p), p, noise)
    excess = (sums[0] - THRESHOLD) / DEVIATIONS[0]
    low, high = widen_near_threshold(bounds, p, excess, noise, mechanism=mechanism)
    truth = float(mutual_information(*feasible(*table, TOTAL)))
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95


def _noisy(sums: tuple[int, ...], mechanism: Mechanism, *, size: int = 20_000) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(7)
    draws = (
        rng.normal(0, sd, size) if mechanism == "gaussian" else rng.laplace(0, sd / math.sqrt(2), size)
        for sd in DEVIATIONS
    )
    return tuple(np.rint(value + draw).astype(np.int64) for value, draw in zip(sums, draws, strict=True))


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.floats(0, 0.2), st.floats(0, 0.2))
@settings(deadline=None)
def test_bounds_are_ordered_on_any_table(cells: list[int], sd: float, sd_margin: float) -> None:
    """Empty cells, one-sided tables and huge noise give 0 <= low <= mi <= high, all finite."""
    a, b, c, d = cells
    p = feasible([a], [a + b], [a + c], [a + b + c + d])
    mi = mutual_information(*p)
    noise = Noise(joint=sd, feature=sd_margin, label=sd_margin, total=sd_margin)
    low, high = interval(mi, p, noise)
    assert np.isfinite(high).all()
    assert 0 <= low[0] <= mi[0] <= high[0]


def test_near_the_threshold_independence_is_possible() -> None:
    """Where the true joint may be px*py the low end is 0; where it may not, the lowest joint's information."""
    px, py = np.array([0.1]), np.array([0.2])
    noise = Noise(joint=0.001, feature=0, label=0, total=0)
    bounds = (np.array([0.04]), np.array([0.05]))
    crossing = widen_near_threshold(bounds, (np.array([0.03]), px, py), np.zeros(1), noise, mechanism="gaussian")
    assert crossing[0].tolist() == [0.0]
    above = widen_near_threshold(bounds, (np.array([0.06]), px, py), np.ones(1), noise, mechanism="gaussian")
    assert 0.03 < above[0][0] < 0.04
    assert above[1].tolist() == [0.05]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_far_from_the_threshold_nothing_is_widened(mechanism: Mechanism) -> None:
    """Selection is harmless a few deviations above the threshold."""
    p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    bounds = (np.array([0.04]), np.array([0.05]))
    noise = Noise(joint=0.001, feature=0, label=0, total=0)
    got = widen_near_threshold(bounds, p, np.array([5.0]), noise, mechanism=mechanism)
    assert (got[0].tolist(), got[1].tolist()) == ([0.04], [0.05])


@pytest.mark.parametrize("sd", [-1.0, math.nan, math.inf])
def test_wrong_deviations_are_refused(sd: float) -> None:
    """A deviation is finite and not negative."""
    with pytest.raises(InputError, match="joint="):
        Noise(joint=sd, feature=0.0, label=0.0, total=0.0)


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan])
def test_wrong_levels_are_refused(level: float) -> None:
    """A level lies between 0 and 1."""
    with pytest.raises(InputError, match="level="):
        Noise(joint=0.0, feature=0.0, label=0.0, total=0.0).width(level)
