"""What a plan is expected to show: hints, sanity, and agreement with a real release of such data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi.applications.simulation import EPSILONS, _Counts, simulate
from ddpmi.datasets import paper_shape
from ddpmi.errors import InputError
from ddpmi.planning.suggest import Hints

SHAPE = "units=200000,labels=5,features=500,lean=0.35"
LISTED = {"public_labels": [f"label-0{at}" for at in range(1, 6)]}


def plan_of(**options: Any) -> ddpmi.Plan:
    return ddpmi.Plan(**({"budget": ddpmi.Budget(1, 1e-7), "bounds": ddpmi.Bounds(pairs=1)} | options))


def test_more_budget_shows_more_with_smaller_errors() -> None:
    """Over the paper's epsilons visible pairs grow and rank errors shrink."""
    rows = simulate(plan_of(), SHAPE).rows
    assert [row["epsilon"] for row in rows] == [float(epsilon) for epsilon in EPSILONS]
    visible, errors = ([row[name] for row in rows] for name in ("visible", "rank_error"))
    assert visible == sorted(visible)
    assert visible[0] < visible[-1]
    assert errors[0] >= 2 * errors[-1]


def test_it_is_the_same_every_time() -> None:
    """The same plan, hints and seed give the same numbers; another seed gives others."""
    first, again, other = (simulate(plan_of(), SHAPE, epsilons=(1,), seed=seed).to_dict() for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert json.loads(json.dumps(first)) == first


def test_it_predicts_a_real_release(tmp_path: Path) -> None:
    """A release of generated rows of the same shape has about as many pairs, and an error within a factor of 2."""
    path = paper_shape(200_000, 500, 5, tmp_path / "rows.parquet", seed=11)
    obs = ddpmi.observe(str(path))
    ledger = ddpmi.Ledger(tmp_path / "a.ledger", limit=ddpmi.Budget(10, 1e-6))
    found = ddpmi.compare(ddpmi.exact(obs), ddpmi.release(obs, plan_of(), ledger=ledger), top=500)
    (expected,) = simulate(plan_of(), SHAPE, epsilons=(1,), top=500).rows
    assert expected["visible"] == pytest.approx(found.pairs["b"], rel=0.15)
    assert expected["kept"] == pytest.approx(found.kept, abs=0.1)
    assert 0.5 <= (expected["rank_error"] + 0.5) / (found.percentiles["50"] + 0.5) <= 2


@pytest.mark.parametrize(
    "options", [{"grid": True}, {"complete": True}, {"grid": True} | LISTED, {"complete": True} | LISTED]
)
def test_plans_that_show_every_pair_can_be_simulated(options: dict[str, Any], tmp_path: Path) -> None:
    """A release of generated rows has as many pairs, about, and an error within a factor of 2; it shows whole rows."""
    path = paper_shape(200_000, 500, 5, tmp_path / "rows.parquet", seed=11)
    obs = ddpmi.observe(str(path))
    ledger = ddpmi.Ledger(tmp_path / "a.ledger", limit=ddpmi.Budget(10, 1e-6))
    plan = plan_of(**options)
    found = ddpmi.compare(ddpmi.exact(obs), ddpmi.release(obs, plan, ledger=ledger), top=500)
    (expected,) = simulate(plan, SHAPE, epsilons=(1,), top=500).rows
    assert expected["visible"] % 5 == 0
    assert expected["visible"] == pytest.approx(found.pairs["b"], rel=0.15)
    assert 0.5 <= (expected["rank_error"] + 0.5) / (found.percentiles["50"] + 0.5) <= 2
    assert 0.5 <= (expected["cut_rank_error"] + 0.5) / (found.cut_percentiles["50"] + 0.5) <= 2
    assert expected["visible"] > simulate(plan_of(), SHAPE, epsilons=(1,), top=500).rows[0]["visible"]


@pytest.mark.parametrize("options", [{}, {"grid": True}, {"complete": True}])
def test_features_beyond_the_drawn_ones_are_counted(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the commonest features are drawn pair by pair, the others still count as visible, about."""
    whole = simulate(plan_of(**options), SHAPE, epsilons=(8,)).rows[0]["visible"]
    monkeypatch.setattr("ddpmi.applications.simulation._CELLS", 500)
    monkeypatch.setattr("ddpmi.applications.simulation._TAIL", 200)
    assert simulate(plan_of(**options), SHAPE, epsilons=(8,)).rows[0]["visible"] == pytest.approx(whole, rel=0.1)


def test_the_plan_tells_how_many_labels_there_are() -> None:
    """Labels that a plan lists need no hint, all show in a completed release, and their thresholds are gone in a grid."""
    shape = "units=20000,features=500"
    labels = [f"rare-{at}" for at in range(40)]
    assert simulate(plan_of(), shape, epsilons=(1,)).hints.labels == 20
    for way in ("complete", "grid"):
        plan = plan_of(public_labels=labels, **{way: True})
        found = simulate(plan, shape, epsilons=("0.5",))
        (row,), (without,) = found.rows, simulate(plan_of(**{way: True}), f"{shape},labels=40", epsilons=("0.5",)).rows
        assert found.hints.labels == 40
        assert row["visible"] % 40 == 0
        assert row["visible"] > without["visible"] > 0


def test_features_that_hardly_lean_are_hard_to_rank() -> None:
    """The less features lean to labels, the farther the best pairs move."""
    weak, strong = (
        simulate(plan_of(), SHAPE.replace("0.35", str(lean)), epsilons=(1,)).rows[0] for lean in (0.05, 0.6)
    )
    assert weak["rank_error"] > 2 * strong["rank_error"]
    assert weak["overlap"] < strong["overlap"]


def test_heavy_units_cost_accuracy() -> None:
    """With the same number of pairs in all, units that hold many of them leave fewer visible."""
    light = simulate(
        plan_of(bounds=ddpmi.Bounds(pairs=20)), "units=100000,pairs_per_unit=20,features=500", epsilons=(1,)
    )
    heavy = simulate(
        plan_of(bounds=ddpmi.Bounds(pairs=20)), "units=10000,pairs_per_unit=200,features=500", epsilons=(1,)
    )
    assert heavy.rows[0]["visible"] < light.rows[0]["visible"]


def test_the_papers_way_can_be_simulated() -> None:
    """At the same budget the paper's method releases fewer pairs."""
    ours, paper = plan_of(), ddpmi.Plan.paper(budget=ddpmi.Budget(1, 1e-7), bounds=ddpmi.Bounds(pairs=1))
    shown = [simulate(plan, SHAPE, epsilons=(1,)).rows[0]["visible"] for plan in (ours, paper)]
    assert shown[0] > shown[1] > 0
    sampled = ddpmi.Plan.paper(budget=ddpmi.Budget(1, 1e-7), bounds=ddpmi.Bounds(pairs=5))
    assert simulate(sampled, "units=50000,pairs_per_unit=10,features=100", epsilons=(4,)).rows[0]["visible"] > 0


def test_other_wrong_questions_are_refused() -> None:
    """Plans that would need more hints, and numbers that are none."""
    with pytest.raises(InputError, match="public_features cannot be simulated"):
        simulate(plan_of(public_features=["a"]), SHAPE)
    with pytest.raises(InputError, match="labels=5 contradicts the plan, which lists 2"):
        simulate(plan_of(public_labels=["a", "b"]), SHAPE)
    with pytest.raises(InputError, match="top must be a whole number"):
        simulate(plan_of(), SHAPE, top=0)
    with pytest.raises(InputError, match="epsilon"):
        simulate(plan_of(), SHAPE, epsilons=(0,))


def test_the_text_names_its_assumptions() -> None:
    """The table says which shape was assumed, and that nothing was read."""
    text = simulate(plan_of(), SHAPE, epsilons=(1,)).to_text()
    assert "units=200000" in text
    assert "Nothing was read." in text
    assert "median rank error" in text
    assert "in 100 places" in text


SEVERAL = "units=4000,labels=6,features=120,pairs_per_unit=12,lean=0.35"


def rows_of(hints: str, path: Path) -> Path:
    """Write rows of the shape that hints declare: each unit draws its labels, and distinct features under each."""
    shape, draw = Hints.parse(hints), np.random.default_rng(5)
    home = draw.integers(0, shape.labels or 1, shape.features)
    cells = shape.cells(shape.expected(), home)
    rows = []
    for unit in range(shape.units):
        for label in draw.choice(shape.labels or 1, shape.labels_per_unit, replace=False, p=shape.shares()):
            each = shape.pairs_per_unit // shape.labels_per_unit
            odds = cells[:, label] / cells[:, label].sum()
            rows += [(unit, f"f{f:04d}", f"l{label:02d}") for f in draw.choice(shape.features, each, False, odds)]
    table = {name: [row[at] for row in rows] for at, name in enumerate(("unit", "feature", "label"))}
    pq.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize(
    ("hints", "options"),
    [
        (SEVERAL, {"space": "units"}),
        (SEVERAL, {"space": "events"}),
        (SEVERAL, {"labels_only": ["l00", "l01"], "complete": True}),
        (f"{SEVERAL},labels_per_unit=3", {"bounds": ddpmi.Bounds(pairs=6, labels=3)}),
        (f"{SEVERAL},labels_per_unit=3", {"bounds": ddpmi.Bounds(pairs=6, labels=1)}),
    ],
)
def test_units_named_labels_and_several_labels_can_be_simulated(
    hints: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """A release of rows of that shape has as many pairs, within a third, and finds as many of the best, within a quarter."""
    plan = plan_of(**({"bounds": ddpmi.Bounds(pairs=6), "budget": ddpmi.Budget(4, 1e-7)} | options))
    obs = ddpmi.observe(str(rows_of(hints, tmp_path / "rows.parquet")))
    ledger = ddpmi.Ledger(tmp_path / "a.ledger", limit=ddpmi.Budget(10, 1e-6))
    reference = ddpmi.rank(ddpmi.exact(obs, space=plan.space))
    if "labels_only" in options:
        reference = reference.label(*options["labels_only"])
    found = ddpmi.compare(reference, ddpmi.release(obs, plan, ledger=ledger), top=100)
    (expected,) = simulate(plan, hints, epsilons=(4,), top=100).rows
    assert expected["visible"] == pytest.approx(found.pairs["b"], rel=0.34)
    assert expected["overlap"] == pytest.approx(found.cut_kept, abs=0.25)


def test_no_simulated_sum_is_larger_than_its_margins() -> None:
    """Where units have many pairs, no feature has more than all units and no pair more than its label, before noise."""
    for labels_per_unit in (1, 3):
        hints = Hints(units=500, labels=7, features=30, pairs_per_unit=12, labels_per_unit=labels_per_unit, lean=0.6)
        release = _Counts(hints, np.random.default_rng(1)).exact(units=True)
        features, labels = (
            dict(zip(table.column(0).to_pylist(), table["sum"].to_pylist(), strict=True))
            for table in (release.features, release.labels)
        )
        for pair in release.pairs.to_pylist():
            assert pair["sum"] <= min(features[pair["feature"]], labels[pair["label"]])
        assert max(*features.values(), *labels.values()) <= release.total


def test_a_hint_may_not_contradict_named_labels() -> None:
    """Fewer labels than the plan names, and more labels of a unit than pairs, are refused; without a hint there are enough."""
    plan = plan_of(labels_only=[f"l{at}" for at in range(30)])
    with pytest.raises(InputError, match="ranks 30 labels by name"):
        simulate(plan, "units=1000,labels=3")
    with pytest.raises(InputError, match="labels_per_unit=3"):
        simulate(plan_of(), "units=1000,labels_per_unit=3")
    assert simulate(plan, "units=20000,features=50", epsilons=(1,)).hints.labels == 30
