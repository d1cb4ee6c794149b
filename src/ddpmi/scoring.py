"""Score pairs batch by batch, where no process sees all of them: what a task of a cluster runs.

joined : (feature, label, sum, feature_sum, label_sum) -> scored : the numbers of a ranking, and where the pair stands
The arithmetic is that of `views`, so a batch gives bit for bit what the whole table gives. The pooled order is first learned
from some features, and its batches hold whole features.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi import orders, pooling
from ddpmi.doubts import Doubt
from ddpmi.scores import COLUMNS, Cells, are_summed, scale_of
from ddpmi.views import SCORE, Pairs, mutual_information_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ddpmi.mi import Method
    from ddpmi.patterns import Patterns
    from ddpmi.pooling import Codes, Pooled, Sums
    from ddpmi.views import Floats, Integers

NUMBERS = COLUMNS[6:]
KEY, JOINT, BUCKET = "order_key", "order_joint", "bucket"
"""Pairs are ordered by KEY ascending, JOINT descending, feature, label by bytes; a bucket is a stretch of that order."""
COUNTED = ("pairs_of_feature", "pairs_of_label")
"""Further columns of joined pairs where margins are sums of released pairs."""
_NEEDED = ("private", "tables", "grid", "space", "sample_rate", "marginals", "complete")

Place = tuple[float, int, bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Places that cut the order of all pairs into buckets."""

    places: tuple[Place, ...] = ()
    """(key, joint reversed, feature, label), ascending. Each begins a bucket."""

    @classmethod
    def of(cls, sample: Iterable[Place], buckets: int) -> Cuts:
        """Cut a sample of the pairs into buckets of about the same size.

        >>> [place[0] for place in Cuts.of([(float(k), 0, b"", b"") for k in range(9)], 3).places]
        [3.0, 6.0]
        """
        ordered = sorted(set(sample))
        at = sorted({len(ordered) * bucket // buckets for bucket in range(1, buckets)} - {0})
        return cls(places=tuple(ordered[place] for place in at if place < len(ordered)))

    def buckets(self, key: Floats, joint: Integers, names: Sequence[pa.Array]) -> Integers:
        """Return the bucket of each pair, by its key, sum, feature and label.

        >>> import pyarrow as pa
        >>> cuts = Cuts(places=((0.5, ~7, b"b", b"x"),))
        >>> names = [pa.array(["z", "a", "b", "a"]), pa.array(["x", "x", "x", "x"])]
        >>> cuts.buckets(np.array([0.1, 0.5, 0.5, 0.9]), np.array([1, 7, 7, 1]), names).tolist()
        [0, 0, 1, 1]
        """
        keys = np.array([place[0] for place in self.places])
        found = np.searchsorted(keys, key, side="right").astype(np.int32)
        first = np.searchsorted(keys, key, side="left")
        # Only pairs that tie with a cut need its other parts.
        for row in np.flatnonzero(first < found).tolist():
            feature, label = (column[row].as_py().encode() for column in names)
            place = (float(key[row]), int(~joint[row]), feature, label)
            found[row] = bisect.bisect_right(self.places, place)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """What the pooled order knows before it reads a feature."""

    patterns: Patterns
    """How lifts go together."""
    labels: pa.Array
    """The labels whose lifts those are."""

    @classmethod
    def of(cls, pairs: Pairs, doubt: Doubt, labels: pa.Array) -> Learned:
        """Learn from all pairs of some features, features in the order of their bytes."""
        sums, codes = _whole_rows(pairs, labels)
        return cls(patterns=pooling.fitted(sums, codes, doubt.noise, len(labels)), labels=labels)

    def read(self, pairs: Pairs, doubt: Doubt) -> Pooled:
        """Read some features' pairs, all pairs of a feature side by side."""
        return pooling.read(self.patterns, *_whole_rows(pairs, self.labels), doubt.noise)


def _whole_rows(pairs: Pairs, labels: pa.Array) -> tuple[Sums, Codes]:
    """Return the sums of pairs that bring their margins along, and numbers for their features and labels."""
    import pyarrow.compute as pc

    cells = pairs.cells
    # A label without a released sum is told of later.
    label = pc.fill_null(pc.index_in(cells.labels, value_set=labels), 0).to_numpy()
    feature = cells.features.dictionary_encode().indices.to_numpy()
    return (cells.joint, cells.feature_sums, cells.label_sums, cells.total), (feature, label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How to score; a value that can be sent to a task."""

    receipt: Mapping[str, Any] = field(repr=False)
    """What the receipt says about grid and noise."""
    total: int
    """The released sum of everything."""
    method: Method = "stable"
    """As in `rank`."""
    tol: float = 1e-15
    """As in `rank`."""
    base: float | None = None
    """As in `rank`."""
    score: str | None = None
    """As in `rank`."""
    order: orders.Order | None = None
    """As in `rank`."""
    learned: Learned | None = field(default=None, repr=False, compare=False)
    """What `learn` found; None unless the order is the pooled one."""

    def __post_init__(self) -> None:
        needed = {name: self.receipt[name] for name in _NEEDED if name in self.receipt}
        plan = self.receipt.get("plan") or {}
        words = ("space", "marginals", "complete")
        said = {name: plan[name] for name in words if plan.get(name) and not needed.get(name)}
        object.__setattr__(self, "receipt", needed | said)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return NUMBERS if self.score is None else (*NUMBERS, SCORE)

    @property
    def counted(self) -> bool:
        """Whether the joined pairs must have the columns ``COUNTED``."""
        return bool(self.receipt["private"]) and are_summed(self.receipt)

    @property
    def users_total(self) -> float:
        """The total in the user's units."""
        grid, unit = scale_of(self.receipt)
        return float(self.total * grid * unit)

    @property
    def ranked_by(self) -> orders.Order:
        """What of mutual information gives the order."""
        import pyarrow as pa

        names = [pa.field(name, pa.string()) for name in ("feature", "label")]
        sums = [pa.field(name, pa.int64()) for name in ("sum", "feature_sum", "label_sum", *COUNTED)]
        nothing = self.pairs(pa.RecordBatch.from_pylist([], schema=pa.schema([*names, *sums])))
        return nothing.ranked_by if nothing.doubt is not None else "estimate"

    @property
    def pools(self) -> bool:
        """Whether pairs can only be ordered together with all others of their feature."""
        return self.score is None and self.ranked_by == "pooled"

    def learn(self, joined: pa.Table, labels: pa.Array) -> Scoring:
        """Learn the pooled order from all pairs of some features.

        Args:
            joined: Their pairs, in any order.
            labels: All released labels, in the order of their bytes.
        """
        batches = joined.sort_by("feature").combine_chunks().to_batches()
        if not batches:
            return self
        pairs = self.pairs(batches[0])
        return self if pairs.doubt is None else replace(self, learned=Learned.of(pairs, pairs.doubt, labels))

    def pairs(self, joined: pa.RecordBatch) -> Pairs:
        """Score some pairs; each brings the sums of its feature and of its label along."""
        grid, unit = scale_of(self.receipt)
        rows = np.arange(joined.num_rows)
        joint, feature, label = (_sums(joined, name) for name in ("sum", "feature_sum", "label_sum"))
        cells = Cells(
            features=joined.column("feature"),
            labels=joined.column("label"),
            feature_code=rows,
            label_code=rows,
            joint=joint,
            feature_sums=feature,
            label_sums=label * grid,
            total=self.total * grid,
            unit=unit,
        )
        doubt = Doubt.of(cells, self.receipt)
        if doubt is not None and self.counted:
            held = [_sums(joined, name) for name in COUNTED]
            doubt = replace(doubt, pairs_of_feature=held[0], pairs_of_label=held[1])
        mi = mutual_information_of(cells, self.method, self.tol)
        ranked_by = self.order or orders.default_order(doubt)
        pairs = Pairs(cells=cells, doubt=doubt, mi=mi, base=self.base, ranked_by=ranked_by)
        if self.learned is not None and doubt is not None:
            return replace(pairs, read=self.learned.read(pairs, doubt))
        return pairs if self.score is None else pairs.scored(self.score)

    def batch(self, joined: pa.RecordBatch, cuts: Cuts) -> pa.RecordBatch:
        """Score one batch. A pair whose feature or label has no released sum gets no key."""
        import pyarrow as pa
        import pyarrow.compute as pc

        pairs, names = self.pairs(joined), (joined.column("feature"), joined.column("label"))
        numbers = pairs.numbers(np.arange(len(pairs)))
        # + 0.0 makes one zero of two.
        key, joint = pairs.key + 0.0, pairs.cells.joint
        known = pc.and_(*(pc.is_valid(joined.column(name)) for name in ("feature_sum", "label_sum")))
        direction = pa.array(["absence", "presence"]).take(pa.array(numbers["presence"].astype(np.int8)))
        columns = {
            "label": names[1],
            "feature": names[0],
            "direction": direction,
            **{name: pa.array(numbers[name], pa.float64(), from_pandas=True) for name in self.numbers},
            KEY: pc.if_else(known, pa.array(key), pa.scalar(None, pa.float64())),
            JOINT: pa.array(joint, pa.int64()),
            BUCKET: pa.array(cuts.buckets(key, joint, names), pa.int32()),
        }
        return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one task does with its batches."""

    scoring: Scoring
    """How to score."""
    cuts: Cuts
    """Where the order is cut."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Score batch by batch, or feature by feature where the order needs whole ones."""
        parts = batches if self.scoring.learned is None else whole_features(batches)
        return (self.scoring.batch(batch, self.cuts) for batch in parts)


def whole_features(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches anew, so that no feature stands in two of them. Pairs of a feature come side by side.

    >>> import pyarrow as pa
    >>> parts = [pa.RecordBatch.from_pydict({"feature": names}) for names in (["a", "b"], ["b", "c", "c"], ["c"])]
    >>> [part.column("feature").to_pylist() for part in whole_features(parts)]
    [['a'], ['b', 'b'], ['c', 'c', 'c']]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rest: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        names = batch.column("feature")
        last = pc.index(names, names[-1]).as_py()
        if rest and (last > 0 or names[0].as_py() != rest[0].column("feature")[0].as_py()):
            yield pa.Table.from_batches([*rest, batch.slice(0, last)]).combine_chunks().to_batches()[0]
            rest = []
        elif last > 0:
            yield batch.slice(0, last)
        rest.append(batch.slice(last))
    if rest:
        yield pa.Table.from_batches(rest).combine_chunks().to_batches()[0]


def _sums(joined: pa.RecordBatch, name: str) -> Integers:
    import pyarrow.compute as pc

    found: Integers = pc.fill_null(joined.column(name), 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found
