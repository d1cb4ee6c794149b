"""Releases on Spark: drawn once, durable before they are seen, without a trace of the salt, and clear about what cannot work."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi import Bounds, Budget, EngineError, Ledger, Plan, Release, ReleaseError
from ddpmi.curator.drawing import Reading, measure, summed_by
from ddpmi.engines.spark import engine, sessions
from ddpmi.privacy.noise import DiscreteLaplace
from tests.support.release_fixtures import states, two_groups
from tests.support.spark_local import FREE_PORT, SETTINGS, need_spark, slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SRC = Path(__file__).resolve().parents[3] / "src"
PLAN = Plan(budget=Budget(8, 1e-4), bounds=Bounds(pairs=3), row_local=True)


def digest(folder: Path) -> str:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def test_a_folder_of_spark_belongs_to_its_receipt(spark: SparkSession, ledger: Ledger, tmp_path: Path) -> None:
    """The receipt lists the digest of every file; an edited file is refused by all that read the folder."""
    obs = ddpmi.observe(spark.createDataFrame(two_groups(2000)))
    found = ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out")
    files = sorted((tmp_path / "out").rglob("*.parquet"))
    assert {name: entry["sha256"] for name, entry in found.receipt["files"].items()} == {
        file.relative_to(tmp_path / "out").as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }
    assert ledger.status().entries[0].receipt_digest == found.receipt_digest
    changed = bytearray(files[-1].read_bytes())
    changed[len(changed) // 2] ^= 1
    files[-1].write_bytes(changed)
    for use in (ddpmi.Release.load, ddpmi.rank, lambda path: ddpmi.rank_on_spark(path, session=spark)):
        with pytest.raises(ReleaseError, match="does not match its receipt"):
            use(tmp_path / "out")


def test_a_release_is_a_folder_of_plain_sorted_files(spark: SparkSession, ledger: Ledger, tmp_path: Path) -> None:
    """Four tables in key order and a receipt, nothing of Spark's beside them, no secret in them."""
    settings = {name: spark.conf.get(name, None) for name in (*sessions._NEEDED, *sessions._BETTER)}
    found = ddpmi.release(
        ddpmi.observe(spark.createDataFrame(two_groups(2000))), PLAN, ledger=ledger, to=tmp_path / "out"
    )
    names = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*"))
    tables = ("features", "labels", "pairs", "total")
    expected = [f"out/{t}{more}" for t in tables for more in ("", "/part-00000.parquet")]
    assert names == sorted(["out", "out/receipt.json", "test.ledger", "test.ledger.head", *expected])
    assert (found.receipt["engine"], found.receipt["versions"]["spark"]) == ("spark", spark.version)
    keys = [(row["feature"], row["label"]) for row in found.pairs.to_pylist()]
    assert keys == [("common", "a"), ("common", "b"), ("own-a", "a"), ("own-b", "b")]
    written = b"".join(
        key + value
        for file in tmp_path.rglob("*.parquet")
        for key, value in (pq.read_metadata(file).metadata or {}).items()
    )
    assert b"SECRET" not in written
    assert str(tmp_path).encode() not in written
    assert states(ledger) == ["released"]
    assert spark.catalog.listTables() == []
    assert {name: spark.conf.get(name, None) for name in settings} == settings


def test_a_release_is_completed_in_the_tasks(spark: SparkSession, ledger: Ledger, tmp_path: Path) -> None:
    """Pairs that nobody has show with noise, pairs of hidden features do not, and no mark of what occurs is written."""
    rows = pa.concat_tables([two_groups(2000), pa.table({"unit": ["lone"], "feature": ["SECRET"], "label": ["a"]})])
    plan = Plan(budget=Budget(8, 1e-4), bounds=Bounds(pairs=3), row_local=True, complete=True)
    found = ddpmi.release(ddpmi.observe(spark.createDataFrame(rows)), plan, ledger=ledger, to=tmp_path / "out")
    sums = {(row["feature"], row["label"]): row["sum"] for row in found.pairs.to_pylist()}
    assert list(sums) == [(feature, label) for feature in ("common", "own-a", "own-b") for label in ("a", "b")]
    assert found.pairs.column_names == ["feature", "label", "sum"]
    # Half of 1,000 units is more than 100 deviations.
    assert max(abs(sums["own-a", "b"]), abs(sums["own-b", "a"])) < 500 * 256 < sums["common", "a"]
    assert b"SECRET" not in b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*.*"))


