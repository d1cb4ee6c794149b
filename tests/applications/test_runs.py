"""One call from data to a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ddpmi
from ddpmi import Budget, InputError, Ledger
from tests.support.release_fixtures import states, two_groups

if TYPE_CHECKING:
    from pathlib import Path


def test_one_call_releases_and_ranks(tmp_path: Path) -> None:
    """The ledger may be a path; a look chooses the bounds; what was planted comes first."""
    path = tmp_path / "visits.ledger"
    ledger = Ledger(path, limit=Budget(20, 1e-5))
    ranking = ddpmi.run(two_groups(4000), epsilon=4, ledger=path, to=tmp_path / "a.release")
    best = ranking.top(1, direction="presence").to_dicts()
    assert {(row["label"], row["feature"]) for row in best} == {("a", "own-a"), ("b", "own-b")}
    assert (ranking.guarantee["epsilon"], ranking.guarantee["delta"]) == (4, 1e-8)
    assert states(ledger) == ["released", "released"]
    assert ddpmi.rank(tmp_path / "a.release").to_dicts() == ranking.to_dicts()


def test_known_bounds_need_no_look(tmp_path: Path) -> None:
    """With pairs, or one row per unit, there is one charge."""
    ledger = Ledger(tmp_path / "visits.ledger", limit=Budget(20, 1e-5))
    ddpmi.run(two_groups(400), epsilon=1, pairs=3, cap=5, ledger=ledger)
    ddpmi.run(two_groups(400), epsilon=1, distinct="units", ledger=ledger)
    assert states(ledger) == ["released", "released"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ledger": "visits.ledger"}, "Epsilon, how much privacy"),
        ({"epsilon": 1}, "The ledger is missing"),
        ({"epsilon": 1, "ledger": "visits.ledger", "unit": "who"}, "no column 'who'"),
        ({"epsilon": 1, "ledger": "visits.ledger", "cap": 3}, "cap was given without pairs"),
        ({"epsilon": 1, "ledger": "visits.ledger", "value": "unit"}, "clip|numbers"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, given: dict[str, object], said: str) -> None:
    """The error comes before anything is charged, and shows a call."""
    Ledger(tmp_path / "visits.ledger", limit=Budget(1, 1e-6))
    if "ledger" in given:
        given = given | {"ledger": tmp_path / "visits.ledger"}
    with pytest.raises(InputError, match=said):
        ddpmi.run(two_groups(10), **given)
    assert states(Ledger(tmp_path / "visits.ledger")) == []
