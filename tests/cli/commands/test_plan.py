"""`ddpmi plan` prints what a release would do, and costs nothing."""

from __future__ import annotations

import json

import ddpmi
from ddpmi.pipeline.steps import render
from tests.support.cli_fixtures import BUDGET, PAIRS, Place


def test_all_options_of_a_plan(place: Place) -> None:
    """Each option changes its part of the plan."""
    shares = "pairs=0.6,features=0.2,labels=0.1,total=0.1"
    bounds = ("--pairs", "3", "--labels", "2", "--cap", "9", "--strategy", "scale")
    words = (*bounds, "--mechanism", "laplace", "--shares", shares, "--distinct")
    printed = json.loads(place.run("plan", "visits.csv", *BUDGET, *words, "--format", "json").out)
    assert printed["bounds"] == {"pairs": 3, "clip": None, "step": "1", "labels": 2, "cap": 9, "strategy": "scale"}
    assert (printed["mechanism"], printed["distinct"]) == ("laplace", True)
    assert printed["shares"] == {"pairs": "0.6", "features": "0.2", "labels": "0.1", "total": "0.1"}
    assert printed["tables"]["pairs"]["threshold"] > 0
    assert printed["tables"]["total"]["threshold"] is None


def test_plan_costs_nothing(place: Place) -> None:
    """A plan is printed to stdout, and the ledger is not charged."""
    ran = place.run("plan", "visits.csv", *BUDGET, *PAIRS)
    assert (ran.code, ran.err, place.charges()) == (0, "", [])
    assert "Guarantee" in ran.out


def test_one_row_per_unit_needs_no_pairs(place: Place) -> None:
    """--distinct=units means one pair per unit, so --pairs may be left out."""
    printed = json.loads(place.run("plan", *BUDGET, "--distinct=units", "--format", "json").out)
    assert (printed["bounds"]["pairs"], printed["distinct"]) == (1, "units")


ONE = ddpmi.Budget("1", "1e-6")
TWO_PAIRS = ddpmi.Bounds(pairs=2)


def test_a_plan_shows_the_sql_that_will_run(lists: Place) -> None:
    """Counts have no unit. Expressions may merge rows, so the step that --distinct skips runs again."""
    counted = ddpmi.Plan(budget=ONE, bounds=ddpmi.Bounds(pairs=1), distinct="units")
    for words in (("counts.csv",), ()):
        printed = lists.run("plan", *words, "--count", "units", *BUDGET, "--sql").out
        assert squeezed(render(counted.steps(counted=True))) in squeezed(printed)
    merged = ddpmi.Plan(budget=ONE, bounds=TWO_PAIRS, distinct=True)
    printed = lists.run("plan", "visits.csv", "--label-sql", "upper(label)", "--distinct", *BUDGET, *PAIRS, "--sql").out
    assert squeezed(render(merged.steps(merged_keys=True))) in squeezed(printed)
    assert squeezed(merged.sql()) not in squeezed(printed)


def test_a_plan_is_a_page_without_sql(place: Place) -> None:
    """SQL is printed only where it is asked for."""
    plain, whole = (place.run("plan", *BUDGET, *PAIRS, *more).out for more in ((), ("--sql",)))
    assert "SELECT" not in plain
    assert whole.startswith(plain)
    assert "SELECT" in whole


def test_a_plan_without_pairs_describes_the_look(place: Place) -> None:
    """Without --pairs a look will choose; text and JSON say what it costs, and nothing is read or charged."""
    ran = place.run("plan", "visits.csv", *BUDGET)
    assert (ran.code, "First a private look" in ran.out, "SELECT" in ran.out) == (0, True, False)
    assert "pair_look" in place.run("plan", *BUDGET, "--sql").out
    numbers = json.loads(place.run("plan", *BUDGET, "--format", "json").out)
    assert (numbers["histograms"], numbers["epsilon_of_each"], place.charges()) == (2, 0.025, [])


def squeezed(text: str) -> str:
    """Take the indentation off each line."""
    return "\n".join(line.strip() for line in text.splitlines())


def test_plans_print_sparks_sql(place: Place) -> None:
    """A plan for Spark prints what Spark will run, and starts nothing without data."""
    ran = place.run("plan", "--engine", "spark", *BUDGET, *PAIRS, "--sql")
    assert ran.code == 0
    assert "SQL (spark)" in ran.out
    assert "AS STRING" in ran.out
    assert "VARCHAR" not in ran.out


def test_plans_are_simulated(place: Place) -> None:
    """Hints give a table or JSON over epsilons; nothing is read, and wrong hints are named."""
    words = ("plan", "--simulate", "units=50000,labels=4,features=100", *BUDGET, "--pairs", "1")
    text = place.run(*words)
    assert (text.code, "Nothing was read." in text.out) == (0, True)
    printed = json.loads(place.run(*words, "--format", "json").out)
    assert [row["epsilon"] for row in printed["rows"]] == [0.1, 0.5, 1, 2, 4, 8]
    assert printed["hints"]["units"] == 50_000
    wrong = place.run("plan", "--simulate", "people=5", *BUDGET, "--pairs", "1")
    assert (wrong.code, "got 'people=5'" in wrong.err) == (2, True)
