"""Expressions in place of columns: what one row may compute, and what is refused."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import Bounds, Budget, InputError, Ledger, Plan, SchemaError, exact, observe, release, sql
from ddpmi.testing import exact_sums

ROWS = pa.table(
    {
        "unit": [1, 2],
        "feature": ["a", "b"],
        "label": ["x", "y"],
        "day": [dt.date(2020, 1, 1), dt.date(2021, 3, 4)],
        "text": ["5", "SECRET"],
        "share": [1.5, 2.0],
        "json": ['{"x": 1}', '{"x": 2}'],
        "list": [[1, 2], [3]],
        "struct": [{"x": 7}, {"x": 8}],
        "current_date": [1, 2],
    }
)


def labels(text: str) -> list[str]:
    return [row["label"] for row in exact(observe(ROWS, label=sql(text))).pairs.to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("year(day)", ["2020", "2021"]),
        ("LABEL", ["x", "y"]),
        ('"label"', ["x", "y"]),
        ("label || '-' || feature", ["x-a", "y-b"]),
        ("CASE WHEN text = '5' THEN 'five' ELSE 'more' END", ["five", "more"]),
        ("unit BETWEEN 1 AND 1", ["true", "false"]),
        ("unit IN (2, 3) AND NOT unit IS NULL", ["false", "true"]),
        ("coalesce(nullif(label, 'x'), 'none')", ["none", "y"]),
        ("strftime(day, '%Y-%m')", ["2020-01", "2021-03"]),
        ("(day + INTERVAL 1 DAY)::DATE", ["2020-01-02", "2021-03-05"]),
        ("json ->> '$.x'", ["1", "2"]),
        ("(json -> '$.x')::INTEGER", ["1", "2"]),
        ("list_sum(list_transform(list, lambda n: n + unit))", ["5", "5"]),
        ("len([n for n in list if n > 1])", ["1", "1"]),
        ("struct.x", ["7", "8"]),
        ("share::INTEGER", ["2", "2"]),
        ("current_date", ["1", "2"]),
        ("'$salt'", ["$salt", "$salt"]),
        ("label -- a comment", ["x", "y"]),
        ("/* a comment */ label", ["x", "y"]),
    ],
)
def test_scalar_expressions_of_the_row_are_taken(text: str, expected: list[str]) -> None:
    """Columns, constants, operators, CASE, casts, lambdas and scalar functions give the label of each row."""
    assert labels(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sum(unit)",
        "count(*)",
        "first(label)",
        "unnest(list)",
        "row_number() OVER ()",
        "lag(label) OVER (ORDER BY unit)",
        "(SELECT 1)",
        "unit IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "*",
        "COLUMNS('unit')",
        "#1",
        "?",
        "$salt",
        "DEFAULT",
        "grouping(label)",
        "label COLLATE NOCASE",
        "lower(label ORDER BY unit)",
        "main.lower(label)",
        "random()",
        "uuid()",
        "now()",
        "age(day)",
        "version()",
        "current_setting('threads')",
        "getvariable('x')",
        "nextval('x')",
        "getenv('HOME')",
        "read_text('x')",
        "error(label)",
        "sleep_ms(1)",
        "repeat(label, unit)",
        "json_serialize_plan(text)",
        "sum(unit) -> '$.x'",
        "(SELECT json) -> '$.x'",
        "list_transform(list, lambda n: random())",
        "TRY(random())",
        "__internal_compress_integral_utinyint(unit, 1)",
    ],
)
def test_what_may_see_more_than_the_row_is_refused(text: str) -> None:
    """Aggregates, windows, subqueries, clocks, random numbers, settings and files are no functions of one row."""
    with pytest.raises(InputError, match="Hint: use columns"):
        observe(ROWS, label=sql(text))


@pytest.mark.parametrize("name", ["nope", "rowid", "current_timestamp", "current_user", "source.label", "x -> x"])
def test_names_that_are_no_column_are_refused(name: str) -> None:
    """What the engine would take for a function without parentheses, or for its own column, is no column here."""
    with pytest.raises(SchemaError, match="no column"):
        observe(ROWS, label=sql(name))


@pytest.mark.parametrize(
    "text",
    [
        "label; SELECT 1",
        "label, feature",
        "label) , (feature",
        "label) FROM source WHERE (true",
        "label) + TRY(feature",
        "label)) --",
        "label /*",
        "label AS other",
        "label UNION SELECT 1",
        "label -- \n) FROM other --",
        "'",
    ],
)
def test_an_expression_cannot_leave_its_place(text: str) -> None:
    """What is parsed is what will run, so nothing can close the bracket around it."""
    with pytest.raises(InputError, match="not one SQL expression"):
        observe(ROWS, label=sql(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("share", "cast it to a whole number or to text"),
        ("unit / 2", "cast it to a whole number or to text"),
        ("day + INTERVAL 1 DAY", "cast it to text, a whole number or a date"),
        ("list", "cast it to text"),
        ("year(text)", "does not fit the columns"),
        ("CAST(text AS nothing)", "cannot be computed"),
    ],
)
def test_the_result_has_the_type_of_a_key(text: str, message: str) -> None:
    """The rules for columns hold for expressions."""
    with pytest.raises(InputError, match=message):
        observe(ROWS, label=sql(text))


@pytest.mark.parametrize("text", ["CAST(text AS INTEGER)", "ln(unit - 2)::INTEGER", "year(CAST(text AS DATE))"])
def test_an_error_in_one_row_is_null(text: str) -> None:
    """A bad cast or a logarithm of nothing drops the row; it raises nothing and shows nothing."""
    assert len(labels(text)) <= 1


def test_a_bad_cast_among_many_rows_drops_that_row_alone() -> None:
    """The rows beside a bad one are kept."""
    rows = pa.table({"unit": range(5000), "feature": ["a"] * 5000, "text": [*map(str, range(4999)), "SECRET"]})
    obs = observe(rows, label=sql("CAST(text AS INTEGER) % 2"))
    assert {row["label"]: row["sum"] for row in exact(obs).pairs.to_pylist()} == {"0": 2500, "1": 2499}


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("label = 'x'", ["a"]),
        ("day > DATE '2020-06-01'", ["b"]),
        ("CAST(text AS INTEGER) > 1", ["a"]),
        ("unit > 1 OR NULL", ["b"]),
        ("true", ["a", "b"]),
        (sql("feature <> 'SECRET'"), ["a", "b"]),
    ],
)
def test_where_keeps_the_rows_that_are_true(where: object, kept: list[str]) -> None:
    """NULL and errors are not true."""
    assert exact(observe(ROWS, where=where)).pairs.column("feature").to_pylist() == kept


@pytest.mark.parametrize("where", ["label", "unit", "sum(unit) > 1", "unit > (SELECT avg(unit) FROM source)", "", 3])
def test_a_where_is_one_condition_on_the_row(where: object) -> None:
    """Text, numbers, aggregates and subqueries are no condition on one row."""
    with pytest.raises(InputError, match="Hint:"):
        observe(ROWS, where=where)


def test_a_where_is_not_shown() -> None:
    """It may hold values of rows; only that there is one may be seen."""
    text = repr(observe(ROWS, where="label = 'SECRET'"))
    assert "where=..." in text
    assert "SECRET" not in text


def test_the_receipt_does_not_hold_the_where(tmp_path) -> None:
    """Neither the release nor its ledger entry repeats the filter."""
    ledger = Ledger(tmp_path / "x.ledger", limit=Budget(2, 1e-6))
    obs = observe(ROWS, where="label <> 'SECRET'", label=sql("lower(label)"))
    made = release(obs, Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2)), ledger=ledger)
    assert "SECRET" not in json.dumps(made.receipt)
    assert b"SECRET" not in (tmp_path / "x.ledger").read_bytes()


SIGNS = ["(", ")", ",", ";", "--", "/*", "*/", "\n", "'", '"', "$$", "||", "+", "->", ":", "{", "[", "]", "::"]
WORDS = ["label", "unit", "1", "'a'", '"label"', "SELECT", "FROM", "source", "WHERE", "TRY", "AS", "x", "lambda", "END"]


def outcome(text: str) -> int | str | None:
    """Return the number of pairs, or the hint of the refusal."""
    try:
        return exact(observe(ROWS, label=sql(text))).pairs.num_rows
    except InputError as refused:
        return refused.hint


@settings(max_examples=80, deadline=None)
@given(tokens=st.lists(st.sampled_from([*SIGNS, *WORDS]), min_size=1, max_size=7))
def test_any_text_is_an_expression_or_a_clear_error(tokens: list[str]) -> None:
    """Whatever is written, it gives at most one pair for each row or is refused with a hint."""
    found = outcome(" ".join(tokens))
    assert found in (0, 1, 2) or isinstance(found, str)


def test_the_digest_covers_where_and_expressions() -> None:
    """One release id cannot stand for two mappings."""
    made = [
        observe(ROWS),
        observe(ROWS, where="unit > 1"),
        observe(ROWS, where="unit > 2"),
        observe(ROWS, label="label"),
        observe(ROWS, label=sql("label")),
        observe(ROWS, label=sql("lower(label)")),
        observe(ROWS, dataset="other"),
    ]
    assert len({obs.columns_digest for obs in made}) == 6
    assert made[0].columns_digest == made[3].columns_digest


@pytest.mark.parametrize(
    ("roles", "merges", "unit"),
    [
        ({}, False, False),
        ({"where": "unit > 1"}, False, False),
        ({"value": sql("unit * 2")}, False, False),
        ({"label": sql("year(day)")}, True, False),
        ({"feature": sql("lower(feature)")}, True, False),
        ({"unit": sql("unit % 2")}, True, True),
    ],
)
def test_expressions_that_may_merge_keys_are_known(roles: dict, merges: bool, unit: bool) -> None:  # noqa: FBT001
    """Declarations about distinct rows hold for columns, not for what is computed from them."""
    obs = observe(ROWS, **roles)
    assert (obs.merges_keys, obs.unit_is_expression) == (merges, unit)


def test_values_and_units_may_be_expressions() -> None:
    """All four roles take an expression."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, clip=10), mechanism="laplace")
    obs = observe(ROWS, unit=sql("'all'"), feature=sql("'f'"), label=sql("'l'"), value=sql("share * 2"))
    assert [row["sum"] for row in exact_sums(obs, plan)["pairs"].to_pylist()] == [7 * 256]


def test_a_role_is_a_name_or_an_expression() -> None:
    """Anything else is refused."""
    with pytest.raises(InputError, match="must be the name of a column or an expression"):
        observe(ROWS, label=3)
    with pytest.raises(InputError, match="text of SQL"):
        sql("  ")
