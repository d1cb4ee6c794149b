"""Ledger files of strangers: an edited one is refused with a LedgerError, or means what it meant."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpmi.errors import LedgerError
from ddpmi.ledger.ledger import Ledger
from ddpmi.privacy.budget import Budget
from tests.support.ledger_fixtures import edit, gaussian, laplace

#: SQL for values that no ledger writes. A strict table takes only some of them; the others are tried.
VALUES = (
    *("NULL", "0", "1", "-1", "9223372036854775807", "-9223372036854775808", "0.5", "1e308", "9e999", "''", "x''"),
    *(
        "x'ff00fe'",
        "CAST(x'ff00fe' AS TEXT)",
        "CAST(x'61006200' AS TEXT)",
        "zeroblob(3000000)",
        "hex(zeroblob(900000))",
    ),
    *("'released'", "'abandoned'", "char(10)", "'visits' || char(10) || 'mine'", "'\u202evisits'", "1000000000000"),
)
COLUMNS = {
    "limits": ("id", "ledger_id", "epsilon", "rho", "delta", "datasets", "max_epsilon"),
    "charges": (
        *("id", "release_id", "dataset", "mechanism", "epsilon", "rho", "delta", "guarantee_epsilon"),
        *("guarantee_delta", "plan_digest", "columns_digest", "tag", "folder", "who", "why"),
    ),
    "events": ("seq", "kind", "charge", "time", "hash", "receipt_digest"),
}


def written(path: Path) -> Path:
    """A ledger with terms and a history of every kind."""
    ledger = Ledger(path, limit=Budget(4, 1e-6), datasets=["visits", "orders"], max_epsilon=2)
    ledger.charge_many([gaussian("a", 1, 1e-7, dataset="visits"), laplace("b", dataset="orders")])
    ledger.charge_many([replace(laplace("c", "0.1", dataset="visits"), who="ann", why="weekly", folder="/c")])
    ledger.mark("a", "released", receipt_digest="a" * 64)
    ledger.mark("b", "abandoned")
    ledger.mark("a", "expunged")
    return path


def meaning(ledger: Ledger) -> list[Any]:
    """All that a ledger says: limit, terms, sums, entries and events."""
    return [
        ledger.limit,
        ledger.terms,
        *(ledger.status(name) for name in ("visits", "orders")),
        ledger.datasets(),
        ledger.find("b"),
        ledger.plan(3, dataset="visits"),
        ledger.export(),
    ]


def scribble(path: Path, moves: random.Random) -> None:
    """Change, cut, insert or repeat bytes."""
    content = bytearray(path.read_bytes())
    kind = moves.randrange(5)
    if kind == 0:
        del content[moves.randrange(len(content)) :]
    elif kind == 1:
        place = moves.randrange(len(content))
        content[place:place] = moves.randbytes(moves.randrange(1, 5000))
    else:
        # Bytes that say something are rarer than zeros, and the rows are on other pages than the schema.
        page = 4096 * moves.randrange(len(content) // 4096)
        told = [place for place in range(page, page + 4096) if content[place]] or [page]
        for _ in range(moves.choice((1, 1, 2, 8, 64))):
            content[moves.choice(told)] = moves.choice((0, 1, 13, 127, 128, 255, moves.randrange(256)))
    path.write_bytes(content)


def rewrite(path: Path, moves: random.Random) -> None:
    """Edit rows with SQL, guards removed and put back."""
    table = moves.choice([*COLUMNS])
    where = moves.choice(["", " WHERE rowid = 1", f" WHERE rowid = (SELECT max(rowid) FROM {table})"])
    statements = [f"UPDATE {table} SET {moves.choice(COLUMNS[table])} = {moves.choice(VALUES)}{where}"]
    if moves.random() < 0.2:
        statements = [f"DELETE FROM {table}{where}"]
    elif moves.random() < 0.1:
        statements = [
            "DELETE FROM events WHERE charge = 3",
            "DELETE FROM charges WHERE id = 3",
            "DELETE FROM events WHERE seq > 4",
        ]
    settings = ["PRAGMA ignore_check_constraints = ON"]
    if moves.random() < 0.5:
        settings += ["PRAGMA writable_schema = ON", "UPDATE sqlite_master SET sql = replace(sql, ' STRICT', '')"]
    try:
        edit(path, *settings, *statements)
    except (sqlite3.Error, OverflowError):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {moves.choice((0, 1, 2, 4, 2**31 - 1))}")


def check_edited_copies(folder: Path, copies: int, seed: int) -> int:
    """Edit copies of one ledger; each is refused, or says what the original says; count the refused."""
    original = written(folder / "original.ledger")
    expected = meaning(Ledger(original))
    moves = random.Random(seed)
    refusals: list[LedgerError] = []
    path = folder / "copy.ledger"
    for _ in range(copies):
        shutil.copy(original, path)
        shutil.copy(f"{original}.head", f"{path}.head")
        (scribble if moves.random() < 0.5 else rewrite)(path, moves)
        try:
            ledger = Ledger(path)
            ledger.verify()
            said = meaning(ledger)
        except LedgerError as error:
            refusals.append(error)
        else:
            assert said == expected
    assert all(error.hint and len(str(error)) < 2000 for error in refusals)
    print(f"ledgers refused {len(refusals)}, with the same meaning {copies - len(refusals)}")  # noqa: T201 - for the record
    return len(refusals)


def test_edited_ledgers_are_refused_or_mean_the_same(tmp_path: Path) -> None:
    """Of 40 edited copies none opens with another meaning, and none raises an error of another kind."""
    assert check_edited_copies(tmp_path, 40, seed=20) >= 20


@pytest.mark.parametrize("column", ["events.time", "events.hash", "charges.who", "charges.dataset", "limits.datasets"])
def test_an_error_that_is_kept_holds_no_lock(tmp_path: Path, column: str) -> None:
    """A notebook keeps the last error with its frames: the file is free for a backup all the same."""
    path = written(tmp_path / "a.ledger")
    table, name = column.split(".")
    edit(path, f"UPDATE {table} SET {name} = CAST(x'ff00fe' AS TEXT) WHERE rowid = (SELECT max(rowid) FROM {table})")
    with pytest.raises(LedgerError) as kept:
        Ledger(path)
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
    assert kept.value.hint


@pytest.mark.full
def test_many_edited_ledgers_are_refused_or_mean_the_same(tmp_path: Path) -> None:
    """Of 500 edited copies none opens with another meaning, and none raises an error of another kind."""
    assert check_edited_copies(tmp_path, 500, seed=7) >= 250
