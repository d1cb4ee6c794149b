"""Bounds of the tail probabilities of discrete noise, as logarithms, rounded to the safe side.

They are computed in doubles with `exp`, `log`, `log1p` and `erfc` of the C library and NumPy. These functions are assumed
to have a relative error of at most 2^-48 (it is about 2^-51); the margins cover that and all rounding.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

_SLACK = 2.0**-45
_MARGIN = 2.0**-40
_SUMMED = 10**6  # the largest variance for which the tail is summed term by term
_GRID = 1 << 34
_FAR = 1e9  # a larger start or slope changes no double below


def laplace_sd(scale: Fraction) -> float:
    """Return the standard deviation of the discrete Laplace, sqrt(2 q) / (1 - q) with q = exp(-1/scale).

    >>> round(laplace_sd(Fraction(10)), 6)
    14.136245
    """
    x = _float(1 / scale)
    return math.sqrt(2) * math.exp(-x / 2) / -math.expm1(-x)


def laplace_log_tail(scale: Fraction, t: int) -> float:
    """Return an upper bound of ln P[Z >= t] for the discrete Laplace.

    >>> round(laplace_log_tail(Fraction(10), 100), 6)
    -10.644397
    """
    # proof: samplers.laplace-tail
    zero = math.log1p(math.exp(-_float(1 / scale)))
    if t > 0:
        return -(_float(t / scale) + zero) * (1 - _SLACK)
    beyond = _float(Fraction(math.ceil((1 - t) / scale * _GRID), _GRID))
    other = math.exp(-(beyond + zero) * (1 + _SLACK)) * (1 - _SLACK)
    return math.log1p(-other) * (1 - _SLACK)


def laplace_log_tail_low(scale: Fraction, t: int) -> float:
    """Return a lower bound of ln P[Z >= t] for the discrete Laplace, for t >= 1.

    >>> laplace_log_tail_low(Fraction(10), 100) < laplace_log_tail(Fraction(10), 100)
    True
    """
    return -(_float(t / scale) + math.log1p(math.exp(-_float(1 / scale)))) * (1 + _SLACK)


class LogTail(Protocol):
    """ln P[Z >= t] of unbounded noise, as an upper bound or, for t >= 1, as a lower bound."""

    def __call__(self, t: int, *, up: bool = True) -> float:
        """Return the upper bound, or the lower bound if ``up`` is False."""


def log_edge(tail: LogTail, bound: int, weight: int) -> float:
    """Return an upper bound of ln P[Z > bound - weight], for noise Z conditioned on |Z| <= bound.

    Args:
        tail: The tail of the unbounded noise.
        bound: The largest |Z|.
        weight: The width of the edge, at least 1.
    """
    # proof: bounded.edge
    inside, beyond = tail(bound - weight + 1), tail(bound + 1, up=False)
    between = inside + math.log(-math.expm1(min(beyond - inside, -sys.float_info.min)))
    within = 1 - 2 * math.exp(tail(bound + 1))
    # For very wide noise P[|Z| <= bound] can be smaller than the rounding error of the tail.
    return min(0.0, between - math.log(within) + _MARGIN) if within > 0 else 0.0


def gaussian_log_tail(variance: Fraction, t: int) -> float:
    """Return an upper bound of ln P[Z >= t] for the discrete Gaussian.

    >>> round(gaussian_log_tail(Fraction(1), 1), 6)
    -1.202211
    """
    if t > 0:
        value = _log_tail_sum(variance, t) if variance <= _SUMMED else _log_normal_tail(variance, t - 1, up=True)
        return min(0.0, value + _MARGIN * (1 + abs(value)))
    return math.log1p(-math.exp(gaussian_log_tail_low(variance, 1 - t))) * (1 - _SLACK)


def gaussian_log_tail_low(variance: Fraction, t: int) -> float:
    """Return a lower bound of ln P[Z >= t] for the discrete Gaussian, for t >= 1.

    >>> gaussian_log_tail_low(Fraction(1), 1) < gaussian_log_tail(Fraction(1), 1)
    True
    """
    value = _log_tail_sum(variance, t) if variance <= _SUMMED else _log_normal_tail(variance, t, up=False)
    return value - 4 * _MARGIN * (1 + abs(value))


def _log_tail_sum(variance: Fraction, t: int) -> float:
    # proof: samplers.gaussian-tail-sum
    first = _float(Fraction(t * t) / (2 * variance))
    return -first + math.log1p(_later_terms(variance, t)) - _log_whole(variance)


def _later_terms(variance: Fraction, t: int) -> float:
    """Sum exp(-((t + i)^2 - t^2) / (2 variance)) over i >= 1, up to terms below exp(-40)."""
    spread = 80 * float(variance)
    start = float(min(t, _FAR))
    count = math.ceil(spread / (start + math.sqrt(start * start + spread) or 1.0)) + 1
    i = np.arange(1, count + 1, dtype=np.float64)
    slope, bend = (min(_float(x), _FAR) for x in (t / variance, 1 / (2 * variance)))
    return float(np.exp(-i * slope - i * i * bend).sum())


@lru_cache(maxsize=64)
def _log_whole(variance: Fraction) -> float:
    return math.log1p(2 * _later_terms(variance, 0))


def _log_normal_tail(variance: Fraction, t: int, *, up: bool) -> float:
    """Return ln P[N(0, variance) >= t], with t / sqrt(2 variance) rounded down (up=True) or up to a grid point."""
    # proof: samplers.gaussian-tail-normal
    x = math.sqrt(_float(Fraction(t * t) / (2 * variance)))
    x = math.floor(x * (1 - _SLACK) * _GRID) / _GRID if up else math.ceil(x * (1 + _SLACK) * _GRID) / _GRID
    return _log_half_erfc(x)


def _log_half_erfc(x: float) -> float:
    """Return ln(erfc(x) / 2) for x >= 0, also where erfc underflows."""
    if x < 6:  # noqa: PLR2004 - from 6 on, 60 terms of the continued fraction are exact to the last bit
        return math.log(math.erfc(x) / 2)
    fraction = x
    for i in range(60, 0, -1):
        fraction = x + i / 2 / fraction
    return -x * x - math.log(2 * math.sqrt(math.pi) * fraction)


def _float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max
