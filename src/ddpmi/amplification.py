"""What a release costs when each unit takes part by the toss of a coin that nobody sees.

An (epsilon, delta) release of a Poisson sample of the units is (ln(1 + r(e^epsilon - 1)), r delta) private. Budgets state the
second pair; the first, which the noise is made for, is solved here. Proofs: docs/proofs/amplification.md.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor

from ddpmi.accounting import Cost
from ddpmi.budget import EPSILON_GRID, Budget, exact_decimal, shortest
from ddpmi.errors import InputError

SMALLEST_RATE = Fraction(1, 10**9)
_LARGEST_EPSILON = 10**6
#: More than the rounding of sixty digits can come to.
_MARGIN = Fraction(1, 10**30)


def checked_rate(rate: object) -> Fraction | None:
    """Read a sampling rate exactly.

    Raises:
        InputError: It does not lie between 1e-9 and 1.

    >>> checked_rate(0.1), checked_rate(None)
    (Fraction(1, 10), None)
    """
    if rate is None:
        return None
    exact = exact_decimal(rate, "sample_rate")
    if not SMALLEST_RATE <= exact < 1:
        raise InputError(
            f"sample_rate must be at least 1e-9 and below 1, got sample_rate={rate}.",
            hint="sample_rate=0.1, or leave it out to count every unit",
        )
    return exact


def amplified_epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Give ln(1 + r(e^epsilon - 1)), rounded up to 1e-12.

    >>> float(amplified_epsilon(Fraction(1), Fraction(1, 10)))
    0.158565078741
    """
    # proof: amplification.rounding
    with localcontext(_context()):
        e, r = _decimal(epsilon), _decimal(rate)
        # ln(1 + r(e^eps - 1)) with e^eps taken out, so that nothing overflows.
        found = Fraction(e + (r + (1 - r) * (-e).exp()).ln())
    return Fraction(ceil((found + _MARGIN) * EPSILON_GRID), EPSILON_GRID)


def inner_budget(budget: Budget, rate: Fraction) -> Budget:
    """Find the guarantee that a release of the sample needs, so that the whole keeps within a budget.

    Args:
        budget: What the release may cost in all.
        rate: The probability that a unit takes part.

    Returns:
        The largest budget of the grid whose amplified epsilon and delta are at most the given ones.

    Raises:
        InputError: Delta divided by the rate is not below 1.

    >>> inner_budget(Budget(1, 1e-7), Fraction(1, 10))
    Budget(epsilon=2.900477097889, delta=1e-06)
    """
    delta = budget.delta / rate
    if delta >= 1:
        raise InputError(
            f"sample_rate={shortest(rate)} is too small for delta={shortest(budget.delta)}: the sample's delta would reach 1.",
            hint="raise sample_rate or lower delta",
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
    """Charge a sampled release: pure in epsilon, with all of its delta.

    Args:
        budget: The amplified guarantee.
        pure: Whether nothing in the release needs a delta.

    >>> amplified_cost(Budget(1, 1e-7), pure=False)
    Cost(epsilon=Fraction(1, 1), rho=Fraction(1, 2), delta=Fraction(1, 10000000))
    """
    # proof: amplification.cost
    return Cost.of_laplace([budget.epsilon], 0 if pure else budget.delta)


def coin_bound(rate: Fraction) -> int:
    """Give the number of 64-bit words for which a unit takes part: floor(r 2^64), below 2^64.

    >>> coin_bound(Fraction(1, 2)) == 2**63
    True
    """
    # proof: amplification.coin
    return floor(rate * 2**64)


def _context() -> Context:
    """Sixty digits, each operation rounded correctly; a power below 1e-9999 is 0."""
    return Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
