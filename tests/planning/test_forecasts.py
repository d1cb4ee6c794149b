"""How many usual units a pair needs: against the plan's own threshold, weights and noise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ddpmi import Bounds, Budget, Plan
from ddpmi.applications.simulation import simulate
from ddpmi.pipeline.contributions import weight_of_equal_pairs
from ddpmi.planning.forecasts import units_needed, units_to_show, what_is_assumed
from ddpmi.privacy.noise import add_noise
from ddpmi.privacy.randomness import Keystream

BUDGET = Budget(1, 1e-7)


def plan_of(**options: Any) -> Plan:
    return Plan(**({"budget": BUDGET, "bounds": Bounds(pairs=10)} | options))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("pairs", [1, 10, 25, 90])
def test_half_of_the_pairs_with_that_many_usual_units_are_released(mechanism: str, pairs: int) -> None:
    """The sum of that number of units of the usual weight is at the threshold; the chance of a wrong count is below 1e-8."""
    plan = plan_of(mechanism=mechanism)
    noise = plan.calibration.tables["pairs"]
    weight = weight_of_equal_pairs(plan.calibration.bounding, pairs)
    units = round(units_to_show(plan, pairs)["pairs"])
    sums = add_noise(np.full(4000, units * weight), noise.mechanism, Keystream(bytes([pairs]) * 32))
    assert abs(np.mean(sums >= (noise.threshold or 0)) - 0.5) < 0.05 + weight / noise.mechanism.sd


def test_heavier_units_are_needed_in_larger_numbers() -> None:
    """Up to the bound nothing changes; beyond it K/t is the weight under Laplace noise, and less is lost under Gaussian."""
    laplace, gaussian = (plan_of(mechanism=name) for name in ("laplace", "gaussian"))
    for plan in (laplace, gaussian):
        assert units_to_show(plan, 3) == units_to_show(plan, 10) == units_to_show(plan)
    ratios = [units_to_show(plan, 40)["pairs"] / units_to_show(plan)["pairs"] for plan in (laplace, gaussian)]
    assert ratios == pytest.approx([4.0, 2.0], rel=0.01)


def test_pairs_that_are_not_read_do_not_count() -> None:
    """Above the cap each pair of a unit is read less often, as if it counted less; so with sampling above the bound."""
    capped = plan_of(bounds=Bounds(pairs=10, cap=20), mechanism="laplace")
    assert units_to_show(capped, 40)["pairs"] == pytest.approx(2 * units_to_show(capped, 20)["pairs"], rel=0.01)
    sampled = plan_of(bounds=Bounds(pairs=10, strategy="sample"), mechanism="laplace")
    assert units_to_show(sampled, 40)["pairs"] == pytest.approx(4 * units_to_show(sampled)["pairs"])


def test_sampled_units_are_needed_more_often() -> None:
    """Where one unit in ten takes part, ten times as many are needed as without."""
    plan = plan_of(sample_rate=Fraction(1, 10))
    threshold = plan.calibration.tables["pairs"].threshold or 0
    weight = weight_of_equal_pairs(plan.calibration.bounding, 10)
    assert units_to_show(plan)["pairs"] == pytest.approx(10 * threshold / weight)


def test_a_plan_says_what_it_assumes() -> None:
    """With a hint the sentence names the usual unit and its weight; without one it says so, and gives a second number."""
    plan = plan_of(mechanism="laplace")
    assert units_needed(plan, 40)["pairs"].endswith("units with 40 pairs each")
    assert what_is_assumed(plan, 40) == "A unit with 40 pairs counts 0.25 in each of them."
    assert "no hint says how many are usual" in what_is_assumed(plan)
    assert what_is_assumed(plan, 10) == ""
    assert "with 40 pairs each" in plan.explain(pairs_per_unit=40)
    assert "no hint says" in plan.explain()
    alone = plan_of(bounds=Bounds(pairs=1), distinct="units")
    assert (what_is_assumed(alone), units_needed(alone)["pairs"].endswith("units")) == ("", True)


def test_a_simulation_uses_the_usual_unit() -> None:
    """Its column "units to be seen" is the forecast for the hint's number of pairs."""
    plan = plan_of(mechanism="laplace", complete=True)
    (row,) = simulate(plan, "units=20000,pairs_per_unit=40,labels=4,features=300", epsilons=(1,)).rows
    assert row["threshold"] == pytest.approx(units_to_show(plan, 40)["pairs"])
