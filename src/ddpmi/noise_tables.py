"""Exact sampling by inversion: certified tables of distribution functions, and their integer arithmetic.

A uniform U in [0, 1) is drawn bit by bit, only as far as needed: 16 bits settle most samples, 64 almost all
others, and the rest take 64 more bits at a time against boundaries computed anew at that precision.
No float takes part.
An interval of x is a pair of integers (low, high) with low <= 2^bits x <= high.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from ddpmi.randomness import Source

Interval = tuple[int, int]

WORD_BITS = 64
_HEAD_BITS = 16
_TAIL_BITS = WORD_BITS - _HEAD_BITS
_GUARD_BITS = 64
_UNDECIDED = -(1 << 15)
_LAST_WORD = (1 << WORD_BITS) - 1
_INT64_SAFE = 1 << 62


def cut_words(source: Source, n: int, bits: int) -> NDArray[np.unsignedinteger]:
    """Give n uniform integers of 16 or 32 bits, cut from whole words.

    >>> from ddpmi.randomness import system
    >>> cut_words(system(), 5, 16).dtype, cut_words(system(), 5, 32).size
    (dtype('uint16'), 5)
    """
    per_word = WORD_BITS // bits
    return source.words(-(-n // per_word)).view(f"u{bits // 8}")[:n]


def _ceil_shift(x: int, bits: int) -> int:
    return -((-x) >> bits)


def _ratio(top: Interval, bottom: Interval, bits: int) -> Interval:
    return (top[0] << bits) // bottom[1], -((-top[1] << bits) // bottom[0])


def _complement(x: Interval, bits: int) -> Interval:
    return (1 << bits) - x[1], (1 << bits) - x[0]


def exp_minus(x: Fraction, bits: int) -> Interval:
    """Give an interval around exp(-x), for x >= 0.

    >>> from fractions import Fraction
    >>> exp_minus(Fraction(1), 20)
    (385749, 385750)
    """
    if x >= bits:
        return 0, 1
    # proof: samplers.exp
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 9)
    work = bits + halvings + 16
    y = (x.numerator << work) // (x.denominator << halvings)
    total, term, i = 1 << work, 1 << work, 0
    while term:
        i += 1
        term = ((term * y) >> work) // i
        total += -term if i % 2 else term
    error = 2 * i + 4
    low, high = total - error, min(total + error, 1 << work)
    for _ in range(halvings):
        low, high = (low * low) >> work, _ceil_shift(high * high, work)
    return low >> (work - bits), _ceil_shift(high, work - bits)


# For the ratios of the laws only: a number that belongs to one sample must not stay in memory.
_ratio_of_law = lru_cache(maxsize=256)(exp_minus)


def _power(base: Interval, n: int, bits: int) -> Interval:
    low = high = 1 << bits
    for digit in f"{n:b}":
        low, high = (low * low) >> bits, _ceil_shift(high * high, bits)
        if digit == "1":
            low, high = (low * base[0]) >> bits, _ceil_shift(high * base[1], bits)
    return low, high


class Law(Protocol):
    """A distribution on the integers that knows its distribution function to any precision."""

    def below(self, k: int, bits: int) -> Interval:
        """Give an interval around P[X <= k], that shrinks to it as bits grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceBlocks:
    """The block floor(Z / 2^shift) of a discrete Laplace Z.

    >>> from fractions import Fraction
    >>> low, high = LaplaceBlocks(scale=Fraction(1), shift=0).below(-1, 20)
    >>> high - low, low / 2**20
    (1, 0.26894092559814453)
    """

    scale: Fraction
    """The scale b of Z."""
    shift: int
    """Binary logarithm of the block length."""

    def below(self, k: int, bits: int) -> Interval:
        """Give an interval around P[X <= k]."""
        work = bits + _GUARD_BITS
        q = _ratio_of_law(1 / self.scale, work)
        r = _ratio_of_law((1 << self.shift) / self.scale, work)
        # proof: samplers.laplace-blocks
        tail = _power(r, -1 - k if k < 0 else k + 1, work)
        if k < 0:
            tail = (tail[0] * q[0]) >> work, _ceil_shift(tail[1] * q[1], work)
        low, high = _ratio(tail, ((1 << work) + q[0], (1 << work) + q[1]), bits)
        return (low, high) if k < 0 else _complement((low, high), bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricDigit:
    """The last digit, in a given base, of a geometric variable: P[G = k] in proportion to exp(-k / scale).

    >>> from fractions import Fraction
    >>> GeometricDigit(scale=Fraction(10), base=4).below(3, 8)
    (256, 256)
    """

    scale: Fraction
    """The scale of the geometric variable."""
    base: int
    """The number of values of the digit."""

    def below(self, k: int, bits: int) -> Interval:
        """Give an interval around P[X <= k]."""
        if k < 0 or k >= self.base - 1:
            return (0, 0) if k < 0 else (1 << bits, 1 << bits)
        # 1 - exp(-1/scale) loses about log2(scale) leading bits.
        work = bits + _GUARD_BITS + int(self.scale).bit_length()
        ratio = _ratio_of_law(1 / self.scale, work)
        part = _complement(_power(ratio, k + 1, work), work)
        whole = _complement(_power(ratio, self.base, work), work)
        return _ratio(part, whole, bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianCells:
    """Integers k with P[X = k] in proportion to exp(-rate k^2): all of them, or those from 0 on.

    >>> from fractions import Fraction
    >>> GaussianCells(rate=Fraction(1, 2), two_sided=True).below(-1, 10)
    (307, 308)
    """

    rate: Fraction
    """1 / (2 variance)."""
    two_sided: bool
    """Whether negative k occur."""

    def below(self, k: int, bits: int) -> Interval:
        """Give an interval around P[X <= k]."""
        if k < 0 and not self.two_sided:
            return 0, 0
        lows, highs = _gaussian_suffixes(self.rate, bits)
        whole = lows[0], highs[0]
        if self.two_sided:
            whole = lows[0] + lows[1], highs[0] + highs[1]
        at = min(-k if k < 0 else k + 1, len(lows) - 1)
        share = _ratio((lows[at], highs[at]), whole, bits)
        return share if k < 0 else _complement(share, bits)


@lru_cache(maxsize=32)
def _gaussian_suffixes(rate: Fraction, bits: int) -> tuple[list[int], list[int]]:
    """Give intervals around the sums over j >= k of exp(-rate j^2); the last high bounds all later sums."""
    work = bits + _GUARD_BITS
    one = 1 << work
    weight, weights = (one, one), []
    step, ratio = exp_minus(rate, work), exp_minus(2 * rate, work)
    # proof: samplers.gaussian-sums
    while (rest := -((-weight[1] << work) // (one - step[1]))) >> (_GUARD_BITS - 8):
        weights.append(weight)
        weight = (weight[0] * step[0]) >> work, _ceil_shift(weight[1] * step[1], work)
        step = (step[0] * ratio[0]) >> work, _ceil_shift(step[1] * ratio[1], work)
    lows, highs = [0], [rest]
    for low, high in reversed(weights):
        lows.append(lows[-1] + low)
        highs.append(highs[-1] + high)
    return lows[::-1], highs[::-1]


class Table:
    """Draws a law by inversion of its certified distribution function.

    >>> from fractions import Fraction
    >>> from ddpmi.randomness import system
    >>> values, far = Table(GeometricDigit(scale=Fraction(10), base=4)).draw(1000, system())
    >>> set(values.tolist()) <= {0, 1, 2, 3}, far
    (True, {})
    """

    def __init__(self, law: Law) -> None:
        self.law = law
        bounds = self._bounds()
        lows = np.array([min(low, _LAST_WORD) for low, _ in bounds] + [0], dtype=np.uint64)
        highs = np.array([min(high, _LAST_WORD) for _, high in bounds], dtype=np.uint64)
        lows[0] = 0
        self._lows, self._highs = lows, np.maximum.accumulate(highs)
        starts = np.arange(1 << _HEAD_BITS, dtype=np.uint64) << np.uint64(_TAIL_BITS)
        ends = starts + np.uint64((1 << _TAIL_BITS) - 1)
        cell = np.searchsorted(self._highs, starts, side="right")
        # A head decides when its first and its last word lie in the same certified cell.
        self._guide = np.where(ends < lows[cell], cell + self._first, _UNDECIDED).astype(np.int16)

    def _bounds(self) -> list[Interval]:
        left: list[Interval] = []
        k = 0
        while not left or left[-1][1] > 1:
            k -= 1
            left.append(self.law.below(k, WORD_BITS))
        self._first = k
        right: list[Interval] = []
        k = -1
        while not right or right[-1][0] < _LAST_WORD:
            k += 1
            right.append(self.law.below(k, WORD_BITS))
        return left[::-1] + right

    def draw(self, n: int, source: Source) -> tuple[NDArray[np.int64], dict[int, int]]:
        """Draw n values; those that took more than 64 bits are given again, unlimited, by position."""
        heads = cut_words(source, n, _HEAD_BITS)
        values = self._guide[heads].astype(np.int64)
        open_at = np.flatnonzero(values == _UNDECIDED)
        if not open_at.size:
            return values, {}
        words = heads[open_at].astype(np.uint64) << np.uint64(_TAIL_BITS)
        words |= source.words(open_at.size) >> np.uint64(_HEAD_BITS)
        # proof: samplers.inversion
        cell = np.searchsorted(self._highs, words, side="right")
        values[open_at] = cell + self._first
        far = {}
        for i in np.flatnonzero(words >= self._lows[cell]):
            far[int(open_at[i])] = k = self.resolve(int(words[i]), source)
            values[open_at[i]] = max(-_INT64_SAFE, min(k, _INT64_SAFE))
        return values, far

    def resolve(self, word: int, source: Source) -> int:
        """Finish a draw whose first 64 bits are word, with as many more bits as it takes."""
        bits = WORD_BITS
        while True:
            bits += WORD_BITS
            word = (word << WORD_BITS) | int(source.words(1)[0])
            if word in {0, (1 << bits) - 1}:
                continue
            k = self._search(word, bits)
            if word < self.law.below(k, bits)[0]:
                return k

    def _search(self, word: int, bits: int) -> int:
        """Find k with the upper ends of P[X <= k - 1] and P[X <= k] on the two sides of word."""
        step = 1
        while self.law.below(-step, bits)[1] > word:
            step *= 2
        left, step = -step, 1
        while self.law.below(step, bits)[1] <= word:
            step *= 2
        right = step
        while right - left > 1:
            middle = (left + right) // 2
            if self.law.below(middle, bits)[1] <= word:
                left = middle
            else:
                right = middle
        return right
