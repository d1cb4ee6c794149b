"""The data that PostgreSQL reads: a table, a view or a query; what their columns hold, and which are unique together."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ddpmi.engines.postgres.engine import PostgresEngine
from ddpmi.engines.postgres.sessions import Session, own_errors
from ddpmi.engines.temporary import LONGEST_KEY, DatabaseSource, one_of_each
from ddpmi.errors import EngineError, InputError, InputNotFound, SchemaError
from ddpmi.pipeline.dialects import POSTGRES, Dialect, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from ddpmi.engines import Beside, Kind
    from ddpmi.engines.postgres.streaming import PostgresRows

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(["text", "varchar", "bpchar", "name", "uuid", "citext"], "text"),
    **dict.fromkeys(["int2", "int4", "int8"], "integer"),
    **dict.fromkeys(["float4", "float8", "numeric"], "number"),
    "bool": "boolean",
    "date": "date",
}
#: Types of text without a limit of their own.
_LONG = ("text", "varchar", "bpchar", "citext")
_UNNAMED = re.compile(r"unnamed<oid:(\d+)>")
#: Kinds of relations that hold their own rows.
_TABLES = ("r", "p")
_QUERIES = {"v": "view", "m": "materialized view", "f": "foreign table"}
_IDENTIFIER = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')
#: Sums use doubles between these numbers; anything outside is clipped or counts as zero anyway.
_SMALLEST, _LARGEST = "1e-200", "1e300"
_MADE_UP_ROWS, _MADE_UP_KEYS = 500, 40
#: A made-up cell of each kind, as SQL over a small number.
_CELLS: dict[Kind, str] = {
    "text": "CAST('k' || {n} AS TEXT) COLLATE \"C\"",
    "integer": "{n}",
    "number": "CAST({n} AS DOUBLE PRECISION)",
    "boolean": "{n} % 2 = 0",
    "date": "DATE '2000-01-01' + {n}",
}
_FIND = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, row_security_active(c.oid), c.relhassubclass
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname::text = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
AND CASE WHEN $2 = '' THEN pg_table_is_visible(c.oid) ELSE n.nspname::text = $2 END"""
#: Columns that no two rows share: of complete unique indexes and primary keys, which hold for every row.
_UNIQUE = """
SELECT array_agg(a.attname::text)
FROM pg_catalog.pg_index i
JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(att, place) ON k.place <= i.indnkeyatts
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.att
WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid"""
#: Whether rows of a table come from elsewhere: from a foreign part, or from expressions that are computed when it is read.
_ELSEWHERE = """
WITH RECURSIVE parts AS (
SELECT $1::oid AS part UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN parts ON i.inhparent = parts.part)
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN parts ON c.oid = parts.part WHERE c.relkind = 'f'),
EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a JOIN parts ON a.attrelid = parts.part WHERE a.attgenerated::text = 'v')"""
_SAME = """
SELECT c.relkind::text, c.relhassubclass FROM pg_catalog.pg_class c
WHERE c.oid = to_regclass($1) AND c.oid = $2::oid AND NOT row_security_active(c.oid)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSource(DatabaseSource):
    """A table, a view or a query of one database."""

    title: ClassVar[str] = "PostgreSQL"
    streams: ClassVar[bool] = True
    address: Any = field(repr=False)
    oid: int | None = None
    """The table's number in the catalog."""
    named: str = field(default="", repr=False)
    """The table's full name."""
    engine: str = "postgres"
    dialect: Dialect = POSTGRES

    def number(self, column: str, kind: Kind) -> str:
        """Return SQL of a double for a number, and NaN for NaN. A numeric has values that no double has."""
        if kind == "boolean":
            return f"CAST({column} AS INTEGER)"
        if kind == "integer":
            return column
        # A division that ends below the smallest double fails, too.
        # proof: row-local.postgres
        return (
            f"CASE WHEN {column} = 'NaN' THEN CAST('NaN' AS DOUBLE PRECISION) "
            f"WHEN {column} BETWEEN -{_SMALLEST} AND {_SMALLEST} THEN 0 "
            f"ELSE CAST(LEAST(GREATEST({column}, -{_LARGEST}), {_LARGEST}) AS DOUBLE PRECISION) END"
        )

    def selected(self, columns: list[str], *, real: bool = False) -> str:
        """Return the SELECT of some columns, texts as plain text that is compared by its bytes.

        Args:
            columns: Names of columns.
            real: Whether the data is meant even if made-up rows take its place.
        """
        if self.made_up and not real:
            cells = [
                _CELLS[self.columns[name][0]].format(n=_hashed(place)) + f" AS {quote(name)}"
                for place, name in enumerate(columns)
            ]
            return f"SELECT {', '.join(cells)} FROM generate_series(1, {_MADE_UP_ROWS}) AS i"
        listed = [f"{self.cell(name)} AS {quote(name)}" for name in columns]
        return f"SELECT {', '.join(listed) or '1'} FROM {self.readable(columns)}"

    def cell(self, name: str) -> str:
        """Return SQL of a column's cells, text as plain text that is compared by its bytes."""
        # proof: row-local.postgres
        kind, type_ = self.columns[name]
        if type_ == "float4":  # which has no room for the limits of `number`
            return f"CAST({quote(name)} AS DOUBLE PRECISION)"
        return POSTGRES.as_text(quote(name)) if kind == "text" else quote(name)

    def readable(self, columns: list[str]) -> str:
        """Return SQL to select from, without the rows of which a text is too long to be hashed."""
        long = [quote(name) for name in columns if self.columns[name][1] in _LONG]
        # proof: row-local.postgres
        short = [f"(octet_length(CAST({name} AS TEXT)) <= {LONGEST_KEY}) IS NOT FALSE" for name in long]
        return self.origin + (f"\nWHERE {' AND '.join(short)}" if short else "")

    def confirm(self, session: Session) -> None:
        """Check that the table is the one that was named, and that columns that were unique then are so in this transaction."""
        # proof: bounding.enforced
        if self.query is None:
            same = session.all(_SAME, (self.named, int(self.oid or 0)))
            if not same or (self.unique and same[0] == ("r", True)):
                raise EngineError("The table was replaced after the data was named.", hint="name the data again")
        if self.unique and not set(self.unique) <= set(_unique(session, int(self.oid or 0))):
            raise EngineError(
                "A unique index of the table was dropped after the data was named.", hint="name the data again"
            )

    def open(self, columns: list[str], *, expressions: bool = True, beside: Beside | None = None) -> PostgresEngine:
        """Start a session over these columns; they hold no expressions."""
        del expressions, beside  # `check` and `check_beside` refuse both
        return PostgresEngine(self, columns)


