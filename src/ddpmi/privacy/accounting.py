"""The privacy cost of releases: of one, of a history of them, and of one that samples its units.

Costs add up by basic composition (epsilon) and by zero-concentrated composition (rho); a ledger admits a release if either
sum is within its limit. Every number is exact. Costs are rounded up to their grid and limits are rounded down, in units of
``EPSILON_GRID`` (1e-12), ``RHO_GRID`` (1e-15) and ``DELTA_GRID`` (1e-18).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import TYPE_CHECKING

from ddpmi.errors import Hint, InputError
from ddpmi.privacy.budget import DELTA_GRID, EPSILON_GRID, Budget, exact_decimal, shortest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddpmi._typing import Number


RHO_GRID = 10**15
"""Rho is a whole number of ``1 / RHO_GRID``."""
RHO_CAP = 4 * 10**18
"""A rho of 4000 or more is stored as this number of units. No limit is as large, so such a rho is never admitted."""
SMALLEST_RATE = Fraction(1, 10**9)
"""The smallest sampling rate."""
#: More than the rounding errors of sixty digits add up to.
_MARGIN = Fraction(1, 10**30)
_LARGEST_RHO = 10**12
#: The largest epsilon of a sample.
_LARGEST_EPSILON = 10**6
#: Halvings of a bisection.
_STEPS = 100
#: The smallest epsilon of a budget, 1e-9, in grid units.
_SMALLEST_UNITS = 1000


@lru_cache(maxsize=4096)
def epsilon_for(rho: Fraction, delta: Fraction) -> Fraction:
    """Convert rho-zCDP to an epsilon at delta, rounded up to 1e-12.

    Corollary 13 of Canonne, Kamath and Steinke (2020), at the alpha that gives the smallest epsilon.

    Args:
        rho: Concentrated privacy loss, from 0 to 1e12.
        delta: Failure probability, from 1e-18 to 1 - 1e-18.

    Returns:
        An epsilon such that every rho-zCDP mechanism is (epsilon, delta)-differentially private.

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
        # proof: composition.alpha, the root is between low and high
        low = min(loss / 2, (loss / (2 * r)).sqrt())
        high = min((loss / r).sqrt(), loss.exp())
        u = _bisect(lambda x: r * x * x + (1 + x).ln() > loss, low, high)
        # proof: composition.conversion, valid at every alpha
        epsilon = (1 + u) * r + (u / (1 + u)).ln() + (loss - (1 + u).ln()) / u
    # proof: composition.margin, it covers the rounding of the decimals
    return Fraction(max(0, ceil((Fraction(epsilon) + _MARGIN) * EPSILON_GRID)), EPSILON_GRID)


def rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest rho on the grid of 1e-15 with ``epsilon_for(rho, delta) <= epsilon``.

    Args:
        epsilon: The epsilon to reach, at least 0.
        delta: The part of delta that the conversion uses: half of a release's delta.

    Returns:
        A rho above 0 and below 4000.

    Raises:
        InputError: Delta is 0, or epsilon is smaller than that of the smallest rho.

    >>> rho = rho_for(Fraction(1), Fraction(1, 2 * 10**7))
    >>> float(rho), float(epsilon_for(rho, Fraction(1, 2 * 10**7)))
    (0.019189769875072, 1.0)
    """
    units = _rho_units(epsilon, delta)
    if units == 0:
        raise InputError(
            f"epsilon={float(epsilon):g} at delta={float(delta):g} is too small for Gaussian noise.",
            hint=Hint(
                do="raise epsilon to 1e-6 or more, or choose Laplace noise",
                python="mechanism='laplace'",
                cli="--mechanism laplace",
            ),
        )
    return Fraction(units, RHO_GRID)


@lru_cache(maxsize=4096)
def _rho_units(epsilon: Fraction, delta: Fraction) -> int:
    """Return `rho_for` in grid units; 0 where no rho fits."""
    _check_delta(delta)
    epsilon = Fraction(floor(epsilon * EPSILON_GRID), EPSILON_GRID)
    if epsilon <= 0:
        return 0
    with localcontext(_context()):
        e, loss = _decimal(epsilon), -_decimal(delta).ln()

        def below(u: Decimal) -> bool:
            return (loss - (1 + u).ln()) * (1 + 2 * u) / (u * u) + (u / (1 + u)).ln() < e

        # proof: composition.inverse, it falls from above epsilon to below 0
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
            hint=Hint(
                do="Gaussian noise needs a delta",
                python="Budget(epsilon=1, delta=1e-7), or mechanism='laplace'",
                cli="--epsilon 1 --delta 1e-7, or --mechanism laplace",
            ),
        )


def _context() -> Context:
    """Return an arithmetic of sixty digits that rounds the same on every machine; a power below 1e-9999 is 0."""
    return Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _bisect(holds: Callable[[Decimal], bool], low: Decimal, high: Decimal) -> Decimal:
    """Find where a condition becomes true between two positive numbers, by halving their ratio."""
    for _ in range(_STEPS):
        middle = (low * high).sqrt()
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one release.

    >>> Cost.of_laplace([Fraction(1, 2)]) + Cost.of_gaussian(Fraction(1, 10), Fraction(1, 10**7))
    Cost(epsilon=None, rho=Fraction(9, 40), delta=Fraction(1, 10000000))
    """

    epsilon: Fraction | None
    """Sum of the epsilons of its queries; None if one of them has no pure epsilon."""
    rho: Fraction
    """Sum of the concentrated losses of its queries."""
    delta: Fraction
    """Sum of the deltas of its thresholds, or all of the delta of a sampled release. A conversion from rho is not included."""

    def __post_init__(self) -> None:
        numbers = {"epsilon": self.epsilon or Fraction(0), "rho": self.rho, "delta": self.delta}
        for name, number in numbers.items():
            if not isinstance(number, Fraction) or number < 0:
                raise InputError(
                    f"a cost consists of fractions of at least 0, got {name}={number!r}.",
                    hint="Cost.of_laplace([Fraction(1)]) or Cost.of_gaussian(Fraction(1, 10), delta)",
                )

    @classmethod
    def of_laplace(cls, epsilons: Iterable[Number], delta: Number = 0) -> Cost:
        """Return the cost of pure queries: epsilons add up, and each query has rho = epsilon^2/2.

        >>> Cost.of_laplace([1]).rho
        Fraction(1, 2)
        """
        exact = [exact_decimal(epsilon, "epsilon") for epsilon in epsilons]
        # proof: composition.pure-rho, epsilon^2/2 for each query
        rho = sum((epsilon * epsilon / 2 for epsilon in exact), Fraction(0))
        return cls(epsilon=sum(exact, Fraction(0)), rho=rho, delta=exact_decimal(delta, "delta"))

    @classmethod
    def of_gaussian(cls, rho: Number, delta: Number = 0) -> Cost:
        """Return the cost of concentrated queries, given the sum of their rhos.

        >>> Cost.of_gaussian("0.02", "5e-8").epsilon is None
        True
        """
        return cls(epsilon=None, rho=exact_decimal(rho, "rho"), delta=exact_decimal(delta, "delta"))

    def __add__(self, other: Cost) -> Cost:
        pure = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Cost(epsilon=pure, rho=self.rho + other.rho, delta=self.delta + other.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most that all releases of one dataset may cost, in grid units. It is rounded down when the ledger is created.

    >>> Limit.of(Budget(1, 1e-7))
    Limit(epsilon=1000000000000, rho=19189769875072, delta=50000000000)
    """

    epsilon: int
    """Largest sum of epsilons while every entry is pure."""
    rho: int
    """Largest sum of rhos: it converts to epsilon at half of the delta; 0 where delta is 0."""
    delta: int
    """Largest sum of threshold deltas: the other half of the delta."""

    @classmethod
    def of(cls, budget: Budget) -> Limit:
        """Compute the limit of a budget."""
        half = budget.delta / 2
        return cls(
            epsilon=floor(budget.epsilon * EPSILON_GRID),
            rho=_rho_units(budget.epsilon, half) if half else 0,
            delta=floor(half * DELTA_GRID),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The cost of all releases so far, in grid units. The cost of each release is rounded up.

    >>> Total().plus(Cost.of_laplace(["0.1"]))
    Total(epsilon=100000000000, rho=5000000000000, delta=0)
    """

    epsilon: int | None = 0
    """Sum of epsilons; None if a release has no pure epsilon."""
    rho: int = 0
    """Sum of rhos, at most ``RHO_CAP``."""
    delta: int = 0
    """Sum of threshold deltas."""

    @classmethod
    def of(cls, cost: Cost) -> Total:
        """Round one cost up to the grid."""
        # proof: composition.rounding, costs are rounded up
        return cls(
            epsilon=None if cost.epsilon is None else ceil(cost.epsilon * EPSILON_GRID),
            rho=min(ceil(cost.rho * RHO_GRID), RHO_CAP),
            delta=ceil(cost.delta * DELTA_GRID),
        )

    def plus(self, cost: Cost) -> Total:
        """Return the total after one more release."""
        new = Total.of(cost)
        pure = None if self.epsilon is None or new.epsilon is None else self.epsilon + new.epsilon
        return Total(epsilon=pure, rho=min(self.rho + new.rho, RHO_CAP), delta=self.delta + new.delta)


def admits(limit: Limit, total: Total, cost: Cost) -> bool:
    """Decide whether one more release is within the limit.

    Args:
        limit: The limit of the ledger.
        total: The cost of all releases before.
        cost: The cost of the release.

    Returns:
        True if the sum of threshold deltas is within the limit, and so is the sum of rhos or the sum of pure epsilons.

    >>> limit = Limit.of(Budget(1))
    >>> admits(limit, Total(), Cost.of_laplace([1])), admits(limit, Total(), Cost.of_laplace(["1.1"]))
    (True, False)
    """
    after = total.plus(cost)
    # proof: composition.rule, it compares totals, not increments
    pure = after.epsilon is not None and after.epsilon <= limit.epsilon
    return after.delta <= limit.delta and (after.rho <= limit.rho or pure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """An (epsilon, delta) that was spent or is left. Unlike those of a budget, both may be 0.

    >>> Amount(epsilon=Fraction(1, 2), delta=Fraction(0)).to_dict()
    {'epsilon': 0.5, 'delta': 0.0}
    """

    epsilon: Fraction
    """Privacy loss, at least 0."""
    delta: Fraction
    """Failure probability, at least 0."""

    def to_dict(self) -> dict[str, float]:
        """Return both numbers as floats, for JSON."""
        return {"epsilon": float(self.epsilon), "delta": float(self.delta)}


def spent(limit: Limit, total: Total) -> Amount:
    """Return an (epsilon, delta) that all releases so far satisfy together, rounded up.

    Two such guarantees hold: the sum of pure epsilons with the sum of threshold deltas, and the converted sum of rhos with
    half of the limit's delta added. The one with the smaller epsilon is returned.

    >>> limit = Limit.of(Budget(4, 1e-6))
    >>> spent(limit, Total().plus(Cost.of_laplace([1], 1e-8))).to_dict()
    {'epsilon': 1.0, 'delta': 1e-08}
    """
    delta = Fraction(total.delta, DELTA_GRID)
    valid = [] if total.epsilon is None else [Amount(epsilon=Fraction(total.epsilon, EPSILON_GRID), delta=delta)]
    if total.rho == 0:
        valid.append(Amount(epsilon=Fraction(0), delta=delta))
    elif limit.delta and total.rho < RHO_CAP:
        half = Fraction(limit.delta, DELTA_GRID)
        # proof: composition.spent, both guarantees hold
        valid.append(Amount(epsilon=epsilon_for(Fraction(total.rho, RHO_GRID), half), delta=half + delta))
    return min(valid, key=lambda amount: (amount.epsilon, amount.delta))


def room(limit: Limit, total: Total, cost: Cost, guarantee: Budget | Amount) -> Amount:
    """Return the largest (epsilon, delta) of a release of the same kind that would still be admitted.

    Args:
        limit: The limit of the ledger.
        total: The cost of all releases so far.
        cost: The cost of the release in question.
        guarantee: The epsilon and delta of that release.

    Returns:
        What is left for it, never more than the limit. A release that is refused has a larger epsilon or a larger delta.

    >>> room(Limit.of(Budget(1, 1e-6)), Total(), Cost.of_laplace([2]), Budget(2)).to_dict()
    {'epsilon': 1.0, 'delta': 1e-06}
    """
    per_threshold = guarantee.delta / cost.delta if cost.delta else Fraction(2)
    threshold = Fraction(max(0, limit.delta - total.delta), DELTA_GRID)
    delta = min(per_threshold * threshold, Fraction(2 * limit.delta, DELTA_GRID))
    fitting = Cost(epsilon=cost.epsilon, rho=cost.rho, delta=min(cost.delta, threshold))
    asked = Amount(epsilon=guarantee.epsilon, delta=min(guarantee.delta, delta))
    return Amount(epsilon=largest_epsilon(limit, total, fitting, asked), delta=delta)


def largest_epsilon(
    limit: Limit, total: Total, cost: Cost, guarantee: Budget | Amount, *, releases: int = 1
) -> Fraction:
    """Return the largest epsilon of releases of one kind that are all admitted, at the same delta.

    Args:
        limit: The limit of the ledger.
        total: The cost of all releases so far.
        cost: The cost of one release of this kind.
        guarantee: The epsilon and delta of that release.
        releases: How many of them.

    Returns:
        An epsilon from 1e-9 to that of the limit; 0 if none fits.

    >>> limit = Limit.of(Budget(1, 1e-6))
    >>> float(largest_epsilon(limit, Total(), Cost.of_laplace([2]), Budget(2), releases=4))
    0.25
    """

    def fits(units: int) -> bool:
        epsilon = Fraction(units, EPSILON_GRID)
        if cost.epsilon is None:
            rho = Fraction(_rho_units(epsilon, guarantee.delta / 2), RHO_GRID)
            one = Total.of(Cost.of_gaussian(rho, cost.delta))
            return rho > 0 and _admits_all(limit, total, one, releases)
        # Scaling the noise of all queries by one factor divides rho by the square of it.
        factor = epsilon / guarantee.epsilon
        scaled = Cost(epsilon=cost.epsilon * factor, rho=cost.rho * factor * factor, delta=cost.delta)
        return _admits_all(limit, total, Total.of(scaled), releases)

    if cost.epsilon is None:
        found = _gaussian_units(limit, total, guarantee.delta / 2, releases)
        # The conversion is rounded up, so one unit less may be what fits.
        found = next((units for units in (found, found - 1) if units >= _SMALLEST_UNITS and fits(units)), 0)
    else:
        found, above = 0, limit.epsilon + 1
        while above - found > 1:
            middle = (found + above) // 2
            found, above = (middle, above) if fits(middle) else (found, middle)
    return Fraction(found if found >= _SMALLEST_UNITS else 0, EPSILON_GRID)


def _gaussian_units(limit: Limit, total: Total, half: Fraction, releases: int) -> int:
    """Return the epsilon of an equal part of the rho that is left, at most that of the limit, in grid units."""
    each = (limit.rho - total.rho) // releases
    if each <= 0 or half * DELTA_GRID < 1:
        return 0
    return min(limit.epsilon, ceil(epsilon_for(Fraction(each, RHO_GRID), half) * EPSILON_GRID))


def _admits_all(limit: Limit, total: Total, one: Total, releases: int) -> bool:
    """Decide whether several releases of the same rounded cost are within the limit."""
    pure = None if total.epsilon is None or one.epsilon is None else total.epsilon + releases * one.epsilon
    rho = min(total.rho + releases * one.rho, RHO_CAP)
    after = Total(epsilon=pure, rho=rho, delta=total.delta + releases * one.delta)
    return admits(limit, after, Cost.of_laplace([]))


def checked_rate(rate: object) -> Fraction | None:
    """Read a sampling rate exactly; None means that every unit is counted.

    Raises:
        InputError: It is not between 1e-9 and 1.

    >>> checked_rate(0.1), checked_rate(None)
    (Fraction(1, 10), None)
    """
    if rate is None:
        return None
    exact = exact_decimal(rate, "sample_rate")
    if not SMALLEST_RATE <= exact < 1:
        raise InputError(
            f"sample_rate must be at least 1e-9 and below 1, got sample_rate={rate}.",
            hint=Hint.setting("sample_rate", 0.1, ", or leave it out to count every unit"),
        )
    return exact


def amplified_epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Return ln(1 + r(e^epsilon - 1)), the epsilon of a release that samples units at rate r, rounded up to 1e-12.

    >>> float(amplified_epsilon(Fraction(1), Fraction(1, 10)))
    0.158565078741
    """
    # proof: amplification.rounding
    with localcontext(_context()):
        e, r = _decimal(epsilon), _decimal(rate)
        # ln(1 + r(e^eps - 1)) = eps + ln(r + (1 - r) e^-eps), which does not overflow.
        found = Fraction(e + (r + (1 - r) * (-e).exp()).ln())
    return Fraction(ceil((found + _MARGIN) * EPSILON_GRID), EPSILON_GRID)


def inner_budget(budget: Budget, rate: Fraction) -> Budget:
    """Find the budget for the noise of a sample, such that the whole release stays within a given budget.

    Args:
        budget: The guarantee of the whole release.
        rate: The probability that a unit takes part.

    Returns:
        The largest budget on the grid whose amplified epsilon and delta are at most the given ones.

    Raises:
        InputError: Delta divided by the rate is not below 1.

    >>> inner_budget(Budget(1, 1e-7), Fraction(1, 10))
    Budget(epsilon=2.900477097889, delta=1e-06)
    """
    delta = budget.delta / rate
    if delta >= 1:
        raise InputError(
            f"sample_rate={shortest(rate)} is too small for delta={shortest(budget.delta)}: the sample's delta would reach 1.",
            hint=Hint(python="raise sample_rate or lower delta", cli="raise --sample-rate or lower --delta"),
        )
    # proof: amplification.rounding
    with localcontext(_context()):
        e, r = _decimal(budget.epsilon), _decimal(rate)
        solved = Fraction(e + (1 / r - (1 / r - 1) * (-e).exp()).ln())
    units = min(floor((solved - _MARGIN) * EPSILON_GRID), _LARGEST_EPSILON * EPSILON_GRID)
    while amplified_epsilon(Fraction(units, EPSILON_GRID), rate) > budget.epsilon:
        units -= 1
    return Budget(Fraction(units, EPSILON_GRID), delta)


def amplified_cost(budget: Budget, *, pure: bool) -> Cost:
    """Return the cost of a sampled release: its epsilon as a pure one, and all of its delta.

    Args:
        budget: The amplified guarantee.
        pure: Whether the release needs no delta.

    >>> amplified_cost(Budget(1, 1e-7), pure=False)
    Cost(epsilon=Fraction(1, 1), rho=Fraction(1, 2), delta=Fraction(1, 10000000))
    """
    # proof: amplification.cost
    return Cost.of_laplace([budget.epsilon], 0 if pure else budget.delta)


def coin_bound(rate: Fraction) -> int:
    """Return floor(r 2^64): a unit takes part if its random 64-bit word is below it.

    >>> coin_bound(Fraction(1, 2)) == 2**63
    True
    """
    # proof: amplification.coin
    return floor(rate * 2**64)
