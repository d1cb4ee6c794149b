"""Named SQL steps and the little that differs between engines.

A stage returns `Step`s and runs nothing. The text is SQL:2003; what engines disagree on is in `Dialect`.
Names of the user's columns are quoted here and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddpmi.errors import InputError

#: 2^44 integers up to this size add up to less than 2^63.
_SMALL = 2**19
#: Text without anything that an engine's own escapes could mean.
_PLAIN = re.compile(r"[\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one engine spells differently."""

    name: str
    """For messages and receipts."""
    text: str
    """Type of text."""
    double: str
    """Type of an IEEE double."""
    wide: str
    """An integer type that sums of 64-bit integers cannot overflow."""
    sha256: str
    """Template that gives the lower-case hex digest of a text expression {m}."""
    length: str
    """Template that gives the length of a text expression {m} in characters."""
    salt: str
    """How the secret salt is written in a statement: a bind parameter or a table, never the salt itself."""
    mark: str = '"'
    """What stands around quoted names."""
    clean_text: str = "{m}"
    """Template that gives a text key {m} with U+FFFD in place of bytes that are no text."""
    sums_grow: bool = True
    """Whether a SUM of 64-bit integers is wider than they are; otherwise it fails when it overflows."""
    by_unit: str = ""
    """Hint after SELECT that brings all rows of a unit to one place, where the engine is spread over several."""

    def as_text(self, expression: str) -> str:
        """Return the canonical text of a key."""
        return f"CAST({expression} AS {self.text})"

    def quote(self, name: str) -> str:
        """Quote an identifier.

        >>> SPARK.quote("a`b")
        '`a``b`'
        """
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def literal(self, text: str) -> str:
        """Write a text literal; where a backslash may mean something, as bytes.

        >>> SPARK.literal("visits"), SPARK.literal("a'b")
        ("'visits'", "CAST(X'612762' AS STRING)")
        """
        if self.mark == '"':
            return literal(text)
        return literal(text) if _PLAIN.fullmatch(text) else f"CAST(X'{text.encode().hex()}' AS {self.text})"

    def sum(self, expression: str, most: int | None = None) -> str:
        """Add up integers of at most a size, or of any, so that no sum overflows before 2^44 rows.

        >>> SPARK.sum("x", 256), SPARK.sum("x"), DUCKDB.sum("x")
        ('SUM(x)', 'SUM(CAST(x AS DECIMAL(38,0)))', 'SUM(x)')
        """
        small = most is not None and most <= _SMALL
        return f"SUM({expression})" if self.sums_grow or small else f"SUM(CAST({expression} AS {self.wide}))"

    def keyed_hash(self, purpose: str, *fields: str) -> str:
        """Return the hex digest of salt, purpose and fields, each field length-prefixed.

        The prefix makes the input unambiguous: ("ab", "c") and ("a", "bc") never share a digest.
        """
        parts = [self.salt, literal(f":{purpose}")]
        for field in fields:
            text = self.as_text(field)
            parts += ["':'", self.as_text(self.length.format(m=text)), "':'", text]
        return self.sha256.format(m=" || ".join(parts))


DUCKDB = Dialect(
    name="duckdb",
    text="VARCHAR",
    double="DOUBLE",
    wide="HUGEINT",
    sha256="sha256({m})",
    length="length({m})",
    salt="$salt",
)

SPARK = Dialect(
    name="spark",
    text="STRING",
    double="DOUBLE",
    wide="DECIMAL(38,0)",
    sha256="sha2({m}, 256)",
    length="length({m})",
    # A literal or a bound parameter would stand in plans, in the user interface and in event logs; a row of a table does not.
    salt="(SELECT salt FROM secret)",
    mark="`",
    # Such bytes would fail where rows leave Spark; a cell is changed by itself alone.
    # proof: row-local.spark
    clean_text="make_valid_utf8(CAST({m} AS STRING))",
    sums_grow=False,
    # One shuffle serves the distinct pairs, the counts of each unit and the join of both.
    by_unit="/*+ REPARTITION(unit) */ ",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One named statement; the name is its output."""

    name: str
    sql: str
    """A SELECT over earlier steps."""
    shape: str
    """The columns that come out, for readers."""
    freeze: bool = False
    """Evaluate once and keep: needed where a later step reads it twice or where the salt is used."""

    @property
    def salted(self) -> bool:
        """Whether the statement binds the secret salt."""
        return DUCKDB.salt in self.sql or SPARK.salt in self.sql


@dataclass(frozen=True, slots=True)
class Expression:
    """A scalar SQL expression over the columns of one row, where a column's name could stand."""

    text: str
    """SQL as DuckDB reads it."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError("An expression is a text of SQL.", hint='sql("year(visited)")')


def sql(text: str) -> Expression:
    """Give a role by a scalar SQL expression instead of a column.

    Only functions of the row's own columns are taken; an error in one row, such as a bad cast, is NULL.

    >>> sql("year(visited)")
    Expression(text='year(visited)')
    """
    return Expression(text)


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view of an engine's catalog, where a path could stand."""

    name: str
    """As the engine spells it, with its schema where it needs one."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("A table has a name.", hint='table("db.visits")')


def table(name: str) -> Table:
    """Name a table of an engine's catalog.

    >>> table("db.visits")
    Table(name='db.visits')
    """
    return Table(name)


def quote(name: str) -> str:
    """Quote an identifier.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Write a text literal.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def render(steps: list[Step]) -> str:
    """Write steps as one readable text, the way `Plan.explain` shows them."""
    return "\n\n".join(f"-- {step.name} : {step.shape}\n{step.sql}" for step in steps)
