"""Opening and creating ledger files: a connection for each operation, and errors that say what to do."""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import tempfile
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.errors import LedgerError
from ddpmi.ledger_schema import APPLICATION_ID, SCHEMA_VERSION, chained, expected_schema, schema, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpmi.accounting import Limit

_BUSY_SECONDS = 30
_OLDEST_SQLITE = (3, 37, 0)
_BACKUP = "restore it from a backup; do not start a new ledger for the same people, their budget is spent."


def now() -> str:
    """Give the time of an event; it is shown and never compared.

    >>> now().endswith("+00:00")
    True
    """
    return datetime.now(UTC).isoformat(timespec="seconds")


def create(path: Path, limit: Limit) -> None:
    """Create a ledger file that appears complete or not at all; leave an existing file alone.

    Args:
        path: Where the ledger shall be; its folder must exist.
        limit: The limit, fixed for ever.

    Raises:
        LedgerError: The file cannot be created there.

    >>> import tempfile
    >>> from ddpmi.accounting import Limit
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
        # mkstemp makes the file with mode 0600; SQLite gives its journal the same.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        os.close(handle)
        try:
            _fill(Path(name), limit)
            _publish(Path(name), path)
        finally:
            Path(name).unlink(missing_ok=True)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise LedgerError(
            f"{path} cannot be created: {error}.",
            hint="a ledger needs a local disk you may write to, with room and hard links.",
        ) from None


def _fill(path: Path, limit: Limit) -> None:
    with closing(_connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.executescript(f"BEGIN IMMEDIATE;{schema()}")
        row = (1, secrets.token_hex(16), limit.epsilon, limit.rho, limit.delta)
        connection.execute("INSERT INTO limits VALUES (?, ?, ?, ?, ?)", row)
        event = (1, "created", None, now())
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (*event, chained("", *event, *row)))
        connection.execute("COMMIT")


def _publish(new: Path, path: Path) -> None:
    """Give the finished file its name, unless somebody was faster."""
    try:
        # A rename would overwrite the other's ledger; a link refuses.
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
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextmanager
def opened(path: Path, *, write: bool = False, older: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a ledger inside one transaction, committed at the end or undone by any error.

    The file is never opened by other means: on POSIX systems closing any handle of a file drops the locks
    that other threads of the process hold on it.

    Args:
        path: The ledger file.
        write: Whether rows will be added; the transaction then excludes all other writers from its start.
        older: Whether the schema may be one of an older version.

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
    _check_file(path, write=write)
    try:
        with closing(_connect(path)) as connection:
            _check_journal(path, connection)
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            _identify(path, connection, older=older)
            yield connection
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(path, error) from None


def _check_file(path: Path, *, write: bool) -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise LedgerError(
            f"ledgers need SQLite 3.37 or newer, got {sqlite3.sqlite_version}.", hint="use a newer Python."
        )
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerError(
            f"{path} does not exist.", hint=f"ddpmi ledger create {path} --epsilon 4 --delta 1e-6"
        ) from None
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path} cannot be read: {error}.", hint="give the path of a ledger file.") from None
    if not stat.S_ISREG(mode):
        raise LedgerError(f"{path} is not a file.", hint="give the path of a ledger file.")
    # The bits are tested too, because the superuser may write to anything.
    writable = os.access(path, os.W_OK) and mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    if write and not writable:
        raise LedgerError(f"{path} is read-only, so nothing can be charged.", hint=f"chmod u+w '{path}'")


def _check_journal(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse another journal than ours; it can be asked for outside of a transaction only."""
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise not_a_ledger(path)
    if connection.execute("PRAGMA journal_mode = DELETE").fetchone() != ("delete",):
        raise damaged(path, "its journal mode was changed")


def _identify(path: Path, connection: sqlite3.Connection, *, older: bool) -> None:
    """Refuse what is not a whole ledger of this version, or of an older one. Inside the transaction: it may be upgraded."""
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
    if name.startswith("SQLITE_CORRUPT") or name in {"SQLITE_IOERR_SHORT_READ", "SQLITE_FORMAT"}:
        return damaged(path, str(error))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LedgerError(
            f"{path} was in use by another process for {_BUSY_SECONDS} seconds.", hint="try again later."
        )
    return LedgerError(
        f"{path} could not be used: {error}.",
        hint="check that the disk has room and that you may write to the file and its folder.",
    )
