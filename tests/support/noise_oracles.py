"""Slow, independent truths for the noise tests: exact laws, chi-square, and a source that says what it is told."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from ddpmi.privacy.randomness import Keystream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import mpmath
    from numpy.typing import NDArray

ALARM = 1e-7
"""A p-value below this fails a test: the rate of false alarms of one chi-square."""

ONES = (1 << 64) - 1


class Scripted:
    """Gives the words of a script one after the other, then those of a fixed keystream."""

    def __init__(self, script: Iterable[int]) -> None:
        self.script = list(script)
        self.rest = Keystream(bytes(32))

    def words(self, n: int) -> NDArray[np.uint64]:
        told, self.script = self.script[:n], self.script[n:]
        return np.concatenate([np.array(told, dtype=np.uint64), self.rest.words(n - len(told))])


def script_of(u: int, bits: int) -> list[int]:
    """The words that make a table's first draw start with the given bits of U (a multiple of 64)."""
    first, *more = [(u >> at) & ONES for at in range(bits - 64, -1, -64)]
    return [first >> 48, (first << 16) & ONES, *more]


def laplace_cdf(b: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """P[Z <= k] of the discrete Laplace, by the geometric series."""
    q = math.exp(-1 / b)
    tail = np.exp(-np.where(k < 0, -k, k + 1) / b) / (1 + q)
    return np.asarray(np.where(k < 0, tail, 1 - tail), dtype=np.float64)


def gaussian_cdf(sigma: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """P[Z <= k] of the discrete Gaussian: summed up to sigma 10^4, then Phi((k + 1/2)/sigma), right to 1e-13."""
    if sigma > 1e4:
        x = (k + 0.5) / sigma
        bend = x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi) / (24 * sigma**2)
        return np.asarray(special.ndtr(x) + bend)
    edge = math.ceil(12 * sigma) + 2
    mass = np.exp(-(np.arange(-edge, edge + 1) ** 2) / (2 * sigma**2))
    total = np.cumsum(mass) / mass.sum()
    return np.asarray(total[np.clip(k, -edge, edge) + edge])


def chi_square(counts: NDArray[np.int64], shares: NDArray[np.float64]) -> float:
    """The p-value of counts against exact shares."""
    expected = shares * counts.sum()
    assert expected.min() > 20
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))


def binned(
    samples: NDArray[np.int64], cdf: Callable[[NDArray[np.int64]], NDArray[np.float64]], spread: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts and exact shares over at most 400 bins, all integers where the law is narrow, tails included."""
    ends = np.array([5e-5, 2e-4, 1e-3])
    z = stats.laplace.ppf(np.concatenate([ends, np.arange(1, 400) / 400, 1 - ends]))
    candidates = np.unique(np.concatenate([np.rint(z * spread).astype(np.int64), np.arange(-9, 9)]))
    edges: list[int] = []
    last = 0.0
    for k, f in zip(candidates.tolist(), cdf(candidates).tolist(), strict=True):
        if min(f - last, 1 - f) * samples.size > 40:
            edges.append(k)
            last = f
    at = np.searchsorted(np.array(edges), samples, side="left")
    shares = np.diff(cdf(np.array(edges)), prepend=0.0, append=1.0)
    return np.bincount(at, minlength=len(edges) + 1), shares


def two_sample(a: Sequence[int], b: Sequence[int], bins: int = 20) -> float:
    """The p-value of two samples being of one law, over bins of their common quantiles."""
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.arange(1, bins) / bins))
    table = np.array([np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1) for x in (a, b)])
    table = table[:, table.sum(axis=0) > 0]
    return float(stats.chi2_contingency(table).pvalue)


def running_sums(weight: Callable[[int], mpmath.mpf], values: range) -> dict[int, mpmath.mpf]:
    """P[X <= k] of each k, by adding up a mass function over a range that holds all but nothing of it."""
    sums = list(accumulate(weight(z) for z in values))
    return {z: x / sums[-1] for z, x in zip(values, sums, strict=True)}
