"""Sampling units by secret coins: what it costs, which units take part, and that the rest still holds."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, InputError, Ledger, Plan, observe
from ddpmi._typing import TABLES
from ddpmi.privacy.accounting import Cost, Limit, Total, admits, amplified_epsilon, coin_bound, inner_budget
from ddpmi.privacy.noise import DiscreteLaplace
from ddpmi.testing import _salt, exact_sums, hostile_rows, seeded_release, sensitivity_replay, threshold_check
from tests.support.reference import joint, takes_part

RATES = [Fraction(1, 10**9), Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2), 1 - Fraction(1, 10**15)]


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    names = ("unit", "feature", "label")
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)})


def plan(**options: object) -> Plan:
    return Plan(**{"budget": Budget(1, 1e-4), "bounds": Bounds(pairs=3), "sample_rate": "0.3", **options})


@settings(max_examples=200, deadline=None)
@given(epsilon=st.fractions(Fraction(1, 10**6), 10**6), delta=st.floats(1e-17, 1e-10), rate=st.sampled_from(RATES[:-1]))
def test_the_inner_budget_amplifies_to_at_most_the_budget(epsilon: Fraction, delta: float, rate: Fraction) -> None:
    """Epsilon and delta never exceed the budget, and lose at most two steps of their grid."""
    budget = Budget(epsilon, delta)
    inner = inner_budget(budget, rate)
    assert amplified_epsilon(inner.epsilon, rate) <= budget.epsilon
    assert rate * inner.delta <= budget.delta < rate * (inner.delta + Fraction(4, 10**18))
    if inner.epsilon < 10**6:
        assert amplified_epsilon(inner.epsilon + Fraction(2, 10**12), rate) >= budget.epsilon


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 8, 300])
def test_the_formula_is_rounded_up(epsilon: float, rate: Fraction) -> None:
    """It agrees with doubles where they are good, and is never more than a grid step above."""
    found = amplified_epsilon(Fraction(str(epsilon)), rate)
    plain = math.log1p(float(rate) * math.expm1(epsilon))
    assert float(found) == pytest.approx(plain, rel=1e-9, abs=2e-12)


def hockey_stick(one: dict[int, float], two: dict[int, float], epsilon: float) -> float:
    """The smallest delta for which (epsilon, delta) holds in one direction."""
    return math.fsum(max(0.0, p - math.exp(epsilon) * two.get(key, 0.0)) for key, p in one.items())


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_two_point_example_by_brute_force(rate: float, epsilon: float) -> None:
    """Randomised response that leaks with probability delta meets the amplified bound exactly, and no smaller one."""
    delta, yes = 1e-3, math.exp(epsilon) / (1 + math.exp(epsilon))
    there = {0: (1 - delta) * (1 - yes), 1: (1 - delta) * yes, 2: delta}
    away = {0: (1 - delta) * yes, 1: (1 - delta) * (1 - yes), 3: delta}
    assert hockey_stick(there, away, epsilon) == pytest.approx(delta)
    sampled = {key: rate * there.get(key, 0.0) + (1 - rate) * away.get(key, 0.0) for key in range(4)}
    amplified = float(amplified_epsilon(Fraction(str(epsilon)), Fraction(str(rate))))
    assert hockey_stick(sampled, away, amplified) == pytest.approx(rate * delta)
    assert hockey_stick(away, sampled, amplified) <= rate * delta * (1 + 1e-9)
    assert hockey_stick(sampled, away, 0.99 * amplified) > 1.001 * rate * delta


@pytest.mark.parametrize("others", [0, 1, 7])
def test_a_thresholded_count_by_brute_force(others: int) -> None:
    """Over all outputs of one noisy, thresholded count, a sampled unit is hidden as well as the plan says."""
    made = plan(budget=Budget(1, 0.01), bounds=Bounds(pairs=1, strategy="sample"), mechanism="laplace")
    noise, rate = made.calibration.tables["pairs"], float(made.sample_rate)
    assert isinstance(noise.mechanism, DiscreteLaplace)

    def shown(count: int) -> dict[int, float]:
        """Outputs of one pair; key -1 is "not shown", which a pair of nobody always is."""
        if count == 0:
            return {-1: 1.0}
        q = math.exp(-1 / float(noise.mechanism.scale))
        law = {v: (1 - q) / (1 + q) * q ** abs(v - count) for v in range(noise.threshold, noise.threshold + 400)}
        return {**law, -1: 1 - math.fsum(law.values())}

    def mixed(one: dict[int, float], two: dict[int, float], weight: float) -> dict[int, float]:
        return {key: weight * one.get(key, 0.0) + (1 - weight) * two.get(key, 0.0) for key in {*one, *two}}

    without: dict[int, float] = {}
    with_unit: dict[int, float] = {}
    for count in range(others + 1):
        chance = math.comb(others, count) * rate**count * (1 - rate) ** (others - count)
        for target, law in (
            (without, shown(count)),
            (with_unit, mixed(shown(count + 1), shown(count), rate)),
        ):
            for key, p in law.items():
                target[key] = target.get(key, 0.0) + chance * p
    assert hockey_stick(with_unit, without, 1.0) <= 0.01
    assert hockey_stick(without, with_unit, 1.0) <= 0.01


@pytest.mark.parametrize("rate", [*RATES, 1 - Fraction(1, 10**40)])
def test_the_bound_of_the_coin_is_a_64_bit_word(rate: Fraction) -> None:
    """It never reaches 2^64 and never lets a unit take part more often than the rate."""
    assert 0 <= coin_bound(rate) <= min(2**64 - 1, rate * 2**64)


@settings(max_examples=12, deadline=None)
@given(
    rows=hostile_rows(units=12),
    rate=st.sampled_from(["0.05", "0.3", "0.9"]),
    mechanism=st.sampled_from(["laplace", "gaussian"]),
)
def test_the_coin_equals_the_reference(rows: list[tuple[object, ...]], rate: str, mechanism: str) -> None:
    """The SQL samples the units that plain Python samples, and sums their pairs alike."""
    made = plan(sample_rate=rate, mechanism=mechanism, bounds=Bounds(pairs=2, labels=2))
    found = exact_sums(observe(table(rows)), made)["pairs"].to_pylist()
    sums = {(row["feature"], row["label"]): row["sum"] for row in found}
    assert joint(rows, made.calibration.bounding, _salt(0)) == sums


@pytest.mark.parametrize("options", [{}, {"distinct": "units", "bounds": Bounds(pairs=1)}, {"space": "units"}])
def test_units_take_part_wholly_and_at_their_rate(options: dict[str, object]) -> None:
    """Of 3,000 units those with a low hash are counted, all of their rows, and about 0.3 of all (fixed salt)."""
    made = plan(public_labels=["x"], **options)
    rows = [(f"u{n}", f"f{n}", "x") for n in range(3000)]
    kept = {row["feature"] for row in exact_sums(observe(table(rows)), made)["pairs"].to_pylist()}
    assert kept == {f"f{n}" for n in range(3000) if takes_part(_salt(0), f"u{n}", Fraction(3, 10))}
    assert 750 < len(kept) < 1050


def test_the_salted_steps_are_frozen() -> None:
    """A coin is tossed once, and the salt is a parameter."""
    for made in (plan(), plan(distinct="units", bounds=Bounds(pairs=1)), plan(public_labels=["a"])):
        salted = [step for step in made.steps() if step.salted]
        assert salted
        assert all(step.freeze for step in salted)


@settings(max_examples=12, deadline=None)
@given(rows=hostile_rows(), data=st.data())
def test_one_unit_moves_sampled_sums_no_further_than_declared(rows: list[tuple[object, ...]], data) -> None:
    """Given the coins, removing any unit keeps every table within its norms; a unit left out moves nothing."""
    made = plan(mechanism=data.draw(st.sampled_from(["laplace", "gaussian"])))
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    moved = sensitivity_replay(observe(table(rows)), observe(table(rest)), made)
    assert all(one.within for one in moved)
    if unit is None or not takes_part(_salt(0), unit, Fraction(3, 10)):
        assert not any(one.l1 for one in moved)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_lone_units_show_no_more_often_than_sampled_delta(mechanism: str) -> None:
    """Over 20,000 lone units the rate stays within r times the inner half (false alarm below 1e-7)."""
    made = plan(budget=Budget(1, 0.02), bounds=Bounds(pairs=2), mechanism=mechanism)
    assert Fraction(9, 1000) < made.threshold_delta <= Fraction(1, 100)
    rate = threshold_check(observe, made, pairs=20, units=20_000)
    assert rate.p_value > 1e-7
    assert rate.events > 20


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_noise_is_made_for_the_inner_budget(mechanism: str) -> None:
    """Scales pay for no more than the inner epsilon, which is larger than the budget's."""
    made = plan(mechanism=mechanism)
    moved, tables = made.calibration.sensitivities, made.calibration.tables
    assert made.inner_budget.epsilon > made.budget.epsilon
    if mechanism == "laplace":
        used = sum(moved[name].l1 / tables[name].mechanism.scale for name in TABLES)
        assert made.inner_budget.epsilon * Fraction(999, 1000) < used <= made.inner_budget.epsilon
    else:
        rho = sum(moved[name].l2_squared / (2 * tables[name].mechanism.variance) for name in TABLES)
        assert rho <= made.calibration.cost.rho


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_ledger_is_charged_the_budget_and_all_of_delta(mechanism: str, tmp_path: Path) -> None:
    """The entry is pure epsilon with half its square as rho and the whole delta, for both kinds of noise."""
    made = plan(mechanism=mechanism)
    assert made.cost == Cost(epsilon=Fraction(1), rho=Fraction(1, 2), delta=Fraction(1, 10**4))
    ledger = Ledger(tmp_path / "a.ledger", limit=Budget(2, 1e-3))
    ddpmi.release(observe(table([("u", "f", "x")])), made, ledger=ledger)
    entry = ledger.status("default").entries[0].to_dict()
    assert (entry["epsilon"], entry["rho"], entry["delta"]) == (1.0, 0.5, 1e-4)
    assert ledger.status("default").spent.to_dict() == {"epsilon": 1.0, "delta": 1e-4}


