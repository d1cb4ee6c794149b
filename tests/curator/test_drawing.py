"""Every option of a plan: which keys appear, what their sums are, and how far one unit moves them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, Plan
from ddpmi.curator.drawing import summed_by
from ddpmi.pipeline.aggregates import remainder
from ddpmi.testing import exact_sums, hostile_rows, seeded_release, sensitivity_replay
from tests.support.release_fixtures import THREE_LABELS as LABELS
from tests.support.release_fixtures import table
from tests.support.release_fixtures import three_groups as groups

if TYPE_CHECKING:
    from pathlib import Path


def plan(**options: object) -> Plan:
    bounds = options.pop("bounds", Bounds(pairs=3))
    budget = options.pop("budget", Budget(2, 1e-4))
    return Plan(budget=budget, bounds=bounds, **options)


def keys(release: ddpmi.Release, name: str) -> list[tuple[str, ...]]:
    rows = getattr(release, name).to_pylist()
    return [tuple(value for key, value in row.items() if key != "sum") for row in rows]


def test_public_lists_fix_the_keys_for_all_data() -> None:
    """With both lists every pair appears, also for keys that no row has, and others never do."""
    options = {"public_labels": ["a", "zz"], "public_features": ["common", "nowhere"]}
    for rows in (groups(), groups(3), groups(0)):
        found = seeded_release(ddpmi.observe(table(rows)), plan(**options), seed=1)
        assert keys(found, "pairs") == [(f, label) for f in ("common", "nowhere") for label in ("a", "zz")]
        assert (keys(found, "features"), keys(found, "labels")) == ([("common",), ("nowhere",)], [("a",), ("zz",)])


def test_an_absent_key_and_a_present_one_differ_by_the_units_contribution_alone() -> None:
    """Adding one unit under a key that was absent moves the noisy tables by exactly its bounded contribution."""
    options = {"public_labels": LABELS, "public_features": ["common", "rare"]}
    rows = groups(300)
    one, two = (
        seeded_release(ddpmi.observe(table(data)), plan(**options), seed=7)
        for data in (rows, [*rows, ("new", "rare", "c")])
    )
    moved = {
        key: there["sum"] - here["sum"]
        for key, here, there in zip(keys(one, "pairs"), one.pairs.to_pylist(), two.pairs.to_pylist(), strict=True)
    }
    assert {key: change for key, change in moved.items() if change} == {("rare", "c"): 256}


def test_public_keys_need_no_threshold_and_no_delta() -> None:
    """A Laplace release over known keys is pure: delta may be 0 and nothing of it is charged."""
    pure = plan(public_labels=LABELS, public_features=["common"], budget=Budget(1))
    assert pure.mechanism_name == "laplace"
    assert pure.cost.delta == 0
    assert pure.cost.epsilon == 1
    assert all(noise.threshold is None for noise in pure.calibration.tables.values())


@pytest.mark.parametrize(("given_list", "table_name"), [("public_labels", "labels"), ("public_features", "features")])
def test_one_public_list_keeps_the_threshold_and_fixes_its_margin(given_list: str, table_name: str) -> None:
    """Pairs are still thresholded; the listed keys all appear in their margin."""
    chosen = ("a", "zz") if table_name == "labels" else ("common", "zz")
    made = plan(**{given_list: chosen})
    found = seeded_release(ddpmi.observe(table(groups())), made, seed=1)
    assert made.calibration.tables["pairs"].threshold is not None
    assert keys(found, table_name) == [(key,) for key in chosen]
    assert "zz" not in {key for pair in keys(found, "pairs") for key in pair}


def test_rows_outside_a_public_list_are_in_no_table() -> None:
    """Totals count listed rows only."""
    for space, count in (("units", 10), ("events", 20)):
        sums = exact_sums(ddpmi.observe(table(groups(30))), plan(public_labels=["a"], space=space))
        assert sums["total"].to_pylist() == [{"sum": count * 256}]


def test_a_true_zero_is_found_in_grid_mode() -> None:
    """The feature that everybody has but group c is ranked as an absence of c."""
    found = seeded_release(ddpmi.observe(table(groups(6000))), plan(grid=True, public_labels=LABELS), seed=1)
    top = ddpmi.rank(found).top(1, direction="absence").to_dicts()
    assert {"c": "never-c"}.items() <= {row["label"]: row["feature"] for row in top}.items()


def test_a_true_zero_cannot_be_found_without_the_grid() -> None:
    """Only pairs that occur are released otherwise."""
    found = seeded_release(ddpmi.observe(table(groups(6000))), plan(public_labels=LABELS), seed=1)
    assert ("never-c", "c") not in keys(found, "pairs")


def test_grid_mode_hides_rare_features() -> None:
    """A feature of one unit is below the threshold of features."""
    rows = [*groups(), ("u0", "SECRET", "a")]
    found = seeded_release(ddpmi.observe(table(rows)), plan(grid=True, public_labels=LABELS), seed=1)
    assert [key for (key,) in keys(found, "features")] == ["common", "never-c"]
    assert len(keys(found, "pairs")) == 2 * 3


def test_lone_features_show_no_more_often_than_delta_in_grid_mode() -> None:
    """Over 20,000 lone units a feature of theirs is selected within delta/2 = 2e-3, and now and then (false alarm below 1e-7)."""
    from ddpmi.testing import threshold_check

    for mechanism in ("laplace", "gaussian"):
        made = plan(
            grid=True, public_labels=["x"], budget=Budget(1, 0.004), bounds=Bounds(pairs=2), mechanism=mechanism
        )
        rate = threshold_check(ddpmi.observe, made, pairs=10, units=20_000)
        assert rate.p_value > 1e-7
        assert rate.events > 2  # 24 and more are expected


def test_a_grid_needs_no_list_of_labels() -> None:
    """Labels are found by their totals: a true zero is shown, a label of one unit is not, and nothing is drawn twice."""
    rows = [*groups(6000), ("lone", "common", "SECRET")]
    found = seeded_release(ddpmi.observe(table(rows)), plan(grid=True), seed=1)
    assert [key for (key,) in keys(found, "labels")] == list(LABELS)
    assert keys(found, "pairs") == [(f, label) for f in ("common", "never-c") for label in LABELS]
    assert ("never-c", "absence") in {
        (row["feature"], row["direction"]) for row in ddpmi.rank(found).to_dicts() if row["label"] == "c"
    }


@pytest.mark.parametrize("space", ["events", "units"])
def test_lone_labels_show_no_more_often_than_their_part_of_delta(space: str) -> None:
    """Over 10,000 units with a label of their own one shows within delta/4 = 1e-2 (false alarm below 1e-7)."""
    from ddpmi.testing import threshold_check

    for mechanism in ("laplace", "gaussian"):
        made = plan(grid=True, space=space, budget=Budget(1, 0.04), bounds=Bounds(pairs=2), mechanism=mechanism)
        rate = threshold_check(ddpmi.observe, made, pairs=4, units=10_000, alone_in="label")
        assert rate.allowed == 0.02
        assert replace(rate, allowed=0.01).p_value > 1e-7
        assert rate.events > 0


def test_a_grid_selects_only_what_is_not_known() -> None:
    """Listed features, or labels that are ranked alone, are released even if no row has them; all others need to reach a threshold."""
    obs = ddpmi.observe(table([*groups(6000), ("lone", "SECRET", "SECRET")]))
    listed = seeded_release(obs, plan(grid=True, public_features=["common", "nowhere"]), seed=1)
    assert keys(listed, "pairs") == [(f, label) for f in ("common", "nowhere") for label in LABELS]
    alone = seeded_release(obs, plan(grid=True, labels_only=["c", "zz"]), seed=1)
    assert keys(alone, "pairs") == [(f, label) for f in ("common", "never-c") for label in ("c", "zz")]
    chosen = seeded_release(obs, plan(grid=True, selection="set_union"), seed=1)
    assert keys(chosen, "pairs") == [(f, label) for f in ("common", "never-c") for label in LABELS]


def test_a_grid_of_nothing_is_empty() -> None:
    """Where no feature or no label reaches its threshold there is no pair."""
    for rows in ([], [(f"u{n}", "common", f"own{n}") for n in range(2000)]):
        found = seeded_release(ddpmi.observe(table(rows)), plan(grid=True), seed=1)
        assert (keys(found, "pairs"), keys(found, "labels")) == ([], [])


def test_other_marginals_add_what_was_dropped() -> None:
    """With next to no noise they equal the measured ones, over dropped pairs too."""
    rows = [*groups(), *((f"u{n}", f"rare{n}", "a") for n in range(0, 90, 3))]
    loud = Budget(100_000, 1e-4)
    measured, other = (
        seeded_release(ddpmi.observe(table(rows)), plan(marginals=m, space="events", budget=loud), seed=1)
        for m in ("measured", "other")
    )
    assert len(keys(measured, "pairs")) < len(exact_sums(ddpmi.observe(table(rows)), plan())["pairs"])
    for name in ("features", "labels"):
        expected = {row[name[:-1]]: row["sum"] for row in getattr(measured, name).to_pylist()}
        got = {row[name[:-1]]: row["sum"] for row in getattr(other, name).to_pylist()}
        assert (None in got) == (name == "labels")
        assert all(abs(got[key] - value) < 256 for key, value in expected.items())


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("labels", [1, 4])
def test_one_unit_moves_the_remainders_no_further_than_declared(mechanism: str, labels: int) -> None:
    """With the released pairs fixed, remainders stay within the sensitivities of labels and features."""
    made = plan(marginals="other", bounds=Bounds(pairs=4, labels=labels), mechanism=mechanism)
    heavy: list[tuple[object, ...]] = [("heavy", f"f{n}", f"l{n % 5}") for n in range(40)]
    heavy += [("heavy", "common", label) for label in LABELS]
    results = []
    for rows in (groups(30), groups(30) + heavy):
        obs = ddpmi.observe(table(rows))
        with summed_by(obs, made, salt="s") as engine:
            engine.put("kept", pa.table({"feature": ["common"], "label": ["a"]}))
            engine.put("known_labels", pa.table({"label": ["a", "l0"]}))
            engine.put("known_features", pa.table({"feature": ["common", "f0", "f1"]}))
            results.append(
                {
                    key: [row for b in engine.batches(remainder(key, engine.dialect)) for row in b.to_pylist()]
                    for key in ("label", "feature")
                }
            )
    allowed = made.calibration.sensitivities
    for key in ("label", "feature"):
        before, after = ({row[key]: row["sum"] for row in result[key]} for result in results)
        changes = [after[name] - before[name] for name in after]
        bound = allowed[f"{key}s"]
        assert len(before) == len(after)
        assert any(changes)
        assert bound.l1 is None or sum(map(abs, changes)) <= bound.l1
        assert bound.l2_squared is None or sum(change**2 for change in changes) <= bound.l2_squared


def test_unit_counts_are_those_of_plain_python() -> None:
    """Exact units space counts each unit once per pair, feature, label and in all."""
    rows = [("u", "f", "x"), ("u", "f", "x"), ("u", "f", "y"), ("u", "g", "x"), ("v", "f", "x"), ("w", None, "x")]
    found = ddpmi.exact(ddpmi.observe(table(rows)), space="units")
    assert {tuple(r.values())[:-1]: r["sum"] for r in found.pairs.to_pylist()} == {
        ("f", "x"): 2,
        ("f", "y"): 1,
        ("g", "x"): 1,
    }
    assert {r["feature"]: r["sum"] for r in found.features.to_pylist()} == {"f": 2, "g": 1}
    assert {r["label"]: r["sum"] for r in found.labels.to_pylist()} == {"x": 2, "y": 1}
    assert (found.total, found.receipt["space"]) == (2, "units")


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_unit_under_three_labels_moves_unit_counts_no_further_than_declared(mechanism: str) -> None:
    """And in labels as far as that: the declared bound is tight."""
    made = plan(space="units", bounds=Bounds(pairs=3, labels=3), mechanism=mechanism)
    rest = groups(30)
    rows = [*rest, *(("new", "common", label) for label in LABELS)]
    replay = sensitivity_replay(ddpmi.observe(table(rows)), ddpmi.observe(table(rest)), made)
    assert all(moved.within for moved in replay)
    assert [(moved.l1, moved.l2_squared) for moved in replay if moved.table == "labels"] == [(3 * 256, 3 * 256**2)]


@settings(max_examples=20, deadline=None)
@given(rows=hostile_rows(), labels=st.integers(1, 3), strategy=st.sampled_from(["scale", "sample"]), data=st.data())
def test_one_unit_moves_unit_counts_no_further_than_declared(
    rows, labels: int, strategy: str, data: st.DataObject
) -> None:
    """Replay of units space for any data, both strategies and norms."""
    mechanism = data.draw(st.sampled_from(["laplace", "gaussian"]))
    made = plan(space="units", bounds=Bounds(pairs=2, labels=labels, strategy=strategy), mechanism=mechanism)
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    replay = sensitivity_replay(ddpmi.observe(table(rows)), ddpmi.observe(table(rest)), made)
    assert all(moved.within for moved in replay)


@settings(max_examples=20, deadline=None)
@given(rows=hostile_rows(), labels=st.integers(1, 3))
def test_units_within_their_bounds_count_as_plain_python_counts(rows, labels: int) -> None:
    """Every margin counts whole units, at the full weight of 256, where nobody is above a bound."""
    made = plan(space="units", bounds=Bounds(pairs=60, labels=20), mechanism="laplace")
    sums = exact_sums(ddpmi.observe(table(rows)), made)
    valid = {row for row in rows if None not in row}
    assert sums["total"].to_pylist() == [{"sum": 256 * len({unit for unit, _, _ in valid})}]
    by_label = Counter(label for _, label in {(unit, label) for unit, _, label in valid})
    by_feature = Counter(feature for _, feature in {(unit, feature) for unit, feature, _ in valid})
    assert {row["label"]: row["sum"] for row in sums["labels"].to_pylist()} == {x: 256 * n for x, n in by_label.items()}
    assert {row["feature"]: row["sum"] for row in sums["features"].to_pylist()} == {
        f: 256 * n for f, n in by_feature.items()
    }


def test_one_label_alone_is_the_full_ranking_restricted_to_it() -> None:
    """labels_only gives the same pairs, features, label and total as everything would."""
    obs = ddpmi.observe(table(groups(90)))
    full, one = exact_sums(obs, plan()), exact_sums(obs, plan(labels_only=["b"]))
    assert one["pairs"].to_pylist() == [row for row in full["pairs"].to_pylist() if row["label"] == "b"]
    assert one["features"].to_pylist() == full["features"].to_pylist()
    assert one["labels"].to_pylist() == [row for row in full["labels"].to_pylist() if row["label"] == "b"]
    assert one["total"].to_pylist() == full["total"].to_pylist()


def test_one_label_alone_groups_less() -> None:
    """The joint group-by sees one group for everybody else."""
    assert "CASE WHEN" in plan(labels_only=["b"]).steps()[-1].sql


def test_options_survive_a_round_trip_and_change_the_digest() -> None:
    """Receipts restore every option."""
    plans = [
        plan(),
        plan(public_labels=["b", "a"]),
        plan(public_features=["f"]),
        plan(labels_only=["a"]),
        plan(grid=True, public_labels=["a"]),
        plan(grid=True),
        plan(marginals="other"),
        plan(space="events"),
        plan(thresholds="every"),
    ]
    assert [Plan.from_dict(made.to_dict()) for made in plans] == plans
    assert len({made.digest for made in plans}) == len(plans)


@pytest.mark.parametrize("space", ["events", "units"])
def test_counts_that_were_summed_beforehand_give_the_sums_of_their_rows(space: str) -> None:
    """One row per unit, or the counts of those rows: the same integers behind the noise."""
    rows = [(f"u{n}", f"f{n % 3}", LABELS[n % 2]) for n in range(60)]
    counts = Counter((feature, label) for _, feature, label in rows)
    summed = pa.table(
        {"feature": [f for f, _ in counts], "label": [label for _, label in counts], "count": list(counts.values())}
    )
    made = plan(bounds=Bounds(pairs=1), distinct="units", space=space)
    one, two = exact_sums(ddpmi.observe(table(rows)), made), exact_sums(ddpmi.observe_counts(summed), made)
    assert {name: sums.to_pylist() for name, sums in one.items()} == {
        name: sums.to_pylist() for name, sums in two.items()
    }
    receipt = seeded_release(ddpmi.observe_counts(summed), made, seed=1).receipt
    assert "each unit was counted once" in " ".join(receipt["relies_on"])
    undeclared = plan(bounds=Bounds(pairs=1), space=space)
    with pytest.raises(ddpmi.InputError, match="distinct='units'"):
        ddpmi.release(ddpmi.observe_counts(summed), undeclared, ledger=None)


def test_thresholds_on_every_table_drop_pairs_with_their_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair above its own threshold is dropped where its feature or its label stays below theirs."""
    made = Plan.paper(budget=Budget(2, 1e-4), bounds=Bounds(pairs=3))
    thresholds = {"pairs": 150, "features": 750, "labels": 500}
    tables = {name: replace(noise, threshold=thresholds.get(name)) for name, noise in made.calibration.tables.items()}
    monkeypatch.setitem(made.__dict__, "calibration", replace(made.calibration, tables=tables))
    # Exactly 300 of "common" in each label, 300 of "never-c" in two: c has 300 in all, never-c 600.
    found = seeded_release(ddpmi.observe(table(groups())), made, seed=1)
    assert keys(found, "features") == [("common",)]
    assert keys(found, "labels") == [("a",), ("b",)]
    assert keys(found, "pairs") == [("common", "a"), ("common", "b")]
    assert len(ddpmi.rank(found, method="paper")) == 2


