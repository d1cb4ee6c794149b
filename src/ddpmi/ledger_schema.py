"""The tables of a ledger file, the triggers that guard them, and the hash chain over their rows.

``limits`` holds one row, ``charges`` one per release, ``events`` one per thing that happened: ``created``,
then ``charged`` and later ``released`` or ``abandoned`` for each charge. Rows are only ever added. Kinds of
events are never removed and never change their meaning; new kinds come with a new ``SCHEMA_VERSION``.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from functools import cache

from ddpmi.accounting import RHO_CAP

APPLICATION_ID = 0x6464706D
"""``ddpm``: tells a ledger from every other SQLite file."""
SCHEMA_VERSION = 1

# SQLite raises on integer overflow in sum(). Rho is the one column where a history may reach it, so it is
# added in two digits of base 1e9 and stops at the cap.
_RHO_SUM = f"""CASE WHEN sum(rho / 1000000000) + sum(rho % 1000000000) / 1000000000 >= {RHO_CAP} / 1000000000
    THEN {RHO_CAP} ELSE sum(rho / 1000000000) * 1000000000 + sum(rho % 1000000000) END"""

# totals : (epsilon or NULL if an entry is not pure, rho, delta) of one dataset
# There is no index to read them from: a damaged index could hide a charge.
TOTALS = f"""SELECT CASE WHEN count(epsilon) = count(*) THEN coalesce(sum(epsilon), 0) END AS epsilon,
    coalesce({_RHO_SUM}, 0) AS rho, coalesce(sum(delta), 0) AS delta FROM charges WHERE dataset ="""

_TABLES = f"""
CREATE TABLE limits (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    ledger_id TEXT NOT NULL,
    epsilon INTEGER NOT NULL CHECK (epsilon > 0),
    rho INTEGER NOT NULL CHECK (rho >= 0 AND rho < {RHO_CAP}),
    delta INTEGER NOT NULL CHECK (delta >= 0)
) STRICT;
CREATE TABLE charges (
    id INTEGER PRIMARY KEY,
    release_id TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    epsilon INTEGER CHECK (epsilon >= 0),
    rho INTEGER NOT NULL CHECK (rho >= 0 AND rho <= {RHO_CAP}),
    delta INTEGER NOT NULL CHECK (delta >= 0),
    guarantee_epsilon INTEGER NOT NULL CHECK (guarantee_epsilon > 0),
    guarantee_delta INTEGER NOT NULL CHECK (guarantee_delta >= 0),
    plan_digest TEXT NOT NULL,
    columns_digest TEXT NOT NULL,
    tag TEXT NOT NULL
) STRICT;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('created', 'charged', 'released', 'abandoned')),
    charge INTEGER REFERENCES charges (id),
    time TEXT NOT NULL,
    hash TEXT NOT NULL,
    CHECK ((kind = 'created') = (charge IS NULL))
) STRICT;
CREATE INDEX events_of_charge ON events (charge);
"""

# INSERT OR REPLACE deletes without asking the delete triggers, so new rows must be new in every key.
_TRIGGERS = f"""
CREATE TRIGGER one_limit BEFORE INSERT ON limits WHEN EXISTS (SELECT 1 FROM limits)
BEGIN SELECT RAISE(ABORT, 'a ledger has one limit'); END;
CREATE TRIGGER new_charge BEFORE INSERT ON charges
WHEN NEW.id <> (SELECT coalesce(max(id), 0) + 1 FROM charges)
    OR EXISTS (SELECT 1 FROM charges WHERE release_id = NEW.release_id)
BEGIN SELECT RAISE(ABORT, 'a charge is written once'); END;
CREATE TRIGGER new_event BEFORE INSERT ON events
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM events)
    OR (NEW.kind = 'created' AND NEW.seq <> 1)
    OR (NEW.kind = 'charged' AND EXISTS (SELECT 1 FROM events WHERE charge = NEW.charge))
    OR (NEW.kind IN ('released', 'abandoned')
        AND 1 <> (SELECT count(*) FROM events WHERE charge = NEW.charge))
BEGIN SELECT RAISE(ABORT, 'an event is written once, in order'); END;
CREATE TRIGGER within_limit AFTER INSERT ON charges
BEGIN SELECT RAISE(ABORT, 'the charge exceeds the limit')
    FROM ({TOTALS} NEW.dataset) AS total, limits
    WHERE NOT (total.delta <= limits.delta
        AND (total.rho <= limits.rho OR coalesce(total.epsilon <= limits.epsilon, 0)));
END;
""" + "".join(
    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
    f"BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;\n"
    for table in ("limits", "charges", "events")
    for verb in ("UPDATE", "DELETE")
)

SCHEMA = _TABLES + _TRIGGERS
"""Everything a new ledger file holds, as one script."""


def schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    """List the objects of a database with their text.

    >>> schema_of(sqlite3.connect(":memory:"))
    []
    """
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()


@cache
def expected_schema() -> list[tuple[str, str, str | None]]:
    """List the objects every ledger of this version has.

    >>> len([name for kind, name, _ in expected_schema() if kind == "trigger"])
    10
    """
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(SCHEMA)
        return schema_of(connection)
    finally:
        connection.close()


def chained(previous: str, *row: str | int | None) -> str:
    """Hash one event with everything before it.

    Args:
        previous: The hash of the event before, empty for the first.
        row: The event and the row it brought.

    Returns:
        A sha256 in hex.

    >>> chained("", 1, "created")[:16]
    '03b64918aa373691'
    """
    text = json.dumps(row, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
