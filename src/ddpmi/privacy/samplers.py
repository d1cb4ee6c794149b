"""Exact samples of the discrete Laplace and the discrete Gaussian distribution, by inversion.

A uniform U in [0, 1) is drawn bit by bit, only as far as needed. 16 bits decide most samples and 64 bits almost all others;
the rest take 64 more bits at a time and compare them with boundaries of that precision. Probabilities are computed with
integers: each is an interval that is certain to contain it. Wide Gaussian noise is accepted or rejected by floats where
their rounding cannot matter, and by integers otherwise. Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ddpmi.privacy.randomness import Source


Interval = tuple[int, int]
"""Integers (low, high) with low <= 2^bits x <= high, for a real number x."""

NOISE_LIMIT = (1 << 62) + (1 << 61) - 1
"""Samples beyond +-NOISE_LIMIT become +-NOISE_LIMIT."""
WORD_BITS = 64
_HEAD_BITS = 16
_TAIL_BITS = WORD_BITS - _HEAD_BITS
_GUARD_BITS = 64
_UNDECIDED = -(1 << 15)
_LAST_WORD = (1 << WORD_BITS) - 1
_INT64_SAFE = 1 << 62
_BATCH = 1 << 15  # samples per round: the arrays of one round stay in the processor's cache
_LAPLACE_TABLE = 16  # the largest scale that one table covers
_DIGIT_BITS = 11
_GAUSSIAN_TABLE = 256  # the largest sigma that one table covers
_BLOCKS_PER_SIGMA = 16  # about 2.5 % of the proposals are then rejected
_COIN_BITS = 32
_MARGIN = 2.0**-31  # more than one step of the 32-bit coin and all rounding of the doubles
_TAYLOR = tuple((-1.0) ** i / math.factorial(i) for i in range(16, -1, -1))


def within(bound: int | None, draw: Callable[[int], NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    """Draw samples, and draw those outside +-bound again; without a bound, return them unchanged.

    >>> within(1, lambda size: np.arange(size), 2).tolist()
    [0, 1]
    """
    found = draw(size)
    if bound is None:
        return found
    # proof: bounded.redraw
    while (far := np.flatnonzero(np.abs(found) > bound)).size:
        found[far] = draw(far.size)
    return found


def laplace(scale: Fraction, size: int, source: Source) -> NDArray[np.int64]:
    """Draw discrete Laplace samples, saturated at +-NOISE_LIMIT.

    >>> from ddpmi.privacy.randomness import system
    >>> laplace(Fraction(1, 1000), 3, system()).tolist()
    [0, 0, 0]
    """
    shift, blocks, digits = _laplace_tables(scale)
    edge = (NOISE_LIMIT + 1) >> shift
    out = np.empty(size, dtype=np.int64)
    for at in range(0, size, _BATCH):
        part = out[at : at + _BATCH]
        block, far = blocks.draw(part.size, source)
        for i, k in far.items():
            block[i] = max(-edge - 1, min(k, edge))
        if digits:
            low = digits[0][1].draw(part.size, source)[0]
            for width, table in digits[1:]:
                low <<= width
                low |= table.draw(part.size, source)[0]
            # proof: samplers.laplace-digits
            low ^= (block >> 63) & ((1 << shift) - 1)
            block <<= shift
            block |= low
        np.clip(block, -NOISE_LIMIT, NOISE_LIMIT, out=part)
    return out


@lru_cache(maxsize=64)
def _laplace_tables(scale: Fraction) -> tuple[int, Table, tuple[tuple[int, Table], ...]]:
    """Return the number of low bits, the table of blocks, and (bits, table) of each digit, highest first."""
    shift = max(0, (int(scale) // _LAPLACE_TABLE).bit_length())
    blocks = Table(LaplaceBlocks(scale=scale, shift=shift))
    digits, at = [], shift
    while at:
        width = -(-at // -(-at // _DIGIT_BITS))
        at -= width
        digits.append((width, Table(GeometricDigit(scale=scale / (1 << at), base=1 << width))))
    return shift, blocks, tuple(digits)


def gaussian(variance: Fraction, size: int, source: Source) -> NDArray[np.int64]:
    """Draw discrete Gaussian samples, saturated at +-NOISE_LIMIT.

    >>> from ddpmi.privacy.randomness import system
    >>> gaussian(Fraction(1, 1000), 3, system()).tolist()
    [0, 0, 0]
    """
    shift, table = _gaussian_table(variance)
    out = np.empty(size, dtype=np.int64)
    done = 0
    while done < size:
        want = min(size - done, _BATCH)
        if shift:
            got = _accepted(variance, want + want // _BLOCKS_PER_SIGMA + 1, source)[:want]
        else:
            got, _ = table.draw(want, source)
        np.clip(got, -NOISE_LIMIT, NOISE_LIMIT, out=out[done : done + got.size])
        done += got.size
    return out


def _accepted(variance: Fraction, n: int, source: Source) -> NDArray[np.int64]:
    """Make n proposals and return the accepted ones, in order."""
    shift, table = _gaussian_table(variance)
    block, far = table.draw(n, source)
    words = source.words(n).view(np.int64)
    low = words & ((1 << shift) - 1)
    sign = words >> 63  # 0 or -1
    coin = cut_words(source, n, _COIN_BITS)
    # proof: samplers.gaussian-blocks
    past = low - sign
    x = past * float(1 / (2 * variance))
    x *= block * float(2 << shift) + past
    level = coin * 2.0**-_COIN_BITS
    keep = level + x <= 1 - _MARGIN
    open_at = np.flatnonzero(~keep)
    chance = np.polyval(_TAYLOR, x[open_at])
    keep[open_at] = level[open_at] < chance
    # proof: samplers.lazy-coin
    close = (np.abs(level[open_at] - chance) <= _MARGIN) | (x[open_at] > 1)
    for i in {*open_at[close].tolist(), *far}:
        start = far.get(i, int(block[i])) << shift
        exact = Fraction((start + int(past[i])) ** 2 - start**2) / (2 * variance)
        keep[i] = _coin_below_exp(exact, int(coin[i]), source)
    for i, k in far.items():
        block[i] = min(k, (NOISE_LIMIT + 1) >> shift)
    block <<= shift
    block |= low
    block ^= sign
    return block[keep]


@lru_cache(maxsize=64)
def _gaussian_table(variance: Fraction) -> tuple[int, Table]:
    """Return the binary logarithm of the block length (0: no blocks) and the table."""
    if variance <= _GAUSSIAN_TABLE**2:
        return 0, Table(GaussianCells(rate=1 / (2 * variance), two_sided=True))
    shift = math.isqrt(int(variance / _BLOCKS_PER_SIGMA**2)).bit_length() - 1
    return shift, Table(GaussianCells(rate=(1 << 2 * shift) / (2 * variance), two_sided=False))


def _coin_below_exp(x: Fraction, coin: int, source: Source) -> bool:
    """Decide whether U < exp(-x), where coin holds the first 32 bits of U; draw more bits until it is certain."""
    bits = _COIN_BITS
    while True:
        low, high = exp_minus(x, bits)
        if coin < low or coin >= high:
            return coin < low
        bits += 64
        coin = (coin << 64) | int(source.words(1)[0])


class Table:
    """Draws from a distribution by inverting its distribution function.

    >>> from fractions import Fraction
    >>> from ddpmi.privacy.randomness import system
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
        # The first 16 bits decide if the smallest and the largest word that begin with them give the same value for certain.
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
        """Draw n values. Those that took more than 64 bits are returned once more, by position and without a limit."""
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
        """Finish a draw whose first 64 bits are word, drawing more bits until it is certain."""
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
        """Find the smallest k for which the upper end of P[X <= k] is above word."""
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


