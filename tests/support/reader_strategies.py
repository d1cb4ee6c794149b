"""Generated records for the contract of readers: ordinary ones, and one owner's odd ones among them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

ROLES = ("person", "site", "country")
#: Texts that mean something somewhere: to a parser, a shell, a spreadsheet, a pattern, a number reader.
ODD_TEXTS = [
    "",
    " ",
    "1",
    "01",
    "1.0",
    "1e3",
    "nan",
    "NULL",
    "null",
    "true",
    "a,b",
    "a;b",
    "a\tb",
    "a|b",
    'q"q',
    '"',
    "it's",
    "back\\slash",
    "line\nend",
    "carriage\rreturn",
    "both\r\n",
    "\x00",
    "a\x01b",
    "\ufeffmark",
    "ß",
    "Å",
    "\u202e",
    "🤦🏼‍♂️",
    "{",
    "[1]",
    "#",
    "--",
    "/*",
    "=1+1",
    "2026-11-18",
    "10" * 30,
]
ODD_BYTES = [
    b"\xff",
    b"a\xffb",
    b"\xc3",
    b"\xc3\n",
    b"\xed\xa0\x80",
    b"\xf0\x9f",
    b"\xd6sterreich",
    b"\x80\x00",
    b"\xef\xbb\xbf",
]
plain_text = st.sampled_from([f"key{n}" for n in range(6)])
texts = st.one_of(plain_text, st.sampled_from(ODD_TEXTS), st.text(max_size=6))
#: Bytes of a text cell, not always Unicode.
raw_texts = st.one_of(texts.map(str.encode), st.sampled_from(ODD_BYTES), st.binary(max_size=4))
numbers = st.one_of(
    st.none(),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), -1.0, -0.0, 0.5, 1e308, 5e-324, 2.0]),
    st.floats(0, 20),
)
integers = st.one_of(st.none(), st.integers(-3, 9), st.sampled_from([2**63 - 1, -(2**63)]))
booleans = st.one_of(st.none(), st.booleans())
days = st.one_of(st.none(), st.dates())


def pairs(cells: st.SearchStrategy[Any], *, most: int = 8) -> st.SearchStrategy[list[tuple[int, Any]]]:
    """Records of two owners in any order, so that an odd one is first, last, or the only one of its owner."""
    return st.lists(st.tuples(st.integers(0, 1), cells), min_size=1, max_size=most)


def rows(*cells: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """One record with a cell for each column."""
    return st.tuples(*cells)


def objects() -> st.SearchStrategy[Any]:
    """Cells of a pandas column of Python objects: everything that people put there."""
    odd = [
        None,
        float("nan"),
        pd.NA,
        pd.NaT,
        2.5,
        1.0,
        True,
        np.bool_(False),
        np.int64(7),
        np.float64(7.0),
        np.str_("key1"),
        np.bytes_(b"key1"),
        np.array([1, 2]),
        np.array([7]),
        np.array(7),
        np.datetime64("2026-11-18"),
        10**5000,
        -(10**40),
        decimal.Decimal("1.50"),
        dt.date(2026, 11, 18),
        dt.datetime(2026, 11, 18),  # noqa: DTZ001 - a cell, not a time
        pd.Timestamp("2026-11-18"),
        dt.timedelta(1),
        uuid.UUID(int=7),
        b"key1",
        b"\xff",
        bytearray(b"x"),
        memoryview(b"x"),
        "\ud800",
        "a\udc00b",
        "\ud83d\ude00",
        [1],
        (1,),
        {"a": 1},
        {1},
        frozenset(),
        object(),
        1j,
        int,
    ]
    return st.one_of(
        texts, st.integers(-2, 3), st.sampled_from(range(len(odd))).map(lambda place: odd[place]), raw_texts
    )


def json_lines() -> st.SearchStrategy[bytes]:
    """Lines of a JSON lines file without their ends: records, records with odd keys and values, and what is none."""
    scalars = st.one_of(
        texts,
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.sampled_from([2**53 + 1, 2**64, -(10**30), 1.5, 1e22, 1e-7, float("nan"), float("inf")]),
    )
    nested = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(texts, scalars, max_size=2))
    keys = st.sampled_from(
        [*ROLES, "Person", "PERSON", "unit", "id", "feature", "label", "Country", "extra", "", "a/b", "~"]
    )
    known = st.fixed_dictionaries({}, optional=dict.fromkeys(ROLES, nested))
    record = st.builds(
        lambda a, b, first: {**b, **a} if first else {**a, **b},
        known,
        st.dictionaries(keys, nested, max_size=3),
        st.booleans(),
    )
    written = st.builds(
        lambda made, ascii_: json.dumps(made, ensure_ascii=ascii_).encode("utf-8", "surrogatepass"),
        record,
        st.booleans(),
    )
    plain = st.tuples(plain_text, plain_text, plain_text).map(
        lambda cells: json.dumps(dict(zip(ROLES, cells, strict=True))).encode()
    )
    odd = [
        b"",
        b"  ",
        b"[",
        b"]",
        b"{",
        b"}",
        b"[{",
        b'"open',
        b"null",
        b"3",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\x00",
        b'{"person": "a"',
        b'{"person": "a"} {"person": "b"}',
        b'{"person": "a", "person": "b", "site": "s", "country": "c"}',
        b'\xef\xbb\xbf{"person": "m", "site": "s", "country": "c"}',
        b'{"person": "\xff", "site": "s", "country": "c"}',
        b'{"person": "\\ud800", "site": "s", "country": "c"}',
        b'{"person": "r", \r "site": "s", "country": "c"}',
        b'{"person": "a\x01b", "site": "s", "country": "c"}',
        b'{"person": "z", "site": "s", "country": "c"}\r',
        b'["key0", "key1", "key2"]',
        b"[" * 5000,
        b'{"person": ' + b"[" * 2000 + b"]" * 2000 + b', "site": "s", "country": "c"}',
    ]
    return st.one_of(
        plain, written, st.sampled_from(odd), st.binary(max_size=12).map(lambda line: line.replace(b"\n", b""))
    )


small_integers = st.integers(0, 3)


def hashable() -> st.SearchStrategy[Any]:
    """Cells that can be categories of a pandas column."""
    odd = [None, True, 7, 10**40, b"key1", b"\xff", "\ud800", dt.date(2026, 11, 18), (1,), uuid.UUID(int=7)]
    return st.one_of(texts, st.sampled_from(range(len(odd))).map(lambda place: odd[place]))
