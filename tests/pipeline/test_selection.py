"""Private set union: what one unit adds, which features show, and what follows from a vocabulary."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, InputError, Ledger, Plan, observe
from ddpmi._typing import TABLES
from ddpmi.pipeline.dialects import DUCKDB
from ddpmi.pipeline.selection import WEIGHT_SQUARED, round_shares, weight
from ddpmi.privacy.accounting import epsilon_for
from ddpmi.testing import (
    _salt,
    exact_sums,
    hostile_rows,
    seeded_release,
    sensitivity_replay,
    threshold_check,
    vocabularies,
)
from tests.support.reference import joint, selection

LABELS = ("a", "b", "c")


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    names = ("unit", "feature", "label")
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)})


def plan(**options: object) -> Plan:
    return Plan(**{"budget": Budget(2, 1e-4), "bounds": Bounds(pairs=3, cap=6), "selection": "set_union", **options})


def groups(units: int = 1500) -> list[tuple[object, ...]]:
    """Everybody has "common", two thirds have "often", and each has a feature of its own."""
    rows: list[tuple[object, ...]] = []
    for n in range(units):
        label = LABELS[n % 3]
        rows += [(f"u{n}", "common", label), (f"u{n}", f"own{n}", label)]
        if n % 3:
            rows.append((f"u{n}", "often", label))
    return rows


def sums_of(found: pa.Table) -> dict[str, int]:
    return {row["feature"]: row["sum"] for row in found.to_pylist()}


@pytest.mark.parametrize("features", [1, 2, 3, 4, 5, 255, 256, 257, 65_536, 10**6, 2**32, 2**32 + 1])
def test_the_weight_is_the_largest_that_the_bound_admits(features: int) -> None:
    """t w^2 <= 2^32 < t (w + 1)^2."""
    w = weight(features)
    assert features * w * w <= WEIGHT_SQUARED < features * (w + 1) ** 2


def test_the_sql_gives_the_same_weights() -> None:
    """Units with 1 to 300 features add exactly w(t) to each, also where the root is a whole number."""
    made = plan(bounds=Bounds(pairs=30, cap=300))
    rows = [(f"u{t}", f"f{t}-{n}", "x") for t in range(1, 301) for n in range(t)]
    found = sums_of(exact_sums(observe(table(rows)), made)["selection 1"])
    assert found == {f"f{t}-{n}": weight(t) for t in range(1, 301) for n in range(t)}


@settings(max_examples=12, deadline=None)
@given(rows=hostile_rows(features=12), pairs=st.integers(1, 3), rate=st.sampled_from([None, "0.7"]))
def test_the_weighted_sums_equal_the_reference(rows: list[tuple[object, ...]], pairs: int, rate: str | None) -> None:
    """The SQL of each round gives the integers of plain Python, with caps, coins and released features."""
    made = plan(bounds=Bounds(pairs=pairs, cap=pairs, labels=2), selection="sips", sample_rate=rate)
    replay = [["f1"], ["f2", "ß"], []]
    found, bounding = exact_sums(observe(table(rows)), made, replay=replay), made.calibration.bounding
    known: list[str] = []
    for number in range(1, 4):
        assert sums_of(found[f"selection {number}"]) == selection(rows, bounding, _salt(0), known=known)
        known += replay[number - 1]
    kept = [row for row in rows if row[1] in known]
    pairs_found = {(row["feature"], row["label"]): row["sum"] for row in found["pairs"].to_pylist()}
    assert pairs_found == joint(kept, bounding, _salt(0))


@settings(max_examples=8, deadline=None)
@given(rows=hostile_rows(features=12), data=st.data(), kind=st.sampled_from(["set_union", "sips"]))
def test_one_unit_moves_every_round_no_further_than_declared(rows, data: st.DataObject, kind: str) -> None:
    """Given the vocabulary, removing any unit moves each round by at most 2^16 in L2, and the tables as before."""
    made = plan(selection=kind, bounds=Bounds(pairs=2, cap=4, labels=2), budget=Budget(50, 0.1))
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    moved = sensitivity_replay(observe(table(rows)), observe(table(rest)), made)
    assert len(moved) == 4 + len(made.calibration.selection)
    assert all(one.within for one in moved)


@pytest.mark.parametrize(("features", "labels"), [(1, 1), (6, 1), (7, 1), (5000, 1), (40, 50), (1, 700)])
def test_adversarial_units_stay_within_the_sensitivity(features: int, labels: int) -> None:
    """Many rows, features or labels of one unit never move a round by more than 2^16, and a full unit nearly does."""
    heavy = [("u", f"f{n % features}", f"l{n % labels}") for n in range(max(features, labels) * 2)]
    rest: list[tuple[object, ...]] = [("v", "f0", "l0")]
    moved = {one.table: one for one in sensitivity_replay(observe(table(rest + heavy)), observe(table(rest)), plan())}
    assert all(one.within for one in moved.values())
    assert moved["selection 1"].l2_squared > 0.99 * WEIGHT_SQUARED


@pytest.mark.parametrize("kind", ["set_union", "sips"])
@pytest.mark.parametrize("alone", [1, 20])
@pytest.mark.parametrize("labels", [None, ("x",)])
def test_lone_features_show_no_more_often_than_delta(kind: str, alone: int, labels: tuple[str, ...] | None) -> None:
    """Over 10,000 lone units, those in the vocabulary stay within the rounds' part of delta/2 (false alarm below 1e-7)."""
    made = plan(selection=kind, budget=Budget(1, 0.02), bounds=Bounds(pairs=2), public_labels=labels)
    rate = threshold_check(observe, made, pairs=alone, units=10_000)
    rounds = len(made.calibration.selection)
    assert rate.allowed == 0.01
    assert replace(rate, allowed=0.01 * rounds / (rounds + (labels is None))).p_value > 1e-7
    if alone == made.bounds.cap:
        assert rate.events > 10  # the check sees the events it bounds


