"""Exact discrete Laplace and discrete Gaussian noise on the integers, drawn in arrays.

Every integer has exactly its probability: no tail is cut unless a bound is given, and no float rounds a probability.
Scales are rational numbers; a float means the decimal that it prints as, so 0.1 means 1/10.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction  # noqa: TC003 - examples in docstrings use it
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ddpmi.errors import Hint, InputError, check_count
from ddpmi.privacy import randomness, samplers, tails
from ddpmi.privacy.budget import exact_decimal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi._typing import Number
    from ddpmi.privacy.randomness import Source


SUM_LIMIT = 1 << 61
"""Sums are clamped to +-SUM_LIMIT before noise is added."""
OUTPUT_LIMIT = (1 << 62) - 1
"""Noisy sums are clamped to +-OUTPUT_LIMIT."""
NOISE_LIMIT = samplers.NOISE_LIMIT
"""Samples beyond +-NOISE_LIMIT become +-NOISE_LIMIT. It is SUM_LIMIT + OUTPUT_LIMIT, so no clamped noisy sum changes."""
MAX_SCALE = 1 << 55
"""The largest scale b, and the largest sigma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noise(ABC):
    """Symmetric noise Z on the integers, or the same noise conditioned on |Z| <= bound."""

    name: ClassVar[str]
    """The name of the distribution in receipts."""
    bound: int | None = None
    """The largest |Z|; None where Z is unbounded."""

    @property
    @abstractmethod
    def width(self) -> float:
        """The parameter that receipts call scale: b of Laplace noise, sigma of Gaussian noise."""

    @property
    @abstractmethod
    def sd(self) -> float:
        """An upper bound of the standard deviation."""

    @abstractmethod
    def _draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """Draw without the bound."""

    @abstractmethod
    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Return an upper bound, or for t >= 1 a lower bound, of ln P[Z >= t] of the unbounded noise."""

    def _check_bound(self) -> None:
        if self.bound is not None:
            check_count("bound", self.bound, most=NOISE_LIMIT - 1, hint="bound=100")

    def sample(self, size: int, source: Source | None = None) -> NDArray[np.int64]:
        """Draw independent samples, saturated at +-NOISE_LIMIT.

        >>> DiscreteLaplace(scale=Fraction(1, 1000)).sample(3).tolist()
        [0, 0, 0]
        """
        words = randomness.system() if source is None else source
        return samplers.within(self.bound, lambda n: self._draw(n, words), _count(size))

    def log_edge(self, bound: int, weight: int) -> float:
        """Return an upper bound of ln P[Z > bound - weight], for this noise conditioned on |Z| <= bound and a weight of at least 1.

        >>> round(DiscreteLaplace(scale=Fraction(10)).log_edge(100, 1), 6)
        -12.996522
        """
        return tails.log_edge(self.free_log_tail, bound, weight)

    def log_tail(self, t: int) -> float:
        """Return an upper bound of ln P[Z >= t].

        For Laplace noise it exceeds the true value by at most 1e-9 of it. For Gaussian noise from sigma 1000 on it is
        ln P[N(0, variance) >= t - 1].

        >>> round(DiscreteLaplace(scale=Fraction(10)).log_tail(100), 6)
        -10.644397
        """
        if self.bound is None:
            return self.free_log_tail(int(t))
        return -math.inf if t > self.bound else self.log_edge(self.bound, self.bound - int(t) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(_Noise):
    """Noise Z with P[Z = z] in proportion to exp(-|z| / scale), on all integers or on those within +-bound.

    >>> DiscreteLaplace(scale=Fraction(5, 2)).sample(3).shape
    (3,)
    """

    name: ClassVar[str] = "discrete_laplace"
    scale: Fraction
    """The scale b, more than 0 and at most 2^55."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale("scale", self.scale, MAX_SCALE))
        self._check_bound()

    @property
    def width(self) -> float:
        """The scale b."""
        return float(self.scale)

    @property
    def sd(self) -> float:
        """The standard deviation of the unbounded noise; with a bound it is at most this."""
        return tails.laplace_sd(self.scale)

    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Return an upper bound, or for t >= 1 a lower bound, of ln P[Z >= t] of the unbounded noise."""
        tail = tails.laplace_log_tail if up else tails.laplace_log_tail_low
        return tail(self.scale, t)

    def _draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return samplers.laplace(self.scale, size, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(_Noise):
    """Noise Z with P[Z = z] in proportion to exp(-z^2 / (2 variance)), on all integers or on those within +-bound.

    >>> DiscreteGaussian(variance=Fraction(10_000)).sample(3).shape
    (3,)
    """

    name: ClassVar[str] = "discrete_gaussian"
    variance: Fraction
    """The parameter sigma^2, more than 0 and at most 2^110; the variance of Z is at most this."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _scale("variance", self.variance, MAX_SCALE**2))
        self._check_bound()

    @property
    def width(self) -> float:
        """The parameter sigma."""
        return math.sqrt(self.variance)

    @property
    def sd(self) -> float:
        """The parameter sigma. The standard deviation is at most this; from sigma 1 on they agree to 6 digits."""
        return self.width

    def free_log_tail(self, t: int, *, up: bool = True) -> float:
        """Return an upper bound, or for t >= 1 a lower bound, of ln P[Z >= t] of the unbounded noise."""
        tail = tails.gaussian_log_tail if up else tails.gaussian_log_tail_low
        return tail(self.variance, t)

    def _draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return samplers.gaussian(self.variance, size, source)


