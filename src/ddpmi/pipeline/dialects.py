"""The SQL that engines spell differently, one `Dialect` for each, and the quoting of names and text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ddpmi.errors import Hint, InputError

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
    is_number: str = "{v} <> CAST('NaN' AS {double})"
    """Template that is true for a double {v} unless it is NULL or NaN, where {double} is the type."""
    escapes: bool = False
    """Whether a text literal may read a backslash or a null character in another way."""
    by_unit: str = ""
    """Hint after SELECT that brings all rows of a unit to one machine, for engines that run on several."""
    bytes_literal: str = "CAST(X'{hex}' AS {text})"
    """Template for a text whose UTF-8 bytes are {hex}, where {text} is the type."""
    is_run: bool = True
    """Whether an engine of this package runs it. The text of others is printed, and no test has run it."""

    def as_text(self, expression: str) -> str:
        """Return the SQL of a key as text."""
        return self.key.format(m=expression, text=self.text)

    def holds_number(self, value: str) -> str:
        """Return the SQL of a condition that is true for a double unless it is NULL or NaN.

        >>> DUCKDB.holds_number("x")
        "x <> CAST('NaN' AS DOUBLE)"
        """
        return self.is_number.format(v=value, double=self.double)

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
        return self.bytes_literal.format(hex=text.encode().hex(), text=self.text)

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
    # SQLite stores NaN as NULL.
    is_number="{v} IS NOT NULL",
    escapes=True,
)
_DECIMAL_SUM = "SUM(CAST({m} AS DECIMAL(38,0)))"
DATABRICKS = replace(SPARK, name="databricks", is_run=False)
SNOWFLAKE = Dialect(
    name="snowflake",
    text="VARCHAR",
    double="DOUBLE",
    wide="NUMBER(38,0)",
    sha256="SHA2({m}, 256)",
    length="LENGTH({m})",
    salt="(SELECT salt FROM secret)",
    bytes_literal="HEX_DECODE_STRING('{hex}')",
    escapes=True,
    is_run=False,
)
TRINO = Dialect(
    name="trino",
    text="VARCHAR",
    double="DOUBLE",
    wide="DECIMAL(38,0)",
    sha256="lower(to_hex(sha256(to_utf8({m}))))",
    length="length({m})",
    salt="(SELECT salt FROM secret)",
    wide_sum=_DECIMAL_SUM,
    # NaN differs from itself there.
    is_number="NOT is_nan({v})",
    is_run=False,
)
BIGQUERY = Dialect(
    name="bigquery",
    text="STRING",
    double="FLOAT64",
    wide="BIGNUMERIC",
    sha256="TO_HEX(SHA256({m}))",
    length="CHAR_LENGTH({m})",
    salt="(SELECT salt FROM secret)",
    mark="`",
    # A literal of bytes is b'\\x61' there.
    bytes_literal="CAST(FROM_HEX('{hex}') AS STRING)",
    wide_sum="SUM(CAST({m} AS BIGNUMERIC))",
    is_number="NOT IS_NAN({v})",
    escapes=True,
    is_run=False,
)
DIALECTS = {
    dialect.name: dialect for dialect in (DUCKDB, SPARK, POSTGRES, SQLITE, BIGQUERY, DATABRICKS, SNOWFLAKE, TRINO)
}
"""Dialects by name."""
LACKING = {
    "mysql": "keys that are compared by their bytes, casts to BIGINT, || between texts, and NaN",
    "mariadb": "keys that are compared by their bytes, casts to BIGINT, || between texts, and NaN",
    "sqlserver": "conditions as columns, || between texts, and sums of 64-bit integers that do not overflow",
}
"""Databases that cannot run the text -> what they lack. Their rows are streamed to the embedded engine instead."""


def dialect_named(name: str) -> Dialect:
    """Return a dialect by its name.

    Args:
        name: One of `DIALECTS`.

    Raises:
        InputError: There is no such dialect, or the database lacks what the text needs.

    >>> dialect_named("trino").double
    'DOUBLE'
    """
    if name in LACKING:
        raise InputError(
            f"{name} cannot run the pipeline's text: it lacks {LACKING[name]}.",
            hint=Hint(
                do="stream the rows through an open connection",
                python="observe(connection, query='SELECT ...')",
                cli="in Python, with observe",
            ),
        )
    if name not in DIALECTS:
        raise InputError(f"There is no dialect {name!r}.", hint=f"one of {', '.join(sorted(DIALECTS))}")
    return DIALECTS[name]


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
