"""`--groups` of `ddpmi rank` and `ddpmi report`: a public list puts features into groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from tests.support.drinks import table

if TYPE_CHECKING:
    from tests.support.cli_fixtures import Place


@pytest.fixture
def drinks(seen: Place) -> Place:
    """A folder with a release of drinks by home, and a public list of their kinds."""
    ddpmi.exact(ddpmi.observe(table(400), label="home"), to=seen.folder / "drinks.release")
    (seen.folder / "kinds.csv").write_text('drink,kind\ntea,"<i>leaf</i>"\nmilk,animal\n\ncoffee,bean\n')
    return seen


def test_a_ranking_is_listed_by_group(drinks: Place) -> None:
    """Tables name the features of each group; JSON has one row for each feature."""
    ran = drinks.run("rank", "drinks.release", "--groups", "kinds.csv", "--direction", "presence", "--top", "2")
    assert (ran.code, "leaf" in ran.out, "animal" in ran.out, "(absence)" in ran.out) == (0, True, True, False), ran.err
    both = drinks.run("rank", "drinks.release", "--groups", "kinds.csv", "--top", "9")
    assert ("milk (absence)" in both.out, "no group" in both.out) == (True, True), both.err
    rows = json.loads(drinks.run("rank", "drinks.release", "--groups", "kinds.csv", "--format", "json").out)
    kinds = {"tea": "<i>leaf</i>", "milk": "animal", "coffee": "bean"}
    assert {(row["feature"], row["group"]) for row in rows} == {
        (row["feature"], kinds.get(row["feature"])) for row in rows
    }
    assert drinks.run("rank", "drinks.release", "--groups", "kinds.csv", "-o", "a.csv").code == 0
    assert (drinks.folder / "a.csv").read_text().startswith('"label","group","feature"')


def test_a_page_has_a_table_by_group(drinks: Place) -> None:
    """Names of groups are escaped like all names, and without the option the page has no such table."""
    assert drinks.run("report", "drinks.release", "--groups", "kinds.csv", "-o", "a.html").code == 0
    page = (drinks.folder / "a.html").read_text()
    assert ("Features by group" in page, "<i>" in page, "&lt;i&gt;leaf" in page) == (True, False, True)
    assert drinks.run("report", "drinks.release", "-o", "b.html").code == 0
    assert "Features by group" not in (drinks.folder / "b.html").read_text()


def test_lists_may_be_parquet_or_tabs(drinks: Place) -> None:
    """The ending says how the list is read."""
    pq.write_table(pa.table({"drink": ["tea"], "kind": ["leaf"]}), drinks.folder / "kinds.parquet")
    (drinks.folder / "kinds.tsv").write_text("drink\tkind\ntea\tleaf\n")
    for name in ("kinds.parquet", "kinds.tsv"):
        assert "leaf" in drinks.run("rank", "drinks.release", "--groups", name).out


@pytest.mark.parametrize(
    "text", ["", "a,b\n", "a,b\nx\n", "a,b\nx,\n", "a,b\nx,y,z\n", "a,b\nx,y\nx,z\n", 'a,b\n"x', "a,b\n\udcff,y"]
)
def test_a_list_that_is_none_is_refused(drinks: Place, text: str) -> None:
    """The message names the line and no key."""
    (drinks.folder / "wrong.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    pq.write_table(pa.table({"x": [1]}), drinks.folder / "wrong.parquet")
    for name in ("wrong.csv", "wrong.parquet", "no.csv"):
        for words in (("rank", "drinks.release"), ("report", "drinks.release", "-o", "a.html")):
            ran = drinks.run(*words, "--groups", name)
            assert (ran.code, ran.out, "Hint: " in ran.err) == (2, "", True), ran.err
    assert not (drinks.folder / "a.html").exists()
