"""Discrete noise: its distribution as a whole, and what is added to sums."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpmi.errors import InputError
from ddpmi.privacy import samplers
from ddpmi.privacy.noise import (
    MAX_SCALE,
    NOISE_LIMIT,
    OUTPUT_LIMIT,
    SUM_LIMIT,
    DiscreteGaussian,
    DiscreteLaplace,
    Mechanism,
    TableNoise,
    add_noise,
)
from ddpmi.testing import sampler_check
from tests.support.noise_oracles import ALARM, ONES, Scripted, binned, chi_square, gaussian_cdf, laplace_cdf, two_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ddpmi._typing import Number

SCALES = [0.3, 1, 2.5, 10, 15.99, 16, 400, 1e4, 1e6, 1e9]
N = 1_000_000


def laplace(b: Number) -> DiscreteLaplace:
    return DiscreteLaplace(scale=Fraction(str(b)))


def gaussian(sigma: Number) -> DiscreteGaussian:
    return DiscreteGaussian(variance=Fraction(str(sigma)) ** 2)


@pytest.mark.parametrize("b", SCALES)
def test_laplace_has_its_mass_function(b: float) -> None:
    """Laplace samples fit the exact probabilities of up to 400 bins (false alarm 1e-7)."""
    assert chi_square(*binned(laplace(b).sample(N), partial(laplace_cdf, b), b)) > ALARM


@pytest.mark.parametrize("sigma", [*SCALES, 255.9, 256.1])
def test_gaussian_has_its_mass_function(sigma: float) -> None:
    """Gaussian samples fit the exact probabilities of up to 400 bins (false alarm 1e-7)."""
    assert chi_square(*binned(gaussian(sigma).sample(N), partial(gaussian_cdf, sigma), sigma)) > ALARM


@pytest.mark.parametrize("bound", [3, 40, 5000])
@pytest.mark.parametrize("make", [laplace, gaussian])
def test_noise_within_a_bound_has_the_same_law_there(make: Callable[[Number], Mechanism], bound: int) -> None:
    """No sample lies beyond, both ends occur, and the rest has its probability given that (false alarm 1e-7)."""
    mechanism = replace(make(bound / 2), bound=bound)
    drawn = mechanism.sample(N)
    assert np.abs(drawn).max() <= bound
    assert sampler_check(mechanism, size=N) > ALARM
    if bound < 1000:
        ends = [float(np.mean(drawn == end)) for end in (-bound, bound)]
        expected = math.exp(mechanism.log_tail(bound))
        # Eight deviations of a rate: a false alarm has a probability below 1e-14.
        assert ends == pytest.approx([expected] * 2, abs=8 * math.sqrt(expected / N))
    assert mechanism.log_tail(bound + 1) == -math.inf
    assert mechanism.log_tail(-bound) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("bound", [0, -1, NOISE_LIMIT])
def test_bad_bounds_are_refused(bound: int) -> None:
    """A bound leaves room for noise, and lies within what samples are saturated at."""
    for make in (laplace, gaussian):
        with pytest.raises(InputError, match="bound must be"):
            replace(make(10), bound=bound)


@pytest.mark.full
@pytest.mark.parametrize("make", [laplace, gaussian])
@pytest.mark.parametrize("scale", SCALES)
def test_laws_at_length(make: type[Mechanism], scale: float) -> None:
    """Both laws fit over 50 million samples (false alarm 1e-7)."""
    cdf = partial(laplace_cdf if make is laplace else gaussian_cdf, scale)
    mechanism = make(scale)  # type: ignore[call-arg, arg-type]
    parts = [binned(mechanism.sample(N), cdf, scale) for _ in range(50)]
    assert chi_square(np.sum([counts for counts, _ in parts], axis=0), parts[0][1]) > ALARM


def _laplace_residues(b: float, modulus: int) -> NDArray[np.float64]:
    r = np.arange(modulus)
    # (q^r + q^(M - r)) (1 - q) / ((1 + q) (1 - q^M)), with the differences kept small numbers.
    spread = -math.expm1(-1 / b) / -math.expm1(-modulus / b) / (1 + math.exp(-1 / b))
    shares: NDArray[np.float64] = (np.exp(-r / b) + np.exp(-(modulus - r) / b)) * spread
    shares[0] = (1 + math.exp(-modulus / b)) * spread
    return shares


@pytest.mark.parametrize("b", [16, 400, 1e4, 1e6, 1e9, 2.0**55])
@pytest.mark.parametrize("modulus", [97, 128])
def test_laplace_residues(b: float, modulus: int) -> None:
    """The low digits of wide Laplace samples, joined with the high ones, have their exact law (false alarm 1e-7)."""
    residues = laplace(int(b)).sample(N) % modulus
    assert chi_square(np.bincount(residues, minlength=modulus), _laplace_residues(b, modulus)) > ALARM


@pytest.mark.parametrize("sigma", [2000, 1e4, 1e6, 1e9, 2.0**55])
@pytest.mark.parametrize("modulus", [97, 1024])
def test_gaussian_residues(sigma: float, modulus: int) -> None:
    """Wide Gaussian samples are uniform in each modulus below sigma, to within exp(-2 pi^2 sigma^2 / M^2)."""
    residues = gaussian(int(sigma)).sample(N) % modulus
    assert chi_square(np.bincount(residues, minlength=modulus), np.full(modulus, 1 / modulus)) > ALARM


def _shifted(k: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(k < 0, laplace_cdf(10, k), laplace_cdf(10, k + 1))


def _zero_twice(k: NDArray[np.int64]) -> NDArray[np.float64]:
    mass = -np.expm1(-0.1) / (1 + np.exp(-0.1))
    return np.asarray((laplace_cdf(10, k) + np.where(k >= 0, mass, 0)) / (1 + mass))


def _fair_sign(k: NDArray[np.int64]) -> NDArray[np.float64]:
    tail = np.exp(-np.where(k < 0, -1 - k, k + 1) / 10) / 2
    return np.where(k < 0, tail, 1 - tail)


@pytest.mark.parametrize(
    "wrong", [_shifted, _zero_twice, _fair_sign, partial(laplace_cdf, 5), partial(laplace_cdf, 10.5)]
)
def test_chi_square_sees_wrong_laws(wrong: partial[NDArray[np.float64]]) -> None:
    """A tail off by one, a zero counted twice, a fair sign, half the scale, 5 % more scale: each is found."""
    assert chi_square(*binned(laplace(10).sample(N), wrong, 10)) < ALARM


@pytest.mark.parametrize("mechanism", [laplace(10), laplace(10**6), gaussian(100), gaussian(10**6)])
def test_samples_are_independent(mechanism: Mechanism) -> None:
    """A sample, its neighbour, and one half a batch away fall jointly into cells as independent ones do."""
    samples = mechanism.sample(1 << 20)
    size = samples.size
    law = partial(laplace_cdf, float(mechanism.scale)) if isinstance(mechanism, DiscreteLaplace) else None
    cdf = law or partial(gaussian_cdf, mechanism.sd)
    edges = np.rint(mechanism.sd * np.array([-1.0, -0.4, 0.0, 0.3, 1.0])).astype(np.int64)
    shares = np.diff(cdf(edges), prepend=0.0, append=1.0)
    cell = np.searchsorted(edges, samples, side="left")
    for lag in (1, 1 << 14):
        blocks = cell[: size - size % (2 * lag)].reshape(-1, 2, lag)
        joint = np.bincount((blocks[:, 0] * 6 + blocks[:, 1]).ravel(), minlength=36)
        assert chi_square(joint, np.outer(shares, shares).ravel()) > ALARM


@pytest.mark.parametrize("b", [0.7, 10, 1000])
def test_laplace_agrees_with_opendp(b: float) -> None:
    """Our Laplace samples and those of OpenDP are of one law (false alarm 1e-7)."""
    dp.enable_features("contrib")
    theirs = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), b)([0] * 20_000)
    assert two_sample(theirs, laplace(b).sample(200_000).tolist()) > ALARM


@pytest.mark.parametrize("sigma", [0.7, 10, 1000])
def test_gaussian_agrees_with_opendp(sigma: float) -> None:
    """Our Gaussian samples and those of OpenDP are of one law (false alarm 1e-7)."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = dp.m.make_gaussian(*space, sigma)([0] * 20_000)
    assert two_sample(theirs, gaussian(sigma).sample(200_000).tolist()) > ALARM


