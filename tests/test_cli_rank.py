"""The command line shows rankings: tables, files, orders, intervals and plots."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli_fixtures import (
    BUDGET,
    Place,
)
from ddpmi import cli_show


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
