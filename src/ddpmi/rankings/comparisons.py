"""Comparisons of two rankings of the same pairs: rank errors as in the paper, overlaps and directions.

Usually the first ranking comes from exact sums of public data and the second is private, or both are private with
different budgets. Names are matched once for each list of names; pairs are matched as integers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ddpmi import text
from ddpmi.errors import LONGEST_LIST, Hint, InputError, check_count
from ddpmi.rankings import cells, charts
from ddpmi.rankings.changes import Changes, changes
from ddpmi.rankings.ranking import Ranking, rank

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ddpmi._typing import Flags, Integers
    from ddpmi.rankings.cells import Released
    from ddpmi.rankings.pairs import Coded


By = Literal["reference", "private"]
LABEL_TOP = 20
"""How many features of each label are compared."""
RBO_P = 0.98
"""Persistence of rank-biased overlap: the first 50 ranks have about 86% of its weight."""
_DEPTHS = (10, 100, 1000, 10_000)
_BANDS = ((1, 10), (11, 100), (101, 1000), (1001, 10_000), (10_001, 100_000), (100_001, 1_000_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How well a ranking agrees with a reference."""

    top: int
    """How many of the best pairs the errors are computed for."""
    by: By
    """Which ranking's best pairs these are."""
    pairs: dict[str, int]
    """The number of pairs in the reference "a", in the other "b", and in both, "common"."""
    kept: float | None
    """The fraction of the best pairs that the other ranking contains; None where there are none."""
    percentiles: dict[str, float | None]
    """Percentiles of the absolute rank difference of the best pairs."""
    cut_kept: float | None
    """The fraction of the best pairs that are in the first ``top`` ranks of the other ranking."""
    cut_percentiles: dict[str, float | None]
    """The percentiles with both lists cut after ``top`` ranks, as in the paper: a missing pair then counts the same in a
    longer list."""
    overlap: dict[str, float]
    """The fraction of the first 10, 100, ... ranks that both share, up to the length of the reference."""
    label_overlap_20: float | None
    """Mean over labels of the overlap of their best 20 features."""
    rbo: float
    """Extrapolated rank-biased overlap of both lists cut after ``top`` ranks, persistence 0.98."""
    direction_error: float | None
    """The fraction of the best pairs in both rankings whose directions differ; None where there are none."""
    bands: tuple[dict[str, Any], ...]
    """Errors by range of the reference's ranks: from, to, n, kept, percentiles."""
    labels: tuple[dict[str, Any], ...]
    """For each label of the reference, largest first: its total, n, overlap_20, and presence_overlap_20 (presence only); and for its
    pairs among the reference's best: their number (best), kept, percentiles."""
    changes: Changes
    """Which pairs rose or fell, and which differ by more than the noise of both."""
    private: bool
    """Whether both sides were private."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; ``notice`` comes first where a ranking is not private."""
        apart = ("by", "bands", "labels", "changes", "private")
        names = [field.name for field in fields(self) if field.name not in apart]
        stamp = {} if self.private else {"notice": text.NOT_PRIVATE}
        lists = {"bands": [dict(band) for band in self.bands], "labels": [dict(label) for label in self.labels]}
        return stamp | {name: getattr(self, name) for name in names} | lists | {"changes": self.changes.to_dict()}

    def to_text(self) -> str:
        """Return a summary for a terminal, with the 20 largest labels and the risers and fallers."""
        lines = [] if self.private else [f"{text.NOT_PRIVATE}: at least one side was computed from exact sums."]
        a, b, common = (self.pairs[name] for name in ("a", "b", "common"))
        whose = "the reference" if self.by == "reference" else "the private ranking"
        turned = f"{_percent(self.direction_error)} with the other direction"
        lines += [
            f"Pairs: {a} in the reference, {b} in the other, {common} in both",
            f"Best {self.top} pairs of {whose}: {_percent(self.kept)} kept, {turned}",
            f"Rank difference, percentiles {_errors(self.percentiles)}",
            f"In lists of {self.top} places: {_percent(self.cut_kept)} kept, percentiles {_errors(self.cut_percentiles)}",
            "Overlap, first "
            + (", ".join(f"{depth}: {_percent(part)}" for depth, part in self.overlap.items()) or "10: too few pairs"),
            f"Overlap of each label's best {LABEL_TOP}, mean: {_percent(self.label_overlap_20)}",
            f"Rank-biased overlap (extrapolated, p = {RBO_P:g}): {self.rbo:.4g}",
        ]
        for band in self.bands:
            errors = _errors(band["percentiles"])
            lines.append(f"Ranks {band['from']}-{band['to']}: {_percent(band['kept'])} kept, percentiles {errors}")
        for label in self.labels[:LABEL_TOP]:
            errors = _errors(label["percentiles"])
            shared = f"{_percent(label['overlap_20'])} shared"
            lines.append(
                f"Label {text.printable(label['label'])}: {shared}, {label['best']} best, percentiles {errors}"
            )
        if len(self.labels) > LABEL_TOP:
            lines.append(f"{len(self.labels) - LABEL_TOP} smaller labels are not listed.")
        return "\n".join(lines + self.changes.lines())

    def _repr_html_(self) -> str:
        return text.html_lines(self.to_text())

    def plot(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> Any:
        """Draw rank errors by band, and overlaps by depth and by label.

        Args:
            path: A new .svg, .png or .html file; None returns the Altair chart.
            overwrite: Replace an existing file.

        Raises:
            MissingExtra: The ``report`` extra is not installed.
        """
        chart = charts.of_comparison(self.to_dict())
        return chart if path is None else charts.save(chart, path, overwrite=overwrite)


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.4g}%"


