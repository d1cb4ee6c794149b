"""Counts in text: each spelling of a whole number is read exactly, and one unit more is never more than one more."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import duckdb
import pytest

from ddpmi.engines.duckdb.source import DuckDBSource

MOST = 2**62
NUMBER = re.compile(r"[\t\n\f\r ]*\+?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?[\t\n\f\r ]*", re.ASCII)


def read(cells: list[str | None]) -> list[int | None]:
    count = DuckDBSource().text_count("cell", MOST)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE cells (place INTEGER, cell VARCHAR)")
        connection.executemany("INSERT INTO cells VALUES (?, ?)", list(enumerate(cells)))
        found = connection.execute(f"SELECT {count} FROM cells ORDER BY place").fetchall()
    return [number for (number,) in found]


def oracle(cell: str) -> int | None:
    """Read a cell with Python's exact numbers; exponents are small here."""
    found = NUMBER.fullmatch(cell)
    if found is None or not (found[1] or found[2]):
        return None
    number = Fraction(int((found[1] or "") + (found[2] or ""))) * Fraction(10) ** (
        int(found[3] or 0) - len(found[2] or "")
    )
    return min(int(number), MOST) if number.denominator == 1 else None


RULES: dict[str, dict[str, int | None]] = {
    "digits": ({"7": 7, "007": 7, "0": 0, "0" * 5000 + "7": 7}),
    "a plus and white space around": ({" 7 ": 7, "\t7": 7, "+5": 5, " +5 ": 5, "+ 5": None, "++5": None, "5 5": None}),
    "a fraction of zeros": ({"7.0": 7, "7.": 7, "7.000": 7, "7.5": None, ".5": None, "7.0000000000000000000001": None}),
    "an exponent": ({"1e3": 1000, "1.5E+1": 15, "10e-1": 1, ".5e1": 5, "1.5e0": None, "1e-1": None, "1e": None}),
    "no number": (dict.fromkeys(["", " ", "abc", "nan", "inf", "0x10", "1_000", "1,000", "٣", ".", "+", "e5", "7f"])),
    "fewer than none": (dict.fromkeys(["-5", "-5.0", "-1e3", "-0", "-" + "9" * 5000])),
    "above a double": (
        {
            "9007199254740993": 2**53 + 1,
            "9007199254740993.0": 2**53 + 1,
            "9.007199254740993e15": 2**53 + 1,
            "9007199254740993.5": None,
            "4611686018427387903": MOST - 1,
        }
    ),
    "the largest": (
        {
            "4611686018427387904": MOST,
            "4611686018427387905": MOST,
            "9223372036854775808": MOST,
            "9" * 38: MOST,
            "9" * 39: MOST,
            "9" * 5000: MOST,
            "9" * 5000 + ".0": MOST,
            "1e300": MOST,
            "1e999999999999999999999999": MOST,
        }
    ),
    "huge exponents": ({"0e999999999999999999999": 0, "1e-999999999999999999999": None, "1e" + "0" * 5000 + "3": 1000}),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_spelling_has_its_rule(rule: str) -> None:
    """A cell is a whole number up to the largest, or nothing; no cell is an error."""
    assert dict(zip(RULES[rule], read(list(RULES[rule])), strict=True)) == RULES[rule]


def test_nothing_stays_nothing() -> None:
    """A missing cell is no count."""
    assert read([None, "1"]) == [None, 1]


def test_reading_agrees_with_exact_numbers() -> None:
    """Random spellings, whole or not, are read as Python's fractions read them."""
    draw = random.Random(20261)
    cells = ["".join(draw.choices("0123456789+-.eE ", k=draw.randint(0, 7))) for _ in range(4000)]
    for _ in range(4000):
        whole = str(draw.randint(0, 10 ** draw.randint(0, 22)))
        point = f".{draw.randint(0, 10 ** draw.randint(0, 4))}" if draw.random() < 0.4 else ""
        power = f"e{draw.choice(['', '+', '-'])}{draw.randint(0, 25)}" if draw.random() < 0.5 else ""
        cells.append(f"{'0' * draw.randint(0, 3)}{whole}{point}{power}")
    assert [
        (cell, number) for cell, number in zip(cells, read(list(cells)), strict=True) if number != oracle(cell)
    ] == []
    assert sum(oracle(cell) is not None for cell in cells) > 2000


@pytest.mark.parametrize("spelling", ["{}", "{}.0", "{}0e-1", " +{} "])
def test_one_unit_more_is_at_most_one_more(spelling: str) -> None:
    """Around every power of two, where doubles and integers end, counts grow by one or stay at the largest."""
    wholes = [2**power + more for power in range(3, 130) for more in range(-2, 3)]
    found = read([spelling.format(whole) for whole in wholes])
    assert found == [min(whole, MOST) for whole in wholes]
