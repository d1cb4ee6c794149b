"""The engines: the only code that reads rows. Each engine has a folder, with the same file names in every folder.

A `Source` names the data and describes its columns without reading a row. Opened, it becomes an `Engine`, which runs
the steps of the pipeline. `open_source` chooses the engine; code outside of this package never asks which one it is.

- duckdb: the embedded engine: files and frames on one machine
- spark: the distributed engine
- postgres: steps run inside a PostgreSQL server
- sqlite: steps run inside a SQLite file
- temporary: temporary tables and views, which postgres and sqlite share
- streams: data of other places that is streamed into the embedded engine
- workbooks: sheets of Excel workbooks
- lakes: Delta and Iceberg tables on disk
- noising: noise added to batches of exact sums
- renaming: names of steps in SQL, replaced by an engine's own
- progress: how much of a running query is done
- room: room on disk, and names that a disk can hold
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ddpmi.engines import streams
from ddpmi.errors import Hint, InputError
from ddpmi.pipeline.steps import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import pyarrow as pa

    from ddpmi.pipeline.dialects import Dialect
    from ddpmi.pipeline.steps import Step
    from ddpmi.privacy.noise import TableNoise
    from ddpmi.privacy.randomness import Source as Words
    from ddpmi.releases.tables import Tables

#: The usual size of a batch of sums.
BATCH_ROWS = 1 << 20
EngineName = Literal["duckdb", "spark", "postgres", "sqlite"]
#: What a column holds. "untyped" is text of a file format without types: whether a cell is a number is decided cell by cell.
Kind = Literal["text", "integer", "boolean", "date", "number", "untyped", "other"]
#: Addresses of PostgreSQL, also as SQLAlchemy spells them.
_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_OTHERS = re.compile(
    r"(mysql|mariadb|mssql|sqlserver|oracle|snowflake|bigquery|trino|presto|redshift|databricks|clickhouse|db2|jdbc)[+:]"
)
_ENGINES = ("spark", "postgres", "sqlite")
#: The end of a file's name -> the kind of database in the file.
_DATABASES = {
    **dict.fromkeys([".sqlite", ".sqlite3", ".db", ".db3"], "sqlite"),
    **dict.fromkeys([".duckdb", ".ddb"], "duckdb"),
    **dict.fromkeys([".xlsx", ".xlsm"], "workbook"),
}


class Source(Protocol):
    """Data that has been named but not read."""

    @property
    def engine(self) -> str:
        """Name of the engine that reads it."""

    @property
    def dialect(self) -> Dialect:
        """The engine's dialect of SQL."""

    def schema(self) -> Mapping[str, tuple[Kind, str]]:
        """Return column -> (kind, the engine's own type name). Reads no row."""

    @property
    def query(self) -> str | None:
        """What kind of query or view this is, where its rows may depend on more than one unit; None otherwise."""

    @property
    def unique(self) -> tuple[frozenset[str], ...]:
        """Sets of columns of which the database itself keeps no two rows equal; none for data without such a rule."""

    @property
    def in_memory(self) -> bool:
        """Whether the caller's program made the rows and the column types."""

    @property
    def encoding(self) -> str | None:
        """The encoding of text files; None for data that declares its own."""

    @property
    def open_names(self) -> bool:
        """Whether rows may have columns that the schema does not list."""

    def check(self, text: str, *, what: str, columns: Collection[str]) -> tuple[tuple[str, ...], Kind, str]:
        """Check that an expression is a function of one row; return the columns it reads, its kind and its type."""

    def guarded(self, text: str) -> str:
        """Return SQL of an expression that `check` accepted; where it fails on a row, its result is NULL."""

    def number(self, column: str, kind: Kind) -> str:
        """Return SQL that reads a column as a number. It never fails."""

    def text_count(self, column: str, most: int) -> str:
        """Return SQL that reads an untyped column as a whole number from 0 to a largest one; NULL for anything else.

        Args:
            column: The column, as SQL that is cheap to repeat.
            most: Larger numbers are replaced by this one.
        """

    def prepared(self, target: Path | None) -> Source:
        """Return the same data, ready to be released to a folder. Refuse what cannot work before anything is charged.

        Reads no row of the data.
        """

    def rehearsal(self) -> Source | None:
        """Return a few made-up rows with the same columns and settings; None for an engine that checks itself otherwise.

        Refuses data whose files or drivers are missing. Reads no row of the data.
        """

    def check_beside(self, other: Source) -> None:
        """Refuse data that one engine cannot read together with these. Reads no row.

        Raises:
            InputError: They are read by different engines or sessions.
        """

    def open(self, columns: list[str], *, expressions: bool = True, beside: Beside | None = None) -> Engine:
        """Start an engine over these columns.

        Args:
            columns: What is read.
            expressions: Whether the caller's expressions are computed over them. Some engines then switch off
                optimizations.
            beside: A second table, which `check_beside` accepted.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A second table that an engine opens together with the rows: a seed is looked up in it."""

    source: Source = field(repr=False)
    columns: list[str]
    """What is read."""


