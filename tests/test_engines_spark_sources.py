"""What Spark reads, and what it is refused to read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi import Bounds, Budget, EngineError, InputError, Ledger, Plan, SchemaError
from ddpmi.engines import spark_sources
from ddpmi.errors import InputNotFound
from ddpmi.statements import table
from release_fixtures import states, two_groups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLAN = Plan(budget=Budget(8, 1e-4), bounds=Bounds(pairs=3), row_local=True)


def test_a_place_that_tasks_cannot_reach_costs_nothing(
    spark: SparkSession, ledger: Ledger, tmp_path: Path, monkeypatch
) -> None:
    """What the tasks write is looked for before the charge."""
    obs = ddpmi.observe(spark.createDataFrame(two_groups(2000)))
    elsewhere = spark_sources.Staging(tmp_path)
    monkeypatch.setattr(spark_sources.Staging, "new", lambda _: elsewhere.folder / "nowhere" / ".." / "x")
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    with pytest.raises(EngineError, match="cannot be seen here"):
        obs.prepared(None)
    monkeypatch.undo()
    (tmp_path / "[odd]").mkdir()
    with pytest.raises(InputError, match="pattern"):
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "[odd]" / "out")
    assert states(ledger) == []


def test_a_query_needs_the_owners_word_and_files_do_not(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame that is the reading of files is a table; anything else may hide a LIMIT."""
    pq.write_table(two_groups(2000), tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    read = spark.read.parquet(path)
    assert ddpmi.observe(read).source.query is None
    assert ddpmi.observe(path, engine="spark").source.query is None
    for frame in (read.limit(5), read.where("label = 'a'"), spark.createDataFrame(two_groups(2000))):
        assert ddpmi.observe(frame).source.query == "Spark DataFrame"
    with pytest.raises(InputError, match="may hide a LIMIT"):
        ddpmi.release(ddpmi.observe(read.limit(5)), Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3)), ledger=None)


def test_tables_and_views_of_the_catalog(spark: SparkSession) -> None:
    """A table is data, a view is a query, and a name that is neither is said to be missing."""
    spark.createDataFrame(two_groups(20)).write.saveAsTable("visits")
    spark.sql("CREATE VIEW few AS SELECT * FROM visits LIMIT 3")
    try:
        assert ddpmi.observe(table("visits"), engine="spark").source.query is None
        assert ddpmi.observe(table("few"), engine="spark").source.query == "view of Spark's catalog"
        assert ddpmi.exact(ddpmi.observe(table("visits"), engine="spark")).total == 41
        with pytest.raises(InputNotFound, match="no such table"):
            ddpmi.observe(table("no_such_table"), engine="spark")
    finally:
        spark.sql("DROP VIEW few")
        spark.sql("DROP TABLE visits")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("1.5D AS unit, 'f' AS feature, 'l' AS label", "has type double"),
        ("CAST(1.5 AS DECIMAL(5, 2)) AS unit, 'f' AS feature, 'l' AS label", r"has type decimal\(5,2\)"),
        ("X'00' AS unit, 'f' AS feature, 'l' AS label", "has type binary"),
        ("current_timestamp() AS unit, 'f' AS feature, 'l' AS label", "has type timestamp"),
        ("'u' COLLATE UTF8_LCASE AS unit, 'f' AS feature, 'l' AS label", "collate"),
        ("'u' AS unit, 'U' AS Unit, 'f' AS feature, 'l' AS label", "more than one column"),
        ("'u' AS unit, 'f' AS feature", "for the label"),
    ],
)
def test_columns_that_are_no_keys_are_refused(spark: SparkSession, sql: str, message: str) -> None:
    """What has no one text cannot be a key."""
    with pytest.raises(SchemaError, match=message):
        ddpmi.exact(ddpmi.observe(spark.sql(f"SELECT {sql}")))


def test_odd_names_and_broken_texts(spark: SparkSession) -> None:
    """Names are quoted, bytes that are no text are dropped like NULL, and nothing raises."""
    frame = spark.sql(
        "SELECT * FROM VALUES ('u1', 'f', 'x', 1.0D), ('u2', CAST(X'ff' AS STRING), 'x', 2.0D), ('u3', 'f', 'y', NULL) "
        "AS t(`a``b FROM source`, `feature`, `la.bel`, `v'w`)"
    )
    obs = ddpmi.observe(frame, unit="a`b FROM source", label="la.bel", value="v'w")
    found = ddpmi.exact(obs)
    assert [(row["feature"], row["label"]) for row in found.pairs.to_pylist()] == [("f", "x")]


@pytest.mark.parametrize(("kind", "sign"), [("delta", "_delta_log/0.json"), ("iceberg", "metadata/v1.metadata.json")])
def test_a_lake_needs_its_package(spark: SparkSession, tmp_path: Path, kind: str, sign: str) -> None:
    """The format is recognised by its folder, and a Spark that cannot read it says what would."""
    file = tmp_path / "lake" / sign
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(EngineError, match=f"could not read {kind} files") as caught:
        ddpmi.observe(tmp_path / "lake", engine="spark")
    assert f"start Spark with the package of {kind}" in str(caught.value.hint)


def test_expressions_and_other_data_are_refused(spark: SparkSession) -> None:
    """What only the embedded engine can check, or Spark would guess, is refused with a way out."""
    frame = spark.createDataFrame(two_groups(5))
    for options in ({"where": "label = 'a'"}, {"label": ddpmi.sql("upper(label)")}):
        with pytest.raises(InputError, match="not read on Spark"):
            ddpmi.observe(frame, **options)
    with pytest.raises(InputError, match="random numbers"):
        ddpmi.observe(frame.selectExpr("unit", "feature", "CAST(rand() > 0.5 AS STRING) AS label"))
    with pytest.raises(ddpmi.ReleaseError, match="is an address"):
        ddpmi.exact(ddpmi.observe(frame), to="hdfs://name/out")
    with pytest.raises(InputError, match="guess types"):
        ddpmi.observe("rows.csv", engine="spark")
    with pytest.raises(InputError, match="cannot be observed on Spark"):
        ddpmi.observe(two_groups(5), engine="spark")
    with pytest.raises(InputError, match="catalog"):
        ddpmi.observe(table("visits"))
    with pytest.raises(InputError, match="cannot read these data"):
        ddpmi.observe(frame, engine="duckdb")
    with pytest.raises(InputError, match="no setting 'threads'"):
        ddpmi.observe(frame, conf={"threads": 2})
