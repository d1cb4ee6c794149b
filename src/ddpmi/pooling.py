"""What a feature does in all labels helps to tell signal from noise in each: an order that borrows strength.

In words by years, a word that grows does so over several years, and many words grow together. A small model of such
patterns (`ddpmi.patterns`) is fitted to the released sums, and each pair's distance from independence is then read together
with the rest of its row. Only released numbers and the receipt's noise go in: free post-processing.

The model has few numbers, so it is fitted to some features, chosen by a hash of their names. Given the model each feature
is read for itself: in blocks here, or by tasks of a cluster (`ddpmi.scoring`).

A pair's value is the mutual information that is to be expected, over all lifts that its row leaves possible. At the lift that
is most likely it would be too small wherever much is left open, and few rare features would ever lead. Its direction is that
of the expected lift.
"""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ddpmi import orders, patterns
from ddpmi.patterns import Patterns, Rows

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from numpy.typing import NDArray

    from ddpmi.uncertainty import Noise

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]
    Sums = tuple[Integers, Integers, Integers, int]
    Codes = tuple[Integers, Integers]

_FEATURES = patterns.STAGES[-1][0]  # that the model is fitted to, at most
_FITTED = 1 << 17  # features x labels that it is fitted to, at most
_CELLS = 1 << 15  # features x labels read at once: the temporaries of one block stay in the cache
_WORKERS = 8  # blocks read at the same time, at most: more wait for memory
STRENGTH = 10.0
"""How far a pair must be from its pattern, in squared deviations, to be believed against it: chosen by measurement."""
_DECIMALS = 10
#: Deviations from the mean and their weights, with which a normal variable has the right first five moments.
_POINTS = ((0.0, 2 / 3), (-np.sqrt(3), 1 / 6), (np.sqrt(3), 1 / 6))


class Pooled(NamedTuple):
    """What the rows of features say about their pairs."""

    value: Floats
    """Expected mutual information, in nats."""
    presence: NDArray[np.bool_]
    """Whether the feature is expected to be more common inside the label than outside."""


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
    return read(
        learned(sums, codes, names, noise), sums, codes, noise, strength, workers=min(os.cpu_count() or 1, _WORKERS)
    )


def learned(sums: Sums, codes: Codes, names: tuple[pa.Array, pa.Array], noise: Noise) -> Patterns:
    """Fit to the pairs of some features, as `pooled` does; there is at least one pair."""
    labels = len(names[1])
    fit = _sampled(codes[0], names[0], sample_size(labels))
    chosen = (sums[0][fit], sums[1][fit], sums[2][fit], sums[3])
    return fitted(chosen, (codes[0][fit], codes[1][fit]), noise, labels)


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


def fitted(sums: Sums, codes: Codes, noise: Noise, labels: int) -> Patterns:
    """Fit to all pairs of some features, as in `pooled`; ``labels`` is how many there are."""
    pairs = _Pairs.of(sums, codes, noise)
    totals = np.zeros(labels)
    totals[pairs.label] = pairs.py
    # Relative to an empty total nothing is known, nor is anything said about its pairs.
    doubts = np.divide(noise.label, totals, out=np.zeros(labels), where=totals > 0)
    with _one_thread():
        return patterns.fitted(pairs.rows(labels), doubts**2)


def read(
    model: Patterns, sums: Sums, codes: Codes, noise: Noise, strength: float = STRENGTH, *, workers: int = 1
) -> Pooled:
    """Read pairs, all those of a feature together, as in `pooled`; blocks of features do not depend on each other."""
    count = len(sums[0])
    found = Pooled(value=np.empty(count), presence=np.empty(count, np.bool_))
    first = _first_pairs(codes[0])[:: max(_CELLS // len(model.own), 1)]

    def fill(start: int, end: int) -> None:
        at = slice(start, end)
        some = (sums[0][at], sums[1][at], sums[2][at], sums[3])
        pairs = _Pairs.of(some, (codes[0][at], codes[1][at]), noise)
        found.value[at], found.presence[at] = _block(model, pairs, strength)

    with _one_thread(), ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(fill, first, [*first[1:], count]):
            pass
    return found


def _block(model: Patterns, pairs: _Pairs, strength: float) -> Pooled:
    """Read pairs that fit into one block."""
    right = np.maximum(1 + model.offsets, patterns.LEAST)
    rows = pairs.rows(len(model.own)).relative_to(right)
    # The last bits of a product of matrices depend on what else is in the block; they must not decide between equals.
    mean, spread = (
        np.round(part[pairs.row, pairs.label], _DECIMALS) for part in patterns.possible_lifts(rows, model, strength)
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

    def rows(self, labels: int) -> Rows:
        """Arrange the pairs by features and so many labels."""
        shape = int(self.row[-1]) + 1, labels
        rows = Rows(lift=np.zeros(shape), variance=np.full(shape, np.inf))
        rows.lift[self.row, self.label], rows.variance[self.row, self.label] = self.lift, self.variance
        return rows
