"""The checks themselves: they pass on the product and fail on a broken one."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from ddpmi import Bounds, Budget, Plan, observe, rank
from ddpmi.pipeline import contributions
from ddpmi.privacy.noise import DiscreteGaussian, DiscreteLaplace
from ddpmi.testing import Rate, sampler_check, seeded_release, sensitivity_replay, threshold_check
from tests.engines.test_contract import CASES, hostile
from tests.engines.test_contract import plan as hostile_plan
from tests.engines.test_contract import table as hostile_table

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
    assert next(one for one in moved if one.table == "features").l1 > narrow.calibration.unit_weight * 3


def rows_of(*told: tuple[str, str, str]) -> pa.Table:
    return pa.table({name: [row[place] for row in told] for place, name in enumerate(("unit", "feature", "label"))})


@pytest.mark.parametrize("space", ["events", "units"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "own",
    [
        [("lone", "f", "here")],  # alone in the feature under a listed label
        [("lone", "own", "here")],  # alone in the feature
        [("lone", "f", "own")],  # alone in a label that is not listed
        [("lone", "f", "alone")],  # alone in a listed label
        [("lone", "f", "here"), ("lone", "g", "own"), ("lone", "own", "alone")],
    ],
)
def test_the_replay_knows_that_other_labels_are_summed(own: list[tuple[str, str, str]], mechanism, space) -> None:
    """Where `labels_only` hides labels, a unit that is the first to show a feature does not bring all others' sum."""
    bounds = Bounds(pairs=3, labels=3)
    plan = Plan(budget=Budget(1, 1e-6), bounds=bounds, mechanism=mechanism, space=space, labels_only=["here", "alone"])
    rest = [(f"u{n}", feature, "there") for n in range(50) for feature in "fg"] + [("v", "h", "here")]
    moved = sensitivity_replay(observe(rows_of(*rest, *own)), observe(rows_of(*rest)), plan)
    assert [one for one in moved if not one.within] == []
    features = next(one for one in moved if one.table == "features")
    assert features.l1 == 256 * len({feature for _, feature, _ in own})


@pytest.mark.parametrize("tries", [2, pytest.param(12, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", CASES)
def test_the_replay_gives_no_false_alarm(name: str, tries: int) -> None:
    """For every option and for hostile rows, no unit moves a sum further than declared."""
    draw, made = random.Random(f"replay {name}"), hostile_plan(**CASES[name])
    value = "minutes" if "clip" in CASES[name].get("bounds", {}) else None
    for number in range(tries):
        rows = hostile(rows=draw.choice([20, 60, 150]), seed=1000 + number)
        if made.distinct:
            rows = list({row[:3] if made.distinct is True else row[0]: row for row in rows}.values())
        unit = draw.choice(rows)[0]
        both = (hostile_table(rows), hostile_table([row for row in rows if row[0] != unit]))
        moved = sensitivity_replay(*(observe(data, value=value) for data in both), made, seed=number)
        assert [one for one in moved if not one.within] == [], (number, unit)


@pytest.mark.parametrize("options", [{}, {"labels_only": ["x"]}])
@pytest.mark.parametrize(
    ("space", "seen"),
    [("events", ["pairs", "features", "labels", "total"]), ("units", ["pairs", "features"])],
)
def test_the_replay_catches_a_unit_that_is_not_bounded(
    monkeypatch, options: dict[str, Any], space: Any, seen: list[str]
) -> None:
    """A heavy unit that keeps its full weight moves pairs and features too far, also where labels are hidden."""
    monkeypatch.setattr(contributions, "_weight", lambda bounding, _: str(2**bounding.g))
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=3), mechanism="laplace", space=space, **options)
    rest = [("v", "f", "x"), ("w", "g", "y")]
    moved = sensitivity_replay(
        observe(rows_of(*rest, *(("u", f"f{n}", "x") for n in range(9)))), observe(rows_of(*rest)), plan
    )
    assert [one.table for one in moved if not one.within] == seen


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