def _errors(percentiles: dict[str, float | None]) -> str:
    return ", ".join(f"{at}: {'-' if error is None else f'{error:g}'}" for at, error in percentiles.items())


def compare(
    a: Ranking | Released | str | os.PathLike[str],
    b: Ranking | Released | str | os.PathLike[str],
    *,
    top: int = 10_000,
    by: By = "reference",
    cut: bool = False,
) -> Comparison:
    """Compare two rankings, releases or release folders.

    Args:
        a: The reference.
        b: The other ranking, usually the private one.
        top: How many of the best pairs the rank errors are computed for.
        by: Take the best pairs of the "reference" or of the "private" ranking.
        cut: Cut both lists after ``top`` ranks, as the paper does, so that a missing pair counts the same in a longer list.

    Returns:
        The comparison. Ranks are positions in the given lists; a pair that a list lacks gets the rank
        max(top, length of that list) + 1 there.

    >>> import pyarrow as pa
    >>> from types import SimpleNamespace
    >>> sums = pa.array([60], pa.int64())
    >>> release = SimpleNamespace(
    ...     pairs=pa.table({"feature": ["tea"], "label": ["uk"], "sum": sums}),
    ...     features=pa.table({"feature": ["tea"], "sum": sums}),
    ...     labels=pa.table({"label": ["uk"], "sum": sums}),
    ...     total=100,
    ...     receipt={"private": False, "grid": {"step": 1, "g": 0}},
    ... )
    >>> found = compare(release, release).to_dict()
    >>> found["notice"], found["kept"], found["percentiles"]["50"], found["rbo"]
    ('NOT PRIVATE', 1.0, 0.0, 1.0)
    """
    check_count("top", top, most=LONGEST_LIST, hint=Hint(python="top=10_000", cli="--top 10_000"))
    if by not in get_args(By):
        raise InputError(
            f"by must be one of {get_args(By)}, got {by!r}.", hint=Hint(python='by="reference"', cli="--by reference")
        )
    left, right = (given if isinstance(given, Ranking) else rank(given) for given in (a, b))
    if cut:
        left, right = left.top(top, per="all"), right.top(top, per="all")
    one, two = left.coded(), right.coded()
    partner = _partners(one, two)
    found = _compared(one, two, partner, top=top, by=by, private=left.private and right.private)
    mine = np.flatnonzero(partner >= 0)
    mine = mine[np.minimum(one.place[mine], two.place[partner[mine]]) <= top]
    rows = mine, partner[mine]
    moved = changes(left, right, rows=rows, places=(one.place[rows[0]], two.place[rows[1]]))
    return replace(found, changes=moved, labels=_by_size(found.labels, _label_totals(left, one)))


def _label_totals(ranking: Ranking, side: Coded) -> dict[str, float]:
    """Return the total of each label that has a pair."""
    rows = np.unique(side.label_code, return_index=True)[1]
    table = ranking.lifts(rows)
    return dict(zip(table["label"].to_pylist(), table["label_total"].to_pylist(), strict=True))


def _by_size(labels: tuple[dict[str, Any], ...], totals: dict[str, float]) -> tuple[dict[str, Any], ...]:
    """Order labels by their totals, largest first, and write these beside their names."""
    known = [{"label": one["label"], "total": totals[one["label"]]} | one for one in labels]
    return tuple(sorted(known, key=lambda one: (-one["total"], one["label"].encode())))


