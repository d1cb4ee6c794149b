"""Released tables as Spark DataFrames, and their order found where they lie: no more than samples reach the driver.

pairs, features, labels -> scored : numbers of each pair and the bucket it falls in -> ranked : the columns of a ranking
A bucket is a stretch of the order of all pairs. A row's rank is its place in its bucket behind all earlier buckets, so
that no task ever sorts all pairs. Nothing here needs more than what Spark Connect offers.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ddpmi import pooling
from ddpmi.errors import MissingExtra, ReleaseError
from ddpmi.scores import COLUMNS
from ddpmi.scoring import BUCKET, COUNTED, JOINT, KEY, Cuts, Scoring, Task
from ddpmi.tables_arrow import FolderTables
from ddpmi.views import SCORE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from ddpmi.tables import TableName, Tables
    from ddpmi.views import Direction, Per

BUCKET_ROWS = 1 << 18
"""About how many pairs one task puts in order."""
_SAMPLED = 64  # pairs that are looked at for each bucket, to cut the order
_GLOB = str.maketrans({mark: f"\\{mark}" for mark in "\\{}[]*?"})


class Released(Protocol):
    """What is needed of a release."""

    @property
    def receipt(self) -> Mapping[str, Any]:
        """The receipt."""

    @property
    def tables(self) -> Tables:
        """The released tables."""


def find_session(session: SparkSession | None = None) -> SparkSession:
    """Return the session that was given, or the active one, or a new one with the machine's own settings."""
    if session is not None:
        return session
    try:
        from pyspark.sql import SparkSession as Sessions
    except ImportError as error:
        raise MissingExtra("pyspark is not installed.", hint="pip install 'ddpmi[spark]'") from error
    found = Sessions.getActiveSession()
    if found is None:
        # Spark would take the first python3 on the PATH, which may know nothing of this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        found = Sessions.builder.getOrCreate()
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """The released tables of one release in one session."""

    session: SparkSession
    """Where they are read."""
    pairs: DataFrame
    """feature, label, sum."""
    features: DataFrame
    """feature, sum."""
    labels: DataFrame
    """label, sum."""

    @classmethod
    def of(cls, release: Released, session: SparkSession) -> Frames:
        """Open a release: its folder, which driver and executors must both see, or what it holds in memory."""
        found = {name: _frame(release.tables, name, session) for name in ("pairs", "features", "labels")}
        return cls(session=session, **found)


def _frame(tables: Tables, name: TableName, session: SparkSession) -> DataFrame:
    if not isinstance(tables, FolderTables):
        return session.createDataFrame(tables.scan(name))
    place = str((tables.folder / name).resolve())
    keys = {"pairs": "feature STRING, label STRING", "features": "feature STRING", "labels": "label STRING"}[name]
    # The scheme, because a cluster's own file system may be another; escapes, because Spark takes a path for a pattern.
    return session.read.schema(f"{keys}, sum BIGINT").parquet(f"file://{place.translate(_GLOB)}")


def scored(frames: Frames, scoring: Scoring) -> DataFrame:
    """Score every pair and find its bucket."""
    if scoring.pools:
        scoring = _learn(frames, scoring)
    buckets = math.ceil(frames.pairs.count() / BUCKET_ROWS)
    cuts = Cuts() if buckets <= 1 else Cuts.of(_sample(frames, scoring, buckets * _SAMPLED), buckets)
    return _run(_joined(frames, frames.pairs, scoring), Task(scoring=scoring, cuts=cuts), tasks=max(buckets, 1))


