"""Plans: free, exact, printable and restorable."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest
import sqlglot

import ddpmi
from ddpmi import Bounds, Budget, InputError, Plan
from ddpmi.pipeline.dialects import DUCKDB
from ddpmi.planning.plan import default_shares

BUDGET = Budget(1, 1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mechanism": "laplace"},
        {"bounds": Bounds(pairs=3, clip="0.3", step="0.1", labels=2)},
        {"bounds": Bounds(pairs=1), "distinct": "units"},
        {"distinct": True, "row_local": True},
        {"shares": {"pairs": 0.4, "features": 0.3, "labels": 0.2, "total": 0.1}},
        {"budget": Budget(Fraction(1, 3), 1e-9)},
    ],
)
def test_a_plan_survives_a_round_trip(options: dict[str, object]) -> None:
    """from_dict restores the same plan with the same digest."""
    plan = Plan(**{"budget": BUDGET, "bounds": Bounds(pairs=50), **options})
    restored = Plan.from_dict(plan.to_dict())
    assert (restored, restored.digest) == (plan, plan.digest)


#: What an earlier version wrote for a plan with three pairs and two labels, Gaussian noise and defaults.
OLD_DIGESTS = {
    "events": "032076b9068e7d063efcc9613940d90ce46de7ed2866c24849676963d8e949a4",
    "units": "2b20183e87dae1d121bdd79ae6cdf52628033861f6b4f1e2a7ca837413c35a66",
}


def old_plan(space: str) -> Plan:
    """A plan as an earlier version wrote it, without the field that says how units are counted."""
    made = Plan(budget=BUDGET, bounds=Bounds(pairs=3, labels=2), mechanism="gaussian", space=space)
    return Plan.from_dict({name: value for name, value in made.to_dict().items() if name != "weighted"})


@pytest.mark.parametrize("space", OLD_DIGESTS)
def test_old_plans_keep_their_digest_and_their_meaning(space: str) -> None:
    """Those that count events are plans of today; those that count units have labels and total on the grid 1."""
    old = old_plan(space)
    assert (old.space, old.digest) == (space, OLD_DIGESTS[space])
    now = Plan(budget=BUDGET, bounds=Bounds(pairs=3, labels=2), mechanism="gaussian", space=space)
    assert (old == now) == (space == "events")
    if space == "units":
        moved = old.calibration.sensitivities
        assert [moved[name].l2_squared for name in ("labels", "total")] == [2, 1]
        assert [old.step_of(name) for name in ("labels", "pairs")] == [Fraction(1), Fraction(1, 256)]
        assert now.step_of("labels") == Fraction(1, 256)


def test_an_old_plan_that_counts_units_is_not_released_again() -> None:
    """Its sums are no longer computed, and a release of it would mean something else."""
    with pytest.raises(InputError, match="as an older version did"):
        old_plan("units").steps()


def test_an_old_plan_shares_no_pass_with_a_new_one() -> None:
    """Its noise is made for one count in labels and in the total, where the sums of today move by 256."""
    rows = pa.table({"unit": ["u"], "feature": ["f"], "label": ["x"]})
    now = Plan(budget=BUDGET, bounds=Bounds(pairs=3, labels=2), mechanism="gaussian", space="units")
    assert now.sums != old_plan("units").sums
    with pytest.raises(InputError, match="sum differently"):
        ddpmi.release_many(ddpmi.observe(rows), [now, old_plan("units")], ledger=None)
    with pytest.raises(InputError, match="as an older version did"):
        ddpmi.release(ddpmi.observe(rows), old_plan("units"), ledger=None)


@pytest.mark.parametrize(
    ("options", "space"),
    [
        ({}, "units"),
        ({"bounds": Bounds(pairs=3, clip=5)}, "events"),
        ({"marginals": "other"}, "events"),
        ({"space": "events"}, "events"),
        ({"space": "units"}, "units"),
        ({"bounds": Bounds(pairs=1), "distinct": "units"}, "units"),
    ],
)
def test_units_are_counted_unless_something_speaks_for_events(options: dict[str, object], space: str) -> None:
    """A clip, the remainders, or the plan itself; the paper's way too. The stored plan says which."""
    made = Plan(**{"budget": BUDGET, "bounds": Bounds(pairs=3), **options})
    assert (made.space, made.to_dict()["space"]) == (space, space)
    assert Plan.paper(budget=BUDGET, bounds=Bounds(pairs=3)).space == "events"


def test_any_changed_parameter_changes_the_digest() -> None:
    """The digest depends on all parameters."""
    plans = [
        Plan(budget=BUDGET, bounds=Bounds(pairs=50)),
        Plan(budget=Budget(2, 1e-7), bounds=Bounds(pairs=50)),
        Plan(budget=BUDGET, bounds=Bounds(pairs=51)),
        Plan(budget=BUDGET, bounds=Bounds(pairs=50, labels=2)),
        Plan(budget=BUDGET, bounds=Bounds(pairs=50), mechanism="laplace"),
        Plan(budget=BUDGET, bounds=Bounds(pairs=50), distinct=True),
    ]
    assert len({plan.digest for plan in plans}) == len(plans)


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": 1},
        {"bounds": {"pairs": 5}},
        {"mechanism": "uniform"},
        {"distinct": "rows"},
        {"distinct": "units"},
        {"shares": {"pairs": 1}},
        {"shares": {"pairs": 0.7, "features": 0.23, "labels": 0.06, "total": 0.02}},
        {"shares": {"pairs": 1, "features": 0, "labels": 0, "total": 0}},
        {"shares": 0.5},
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_with_a_hint(wrong: dict[str, object]) -> None:
    """Each wrong parameter is an InputError that says what to do."""
    with pytest.raises(InputError, match="Hint:"):
        Plan(**{"budget": BUDGET, "bounds": Bounds(pairs=50), **wrong})


