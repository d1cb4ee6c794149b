"""Charges, a place for a ledger, and changes behind its back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from ddpmi.ledger.entries import CHARGE_COLUMNS
from ddpmi.ledger.ledger import Charge
from ddpmi.ledger.storage import APPLICATION_ID, chained, schema
from ddpmi.privacy.accounting import Cost, Limit, rho_for
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


def old_ledger(path: Path, version: int = 1) -> list[dict[str, Any]]:
    """Write a ledger as an older schema had it, with a history and its hashes, and return its events."""
    charges = [gaussian("a", 1, 1e-7), laplace("b"), laplace("c", dataset="other")]
    limit = Limit.of(Budget(4, 1e-6))
    limits = (1, "0123456789abcdef" * 2, limit.epsilon, limit.rho, limit.delta)
    # Rows of older versions end before the columns of schema 3.
    rows = [charge.row(number)[:12] for number, charge in enumerate(charges, start=1)]
    added: list[tuple[str, int | None, dict[str, Any]]] = [
        ("created", None, dict(zip(("id", "ledger_id", "epsilon", "rho", "delta"), limits, strict=True))),
        *(("charged", number, dict(zip(CHARGE_COLUMNS, row, strict=True))) for number, row in enumerate(rows, start=1)),
        ("released", 1, {}),
        ("abandoned", 2, {}),
    ]
    history, previous = [], ""
    for seq, (kind, charge, row) in enumerate(added, start=1):
        event = {"seq": seq, "kind": kind, "charge": charge, "time": f"2026-01-0{seq}T00:00:00+00:00"}
        previous = chained(previous, *event.values(), *row.values())
        history.append({**event, "hash": previous, "row": row})
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema(version))
        connection.execute("INSERT INTO limits VALUES (?, ?, ?, ?, ?)", limits)
        connection.executemany(f"INSERT INTO charges VALUES ({', '.join('?' * 12)})", rows)
        events = [[event[name] for name in ("seq", "kind", "charge", "time", "hash")] for event in history]
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", events)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    return history
