"""Quoting and the keyed hash."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.pipeline.dialects import DUCKDB, literal, quote
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
