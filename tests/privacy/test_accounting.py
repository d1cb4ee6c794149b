"""Conversion and composition are never too small, and the ledger's rule is the one that was proven."""

from __future__ import annotations

import decimal
import warnings
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped,unused-ignore]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.errors import InputError
from ddpmi.privacy.accounting import (
    RHO_CAP,
    RHO_GRID,
    Amount,
    Cost,
    Limit,
    Total,
    admits,
    epsilon_for,
    rho_for,
    room,
    spent,
)
from ddpmi.privacy.budget import Budget

RHOS = st.integers(-60, 20).map(lambda tenth: Fraction(str(round(10 ** (tenth / 10), 15))))
DELTAS = st.integers(2, 17).map(lambda digits: Fraction(1, 10**digits))
EPSILONS = st.integers(1, 20_000).map(lambda thousandth: Fraction(thousandth, 1000))
COSTS = st.one_of(
    st.builds(
        Cost.of_laplace,
        st.lists(st.fractions(min_value=0, max_value=2), min_size=1, max_size=4),
        st.fractions(min_value=0, max_value=Fraction(1, 10**7)),
    ),
    st.builds(
        Cost.of_gaussian,
        st.fractions(min_value=0, max_value=Fraction(1, 10)),
        st.fractions(min_value=0, max_value=Fraction(1, 10**7)),
    ),
)
BUDGETS = st.builds(Budget, EPSILONS, st.one_of(st.just(Fraction(0)), DELTAS))


def best_delta(rho: Fraction, epsilon: Fraction) -> Any:
    """Corollary 13 as printed, minimised by golden section over ln(alpha - 1), with 40 digits."""
    with mpmath.workdps(40):
        r, e = (
            mpmath.mpf(rho.numerator) / rho.denominator,
            mpmath.mpf(epsilon.numerator) / epsilon.denominator,
        )

        def log_delta(x: Any) -> Any:
            a = 1 + mpmath.exp(x)
            return (a - 1) * (a * r - e) - mpmath.log(a - 1) + a * mpmath.log1p(-1 / a)

        low, high, golden = mpmath.mpf(-15), mpmath.mpf(25), (mpmath.sqrt(5) - 1) / 2
        for _ in range(120):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, right) if log_delta(left) < log_delta(right) else (left, high)
        return mpmath.exp(log_delta((low + high) / 2))


