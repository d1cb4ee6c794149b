"""Named SQL statements: a `Step` is one of a chain, in which each reads the ones before.

Functions of this package return steps and run nothing. The text is SQL:2003; what engines spell differently is in `Dialect`.
An `Expression` is given where a column's name is expected, and a `Table` where a path is expected.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddpmi.errors import Hint, InputError
from ddpmi.pipeline.dialects import DUCKDB, SPARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One SELECT, and the name of its result."""

    name: str
    """The name of the result, by which later steps read it."""
    sql: str
    """A SELECT over earlier steps."""
    shape: str
    """The columns of the result, for readers."""
    freeze: bool = False
    """Whether the result is computed once and stored: needed if several steps read it, or if the salt is used."""

    @property
    def salted(self) -> bool:
        """Whether the statement uses the secret salt."""
        return DUCKDB.salt in self.sql or SPARK.salt in self.sql


@dataclass(frozen=True, slots=True)
class Expression:
    """A scalar SQL expression over the columns of one row, in place of a column's name."""

    text: str
    """The expression, in the SQL of DuckDB."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError(
                "An expression must be a text of SQL, and not empty.",
                hint=Hint(python='sql("year(visited)")', cli='--label-sql "year(visited)"'),
            )


def sql(text: str) -> Expression:
    """Compute a unit, feature, label or value by a scalar SQL expression instead of reading a column.

    The expression may only use columns of its own row. An error in one row, such as a failed cast, gives NULL.

    >>> sql("year(visited)")
    Expression(text='year(visited)')
    """
    return Expression(text)


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view of an engine's catalog, in place of a path."""

    name: str
    """The name as the engine spells it, with its schema where it needs one."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("The name of a table must be a text, and not empty.", hint='table("db.visits")')


def table(name: str) -> Table:
    """Name a table of an engine's catalog as the data to read.

    >>> table("db.visits")
    Table(name='db.visits')
    """
    return Table(name)


def render(steps: list[Step]) -> str:
    """Write steps as one readable text, as `Plan.explain` prints them."""
    return "\n\n".join(f"-- {step.name} : {step.shape}\n{step.sql}" for step in steps)
