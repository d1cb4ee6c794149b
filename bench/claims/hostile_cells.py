"""Cells that may break functions, as SQL by type: extremes, empty and damaged texts, huge counts, deep and long values."""

from __future__ import annotations

_INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
_COUNTS = (0, -1, 2, 37, 1_000_000, 2**31, 2**62, -(2**31), 55_296, 253_402_300_800_000)
_DOUBLES = [
    "nan",
    "inf",
    "-inf",
    "0.0",
    "-0.0",
    "5e-324",
    "1.7976931348623157e308",
    "-1e300",
    "1e15",
    "-1",
    "1e19",
    "0.1",
]
_TEXTS = """a|A b| |(|[|a{2,1}|(?P<n|\\|%|%Y-%m-%d|%q|%5000000d|%*d|{}|{|{:5000000d}|{:{}}|month|nope|century|UTC
Europe/Berlin|No/Where|infinity|-infinity|2020-02-30|2020-01-01|0044-03-15 (BC)|290309-12-22 (BC)
294247-01-10 04:00:54.775806|25:61:61|1|-1|1e400|-9223372036854775809|0x|1 month|-178956970 years
7 days 3 months|{"a": [1, null]}|{"a": {"a": {"a": 1e999}}}|[1, "x"]|{"a"|[[[|nan|"\\ud800"|$|$.a
$.a[|$[#-9]|$..a|$.*|/a/~2|/|a.b.c/d\\e|%ff%fe|%u|=|QUJD|QUJ|zz|0fg|g|true|POINT(1|INTEGER|10 YB
1 bytes|00000000-0000-0000-0000-000000000000|max|string_agg|%_\\|\\%|*[!a|[z-a]"""
TEXTS = [text for line in _TEXTS.split("\n") for text in line.split("|")]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_OF_TEXT = [
    *map(
        _quoted,
        [
            *TEXTS,
            "",
            "e\u0301\u0301\u0301",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467",
            "\u0130\u00df\ufb03",
            "\u202e\ufeff",
        ],
    ),
    "'a' || chr(0) || 'b'",
    "chr(0)",
    "repeat('9', 120)",
    "repeat('[', 60) || repeat(']', 60)",
]
_DATES = [
    "infinity",
    "-infinity",
    "5877642-06-25 (BC)",
    "5881580-07-10",
    "1970-01-01",
    "0001-01-01",
    "0044-03-15 (BC)",
    "2020-02-29",
]
_STAMPS = [
    "infinity",
    "-infinity",
    "290309-12-22 (BC) 00:00:00",
    "294247-01-10 04:00:54.775806",
    "1970-01-01",
    "1883-11-18 12:03:57",
]
_ZONED = ["2020-03-29 02:30:00", "0044-03-15 (BC) 00:00:00"]
_INTERVALS = [
    *(
        "0 days",
        "1 day",
        "-1 day",
        "1 month",
        "-1 month",
        "1 microsecond",
        "2147483647 days",
        "-2147483648 days",
        "3 months 7 days",
    ),
    *(
        "2147483647 months",
        "-2147483648 months",
        "9223372036854775807 microseconds",
        "-9223372036854775807 microseconds",
    ),
]


def _typed(type_: str, texts: list[str]) -> list[str]:
    return [f"CAST({_quoted(text)} AS {type_})" for text in texts]


def _integers(type_: str) -> list[str]:
    low, high = _INTEGERS[type_]
    values = [low, high, *(count for count in _COUNTS if low <= count <= high), low + 1, high - 1]
    return _typed(type_, [str(value) for value in dict.fromkeys(values)])


