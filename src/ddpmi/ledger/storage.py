"""The storage of a ledger: an SQLite file, the triggers that guard its tables, and the hash chain over their rows.

``limits`` holds one row, ``charges`` one per release, ``events`` one per event. The first event is ``created``. Each
charge has an event ``charged`` and later ``released`` or ``abandoned``, and ``expunged`` once its release was removed.
Rows are only ever added. Kinds of events are never removed and never change their meaning. A new kind needs a new
``SCHEMA_VERSION``, and an upgrade from the version before.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
import tempfile
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.errors import LedgerError
from ddpmi.ledger.entries import Terms
from ddpmi.ledger.heads import RESTORED, head_file
from ddpmi.privacy.accounting import RHO_CAP
from ddpmi.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpmi.privacy.accounting import Limit


APPLICATION_ID = 0x6464706D
"""``ddpm``: marks an SQLite file as a ledger."""
SCHEMA_VERSION = 3
"""Version 1 had no expunged releases; version 2 had no folder, who, why, receipts, datasets and largest epsilon."""
_BUSY_SECONDS = 30
#: Bytes of a value or a row. Texts of a charge are shorter.
_LONGEST_VALUE = 10**6
_DAMAGES = {"SQLITE_ERROR", "SQLITE_FORMAT", "SQLITE_IOERR_SHORT_READ", "SQLITE_TOOBIG"}
#: More objects than a ledger has.
_MANY_OBJECTS = 100
_OLDEST_SQLITE = (3, 37, 0)
_BACKUP = f"restore it from the newest backup; {RESTORED}. Do not start a new ledger for the same people: their budget is spent."

# SQLite raises an error on integer overflow in sum(). Only the sum of rho may grow so large, so it is added in two
# digits of base 1e9 and stops at the cap.
_RHO_SUM = f"""CASE WHEN sum(rho / 1000000000) + sum(rho % 1000000000) / 1000000000 >= {RHO_CAP} / 1000000000
    THEN {RHO_CAP} ELSE sum(rho / 1000000000) * 1000000000 + sum(rho % 1000000000) END"""

# totals : (epsilon or NULL if an entry is not pure, rho, delta) of one dataset
# They are not read from an index: a damaged index could hide a charge.
TOTALS = f"""SELECT CASE WHEN count(epsilon) = count(*) THEN coalesce(sum(epsilon), 0) END AS epsilon,
    coalesce({_RHO_SUM}, 0) AS rho, coalesce(sum(delta), 0) AS delta FROM charges WHERE dataset ="""

_TABLES = f"""
CREATE TABLE limits (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    ledger_id TEXT NOT NULL,
    epsilon INTEGER NOT NULL CHECK (epsilon > 0),
    rho INTEGER NOT NULL CHECK (rho >= 0 AND rho < {RHO_CAP}),
    delta INTEGER NOT NULL CHECK (delta >= 0){{terms}}
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
    tag TEXT NOT NULL{{origin}}
) STRICT;
"""
# Datasets are listed one per line. Rows of older versions have NULL in all columns of version 3.
_TERMS = """,
    datasets TEXT,
    max_epsilon INTEGER CHECK (max_epsilon > 0)"""
# All or none is NULL: a hash leaves NULLs out, and must not confuse one column with another.
_ORIGIN = """,
    folder TEXT,
    who TEXT,
    why TEXT,
    CHECK ((folder IS NULL) = (who IS NULL) AND (who IS NULL) = (why IS NULL))"""
_BARE_TABLES = _TABLES.format(terms="", origin="")
_TABLES_OF = {1: _BARE_TABLES, 2: _BARE_TABLES, 3: _TABLES.format(terms=_TERMS, origin=_ORIGIN)}

_EVENTS = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ({kinds})),
    charge INTEGER REFERENCES charges (id),
    time TEXT NOT NULL,
    hash TEXT NOT NULL,{receipt}
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
# A release may be removed even if a crash kept its publication from being recorded; an abandoned one never.
_EXPUNGED = """
    OR (NEW.kind = 'expunged' AND (
        NOT EXISTS (SELECT 1 FROM events WHERE charge = NEW.charge AND kind = 'charged')
        OR EXISTS (SELECT 1 FROM events WHERE charge = NEW.charge AND kind IN ('abandoned', 'expunged'))))"""
_RECEIPT = """
    receipt_digest TEXT CHECK (receipt_digest IS NULL OR kind = 'released'),"""
_KINDS = "'created', 'charged', 'released', 'abandoned', 'expunged'"
_EVENTS_OF = {
    1: _EVENTS.format(kinds=_KINDS.removesuffix(", 'expunged'"), more="", receipt=""),
    2: _EVENTS.format(kinds=_KINDS, more=_EXPUNGED, receipt=""),
    3: _EVENTS.format(kinds=_KINDS, more=_EXPUNGED, receipt=_RECEIPT),
}


def _only_grows(table: str) -> str:
    return "".join(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;\n"
        for verb in ("UPDATE", "DELETE")
    )


# INSERT OR REPLACE deletes rows without running the delete triggers, so every key of a new row must be new.
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
_TERMS_HOLD = """
CREATE TRIGGER within_terms BEFORE INSERT ON charges
WHEN NEW.guarantee_epsilon > (SELECT max_epsilon FROM limits)
    OR NOT (SELECT datasets IS NULL OR (instr(NEW.dataset, char(10)) = 0
        AND instr(char(10) || datasets || char(10), char(10) || NEW.dataset || char(10)) > 0) FROM limits)
