"""Whose budget: a ledger may name its datasets and the largest release, and says what still fits."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ddpmi.errors import BudgetExceeded, InputError, LedgerError
from ddpmi.ledger.entries import HALF_OF_DELTA
from ddpmi.ledger.ledger import Charge, Ledger
from ddpmi.privacy.accounting import Cost, Limit, Total, admits, largest_epsilon, room
from ddpmi.privacy.budget import Budget
from tests.support.ledger_fixtures import gaussian, laplace

KINDS = {"laplace": laplace, "gaussian": lambda name, epsilon, *, delta: gaussian(name, epsilon, delta)}


def test_only_the_named_datasets_are_accepted(path: Path) -> None:
    """Another name is no new budget: it is refused before anything is written, with the names that are accepted."""
    ledger = Ledger(path, limit=Budget(1), datasets=["visits", "orders"])
    ledger.charge_many([laplace("a", dataset="visits")])
    before = path.read_bytes()
    for refused in (
        lambda: ledger.charge_many([laplace("b", dataset="orders"), laplace("c", dataset="mine2")]),
        lambda: ledger.status("mine2"),
        lambda: ledger.plan(2, dataset="mine2"),
    ):
        with pytest.raises(InputError, match="'visits', 'orders'"):
            refused()
    assert path.read_bytes() == before
    assert Ledger(path).terms.datasets == ("visits", "orders")
    assert ledger.status("orders").left.epsilon == 1


def test_a_release_may_be_no_larger_than_the_largest(path: Path) -> None:
    """The largest epsilon itself is accepted; a refusal names it, and is one of budget."""
    ledger = Ledger(path, limit=Budget(4), max_epsilon="0.5")
    ledger.charge_many([laplace("a", "0.5")])
    with pytest.raises(BudgetExceeded, match=r"at most epsilon=0\.5 for one release"):
        ledger.charge_many([laplace("b", "0.500001")])
    assert len(Ledger(path).status().entries) == 1


@pytest.mark.parametrize("given", [{"datasets": []}, {"datasets": "visits"}, {"datasets": ["a "]}, {"max_epsilon": 0}])
def test_terms_that_cannot_be_are_refused(path: Path, given: dict[str, Any]) -> None:
    """No ledger is made of them."""
    with pytest.raises(InputError):
        Ledger(path, limit=Budget(1), **given)
    assert not path.exists()


def test_terms_never_change(path: Path) -> None:
    """The same terms open the ledger again, in any order of names; others are refused."""
    Ledger(path, limit=Budget(1), datasets=["a", "b"], max_epsilon=1)
    assert Ledger(path, limit=Budget(1), datasets=["b", "a"], max_epsilon=1.0).terms.max_epsilon == 1
    assert Ledger(path).terms.datasets == ("a", "b")
    for other in ({"datasets": ["a"]}, {"max_epsilon": 2}):
        with pytest.raises(LedgerError, match="never changes"):
            Ledger(path, **other)


@pytest.mark.parametrize(
    "statement", ["'other', '', 0, 0, 0, 1", "'a' || char(10) || 'b', '', 0, 0, 0, 1", "'a', '', 0, 0, 0, 2e12"]
)
def test_the_file_guards_its_terms(path: Path, statement: str) -> None:
    """Plain SQL cannot add another dataset or a larger release."""
    Ledger(path, limit=Budget(4), datasets=["a", "b"], max_epsilon=1)
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="does not accept"):
        connection.execute(f"INSERT INTO charges VALUES (1, 'x', {statement}, 0, '', '', '', '', '', '')")


@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize(("releases", "delta"), [(1, None), (5, None), (52, None), (7, "1e-9"), (3, "1e-8")])
@pytest.mark.parametrize("history", ["none", "laplace", "gaussian"])
def test_what_is_planned_fits_and_no_more(tmp_path: Path, kind: str, releases: int, delta: Any, history: str) -> None:
    """As many releases as were planned are admitted at the epsilon that was named, and not at a slightly larger one."""
    for name, factor in (("fits", 1), ("too large", Fraction(1001, 1000))):
        ledger = Ledger(tmp_path / name, limit=Budget(2, 1e-6))
        if history != "none":
            ledger.charge_many([KINDS[history]("before", "0.4", delta=Fraction(1, 10**7))])
        found = ledger.plan(releases, delta=delta)
        epsilon = getattr(found, kind)
        assert 0 < epsilon <= 2
        charges = [KINDS[kind](str(number), epsilon * factor, delta=found.delta) for number in range(releases)]
        if factor == 1:
            ledger.charge_many(charges)
        # The limit itself is never exceeded, even where rho would allow a larger epsilon at a small delta.
        elif epsilon < 2:
            with pytest.raises(BudgetExceeded):
                ledger.charge_many(charges)


def test_a_plan_knows_when_nothing_fits(path: Path) -> None:
    """Without delta no Gaussian release fits, and after the whole limit none does."""
    ledger = Ledger(path, limit=Budget(1), max_epsilon="0.125")
    assert (ledger.plan(2).gaussian, ledger.plan(2).laplace, ledger.plan(2).delta) == (
        Fraction(0),
        Fraction(1, 8),
        Fraction(0),
    )
    ledger.charge_many([laplace(str(number), "0.125") for number in range(8)])
    assert ledger.plan(1).laplace == 0
    for wrong in (0, -1, 1.5, True, 10**9):
        with pytest.raises(InputError, match="releases"):
            ledger.plan(wrong)  # type: ignore[arg-type]


def refusal(ledger: Ledger, *charges: Charge) -> str:
    """The whole text of a refusal."""
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge_many(charges)
    return str(caught.value)


def test_a_refusal_never_says_that_more_is_left_than_the_limit(path: Path) -> None:
    """Limit 1 and a Gaussian release with a smaller delta: 1.12073 was printed; now 1, and what is named fits."""
    ledger = Ledger(path, limit=Budget(1, 1e-6))
    said = refusal(ledger, gaussian("a", 2, 1e-7))
    assert "visits.ledger has epsilon=1, delta=1e-06 left" in said
    assert "what fits is epsilon=1 at delta=1e-07" in said
    ledger.charge_many([gaussian("a", 1, 1e-7)])
    said = refusal(ledger, gaussian("b", 1, 1e-7))
    fitting = said.split("what fits is epsilon=")[1].split(" ")[0]
    assert f"has epsilon={fitting}," in said
    ledger.charge_many([gaussian("b", fitting, 1e-7)])


def test_a_refusal_says_when_delta_is_the_reason(path: Path) -> None:
    """It names the delta that fits, or that none does, and why half of delta goes at the first release."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    ledger.charge_many([gaussian("a", 1, 9e-7)])
    said = refusal(ledger, gaussian("b", "0.1", 2e-7))
    assert ("a delta of at most 1e-07 fits" in said, HALF_OF_DELTA in said) == (True, True)
    ledger.charge_many([gaussian("b", "0.1", 1e-7)])
    said = refusal(ledger, laplace("c", "0.01", delta=Fraction(1, 10**8)))
    assert ("nothing fits, delta is used up" in said, HALF_OF_DELTA in said) == (True, True)


