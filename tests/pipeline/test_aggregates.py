"""Margins of units space: one population, in which each unit counts by one weight."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, Plan
from ddpmi.testing import _salt, exact_sums, hostile_rows, sensitivity_replay
from tests.support import reference
from tests.support.release_fixtures import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

MOST_LABELS = 5


@st.composite
def plans(draw: st.DrawFn, *, labels: int | None = None) -> Plan:
    """A plan that counts units, with few pairs in full and a cap that many units exceed."""
    pairs = draw(st.integers(1, 4))
    strategy = draw(st.sampled_from(["scale", "scale", "sample"]))
    cap = 0 if strategy == "sample" else draw(st.integers(pairs, pairs + 6))
    most = draw(st.integers(1, MOST_LABELS)) if labels is None else labels
    bounds = Bounds(pairs=pairs, labels=most, cap=cap, strategy=strategy)
    return Plan(budget=Budget(2, 1e-4), bounds=bounds, mechanism=draw(st.sampled_from(["laplace", "gaussian"])))


#: Few keys, so that units have many pairs and exceed their bounds; and rows with the defects of real data.
CROWDED = st.lists(
    st.tuples(
        st.sampled_from(["u0", "u1", "ß"]),
        st.sampled_from([None, "a,b", *(f"f{n}" for n in range(6))]),
        st.sampled_from(["l0", "l1", "it's"]),
    ),
    max_size=45,
)
ROWS = st.one_of(CROWDED, CROWDED, CROWDED, hostile_rows(units=4, features=6, labels=6))


def sums_of(tables: dict[str, pa.Table]) -> tuple[dict[Any, int], dict[str, int], dict[str, int], int]:
    """J, F, L and N as dicts and an integer."""
    joint = {(row["feature"], row["label"]): row["sum"] for row in tables["pairs"].to_pylist()}
    features = {row["feature"]: row["sum"] for row in tables["features"].to_pylist()}
    labels = {row["label"]: row["sum"] for row in tables["labels"].to_pylist()}
    return joint, features, labels, tables["total"].to_pylist()[0]["sum"]


@settings(max_examples=15, deadline=None)
@given(rows=ROWS, made=plans())
def test_all_margins_are_those_of_plain_python(rows, made: Plan) -> None:
    """For any rows, each unit adds the weight of its pairs once to each of its features and labels, and once in all."""
    found = sums_of(exact_sums(ddpmi.observe(table(rows)), made, seed=3))
    bounding = made.calibration.bounding
    assert found == (
        reference.joint(rows, bounding, _salt(3)),
        *reference.population(rows, bounding, _salt(3)),
    )


@settings(max_examples=15, deadline=None)
@given(rows=ROWS, made=plans())
def test_a_pair_never_exceeds_its_margins(rows, made: Plan) -> None:
    """J <= F <= N and J <= L <= N as integers, for every pair of a feature and a label."""
    joint, features, labels, total = sums_of(exact_sums(ddpmi.observe(table(rows)), made))
    for feature, label in product(features, labels):
        assert joint.get((feature, label), 0) <= min(features[feature], labels[label])
    assert all(margin <= total for margin in (*features.values(), *labels.values()))


@settings(max_examples=15, deadline=None)
@given(rows=ROWS, made=plans(labels=1))
def test_with_one_label_each_the_four_cells_are_counts(rows, made: Plan) -> None:
    """Then F + L - N <= J too, also for pairs that nobody has: no cell of the two-by-two table is negative."""
    joint, features, labels, total = sums_of(exact_sums(ddpmi.observe(table(rows)), made))
    for feature, label in product(features, labels):
        assert features[feature] + labels[label] - total <= joint.get((feature, label), 0)


@settings(max_examples=20, deadline=None)
@given(rows=ROWS, made=plans(), data=st.data())
def test_one_unit_moves_no_margin_further_than_declared(rows, made: Plan, data: st.DataObject) -> None:
    """Replay for up to five labels, both norms and both strategies."""
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    replay = sensitivity_replay(ddpmi.observe(table(rows)), ddpmi.observe(table(rest)), made)
    assert [moved for moved in replay if not moved.within] == []


REST = [(f"v{n}", f"f{n}", f"l{n}") for n in range(12)]


def replayed(own: Iterable[tuple[str, str]], **options: Any) -> dict[str, tuple[int, int, int]]:
    """How far a unit with some pairs moves each table: largest change, L1 and squared L2, all within what is declared."""
    made = Plan(budget=Budget(2, 1e-4), **options)
    rows = [*REST, *(("new", *pair) for pair in own)]
    replay = sensitivity_replay(ddpmi.observe(table(rows)), ddpmi.observe(table(REST)), made)
    assert [moved for moved in replay if not moved.within] == []
    return {moved.table: (moved.linf, moved.l1, moved.l2_squared) for moved in replay}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("pairs", [1, 3, 8])
@pytest.mark.parametrize("labels", [1, 2, 5])
def test_one_pair_under_each_label_reaches_the_declared_bound(labels: int, pairs: int, mechanism: str) -> None:
    """So L1 min(m, K) 2^g and squared L2 min(m, K) 2^(2g) of labels cannot be lowered; the total moves by 2^g."""
    many = min(labels, pairs)
    bounds = Bounds(pairs=pairs, labels=labels)
    moved = replayed([(f"f{n}", f"l{n}") for n in range(many)], bounds=bounds, mechanism=mechanism)
    assert moved["labels"] == (256, many * 256, many * 256**2)
    assert moved["total"] == (256, 256, 256**2)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("labels", [1, 2, 3, 4, 5])
def test_a_heavy_unit_counts_by_its_weight_in_every_table(labels: int, mechanism: str) -> None:
    """Twelve features under each label, far above K: the same weight in pairs, features, labels and the total."""
    own = [(f"f{n}", f"l{at}") for n in range(12) for at in range(labels)]
    moved = replayed(own, bounds=Bounds(pairs=3, labels=labels, cap=90), mechanism=mechanism)
    (weight,) = {linf for linf, _, _ in moved.values()}
    assert 0 < weight < 256
    assert moved["labels"][1:] == (labels * weight, labels * weight**2)
    assert moved["features"][1:] == (12 * weight, 12 * weight**2)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("labels", [1, 3])
def test_a_unit_beyond_a_cap_counts_by_its_weight_in_every_table(labels: int, mechanism: str) -> None:
    """Of thirty pairs ten are kept, or those of one label: no cell but by the one weight, and never twice in a label."""
    own = [(f"f{n}", f"l{at}") for n in range(10) for at in range(3)]
    moved = replayed(own, bounds=Bounds(pairs=3, labels=labels, cap=10), mechanism=mechanism)
    (weight,) = {linf for linf, _, _ in moved.values()}
    assert 0 < weight < 256
    assert moved["pairs"][1] == 10 * weight


def test_a_unit_under_two_labels_of_everybody_else_counts_once() -> None:
    """labels_only merges all other labels after bounding; features and the total count the unit once."""
    rows = [("u", "f", "here"), ("v", "f", "b"), ("v", "f", "c"), ("v", "g", "c")]
    made = Plan(budget=Budget(2, 1e-4), bounds=Bounds(pairs=3, labels=2), labels_only=["here"])
    joint, features, labels, total = sums_of(exact_sums(ddpmi.observe(table(rows)), made))
    assert (joint, features, labels, total) == ({("f", "here"): 256}, {"f": 2 * 256}, {"here": 256}, 2 * 256)


def test_a_label_counts_only_where_a_pair_of_it_was_kept() -> None:
    """Where the cap leaves no pair of a label, the unit is not in its sum: L never exceeds what pairs show."""
    rows = [("u", f"f{n}", f"l{n}") for n in range(5)]
    made = Plan(budget=Budget(2, 1e-4), bounds=Bounds(pairs=2, labels=5, cap=2))
    joint, _, labels, _ = sums_of(exact_sums(ddpmi.observe(table(rows)), made))
    assert (len(joint), len(labels)) == (2, 2)


def test_units_with_one_row_need_no_step_of_their_own() -> None:
    """The sums of pairs serve: both spaces have the same steps and the same sums."""
    rows = [(f"u{n}", f"f{n % 3}", f"l{n % 2}") for n in range(60)]
    units, events = (
        Plan(budget=Budget(2, 1e-4), bounds=Bounds(pairs=1), distinct="units", space=space)
        for space in ("units", "events")
    )
    assert units.sql() == events.sql()
    found, expected = (exact_sums(ddpmi.observe(table(rows)), made) for made in (units, events))
    assert sums_of(found) == sums_of(expected)


@pytest.mark.parametrize("strategy", ["scale", "sample"])
def test_exact_sums_with_bounds_are_those_of_a_release(strategy: str) -> None:
    """`exact` with bounds counts units by the same weights as a plan does before noise."""
    rows = [(f"u{n}", f"f{k}", "ab"[n % 2]) for n in range(20) for k in range(1 + n % 5)]
    bounds = Bounds(pairs=2, strategy=strategy, cap=0 if strategy == "sample" else 20)
    found = ddpmi.exact(ddpmi.observe(table(rows)), bounds=bounds)
    assert (found.receipt["space"], found.receipt["weighted"]) == ("units", True)
    ranking = ddpmi.rank(found)
    totals = {row["label"]: row["label_total"] for row in ranking.to_dicts()}
    assert sum(totals.values()) == ranking.total
    assert all(row["joint"] <= row["label_total"] for row in ranking.to_dicts())
    made = Plan(budget=Budget(2, 1e-4), bounds=bounds, mechanism="laplace")
    joint, *_, total = sums_of(exact_sums(ddpmi.observe(table(rows)), made))
    if strategy == "scale":  # which pairs are sampled depends on the salt
        assert {(row["feature"], row["label"]): row["sum"] for row in found.pairs.to_pylist()} == joint
        assert found.total == total
    else:
        assert ranking.total == 20
