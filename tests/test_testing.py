"""The checks themselves: they pass on the product and fail on a broken one."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from ddpmi import Bounds, Budget, Plan, observe, rank
from ddpmi.noise import DiscreteGaussian, DiscreteLaplace
from ddpmi.testing import Rate, sampler_check, seeded_release, sensitivity_replay, threshold_check

#: A check that fails with at most this probability on a correct product.
FALSE_ALARM = 1e-7


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", ["scale", "sample"])
@pytest.mark.parametrize("pairs", [1, 5])
def test_a_lone_units_pairs_show_no_more_often_than_delta(mechanism, strategy, pairs: int) -> None:
    """Over 10,000 lone units of the worst size, releases stay within delta/2 = 1e-2 (false alarm below 1e-7)."""
    bounds = Bounds(pairs=pairs, strategy=strategy)
    plan = Plan(budget=Budget(1, 0.02), bounds=bounds, mechanism=mechanism)
    rate = threshold_check(observe, plan, pairs=bounds.cap, units=10_000)
    assert rate.p_value > FALSE_ALARM
    # The check sees the events it bounds: the rarest case expects 30, so 5 or fewer come once in 5e7 runs.
    assert rate.events > 5


@pytest.mark.full
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(("pairs", "alone"), [(1, 1), (1, 10), (5, 5), (5, 50), (50, 50), (50, 500)])
def test_lone_units_at_length(mechanism, pairs: int, alone: int) -> None:
    """The same over 200,000 lone pairs and more sizes."""
    plan = Plan(budget=Budget(1, 0.02), bounds=Bounds(pairs=pairs), mechanism=mechanism)
    assert threshold_check(observe, plan, pairs=alone, units=max(4000, 200_000 // alone)).p_value > FALSE_ALARM


def test_the_threshold_check_catches_a_threshold_that_is_too_low() -> None:
    """One grid step less, and lone units show too often."""
    plan = Plan(budget=Budget(3, 0.02), bounds=Bounds(pairs=1, strategy="sample"), mechanism="laplace")
    noise = plan.calibration.tables["pairs"]
    object.__setattr__(noise, "threshold", noise.threshold - 1)
    assert threshold_check(observe, plan, pairs=1, units=20_000, seed=1).p_value < FALSE_ALARM


@pytest.mark.parametrize("scale", ["0.3", "1", "10", "400", "1e6"])
def test_the_sampler_check_passes_on_the_samplers(scale: str) -> None:
    """Chi-square against the exact mass function (false alarm below 1e-7)."""
    assert sampler_check(DiscreteLaplace(scale=Fraction(scale)), size=100_000) > FALSE_ALARM
    assert sampler_check(DiscreteGaussian(variance=Fraction(scale) ** 2), size=100_000) > FALSE_ALARM


def test_the_sampler_check_catches_wrong_noise() -> None:
    """Noise of another width or of another shape fails."""

    class Narrow(DiscreteLaplace):
        def sample(self, size, source=None):
            return DiscreteLaplace(scale=self.scale * Fraction(9, 10)).sample(size, source)

    class Other(DiscreteLaplace):
        def sample(self, size, source=None):
            return DiscreteGaussian(variance=2 * self.scale**2).sample(size, source)

    assert sampler_check(Narrow(scale=Fraction(10)), size=100_000, seed=1) < FALSE_ALARM
    assert sampler_check(Other(scale=Fraction(10)), size=100_000, seed=1) < FALSE_ALARM


def test_the_replay_catches_a_wrong_declaration() -> None:
    """Declared bounds that are too small do not pass."""
    rows = pa.table({"unit": ["u"] * 9, "feature": [f"f{n}" for n in range(9)], "label": ["x"] * 9})
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=9), mechanism="laplace")
    narrow = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=3), mechanism="laplace")
    moved = sensitivity_replay(observe(rows), observe(rows.slice(0, 0)), plan)
    assert all(one.within for one in moved)
    assert next(one for one in moved if one.table == "total").l1 > narrow.calibration.unit_weight * 3


def test_seeded_noise_repeats_and_is_stamped() -> None:
    """One seed gives one release, and no page can forget that it is not private."""
    rows = pa.table({"unit": [str(n) for n in range(500)], "feature": ["f", "g"] * 250, "label": ["x", "y"] * 250})
    plan = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=1))
    one, two, other = (seeded_release(observe(rows), plan, seed=seed) for seed in (1, 1, 2))
    assert one.pairs.equals(two.pairs)
    assert (one.total, one.pairs.num_rows) == (two.total, 2)
    assert one.total != other.total
    assert one.receipt["notice"].startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in rank(one).to_text()


def test_a_rate_far_below_its_bound_is_no_alarm() -> None:
    """The p-value is one-sided."""
    assert Rate(events=0, trials=1000, allowed=0.01).p_value == 1.0
