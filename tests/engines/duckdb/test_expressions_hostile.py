"""Expressions on hostile rows: nothing that a cell holds may raise, grow without bound, or reach another row."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from ddpmi import Bounds, Budget, InputError, Plan, SchemaError, exact, observe, sql
from ddpmi.testing import exact_sums

DAY = dt.datetime(2020, 5, 17, 10, 11, 12)  # noqa: DTZ001 - a timestamp without a zone
ROWS = pa.table(
    {
        "unit": [1, 2, 3],
        "feature": ["a", "b", "c"],
        "label": ["x", "y", "HOSTILE"],
        "text": ["UTC", "UTC", "No/Where"],
        "escape": ["!", "!", "too long"],
        "part": ["year", "year", "timezone"],
        "long": [1, 2, 2_000_000_000],
        "day": [dt.date(2020, 5, 17)] * 3,
        "time": [DAY] * 3,
        "list": [[1], [2], list(range(100))],
        "json": ['{"a": 1}', '{"a": 2}', "{"],
        "period": pa.array([dt.timedelta(days=7), dt.timedelta(days=7), dt.timedelta(0)], pa.duration("us")),
        "clock": [dt.time(1)] * 3,
    }
)
BROKEN = {
    "timezone": "CAST(timezone(text, time) AS DATE)",
    "at_time_zone": "CAST(time AT TIME ZONE text AS DATE)",
    "timezone_of_a_date": "timezone(day)",
    "time_bucket": "time_bucket(period, day)",
    "like_escape": "label LIKE 'a' ESCAPE escape",
    "ilike_escape": "label ILIKE 'a' ESCAPE escape",
    "not_like_escape": "label NOT LIKE 'a' ESCAPE escape",
    "like": "label LIKE text",
    "ilike": "label ILIKE text",
    "glob": "label GLOB text",
    "similar_to": "label SIMILAR TO text",
    "regexp": "regexp_matches(label, text)",
    "regexp_replace": "regexp_replace(label, 'a', text)",
    "replace": "replace(label, 'a', text)",
    "lpad": "lpad(label, long::INTEGER, 'x')",
    "rpad": "rpad(label, long::INTEGER, 'x')",
    "printf": "printf('%*d', long::INTEGER, 1)",
    "format": "format('{:{}}', label, long)",
    "bitstring": "bitstring('1', long::INTEGER)",
    "repeat": "repeat(label, long)",
    "date_part": "date_part(part, clock)",
    "date_diff": "date_diff(part, clock, clock)",
    "array_length": "array_length(list, long)",
    "concat_ws": "concat_ws(text, list, list)",
    "list_reduce": "list_reduce(list, lambda a, b: a + b)",
    "json_contains": "json_contains(json, text)",
    "levenshtein": "levenshtein(label, text)",
    "json_path": "json ->> text",
    "json_all_depths": "json ->> '$..a'",
    "json_pretty": "json_pretty(json)",
    "comparison_as_a_function": '"="(label, text)',
    "time_bucket_with_an_origin": "time_bucket(INTERVAL 1 DAY, day, day)",
    "array_to_string": "array_to_string(list, text)",
    "list_select": "list_select(list, list)",
    "error": "error(label)",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_one_cell_can_break_is_refused(name: str) -> None:
    """Functions whose errors TRY lets through, or whose result is as long as a cell says, are refused from the text alone."""
    with pytest.raises(InputError, match="calls"):
        observe(ROWS, label=sql(BROKEN[name]))


@pytest.mark.parametrize(
    "text",
    [
        "CAST(timezone('No/Where', time) AS DATE)",
        "CASE WHEN label = 'HOSTILE' THEN CAST(timezone('No/Where', time) AS DATE) END",
        "time_bucket(INTERVAL 0 DAY, day)",
        "time_bucket(INTERVAL '1 month 7 days', day)",
        "label LIKE 'a' ESCAPE 'too long'",
        "label SIMILAR TO '('",
        "CASE WHEN label = 'HOSTILE' THEN regexp_extract(label, '[') END",
        "nullif(CAST('infinity' AS TIMESTAMP), 0) || label",
        "date_trunc('nope', day)",
        "date_diff('nope', day, day)",
        "date_part('timezone', day)",
        "strftime(day, '%q')",
        "json ->> '$.a['",
        "lpad(label, 2000000000, 'x')",
        "weekday(time - time)",
        "list_sum(list_transform(list, lambda i: date_part('year', day) + i))",
    ],
)
def test_a_bad_constant_is_refused_before_the_charge(text: str) -> None:
    """A constant that would fail on the first row is an error of the expression, in every branch."""
    with pytest.raises((InputError, SchemaError), match="The expression for the label"):
        observe(ROWS, label=sql(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("year(day)", "2020"),
        ("weekday(day)", "0"),
        ("CAST(date_trunc('month', time) AS DATE)", "2020-05-01"),
        ("strftime(time, '%Y-%m')", "2020-05"),
        ("CAST(strptime('2020-05-17', '%Y-%m-%d') AS DATE)", "2020-05-17"),
        ("CAST(time AS DATE)", "2020-05-17"),
        ("CAST(time_bucket(INTERVAL '7 days', day) AS DATE)", "2020-05-11"),
        ("CAST(time_bucket(INTERVAL 1 MONTH, time) AS DATE)", "2020-05-01"),
        ("CAST(timezone('Europe/Berlin', time) AS DATE)", "2020-05-17"),
        ("CAST(time AT TIME ZONE 'Europe/Berlin' AS DATE)", "2020-05-17"),
        ("hour(time)", "10"),
        ("EXTRACT(quarter FROM day)", "2"),
        ("date_diff('day', DATE '2020-05-01', day)", "16"),
        ("CASE WHEN unit < 10 THEN 'low' ELSE 'high' END", "low"),
        ("split_part('a-b', '-', 2) || '!'", "b!"),
        ("regexp_extract('id-' || day, '-([0-9]+)', 1)", "2020"),
        ("regexp_replace('a1' || feature, '[0-9abc]+', 'n')", "n"),
        ("lower('ABC')", "abc"),
        ("coalesce(nullif(label, label), 'none')", "none"),
        ("CAST(floor(unit / 10) * 10 AS INTEGER)", "0"),
        ("lpad(CAST(day AS VARCHAR), 4, '0')", "2020"),
        ("feature LIKE 'z%'", "false"),
        ("feature ILIKE '_!_' ESCAPE '!'", "false"),
        ("list_contains(list, -1)", "false"),
        ("len(list_filter(list, lambda i: i > 1000 + unit))", "0"),
        ("array_to_string(['a', 'b'], '-')", "a-b"),
        ("replace('a b', ' ', '_')", "a_b"),
        ("json_extract_string('{\"a\": {\"b\": 1}}', '$.a.b')", "1"),
        ("round(unit / 100)::INTEGER", "0"),
        ("substring('abc', 1, 2)", "ab"),
    ],
)
def test_usual_expressions_are_taken(text: str, expected: str) -> None:
    """Years, months, weeks, time zones, bands, parts of text and members of JSON make labels."""
    pairs = exact(observe(ROWS, label=sql(text))).pairs.to_pylist()
    assert {row["label"] for row in pairs} == {expected}
    assert sum(row["sum"] for row in pairs) == 3


ONE_BAD = {
    "CAST(bad AS INTEGER) % 2": "x",
    "CAST(CAST(bad AS DATE) AS VARCHAR)": "2020-02-30",
    "CAST(strptime(bad, '%Y') AS DATE)": "x",
    "CAST(bad AS JSON) ->> 'a'": "{",
    "decode(unhex(bad))": "ff",
    "chr(CAST(bad AS INTEGER))": "55296",
    "CAST(CAST(bad AS TINYINT) + CAST(127 AS TINYINT) AS INTEGER)": "1",
    "CAST(to_days(CAST(bad AS INTEGER)) + DATE '294246-01-01' AS VARCHAR)": "2147483647",
    "CAST(ln(CAST(bad AS DOUBLE)) AS INTEGER)": "-1",
    "CAST(make_date(2020, CAST(bad AS INTEGER), 1) AS VARCHAR)": "13",
}
GOOD = {
    "CAST(CAST(bad AS DATE) AS VARCHAR)": "2020-02-28",
    "CAST(bad AS JSON) ->> 'a'": '{"a": 1}',
    "decode(unhex(bad))": "41",
}
GOOD |= {
    "CAST(strptime(bad, '%Y') AS DATE)": "2020",
    "CAST(CAST(bad AS TINYINT) + CAST(127 AS TINYINT) AS INTEGER)": "0",
}


@pytest.mark.parametrize("stored", ["arrow", "parquet"])
@pytest.mark.parametrize("text", ONE_BAD)
def test_a_bad_row_drops_itself_alone(text: str, stored: str, tmp_path) -> None:
    """One error among 5,000 rows leaves the other 4,999 as they were, from memory and from files with statistics."""
    cells = [GOOD.get(text, "1")] * 5000
    cells[4321] = ONE_BAD[text]
    rows = pa.table({"unit": range(5000), "feature": ["a"] * 5000, "bad": cells})
    if stored == "parquet":
        pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=1000)
    obs = observe(rows if stored == "arrow" else tmp_path / "rows.parquet", label=sql(text))
    assert [row["sum"] for row in exact(obs).pairs.to_pylist()] == [4999]


TWICE = [
    "CASE WHEN CAST(text AS INTEGER) > 5 THEN 'a' WHEN CAST(text AS INTEGER) > 2 THEN 'b' ELSE 'c' END",
    "CAST(text AS INTEGER) + CAST(text AS INTEGER)",
    "CAST(text AS INTEGER) BETWEEN 1 AND 9",
    "CAST(text AS INTEGER) IN (1, 2, 7)",
    f"CAST(text AS INTEGER) IN ({', '.join(map(str, range(200)))})",
    "coalesce(CAST(text AS INTEGER), CAST(text AS INTEGER) + 1)",
]


@pytest.mark.parametrize("stored", ["arrow", "csv", "parquet"])
@pytest.mark.parametrize("text", TWICE)
def test_a_part_that_occurs_twice_stays_guarded(text: str, stored: str, tmp_path) -> None:
    """An engine that computes an equal part once, or joins with a list, does so outside TRY; it must not."""
    rows = pa.table({"unit": [1, 2, 3], "feature": ["a", "b", "c"], "text": ["7", "HOSTILE", "7"]})
    path = tmp_path / f"rows.{stored}"
    if stored != "arrow":
        (pq.write_table if stored == "parquet" else pc.write_csv)(rows, path)
    obs = observe(rows if stored == "arrow" else path, label=sql(text), value=sql("CAST(text AS INTEGER)"))
    assert len(exact(obs).pairs) == 2
    assert (
        len(exact(observe(rows if stored == "arrow" else path, label=sql("'x'"), where=f"({text}) IS NOT NULL")).pairs)
        == 2
    )


@pytest.mark.parametrize("stored", ["arrow", "parquet"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_beyond_the_calendar_drop_their_row_alone(
    unit: str, stored: str, zone: str | None, tmp_path
) -> None:
    """A timestamp is any 64-bit number, and DuckDB cannot write all of them: such a one ended the query in spite of TRY."""
    numbers = [0, -(2**63) + 2 if stored == "arrow" or unit in ("us", "ns") else 10**9, 0]
    rows = pa.table(
        {
            "unit": [1, 2, 3],
            "feature": ["a"] * 3,
            "moment": pa.array(numbers, pa.int64()).view(pa.timestamp(unit, zone)),
        }
    )
    path = tmp_path / "rows.parquet"
    if stored == "parquet":
        pq.write_table(rows, path)
    if stored == "parquet" and unit in ("s", "ms"):
        with pytest.raises(SchemaError, match="timestamps in milliseconds"):
            observe(path, label=sql("CAST(moment AS VARCHAR)"))
        return
    for text in ("CAST(moment AS VARCHAR)", "CAST(CAST(moment AS DATE) AS VARCHAR)", "strftime(moment, '%Y')"):
        found = exact(
            observe(rows if stored == "arrow" else path, label=sql(text), where=f"({text}) > '0'")
        ).pairs.to_pylist()
        assert max(row["sum"] for row in found if row["label"].startswith("1970")) == 2


@pytest.mark.parametrize(
    "column",
    [pa.array([0], pa.time64("us")), pa.array([0], pa.duration("s")), pa.array([[0]], pa.list_(pa.timestamp("us")))],
)
def test_types_whose_readers_or_casts_fail_are_refused(column: pa.Array) -> None:
    """Times of day, intervals and lists of timestamps have cells that no cast in an expression can guard."""
    with pytest.raises(SchemaError, match=r"whose type|are not read"):
        observe(pa.table({"unit": [1], "feature": ["a"], "moment": column}), label=sql("CAST(moment AS VARCHAR)"))


EXTREMES = {
    "isoyear(day)": 2,
    "yearweek(day)": 2,
    "date_part('isoyear', day)": 2,
    "epoch_us(day)": 2,
    "epoch_ns(day)": 2,
    "CAST(date_trunc('week', day) AS VARCHAR)": 2,
    "CAST(yearweek(date_trunc('week', day)) AS VARCHAR)": 2,
}


@pytest.mark.parametrize("text", EXTREMES)
def test_statistics_of_a_file_raise_nothing(text: str, tmp_path) -> None:
    """The least and the largest day of a file are cells too: nothing is computed from them outside TRY."""
    days = pa.array([18000, -(2**31) + 2, 18001], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"unit": [1, 2, 3], "feature": ["a", "b", "c"], "day": days}), tmp_path / "rows.parquet")
    obs = observe(tmp_path / "rows.parquet", label=sql(text), where=f"({text}) IS NOT NULL")
    assert len(exact(obs).pairs) >= EXTREMES[text]


@pytest.mark.parametrize("stored", ["arrow", "parquet"])
def test_rows_that_where_drops_raise_nothing(stored: str, tmp_path) -> None:
    """Roles may be computed on rows that a filter drops, and filters in any order: each guards itself."""
    rows = pa.table(
        {
            "unit": range(3000),
            "feature": ["a"] * 3000,
            "text": ["7", "(", "x"] * 1000,
            "day": pa.array([0, 2**31 - 2, -(2**31) + 2] * 1000, pa.int32()).cast(pa.date32()),
        }
    )
    if stored == "parquet":
        pq.write_table(rows, tmp_path / "rows.parquet")
    obs = observe(
        rows if stored == "arrow" else tmp_path / "rows.parquet",
        label=sql("CAST(day + INTERVAL 1000000 DAY AS VARCHAR) || CAST(text AS INTEGER)"),
        value=sql("CAST(text AS DOUBLE) / 7"),
        where="CAST(text AS INTEGER) = 7 AND year(day) = 1970",
    )
    sums = exact_sums(obs, Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, clip=1)))["pairs"].to_pylist()
    assert len(sums) == 1


def test_columns_of_types_that_were_not_swept_are_refused(tmp_path) -> None:
    """A variant holds any type, so its cells decide what a function meets."""
    import duckdb

    path = tmp_path / "rows.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS unit, 'a' AS feature, 1::VARIANT AS loose) TO '{path}'")
    with pytest.raises(InputError, match=r"'loose' has type VARIANT"):
        observe(path, label=sql("CAST(loose AS VARCHAR)"))
    with pytest.raises(InputError, match="casts to 'variant'"):
        observe(ROWS, label=sql("CAST(CAST(label AS VARIANT) AS VARCHAR)"))


@pytest.mark.parametrize(
    "text", ["len(list_transform(list, lambda i: list))", "len(list_transform(list, lambda i: text || i))"]
)
def test_a_lambda_reads_no_long_cells(text: str) -> None:
    """A list of lists as long as itself would grow with the square of a cell."""
    with pytest.raises(SchemaError, match="once for each item"):
        observe(ROWS, label=sql(text))


def test_a_lambda_in_a_lambda_reads_its_own_parameters() -> None:
    """The outer item would be repeated for each inner one."""
    with pytest.raises(SchemaError, match="no column"):
        observe(ROWS, label=sql("len(list_transform([list], lambda a: list_transform(a, lambda b: a)))"))
