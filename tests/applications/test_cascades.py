"""Cascades: each fold is charged, starts from what was released, and leaves earlier folds usable.

The data has 4,000 units with features of their own group and noise of a few units: no chance decides (below 1e-9).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ddpmi
from ddpmi import Bounds, Budget, BudgetExceeded, EngineError, InputError, Ledger, ReleaseError
from ddpmi.applications.cascades import Cascade, Fold, cascade, each_fold
from ddpmi.curator import door
from tests.support.drinks import PLAN, states, table


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "test.ledger", limit=Budget(8, 1e-4))


def test_a_release_by_a_seed_needs_its_labels_in_the_plan(ledger: Ledger) -> None:
    """The plan must list both labels, or rank one only, and allow one label for each unit."""
    obs = ddpmi.observe(table()).label_by(feature="tea")
    for more in ({}, {"public_labels": ("seed",)}, {"labels_only": ("town",)}):
        with pytest.raises(InputError, match="'rest' and 'seed'"):
            ddpmi.release(obs, replace(PLAN, **more), ledger=ledger)
    with pytest.raises(InputError, match="labels=2"):
        ddpmi.release(obs, replace(PLAN, bounds=Bounds(pairs=4, labels=2)), ledger=ledger)
    assert states(ledger) == []
    for plan in (replace(PLAN, public_labels=("rest", "seed")), replace(PLAN, labels_only=("seed",))):
        assert ddpmi.release(obs, plan, ledger=ledger).pairs.num_rows > 0


def test_data_without_labels_is_refused_with_a_hint(ledger: Ledger) -> None:
    """No label, no release and no exact sums; the hint names the column and the seed."""
    obs = ddpmi.observe(table())
    for verb in (lambda: ddpmi.release(obs, PLAN, ledger=ledger), lambda: ddpmi.exact(obs)):
        with pytest.raises(ddpmi.SchemaError, match="label_by"):
            verb()
    assert states(ledger) == []


def folds(data: object, **more: object) -> tuple[Fold, ...]:
    home = replace(PLAN, bounds=Bounds(pairs=1))
    return (
        Fold(name="drinks", data=data, plan=PLAN, seed="tea", **more),
        Fold(name="homes", data=data, plan=home, feature="home", after="drinks", top=1, seed_column="feature", **more),
    )


def test_a_fold_starts_from_the_best_of_an_earlier_one(ledger: Ledger, tmp_path: Path) -> None:
    """Tea leads to milk, and those with milk live in towns more often; ids come from given names."""
    done = cascade(Cascade(id="c1", folds=folds(table())), ledger=ledger, to=tmp_path / "out")
    assert [found.release.release_id for found in done] == ["c1.drinks", "c1.homes"]
    best = done[1].ranking.top(1, direction="presence").to_dicts()
    assert [(row["label"], row["feature"]) for row in best] == [("rest", "land"), ("seed", "town")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["drinks", "homes"]
    assert [found.resumed for found in done] == [False, False]


def broken(*_: object, **__: object) -> None:
    """Stand in for an engine that fails."""
    raise EngineError("broken")


def test_finished_folds_are_resumed(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that fails leaves the earlier one; a second run takes it from its folder and charges the rest."""
    spec = Cascade(id="c1", folds=folds(table()))
    walk = each_fold(spec, ledger=ledger, to=tmp_path / "out")
    first = next(walk)
    with monkeypatch.context() as patch:
        patch.setattr(door, "measure", broken)
        with pytest.raises(EngineError) as caught:
            next(walk)
    assert "earlier folds" in " ".join(caught.value.__notes__)
    assert states(ledger) == ["released", "abandoned"]
    with pytest.raises(ReleaseError, match="charged before and left no release"):
        cascade(spec, ledger=ledger, to=tmp_path / "out")
    renamed = Cascade(id="c1", folds=(spec.folds[0], replace(spec.folds[1], name="homes-2")))
    again = cascade(renamed, ledger=ledger, to=tmp_path / "out")
    assert [found.resumed for found in again] == [True, False]
    assert again[0].release.pairs.equals(first.release.pairs)
    assert states(ledger) == ["released", "abandoned", "released"]
    assert [found.resumed for found in cascade(renamed, ledger=ledger, to=tmp_path / "out")] == [True, True]


