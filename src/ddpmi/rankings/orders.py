"""The orders of pairs: by estimated mutual information, by its lower bound, or by an estimate that corrects for noise.

Two orders correct for noise. `shrunk` uses the released sums of one pair and the noise in the receipt. `pooled` also
uses the other labels of the pair's feature.
"""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from threadpoolctl import threadpool_limits

from ddpmi.errors import InputError
from ddpmi.information import mi as information
from ddpmi.rankings import patterns
from ddpmi.rankings.patterns import Patterns, Rows

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from ddpmi._typing import Flags, Floats, Integers
    from ddpmi.rankings.noise_model import Noise, NoiseModel

    Sums = tuple[Integers, Integers, Integers, int]
    """Released sums of pair, feature and label, and the total."""
    Codes = tuple[Integers, Integers]
    """Indices of each pair's feature and label."""

Order = Literal["estimate", "lower", "shrunk", "pooled"]
"""``estimate`` is mutual information itself, ``lower`` its lower bound, ``shrunk`` the value of `shrunk`, ``pooled`` the
value of `pooled`."""
#: How strongly estimates shrink; measured over all sets of docs/decisions/pooled-order.md. Behind a threshold every sum is many
#: standard deviations above zero, so that noise alone explains few of them.
BEHIND_THRESHOLD = 2.0
EVERY_PAIR = 8.0
STRENGTH = 10.0
"""How far a pair must be from its pattern, in squared standard deviations, to be kept apart from it: chosen by measurement."""
_FEATURES = patterns.STAGES[-1][0]  # most features that the model is fitted to
_FITTED = 1 << 17  # most features x labels that it is fitted to
_CELLS = 1 << 15  # features x labels estimated at once: the temporary arrays of one block fit into the cache
_WORKERS = 8  # most blocks estimated at the same time: more would wait for memory
_DECIMALS = 10
#: Points and weights of a quadrature of the normal distribution that is exact for the first five moments.
_POINTS = ((0.0, 2 / 3), (-np.sqrt(3), 1 / 6), (np.sqrt(3), 1 / 6))
IN_WORDS: dict[Order, str] = {
    "estimate": "",
    "lower": "Ordered by the low end of the interval of mutual information.",
    "shrunk": "Ordered by mutual information minus the part that noise alone could explain.",
    "pooled": (
        "Ordered by an estimate that borrows strength across groups. Directions come from it too: where noise"
        " alone reversed a pair, its own lift shows the opposite direction."
    ),
}
"""One sentence on each order, for readers who expect rows in the order of mi."""


def check_order(order: str | None) -> None:
    """Raise unless the order is one of `Order`, or None.

    >>> check_order("lower")
    """
    if order is not None and order not in get_args(Order):
        raise InputError(f"order must be one of {get_args(Order)}, got {order!r}.", hint='order="estimate"')


def default_order(noise_model: NoiseModel | None) -> Order:
    """Choose the order of a release from its receipt alone.

    Behind a threshold the orders are about equally accurate, and the estimate is the simplest and the fastest. Where every
    pair is released, zeros included, pairs that are only noise take the top ranks unless estimates are shrunk. The pooled
    order is then the most accurate.

    Args:
        noise_model: The noise; None where sums are exact.

    >>> default_order(None)
    'estimate'
    """
    if noise_model is None or not noise_model.every_pair or noise_model.sd == 0:
        return "estimate"
    return "pooled"


