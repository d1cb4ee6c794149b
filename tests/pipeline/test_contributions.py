"""The SQL that bounds contributions, against plain Python and against its own declarations."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import Bounds, Budget, Plan, observe
from ddpmi.pipeline.contributions import Bounding, steps, weight_of_equal_pairs
from ddpmi.pipeline.dialects import DUCKDB
from ddpmi.testing import _salt, exact_sums, hostile_rows, sensitivity_replay
from tests.support.reference import joint

KEYS = ["unit", "feature", "label"]
SETTINGS = settings(max_examples=25, deadline=None)


def table(rows: list[tuple[object, ...]], *, valued: bool) -> pa.Table:
    names = [*KEYS, "value"] if valued else KEYS
    types = [pa.string(), pa.string(), pa.string(), pa.float64()]
    return pa.table({name: pa.array([row[place] for row in rows], types[place]) for place, name in enumerate(names)})


def observed(rows: list[tuple[object, ...]], *, valued: bool = False):
    return observe(table(rows, valued=valued), value="value" if valued else None)


def sums(rows: list[tuple[object, ...]], plan: Plan, *, valued: bool) -> dict[tuple[str, str], int]:
    found = exact_sums(observed(rows, valued=valued), plan)["pairs"].to_pylist()
    return {(row["feature"], row["label"]): row["sum"] for row in found}


@st.composite
def plans(draw: st.DrawFn, *, valued: bool) -> Plan:
    pairs = draw(st.integers(1, 4))
    strategy = draw(st.sampled_from(["scale", "sample"]))
    bounds = Bounds(
        pairs=pairs,
        labels=draw(st.integers(1, 3)),
        strategy=strategy,
        cap=0 if strategy == "sample" else draw(st.integers(pairs, 3 * pairs)),
        **({"clip": draw(st.sampled_from([1, 5, "2.5"])), "step": "0.5"} if valued else {}),
    )
    mechanism = draw(st.sampled_from(["laplace", "gaussian"]))
    return Plan(budget=Budget(1, 1e-6), bounds=bounds, mechanism=mechanism)


@SETTINGS
@given(rows=hostile_rows(), plan=plans(valued=False))
def test_counts_equal_the_reference(rows: list[tuple[object, ...]], plan: Plan) -> None:
    """The SQL gives the integers of the plain-Python pipeline for every strategy, norm and cap."""
    assert joint(rows, plan.calibration.bounding, _salt(0)) == sums(rows, plan, valued=False)


@SETTINGS
@given(rows=hostile_rows(valued=True), plan=plans(valued=True))
def test_values_equal_the_reference(rows: list[tuple[object, ...]], plan: Plan) -> None:
    """NULL, NaN, infinite, negative and huge values follow the documented rule and never raise."""
    assert joint(rows, plan.calibration.bounding, _salt(0)) == sums(rows, plan, valued=True)


@SETTINGS
@given(rows=hostile_rows(), plan=plans(valued=False), data=st.data())
def test_one_unit_moves_counts_no_further_than_declared(rows, plan: Plan, data: st.DataObject) -> None:
    """Removing any unit keeps J, F, L and N within the declared norms, as exact integers."""
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    assert all(moved.within for moved in sensitivity_replay(observed(rows), observed(rest), plan))


@SETTINGS
@given(rows=hostile_rows(valued=True), plan=plans(valued=True), data=st.data())
def test_one_unit_moves_values_no_further_than_declared(rows, plan: Plan, data: st.DataObject) -> None:
    """The same with a value column."""
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    replay = sensitivity_replay(observed(rows, valued=True), observed(rest, valued=True), plan)
    assert all(moved.within for moved in replay)


def heavy(kind: str) -> list[tuple[object, ...]]:
    """Units built to move the sums as far as they can."""
    if kind == "repeats":
        return [("u", "f", "l", 1e9)] * 5000
    if kind == "many pairs":
        return [("u", f"f{n}", "l", 1e9) for n in range(5000)]
    if kind == "many labels":
        return [("u", f"f{n % 7}", f"l{n}", 1e9) for n in range(700)]
    if kind == "one feature everywhere":
        return [("u", "f", f"l{n}", 1e9) for n in range(700)]
    if kind == "exactly full":
        return [("u", f"f{n}", "l", 1e9) for n in range(8)]
    return [("u", f"f{n}", "l", 1e9 if n == 0 else 0.5) for n in range(5000)]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", ["scale", "sample"])
@pytest.mark.parametrize("labels", [1, 5])
@pytest.mark.parametrize(
    "kind", ["repeats", "many pairs", "many labels", "one feature everywhere", "exactly full", "uneven"]
)
def test_adversarial_units_stay_within_the_declared_norms(mechanism, strategy, labels: int, kind: str) -> None:
    """The heaviest unit moves each table up to its bound and not beyond."""
    plan = Plan(
        budget=Budget(1, 1e-6),
        bounds=Bounds(pairs=8, clip=10, step="0.5", labels=labels, strategy=strategy),
        mechanism=mechanism,
    )
    rest = [("v", "f", "l", 3.0)]
    replay = sensitivity_replay(observed(rest + heavy(kind), valued=True), observed(rest, valued=True), plan)
    assert all(moved.within for moved in replay)
    assert any(moved.l1 > 0 for moved in replay)


def test_a_full_unit_reaches_the_bound() -> None:
    """The bound is tight: K full pairs move J by exactly what is declared, so the replay is not blind."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=8), mechanism="gaussian")
    rows = [("u", f"f{n}", "l") for n in range(8)]
    moved = sensitivity_replay(observed(rows), observed([("v", "f", "l")]), plan)
    pairs = next(one for one in moved if one.table == "pairs")
    assert pairs.l2_squared >= pairs.allowed_l2_squared


