"""Exact discrete Laplace and discrete Gaussian noise on the integers, at vector speed.

Every integer has exactly its probability: no tail is cut and no float rounds a probability.
Scales are rational numbers; a float is read as the decimal it prints as, so 0.1 means 1/10.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ddpmi import noise_samplers, noise_tails, randomness
from ddpmi.errors import InputError
from ddpmi.noise_tables import LaplaceBlocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi.randomness import Source

Number = int | float | str | Decimal | Fraction
"""What is accepted as a number."""

SUM_LIMIT = 1 << 61
"""Sums are clamped to +-SUM_LIMIT before noise is added."""
OUTPUT_LIMIT = (1 << 62) - 1
"""Noisy sums are clamped to +-OUTPUT_LIMIT."""
NOISE_LIMIT = noise_samplers.NOISE_LIMIT
"""Samples are saturated at +-NOISE_LIMIT, which is SUM_LIMIT + OUTPUT_LIMIT: no clamped sum can tell."""
MAX_SCALE = 1 << 55
"""The largest scale b, and the largest sigma."""


def _fraction(name: str, value: Number) -> Fraction:
    try:
        return value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise InputError(
            f"{name} must be a finite number, got {name}={value!r}.",
            hint=f'{name}=Fraction(5, 2) or {name}="2.5"',
        ) from None


def _scale(name: str, value: Number, largest: int) -> Fraction:
    number = _fraction(name, value)
    if not 0 < number <= largest:
        raise InputError(
            f"{name} must be more than 0 and at most 2^{largest.bit_length() - 1}, got {name}={value}.",
            hint="a coarser grid needs smaller noise: Bounds(step=...)",
        )
    return number


def _probability(value: Number) -> Fraction:
    p = _fraction("p", value)
    if not 0 < p < 1:
        raise InputError(f"p must lie between 0 and 1, got p={value}.", hint="quantile(0.975)")
    return p


def _count(size: int) -> int:
    if size < 0:
        raise InputError(f"size must be 0 or more, got size={size}.", hint="sample(1000)")
    return int(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """Noise Z with P[Z = z] in proportion to exp(-|z| / scale), on all integers.

    >>> DiscreteLaplace(scale=Fraction(5, 2)).sample(3).shape
    (3,)
    """

    scale: Fraction
    """The scale b, more than 0 and at most 2^55."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale("scale", self.scale, MAX_SCALE))

    def sample(self, size: int, source: Source | None = None) -> NDArray[np.int64]:
        """Draw independent samples, saturated at +-NOISE_LIMIT.

        >>> DiscreteLaplace(scale=Fraction(1, 1000)).sample(3).tolist()
        [0, 0, 0]
        """
        return noise_samplers.laplace(self.scale, _count(size), randomness.system() if source is None else source)

    @property
    def sd(self) -> float:
        """The standard deviation."""
        return noise_tails.laplace_sd(self.scale)

    def log_tail(self, t: int) -> float:
        """Give ln P[Z >= t] rounded up: never below the truth, and above it by at most 1e-9 of its size.

        >>> round(DiscreteLaplace(scale=Fraction(10)).log_tail(100), 6)
        -10.644397
        """
        return noise_tails.laplace_log_tail(self.scale, int(t))

    def quantile(self, p: Number) -> int:
        """Give the smallest integer k with a certified P[Z <= k] >= p.

        >>> DiscreteLaplace(scale=Fraction(10)).quantile(0.975)
        30
        """
        return noise_tails.quantile(LaplaceBlocks(scale=self.scale, shift=0), _probability(p))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian:
    """Noise Z with P[Z = z] in proportion to exp(-z^2 / (2 variance)), on all integers.

    >>> DiscreteGaussian(variance=Fraction(10_000)).sample(3).shape
    (3,)
    """

    variance: Fraction
    """The parameter sigma^2, more than 0 and at most 2^110; the variance of Z is at most this."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _scale("variance", self.variance, MAX_SCALE**2))

    def sample(self, size: int, source: Source | None = None) -> NDArray[np.int64]:
        """Draw independent samples, saturated at +-NOISE_LIMIT.

        >>> DiscreteGaussian(variance=Fraction(1, 1000)).sample(3).tolist()
        [0, 0, 0]
        """
        return noise_samplers.gaussian(self.variance, _count(size), randomness.system() if source is None else source)

    @property
    def sd(self) -> float:
        """The parameter sigma; the standard deviation is at most this, and equal to 6 digits from 1 on."""
        return math.sqrt(self.variance)

    def log_tail(self, t: int) -> float:
        """Give an upper bound of ln P[Z >= t]; from sigma 1000 on, that of ln P[N(0, variance) >= t - 1].

        >>> round(DiscreteGaussian(variance=Fraction(10_000)).log_tail(500), 6)
        -15.039186
        """
        return noise_tails.gaussian_log_tail(self.variance, int(t))

    def quantile(self, p: Number) -> int:
        """Give the smallest integer k with a certified P[Z <= k] >= p.

        >>> DiscreteGaussian(variance=Fraction(10_000)).quantile(0.975)
        196
        """
        return noise_tails.gaussian_quantile(self.variance, _probability(p))


Mechanism = DiscreteLaplace | DiscreteGaussian
"""The noise of one table."""


def discrete_laplace(scale: Number, size: int) -> NDArray[np.int64]:
    """Draw discrete Laplace noise of a scale b.

    >>> discrete_laplace(0.001, 3).tolist()
    [0, 0, 0]
    """
    return DiscreteLaplace(scale=_scale("scale", scale, MAX_SCALE)).sample(size)


def discrete_gaussian(sigma: Number, size: int) -> NDArray[np.int64]:
    """Draw discrete Gaussian noise of a parameter sigma.

    >>> discrete_gaussian(0.01, 3).tolist()
    [0, 0, 0]
    """
    return DiscreteGaussian(variance=_scale("sigma", sigma, MAX_SCALE) ** 2).sample(size)


def add_noise(sums: NDArray[np.int64], mechanism: Mechanism, source: Source | None = None) -> NDArray[np.int64]:
    """Add fresh noise to each sum: clamp the sum, add, clamp the result; nothing can overflow.

    >>> add_noise(np.array([5, 2**62]), DiscreteLaplace(scale=Fraction(1, 1000))).tolist()
    [5, 2305843009213693952]
    """
    # proof: samplers.saturation
    noisy = mechanism.sample(sums.size, source).reshape(sums.shape)
    noisy += np.clip(sums, -SUM_LIMIT, SUM_LIMIT)
    return np.clip(noisy, -OUTPUT_LIMIT, OUTPUT_LIMIT, out=noisy)
