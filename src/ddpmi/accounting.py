"""What releases cost together: basic and concentrated composition, and the rule of the ledger.

Every number is exact. Costs are rounded up to their grid and limits down, in the units of ``EPSILON_GRID``
(1e-12), ``RHO_GRID`` (1e-15) and ``DELTA_GRID`` (1e-18).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import TYPE_CHECKING

from ddpmi.budget import DELTA_GRID, EPSILON_GRID, Budget, Number, exact_decimal
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RHO_GRID = 10**15
"""Rho is a whole number of ``1 / RHO_GRID``."""
RHO_CAP = 4 * 10**18
"""A rho of 4000 or more is stored as this many units, which no limit reaches: it never fits as rho."""
_MARGIN = Fraction(1, 10**30)
_LARGEST_RHO = 10**12
_STEPS = 100


def _context() -> Context:
    """Sixty digits, each operation rounded correctly, the same on every machine."""
    return Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _bisect(rises: Callable[[Decimal], bool], low: Decimal, high: Decimal) -> Decimal:
    """Find where ``rises`` turns true between two positive numbers, by halving their ratio."""
    for _ in range(_STEPS):
        middle = (low * high).sqrt()
        low, high = (low, middle) if rises(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def epsilon_for(rho: Fraction, delta: Fraction) -> Fraction:
    """Convert rho-zCDP to the epsilon it gives at delta, rounded up to 1e-12.

    Corollary 13 of Canonne, Kamath and Steinke (2020) at its best alpha.

    Args:
        rho: Concentrated privacy loss, at least 0.
        delta: Failure mass, from 1e-18 to 1 - 1e-18.

    Returns:
        An epsilon such that (epsilon, delta) holds for every rho-zCDP mechanism.

    Raises:
        InputError: A number is out of its range.

    >>> float(epsilon_for(Fraction(1, 10), Fraction(1, 10**6)))
    2.141938928386
    """
    _check_delta(delta)
    if not 0 <= rho <= _LARGEST_RHO:
        raise InputError(f"rho must be between 0 and 1e12, got rho={float(rho):g}.", hint="epsilon_for(rho, delta)")
    if rho == 0:
        return Fraction(0)
    with localcontext(_context()):
        r, loss = _decimal(rho), -_decimal(delta).ln()
        # proof: composition.alpha, the root lies between
        low = min(loss / 2, (loss / (2 * r)).sqrt())
        high = min((loss / r).sqrt(), loss.exp())
        u = _bisect(lambda x: r * x * x + (1 + x).ln() > loss, low, high)
        # proof: composition.conversion, valid at every alpha
        epsilon = (1 + u) * r + (u / (1 + u)).ln() + (loss - (1 + u).ln()) / u
    # proof: composition.margin, covers the rounding of the decimals
    return Fraction(max(0, ceil((Fraction(epsilon) + _MARGIN) * EPSILON_GRID)), EPSILON_GRID)


def rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest rho on the grid 1e-15 whose conversion at delta is at most epsilon.

    Args:
        epsilon: The guarantee wanted, at least 0.
        delta: The part of delta that pays for the conversion: half of a release's delta.

    Returns:
        A rho above 0 and below 4000 with ``epsilon_for(rho, delta) <= epsilon``.

    Raises:
        InputError: Delta is 0, or epsilon is so small that no rho of the grid fits.

    >>> rho = rho_for(Fraction(1), Fraction(1, 2 * 10**7))
    >>> float(rho), float(epsilon_for(rho, Fraction(1, 2 * 10**7)))
    (0.019189769875072, 1.0)
    """
    units = _rho_units(epsilon, delta)
    if units == 0:
        raise InputError(
            f"epsilon={float(epsilon):g} at delta={float(delta):g} is too small for Gaussian noise.",
            hint="raise epsilon to 1e-6 or more, or choose mechanism='laplace'.",
        )
    return Fraction(units, RHO_GRID)


@lru_cache(maxsize=4096)
def _rho_units(epsilon: Fraction, delta: Fraction) -> int:
    """Count the grid units of the largest rho that converts to at most epsilon."""
    _check_delta(delta)
    epsilon = Fraction(floor(epsilon * EPSILON_GRID), EPSILON_GRID)
    if epsilon <= 0:
        return 0
    with localcontext(_context()):
        e, loss = _decimal(epsilon), -_decimal(delta).ln()

        def below(u: Decimal) -> bool:
            return (loss - (1 + u).ln()) * (1 + 2 * u) / (u * u) + (u / (1 + u)).ln() < e

        # proof: composition.inverse, falls from above epsilon to below 0
        low = high = loss.exp() - 1
        while below(low):
            low /= 16
        u = _bisect(below, low, high)
        rho = (e - (u / (1 + u)).ln() - (loss - (1 + u).ln()) / u) / (1 + u)
    units = max(0, min(floor((Fraction(rho) - _MARGIN) * RHO_GRID), RHO_CAP - 1))
    while units and epsilon_for(Fraction(units, RHO_GRID), delta) > epsilon:
        units -= 1
    return units


