"""Sessions with a PostgreSQL server: how they start, which settings they take, and errors without a word of the server.

Messages of a server may quote rows, and messages about an address may contain a password. So none is shown: the code of
an error (its SQLSTATE) decides which sentence a user reads.
"""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ddpmi.errors import DdpmiError, EngineError, Hint, InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

Result = TypeVar("Result")
#: A password inside an address, before the host or as a parameter.
_PASSWORD = re.compile(r"^[a-z+0-9]+://(?:[^/?@]*:[^/?]*@|[^/?@:\[]*:(?!\d+(?:[/?,]|$))|.*[?&](?:ssl)?password=)")
SETTINGS = ("statement_timeout", "lock_timeout", "work_mem", "temp_tablespaces", "search_path", "stream")
#: What every session has unless a setting says otherwise.
_DEFAULTS = {"lock_timeout": "1min", "work_mem": "64MB"}
#: What the meaning of the pipeline's text and of keys relies on.
_FIXED = {
    "application_name": "ddpmi",
    "bytea_output": "hex",
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
}
_CONNECT_SECONDS = 15
_PATIENCE_SECONDS = 0.5
#: The code of an error that ended a stream is in its text.
_STATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
#: Sums leave the server in pieces of this size.
_PIECE_BYTES = 4 << 20
#: The oldest server with sha256 of bytes and materialized WITH clauses.
_OLDEST = 120000

_AGAIN = "try again; the same release id is not drawn twice"
#: SQLSTATE, or its first two characters -> what happened, and what to do.
_STATES: dict[str, tuple[str, Hint | str]] = {
    "57014": (
        "The server ended the query: it was canceled, or it took longer than statement_timeout",
        Hint(
            python="conf={'statement_timeout': '2h'}; 0 is no limit",
            cli="--conf statement_timeout=2h; 0 is no limit",
        ),
    ),
    "55P03": (
        "Another session holds a lock on the table for longer than lock_timeout",
        Hint(do="wait until it ends", python="conf={'lock_timeout': '10min'}", cli="--conf lock_timeout=10min"),
    ),
    "42501": (
        "The role lacks a permission",
        "GRANT SELECT ON the table, USAGE ON its schema, and TEMPORARY ON the database, to the role",
    ),
    "25006": (
        "The query tried to write, and rows are read in a read-only transaction",
        "name a table, or a query that only reads",
    ),
    "42601": ("The server does not understand the query", "try it in psql; it must be one SELECT"),
    "42P01": ("The query names a table that does not exist or is not visible to the role", "try it in psql"),
    "42703": ("The query names a column that does not exist", "try it in psql"),
    "53100": (
        "The server's disk is full",
        Hint(
            do="make room where the server keeps temporary tables, or name another place",
            python="conf={'temp_tablespaces': 'big'}",
            cli="--conf temp_tablespaces=big",
        ),
    ),
    "53400": ("The server's limit for temporary files is reached", "ask for a larger temp_file_limit for the role"),
    "53300": ("The server has too many connections", _AGAIN),
    "53": ("The server ran out of memory or another resource", _AGAIN),
    "57P": ("The server was shut down or restarted", _AGAIN),
    "08": ("The connection to the server was lost", _AGAIN),
    "XX": ("The server failed inside", "look into the server's log"),
}
#: Words of the client library, which are in English everywhere, and of servers in English -> what happened, what to do.
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (
        "password authentication failed",
        "The server does not accept the user or the password",
        "check PGPASSWORD, or ~/.pgpass",
    ),
    (
        "no password supplied",
        "The server asks for a password, and none was given",
        "set PGPASSWORD, or write ~/.pgpass",
    ),
    (
        "authentication failed",
        "The server does not accept the user",
        "check how the server lets this user in (pg_hba.conf)",
    ),
    ("no pg_hba.conf entry", "The server lets no such user in from here", "check the user, the database and sslmode"),
    ("does not exist", "The server has no such database, user or service", "psql -l lists databases"),
    ("permission denied", "The user may not connect to this database", "GRANT CONNECT ON DATABASE ... TO ..."),
    (
        "could not translate host name",
        "The host of the address is not known",
        "check the host; @ : / in a password are %40 %3A %2F",
    ),
    ("refused", "Nothing answers at this host and port", "check host and port, and whether the server runs"),
    ("timeout expired", "The server does not answer", "check host and port, and the network"),
    (
        "SSL",
        "The server and this client do not agree about SSL",
        "add ?sslmode=require or ?sslmode=disable to the address",
    ),
    ("too many", "The server has too many connections", "try again"),
    ("starting up", "The server is starting", "try again"),
)
#: Words of errors that come without a code, from the middle of a stream -> the code.
_CODES = {
    "canceling statement due to lock timeout": "55P03",
    "canceling statement": "57014",
    "No space left": "53100",
    "temp_file_limit": "53400",
    **dict.fromkeys(
        [
            "server closed the connection",
            "no connection to the server",
            "connection not open",
            "could not receive data",
            "terminating connection",
            "SSL SYSCALL",
            "could not send data",
        ],
        "08006",
    ),
}