class Law(Protocol):
    """A distribution on the integers whose distribution function can be computed to any precision."""

    def below(self, k: int, bits: int) -> Interval:
        """Return an interval around P[X <= k]; it shrinks to it as bits grow."""


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
        """Return an interval around P[X <= k]."""
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
        """Return an interval around P[X <= k]."""
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
        """Return an interval around P[X <= k]."""
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
    """Return intervals around the sums over j >= k of exp(-rate j^2), for each k; the last upper end bounds all later sums."""
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


def cut_words(source: Source, n: int, bits: int) -> NDArray[np.unsignedinteger]:
    """Return n uniform integers of 16 or 32 bits, cut from whole words.

    >>> from ddpmi.privacy.randomness import system
    >>> cut_words(system(), 5, 16).dtype, cut_words(system(), 5, 32).size
    (dtype('uint16'), 5)
    """
    per_word = WORD_BITS // bits
    return source.words(-(-n // per_word)).view(f"u{bits // 8}")[:n]


def exp_minus(x: Fraction, bits: int) -> Interval:
    """Return an interval around exp(-x), for x >= 0.

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


# Only for the constants of a distribution: a number that belongs to one sample must not stay in memory.
_ratio_of_law = lru_cache(maxsize=256)(exp_minus)


def _power(base: Interval, n: int, bits: int) -> Interval:
    low = high = 1 << bits
    for digit in f"{n:b}":
        low, high = (low * low) >> bits, _ceil_shift(high * high, bits)
        if digit == "1":
            low, high = (low * base[0]) >> bits, _ceil_shift(high * base[1], bits)
    return low, high


def _ceil_shift(x: int, bits: int) -> int:
    return -((-x) >> bits)


def _ratio(top: Interval, bottom: Interval, bits: int) -> Interval:
    return (top[0] << bits) // bottom[1], -((-top[1] << bits) // bottom[0])


def _complement(x: Interval, bits: int) -> Interval:
    return (1 << bits) - x[1], (1 << bits) - x[0]