def _best(side: Coded, count: int) -> Integers:
    """Return the rows of the first ranks, in order."""
    rows = np.flatnonzero(side.place <= count)
    return rows[np.argsort(side.place[rows])]


def _best_in_labels(side: Coded, *, presence: bool) -> Flags:
    """Return which rows are among the best of their label, by presence only or in both directions."""
    rows = np.flatnonzero(side.presence) if presence else np.arange(len(side))
    rows = rows[np.argsort(side.place[rows])]
    chosen = np.zeros(len(side), np.bool_)
    chosen[rows[cells.places_in_groups(side.label_code[rows]) <= LABEL_TOP]] = True
    return chosen


def _partners(one: Coded, two: Coded) -> Integers:
    """Return the row in the second ranking of each pair of the first, or -1."""
    import pyarrow.compute as pc

    feature, label = (
        pc.fill_null(pc.index_in(mine, value_set=theirs), -1).to_numpy().astype(np.int64)
        for mine, theirs in ((one.features, two.features), (one.labels, two.labels))
    )
    width = len(two.labels) + 1
    theirs = two.feature_code.astype(np.int64) * width + two.label_code
    mine = feature[one.feature_code] * width
    mine += label[one.label_code]
    mine[(feature[one.feature_code] < 0) | (label[one.label_code] < 0)] = -1
    if len(theirs) == 0:
        return np.full(len(mine), -1)
    rows = np.minimum(np.searchsorted(theirs, mine), len(theirs) - 1)
    return np.where(theirs[rows] == mine, rows, -1)


def _compared(one: Coded, two: Coded, partner: Integers, *, top: int, by: By, private: bool) -> Comparison:
    mine = np.flatnonzero(partner >= 0)
    theirs = partner[mine]
    place_a, place_b = one.place[mine], two.place[theirs]
    # The rank in the second ranking of every pair of the first.
    there = np.full(len(one), max(top, len(two)) + 1)
    there[mine] = place_b
    if by == "reference":
        rows = _best(one, top)
        places, elsewhere, found = one.place[rows], there[rows], partner[rows] >= 0
    else:
        back = np.full(len(two), max(top, len(one)) + 1)
        back[theirs] = place_a
        rows = _best(two, top)
        places, elsewhere, found = two.place[rows], back[rows], np.isin(rows, theirs)
    listed = (place_a if by == "reference" else place_b) <= top
    differs = one.presence[mine[listed]] != two.presence[theirs[listed]]
    labels = _labels(one, two, partner, _best(one, top), there)
    return Comparison(
        top=top,
        by=by,
        pairs={"a": len(one), "b": len(two), "common": len(mine)},
        kept=_mean(found),
        percentiles=percentiles(np.abs(places - elsewhere)),
        cut_kept=_mean(elsewhere <= top),
        cut_percentiles=percentiles(np.abs(places - np.minimum(elsewhere, top + 1))),
        overlap={str(depth): overlap(place_a, place_b, depth) for depth in _DEPTHS if depth <= len(one)},
        label_overlap_20=_mean(np.array([label["overlap_20"] for label in labels])),
        rbo=_rbo(place_a, place_b, (min(top, len(one)), min(top, len(two)))),
        direction_error=_mean(differs),
        bands=tuple(_band(one, there, partner, band) for band in _BANDS if band[0] <= len(one)),
        labels=labels,
        changes=Changes(compared=0, clear=0, risers=(), fallers=()),
        private=private,
    )


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _rbo(place_a: Integers, place_b: Integers, lengths: tuple[int, int]) -> float:
    listed = (place_a <= lengths[0]) & (place_b <= lengths[1])
    return rank_biased_overlap(place_a[listed], place_b[listed], lengths)


def _band(one: Coded, there: Integers, partner: Integers, band: tuple[int, int]) -> dict[str, Any]:
    rows = np.flatnonzero((one.place >= band[0]) & (one.place <= band[1]))
    errors = np.abs(one.place[rows] - there[rows])
    return {
        "from": band[0],
        "to": band[1],
        "n": len(rows),
        "kept": _mean(partner[rows] >= 0),
        "percentiles": percentiles(errors),
    }


