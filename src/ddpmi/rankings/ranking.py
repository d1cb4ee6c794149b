"""A ranking of the pairs of a release, by mutual information or by another score.

release -> Ranking : the columns ``cells.COLUMNS``, best pair first
Ranking reads released numbers only. It costs no budget.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ddpmi import text
from ddpmi.errors import LONGEST_LIST, Hint, InputError, MissingExtra, check_count
from ddpmi.information import mi as information
from ddpmi.information import scores
from ddpmi.rankings import certainty, charts, display, drawings, orders, views
from ddpmi.rankings.cells import COLUMNS, Released, read
from ddpmi.rankings.labels import check_known, natural_order
from ddpmi.rankings.listed import ListedPairs
from ddpmi.rankings.noise_model import NoiseModel
from ddpmi.rankings.pairs import (
    SCORE,
    Coded,
    Direction,
    Per,
    ScoredPairs,
    check_top,
    mutual_information_of,
    nats,
)
from ddpmi.releases.words import Words, bounding_note

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from ddpmi._typing import Integers, ScoreName

RANK_BOUNDS = ("rank_low", "rank_high")
"""The columns that rank intervals add."""


class _Table:
    """The table of a ranking, made when it is first read: a top list of millions of pairs needs no table."""

    def __get__(self, ranking: Ranking | None, owner: type) -> pa.Table:
        if ranking is None:
            raise AttributeError  # so that the field has no default
        held = ranking.__dict__
        if "table" not in held:
            held["table"] = held["scored_pairs"].table()
        return held["table"]

    def __set__(self, ranking: Ranking, given: pa.Table | ScoredPairs) -> None:
        ranking.__dict__["scored_pairs" if isinstance(given, ScoredPairs) else "table"] = given


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Pairs in order, best first. Made by `rank`; it holds only released numbers."""

    table: _Table = _Table()
    """The columns ``COLUMNS``, and ``score`` where pairs are ordered by another score."""
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
    """The score that pairs are ordered by; None for mutual information."""
    order: orders.Order = "estimate"
    """How pairs are ordered by mutual information, where there is no other score."""
    rank_intervals: bool = False
    """Whether the table has the columns ``RANK_BOUNDS``."""
    words: Words = field(default=Words(), compare=False)
    """The names of the data's columns, for captions: ``words.units`` may be "customers"."""
    bounding_note: str = field(default="", compare=False)
    """Which units count less than they have, in one sentence; empty where none does."""
    receipt: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """The receipt of the release; None where it is unknown."""
    source: ScoredPairs | None = field(default=None, repr=False, compare=False)
    """All pairs of the release, also where this ranking holds only some of them; None where they are unknown."""

    def __post_init__(self) -> None:
        if isinstance(self._pairs, ListedPairs) and tuple(self.table.column_names) != self.columns:
            raise InputError(f"A ranking has the columns {self.columns}, got {tuple(self.table.column_names)}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        bounds = RANK_BOUNDS if self.rank_intervals else ()
        return (*COLUMNS, *bounds, *(() if self.scored_by is None else (SCORE,)))

    @property
    def _pairs(self) -> ScoredPairs | ListedPairs:
        """The pairs that this ranking selects from."""
        scored: ScoredPairs | None = self.__dict__.get("scored_pairs")
        return ListedPairs(rows=self.table, total=self.total, base=self.base) if scored is None else scored

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        rows = self._first(20)
        first = views.first_of(self)
        last = [f"{len(self):,} pairs, {len(rows)} shown", *views.feet_of(self)]
        return display.ranking_html(rows, views.look_of(self), first=first, last=last)

    @property
    def notice(self) -> str | None:
        """NOT PRIVATE for a ranking of exact sums, else None."""
        return None if self.private else text.NOT_PRIVATE

    @property
    def promise(self) -> str:
        """The guarantee of the release, in one sentence."""
        return text.promise(self.guarantee, private=self.private)

    @property
    def unit_of_mi(self) -> str:
        """The unit of mutual information: nats, bits, or logarithm base b."""
        return {None: "nats", 2.0: "bits"}.get(self.base, f"log base {self.base}")

    def top(self, n: int, *, per: Per = "label", direction: Direction = "both") -> Ranking:
        """Keep the best n of each label, of each feature, or of all.

        Args:
            n: How many, at least 1.
            per: "label" and "feature" give groups by name, each in rank order; "all" gives rank order.
            direction: Keep only presence, or only absence, before counting to n.

        Returns:
            A ranking whose rows keep their ranks.
        """
        check_top(n, per, direction)
        return replace(self, table=self._pairs.top(n, per=per, direction=direction))

    def label(self, *names: str) -> Ranking:
        """Keep the pairs of some labels.

        Args:
            names: Released labels, at least one.

        Returns:
            A ranking whose rows keep their ranks, best first.

        Raises:
            InputError: A label was not released. Released labels are public, and the nearest ones are named.
        """
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(f"Labels are texts, got {text.shortened(names)}.", hint='ranking.label("India", "Chile")')
        check_known(names, self._pairs.label_totals())
        return replace(self, table=self._pairs.of_labels(names))

    def feature(self, *names: str) -> Ranking:
        """Keep the pairs of some features: the symmetric view.

        Args:
            names: Released features, at least one.

        Returns:
            A ranking whose rows keep their ranks, best first.

        Raises:
            InputError: A feature was not released.
        """
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(f"Features are texts, got {text.shortened(names)}.", hint='ranking.feature("Android")')
        found = self._pairs.of_features(names)
        known = set(found["feature"].unique().to_pylist())
        for name in names:
            if name not in known:
                hint = 'ranking.top(5, per="all") shows some'
                raise InputError(f"There is no released feature {text.shortened(name)}.", hint=hint)
        return replace(self, table=found)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in their natural order: numbers, dates, months and days by value, all others by size, largest first."""
        return tuple(natural_order(self._pairs.label_totals()))

    def counts_in_labels(self) -> dict[str, tuple[int, int]]:
        """Return for each label that has pairs how many there are, and how many of them are clear."""
        return self._pairs.counts_in_labels()

    def clear_top(self, n: int) -> Ranking:
        """Keep the best n clear pairs of each label: `clear` and then `top`, without a table of all clear ones."""
        check_top(n, "label", "both")
        return replace(self, table=self._pairs.clear_top(n))

    def clear(self) -> Ranking:
        """Keep the rows that are clear of noise: of these at most about 5% point in the wrong direction.

        Which rows are clear is decided over all pairs of the release, so that a top list and the whole ranking agree.
        Rows of exact sums are all clear.

        Returns:
            A ranking whose rows keep their ranks.
        """
        return replace(self, table=self._pairs.clear_rows())

    @property
    def clear_count(self) -> int:
        """How many rows of this ranking are clear."""
        return self._pairs.clear_count

    def score(self, name: ScoreName) -> Ranking:
        """Order the same pairs by another score of their released sums. Reads no rows and costs no budget.

        Args:
            name: One of "mi", "nmi" (MI / H(label)), "pmi", "npmi", "lift", "chi2", "g2" (2 N MI), "phi",
                "yule_q", "log_odds" (z-score, informative Dirichlet prior), "jlh", "gnd", "log_ratio". "mi"
                and "pmi" are in nats. Scores have no p-values.

        Returns:
            A ranking with a column ``score``, descending; ties as for mi. Ranks are among the pairs of this
            ranking, directions are those of the pairs' own sums, and all other columns stay.
        """
        scores.check_name(name)
        return replace(self, table=self._pairs.scored(name), scored_by=name, rank_intervals=False)

    def stable_top(self, confidence: float = 0.95, *, among: Literal["all", "released"] = "all") -> int:
        """Return the largest k such that the first k pairs of the whole ranking are the k best ones without noise, in some order.

        Args:
            confidence: The probability that this holds, between 0 and 1.
            among: "all" compares with suppressed pairs too, "released" with released pairs only.

        Returns:
            The largest k; all pairs where sums are exact.
        """
        return certainty.stable_top(self._by_mi(), confidence, among=among)

    def stable_tops(self, confidence: float = 0.95) -> dict[str, int]:
        """Return the stable top within each label; the confidence holds for all labels together."""
        pairs = self._by_mi()
        return dict(zip(pairs.cells.labels.to_pylist(), certainty.stable_tops(pairs, confidence), strict=True))

    def _by_mi(self) -> ScoredPairs:
        """Return all pairs, ordered by mutual information."""
        if self.source is None or self.scored_by not in (None, "mi"):
            raise InputError("A stable top needs a ranking by mutual information.", hint="ddpmi.rank(release)")
        return self.source

    @property
    def stability(self) -> str:
        """The stable top in one sentence; empty where sums are exact or pairs are ordered by another score."""
        if not self.private or self.source is None or self.scored_by not in (None, "mi"):
            return ""
        return display.stable_top(self.stable_top(), self.stable_top(among="released"))

    @property
    def order_in_words(self) -> str:
        """How rows are ordered, in one sentence; empty where they are ordered by mi or by another score."""
        return orders.IN_WORDS[self.order] if self.scored_by is None else ""

    def coded(self) -> Coded:
        """Return the pairs as numbers, sorted by the bytes of their names: the form that `compare` reads."""
        return self._pairs.coded()

    def lifts(self, rows: Integers) -> pa.Table:
        """Return names, label_total, share_in, and lift with its interval of some pairs.

        Args:
            rows: Their row numbers in `coded`.
        """
        return self._pairs.lifts(rows)

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table; the guarantee is in the schema's metadata."""
        meta = {
            "ddpmi.private": json.dumps(self.private),
            "ddpmi.promise": self.promise,
            "ddpmi.mi": self.unit_of_mi,
        }
        if self.scored_by is not None:
            meta["ddpmi.score"] = self.scored_by
        return self.table.replace_schema_metadata(meta)

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas frame; the guarantee is in its ``attrs``."""
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
        """Return one dict for each row; rows of exact sums start with ``notice``."""
        return [dict(row) for row in self._stamped().to_pylist()]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows to any library that reads Arrow streams: ``polars.DataFrame(ranking)``, ``pyarrow.table(ranking)``."""
        return self._stamped().__arrow_c_stream__(requested_schema)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write csv, json, parquet or xlsx (which needs the ``excel`` extra), by the path's suffix.

        In CSV a name that a spreadsheet would run as a formula gets a leading '. In files of exact sums the first
        column is ``notice``.
        """
        return display.save(self._stamped, path, overwrite=overwrite)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        kind: drawings.Kind = "bars",
        label: str | None = None,
        feature: str | None = None,
        top: int = 20,
        overwrite: bool = False,
    ) -> Any:
        """Draw the ranking. Rows that may be noise are pale or hollow.

        Args:
            path: A new .svg, .png or .html file; None returns the Altair chart. A notebook without a network shows it after
                ``altair.renderers.enable("svg")``.
            kind: "bars" draws mutual information with its intervals, "shares" the shares inside and outside with their
                intervals, "map" how many times as common each feature is inside each label, "trend" shares over labels
                that have an order of their own, such as years, and "evidence" lift against mutual information.
            label: Draw the pairs of one released label.
            feature: Draw the pairs of one released feature.
            top: How many pairs, from the first one on; for "map" and "trend" how many features.
            overwrite: Replace an existing file.

        Raises:
            MissingExtra: The ``report`` extra is not installed.
            InputError: There is no such label or feature, or the labels of a trend have no order of their own.
        """
        check_count("top", top, most=LONGEST_LIST, hint="ranking.plot(top=20)")
        chart = drawings.draw(self, kind, label=label, feature=feature, top=top)
        return chart if path is None else charts.save(chart, path, overwrite=overwrite)

    def to_text(self, width: int = 100, *, rows: int = 20) -> str:
        """Return a plain table for a terminal of that width."""
        return display.text_of(views.flat(self, self._first(rows), width=width), width)

    def summary(self, width: int = 100, *, height: int = 40) -> str:
        """Return the clear findings of each label in one line, and what is certain, as plain text.

        Args:
            width: The width of the terminal.
            height: The most lines, about.
        """
        return display.text_of(views.summary(self, width=width, height=height), width)

    def _first(self, rows: int) -> list[dict[str, Any]]:
        return [dict(row) for row in self._pairs.first(rows).to_pylist()]

    def _stamped(self) -> pa.Table:
        import pyarrow as pa

        if self.private:
            return self.to_arrow()
        return self.to_arrow().add_column(0, "notice", pa.repeat(text.NOT_PRIVATE, len(self)))


def rank(
    release: Released | str | os.PathLike[str],
    *,
    score: ScoreName | None = None,
    method: information.Method = "stable",
    base: float | None = None,
    tol: float = 1e-15,
    rank_intervals: bool = False,
    order: orders.Order | None = None,
) -> Ranking:
    """Rank every pair of a release.

    Args:
        release: The release, or the path of its folder. It is only read.
        score: Another score to order by, as in `Ranking.score`; None for mutual information.
        method: "stable", or "paper" for CalcMI as printed.
        base: The base of the logarithm of mutual information; None for nats, 2 for bits.
        tol: The tolerance of method "paper".
        rank_intervals: Add the columns rank_low and rank_high: a 95% interval of each pair's rank without noise, among
            the released pairs. Only for mutual information.
        order: "estimate" orders by mi, "lower" by mi_low. "shrunk" orders by mi after each joint sum was moved towards
            independence, the more the noisier it is. "pooled" orders by an estimate that borrows strength across the
            labels of a feature, and takes directions from it. None means "pooled" where all pairs of the released keys
            were released, and "estimate" otherwise: see docs/decisions/pooled-order.md.

    Returns:
        All pairs: the value of the order to 12 significant digits descending, joint descending, feature, label by bytes.

    Raises:
        ReleaseError: The path leads to no release.

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
        scores.check_name(score)
    check_base(base)
    orders.check_order(order)
    if rank_intervals and score is not None:
        raise InputError(f"Rank intervals belong to mutual information, got score={score!r}.", hint="leave score out")
    release = _opened(release)
    cells, receipt = read(release), release.receipt
    noise_model = NoiseModel.of(cells, receipt)
    pairs = ScoredPairs(
        cells=cells,
        noise_model=noise_model,
        mi=mutual_information_of(cells, method, tol),
        base=base,
        ranked_by=order or orders.default_order(noise_model),
    )
    return Ranking(
        table=with_rank_bounds(pairs) if rank_intervals else pairs if score is None else pairs.scored(score),
        private=bool(receipt["private"]),
        guarantee=receipt.get("guarantee"),
        dataset=str(receipt.get("dataset", "default")),
        method=method,
        base=base,
        total=cells.users_total,
        scored_by=score,
        order="estimate" if noise_model is None else pairs.ranked_by,
        rank_intervals=rank_intervals,
        words=Words.of(receipt),
        bounding_note=bounding_note(receipt),
        receipt=receipt,
        source=pairs,
    )


def _opened(release: Released | str | os.PathLike[str]) -> Released:
    if not isinstance(release, str | os.PathLike):
        if not isinstance(getattr(release, "receipt", None), Mapping):
            raise InputError(
                f"Only releases are ranked, got {type(release).__name__}.",
                hint="rank('visits.release'), or rank(release(obs, plan, ledger='visits.ledger'))",
            )
        return release
    from ddpmi.releases.release import Release

    return Release.load(release)


def check_base(base: float | None) -> None:
    """Raise unless the base is None or a finite number larger than 1.

    >>> check_base(2)
    """
    if base is not None and not (math.isfinite(base) and base > 1):
        raise InputError(
            f"base must be larger than 1, got base={base!r}.",
            hint=Hint(python="base=2 for bits", cli="--base 2 for bits"),
        )


def with_rank_bounds(pairs: ScoredPairs) -> pa.Table:
    """Return all pairs, best first, with the best and the worst rank that each may have without noise."""
    import pyarrow as pa

    table = pairs.table()
    ranks = table["rank"].to_numpy()
    mi, low, high = (table[name].to_numpy() * nats(pairs.base) for name in ("mi", "mi_low", "mi_high"))
    best, worst = certainty.rank_bounds(mi, low, high, certainty.sure_lows(pairs, pairs.order, low, high))
    # Ordered by anything but mi, a pair's rank may lie outside its bounds. Exact sums have exact ranks.
    bounds = (np.minimum(best, ranks), np.maximum(worst, ranks)) if pairs.noise_model is not None else (ranks, ranks)
    for name, column in zip(RANK_BOUNDS, bounds, strict=True):
        table = table.append_column(name, pa.array(column, pa.int64()))
    return table