BEGIN SELECT RAISE(ABORT, 'the ledger does not accept this dataset or this epsilon'); END;
"""
_TRIGGERS_OF = {1: _TRIGGERS, 2: _TRIGGERS, 3: _TRIGGERS + _TERMS_HOLD}
_NAMES = ("limits", "charges", "events")


def schema(version: int = SCHEMA_VERSION) -> str:
    """Return the script that creates all tables and triggers of a version.

    >>> "expunged" in schema(1), "expunged" in schema()
    (False, True)
    """
    return _TABLES_OF[version] + _EVENTS_OF[version] + _guards(version)


def _guards(version: int) -> str:
    return _TRIGGERS_OF[version] + "".join(map(_only_grows, _NAMES))


def upgrade(version: int) -> list[str]:
    """Return the statements that turn a ledger of one version into one of the next. Rows and their hashes stay.

    >>> upgrade(1)[-1], upgrade(2)[-1]
    ('PRAGMA user_version = 2', 'PRAGMA user_version = 3')
    """
    return [*(_new_events() if version == 1 else _new_tables()), f"PRAGMA user_version = {version + 1}"]


def _new_events() -> list[str]:
    """Rebuild the table of events as version 2 has it."""
    aside = [
        *(f"DROP TRIGGER {name}" for name in ("new_event", "events_no_update", "events_no_delete")),
        "DROP INDEX events_of_charge",
        "ALTER TABLE events RENAME TO events_before",
    ]
    # The new triggers check each row as it is copied, in order; the old table has no triggers any more.
    rows = ["INSERT INTO events SELECT * FROM events_before ORDER BY seq", "DROP TABLE events_before"]
    return [*aside, *statements(_EVENTS_OF[2]), *rows, *statements(_only_grows("events"))]


def _new_tables() -> list[str]:
    """Rebuild all tables as version 3 has them. The columns that version 2 did not have are NULL."""
    guards = [name for kind, name, _ in expected_schema(2) if kind == "trigger"]
    return [
        *(f"DROP TRIGGER {name}" for name in guards),
        "DROP INDEX events_of_charge",
        *(f"ALTER TABLE {name} RENAME TO {name}_before" for name in _NAMES),
        *statements(_TABLES_OF[3] + _EVENTS_OF[3]),
        "INSERT INTO limits SELECT *, NULL, NULL FROM limits_before",
        # The guard of the limit adds up the whole history for each row, so it comes after the rows.
        "INSERT INTO charges SELECT *, NULL, NULL, NULL FROM charges_before ORDER BY id",
        "INSERT INTO events SELECT *, NULL FROM events_before ORDER BY seq",
        *(f"DROP TABLE {name}_before" for name in reversed(_NAMES)),
        *statements(_guards(3)),
    ]


def statements(script: str) -> list[str]:
    """Cut a script into statements. Run as one script, it would end the current transaction.

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
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchmany(_MANY_OBJECTS)