def shrunk(sums: Sums, noise: Noise, strength: float = EVERY_PAIR) -> Floats:
    """Compute mutual information after moving each joint sum towards independence, in nats.

    The distance x = pxy - px py is multiplied by max(0, 1 - strength / z^2), where z is x in standard deviations of its
    noise (James and Stein 1961 shrink a mean in this way; here each pair by itself). With strength 8, a pair at z = 2 keeps
    nothing, one at z = 10 keeps 92%.

    Args:
        sums: Released sums of pair, feature and label, and the total.
        noise: The release's noise.
        strength: How strongly to shrink; 0 changes nothing.

    Returns:
        One value for each pair, never above the plain estimate by more than rounding.

    >>> from ddpmi.rankings.noise_model import Noise
    >>> noise = Noise(joint=0.01, feature=0.0, label=0.0, total=0.0)
    >>> pair = (np.array([60, 30]), np.array([100, 100]), np.array([200, 200]), 1000)
    >>> shrunk(pair, noise).round(4).tolist(), shrunk(pair, noise, 0.0).round(4).tolist()
    ([0.0119, 0.0], [0.0441, 0.0032])
    """
    pxy, px, py = fractions(sums)
    expected = px * py
    distance = pxy - expected
    variance = (
        noise.joint**2 + (py * noise.feature) ** 2 + (px * noise.label) ** 2 + ((2 * expected - pxy) * noise.total) ** 2
    )
    square = distance * distance
    kept = np.divide(
        square - strength * variance, square, out=np.zeros(square.shape), where=square > strength * variance
    )
    return nearest(expected + distance * kept, px, py) if sums[3] > 0 else np.zeros(len(pxy))


def fractions(sums: Sums) -> tuple[Floats, Floats, Floats]:
    """Divide sums by their total: the joint sum as released, its margins clipped to the possible range.

    >>> [part.tolist() for part in fractions((np.array([-1]), np.array([30]), np.array([12]), 10))]
    [[-0.1], [1.0], [1.0]]
    """
    _, feature, label, _ = information.clip_sums(*sums[:3], np.int64(sums[3]))
    whole = float(max(sums[3], 1))
    return sums[0] / whole, feature / whole, label / whole


def nearest(joint: Floats, px: Floats, py: Floats) -> Floats:
    """Compute the mutual information of the nearest joint fraction that is possible with these margins, in nats.

    >>> nearest(np.array([0.9]), np.array([0.5]), np.array([0.5])).round(4).tolist()
    [0.6931]
    """
    return information.mutual_information(np.clip(joint, np.maximum(0.0, px - (1 - py)), np.minimum(px, py)), px, py)


class Pooled(NamedTuple):
    """The pooled estimate of each pair."""

    value: Floats
    """Expected mutual information, in nats."""
    presence: Flags
    """Whether the feature is expected to be more common inside the label than outside."""


def pooled(
    sums: Sums,
    codes: Codes,
    names: tuple[pa.Array, pa.Array],
    noise: Noise,
    strength: float = STRENGTH,
) -> Pooled:
    """Estimate the mutual information of each pair from all labels of its feature.

    Args:
        sums: Released sums of pair, feature and label, and the total.
        codes: Indices of each pair's feature and label in ``names``, features ascending.
        names: Names of features and of labels.
        noise: The release's noise.
        strength: As ``STRENGTH``.

    Returns:
        A value and a direction for each pair.

    >>> import pyarrow as pa
    >>> from ddpmi.rankings.noise_model import Noise
    >>> joint = np.array([30, 10, 10, 40])
    >>> pairs = (joint, np.array([40, 40, 50, 50]), np.array([40, 50, 40, 50]), 90)
    >>> codes = (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    >>> names = (pa.array(["tea", "wine"]), pa.array(["fr", "uk"]))
    >>> noise = Noise(joint=0.05, feature=0.0, label=0.0, total=0.0)
    >>> silent = Noise(joint=0, feature=0, label=0, total=0)
    >>> plain, found = pooled(pairs, codes, names, silent), pooled(pairs, codes, names, noise)
    >>> bool(np.all(found.value < plain.value)), found.presence.tolist()
    (True, [True, False, False, True])
    """
    if len(sums[0]) == 0:
        return Pooled(value=np.empty(0), presence=np.empty(0, np.bool_))
    return estimated(
        learned(sums, codes, names, noise), sums, codes, noise, strength, workers=min(os.cpu_count() or 1, _WORKERS)
    )


