"""Rank all pairs of a release by mutual information: free post-processing, nothing here can reach rows.

release -> Ranking : the columns ``scores.COLUMNS``, best pair first
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ddpmi import certainty, charts, measures, orders, ranking_files, ranking_tables, scores, show
from ddpmi import mi as information
from ddpmi.doubts import Doubt
from ddpmi.errors import InputError, MissingExtra
from ddpmi.ranking_tables import RANK_BOUNDS
from ddpmi.scores import COLUMNS, Released
from ddpmi.spec import LONGEST_LIST, check_count
from ddpmi.views import SCORE, Coded, Direction, Pairs, Per, mutual_information_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd
    import polars as pl
    import pyarrow as pa


class _Table:
    """The table of a ranking, made when it is first asked for: a top list of millions of pairs needs no table."""

    def __get__(self, ranking: Ranking | None, owner: type) -> pa.Table:
        if ranking is None:
            raise AttributeError  # so that the field has no default
        held = ranking.__dict__["table"]
        if isinstance(held, Pairs):
            held = ranking.__dict__["table"] = held.table()
        return held

    def __set__(self, ranking: Ranking, table: pa.Table) -> None:
        ranking.__dict__["table"] = table


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Pairs in order, best first. Made by `rank`; never holds anything that was not released."""

    table: _Table = _Table()
    """The columns ``COLUMNS``, and ``score`` where another score gives the order."""
    private: bool
    """Whether the sums were noisy."""
    guarantee: Mapping[str, Any] | None
    """The receipt's guarantee; None where there is none."""
    dataset: str
    """The dataset's name."""
    method: information.Method = "stable"
    """How mutual information was computed."""
    base: float | None = None
    """The base of the logarithm; None for nats."""
    total: float | None = None
    """The released sum of everything, in the user's units: other scores need it."""
    scored_by: str | None = None
    """The score that gives the order; None for mutual information."""
    order: orders.Order = "estimate"
    """What of mutual information gives the order, where no other score does."""
    rank_intervals: bool = False
    """Whether the columns ``RANK_BOUNDS`` are there."""
    source: Pairs | None = field(default=None, repr=False, compare=False)
    """All scored pairs that this ranking, or the one it was cut from, was made of."""

    def __post_init__(self) -> None:
        if self._pairs is None and tuple(self.table.column_names) != self.columns:
            raise InputError(f"A ranking has the columns {self.columns}, got {tuple(self.table.column_names)}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        bounds = RANK_BOUNDS if self.rank_intervals else ()
        return (*COLUMNS, *bounds, *(() if self.scored_by is None else (SCORE,)))

    @property
    def _pairs(self) -> Pairs | None:
        """The scored pairs behind a table that was not made yet."""
        held = self.__dict__["table"]
        return held if isinstance(held, Pairs) else None

    def __len__(self) -> int:
        return int(self.table.num_rows) if self._pairs is None else len(self._pairs)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return show.ranking_html(self._first(20), len(self), self.promise, stable=self.stability)

    @property
    def notice(self) -> str | None:
        """NOT PRIVATE for a ranking of exact sums, else None."""
        return None if self.private else show.NOT_PRIVATE

    @property
    def promise(self) -> str:
        """What the release promises, in one sentence."""
        return show.promise(self.guarantee, private=self.private)

    @property
    def unit_of_mi(self) -> str:
        """The unit of mutual information: nats, bits, or logarithm base b."""
        return {None: "nats", 2.0: "bits"}.get(self.base, f"log base {self.base}")

    def top(self, n: int, *, per: Per = "label", direction: Direction = "both") -> Ranking:
        """Keep the best n of each label, of each feature, or of all.

        Args:
            n: How many, at least 1.
            per: "label" and "feature" give groups by name, each in rank order; "all" gives rank order.
            direction: Keep presence or absence alone before counting to n.

        Returns:
            A ranking whose rows keep the ranks they had.
        """
        import pyarrow.compute as pc

        check_count("top", n, most=LONGEST_LIST, hint="ranking.top(10)")
        for word, kind in ((per, Per), (direction, Direction)):
            if word not in get_args(kind):
                raise InputError(f"Choose one of {get_args(kind)}, got {word!r}.")
        if self._pairs is not None:
            return replace(self, table=self._pairs.top(n, per=per, direction=direction))
        table = self.table
        if direction != "both":
            table = table.filter(pc.equal(table["direction"], direction))
        rank = table["rank"].to_numpy()
        if per == "all":
            return replace(self, table=table.take(np.argsort(rank)[:n]))
        group = scores.codes_by_bytes(table[per])
        order = np.lexsort((rank, group))
        return replace(self, table=table.take(order[scores.places_in_groups(group[order]) <= n]))

    def score(self, name: measures.ScoreName) -> Ranking:
        """Order the same pairs by another score, from their own sums: nothing is read and nothing is spent.

        Args:
            name: One of "mi", "nmi" (MI / H(label)), "pmi", "npmi", "lift", "chi2", "g2" (2 N MI), "phi",
                "yule_q", "log_odds" (z-score, informative Dirichlet prior), "jlh", "gnd", "log_ratio". "mi"
                and "pmi" are in nats. They carry no p-values.

        Returns:
            A ranking with a column ``score``, descending; ties as for mi. Ranks count the pairs of this
            ranking, directions are those of the pairs' own sums, and all other columns stay.
        """
        measures.check_name(name)
        if self._pairs is not None:
            return replace(self, table=self._pairs.scored(name), scored_by=name)
        if self.total is None:
            raise InputError("This ranking does not know its total.", hint="ddpmi.rank(release, score=...)")
        table = self.table.select(COLUMNS)
        if name == "mi":
            values = table["mi"].to_numpy() * (1.0 if self.base is None else math.log(self.base))
        else:
            joint, feature, label = (table[key].to_numpy() for key in ("joint", "feature_total", "label_total"))
            values = measures.score(name, joint, feature, label, self.total)
        return replace(self, table=ranking_tables.ordered_by(table, values), scored_by=name, rank_intervals=False)

    def stable_top(self, confidence: float = 0.95, *, among: Literal["all", "released"] = "all") -> int:
        """Count the first places of the whole ranking that surely hold the pairs that belong there, in some order.

        Args:
            confidence: How sure, between 0 and 1.
            among: Whether pairs that were not released may stand in these places too, or released ones alone.

        Returns:
            The largest such number; all pairs where sums are exact.
        """
        return certainty.stable_top(self._sure(), confidence, among=among)

    def stable_tops(self, confidence: float = 0.95) -> dict[str, int]:
        """Count the same within each label; the confidence holds for all labels together."""
        pairs = self._sure()
        return dict(zip(pairs.cells.labels.to_pylist(), certainty.stable_tops(pairs, confidence), strict=True))

    def _sure(self) -> Pairs:
        if self.source is None or self.scored_by not in (None, "mi"):
            raise InputError("A stable top needs a ranking by mutual information.", hint="ddpmi.rank(release)")
        return self.source

    @property
    def stability(self) -> str:
        """The stable top in one sentence; nothing to say where sums are exact or another score gives the order."""
        if not self.private or self.source is None or self.scored_by not in (None, "mi"):
            return ""
        return show.stable_top(self.stable_top(), self.stable_top(among="released"))

    @property
    def order_in_words(self) -> str:
        """How rows are ordered, in one sentence; nothing to say where it is by mutual information, or by another score."""
        return orders.IN_WORDS[self.order] if self.scored_by is None else ""

    def coded(self) -> Coded:
        """Return the pairs as numbers, by their keys' bytes: how `compare` reads a ranking."""
        if self._pairs is not None:
            return self._pairs.coded()
        table = self.table
        (features, feature), (labels, label) = (scores.names_by_bytes(table[key]) for key in ("feature", "label"))
        by_key = np.lexsort((label, feature))
        place = np.empty(len(self), np.int64)
        place[np.argsort(table["rank"].to_numpy(), kind="stable")] = np.arange(1, len(self) + 1)
        return Coded(
            features=features,
            labels=labels,
            feature_code=feature[by_key],
            label_code=label[by_key],
            place=place[by_key],
            presence=scores.equals(table["direction"], "presence")[by_key],
        )

    def to_arrow(self) -> pa.Table:
        """Return the columns as Arrow; what is promised is in the schema's metadata."""
        meta = {
            "ddpmi.private": json.dumps(self.private),
            "ddpmi.promise": self.promise,
            "ddpmi.mi": self.unit_of_mi,
        }
        if self.scored_by is not None:
            meta["ddpmi.score"] = self.scored_by
        return self.table.replace_schema_metadata(meta)

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas frame; what is promised is in its ``attrs``."""
        frame = self.table.to_pandas()
        frame.attrs.update(private=self.private, promise=self.promise)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return a polars frame."""
        try:
            import polars as pl
        except ImportError as error:
            raise MissingExtra("polars is not installed.", hint="pip install polars") from error
        return pl.DataFrame(self.table)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dict for each row; rows of exact sums start with their notice."""
        return [dict(row) for row in self._stamped().to_pylist()]

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write csv, json or parquet, by the path's suffix.

        In CSV a name that a spreadsheet would run as a formula gets a leading '. Files of exact sums have a
        first column ``notice``.
        """
        return ranking_files.save(self._stamped, path, overwrite=overwrite)

    def plot(self, path: str | os.PathLike[str] | None = None, *, top: int = 20, overwrite: bool = False) -> Any:
        """Draw the best pairs as bars with their intervals, coloured by direction.

        Args:
            path: A new .svg, .png or .html file; None returns the Altair chart.
            top: How many pairs, from the first one on.
            overwrite: Replace a file that stands there.

        Raises:
            MissingExtra: The ``report`` extra is not installed.
        """
        chart = charts.of_ranking(self._first(top), unit=self.unit_of_mi, said=self.promise)
        return chart if path is None else charts.save(chart, path, overwrite=overwrite)

    def to_text(self, width: int = 100, *, rows: int = 20) -> str:
        """Write a plain table for a terminal of that width."""
        text = show.ranking_text(self._first(rows), len(self), self.promise, width=width)
        return "\n".join(line for line in (text, self.stability) if line)

    def _first(self, rows: int) -> list[dict[str, Any]]:
        if self._pairs is None or rows < 1:
            return [dict(row) for row in self.table.slice(0, rows).to_pylist()]
        return [dict(row) for row in self.top(rows, per="all").table.to_pylist()]

    def _stamped(self) -> pa.Table:
        import pyarrow as pa

        if self.private:
            return self.to_arrow()
        return self.to_arrow().add_column(0, "notice", pa.repeat(show.NOT_PRIVATE, len(self)))


def rank(  # noqa: PLR0913 - each is a question of its own, and all but the release have a default
    release: Released,
    *,
    score: measures.ScoreName | None = None,
    method: information.Method = "stable",
    base: float | None = None,
    tol: float = 1e-15,
    rank_intervals: bool = False,
    order: orders.Order | None = None,
) -> Ranking:
    """Rank every pair of a release.

    Args:
        release: The release; it is only read.
        score: Another score to order by, as in `Ranking.score`; None for mutual information.
        method: "stable", or "paper" for CalcMI as printed.
        base: The base of the logarithm of mutual information; None for nats, 2 for bits.
        tol: The tolerance of method "paper".
        rank_intervals: Add the columns rank_low and rank_high: where noise may have moved each pair from, at 95%,
            among the released pairs. Only for mutual information.
        order: "estimate" orders by mi, "lower" by mi_low, "shrunk" by mi after each joint sum was moved towards independence
            as far as its noise demands, "pooled" by the mi to be expected when the other labels of its feature are looked at
            too, with directions from the same reading. None takes "estimate" behind a threshold and for exact sums, and
            "pooled" where every pair of known keys was released: see docs/decisions/accuracy.md.

    Returns:
        All pairs: what the order says to 12 significant digits descending, joint descending, feature, label by bytes.

    >>> import pyarrow as pa
    >>> from types import SimpleNamespace
    >>> sums = pa.array([60], pa.int64())
    >>> release = SimpleNamespace(
    ...     pairs=pa.table({"feature": ["tea"], "label": ["uk"], "sum": sums}),
    ...     features=pa.table({"feature": ["tea"], "sum": pa.array([100], pa.int64())}),
    ...     labels=pa.table({"label": ["uk"], "sum": pa.array([200], pa.int64())}),
    ...     total=1000,
    ...     receipt={"private": False, "grid": {"step": 1, "g": 0}},
    ... )
    >>> row = rank(release, score="chi2").to_dicts()[0]
    >>> row["notice"], row["direction"], round(row["mi"], 7), row["lift"], round(row["score"], 2)
    ('NOT PRIVATE', 'presence', 0.0440979, 3.0, 111.11)
    """
    information.check_method(method, tol)
    if score is not None:
        measures.check_name(score)
    check_base(base)
    orders.check_order(order)
    if rank_intervals and score is not None:
        raise InputError(f"Rank intervals belong to mutual information, got score={score!r}.", hint="leave score out")
    cells, receipt = scores.read(release), release.receipt
    mi = mutual_information_of(cells, method, tol)
    doubt = Doubt.of(cells, receipt)
    pairs = Pairs(cells=cells, doubt=doubt, mi=mi, base=base, ranked_by=order or orders.default_order(doubt))
    return Ranking(
        table=ranking_tables.with_rank_bounds(pairs)
        if rank_intervals
        else pairs
        if score is None
        else pairs.scored(score),
        private=bool(receipt["private"]),
        guarantee=receipt.get("guarantee"),
        dataset=str(receipt.get("dataset", "default")),
        method=method,
        base=base,
        total=cells.users_total,
        scored_by=score,
        order="estimate" if doubt is None else pairs.ranked_by,
        rank_intervals=rank_intervals,
        source=pairs,
    )


def check_base(base: float | None) -> None:
    """Refuse a base that no logarithm has.

    >>> check_base(2)
    """
    if base is not None and not (math.isfinite(base) and base > 1):
        raise InputError(f"base must be larger than 1, got base={base!r}.", hint="base=2 for bits")