def dp_accounting() -> Any:
    """Import the oracle, whose own imports warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dp_accounting as oracle
        from dp_accounting import pld, rdp

    return oracle, rdp, pld


@settings(max_examples=60, deadline=None)
@given(RHOS, DELTAS)
def test_conversion_is_corollary_13_rounded_up(rho: Fraction, delta: Fraction) -> None:
    """The epsilon is enough for delta by an independent minimum, and one percent less is not."""
    epsilon = epsilon_for(rho, delta)
    wanted = mpmath.mpf(delta.numerator) / delta.denominator
    assert best_delta(rho, epsilon) <= wanted
    if epsilon > Fraction(1, 10**6):
        assert best_delta(rho, epsilon * Fraction(99, 100)) > wanted


@settings(max_examples=60, deadline=None)
@given(EPSILONS, DELTAS)
def test_rho_is_the_largest_that_converts(epsilon: Fraction, delta: Fraction) -> None:
    """The rho fits, and one grid step more does not."""
    rho = rho_for(epsilon, delta)
    assert (rho * RHO_GRID).denominator == 1
    assert epsilon_for(rho, delta) <= epsilon < epsilon_for(rho + Fraction(1, RHO_GRID), delta)


@settings(max_examples=60, deadline=None)
@given(RHOS, RHOS, DELTAS, DELTAS)
def test_conversion_is_monotone(rho: Fraction, other: Fraction, delta: Fraction, another: Fraction) -> None:
    """More rho or less delta never gives less epsilon."""
    worse = epsilon_for(max(rho, other), min(delta, another))
    assert epsilon_for(min(rho, other), max(delta, another)) <= worse


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 50), Fraction(1, 10), Fraction(1)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 10**9)])
def test_conversion_agrees_with_dp_accounting(rho: Fraction, delta: Fraction) -> None:
    """It is within 1% of the Renyi accountant on dense orders, and never below the exact Gaussian loss."""
    oracle, rdp, pld = dp_accounting()
    epsilon = float(epsilon_for(rho, delta))
    renyi = rdp.RdpAccountant(orders=[1 + 10 ** (step / 400) for step in range(-800, 2000)])
    renyi.compose(oracle.ZCDpEvent(float(rho)))
    assert epsilon == pytest.approx(renyi.get_epsilon(float(delta)), rel=0.01)
    exact = pld.PLDAccountant()
    exact.compose(oracle.GaussianDpEvent((1 / (2 * float(rho))) ** 0.5))
    assert exact.get_epsilon(float(delta)) <= epsilon


@pytest.mark.parametrize("count", [1, 5, 30])
def test_composition_is_never_below_the_privacy_loss_distribution(count: int) -> None:
    """What the ledger says was spent covers Gaussian and Laplace releases composed exactly."""
    oracle, _, pld = dp_accounting()
    gaussian, laplace = Cost.of_gaussian("0.002"), Cost.of_laplace(["0.05", "0.02"])
    limit, total, exact = Limit.of(Budget(4, 1e-6)), Total(), pld.PLDAccountant()
    for _ in range(count):
        total = total.plus(gaussian).plus(laplace)
    exact.compose(oracle.GaussianDpEvent((1 / 0.004) ** 0.5), count)
    exact.compose(oracle.LaplaceDpEvent(1 / 0.05), count)
    exact.compose(oracle.LaplaceDpEvent(1 / 0.02), count)
    used = spent(limit, total)
    assert exact.get_epsilon(float(used.delta)) <= float(used.epsilon)


def test_conversion_ignores_the_callers_decimal_context() -> None:
    """Another precision or rounding around the call changes no digit."""
    rho, delta = Fraction(1, 7), Fraction(1, 10**7)
    first = epsilon_for.__wrapped__(rho, delta)
    with decimal.localcontext(decimal.Context(prec=5, rounding=decimal.ROUND_DOWN)):
        assert first == epsilon_for.__wrapped__(rho, delta)


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    [
        ("0.01", "1e-6", "0.621692654560"),
        ("0.25", "1e-6", "3.542291300478"),
        ("3999", "1e-18", "4809.900539887536"),
        ("1e-15", "1e-18", "0.000000294135"),
    ],
)
def test_conversion_has_these_digits_on_every_machine(rho: str, delta: str, epsilon: str) -> None:
    """The digits are those of corollary 13 minimised with mpmath at 40 digits, rounded up."""
    assert Fraction(epsilon) == epsilon_for(Fraction(rho), Fraction(delta))


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(1, 10**19)])
def test_conversion_needs_a_delta(delta: Fraction) -> None:
    """Gaussian noise without a delta is refused."""
    with pytest.raises(InputError, match="delta"):
        epsilon_for(Fraction(1), delta)
    with pytest.raises(InputError, match="delta"):
        rho_for(Fraction(1), delta)


def test_conversion_at_its_ends() -> None:
    """No loss costs nothing, a rho out of range is refused, and so is an epsilon below the grid."""
    assert epsilon_for(Fraction(0), Fraction(1, 2)) == 0
    with pytest.raises(InputError, match="rho"):
        epsilon_for(Fraction(-1), Fraction(1, 2))
    with pytest.raises(InputError, match="too small"):
        rho_for(Fraction(1, 10**9), Fraction(1, 10**9))
    assert rho_for(Fraction(10**6), Fraction(1, 10**9)) == Fraction(RHO_CAP - 1, RHO_GRID)


def test_laplace_costs_both_ways() -> None:
    """Epsilons add, rho is the sum of half squares, and delta is the thresholds' alone."""
    expected = Cost(epsilon=Fraction(1), rho=Fraction(29, 100), delta=Fraction(1, 10**8))
    assert expected == Cost.of_laplace([0.7, "0.3"], 1e-8)


@given(COSTS, COSTS)
def test_costs_add(one: Cost, other: Cost) -> None:
    """A sum is pure only where both are."""
    both = one + other
    assert both.rho == one.rho + other.rho
    assert both.delta == one.delta + other.delta
    assert (both.epsilon is None) == (one.epsilon is None or other.epsilon is None)


@pytest.mark.parametrize("rho", [Fraction(-1), 0.5])
def test_a_cost_is_made_of_fractions(rho: Any) -> None:
    """Floats and negative numbers never enter a cost."""
    with pytest.raises(InputError, match="rho"):
        Cost(epsilon=None, rho=rho, delta=Fraction(0))


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(min_value=Fraction(1, 100), max_value=50),
    st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(1, 2)),
)
def test_a_release_as_large_as_the_limit_fits(epsilon: Fraction, delta: Fraction) -> None:
    """An empty ledger admits its own limit, by Gaussian and by Laplace noise, and nothing after it."""
    budget = Budget(epsilon, delta)
    limit, half = Limit.of(budget), budget.delta / 2
    shares = [Fraction(70, 100), Fraction(23, 100), Fraction(6, 100), Fraction(1, 100)]
    for cost in (
        Cost.of_gaussian(rho_for(budget.epsilon, half), half),
        Cost.of_laplace([share * budget.epsilon for share in shares], half),
    ):
        assert admits(limit, Total(), cost)
        assert not admits(limit, Total().plus(cost), Cost.of_laplace([], Fraction(1, 10**18)))
        used = spent(limit, Total().plus(cost))
        assert used.epsilon <= budget.epsilon
        assert used.delta <= budget.delta


