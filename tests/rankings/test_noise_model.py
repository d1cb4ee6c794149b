"""The covariance of released sums, and what selection by a threshold does to intervals."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from ddpmi.errors import InputError
from ddpmi.rankings.intervals import drops_below, widen_near_threshold
from ddpmi.rankings.noise_model import Noise, covariance_of

Mechanism = Literal["gaussian", "laplace"]


@pytest.mark.parametrize(("pairs", "others"), [(1, 1), (5, 30)])
def test_summed_margins_have_the_covariance_of_their_parts(pairs: int, others: int) -> None:
    """Seeded noise of a pair, of its neighbours, of the rests and of the total has the stated covariance."""
    rng, size = np.random.default_rng(3), 200_000
    table = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    noise = Noise(joint=1e-3, feature=2e-3, label=3e-3, total=4e-3)
    own, whole = rng.normal(0, 1e-3, size), rng.normal(0, 4e-3, size)
    feature = rng.normal(0, math.hypot(2e-3, 1e-3 * math.sqrt(pairs - 1)), size)
    label = rng.normal(0, math.hypot(3e-3, 1e-3 * math.sqrt(others - 1)), size)
    moved = (own - whole * table[0], own + feature - whole * table[1], own + label - whole * table[2])
    stated = covariance_of(table, noise, (np.array([float(pairs)]), np.array([float(others)])))
    expected = [[float(entry[0]) for entry in row] for row in stated]
    np.testing.assert_allclose(np.cov(moved), expected, rtol=0.03, atol=2e-8)


def test_near_the_threshold_summed_margins_fall_with_the_joint() -> None:
    """A pair that is all of its feature stays so however low its sum may have been."""
    p = (np.array([0.06]), np.array([0.06]), np.array([0.2]))
    noise = Noise(joint=0.01, feature=0, label=0, total=0)
    bounds = (np.array([0.09]), np.array([0.1]))
    low, high = widen_near_threshold(bounds, p, drops_below(np.ones(1), "gaussian"), noise, summed=True)
    assert 0 < low[0] < 0.09
    assert high[0] == 0.1
    alone = widen_near_threshold(bounds, p, drops_below(np.ones(1), "gaussian"), noise)
    assert alone[0][0] < low[0]


def test_near_the_threshold_independence_is_possible() -> None:
    """Where the true joint may be px*py the low end is 0; where it may not, the lowest joint's information."""
    px, py = np.array([0.1]), np.array([0.2])
    noise = Noise(joint=0.001, feature=0, label=0, total=0)
    bounds = (np.array([0.04]), np.array([0.05]))
    at, above_it = (drops_below(np.array([excess]), "gaussian") for excess in (0.0, 1.0))
    crossing = widen_near_threshold(bounds, (np.array([0.03]), px, py), at, noise)
    assert crossing[0].tolist() == [0.0]
    above = widen_near_threshold(bounds, (np.array([0.06]), px, py), above_it, noise)
    assert 0.03 < above[0][0] < 0.04
    assert above[1].tolist() == [0.05]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_far_from_the_threshold_nothing_is_widened(mechanism: Mechanism) -> None:
    """Selection is harmless a few deviations above the threshold."""
    p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    bounds = (np.array([0.04]), np.array([0.05]))
    noise = Noise(joint=0.001, feature=0, label=0, total=0)
    got = widen_near_threshold(bounds, p, drops_below(np.array([5.0]), mechanism), noise)
    assert (got[0].tolist(), got[1].tolist()) == ([0.04], [0.05])


@pytest.mark.parametrize("level", [0.9, 0.95, 0.9999])
def test_a_kept_sum_may_have_fallen_as_far_as_its_tail_allows(level: float) -> None:
    """At the drop, a sum this high has one-sided probability (1 - level)/2 given that it was kept."""
    excess = np.array([0.5, 1.0, 2.0])

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    for above, drop in zip(excess, drops_below(excess, "gaussian", level=level), strict=True):
        assert tail(drop) / tail(drop - above) == pytest.approx((1 - level) / 2, rel=0.05)
    memory = drops_below(excess, "laplace", level=level)
    assert set(memory.tolist()) <= {0.0, math.inf}


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
