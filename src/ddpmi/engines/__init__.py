"""Where rows are read: the only files that import an engine.

A `Source` says what the data is and what its columns are; opened, it becomes an `Engine` that runs the pipeline's
steps. Stages never ask which engine they run on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from ddpmi.statements import Dialect, Step

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

    def open(self, columns: list[str]) -> Engine:
        """Start an engine over these columns."""


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

    def run(self, step: Step, *, salt: str, progress: Callable[[float], None] | None = None) -> None:
        """Define the step, or evaluate it once and keep it if it is to be frozen."""

    def put(self, name: str, table: pa.Table) -> None:
        """Make a small table of released keys known to later queries."""

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
