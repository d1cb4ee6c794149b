"""Tables of distribution functions: integer intervals, and the rare paths of inversion with chosen words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.privacy.randomness import Keystream
from ddpmi.privacy.samplers import GaussianCells, GeometricDigit, Interval, LaplaceBlocks, Law, Table, exp_minus
from tests.support.noise_oracles import Scripted, running_sums, script_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Weight = Callable[[int], mpmath.mpf]

BITS = 256


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    with mpmath.workprec(700):
        yield


def _exact(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def _laplace_blocks(b: Fraction, shift: int) -> tuple[Law, Weight, range]:
    q = mpmath.exp(-1 / _exact(b))
    size = 1 << shift
    edge = int(480 * b) // size + 2

    def weight(k: int) -> mpmath.mpf:
        nearest = size * k if k >= 0 else -(size * k + size - 1)
        return q**nearest * (1 - q**size)

    return LaplaceBlocks(scale=b, shift=shift), weight, range(-edge, edge)


def _digit(b: Fraction, base: int) -> tuple[Law, Weight, range]:
    q = mpmath.exp(-1 / _exact(b))
    return GeometricDigit(scale=b, base=base), lambda k: q**k, range(base)


def _gaussian(rate: Fraction, *, two_sided: bool) -> tuple[Law, Weight, range]:
    edge = int((480 / rate) ** 0.5) + 2
    law = GaussianCells(rate=rate, two_sided=two_sided)
    return law, lambda k: mpmath.exp(-_exact(rate) * k * k), range(-edge if two_sided else 0, edge)


LAWS = {
    "laplace": lambda: _laplace_blocks(Fraction(5, 2), 0),
    "narrow laplace": lambda: _laplace_blocks(Fraction(1, 20), 0),
    "laplace blocks": lambda: _laplace_blocks(Fraction(7, 3), 2),
    "digit": lambda: _digit(Fraction(10), 32),
    "flat digit": lambda: _digit(Fraction(1 << 50), 32),
    "gaussian": lambda: _gaussian(Fraction(1, 18), two_sided=True),
    "narrow gaussian": lambda: _gaussian(Fraction(40), two_sided=True),
    "gaussian blocks": lambda: _gaussian(Fraction(1, 600), two_sided=False),
}


@given(st.fractions(0, 3000, max_denominator=10**12), st.integers(1, 400))
@settings(max_examples=200, deadline=None)
def test_exp_minus_holds_the_truth(x: Fraction, bits: int) -> None:
    """The interval of exp(-x) holds it and is at most two units wide."""
    with mpmath.workprec(5000):
        low, high = exp_minus(x, bits)
        assert low <= mpmath.exp(-_exact(x)) * 2**bits <= high
    assert low >= 0
    assert high - low <= 2


@pytest.mark.parametrize("name", LAWS)
def test_laws_hold_the_truth(name: str) -> None:
    """The interval of P[X <= k] holds the sum of the mass function, at 64 and at 256 bits."""
    law, weight, values = LAWS[name]()
    truths = running_sums(weight, values)
    for k in range(max(values[0], -40), min(values[-1], 40)):
        truth = truths[k]
        for bits in (64, BITS):
            low, high = law.below(k, bits)
            assert low <= truth * 2**bits <= high
            assert high - low <= 2


@pytest.mark.parametrize("name", LAWS)
def test_words_on_a_boundary(name: str) -> None:
    """Where the first 64, 128 or 192 bits lie on a boundary, the following bits decide, and rightly."""
    law, weight, values = LAWS[name]()
    table, truths = Table(law), running_sums(weight, values)
    for k in (-7, -2, -1, 0, 1, 5, 12, 30):
        if not values[0] <= k < values[-1]:
            continue
        truth = truths[k]
        for agree in (64, 128, 192):
            on = int(mpmath.floor(truth * 2**agree))
            for rest, side in ((0, k), ((1 << BITS - agree) - 1, k + 1)):
                u = (on << BITS - agree) | rest
                if 1 <= on < (1 << agree) - 1:
                    assert _drawn(table, u) == (side, []), (k, agree)


def _drawn(table: Table, u: int) -> tuple[int, list[int]]:
    """What the table makes of U's 256 bits, and which of the words it did not even look at."""
    source = Scripted([*script_of(u, BITS)])
    values, far = table.draw(1, source)
    assert far.get(0, int(values[0])) == int(values[0])
    return int(values[0]), [] if len(source.script) < 5 else source.script