def _check_delta(delta: Fraction) -> None:
    if not 1 <= delta * DELTA_GRID <= DELTA_GRID - 1:
        raise InputError(
            f"a conversion from rho needs a delta of at least 1e-18 and below 1, got delta={float(delta):g}.",
            hint="Gaussian noise needs a delta: Budget(epsilon=1, delta=1e-7), or mechanism='laplace'.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one release adds to the history of its dataset.

    >>> Cost.of_laplace([Fraction(1, 2)]) + Cost.of_gaussian(Fraction(1, 10), Fraction(1, 10**7))
    Cost(epsilon=None, rho=Fraction(9, 40), delta=Fraction(1, 10000000))
    """

    epsilon: Fraction | None
    """Sum of pure epsilons, or None where a part is not pure."""
    rho: Fraction
    """Sum of concentrated losses."""
    delta: Fraction
    """Sum of what thresholds (and amplified releases) may fail by; no conversion is in it."""

    def __post_init__(self) -> None:
        numbers = {"epsilon": self.epsilon or Fraction(0), "rho": self.rho, "delta": self.delta}
        for name, number in numbers.items():
            if not isinstance(number, Fraction) or number < 0:
                raise InputError(
                    f"a cost is made of fractions of at least 0, got {name}={number!r}.",
                    hint="Cost.of_laplace([Fraction(1)]) or Cost.of_gaussian(Fraction(1, 10), delta)",
                )

    @classmethod
    def of_laplace(cls, epsilons: Iterable[Number], delta: Number = 0) -> Cost:
        """Cost of pure queries: epsilons add, and each is epsilon^2/2 of rho.

        >>> Cost.of_laplace([1]).rho
        Fraction(1, 2)
        """
        exact = [exact_decimal(epsilon, "epsilon") for epsilon in epsilons]
        # proof: composition.pure-rho, half a square for each query
        rho = sum((epsilon * epsilon / 2 for epsilon in exact), Fraction(0))
        return cls(epsilon=sum(exact, Fraction(0)), rho=rho, delta=exact_decimal(delta, "delta"))

    @classmethod
    def of_gaussian(cls, rho: Number, delta: Number = 0) -> Cost:
        """Cost of concentrated queries, whose rho is already summed.

        >>> Cost.of_gaussian("0.02", "5e-8").epsilon is None
        True
        """
        return cls(epsilon=None, rho=exact_decimal(rho, "rho"), delta=exact_decimal(delta, "delta"))

    def __add__(self, other: Cost) -> Cost:
        pure = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Cost(epsilon=pure, rho=self.rho + other.rho, delta=self.delta + other.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What the history of one dataset may cost, in grid units, rounded down and fixed at creation.

    >>> Limit.of(Budget(1, 1e-7))
    Limit(epsilon=1000000000000, rho=19189769875072, delta=50000000000)
    """

    epsilon: int
    """Largest sum of epsilons while every entry is pure."""
    rho: int
    """Largest sum of rhos: it converts to epsilon at the half of delta kept for that; 0 without delta."""
    delta: int
    """Largest sum of threshold deltas: the other half."""

    @classmethod
    def of(cls, budget: Budget) -> Limit:
        """Fix the three numbers for a budget."""
        half = budget.delta / 2
        return cls(
            epsilon=floor(budget.epsilon * EPSILON_GRID),
            rho=_rho_units(budget.epsilon, half) if half else 0,
            delta=floor(half * DELTA_GRID),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The summed cost of a history, in grid units, rounded up entry by entry.

    >>> Total().plus(Cost.of_laplace(["0.1"]))
    Total(epsilon=100000000000, rho=5000000000000, delta=0)
    """

    epsilon: int | None = 0
    """Sum of epsilons, or None once an entry is not pure."""
    rho: int = 0
    """Sum of rhos, at most ``RHO_CAP``."""
    delta: int = 0
    """Sum of threshold deltas."""

    @classmethod
    def of(cls, cost: Cost) -> Total:
        """Round one cost up to the grid."""
        # proof: composition.rounding, costs go up
        return cls(
            epsilon=None if cost.epsilon is None else ceil(cost.epsilon * EPSILON_GRID),
            rho=min(ceil(cost.rho * RHO_GRID), RHO_CAP),
            delta=ceil(cost.delta * DELTA_GRID),
        )

    def plus(self, cost: Cost) -> Total:
        """Add one more release."""
        new = Total.of(cost)
        pure = None if self.epsilon is None or new.epsilon is None else self.epsilon + new.epsilon
        return Total(epsilon=pure, rho=min(self.rho + new.rho, RHO_CAP), delta=self.delta + new.delta)


def admits(limit: Limit, total: Total, cost: Cost) -> bool:
    """Say whether a history may grow by one more release.

    Args:
        limit: The limit fixed when the ledger was created.
        total: The whole history before the release.
        cost: The release.

    Returns:
        True iff the threshold deltas fit, and the rhos fit or everything is pure and the epsilons fit.

    >>> limit = Limit.of(Budget(1))
    >>> admits(limit, Total(), Cost.of_laplace([1])), admits(limit, Total(), Cost.of_laplace(["1.1"]))
    (True, False)
    """
    after = total.plus(cost)
    # proof: composition.rule, totals are compared, not increments
    pure = after.epsilon is not None and after.epsilon <= limit.epsilon
    return after.delta <= limit.delta and (after.rho <= limit.rho or pure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """An (epsilon, delta) that was spent or is left; unlike a budget it may be nothing at all.

    >>> Amount(epsilon=Fraction(1, 2), delta=Fraction(0)).to_dict()
    {'epsilon': 0.5, 'delta': 0.0}
    """

    epsilon: Fraction
    """Privacy loss, at least 0."""
    delta: Fraction
    """Failure mass, at least 0."""

    def to_dict(self) -> dict[str, float]:
        """Give both numbers as floats, for JSON."""
        return {"epsilon": float(self.epsilon), "delta": float(self.delta)}


def spent(limit: Limit, total: Total) -> Amount:
    """Give the (epsilon, delta) that holds for a whole history, rounded up.

    The better of two valid views: the sum of pure epsilons with the threshold deltas alone, or the converted
    sum of rhos with the half of delta that the conversion needs.

    >>> limit = Limit.of(Budget(4, 1e-6))
    >>> spent(limit, Total().plus(Cost.of_laplace([1], 1e-8))).to_dict()
    {'epsilon': 1.0, 'delta': 1e-08}
    """
    delta = Fraction(total.delta, DELTA_GRID)
    views = [] if total.epsilon is None else [Amount(epsilon=Fraction(total.epsilon, EPSILON_GRID), delta=delta)]
    if total.rho == 0:
        views.append(Amount(epsilon=Fraction(0), delta=delta))
    elif limit.delta and total.rho < RHO_CAP:
        half = Fraction(limit.delta, DELTA_GRID)
        # proof: composition.spent, both views hold
        views.append(Amount(epsilon=epsilon_for(Fraction(total.rho, RHO_GRID), half), delta=half + delta))
    return min(views, key=lambda view: (view.epsilon, view.delta))


def room(limit: Limit, total: Total, cost: Cost, guarantee: Budget | Amount) -> Amount:
    """Give the largest (epsilon, delta) that a release of the same kind could still have.

    Args:
        limit: The ledger's limit.
        total: The history so far.
        cost: The release that asks.
        guarantee: Its own promise.

    Returns:
        What is left for it; a release that is refused needs more epsilon or more delta than that.

    >>> room(Limit.of(Budget(1, 1e-6)), Total(), Cost.of_laplace([2]), Budget(2)).to_dict()
    {'epsilon': 1.0, 'delta': 1e-06}
    """
    per_threshold = guarantee.delta / cost.delta if cost.delta else 2
    delta = per_threshold * Fraction(max(0, limit.delta - total.delta), DELTA_GRID)
    rho = Fraction(max(0, limit.rho - total.rho), RHO_GRID)
    if cost.epsilon is None:
        half = min(guarantee.delta, delta) / 2
        fits = rho > 0 and half * DELTA_GRID >= 1
        return Amount(epsilon=epsilon_for(rho, half) if fits else Fraction(0), delta=delta)
    # The same queries, all made noisier by one factor, cost its square in rho.
    concentrated = float(guarantee.epsilon) * (float(rho) / float(cost.rho)) ** 0.5 if cost.rho else 0.0
    pure = 0 if total.epsilon is None else max(0, limit.epsilon - total.epsilon)
    return Amount(epsilon=max(Fraction(pure, EPSILON_GRID), Fraction(concentrated)), delta=delta)