def _hashed(place: int) -> str:
    return f"(CAST(CAST('x' || substr(md5(i || ':{place}'), 1, 7) AS BIT(28)) AS INTEGER) % {_MADE_UP_KEYS})"


def database_source(
    address: Any, settings: Mapping[str, str], *, table: str | None, query: str | None
) -> PostgresSource | PostgresRows:
    """Name a table or a query of a database. Reads its catalog and no row.

    Where the role may not make temporary tables, or ``stream`` asks for it, the columns that are needed are read out,
    and the embedded engine works on them.

    Args:
        address: A URL, or an ADBC connection that is open; a session of its own is started in either case.
        settings: Settings of the session.
        table: The table or view.
        query: A SELECT.
    """
    one_of_each(table, query)
    with closing(Session(address, settings)) as session:
        found = (
            _table(session, address, settings, str(table))
            if query is None
            else _query(session, address, settings, query)
        )
        (may_write,) = session.one(
            "SELECT has_database_privilege(current_database(), 'TEMPORARY') AND NOT pg_is_in_recovery()"
        )
    if may_write and settings.get("stream") != "yes":
        return found
    from ddpmi.engines.postgres.streaming import PostgresRows

    return PostgresRows(source=found)


def _table(session: Session, address: Any, settings: Mapping[str, str], name: str) -> PostgresSource:
    with own_errors("find the table"):
        oid, schema, table, kind, secured, parent = _found(session, name)
        named = f"{quote(schema)}.{quote(table)}"
        columns = _described(session, f"SELECT * FROM {named}")
        unique = _unique(session, oid) if kind == "p" or (kind == "r" and not parent) else ()
        foreign, computed = session.one(_ELSEWHERE, (oid,))
    # A policy of row security may look at other rows; a foreign part or a computed column may fail at one row.
    # proof: row-local.postgres
    hides = "table with row security" if secured else "table with a foreign part" if foreign else None
    if computed:
        hides = "table with columns that are computed when it is read"
    return PostgresSource(
        address=address,
        # An index says nothing about tables that inherit from this one later.
        # proof: bounding.enforced
        origin=f"ONLY {named}" if unique and kind == "r" else named,
        columns=columns,
        oid=oid,
        named=named,
        query=_QUERIES.get(kind, hides),
        unique=unique,
        settings=settings,
    )