def learned(sums: Sums, codes: Codes, names: tuple[pa.Array, pa.Array], noise: Noise) -> Patterns:
    """Fit the model to a sample of features; there is at least one pair."""
    labels = len(names[1])
    fit = _sampled(codes[0], names[0], sample_size(labels))
    chosen = (sums[0][fit], sums[1][fit], sums[2][fit], sums[3])
    return fitted(chosen, (codes[0][fit], codes[1][fit]), noise, labels)


def sample_size(labels: int) -> int:
    """Return the most features that the model is fitted to.

    >>> sample_size(30), sample_size(10**7)
    (2000, 1)
    """
    return max(min(_FEATURES, _FITTED // labels), 1)


def _sampled(feature: Integers, names: pa.Array, most: int) -> slice | Integers:
    """Choose the pairs of at most ``most`` features: those whose names have the smallest CRC-32.

    Every engine can compute CRC-32, and it does not depend on the sums of a feature.
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
    """Fit the model to all pairs of some features; ``labels`` is the number of labels."""
    pairs = _Pairs.of(sums, codes, noise)
    totals = np.zeros(labels)
    totals[pairs.label] = pairs.py
    # A label with an empty total has no relative noise, and its pairs have no lift.
    relative = np.divide(noise.label, totals, out=np.zeros(labels), where=totals > 0)
    with _one_thread():
        return patterns.fitted(pairs.rows(labels), relative**2)


def estimated(
    model: Patterns, sums: Sums, codes: Codes, noise: Noise, strength: float = STRENGTH, *, workers: int = 1
) -> Pooled:
    """Estimate pairs with a fitted model, in blocks of whole features, which are independent of each other."""
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
    """Estimate the pairs of one block."""
    right = np.maximum(1 + model.offsets, patterns.LEAST)
    rows = pairs.rows(len(model.own)).relative_to(right)
    # The last bits of a matrix product depend on the rest of the block; rounding keeps them from ordering equal pairs.
    mean, spread = (
        np.round(part[pairs.row, pairs.label], _DECIMALS) for part in patterns.possible_lifts(rows, model, strength)
    )
    px, py = pairs.px, np.minimum(pairs.py * right[pairs.label], 1.0)
    value = np.zeros(len(px))
    for deviations, weight in _POINTS:
        value += weight * nearest(px * py * (1 + mean + deviations * spread), px, py)
    return Pooled(value=np.where(np.isfinite(pairs.variance), value, 0.0), presence=mean > 0)


def _one_thread() -> AbstractContextManager[Any]:
    """Limit products of small matrices to one thread: more threads would mostly wait for each other."""
    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits


def _first_pairs(feature: Integers) -> Integers:
    """Return the first row of each feature.

    >>> _first_pairs(np.array([2, 2, 5, 7, 7])).tolist()
    [0, 2, 3]
    """
    return np.flatnonzero(np.diff(feature, prepend=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """Released pairs as lifts with the variance of their noise."""

    px: Floats
    """The feature's sum as a fraction of the total."""
    py: Floats
    """The label's sum as a fraction of the total."""
    lift: Floats
    """Lift minus one; 0 where the expected sum is 0."""
    variance: Floats
    """Variance of the lift's noise without that of the label's total; infinite where the expected sum is 0."""
    row: Integers
    """Index of the feature among those that occur, ascending."""
    label: Integers
    """Index of the label."""

    @classmethod
    def of(cls, sums: Sums, codes: Codes, noise: Noise) -> _Pairs:
        """Compute them from released sums."""
        pxy, px, py = fractions(sums)
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
        """Arrange the pairs in a matrix of features by labels."""
        shape = int(self.row[-1]) + 1, labels
        rows = Rows(lift=np.zeros(shape), variance=np.full(shape, np.inf))
        rows.lift[self.row, self.label], rows.variance[self.row, self.label] = self.lift, self.variance
        return rows
