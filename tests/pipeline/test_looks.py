"""The SQL of a look: what it counts, and how far one unit moves it."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import observe
from ddpmi.curator.looking import exact_look
from ddpmi.pipeline import looks
from ddpmi.pipeline.dialects import DUCKDB, SPARK
from ddpmi.planning.auto import AutoPlan
from ddpmi.testing import _salt, hostile_rows
from tests.support.release_fixtures import table
from tests.support.spark_local import need_spark

AUTO = AutoPlan.of(epsilon=1, delta=1e-4)
Rows = list[tuple[object, ...]]


def histograms(rows: Rows, labels: int, auto: AutoPlan = AUTO) -> dict[str, dict[str, int]]:
    """Return the exact histograms of rows, with the same salt in every call."""
    return exact_look(observe(table(rows)), auto, salt=_salt(0), labels=labels)


def expected(rows: Rows) -> dict[str, dict[str, int]]:
    """Count the same in plain Python, for a label cap that nobody reaches."""
    pairs: dict[object, set[object]] = defaultdict(set)
    for unit, feature, label in rows:
        if None not in (unit, feature, label):
            pairs[unit].add((feature, label))
    counts = {
        "label_look": Counter(looks.bucket_of(len({pair[1] for pair in found})) for found in pairs.values()),
        "pair_look": Counter(looks.bucket_of(len(found)) for found in pairs.values()),
    }
    return {name: {looks.BUCKETS[at]: counts[name][at] for at in range(21)} for name in counts}


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 8, 9, 1023, 1024, 1025, 2**19 + 1, 2**20, 2**20 + 1, 2**40])
def test_buckets_are_powers_of_two(number: int) -> None:
    """A count lies above half of its bucket's largest count and not above it; the last bucket is open."""
    bucket = looks.bucket_of(number)
    assert looks.largest_of(bucket) >= number or bucket == 20
    assert bucket == 0 or number > looks.largest_of(bucket - 1)


@settings(max_examples=8, deadline=None)
@given(rows=hostile_rows(features=12))
def test_the_histograms_equal_the_reference(rows: Rows) -> None:
    """Each unit adds 1 to the bucket of its labels and to the bucket of its pairs, and every bucket is there."""
    assert histograms(rows, labels=2**20) == expected(rows)


@settings(max_examples=8, deadline=None)
@given(rows=hostile_rows(features=12), labels=st.integers(1, 3), space=st.sampled_from(["units", "events"]))
def test_one_unit_moves_one_bucket_by_one(rows: Rows, labels: int, space: str) -> None:
    """Without one unit a histogram loses 1 in one bucket at most, for each cap of labels."""
    auto = AutoPlan.of(epsilon=1, delta=1e-4, space=space)
    before = histograms(rows, labels, auto)
    for unit in sorted({row[0] for row in rows}, key=str)[:4]:
        after = histograms([row for row in rows if row[0] != unit], labels, auto)
        for name, counts in before.items():
            changes = [count - after[name][bucket] for bucket, count in counts.items() if count != after[name][bucket]]
            assert changes in ([], [1]), name


def test_a_heavy_unit_moves_no_more_than_any_other() -> None:
    """A unit with a thousand pairs under fifty labels adds 1, like one with a single pair."""
    rows: Rows = [*(("heavy", f"f{n}", f"l{n % 50}") for n in range(1000)), ("light", "f", "l")]
    found = histograms(rows, labels=4)
    assert found["label_look"] == expected(rows)["label_look"]
    # Fifty labels have 20 pairs each; four of them are kept.
    assert {bucket: count for bucket, count in found["pair_look"].items() if count} == {"00": 1, "07": 1}


def test_pairs_are_counted_under_the_labels_that_a_release_keeps() -> None:
    """With one label per unit, the histogram counts what the keyed hash leaves: here one pair for each of 40 units."""
    rows: Rows = [(f"u{n}", f"f{label}", f"l{label}") for n in range(40) for label in range(n % 5 + 1)]
    found = histograms(rows, labels=1)["pair_look"]
    assert (found["00"], sum(found.values())) == (40, 40)


def test_public_lists_come_first() -> None:
    """Rows of labels that are not listed count in no histogram."""
    rows: Rows = [(f"u{n}", "f", label) for n in range(10) for label in ("a", "b", "c")]
    found = histograms(rows, 8, AutoPlan.of(epsilon=1, delta=1e-4, public_labels=("a", "b")))
    assert (found["label_look"]["01"], found["pair_look"]["01"]) == (10, 10)


def test_values_of_zero_are_no_pairs() -> None:
    """Where values are counted, a pair whose values sum to nothing is none, as in a release."""
    values = {"unit": ["a", "a", "b"], "feature": ["x", "y", "x"], "label": ["l"] * 3, "value": [3.0, 0.0, -1.0]}
    auto = AutoPlan.of(epsilon=1, delta=1e-4, clip=10)
    found = exact_look(observe(pa.table(values), value="value"), auto, salt=_salt(0), labels=1)
    assert [sum(counts.values()) for counts in found.values()] == [1, 1]


@pytest.mark.parametrize(("dialect", "name"), [(DUCKDB, "duckdb"), (SPARK, "spark")])
def test_the_sql_parses(dialect: object, name: str) -> None:
    """Each step is one SELECT in the SQL of its engine."""
    for step in AUTO.steps(dialect):
        assert isinstance(sqlglot.parse_one(step.sql.replace("$salt", "'s'"), dialect=name), sqlglot.exp.Query), (
            step.name
        )


@pytest.mark.spark
def test_spark_counts_the_same(spark) -> None:
    """The exact histograms of Spark equal those of DuckDB, also where labels are cut by the keyed hash."""
    need_spark()
    rows: Rows = [(f"u{n}", f"f{n % 7}-{m}", f"l{m % 4}") for n in range(60) for m in range(n % 9 + 1)]
    frame = spark.createDataFrame(table(rows).to_pandas())
    found = exact_look(observe(frame), AUTO, salt=_salt(0), labels=2)
    assert found == histograms(rows, labels=2)
