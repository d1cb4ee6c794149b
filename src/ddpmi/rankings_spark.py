"""Rank a release that is too large for one machine, in Spark: the numbers, columns and orders of `rank`.

release -> SparkRanking : a DataFrame with the columns ``scores.COLUMNS``
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, get_args

from ddpmi import measures, orders, show, tables_spark
from ddpmi import mi as information
from ddpmi.errors import InputError
from ddpmi.rankings import Ranking, check_base
from ddpmi.releases import Release
from ddpmi.scoring import Scoring
from ddpmi.spec import LONGEST_LIST, check_count
from ddpmi.views import Direction, Per

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkRanking:
    """Ranked pairs that stay in Spark. Made by `rank_on_spark`; close it, or use it in a ``with``, to free what it keeps."""

    frame: DataFrame = field(repr=False)
    """The columns of a ranking, in no order; ``rank`` gives it."""
    private: bool
    """Whether the sums were noisy."""
    guarantee: Mapping[str, Any] | None
    """The receipt's guarantee; None where there is none."""
    dataset: str
    """The dataset's name."""
    scoring: Scoring
    """How the pairs were scored."""
    kept: DataFrame = field(repr=False)
    """The scored pairs that the session keeps."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def promise(self) -> str:
        """What the release promises, in one sentence."""
        return show.promise(self.guarantee, private=self.private)

    def top(self, n: int, *, per: Per = "label", direction: Direction = "both") -> SparkRanking:
        """Keep the best n of each label, of each feature, or of all, as `Ranking.top` does.

        Args:
            n: How many, at least 1.
            per: What n counts in.
            direction: Keep presence or absence alone before counting to n.

        Returns:
            A ranking whose rows keep the ranks they had, in order.
        """
        check_count("top", n, most=LONGEST_LIST, hint="ranking.top(10)")
        for word, kind in ((per, Per), (direction, Direction)):
            if word not in get_args(kind):
                raise InputError(f"Choose one of {get_args(kind)}, got {word!r}.")
        return replace(self, frame=tables_spark.top(self.frame, n, per=per, direction=direction))

    def to_spark(self) -> DataFrame:
        """Return the DataFrame; rows of exact sums start with their notice."""
        if self.private:
            return self.frame
        return self.frame.selectExpr(f"'{show.NOT_PRIVATE}' AS notice", "*")

    def collect(self) -> Ranking:
        """Bring the rows to this process, as a `Ranking`: for top lists and small releases."""
        import pyarrow as pa

        rows = self.frame.toArrow()
        # Spark says of some columns that they hold no NULL; the columns of a ranking leave that open.
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
        """Write a folder of Parquet files, best pair first, wherever the session can write. It must not exist."""
        self.to_spark().orderBy("rank").write.mode("errorifexists").parquet(os.fspath(path))
        return os.fspath(path)

    def close(self) -> None:
        """Free what the session keeps; the DataFrame then computes it again when it is read."""
        self.kept.unpersist()


def rank_on_spark(
    release: Release | str | os.PathLike[str],
    *,
    session: SparkSession | None = None,
    score: measures.ScoreName | None = None,
    method: information.Method = "stable",
    base: float | None = None,
    order: orders.Order | None = None,
) -> SparkRanking:
    """Rank every pair of a release in Spark. Free post-processing: no more than samples come to the driver.

    Args:
        release: The release, or its folder, which the executors must see too.
        session: A classic or Connect session; the active one by default.
        score: As in `rank`.
        method: As in `rank`.
        base: As in `rank`.
        order: As in `rank`.

    Returns:
        All pairs with the numbers that `rank` gives them, and with its ranks in the same order.

    For example, with a session that is already active: ``rank_on_spark("visits.release").top(5).show()``
    """
    information.check_method(method, 1e-15)
    if score is not None:
        measures.check_name(score)
    check_base(base)
    orders.check_order(order)
    found = release if isinstance(release, Release) else Release.load(release)
    receipt, total = found.receipt, found.total
    scoring = Scoring(receipt=receipt, total=total, method=method, base=base, score=score, order=order)
    frames = tables_spark.Frames.of(found, tables_spark.find_session(session))
    kept = tables_spark.scored(frames, scoring).persist()
    try:
        frame = tables_spark.ranked(kept, frames)
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
