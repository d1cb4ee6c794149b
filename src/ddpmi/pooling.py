"""What a feature does in all labels helps to tell signal from noise in each: an order that borrows strength.

In words by years, a word that grows does so over several years, and many words grow together. A small model of such
patterns is fitted to the released sums, and each pair's distance from independence is then read together with the rest of
its row (an empirical Bayes factor analysis). Only released numbers and the receipt's noise go in: free post-processing.

The model. z is a pair's lift less one, as released; its noise has the known variance v.
    z = offset[label] + sqrt(scale) (loadings[label] . u + e) + noise,    u ~ N(0, 1),    e ~ N(0, own[label])
Each feature has its own u and its own scale, one of ``_SCALES``. The offset is what noise in a label's total does to all
of its pairs alike; it is no information and is taken out. What a pair has beside the patterns is moved towards 0 as the
model says, or as James and Stein would if that is less: a burst in one year is no pattern, and no noise either.

The model has few numbers, so it is fitted to some features, chosen by a hash of their names. Given the model each feature
is read for itself: in blocks here, or by tasks of a cluster (`ddpmi.scoring`).

A pair's value is the mutual information that is to be expected, over all lifts that its row leaves possible. At the lift that
is most likely it would be too small wherever much is left open, and few rare features would ever lead. Its direction is that
of the expected lift.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ddpmi import orders

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from numpy.typing import NDArray

    from ddpmi.uncertainty import Noise

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]
    Sums = tuple[Integers, Integers, Integers, int]
    Codes = tuple[Integers, Integers]

_SCALES = 4.0 ** np.arange(-6, 3)
_PATTERNS = 8  # more gain nothing on the sets of docs/decisions/accuracy.md
#: Features, and how often the model is fitted to so many: first roughly, then to all of the sample.
_STAGES = ((400, 60), (2000, 12))
_FEATURES = _STAGES[-1][0]  # that the model is fitted to, at most
_FITTED = 1 << 17  # features x labels that it is fitted to, at most
_CELLS = 1 << 15  # features x labels read at once: the temporaries of one block stay in the cache
_PRIOR = 5.0  # as many imagined features without a pattern, for each label
_PRIOR_OWN = 0.1
STRENGTH = 12.0
"""How far a pair must be from its pattern, in squared deviations, to be believed against it: chosen by measurement."""
_LEAST = 1e-4
_DECIMALS = 10
#: Deviations from the mean and their weights, with which a normal variable has the right first five moments.
_POINTS = ((0.0, 2 / 3), (-np.sqrt(3), 1 / 6), (np.sqrt(3), 1 / 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Features by labels. A pair that was not released has no precision: its variance is infinite, its lift 0."""

    lift: Floats
    """Lift less one."""
    variance: Floats
    """Variance of its noise."""

    def less(self, offsets: Floats) -> _Rows:
        """Take offsets of labels out."""
        return _Rows(lift=np.where(np.isfinite(self.variance), self.lift - offsets, 0.0), variance=self.variance)

    def relative_to(self, totals: Floats) -> _Rows:
        """Read lifts against totals of labels that are so many times as large."""
        lift = np.where(np.isfinite(self.variance), (1 + self.lift) / totals - 1, 0.0)
        return _Rows(lift=lift, variance=self.variance / totals**2)

    def every(self, step: int) -> _Rows:
        """Take one feature of so many."""
        return _Rows(lift=self.lift[::step], variance=self.variance[::step])


