"""Rankings in Spark: the rows of `rank`, without a task that sees all pairs."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi import Bounds, Budget, InputError, Plan, Release, ReleaseError, observe, rank, rank_on_spark
from ddpmi.rankings import orders
from ddpmi.rankings import spark as spark_rankings
from ddpmi.releases.tables import FolderTables, MemoryTables
from ddpmi.testing import seeded_release
from tests.support.fake_release import FakeRelease, exact_release, keyed, private_release
from tests.support.spark_local import FREE_PORT, SETTINGS, need_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SRC = Path(__file__).resolve().parents[2] / "src"
NAMES = ["", " ", "A", "a", "ab", "é", "ß", "日本", "\U0001f600", "\uffff", "=1+1", "a\tb"]


def counts(seed: int, *, features: int = 60, high: int = 4) -> dict[tuple[str, str], int]:
    """Draw counts with many ties and names of all lengths of UTF-8."""
    rng = np.random.default_rng(seed)
    names = [*NAMES, *(f"f{number:03d}" for number in range(features))]
    labels = ["x", "y", "Z", "é", "\U0001f600", "\uffff"]
    return {(f, label): int(rng.integers(-1, high)) for f in names for label in labels if rng.random() < 0.7}


def with_other(release: FakeRelease) -> FakeRelease:
    """Add the cells of what was dropped, which have no key."""
    rest = {
        key: pa.concat_tables([table, pa.table({key: pa.array([None], pa.string()), "sum": pa.array([9], pa.int64())})])
        for key, table in (("feature", release.features), ("label", release.labels))
    }
    receipt = release.receipt | {"marginals": "other"}
    return FakeRelease(
        pairs=release.pairs, features=rest["feature"], labels=rest["label"], total=release.total, receipt=receipt
    )


def noisy(release: FakeRelease, seed: int) -> FakeRelease:
    """Move the margins, so that no table is one that can exist."""
    rng = np.random.default_rng(seed)
    moved = [
        keyed(
            (key,),
            {n: s + int(rng.integers(-9, 9)) for n, s in zip(t[key].to_pylist(), t["sum"].to_pylist(), strict=True)},
        )
        for key, t in (("feature", release.features), ("label", release.labels))
    ]
    return FakeRelease(
        pairs=release.pairs, features=moved[0], labels=moved[1], total=release.total + 7, receipt=release.receipt
    )


def saved(release: FakeRelease, folder: Path) -> Release:
    """Write a release made by hand, and read its files. A receipt made by hand is not one that `load` accepts."""
    receipt = {"format": 1, "release_id": "x", "plan": None, **release.receipt}
    total = pa.table({"sum": pa.array([release.total], pa.int64())})
    tables = MemoryTables(pairs=release.pairs, features=release.features, labels=release.labels, total=total)
    stored = Release(receipt=receipt, tables=tables).save(folder)
    return Release(receipt=receipt, tables=FolderTables(folder=stored))


def units_space(release: FakeRelease) -> FakeRelease:
    """Say that labels and total count units."""
    release.receipt.update(space="units", grid={"step": "0.5", "g": 3})
    return release


def grid() -> FakeRelease:
    """Release every pair of two lists, zeros and negative sums too."""
    names = [*NAMES, *(f"f{number:03d}" for number in range(40))]
    full = {(f, label): 0 for f in names for label in "xy"} | {(f, "x"): number - 3 for number, f in enumerate(names)}
    return private_release(full, g=8, step="0.1")


CASES = {
    "exact": lambda: exact_release(counts(1)),
    "noisy": lambda: noisy(private_release(counts(2), threshold=1), 2),
    "other": lambda: with_other(private_release(counts(3), threshold=2, mechanism="discrete_laplace")),
    "units": lambda: units_space(noisy(private_release(counts(4, high=900)), 4)),
    "grid": grid,
    "ties": lambda: private_release({(f"f{n:04d}", label): 1 for n in range(300) for label in "xyz"}),
}


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even small releases into several buckets."""
    monkeypatch.setattr(spark_rankings, "BUCKET_ROWS", 40)


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_rank(spark: SparkSession, tmp_path: Path, case: str) -> None:
    """Every column of every row is equal, in one order, for ties, Unicode, NULL cells, grids and units."""
    release = saved(CASES[case](), tmp_path / "a [release] {of} *")
    with rank_on_spark(release, session=spark) as ranking:
        got = ranking.to_spark().drop("notice").orderBy("rank").toArrow()
        plan = plan_of(ranking.to_spark())
        buckets = ranking.kept.select("bucket").distinct().count()
    expected = rank(release).table
    assert got.cast(expected.schema).equals(expected)
    assert "SinglePartition" not in plan
    assert buckets > 1 or len(expected) <= 40


@pytest.mark.parametrize("threshold", [None, 30])
def test_whole_features_are_pooled_as_by_rank(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: int | None
) -> None:
    """The model is learned from the same features, whose pairs may come in several batches, with gaps or without."""
    monkeypatch.setattr(orders, "_FEATURES", 50)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    draw = np.random.default_rng(8)
    sums = {
        (f"{f}{number}", label): int(draw.normal(40 + 3 * at * (number % 3), 6))
        for number in range(20)
        for f in NAMES
        for at, label in enumerate(["x", "y", "Z", "é", "\U0001f600"])
    }
    shown = {key: value for key, value in sums.items() if threshold is None or value >= threshold}
    release = saved(noisy(private_release(shown, threshold=threshold), 8), tmp_path / "r")
    try:
        with rank_on_spark(release, session=spark, order="pooled") as ranking:
            got = ranking.top(len(shown), per="all").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    expected = rank(release, order="pooled")
    assert got.table.equals(expected.table)
    assert got.order_in_words == expected.order_in_words != ""
    assert got.table["feature"].to_pylist() != rank(release, order="shrunk").table["feature"].to_pylist()