@pytest.mark.parametrize("epsilon", [1, 30])
@pytest.mark.parametrize("kind", ["set_union", "sips"])
def test_the_threshold_is_the_smallest_that_every_size_allows(epsilon: int, kind: str) -> None:
    """At T each size shows with probability at most its part of delta; at T - 1 some size shows more often."""
    made = plan(selection=kind, budget=Budget(epsilon, 1e-4), bounds=Bounds(pairs=5))
    rounds = made.calibration.selection
    allowed = math.log(0.5e-4 / (len(rounds) + 1))
    for noise in rounds:
        tails = [
            math.log(t) + noise.mechanism.log_tail(noise.threshold - shift - weight(t))
            for shift in (0, 1)
            for t in range(1, made.bounds.cap + 1)
        ]
        assert max(tails[: made.bounds.cap]) <= allowed
        assert max(tails) > allowed - 2e-9


def test_small_units_decide_the_threshold_where_noise_is_narrow() -> None:
    """At a large epsilon one feature of full weight is the worst case, at a small one many features are."""
    worst = []
    for epsilon in (1, 2000):
        noise = plan(budget=Budget(epsilon, 1e-4), bounds=Bounds(pairs=5)).calibration.selection[0]
        sizes = range(1, 51)
        worst.append(max(sizes, key=lambda t: math.log(t) + noise.mechanism.log_tail(noise.threshold - weight(t))))
    assert worst[0] > worst[1] == 1


@pytest.mark.parametrize("kind", ["set_union", "sips"])
@pytest.mark.parametrize("labels", [None, LABELS])
def test_rounds_and_tables_together_cost_the_budget(kind: str, labels: tuple[str, ...] | None) -> None:
    """The rhos of all rounds and tables convert to at most epsilon, and the deltas of all thresholds add to a half."""
    made = plan(selection=kind, public_labels=labels)
    found, moved = made.calibration, made.calibration.sensitivities
    rho = sum(moved[name].l2_squared / (2 * found.tables[name].mechanism.variance) for name in TABLES)
    rho += sum(WEIGHT_SQUARED / (2 * noise.mechanism.variance) for noise in found.selection)
    assert Fraction(999, 1000) * 2 < epsilon_for(rho, Fraction(1, 2 * 10**4)) <= 2
    assert rho <= made.cost.rho
    assert made.cost.delta == made.budget.delta / 2
    assert (found.tables["pairs"].threshold is None) == (labels is not None)


