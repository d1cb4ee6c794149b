"""`ddpmi segment`: the rule of a label, and the units that meet it."""

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
def towns(seen: Place) -> Place:
    """A folder with a release, and the rows it was made of."""
    rows = table(400)
    pq.write_table(rows, seen.folder / "drinks.parquet")
    ddpmi.exact(ddpmi.observe(rows, label="home"), to=seen.folder / "drinks.release")
    return seen


def test_the_rule_is_printed_or_written(towns: Place) -> None:
    """As SQL for the owner's database, or as JSON."""
    words = ["segment", "drinks.release", "--label", "town", "--top", "2", "--at-least", "2"]
    ran = towns.run(*words, "--from", "shop.visits", "--unit", "device", "--feature", "app")
    assert (ran.code, 'FROM "shop"."visits"' in ran.out, 'GROUP BY "device"' in ran.out) == (0, True, True), ran.err
    assert 'CAST("app" AS VARCHAR)) >= 2;' in ran.out
    assert "`feature`" in towns.run(*words, "--dialect", "spark").out
    assert towns.run(*words, "--format", "json", "-o", "rule.json").code == 0
    rule = json.loads((towns.folder / "rule.json").read_text())
    assert (set(rule["features"]), rule["at_least"], rule["private"]) == ({"tea", "milk"}, 2, False)


def test_members_are_written_for_the_owner(towns: Place) -> None:
    """The file and the message say NOT PRIVATE; nothing is printed and nothing is charged."""
    words = ["segment", "drinks.release", "--label", "town", "--top", "2", "--at-least", "2"]
    ran = towns.run(*words, "--members", "drinks.parquet", "-o", "ids.parquet", "--where", "house <> 'n0'")
    assert (ran.code, ran.out, "NOT PRIVATE" in ran.err) == (0, "", True), ran.err
    ids = pq.read_table(towns.folder / "ids.parquet")
    assert (ids.num_rows, b"notice" in ids.schema.metadata) == (99, True)
    assert towns.charges() == []


def test_unclear_features_are_counted_and_left_out(towns: Place) -> None:
    """A rule of features that noise may have chosen says so; --clear leaves them out."""
    ddpmi.exact(ddpmi.observe(table(400), label="home"), to=towns.folder / "all.release")
    ran = towns.run("segment", "all.release", "--label", "town", "--top", "9", "--at-least", "1", "--clear")
    assert (ran.code, "not clear" in ran.err, "'tea'" in ran.out) == (0, False, True), ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("--label", "nowhere"),
        ("--label", "town", "--top", "0"),
        ("--label", "town", "--where", "true"),
        ("--label", "town", "--members", "drinks.parquet"),
        ("--label", "town", "--members", "drinks.parquet", "-o", "a.parquet", "--format", "sql"),
        ("--label", "town", "--at-least", "1", "--members", "no.parquet", "-o", "a.parquet"),
        ("--label", "town", "--at-least", "1", "--members", "drinks.parquet", "-o", "a.csv"),
        ("--label", "town", "--at-least", "1", "--members", "drinks.parquet", "-o", "drinks.release/a.parquet"),
        ("--label", "town", "--at-least", "1", "-o", "drinks.parquet"),
    ],
)
def test_wrong_words_of_a_segment(towns: Place, words: tuple[str, ...]) -> None:
    """Wrong usage is refused with a hint, and nothing is written."""
    before = towns.names()
    ran = towns.run("segment", "drinks.release", *words)
    assert (ran.code, ran.out, "Hint: " in ran.err) == (2, "", True), ran.err
    assert towns.names() == before
    assert isinstance(pq.read_table(towns.folder / "drinks.parquet"), pa.Table)