@pytest.mark.parametrize("distinct", [False, True])
def test_a_value_above_the_clip_counts_as_the_clip(distinct) -> None:
    """Infinite and huge values count what the clip counts, negative ones and NaN count nothing."""
    values = [1e9, float("inf"), 10.0, -1.0, float("nan"), 0.0]
    rows = [(f"u{n}", f"f{n}", "l", value) for n, value in enumerate(values)]
    plan = Plan(
        budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, clip=10, step="0.5"), mechanism="laplace", distinct=distinct
    )
    assert sums(rows, plan, valued=True) == {(f"f{n}", "l"): 20 * 256 for n in range(3)}


@pytest.mark.parametrize("strategy", ["scale", "sample"])
def test_caps_keep_exactly_what_they_say(strategy: str) -> None:
    """Of a unit with 500 pairs under 5 labels exactly `labels` labels and `cap` pairs remain, those of the reference."""
    rows = [("u", f"f{n}", f"l{n % 5}") for n in range(500)]
    cap = 6 if strategy == "sample" else 40
    bounds = Bounds(pairs=6, labels=2, strategy=strategy, cap=cap)
    plan = Plan(budget=Budget(1, 1e-6), bounds=bounds, mechanism="laplace")
    kept = sums(rows, plan, valued=False)
    assert kept == joint(rows, plan.calibration.bounding, _salt(0))
    assert (len(kept), len({label for _, label in kept})) == (cap, 2)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_equal_weight_formula_is_never_below_the_sql(norm: str) -> None:
    """The threshold uses weights at least as large as those the SQL gives."""
    plan = Plan(
        budget=Budget(1, 1e-6), bounds=Bounds(pairs=3, cap=30), mechanism="laplace" if norm == "l1" else "gaussian"
    )
    # One unit of each size, alone with its label.
    rows = [(f"u{pairs}", f"f{n}", f"l{pairs}") for pairs in range(1, 31) for n in range(pairs)]
    found = sums(rows, plan, valued=False)
    for pairs in range(1, 31):
        got = {value for (_, label), value in found.items() if label == f"l{pairs}"}
        allowed = weight_of_equal_pairs(plan.calibration.bounding, pairs)
        assert len(got) == 1
        assert allowed - 1 <= got.pop() <= allowed


@SETTINGS
@given(rows=hostile_rows(), plan=plans(valued=False), order=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows, plan: Plan, order) -> None:
    """Sums are the same integers for every order of rows."""
    shuffled = list(rows)
    order.shuffle(shuffled)
    assert sums(rows, plan, valued=False) == sums(shuffled, plan, valued=False)


@pytest.mark.parametrize("distinct", [True, "units"])
def test_declared_distinct_rows_give_the_same_sums(distinct) -> None:
    """Where the declaration is true, skipping the group-by changes no integer."""
    rows = [(f"u{n}", f"f{n % 5}", f"l{n % 3}") for n in range(200)]
    pairs = 1 if distinct == "units" else 4
    general, declared = (
        Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=pairs), mechanism="laplace", distinct=choice)
        for choice in (False, distinct)
    )
    # Units with one pair need no weight, so their grid is that of the counts.
    finer = 2 ** (general.calibration.bounding.g - declared.calibration.bounding.g)
    expected = {key: total * finer for key, total in sums(rows, declared, valued=False).items()}
    assert finer == (256 if distinct == "units" else 1)
    assert sums(rows, general, valued=False) == expected


def test_one_row_per_unit_runs_no_step_per_unit() -> None:
    """distinct="units" leaves no grouping, join or window by unit in the text."""
    bounding = Bounding(bounds=Bounds(pairs=1), distinct="units", g=8)
    text = " ".join(step.sql for step in steps(bounding, DUCKDB)).upper()
    assert not any(word in text for word in ("GROUP BY", "JOIN", "OVER", "DISTINCT"))


def test_the_salt_is_bound_and_never_written_into_a_statement() -> None:
    """Steps that hash carry a parameter, and only frozen steps hash."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2))
    salted = [step for step in plan.steps() if step.salted]
    assert [step.name for step in salted] == ["kept_labels", "kept_pairs"]
    assert all(step.freeze for step in salted)


def test_a_new_salt_keeps_other_pairs() -> None:
    """Which pairs a capped unit keeps depends on the salt, so no feature loses for ever."""
    rows = [("u", f"f{n}", "l") for n in range(100)]
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=5, strategy="sample"))
    kept = {
        tuple(sorted(exact_sums(observed(rows), plan, seed=seed)["pairs"].column("feature").to_pylist()))
        for seed in range(5)
    }
    assert len(kept) == 5
