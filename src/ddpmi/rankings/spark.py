"""Rankings in Spark: released pairs are scored and ordered by the executors, and only samples reach the driver.

pairs, features, labels -> scored : the numbers and the bucket of each pair -> ranked : the columns of a ranking
A bucket is a range of the order of all pairs. The rank of a row is its rank within its bucket plus the size of all earlier
buckets, so that no task sorts all pairs. The code runs on Spark Connect too.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np

from ddpmi import text
from ddpmi._typing import KEYS
from ddpmi.errors import InputError, MissingExtra, ReleaseError
from ddpmi.information import mi as information
from ddpmi.information import scores
from ddpmi.rankings import orders, verdicts
from ddpmi.rankings.batches import BUCKET, COUNTED, JOINT, KEY, Cuts, Learning, Scoring, Task
from ddpmi.rankings.cells import COLUMNS
from ddpmi.rankings.pairs import SCORE, Direction, Per, check_top
from ddpmi.rankings.ranking import Ranking, check_base
from ddpmi.releases.release import Release
from ddpmi.releases.tables import FolderTables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from ddpmi._typing import ScoreName, TableName
    from ddpmi.releases.tables import Tables


BUCKET_ROWS = 1 << 18
"""About how many pairs one task sorts."""
_SAMPLED = 64  # sampled pairs for each bucket, to choose its borders
_GLOB = str.maketrans({mark: f"\\{mark}" for mark in "\\{}[]*?"})


class Released(Protocol):
    """A release, as far as ranking in Spark reads it."""

    @property
    def receipt(self) -> Mapping[str, Any]:
        """The receipt."""

    @property
    def tables(self) -> Tables:
        """The released tables."""


def default_session() -> SparkSession:
    """Return Spark's default session. Spark starts one with the machine's own settings if there is none.

    Raises:
        MissingExtra: pyspark is not installed.
    """
    try:
        from pyspark.sql import SparkSession as Sessions
    except ImportError as error:
        raise MissingExtra("Spark is not installed.", hint="pip install 'ddpmi[spark]'") from error
    # Spark would start the first python3 on the PATH, where this package may not be installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return Sessions.builder.getOrCreate()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """The tables of one release as DataFrames of one session."""

    session: SparkSession
    """The session."""
    pairs: DataFrame
    """feature, label, sum."""
    features: DataFrame
    """feature, sum."""
    labels: DataFrame
    """label, sum."""

    @classmethod
    def of(cls, release: Released, session: SparkSession) -> Frames:
        """Open a release in memory, or its folder, which driver and executors must both be able to read."""
        found = {name: _frame(release.tables, name, session) for name in ("pairs", "features", "labels")}
        return cls(session=session, **found)


def _frame(tables: Tables, name: TableName, session: SparkSession) -> DataFrame:
    if not isinstance(tables, FolderTables):
        return session.createDataFrame(tables.scan(name))
    # The files by name: a file that is added later is not read.
    places = [str(file.resolve()).translate(_GLOB) for file in tables.files(name)]
    keys = {"pairs": "feature STRING, label STRING", "features": "feature STRING", "labels": "label STRING"}[name]
    # file:// because a cluster may have another default file system; escapes because Spark reads a path as a pattern.
    return session.read.schema(f"{keys}, sum BIGINT").parquet(*(f"file://{place}" for place in places))


def _check_unchanged(tables: Tables) -> None:
    """Refuse files that changed after they were compared with the receipt. The executors have read them by path."""
    if isinstance(tables, FolderTables):
        for name in KEYS:
            tables.check_unchanged(name)


def scored(frames: Frames, scoring: Scoring) -> DataFrame:
    """Score every pair and find its bucket."""
    if scoring.pools:
        scoring = _learn(frames, scoring)
    if scoring.receipt["private"]:
        scoring = _judged(frames, scoring)
    buckets = math.ceil(frames.pairs.count() / BUCKET_ROWS)
    cuts = Cuts() if buckets <= 1 else Cuts.of(_sample(frames, scoring, buckets * _SAMPLED), buckets)
    return _run(_joined(frames, frames.pairs, scoring), Task(scoring=scoring, cuts=cuts), tasks=max(buckets, 1))


def _learn(frames: Frames, scoring: Scoring) -> Scoring:
    """Fit the model of the pooled order on the driver, to the same sample of features as `orders.pooled`."""
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    labels = frames.labels.where("label IS NOT NULL").select("label").toArrow().sort_by("label")["label"]
    present = frames.features.join(frames.pairs, "feature", "left_semi").select("feature")
    some = present.orderBy(F.crc32("feature"), "feature").limit(orders.sample_size(max(len(labels), 1)))
    pairs = frames.pairs.join(F.broadcast(some), "feature", "left_semi")
    return scoring.learn(_joined(frames, pairs, scoring).toArrow(), labels.combine_chunks())


def _judged(frames: Frames, scoring: Scoring) -> Scoring:
    """Learn what gives verdicts from integers that the executors add up: as many as there are readings and labels."""
    scoring = scoring.with_prior(_totals(frames, scoring))
    return scoring.with_judge(_totals(frames, scoring))


def _totals(frames: Frames, scoring: Scoring) -> pa.Table:
    from pyspark.sql import functions as F  # noqa: N812

    learned = _joined(frames, frames.pairs, scoring).mapInArrow(
        Learning(scoring=scoring), "label STRING, place BIGINT, value BIGINT"
    )
    return learned.groupBy("label", "place").agg(F.sum("value").alias("value")).toArrow()


def _run(joined: DataFrame, task: Task, tasks: int = 1) -> DataFrame:
    if task.scoring.learned is not None:
        joined = joined.repartition(tasks, "feature").sortWithinPartitions("feature")
    numbers = ", ".join(f"{name} DOUBLE" for name in task.scoring.numbers)
    names = "label STRING, feature STRING, direction STRING"
    return joined.mapInArrow(task, f"{names}, {numbers}, note STRING, {KEY} DOUBLE, {JOINT} BIGINT, {BUCKET} INT")


def _sample(frames: Frames, scoring: Scoring, wanted: int) -> list[tuple[float, int, bytes, bytes]]:
    """Collect a small sample of pairs, or of whole features, by a hash of their names. They are released already."""
    from pyspark.sql import functions as F  # noqa: N812

    every = max(1, frames.pairs.count() // wanted)
    keys = ("feature", "label") if scoring.learned is None else ("feature",)
    some = frames.pairs.where(F.pmod(F.xxhash64(*keys), F.lit(every)) == 0)
    keyed = _run(_joined(frames, some, scoring), Task(scoring=scoring, cuts=Cuts()))
    rows = keyed.where(F.col(KEY).isNotNull()).select(KEY, JOINT, "feature", "label").collect()
    return [(row[0], ~row[1], row[2].encode(), row[3].encode()) for row in rows]


def _joined(frames: Frames, pairs: DataFrame, scoring: Scoring) -> DataFrame:
    """Join each pair with the sums of its feature and of its label; Spark broadcasts a table that is small."""
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
    """Add the ranks of the pairs: among all, within label and within feature.

    Args:
        scored: The result of `scored`; it is read several times, so persist it if it is large.
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

    # These windows are small: at most one row for each bucket and label. Windows over a feature have one row for each label.
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
    cut = _cut(scored)
    found = found.withColumn("clear", _level() < cut)
    return found.select(*COLUMNS, *(name for name in scored.columns if name == SCORE))


