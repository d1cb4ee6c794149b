"""Named SQL steps and the little that differs between engines.

A stage returns `Step`s and runs nothing. The text is SQL:2003; what engines disagree on is in `Dialect`.
Names of the user's columns are quoted here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddpmi.errors import InputError


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
    """How the secret salt is written in a statement: a bind parameter where the engine has one."""

    def as_text(self, expression: str) -> str:
        """Return the canonical text of a key."""
        return f"CAST({expression} AS {self.text})"

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
        return "$salt" in self.sql


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
