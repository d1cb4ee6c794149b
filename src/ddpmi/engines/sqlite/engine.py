"""The engine that runs steps on a SQLite file, in temporary tables of one connection.

The file is opened read-only, and one transaction sees one state of it. Temporary tables are in a file without a name, which
the operating system removes with the connection.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.engines.sqlite import cells
from ddpmi.engines.temporary import TemporaryEngine
from ddpmi.errors import EngineError, Hint, InputError
from ddpmi.pipeline.dialects import SQLITE, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from ddpmi.engines.sqlite.source import SQLiteSource

_ROWS = 50_000
#: The oldest version with IS NOT DISTINCT FROM.
_OLDEST = (3, 39, 0)
#: Python looks for Ctrl-C after this number of instructions of SQLite.
_INSTRUCTIONS = 100_000
_SETTINGS = ("timeout",)
_TIMEOUT_SECONDS = 60.0


class SQLiteEngine(TemporaryEngine):
    """One connection with temporary tables, which end with it."""

    dialect = SQLITE
    version = sqlite3.sqlite_version

    def __init__(self, source: SQLiteSource, columns: list[str]) -> None:
        super().__init__()
        self._connection = connect(source.path, source.settings)
        try:
            with own_errors("read the data"):
                self._connection.execute("BEGIN")
                # The state of the file that this transaction sees is that of its first reading.
                self._connection.execute("SELECT COUNT(*) FROM main.sqlite_schema").fetchall()
                # Prepared and not run: even with LIMIT 0 a query may compute a part of itself, from rows.
                # proof: row-local.sqlite
                self._connection.execute(f"EXPLAIN {source.selected(columns, real=True)}").fetchall()
            self._define("source", source.selected(columns), freeze=False)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, with which temporary tables end."""
        self._connection.close()

    def _create(self, name: str, sql: str, *, freeze: bool, doing: str) -> bool:
        with own_errors(doing):
            self._connection.execute(f"CREATE TEMP {'TABLE' if freeze else 'VIEW'} {name} AS {sql}")
        return freeze

    def _drop(self, name: str, *, table: bool) -> None:
        with own_errors("drop a temporary table"):
            self._connection.execute(f"DROP {'TABLE' if table else 'VIEW'} IF EXISTS temp.{name}")

    def _send(self, name: str, table: pa.Table) -> None:
        with own_errors("keep a table"):
            columns = ", ".join(quote(field.name) for field in table.schema)
            self._connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
            marks = ", ".join("?" for _ in table.schema)
            for batch in table.to_batches(max_chunksize=_ROWS):
                listed = [column.to_pylist() for column in batch.columns]
                self._connection.executemany(f"INSERT INTO temp.{name} VALUES ({marks})", zip(*listed, strict=True))

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with own_errors("read the sums"):
            cursor = self._connection.execute(sql)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(_ROWS):
                yield pa.RecordBatch.from_arrays(
                    [_column(name, [row[place] for row in rows]) for place, name in enumerate(names)], names=names
                )


def _column(name: str, found: list[object]) -> pa.Array:
    import pyarrow as pa

    return pa.array(found, pa.string() if name in ("unit", "feature", "label") else None)


def connect(path: str, settings: Mapping[str, str]) -> sqlite3.Connection:
    """Open a file so that nothing can be written to it.

    Args:
        path: The file.
        settings: ``timeout``, the seconds to wait while another process writes.
    """
    unknown = set(settings) - set(_SETTINGS)
    if unknown:
        raise InputError(f"SQLite takes no setting {min(unknown)!r}.", hint=f"one of {', '.join(_SETTINGS)}")
    if sqlite3.sqlite_version_info < _OLDEST:
        raise EngineError(
            f"Python's SQLite {sqlite3.sqlite_version} is too old; 3.39 is needed.", hint="use a newer Python"
        )
    try:
        timeout = float(settings.get("timeout", _TIMEOUT_SECONDS))
    except ValueError:
        raise InputError(
            f"timeout must be a number of seconds, got {settings['timeout']!r}.",
            hint=Hint(python="conf={'timeout': 60}", cli="--conf timeout=60"),
        ) from None
    with own_errors("open the file"):
        connection = sqlite3.connect(
            f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=timeout, isolation_level=None
        )
        cells.register(connection)
        connection.set_progress_handler(lambda: 0, _INSTRUCTIONS)
    return connection


@contextmanager
def own_errors(doing: str) -> Iterator[None]:
    """Replace SQLite's errors, which may quote rows.

    Args:
        doing: What was tried, for the message.
    """
    try:
        yield
    except sqlite3.Error as error:
        name = str(getattr(error, "sqlite_errorname", type(error).__name__))
        # The functions of this package do not fail, so what stopped one of them is Ctrl-C, which SQLite reports as this.
        if name == "SQLITE_INTERRUPT" or "user-defined" in str(error):
            raise KeyboardInterrupt from None
        for code, (happened, hint) in _HAPPENED.items():
            if name.startswith(code):
                raise EngineError(f"{happened}, while ddpmi tried to {doing}.", hint=hint) from None
        raise EngineError(
            f"SQLite could not {doing} ({name}). Its message may quote rows, so it is not shown.",
            hint="check that the file is complete: sqlite3 FILE 'PRAGMA integrity_check'",
        ) from None


_HAPPENED: dict[str, tuple[str, Hint | str]] = {
    "SQLITE_BUSY": (
        "Another process is writing to the file",
        Hint(do="wait until it ends", python="conf={'timeout': 600}", cli="--conf timeout=600"),
    ),
    "SQLITE_FULL": ("There is no room for temporary tables", "set SQLITE_TMPDIR to a folder with room"),
    "SQLITE_CANTOPEN": ("The file cannot be opened", "check its permissions, and those of its folder"),
    "SQLITE_NOTADB": ("The file is no SQLite database, or it is encrypted", "check the name"),
    "SQLITE_CORRUPT": ("The file is damaged", "sqlite3 FILE '.recover' saves what can be read"),
}
