"""Compare two rankings of the same pairs: the rank errors of the paper, overlaps, directions, bands and labels.

Usually the first is made from exact sums of public data and the second is private, or both are private at
different budgets. Names are looked up once for each list of names; pairs are matched as integers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ddpmi import charts, scores, show, stability
from ddpmi.errors import InputError
from ddpmi.rankings import Ranking, rank
from ddpmi.spec import LONGEST_LIST, check_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi.scores import Released
    from ddpmi.views import Coded

    Integers = NDArray[np.integer[Any]]
    Flags = NDArray[np.bool_]

By = Literal["reference", "private"]
LABEL_TOP = 20
"""How many features of each label are compared."""
_DEPTHS = (10, 100, 1000, 10_000)
_BANDS = ((1, 10), (11, 100), (101, 1000), (1001, 10_000), (10_001, 100_000), (100_001, 1_000_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How well a ranking agrees with a reference."""

    top: int
    """How many of the best pairs the errors are taken over."""
    by: By
    """Whose best pairs those are."""
    pairs: dict[str, int]
    """Pairs of the reference "a", of the other "b", and "common" to both."""
    kept: float | None
    """Which part of the best pairs the other side has at all; None where there are none."""
    percentiles: dict[str, float | None]
    """Percentiles of the absolute rank difference of the best pairs."""
    cut_kept: float | None
    """Which part of the best pairs is among the first ``top`` places of the other side."""
    cut_percentiles: dict[str, float | None]
    """The percentiles if both lists ended after ``top`` places, as the paper's do: a longer list then pays no more for a pair that it
    lacks."""
    overlap: dict[str, float]
    """Which part of the first 10, 100, ... places both share, as deep as the reference goes."""
    label_overlap_20: float | None
    """Mean over labels of the overlap of their best 20 features."""
    rbo: float
    """Extrapolated rank-biased overlap of both lists cut at ``top``, persistence 0.98."""
    direction_error: float | None
    """Which part of the best pairs that both have points the other way; None where there are none."""
    bands: tuple[dict[str, Any], ...]
    """Errors by band of the reference's ranks: from, to, n, kept, percentiles."""
    labels: tuple[dict[str, Any], ...]
    """For each label of the reference: n, overlap_20, and presence_overlap_20 over presence alone; and of its pairs among
    the reference's best: how many (best), kept, percentiles."""
    private: bool
    """Whether both sides were private."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; with ``notice`` first where a side is not private."""
        names = [field.name for field in fields(self) if field.name not in ("by", "bands", "labels", "private")]
        stamp = {} if self.private else {"notice": show.NOT_PRIVATE}
        lists = {"bands": [dict(band) for band in self.bands], "labels": [dict(label) for label in self.labels]}
        return stamp | {name: getattr(self, name) for name in names} | lists

    def to_text(self) -> str:
        """Write a summary for a terminal, labels worst first and at most 20 of them."""
        lines = [] if self.private else [f"{show.NOT_PRIVATE}: at least one side was computed from exact sums."]
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
            f"Rank-biased overlap (extrapolated, p = {stability.RBO_P:g}): {self.rbo:.4g}",
        ]
        for band in self.bands:
            errors = _errors(band["percentiles"])
            lines.append(f"Ranks {band['from']}-{band['to']}: {_percent(band['kept'])} kept, percentiles {errors}")
        worst = sorted(self.labels, key=lambda label: label["overlap_20"])[:LABEL_TOP]
        for label in worst:
            errors = _errors(label["percentiles"])
            shared = f"{_percent(label['overlap_20'])} shared"
            lines.append(
                f"Label {show.printable(label['label'])}: {shared}, {label['best']} best, percentiles {errors}"
            )
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> Any:
        """Draw rank errors by band, and overlaps by depth and by label.

        Args:
            path: A new .svg, .png or .html file; None returns the Altair chart.
            overwrite: Replace a file that stands there.

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
        b: The other, as a rule the private one.
        top: Rank errors are taken over that many best pairs.
        by: Whose best pairs: the "reference"'s, or the "private" one's.
        cut: End both lists after ``top`` places, as the paper does, so that a longer list pays no more for a pair it lacks
            than a shorter one.

    Returns:
        The comparison. Ranks are places in the lists given; a pair that one side lacks gets the rank
        max(top, pairs of that side) + 1 there.

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
    check_count("top", top, most=LONGEST_LIST, hint="top=10_000")
    if by not in get_args(By):
        raise InputError(f"by must be one of {get_args(By)}, got {by!r}.", hint='by="reference"')
    left, right = _ranking(a), _ranking(b)
    if cut:
        left, right = left.top(top, per="all"), right.top(top, per="all")
    one, two = left.coded(), right.coded()
    private = left.private and right.private
    return _compared(one, two, _partners(one, two), top=top, by=by, private=private)


def _ranking(given: Ranking | Released | str | os.PathLike[str]) -> Ranking:
    if isinstance(given, Ranking):
        return given
    if isinstance(given, str | os.PathLike):
        from ddpmi.releases import Release

        return rank(Release.load(given))
    return rank(given)


def _best(side: Coded, count: int) -> Integers:
    """Return the rows of the first places, in order."""
    rows = np.flatnonzero(side.place <= count)
    return rows[np.argsort(side.place[rows])]


def _best_in_labels(side: Coded, *, presence: bool) -> Flags:
    """Tell which rows are among the best of their label, of presence alone or of both directions."""
    rows = np.flatnonzero(side.presence) if presence else np.arange(len(side))
    rows = rows[np.argsort(side.place[rows])]
    chosen = np.zeros(len(side), np.bool_)
    chosen[rows[scores.places_in_groups(side.label_code[rows]) <= LABEL_TOP]] = True
    return chosen


def _partners(one: Coded, two: Coded) -> Integers:
    """Return the row of each pair of one side on the other, or -1."""
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
    # Ranks of every pair of each side on the other side.
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
        percentiles=stability.percentiles(np.abs(places - elsewhere)),
        cut_kept=_mean(elsewhere <= top),
        cut_percentiles=stability.percentiles(np.abs(places - np.minimum(elsewhere, top + 1))),
        overlap={str(depth): stability.overlap(place_a, place_b, depth) for depth in _DEPTHS if depth <= len(one)},
        label_overlap_20=_mean(np.array([label["overlap_20"] for label in labels])),
        rbo=_rbo(place_a, place_b, (min(top, len(one)), min(top, len(two)))),
        direction_error=_mean(differs),
        bands=tuple(_band(one, there, partner, band) for band in _BANDS if band[0] <= len(one)),
        labels=labels,
        private=private,
    )


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _rbo(place_a: Integers, place_b: Integers, lengths: tuple[int, int]) -> float:
    listed = (place_a <= lengths[0]) & (place_b <= lengths[1])
    return stability.rank_biased_overlap(place_a[listed], place_b[listed], lengths)


def _band(one: Coded, there: Integers, partner: Integers, band: tuple[int, int]) -> dict[str, Any]:
    rows = np.flatnonzero((one.place >= band[0]) & (one.place <= band[1]))
    errors = np.abs(one.place[rows] - there[rows])
    return {
        "from": band[0],
        "to": band[1],
        "n": len(rows),
        "kept": _mean(partner[rows] >= 0),
        "percentiles": stability.percentiles(errors),
    }


def _labels(one: Coded, two: Coded, partner: Integers, best: Integers, there: Integers) -> tuple[dict[str, Any], ...]:
    """Compare the best features of each label of the reference, labels by bytes, and errors of its best pairs by label."""
    if len(one.labels) == 0:
        return ()
    counted = np.bincount(one.label_code, minlength=len(one.labels))
    parts = []
    for presence in (False, True):
        mine, theirs = (_best_in_labels(side, presence=presence) for side in (one, two))
        shared = mine & (partner >= 0)
        shared[shared] = theirs[partner[shared]]
        sizes, met = (np.bincount(one.label_code[rows], minlength=len(one.labels)) for rows in (mine, shared))
        # A label with nothing to find has nothing missing.
        parts.append(np.divide(met, sizes, out=np.ones(len(sizes)), where=sizes > 0))
    best = best[np.argsort(one.label_code[best], kind="stable")]
    ends = np.cumsum(np.bincount(one.label_code[best], minlength=len(one.labels)))[:-1]
    errors = (
        {
            "best": len(rows),
            "kept": _mean(partner[rows] >= 0),
            "percentiles": stability.percentiles(np.abs(one.place[rows] - there[rows]), (50, 90)),
        }
        for rows in np.split(best, ends)
    )
    rows = zip(one.labels.to_pylist(), counted.tolist(), *(part.tolist() for part in parts), errors, strict=True)
    return tuple(
        {"label": label, "n": n, "overlap_20": both, "presence_overlap_20": present} | error
        for label, n, both, present, error in rows
        if n > 0
    )
