"""Scoring batch by batch: the numbers of the whole table, and buckets that keep its order."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import rank
from ddpmi.rankings.batches import BUCKET, COUNTED, JOINT, KEY, Cuts, Learning, Scoring, Task, whole_features
from ddpmi.rankings.cells import COLUMNS, Released
from tests.support.fake_release import Counts, exact_release, private_release

NAMES = st.sampled_from(["", "a", "b", "é", "日本", "\U0001f600", "\uffff", "z" * 40])
COUNTS = st.dictionaries(st.tuples(NAMES, NAMES), st.integers(0, 3), min_size=1, max_size=40)
UNITS = {"space": "units", "grid": {"step": 1, "g": 3}}
OTHER = {"plan": {"marginals": "other"}}


def joined(release: Released) -> pa.RecordBatch:
    """Join by hand what Spark joins."""
    sums = {
        key: dict(zip(table[key].to_pylist(), table["sum"].to_pylist(), strict=True))
        for key, table in (("feature", release.features), ("label", release.labels))
    }
    rows = release.pairs.to_pylist()
    found = {name: [row[name] for row in rows] for name in ("feature", "label", "sum")}
    for key in ("feature", "label"):
        found[f"{key}_sum"] = [sums[key].get(row[key]) for row in rows]
        held = found[key]
        found[f"pairs_of_{key}"] = [held.count(name) for name in held]
    types = {"feature": pa.string(), "label": pa.string()}
    return pa.RecordBatch.from_pydict({n: pa.array(v, types.get(n, pa.int64())) for n, v in found.items()})


def in_order(scored: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = [row for batch in scored for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row[KEY], -row[JOINT], row["feature"].encode(), row["label"].encode()))


def added(whole: pa.RecordBatch, learning: Learning, size: int) -> pa.Table:
    """Add up what batches yield, as Spark does."""
    parts = learning(whole.slice(at, size) for at in range(0, whole.num_rows, size))
    sums = pa.Table.from_batches(parts).group_by(["label", "place"]).aggregate([("value", "sum")])
    return sums.rename_columns(["label", "place", "value"])


def scored_in_batches(release: Released, scoring: Scoring, cuts: Cuts, size: int) -> list[pa.RecordBatch]:
    whole = joined(release)
    if scoring.pools:
        scoring = scoring.learn(pa.Table.from_batches([whole]), release.labels["label"].combine_chunks().sort())
    if release.receipt["private"]:
        scoring = scoring.with_prior(added(whole, Learning(scoring=scoring), size))
        scoring = scoring.with_judge(added(whole, Learning(scoring=scoring), size))
    task = pickle.loads(pickle.dumps(Task(scoring=scoring, cuts=cuts)))
    return list(task(whole.slice(at, size) for at in range(0, whole.num_rows, size)))


@given(
    COUNTS,
    st.integers(1, 9),
    st.sampled_from([{}, UNITS, OTHER]),
    st.sampled_from([None, 1]),
    st.sampled_from([None, "lift"]),
)
@settings(deadline=None, max_examples=60)
def test_batches_give_the_whole_ranking(
    counts: Counts, size: int, said: dict, threshold: int | None, score: Any
) -> None:
    """Any cut into batches gives the rows of `rank`, bit for bit and in its order, that of whole features too."""
    release = private_release(counts, threshold=threshold)
    release.receipt.update(said)
    scoring = Scoring(receipt=release.receipt, total=release.total, score=score)
    got = in_order(scored_in_batches(release, scoring, Cuts(), size))
    expected = rank(release, score=score).table.to_pylist()
    # The tasks leave ranks to Spark, and the cut of clear rows too.
    names = [name for name in expected[0] if not name.startswith(("rank", "clear"))]
    assert [[row[name] for name in names] for row in got] == [[row[name] for name in names] for row in expected]
    assert scoring.counted == (said == OTHER)
    assert scoring.pools == (threshold is None and score is None)


@given(st.lists(st.integers(0, 3), max_size=12).map(sorted), st.integers(1, 5), st.booleans())
def test_no_feature_is_in_two_batches(names: list[int], size: int, empty: bool) -> None:  # noqa: FBT001
    """However batches are cut, each comes out with whole features, and nothing is lost or moved."""
    whole = pa.RecordBatch.from_pydict({"feature": [str(name) for name in names], "row": list(range(len(names)))})
    batches = [whole.slice(at, size) for at in range(0, len(names), size)]
    if empty:
        batches = [part for batch in batches for part in (batch.slice(0, 0), batch)]
    parts = list(whole_features(batches))
    assert [row for part in parts for row in part.column("row").to_pylist()] == list(range(len(names)))
    found = [set(part.column("feature").to_pylist()) for part in parts]
    assert sum(map(len, found)) == len(set(names))
    assert all(found)


@given(COUNTS, st.integers(1, 6), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_buckets_are_stretches_of_the_order(counts: Counts, buckets: int, sampled: int) -> None:
    """Buckets never fall along the order, however many pairs tie and whichever pairs were sampled."""
    release = exact_release(counts)
    scoring = Scoring(receipt=release.receipt, total=release.total)
    rows = in_order(scored_in_batches(release, scoring, Cuts(), 100))
    sample = [(r[KEY], ~r[JOINT], r["feature"].encode(), r["label"].encode()) for r in rows[::-1][:sampled]]
    cuts = Cuts.of(sample, buckets)
    found = [row[BUCKET] for row in in_order(scored_in_batches(release, scoring, cuts, 7))]
    assert found == sorted(found)
    assert len(cuts.places) < buckets
    if sampled >= len(rows) >= buckets:
        assert np.bincount(found, minlength=buckets).min() >= len(rows) // buckets


def test_a_pair_without_a_sum_has_no_key() -> None:
    """What has no released feature or label is left for the driver to refuse."""
    release = exact_release({("a", "x"): 3, ("b", "y"): 2})
    batch = joined(release)
    hole = batch.set_column(batch.schema.get_field_index("label_sum"), "label_sum", pa.array([None, 2], pa.int64()))
    scored = Scoring(receipt=release.receipt, total=5).batch(hole, Cuts())
    assert scored.column(KEY).null_count == 1


@pytest.mark.parametrize("said", [{}, UNITS])
def test_the_total_is_in_the_users_units(said: dict[str, Any]) -> None:
    """The total of a scoring is that of the ranking."""
    release = private_release({("a", "x"): 3}, g=3)
    release.receipt.update(said)
    assert Scoring(receipt=release.receipt, total=release.total).users_total == rank(release).total


def test_a_task_carries_no_more_of_the_receipt_than_it_needs() -> None:
    """A long public list in the plan is not sent to every task."""
    release = private_release({("a", "x"): 3})
    release.receipt["plan"] = {"space": "events", "public_labels": ["x"] * 1000, "marginals": "measured"}
    scoring = Scoring(receipt=release.receipt, total=3)
    assert set(scoring.receipt) == {"private", "tables", "grid", "space", "marginals"}
    assert not set(COUNTED) & set(COLUMNS)
