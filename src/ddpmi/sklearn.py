"""Feature selection for scikit-learn from a private release: ``from ddpmi.sklearn import PrivateMISelector``.

A sample is a unit, unless units are given. A sample has a feature if its value there is not 0. The scores come from one release,
which a ledger is charged for; a fit never computes a score without noise.
"""

from __future__ import annotations

import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ddpmi.curator.door import as_ledger, release
from ddpmi.curator.observations import observe
from ddpmi.errors import InputError, MissingExtra
from ddpmi.ledger.ledger import Ledger
from ddpmi.pipeline.bounds import Bounds
from ddpmi.planning.plan import Plan
from ddpmi.privacy.budget import Budget
from ddpmi.rankings.cells import read

try:
    from sklearn.base import BaseEstimator
    from sklearn.feature_selection import SelectorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise MissingExtra(
        f"ddpmi.sklearn needs {error.name or 'scikit-learn'}, which is not installed.",
        hint="pip install 'ddpmi[sklearn]'",
    ) from None

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from ddpmi._typing import Floats, Target
    from ddpmi.releases.release import Release

__all__ = ["PrivateMISelector"]

_USUAL_PAIRS = 50
#: Sums of features and the total are not used here, so nearly all of the budget goes to pairs.
_SHARES = {"pairs": 0.93, "features": 0.01, "labels": 0.05, "total": 0.01}
#: Deviations of noise that are taken off each difference from independence. Rare features need it: there a small sum of noise
#: alone looks like much information. Chosen on generated texts that `bench/bench_selector.py` does not use.
_SPREAD = 3.0


class PrivateMISelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Select the k features that tell most about the label, by mutual information from differentially private sums.

    The names and the number of features are public, as the columns of a table are. Labels are those of ``classes``; without
    them a label counts only if its sum reaches a threshold. Each fit is one release: it costs its budget, also inside a
    cross-validation, where every fold is a fit. What a fitted selector holds is private; what a later step of a pipeline learns
    from the selected columns is not.

    Args:
        k: How many features are selected; "all" keeps all of them.
        epsilon: What one fit costs.
        delta: What one fit costs.
        pairs: How many features of a sample count in full; samples with more count less. By default 50, or all features if there
            are fewer.
        classes: The labels, if they are publicly known. They are compared as text. Samples with other labels are left out.
        ledger: The ledger that is charged, or the path of its file. Without one nothing adds up the fits, so the promise is
            for each fit alone.
        dataset: The dataset in the ledger.

    Attributes:
        scores_: Mutual information of each feature with the label, in nats, after noise is taken off.
        support_: Whether each feature is selected.
        receipt_: The receipt of the release.

    >>> import numpy as np
    >>> chance = np.random.default_rng(1)
    >>> y = chance.integers(0, 2, 4000)
    >>> X = chance.integers(0, 2, (4000, 5)); X[:, 3] = y
    >>> PrivateMISelector(k=1, epsilon=2).fit(X, y).get_support(indices=True).tolist()
    [3]
    """

    def __init__(
        self,
        k: int | Literal["all"] = 10,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        pairs: int | None = None,
        classes: Sequence[Any] | None = None,
        ledger: Ledger | Target | None = None,
        dataset: str = "default",
    ) -> None:
        self.k = k
        self.epsilon = epsilon
        self.delta = delta
        self.pairs = pairs
        self.classes = classes
        self.ledger = ledger
        self.dataset = dataset

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        # A cell that is missing is a feature that a sample does not have: no row is an error.
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, units: Any = None) -> PrivateMISelector:  # noqa: N803 - scikit-learn's name
        """Charge the ledger, draw one release, and score all features from it.

        Args:
            X: Samples and features: an array, a sparse matrix or a frame.
            y: The label of each sample.
            units: The unit of each sample, where several samples belong to one person, who is then protected as a whole.

        Raises:
            BudgetExceeded: The ledger has too little left; nothing was drawn.
        """
        found, labels = validate_data(
            self, X, y, accept_sparse="csr", ensure_all_finite=False, dtype="numeric", multi_output=False
        )
        check_classification_targets(labels)
        plan = self._plan(found.shape[1], repeated=units is not None)
        rows = _rows(found, labels, units)
        with self._account() as ledger:
            drawn = release(observe(rows, dataset=self.dataset), plan, ledger=ledger)
        self.receipt_ = dict(drawn.receipt)
        self.scores_, order = _scores(drawn, found.shape[1])
        count = found.shape[1] if self.k == "all" else min(self.k, found.shape[1])
        self.support_ = np.zeros(found.shape[1], dtype=bool)
        self.support_[order[:count]] = True
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask: NDArray[np.bool_] = self.support_
        return mask

    def _plan(self, features: int, *, repeated: bool) -> Plan:
        """Return the plan of a fit, from the settings and the number of columns alone."""
        if self.k != "all" and (isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < 1):
            raise InputError(f"k must be a whole number from 1 on, or 'all', got {self.k!r}.", hint="k=100")
        if self.k != "all" and self.k > features:
            warnings.warn(f"k={self.k} is more than the {features} features; all are selected.", stacklevel=3)
        known = None if self.classes is None else _as_text(np.asarray(self.classes))
        return Plan(
            budget=Budget(self.epsilon, self.delta),
            bounds=Bounds(pairs=min(_USUAL_PAIRS, features) if self.pairs is None else self.pairs),
            space="units",
            public_features=tuple(map(str, range(features))),
            public_labels=None if known is None else tuple(dict.fromkeys(known.tolist())),
            grid=known is None,
            # A matrix has one cell for each sample and column.
            distinct=not repeated,
            shares=_SHARES,
        )

    @contextmanager
    def _account(self) -> Iterator[Ledger]:
        """Return the ledger, or one for this fit alone."""
        if self.ledger is not None:
            yield as_ledger(self.ledger)
            return
        with tempfile.TemporaryDirectory(prefix="ddpmi-") as folder:
            yield Ledger(Path(folder) / "one-fit.ledger", limit=Budget(self.epsilon, self.delta))


def _rows(found: Any, labels: Any, units: Any) -> pa.Table:
    """Return a row (unit, feature, label) for each cell that is neither 0 nor missing."""
    import pyarrow as pa
    from scipy import sparse

    if sparse.issparse(found):
        matrix = found.tocsr(copy=True)
        matrix.sum_duplicates()
        here = (matrix.data != 0) & ~np.isnan(matrix.data)
        samples = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[here]
        features = matrix.indices[here].astype(np.int64)
    else:
        samples, features = np.nonzero((found != 0) & ~np.isnan(found))
    names, code = np.unique(_as_text(column_or_1d(labels)), return_inverse=True)
    label = pa.DictionaryArray.from_arrays(
        pa.array(code[samples].astype(np.int32)), pa.array(names.tolist(), pa.string())
    )
    unit = pa.array(samples)
    if units is not None:
        listed = column_or_1d(np.asarray(units))
        if len(listed) != found.shape[0]:
            raise InputError(
                f"units has {len(listed)} entries for {found.shape[0]} samples.", hint="one unit per sample"
            )
        unit = pa.array(_as_text(listed).tolist(), pa.string()).take(unit)
    return pa.table({"unit": unit, "feature": pa.array(features), "label": label.dictionary_decode()})


def _as_text(values: Any) -> NDArray[Any]:
    return np.asarray([str(value) for value in values.ravel().tolist()], dtype=object).astype(str)


def _scores(drawn: Release, features: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return the score of each feature, and all features, best first."""
    cells = read(drawn)
    sums = np.zeros((features, len(cells.labels)))
    column = np.array([int(name) for name in cells.features.to_pylist()], dtype=np.int64)
    sums[column[cells.feature_code], cells.label_code] = cells.in_users_units(cells.joint)
    totals = cells.in_users_units(cells.label_sums)
    if not len(totals):
        warnings.warn(
            "No label reached its threshold, so all scores are 0. Name public classes, or raise epsilon.", stacklevel=3
        )
    noise = drawn.receipt["tables"]
    scores, raw = (
        information(sums, totals, spread * noise["pairs"]["sd_user"], spread * noise["labels"]["sd_user"])
        for spread in (_SPREAD, 0.0)
    )
    # Where noise hides everything, the estimate itself decides.
    return scores, np.lexsort((-raw, -scores))


