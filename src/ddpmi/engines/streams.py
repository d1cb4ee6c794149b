"""Data outside of the embedded engine that is streamed into it: a few columns of a table, read once, as Arrow batches.

Any database with a Python driver can be read this way. The driver's cells become text one by one, or stay Arrow.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddpmi.errors import EngineError, Hint, InputError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_ROWS = 50_000
#: A name that every database reads without quotation marks. How they are written differs.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")
#: Digits of a whole number beyond these take too long to write.
_LONGEST_INTEGER_BITS = 4096


class Stream:
    """Data that streams. The embedded engine reads it once, into a table of its own."""

    copied = True
    """Whether the thread that opens the engine copies all rows first: most drivers serve one thread only."""
    untyped = False
    """Whether every cell comes as text, and whether it is a number is decided cell by cell."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns. Reads no row."""

    @abstractmethod
    def check_driver(self) -> None:
        """Load what reads the rows. Reads nothing."""

    @abstractmethod
    def reader(self, columns: list[str]) -> pa.RecordBatchReader:
        """Stream the named columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Stream):
    """What a query returns through a connection of the caller: PEP 249, the DB-API of Python, or ADBC."""

    connection: Any = field(repr=False)
    query: str = field(repr=False)
    arrow: bool = False
    """Whether the driver returns Arrow batches."""
    untyped: bool = True

    def schema(self) -> pa.Schema:
        """Return the columns that the query without its rows has."""
        import pyarrow as pa

        with self._cursor(f"SELECT * FROM (\n{self.query}\n) source WHERE 1 = 0") as cursor:
            if self.arrow:
                return cursor.fetch_arrow_table().schema
            names = [str(column[0]) for column in cursor.description or ()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SchemaError(f"The query has more than one column {twice!r}.", hint="give each its own name with AS")
        return pa.schema([(name, pa.string()) for name in names])

    def check_driver(self) -> None:
        """Do nothing: the connection is open, so its driver is there."""

    def reader(self, columns: list[str]) -> pa.RecordBatchReader:
        """Run the query, and convert its rows batch by batch."""
        import pyarrow as pa

        known = self.schema()
        schema = pa.schema([known.field(name) for name in columns])
        places = [known.names.index(name) for name in columns]
        found = self._arrow(columns) if self.arrow else self._texts(places, schema)
        return pa.RecordBatchReader.from_batches(schema, found)

    def _arrow(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with self._cursor(self.query) as cursor:
            for batch in cursor.fetch_record_batch():
                yield batch.select(columns)

    def _texts(self, places: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with self._cursor(self.query) as cursor:
            while rows := cursor.fetchmany(_ROWS):
                cells = [pa.array([cell_text(row[place]) for row in rows], pa.string()) for place in places]
                yield pa.RecordBatch.from_arrays(cells, schema=schema)

    def _cursor(self, query: str) -> _Cursor:
        return _Cursor(self.connection, query)


class _Cursor:
    """A cursor that has run a query. Errors of the driver may quote rows, so their text is not shown."""

    def __init__(self, connection: Any, query: str) -> None:
        self._connection, self._query = connection, query

    def __enter__(self) -> Any:
        try:
            self._cursor = self._connection.cursor()
            self._cursor.execute(self._query)
        except Exception as error:  # noqa: BLE001 - of any driver
            raise self._error(error) from None
        return self._cursor

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._cursor.close()
        if isinstance(error, Exception) and not isinstance(error, (SchemaError, EngineError)):
            raise self._error(error) from None

    def _error(self, error: Exception) -> EngineError:
        return EngineError(
            f"The query could not be read through the connection ({type(error).__name__}). "
            "Its message may quote rows, so it is not shown.",
            hint="try the query with the same connection; it must be one SELECT without a semicolon",
        )


def cell_text(cell: object) -> str | None:
    """Return a cell of any driver as text; None for what is no text, number or day. Never raises.

    >>> cell_text(7), cell_text(0.5), cell_text(True), cell_text(b"x"), cell_text([7])
    ('7', '0.5', 'true', 'x', None)
    """
    # proof: row-local.streams
    try:
        return _cell_text(cell)
    except Exception:  # noqa: BLE001 - an object of the driver's own class; an error would reveal its row
        return None


def _cell_text(cell: Any) -> str | None:
    if isinstance(cell, str):
        return cell.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).decode(errors="replace")
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int) and cell.bit_length() > _LONGEST_INTEGER_BITS:
        return None
    if isinstance(cell, dt.date):
        return None if isinstance(cell, dt.datetime) else cell.isoformat()
    return str(cell) if isinstance(cell, int | float | decimal.Decimal) else None


def is_connection(data: object) -> bool:
    """Tell whether data is an open connection of Python's DB-API, or of ADBC.

    >>> is_connection("visits.parquet")
    False
    """
    return callable(getattr(data, "cursor", None)) and callable(getattr(data, "rollback", None))


def is_adbc(connection: object) -> bool:
    """Tell whether a connection is one of ADBC, which returns Arrow batches."""
    return hasattr(connection, "adbc_get_info")


def rows_of(connection: Any, *, table: str | None, query: str | None) -> Rows:
    """Name a table or a query of a connection. A table's name must be plain, since databases quote names differently.

    Args:
        connection: An open connection.
        table: The table.
        query: A SELECT.
    """
    if query is None:
        if not _PLAIN.fullmatch(table or ""):
            raise InputError(
                f"How this database quotes the name {table!r} is not known.",
                hint=Hint(python="query='SELECT * FROM ...'", cli=""),
            )
        query = f"SELECT * FROM {table}"
    arrow = is_adbc(connection)
    return Rows(connection=connection, query=query.strip().removesuffix(";"), arrow=arrow, untyped=not arrow)
