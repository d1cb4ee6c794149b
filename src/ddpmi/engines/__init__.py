"""The engines: the only code that reads rows. Each engine has a folder, with the same file names in every folder.

A `Source` names the data and describes its columns without reading a row. Opened, it becomes an `Engine`, which runs
the steps of the pipeline. `open_source` chooses the engine; code outside of this package never asks which one it is.

- duckdb: the embedded engine: files and frames on one machine
- spark: the distributed engine
- lakes: Delta and Iceberg tables on disk
- noising: noise added to batches of exact sums
- progress: how much of a running query is done
- room: room on disk, and names that a disk can hold
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ddpmi.errors import Hint, InputError
from ddpmi.pipeline.steps import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from ddpmi.pipeline.dialects import Dialect
    from ddpmi.pipeline.steps import Step
    from ddpmi.privacy.noise import TableNoise
    from ddpmi.privacy.randomness import Source as Words
    from ddpmi.releases.tables import Tables

#: The usual size of a batch of sums.
BATCH_ROWS = 1 << 20
EngineName = Literal["duckdb", "spark"]
#: What a column holds. "untyped" is text of a file format without types: whether a cell is a number is decided cell by cell.
Kind = Literal["text", "integer", "boolean", "date", "number", "untyped", "other"]


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


def open_source(data: Any, *, engine: str | None, settings: Mapping[str, str], encoding: str | None) -> Source:
    """Name data for the engine that reads it. Loads no other engine and reads no row.

    Args:
        data: Paths, a frame, a relation or a `Table`.
        engine: The engine's name; None chooses Spark for its DataFrames and DuckDB for all other data.
        settings: Settings of the engine.
        encoding: The encoding of text files; None for the default.

    Raises:
        InputError: No engine reads these data with these options.
        InputNotFound: There is no file.
    """
    given: Iterable[Any] = data if isinstance(data, list | tuple) else [data]
    paths = [str(item) for item in given] if all(isinstance(item, str | PathLike) for item in given) else None
    is_frame = is_spark(data)
    if engine not in (None, "duckdb", "spark") or (is_frame and engine == "duckdb"):
        raise InputError(
            f"engine={engine!r} cannot read these data.",
            hint=Hint(python="leave engine out, or engine='spark'", cli="leave --engine out, or --engine spark"),
        )
    if isinstance(data, Table) and engine != "spark":
        raise InputError(
            "A table lives in an engine's catalog.",
            hint=Hint(python="observe(table('db.visits'), engine='spark')", cli="--table db.visits --engine spark"),
        )
    on_spark = is_frame or engine == "spark"
    if encoding is not None and (paths is None or on_spark):
        raise InputError(
            "An encoding is for CSV and JSON lines files that DuckDB reads.", hint="leave encoding out for these data"
        )
    return _spark_source(data, paths, settings) if on_spark else _duckdb_source(data, paths, settings, encoding)


def is_spark(data: object) -> bool:
    """Tell whether data is a Spark DataFrame, classic or Connect, without loading Spark.

    >>> is_spark("visits.parquet")
    False
    """
    return type(data).__module__.startswith("pyspark.sql.") and type(data).__name__ == "DataFrame"


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
