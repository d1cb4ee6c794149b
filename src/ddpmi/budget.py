"""Privacy budgets as exact numbers.

A float means its shortest decimal: ``0.1`` is one tenth, so ten of them make exactly one.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeAlias

from ddpmi.errors import InputError

Number: TypeAlias = int | float | str | Decimal | Fraction

EPSILON_GRID = 10**12
"""Epsilon is a whole number of ``1 / EPSILON_GRID``."""
DELTA_GRID = 10**18
"""Delta is a whole, even number of ``1 / DELTA_GRID``: a release gives half of it to its thresholds."""
_LARGEST_EPSILON = 10**6
_SMALLEST_EPSILON = Fraction(1, 10**9)
_SMALLEST_DELTA = Fraction(2, DELTA_GRID)
_LARGEST_EXPONENT = 400
_EXAMPLE = "Budget(epsilon=1, delta=1e-7)"


def exact_decimal(value: Any, name: str) -> Fraction:
    """Read a number exactly, a float as its shortest decimal.

    Args:
        value: An int, float, str, Decimal or Fraction.
        name: What the number is called in an error.

    Returns:
        The number as a fraction.

    Raises:
        InputError: It is a bool, NaN, infinite, absurdly large or small, or no number at all.

    >>> exact_decimal(0.1, "clip"), exact_decimal("2.50", "clip")
    (Fraction(1, 10), Fraction(5, 2))
    """
    if not isinstance(value, bool) and isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float | str | Decimal):
        # float.__repr__ and not repr(): NumPy's doubles print their type.
        read = _read_text(float.__repr__(value) if isinstance(value, float) else str(value))
        if read is not None:
            return read
    raise InputError(
        f"{name} must be a finite number, got {name}={_shown(value)}.",
        hint=f"give {name} as a number such as 1, 0.5, or the text '0.1'.",
    )


def _read_text(text: str) -> Fraction | None:
    """Read a decimal or ``a/b``; None where the text is not a finite number of sane size."""
    try:
        if "/" in text:
            return Fraction(text)
        decimal = Decimal(text)
        # 10 ** 999999999 would fill the memory before any range check could refuse it.
        if not decimal.is_finite() or (decimal and abs(decimal.adjusted()) > _LARGEST_EXPONENT):
            return None
        return Fraction(decimal)
    except (ValueError, InvalidOperation, ZeroDivisionError):
        return None


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."  # noqa: PLR2004 - one line of a terminal


def shortest(value: Fraction) -> str:
    """Print a number in its shortest form that a float reads back.

    >>> shortest(Fraction(1)), shortest(Fraction(1, 10**7)), shortest(Fraction(1, 4))
    ('1', '1e-07', '0.25')
    """
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """A differential privacy guarantee, or a limit for many of them.

    Both numbers are exact fractions. Digits of epsilon beyond 1e-12 and of delta beyond 2e-18 are cut off
    (never rounded up), so that sums, halves and comparisons in a ledger are exact.

    >>> Budget(1, 1e-7)
    Budget(epsilon=1, delta=1e-07)
    >>> Budget(0.1) * 10 == Budget(1)
    True
    """

    epsilon: Fraction
    """Largest privacy loss, from 1e-9 to 1e6."""
    delta: Fraction
    """Probability mass where the loss may be larger: 0, or from 2e-18 to below 1."""

    def __init__(self, epsilon: Number, delta: Number = 0) -> None:
        exact_epsilon = exact_decimal(epsilon, "epsilon")
        exact_delta = exact_decimal(delta, "delta")
        if not _SMALLEST_EPSILON <= exact_epsilon <= _LARGEST_EPSILON:
            raise InputError(f"epsilon must be between 1e-9 and 1e6, got epsilon={_shown(epsilon)}.", hint=_EXAMPLE)
        if exact_delta != 0 and not _SMALLEST_DELTA <= exact_delta < 1:
            raise InputError(
                f"delta must be 0, or at least 2e-18 and below 1, got delta={_shown(delta)}.", hint=_EXAMPLE
            )
        # proof: composition.budget-grid, digits are cut off, never rounded up
        object.__setattr__(self, "epsilon", Fraction(int(exact_epsilon * EPSILON_GRID), EPSILON_GRID))
        object.__setattr__(self, "delta", 2 * Fraction(int(exact_delta / 2 * DELTA_GRID), DELTA_GRID))

    def __add__(self, other: Budget) -> Budget:
        """Compose two guarantees: epsilons and deltas add.

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
        """Give both numbers as floats, for JSON.

        >>> Budget(1, 1e-7).to_dict()
        {'epsilon': 1.0, 'delta': 1e-07}
        """
        return {"epsilon": float(self.epsilon), "delta": float(self.delta)}
