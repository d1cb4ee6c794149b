"""The engine that runs steps inside a PostgreSQL server, in temporary tables of one session.

Everything happens in one transaction of isolation level REPEATABLE READ, so a release sees one state of the data. Only
the definitions of temporary tables and views run in the transaction itself. Every statement that reads a row runs in a
subtransaction that is READ ONLY, from which no statement can leave that mode. At the end all is rolled back.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ddpmi.engines.postgres.sessions import Session, own_errors
from ddpmi.engines.temporary import TemporaryEngine
from ddpmi.errors import InputError
from ddpmi.pipeline.dialects import POSTGRES, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ddpmi.engines.postgres.source import PostgresSource

#: The types of small tables that this process sends.
_TYPES = {"string": 'TEXT COLLATE "C"', "int64": "BIGINT", "bool": "BOOLEAN"}
_SAVED = "ddpmi_reading"


class PostgresEngine(TemporaryEngine):
    """One session with temporary tables, which end with it."""

    dialect = POSTGRES

    def __init__(self, source: PostgresSource, columns: list[str]) -> None:
        super().__init__()
        self._session = Session(source.address, source.settings)
        self.version = self._session.version
        try:
            with own_errors("read the data"):
                self._session.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
                with self._reading():
                    # Permissions are checked, the tables are locked against changes of their definition, no row is read.
                    self._session.all(f"{source.selected(columns, real=True)} LIMIT 0")
                source.confirm(self._session)
                if source.query is None:
                    # Only the server's own functions and operators can be meant by the text of a step.
                    self._session.run("SET LOCAL search_path = pg_temp")
            self._define("source", source.selected(columns), freeze=False)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Roll everything back, and end the session."""
        with suppress(Exception):
            self._session.run("ROLLBACK")
        self._session.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Run the body in a read-only subtransaction: neither a query nor a function that it calls can write a table."""
        # proof: row-local.postgres
        self._session.run(f"SAVEPOINT {_SAVED}")
        self._session.run("SET TRANSACTION READ ONLY")
        yield
        self._session.run(f"RELEASE SAVEPOINT {_SAVED}")

    def _create(self, name: str, sql: str, *, freeze: bool, doing: str) -> bool:
        with own_errors(doing):
            if not freeze:
                self._session.run(f"CREATE TEMP VIEW {name} AS {sql}")
                return False
            self._session.run(f"CREATE TEMP TABLE {name} AS {sql}\nWITH NO DATA")
            with self._reading():
                rows = self._session.run(f"INSERT INTO {name} {sql}")
            if rows:
                # Nothing else counts the rows of a temporary table, and the next plan depends on their number.
                self._session.run(f"ANALYZE {name}")
                return True
            # With this condition the planner knows that the table is empty, and skips all that joins it.
            self._session.run(f"DROP TABLE {name}")
            self._session.run(f"CREATE TEMP VIEW {name} AS SELECT * FROM (\n{sql}\n) AS nothing WHERE FALSE")
            return False

    def _drop(self, name: str, *, table: bool) -> None:
        with own_errors("drop a temporary table"):
            self._session.run(f"DROP {'TABLE' if table else 'VIEW'} IF EXISTS {name} CASCADE")

    def _send(self, name: str, table: pa.Table) -> None:
        for field, column in zip(table.schema, table.columns, strict=True):
            if str(field.type) == "string" and any("\0" in text for text in column.to_pylist() if text):
                raise InputError(
                    "PostgreSQL has no text with a null character.", hint="leave such keys out of the list"
                )
        with own_errors("keep a table"):
            columns = ", ".join(f"{quote(field.name)} {_TYPES[str(field.type)]}" for field in table.schema)
            self._session.run(f"CREATE TEMP TABLE {name} ({columns})")
            with self._reading():
                self._session.send(name, table)
            self._session.run(f"ANALYZE {name}")

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        with own_errors("read the sums"), self._reading():
            yield from self._session.stream(sql)