def test_a_cascade_that_cannot_be_paid_charges_nothing(tmp_path: Path) -> None:
    """The folds are added up as the ledger adds, before the first one."""
    ledger = Ledger(tmp_path / "small.ledger", limit=PLAN.budget)
    with pytest.raises(BudgetExceeded, match="'homes'"):
        cascade(Cascade(id="c1", folds=folds(table())), ledger=ledger, to=tmp_path / "out")
    assert (states(ledger), (tmp_path / "out").exists()) == ([], False)


def test_a_later_fold_that_cannot_run_is_found_first(ledger: Ledger, tmp_path: Path) -> None:
    """A missing column of the second fold is met before the first is charged."""
    first, second = folds(table())
    with pytest.raises(ddpmi.SchemaError, match="nowhere"):
        cascade(
            Cascade(id="c", folds=(first, replace(second, seed_column="nowhere"))), ledger=ledger, to=tmp_path / "out"
        )
    assert states(ledger) == []


def test_a_seed_that_cannot_occur_is_found_first(ledger: Ledger, tmp_path: Path) -> None:
    """A fold that ranks another column than its seed's, and names none that shows it, would be all zero: nothing is charged."""
    first, second = folds(table())
    with pytest.raises(InputError, match="seed_column = 'feature'"):
        cascade(Cascade(id="c", folds=(first, replace(second, seed_column=None))), ledger=ledger, to=tmp_path / "out")
    assert states(ledger) == []


def test_a_fold_needs_enough_features_of_an_earlier_one(ledger: Ledger, tmp_path: Path) -> None:
    """An earlier fold that released too little is said to have done so; it stays usable."""
    first, second = folds(table())
    spec = Cascade(id="c", folds=(replace(first, seed=("nobody",)), second))
    with pytest.raises(InputError, match="released 0 features"):
        cascade(spec, ledger=ledger, to=tmp_path / "out")
    assert states(ledger) == ["released"]
    assert ddpmi.Release.load(tmp_path / "out" / "drinks").release_id == "c.drinks"


def test_labels_of_a_column_lead_on_too(ledger: Ledger, tmp_path: Path) -> None:
    """`of` chooses the label of the earlier fold whose features are the seed."""
    data = table()
    first = Fold(name="homes", data=data, plan=PLAN, label="home")
    second = Fold(name="drinks", data=data, plan=PLAN, after="homes", of="town", top=1)
    done = cascade(Cascade(id="c", folds=(first, second)), ledger=ledger, to=tmp_path / "out")
    assert done[1].ranking.top(1, direction="presence").to_dicts()[1]["feature"] == "milk"


def test_different_unit_columns_are_different_promises(ledger: Ledger, tmp_path: Path) -> None:
    """They are charged apart and the receipts say so."""
    data = table()
    first, second = folds(data)
    second = replace(second, unit="house", dataset="houses")
    done = cascade(Cascade(id="c", folds=(first, second)), ledger=ledger, to=tmp_path / "out")
    assert (states(ledger), states(ledger, "houses")) == (["released"], ["released"])
    for found, unit in zip(done, ("unit", "house"), strict=True):
        said = " ".join(found.release.receipt["relies_on"])
        assert f"The promise is per unit column: this fold protects '{unit}'" in said


def test_accounts_of_folds_are_kept_honest(ledger: Ledger, tmp_path: Path) -> None:
    """One dataset for two columns, and two datasets for one table, are refused unless the owner declares the people."""
    data = table()
    first, second = folds(data)
    wrong = {
        "share a dataset": (first, replace(second, unit="house")),
        "two datasets": (first, replace(second, dataset="other")),
    }
    for message, given in wrong.items():
        with pytest.raises(InputError, match=message):
            cascade(Cascade(id="c", folds=given), ledger=ledger, to=tmp_path / "out")
    with pytest.raises(InputError, match="several datasets"):
        Cascade(id="c", folds=(first, replace(second, unit="house", dataset="o")), common_person=True).observe()
    declared = Cascade(id="c", folds=wrong["share a dataset"], common_person=True).observe()
    assert all("same people" in " ".join(obs.relies_on) for obs in declared)
    assert states(ledger) == []


def test_a_cascade_needs_a_ledger_and_a_folder(ledger: Ledger) -> None:
    """Neither has a default."""
    spec = Cascade(id="c", folds=folds(table(4)))
    with pytest.raises(InputError, match="no ledger"):
        cascade(spec, to="out")
    with pytest.raises(InputError, match="no folder"):
        cascade(spec, ledger=ledger)
