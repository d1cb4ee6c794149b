"""Intervals of mutual information against simulated noise with a fixed seed, on easy, hard and random tables."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.information.mi import feasible, mutual_information
from ddpmi.rankings.intervals import drops_below, interval, widen_near_threshold
from ddpmi.rankings.noise_model import Noise

Mechanism = Literal["gaussian", "laplace"]
TOTAL = 10**8
DEVIATIONS = (1e3, 1.8e3, 1e4, 3e4)
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


def noise_of(sums: tuple[float, ...], *, heavy: bool = False) -> Noise:
    joint, feature, label, total = (sd / TOTAL for sd in sums)
    return Noise(joint=joint, feature=feature, label=label, total=total, heavy=heavy)


def noisy(
    sums: tuple[int, ...], sds: tuple[float, ...], mechanism: Mechanism, *, size: int = 20_000, seed: int = 7
) -> tuple[np.ndarray, ...]:
    """Draw noise for J, F, L, N."""
    rng = np.random.default_rng(seed)
    draws = (
        rng.normal(0, sd, size) if mechanism == "gaussian" else rng.laplace(0, sd / math.sqrt(2), size) for sd in sds
    )
    return tuple(np.rint(value + draw).astype(np.int64) for value, draw in zip(sums, draws, strict=True))


def raw_of(sums: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divide sums by the total as they are."""
    return sums[0] / sums[3], sums[1] / sums[3], sums[2] / sums[3]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("table", TABLES)
def test_intervals_hold_the_truth(table: tuple[int, int, int], mechanism: Mechanism) -> None:
    """At least 92% of 95% intervals hold the exact value, on easy and on hard tables (fixed seed)."""
    noise = noise_of(DEVIATIONS, heavy=mechanism == "laplace")
    sums = noisy((*table, TOTAL), DEVIATIONS, mechanism)
    p = feasible(*sums)
    low, high = interval(mutual_information(*p), (p, raw_of(sums)), noise)
    truth = float(mutual_information(*feasible(*table, TOTAL)))
    assert np.mean((low <= truth) & (truth <= high)) >= 0.92


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("table", KEPT_TABLES)
def test_intervals_of_kept_pairs_hold_the_truth(table: tuple[int, int, int], mechanism: Mechanism) -> None:
    """Given that a pair was kept by the threshold, its widened interval still holds the exact value."""
    noise = noise_of(DEVIATIONS, heavy=mechanism == "laplace")
    sums = noisy((*table, TOTAL), DEVIATIONS, mechanism, size=200_000)
    sums = tuple(column[sums[0] >= THRESHOLD] for column in sums)
    p = feasible(*sums)
    bounds = interval(mutual_information(*p), (p, raw_of(sums)), noise)
    drop = drops_below((sums[0] - THRESHOLD) / DEVIATIONS[0], mechanism)
    low, high = widen_near_threshold(bounds, p, drop, noise)
    truth = float(mutual_information(*feasible(*table, TOTAL)))
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95


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
    sums = tuple(np.rint(column).astype(np.int64) for column in noisy)
    p, raw = feasible(*sums), raw_of(sums)
    summed = (np.full(size, float(pairs)), np.full(size, float(others)))
    low, high = interval(
        mutual_information(*p), (p, raw), noise_of(DEVIATIONS, heavy=mechanism == "laplace"), summed=summed
    )
    truth = float(mutual_information(*feasible(*table, TOTAL)))
    assert np.mean((low <= truth) & (truth <= high)) >= 0.92


def random_tables(seed: int, count: int) -> list[tuple[tuple[int, int, int], tuple[float, ...]]]:
    """Draw J, F, L over all scales, with cells that are empty, and deviations of very different sizes."""
    rng, sd = np.random.default_rng(seed), 1e3
    found = []
    for _ in range(count):
        both, feature, label = (sd * 10 ** rng.uniform(low, high) for low, high in ((0.7, 3.5), (0, 4), (0, 4.5)))
        feature, label = (0.0 if rng.random() < 0.3 else cell for cell in (feature, label))
        both = rng.choice([0.0, 0.05 * both]) if rng.random() < 0.2 else both
        sds = (sd, *(sd * 10 ** rng.uniform(-0.3, top) for top in (1.0, 1.5, 1.5)))
        found.append(((int(both), int(both + feature), int(both + label)), sds))
    return found


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_intervals_hold_the_truth_on_random_tables(mechanism: Mechanism) -> None:
    """No table of 60 is covered in fewer than 92% of 4,000 draws, and the mean is 94% at least (fixed seeds)."""
    covered = []
    for seed, (table, sds) in enumerate(random_tables(99, 60)):
        sums = noisy((*table, TOTAL), sds, mechanism, size=4_000, seed=seed)
        p = feasible(*sums)
        low, high = interval(mutual_information(*p), (p, raw_of(sums)), noise_of(sds, heavy=mechanism == "laplace"))
        truth = float(mutual_information(*feasible(*table, TOTAL)))
        # The ends are the truth itself up to rounding where it is 0 on one side.
        covered.append(np.mean((low <= truth * (1 + 1e-12)) & (truth <= high * (1 + 1e-12))))
    assert min(covered) >= 0.92
    assert np.mean(covered) >= 0.94


@given(
    st.lists(st.integers(0, 50), min_size=4, max_size=4),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.sampled_from([0.5, 0.95, 1 - 1e-9]),
)
@settings(deadline=None)
def test_bounds_are_ordered_on_any_table(cells: list[int], sd: float, sd_margin: float, level: float) -> None:
    """Empty cells, one-sided tables and huge noise give 0 <= low <= mi <= high, all finite."""
    a, b, c, d = cells
    p = feasible([a], [a + b], [a + c], [a + b + c + d])
    mi = mutual_information(*p)
    noise = Noise(joint=sd, feature=sd_margin, label=sd_margin, total=sd_margin)
    low, high = interval(mi, (p, p), noise, level=level)
    assert np.isfinite(high).all()
    assert 0 <= low[0] <= mi[0] <= high[0]


def test_a_higher_level_is_wider() -> None:
    """Bounds of a higher level hold those of a lower one."""
    p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    noise = Noise(joint=0.001, feature=0.002, label=0.003, total=0.001)
    mi = mutual_information(*p)
    ends = [interval(mi, (p, p), noise, level=level) for level in (0.5, 0.9, 0.99, 0.99999)]
    lows, highs = ([float(end[at][0]) for end in ends] for at in (0, 1))
    assert lows == sorted(lows, reverse=True)
    assert highs == sorted(highs)


def test_without_noise_there_is_no_doubt() -> None:
    """Zero deviations give the value itself, up to rounding."""
    p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    mi = mutual_information(*p)
    low, high = interval(mi, (p, p), Noise(joint=0, feature=0, label=0, total=0))
    assert [float(low[0]), float(high[0])] == pytest.approx([float(mi[0])] * 2)


def test_independence_may_lie_within() -> None:
    """Near independence the low end is 0, and the high end does not vanish with the slope."""
    p = (np.array([0.02]), np.array([0.1]), np.array([0.2]))
    low, high = interval(mutual_information(*p), (p, p), Noise(joint=1e-3, feature=0, label=0, total=0))
    at_ends = mutual_information(np.array([0.02 - 1.96e-3, 0.02 + 1.96e-3]), 0.1, 0.2)
    assert low[0] == 0.0
    assert float(high[0]) == pytest.approx(float(np.max(at_ends)), rel=0.001)
