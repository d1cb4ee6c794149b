"""Each option of the command line does what the library does with it, and is refused before anything is spent."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

import ddpmi
from cli_fixtures import (
    BUDGET,
    CANARY,
    PAIRS,
    Place,
    drinks,
    told_clearly,
)
from ddpmi import cli_show
from ddpmi.releases import Release
from ddpmi.statements import render

ONE = ddpmi.Budget("1", "1e-6")
TWO_PAIRS = ddpmi.Bounds(pairs=2)


def plan_of(told: dict) -> ddpmi.Plan:
    """Restore the plan from what `plan --format json` printed."""
    return ddpmi.Plan.from_dict({name: told[name] for name in ("format", *(f.name for f in fields(ddpmi.Plan)))})


def tables_of(release: Release) -> list:
    """Return everything that a release holds, as plain values."""
    return [release.pairs.to_pylist(), release.features.to_pylist(), release.labels.to_pylist(), release.total]


@pytest.fixture(name="lists")
def make_lists(place: Place) -> Place:
    """Add public lists, and data with a value, a day and counts."""
    (place.folder / "labels.txt").write_text("south\nnorth\nwest\n", encoding="utf-8")
    (place.folder / "features.txt").write_text("everyone\nonly north\nnobody\n", encoding="utf-8")
    place.write("days.csv", drinks(), head="who,drink,day,cups")
    counts = [("tea", "uk", 4000), ("tea", "nz", 900), ("mate", "uk", 700), ("mate", "nz", 2500), ("mate", "nz", 10)]
    place.write("counts.csv", counts, head="feature,label,units")
    return place


LABELS, FEATURES = ["north", "south", "west"], ["everyone", "nobody", "only north"]
PLANS = {
    "public labels": (("--public-labels", "labels.txt"), {"public_labels": LABELS}),
    "public features": (("--public-features", "features.txt"), {"public_features": FEATURES}),
    "both lists": (
        ("--public-labels", "labels.txt", "--public-features", "features.txt"),
        {"public_labels": LABELS, "public_features": FEATURES},
    ),
    "labels only": (("--labels-only", "west", "--labels-only", "north"), {"labels_only": ["north", "west"]}),
    "a label like an option": (("--labels-only=--x",), {"labels_only": ["--x"]}),
    "grid": (("--grid", "--public-labels", "labels.txt"), {"grid": True, "public_labels": LABELS}),
    "grid alone": (("--grid",), {"grid": True}),
    "complete": (("--complete",), {"complete": True}),
    "marginals": (("--marginals", "other"), {"marginals": "other"}),
    "units": (("--space", "units"), {"space": "units"}),
}


@pytest.mark.parametrize(("words", "keywords"), PLANS.values(), ids=PLANS)
def test_plans_are_those_of_the_library(lists: Place, words: tuple[str, ...], keywords: dict) -> None:
    """An option gives the plan that its keyword gives, in `plan` and in `release`."""
    expected = ddpmi.Plan(budget=ONE, bounds=TWO_PAIRS, **keywords)
    told = lists.run("plan", "visits.csv", *BUDGET, *PAIRS, *words, "--format", "json")
    assert plan_of(json.loads(told.out)) == expected
    assert lists.run("plan", *BUDGET, *PAIRS, *words).out == expected.explain()
    ran = lists.release(*words)
    assert (ran.code, lists.charges()) == (0, ["released"]), ran.err
    assert Release.load("visits.release").receipt["plan_digest"] == expected.digest


def test_the_papers_way_is_a_word(lists: Place) -> None:
    """--paper gives the plan of `Plan.paper`, beside other options that do not contradict it."""
    expected = ddpmi.Plan.paper(budget=ONE, bounds=TWO_PAIRS, distinct=True)
    assert lists.release("--paper", "--distinct").code == 0
    assert Release.load("visits.release").receipt["plan_digest"] == expected.digest
    spelled = ("--strategy", "sample", "--mechanism", "laplace", "--thresholds", "every")
    assert lists.run("plan", *BUDGET, *PAIRS, "--distinct", "--paper", *spelled).out == expected.explain()


SUGGESTED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "several pairs": (("units=1e4,labels=3,pairs_per_unit=9",), {"pairs_per_unit": 9}),
    "a bound": (("units=1e4,labels=3,pairs_per_unit=9", *PAIRS), {"pairs_per_unit": 9, "bounds": TWO_PAIRS}),
    "noise": (("units=1e4,labels=3", "--mechanism", "gaussian"), {"mechanism": "gaussian"}),
    "what is shown": (("units=1e4,labels=3,pairs_per_unit=9", "--grid"), {"pairs_per_unit": 9, "grid": True}),
    "one row": (("units=1e4,labels=3", "--distinct=units"), {"distinct": "units"}),
}


@pytest.mark.parametrize(("words", "keywords"), SUGGESTED.values(), ids=SUGGESTED)
def test_hints_give_the_plan_that_the_library_suggests(lists: Place, words: tuple[str, ...], keywords: dict) -> None:
    """--suggest is `Plan.suggest`, and what is named beside it is settled, in `plan` and in `release`."""
    expected = ddpmi.Plan.suggest(budget=ONE, units=10**4, labels=3, **keywords)
    assert lists.run("plan", *BUDGET, "--suggest", *words).out == expected.explain()
    ran = lists.run("release", "visits.csv", *BUDGET, *lists.paid("visits.release"), "--suggest", *words)
    assert ran.code == 0, ran.err
    assert Release.load("visits.release").receipt["plan_digest"] == expected.digest


def test_known_keys_all_appear(lists: Place) -> None:
    """With both lists every pair of them is released, and `run` takes the same options."""
    words = ("--public-labels", "labels.txt", "--public-features", "features.txt")
    ran = lists.run("run", "visits.csv", *BUDGET, *PAIRS, *lists.paid("visits.release"), *words)
    assert ran.code == 0, ran.err
    found = Release.load("visits.release")
    pairs = {(row["feature"], row["label"]) for row in found.pairs.to_pylist()}
    assert pairs == {(feature, label) for feature in FEATURES for label in LABELS}


def test_both_lists_need_no_delta(lists: Place) -> None:
    """Where nothing is thresholded delta may be 0, as in Python."""
    words = ("--public-labels", "labels.txt", "--public-features", "features.txt")
    told = lists.run("plan", "--epsilon", "1", "--delta", "0", *PAIRS, *words, "--format", "json")
    assert json.loads(told.out)["threshold_in_units"] == 0


def test_an_empty_grid_speaks_of_features(lists: Place) -> None:
    """What a grid thresholds is features, and the warning says so.

    A single unit passes the threshold with a probability of at most half of delta, 5e-7.
    """
    lists.write("one.csv", [(f"{CANARY}-1", "a", "north")])
    ran = lists.release("--grid", "--public-labels", "labels.txt", data="one.csv")
    assert (ran.code, "no feature reached the threshold" in ran.err) == (0, True)
    assert "no label reached" not in ran.err
    ran = lists.release("--grid", data="one.csv", output="alone.release")
    assert (ran.code, "no feature reached" in ran.err, "or no label reached" in ran.err) == (0, True, True)


DAYS = {"unit": "who", "feature": "drink", "label": "day"}
DAY_WORDS = ("--unit", "who", "--feature", "drink", "--label", "day")
ROWS = {
    "where": ((*DAY_WORDS, "--where", "drink <> 'Mate'"), DAYS | {"where": "drink <> 'Mate'"}),
    "feature": (
        ("--unit", "who", "--feature-sql", "lower(drink)", "--label", "day"),
        DAYS | {"feature": ddpmi.sql("lower(drink)")},
    ),
    "label": (
        ("--unit", "who", "--feature", "drink", "--label-sql", "year(CAST(day AS DATE))"),
        DAYS | {"label": ddpmi.sql("year(CAST(day AS DATE))")},
    ),
    "unit": (
        ("--unit-sql", "substr(who, 1, 8)", "--feature", "drink", "--label", "day"),
        DAYS | {"unit": ddpmi.sql("substr(who, 1, 8)")},
    ),
    "value": (
        (*DAY_WORDS, "--value-sql", "CAST(cups AS INT) * 2"),
        DAYS | {"value": ddpmi.sql("CAST(cups AS INT) * 2")},
    ),
}


@pytest.mark.parametrize(("words", "keywords"), ROWS.values(), ids=ROWS)
def test_expressions_are_those_of_the_library(lists: Place, words: tuple[str, ...], keywords: dict) -> None:
    """An expression gives the sums that `observe` with `sql` gives."""
    ran = lists.run("exact", "days.csv", *words, "-o", "days.exact")
    assert ran.code == 0, ran.err
    expected = ddpmi.exact(ddpmi.observe("days.csv", **keywords))
    assert len(expected.pairs) > 1
    assert tables_of(Release.load("days.exact")) == tables_of(expected)
    clip = ("--clip", "9") if "--value-sql" in words else ()
    assert lists.run("plan", "days.csv", *BUDGET, *PAIRS, *words, *clip).code == 0


def test_expressions_are_part_of_a_release(lists: Place) -> None:
    """A release id stands for its expressions and filter: others are refused without a charge."""
    words = ("--release-id", "monday", "--label-sql", "upper(label)")
    assert lists.release(*words, "--where", "label = 'north'").code == 0
    assert Release.load("visits.release").pairs["label"].to_pylist() == ["NORTH", "NORTH"]
    ran = lists.release(*words, "--where", "label = 'south'")
    assert (ran.code, told_clearly(ran), lists.charges()) == (1, True, ["released"])


@pytest.mark.parametrize("bounds", [(), ("--pairs", "2")])
def test_exact_counts_units(lists: Place, bounds: tuple[str, ...]) -> None:
    """`exact --space units` is that of the library, and a value needs no clip there."""
    words = (*DAY_WORDS, "--value", "cups", "--space", "units", *bounds)
    assert lists.run("exact", "days.csv", *words, "-o", "days.exact").code == 0
    obs = ddpmi.observe("days.csv", **DAYS, value="cups")
    expected = ddpmi.exact(obs, space="units", bounds=TWO_PAIRS if bounds else None)
    assert tables_of(Release.load("days.exact")) == tables_of(expected)


def test_values_need_no_clip_where_units_are_counted(lists: Place) -> None:
    """A private release of units takes a value column and ignores it."""
    ran = lists.release(*DAY_WORDS, "--value", "cups", "--space", "units", data="days.csv")
    assert (ran.code, lists.charges()) == (0, ["released"]), ran.err


def test_counts(lists: Place) -> None:
    """--count observes counts, implies one row per unit, and a release says what it relies on."""
    ran = lists.run("release", "counts.csv", "--count", "units", *BUDGET, *lists.paid("counts.release"))
    assert (ran.code, lists.charges()) == (0, ["released"]), ran.err
    expected = ddpmi.Plan(budget=ONE, bounds=ddpmi.Bounds(pairs=1), distinct="units")
    receipt = Release.load("counts.release").receipt
    assert receipt["plan_digest"] == expected.digest
    assert "The owner declares that each unit was counted once, in one row." in str(receipt)
    assert lists.run("exact", "counts.csv", "--count", "units", "-o", "counts.exact").code == 0
    sums = ddpmi.exact(ddpmi.observe_counts("counts.csv", count="units"))
    assert tables_of(Release.load("counts.exact")) == tables_of(sums)
    assert sums.total == 8110


@pytest.mark.parametrize("words", [("--pairs", "1"), ("--labels", "1"), ("--distinct=units",), ("--space", "units")])
def test_counts_may_say_what_they_imply(lists: Place, words: tuple[str, ...]) -> None:
    """What --count implies may also be written out."""
    assert lists.run("plan", "counts.csv", "--count", "units", *BUDGET, *words).code == 0


def test_a_plan_shows_the_sql_that_will_run(lists: Place) -> None:
    """Counts have no unit, and expressions that may merge rows bring back the step that --distinct spares."""
    counted = ddpmi.Plan(budget=ONE, bounds=ddpmi.Bounds(pairs=1), distinct="units")
    for words in (("counts.csv",), ()):
        told = lists.run("plan", *words, "--count", "units", *BUDGET).out
        assert squeezed(render(counted.steps(counted=True))) in squeezed(told)
    merged = ddpmi.Plan(budget=ONE, bounds=TWO_PAIRS, distinct=True)
    told = lists.run("plan", "visits.csv", "--label-sql", "upper(label)", "--distinct", *BUDGET, *PAIRS).out
    assert squeezed(render(merged.steps(merged_keys=True))) in squeezed(told)
    assert squeezed(merged.sql()) not in squeezed(told)


def squeezed(text: str) -> str:
    """Take the indentation off each line."""
    return "\n".join(line.strip() for line in text.splitlines())


PLAIN = ("visits.csv", *BUDGET, *PAIRS)
DAYS_PLAIN = ("days.csv", *DAY_WORDS, *BUDGET, *PAIRS)
COUNTS = ("counts.csv", "--count", "units", *BUDGET)
REFUSED = {
    "no such list": ((*PLAIN, "--public-labels", "nowhere.txt"), "there is no file nowhere.txt"),
    "a folder as list": ((*PLAIN, "--public-features", "."), "there is no file"),
    "empty name of a list": ((*PLAIN, "--public-features", ""), "there is no file"),
    "empty label": ((*PLAIN, "--labels-only", "a", "--labels-only", ""), "--labels-only is empty"),
    "grid with both lists": (
        (*PLAIN, "--grid", "--public-labels", "labels.txt", "--public-features", "features.txt"),
        "both are known beforehand",
    ),
    "complete without a threshold": ((*PLAIN, "--complete", "--grid"), "leave --complete out"),
    "grid and other": (
        (*PLAIN, "--grid", "--public-labels", "labels.txt", "--marginals", "other"),
        "nothing to add",
    ),
    "labels only and public labels": (
        (*PLAIN, "--labels-only", "a", "--public-labels", "labels.txt"),
        "both given",
    ),
    "units and other": ((*PLAIN, "--space", "units", "--marginals", "other"), "sums events"),
    "units and a clip": ((*PLAIN, "--space", "units", "--clip", "5"), "ignores values"),
    "units, a value and a clip": (
        (*DAYS_PLAIN, "--space", "units", "--value", "cups", "--clip", "5"),
        "ignores values",
    ),
    "unknown space": ((*PLAIN, "--space", "rows"), "--space"),
    "unknown marginals": ((*PLAIN, "--marginals", "all"), "--marginals"),
    "a value without clip": ((*DAYS_PLAIN, "--value-sql", "CAST(cups AS INT)"), "needs a clip"),
    "a clip without value": ((*DAYS_PLAIN, "--clip", "5"), "no value column"),
    "unit twice": ((*PLAIN, "--unit", "unit", "--unit-sql", "unit"), "--unit and --unit-sql"),
    "feature twice": ((*PLAIN, "--feature", "a", "--feature-sql", "a"), "--feature and --feature-sql"),
    "label twice": ((*PLAIN, "--partition", "a", "--label-sql", "a"), "--label and --label-sql"),
    "value twice": ((*PLAIN, "--value", "a", "--value-sql", "a", "--clip", "1"), "--value and --value-sql"),
    "empty name": ((*PLAIN, "--feature", ""), "--feature is empty"),
    "empty name of counts": (("counts.csv", "--count", "", *BUDGET), "--count is empty"),
    "empty expression": ((*PLAIN, "--label-sql", " "), "a text of SQL"),
    "empty where": ((*PLAIN, "--where", ""), "a text of SQL"),
    "a subquery": ((*PLAIN, "--where", "label IN (SELECT label FROM source)"), "where"),
    "a window": ((*PLAIN, "--label-sql", "first(label) OVER ()"), "window"),
    "an aggregate": ((*PLAIN, "--feature-sql", "max(feature)"), "feature"),
    "a where that is no test": ((*PLAIN, "--where", "length(label)"), "true or false"),
    "a where on a missing column": ((*PLAIN, "--where", "town = 'x'"), "no column 'town'"),
    "broken SQL": ((*PLAIN, "--where", "label = = 'x'"), "not one SQL expression"),
    "random numbers": ((*PLAIN, "--unit-sql", "random()"), "random"),
    "units merged but declared distinct": ((*PLAIN, "--unit-sql", "lower(unit)", "--distinct"), "declared distinct"),
    "count with unit": ((*COUNTS, "--unit", "unit"), "--count and --unit were"),
    "count with an expression of units": ((*COUNTS, "--unit-sql", "label"), "--count and --unit-sql"),
    "count with value": ((*COUNTS, "--value", "units", "--clip", "1"), "--count and --value were"),
    "count with where": ((*COUNTS, "--where", "label = 'uk'"), "--count and --where"),
    "count with pairs": ((*COUNTS, "--pairs", "2"), "got --pairs 2"),
    "count with labels": ((*COUNTS, "--labels", "2"), "got --labels 2"),
    "count with clip": ((*COUNTS, "--clip", "2"), "no value column"),
    "count with distinct rows": ((*COUNTS, "--distinct"), "implies --distinct=units"),
    "counts in a missing column": (("counts.csv", "--count", "devices", *BUDGET), "no column 'devices'"),
}


@pytest.mark.parametrize(("words", "told"), REFUSED.values(), ids=REFUSED)
def test_wrong_usage(lists: Place, words: tuple[str, ...], told: str) -> None:
    """What cannot be used ends with exit 2, one message, a hint, no file and no charge; plans refuse it too."""
    before = lists.names()
    for command, more in (("release", lists.paid("new")), ("plan", ())):
        ran = lists.run(command, *words, *more)
        assert (ran.code, told_clearly(ran), told in ran.err) == (2, True, True), ran.err
        assert "3141" not in ran.err
    assert (lists.names(), lists.charges()) == (before, [])


OTHERS = {
    "exact takes no lists": ("exact", "visits.csv", "-o", "new", "--public-labels", "labels.txt"),
    "exact with units and a clip": (
        *("exact", "days.csv", *DAY_WORDS, "--value", "cups", "--space", "units"),
        *("--pairs", "2", "--clip", "3", "-o", "new"),
    ),
    "exact with bounds but no clip": ("exact", "days.csv", *DAY_WORDS, "--value", "cups", *PAIRS, "-o", "new"),
    "exact with counts and pairs": ("exact", "counts.csv", "--count", "units", *PAIRS, "-o", "new"),
    "exact with two roles": ("exact", "visits.csv", "--label", "label", "--label-sql", "label", "-o", "new"),
    "plan with where but without data": ("plan", *BUDGET, *PAIRS, "--where", "a = 'b'"),
    "plan with an expression but without data": ("plan", *BUDGET, *PAIRS, "--label-sql", "a"),
    "compare with one release": ("compare", "visits.csv"),
    "compare with no release": ("compare", "visits.csv", "visits.csv"),
    "report of no release": ("report", "visits.csv", "-o", "page.html"),
    "report without a page": ("report", "visits.csv"),
}


@pytest.mark.parametrize("words", OTHERS.values(), ids=OTHERS)
def test_wrong_usage_elsewhere(lists: Place, words: tuple[str, ...]) -> None:
    """The other commands refuse in the same way."""
    before = lists.names()
    ran = lists.run(*words)
    assert (ran.code, told_clearly(ran)) == (2, True), ran.err
    assert (lists.names(), lists.charges()) == (before, [])


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("public_labels=['a', 'b'], or leave it out", "--public-labels FILE, or leave it out"),
        ("observe_counts(data, count='units')", "--count units"),
        ('label=sql("year(visited)")', '--label-sql "year(visited)"'),
        ("where=\"country = 'NZ'\"", "--where \"country = 'NZ'\""),
        (
            "leave grid out: every pair of known keys is released",
            "leave --grid out: every pair of known keys is released",
        ),
        ('score="chi2"', "--score chi2"),
        ("space='units'", "--space units"),
    ],
)
def test_hints_speak_in_options(hint: str, expected: str) -> None:
    """Hints of the library are translated into what can be typed here."""
    assert cli_show.in_options(hint) == expected
