"""Plans that follow from a look: valid for every outcome, within the budget, and as declared."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

from ddpmi import Budget, InputError
from ddpmi.pipeline.looks import BUCKETS
from ddpmi.planning.auto import AutoPlan, Histogram, Look
from ddpmi.privacy.accounting import RHO_GRID, Limit, Total, admits, epsilon_for

AUTO = AutoPlan.of(epsilon=1)


def histogram(filled: dict[int, int], scale: float = 40.0) -> Histogram:
    return Histogram(counts=tuple(filled.get(at, 0) for at in range(len(BUCKETS))), scale=scale)


def look(pairs: dict[int, int], labels: dict[int, int] | None = None) -> Look:
    return Look(labels=None if labels is None else histogram(labels), pairs=histogram(pairs))


def outcomes(step: int) -> list[Look]:
    """Every bucket of the median, each place in it, and every highest bucket, by a step; few, some or many labels."""
    found = []
    buckets = range(0, len(BUCKETS), step)
    for usual, highest, labels in itertools.product(buckets, buckets, (0, 10, 20)):
        for before in (0, 9000):
            pairs = {usual: 10_000}
            if usual:
                pairs[usual - 1] = before
            if highest > usual:
                pairs[highest] = 400
            found.append(look(pairs, {labels: 10_000}))
    return found


AUTOS = {
    "plain": AUTO,
    "tiny": AutoPlan.of(epsilon="1e-6"),
    "large": AutoPlan.of(epsilon=1000),
    "values": AutoPlan.of(epsilon=1, clip=10**6, step="0.5"),
    "fine": AutoPlan.of(epsilon=1, clip=9 * 10**7),
    "grid": AutoPlan.of(epsilon=1, grid=True),
    "lists": AutoPlan.of(epsilon=1, delta=0, public_labels=("a", "b"), public_features=("f",)),
    "every": AutoPlan.of(epsilon=1, thresholds="every"),
    "other": AutoPlan.of(epsilon=1, marginals="other", labels=3),
}


def check(auto: AutoPlan, found: Look) -> None:
    plan = auto.resolve(found)
    assert plan.bounds.cap <= 32 * plan.bounds.pairs
    assert plan.budget == auto.rest(plan.mechanism_name)
    assert plan.cost == auto.example(plan.mechanism_name).cost
    assert auto.labels in (None, plan.bounds.labels)


@pytest.mark.parametrize("name", AUTOS)
def test_every_outcome_gives_a_valid_plan(name: str) -> None:
    """Whatever a look finds, a plan follows that could run and costs what was asked for; here for every tenth bucket."""
    for found in [*outcomes(10), look({}), look({}, {})]:
        check(AUTOS[name], found)


@pytest.mark.full
@pytest.mark.parametrize("name", AUTOS)
def test_every_outcome_gives_a_valid_plan_everywhere(name: str) -> None:
    """The same for every bucket."""
    seen = set()
    for found in outcomes(1):
        key = AUTOS[name].bounds(found)
        if key not in seen:
            seen.add(key)
            check(AUTOS[name], found)


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_gives_a_valid_plan(seed: int) -> None:
    """Histograms of pure noise, negative counts too, lead to a plan."""
    counts = np.random.default_rng(seed).laplace(0, 40, (2, 21)).round().astype(int).tolist()
    pairs, labels = (Histogram(counts=tuple(row), scale=40.0) for row in counts)
    check(AUTO, Look(labels=labels, pairs=pairs))


def test_half_of_the_usual_pairs_count_in_full() -> None:
    """K is half of the median, which is found in its bucket."""
    usual = {at: look({at: 5000}).pairs.usual for at in range(7)}
    assert usual == {0: 1, 1: 2, 2: 3, 3: 6, 4: 12, 5: 24, 6: 48}
    assert [AUTO.resolve(look({at: 5000}, {0: 5000})).bounds.pairs for at in range(5)] == [1, 1, 2, 3, 6]


def test_a_distant_bucket_of_noise_is_left_out() -> None:
    """One bucket of four deviations far from all others moves neither the median nor the cap; seven deviations do."""
    quiet = histogram({2: 4000, 3: 4000})
    near, far = histogram({2: 4000, 3: 4000, 15: 226}), histogram({2: 4000, 3: 4000, 15: 400})
    assert (near.filled, near.most, far.most) == (quiet.filled, 8, 2**15)


def test_labels_are_kept_for_nearly_all_units() -> None:
    """The cap of labels covers 95% of the units."""
    assert AUTO.label_cap(histogram({0: 9600, 3: 400})) == 1
    assert AUTO.label_cap(histogram({0: 9000, 3: 1000})) == 8


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-8"), (1, 1e-8), (1, 1e-6), (8, "1e-7"), (0.5, 1e-12)])
@pytest.mark.parametrize("labels", [None, 1])
def test_look_and_rest_keep_to_the_budget(epsilon: float, delta: float, labels: int | None) -> None:
    """A ledger with the whole budget as its limit admits both parts, and nothing of their kind beside them."""
    auto = AutoPlan.of(epsilon=epsilon, delta=delta, labels=labels)
    limit = Limit.of(auto.budget)
    for name in auto.possible:
        total = Total().plus(auto.look_cost)
        assert admits(limit, total, auto.example(name).cost)
        assert not admits(limit, total.plus(auto.example(name).cost), auto.look_cost)


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", 1, 5])
def test_the_rest_of_the_rho_converts_to_the_budget(epsilon: float) -> None:
    """The rhos of look and rest convert to at most epsilon at half of delta, and little is wasted."""
    auto = AutoPlan.of(epsilon=epsilon, mechanism="gaussian")
    rho = auto.look_cost.rho + auto.example("gaussian").cost.rho
    whole = epsilon_for(Fraction(-(-rho * RHO_GRID // 1), RHO_GRID), auto.budget.delta / 2)
    assert auto.budget.epsilon * Fraction(999, 1000) < whole <= auto.budget.epsilon


def test_gaussian_noise_is_left_out_where_the_look_would_use_its_rho() -> None:
    """With a huge epsilon or without a delta the rest gets Laplace noise."""
    assert AutoPlan.of(epsilon=1, delta=0, public_labels=["a"], public_features=["f"]).possible == ("laplace",)
    assert AutoPlan.of(epsilon=1, mechanism="gaussian").possible == ("gaussian",)


def test_a_look_never_uses_more_than_a_quarter() -> None:
    """More epsilon would not change the plan."""
    assert (AutoPlan.of(epsilon=100).look_epsilon, AUTO.look_epsilon) == (Fraction(1, 4), Fraction(1, 40))


def test_lists_are_completed_where_units_have_several_pairs() -> None:
    """The other pairs are shown too, unless that was declared or does not go with the thresholds."""
    several, one = look({2: 5000}, {0: 5000}), look({0: 5000}, {0: 5000})
    assert (AUTO.resolve(several).complete, AUTO.resolve(one).complete) == (True, False)
    for auto in (AutoPlan.of(epsilon=1, complete=False), AUTOS["every"], AUTOS["other"], AUTOS["grid"], AUTOS["lists"]):
        assert not auto.resolve(several).complete


@pytest.mark.parametrize("name", AUTOS)
def test_declarations_are_restored(name: str) -> None:
    """What was declared passes through JSON and keeps its digest."""
    auto = AUTOS[name]
    again = AutoPlan.from_dict(json.loads(json.dumps(auto.to_dict())))
    assert (again, again.digest) == (auto, auto.digest)
    assert auto.digest != AutoPlan.of(epsilon=2).digest


def test_equal_declarations_are_equal() -> None:
    """The order of a list does not matter."""
    first, second = (AutoPlan.of(epsilon=1, public_labels=names) for names in (["b", "a"], ("a", "b")))
    assert (first, first.digest) == (second, second.digest)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"selection": "set_union"}, "selection finds features"),
        ({"sample_rate": 0.1}, "sample_rate reads a sample"),
        ({"pairs": 3}, "pairs is what the look chooses"),
        ({"distinct": "units"}, "nothing to look for"),
        ({"nonsense": 1}, "no option 'nonsense'"),
        ({"grid": True, "public_labels": ["a"], "public_features": ["f"]}, "grid=True selects"),
        ({"labels": 0}, "labels must be"),
        ({"epsilon": "1e-7"}, "at least 1e-6"),
    ],
)
def test_options_that_do_not_go_with_a_look_are_refused(options: dict[str, object], said: str) -> None:
    """They are refused before anything is read, with what to do."""
    with pytest.raises(InputError, match=said) as caught:
        AutoPlan.of(**{"epsilon": 1, **options})
    assert caught.value.advice is not None


def test_few_units_show_nothing() -> None:
    """If no bucket stands out of the noise the release is not worth its charge, unless nothing has a threshold."""
    noise, units = look({3: 100}, {0: 150}), look({3: 100}, {0: 1000})
    assert [AUTO.shows(found, AUTO.resolve(found)) for found in (noise, units)] == [False, True]
    assert AUTOS["lists"].shows(noise, AUTOS["lists"].resolve(noise))


def test_the_text_says_what_may_follow() -> None:
    """A plan without bounds explains the look, what may follow, and both charges."""
    text = AUTO.explain()
    for part in (
        "First a private look",
        "charged twice",
        "epsilon=0.05 for the look",
        "a pair needs about",
        "usual pairs",
    ):
        assert part in text, part
    assert "pair_look" not in text
    assert "pair_look" in AUTO.explain(sql=True)


def test_histograms_are_checked() -> None:
    """A histogram has one whole number for each bucket."""
    with pytest.raises(InputError, match="21 whole numbers"):
        Histogram(counts=(1, 2), scale=1.0)


def test_budgets_are_budgets() -> None:
    """The parts are budgets of their own: the look has no delta."""
    assert (AUTO.look_budget, AUTO.rest("laplace")) == (Budget("0.05"), Budget("0.95", "1e-8"))