def _level() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.ceil(F.col("false_sign") * (verdicts.LEVELS - 1)).cast("int")


def _cut(scored: DataFrame) -> int:
    """Return the lowest level of false_sign that is not clear; one number for each level reaches the driver."""
    counts = np.zeros(verdicts.LEVELS, np.int64)
    for level, count in scored.groupBy(_level().alias("level")).count().collect():
        counts[level] = count
    return verdicts.cut(counts)


def _before(scored: DataFrame, frames: Frames) -> DataFrame:
    """Count the pairs in earlier buckets; one number for each bucket reaches the driver."""
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
    """Return the best n of each group, groups by name."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    rows = ranked if direction == "both" else ranked.where(F.col("direction") == direction)
    if per == "all":
        return rows.orderBy("rank").limit(n)
    group: Literal["label", "feature"] = per
    place = F.row_number().over(Window.partitionBy(group).orderBy("rank"))
    return rows.withColumn("_place", place).where(F.col("_place") <= n).drop("_place").orderBy(group, "rank")


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkRanking:
    """Ranked pairs that stay in Spark. Made by `rank_on_spark`; close it, or use it in a ``with``, to free its memory."""

    frame: DataFrame = field(repr=False)
    """The columns of a ranking, unsorted; sort by ``rank``."""
    private: bool
    """Whether the sums were noisy."""
    guarantee: Mapping[str, Any] | None
    """The receipt's guarantee; None where there is none."""
    dataset: str
    """The dataset's name."""
    scoring: Scoring
    """How the pairs were scored."""
    kept: DataFrame = field(repr=False)
    """The scored pairs that the session persists."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def promise(self) -> str:
        """The guarantee of the release, in one sentence."""
        return text.promise(self.guarantee, private=self.private)

    def top(self, n: int, *, per: Per = "label", direction: Direction = "both") -> SparkRanking:
        """Keep the best n of each label, of each feature, or of all, as `Ranking.top` does.

        Args:
            n: How many, at least 1.
            per: As in `Ranking.top`.
            direction: Keep only presence, or only absence, before counting to n.

        Returns:
            A ranking whose rows keep their ranks, sorted.
        """
        check_top(n, per, direction)
        return replace(self, frame=top(self.frame, n, per=per, direction=direction))

    def clear(self) -> SparkRanking:
        """Keep the rows that are clear of noise, as `Ranking.clear` does."""
        return replace(self, frame=self.frame.where("clear"))

    def to_spark(self) -> DataFrame:
        """Return the DataFrame; rows of exact sums start with ``notice``."""
        if self.private:
            return self.frame
        return self.frame.selectExpr(f"'{text.NOT_PRIVATE}' AS notice", "*")

    def collect(self) -> Ranking:
        """Return the rows as a `Ranking` in this process: for top lists and small releases."""
        import pyarrow as pa

        rows = self.frame.toArrow()
        # Spark declares some columns as not nullable; in a ranking all columns are nullable.
        table = rows.cast(pa.schema([(part.name, part.type) for part in rows.schema]))
        return Ranking(
            table=table,
            private=self.private,
            guarantee=self.guarantee,
            dataset=self.dataset,
            method=self.scoring.method,
            base=self.scoring.base,
            total=self.scoring.users_total,
            scored_by=self.scoring.score,
            order=self.scoring.ranked_by,
        )

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write a new folder of Parquet files, best pair first, to a path that the session can write to."""
        self.to_spark().orderBy("rank").write.mode("errorifexists").parquet(os.fspath(path))
        return os.fspath(path)

    def close(self) -> None:
        """Free the persisted pairs; Spark computes them again if the DataFrame is read later."""
        self.kept.unpersist()