def test_the_papers_way_is_charged_and_stamped_like_any_plan(tmp_path: Path) -> None:
    """It is a private release with a receipt that names a threshold for each of three tables, and can be ranked."""
    ledger = ddpmi.Ledger(tmp_path / "l", limit=Budget(2, 1e-4))
    made = Plan.paper(budget=Budget(2, 1e-4), bounds=Bounds(pairs=3))
    found = ddpmi.release(ddpmi.observe(table(groups(3000))), made, ledger=ledger)
    assert found.private
    assert ledger.status("default").spent.epsilon == 2
    named = {name: entry["threshold"] is not None for name, entry in found.receipt["tables"].items()}
    assert named == {"pairs": True, "features": True, "labels": True, "total": False}
    assert found.plan == made
    assert len(ddpmi.rank(found, method="paper")) == 5


def test_lone_units_show_no_more_often_than_delta_the_papers_way() -> None:
    """Over 10,000 lone units a pair of theirs is shown within delta/6 = 1e-2 (false alarm below 1e-7)."""
    from ddpmi.testing import threshold_check

    made = Plan.paper(budget=Budget(1, 0.06), bounds=Bounds(pairs=2))
    rate = threshold_check(ddpmi.observe, made, pairs=20, units=10_000)
    assert replace(rate, allowed=0.01).p_value > 1e-7