def test_a_refusal_says_when_epsilon_is_used_up(path: Path) -> None:
    """There is nothing smaller to ask for; several releases alike are told what each may have."""
    ledger = Ledger(path, limit=Budget(1))
    assert "each with epsilon=0.25 at delta=0" in refusal(ledger, *(laplace(name, "0.4") for name in "abcd"))
    assert "lower their epsilons" in refusal(ledger, laplace("a", "0.9"), laplace("b", "0.4"))
    ledger.charge_many([laplace("a", 1)])
    assert "epsilon is used up" in refusal(ledger, laplace("b", "0.1"))


def test_what_is_left_is_within_the_limit_and_fits() -> None:
    """For random limits, histories and releases: what is said to be left is admitted, and at most the limit."""
    moves = random.Random(20)
    for _ in range(150):
        budget = Budget(Fraction(moves.randint(1, 40), 10), Fraction(moves.randint(0, 20), 10**7))
        limit, total = Limit.of(budget), Total()
        for _ in range(moves.randrange(4)):
            pure = moves.random() < 0.5 or not budget.delta
            new = Cost.of_laplace([Fraction(moves.randint(1, 9), 20)]) if pure else Cost.of_gaussian("0.001", "1e-8")
            total = total.plus(new) if admits(limit, total, new) else total
        asked = Budget(Fraction(moves.randint(1, 80), 10), Fraction(moves.randint(2, 40), 10**7))
        kind = moves.choice([*KINDS])
        cost = KINDS[kind]("a", asked.epsilon, delta=asked.delta).cost
        left = room(limit, total, cost, asked)
        assert (0 <= left.epsilon <= budget.epsilon, 0 <= left.delta <= budget.delta) == (True, True)
        most = largest_epsilon(limit, total, cost, asked)
        assert most == 0 or admits(limit, total, KINDS[kind]("b", most, delta=asked.delta).cost)
        assert admits(limit, total, cost) <= (most >= min(asked.epsilon, budget.epsilon))