def rank_on_spark(
    release: Release | str | os.PathLike[str],
    *,
    session: SparkSession | None = None,
    score: ScoreName | None = None,
    method: information.Method = "stable",
    base: float | None = None,
    order: orders.Order | None = None,
) -> SparkRanking:
    """Rank every pair of a release in Spark. Costs no budget; only samples of the pairs reach the driver.

    Args:
        release: The release, or the path of its folder, which the executors must be able to read.
        session: A classic or Connect session; the active one by default.
        score: As in `rank`.
        method: As in `rank`.
        base: As in `rank`.
        order: As in `rank`.

    Returns:
        All pairs, with the same numbers and ranks as from `rank`.

    For example, with an active session: ``rank_on_spark("visits.release").top(5).show()``
    """
    information.check_method(method, 1e-15)
    if score is not None:
        scores.check_name(score)
    check_base(base)
    orders.check_order(order)
    if not isinstance(release, Release | str | os.PathLike):
        raise InputError(
            f"Only releases are ranked, got {type(release).__name__}.", hint="rank_on_spark('visits.release')"
        )
    found = release if isinstance(release, Release) else Release.load(release)
    receipt, total = found.receipt, found.total
    scoring = Scoring(receipt=receipt, total=total, method=method, base=base, score=score, order=order)
    frames = Frames.of(found, default_session() if session is None else session)
    kept = scored(frames, scoring).persist()
    try:
        frame = ranked(kept, frames)
        _check_unchanged(found.tables)
    except BaseException:
        kept.unpersist()
        raise
    return SparkRanking(
        frame=frame,
        private=bool(receipt["private"]),
        guarantee=receipt.get("guarantee"),
        dataset=str(receipt.get("dataset", "default")),
        scoring=scoring,
        kept=kept,
    )
