"""Releases on Spark: files, tables, each way to fail, and a job for spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli_fixtures import BUDGET, CANARY, PAIRS, SRC, Place, refused_clearly, visits
from tests.support.spark_local import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = ("--engine", "spark")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "spark_job.py"


def write_visits(folder: Path, name: str = "visits.parquet") -> Path:
    """Write the usual rows as Parquet."""
    columns = zip(*visits(), strict=True)
    named = zip(("unit", "feature", "label"), columns, strict=True)
    pq.write_table(pa.table({role: pa.array(column) for role, column in named}), folder / name)
    return folder / name


@pytest.mark.spark
def test_a_release_of_files_and_tables(place: Place, spark: SparkSession) -> None:
    """Files, tables, exact sums and whole runs go through Spark; folders read like any other."""
    file = write_visits(place.folder)
    ran = place.release(*SPARK, data=file.name)  # relative to here, not to the folder of Spark's process
    assert (ran.code, place.charges()) == (0, ["released"]), ran.err
    ranking = json.loads(place.run("rank", "visits.release", "--format", "json").out)
    best = {(row["feature"], row["label"]) for row in ranking if row["rank_in_label"] == 1}
    assert best == {("only north", "north"), ("only south", "south")}
    assert json.loads(place.run("receipt", "visits.release", "--format", "json").out)["engine"] == "spark"
    assert place.names() == {"visits.csv", "visits.parquet", "visits.ledger", "visits.release"}

    spark.sql(f"CREATE TABLE cli_visits USING parquet LOCATION '{file.as_uri()}'")
    spark.read.parquet(str(file)).createOrReplaceTempView("cli_view")
    try:
        assert place.run("exact", *SPARK, "--table", "cli_visits", "-o", "exact").code == 0
        view = ("--table", "cli_view")
        refused = place.run("release", *SPARK, *view, *BUDGET, *PAIRS, *place.paid("view"))
        assert (refused.code, "--row-local" in refused.err, refused_clearly(refused)) == (2, True, True), refused.err
        assert place.run("plan", *SPARK, *view, *BUDGET, *PAIRS, "--row-local").code == 0
    finally:
        spark.sql("DROP TABLE cli_visits")
        spark.catalog.dropTempView("cli_view")
    assert {row["sum"] for row in pq.read_table(place.folder / "exact" / "pairs").to_pylist()} == {2000}
    assert place.charges() == ["released"]


@pytest.mark.spark
def test_wrong_input_is_refused(place: Place, spark: SparkSession) -> None:
    """A missing table or file, a master that does not answer, a float key and SQL of DuckDB: one message, no charge."""
    pq.write_table(pa.table({"unit": [1.5], "feature": ["a"], "label": [CANARY]}), place.folder / "floats.parquet")
    file = write_visits(place.folder)
    paid = (*BUDGET, *PAIRS, *place.paid("x"))
    cases = [
        (("--table", "no_such_table"), 2, "no such table"),
        (("nowhere.parquet",), 2, "no such table or path"),
        ((file.name, "--master", "spark://127.0.0.1:1"), 1, "No Spark answers at spark://127.0.0.1:1"),
        (("floats.parquet",), 2, "unit"),
        ((file.name, "--where", "label = 'north'"), 2, "SQL"),
    ]
    for words, code, message in cases:
        ran = place.run("release", *words, *SPARK, *paid)
        assert (ran.code, message in ran.err, refused_clearly(ran)) == (code, True, True), (words, ran.err)
    assert place.charges() == []


@pytest.mark.spark
def test_without_java_nothing_runs(place: Place) -> None:
    """Without Java the command says so, and charges nothing."""
    need_spark()
    write_visits(place.folder)
    bare = place.folder / "bare"
    bare.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "ddpmi", "release", "visits.parquet", *SPARK, *BUDGET, *PAIRS, *place.paid("x")],
        env={name: text for name, text in os.environ.items() if name != "JAVA_HOME"}
        | {"PYTHONPATH": str(SRC), "PATH": str(bare)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Spark needs Java" in done.stderr, "Hint: install a JDK" in done.stderr) == (1, True, True)
    assert place.charges() == []


@pytest.mark.spark
def test_the_example_runs_under_spark_submit(place: Place) -> None:
    """The job releases, ranks on the cluster and prints the best of each label; the log shows no row."""
    need_spark()
    import pyspark

    file = write_visits(place.folder)
    job = (
        *("--data", str(file), "--unit", "unit", "--feature", "feature", "--label", "label"),
        *(*BUDGET, *PAIRS, "--ledger", "visits.ledger", "--release", str(place.folder / "job.release")),
        *("--top", "1", "--ranking", str(place.folder / "ranking")),
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ("--master", "local[2]", "--driver-memory", "1g", "--conf", "spark.sql.shuffle.partitions=2")
    done = subprocess.run(
        [str(submit), *settings, "--conf", "spark.ui.enabled=false", str(EXAMPLE), *job],
        env=os.environ | {"PYTHONPATH": str(SRC), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "only north" in done.stdout
    assert "only south" in done.stdout
    assert CANARY not in done.stdout + done.stderr
    assert place.charges() == ["released"]
    assert sum(pq.ParquetFile(part).metadata.num_rows for part in (place.folder / "ranking").glob("*.parquet")) >= 2