@cache
def expected_schema(version: int = SCHEMA_VERSION) -> list[tuple[str, str, str | None]]:
    """List the objects every ledger of a version has.

    >>> len([name for kind, name, _ in expected_schema() if kind == "trigger"])
    11
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
        row: The event and the row it added.

    Returns:
        A sha256 in hex.

    >>> chained("", 1, "created")[:16]
    '03b64918aa373691'
    """
    text = json.dumps(row, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def now() -> str:
    """Return the time of an event; it is shown and never compared.

    >>> now().endswith("+00:00")
    True
    """
    return datetime.now(UTC).isoformat(timespec="seconds")


def create(path: Path, limit: Limit, terms: Terms | None = None) -> None:
    """Create a ledger file that appears complete or not at all; leave an existing file alone.

    Args:
        path: The ledger's path; its folder must exist.
        limit: The limit, which never changes.
        terms: What else it asks of each charge, which never changes either.

    Raises:
        LedgerError: The file cannot be created there.

    >>> import tempfile
    >>> from ddpmi.privacy.accounting import Limit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     create(Path(folder) / "a.ledger", Limit(epsilon=1, rho=0, delta=0))
    ...     os.listdir(folder)
    ['a.ledger']
    """
    try:
        if path.exists():
            return
        if not path.parent.is_dir():
            raise LedgerError(f"{path} cannot be created: its folder does not exist.", hint=f"mkdir -p '{path.parent}'")
        # mkstemp makes the file with mode 0600; SQLite gives its journal the same mode.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        os.close(handle)
        try:
            _fill(Path(name), limit, terms or Terms())
            _publish(Path(name), path)
        finally:
            Path(name).unlink(missing_ok=True)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise LedgerError(
            f"{path} cannot be created: {error}.",
            hint="a ledger needs a local disk you may write to, with room and hard links.",
        ) from None


def _fill(path: Path, limit: Limit, terms: Terms) -> None:
    with closing(_connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.executescript(f"BEGIN IMMEDIATE;{schema()}")
        row = (1, secrets.token_hex(16), limit.epsilon, limit.rho, limit.delta)
        connection.execute("INSERT INTO limits VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, *terms.row()))
        event = (1, "created", None, now())
        digest = chained("", *event, *row, *(value for value in terms.row() if value is not None))
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, NULL)", (*event, digest))
        connection.execute("COMMIT")


def _publish(new: Path, path: Path) -> None:
    """Give the finished file its name, unless another process was faster."""
    try:
        # A rename would overwrite the other process's ledger; a link fails.
        os.link(new, path)
    except FileExistsError:
        return
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
    )
    try:
        # A stranger's file: no value is larger than any that is written, and its schema runs no function.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextmanager
def opened(
    path: Path, *, write: bool = False, older: bool = False, known: bool = False
) -> Iterator[sqlite3.Connection]:
    """Open a ledger in one transaction, which is committed at the end or undone by any error.

    The file is opened only through SQLite: on POSIX systems, closing any handle of a file drops the locks
    that other threads of the process hold on it.

    Args:
        path: The ledger file.
        write: Whether rows will be added; the transaction then excludes all other writers from its start.
        older: Whether the schema may be of an older version.
        known: Whether the ledger was opened before: if it is missing now, it was moved away.

    Yields:
        The connection.

    Raises:
        LedgerError: The file is missing, foreign, damaged, busy, or read-only.

    >>> with opened(Path("no.ledger")) as connection:
    ...     pass
    Traceback (most recent call last):
    ddpmi.errors.LedgerError: no.ledger does not exist.
    <BLANKLINE>
    Hint: ddpmi ledger create no.ledger --epsilon 4 --delta 1e-6
    """
    _check_file(path, write=write, known=known)
    try:
        with closing(_connect(path)) as connection:
            _check_journal(path, connection)
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            _identify(path, connection, older=older)
            yield connection
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(path, error) from None
    except (UnicodeError, OverflowError, MemoryError, RecursionError):
        # Text that is not UTF-8, or a number that fits nothing: no ledger holds them.
        raise damaged(path, "it holds values that no ledger has") from None


def _check_file(path: Path, *, write: bool, known: bool) -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise LedgerError(
            f"ledgers need SQLite 3.37 or newer, got {sqlite3.sqlite_version}.", hint="use a newer Python."
        )
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise missing(path, known=known) from None
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path} cannot be read: {error}.", hint="give the path of a ledger file.") from None
    if not stat.S_ISREG(mode):
        raise LedgerError(f"{path} is not a file.", hint="give the path of a ledger file.")
    # The bits are tested too, because the superuser may write to anything.
    writable = os.access(path, os.W_OK) and mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    if write and not writable:
        raise LedgerError(f"{path} is read-only, so nothing can be charged.", hint=f"chmod u+w '{path}'")