def _learn(frames: Frames, scoring: Scoring) -> Scoring:
    """Bring the pairs of some features to the driver, those that `ddpmi.pooling` would choose, and learn from them."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

    labels = frames.labels.where("label IS NOT NULL").select("label").toArrow().sort_by("label")["label"]
    present = frames.features.join(frames.pairs, "feature", "left_semi").select("feature")
    some = present.orderBy(F.crc32("feature"), "feature").limit(pooling.sample_size(max(len(labels), 1)))
    pairs = frames.pairs.join(F.broadcast(some), "feature", "left_semi")
    return scoring.learn(_joined(frames, pairs, scoring).toArrow(), labels.combine_chunks())


def _run(joined: DataFrame, task: Task, tasks: int = 1) -> DataFrame:
    if task.scoring.learned is not None:
        joined = joined.repartition(tasks, "feature").sortWithinPartitions("feature")
    numbers = ", ".join(f"{name} DOUBLE" for name in task.scoring.numbers)
    names = "label STRING, feature STRING, direction STRING"
    return joined.mapInArrow(task, f"{names}, {numbers}, {KEY} DOUBLE, {JOINT} BIGINT, {BUCKET} INT")


def _sample(frames: Frames, scoring: Scoring, wanted: int) -> list[tuple[float, int, bytes, bytes]]:
    """Take some pairs, or whole features, by a hash of their names; they are public, and few."""
    from pyspark.sql import functions as F  # noqa: N812

    every = max(1, frames.pairs.count() // wanted)
    keys = ("feature", "label") if scoring.learned is None else ("feature",)
    some = frames.pairs.where(F.pmod(F.xxhash64(*keys), F.lit(every)) == 0)
    keyed = _run(_joined(frames, some, scoring), Task(scoring=scoring, cuts=Cuts()))
    rows = keyed.where(F.col(KEY).isNotNull()).select(KEY, JOINT, "feature", "label").collect()
    return [(row[0], ~row[1], row[2].encode(), row[3].encode()) for row in rows]


def _joined(frames: Frames, pairs: DataFrame, scoring: Scoring) -> DataFrame:
    """Bring the sums of its feature and of its label to each pair; Spark broadcasts a table that is small."""
    found = pairs
    for key, sums in (("feature", frames.features), ("label", frames.labels)):
        known = sums.where(f"{key} IS NOT NULL").select(key, sums["sum"].alias(f"{key}_sum"))
        if scoring.counted:
            counts = frames.pairs.groupBy(key).count().withColumnRenamed("count", f"pairs_of_{key}")
            known = known.join(counts, key, "left")
        found = found.join(known, key, "left")
    more = COUNTED if scoring.counted else ()
    return found.select("feature", "label", "sum", "feature_sum", "label_sum", *more)


def ranked(scored: DataFrame, frames: Frames) -> DataFrame:
    """Number the pairs in all, within label and within feature.

    Args:
        scored: What `scored` gave, kept if reading it twice is dear.
        frames: The released tables.

    Raises:
        ReleaseError: The tables do not fit together.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    before = _before(scored, frames)
    order = (F.col(KEY), F.col(JOINT).desc(), F.col("feature"), F.col("label"))

    def place(*group: str) -> Column:
        return F.row_number().over(Window.partitionBy(*group).orderBy(*order)).cast("bigint")

    # At most one row for each bucket and label, so these windows are small. Those over a feature hold one row for each label.
    earlier = Window.partitionBy("label").orderBy(BUCKET).rowsBetween(Window.unboundedPreceding, -1)
    counts = scored.groupBy(BUCKET, "label").count()
    in_label = counts.select(BUCKET, "label", F.coalesce(F.sum("count").over(earlier), F.lit(0)).alias("_in_label"))
    found = (
        scored.withColumn("rank_in_feature", place("feature"))
        .withColumn("rank", place(BUCKET))
        .withColumn("rank_in_label", place(BUCKET, "label"))
        .join(F.broadcast(before), BUCKET)
        .join(in_label, [BUCKET, "label"])
        .withColumn("rank", F.col("rank") + F.col("_before"))
        .withColumn("rank_in_label", F.col("rank_in_label") + F.col("_in_label"))
    )
    return found.select(*COLUMNS, *(name for name in scored.columns if name == SCORE))


def _before(scored: DataFrame, frames: Frames) -> DataFrame:
    """Count the pairs that stand in earlier buckets: one number for each bucket comes to the driver."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = scored.groupBy(BUCKET).agg(F.count("*"), F.count_if(F.col(KEY).isNull())).collect()
    if any(row[2] for row in rows):
        raise ReleaseError("A released pair has a feature or label without a released sum.")
    if sum(row[1] for row in rows) != frames.pairs.count():
        raise ReleaseError("A released table holds a feature or label twice.")
    before, table = 0, []
    for bucket, count, _ in sorted(rows):
        table.append((bucket, before))
        before += count
    return frames.session.createDataFrame(table, f"{BUCKET} INT, _before BIGINT")


def top(ranked: DataFrame, n: int, *, per: Per, direction: Direction) -> DataFrame:
    """Keep the best n of each group, groups by name; each task first cuts its own share to n."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    rows = ranked if direction == "both" else ranked.where(F.col("direction") == direction)
    if per == "all":
        return rows.orderBy("rank").limit(n)
    group: Literal["label", "feature"] = per
    place = F.row_number().over(Window.partitionBy(group).orderBy("rank"))
    return rows.withColumn("_place", place).where(F.col("_place") <= n).drop("_place").orderBy(group, "rank")
