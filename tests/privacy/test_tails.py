"""Tail bounds of noise against sums and integrals of many digits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from ddpmi.privacy import tails
from ddpmi.privacy.noise import DiscreteGaussian, DiscreteLaplace
from ddpmi.privacy.samplers import NOISE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALES = [Fraction(1, 20), Fraction(3, 10), Fraction(1), Fraction(5, 2), Fraction(10), Fraction(400)]
WIDE = [Fraction(1001), Fraction(10**4), Fraction(10**6), Fraction(10**9), Fraction(1 << 55)]


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    with mpmath.workprec(400):
        yield


def _mp(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def _laplace_truth(b: Fraction, t: int) -> mpmath.mpf:
    q = mpmath.exp(-1 / _mp(b))
    if t > 0:
        return -t / _mp(b) - mpmath.log1p(q)
    return mpmath.log1p(-(q ** (1 - t)) / (1 + q))


def _gaussian_truth(sigma: Fraction, t: int) -> mpmath.mpf:
    v = 2 * _mp(sigma) ** 2
    edge = math.ceil(25 * sigma) + 5
    whole = 1 + 2 * mpmath.fsum(mpmath.exp(-mpmath.mpf(k * k) / v) for k in range(1, edge))
    start = t if t > 0 else 1 - t
    tail = mpmath.fsum(mpmath.exp(-mpmath.mpf(k * k) / v) for k in range(start, start + edge))
    return mpmath.log(tail / whole) if t > 0 else mpmath.log1p(-tail / whole)


def _points(sigma: Fraction) -> list[int]:
    near = [-3, -2, -1, 0, 1, 2, 3, 4]
    return near + [round(x * sigma) for x in (-20, -5, -1, 0.5, 1, 2, 4, 6, 8.76, 12, 40, 200)]


@pytest.mark.parametrize("b", [*SCALES, *WIDE])
def test_laplace_log_tail(b: Fraction) -> None:
    """The Laplace bound is never below the truth and within 1e-9 of it, at zero, in the bulk and far out."""
    for t in _points(b):
        bound, truth = DiscreteLaplace(scale=b).log_tail(t), _laplace_truth(b, t)
        assert truth <= bound <= truth + 1e-9 * abs(truth)


@pytest.mark.parametrize("sigma", [*SCALES[:5], Fraction(60)])
def test_gaussian_log_tail_by_sums(sigma: Fraction) -> None:
    """The summed Gaussian bound is never below the sum of the mass function and within 1e-11 of it."""
    for t in _points(sigma):
        bound, truth = DiscreteGaussian(variance=sigma**2).log_tail(t), _gaussian_truth(sigma, t)
        assert truth <= bound <= truth + 1e-11 * (1 + abs(truth))


def _log_normal(sigma: Fraction, t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(mpmath.erfc(t / _mp(sigma) / mpmath.sqrt(2)) / 2)


def test_gaussian_log_tail_by_long_sums() -> None:
    """At sigma 1000, where sums are longest, the bound lies between P[N >= t] and P[N >= t - 1/2]."""
    sigma = Fraction(1000)
    for t in (1100, 3000, 6000, 8760, 20_000):
        bound = DiscreteGaussian(variance=sigma**2).log_tail(t)
        top = _log_normal(sigma, mpmath.mpf(t) - 0.5)
        assert _log_normal(sigma, mpmath.mpf(t)) < bound < top + 1e-9


@pytest.mark.parametrize("sigma", WIDE)
def test_gaussian_log_tail_where_wide(sigma: Fraction) -> None:
    """From one sigma on the bound lies above P[N >= t - 1/2], hence above the truth, and at most at P[N >= t - 1]."""
    for x in (1.1, 2, 4, 6, 8.4, 8.5, 8.76, 12, 36, 37, 40, 200, 1000):
        t = round(x * sigma)
        bound = DiscreteGaussian(variance=sigma**2).log_tail(t)
        # The mass function is convex beyond sigma, so each term is below its integral over one unit around it.
        assert _log_normal(sigma, mpmath.mpf(t) - 0.5) * (1 + mpmath.mpf(2) ** -60) - 1e-6 / float(sigma) <= bound
        assert _log_normal(sigma, mpmath.mpf(t)) < bound
        top = _log_normal(sigma, mpmath.mpf(t) - 1)
        assert bound <= top + 1e-8 * abs(top)


@pytest.mark.parametrize("sigma", WIDE)
def test_gaussian_log_tail_below_zero_where_wide(sigma: Fraction) -> None:
    """At and below zero the bound is above 1 - P[N >= 1 - t - 1/2] less nothing, and never above 0."""
    for x in (0, -0.1, -1, -3, -8):
        t = round(x * sigma)
        bound = DiscreteGaussian(variance=sigma**2).log_tail(t)
        least = mpmath.log1p(-mpmath.exp(_log_normal(sigma, mpmath.mpf(1 - t))))
        assert mpmath.log1p(-mpmath.exp(_log_normal(sigma, mpmath.mpf(-t)))) <= bound
        assert least <= bound <= 0
        assert bound <= least + 1e-8 * abs(least)


MECHANISMS = st.one_of(
    st.fractions(Fraction(1, 100), 1 << 55, max_denominator=1000).map(lambda b: DiscreteLaplace(scale=b)),
    st.fractions(Fraction(1, 100), 1 << 55, max_denominator=1000).map(lambda s: DiscreteGaussian(variance=s * s)),
    st.sampled_from([DiscreteGaussian(variance=Fraction(s) ** 2) for s in (1, 30, 900, 1000, 1001, 5000)]),
)


@given(MECHANISMS, st.floats(-12, 60), st.integers(1, 10**6))
@settings(max_examples=300, deadline=None)
def test_log_tail_never_rises(mechanism: DiscreteLaplace | DiscreteGaussian, x: float, step: int) -> None:
    """A larger t never has a larger bound: one step, some steps, one sd away."""
    t = round(x * mechanism.sd)
    values = [mechanism.log_tail(k) for k in (t, t + 1, t + 1 + step, t + 2 + step + math.ceil(mechanism.sd))]
    assert values == sorted(values, reverse=True)
    assert max(values) <= 0


@pytest.mark.parametrize("t", [-NOISE_LIMIT, NOISE_LIMIT])
@pytest.mark.parametrize("scale", [Fraction(1, 10**400), Fraction(1, 1000), Fraction(1), Fraction(10**5)])
def test_log_tail_at_the_ends(scale: Fraction, t: int) -> None:
    """The largest t, and scales too small for a double, give finite bounds."""
    for mechanism in (DiscreteLaplace(scale=scale), DiscreteGaussian(variance=scale**2)):
        bound = mechanism.log_tail(t)
        assert bound <= 0 if t < 0 else -math.inf < bound < -1e9


@pytest.mark.parametrize("x", [0, 0.3, 1, 3, 5.99, 6, 6.01, 10, 20, 26])
def test_log_half_erfc_agrees_with_scipy(x: float) -> None:
    """ln(erfc(x)/2) is SciPy's log_ndtr."""
    assert tails._log_half_erfc(x) == pytest.approx(special.log_ndtr(-x * math.sqrt(2)), rel=1e-12)


@pytest.mark.parametrize("b", [0.3, 1, 10, 1e4])
def test_laplace_agrees_with_scipy(b: float) -> None:
    """Tail and standard deviation are those of SciPy's dlaplace."""
    ours, theirs = DiscreteLaplace(scale=Fraction(str(b))), stats.dlaplace(1 / b)
    assert ours.sd == pytest.approx(theirs.std(), rel=1e-9)
    for t in (1, 2, 5, round(3 * b) + 1):
        assert ours.log_tail(t) == pytest.approx(math.log(theirs.sf(t - 1)), rel=1e-9)


def test_sd_of_tiny_and_wide_scales() -> None:
    """The Laplace sd is 0 at scales too small to matter and sqrt(2) b at wide ones."""
    assert DiscreteLaplace(scale=Fraction(1, 10**400)).sd == 0
    assert DiscreteLaplace(scale=Fraction(1 << 55)).sd == pytest.approx(math.sqrt(2) * 2**55, rel=1e-12)
    assert DiscreteGaussian(variance=Fraction(9, 4)).sd == 1.5
