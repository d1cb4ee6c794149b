"""The command line keeps its promises: exit codes, streams, hints, and never a row or a traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_fixtures import (
    BUDGET,
    CANARY,
    PAIRS,
    SRC,
    Place,
    in_its_own_process,
    make_empty_ledger,  # noqa: F401 - a fixture
    make_place,  # noqa: F401 - a fixture
    told_clearly,
    visits,
)
from ddpmi import cli_show, cli_steps
from ddpmi.cli import main
from ddpmi.cli_options import settings_of
from ddpmi.errors import InputError
from ddpmi.ledger import Ledger
from ddpmi.releases import Release
from make_cli_reference import (  # type: ignore[import-not-found]  # known to the type checker as tests.make_cli_reference
    REFERENCE,
    commands,
    help_of,
    reference,
)

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = [
    *("label", "feature", "rank", "rank_in_label", "rank_in_feature", "direction", "mi", "mi_low", "mi_high"),
    *("joint", "feature_total", "label_total", "share_in", "share_out", "lift"),
]


# -- what works ---------------------------------------------------------------------------------------------


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


# -- ranking ------------------------------------------------------------------------------------------------


@pytest.fixture
def ranked(place: Place) -> Place:
    """Make an exact release with names that are hostile, ten features for each of two labels."""
    rows: list[tuple[object, ...]] = []
    for unit in range(60):
        label = ("x", "y")[unit % 2]
        rows += [(unit, f"f{number:02}", label) for number in range(12) if (unit * 7 + number) % 5]
    rows += [(unit, "[red]\x1b[31m=SUM(A1)", "x") for unit in range(0, 60, 2)]
    place.write("names.csv", rows)
    assert place.run("exact", "names.csv", "-o", "names").code == 0
    return place


def test_tables_show_ten_and_files_show_all(ranked: Place) -> None:
    """A table keeps ten of each label; csv, json and parquet keep everything unless --top is given."""
    rows = json.loads(ranked.run("rank", "names", "--format", "json").out)
    assert [row["rank"] for row in rows] == list(range(1, 26))
    assert "20 of 25 pairs" in ranked.run("rank", "names").out
    assert len(json.loads(ranked.run("rank", "names", "--format", "json", "--top", "3").out)) == 6
    assert len(ranked.run("rank", "names", "--format", "csv", "--top", "3", "--per", "all").out.splitlines()) == 4


def test_per_and_direction(ranked: Place) -> None:
    """--per groups the rows and --direction keeps one of them."""
    rows = json.loads(ranked.run("rank", "names", "--format", "json", "--per", "feature").out)
    names = [row["feature"] for row in rows]
    assert names == sorted(names)
    for word in ("presence", "absence"):
        rows = json.loads(ranked.run("rank", "names", "--format", "json", "--direction", word).out)
        assert {row["direction"] for row in rows} == {word}


def test_base_and_method(ranked: Place) -> None:
    """--base 2 gives bits, and the paper's method agrees on exact sums."""
    nats, bits, paper = (
        json.loads(ranked.run("rank", "names", "--format", "json", *words).out)[0]["mi"]
        for words in ((), ("--base", "2"), ("--method", "paper"))
    )
    assert bits == pytest.approx(nats / np.log(2))
    assert paper == pytest.approx(nats)