def test_two_reads_give_equal_bytes(spark: SparkSession, ledger: Ledger, tmp_path: Path) -> None:
    """The tables in memory, a second look, the saved copy and the loaded one are the same."""
    found = ddpmi.release(ddpmi.observe(spark.createDataFrame(two_groups(2000))), PLAN, ledger=ledger)
    first = found.pairs
    found.save(tmp_path / "one")
    found.save(tmp_path / "two")
    folder = found.tables.folder
    assert first.equals(found.pairs)
    assert Release.load(tmp_path / "one").pairs.equals(first)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    del found
    assert not folder.exists()
    assert Release.load(tmp_path / "two").pairs.equals(first)


def test_many_parts_are_in_the_order_of_their_keys(spark: SparkSession, tmp_path: Path) -> None:
    """A table of several files reads back sorted by the bytes of its keys, an unknown label last."""
    names = [f"{n:04x}ß" for n in range(3000)] + ["é", "z", "Z", "🤦"]
    rows = pa.table({"unit": [f"u{n}" for n in range(len(names))], "feature": names, "label": ["x"] * len(names)})
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        found = ddpmi.exact(ddpmi.observe(spark.createDataFrame(rows).repartition(5)), to=tmp_path / "out")
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert len(list((tmp_path / "out" / "pairs").iterdir())) > 1
    assert found.features.column("feature").to_pylist() == sorted(names, key=str.encode)
    assert found.total == len(names)


def test_one_pass_serves_several_plans(spark: SparkSession, ledger: Ledger, tmp_path: Path) -> None:
    """Each release of one pass has its own noise and its own folder."""
    plans = [Plan(budget=Budget(e, 1e-4), bounds=Bounds(pairs=3), mechanism="gaussian", row_local=True) for e in (1, 2)]
    obs = ddpmi.observe(spark.createDataFrame(two_groups(2000)))
    found = ddpmi.release_many(obs, plans, ledger=ledger, to=[tmp_path / "a", tmp_path / "b"])
    assert [release.plan.budget.epsilon for release in found] == [1, 2]
    assert digest(tmp_path / "a") != digest(tmp_path / "b")


def test_tasks_never_share_noise(spark: SparkSession, tmp_path: Path) -> None:
    """In 64 tasks over reused workers no two noises of 2^40 possible sizes are equal (false alarm below 2e-7)."""
    from fractions import Fraction

    from ddpmi.privacy.noise import TableNoise

    noise = TableNoise(mechanism=DiscreteLaplace(scale=Fraction(2**52)), share=Fraction(1), threshold=None)
    zeros = spark.range(0, 640, 1, 64).selectExpr("CAST(0 AS BIGINT) AS sum")
    zeros.createOrReplaceTempView("zeros_of_a_test")
    with engine.SparkEngine(spark.table("zeros_of_a_test"), tmp_path) as opened:
        opened.draw("drawn", "SELECT sum FROM source", [], noise, None)
        drawn = [n for batch in opened.batches("SELECT sum FROM drawn") for n in batch.column(0).to_pylist()]
    spark.catalog.dropTempView("zeros_of_a_test")
    assert len(set(drawn)) == 640


def test_a_failed_attempt_leaves_one_visible_result(spark: SparkSession, tmp_path: Path, monkeypatch) -> None:
    """A task that wrote and then died is tried again; its rows appear once, and never those of the first attempt."""
    flag = tmp_path / "failed"

    def fails_once(batches: Any, **_: Any) -> Any:
        first = not flag.exists()
        for batch in batches:
            yield batch.set_column(0, "sum", pa.array([1 if first else 2] * batch.num_rows, pa.int64()))
        if first:
            flag.write_text("")
            os._exit(1)

    monkeypatch.setattr(engine, "noisy", fails_once)
    with engine.SparkEngine(spark.range(0, 100, 1, 1).toDF("sum"), tmp_path) as opened:
        # A task of local mode has one attempt, so the whole draw is tried again, as the user would.
        with pytest.raises(EngineError, match="could not draw"):
            opened.draw("drawn", "SELECT sum FROM source", [], object(), None)
        opened.draw("drawn", "SELECT sum FROM source", [], object(), None)
        drawn = [n for batch in opened.batches("SELECT sum FROM drawn") for n in batch.column(0).to_pylist()]
    assert drawn == [2] * 100