@settings(max_examples=100, deadline=None)
@given(BUDGETS, st.lists(COSTS, max_size=12))
def test_the_rule_against_exact_fractions(budget: Budget, costs: list[Cost]) -> None:
    """What is admitted fits exactly, what is refused misses by rounding at most, and spent stays below."""
    limit, total, kept = Limit.of(budget), Total(), Cost.of_laplace([])
    rho_limit = Fraction(limit.rho, RHO_GRID)
    for cost in costs:
        after = kept + cost
        fits = after.delta <= budget.delta / 2 and (
            after.rho <= rho_limit or (after.epsilon is not None and after.epsilon <= budget.epsilon)
        )
        if admits(limit, total, cost):
            assert fits
            total, kept = total.plus(cost), after
            used = spent(limit, total)
            assert used.epsilon <= budget.epsilon
            assert used.delta <= budget.delta
        else:
            slack = Fraction(len(costs), 10**12)
            assert not (
                after.delta + slack / 10**6 <= budget.delta / 2
                and (
                    after.rho + slack / 1000 <= rho_limit
                    or (after.epsilon is not None and after.epsilon + slack <= budget.epsilon)
                )
            )


@settings(max_examples=100, deadline=None)
@given(BUDGETS, st.lists(COSTS, max_size=6), EPSILONS, DELTAS, st.sampled_from(["gaussian", "laplace"]))
def test_a_refusal_says_less_than_was_asked(
    budget: Budget, costs: list[Cost], epsilon: Fraction, delta: Fraction, mechanism: str
) -> None:
    """A release that is refused needs more epsilon or more delta than the message says is left."""
    limit, total = Limit.of(budget), Total()
    for cost in costs:
        total = total.plus(cost) if admits(limit, total, cost) else total
    asked = Budget(epsilon, delta)
    half = asked.delta / 2
    cost = Cost.of_laplace([epsilon], half)
    if mechanism == "gaussian":
        cost = Cost.of_gaussian(rho_for(asked.epsilon, half), half)
    left = room(limit, total, cost, asked)
    if not admits(limit, total, cost):
        nearly = Fraction(1, 10**9)
        assert left.epsilon < asked.epsilon + nearly or left.delta < asked.delta


def test_the_better_view_is_spent() -> None:
    """Few pure releases add as epsilons; many add as rho, with the conversion's half of delta."""
    limit, tenth = Limit.of(Budget(4, 1e-6)), Cost.of_laplace(["0.1"])
    few, many = Total().plus(tenth), Total()
    for _ in range(50):
        many = many.plus(tenth)
    assert spent(limit, few) == Amount(epsilon=Fraction(1, 10), delta=Fraction(0))
    converted = epsilon_for(Fraction(1, 4), Fraction(1, 2 * 10**6))
    assert spent(limit, many) == Amount(epsilon=converted, delta=Fraction(1, 2 * 10**6))
    assert converted < 5


def test_costs_are_rounded_up_and_limits_down() -> None:
    """A third of a grid step costs a whole one, each time; a limit gives no part of a step."""
    third = Cost(epsilon=Fraction(1, 3 * 10**12), rho=Fraction(1, 3 * 10**15), delta=Fraction(1, 3 * 10**18))
    assert Total().plus(third).plus(third) == Total(epsilon=2, rho=2, delta=2)
    limit = Limit.of(Budget(Fraction(1, 3), Fraction(1, 3)))
    assert (limit.epsilon, limit.delta) == (333_333_333_333, 166_666_666_666_666_666)


def test_spent_counts_thresholds_beside_the_conversion() -> None:
    """The delta of a concentrated history is the conversion's half and every threshold's part."""
    total = Total().plus(Cost.of_gaussian("0.01", "2e-7")).plus(Cost.of_gaussian("0.01", "1e-7"))
    assert spent(Limit.of(Budget(4, 1e-6)), total).delta == Fraction(8, 10**7)


def test_a_gaussian_release_closes_the_pure_branch() -> None:
    """Epsilons of pure entries may not be added beside a rho: the smaller of two per entry is no rule."""
    limit = Limit.of(Budget(1, 1e-6))
    gaussian = Cost.of_gaussian(Fraction(limit.rho, RHO_GRID) * Fraction(9, 10))
    laplace = Cost.of_laplace(["0.9"])
    assert admits(limit, Total(), laplace)
    assert admits(limit, Total(), gaussian)
    assert not admits(limit, Total().plus(gaussian), laplace)
    assert not admits(limit, Total().plus(laplace), gaussian)


def test_a_huge_rho_never_fits_as_rho() -> None:
    """A stored rho stops at the cap, which lies above every limit, so stopping is no discount."""
    limit, huge = Limit.of(Budget(10**6, 0.5)), Cost.of_laplace([1000])
    total = Total()
    for _ in range(1000):
        assert admits(limit, total, huge)
        total = total.plus(huge)
    assert total == Total(epsilon=10**18, rho=RHO_CAP, delta=0)
    assert not admits(limit, total, Cost.of_laplace([1]))
    assert not admits(limit, total, Cost.of_gaussian(1))