def information(sums: Floats, totals: Floats, of_sums: float, of_totals: float) -> Floats:
    """Return the mutual information of each feature with all labels together, in nats.

    Args:
        sums: Units with the feature, for each feature and label.
        totals: Units of each label.
        of_sums: What noise may do to a sum; it is taken off each difference from independence.
        of_totals: What noise may do to a total.

    >>> information(np.array([[50.0, 0.0], [25.0, 25.0]]), np.array([50.0, 50.0]), 0.0, 0.0).round(3).tolist()
    [0.693, 0.0]
    """
    there = totals >= 1
    sums, totals = sums[:, there], totals[there]
    if not len(totals):
        return np.zeros(len(sums))
    whole = totals.sum()
    rate = np.clip(sums.sum(axis=1, keepdims=True) / whole, 0.0, 1.0)
    excess = sums - rate * totals
    doubt = np.hypot(of_sums, rate * of_totals)
    kept = np.clip(rate * totals + np.sign(excess) * np.maximum(np.abs(excess) - doubt, 0.0), 0.0, totals)
    inside, overall = kept / totals, kept.sum(axis=1, keepdims=True) / whole
    found: Floats = ((_term(inside, overall) + _term(1 - inside, 1 - overall)) * (totals / whole)).sum(axis=1)
    return np.maximum(found, 0.0)


def _term(inside: Floats, overall: Floats) -> Floats:
    """Return p ln(p / q), which is 0 where p is 0."""
    ratio = np.divide(inside, overall, out=np.ones_like(inside), where=(inside > 0) & (overall > 0))
    found: Floats = inside * np.log(ratio)
    return found