def test_rounds_grow() -> None:
    """Each round has three times the budget of the one before, and a lower threshold."""
    assert round_shares(3) == [Fraction(1, 13), Fraction(3, 13), Fraction(9, 13)]
    thresholds = [noise.threshold or 0 for noise in plan(selection="sips").calibration.selection]
    assert thresholds == sorted(thresholds, reverse=True)


@pytest.mark.parametrize("kind", ["set_union", "sips"])
def test_common_features_are_selected_and_lone_ones_vanish_from_every_table(kind: str) -> None:
    """The vocabulary is what many have; rows of other features count nowhere, so units within it count in full."""
    made, obs = plan(selection=kind), observe(table(groups()))
    released = vocabularies(obs, made, seed=1)
    assert sorted(feature for one in released for feature in one) == ["common", "often"]
    sums = exact_sums(obs, made, seed=1)
    assert sums_of(sums["features"]) == {"common": 1500 * 256, "often": 1000 * 256}
    assert sums["total"].to_pylist() == [
        {"sum": len({row[0] for row in groups() if row[1] in ("common", "often")}) * 256}
    ]


def test_known_labels_need_no_threshold_of_pairs() -> None:
    """Every pair of the vocabulary with a public label appears, also one that nobody has."""
    rows = [row for row in groups() if row[1:] != ("often", "a")]
    for options, labels in (
        ({"public_labels": ["a", "zz"]}, ["a", "zz"]),
        ({"labels_only": ["a"]}, ["a"]),
    ):
        found = seeded_release(observe(table(rows)), plan(**options), seed=1)
        got = [(row["feature"], row["label"]) for row in found.pairs.to_pylist()]
        features = found.features.column("feature").to_pylist()
        assert got == [(feature, label) for feature in features for label in labels]
        assert "common" in features


def test_unknown_labels_keep_the_threshold_of_pairs() -> None:
    """A vocabulary alone does not make a pair public."""
    rows = [*groups(), ("secret", "common", "SECRET")]
    found = seeded_release(observe(table(rows)), plan(), seed=1)
    assert found.labels.column("label").to_pylist() == list(LABELS)


def test_an_empty_vocabulary_is_a_release() -> None:
    """Nothing is selected, and everything is still charged and drawn."""
    rows = [(f"u{n}", f"own{n}", "a") for n in range(5)]
    for options in ({}, {"public_labels": ["a"]}, {"selection": "sips"}, {"space": "units"}):
        found = seeded_release(observe(table(rows)), plan(**options), seed=1)
        assert (found.pairs.num_rows, found.features.num_rows) == (0, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"distinct": "units", "bounds": Bounds(pairs=1)},
        {"distinct": True},
        {"space": "units"},
        {"marginals": "other"},
        {"bounds": Bounds(pairs=3, strategy="sample")},
        {"sample_rate": 0.9},
        {"selection": "sips", "sample_rate": 0.9},
        {"labels_only": ["a"]},
    ],
)
def test_selection_goes_with_the_other_options(options: dict[str, object]) -> None:
    """Seeded releases repeat, and no feature of one unit shows."""
    rows = groups() if options.get("distinct") != "units" else [(f"u{n}", f"f{n % 2}", "a") for n in range(900)]
    one, two = (seeded_release(observe(table(rows)), plan(**options), seed=1) for _ in range(2))
    assert one.pairs.equals(two.pairs)
    assert one.pairs.num_rows > 0
    assert not [name for name in one.features.column("feature").to_pylist() if name.startswith("own")]


def test_a_reader_that_is_used_up_by_reading_is_enough() -> None:
    """Rounds and tables read one frozen copy of the rows."""
    whole = table(groups())
    reader = pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches())
    one, two = (seeded_release(observe(data), plan(selection="sips"), seed=1) for data in (whole, reader))
    assert one.pairs.equals(two.pairs)


