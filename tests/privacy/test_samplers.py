"""How samples are put together, checked with chosen words."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.privacy import samplers
from ddpmi.privacy.randomness import Keystream
from ddpmi.privacy.samplers import Table
from tests.support.noise_oracles import ONES, Scripted, script_of

WIDE = Fraction(10**12)  # sigma 10^6: blocks of 2^15


def _far_script(u: int, bits: int, *after: int) -> Scripted:
    return Scripted([*script_of(u, bits), *after])


def test_splits_cover_all_bits() -> None:
    """The digits of a wide Laplace have 11 bits at most and together as many as the shift."""
    for scale in (Fraction(16), Fraction(400), Fraction(10**6), Fraction(1 << 55), Fraction(2**40 + 1, 3)):
        shift, _, digits = samplers._laplace_tables(scale)
        assert sum(width for width, _ in digits) == shift
        assert all(1 <= width <= 11 for width, _ in digits)
        assert 8 <= scale / (1 << shift) < 16


def test_laplace_is_block_and_digits() -> None:
    """A sample of scale 400 is its block times 32 plus its digit, mirrored below zero."""
    shift, blocks, ((_, digit),) = samplers._laplace_tables(Fraction(400))
    assert shift == 5
    for head, low_head in ((0x1234, 0x4321), (0xC234, 0x4321), (0x7F00, 0xFF00), (0x0400, 0x0001)):
        script = [head, 0x5555 << 40, low_head, 0x3333 << 40]
        block = int(blocks.draw(1, source := Scripted(script))[0][0])
        low = int(digit.draw(1, source)[0][0])
        expected = 32 * block + low if block >= 0 else -1 - (32 * (-1 - block) + low)
        assert samplers.laplace(Fraction(400), 1, Scripted(script)).tolist() == [expected]


MORE = st.sampled_from([0, 1 << 61, 1 << 63, 7 << 61, ONES]) | st.integers(0, ONES)
NEAR = st.just(0) | st.integers(-3, 3)


@given(head=st.integers(0x0100, 0xF000), low=st.integers(0, ONES), shortfall=NEAR, more=MORE)
@settings(max_examples=200, deadline=None)
def test_coin_on_its_boundary(head: int, low: int, shortfall: int, more: int) -> None:
    """A proposal whose coin lies within three steps of exp(-x) is kept iff U < exp(-x), with 96 bits of U."""
    shift, table = samplers._gaussian_table(WIDE)
    block, tail = int(table.draw(1, Scripted([head, more]))[0][0]), more
    undecided = int(table._guide[head]) == -(1 << 15)
    sign, inside = low >> 63, low & ((1 << shift) - 1)
    size = (block << shift) + inside + sign
    with mpmath.workprec(300):
        chance = mpmath.exp(-mpmath.mpf(size**2 - (block << shift) ** 2) / (2 * int(WIDE)))
        coin = max(0, min(int(chance * 2**32) + shortfall, 2**32 - 1))
        keep = (mpmath.mpf(coin) * 2**64 + more) / mpmath.mpf(2) ** 96 < chance
    script = [head, *([tail] if undecided else []), low, coin, more]
    kept = samplers._accepted(WIDE, 1, Scripted(script)).tolist()
    assert kept == ([-size if sign else size] if keep else [])


@pytest.mark.parametrize("coin", [0, 1 << 20, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("sign", [0, 1])
def test_far_proposals_are_decided_exactly(coin: int, sign: int) -> None:
    """A block from beyond the table is accepted by its own exact chance."""
    shift, table = samplers._gaussian_table(WIDE)
    u = (1 << 512) - (1 << 40)
    block = Table(table.law).draw(1, _far_script(u, 512))[1][0]
    inside = (1 << shift) - 1
    size = (block << shift) + inside + sign
    with mpmath.workprec(300):
        chance = mpmath.exp(-mpmath.mpf(size**2 - (block << shift) ** 2) / (2 * int(WIDE)))
    kept = samplers._accepted(WIDE, 1, _far_script(u, 512, (sign << 63) | inside, coin)).tolist()
    assert block > 300
    assert kept == ([-size if sign else size] if coin < chance * 2**32 else [])


@given(st.fractions(0, 5, max_denominator=10**9), NEAR, MORE)
@settings(max_examples=200, deadline=None)
def test_lazy_coin(x: Fraction, shift: int, more: int) -> None:
    """The lazy coin compares U with exp(-x) as 96 bits of both do."""
    with mpmath.workprec(300):
        chance = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        coin = max(0, min(int(chance * 2**32) + shift, 2**32 - 1))
        expected = (mpmath.mpf(coin) * 2**64 + more) / mpmath.mpf(2) ** 96 < chance
    assert samplers._coin_below_exp(x, coin, Scripted([more])) == expected


def test_rejection_is_rare() -> None:
    """Few proposals of a wide Gaussian are rejected (the true rate is 1.5 to 3 %)."""
    for sigma in (257, 511, 513, 10**6):
        kept = samplers._accepted(Fraction(sigma) ** 2, 100_000, Keystream(bytes(32))).size
        assert 0.95 < kept / 100_000 < 0.99


def test_wide_gaussian_takes_proposals_in_order() -> None:
    """The samples of a wide Gaussian are the accepted proposals in the order they were made."""
    ours = samplers.gaussian(WIDE, 1000, Keystream(bytes(32)))
    proposals = samplers._accepted(WIDE, 1000 + 1000 // 16 + 1, Keystream(bytes(32)))
    assert np.array_equal(ours, proposals[:1000])
