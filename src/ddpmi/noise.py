"""Exact discrete Laplace and discrete Gaussian noise on the integers, at vector speed.

Every integer has exactly its probability: no tail is cut unless a bound is asked for, and no float rounds a probability.
Scales are rational numbers; a float is read as the decimal it prints as, so 0.1 means 1/10.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
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
class _Noise(ABC):
    """Symmetric noise Z on the integers, or the same noise given that it stays within a bound."""

    bound: int | None = None
    """The largest |Z|; None where there is none."""

    @abstractmethod
    def _draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """Draw without the bound."""

    @abstractmethod
    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Give ln P[Z >= t] without the bound, rounded up or, for t >= 1, down."""

    @abstractmethod
    def _free_quantile(self, p: Fraction) -> int:
        """Give the quantile without the bound."""

    def _check_bound(self) -> None:
        if self.bound is not None and not 0 < self.bound < NOISE_LIMIT:
            raise InputError(f"bound must be more than 0 and below 2^62, got bound={self.bound}.", hint="bound=100")

    def sample(self, size: int, source: Source | None = None) -> NDArray[np.int64]:
        """Draw independent samples, saturated at +-NOISE_LIMIT.

        >>> DiscreteLaplace(scale=Fraction(1, 1000)).sample(3).tolist()
        [0, 0, 0]
        """
        words = randomness.system() if source is None else source
        return noise_samplers.within(self.bound, lambda n: self._draw(n, words), _count(size))

    def log_edge(self, bound: int, weight: int) -> float:
        """Give an upper bound of ln P[Z > bound - weight] of this noise held within a bound; for a weight of 1 or more.

        >>> round(DiscreteLaplace(scale=Fraction(10)).log_edge(100, 1), 6)
        -12.996522
        """
        return noise_tails.log_edge(self.free_log_tail, bound, weight)

    def log_tail(self, t: int) -> float:
        """Give an upper bound of ln P[Z >= t].

        That of Laplace noise is above the truth by at most 1e-9 of its size; that of Gaussian noise from sigma 1000 on is
        ln P[N(0, variance) >= t - 1].

        >>> round(DiscreteLaplace(scale=Fraction(10)).log_tail(100), 6)
        -10.644397
        """
        if self.bound is None:
            return self.free_log_tail(int(t))
        return -math.inf if t > self.bound else self.log_edge(self.bound, self.bound - int(t) + 1)

    def quantile(self, p: Number) -> int:
        """Give the smallest integer k with a certified P[Z <= k] >= p.

        >>> DiscreteGaussian(variance=Fraction(10_000)).quantile(0.975)
        196
        """
        at = _probability(p)
        if self.bound is None:
            return self._free_quantile(at)
        # What lies beyond the bound is missing on both sides.
        beyond = Fraction(math.exp(self.free_log_tail(self.bound + 1, up=2 * at < 1)))
        return min(self._free_quantile(at + beyond * (1 - 2 * at)), self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(_Noise):
    """Noise Z with P[Z = z] in proportion to exp(-|z| / scale), on all integers or on those within a bound.

    >>> DiscreteLaplace(scale=Fraction(5, 2)).sample(3).shape
    (3,)
    """

    scale: Fraction
    """The scale b, more than 0 and at most 2^55."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale("scale", self.scale, MAX_SCALE))
        self._check_bound()

    @property
    def sd(self) -> float:
        """The standard deviation; with a bound it is at most this."""
        return noise_tails.laplace_sd(self.scale)

    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Give ln P[Z >= t] without the bound, rounded up or, for t >= 1, down."""
        tail = noise_tails.laplace_log_tail if up else noise_tails.laplace_log_tail_low
        return tail(self.scale, t)

    def _draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return noise_samplers.laplace(self.scale, size, source)

    def _free_quantile(self, p: Fraction) -> int:
        return noise_tails.quantile(LaplaceBlocks(scale=self.scale, shift=0), p)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(_Noise):
    """Noise Z with P[Z = z] in proportion to exp(-z^2 / (2 variance)), on all integers or on those within a bound.

    >>> DiscreteGaussian(variance=Fraction(10_000)).sample(3).shape
    (3,)
    """

    variance: Fraction
    """The parameter sigma^2, more than 0 and at most 2^110; the variance of Z is at most this."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _scale("variance", self.variance, MAX_SCALE**2))
        self._check_bound()

    @property
    def sd(self) -> float:
        """The parameter sigma; the standard deviation is at most this, and equal to 6 digits from 1 on."""
        return math.sqrt(self.variance)

    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Give ln P[Z >= t] without the bound, rounded up or, for t >= 1, down."""
        tail = noise_tails.gaussian_log_tail if up else noise_tails.gaussian_log_tail_low
        return tail(self.variance, t)

    def _draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return noise_samplers.gaussian(self.variance, size, source)

    def _free_quantile(self, p: Fraction) -> int:
        return noise_tails.gaussian_quantile(self.variance, p)


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