def test_a_pure_release_stays_pure() -> None:
    """Laplace noise over known keys needs no delta, sampled or not."""
    made = plan(budget=Budget(1), public_labels=["a"], public_features=["f"])
    assert made.mechanism_name == "laplace"
    assert made.cost.epsilon == 1
    assert made.cost.delta == 0


def test_a_ledger_of_the_same_delta_has_no_room() -> None:
    """All of delta counts as a threshold's, for which a ledger keeps one half."""
    assert not admits(Limit.of(Budget(1, 1e-4)), Total(), plan().cost)
    assert admits(Limit.of(Budget(1, 2e-4)), Total(), plan().cost)


def test_counts_are_scaled_up_to_everybody() -> None:
    """The receipt has the rate, the amplified promise and deviations in everybody's counts."""
    made, whole = plan(sample_rate="0.5", mechanism="gaussian"), plan(sample_rate=None, mechanism="gaussian")
    receipt = seeded_release(observe(table([("u", "f", "x")])), made, seed=1).receipt
    assert receipt["sample_rate"] == 0.5
    assert receipt["guarantee"]["epsilon"] == 1.0
    assert receipt["guarantee"]["rho"] is None
    assert made.step == 2 * whole.step
    sd = made.calibration.tables["pairs"].mechanism.sd
    assert receipt["tables"]["pairs"]["sd_user"] == pytest.approx(sd * float(whole.step) * 2)


