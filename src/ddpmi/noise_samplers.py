"""The vector algorithms behind `ddpmi.noise`: how one sample is put together from exact table draws.

Laplace: a block number from a table, and the digits below it, which are independent of it.
Gaussian: one table while it is small; when wide, a block, a uniform place in it, and an exact rejection.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ddpmi.noise_tables import GaussianCells, GeometricDigit, LaplaceBlocks, Table, cut_words, exp_minus

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ddpmi.randomness import Source

NOISE_LIMIT = (1 << 62) + (1 << 61) - 1
"""Samples are saturated at +-NOISE_LIMIT."""

_BATCH = 1 << 15  # samples per round: the work arrays stay in the processor's cache
_LAPLACE_TABLE = 16  # the widest scale that one table serves
_DIGIT_BITS = 11
_GAUSSIAN_TABLE = 256  # the widest sigma that one table serves
_BLOCKS_PER_SIGMA = 16  # about 2.5 % of the proposals are then rejected
_COIN_BITS = 32
_MARGIN = 2.0**-31  # more than one step of the 32-bit coin and all rounding of the doubles
_TAYLOR = tuple((-1.0) ** i / math.factorial(i) for i in range(16, -1, -1))


def within(bound: int | None, draw: Callable[[int], NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    """Draw until every sample lies within +-bound; as they come where there is none.

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


@lru_cache(maxsize=64)
def _laplace_tables(scale: Fraction) -> tuple[int, Table, tuple[tuple[int, Table], ...]]:
    """Give the number of low bits, the table of blocks, and (bits, table) of each digit, highest first."""
    shift = max(0, (int(scale) // _LAPLACE_TABLE).bit_length())
    blocks = Table(LaplaceBlocks(scale=scale, shift=shift))
    digits, at = [], shift
    while at:
        width = -(-at // -(-at // _DIGIT_BITS))
        at -= width
        digits.append((width, Table(GeometricDigit(scale=scale / (1 << at), base=1 << width))))
    return shift, blocks, tuple(digits)


def laplace(scale: Fraction, size: int, source: Source) -> NDArray[np.int64]:
    """Draw discrete Laplace samples, saturated.

    >>> from ddpmi.randomness import system
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
def _gaussian_table(variance: Fraction) -> tuple[int, Table]:
    """Give the binary logarithm of the block length (0: no blocks) and the table."""
    if variance <= _GAUSSIAN_TABLE**2:
        return 0, Table(GaussianCells(rate=1 / (2 * variance), two_sided=True))
    shift = math.isqrt(int(variance / _BLOCKS_PER_SIGMA**2)).bit_length() - 1
    return shift, Table(GaussianCells(rate=(1 << 2 * shift) / (2 * variance), two_sided=False))


def gaussian(variance: Fraction, size: int, source: Source) -> NDArray[np.int64]:
    """Draw discrete Gaussian samples, saturated.

    >>> from ddpmi.randomness import system
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
    """Make n proposals and give the accepted ones, in order."""
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


def _coin_below_exp(x: Fraction, coin: int, source: Source) -> bool:
    """Decide U < exp(-x) where coin holds the first 32 bits of U; draws more bits until it is certain."""
    bits = _COIN_BITS
    while True:
        low, high = exp_minus(x, bits)
        if coin < low or coin >= high:
            return coin < low
        bits += 64
        coin = (coin << 64) | int(source.words(1)[0])
