"""Where rows are read: the only files that import an engine.

A `Source` says what the data is and what its columns are; opened, it becomes an `Engine` that runs the pipeline's
steps. Stages never ask which engine they run on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from ddpmi.calibration import TableNoise
    from ddpmi.randomness import Source as Words
    from ddpmi.statements import Dialect, Step
    from ddpmi.tables import Tables

#: What a column holds. "untyped" is the text of a file format without types, where numbers are read row by row.
Kind = Literal["text", "integer", "boolean", "date", "number", "untyped", "other"]


class Source(Protocol):
    """Data that has been named but not read."""

    @property
    def engine(self) -> str:
        """Name of the engine that will read it."""

    @property
    def dialect(self) -> Dialect:
        """How that engine spells the steps."""

    def schema(self) -> Mapping[str, tuple[Kind, str]]:
        """Return column -> (kind, the engine's own type name). Reads no row."""

    @property
    def query(self) -> str | None:
        """What kind of query or view this is, where its rows may depend on more than one unit; None otherwise."""

    @property
    def read_once(self) -> bool:
        """Whether the data is used up by one reading."""

    @property
    def in_memory(self) -> bool:
        """Whether rows and column types were made by the caller's program, before they were handed over."""

    @property
    def encoding(self) -> str | None:
        """How the bytes of text files are read; None for data that says so itself."""

    @property
    def open_names(self) -> bool:
        """Whether rows may have columns that the schema does not list."""

    def check(self, text: str, *, what: str, columns: Collection[str]) -> tuple[tuple[str, ...], Kind, str]:
        """Check that an expression is a function of one row; return the columns it reads, its kind and its type."""

    def prepared(self, target: Path | None) -> Source:
        """Return the same data, ready to be released to a folder; refuse what cannot work before it is paid for.

        Reads no row of the data.
        """

    def open(self, columns: list[str], *, expressions: bool = True) -> Engine:
        """Start an engine over these columns.

        Args:
            columns: What is read.
            expressions: Whether expressions of the caller are computed over them, which some engines must run with care.
        """


class Engine(Protocol):
    """An open place that runs steps. Used as a context manager; closing removes everything it wrote."""

    dialect: Dialect
    relation: str
    """What to select from."""
    one_pass: bool
    """Whether the relation can be read only once."""
    version: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def number(self, column: str, kind: Kind) -> str:
        """Return an expression that reads a column as a number and never fails."""

    def run(self, step: Step, *, salt: str = "", progress: Callable[[float], None] | None = None) -> None:
        """Define the step, or evaluate it once and keep it if it is to be frozen."""

    def put(self, name: str, table: pa.Table) -> None:
        """Make a small table of public keys known to later queries."""

    def draw(self, name: str, sql: str, keys: list[str], noise: TableNoise | None, source: Words | None) -> None:
        """Evaluate exact sums once, add noise, drop what is below the threshold, and keep the rest under a name.

        What later queries read under the name is durable: it is never drawn a second time.

        Args:
            name: What later queries call it.
            sql: Gives the keys and then the sum, and ``hidden`` where the noise has a ``below``.
            keys: Names of the keys.
            noise: What is added; None keeps the sums exact.
            source: Chosen random words, for tests; None is the cryptographic source of whatever process adds the noise.
        """

    def released(self) -> Tables:
        """Hand over the tables ``drawn_pairs``, ``drawn_features``, ``drawn_labels`` and ``drawn_total``, sorted by key bytes.

        They outlive the engine, and reading them again gives the same bytes.
        """

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