def has_password(address: str) -> bool:
    """Tell whether an address contains a password, which other users of the machine could see in a list of processes.

    >>> has_password("postgresql://ann:secret@host/db"), has_password("postgresql://ann@host/db")
    (True, False)
    """
    return _PASSWORD.search(address) is not None


class Session:
    """One connection, and statements through it. Every statement is the text of this package or a checked query."""

    def __init__(self, address: Any, settings: Mapping[str, str]) -> None:
        _check_settings(settings)
        self.settings = settings
        self._connection = _connect(address)
        try:
            for name, text in {**_DEFAULTS, **_chosen(settings), **_FIXED}.items():
                self._set(name, text)
            self.version = self._checked_version()
        except BaseException:
            self.close()
            raise

    def _checked_version(self) -> str:
        """Return the server's version. Refuse one that is too old, and text that is not stored as UTF-8."""
        names = ("server_version_num", "server_version", "server_encoding")
        listed = ", ".join(f"current_setting('{name}')" for name in names)
        number, version, encoding = self.one(f"SELECT {listed}")
        shown = str(version).split()[0]
        if int(number) < _OLDEST:
            raise InputError(
                f"PostgreSQL {shown} is too old.", hint="version 12 or newer is needed; or export to Parquet"
            )
        # Text of other encodings may hold a cell that cannot be converted, which would be an error of one row.
        # proof: row-local.postgres
        if encoding != "UTF8":
            raise InputError(
                f"The database stores text as {encoding}, in which one cell could make a query fail.",
                hint="use a database with the encoding UTF8, or export to Parquet",
            )
        return shown

    def _set(self, name: str, text: str) -> None:
        with own_errors(f"set {name}", bad_value=f"{name}={text!r}"):
            self.one("SELECT set_config($1, $2, false)", (name, text))

    def run(self, statement: str) -> int:
        """Run a statement that returns no rows, and say how many it wrote; -1 where it writes none."""
        with self._connection.cursor() as cursor:
            waited_for(lambda: cursor.execute(statement), cursor.adbc_cancel)
            return int(cursor.rowcount)

    def all(self, query: str, parameters: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a small query about the catalog."""
        with self._connection.cursor() as cursor:
            waited_for(lambda: cursor.execute(query, parameters), cursor.adbc_cancel)
            return list(cursor.fetchall())

    def one(self, query: str, parameters: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """Return the first row of a small query about the catalog."""
        return self.all(query, parameters)[0]

    def described(self, query: str) -> pa.Schema:
        """Return the columns of one statement. The server parses it and runs nothing; several statements are refused."""
        with self._connection.cursor() as cursor:
            return cursor.adbc_execute_schema(query)

    def send(self, name: str, table: pa.Table) -> None:
        """Append rows to a temporary table. Rows are no part of a statement."""
        with self._connection.cursor() as cursor:
            waited_for(lambda: cursor.adbc_ingest(name, table, mode="append", temporary=True), cursor.adbc_cancel)

    def stream(self, query: str) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query in small pieces."""
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_PIECE_BYTES)})
            waited_for(lambda: cursor.execute(query), cursor.adbc_cancel)
            with cursor.fetch_record_batch() as reader:
                while (batch := waited_for(lambda: next(reader, None), cursor.adbc_cancel)) is not None:
                    yield batch

    def close(self) -> None:
        """End the session. The server then drops its temporary tables."""
        # A session that is lost has ended.
        with suppress(Exception):
            self._connection.close()