class Engine(Protocol):
    """Runs steps. Used as a context manager; closing it removes everything it wrote."""

    dialect: Dialect
    relation: str
    """What to select from."""
    beside: str
    """What to select the rows of a second table from; empty without one."""
    one_pass: bool
    """Whether a relation can be read only once."""
    version: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def run(self, step: Step, *, salt: str = "", progress: Callable[[float], None] | None = None) -> None:
        """Define the step; a step to be frozen is evaluated once and kept."""

    def put(self, name: str, table: pa.Table) -> None:
        """Make a small table of public keys known to later queries."""

    def draw(self, name: str, sql: str, keys: list[str], noise: TableNoise | None, source: Words | None) -> None:
        """Evaluate exact sums once, add noise, drop sums below the threshold, and keep the others under a name.

        The kept table is durable: it is never drawn a second time.

        Args:
            name: What later queries call it.
            sql: Gives the keys and then the sum, and ``hidden`` where the noise has a ``below``.
            keys: Names of the keys.
            noise: What is added; None keeps the sums exact.
            source: Chosen random words, for tests; None is the cryptographic source of the process that adds the noise.
        """

    def released(self) -> Tables:
        """Return the tables ``drawn_pairs``, ``drawn_features``, ``drawn_labels`` and ``drawn_total``, sorted by key bytes.

        They outlive the engine, and reading them again gives the same bytes.
        """

    def batches(self, sql: str, *, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query.

        Args:
            sql: The query.
            rows: About how many rows a batch has at most; an engine that brings them all at once may ignore it.
        """


def open_source(
    data: Any,
    *,
    engine: str | None,
    settings: Mapping[str, str],
    encoding: str | None,
    table: str | None = None,
    query: str | None = None,
) -> Source:
    """Name data for the engine that reads it. Loads no other engine and reads no row.

    Args:
        data: Paths, a frame, a relation, a `Table`, the address of a database, or an open connection.
        engine: The engine's name; None chooses it by the data.
        settings: Settings of the engine.
        encoding: The encoding of text files; None for the default.
        table: The table of a database, or the sheet of a workbook.
        query: A SELECT of a database.

    Raises:
        InputError: No engine reads these data with these options.
        InputNotFound: There is no file.
    """
    given: Iterable[Any] = data if isinstance(data, list | tuple) else [data]
    paths = [str(item) for item in given] if all(isinstance(item, str | PathLike) for item in given) else None
    kind = _database(data, paths)
    reading = kind if kind in _ENGINES else "spark" if is_spark(data) or engine == "spark" else "duckdb"
    if engine not in (None, reading):
        raise InputError(
            f"engine={engine!r} cannot read these data.",
            hint=Hint(
                python=f"leave engine out, or engine={reading!r}", cli=f"leave --engine out, or --engine {reading}"
            ),
        )
    if isinstance(data, Table) and engine != "spark":
        raise InputError(
            "A table lives in an engine's catalog.",
            hint=Hint(
                python="observe(table('db.visits'), engine='spark'), or observe('postgresql://host/db', table='visits')",
                cli="--table db.visits --engine spark, or postgresql://host/db --table visits",
            ),
        )
    if encoding is not None and (paths is None or kind is not None or reading == "spark"):
        raise InputError(
            "An encoding is for CSV and JSON lines files that DuckDB reads.", hint="leave encoding out for these data"
        )
    if kind is None and (table or query) is not None:
        raise InputError(
            "A table or query is named, but the data is no database.",
            hint=Hint(
                python="observe('postgresql://host/db', table='visits')",
                cli="postgresql://host/db --table visits, or visits.sqlite --table visits",
            ),
        )
    if kind is not None:
        return _database_source(kind, data, paths, settings, table=table, query=query)
    return (
        _spark_source(data, paths, settings) if reading == "spark" else _duckdb_source(data, paths, settings, encoding)
    )


def is_spark(data: object) -> bool:
    """Tell whether data is a Spark DataFrame, classic or Connect, without loading Spark.

    >>> is_spark("visits.parquet")
    False
    """
    return type(data).__module__.startswith("pyspark.sql.") and type(data).__name__ == "DataFrame"


def _database(data: Any, paths: list[str] | None) -> str | None:
    """Return what kind of database the data is in; None for files of rows, frames and tables of a catalog."""
    if paths is None:
        if not streams.is_connection(data):
            return None
        if streams.is_adbc(data) and data.adbc_get_info().get("vendor_name") == "PostgreSQL":
            return "postgres"
        return "connection"
    if len(paths) != 1:
        return None
    if _POSTGRES.match(paths[0]):
        return "postgres"
    if _OTHERS.match(paths[0]):
        # The address may contain a password, so it is not shown.
        raise InputError(
            f"Addresses of {paths[0].partition(':')[0].partition('+')[0]} are not opened here.",
            hint=Hint(
                do="open a connection with its own driver, and pass that",
                python="observe(connection, query='SELECT ...')",
                cli="in Python, with observe",
            ),
        )
    kind = _DATABASES.get(PurePath(paths[0]).suffix.lower())
    return "duckdb" if kind == "sqlite" and _is_duckdb(paths[0]) else kind


def _is_duckdb(path: str) -> bool:
    """Tell whether a file begins as those of DuckDB do, many of which are called .db, too."""
    try:
        with Path(path).open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:
        return False


def _database_source(
    kind: str, data: Any, paths: list[str] | None, settings: Mapping[str, str], *, table: str | None, query: str | None
) -> Source:
    if kind == "sqlite":
        from ddpmi.engines.sqlite import source as sqlite

        return sqlite.file_source(str(paths and paths[0]), settings, table=table, query=query)
    from ddpmi.engines.duckdb import source as duckdb

    if kind == "duckdb":
        return duckdb.database_source(str(paths and paths[0]), settings, table=table, query=query)
    if kind == "workbook":
        return duckdb.workbook_source(str(paths and paths[0]), settings, sheet=table, query=query)
    if kind == "connection":
        rows = streams.rows_of(data, table=table, query=query)
        return duckdb.stream_source(rows, "query through a connection", settings)
    from ddpmi.engines.postgres import source as postgres

    address = _POSTGRES.sub("postgresql://", paths[0]) if paths else data
    found = postgres.database_source(address, settings, table=table, query=query)
    if isinstance(found, streams.Stream):
        return duckdb.stream_source(found, found.query, {})
    return found


def _spark_source(data: Any, paths: list[str] | None, settings: Mapping[str, str]) -> Source:
    from ddpmi.engines.spark import source

    if isinstance(data, Table):
        return source.table_source(data.name, settings)
    if paths is not None:
        return source.path_source(paths, settings)
    if is_spark(data):
        return source.frame_source(data, settings)
    raise InputError(
        f"Data of type {type(data).__name__} cannot be observed on Spark.",
        hint="pass a Spark DataFrame, a path, or table('db.visits')",
    )


def _duckdb_source(data: Any, paths: list[str] | None, settings: Mapping[str, str], encoding: str | None) -> Source:
    from ddpmi.engines.duckdb import source

    if paths is not None:
        return source.path_source(paths, settings, encoding)
    found = source.frame_source(data, settings)
    if found is not None:
        return found
    raise InputError(
        f"Data of type {type(data).__name__} cannot be observed.",
        hint="pass a path, a list of paths, a pandas, polars or Spark DataFrame, an Arrow table or a DuckDB relation",
    )
