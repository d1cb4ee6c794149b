"""Bounds of tail probabilities and quantiles, rounded to the safe side.

Doubles are used with `exp`, `log`, `log1p` and `erfc` of the C library and NumPy, taken to be right to 2^-48
of their size (they are right to about 2^-51); the margins cover that and all rounding.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ddpmi.noise_tables import GaussianCells, Law

if TYPE_CHECKING:
    from collections.abc import Callable

_SLACK = 2.0**-45
_MARGIN = 2.0**-40
_SUMMED = 10**6  # the largest variance whose mass function is summed
_GRID = 1 << 34
_FAR = 1e9  # beyond this a start or a slope makes no difference to a double


def _float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max


def _log(x: Fraction) -> float:
    near = float(x)
    if near < sys.float_info.min:
        return math.log(x.numerator) - math.log(x.denominator)
    return math.log(near)


def laplace_sd(scale: Fraction) -> float:
    """Give the standard deviation of the discrete Laplace, sqrt(2 q) / (1 - q) with q = exp(-1/scale).

    >>> round(laplace_sd(Fraction(10)), 6)
    14.136245
    """
    x = _float(1 / scale)
    return math.sqrt(2) * math.exp(-x / 2) / -math.expm1(-x)


def laplace_log_tail(scale: Fraction, t: int) -> float:
    """Bound ln P[Z >= t] of the discrete Laplace from above.

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
    """Bound ln P[Z >= t] of the discrete Laplace from below, for t >= 1.

    >>> laplace_log_tail_low(Fraction(10), 100) < laplace_log_tail(Fraction(10), 100)
    True
    """
    return -(_float(t / scale) + math.log1p(math.exp(-_float(1 / scale)))) * (1 + _SLACK)


class LogTail(Protocol):
    """Gives ln P[Z >= t] of noise without a bound, rounded up or, for t >= 1, down."""

    def __call__(self, t: int, *, up: bool = True) -> float:
        """Give the logarithm for one t."""


def log_edge(tail: LogTail, bound: int, weight: int) -> float:
    """Bound ln P[Z > bound - weight], given that Z lies within +-bound, from above.

    Args:
        tail: The noise without a bound.
        bound: The largest noise.
        weight: How far the edge reaches inwards, at least 1.
    """
    # proof: bounded.edge
    inside, beyond = tail(bound - weight + 1), tail(bound + 1, up=False)
    between = inside + math.log(-math.expm1(min(beyond - inside, -sys.float_info.min)))
    within = 1 - 2 * math.exp(tail(bound + 1))
    # Noise may be so wide that hardly any lies within the bound: less than its tail is rounded by.
    return min(0.0, between - math.log(within) + _MARGIN) if within > 0 else 0.0


def gaussian_log_tail(variance: Fraction, t: int) -> float:
    """Bound ln P[Z >= t] of the discrete Gaussian from above.

    >>> round(gaussian_log_tail(Fraction(1), 1), 6)
    -1.202211
    """
    if t > 0:
        value = _log_tail_sum(variance, t) if variance <= _SUMMED else _log_normal_tail(variance, t - 1, up=True)
        return min(0.0, value + _MARGIN * (1 + abs(value)))
    return math.log1p(-math.exp(gaussian_log_tail_low(variance, 1 - t))) * (1 - _SLACK)


def gaussian_log_tail_low(variance: Fraction, t: int) -> float:
    """Bound ln P[Z >= t] of the discrete Gaussian from below, for t >= 1.

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
    """Give ln P[N(0, variance) >= t], at a grid point at most (up) or at least t."""
    # proof: samplers.gaussian-tail-normal
    x = math.sqrt(_float(Fraction(t * t) / (2 * variance)))
    x = math.floor(x * (1 - _SLACK) * _GRID) / _GRID if up else math.ceil(x * (1 + _SLACK) * _GRID) / _GRID
    return _log_half_erfc(x)


def _log_half_erfc(x: float) -> float:
    """Give ln(erfc(x) / 2) for x >= 0, also where erfc underflows."""
    if x < 6:  # noqa: PLR2004 - from here on 60 terms of the continued fraction are exact to the last bit
        return math.log(math.erfc(x) / 2)
    fraction = x
    for i in range(60, 0, -1):
        fraction = x + i / 2 / fraction
    return -x * x - math.log(2 * math.sqrt(math.pi) * fraction)


def quantile(law: Law, p: Fraction) -> int:
    """Give the smallest integer k with a certified P[X <= k] >= p.

    >>> quantile(GaussianCells(rate=Fraction(1, 2), two_sided=True), Fraction(1, 2))
    0
    """
    bits = 128 + p.denominator.bit_length()
    return _smallest(lambda k: law.below(k, bits)[0] >= p * (1 << bits))


def wide_gaussian_quantile(variance: Fraction, p: Fraction) -> int:
    """Give the smallest integer k for which the tail bounds certify P[Z <= k] >= p.

    >>> wide_gaussian_quantile(Fraction(10**8), Fraction(975, 1000))
    19600
    """
    # proof: samplers.quantile
    at_most = _log(1 - p)
    at_least = _log(p)

    def certain(k: int) -> bool:
        if k < 0:
            return gaussian_log_tail_low(variance, -k) >= at_least + _MARGIN * (1 + abs(at_least))
        if 2 * p < 1:
            return True
        return gaussian_log_tail(variance, k + 1) <= at_most - _MARGIN * (1 + abs(at_most))

    return _smallest(certain)


def gaussian_quantile(variance: Fraction, p: Fraction) -> int:
    """Give the smallest integer k with a certified P[Z <= k] >= p: by sums or, where wide, the normal tail.

    >>> gaussian_quantile(Fraction(10_000), Fraction(975, 1000))
    196
    """
    if variance > _SUMMED:
        return wide_gaussian_quantile(variance, p)
    return quantile(GaussianCells(rate=1 / (2 * variance), two_sided=True), p)


def _smallest(holds: Callable[[int], bool]) -> int:
    """Find the smallest k where a monotone condition holds."""
    low, high = -1, 0
    while holds(low):
        low *= 2
    while not holds(high):
        high = 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