def test_narrow_terminals_keep_names_whole(ranked: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns shows fewer numbers, and no line is longer."""
    monkeypatch.setattr(cli_show, "_width", lambda: 80)
    narrow = ranked.run("rank", "names").out
    assert "interval" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    monkeypatch.setattr(cli_show, "_width", lambda: 120)
    assert "interval" in ranked.run("rank", "names").out


def test_names_are_printed_literally(ranked: Place) -> None:
    """Markup is not read, control characters are escaped, and no CSV cell starts a formula."""
    table = ranked.run("rank", "names").out
    assert r"[red]\x1b[31m=SUM(A1)" in table
    assert "\x1b" not in table
    ranked.write("sum.csv", [(unit, "=SUM(A1)", "x") for unit in range(9)])
    assert ranked.run("exact", "sum.csv", "-o", "sum").code == 0
    assert '"\'=SUM(A1)"' in ranked.run("rank", "sum", "--format", "csv").out


def test_files_of_a_ranking(ranked: Place) -> None:
    """-o writes the format that was named, or the one of its ending, and prints nothing."""
    for words in (("-o", "a.csv"), ("-o", "b.txt", "--format", "csv"), ("-o", "c.txt"), ("-o", "d.json")):
        ran = ranked.run("rank", "names", *words)
        assert (ran.code, ran.out) == (0, "")
    assert Path("a.csv").read_bytes() == Path("b.txt").read_bytes()
    assert "20 of 25 pairs" in Path("c.txt").read_text(encoding="utf-8")
    assert len(json.loads(Path("d.json").read_text(encoding="utf-8"))) == 25


def test_receipt(place: Place) -> None:
    """A receipt is printed for people, or as the JSON that lies in the folder, with the stable top."""
    place.release()
    text = place.run("receipt", "visits.release").out
    assert "epsilon=1, delta=1e-06" in text
    told = json.loads(place.run("receipt", "visits.release", "--format", "json").out)
    stable = told.pop("stable_top")
    assert stable["confidence"] == 0.95
    assert f"Stable top, 95% sure: {stable['all']}" in text
    assert stable["all"] <= stable["released"]
    assert told == json.loads(Path("visits.release/receipt.json").read_text(encoding="utf-8"))


def test_rank_intervals_and_stable_top(place: Place) -> None:
    """Rank intervals are columns when asked for, and the table ends with the stable top."""
    place.release()
    table = place.run("rank", "visits.release", "--rank-intervals")
    assert "ranks" in table.out
    assert table.out.splitlines()[-1].startswith("Stable top, 95% sure: ")
    rows = json.loads(place.run("rank", "visits.release", "--rank-intervals", "--format", "json").out)
    assert all(row["rank_low"] <= row["rank"] <= row["rank_high"] for row in rows)
    assert "rank_low" not in place.run("rank", "visits.release", "--format", "json").out
    refused = place.run("rank", "visits.release", "--rank-intervals", "--score", "chi2")
    assert (refused.code, "Rank intervals" in refused.err) == (2, True)


def test_orders_and_thresholds(place: Place) -> None:
    """--order lower orders by the lower bound, and --thresholds every puts one on three tables."""
    place.release("--thresholds", "every", "--strategy", "sample", "--mechanism", "laplace")
    rows = json.loads(place.run("rank", "visits.release", "--order", "lower", "--format", "json").out)
    assert [row["mi_low"] for row in rows] == sorted((row["mi_low"] for row in rows), reverse=True)
    tables = json.loads(Path("visits.release/receipt.json").read_text(encoding="utf-8"))["tables"]
    assert [name for name, noise in tables.items() if noise["threshold"] is not None] == ["pairs", "features", "labels"]
    assert place.run("rank", "visits.release", "--order", "best").code == 2


def test_compare_draws(place: Place) -> None:
    """The picture is a new file of a known kind; what cannot be drawn is refused before anything else."""
    place.release()
    drawn = place.run("compare", "visits.release", "visits.release", "--plot", "errors.svg")
    assert (drawn.code, "Drew errors.svg." in drawn.err) == (0, True)
    assert Path("errors.svg").read_text(encoding="utf-8").startswith("<svg")
    for file, said in (("errors.svg", "exists already"), ("errors.pdf", "suffix")):
        refused = place.run("compare", "visits.release", "visits.release", "--plot", file)
        assert (refused.code, said in refused.err) == (2, True)


def test_plans_are_simulated(place: Place) -> None:
    """Hints give a table or JSON over epsilons; nothing is read, and wrong hints are named."""
    words = ("plan", "--simulate", "units=50000,labels=4,features=100", *BUDGET, "--pairs", "1")
    text = place.run(*words)
    assert (text.code, "Nothing was read." in text.out) == (0, True)
    told = json.loads(place.run(*words, "--format", "json").out)
    assert [row["epsilon"] for row in told["rows"]] == [0.1, 0.5, 1, 2, 4, 8]
    assert told["hints"]["units"] == 50_000
    wrong = place.run("plan", "--simulate", "people=5", *BUDGET, "--pairs", "1")
    assert (wrong.code, "got 'people=5'" in wrong.err) == (2, True)


# -- what is refused ----------------------------------------------------------------------------------------


PLAIN = ("visits.csv", *BUDGET, *PAIRS)
REFUSED = {
    "missing file": ("nowhere.csv", *BUDGET, *PAIRS),
    "empty file": ("empty.csv", *BUDGET, *PAIRS),
    "unknown ending": ("data.xlsx", *BUDGET, *PAIRS),
    "missing column": (*PLAIN, "--unit", "who"),
    "column not recognised": ("other.csv", *BUDGET, *PAIRS),
    "same column twice": (*PLAIN, "--feature", "label"),
    "text as value": ("keys.parquet", *BUDGET, *PAIRS, "--unit", "n", "--value", "text", "--clip", "1"),
    "float keys": ("keys.parquet", *BUDGET, *PAIRS),
    "list keys": ("keys.parquet", *BUDGET, *PAIRS, "--unit", "n", "--feature", "list"),
    "epsilon 0": ("visits.csv", "--epsilon", "0", "--delta", "1e-6", *PAIRS),
    "epsilon nan": ("visits.csv", "--epsilon", "nan", "--delta", "1e-6", *PAIRS),
    "epsilon -1": ("visits.csv", "--epsilon", "-1", "--delta", "1e-6", *PAIRS),
    "epsilon subnormal": ("visits.csv", "--epsilon", "1e-320", "--delta", "1e-6", *PAIRS),
    "epsilon inf": ("visits.csv", "--epsilon", "inf", "--delta", "1e-6", *PAIRS),
    "epsilon text": ("visits.csv", "--epsilon", "one", "--delta", "1e-6", *PAIRS),
    "delta 0": ("visits.csv", "--epsilon", "1", "--delta", "0", *PAIRS),
    "delta 1": ("visits.csv", "--epsilon", "1", "--delta", "1", *PAIRS),
    "delta nan": ("visits.csv", "--epsilon", "1", "--delta", "nan", *PAIRS),
    "delta missing": ("visits.csv", "--epsilon", "1", *PAIRS),
    "pairs missing": ("visits.csv", *BUDGET),
    "pairs 0": ("visits.csv", *BUDGET, "--pairs", "0"),
    "pairs text": ("visits.csv", *BUDGET, "--pairs", "two"),
    "pairs with one row per unit": (*PLAIN, "--distinct=units"),
    "cap below pairs": (*PLAIN, "--cap", "1"),
    "unknown strategy": (*PLAIN, "--strategy", "magic"),
    "unknown mechanism": (*PLAIN, "--mechanism", "magic"),
    "unknown distinct": (*PLAIN, "--distinct=rows"),
    "value without clip": (*PLAIN, "--value", "value"),
    "clip without value": (*PLAIN, "--clip", "5"),
    "step without clip": (*PLAIN, "--step", "5"),
    "clip off the grid": (*PLAIN, "--value", "value", "--clip", "1", "--step", "0.3"),
    "shares that lack a table": (*PLAIN, "--shares", "pairs=1"),
    "shares that do not sum to 1": (*PLAIN, "--shares", "pairs=0.7,features=0.2,labels=0.06,total=0.01"),
    "shares without numbers": (*PLAIN, "--shares", "pairs,features"),
    "unknown setting": (*PLAIN, "--conf", "secret=1"),
    "setting without value": (*PLAIN, "--conf", "threads"),
    "setting named twice": (*PLAIN, "--conf", "threads=1", "--conf", "threads=2"),
    "share named twice": (*PLAIN, "--shares", "pairs=0.5,pairs=0.5"),
    "bad setting": (*PLAIN, "--conf", "memory_limit=lots"),
    "bad release id": (*PLAIN, "--release-id", "a b"),
    "empty dataset": (*PLAIN, "--dataset", " "),
    "unknown option": (*PLAIN, "--epsilonn", "1"),
}


@pytest.fixture
def odd_files(place: Place) -> Place:
    """Add files that cannot be used as they are."""
    (place.folder / "empty.csv").touch()
    (place.folder / "data.xlsx").write_bytes(b"PK")
    place.write("other.csv", [(CANARY, CANARY, CANARY)], head="who,what,where")
    table = {"unit": [1.5], "n": [1], "feature": [CANARY], "label": [CANARY], "text": [CANARY], "list": [[CANARY]]}
    pq.write_table(pa.table(table), place.folder / "keys.parquet")
    return place


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_wrong_usage(odd_files: Place, words: tuple[str, ...]) -> None:
    """What cannot be used as given ends with exit 2, one message, a hint, no file and no charge."""
    before = odd_files.names()
    ran = odd_files.run("release", *words, *odd_files.paid("visits.release"))
    assert (ran.code, told_clearly(ran)) == (2, True), ran.err
    assert (odd_files.names(), odd_files.charges()) == (before, [])


OTHERS = {
    "no such command": ("relase",),
    "no such ledger command": ("ledger", "shwo", "visits.ledger"),
    "plan without data but with columns": ("plan", *BUDGET, *PAIRS, "--unit", "who"),
    "plan of a missing column": ("plan", "visits.csv", *BUDGET, *PAIRS, "--unit", "who"),
    "release without ledger": ("release", *PLAIN, "-o", "new"),
    "release without output": ("release", *PLAIN, "--ledger", "visits.ledger"),
    "missing ledger": ("release", *PLAIN, "--ledger", "no.ledger", "-o", "new"),
    "existing folder": ("release", *PLAIN, "--ledger", "visits.ledger", "-o", "taken"),
    "folder in no folder": ("release", *PLAIN, "--ledger", "visits.ledger", "-o", "no/new"),
    "run onto an existing page": ("run", *PLAIN, "--ledger", "visits.ledger", "-o", "new", "--report", "visits.csv"),
    "run with too many rows": ("run", *PLAIN, "--ledger", "visits.ledger", "-o", "new", "--top", "101"),
    "exact into an existing folder": ("exact", "visits.csv", "-o", "taken"),
    "exact with half of the bounds": ("exact", "visits.csv", "-o", "new", "--labels", "1"),
    "exact takes no epsilon": ("exact", "visits.csv", "-o", "new", "--epsilon", "1"),
    "rank of nothing": ("rank", "nowhere"),
    "rank of no release": ("rank", "taken"),
    "receipt of no release": ("receipt", "taken"),
    "existing ledger": ("ledger", "create", "visits.ledger", "--epsilon", "4", "--delta", "1e-5"),
    "ledger in no folder": ("ledger", "create", "no/a.ledger", "--epsilon", "4", "--delta", "1e-5"),
    "ledger without limit": ("ledger", "create", "a.ledger"),
    "ledger with a bad limit": ("ledger", "create", "a.ledger", "--epsilon", "0", "--delta", "1e-5"),
    "show of a missing ledger": ("ledger", "show", "no.ledger"),
    "verify of a missing ledger": ("ledger", "verify", "no.ledger"),
    "export of a missing ledger": ("ledger", "export", "no.ledger"),
}


@pytest.mark.parametrize("words", OTHERS.values(), ids=OTHERS)
def test_wrong_usage_elsewhere(place: Place, words: tuple[str, ...]) -> None:
    """The other commands refuse in the same way."""
    (place.folder / "taken").mkdir()
    before = place.names()
    ran = place.run(*words)
    assert (ran.code, told_clearly(ran)) == (2, True), ran.err
    assert (place.names(), place.charges()) == (before, [])


RANKS = {
    "top 0": ("--top", "0"),
    "base 1": ("--base", "1"),
    "parquet on stdout": ("--format", "parquet"),
    "existing file": ("-o", "visits.csv"),
    "unknown per": ("--per", "unit"),
    "unknown score": ("--score", "magic"),
}


@pytest.mark.parametrize("words", RANKS.values(), ids=RANKS)
def test_wrong_usage_of_rank(ranked: Place, words: tuple[str, ...]) -> None:
    """Ranking refuses what it cannot do."""
    ran = ranked.run("rank", "names", *words)
    assert (ran.code, told_clearly(ran)) == (2, True), ran.err


def test_did_you_mean(place: Place) -> None:
    """A slip of the finger is answered with the right word."""
    assert "Did you mean --epsilon?" in place.run("plan", "--epsilonn", "1").err
    assert 'Did you mean "release"?' in place.run("relase").err


def test_budget_refused(place: Place) -> None:
    """A release that costs too much ends with exit 3, reads nothing, writes nothing and charges nothing."""
    ran = place.run("release", "visits.csv", "--epsilon", "9", "--delta", "1e-6", *PAIRS, *place.paid("new"))
    assert (ran.code, told_clearly(ran), place.charges()) == (3, True, [])
    assert "needs epsilon=9" in ran.err
    assert "The ledger was not charged." in ran.err
    assert "new" not in place.names()


@pytest.mark.parametrize("damage", ["foreign", "cut", "folder"])
def test_a_ledger_that_cannot_be_used(place: Place, damage: str) -> None:
    """A foreign or damaged ledger fails with exit 1 before anything is read."""
    file = place.folder / "bad.ledger"
    whole = (place.folder / "visits.ledger").read_bytes()
    if damage == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"not a ledger" * 100 if damage == "foreign" else whole[: len(whole) // 2])
    ran = place.run("release", *PLAIN, "--ledger", "bad.ledger", "-o", "new")
    assert (ran.code, told_clearly(ran)) == (1, True), ran.err
    assert "new" not in place.names()


def test_a_read_only_ledger(place: Place) -> None:
    """A ledger that cannot be written to cannot be charged."""
    (place.folder / "visits.ledger").chmod(0o444)
    ran = place.release()
    assert (ran.code, told_clearly(ran), place.charges()) == (1, True, [])
    assert "visits.release" not in place.names()


def test_an_id_of_another_plan(place: Place) -> None:
    """A release id stands for one plan: another one is refused without a charge."""
    place.release("--release-id", "monday")
    ran = place.release("--release-id", "monday", "--labels", "2", output="other")
    assert (ran.code, told_clearly(ran), place.charges()) == (1, True, ["released"])
    assert "other" not in place.names()


def test_a_damaged_release(place: Place) -> None:
    """A release that lost a table fails with exit 1."""
    place.release()
    Path("visits.release/pairs/part-0.parquet").unlink()
    ran = place.run("rank", "visits.release")
    assert (ran.code, told_clearly(ran) or "Hint" not in ran.err) == (1, True)


def test_a_data_file_that_breaks_after_the_charge(place: Place) -> None:
    """When reading fails the charge stays, the error says so, and nothing is half written."""
    table = pa.table({name: [f"{CANARY}-{n}" for n in range(50_000)] for name in ("unit", "feature", "label")})
    pq.write_table(table, place.folder / "broken.parquet", compression="none", use_dictionary=False)
    whole = bytearray((place.folder / "broken.parquet").read_bytes())
    whole[4:200_000] = b"\xff" * (200_000 - 4)
    (place.folder / "broken.parquet").write_bytes(whole)
    before = place.names()
    ran = place.release(data="broken.parquet")
    assert (ran.code, told_clearly(ran), place.charges()) == (1, True, ["abandoned"]), ran.err
    assert "The ledger was charged" in ran.err
    assert place.names() == before


# -- the process --------------------------------------------------------------------------------------------


def test_unexpected_errors_show_no_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error nobody thought of is named by its type alone; DDPMI_DEBUG=1 shows the rest."""

    def fails(*_: object) -> None:
        raise TypeError(CANARY)

    monkeypatch.setattr(cli_steps, "load_release", fails)
    ran = place.run("rank", "visits.release")
    assert (ran.code, CANARY in ran.err) == (1, False)
    assert "internal error: TypeError" in ran.err
    monkeypatch.setenv("DDPMI_DEBUG", "1")
    assert CANARY in place.run("rank", "visits.release").err


def test_errors_of_the_disk_are_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the operating system is told in its words."""

    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "visits.release")

    monkeypatch.setattr(cli_steps, "load_release", fails)
    ran = place.run("rank", "visits.release")
    assert (ran.code, told_clearly(ran)) == (1, True)
    assert "Permission denied: visits.release" in ran.err


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("Bounds(pairs=50, clip=100), or --clip 100", "--pairs 50 --clip 100, or --clip 100"),
        ("shares={'pairs': 0.7, 'total': 0.3}", "--shares pairs=0.7,total=0.3"),
        ("--shares pairs=0.7,labels=0.3", "--shares pairs=0.7,labels=0.3"),
        ("pass them as unit=, feature=", "pass them as --unit, --feature"),
        ("release_id='a-1'", "--release-id a-1"),
        ("memory_limit='4GB'", "--conf memory_limit=4GB"),
        ("mkdir -p out", "mkdir -p out"),
    ],
)
def test_hints_speak_in_options(hint: str, expected: str) -> None:
    """Hints of the library are translated into what can be typed here."""
    assert cli_show.in_options(hint) == expected


def test_a_bar_appears_only_where_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress goes to a terminal after a while, with stage and percent, and to nothing else."""
    for terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(cli_show, "_PATIENCE", 0.0)
        monkeypatch.setenv("TERM", "xterm")
        with cli_show.Progress() as progress:
            progress("sum pairs", 0.25)
            progress("draw noise", None)
        assert ("sum pairs" in stream.getvalue(), "draw noise" in stream.getvalue()) == (terminal, terminal)


def test_a_short_run_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends at once prints no bar."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(cli_show, "_PATIENCE", 1e9)
    with cli_show.Progress() as progress:
        progress("sum pairs", 0.25)
    assert stream.getvalue() == ""


def test_help_is_light() -> None:
    """Help and version load no engine, no frames and no numbers."""
    heavy = ["duckdb", "pyarrow", "numpy", "pandas", "polars", "pyspark", "cryptography"]
    program = f"""import sys
from ddpmi.cli import main
main(sys.argv[1:])
print("LOADED", *sorted(set({heavy}) & set(sys.modules)), file=sys.stderr)"""
    pages = (["--help"], ["release", "--help"], ["ledger", "--help"], ["rank", "--help"], ["compare", "--help"])
    for words in (*pages, ["--version"]):
        ran = in_its_own_process(Path.cwd(), *words, python=("-c", program))
        assert (ran.code, ran.err.split()) == (0, ["LOADED"]), words


def test_python_m_ddpmi(place: Place) -> None:
    """The package runs as a module, with the same exit codes."""
    from importlib.metadata import version

    ran = in_its_own_process(place.folder, "--version")
    assert (ran.code, ran.out.strip()) == (0, version("ddpmi"))
    assert in_its_own_process(place.folder, "rank", "nowhere").code == 2


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_closed_pipe_is_silent(ranked: Place) -> None:
    """Whoever reads only the first lines sees no complaint."""
    command = [sys.executable, "-m", "ddpmi", "ledger", "export", "visits.ledger"]
    # A pipe whose reader has gone before the first byte.
    reader, writer = os.pipe()
    os.close(reader)
    env = os.environ | {"PYTHONPATH": str(SRC)}
    for words in (command, [*command[:3], "rank", "names", "--format", "csv"], [*command[:3], "--help"]):
        done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, env=env, check=False)
        told = [line for line in done.stderr.decode().splitlines() if not line.startswith("NOT PRIVATE")]
        assert (done.returncode, told) == (0, [])
    os.close(writer)


