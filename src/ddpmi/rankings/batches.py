"""Batches of pairs, scored one by one where no process holds all pairs: the code that the tasks of a cluster run.

joined : (feature, label, sum, feature_sum, label_sum) -> scored : the numeric columns of a ranking, sort key and bucket
The arithmetic is that of `ScoredPairs`, so the numbers are bit for bit the same. For the pooled order the model is first
fitted to a sample of features, and each batch holds whole features.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.rankings import orders, verdicts
from ddpmi.rankings.cells import NUMBERS, Cells, are_summed, names_by_bytes, scale_of
from ddpmi.rankings.noise_model import NoiseModel, is_heavy
from ddpmi.rankings.pairs import SCORE, ScoredPairs, mutual_information_of, notes_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ddpmi._typing import Floats, Integers
    from ddpmi.information.mi import Method
    from ddpmi.rankings.orders import Codes, Pooled, Sums
    from ddpmi.rankings.patterns import Patterns

KEY, JOINT, BUCKET = "order_key", "order_joint", "bucket"
"""Pairs are ordered by KEY ascending, JOINT descending, feature, label by bytes; a bucket is a range of that order."""
COUNTED = ("pairs_of_feature", "pairs_of_label")
"""Additional columns of joined pairs where margins are sums of released pairs."""
_NEEDED = ("private", "tables", "grid", "space", "weighted", "sample_rate", "marginals", "complete")

Place = tuple[float, int, bytes, bytes]
"""A position in the order: (key, ~joint, feature, label), ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The borders of the buckets in the order of all pairs."""

    places: tuple[Place, ...] = ()
    """The first position of each bucket but the first, ascending."""

    @classmethod
    def of(cls, sample: Iterable[Place], buckets: int) -> Cuts:
        """Choose borders from a sample of pairs, for buckets of about the same size.

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
        # Only pairs with the same key as a border are compared by joint sum and names.
        for row in np.flatnonzero(first < found).tolist():
            feature, label = (column[row].as_py().encode() for column in names)
            place = (float(key[row]), int(~joint[row]), feature, label)
            found[row] = bisect.bisect_right(self.places, place)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """The model of the pooled order, fitted to a sample of features."""

    patterns: Patterns
    """The fitted model."""
    labels: pa.Array
    """The labels of the model, in its order."""

    @classmethod
    def of(cls, pairs: ScoredPairs, noise_model: NoiseModel, labels: pa.Array) -> Learned:
        """Fit the model to all pairs of some features, sorted by the bytes of the features."""
        sums, codes = _whole_rows(pairs, labels)
        return cls(patterns=orders.fitted(sums, codes, noise_model.noise, len(labels)), labels=labels)

    def estimated(self, pairs: ScoredPairs, noise_model: NoiseModel) -> Pooled:
        """Estimate all pairs of some features; the pairs of a feature are consecutive."""
        return orders.estimated(self.patterns, *_whole_rows(pairs, self.labels), noise_model.noise)


