"""Exact discrete Laplace and discrete Gaussian noise on the integers, at vector speed.

Every integer has exactly its probability: no tail is cut unless a bound is asked for, and no float rounds a probability.
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


def _bound(value: int | None) -> None:
    if value is not None and not 0 < value < NOISE_LIMIT:
        raise InputError(f"bound must be more than 0 and below 2^62, got bound={value}.", hint="bound=100")


def _within(p: Fraction, mechanism: Mechanism) -> Fraction:
    """The probability without a bound that makes at least p with it."""
    if mechanism.bound is None:
        return p
    beyond = Fraction(math.exp(mechanism.free_log_tail(mechanism.bound + 1, up=2 * p < 1)))
    return p + beyond * (1 - 2 * p)


def _count(size: int) -> int:
    if size < 0:
        raise InputError(f"size must be 0 or more, got size={size}.", hint="sample(1000)")
    return int(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """Noise Z with P[Z = z] in proportion to exp(-|z| / scale), on all integers or on those within a bound.

    >>> DiscreteLaplace(scale=Fraction(5, 2)).sample(3).shape
    (3,)
    """

    scale: Fraction
    """The scale b, more than 0 and at most 2^55."""
    bound: int | None = None
    """The largest |Z|; None where there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale("scale", self.scale, MAX_SCALE))
        _bound(self.bound)

    def sample(self, size: int, source: Source | None = None) -> NDArray[np.int64]:
        """Draw independent samples, saturated at +-NOISE_LIMIT.

        >>> DiscreteLaplace(scale=Fraction(1, 1000)).sample(3).tolist()
        [0, 0, 0]
        """
        words = randomness.system() if source is None else source
        return noise_samplers.within(self.bound, lambda n: noise_samplers.laplace(self.scale, n, words), _count(size))

    @property
    def sd(self) -> float:
        """The standard deviation; with a bound it is at most this."""
        return noise_tails.laplace_sd(self.scale)

    def log_edge(self, bound: int, weight: int) -> float:
        """Give ln P[Z > bound - weight] of this noise held within a bound, rounded up; for a weight of 1 or more.

        >>> round(DiscreteLaplace(scale=Fraction(10)).log_edge(100, 1), 6)
        -12.996522
        """
        return noise_tails.log_edge(self.free_log_tail, bound, weight)

    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Give ln P[Z >= t] of the noise without its bound, rounded up or, for t >= 1, down."""
        tail = noise_tails.laplace_log_tail if up else noise_tails.laplace_log_tail_low
        return tail(self.scale, t)

    def log_tail(self, t: int) -> float:
        """Give ln P[Z >= t] rounded up: never below the truth, and above it by at most 1e-9 of its size.

        >>> round(DiscreteLaplace(scale=Fraction(10)).log_tail(100), 6)
        -10.644397
        """
        if self.bound is not None:
            return -math.inf if t > self.bound else self.log_edge(self.bound, self.bound - int(t) + 1)
        return self.free_log_tail(int(t))

    def quantile(self, p: Number) -> int:
        """Give the smallest integer k with a certified P[Z <= k] >= p.

        >>> DiscreteLaplace(scale=Fraction(10)).quantile(0.975)
        30
        """
        at = _within(_probability(p), self)
        found = noise_tails.quantile(LaplaceBlocks(scale=self.scale, shift=0), at)
        return found if self.bound is None else min(found, self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian:
    """Noise Z with P[Z = z] in proportion to exp(-z^2 / (2 variance)), on all integers or on those within a bound.

    >>> DiscreteGaussian(variance=Fraction(10_000)).sample(3).shape
    (3,)
    """

    variance: Fraction
    """The parameter sigma^2, more than 0 and at most 2^110; the variance of Z is at most this."""
    bound: int | None = None
    """The largest |Z|; None where there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _scale("variance", self.variance, MAX_SCALE**2))
        _bound(self.bound)

    def sample(self, size: int, source: Source | None = None) -> NDArray[np.int64]:
        """Draw independent samples, saturated at +-NOISE_LIMIT.

        >>> DiscreteGaussian(variance=Fraction(1, 1000)).sample(3).tolist()
        [0, 0, 0]
        """
        words = randomness.system() if source is None else source
        return noise_samplers.within(
            self.bound, lambda n: noise_samplers.gaussian(self.variance, n, words), _count(size)
        )

    @property
    def sd(self) -> float:
        """The parameter sigma; the standard deviation is at most this, and equal to 6 digits from 1 on."""
        return math.sqrt(self.variance)

    def log_edge(self, bound: int, weight: int) -> float:
        """Give an upper bound of ln P[Z > bound - weight] of this noise held within a bound; for a weight of 1 or more.

        >>> round(DiscreteGaussian(variance=Fraction(10_000)).log_edge(500, 1), 6)
        -18.024108
        """
        return noise_tails.log_edge(self.free_log_tail, bound, weight)

    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Give ln P[Z >= t] of the noise without its bound, rounded up or, for t >= 1, down."""
        tail = noise_tails.gaussian_log_tail if up else noise_tails.gaussian_log_tail_low
        return tail(self.variance, t)

    def log_tail(self, t: int) -> float:
        """Give an upper bound of ln P[Z >= t]; from sigma 1000 on, that of ln P[N(0, variance) >= t - 1].

        >>> round(DiscreteGaussian(variance=Fraction(10_000)).log_tail(500), 6)
        -15.039186
        """
        if self.bound is not None:
            return -math.inf if t > self.bound else self.log_edge(self.bound, self.bound - int(t) + 1)
        return self.free_log_tail(int(t))

    def quantile(self, p: Number) -> int:
        """Give the smallest integer k with a certified P[Z <= k] >= p.

        >>> DiscreteGaussian(variance=Fraction(10_000)).quantile(0.975)
        196
        """
        at = _within(_probability(p), self)
        found = noise_tails.gaussian_quantile(self.variance, at)
        return found if self.bound is None else min(found, self.bound)


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
