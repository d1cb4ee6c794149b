"""A plan as text and as numbers."""

from __future__ import annotations

import pytest

from ddpmi import Bounds, Budget, Plan
from ddpmi.pipeline.dialects import DUCKDB, SPARK
from ddpmi.pipeline.steps import Step
from ddpmi.planning.explain import explain, plan_numbers

BUDGET = Budget(1, 1e-7)


def test_explain_names_everything_that_will_happen() -> None:
    """Shares, scales, threshold, guarantee, cost and SQL are in the text."""
    text = Plan(budget=BUDGET, bounds=Bounds(pairs=50, clip=100), distinct=True).explain(sql=True)
    for part in (
        "epsilon=1, delta=1e-07",
        "0.85",
        "0.04",
        "sigma",
        "A pair needs about",
        "rho=",
        "0..100",
        "distinct",
        "-- joint",
        "Relies on",
    ):
        assert part in text


def test_the_threshold_in_words_is_the_threshold_in_the_plan() -> None:
    """The number of units in words is the threshold divided by what one unit with full weight adds."""
    plan = Plan(budget=BUDGET, bounds=Bounds(pairs=1), distinct="units")
    assert f"about {plan.calibration.tables['pairs'].threshold} units" in plan.explain()
    plan = Plan(budget=BUDGET, bounds=Bounds(pairs=5))
    assert f"about {int(plan.calibration.tables['pairs'].threshold / 256) + 1} units" in plan.explain()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"public_labels": ["a", "b"]}, "public_labels: 2 labels are known"),
        ({"public_labels": ["a"], "public_features": ["f"]}, "zeros too (with noise); there is no threshold"),
        ({"labels_only": ["a"]}, "labels_only: 1 labels are ranked"),
        ({"grid": True, "public_labels": ["a"]}, "A feature needs about"),
        ({"grid": True}, "grid: features and labels are selected by their totals"),
        ({"grid": True}, "A label needs about"),
        ({"complete": True}, "Then every pair of features and labels that have such a pair"),
        ({"complete": True}, "complete: all other pairs of features and labels"),
        ({"grid": True, "public_features": ["f"]}, "grid: labels are selected by their totals"),
        ({"marginals": "other"}, "marginals: the sum of suppressed pairs"),
        ({"space": "units"}, "space: units are counted"),
    ],
)
def test_explain_has_a_line_for_each_option(options: dict[str, object], line: str) -> None:
    """What a plan does differently is said in words."""
    assert line in Plan(budget=BUDGET, bounds=Bounds(pairs=5), **options).explain()


@pytest.mark.parametrize(
    ("options", "advised"),
    [
        ({}, True),
        ({"public_labels": ["a", "b"]}, True),
        ({"bounds": Bounds(pairs=1), "distinct": "units"}, False),
        ({"bounds": Bounds(pairs=1), "distinct": "units", "public_labels": ["a", "b"]}, True),
        ({"grid": True}, False),
        ({"complete": True}, False),
        ({"marginals": "other"}, False),
        ({"thresholds": "every"}, False),
        ({"selection": "sips"}, False),
        ({"public_labels": ["a", "b"], "grid": True}, False),
        ({"public_labels": ["a", "b"], "public_features": ["f"]}, False),
    ],
)
def test_explain_recommends_completion_where_it_was_measured_to_help(
    options: dict[str, object], *, advised: bool
) -> None:
    """It is advised where labels are public or units have several pairs, and pairs below the threshold are suppressed."""
    plan = Plan(**({"budget": BUDGET, "bounds": Bounds(pairs=5)} | options))
    assert ("complete=True also releases all other pairs" in plan.explain()) == advised


@pytest.mark.parametrize(("options", "advised"), [({}, True), ({"grid": True}, False), ({"complete": True}, False)])
def test_explain_speaks_of_hints_where_a_unit_has_one_pair(options: dict[str, object], *, advised: bool) -> None:
    """Whether a grid would release more depends on numbers that a plan does not have."""
    plan = Plan(budget=BUDGET, bounds=Bounds(pairs=1), **options)
    assert ("suggest decides this from public hints" in plan.explain()) == advised


def test_explain_shows_the_steps_and_the_engine_that_will_run() -> None:
    """Counts and expressions have steps of their own; without them those of plain columns are shown."""
    plan = Plan(budget=BUDGET, bounds=Bounds(pairs=1), distinct="units")
    usual, counted = explain(plan, DUCKDB, steps=plan.steps()), plan.steps(SPARK, counted=True)
    assert usual == plan.explain(sql=True)
    text = explain(plan, SPARK, steps=counted, encoding=None)
    assert "SQL (spark)" in text
    assert "Text files" not in text
    for step in counted:
        assert all(f"  {line}" in text for line in step.sql.splitlines())
    own = explain(plan, DUCKDB, steps=[Step(name="own", shape="(unit)", sql="SELECT unit FROM rows")])
    assert own.endswith("  -- own : (unit)\n  SELECT unit FROM rows\n")
    assert own.split("SQL (")[0] == usual.split("SQL (")[0]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_numbers_are_those_of_the_calibration(mechanism: str) -> None:
    """Each table has its mechanism, share, scale, deviation and threshold; the parameters restore the plan."""
    plan = Plan(budget=BUDGET, bounds=Bounds(pairs=5), mechanism=mechanism)  # type: ignore[arg-type]
    numbers = plan_numbers(plan)
    assert Plan.from_dict(numbers) == plan
    for name, noise in plan.calibration.tables.items():
        table = numbers["tables"][name]
        assert list(table) == ["mechanism", "share", "scale", "sd_user", "threshold"]
        assert table["mechanism"] == f"discrete_{mechanism}"
        assert table["sd_user"] == noise.mechanism.sd * float(plan.step)
        assert (table["share"], table["threshold"]) == (float(noise.share), noise.threshold)
