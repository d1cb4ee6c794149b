"""The selector for scikit-learn: its rules, its scores, and what each fit costs.

Data has 3,000 samples and one planted feature for each class, so noise decides no test (below 1e-9).
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_selection import mutual_info_classif
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import ddpmi
from ddpmi import Budget, BudgetExceeded, InputError, Ledger
from ddpmi.sklearn import PrivateMISelector, _rows, information

PLANTED = [3, 7, 11]


def planted(samples: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes; feature 3, 7 or 11 shows which, and all others are chance."""
    chance = np.random.default_rng(seed)
    classes = chance.integers(0, 3, samples)
    cells = (chance.random((samples, 20)) < 0.3).astype(float)
    for place, feature in enumerate(PLANTED):
        cells[:, feature] = chance.random(samples) < np.where(classes == place, 0.8, 0.1)
    return cells, classes


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_rules_of_scikit_learn_hold() -> None:
    """Every check of an estimator passes, as one that draws anew at each fit; no data is too small for noise."""
    found = check_estimator(PrivateMISelector(), on_skip=None)
    assert {check["status"] for check in found} == {"passed", "skipped"}
    assert PrivateMISelector().__sklearn_tags__().non_deterministic


def test_the_planted_features_are_found_in_every_form() -> None:
    """Dense, sparse, frames, a cell that is missing or infinite, and labels of text give the same selection."""
    cells, classes = planted()
    odd = cells.copy()
    odd[cells == 0] = np.where(np.arange((cells == 0).sum()) % 2, np.nan, 0)
    odd[0, 3] = np.inf
    named = pd.DataFrame(cells, columns=[f"w{n}" for n in range(20)])
    forms = [cells, odd, sparse.csr_matrix(cells), sparse.csc_array(cells), named, cells.astype(bool)]
    for form in forms:
        fitted = PrivateMISelector(k=3, epsilon=4).fit(form, np.array(["a", "b", "c"])[classes])
        assert fitted.get_support(indices=True).tolist() == PLANTED
    frame = PrivateMISelector(k=3, epsilon=4).set_output(transform="pandas").fit(named, classes)
    assert list(frame.get_feature_names_out()) == list(frame.transform(named).columns) == ["w3", "w7", "w11"]
    known = PrivateMISelector(k=3, epsilon=4, classes=[0, 1, 2]).fit(cells, classes)
    assert known.get_support(indices=True).tolist() == PLANTED
    assert known.receipt_["private"]


def test_scores_without_noise_are_those_of_scikit_learn() -> None:
    """The formula is mutual information of a feature with all labels; noise alone makes the difference."""
    cells, classes = planted(500)
    sums = np.array([[cells[classes == label, feature].sum() for label in range(3)] for feature in range(20)])
    expected = mutual_info_classif(cells.astype(int), classes, discrete_features=True)
    assert information(sums, np.bincount(classes).astype(float), 0.0, 0.0) == pytest.approx(expected, abs=1e-12)
    noisy = PrivateMISelector(k="all", epsilon=200).fit(cells, classes).scores_
    assert np.abs(noisy - expected).max() < 0.02
    assert information(sums, np.zeros(3), 0.0, 0.0).tolist() == [0.0] * 20
    assert information(sums, np.bincount(classes).astype(float), 1e9, 0.0).max() == pytest.approx(0, abs=1e-12)


def test_each_fold_of_a_cross_validation_is_charged(tmp_path: Path) -> None:
    """Four folds are four releases of one ledger, by its path or as an object; a fifth is refused and nothing is drawn."""
    cells, classes = planted()
    Ledger(tmp_path / "x.ledger", limit=Budget(4, 1e-5))
    model = make_pipeline(PrivateMISelector(3, ledger=tmp_path / "x.ledger", dataset="texts"), BernoulliNB())
    scores = cross_val_score(model, cells, classes, cv=4, error_score="raise")
    assert scores.mean() > 0.6
    ledger = Ledger(tmp_path / "x.ledger")
    assert [entry.state for entry in ledger.status("texts").entries] == ["released"] * 4
    dear = PrivateMISelector(3, epsilon=9, ledger=ledger, dataset="texts")
    with pytest.raises(BudgetExceeded):
        clone(dear).fit(cells, classes)
    assert len(ledger.status("texts").entries) == 4


def test_two_fits_differ() -> None:
    """Noise is fresh in each fit, and a clone has no memory of a fit."""
    cells, classes = planted(300)
    first = PrivateMISelector(k="all", classes=(0, 1, 2)).fit(cells, classes)
    second = clone(first)
    assert not hasattr(second, "scores_")
    assert first.scores_.tolist() != second.fit(cells, classes).scores_.tolist()
    again = pickle.loads(pickle.dumps(first))
    assert again.scores_.tolist() == first.scores_.tolist()


def test_samples_of_one_unit_are_protected_together() -> None:
    """With units, the rows of a unit are one unit's: its keys are the given ones, and rows may repeat."""
    cells, classes = planted(40)
    people = np.array([f"p{n // 4}" for n in range(40)])
    rows = _rows(cells, classes, people)
    assert set(rows.column("unit").to_pylist()) <= set(people)
    assert rows.num_rows == int(cells.sum())
    fitted = PrivateMISelector(k=3, epsilon=4).fit(*planted(), units=np.arange(3000) // 2)
    assert fitted.receipt_["plan"]["distinct"] is False
    assert PrivateMISelector(k=3, epsilon=4).fit(*planted()).receipt_["plan"]["distinct"] is True
    with pytest.raises(InputError, match="40 samples"):
        PrivateMISelector(k=3).fit(cells, classes, units=people[:3])


def test_a_matrix_with_doubled_cells_has_each_once() -> None:
    """The plan declares distinct rows, so cells that a sparse matrix holds twice, or as 0, are merged or left out."""
    doubled = sparse.csr_matrix(
        (np.array([1.0, -1.0, 2.0, 2.0, 0.0]), np.array([0, 0, 1, 1, 2]), np.array([0, 5])), (1, 3)
    )
    assert _rows(doubled, np.array([1]), None).to_pylist() == [{"unit": 0, "feature": 1, "label": "1"}]
    assert doubled.nnz == 5


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": True}, {"k": "some"}, {"epsilon": 0}, {"pairs": 0}, {"ledger": 3}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    """A clear error with a hint, and nothing is drawn."""
    with pytest.raises(InputError, match="Hint:"):
        PrivateMISelector(**wrong).fit(*planted(30))


def test_what_cannot_be_selected_is_said() -> None:
    """More features than there are, and labels that all stay below the threshold, are warnings."""
    cells, classes = planted(30)
    with pytest.warns(UserWarning, match="more than the 20 features"):
        PrivateMISelector(k=21, classes=[0, 1, 2]).fit(cells, classes)
    with pytest.warns(UserWarning, match="No label reached"):
        fitted = PrivateMISelector(k=2, epsilon=0.1).fit(cells[:3], classes[:3])
    assert fitted.support_.sum() == 2
    assert fitted.scores_.tolist() == [0.0] * 20


def test_the_selector_is_loaded_when_it_is_asked_for() -> None:
    """`import ddpmi` does not need scikit-learn, and no public name of ddpmi is the selector."""
    assert "PrivateMISelector" not in ddpmi.__all__
