"""What each role of the data is; most of it is tested through `observe`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ddpmi import InputError, SchemaError, observe, observe_counts, sql
from ddpmi.engines.duckdb_sources import DuckDBSource
from ddpmi.roles import checked_key

ROWS = pa.table({"unit": [1], "feature": ["a"], "half": [0.5]})


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