def _whole_rows(pairs: ScoredPairs, labels: pa.Array) -> tuple[Sums, Codes]:
    """Return the sums of pairs that come with their margins, and the indices of their features and labels."""
    import pyarrow.compute as pc

    cells = pairs.cells
    # A label without a released sum is reported later.
    label = pc.fill_null(pc.index_in(cells.labels, value_set=labels), 0).to_numpy()
    feature = cells.features.dictionary_encode().indices.to_numpy()
    return (cells.joint, cells.feature_sums, cells.label_sums, cells.total), (feature, label)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judging:
    """What gives verdicts, learned from all pairs of a release."""

    judge: verdicts.Judge
    """The fitted model."""
    labels: pa.Array
    """The labels whose noise it knows more about than their receipt says, in its order."""

    def of_rows(self, labels: pa.Array) -> verdicts.Judge:
        """Return the model for rows with these labels, each row with a label of its own."""
        import pyarrow.compute as pc

        places = pc.fill_null(pc.index_in(labels, value_set=self.labels), len(self.labels)).to_numpy()
        return replace(self.judge, labels=self.judge.labels.of_rows(places))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How to score; a value that can be sent to a task."""

    receipt: Mapping[str, Any] = field(repr=False)
    """The receipt, reduced to what scoring reads."""
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
    """The model that `learn` fitted; None unless the order is the pooled one."""
    prior: verdicts.Prior | None = field(default=None, repr=False, compare=False)
    """How lifts vary, while the noise of labels is not known yet."""
    judging: Judging | None = field(default=None, repr=False, compare=False)
    """What gives verdicts; None where sums are exact."""

    def __post_init__(self) -> None:
        needed = {name: self.receipt[name] for name in _NEEDED if name in self.receipt}
        plan = self.receipt.get("plan") or {}
        words = ("space", "weighted", "marginals", "complete")
        planned = {name: plan[name] for name in words if plan.get(name) and needed.get(name) is None}
        object.__setattr__(self, "receipt", needed | planned)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the numeric columns."""
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
        """How pairs are ordered by mutual information."""
        import pyarrow as pa

        names = [pa.field(name, pa.string()) for name in ("feature", "label")]
        sums = [pa.field(name, pa.int64()) for name in ("sum", "feature_sum", "label_sum", *COUNTED)]
        nothing = self.pairs(pa.RecordBatch.from_pylist([], schema=pa.schema([*names, *sums])))
        return nothing.ranked_by if nothing.noise_model is not None else "estimate"

    @property
    def heavy(self) -> bool:
        """Whether there is Laplace noise."""
        return is_heavy(self.receipt)

    @property
    def pools(self) -> bool:
        """Whether the order of a pair depends on all other pairs of its feature."""
        return self.score is None and self.ranked_by == "pooled"

    def learn(self, joined: pa.Table, labels: pa.Array) -> Scoring:
        """Fit the model of the pooled order to all pairs of some features.

        Args:
            joined: Their pairs, in any order.
            labels: All released labels, sorted by bytes.
        """
        batches = joined.sort_by("feature").combine_chunks().to_batches()
        if not batches:
            return self
        pairs = self.pairs(batches[0])
        return (
            self if pairs.noise_model is None else replace(self, learned=Learned.of(pairs, pairs.noise_model, labels))
        )

    def with_prior(self, learned: pa.Table) -> Scoring:
        """Estimate how lifts vary from the sums of what `Learning` yielded without a prior."""
        tally = np.zeros(verdicts.TALLY, np.int64)
        tally.reshape(-1)[learned["place"].to_numpy()] = learned["value"].to_numpy()
        return replace(self, prior=verdicts.Prior.fitted(tally, heavy=self.heavy))

    def with_judge(self, learned: pa.Table) -> Scoring:
        """Add what `Learning` yielded with a prior, so that verdicts can be given."""
        if self.prior is None:
            return self
        labels, at = names_by_bytes(learned["label"])
        # The last row is for labels of which nothing is known.
        said = np.zeros((len(labels) + 1, verdicts.NODES), np.int64)
        said[at, learned["place"].to_numpy()] = learned["value"].to_numpy()
        judge = verdicts.Judge(prior=self.prior, labels=verdicts.Labels.of(said, heavy=self.heavy))
        return replace(self, prior=None, judging=Judging(judge=judge, labels=labels))

    def cells(self, joined: pa.RecordBatch) -> tuple[Cells, NoiseModel | None]:
        """Read some pairs; each row holds the sums of its feature and of its label too."""
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
        noise_model = NoiseModel.of(cells, self.receipt)
        if noise_model is not None and self.counted:
            held = [_sums(joined, name) for name in COUNTED]
            noise_model = replace(noise_model, pairs_of_feature=held[0], pairs_of_label=held[1])
        return cells, noise_model

    def pairs(self, joined: pa.RecordBatch) -> ScoredPairs:
        """Score some pairs."""
        cells, noise_model = self.cells(joined)
        mi = mutual_information_of(cells, self.method, self.tol)
        ranked_by = self.order or orders.default_order(noise_model)
        pairs = ScoredPairs(cells=cells, noise_model=noise_model, mi=mi, base=self.base, ranked_by=ranked_by)
        if self.judging is not None:
            pairs = replace(pairs, judge=self.judging.of_rows(cells.labels))
        if self.learned is not None and noise_model is not None:
            return replace(pairs, pooled=self.learned.estimated(pairs, noise_model))
        return pairs if self.score is None else pairs.scored(self.score)

    def batch(self, joined: pa.RecordBatch, cuts: Cuts) -> pa.RecordBatch:
        """Score one batch. The key of a pair is NULL where its feature or label has no released sum."""
        import pyarrow as pa
        import pyarrow.compute as pc

        pairs, names = self.pairs(joined), (joined.column("feature"), joined.column("label"))
        numbers = pairs.numbers(np.arange(len(pairs)))
        # + 0.0 turns -0.0 into 0.0, so that both are one key.
        key, joint = pairs.key + 0.0, pairs.cells.joint
        known = pc.and_(*(pc.is_valid(joined.column(name)) for name in ("feature_sum", "label_sum")))
        direction = pa.array(["absence", "presence"]).take(pa.array(numbers["presence"].astype(np.int8)))
        columns = {
            "label": names[1],
            "feature": names[0],
            "direction": direction,
            **{name: pa.array(numbers[name], pa.float64(), from_pandas=True) for name in self.numbers},
            "note": notes_in_words(numbers["note"]),
            KEY: pc.if_else(known, pa.array(key), pa.scalar(None, pa.float64())),
            JOINT: pa.array(joint, pa.int64()),
            BUCKET: pa.array(cuts.buckets(key, joint, names), pa.int32()),
        }
        return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The work of one task: score its batches."""

    scoring: Scoring
    """How to score."""
    cuts: Cuts
    """The borders of the buckets."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Score batch by batch; where the order needs whole features, no batch divides one."""
        parts = batches if self.scoring.learned is None else whole_features(batches)
        return (self.scoring.batch(batch, self.cuts) for batch in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """The work of one task before verdicts: count readings, or gather what pairs say about their labels' noise."""

    scoring: Scoring
    """How to score; with a prior, what pairs say is gathered."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a label (NULL for readings), a place and an integer, batch by batch."""
        return (self.batch(batch) for batch in batches)

    def batch(self, joined: pa.RecordBatch) -> pa.RecordBatch:
        """Learn from one batch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        (cells, noise_model), prior = self.scoring.cells(joined), self.scoring.prior
        if noise_model is None:
            return _said(pa.array([], pa.string()), np.empty(0, np.int64), np.empty(0, np.int64))
        sums = cells.joint, cells.feature_sums, cells.label_sums
        if prior is None:
            tally = verdicts.tallied(noise_model, sums, (cells.feature_code, cells.label_code)).ravel()
            at = np.flatnonzero(tally)
            return _said(pa.nulls(len(at), pa.string()), at, tally[at])
        names = pc.unique(cells.labels)
        label = pc.index_in(cells.labels, value_set=names).to_numpy()
        found = verdicts.gathered(prior, noise_model, sums, (cells.feature_code, label), len(names))
        row, node = np.nonzero(found)
        return _said(names.take(pa.array(row)), node, found[row, node])


def _said(labels: pa.Array, places: Integers, values: Integers) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict(
        {"label": labels, "place": pa.array(places, pa.int64()), "value": pa.array(values, pa.int64())}
    )


def whole_features(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Divide batches anew, so that each feature is in one batch only. The pairs of a feature are consecutive.

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