@pytest.mark.parametrize("name", LAWS)
def test_any_words(name: str) -> None:
    """For arbitrary 256 bits the table gives the k with P[X < k] <= U < P[X <= k]."""
    law, weight, values = LAWS[name]()
    table = Table(law)
    truths = running_sums(weight, values)
    for word in Keystream(bytes(range(32))).words(64).tolist():
        u = (word << 192) | 12345
        expected = next(z for z, end in truths.items() if mpmath.mpf(u) / 2**BITS < end)
        assert _drawn(table, u)[0] == expected


@pytest.mark.parametrize("zeros", [1, 2, 5, 9])
def test_tail_goes_on_past_the_table(zeros: int) -> None:
    """Uniforms of 64, 128 ... leading equal bits give the exact far values, on both sides."""
    b = Fraction(5, 2)
    table = Table(LaplaceBlocks(scale=b, shift=0))
    q = mpmath.exp(-1 / _exact(b))
    bits = 64 * (zeros + 2)
    u = (1 << 127) + 3
    # P[Z <= k] = q^-k / (1 + q) > U for the first time at the smallest k above this real number.
    real = -mpmath.log((1 + q) * u / mpmath.mpf(2) ** bits) / mpmath.log(q)
    left, far_left = table.draw(1, Scripted(script_of(u, bits)))
    assert (int(left[0]), far_left) == (int(mpmath.ceil(real)), {0: int(mpmath.ceil(real))})
    right, far_right = table.draw(1, Scripted(script_of((1 << bits) - 1 - u, bits)))
    assert int(right[0]) == -int(left[0])
    assert far_right == {0: int(right[0])}


def test_gaussian_tail_goes_on_past_the_table() -> None:
    """A uniform of 300 leading zeros gives the exact far value of the Gaussian."""
    law, weight, values = _gaussian(Fraction(1, 18), two_sided=True)
    u = (1 << 84) + 1
    expected = next(z for z, end in running_sums(weight, values).items() if end * 2**384 > u)
    drawn, far = Table(law).draw(1, Scripted(script_of(u, 384)))
    assert (int(drawn[0]), far) == (expected, {0: expected})


class _Coarse:
    """A law whose intervals are needlessly wide."""

    def __init__(self, law: Law, slack: int) -> None:
        self.law, self.slack = law, slack

    def below(self, k: int, bits: int) -> Interval:
        low, high = self.law.below(k, bits)
        spare = self.slack >> (bits - 64) // 2 if abs(k) < 20 else 0
        return max(low - spare, 0), min(high + spare, 1 << bits)


def test_wide_intervals_cost_bits_not_exactness() -> None:
    """With boundaries uncertain by 2^50 at 64 bits, undecided words are refined and give the same values."""
    law = LaplaceBlocks(scale=Fraction(5, 2), shift=0)
    sharp, coarse = Table(law), Table(_Coarse(law, 1 << 50))
    for k in range(-5, 6):
        low, _ = law.below(k, BITS)
        for u in (low - (1 << 240), low - (1 << 200), low - 5, low + 5, low + (1 << 200), low + (1 << 240)):
            assert _drawn(sharp, u)[0] == _drawn(coarse, u)[0] == (k if u < low else k + 1)


def test_heads_are_decided_only_inside_a_cell() -> None:
    """Each decided head of 16 bits has its first and its last word in one cell; few stay undecided."""
    law = LaplaceBlocks(scale=Fraction(10), shift=0)
    guide = Table(law)._guide
    assert (guide == -(1 << 15)).mean() < 0.01
    for head in range(0, 1 << 16, 97):
        k = int(guide[head])
        if k != -(1 << 15):
            assert law.below(k - 1, 64)[1] <= head << 48
            assert ((head + 1) << 48) <= law.below(k, 64)[0]


def test_positions_keep_their_words() -> None:
    """Value i of a vector depends on head i alone when all heads decide: nothing is moved."""
    table = Table(GeometricDigit(scale=Fraction(10), base=8))
    heads = [0x1000, 0x4000, 0x9000, 0xD000]
    packed = sum(head << 16 * i for i, head in enumerate(heads))
    singles = [int(table.draw(1, Scripted([head]))[0][0]) for head in heads]
    assert table.draw(4, Scripted([packed]))[0].tolist() == singles
