"""The little statistics that checks need, without a statistics library at run time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ddpmi.noise import DiscreteLaplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi.noise import Mechanism

_ITERATIONS = 10_000
_TINY = 1e-300
_BINS = 60


def binomial_tail(events: int, trials: int, probability: float) -> float:
    """Return P[Binomial(trials, probability) >= events].

    >>> round(binomial_tail(2, 3, 0.5), 6)
    0.5
    """
    if events <= 0:
        return 1.0
    log_p, log_q = math.log(probability), math.log1p(-probability)
    largest = math.lgamma(trials + 1)
    terms = [
        largest - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_p + (trials - k) * log_q
        for k in range(events, trials + 1)
    ]
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Return the probability that a chi-square variable is at least as large.

    The regularised upper incomplete gamma function: series below the mean, continued fraction above.

    >>> round(chi_square_tail(3.841458820694124, 1), 9)
    0.05
    """
    a, x = degrees / 2, statistic / 2
    if x <= 0:
        return 1.0
    front = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, _ITERATIONS):
            term *= x / (a + n)
            total += term
            if term < total * 1e-16:
                break
        return max(0.0, 1 - front * total)
    return front * _continued_fraction(a, x)


def _continued_fraction(a: float, x: float) -> float:
    """Lentz's method for the upper incomplete gamma function."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    h = d
    for n in range(1, _ITERATIONS):
        step = -n * (n - a)
        b += 2
        d = 1 / ((step * d + b) or _TINY)
        c = (b + step / c) or _TINY
        h *= d * c
        if abs(d * c - 1) < 1e-16:  # noqa: PLR2004 - a double cannot do better
            break
    return h


def expected_counts(mechanism: Mechanism, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cut the integers into bins of exactly known probability, each expecting at least 20 draws.

    Returns:
        The first integer of every bin but the first, and the expected count of each bin.
    """
    reach = max(1, round(3.5 * mechanism.sd))
    width = max(1, -(-2 * reach // _BINS))
    cuts = np.arange(-reach, reach + 1, width, dtype=np.int64)
    below = np.array([_below(mechanism, int(cut)) for cut in cuts])
    chances = np.diff(np.concatenate([[0.0], below, [1.0]]))
    keep = np.ones(len(chances), dtype=bool)
    while (chances[keep] * size).min() < 20 and keep.sum() > 2:  # noqa: PLR2004 - the usual rule for chi-square
        place = int(np.flatnonzero(keep)[np.argmin(chances[keep])])
        kept = np.flatnonzero(keep)
        at = int(np.searchsorted(kept, place))
        neighbour = kept[at - 1] if at > 0 else kept[at + 1]
        chances[max(place, neighbour)] += chances[min(place, neighbour)]
        keep[min(place, neighbour)] = False
    return cuts[np.flatnonzero(keep)[:-1]], chances[keep] * size


def _below(mechanism: Mechanism, cut: int) -> float:
    """P[Z < cut]."""
    if mechanism.bound is not None:
        free = replace(mechanism, bound=None)
        least, most = (_below(free, edge) for edge in (-mechanism.bound, mechanism.bound + 1))
        return min(max((_below(free, cut) - least) / (most - least), 0.0), 1.0)
    if isinstance(mechanism, DiscreteLaplace):
        q = math.exp(-1 / mechanism.scale)
        return q ** (1 - cut) / (1 + q) if cut <= 0 else 1 - q**cut / (1 + q)
    variance = float(mechanism.variance)
    if variance > 1e6:  # noqa: PLR2004 - there the sum of the mass and the integral agree to all digits of a double
        return 0.5 * math.erfc(-(cut - 0.5) / math.sqrt(2 * variance))
    reach = int(12 * math.sqrt(variance)) + 2
    z = np.arange(-reach, reach + 1)
    mass = np.exp(-(z.astype(float) ** 2) / (2 * variance))
    return float(mass[z < cut].sum() / mass.sum())
