"""Charges, a place for a ledger, and changes behind its back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from ddpmi.ledger.ledger import Charge, Ledger
from ddpmi.ledger.storage import APPLICATION_ID, schema
from ddpmi.privacy.accounting import Cost, rho_for
from ddpmi.privacy.budget import Budget


def laplace(release_id: str, epsilon: Any = "0.5", *, delta: Any = 0, dataset: str = "default") -> Charge:
    """A pure release of one query; half of its delta is its threshold's."""
    return Charge(
        cost=Cost.of_laplace([epsilon], Fraction(delta) / 2),
        guarantee=Budget(epsilon, Fraction(delta)),
        release_id=release_id,
        dataset=dataset,
        mechanism="laplace",
        plan_digest="plan",
        columns_digest="columns",
    )


def gaussian(release_id: str, epsilon: Any, delta: Any, *, dataset: str = "default") -> Charge:
    """A concentrated release that uses all of its budget."""
    budget = Budget(epsilon, delta)
    return Charge(
        cost=Cost.of_gaussian(rho_for(budget.epsilon, budget.delta / 2), budget.delta / 2),
        guarantee=budget,
        release_id=release_id,
        dataset=dataset,
        mechanism="gaussian",
        plan_digest="plan",
        columns_digest="columns",
        tag="weekly",
    )


def edit(path: Path, *statements: str) -> None:
    """Change a ledger behind its back, guards removed and put back."""
    with closing(sqlite3.connect(path)) as connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, sql in guards:
            connection.execute(sql)
        connection.commit()


def old_ledger(path: Path) -> list[dict[str, Any]]:
    """Write a ledger as schema 1 had it, with a history, and return its events."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    ledger.charge_many([gaussian("a", 1, 1e-7), laplace("b"), laplace("c", dataset="other")])
    ledger.mark("a", "released")
    ledger.mark("b", "abandoned")
    history = ledger.export()
    rows = {table: _rows(path, table) for table in ("limits", "charges", "events")}
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema(1))
        for table, values in rows.items():
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values[0]))})", values)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    return history


def _rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()