def test_a_terminal_without_utf8(ranked: Place) -> None:
    """Names that the terminal cannot show are escaped, and lines are drawn in ASCII."""
    ranked.write("accent.csv", [(unit, "caf\u00e9 \u65e5\u672c", "x") for unit in range(9)])
    assert ranked.run("exact", "accent.csv", "-o", "accent").code == 0
    program = "import sys; sys.stdout.reconfigure(encoding='ascii'); from ddpmi.cli import main; sys.exit(main())"
    ran = in_its_own_process(ranked.folder, "rank", "accent", python=("-c", program))
    assert (ran.code, r"caf\xe9 \u65e5\u672c" in ran.out, ran.out.isascii()) == (0, True, True)


# Restores Ctrl-C, which shells switch off for programs in the background.
INTERRUPTIBLE = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from ddpmi.cli import main
sys.exit(main())"""


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds; the limit only ends a run that hangs."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c(place: Place) -> None:
    """Ctrl-C while rows are read: exit 130, the charge is told and stays, and nothing is half written."""
    row = np.arange(2_000_000)
    columns = {"unit": row // 10, "feature": row % 1000, "label": row // 10 % 7}
    pq.write_table(pa.table(columns), place.folder / "big.parquet")
    before = place.names()
    slow = ("--strategy", "sample", "--conf", "threads=1", "--conf", f"temp_directory={place.folder}")
    words = ("release", "big.parquet", *BUDGET, *PAIRS, *place.paid("visits.release"), *slow)
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *words],
        cwd=place.folder,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        wait_for(lambda: place.charges() == ["charged"] or run.poll() is not None)
        # The engine's folder is back: rows are being read, for many times as long as the pause.
        wait_for(lambda: any(place.folder.glob("ddpmi-*")) or run.poll() is not None)
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()
    assert (run.returncode, out) == (130, ""), err
    assert "Interrupted." in err
    assert "The ledger was charged" in err
    assert "Traceback" not in err
    assert (place.names(), place.charges()) == (before, ["abandoned"])


def test_ctrl_c_before_the_charge(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C before anything was paid says that nothing was."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "charge_many", interrupted)
    ran = place.release()
    assert (ran.code, place.charges()) == (130, [])
    assert "The ledger was not charged." in ran.err


def test_an_error_right_after_the_charge_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stops a release between the charge and its first row, the new charge is not kept quiet."""
    whole = Ledger.charge_many

    def charged_then_interrupted(ledger: Ledger, charges: list[object]) -> None:
        whole(ledger, charges)  # type: ignore[arg-type]  # passed on as it came
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "charge_many", charged_then_interrupted)
    ran = place.release()
    assert (ran.code, place.charges()) == (130, ["charged"])
    assert "new charge" in ran.err


# -- help and its page --------------------------------------------------------------------------------------


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
