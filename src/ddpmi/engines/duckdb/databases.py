"""Tables and views of DuckDB database files, opened read-only and streamed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.engines.duckdb.frames import COMPUTED
from ddpmi.engines.streams import Stream
from ddpmi.errors import EngineError, Hint, InputError, InputNotFound
from ddpmi.pipeline.dialects import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import pyarrow as pa

_BATCH_ROWS = 1 << 17
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "preserve_insertion_order": "false",
}
_TABLES = (
    "SELECT schema_name, table_name, (SELECT BOOL_OR(c.is_generated) FROM duckdb_columns() AS c WHERE c.table_oid = t.table_oid), "
    "FALSE FROM duckdb_tables() AS t WHERE NOT internal AND database_name = current_database() "
    "UNION ALL SELECT schema_name, view_name, FALSE, TRUE FROM duckdb_views() WHERE NOT internal AND database_name = current_database() "
    "ORDER BY ALL"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseTable(Stream):
    """A table, a view or a query of one file."""

    path: str = field(repr=False)
    origin: str = field(repr=False)
    """What to select from, as SQL."""

    def schema(self) -> pa.Schema:
        """Return the columns. Reads no row."""
        with closing(_opened(self.path)) as connection:
            return _selected(connection, f"SELECT * FROM {self.origin} LIMIT 0").read_all().schema

    def check_driver(self) -> None:
        """Check that the file can be opened."""
        _opened(self.path).close()

    def reader(self, columns: list[str]) -> pa.RecordBatchReader:
        """Stream the named columns, in one state of the file."""
        import pyarrow as pa

        known = self.schema()
        schema = pa.schema([known.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches(columns))

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(quote(name) for name in columns)
        with closing(_opened(self.path)) as connection:
            yield from _selected(connection, f"SELECT {listed} FROM {self.origin}")


def _selected(connection: duckdb.DuckDBPyConnection, query: str) -> pa.RecordBatchReader:
    import duckdb

    try:
        return connection.sql(query).to_arrow_reader(_BATCH_ROWS)
    except duckdb.Error as error:
        raise EngineError(
            f"The database could not answer ({type(error).__name__}). Its message may quote rows, so it is not shown.",
            hint="try the query in the duckdb shell; it must be one SELECT",
        ) from None


def _opened(path: str) -> duckdb.DuckDBPyConnection:
    import duckdb

    if not Path(path).is_file():
        raise InputNotFound(f"No file is at {path}.", hint="check the path")
    try:
        connection = duckdb.connect(path, read_only=True, config=_SETTINGS)
    except duckdb.Error as error:
        raise EngineError(
            f"The DuckDB file {path} cannot be opened ({type(error).__name__}).",
            hint="close the program that writes to it; a file of a newer DuckDB needs that version: pip install -U duckdb",
        ) from None
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def find_table(path: str, *, table: str | None, query: str | None) -> tuple[DatabaseTable, str | None]:
    """Name a table, a view or a query of a file, and say what kind of query it is; None for a table.

    Args:
        path: The file.
        table: The table or view, with its schema where it needs one.
        query: A SELECT.
    """
    if query is not None and table is not None:
        raise InputError("table and query were both given.", hint="leave one of them out")
    with closing(_opened(path)) as connection:
        if query is not None:
            return DatabaseTable(path=path, origin=_checked(connection, query)), "query"
        known = connection.execute(_TABLES).fetchall()
    found = [entry for entry in known if table in (entry[1], f"{entry[0]}.{entry[1]}")]
    if len(found) == 1:
        schema, name, computed, is_view = found[0]
        # proof: row-local.streams
        kind = "view" if is_view else COMPUTED if computed else None
        return DatabaseTable(path=path, origin=f"{quote(schema)}.{quote(name)}"), kind
    shown = (
        ", ".join(repr(name if schema == "main" else f"{schema}.{name}") for schema, name, *_ in known[:20]) or "none"
    )
    if table is None:
        raise InputError(
            f"A DuckDB file holds many tables; this one: {shown}.",
            hint=Hint(python="table='visits'", cli="--table visits"),
        )
    raise InputNotFound(
        f"The file has {'no table' if not found else 'several tables'} {table!r}.", hint=f"its tables: {shown}"
    )


def _checked(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """Return a query in brackets, after its parser found one SELECT in it."""
    import duckdb

    try:
        statements = connection.extract_statements(query)
    except duckdb.Error:
        statements = []
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InputError("The query is not one SELECT.", hint="try it in the duckdb shell")
    return f"(\n{query.strip().removesuffix(';')}\n) AS source"
