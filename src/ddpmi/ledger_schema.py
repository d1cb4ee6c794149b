"""The tables of a ledger file, the triggers that guard them, and the hash chain over their rows.

``limits`` holds one row, ``charges`` one per release, ``events`` one per thing that happened: ``created``,
then ``charged`` and later ``released`` or ``abandoned`` for each charge, and ``expunged`` once its release was
removed. Rows are only ever added. Kinds of events are never removed and never change their meaning; new kinds come
with a new ``SCHEMA_VERSION``, and an upgrade from the version before.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from functools import cache

from ddpmi.accounting import RHO_CAP

APPLICATION_ID = 0x6464706D
"""``ddpm``: tells a ledger from every other SQLite file."""
SCHEMA_VERSION = 2
"""1 had no expunged releases."""

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
"""

_EVENTS = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ({kinds})),
    charge INTEGER REFERENCES charges (id),
    time TEXT NOT NULL,
    hash TEXT NOT NULL,
    CHECK ((kind = 'created') = (charge IS NULL))
) STRICT;
CREATE INDEX events_of_charge ON events (charge);
CREATE TRIGGER new_event BEFORE INSERT ON events
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM events)
    OR (NEW.kind = 'created' AND NEW.seq <> 1)
    OR (NEW.kind = 'charged' AND EXISTS (SELECT 1 FROM events WHERE charge = NEW.charge))
    OR (NEW.kind IN ('released', 'abandoned')
        AND 1 <> (SELECT count(*) FROM events WHERE charge = NEW.charge)){more}
BEGIN SELECT RAISE(ABORT, 'an event is written once, in order'); END;
"""
# A release may be removed whose publication was not recorded, because of a crash; never one that was given up.
_EXPUNGED = """
    OR (NEW.kind = 'expunged' AND (
        NOT EXISTS (SELECT 1 FROM events WHERE charge = NEW.charge AND kind = 'charged')
        OR EXISTS (SELECT 1 FROM events WHERE charge = NEW.charge AND kind IN ('abandoned', 'expunged'))))"""
_EVENTS_OF = {
    1: _EVENTS.format(kinds="'created', 'charged', 'released', 'abandoned'", more=""),
    2: _EVENTS.format(kinds="'created', 'charged', 'released', 'abandoned', 'expunged'", more=_EXPUNGED),
}


def _only_grows(table: str) -> str:
    return "".join(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;\n"
        for verb in ("UPDATE", "DELETE")
    )


# INSERT OR REPLACE deletes without asking the delete triggers, so new rows must be new in every key.
_TRIGGERS = f"""
CREATE TRIGGER one_limit BEFORE INSERT ON limits WHEN EXISTS (SELECT 1 FROM limits)
BEGIN SELECT RAISE(ABORT, 'a ledger has one limit'); END;
CREATE TRIGGER new_charge BEFORE INSERT ON charges
WHEN NEW.id <> (SELECT coalesce(max(id), 0) + 1 FROM charges)
    OR EXISTS (SELECT 1 FROM charges WHERE release_id = NEW.release_id)
BEGIN SELECT RAISE(ABORT, 'a charge is written once'); END;
CREATE TRIGGER within_limit AFTER INSERT ON charges
BEGIN SELECT RAISE(ABORT, 'the charge exceeds the limit')
    FROM ({TOTALS} NEW.dataset) AS total, limits
    WHERE NOT (total.delta <= limits.delta
        AND (total.rho <= limits.rho OR coalesce(total.epsilon <= limits.epsilon, 0)));
END;
"""


def schema(version: int = SCHEMA_VERSION) -> str:
    """Return everything a new ledger file of a version holds, as one script.

    >>> "expunged" in schema(1), "expunged" in schema()
    (False, True)
    """
    return _TABLES + _EVENTS_OF[version] + _TRIGGERS + "".join(map(_only_grows, ("limits", "charges", "events")))


def upgrade(version: int) -> list[str]:
    """Return the statements that turn a ledger of one version into one of the next. Rows and their hashes stay.

    >>> upgrade(1)[-1]
    'PRAGMA user_version = 2'
    """
    aside = [
        *(f"DROP TRIGGER {name}" for name in ("new_event", "events_no_update", "events_no_delete")),
        "DROP INDEX events_of_charge",
        "ALTER TABLE events RENAME TO events_before",
    ]
    made = statements(_EVENTS_OF[version + 1])
    # The new guards watch each row come back, in order; the old table is not guarded any more.
    rows = ["INSERT INTO events SELECT * FROM events_before ORDER BY seq", "DROP TABLE events_before"]
    return [*aside, *made, *rows, *statements(_only_grows("events")), f"PRAGMA user_version = {version + 1}"]


def statements(script: str) -> list[str]:
    """Cut a script into statements: run as one script, it would end the transaction it stands in.

    >>> statements("SELECT 1; SELECT 2;")
    ['SELECT 1;', 'SELECT 2;']
    """
    found, text = [], ""
    for piece in script.split(";")[:-1]:
        text += f"{piece};"
        if sqlite3.complete_statement(text):
            found.append(text.strip())
            text = ""
    return found


def schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    """List the objects of a database with their text.

    >>> from contextlib import closing
    >>> with closing(sqlite3.connect(":memory:")) as connection:
    ...     schema_of(connection)
    []
    """
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()


@cache
def expected_schema(version: int = SCHEMA_VERSION) -> list[tuple[str, str, str | None]]:
    """List the objects every ledger of a version has.

    >>> len([name for kind, name, _ in expected_schema() if kind == "trigger"])
    10
    """
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(schema(version))
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
