"""Whole numbers in text, as SQL of DuckDB: exact in every spelling, for the counts of files without types.

One unit more must never be more than one more. A double would round large counts, and a limit beyond which counts are
dropped would lose all units of a cell for one: so digits are read as digits, and what is too large is the largest.
"""

from __future__ import annotations

#: White space around, a plus, digits with a point, an exponent. Signs and digits are ASCII.
_NUMBER = r"\s*\+?([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?\s*"
#: The usual spellings, read faster. 18 digits fit 64 bits, and 15 digits fit a double.
_PLAIN, _POINT = "[0-9]{1,18}", r"[0-9]{1,15}\.0*"
#: A number with more digits is above all 64-bit integers.
_FITS = 19
#: No cell has 10^12 digits, so only the sign of a larger exponent matters.
_FAR = 10**12


def text_count(column: str, most: int) -> str:
    """Return an expression that reads text as a whole number from 0 to a largest one, NULL for what is none.

    Args:
        column: The text, as SQL that is cheap to repeat.
        most: What larger numbers count as, at most 2^63 - 1.

    >>> text_count("n", 100).startswith("CASE WHEN regexp_full_match(n, ")
    True
    """
    before, after, power = (f"regexp_extract({column}, '{_NUMBER}', {group})" for group in (1, 2, 3))
    # The number is its significant digits times ten to a power; it is whole unless that power is negative.
    digits = f"ltrim({before} || {after}, '0')"
    significant = f"rtrim({digits}, '0')"
    sign = f"CASE WHEN {power} LIKE '-%' THEN {-_FAR} ELSE {_FAR} END"
    exponent = f"greatest(least(coalesce(TRY_CAST({power} AS BIGINT), {sign}), {_FAR}), {-_FAR})"
    given = f"CASE WHEN {power} = '' THEN 0 ELSE {exponent} END"
    zeros = f"({given} - length({after}) + length({digits}) - length({significant}))"
    length = f"(length({significant}) + {zeros})"
    padded = f"rpad({significant}, CAST(greatest(least({length}, {_FITS}), 0) AS INTEGER), '0')"
    # least() would skip a NULL and give the limit.
    none = f"{column} IS NULL OR NOT regexp_full_match({column}, '{_NUMBER}') OR {before} || {after} = ''"
    # proof: bounding.row-local
    return (
        f"CASE WHEN regexp_full_match({column}, '{_PLAIN}') THEN least(TRY_CAST({column} AS BIGINT), {most})\n"
        f"WHEN regexp_full_match({column}, '{_POINT}') THEN least(CAST(TRY_CAST({column} AS DOUBLE) AS BIGINT), {most})\n"
        f"WHEN {none} THEN NULL\n"
        f"WHEN {significant} = '' THEN 0\n"
        f"WHEN {zeros} < 0 THEN NULL\n"
        f"WHEN {length} > {_FITS} THEN {most}\n"
        f"ELSE CAST(least(TRY_CAST({padded} AS HUGEINT), {most}) AS BIGINT) END"
    )