def test_a_plan_of_another_format_is_refused() -> None:
    """A newer plan is not half understood."""
    with pytest.raises(InputError, match="format"):
        Plan.from_dict({**Plan(budget=BUDGET, bounds=Bounds(pairs=50)).to_dict(), "format": 99})


def test_a_plan_holds_the_mechanism_and_shares_that_were_chosen() -> None:
    """What is stored says what will be done: "auto" and missing shares are replaced by what they mean, and survive a round trip."""
    light, heavy = (Plan(budget=BUDGET, bounds=Bounds(pairs=pairs)) for pairs in (1, 50))
    assert (light.mechanism, heavy.mechanism) == ("laplace", "gaussian")
    assert (light.shares, heavy.shares) == (default_shares("laplace"), default_shares("gaussian"))
    assert [Plan.from_dict(plan.to_dict()) for plan in (light, heavy)] == [light, heavy]
    listed, found = (
        Plan(budget=BUDGET, bounds=Bounds(pairs=50), grid=True, public_labels=labels) for labels in (["a"], None)
    )
    assert (listed.shares, found.shares) == (heavy.shares, default_shares("gaussian", finding_labels=True))


def test_given_shares_are_kept_for_both_mechanisms() -> None:
    """Shares of the user are never replaced by defaults."""
    shares = {"pairs": 0.4, "features": 0.3, "labels": 0.2, "total": 0.1}
    for pairs in (1, 50):
        made = Plan(budget=BUDGET, bounds=Bounds(pairs=pairs), shares=shares)
        assert [float(share) for share in made.shares.values()] == [0.4, 0.3, 0.2, 0.1]


def test_the_papers_way_samples_splits_equally_and_thresholds_everything() -> None:
    """The preset is a plan like any other: it has a cost, a digest and a round trip, and takes other fields."""
    made = Plan.paper(budget=BUDGET, bounds=Bounds(pairs=50, cap=60), row_local=True)
    assert (made.bounds.strategy, made.bounds.cap, made.mechanism, made.thresholds) == (
        "sample",
        50,
        "laplace",
        "every",
    )
    assert len(set(made.shares.values())) == 1
    assert made.cost.epsilon == 1
    assert Plan.from_dict(made.to_dict()) == made
    assert "thresholds: features and labels" in made.explain()


@pytest.mark.parametrize("strategy", ["scale", "sample"])
@pytest.mark.parametrize("clip", [None, 5])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_step_is_sql_that_other_engines_can_parse(strategy, clip, mechanism) -> None:
    """The text stays within what DuckDB, Spark and PostgreSQL all read."""
    plan = Plan(budget=BUDGET, bounds=Bounds(pairs=5, clip=clip, strategy=strategy), mechanism=mechanism)
    for step in plan.steps(DUCKDB):
        for dialect in ("duckdb", "spark", "postgres"):
            assert sqlglot.parse_one(step.sql.replace("$salt", "'s'"), read=dialect) is not None


def test_relies_on_says_what_was_taken_on_trust() -> None:
    """Declarations of the owner are listed, and nothing else is."""
    assert Plan(budget=BUDGET, bounds=Bounds(pairs=5)).relies_on == []
    assert len(Plan(budget=BUDGET, bounds=Bounds(pairs=5), distinct=True, row_local=True).relies_on) == 2


def test_equal_plans_have_equal_digests() -> None:
    """A number that equals True is kept as True, in the plan and in its receipt."""
    one, true = (Plan(budget=BUDGET, bounds=Bounds(pairs=5), grid=grid, row_local=grid) for grid in (1, True))
    assert one.to_dict()["grid"] is True
    assert (one, one.digest) == (true, true.digest)


def test_a_field_that_came_later_changes_no_earlier_plan() -> None:
    """Plans without it keep the digest that they had before it existed, and texts of that time can be read."""
    plain, whole = (Plan(budget=BUDGET, bounds=Bounds(pairs=5), complete=c) for c in (False, True))
    text = plain.to_dict()
    assert text.pop("complete") is False
    assert Plan.from_dict(text) == plain
    assert plain.digest == hashlib.sha256(json.dumps(text, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert whole.digest != plain.digest


def test_the_short_form_makes_the_same_plan() -> None:
    """epsilon, delta and the fields of the bounds may be given in place of a budget and bounds."""
    short = Plan(epsilon=1, delta=1e-7, pairs=50, labels=2, clip=3, cap=60, distinct=True)
    bounds = Bounds(pairs=50, labels=2, clip=3, cap=60)
    assert short == Plan(budget=Budget(1, 1e-7), bounds=bounds, distinct=True)
    assert (Plan(epsilon=1, pairs=5).budget, replace(short, complete=True).bounds) == (Budget(1, 1e-8), bounds)


@pytest.mark.parametrize(
    "given",
    [
        {"budget": Budget(1), "epsilon": 1, "pairs": 5},
        {"delta": 1e-7, "pairs": 5},
        {"epsilon": 1, "bounds": Bounds(pairs=5), "pairs": 5},
        {"epsilon": 1, "clip": 5},
        {"epsilon": 1},
        {"pairs": 5},
    ],
)
def test_the_short_form_is_whole_and_given_once(given: dict[str, object]) -> None:
    """What is missing or given twice is refused, with an example."""
    with pytest.raises(InputError, match="A plan takes") as caught:
        Plan(**given)
    assert "Plan(epsilon=1" in caught.value.hint