def test_no_two_releases_share_their_coins(tmp_path: Path) -> None:
    """Plans that sample are never served by one pass, not even equal ones."""
    ledger = Ledger(tmp_path / "a.ledger", limit=Budget(4, 1e-2))
    made = plan()
    with pytest.raises(InputError, match="one pass"):
        ddpmi.release_many(observe(table([("u", "f", "x")])), [made, made], ledger=ledger)
    assert ledger.status("default").entries == ()


def test_coins_are_fresh_for_each_release(tmp_path: Path) -> None:
    """Of 40 units with one pair each, two releases with next to no noise sample different ones (chance below 1e-9)."""
    rows = [(f"u{n}", f"f{n}", "x") for n in range(40)]
    made = plan(
        budget=Budget(1000, 1e-4),
        bounds=Bounds(pairs=1),
        sample_rate="0.5",
        public_labels=["x"],
        public_features=[f"f{n}" for n in range(40)],
    )
    ledger = Ledger(tmp_path / "a.ledger", limit=Budget(10_000, 1e-2))
    one, two = (ddpmi.release(observe(table(rows)), made, ledger=ledger).pairs["sum"].to_pylist() for _ in range(2))
    assert [value > 128 for value in one] != [value > 128 for value in two]


def test_a_sampled_plan_survives_a_round_trip() -> None:
    """The rate is restored exactly and is part of the digest."""
    plans = [plan(), plan(sample_rate=None), plan(sample_rate=Fraction(1, 3)), plan(sample_rate="0.31")]
    assert [Plan.from_dict(made.to_dict()) for made in plans] == plans
    assert len({made.digest for made in plans}) == len(plans)