def waited_for(call: Callable[[], Result], cancel: Callable[[], object]) -> Result:
    """Return what a call returns that waits for the server. Ctrl-C cancels it in the server, and then interrupts here.

    The driver would otherwise answer Ctrl-C by itself, with an error like any other.

    Args:
        call: Waits for the server.
        cancel: Asks the server to end what the call waits for.

    >>> waited_for(lambda: 7, list)
    7
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    with ThreadPoolExecutor(1) as waiting:
        future = waiting.submit(call)
        try:
            # With a limit, because on some systems a wait without one cannot be interrupted.
            while not wait([future], timeout=_PATIENCE_SECONDS).done:
                pass
        except KeyboardInterrupt:
            with suppress(Exception):
                cancel()
            wait([future], timeout=_CONNECT_SECONDS)
            raise
        return future.result()


def _chosen(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in settings.items() if name != "stream"}


def _check_settings(settings: Mapping[str, str]) -> None:
    unknown = set(settings) - set(SETTINGS)
    if unknown:
        raise InputError(f"PostgreSQL takes no setting {min(unknown)!r} here.", hint=f"one of {', '.join(SETTINGS)}")
    if settings.get("stream", "no") not in ("yes", "no"):
        raise InputError(
            f"stream must be yes or no, got {settings['stream']!r}.",
            hint=Hint(python="conf={'stream': 'yes'}", cli="--conf stream=yes"),
        )


def _connect(address: Any) -> Any:
    """Connect by an address, or once more like a connection that is open. Nothing of the address is shown."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise MissingExtra("PostgreSQL needs a driver.", hint="pip install 'ddpmi[postgres]'") from None
    try:
        if not isinstance(address, str):
            return _autocommitting(address.adbc_clone())
        return dbapi.connect(_timed(address), autocommit=True)
    except Exception as error:  # noqa: BLE001 - of every kind; the message may contain a part of the password
        raise _refusal(str(error)) from None


def _autocommitting(connection: Any) -> Any:
    connection.adbc_connection.set_autocommit(True)
    return connection


def _timed(address: str) -> str:
    """Give up on a server that does not answer, unless the address or the environment says how long to wait."""
    if "connect_timeout=" in address or "PGCONNECT_TIMEOUT" in os.environ:
        return address
    return f"{address}{'&' if '?' in address else '?'}connect_timeout={_CONNECT_SECONDS}"


def _refusal(message: str) -> EngineError:
    for words, happened, hint in _REFUSALS:
        if words in message:
            return EngineError(f"{happened}.", hint=hint)
    return EngineError(
        "The server cannot be reached. The reason may contain a part of the password, so it is not shown.",
        hint="try the same address with psql; it must start with postgresql://",
    )


@contextmanager
def own_errors(doing: str, *, bad_value: str = "") -> Iterator[None]:
    """Replace the server's errors, which may quote rows.

    Args:
        doing: What was tried, for the message.
        bad_value: The setting and its value, where the server may refuse it.
    """
    import pyarrow as pa
    from adbc_driver_manager import dbapi

    try:
        yield
    except DdpmiError:  # some are errors of the operating system, too
        raise
    except (dbapi.Error, dbapi.Warning, pa.ArrowException, OSError) as error:
        state, message = str(getattr(error, "sqlstate", None) or ""), str(error)
        if state.startswith(("22023", "22", "42704")) and bad_value:
            raise InputError(
                f"PostgreSQL does not take {bad_value}.", hint="one of its own values, as 10min or 64MB"
            ) from None
        raise _error(state, message, doing) from None


def _error(state: str, message: str, doing: str) -> EngineError:
    found = _STATE.search(message)
    state = state or (found[1] if found else "")
    state = state or next((code for words, code in _CODES.items() if words in message), "")
    for length in (5, 3, 2):
        if state[:length] in _STATES:
            happened, hint = _STATES[state[:length]]
            return EngineError(f"{happened}, while ddpmi tried to {doing}.", hint=hint)
    shown = f"SQLSTATE {state}" if state else "no code"
    return EngineError(
        f"PostgreSQL could not {doing} ({shown}). Its message may quote rows, so it is not shown.",
        hint="look into the server's log",
    )