def missing(path: Path, *, known: bool = False) -> LedgerError:
    """Make the error for a ledger that is not there. A new one is advised only where there never was one.

    >>> print(missing(Path("a.ledger")).hint)
    ddpmi ledger create a.ledger --epsilon 4 --delta 1e-6
    >>> print(missing(Path("a.ledger"), known=True).message)
    a.ledger does not exist any more: it was moved or removed.
    """
    if not known and not os.path.lexists(head_file(path)):
        return LedgerError(f"{path} does not exist.", hint=f"ddpmi ledger create {path} --epsilon 4 --delta 1e-6")
    return LedgerError(
        f"{path} does not exist any more: it was moved or removed.",
        hint=f"put it back at {path}; a new ledger would forget what was spent.",
    )


def _check_journal(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse another journal mode than ours. It can be read only outside of a transaction."""
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise not_a_ledger(path)
    if connection.execute("PRAGMA journal_mode = DELETE").fetchone() != ("delete",):
        raise damaged(path, "its journal mode was changed")


def _identify(path: Path, connection: sqlite3.Connection, *, older: bool) -> None:
    """Refuse a file that is no complete ledger of this version, or of an older one.

    This runs inside the transaction, because another process may upgrade the file.
    """
    version = version_of(connection)
    if not (1 if older else SCHEMA_VERSION) <= version <= SCHEMA_VERSION:
        raise other_version(path, version)
    if schema_of(connection) != expected_schema(version):
        raise damaged(path, "its tables or their guards were changed")


def version_of(connection: sqlite3.Connection) -> int:
    """Read the version of the schema.

    >>> from contextlib import closing
    >>> with closing(sqlite3.connect(":memory:")) as connection:
    ...     version_of(connection)
    0
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def other_version(path: Path, version: int) -> LedgerError:
    """Make the error for a ledger of another version.

    >>> print(other_version(Path("a.ledger"), 1).hint)
    ddpmi ledger upgrade a.ledger
    """
    older = 0 < version < SCHEMA_VERSION
    return LedgerError(
        f"{path} has ledger schema {version}, this ddpmi writes schema {SCHEMA_VERSION}.",
        hint=f"ddpmi ledger upgrade {path}" if older else "use the version of ddpmi that wrote it, or a newer one.",
    )


def not_a_ledger(path: Path) -> LedgerError:
    """Make the error for a foreign file.

    >>> print(not_a_ledger(Path("a.csv")).message)
    a.csv is not a ddpmi ledger.
    """
    return LedgerError(
        f"{path} is not a ddpmi ledger.", hint="give the path of a ledger made by: ddpmi ledger create FILE"
    )


def damaged(path: Path, what: str) -> LedgerError:
    """Make the error for a file that was a ledger and cannot be trusted.

    >>> print(damaged(Path("a.ledger"), "a row was edited").message)
    a.ledger is damaged: a row was edited.
    """
    return LedgerError(f"{path} is damaged: {what}.", hint=_BACKUP)


def explained(path: Path, error: sqlite3.Error) -> LedgerError:
    """Turn an error of SQLite into one that says what to do.

    >>> print(explained(Path("a.ledger"), sqlite3.OperationalError("disk full")).message)
    a.ledger could not be used: disk full.
    """
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return not_a_ledger(path)
    # SQLITE_ERROR: the tables are not those that the statements name, or their text is no SQL.
    if name.startswith("SQLITE_CORRUPT") or name in _DAMAGES:
        return damaged(path, printable(str(error)))
    # Python's own words, without a name: a text of the file is not UTF-8.
    if "decode" in str(error):
        return damaged(path, "it holds text that is not UTF-8")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LedgerError(
            f"{path} was in use by another process for {_BUSY_SECONDS} seconds.", hint="try again later."
        )
    return LedgerError(
        f"{path} could not be used: {error}.",
        hint="check that the disk has room and that you may write to the file and its folder.",
    )
