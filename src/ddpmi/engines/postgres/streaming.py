"""Columns of a table or query of PostgreSQL as a stream, for roles that may not make temporary tables."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddpmi.engines.postgres.sessions import Session, own_errors
from ddpmi.engines.streams import Stream
from ddpmi.pipeline.dialects import POSTGRES, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ddpmi.engines.postgres.source import PostgresSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresRows(Stream):
    """Rows that leave the server: keys and values as the engine inside the server reads them."""

    source: PostgresSource = field(repr=False)

    @property
    def query(self) -> str | None:
        """What kind of query or view this is; None for a table."""
        return self.source.query

    def schema(self) -> pa.Schema:
        """Return the columns of types that can be read."""
        import pyarrow as pa

        types = {
            "text": pa.string(),
            "integer": pa.int64(),
            "number": pa.float64(),
            "boolean": pa.bool_(),
            "date": pa.string(),
        }
        return pa.schema([(name, types[kind]) for name, (kind, _) in self.source.columns.items() if kind in types])

    def check_driver(self) -> None:
        """Connect, and check that the role may read the data. Reads no row."""
        with closing(Session(self.source.address, self.source.settings)) as session, own_errors("read the data"):
            session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._confirm(session)

    def reader(self, columns: list[str]) -> pa.RecordBatchReader:
        """Stream the named columns, in one read-only transaction."""
        import pyarrow as pa

        known = self.schema()
        schema = pa.schema([known.field(name) for name in columns])
        cells = []
        for name in columns:
            cell, kind = self.source.cell(name), self.source.columns[name][0]
            if kind == "date":
                cell = POSTGRES.as_text(cell)
            elif kind == "number":
                cell = f"CAST({self.source.number(cell, kind)} AS DOUBLE PRECISION)"
            elif kind == "integer":
                cell = f"CAST({cell} AS BIGINT)"
            cells.append(f"{cell} AS {quote(name)}")
        query = f"SELECT {', '.join(cells)} FROM {self.source.readable(columns)}"
        return pa.RecordBatchReader.from_batches(schema, self._batches(query, schema))

    def _batches(self, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with closing(Session(self.source.address, self.source.settings)) as session, own_errors("read the data"):
            session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._confirm(session)
            for batch in session.stream(query):
                yield batch.cast(schema)

    def _confirm(self, session: Session) -> None:
        """Check permissions, lock the table against changes of its definition, and check that it is the one that was named."""
        session.all(f"{self.source.selected([])} LIMIT 0")
        self.source.confirm(session)
