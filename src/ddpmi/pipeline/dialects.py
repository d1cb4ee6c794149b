"""The SQL that engines spell differently, one `Dialect` for each, and the quoting of names and text."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: 2^44 integers below this size sum to less than 2^63.
_SMALL = 2**19
#: Text without a character that an engine could read as an escape.
_PLAIN = re.compile(r"[\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The spelling of one engine."""

    name: str
    """The engine, for messages and receipts."""
    text: str
    """Type of text."""
    double: str
    """Type of an IEEE double."""
    wide: str
    """An integer type that sums of 64-bit integers cannot overflow."""
    sha256: str
    """Template for the lower-case hex digest of a text expression {m}."""
    length: str
    """Template for the length of a text expression {m} in characters."""
    salt: str
    """How a statement refers to the secret salt: a bind parameter or a table, never the salt itself."""
    mark: str = '"'
    """The quotation mark of names."""
    clean_text: str = "{m}"
    """Template for a text key {m} with U+FFFD in place of bytes that are no text."""
    key: str = "CAST({m} AS {text})"
    """Template for a key {m} as text, where {text} is the type."""
    wide_sum: str = "SUM({m})"
    """Template for the sum of 64-bit integers {m}, which must not overflow or fail."""
    escapes: bool = False
    """Whether a text literal may read a backslash or a null character in another way."""
    by_unit: str = ""
    """Hint after SELECT that brings all rows of a unit to one machine, for engines that run on several."""

    def as_text(self, expression: str) -> str:
        """Return the SQL of a key as text."""
        return self.key.format(m=expression, text=self.text)

    def quote(self, name: str) -> str:
        """Quote an identifier.

        >>> SPARK.quote("a`b")
        '`a``b`'
        """
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def literal(self, text: str) -> str:
        """Write a text literal; as bytes where the engine could read an escape in it.

        >>> SPARK.literal("visits"), SPARK.literal("a'b")
        ("'visits'", "CAST(X'612762' AS STRING)")
        """
        if not self.escapes or _PLAIN.fullmatch(text):
            return literal(text)
        return f"CAST(X'{text.encode().hex()}' AS {self.text})"

    def sum(self, expression: str, most: int | None = None) -> str:
        """Return the SQL of a sum of integers that does not overflow before 2^44 rows.

        Args:
            expression: What is summed.
            most: The largest of the integers, where that is known.

        >>> SPARK.sum("x", 256), SPARK.sum("x"), DUCKDB.sum("x")
        ('SUM(x)', 'SUM(CAST(x AS DECIMAL(38,0)))', 'SUM(x)')
        """
        small = most is not None and most <= _SMALL
        return f"SUM({expression})" if small else self.wide_sum.format(m=expression)

    def keyed_hash(self, purpose: str, *fields: str) -> str:
        """Return the SQL of the hex digest of salt, purpose and fields, each field preceded by its length.

        The lengths make the input unambiguous: ("ab", "c") and ("a", "bc") have different digests.
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
    # A literal or a bound parameter would appear in plans, in the user interface and in event logs; a row of a table does not.
    salt="(SELECT salt FROM secret)",
    mark="`",
    # Bytes that are no text would fail where rows leave Spark. The replacement depends on the cell alone.
    # proof: row-local.spark
    clean_text="make_valid_utf8(CAST({m} AS STRING))",
    wide_sum="SUM(CAST({m} AS DECIMAL(38,0)))",
    escapes=True,
    # The distinct pairs, the counts of each unit and the join of both then need one shuffle together.
    by_unit="/*+ REPARTITION(unit) */ ",
)
POSTGRES = Dialect(
    name="postgres",
    text="TEXT",
    double="DOUBLE PRECISION",
    wide="NUMERIC",
    sha256="encode(sha256(convert_to({m}, 'UTF8')), 'hex') COLLATE \"C\"",
    length="length({m})",
    # Statements and their parameters are shown in the server's log; rows of a table are not.
    salt="(SELECT salt FROM secret)",
    # Bytes decide which keys are equal, and in which order they come, in every database.
    key='CAST({m} AS {text}) COLLATE "C"',
)
SQLITE = Dialect(
    name="sqlite",
    text="TEXT",
    double="REAL",
    wide="INTEGER",
    # Functions of this package: SQLite has no hash, its length ends at a null character, and its SUM fails beyond 64 bits.
    sha256="ddpmi_sha256({m})",
    length="ddpmi_length({m})",
    salt="(SELECT salt FROM secret)",
    wide_sum="ddpmi_sum({m})",
    escapes=True,
)


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
