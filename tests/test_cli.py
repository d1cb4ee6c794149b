"""The command line: releases, plans, exact sums and help."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli_fixtures import (
    BUDGET,
    CANARY,
    PAIRS,
    Place,
    visits,
)
from ddpmi.cli import main
from ddpmi.cli_options import settings_of
from ddpmi.errors import InputError
from ddpmi.releases import Release
from make_cli_reference import (  # type: ignore[import-not-found]  # known to the type checker as tests.make_cli_reference
    REFERENCE,
    commands,
    help_of,
    reference,
)

COLUMNS = [
    *("label", "feature", "rank", "rank_in_label", "rank_in_feature", "direction", "mi", "mi_low", "mi_high"),
    *("joint", "feature_total", "label_total", "share_in", "share_out", "lift"),
]


def test_release_and_rank(place: Place) -> None:
    """A release is written and charged, says so on stderr alone, and its ranking finds the planted features."""
    ran = place.release()
    assert (ran.code, ran.out, place.charges()) == (0, "", ["released"])
    assert "Released 4 pairs to visits.release." in ran.err
    ranked = place.run("rank", "visits.release", "--format", "json")
    rows = json.loads(ranked.out)
    assert (ranked.code, ranked.err, list(rows[0])) == (0, "", COLUMNS)
    best = {(row["label"], row["feature"]) for row in rows if row["rank_in_label"] == 1}
    assert best == {("north", "only north"), ("south", "only south")}


def test_other_names_of_the_columns(place: Place) -> None:
    """The paper's names are accepted as options."""
    place.write("paper.csv", [(f"{u}", "a", "x", 2) for u in range(500)], head="who,what,where,much")
    named = ("--id", "who", "--feature", "what", "--partition", "where", "--observation", "much", "--clip", "5")
    assert place.release(*named, data="paper.csv").code == 0
    assert Release.load("visits.release").receipt["guarantee"]["unit"] == "who"


def test_numbers_stay_exact(place: Place) -> None:
    """Epsilon, clip and step reach the plan as the decimals that were typed."""
    words = ("--epsilon", "0.1", "--delta", "1e-7", *PAIRS, "--value", "v", "--clip", "0.3", "--step", "0.1")
    told = json.loads(place.run("plan", *words, "--format", "json").out)
    assert (told["budget"], told["bounds"]["clip"], told["bounds"]["step"]) == (
        {"epsilon": "0.1", "delta": "1e-07"},
        "3/10",
        "1/10",
    )


def test_all_options_of_a_plan(place: Place) -> None:
    """Each option changes the plan it is said to change."""
    shares = "pairs=0.6,features=0.2,labels=0.1,total=0.1"
    bounds = ("--pairs", "3", "--labels", "2", "--cap", "9", "--strategy", "scale")
    words = (*bounds, "--mechanism", "laplace", "--shares", shares, "--distinct")
    told = json.loads(place.run("plan", "visits.csv", *BUDGET, *words, "--format", "json").out)
    assert told["bounds"] == {"pairs": 3, "clip": None, "step": "1", "labels": 2, "cap": 9, "strategy": "scale"}
    assert (told["mechanism"], told["distinct"]) == ("laplace", True)
    assert told["shares"] == {"pairs": "0.6", "features": "0.2", "labels": "0.1", "total": "0.1"}
    assert told["tables"]["pairs"]["threshold"] > 0
    assert told["tables"]["total"]["threshold"] is None


def test_plan_costs_nothing(place: Place) -> None:
    """A plan explains itself on stdout, and the ledger does not move."""
    ran = place.run("plan", "visits.csv", *BUDGET, *PAIRS)
    assert (ran.code, ran.err, place.charges()) == (0, "", [])
    assert "Guarantee" in ran.out


def test_one_row_per_unit_needs_no_pairs(place: Place) -> None:
    """--distinct=units means one pair per unit, so --pairs may be left out."""
    told = json.loads(place.run("plan", *BUDGET, "--distinct=units", "--format", "json").out)
    assert (told["bounds"]["pairs"], told["distinct"]) == (1, "units")


def test_distinct_takes_no_word(place: Place) -> None:
    """The bare flag before a path does not swallow the path."""
    ran = place.run("plan", "--distinct", "visits.csv", *BUDGET, *PAIRS, "--format", "json")
    assert (ran.code, json.loads(ran.out)["distinct"]) == (0, True)


def test_several_files_and_settings(place: Place) -> None:
    """Several paths are one relation, and the engine's settings are passed on."""
    place.write("more.csv", visits())
    conf = ("--conf", "threads=1", "--conf", "memory_limit=1GB", "--conf", f"temp_directory={place.folder}")
    ran = place.run("release", "visits.csv", "more.csv", *BUDGET, *PAIRS, *place.paid("two.release"), *conf)
    assert (ran.code, place.names() & {"two.release"}) == (0, {"two.release"})


