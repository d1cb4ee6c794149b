"""`ddpmi rank`: tables, files, scores, orders and intervals."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pytest

import ddpmi
from ddpmi._typing import SCORES
from ddpmi.cli import output
from ddpmi.errors import InputError
from ddpmi.rankings import display
from ddpmi.releases.release import Release
from tests.support.cli_fixtures import Place, refused_clearly


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
    monkeypatch.setattr(output, "_width", lambda: 80)
    narrow = ranked.run("rank", "names").out
    assert "interval" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    ranked.release()
    monkeypatch.setattr(output, "_width", lambda: 120)
    assert "interval" in ranked.run("rank", "visits.release").out


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


def test_rank_intervals_and_stable_top(place: Place) -> None:
    """Rank intervals are columns when asked for, and the table ends with the stable top."""
    place.release()
    table = place.run("rank", "visits.release", "--rank-intervals")
    assert re.search(r" 1 \(1 to \d+\) ", table.out)
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


@pytest.mark.parametrize("name", SCORES)
def test_scores(pair: Place, name: str) -> None:
    """--score gives the rows of the library, best first, with their score."""
    ran = pair.run("rank", "a", "--score", name, "--format", "json")
    assert json.loads(ran.out) == ddpmi.rank(Release.load("a"), score=name).to_dicts()
    shown = pair.run("rank", "a", "--score", name, "--top", "1").out
    assert "score" in next(line.split() for line in shown.splitlines() if line.startswith("feature"))


def test_scores_on_a_narrow_terminal(pair: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with a score still fits into 80 columns."""
    monkeypatch.setattr(output, "_width", lambda: 80)
    assert max(map(len, pair.run("rank", "a", "--score", "log_odds").out.splitlines()[1:])) <= 80


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
    assert (ran.code, refused_clearly(ran)) == (2, True), ran.err


def test_a_damaged_release(place: Place) -> None:
    """A release that lost a table fails with exit 1."""
    place.release()
    Path("visits.release/pairs/part-0.parquet").unlink()
    ran = place.run("rank", "visits.release")
    assert (ran.code, refused_clearly(ran) or "Hint" not in ran.err) == (1, True)


def test_excel_files_hold_texts_and_no_formula(ranked: Place) -> None:
    """A name that begins with = is a text in the sheet, and the numbers are numbers."""
    ran = ranked.run("rank", "names", "-o", "names.xlsx")
    assert ran.code == 0
    sheet = openpyxl.load_workbook(ranked.folder / "names.xlsx")["ranking"]
    heads, *rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert (heads[0], len(rows)) == ("notice", 25)
    assert {type(row[heads.index("mi")]) for row in rows} <= {float, int}
    assert all(cell.data_type != "f" for row in sheet.iter_rows() for cell in row)


def test_a_name_like_a_formula_stays_a_text(tmp_path: Path) -> None:
    """Excel gets =1+1 as text, and control characters as escapes."""
    rows = {"unit": [1, 1, 2], "feature": ["=1+1", "a\x1bb", "c"], "label": ["x", "x", "y"]}
    ranking = ddpmi.rank(ddpmi.exact(ddpmi.observe(pa.table(rows))))
    sheet = openpyxl.load_workbook(ranking.save(tmp_path / "a.xlsx"))["ranking"]
    cells = [cell for row in sheet.iter_rows() for cell in row]
    assert {"=1+1", r"a\x1bb"} <= {cell.value for cell in cells}
    assert all(cell.data_type != "f" for cell in cells)


def test_too_many_rows_for_excel_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sheet has a last row; the hint says what to do instead."""
    monkeypatch.setattr(display, "_EXCEL_ROWS", 1)
    rows = {"unit": [1, 2], "feature": ["a", "b"], "label": ["x", "y"]}
    ranking = ddpmi.rank(ddpmi.exact(ddpmi.observe(pa.table(rows))))
    with pytest.raises(InputError, match="at most 1 rows"):
        ranking.save(tmp_path / "a.xlsx")


@pytest.mark.parametrize("name", ["a.doc", "a.xls", "a", "a.CSVX"])
def test_unknown_endings_are_refused(ranked: Place, name: str) -> None:
    """A file is never written in another format than its name says."""
    ran = ranked.run("rank", "names", "-o", name)
    assert (ran.code, refused_clearly(ran), name in ranked.names()) == (2, True, False)


def test_excel_needs_its_extra(ranked: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without openpyxl the error says what to install."""
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    ran = ranked.run("rank", "names", "-o", "names.xlsx")
    assert (ran.code, "pip install 'ddpmi[excel]'" in ran.err) == (1, True)


def test_rank_without_a_folder_needs_a_ledger_that_knows_one(place: Place) -> None:
    """Where nothing was released the error says how to name a folder."""
    ran = place.run("rank")
    assert (ran.code, refused_clearly(ran), "none that visits.ledger was charged for" in ran.err) == (2, True, True)


def test_labels_are_chosen_by_name(place: Place) -> None:
    """--label keeps a label, may be repeated, and answers a wrong name with the nearest released one."""
    place.release()
    everything = json.loads(place.run("rank", "visits.release", "--format", "json").out)
    names = sorted({row["label"] for row in everything})
    for some in (names[:1], names):
        words = [word for name in some for word in ("--label", name)]
        rows = json.loads(place.run("rank", "visits.release", *words, "--format", "json").out)
        assert rows == [row for row in everything if row["label"] in some]
    table = place.run("rank", "visits.release", "--label", names[0]).out
    assert f"{names[0]}: " in table
    assert f"{names[1]}: " not in table
    wrong = place.run("rank", "visits.release", "--label", f"{names[0]}x")
    assert (wrong.code, refused_clearly(wrong)) == (2, True)
    assert f"Did you mean '{names[0]}'" in wrong.err


def test_clear_rows_alone(place: Place) -> None:
    """--clear keeps the rows whose verdict is clear, in files and tables."""
    place.release()
    everything = json.loads(place.run("rank", "visits.release", "--format", "json").out)
    rows = json.loads(place.run("rank", "visits.release", "--clear", "--format", "json").out)
    assert rows == [row for row in everything if row["clear"]]
    assert "may be noise" not in place.run("rank", "visits.release", "--clear").out


def test_the_tolerance_belongs_to_the_papers_method(ranked: Place) -> None:
    """--tol reaches the paper's method, and is refused without it and where it is no probability."""
    mi = [
        [
            row["mi"]
            for row in json.loads(ranked.run("rank", "names", "--format", "json", "--method", "paper", *words).out)
        ]
        for words in ((), ("--tol", "1e-15"), ("--tol", "0.5"))
    ]
    assert mi[0] == mi[1] != mi[2]
    for words in (("--tol", "1e-9"), ("--method", "paper", "--tol", "2"), ("--method", "paper", "--tol", "-1")):
        ran = ranked.run("rank", "names", *words)
        assert (ran.code, refused_clearly(ran), "--tol" in ran.err) == (2, True, True)
