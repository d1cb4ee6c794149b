"""Quoting and the keyed hash."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import Bounds, Budget, InputError, Plan
from ddpmi.pipeline.dialects import DIALECTS, DUCKDB, LACKING, dialect_named, literal, quote
from ddpmi.pipeline.steps import render
from tests.support.reference import keyed_hash

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(name=TEXT.filter(bool), text=TEXT)
def test_hostile_names_and_texts_come_back_unchanged(name: str, text: str) -> None:
    """No identifier or literal can break out of its quotes."""
    with duckdb.connect() as connection:
        result = connection.execute(f"SELECT {literal(text)} AS {quote(name)}")
        assert result.fetchone() == (text,)
        assert [column[0] for column in result.description] == [name]


@settings(max_examples=60, deadline=None)
@given(unit=TEXT, label=TEXT)
def test_the_keyed_hash_is_sha256_of_length_prefixed_text(unit: str, label: str) -> None:
    """The engine's digest is the one that plain Python computes."""
    with duckdb.connect() as connection:
        sql = f"SELECT {DUCKDB.keyed_hash('label', 'u', 'l')} FROM (SELECT $u AS u, $l AS l)"
        got = connection.execute(sql, {"salt": "s", "u": unit, "l": label}).fetchone()
    assert got == (keyed_hash("s", "label", unit, label),)


@pytest.mark.parametrize(("left", "right"), [(("ab", "c"), ("a", "bc")), (("a:1", ""), ("a", "1:"))])
def test_fields_cannot_run_into_each_other(left: tuple[str, str], right: tuple[str, str]) -> None:
    """Two different field lists never hash the same text."""
    assert keyed_hash("s", "pair", *left) != keyed_hash("s", "pair", *right)


PLANS = {
    "values": Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=3, clip=5, step="0.5", labels=2)),
    "laplace": Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=3), mechanism="laplace", labels_only=["it's", "a\\b"]),
    "sips": Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=3), selection="sips", sample_rate=0.5),
    "units": Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=3, labels=2), space="units", public_labels=["a"]),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_the_text_is_sql_of_its_dialect(name: str, plan: str) -> None:
    """An independent parser accepts every statement, and finds one SELECT in it."""
    for step in PLANS[plan].steps(DIALECTS[name]):
        found = sqlglot.parse(step.sql, read=name)
        assert len(found) == 1, step.name
        assert isinstance(found[0], sqlglot.exp.Query), step.name


@pytest.mark.parametrize("name", sorted(name for name, dialect in DIALECTS.items() if not dialect.is_run))
def test_the_text_that_is_not_run_is_the_reviewed_one(name: str) -> None:
    """No engine runs these texts here, so a change of one must be looked at: it changes the text beside this test."""
    text = "\n\n".join(f"-- {plan}\n{render(made.steps(DIALECTS[name]))}" for plan, made in PLANS.items()) + "\n"
    reviewed = Path(__file__).with_name(f"reviewed-{name}.sql")
    if os.environ.get("REVIEWED") == "write":
        reviewed.write_text(text, encoding="utf-8")
    assert text == reviewed.read_text(encoding="utf-8")


def test_databases_that_lack_something_are_named() -> None:
    """What a database lacks is said before anything runs."""
    for name in LACKING:
        with pytest.raises(InputError, match="it lacks"):
            dialect_named(name)
    with pytest.raises(InputError, match="no dialect 'oracle'"):
        dialect_named("oracle")
    assert [dialect_named(name) for name in DIALECTS] == list(DIALECTS.values())


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_literals_of_every_dialect_are_one_text(name: str) -> None:
    """A backslash, a quotation mark or a null character does not end a literal, or change it."""
    for text in ("a'b", "a\\b", "a\\'; DROP TABLE x; --", "plain", ""):
        parsed = sqlglot.parse_one(f"SELECT {DIALECTS[name].literal(text)} AS x", read=name)
        assert len(parsed.expressions) == 1