def test_explain_says_what_sampling_does() -> None:
    """The rate, the inner guarantee and the thresholds in everybody's counts are in the text."""
    text = plan().explain(sql=True)
    assert "each unit takes part with probability 0.3" in text
    assert f"epsilon={float(plan().inner_budget.epsilon)!r}" in text
    assert "coins" in text


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 1.5, float("nan"), "x", 1e-12, True])
def test_a_rate_that_makes_no_sense_is_refused(wrong: object) -> None:
    """It is an InputError with a hint."""
    with pytest.raises(InputError, match="Hint:"):
        plan(sample_rate=wrong)


def test_a_rate_below_delta_is_refused() -> None:
    """The sample's delta would reach 1."""
    with pytest.raises(InputError, match="too small for delta"):
        plan(budget=Budget(1, 0.01), sample_rate=0.01)


def test_counts_of_units_cannot_be_sampled() -> None:
    """Without a unit there is nobody to toss a coin for."""
    made = plan(bounds=Bounds(pairs=1), distinct="units")
    with pytest.raises(InputError, match="no unit"):
        made.steps(counted=True)


def test_totals_of_a_sampled_release_stand_for_all_units() -> None:
    """What half of the units sum to is shown doubled, with the noise of the receipt."""
    rows = pa.table({"unit": [str(n) for n in range(4000)], "feature": ["f"] * 4000, "label": ["a", "b"] * 2000})
    made = plan(sample_rate="0.5", budget=Budget(8, 1e-4), bounds=Bounds(pairs=1))
    ranking = ddpmi.rank(seeded_release(ddpmi.observe(rows), made, seed=1))
    assert 3000 < ranking.total < 5000
    assert all(1500 < row["joint"] < 2500 for row in ranking.to_dicts())


def test_counts_cannot_be_sampled_or_selected() -> None:
    """Refused before the ledger is asked."""
    counts = pa.table({"feature": ["f"], "label": ["a"], "count": [7]})
    for options in ({"sample_rate": "0.5"}, {"selection": "set_union"}):
        made = plan(bounds=Bounds(pairs=1), distinct="units", **options)
        with pytest.raises(ddpmi.InputError, match="no units to sample"):
            ddpmi.release(ddpmi.observe_counts(counts), made, ledger=None)
