"""Steps as temporary tables and views of a database that this process is connected to. PostgreSQL and SQLite share this.

Rows and exact sums stay in the database. Exact sums leave it in one stream for each table of a release, straight into
the noise. Noisy sums that reach the threshold come back as small tables.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

from ddpmi._typing import KEYS
from ddpmi.engines.noising import drawn, in_key_order
from ddpmi.engines.renaming import renamed
from ddpmi.errors import Hint, InputError, SchemaError
from ddpmi.releases.tables import MemoryTables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from ddpmi.engines import Kind, Source
    from ddpmi.pipeline.dialects import Dialect
    from ddpmi.pipeline.steps import Step
    from ddpmi.privacy.noise import TableNoise
    from ddpmi.privacy.randomness import Source as Words


HINT_OF_TABLE = Hint(python="table='visits', or query='SELECT ...'", cli="--table visits, or --query 'SELECT ...'")
LONGEST_KEY = 1 << 24
"""Longest key in bytes. Hashes are over several keys together, and databases have a limit for one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource:
    """A table, a view or a query of a database, with columns as they were when it was named."""

    title: ClassVar[str]
    """The database, for messages."""
    streams: ClassVar[bool]
    """Whether the columns may be read out of the database instead."""
    origin: str = field(repr=False)
    """What to select from, as SQL."""
    columns: Mapping[str, tuple[Kind, str]] = field(repr=False)
    query: str | None = None
    unique: tuple[frozenset[str], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    made_up: bool = False
    """Whether a few made-up rows take the place of the data, for a rehearsal."""
    in_memory: bool = False
    encoding: str | None = None
    open_names: bool = False

    def schema(self) -> dict[str, tuple[Kind, str]]:
        """Return column -> (kind, type). Reads nothing."""
        return dict(self.columns)

    def check(self, text: str, *, what: str, columns: Collection[str]) -> tuple[tuple[str, ...], Kind, str]:
        """Refuse: only DuckDB's parser can check that an expression is a function of one row."""
        del text, columns
        raise self._refused(what)

    def guarded(self, text: str) -> str:
        """Refuse, as `check` does."""
        raise self._refused(f"the expression {text!r}")

    def text_count(self, column: str, most: int) -> str:
        """Refuse: a count needs a column that is declared to hold whole numbers."""
        del most
        raise SchemaError(
            f"The count column {column} is not declared to hold whole numbers.", hint="cast it in a query"
        )

    def prepared(self, target: Path | None) -> Self:  # noqa: ARG002 - nothing is written beside the release
        """Return the data as it is: what a release needs of the database is tried by the rehearsal."""
        return self

    def rehearsal(self) -> Self:
        """Return made-up rows in place of the data. The engine then checks that it may read the data, too."""
        return replace(self, made_up=True)

    def check_beside(self, other: Source) -> None:
        """Refuse: a seed is looked up in a second table by the engines of files and of Spark alone."""
        del other
        raise InputError(
            f"A seed is not looked up in a second table in {self.title}.",
            hint=Hint(
                do="join the tables in a query that shows the seed"
                + (", or stream the columns" if self.streams else ""),
                python="observe(..., query='SELECT ...').label_by(...) with Plan(..., row_local=True)",
                cli="--query 'SELECT ...' --row-local",
            ),
        )

    def _refused(self, what: str) -> InputError:
        python, cli = (", or conf={'stream': 'yes'}", ", or --conf stream=yes") if self.streams else ("", "")
        return InputError(
            f"{what[0].upper()}{what[1:]} is SQL, which is not read in {self.title}.",
            hint=Hint(
                do="write it into the query" + (", or stream the columns to the embedded engine" if python else ""),
                python=f"query='SELECT ...' with Plan(..., row_local=True){python}",
                cli=f"--query 'SELECT ...' --row-local{cli}",
            ),
        )


class TemporaryEngine:
    """Runs steps as temporary tables and views, whose random names no query of the owner contains."""

    dialect: Dialect
    version: str
    one_pass = False
    relation = "source"
    beside = ""

    def __init__(self) -> None:
        self._prefix = f"ddpmi_{secrets.token_hex(8)}_"
        self._names: dict[str, bool] = {}
        """Names of steps and tables, and whether each is a table and no view."""
        self._here: dict[str, pa.Table] = {}
        """Tables that this process made: public keys and noisy sums."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Remove everything that was written, and leave the database."""

    @abstractmethod
    def _create(self, name: str, sql: str, *, freeze: bool, doing: str) -> bool:
        """Create a temporary view of this full name; with ``freeze``, a table that is filled now.

        Returns:
            Whether it is a table.
        """

    @abstractmethod
    def _drop(self, name: str, *, table: bool) -> None:
        """Drop a temporary table or view of this full name, with the views that read it."""

    @abstractmethod
    def _send(self, name: str, table: pa.Table) -> None:
        """Create and fill a temporary table of texts and numbers."""

    @abstractmethod
    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query, whole numbers as 64-bit integers."""

    def _text(self, sql: str) -> str:
        return renamed(sql, self._prefix, self._names)

    def _define(self, name: str, sql: str, *, freeze: bool) -> None:
        text = self._text(sql)
        self._forget(name)
        self._names[name] = self._create(self._prefix + name, text, freeze=freeze, doing=f"compute {name}")

    def _forget(self, name: str) -> None:
        """Drop what has this name: an earlier release from the same sums made it."""
        self._here.pop(name, None)
        if name in self._names:
            self._drop(self._prefix + name, table=self._names.pop(name))

    def run(self, step: Step, *, salt: str = "", progress: Callable[[float], None] | None = None) -> None:
        """Define a view; a step to be frozen is evaluated once into a table. Databases do not say how far a query is."""
        if step.salted and "secret" not in self._names:
            self._keep_salt(salt)
        if progress is not None and step.freeze:
            progress(0.0)
        self._define(step.name, step.sql, freeze=step.freeze)
        if progress is not None and step.freeze:
            progress(1.0)

    def _keep_salt(self, salt: str) -> None:
        """Send the salt as a row: no statement and no parameter of one contains it."""
        import pyarrow as pa

        self.put("secret", pa.table({"salt": pa.array([salt], pa.string())}))
        del self._here["secret"]

    def put(self, name: str, table: pa.Table) -> None:
        """Send a small table of public keys or noisy sums."""
        self._forget(name)
        self._send(self._prefix + name, table)
        self._names[name], self._here[name] = True, table

    def draw(self, name: str, sql: str, keys: list[str], noise: TableNoise | None, source: Words | None) -> None:
        """Stream exact sums through the noise. Sums below the threshold are never stored."""
        exact = self.batches(sql if source is None else in_key_order(sql, keys))
        self.put(name, drawn(exact, keys, noise, source))

    def batches(self, sql: str, *, rows: int = 0) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - the driver chooses
        """Stream the rows of a query, in batches as the driver brings them."""
        return self._stream(self._text(sql))

    def released(self) -> MemoryTables:
        """Return the drawn tables, which are in memory unless a step made them in the database."""
        found = {name: self._released(f"drawn_{name}", list(keys)) for name, keys in KEYS.items()}
        return MemoryTables(**found)

    def _released(self, name: str, keys: list[str]) -> pa.Table:
        columns = [*keys, "sum"]
        if name in self._here:
            table = self._here[name].select(columns)
        else:
            table = drawn(self.batches(f"SELECT {', '.join(columns)} FROM {name}"), keys, None, None)
        # Arrow compares texts by their bytes and puts the missing ones last, as all engines do.
        return table.sort_by([(key, "ascending") for key in keys]) if keys else table


def one_of_each(table: str | None, query: str | None) -> None:
    """Refuse a database without a table or query, or with both.

    Args:
        table: The table.
        query: The query.

    >>> one_of_each("visits", None)
    """
    if (table is None) == (query is None) or not (table or query or "").strip():
        raise InputError(
            "Data in a database is a table or a query." if table or query else "A database holds many tables.",
            hint=HINT_OF_TABLE,
        )