Mechanism = DiscreteLaplace | DiscreteGaussian
"""The noise of one table."""


def add_noise(sums: NDArray[np.int64], mechanism: Mechanism, source: Source | None = None) -> NDArray[np.int64]:
    """Add fresh noise to each sum. The sum is clamped before and the result after, so that nothing overflows.

    >>> add_noise(np.array([5, 2**62]), DiscreteLaplace(scale=Fraction(1, 1000))).tolist()
    [5, 2305843009213693952]
    """
    # proof: samplers.saturation
    noisy = mechanism.sample(sums.size, source).reshape(sums.shape)
    noisy += np.clip(sums, -SUM_LIMIT, SUM_LIMIT)
    return np.clip(noisy, -OUTPUT_LIMIT, OUTPUT_LIMIT, out=noisy)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNoise:
    """The noise of one released table."""

    mechanism: Mechanism
    """The noise that is added to each sum."""
    share: Fraction
    """Part of the budget that this table uses."""
    threshold: int | None
    """Smallest noisy sum that is released; None where all keys are known and none is suppressed."""
    below: int | None = None
    """Suppressed pairs did not reach this threshold in an earlier draw; noise is drawn such that they stay below it."""

    @property
    def without_threshold(self) -> TableNoise:
        """Noise for pairs released without a threshold; those that were suppressed before stay below it."""
        return replace(self, threshold=None, below=self.threshold)

    def describe(self, step: Fraction) -> dict[str, Any]:
        """Return what plans and receipts say about the noise.

        Args:
            step: One grid step in the user's units.

        Returns:
            mechanism, scale and threshold in grid steps, and sd_user, the standard deviation in the user's units.

        >>> noise = TableNoise(mechanism=DiscreteLaplace(scale=Fraction(5, 2)), share=Fraction(1, 2), threshold=30)
        >>> noise.describe(Fraction(1))["scale"]
        2.5
        """
        return {
            "mechanism": self.mechanism.name,
            "scale": self.mechanism.width,
            "sd_user": self.mechanism.sd * float(step),
            "threshold": self.threshold,
        }


def _scale(name: str, value: Number, largest: int) -> Fraction:
    number = exact_decimal(value, name)
    if not 0 < number <= largest:
        raise InputError(
            f"{name} must be more than 0 and at most 2^{largest.bit_length() - 1}, got {name}={value}.",
            hint=Hint(do="choose a coarser grid", python="Bounds(step=...)", cli="--step ..."),
        )
    return number


def _count(size: int) -> int:
    if size < 0:
        raise InputError(f"size must be 0 or more, got size={size}.", hint="sample(1000)")
    return int(size)
