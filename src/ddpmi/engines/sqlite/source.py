"""The data that SQLite reads: a table, a view or a query of a file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ddpmi.engines.sqlite.engine import SQLiteEngine, connect, own_errors
from ddpmi.engines.temporary import HINT_OF_TABLE, DatabaseSource, one_of_each
from ddpmi.errors import InputError, InputNotFound, SchemaError
from ddpmi.pipeline.dialects import SQLITE, Dialect, quote

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from ddpmi.engines import Beside, Kind

#: What a declared type contains -> what the column holds, as far as cells keep to it. The first match counts.
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("INT", "integer"),
    ("BOOL", "integer"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("DATE", "text"),
    ("TIME", "text"),
    ("BLOB", "other"),
    ("REAL", "number"),
    ("FLOA", "number"),
    ("DOUB", "number"),
    ("NUM", "number"),
    ("DEC", "number"),
)
#: How a cell is read: NULL where it is not what its column declares. Never an error.
_CELLS: dict[Kind, str] = {
    "text": "ddpmi_text(CASE typeof({c}) WHEN 'text' THEN CAST({c} AS BLOB) WHEN 'blob' THEN NULL ELSE {c} END)",
    "integer": "CASE WHEN typeof({c}) = 'integer' THEN {c} END",
    "number": "CASE WHEN typeof({c}) IN ('integer', 'real') THEN {c} END",
}
_MADE_UP_ROWS, _MADE_UP_KEYS = 500, 40
_MADE_UP: dict[Kind, str] = {"text": "'k' || ({n})", "integer": "({n})", "number": "({n}) * 1.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteSource(DatabaseSource):
    """A table, a view or a query of one file.

    No columns count as unique: two texts that are no Unicode may be different in the file and equal as keys.
    """

    title: ClassVar[str] = "SQLite"
    streams: ClassVar[bool] = False
    path: str = field(repr=False)
    engine: str = "sqlite"
    dialect: Dialect = SQLITE

    def number(self, column: str, kind: Kind) -> str:
        """Return SQL of a number; a text that is no number is NULL."""
        return f"ddpmi_number({column})" if kind == "untyped" else column

    def selected(self, columns: list[str], *, real: bool = False) -> str:
        """Return the SELECT of some columns, each cell as its column's kind.

        Args:
            columns: Names of columns.
            real: Whether the data is meant even if made-up rows take its place.
        """
        listed = []
        for place, name in enumerate(columns):
            kind = self.columns[name][0]
            kind = "text" if kind == "untyped" else kind
            # proof: row-local.sqlite
            cell = _CELLS[kind].format(c=quote(name))
            if self.made_up and not real:
                cell = _MADE_UP[kind].format(n=f"(i * {2 * place + 7919} / {place + 3}) % {_MADE_UP_KEYS}")
            listed.append(f"{cell} AS {quote(name)}")
        if self.made_up and not real:
            numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {_MADE_UP_ROWS})"
            return f"{numbers} SELECT {', '.join(listed)} FROM n"
        return f"SELECT {', '.join(listed)} FROM {self.origin}"

    def open(self, columns: list[str], *, expressions: bool = True, beside: Beside | None = None) -> SQLiteEngine:
        """Open the file over these columns; they hold no expressions."""
        del expressions, beside  # `check` and `check_beside` refuse both
        return SQLiteEngine(self, columns)


def file_source(path: str, settings: Mapping[str, str], *, table: str | None, query: str | None) -> SQLiteSource:
    """Name a table or a query of a SQLite file. Reads its schema and no row.

    Args:
        path: The file.
        settings: ``timeout``.
        table: The table or view.
        query: A SELECT.
    """
    if not Path(path).is_file():
        raise InputNotFound(f"The file {path} does not exist.", hint="check the path")
    with closing(connect(path, settings)) as connection:
        with own_errors("read the schema"):
            (encoding,) = connection.execute("PRAGMA encoding").fetchone()
            names = [name for (name,) in connection.execute(_TABLES).fetchall()]
        if encoding != "UTF-8":
            raise InputError(f"The file stores text as {encoding}, which is not read.", hint="export it to Parquet")
        if table is None and query is None:
            shown = ", ".join(repr(name) for name in names[:20]) or "none"
            raise InputError(f"A SQLite file holds many tables; this one: {shown}.", hint=HINT_OF_TABLE)
        one_of_each(table, query)
        with own_errors("understand the query" if table is None else "find the table"):
            if query is not None:
                return _query(connection, path, settings, query)
            return _table(connection, path, settings, str(table), names)


_TABLES = (
    "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
)


def _table(
    connection: sqlite3.Connection, path: str, settings: Mapping[str, str], table: str, names: list[str]
) -> SQLiteSource:
    if table not in names:
        shown = ", ".join(repr(name) for name in names[:20]) or "none"
        raise InputNotFound(f"The file has no table {table!r}.", hint=f"its tables: {shown}")
    asked = "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden <> 1"
    columns = {name: (_kind(type_), type_ or "no type") for name, type_ in connection.execute(asked, (table,))}
    (computed,) = connection.execute("SELECT COUNT(*) FROM pragma_table_xinfo(?) WHERE hidden = 2", (table,)).fetchone()
    (made,) = connection.execute(
        "SELECT type || ' ' || COALESCE(sql, '') FROM main.sqlite_schema WHERE name = ?", (table,)
    ).fetchone()
    # The rows of a virtual table are what a program makes.
    kind = made.split()[0]
    query = "view" if kind == "view" else "virtual table" if made.upper().startswith("TABLE CREATE VIRTUAL") else None
    if query is None and computed:
        # Its expression runs when the column is read, and may fail at one row.
        # proof: row-local.sqlite
        query = "table with columns that are computed when it is read"
    return SQLiteSource(path=path, origin=f"main.{quote(table)}", columns=columns, query=query, settings=settings)


def _query(connection: sqlite3.Connection, path: str, settings: Mapping[str, str], text: str) -> SQLiteSource:
    """Name a query. It must be one complete SELECT: tried alone, so that it cannot leave the brackets around it."""
    plain = text.strip().removesuffix(";").rstrip()
    if "\0" in plain:
        raise InputError("The query holds a null character.", hint="remove it")
    origin = f"(\n{plain}\n) AS source"
    try:
        # The module refuses a text of several statements, and EXPLAIN runs none.
        connection.execute(f"EXPLAIN {plain}").fetchall()
        connection.execute(f"CREATE TEMP VIEW ddpmi_described AS SELECT * FROM {origin}")
        found = connection.execute("SELECT name, type FROM pragma_table_xinfo('ddpmi_described')").fetchall()
    except (UnicodeEncodeError, _warning()):
        raise InputError("The query is not one SELECT.", hint="leave other statements out") from None
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise SchemaError("The query has two columns of one name.", hint="give each its own name with AS")
    columns = {name: (_kind(type_), type_ or "no type") for name, type_ in found}
    return SQLiteSource(path=path, origin=origin, columns=columns, query="query", settings=settings)


def _warning() -> type[Exception]:
    import sqlite3

    return sqlite3.Warning


def _kind(type_: str) -> Kind:
    """Return what a declared type means, by the letters in it, as SQLite itself does; without a type each cell decides."""
    upper = (type_ or "").upper()
    if not upper:
        return "untyped"
    return next((kind for letters, kind in _KINDS if letters in upper), "text")