class Pooled(NamedTuple):
    """What the rows of features say about their pairs."""

    value: Floats
    """Expected mutual information, in nats."""
    presence: NDArray[np.bool_]
    """Whether the feature is expected to be more common inside the label than outside."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Patterns:
    """How the lifts of a feature go together; a value that can be sent to a task."""

    loadings: Floats
    """Labels by patterns."""
    own: Floats
    """Variance that each label has beside the patterns."""
    weights: Floats
    """How many features have each scale, as parts of one."""
    offsets: Floats
    """What is wrong with each label's total, relative to it."""

    @classmethod
    def fitted(cls, sums: Sums, codes: Codes, noise: Noise, labels: int) -> Patterns:
        """Fit to all pairs of some features, as in `pooled`; ``labels`` is how many there are."""
        pairs = _Pairs.of(sums, codes, noise)
        totals = np.zeros(labels)
        totals[pairs.label] = pairs.py
        # Relative to an empty total nothing is known, nor is anything said about its pairs.
        doubts = np.divide(noise.label, totals, out=np.zeros(labels), where=totals > 0)
        with _one_thread():
            return _fitted(pairs.rows(labels), doubts**2)

    def of_one_size(self, counts: Integers) -> Patterns:
        """Make the mean variance 1, by how many pairs labels have: scales and loadings could grow against each other."""
        size = max(float(counts @ (self.own + np.sum(self.loadings**2, axis=1)) / max(counts.sum(), 1)), _LEAST)
        return replace(self, loadings=self.loadings / np.sqrt(size), own=self.own / size)

    def read(self, sums: Sums, codes: Codes, noise: Noise, strength: float = STRENGTH) -> Pooled:
        """Read pairs, all those of a feature together, as in `pooled`."""
        count = len(sums[0])
        found = Pooled(value=np.empty(count), presence=np.empty(count, np.bool_))
        first = _first_pairs(codes[0])[:: max(_CELLS // len(self.own), 1)]
        with _one_thread():
            for start, end in zip(first, [*first[1:], count], strict=True):
                at = slice(start, end)
                some = (sums[0][at], sums[1][at], sums[2][at], sums[3])
                read = self._block(_Pairs.of(some, (codes[0][at], codes[1][at]), noise), strength)
                found.value[at], found.presence[at] = read
        return found

    def _block(self, pairs: _Pairs, strength: float) -> Pooled:
        """Read pairs that fit into one block."""
        right = np.maximum(1 + self.offsets, _LEAST)
        rows = pairs.rows(len(self.own)).relative_to(right)
        # The last bits of a product of matrices depend on what else is in the block; they must not decide between equals.
        mean, spread = (
            np.round(part[pairs.row, pairs.label], _DECIMALS) for part in _possible_lifts(rows, self, strength)
        )
        px, py = pairs.px, np.minimum(pairs.py * right[pairs.label], 1.0)
        value = np.zeros(len(px))
        for deviations, weight in _POINTS:
            value += weight * orders.nearest(px * py * (1 + mean + deviations * spread), px, py)
        return Pooled(value=np.where(np.isfinite(pairs.variance), value, 0.0), presence=mean > 0)


def _one_thread() -> AbstractContextManager[Any]:
    """Keep products of small matrices on one thread: others would wait for each other longer than they work."""
    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits


def _first_pairs(feature: Integers) -> Integers:
    """Return where each feature's pairs begin.

    >>> _first_pairs(np.array([2, 2, 5, 7, 7])).tolist()
    [0, 2, 3]
    """
    return np.flatnonzero(np.diff(feature, prepend=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What the rows say, if their scale is a certain one."""

    scale: float
    precision: Floats
    """Of each lift around its pattern."""
    spread: Floats
    """Covariance of u, feature by feature, as rows of numbers."""
    mean: Floats
    """Mean of u."""


def pooled(
    sums: Sums,
    codes: Codes,
    names: tuple[pa.Array, pa.Array],
    noise: Noise,
    strength: float = STRENGTH,
) -> Pooled:
    """Compute what mutual information is to be expected, reading each pair with the other labels of its feature.

    Args:
        sums: Released sums of pair, feature and label, and the total.
        codes: Places of each pair's feature and label in ``names``, features ascending.
        names: Names of features and of labels.
        noise: The release's noise.
        strength: How far a pair must be from its pattern to be believed against it.

    Returns:
        A value and a direction for each pair.

    >>> import pyarrow as pa
    >>> from ddpmi.uncertainty import Noise
    >>> joint = np.array([30, 10, 10, 40])
    >>> pairs = (joint, np.array([40, 40, 50, 50]), np.array([40, 50, 40, 50]), 90)
    >>> codes = (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    >>> names = (pa.array(["tea", "wine"]), pa.array(["fr", "uk"]))
    >>> noise = Noise(joint=0.05, feature=0.0, label=0.0, total=0.0)
    >>> silent = Noise(joint=0, feature=0, label=0, total=0)
    >>> plain, read = pooled(pairs, codes, names, silent), pooled(pairs, codes, names, noise)
    >>> bool(np.all(read.value < plain.value)), read.presence.tolist()
    (True, [True, False, False, True])
    """
    if len(sums[0]) == 0:
        return Pooled(value=np.empty(0), presence=np.empty(0, np.bool_))
    return learned(sums, codes, names, noise).read(sums, codes, noise, strength)


def learned(sums: Sums, codes: Codes, names: tuple[pa.Array, pa.Array], noise: Noise) -> Patterns:
    """Fit to the pairs of some features, as `pooled` does; there is at least one pair."""
    labels = len(names[1])
    fit = _sampled(codes[0], names[0], sample_size(labels))
    chosen = (sums[0][fit], sums[1][fit], sums[2][fit], sums[3])
    return Patterns.fitted(chosen, (codes[0][fit], codes[1][fit]), noise, labels)


def sample_size(labels: int) -> int:
    """Return to how many features the model is fitted, at most.

    >>> sample_size(30), sample_size(10**7)
    (2000, 1)
    """
    return max(min(_FEATURES, _FITTED // labels), 1)


def _sampled(feature: Integers, names: pa.Array, most: int) -> slice | Integers:
    """Choose pairs: those of the features whose names have the smallest CRC-32, at most so many.

    Any engine can compute it, and it has nothing to do with how common a feature is or what it does.
    """
    first = _first_pairs(feature)
    if len(first) <= most:
        return slice(None)
    present = feature[first]
    hashes = np.array([zlib.crc32(name.encode()) for name in names.take(present).to_pylist()])
    wanted = np.zeros(len(names), np.bool_)
    wanted[present[np.argsort(hashes, kind="stable")[:most]]] = True
    return np.flatnonzero(wanted[feature])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """The released pairs, side by side."""

    px: Floats
    """Part of the total that each pair's feature has."""
    py: Floats
    """Part of the total that its label has."""
    lift: Floats
    """Lift less one; 0 where nothing is expected."""
    variance: Floats
    """Variance of its noise, but for that of the label's total; infinite where nothing is expected."""
    row: Integers
    """Place of its feature among those that occur, ascending."""
    label: Integers
    """Place of its label."""

    @classmethod
    def of(cls, sums: Sums, codes: Codes, noise: Noise) -> _Pairs:
        """Read released sums."""
        pxy, px, py = orders.fractions(sums)
        expected = px * py
        there = expected > 0
        variance = noise.joint**2 + (py * noise.feature) ** 2 + ((2 * expected - pxy) * noise.total) ** 2
        return cls(
            px=px,
            py=py,
            lift=np.divide(pxy - expected, expected, out=np.zeros(len(pxy)), where=there),
            variance=np.divide(variance, expected**2, out=np.full(len(pxy), np.inf), where=there),
            row=np.cumsum(np.diff(codes[0], prepend=codes[0][:1]) != 0),
            label=codes[1],
        )

    def rows(self, labels: int) -> _Rows:
        """Arrange the pairs by features and so many labels."""
        shape = int(self.row[-1]) + 1, labels
        rows = _Rows(lift=np.zeros(shape), variance=np.full(shape, np.inf))
        rows.lift[self.row, self.label], rows.variance[self.row, self.label] = self.lift, self.variance
        return rows


def _fitted(rows: _Rows, doubts: Floats) -> Patterns:
    """Fit by expectation and maximisation; ``doubts`` are the relative variances of the labels' totals."""
    features, labels = rows.lift.shape
    steps = [-(-features // most) for most, _ in _STAGES]
    first = rows.every(steps[0])
    model = Patterns(
        loadings=_first_loadings(first, min(_PATTERNS, labels - 1, len(first.lift) - 1)),
        own=np.full(labels, 0.5),
        weights=np.full(len(_SCALES), 1 / len(_SCALES)),
        offsets=np.zeros(labels),
    )
    for step, (_, rounds) in zip(steps, _STAGES, strict=True):
        some = rows.every(step)
        for _ in range(rounds):
            model = _improved(some, model, doubts).of_one_size(np.isfinite(some.variance).sum(axis=0))
    return model


def _first_loadings(rows: _Rows, patterns: int) -> Floats:
    """Begin with the main directions of lifts that are clear of noise, each feature counting alike."""
    square = rows.lift**2
    clear = np.where(square > 4 * rows.variance, rows.lift, 0.0)
    size = np.sqrt(np.mean(clear**2, axis=1, keepdims=True))
    _, values, directions = np.linalg.svd(
        np.divide(clear, size, out=np.zeros(clear.shape), where=size > 0), full_matrices=False
    )
    loadings: Floats = (directions[:patterns] * values[:patterns, None]).T
    largest = np.sqrt(np.mean(np.sum(loadings**2, axis=1)))
    loadings *= np.sqrt(0.5) / max(float(largest), _LEAST)
    return loadings


def _read(rows: _Rows, model: Patterns) -> tuple[Floats, list[_Reading]]:
    """Find how likely each scale is for each feature, and what the rows say if it has it."""
    features = len(rows.lift)
    patterns = model.loadings.shape[1]
    seen = np.isfinite(rows.variance)
    products = _products(model.loadings)
    found, chances = [], np.empty((len(_SCALES), features))
    for at, scale in enumerate(_SCALES.tolist()):
        spread = scale * model.own + rows.variance
        precision = 1 / spread
        inner = np.eye(patterns) + (scale * precision @ products).reshape(features, patterns, patterns)
        pull = np.sqrt(scale) * (precision * rows.lift) @ model.loadings
        covariance = np.linalg.inv(inner)
        mean = np.einsum("fij,fj->fi", covariance, pull)
        misfit = np.sum(np.log(spread, out=np.zeros(spread.shape), where=seen) + precision * rows.lift**2, axis=1)
        misfit += np.linalg.slogdet(inner)[1] - np.sum(pull * mean, axis=1)
        chances[at] = np.log(model.weights[at]) - misfit / 2
        flat = covariance.reshape(features, patterns * patterns)
        found.append(_Reading(scale=scale, precision=precision, spread=flat, mean=mean))
    chances = np.exp(chances - chances.max(axis=0))
    return chances / chances.sum(axis=0), found


def _improved(rows: _Rows, model: Patterns, doubts: Floats) -> Patterns:
    """Do one round: read all features with the model, then choose the model that fits what was read best."""
    seen = np.isfinite(rows.variance)
    labels, patterns = model.loadings.shape
    plain = rows.less(model.offsets)
    chances, readings = _read(plain, model)
    products = _products(model.loadings)
    second = np.zeros((labels, patterns * patterns))
    first = np.zeros((labels, patterns))
    own, shift, weight = np.zeros(labels), np.zeros(labels), np.zeros(labels)
    for chance, reading in zip(chances, readings, strict=True):
        counted = chance[:, None] * seen
        pattern = reading.mean @ model.loadings.T
        kept = reading.scale * model.own * reading.precision
        rest = plain.lift / np.sqrt(reading.scale) - pattern
        moments = reading.spread + _products(reading.mean)
        second += counted.T @ moments
        first += (counted * kept * (rest + pattern)).T @ reading.mean
        held = ((counted * (1 - kept)).T @ moments).reshape(labels, patterns, patterns)
        first += np.einsum("lij,lj->li", held, model.loadings)
        own += np.sum(counted * (kept**2 * (rest**2 + reading.spread @ products.T) + (1 - kept) * model.own), axis=0)
        shift += np.sum(counted * reading.precision * (rows.lift - np.sqrt(reading.scale) * pattern), axis=0)
        weight += np.sum(counted * reading.precision, axis=0)
    square = second.reshape(labels, patterns, patterns)
    # The second part only keeps a label with one huge lift from making the matrix singular.
    imagined = _PRIOR + 1e-9 * np.trace(square, axis1=1, axis2=2)
    square += imagined[:, None, None] * np.eye(patterns)
    return Patterns(
        loadings=np.linalg.solve(square, first[..., None])[..., 0].astype(np.float64),
        own=np.maximum((own + _PRIOR * _PRIOR_OWN) / (seen.sum(axis=0) + _PRIOR), _LEAST),
        weights=(chances.sum(axis=1) + 0.1) / (chances.shape[1] + 0.1 * len(_SCALES)),
        offsets=doubts * shift / (doubts * weight + 1),
    )


def _possible_lifts(rows: _Rows, model: Patterns, strength: float) -> tuple[Floats, Floats]:
    """Return what each lift is expected to be, given its whole row, and the standard deviation of what it may be."""
    chances, readings = _read(rows, model)
    noise = np.where(np.isfinite(rows.variance), rows.variance, 0.0)
    products = _products(model.loadings)
    means, variances = [], []
    for reading in readings:
        pattern = np.sqrt(reading.scale) * reading.mean @ model.loadings.T
        beside = rows.lift - pattern
        square, doubt = beside**2, strength * rows.variance
        clear = np.divide(square - doubt, square, out=np.zeros(square.shape), where=square > doubt)
        kept = np.maximum(reading.scale * model.own * reading.precision, clear)
        means.append(pattern + kept * beside)
        # Of the pattern as far as it is believed, and of the pair's own noise as far as that is.
        variances.append((1 - kept) ** 2 * reading.scale * (reading.spread @ products.T) + kept * noise)
    mean = np.einsum("sf,sfl->fl", chances, means)
    return mean, np.sqrt(np.einsum("sf,sfl->fl", chances, variances + (np.array(means) - mean) ** 2))


def _products(vectors: Floats) -> Floats:
    """Return all products of two numbers of each row."""
    return (vectors[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
