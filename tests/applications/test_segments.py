"""Segments: the rule comes from a release alone; its SQL and its members agree with plain Python; members are never a release."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import InputError, Ledger, exact, observe, rank
from ddpmi.applications.segments import MEMBERS_NOTICE, Segment, segment
from ddpmi.pipeline.dialects import SPARK
from ddpmi.testing import hostile_rows
from tests.support.drinks import PLAN, table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SETTINGS = settings(max_examples=12, deadline=None)
KEYS = ["f0", "f1", "ß", "", 'q"q', "a,b", "=1+1"]


def rows_of(rows: list[tuple[object, ...]]) -> pa.Table:
    names = ("unit", "feature", "label")
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)})


def expected(rows: list[tuple[object, ...]], features: list[str], at_least: int) -> set[object]:
    """Return the members in plain Python."""
    units = {row[0] for row in rows} - {None}
    return {unit for unit in units if len({row[1] for row in rows if row[0] == unit} & set(features)) >= at_least}


@SETTINGS
@given(rows=hostile_rows(), features=st.lists(st.sampled_from(KEYS), min_size=1, unique=True), data=st.data())
def test_sql_and_members_equal_the_reference(rows, features: list[str], data, tmp_path_factory) -> None:
    """The rule's text, run by another program, names the same units as the file of members, and as plain Python."""
    rule = Segment(features=tuple(features), at_least=data.draw(st.integers(1, len(features))), label="x")
    wanted = expected(rows, features, rule.at_least)
    made = rule.members(observe(rows_of(rows)), to=tmp_path_factory.mktemp("ids") / "ids.parquet")
    assert set(pq.read_table(made).column(0).to_pylist()) == wanted
    connection = duckdb.connect()
    connection.register("visits", rows_of(rows))
    found = connection.sql(rule.to_sql(table="visits")).fetchall()
    assert {unit for (unit,) in found if unit is not None} == wanted


def test_a_rule_of_a_release(tmp_path: Path) -> None:
    """The best features of a label by presence make the rule; it is free, and it knows what it rests on."""
    ledger = Ledger(tmp_path / "a.ledger", limit=ddpmi.Budget(4, 1e-5))
    release = ddpmi.release(observe(table(), label="home"), PLAN, ledger=ledger)
    rule = segment(release, label="town", top=2, at_least=2)
    assert set(rule.features) == {"tea", "milk"}
    assert (rule.unclear, rule.private, rule.release_id) == (0, True, release.release_id)
    assert json.loads(rule.to_json())["guarantee"]["epsilon"] == 2
    assert segment(rank(release), label="town", top=2, at_least=2).features == rule.features
    everything = segment(release, label="town", top=9, at_least=1)
    assert everything.unclear == len(everything.features) - len(
        segment(release, label="town", top=9, at_least=1, clear=True).features
    )
    assert len(ledger.status("default").entries) == 1
    made = rule.members(observe(table()), to=tmp_path / "ids.parquet")
    assert pq.read_table(made).num_rows == 1000
    assert set(pq.read_table(made).column(0).to_pylist()) == {f"u{n}" for n in range(0, 4000, 4)}
    assert len(ledger.status("default").entries) == 1


def test_a_file_of_members_says_what_it_is(tmp_path: Path) -> None:
    """It is stamped NOT PRIVATE, readable by its owner alone, and keeps the type of the ids; also when nobody is in it."""
    rule = Segment(features=("s",), at_least=1, label="x")
    numbers = pa.table({"unit": pa.array([1, 1, 2], pa.int32()), "feature": ["s", "s", "t"]})
    made = rule.members(observe(numbers), to=tmp_path / "ids.parquet")
    schema = pq.read_schema(made)
    assert schema.metadata[b"notice"].decode() == MEMBERS_NOTICE
    assert schema.field("unit").type == pa.int32()
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    nobody = Segment(features=("z",), at_least=1, label="x").members(observe(numbers), to=tmp_path / "none.parquet")
    assert (pq.read_table(nobody).num_rows, pq.read_schema(nobody).metadata[b"notice"].decode()) == (0, MEMBERS_NOTICE)


def test_members_never_go_into_a_release(tmp_path: Path) -> None:
    """A release is shown to others, so no file of units is written into its folder or below."""
    rule, obs = Segment(features=("tea",), at_least=1, label="x"), observe(table(8))
    exact(observe(table(8), label="home"), to=tmp_path / "r")
    (tmp_path / "r" / "deep").mkdir()
    for wrong in ("r/ids.parquet", "r/deep/ids.parquet", "ids.csv"):
        with pytest.raises(InputError, match="Hint:"):
            rule.members(obs, to=tmp_path / wrong)
    (tmp_path / "ids.parquet").write_bytes(b"kept")
    with pytest.raises(InputError, match="exists already"):
        rule.members(obs, to=tmp_path / "ids.parquet")
    assert (tmp_path / "ids.parquet").read_bytes() == b"kept"


def test_names_cannot_leave_their_place_in_the_text() -> None:
    """Hostile names of features, labels, tables and columns stay names."""
    rule = Segment(features=("'); DROP TABLE x; --",), at_least=1, label="x\nDROP TABLE y;\r--")
    text = rule.to_sql(table='a"; DROP.t', unit='u" --', feature="f\n")
    assert "'''); DROP TABLE x; --'" in text
    assert [line for line in text.splitlines() if line.startswith(("DROP", "--"))] == [text.splitlines()[0]]
    assert 'FROM "a""; DROP"."t"' in text
    spark = Segment(features=("it's \\",), at_least=1, label="x").to_sql(dialect=SPARK)
    assert "CAST(X'" in spark
    assert "`unit`" in spark


@pytest.mark.parametrize(
    "wrong",
    [{"label": "nowhere"}, {"top": 0}, {"at_least": 0}, {"at_least": True}, {"top": 1, "at_least": 2}],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    """A clear error with a hint."""
    ranking = rank(exact(observe(table(40), label="home")))
    with pytest.raises(InputError, match="Hint:"):
        segment(ranking, **{"label": "town", "top": 2, "at_least": 2} | wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="table must be a name"):
        Segment(features=("a",), at_least=1, label="x").to_sql(table="")


@pytest.mark.spark
def test_members_are_the_same_on_a_cluster(spark: SparkSession, tmp_path: Path) -> None:
    """Both engines name the same units."""
    rule = Segment(features=("tea", "milk"), at_least=2, label="x")
    here = rule.members(observe(table(80)), to=tmp_path / "here.parquet")
    there = rule.members(observe(spark.createDataFrame(table(80))), to=tmp_path / "there.parquet")
    found = [sorted(pq.read_table(path).column(0).to_pylist()) for path in (here, there)]
    assert found[0] == found[1] == sorted(f"u{n}" for n in range(0, 80, 4))
