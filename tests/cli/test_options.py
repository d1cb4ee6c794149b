"""Each option does what the library does with it, and is refused before any budget is spent."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

import ddpmi
from ddpmi.cli.options import settings_of
from ddpmi.errors import InputError
from ddpmi.releases.release import Release
from tests.support.cli_fixtures import BUDGET, CANARY, DAY_WORDS, DAYS, PAIRS, Place, refused_clearly, tables_of

ONE = ddpmi.Budget("1", "1e-6")
TWO_PAIRS = ddpmi.Bounds(pairs=2)


def plan_of(printed: dict) -> ddpmi.Plan:
    """Restore the plan from what `plan --format json` printed."""
    return ddpmi.Plan.from_dict({name: printed[name] for name in ("format", *(f.name for f in fields(ddpmi.Plan)))})


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
    printed = lists.run("plan", "visits.csv", *BUDGET, *PAIRS, *words, "--format", "json")
    assert plan_of(json.loads(printed.out)) == expected
    assert lists.run("plan", *BUDGET, *PAIRS, *words).out == expected.explain()
    ran = lists.release(*words)
    assert (ran.code, lists.charges()) == (0, ["released"]), ran.err
    assert Release.load("visits.release").receipt["plan_digest"] == expected.digest


def test_paper_is_the_plan_of_the_paper(lists: Place) -> None:
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
    """--suggest is `Plan.suggest`, and options given beside it are kept, in `plan` and in `release`."""
    expected = ddpmi.Plan.suggest(budget=ONE, units=10**4, labels=3, **keywords)
    usual = keywords.get("pairs_per_unit")
    assert lists.run("plan", *BUDGET, "--suggest", *words).out == expected.explain(pairs_per_unit=usual)
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
    """Without a threshold delta may be 0, as in Python."""
    words = ("--public-labels", "labels.txt", "--public-features", "features.txt")
    printed = lists.run("plan", "--epsilon", "1", "--delta", "0", *PAIRS, *words, "--format", "json")
    assert json.loads(printed.out)["threshold_in_units"] == 0


def test_an_empty_grid_names_features(lists: Place) -> None:
    """A grid has a threshold on features, and the warning names it.

    A single unit passes the threshold with a probability of at most half of delta, 5e-7.
    """
    lists.write("one.csv", [(f"{CANARY}-1", "a", "north")])
    ran = lists.release("--grid", "--public-labels", "labels.txt", data="one.csv")
    assert (ran.code, "no feature reached the threshold" in ran.err) == (0, True)
    assert "no label reached" not in ran.err
    ran = lists.release("--grid", data="one.csv", output="alone.release")
    assert (ran.code, "no feature reached" in ran.err, "or no label reached" in ran.err) == (0, True, True)


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
    """A release id belongs to its expressions and filter: others are refused without a charge."""
    words = ("--release-id", "monday", "--label-sql", "upper(label)")
    assert lists.release(*words, "--where", "label = 'north'").code == 0
    assert Release.load("visits.release").pairs["label"].to_pylist() == ["NORTH", "NORTH"]
    ran = lists.release(*words, "--where", "label = 'south'")
    assert (ran.code, refused_clearly(ran), lists.charges()) == (1, True, ["released"])


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


@pytest.mark.parametrize(
    ("words", "keywords"),
    [(("--sample-rate", "0.5"), {"sample_rate": "0.5"}), (("--selection", "sips"), {"selection": "sips"})],
)
def test_sampling_and_selection_are_those_of_the_library(place: Place, words: tuple[str, ...], keywords: dict) -> None:
    """The flags make the plan that Python makes, and a release with them runs."""
    assert place.release(*words).code == 0
    receipt = json.loads((place.folder / "visits.release" / "receipt.json").read_text())
    expected = ddpmi.Plan(budget=ddpmi.Budget("1", "1e-6"), bounds=ddpmi.Bounds(pairs=2), **keywords)
    assert receipt["plan"] == expected.to_dict()


@pytest.mark.parametrize("words", [("--sample-rate", "0"), ("--sample-rate", "1.5"), ("--selection", "x")])
def test_wrong_sampling_and_selection_are_refused(place: Place, words: tuple[str, ...]) -> None:
    """Exit 2, and nothing is charged."""
    assert place.release(*words).code == 2
    assert place.charges() == []


def test_other_names_of_the_columns(place: Place) -> None:
    """The paper's names are accepted as options."""
    place.write("paper.csv", [(f"{u}", "a", "x", 2) for u in range(500)], head="who,what,where,much")
    named = ("--id", "who", "--feature", "what", "--partition", "where", "--observation", "much", "--clip", "5")
    assert place.release(*named, data="paper.csv").code == 0
    assert Release.load("visits.release").receipt["guarantee"]["unit"] == "who"


def test_numbers_stay_exact(place: Place) -> None:
    """Epsilon, clip and step reach the plan as the decimals that were typed."""
    words = ("--epsilon", "0.1", "--delta", "1e-7", *PAIRS, "--value", "v", "--clip", "0.3", "--step", "0.1")
    printed = json.loads(place.run("plan", *words, "--format", "json").out)
    assert (printed["budget"], printed["bounds"]["clip"], printed["bounds"]["step"]) == (
        {"epsilon": "0.1", "delta": "1e-07"},
        "3/10",
        "1/10",
    )


@pytest.mark.parametrize("text", ["threads", "=2", "threads=", " = ", ""])
def test_options_refuse_half_a_pair(text: str) -> None:
    """KEY=VALUE needs both sides."""
    with pytest.raises(InputError, match="takes KEY=VALUE"):
        settings_of("--conf", [text], "threads=2")