def _labels(one: Coded, two: Coded, partner: Integers, best: Integers, there: Integers) -> tuple[dict[str, Any], ...]:
    """Compare each label of the reference: its best features, and the errors of its pairs among the best ones."""
    if len(one.labels) == 0:
        return ()
    counted = np.bincount(one.label_code, minlength=len(one.labels))
    parts = []
    for presence in (False, True):
        mine, theirs = (_best_in_labels(side, presence=presence) for side in (one, two))
        shared = mine & (partner >= 0)
        shared[shared] = theirs[partner[shared]]
        sizes, met = (np.bincount(one.label_code[rows], minlength=len(one.labels)) for rows in (mine, shared))
        # Where a label has no such feature, the overlap is 1.
        parts.append(np.divide(met, sizes, out=np.ones(len(sizes)), where=sizes > 0))
    best = best[np.argsort(one.label_code[best], kind="stable")]
    ends = np.cumsum(np.bincount(one.label_code[best], minlength=len(one.labels)))[:-1]
    errors = (
        {
            "best": len(rows),
            "kept": _mean(partner[rows] >= 0),
            "percentiles": percentiles(np.abs(one.place[rows] - there[rows]), (50, 90)),
        }
        for rows in np.split(best, ends)
    )
    rows = zip(one.labels.to_pylist(), counted.tolist(), *(part.tolist() for part in parts), errors, strict=True)
    return tuple(
        {"label": label, "n": n, "overlap_20": both, "presence_overlap_20": present} | error
        for label, n, both, present, error in rows
        if n > 0
    )


def percentiles(errors: Integers, at: Sequence[int] = (10, 25, 50, 75, 90)) -> dict[str, float | None]:
    """Return percentiles of errors by name, interpolated linearly; None where there are no errors.

    >>> percentiles(np.array([0, 1, 2, 3, 4]), (50, 90))
    {'50': 2.0, '90': 3.6}
    """
    if len(errors) == 0:
        return {str(p): None for p in at}
    return {str(p): float(value) for p, value in zip(at, np.percentile(errors, at), strict=True)}


def overlap(rank_a: Integers, rank_b: Integers, depth: int) -> float:
    """Return the fraction of the first ``depth`` ranks that two lists share.

    Args:
        rank_a: Ranks in the first list of the items in both lists.
        rank_b: Ranks of the same items in the second list.
        depth: How many ranks, at least 1.

    >>> overlap(np.array([1, 2, 9]), np.array([2, 7, 1]), 2)
    0.5
    """
    check_count("depth", depth, hint="depth=10")
    return float(np.count_nonzero(np.maximum(rank_a, rank_b) <= depth) / depth)


def rank_biased_overlap(rank_a: Integers, rank_b: Integers, lengths: tuple[int, int], *, p: float = RBO_P) -> float:
    """Compute extrapolated rank-biased overlap, from 0 (nothing shared) to 1 (the same list).

    Webber, Moffat, Zobel 2010, equation 32 (RBO_ext): the agreement at the ends of the lists is assumed to
    continue beyond them.

    Args:
        rank_a: Ranks in the first list of the items in both lists.
        rank_b: Ranks of the same items in the second list.
        lengths: The lengths of the two lists.
        p: Persistence, above 0 and below 1: a larger value gives more weight to lower ranks.

    Returns:
        The overlap; 1 for two empty lists.

    >>> rank_biased_overlap(np.array([1, 2, 3]), np.array([1, 2, 3]), (3, 3))
    1.0
    >>> round(rank_biased_overlap(np.array([1, 2]), np.array([2, 1]), (2, 2), p=0.5), 9)
    0.5
    """
    if not 0 < p < 1:
        raise InputError(f"p must lie between 0 and 1, got p={p!r}.", hint="p=0.98")
    short, long = sorted(lengths)
    if short == 0:
        return 1.0 if long == 0 else 0.0
    met = np.bincount(np.maximum(rank_a, rank_b), minlength=long + 1)[1 : long + 1]
    shared = np.cumsum(met).astype(np.float64)
    depth = np.arange(1, long + 1)
    at_short, at_long = shared[short - 1], shared[-1]
    # Where only the longer list continues, the shorter one is assumed to agree as it did at its end.
    beyond = np.where(depth > short, at_short * (depth - short) / short, 0.0)
    weights = np.exp(depth * np.log(p))
    seen = (1 - p) / p * float(np.sum((shared + beyond) / depth * weights))
    tail = ((at_long - at_short) / long + at_short / short) * p**long
    return float(min(seen + tail, 1.0))