#: Type -> cells, as SQL. The worker adds NULL to each.
CELLS: dict[str, list[str]] = {
    **{name: _integers(name) for name in _INTEGERS},
    "DOUBLE": _typed("DOUBLE", _DOUBLES),
    "FLOAT": _typed("FLOAT", [text for text in _DOUBLES if "e3" not in text and "e-3" not in text] + ["3.4028235e38"]),
    "DECIMAL(38,10)": _typed(
        "DECIMAL(38,10)", ["9" * 28 + ".9999999999", "-" + "9" * 28 + ".9999999999", "0", "0.0000000001", "-1"]
    ),
    "DECIMAL(4,1)": _typed("DECIMAL(4,1)", ["999.9", "-999.9", "0", "0.1"]),
    "DECIMAL(18,3)": _typed("DECIMAL(18,3)", ["9" * 15 + ".999", "-" + "9" * 15 + ".999", "0", "0.001"]),
    "BOOLEAN": ["true", "false"],
    "VARCHAR": _OF_TEXT,
    "BLOB": [
        "'\\xFF\\xFE'::BLOB",
        "'\\x00'::BLOB",
        "''::BLOB",
        "'abc'::BLOB",
        "'\\xED\\xA0\\x80'::BLOB",
        "'\\x01\\x01\\x00\\x00\\x00'::BLOB",
    ],
    "DATE": _typed("DATE", _DATES),
    "TIMESTAMP": _typed("TIMESTAMP", [*_STAMPS, *_ZONED]),
    "TIMESTAMP_S": _typed("TIMESTAMP_S", ["1970-01-01", "infinity", "-infinity", "2262-04-12"]),
    "TIMESTAMP_MS": _typed("TIMESTAMP_MS", ["1970-01-01", "infinity", "-infinity", "294247-01-10"]),
    "TIMESTAMP_NS": _typed("TIMESTAMP_NS", ["1970-01-01", "infinity", "-infinity", "2262-04-11", "1677-09-22"]),
    "TIMESTAMP WITH TIME ZONE": _typed("TIMESTAMPTZ", [*_STAMPS, *_ZONED]),
    "TIMESTAMPTZ_NS": _typed("TIMESTAMPTZ_NS", ["1970-01-01", "2262-04-11", "1677-09-22"]),
    "TIME": _typed("TIME", ["00:00:00", "24:00:00", "23:59:59.999999"]),
    "TIME_NS": _typed("TIME_NS", ["00:00:00", "24:00:00", "23:59:59.999999999"]),
    "TIME WITH TIME ZONE": _typed("TIMETZ", ["00:00:00+15:59:59", "24:00:00-15:59:59", "12:00:00+00"]),
    "INTERVAL": _typed("INTERVAL", _INTERVALS),
    "UUID": _typed(
        "UUID",
        [
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "018f4e7e-0000-7000-8000-000000000000",
        ],
    ),
    "BIT": _typed("BIT", ["0", "1", "10101010101", "1" * 100]),
    "BIGNUM": _typed("BIGNUM", ["0", "-1", "9" * 100, "-" + "9" * 100]),
    "JSON": _typed(
        "JSON",
        [
            '{"a": [1, null, 1e999]}',
            '[1, 2.5, "x"]',
            "null",
            '"\\u0000"',
            "{}",
            "[]",
            "12345678901234567890",
            "[[[[[[1]]]]]]",
            "true",
        ],
    ),
    "ENUM('a', 'b')": ["'a'::ENUM('a', 'b')", "'b'::ENUM('a', 'b')"],
    "BIGINT[]": [
        "[]::BIGINT[]",
        "[NULL]::BIGINT[]",
        "[1, 2, NULL, 9223372036854775807, -9223372036854775808]",
        "[0, 1000000]",
    ],
    "BOOLEAN[]": ["[]::BOOLEAN[]", "[NULL]::BOOLEAN[]", "[true, false, true]"],
    "VARCHAR[]": [
        "[]::VARCHAR[]",
        "[NULL]::VARCHAR[]",
        "['a', '', NULL, chr(0)]",
        "['$.a', '$.a[', '(']",
        "['%Y', '%q']",
    ],
    "DOUBLE[]": [
        "[]::DOUBLE[]",
        "['nan', 'inf', '-inf', NULL]::DOUBLE[]",
        "[0.0, 0.0]::DOUBLE[]",
        "[1e308, 1e308]::DOUBLE[]",
    ],
    "FLOAT[]": ["[]::FLOAT[]", "['nan', 'inf', '-inf', NULL]::FLOAT[]", "[0.0, 0.0]::FLOAT[]", "[3e38, 3e38]::FLOAT[]"],
    "VARCHAR[][]": ["[]::VARCHAR[][]", "[NULL, [], [NULL]]::VARCHAR[][]", "[['a'], ['b', 'c']]"],
    "DOUBLE[3]": ["[0, 0, 0]::DOUBLE[3]", "['nan', 'inf', 1e308]::DOUBLE[3]", "[1, NULL, 2]::DOUBLE[3]"],
    "FLOAT[3]": ["[0, 0, 0]::FLOAT[3]", "['nan', 'inf', 3e38]::FLOAT[3]", "[1, NULL, 2]::FLOAT[3]"],
    "STRUCT(a BIGINT, b VARCHAR)": [
        "{'a': 9223372036854775807, 'b': chr(0)}",
        "{'a': NULL::BIGINT, 'b': NULL::VARCHAR}",
        "{'a': 0, 'b': ''}",
    ],
    "STRUCT(a BIGINT, b VARCHAR)[]": [
        "[{'a': 1, 'b': 'x'}, NULL]",
        "[]::STRUCT(a BIGINT, b VARCHAR)[]",
        "[{'a': NULL, 'b': 'x'}, {'a': NULL, 'b': 'y'}]::STRUCT(a BIGINT, b VARCHAR)[]",
    ],
    "MAP(VARCHAR, BIGINT)": [
        "MAP {}::MAP(VARCHAR, BIGINT)",
        "MAP {'': NULL}::MAP(VARCHAR, BIGINT)",
        "MAP {'a': 1, 'b': -9223372036854775808}",
    ],
    "UNION(n BIGINT, t VARCHAR)": [
        "union_value(n := 1::BIGINT)::UNION(n BIGINT, t VARCHAR)",
        "union_value(t := 'x')::UNION(n BIGINT, t VARCHAR)",
    ],
    "VARIANT": ["1::VARIANT", "'x'::VARIANT", "{'a': [1, 2]}::VARIANT", "NULL::VARIANT"],
    "GEOMETRY": ["'POINT(1 1)'::GEOMETRY", "'POINT EMPTY'::GEOMETRY", "'LINESTRING(0 0, nan inf)'::GEOMETRY"],
}
#: Ordinary cells of the types that have none above.
USUAL = {
    "VARCHAR": ["'abc'", "'2020-01-01'", "'12'"],
    "BLOB": ["'abc'::BLOB"],
    "INTERVAL": ["INTERVAL 1 DAY"],
    "DATE": ["DATE '2020-05-17'"],
    "TIMESTAMP": ["TIMESTAMP '2020-05-17 10:11:12'"],
    "TIMESTAMP WITH TIME ZONE": ["TIMESTAMPTZ '2020-05-17 10:11:12+00'"],
}
#: Cells of about a megabyte.
LONG = {
    "VARCHAR": [
        "repeat('a', 1000000)",
        "repeat('a', 500000) || 'b'",
        "repeat('[', 500000) || repeat(']', 500000)",
        "repeat('{\"a\":', 200000) || '1' || repeat('}', 200000)",
        "'[' || repeat('1,', 500000) || '1]'",
        "repeat('e' || chr(769), 330000)",
        "repeat('%', 1000000)",
        "repeat('(', 1000000)",
        "repeat('9', 1000000)",
        "repeat('a.b/', 250000)",
    ],
    "BLOB": ["encode(repeat('a', 1000000))", "unhex(repeat('FF', 1000000))"],
    "JSON": ["('[' || repeat('1,', 500000) || '1]')::JSON", "(repeat('[', 5000) || repeat(']', 5000))::JSON"],
    "BIGINT[]": ["range(100000)", "list_transform(range(100000), lambda i: i % 2)"],
    "VARCHAR[]": ["list_transform(range(100000), lambda i: 'text ' || i)"],
    "DOUBLE[]": ["list_transform(range(100000), lambda i: i::DOUBLE)"],
    "FLOAT[]": ["list_transform(range(100000), lambda i: i::FLOAT)"],
    "BOOLEAN[]": ["list_transform(range(100000), lambda i: i % 2 = 0)"],
    "BIT": ["repeat('1', 1000000)::BIT"],
    "BIGNUM": ["repeat('9', 20000)::BIGNUM"],
    "MAP(VARCHAR, BIGINT)": ["map(list_transform(range(5000), lambda i: 'k' || i), range(5000))"],
    "VARCHAR[][]": ["list_transform(range(30000), lambda i: ['a', 'b'])"],
}
_ANY = [
    *("BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "INTERVAL", "BLOB", "BIGINT[]", "JSON", "BOOLEAN", "UUID"),
    *("STRUCT(a BIGINT, b VARCHAR)", "MAP(VARCHAR, BIGINT)", "DECIMAL(38,10)", "ENUM('a', 'b')"),
]
_LISTS = ["BIGINT[]", "VARCHAR[]", "DOUBLE[]", "VARCHAR[][]", "STRUCT(a BIGINT, b VARCHAR)[]"]
#: Type in a signature of the catalog -> the concrete types to try for it.
CONCRETE = {
    "ANY": _ANY,
    "T": _ANY,
    "K": ["VARCHAR"],
    "V": ["BIGINT"],
    "ANY[]": _LISTS,
    "T[]": _LISTS,
    "T[][]": ["VARCHAR[][]"],
    "K[]": ["VARCHAR[]"],
    "V[]": ["BIGINT[]"],
    "DECIMAL": ["DECIMAL(38,10)", "DECIMAL(18,3)", "DECIMAL(4,1)"],
    "FLOAT[ANY]": ["FLOAT[3]"],
    "DOUBLE[ANY]": ["DOUBLE[3]"],
    "MAP(K, V)": ["MAP(VARCHAR, BIGINT)"],
    "STRUCT": ["STRUCT(a BIGINT, b VARCHAR)"],
    "TUPLE": ["STRUCT(a BIGINT, b VARCHAR)"],
    "TUPLE(K, V)[]": ["STRUCT(a BIGINT, b VARCHAR)[]"],
    "UNION": ["UNION(n BIGINT, t VARCHAR)"],
    'STRUCT("year" BIGINT, "month" BIGINT, "day" BIGINT)': ["STRUCT(a BIGINT, b VARCHAR)"],
}
