"""What the embedded engine reads: files and frames, with what their columns hold and which expressions fit them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddpmi.engines import files, frames
from ddpmi.engines.duckdb import DuckDBEngine
from ddpmi.errors import SchemaError
from ddpmi.statements import DUCKDB, Dialect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from ddpmi.engines import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDBSource:
    """Files, an Arrow table or reader, a frame, or a DuckDB relation."""

    files: files.Files | None = None
    frame: Any = None
    query: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    engine: str = "duckdb"
    dialect: Dialect = DUCKDB
    known: dict[str, tuple[Kind, str]] = field(default_factory=dict, repr=False, compare=False)
    """The schema, once it has been read."""

    @property
    def open_names(self) -> bool:
        """Whether rows may have columns that the schema does not list."""
        return self.files is not None and self.files.format == "json"

    @property
    def read_once(self) -> bool:
        """Whether the data is used up by one reading."""
        return frames.read_once(self.frame)

    @property
    def in_memory(self) -> bool:
        """Whether rows and types were made by the caller's program."""
        return frames.in_memory(self.frame)

    @property
    def encoding(self) -> str | None:
        """How the bytes of text files are read; None for data that says so itself."""
        return None if self.files is None or self.files.format == "parquet" else self.files.encoding

    def schema(self) -> dict[str, tuple[Kind, str]]:
        """Return column -> (kind, type). Reads file metadata at most."""
        if not self.known:
            self.known.update(self._schema())
        return dict(self.known)

    def _schema(self) -> dict[str, tuple[Kind, str]]:
        if self.files is not None and self.files.format == "json":
            return dict.fromkeys(self.files.partitions, ("untyped", "VARCHAR"))
        with DuckDBEngine(self, columns=None) as engine:
            types = engine.types()
        if self.files is None:
            unread = frames.unread(self.frame)
            return {name: ("other" if name in unread else kind, type_) for name, (kind, type_) in types.items()}
        bare = set(self.files.partitions) if self.files.format == "parquet" else set(types)
        return {name: ("untyped" if name in bare else kind, type_) for name, (kind, type_) in types.items()}

    def check(self, text: str, *, what: str, columns: Collection[str]) -> tuple[tuple[str, ...], Kind, str]:
        """Check that an expression is a function of one row; return the columns it reads, its kind and its type.

        Args:
            text: A scalar SQL expression.
            what: How messages call it.
            columns: The columns that exist.
        """
        with DuckDBEngine(self, columns=None) as engine:
            reader = engine.read(text, what=what, columns=columns, open_names=self.open_names)
            reads = tuple(reader.reads)
            self._check_cells(reads, engine)
            if self.files is not None:
                engine.relation = files.with_times(self.files.relation(list(reads)), self.schema(), reads)
            engine.check_columns(reader)
            found = engine.type_of(text, list(reads), what)
            engine.check_calls(reader)
            return reads, *found

    def _check_cells(self, columns: Collection[str], engine: DuckDBEngine) -> None:
        """Refuse columns of an expression whose reading could fail at one cell, from the schema alone."""
        # proof: row-local.cells
        if self.files is None:
            unread = frames.unread(self.frame)
            why = next((unread[name] for name in columns if name in unread), None)
        elif self.files.format == "parquet":
            why = files.unread(self.schema(), columns) or engine.coarse_times(self.files, columns)
        else:
            return
        if why:
            raise SchemaError(why, hint="cast it to text, or to a timestamp in microseconds, where the data is written")

    def prepared(self, target: Path | None) -> DuckDBSource:  # noqa: ARG002 - everything happens in this process
        """Return the data as it is."""
        return self

    def open(self, columns: list[str], *, expressions: bool = True) -> DuckDBEngine:
        """Start an engine over these columns."""
        return DuckDBEngine(self, columns=columns, expressions=expressions)
