"""Privacy budgets, epsilon and delta, as exact numbers.

A float means its shortest decimal: ``0.1`` is exactly one tenth, and ten times ``0.1`` is exactly one.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any

from ddpmi.errors import Hint, InputError

if TYPE_CHECKING:
    from ddpmi._typing import Number

EPSILON_GRID = 10**12
"""Epsilon is a whole number of ``1 / EPSILON_GRID``."""
DELTA_GRID = 10**18
"""Delta is an even number of ``1 / DELTA_GRID``, because a release uses half of it for its thresholds."""
_LARGEST_EPSILON = 10**6
_SMALLEST_EPSILON = Fraction(1, 10**9)
_SMALLEST_DELTA = Fraction(2, DELTA_GRID)
_LARGEST_EXPONENT = 400
_EXAMPLE = Hint(python="Budget(epsilon=1, delta=1e-7)", cli="--epsilon 1 --delta 1e-7")


def exact_decimal(value: Any, name: str) -> Fraction:
    """Read a number exactly, a float as its shortest decimal.

    Args:
        value: An int, float, str, Decimal or Fraction.
        name: The parameter, for the error message.

    Returns:
        The number as a fraction.

    Raises:
        InputError: It is a bool, NaN, infinite, not a number, or of a size beyond 1e400 or 1e-400.

    >>> exact_decimal(0.1, "clip"), exact_decimal("2.50", "clip")
    (Fraction(1, 10), Fraction(5, 2))
    """
    if not isinstance(value, bool) and isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float | str | Decimal):
        # float.__repr__ instead of repr(), because repr() of a NumPy double contains its type.
        read = _read_text(float.__repr__(value) if isinstance(value, float) else str(value))
        if read is not None:
            return read
    raise InputError(
        f"{name} must be a finite number, got {name}={_shown(value)}.",
        hint=f"give {name} as a number such as 1, 0.5, or the text '0.1'.",
    )


def _read_text(text: str) -> Fraction | None:
    """Read a decimal or ``a/b``; None if the text is not a finite number or its exponent is too large."""
    try:
        if "/" in text:
            return Fraction(text)
        decimal = Decimal(text)
        # Fraction(Decimal("1e999999999")) would fill the memory before a range check could refuse it.
        if not decimal.is_finite() or (decimal and abs(decimal.adjusted()) > _LARGEST_EXPONENT):
            return None
        return Fraction(decimal)
    except (ValueError, InvalidOperation, ZeroDivisionError):
        return None


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."  # noqa: PLR2004 - it fits one line of a terminal


def shortest(value: Fraction) -> str:
    """Write a number as the shortest decimal of its float.

    >>> shortest(Fraction(1)), shortest(Fraction(1, 10**7)), shortest(Fraction(1, 4))
    ('1', '1e-07', '0.25')
    """
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """The guarantee of one release, or the limit of all releases of a dataset: epsilon and delta.

    Both numbers are exact fractions. Digits of epsilon beyond 1e-12 and of delta beyond 2e-18 are cut off, never
    rounded up. Sums, halves and comparisons in a ledger are therefore exact.

    >>> Budget(1, 1e-7)
    Budget(epsilon=1, delta=1e-07)
    >>> Budget(0.1) * 10 == Budget(1)
    True
    """

    epsilon: Fraction
    """Largest privacy loss, from 1e-9 to 1e6."""
    delta: Fraction
    """Probability with which the loss may be larger than epsilon: 0, or from 2e-18 to below 1."""

    def __init__(self, epsilon: Number, delta: Number = 0) -> None:
        exact_epsilon = exact_decimal(epsilon, "epsilon")
        exact_delta = exact_decimal(delta, "delta")
        if not _SMALLEST_EPSILON <= exact_epsilon <= _LARGEST_EPSILON:
            raise InputError(f"epsilon must be between 1e-9 and 1e6, got epsilon={_shown(epsilon)}.", hint=_EXAMPLE)
        if exact_delta != 0 and not _SMALLEST_DELTA <= exact_delta < 1:
            raise InputError(
                f"delta must be 0, or at least 2e-18 and below 1, got delta={_shown(delta)}.", hint=_EXAMPLE
            )
        # proof: composition.budget-grid, int() cuts digits off and never rounds up
        object.__setattr__(self, "epsilon", Fraction(int(exact_epsilon * EPSILON_GRID), EPSILON_GRID))
        object.__setattr__(self, "delta", 2 * Fraction(int(exact_delta / 2 * DELTA_GRID), DELTA_GRID))

    def __add__(self, other: Budget) -> Budget:
        """Compose two guarantees: epsilons and deltas add up.

        >>> Budget(1, 1e-7) + Budget(0.5)
        Budget(epsilon=1.5, delta=1e-07)
        """
        if not isinstance(other, Budget):
            return NotImplemented
        return Budget(self.epsilon + other.epsilon, self.delta + other.delta)

    def __mul__(self, times: Number) -> Budget:
        """Scale both numbers.

        >>> Budget(1, 1e-7) * 3
        Budget(epsilon=3, delta=3e-07)
        """
        factor = exact_decimal(times, "factor")
        return Budget(self.epsilon * factor, self.delta * factor)

    __rmul__ = __mul__

    def __truediv__(self, parts: Number) -> Budget:
        """Divide both numbers.

        >>> Budget(1, 1e-7) / 4
        Budget(epsilon=0.25, delta=2.5e-08)
        """
        divisor = exact_decimal(parts, "divisor")
        if divisor <= 0:
            raise InputError(f"a budget is divided by a positive number, got {_shown(parts)}.", hint="budget / 4")
        return Budget(self.epsilon / divisor, self.delta / divisor)

    def __repr__(self) -> str:
        return f"Budget(epsilon={shortest(self.epsilon)}, delta={shortest(self.delta)})"

    def to_dict(self) -> dict[str, float]:
        """Return both numbers as floats, for JSON.

        >>> Budget(1, 1e-7).to_dict()
        {'epsilon': 1.0, 'delta': 1e-07}
        """
        return {"epsilon": float(self.epsilon), "delta": float(self.delta)}