@pytest.mark.parametrize("mechanism", [laplace(3), laplace(10**5), gaussian(3), gaussian(10**5)])
@pytest.mark.parametrize("size", [0, 1, 2, (1 << 15) - 1, (1 << 15) + 1, 100_001])
def test_sizes(mechanism: Mechanism, size: int) -> None:
    """As many int64 samples come as were asked for."""
    samples = mechanism.sample(size)
    assert samples.shape == (size,)
    assert samples.dtype == np.int64


@pytest.mark.parametrize("make", [laplace, gaussian])
@pytest.mark.parametrize("scale", ["0.05", "1e-9", "1e-400"])
def test_tiny_scales(make: type[Mechanism], scale: str) -> None:
    """At the smallest scales everything is 0 (100 samples at 0.05 differ with probability 4e-7)."""
    mechanism = make(scale)  # type: ignore[call-arg, arg-type]
    assert not mechanism.sample(100).any()


@pytest.mark.parametrize("make", [laplace, gaussian])
def test_largest_scale(make: type[Mechanism]) -> None:
    """At scale 2^55 the samples have the right spread (false alarm below 1e-9)."""
    mechanism = make(MAX_SCALE)  # type: ignore[call-arg, arg-type]
    samples = mechanism.sample(N).astype(np.float64)
    assert samples.std() == pytest.approx(mechanism.sd, rel=0.01)


