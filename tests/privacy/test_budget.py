"""Budgets are exact, and refuse what is not a budget."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpmi.errors import DdpmiError, InputError
from ddpmi.privacy.budget import Budget, exact_decimal, shortest

EPSILONS = st.fractions(min_value=Fraction(1, 1000), max_value=1000)
DELTAS = st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(1, 10))


@pytest.mark.parametrize("tenth", [0.1, "0.1", "1/10", Decimal("0.1"), Fraction(1, 10), np.float64(0.1)])
def test_a_tenth_is_a_tenth_however_it_is_written(tenth: Any) -> None:
    """A float means its shortest decimal, like the text and the fraction."""
    assert Budget(tenth, tenth).epsilon == Budget(tenth, tenth).delta == Fraction(1, 10)


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3), 3.0, "3", "3.0"])
def test_whole_numbers_are_read_from_every_integer_type(number: Any) -> None:
    """NumPy's integers are as good as Python's."""
    assert Fraction(3) == exact_decimal(number, "pairs")


@pytest.mark.parametrize(
    "epsilon",
    [
        *[0, -1, -0.0, 5e-324, 1e-10, 1.1e6, float("nan"), float("inf"), -float("inf"), True, None, [1], 1j],
        *["", "one", b"1", "nan", "1e999999999", "1e-999999999", "1/0", "1" * 9999],
        *[np.float32(0.5), Decimal("sNaN")],
    ],
)
def test_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    """Zero, negative, subnormal, huge, NaN, infinite and foreign values give an InputError with a hint."""
    with pytest.raises(InputError, match="epsilon") as caught:
        Budget(epsilon, 1e-7)
    assert caught.value.hint


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, 1e-18, 5e-324, float("nan"), float("inf"), False, None, "x"])
def test_what_is_no_delta_is_refused(delta: Any) -> None:
    """Delta is 0, or at least 2e-18 and below 1."""
    with pytest.raises(InputError, match="delta"):
        Budget(1, delta)


def test_errors_are_value_errors_of_this_package() -> None:
    """Callers may catch the builtin, the package's base, or the exact kind."""
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, DdpmiError)


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(1, 1e-7), "Budget(epsilon=1, delta=1e-07)"),
        (Budget(0.25), "Budget(epsilon=0.25, delta=0)"),
        (Budget(1e6, 2e-18), "Budget(epsilon=1000000, delta=2e-18)"),
    ],
)
def test_a_budget_prints_short_and_reads_back(budget: Budget, text: str) -> None:
    """The text shows small deltas, and is code that gives the same budget."""
    assert text == repr(budget)
    assert eval(text) == budget


def test_tenths_add_up_exactly() -> None:
    """Ten tenths are one, where floats would miss it."""
    total = sum([Budget(0.1, 1e-8)] * 9, Budget(0.1, 1e-8))
    assert total == Budget(1, 1e-7)
    assert hash(total) == hash(Budget(1, 1e-7))


def test_arithmetic_refuses_nonsense() -> None:
    """A budget is not divided by nothing, nor scaled to nothing, nor added to a number."""
    with pytest.raises(InputError, match="positive"):
        Budget(1) / 0
    with pytest.raises(InputError, match="epsilon"):
        Budget(1) * 0
    with pytest.raises(InputError, match="factor"):
        Budget(1) * float("nan")
    with pytest.raises(TypeError):
        Budget(1) + 1  # type: ignore[operator]


def test_a_budget_cannot_be_changed() -> None:
    """Its fields are frozen."""
    with pytest.raises(AttributeError):
        Budget(1).epsilon = Fraction(2)  # type: ignore[misc]


@given(EPSILONS, DELTAS)
def test_the_grid_only_ever_cuts_off(epsilon: Fraction, delta: Fraction) -> None:
    """A budget never promises less than was asked, by at most one grid step, and halves exactly."""
    budget = Budget(epsilon, delta)
    assert 0 <= epsilon - budget.epsilon < Fraction(1, 10**12)
    assert 0 <= delta - budget.delta < Fraction(2, 10**18)
    assert (budget.delta / 2 * 10**18).denominator == 1
    assert Budget(budget.epsilon, budget.delta) == budget


@given(EPSILONS, DELTAS, st.integers(1, 50))
def test_parts_never_exceed_the_whole(epsilon: Fraction, delta: Fraction, parts: int) -> None:
    """Dividing and multiplying back never gives more than there was."""
    budget = Budget(epsilon, delta)
    again = budget / parts * parts
    assert again.epsilon <= budget.epsilon
    assert again.delta <= budget.delta


@given(st.floats(min_value=1e-9, max_value=1e6))
def test_a_float_is_read_as_it_prints(number: float) -> None:
    """The fraction of a float is the decimal that Python prints for it."""
    assert Fraction(repr(number)) == exact_decimal(number, "clip")
    assert float(shortest(exact_decimal(number, "clip"))) == number


def test_to_dict_gives_plain_floats() -> None:
    """JSON gets numbers."""
    assert Budget("0.5", "1e-6").to_dict() == {"epsilon": 0.5, "delta": 1e-6}
