"""Expansions: each round is charged, starts from what was released, and ends where nothing new or no budget is left.

The data has 4,000 units with features of their own group and noise of a few units: no chance decides (below 1e-9).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import ddpmi
from ddpmi import Bounds, Budget, BudgetExceeded, EngineError, InputError, Ledger
from ddpmi.applications.expansion import Round, expand
from ddpmi.curator import door
from tests.support.drinks import PLAN, states, table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "test.ledger", limit=Budget(8, 1e-4))


def test_expansion_goes_from_one_feature_to_the_next(ledger: Ledger, tmp_path: Path) -> None:
    """Each round finds what goes with all that was found before, is charged, and is stored."""
    found = expand(
        ddpmi.observe(table()), seed="tea", plan=PLAN, ledger=ledger, rounds=2, top=1, to=tmp_path / "rounds"
    )
    assert (found.seed, found.features, found.stopped) == (("tea",), ("milk", "honey"), "rounds")
    assert [r.seed for r in found.rounds] == [("tea",), ("tea", "milk")]
    assert states(ledger) == ["released", "released"]
    stored = ddpmi.Release.load(tmp_path / "rounds" / "round-2")
    assert stored.release_id == found.rounds[1].release.release_id
    assert stored.plan.public_labels == ("rest", "seed")
    assert [(row["round"], row["feature"], row["direction"]) for row in found.rounds[0].rows()] == [
        (1, "milk", "presence")
    ]


def test_expansion_ends_where_nothing_new_is_found(ledger: Ledger) -> None:
    """A seed that nobody shows sets nobody apart: one round is charged, no second."""
    found = expand(ddpmi.observe(table()), seed="nobody", plan=PLAN, ledger=ledger, rounds=5, top=1)
    assert (found.features, found.stopped, states(ledger)) == ((), "novelty", ["released"])


def test_expansion_ends_where_the_budget_ends(tmp_path: Path) -> None:
    """A refusal between rounds keeps what was found; a refusal of the first is an error."""
    ledger = Ledger(tmp_path / "small.ledger", limit=PLAN.budget)
    given = {"seed": "tea", "plan": PLAN, "ledger": ledger, "rounds": 9, "top": 1}
    found = expand(ddpmi.observe(table()), **given)
    assert (found.features, found.stopped) == (("milk",), "budget")
    assert found.refusal is not None
    assert found.refusal.startswith("this release needs epsilon=2")
    with pytest.raises(BudgetExceeded):
        expand(ddpmi.observe(table()), **given)
    assert states(ledger) == ["released"]


def test_expansion_replaces_a_label(ledger: Ledger) -> None:
    """A column of labels does not matter."""
    obs = ddpmi.observe(table(), label="home")
    assert expand(obs, seed=["tea"], plan=PLAN, ledger=ledger, top=1).features == ("milk",)


@pytest.mark.parametrize(
    "given",
    [
        {"rounds": 0},
        {"top": 0},
        {"top": True},
        {"top": 10**20},
        {"rounds": 10**20},
        {"seed": []},
        {"plan": replace(PLAN, bounds=Bounds(pairs=4, labels=2))},
        {"plan": replace(PLAN, public_labels=("a", "b"))},
        {"plan": ddpmi.AutoPlan.of(epsilon=1, delta=1e-6)},
        {"to": "no/such/folder"},
    ],
)
def test_expansion_refuses_before_it_charges(given: dict[str, object], ledger: Ledger) -> None:
    """What cannot run costs nothing."""
    with pytest.raises(InputError, match="Hint:"):
        expand(ddpmi.observe(table(4)), **({"seed": "tea", "plan": PLAN, "ledger": ledger} | given))
    assert states(ledger) == []


def test_rounds_are_reported_even_if_a_later_one_fails(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """`on_round` gets each round that was charged and drawn; the failure of the next is raised."""
    done: list[Round] = []

    def then_break(found: Round) -> None:
        done.append(found)
        monkeypatch.setattr(door, "measure", broken)

    def broken(*_: object) -> None:
        raise EngineError("broken on purpose")

    with pytest.raises(EngineError, match="on purpose"):
        expand(ddpmi.observe(table()), seed="tea", plan=PLAN, ledger=ledger, rounds=2, top=1, on_round=then_break)
    assert [found.found for found in done] == [("milk",)]
    assert len(states(ledger)) == 2