def _query(session: Session, address: Any, settings: Mapping[str, str], text: str) -> PostgresSource:
    """Name a query. It must be one complete SELECT: parsed alone, so that it cannot leave the brackets around it."""
    plain = text.strip().removesuffix(";").rstrip()
    origin = f"(\n{plain}\n) AS source"
    with own_errors("understand the query"):
        if "\0" in plain:
            raise InputError("The query holds a null character.", hint="remove it")
        session.described(plain)
        columns = _described(session, f"SELECT * FROM {origin}")
    return PostgresSource(address=address, origin=origin, columns=columns, query="query", settings=settings)


def _found(session: Session, name: str) -> tuple[int, str, str, str, bool, bool]:
    for schema, table in _readings(name):
        rows = session.all(_FIND, (table, schema))
        if rows:
            oid, found_in, relation, kind, secured, parent = rows[0]
            return oid, found_in, relation, kind, secured, parent
    folded = name.lower()
    known = any(session.all(_FIND, (table, schema)) for schema, table in _readings(folded)) and folded != name
    raise InputNotFound(
        f"The database has no table {name!r} that this role can see.",
        hint=f"names are case-sensitive here: {folded!r}" if known else "name its schema, too: schema.table",
    )


def _readings(name: str) -> list[tuple[str, str]]:
    """Return what a name may mean as (schema, table): as it is, split at a dot, or as SQL quotes it.

    >>> _readings('"My schema".visits')[-1]
    ('My schema', 'visits')
    """
    dots = [place for place, sign in enumerate(name) if sign == "."]
    found = [("", name), *((name[:place], name[place + 1 :]) for place in dots)]
    parts = [(first.replace('""', '"') or second) for first, second in _IDENTIFIER.findall(name)]
    if len(parts) > 2:  # noqa: PLR2004 - a schema and a table
        return found
    return [*found, ("" if len(parts) == 1 else parts[0], parts[-1])] if parts else found


def _described(session: Session, query: str) -> dict[str, tuple[Kind, str]]:
    """Return column -> (kind, type). A domain is what it is made of."""
    schema = session.described(query)
    names = [field.name for field in schema]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"The query has more than one column {twice!r}.", hint="give each its own name with AS")
    return {field.name: _kind(session, field) for field in schema}


def _kind(session: Session, column: pa.Field) -> tuple[Kind, str]:
    type_ = (column.metadata or {}).get(b"POSTGRESQL:type", b"unknown").decode()
    unnamed = _UNNAMED.fullmatch(type_)
    if unnamed is not None:  # it was made after this session began
        (type_,) = session.one("SELECT typname::text FROM pg_catalog.pg_type WHERE oid = $1::oid", (int(unnamed[1]),))
    if type_ in _KINDS:
        return _KINDS[type_], type_
    sorts = session.all("SELECT typtype::text FROM pg_catalog.pg_type WHERE typname::text = $1", (type_,))
    return "text" if sorts and {sort for (sort,) in sorts} == {"e"} else "other", type_


def _unique(session: Session, oid: int) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names) for (names,) in session.all(_UNIQUE, (oid,)))
