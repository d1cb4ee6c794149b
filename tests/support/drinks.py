"""Data of 4,000 units whose features go together in chains, for tests of expansions and cascades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ddpmi import Bounds, Budget, Plan

if TYPE_CHECKING:
    from ddpmi import Ledger

PLAN = Plan(budget=Budget(2, 1e-6), bounds=Bounds(pairs=4), mechanism="gaussian", space="units")
CHAIN = [("tea", "milk"), ("milk", "honey"), ("coffee", "sugar"), ("sugar", "cream")]


def table(units: int = 4000) -> pa.Table:
    """Tea goes with milk and milk with honey; the others drink coffee. Tea drinkers live in towns."""
    rows = [
        (f"u{n}", feature, "town" if n % 4 == 0 else "land", f"n{n // 2}")
        for n in range(units)
        for feature in (*CHAIN[n % 4], "water")
    ]
    return pa.table(dict(zip(("unit", "feature", "home", "house"), zip(*rows, strict=True), strict=True)))


def states(ledger: Ledger, dataset: str = "default") -> list[str]:
    """Return the state of each charge."""
    return [entry.state for entry in ledger.status(dataset).entries]