def test_the_release_is_charged_once_and_shows_no_weighted_sum(tmp_path: Path) -> None:
    """One entry of concentrated cost; the folder has the four tables and nothing else."""
    made = plan(public_labels=LABELS)
    ledger = Ledger(tmp_path / "a.ledger", limit=Budget(4, 1e-3))
    found = ddpmi.release(observe(table(groups())), made, ledger=ledger, to=tmp_path / "a.release")
    (entry,) = ledger.status("default").entries
    assert entry.to_dict()["rho"] == pytest.approx(float(made.cost.rho))
    assert "selection" not in found.receipt["tables"]
    assert {path.name for path in (tmp_path / "a.release").iterdir()} == {
        "receipt.json",
        "pairs",
        "features",
        "labels",
        "total",
    }
    with pytest.raises(InputError, match="one pass"):
        ddpmi.release_many(observe(table(groups())), [made, made], ledger=ledger)


def test_the_salt_is_bound_in_frozen_steps_only() -> None:
    """Every step that hashes is evaluated once."""
    made = plan(selection="sips", sample_rate=0.5)
    salted = [step for step in made.steps() if step.salted]
    assert {"coins", "kept_features_1", "kept_features_2", "kept_features_3"} <= {step.name for step in salted}
    assert all(step.freeze for step in salted)


def test_every_step_is_sql_that_other_engines_can_parse() -> None:
    """The text stays within what DuckDB, Spark and PostgreSQL all read."""
    for step in plan(selection="sips", sample_rate=0.5).steps(DUCKDB):
        for dialect in ("duckdb", "spark", "postgres"):
            assert sqlglot.parse_one(step.sql.replace("$salt", "'s'"), read=dialect) is not None


def test_the_share_of_the_selection_is_taken_from_the_others() -> None:
    """Left out, it is a tenth and the others are scaled; given, all five sum to 1."""
    shares = {"pairs": 0.5, "features": 0.2, "labels": 0.1, "total": 0.1, "selection": 0.1}
    assert plan().shares["pairs"] == Fraction(765, 1000)
    assert plan().shares["selection"] == Fraction(1, 10)
    assert plan(shares=shares).shares["pairs"] == Fraction(1, 2)
    assert sum(plan(shares={"pairs": 0.4, "features": 0.3, "labels": 0.2, "total": 0.1}).shares.values()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"selection": "union"},
        {"mechanism": "laplace"},
        {"public_features": ["f"]},
        {"grid": True, "public_labels": ["a"]},
        {"budget": Budget(1)},
        {"budget": Budget(1), "public_labels": ["a"]},
        {"shares": {"pairs": 0.7, "features": 0.2, "labels": 0.06, "total": 0.02, "selection": 0.3}},
        {"selection": None, "shares": {"pairs": 0.5, "features": 0.2, "labels": 0.1, "total": 0.1, "selection": 0.1}},
        {"shares": {"selection": 1}},
    ],
)
def test_options_that_contradict_a_selection_are_refused(wrong: dict[str, object]) -> None:
    """Each is an InputError with a hint, before anything is spent."""
    with pytest.raises(InputError, match="Hint:"):
        plan(**wrong)


def test_plans_with_a_selection_survive_a_round_trip() -> None:
    """Kind and share are restored and are part of the digest."""
    shares = {"pairs": 0.5, "features": 0.2, "labels": 0.1, "total": 0.1, "selection": 0.1}
    plans = [plan(), plan(selection="sips"), plan(shares=shares), plan(selection=None), plan(sample_rate="0.1")]
    assert [Plan.from_dict(made.to_dict()) for made in plans] == plans
    assert len({made.digest for made in plans}) == len(plans)


def test_counts_of_units_have_no_features_to_select_by() -> None:
    """Without a unit there is no weight."""
    with pytest.raises(InputError, match="no unit"):
        plan(bounds=Bounds(pairs=1), distinct="units").steps(counted=True)


def test_explain_says_how_features_are_selected() -> None:
    """Rounds, share, noise, threshold and measured use are in the text; no plan without a selection advertises one."""
    text = plan(selection="sips", public_labels=LABELS).explain(sql=True)
    for part in ("private set union in 3 rounds", "round 3", "to be selected", "pairs have no threshold", "weights_3"):
        assert part in text
    assert "did not improve" in text
    assert "set union" not in plan(selection=None).explain()
