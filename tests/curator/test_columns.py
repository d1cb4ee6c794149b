"""Columns of the roles; most of this is tested through `observe`."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ddpmi import InputError, SchemaError, observe, observe_counts, sql
from ddpmi.curator.columns import Columns, checked_key, find_columns
from ddpmi.engines.duckdb.source import DuckDBSource

ROWS = pa.table({"unit": [1], "feature": ["a"], "half": [0.5]})


def test_our_names_and_the_papers_names_are_recognised() -> None:
    """unit/feature/label and id/feature/partition need no flags."""
    assert find_columns({}, ["label", "unit", "feature"]).named() == {
        "unit": "unit",
        "feature": "feature",
        "label": "label",
    }
    assert find_columns({}, ["id", "partition", "feature", "observation"]).named() == {
        "unit": "id",
        "feature": "feature",
        "label": "partition",
    }


def test_a_value_column_is_used_only_when_named() -> None:
    """A column called value or observation is ignored until the caller asks for it."""
    assert find_columns({}, ["unit", "feature", "label", "value"]).value is None


def test_a_missing_column_is_named_with_what_there_is() -> None:
    """The error says which column is missing and lists those that exist."""
    with pytest.raises(SchemaError, match=r"no column 'user'.*'id'"):
        find_columns({"unit": "user"}, ["id", "feature", "label"])


def test_an_unrecognised_role_asks_for_its_flag() -> None:
    """A role that is neither named nor recognised says how to name it."""
    with pytest.raises(SchemaError, match=r"feature='\.\.\.'") as caught:
        find_columns({}, ["unit", "site", "country"])
    assert caught.value.advice is not None
    assert "--feature NAME" in caught.value.advice.in_shell


def test_a_label_may_be_missing_unless_units_were_counted() -> None:
    """A seed can label units later; counts have no units that could show one."""
    assert find_columns({}, ["unit", "feature", "country"]).label is None
    with pytest.raises(SchemaError, match=r"label='\.\.\.'"):
        find_columns({}, ["feature", "country"], counted=True)


def test_one_column_cannot_play_two_roles() -> None:
    """unit, feature and label must differ."""
    with pytest.raises(SchemaError, match="three columns"):
        Columns(unit="a", feature="a", label="b")


def test_a_label_may_be_left_out() -> None:
    """A table without labels can be named; counts, which no seed can label, cannot."""
    obs = observe(ROWS)
    assert (obs.columns.label, obs.labelled, list(obs.columns.named())) == (None, False, ["unit", "feature"])
    with pytest.raises(SchemaError, match="No column was named for the label"):
        observe_counts(pa.table({"feature": ["a"], "count": [1]}))
    with pytest.raises(SchemaError, match="no column 'nowhere'"):
        observe(ROWS, label="nowhere")


def test_a_key_says_what_it_reads() -> None:
    """A column reads itself, an expression its columns; what cannot be a key is refused."""
    source = DuckDBSource(frame=ROWS)
    assert checked_key(source, "feature") == ("feature",)
    assert checked_key(source, sql("feature || CAST(unit AS VARCHAR)")) == ("feature", "unit")
    with pytest.raises(SchemaError, match="no key"):
        checked_key(source, "half")
    for wrong in ("nowhere", 7):
        with pytest.raises(InputError, match="no column"):
            checked_key(source, wrong)


def test_keys_of_json_records_need_not_be_listed(tmp_path) -> None:
    """Any key may show a seed; no record is asked whether it has it."""
    (tmp_path / "rows.jsonl").write_text('{"unit": 1, "feature": "a"}\n{"unit": 1, "feature": "b", "more": "s"}\n')
    obs = observe(tmp_path / "rows.jsonl", unit="unit", feature="feature").label_by(feature="s", column="more")
    assert "more" in obs.reads


def test_a_name_that_looks_alike_is_suggested() -> None:
    """Column names are public, so the error may say which one was meant."""
    with pytest.raises(SchemaError, match="Did you mean 'Country'"):
        find_columns({"label": "contry"}, ["unit", "feature", "Country"])


def test_a_role_with_two_known_names_is_asked_for() -> None:
    """Only the owner knows whose privacy is at stake; a column called unit is clear."""
    assert find_columns({}, ["user_id", "feature", "group"]).named() == {
        "unit": "user_id",
        "feature": "feature",
        "label": "group",
    }
    assert find_columns({}, ["unit", "user_id", "id", "feature", "label"]).unit == "unit"
    with pytest.raises(SchemaError, match="'id' and 'user_id' might both be it"):
        find_columns({}, ["user_id", "id", "feature", "label"])


def test_a_time_as_label_suggests_a_part_of_it() -> None:
    """A timestamp is no key; the hint is an expression that works."""
    rows = pa.table({"unit": [1], "feature": ["a"], "when": [datetime(2026, 1, 2, tzinfo=UTC)]})
    with pytest.raises(SchemaError, match="TIMESTAMP") as caught:
        observe(rows, label="when")
    assert caught.value.advice.in_shell.endswith("--label-sql 'year(\"when\")'")
    assert observe(rows, label=sql('year("when")')).labelled