def test_a_retry_returns_the_stored_release(place: Place) -> None:
    """The same release id is charged once, and the second call draws nothing."""
    assert place.release("--release-id", "monday").code == 0
    before = Path("visits.release/pairs/part-0.parquet").read_bytes()
    ran = place.release("--release-id", "monday")
    assert (ran.code, place.charges()) == (0, ["released"])
    assert "nothing was charged" in ran.err
    assert Path("visits.release/pairs/part-0.parquet").read_bytes() == before


def test_an_empty_release_warns(place: Place) -> None:
    """Nothing to show is no error: exit 0, one warning with the threshold in units, a hint, and the charge.

    A single unit passes the threshold with a probability of at most half of delta, 5e-7.
    """
    place.write("one.csv", [(f"{CANARY}-1", "a", "x")])
    ran = place.release(data="one.csv")
    assert (ran.code, place.charges()) == (0, ["released"])
    assert ran.err.count("Warning:") == 1
    assert "units" in ran.err
    assert "Hint: raise --epsilon" in ran.err
    ranked = place.run("rank", "visits.release", "--format", "json")
    assert (ranked.code, json.loads(ranked.out)) == (0, [])
    assert "Warning:" in ranked.err


def test_rows_never_raise(place: Place) -> None:
    """NULL, NaN, infinite, negative and huge values, and NULL keys, are released like any other."""
    odd = ["", "nan", "inf", "-inf", "-5", "1e300", "text", "3"]
    rows: list[tuple[object, ...]] = [(unit, "a", "x", odd[unit % len(odd)]) for unit in range(2000)]
    rows += [("", "a", "x", 1), (1, "", "x", 1), (1, "a", "", 1)]
    place.write("odd.csv", rows, head="unit,feature,label,value")
    ran = place.release("--value", "value", "--clip", "10", data="odd.csv")
    assert (ran.code, "Error" in ran.err) == (0, False)
    assert Release.load("visits.release").pairs.column("feature").to_pylist() == ["a"]


def test_run_does_it_all(place: Place) -> None:
    """`run` releases, ranks and reports, and prints the best pairs."""
    ran = place.run("run", "visits.csv", *BUDGET, *PAIRS, *place.paid("visits.release"), "--top", "1")
    assert (ran.code, place.charges()) == (0, ["released"])
    assert {"visits.release", "visits.release.html"} <= place.names()
    assert "only north" in ran.out
    assert "2 of 4 pairs" in ran.out


def test_run_takes_another_page(place: Place) -> None:
    """--report names the page."""
    words = (*BUDGET, *PAIRS, *place.paid("visits.release"), "--report", "page.html")
    assert place.run("run", "visits.csv", *words).code == 0
    assert "page.html" in place.names()


def test_exact_is_stamped(place: Place) -> None:
    """Exact sums say NOT PRIVATE on stderr, in the receipt and in every way to print their ranking."""
    ran = place.run("exact", "visits.csv", "-o", "visits.exact")
    assert (ran.code, ran.out) == (0, "")
    assert "NOT PRIVATE" in ran.err
    assert "NOT PRIVATE" in place.run("receipt", "visits.exact").out
    for form in ("table", "csv", "json"):
        assert "NOT PRIVATE" in place.run("rank", "visits.exact", "--format", form).out, form
    assert place.run("rank", "visits.exact", "-o", "ranking.parquet").code == 0
    assert pq.read_table("ranking.parquet").column("notice")[0].as_py() == "NOT PRIVATE"
    assert place.charges() == []


def test_exact_bounds_only_when_asked(place: Place) -> None:
    """Without bounds each pair counts; a bound of one label drops the others."""
    place.write("wide.csv", [("u", "a", label) for label in "xyz"])
    assert place.run("exact", "wide.csv", "-o", "free").code == 0
    assert place.run("exact", "wide.csv", "-o", "bound", "--pairs", "5", "--labels", "1").code == 0
    assert (Release.load("free").pairs.num_rows, Release.load("bound").pairs.num_rows) == (3, 1)


@pytest.mark.parametrize("command", commands(), ids=lambda name: name or "ddpmi")
def test_help_has_an_example(command: str) -> None:
    """Every command says what it does, with an example to paste."""
    text = help_of(command)
    assert "Example:" in text
    assert f"ddpmi {command}".strip() in text.split("Example:")[1]


def test_the_reference_is_up_to_date() -> None:
    """docs/cli-reference.md is what `python -m tests.make_cli_reference` writes."""
    assert REFERENCE.read_text(encoding="utf-8") == reference()


def test_no_command_is_help(place: Place) -> None:
    """The bare program prints its help."""
    ran = place.run()
    assert (ran.code, "Usage: ddpmi" in ran.out) == (0, True)


def test_main_reads_the_words_of_the_process(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments `main` takes those of the process."""
    monkeypatch.setattr(sys, "argv", ["ddpmi", "rank", "nowhere"])
    assert main() == 2


@pytest.mark.parametrize("text", ["threads", "=2", "threads=", " = ", ""])
def test_options_refuse_half_a_pair(text: str) -> None:
    """KEY=VALUE needs both sides."""
    with pytest.raises(InputError, match="takes KEY=VALUE"):
        settings_of("--conf", [text], "threads=2")