def plan_of(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        frame.explain(mode="formatted")
    assert "Window" in out.getvalue()
    return out.getvalue()


def test_top_lists_scores_and_files_are_those_of_rank(spark: SparkSession, tmp_path: Path) -> None:
    """Top lists come in order with the ranks they had among all, by another score too, and files hold the ranking."""
    release = saved(noisy(private_release(counts(5), threshold=1), 5), tmp_path / "r")
    options: dict[str, Any] = {"score": "log_odds", "base": 2.0}
    whole = rank(release, **options)
    asked: list[tuple[int, Any, Any]] = [(3, "label", "both"), (1, "feature", "presence"), (7, "all", "absence")]
    with rank_on_spark(release, session=spark, **options) as ranking:
        for n, per, direction in asked:
            best = ranking.top(n, per=per, direction=direction)
            expected = whole.top(n, per=per, direction=direction)
            assert best.collect().table.equals(expected.table), per
            assert best.collect().promise == expected.promise
        assert ranking.clear().frame.count() == whole.clear_count
        ranking.save(tmp_path / "ranking")
        assert (ranking.dataset, ranking.promise) == (whole.dataset, whole.promise)
    files = sorted((tmp_path / "ranking").glob("*.parquet"))
    written = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    assert written.column("rank").to_pylist() == list(range(1, len(whole) + 1))


def test_releases_in_memory_and_exact_ones_are_ranked(spark: SparkSession, tmp_path: Path) -> None:
    """A release needs no folder, and rows of exact sums carry their notice."""
    folder = saved(exact_release({("tea", "uk"): 6, ("tea", "fr"): 1, ("wine", "fr"): 5}), tmp_path / "r")
    scans = {name: folder.tables.scan(name) for name in ("pairs", "features", "labels", "total")}
    release = Release(receipt=folder.receipt, tables=MemoryTables(**scans))
    with rank_on_spark(release, session=spark) as ranking:
        assert {row.notice for row in ranking.to_spark().collect()} == {"NOT PRIVATE"}
        assert ranking.top(9, per="all").collect().table.equals(rank(release).table)


def test_an_empty_release_ranks_to_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """No pairs, no rows, no error."""
    with rank_on_spark(saved(private_release({}), tmp_path / "r"), session=spark) as ranking:
        assert len(ranking.top(5).collect()) == 0


def test_damaged_tables_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A pair without a sum, and a feature that comes twice, are refused; the session persists nothing of them."""
    whole = exact_release({("tea", "uk"): 6, ("wine", "fr"): 5})
    lacking = FakeRelease(**{**vars(whole), "features": whole.features.slice(1)})
    with pytest.raises(ReleaseError, match="without a released sum"):
        rank_on_spark(saved(lacking, tmp_path / "lacking"), session=spark)
    twice = FakeRelease(**{**vars(whole), "features": pa.concat_tables([whole.features, whole.features])})
    with pytest.raises(ReleaseError, match="twice"):
        rank_on_spark(saved(twice, tmp_path / "twice"), session=spark)


@pytest.mark.parametrize("wrong", [{"method": "guess"}, {"base": 0.5}, {"score": "guess"}, {"order": "guess"}])
def test_wrong_options_are_refused_before_spark_is_asked(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """What `rank` refuses is refused here too."""
    with pytest.raises(InputError, match=r"guess|base"):
        rank_on_spark(tmp_path / "nowhere", **wrong)


def test_wrong_top_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """What `Ranking.top` refuses is refused here too."""
    with rank_on_spark(saved(exact_release({("tea", "uk"): 6}), tmp_path / "r"), session=spark) as ranking:
        for n, per in ((0, "label"), (True, "label"), (3, "unit")):
            with pytest.raises(InputError):
                ranking.top(n, per=per)


CONNECT = """
import sys
from pyspark.sql import SparkSession
import ddpmi
from ddpmi.rankings import spark

spark.BUCKET_ROWS = 40
session = SparkSession.builder.remote("local[2]").getOrCreate()
with ddpmi.rank_on_spark(sys.argv[1], session=session, order="pooled") as ranking:
    best = ranking.top(4, per="feature", direction="presence").collect()
assert not hasattr(session, "_jsc")
best.save(sys.argv[2])
session.stop()
"""


def test_connect_gives_the_same(tmp_path: Path) -> None:
    """A client of Spark Connect, which has no context, ranks alike, in the order that asks most of it."""
    need_spark()
    rows = [row for row, count in counts(6).items() for _ in range(count)]
    columns = dict(zip(("feature", "label"), map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table({"unit": [f"u{number}" for number in range(len(rows))], **columns})
    plan = Plan(budget=Budget(8, 1e-3), bounds=Bounds(pairs=1))
    release = Release.load(seeded_release(observe(table), plan, seed=6).save(tmp_path / "r"))
    words = [sys.executable, "-c", CONNECT, str(tmp_path / "r"), str(tmp_path / "best.parquet")]
    settings = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
    env = os.environ | FREE_PORT | {"PYTHONPATH": str(SRC), "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = rank(release, order="pooled").top(4, per="feature", direction="presence").table
    # The file of a release with seeded noise says NOT PRIVATE in each row.
    assert pq.ParquetFile(tmp_path / "best.parquet").read().drop(["notice"]).equals(expected)