def test_a_failure_after_the_charge_keeps_it_and_leaves_nothing_behind(
    spark: SparkSession, ledger: Ledger, tmp_path: Path, monkeypatch
) -> None:
    """A draw that fails in its tasks leaves no folder, the charge stays, and the error quotes no row."""
    obs = ddpmi.observe(spark.createDataFrame(two_groups(2000)))
    prepared = obs.prepared(tmp_path / "out")

    def fail(batches: Any, **_: Any) -> Any:
        for batch in batches:
            raise ValueError(batch.to_pylist())
        yield from ()

    monkeypatch.setattr(type(obs), "prepared", lambda *_: prepared)
    monkeypatch.setattr(engine, "noisy", fail)
    with pytest.raises(EngineError) as caught:
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out")
    assert "common" not in str(caught.value)
    assert "charge stays" in caught.value.__notes__[0]
    assert states(ledger) == ["abandoned"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.ledger", "test.ledger.head"]


def test_one_huge_unit_and_one_huge_feature(spark: SparkSession) -> None:
    """A unit with a million rows counts within its bounds, and half of all rows may have one feature."""
    heavy = "SELECT 'heavy' AS unit, CAST(id % 70000 AS STRING) AS feature, 'x' AS label FROM range(1000000)"
    light = "SELECT CAST(id AS STRING), 'half', 'x' FROM range(1000000)"
    obs = ddpmi.observe(spark.sql(f"{heavy} UNION ALL {light}"))
    made = Plan(budget=Budget(4, 1e-4), bounds=Bounds(pairs=2, cap=20), row_local=True, mechanism="laplace")
    with summed_by(obs, made, salt="s") as opened:
        ((most, total, rows),) = [
            tuple(row.values())
            for batch in opened.batches("SELECT MAX(sum) AS m, SUM(sum) AS t, COUNT(*) AS n FROM joint")
            for row in batch.to_pylist()
        ]
    assert most == 1_000_000 * 256
    assert rows == 21
    assert total - most <= 2 * 256


def test_a_release_says_how_far_it_is(spark: SparkSession, ledger: Ledger, tmp_path: Path) -> None:
    """What users see names the step."""
    seen: list[str] = []
    obs = ddpmi.observe(slow(spark.createDataFrame(two_groups(2000))))
    ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out", progress=lambda stage, _: seen.append(stage))
    assert "sum pairs" in seen


WHOLE = """
import secrets, sys
from pathlib import Path
import pyarrow as pa
import ddpmi
from ddpmi import curator
folder, how = Path(sys.argv[1]), sys.argv[2]
settings = dict(pair.split("=", 1) for pair in sys.argv[3:])
salt = "5a17" * 16
real = secrets.token_hex
secrets.token_hex = lambda n=None: salt if n == 32 else real(n)
from pyspark.sql import SparkSession
builder = SparkSession.builder.remote("local[2]") if how == "connect" else SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = [(f"RAW-UNIT-{n}", f, "ab"[n % 2]) for n in range(800) for f in ("common", "common", f"own-{'ab'[n % 2]}")]
rows += [("RAW-UNIT-1", f"RAW-FEATURE-{n}", "a") for n in range(40)]
data = pa.table(dict(zip(("unit", "feature", "label"), map(list, zip(*rows)))))
plan = ddpmi.Plan(budget=ddpmi.Budget(8, 1e-4), bounds=ddpmi.Bounds(pairs=2, cap=4), row_local=True, sample_rate=0.9)
ledger = ddpmi.Ledger(folder / "test.ledger", limit=ddpmi.Budget(100, 1e-2))
found = ddpmi.release(ddpmi.observe(spark.createDataFrame(data)), plan, ledger=ledger, to=folder / "out")
print([tuple(row.values())[:2] for row in found.pairs.to_pylist()])
spark.stop()
"""


@pytest.mark.parametrize("how", ["classic", "connect"])
def test_salt_and_raw_keys_are_nowhere(tmp_path: Path, how: str) -> None:
    """With event logs on and Spark's own level of logging, neither the salt nor a key that was not released is written."""
    need_spark()
    if how == "connect":
        pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    events = tmp_path / "events"
    events.mkdir()
    settings = SETTINGS | {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
        "spark.local.dir": str(tmp_path / "local"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    done = subprocess.run(
        [sys.executable, "-c", WHOLE, str(tmp_path), how, *(f"{n}={v}" for n, v in settings.items())],
        env={**os.environ, **FREE_PORT, "PYTHONPATH": str(SRC), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert b"('common', 'a')" in done.stdout
    left = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.is_relative_to(events) and file.stat().st_size > 10_000 for file in left)
    for text in (done.stdout, done.stderr, *(file.read_bytes() for file in left)):
        assert b"5a17" * 16 not in text
        assert b"RAW-" not in text


def test_an_interrupted_write_is_no_release(spark: SparkSession, tmp_path: Path) -> None:
    """A folder that Spark was still writing to has no receipt and cannot be loaded."""
    obs = ddpmi.observe(spark.createDataFrame(two_groups(50)))
    with summed_by(obs, PLAN, salt="s") as opened:
        tables = measure(opened, Reading.of(PLAN))
    with pytest.raises(ddpmi.InputError, match="no receipt"):
        Release.load(tables.folder)