def test_limits_fit_together() -> None:
    """Noise is saturated exactly where no clamped sum can tell, and the largest sum fits into int64."""
    assert NOISE_LIMIT == SUM_LIMIT + OUTPUT_LIMIT == 2**62 + 2**61 - 1
    assert np.iinfo(np.int64).max == NOISE_LIMIT + SUM_LIMIT


def test_saturation_of_laplace() -> None:
    """A uniform 1300 bits from either end saturates at scale 2^55, on both sides."""
    wide = laplace(MAX_SCALE)
    top = Scripted([0xFFFF, ONES, *[ONES] * 20, 5])
    bottom = Scripted([0, 0, *[0] * 20, 5])
    assert [int(wide.sample(1, s)[0]) for s in (top, bottom)] == [NOISE_LIMIT, -NOISE_LIMIT]


class FarTable:
    """A table whose every draw is a block beyond all integers of 64 bits."""

    def draw(self, n: int, source: object) -> tuple[NDArray[np.int64], dict[int, int]]:
        return np.full(n, 1 << 62, dtype=np.int64), dict.fromkeys(range(n), 1 << 70)


def test_saturation_of_gaussian(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block beyond all integers of 64 bits saturates, on both sides, if the coin accepts it."""
    monkeypatch.setattr(samplers, "_gaussian_table", lambda _: (51, FarTable()))
    signs = [Scripted([sign << 63, *[0] * 60]) for sign in (0, 1)]
    got = [samplers._accepted(Fraction(1 << 110), 1, s) for s in signs]
    assert [np.clip(z, -NOISE_LIMIT, NOISE_LIMIT).tolist() for z in got] == [[NOISE_LIMIT], [-NOISE_LIMIT]]


class Fixed:
    """Noise of chosen values, saturated as that of the samplers is."""

    def __init__(self, value: int) -> None:
        self.value = value

    def sample(self, size: int, source: object = None) -> NDArray[np.int64]:
        return np.full(size, max(-NOISE_LIMIT, min(self.value, NOISE_LIMIT)), dtype=np.int64)


EDGES = st.sampled_from([SUM_LIMIT, OUTPUT_LIMIT, SUM_LIMIT + OUTPUT_LIMIT, 1 << 62])
NEAR_EDGES = st.builds(lambda sign, edge, off: sign * edge + off, st.sampled_from([-1, 1]), EDGES, st.integers(-2, 2))
BIG = NEAR_EDGES | st.integers(-(1 << 70), 1 << 70)


@given(total=NEAR_EDGES | st.integers(-(1 << 63), (1 << 63) - 1), noise=BIG)
def test_add_noise_is_clamping_of_the_true_sum(total: int, noise: int) -> None:
    """Saturating noise and clamping gives the clamped sum of unbounded integers, exactly."""
    clamped = max(-SUM_LIMIT, min(total, SUM_LIMIT))
    expected = max(-OUTPUT_LIMIT, min(clamped + noise, OUTPUT_LIMIT))
    actual = add_noise(np.array([total]), Fixed(noise))  # type: ignore[arg-type]
    assert actual.tolist() == [expected]


def test_add_noise_keeps_shape_and_input() -> None:
    """Sums of any shape get one noise each, and the exact sums stay as they were."""
    sums = np.arange(6).reshape(2, 3)
    noisy = add_noise(sums, laplace(10**6))
    assert noisy.shape == (2, 3)
    assert np.array_equal(sums, np.arange(6).reshape(2, 3))
    assert len(set((noisy - sums).ravel().tolist())) > 1


def test_same_words_same_noise() -> None:
    """Noise is a function of the source's words alone."""
    assert np.array_equal(laplace(1000).sample(99, Scripted([])), laplace(1000).sample(99, Scripted([])))
    assert not np.array_equal(laplace(1000).sample(99), laplace(1000).sample(99))


@pytest.mark.parametrize("value", [0.1, "0.1", Decimal("0.1"), np.float64(0.1), Fraction(1, 10)])
def test_numbers_are_read_as_decimals(value: Number) -> None:
    """All ways to write 0.1 mean 1/10."""
    assert DiscreteLaplace(scale=value).scale == Fraction(1, 10)  # type: ignore[arg-type]


def test_numpy_integers_do_not_overflow() -> None:
    """A NumPy integer becomes a plain one."""
    assert DiscreteGaussian(variance=np.int64(1 << 62)).variance ** 2 == 1 << 124  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "x", None, MAX_SCALE + 1, Decimal("NaN"), "1/0"])
def test_bad_scales_are_refused(bad: Number) -> None:
    """A scale that is no positive number of at most 2^55 is refused with a hint."""
    with pytest.raises(InputError, match="Hint"):
        DiscreteLaplace(scale=bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Hint"):
        DiscreteGaussian(variance=MAX_SCALE**2 + 1 if bad == MAX_SCALE + 1 else bad)  # type: ignore[arg-type]


def test_bad_sizes_are_refused() -> None:
    """A negative size is refused."""
    with pytest.raises(InputError, match="size=-1"):
        laplace(1).sample(-1)


def test_noise_is_described_in_grid_steps_and_in_the_users_units() -> None:
    """Plans and receipts give scale b or sigma and the threshold on the grid, and the deviation in the user's units."""
    for mechanism, scale in ((laplace(10), 10.0), (gaussian(10), 10.0)):
        noise = TableNoise(mechanism=mechanism, share=Fraction(1, 4), threshold=99)
        assert noise.describe(Fraction(1, 2)) == {
            "mechanism": f"discrete_{'laplace' if isinstance(mechanism, DiscreteLaplace) else 'gaussian'}",
            "scale": scale,
            "sd_user": mechanism.sd / 2,
            "threshold": 99,
        }
