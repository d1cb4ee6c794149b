"""Scores of a pair besides mutual information, from the same four released sums: association, keyness and effect size.

A pair is a 2 x 2 table of counts: ``joint`` k, ``feature`` f, ``label`` l, ``total`` n, and so a = k, b = f - k,
c = l - k, d = n - f - l + k. Noisy sums that contradict each other are first moved to a table that can exist.
No score is NaN or infinite: 0/0 is 0, and the logarithm of an empty cell uses half a count, or half of the count expected
under independence if that is less. An empty cell therefore always counts for its own side.
With a value column or scaled units these are scores, not test statistics: they have no p-values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ddpmi._typing import SCORES
from ddpmi.errors import Hint, InputError
from ddpmi.information.mi import covariance, mutual_information

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from ddpmi._typing import Floats


TITLES = {
    "mi": "MI in nats",
    "nmi": "MI / H(label)",
    "pmi": "PMI",
    "npmi": "NPMI",
    "lift": "Lift",
    "chi2": "Chi-square",
    "g2": "G2",
    "phi": "Phi",
    "yule_q": "Yule's Q",
    "log_odds": "Log odds, z",
    "jlh": "JLH",
    "gnd": "GND",
    "log_ratio": "Log ratio",
}
"""How each score is called in tables and pages."""
_BLOCK = 1 << 14  # pairs computed at once
_HALF = 0.5
_LEAST = 1e-60  # far below any grid step; smaller sums count as 0, so that no ratio overflows


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of 2 x 2 tables that can exist."""

    joint: Floats
    """k, between max(0, f + l - n) and min(f, l)."""
    feature: Floats
    """f, between 0 and n."""
    label: Floats
    """l, between 0 and n."""
    total: float
    """n, not negative."""

    @classmethod
    def of(cls, joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: float) -> Counts:
        """Move noisy sums to tables that can exist; sums of a feasible table do not change.

        >>> Counts.of([12], [10], [20], 100).joint.tolist()
        [10.0]
        """
        given = (np.asarray(s, dtype=np.float64) for s in (joint, feature, label))
        k, f, l = (np.where(s < _LEAST, 0.0, s) for s in np.broadcast_arrays(*given))  # noqa: E741
        n = float(total) if total >= _LEAST else 0.0
        f, l = np.clip(f, 0.0, n), np.clip(l, 0.0, n)  # noqa: E741
        k = np.clip(k, np.maximum(0.0, f - (n - l)), np.minimum(f, l))
        return cls(joint=k, feature=f, label=l, total=n)

    def probabilities(self) -> tuple[Floats, Floats, Floats]:
        """Return pxy, px, py; all 0 where the total is 0."""
        n = self.total or 1.0
        return self.joint / n, self.feature / n, self.label / n


def score(name: str, joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: float) -> Floats:
    """Compute one score of many pairs.

    Args:
        name: One of ``SCORES``.
        joint: The sums of the pairs, in the user's units.
        feature: The sums of their features.
        label: The sums of their labels.
        total: The sum over all pairs.

    Returns:
        One finite number for each pair; larger is stronger. "pmi", "npmi", "phi", "yule_q", "log_odds" and
        "log_ratio" are below 0 for absence, and "lift" is below 1.

    >>> [round(float(score(name, 60, 100, 200, 1000)), 4) for name in ("mi", "g2", "chi2", "phi", "lift")]
    [0.0441, 88.1958, 111.1111, 0.3333, 3.0]
    """
    check_name(name)
    given = (np.asarray(s, dtype=np.float64) for s in (joint, feature, label))
    arrays = np.broadcast_arrays(*given)
    k, f, l = (array.ravel() for array in arrays)  # noqa: E741
    out = np.empty(k.size)
    for start in range(0, k.size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        out[rows] = _FORMULAS[name](Counts.of(k[rows], f[rows], l[rows], total))
    return out.reshape(arrays[0].shape)


def check_name(name: str) -> None:
    """Check that a score exists.

    Raises:
        InputError: It does not.

    >>> check_name("chi2")
    """
    if name not in SCORES:
        raise InputError(f"score must be one of {', '.join(SCORES)}, got {name!r}.", hint=Hint.setting("score", "chi2"))


def _over(top: Floats, bottom: Floats) -> Floats:
    """Divide; 0 where the denominator is 0."""
    ratio: Floats = np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0)
    return ratio


def mi(counts: Counts) -> Floats:
    """Compute mutual information in nats.

    >>> mi(Counts.of([60], [100], [200], 1000)).round(7).tolist()
    [0.0440979]
    """
    return mutual_information(*counts.probabilities())


def nmi(counts: Counts) -> Floats:
    """Compute MI / H(label): the part of the label's entropy that the feature explains, from 0 to 1.

    This is the uncertainty coefficient (Theil's U); other normalised forms exist. A label without entropy gives 0.

    >>> nmi(Counts.of([200], [200], [200], 1000)).round(9).tolist()
    [1.0]
    """
    _, _, py = counts.probabilities()
    inside = np.log(np.where(py > 0, py, 1.0))
    outside = np.log1p(-np.where(py < 1, py, 0.0))
    return np.minimum(_over(mi(counts), -(py * inside + (1 - py) * outside)), 1.0)


def _surplus(counts: Counts) -> Floats:
    """Compute k/E - 1 without cancellation, with E = f l/n; 0 where E is 0."""
    return np.maximum(_over(_surplus_of_products(counts), counts.feature * counts.label), -1.0)


def _surplus_of_products(counts: Counts) -> Floats:
    """Compute k n - f l, which is ad - bc: exactly 0 where counts are independent."""
    return covariance(counts.joint, counts.feature, counts.label, counts.total)


def pmi(counts: Counts) -> Floats:
    """Compute pointwise mutual information ln(k n/(f l)), in nats.

    >>> pmi(Counts.of([60, 20], [100], [200], 1000)).round(6).tolist()
    [1.098612, 0.0]
    """
    expected = _over(counts.feature * counts.label, np.asarray(counts.total))
    least = _HALF / np.maximum(expected, 1.0)
    return np.where(expected > 0, np.log1p(np.maximum(_surplus(counts), least - 1.0)), 0.0)


def npmi(counts: Counts) -> Floats:
    """Compute PMI / -ln(k/n): -1 if never together, 0 if independent, 1 if only together.

    >>> npmi(Counts.of([0, 20, 100], [100], [200, 200, 100], 1000)).round(9).tolist()
    [-1.0, 0.0, 1.0]
    """
    pxy, px, py = counts.probabilities()
    some = pxy > 0
    surplus = np.where(some, _surplus(counts), 0.0)
    a, x, y = (np.where(some, p, 1.0) for p in (pxy, px, py))
    # Far below independence, 1 + surplus has lost the digits of a small joint.
    pointwise = np.where(surplus < -_HALF, np.log(a / x / y), np.log1p(np.maximum(surplus, -_HALF)))
    ratio = np.clip(_over(pointwise, -np.log(np.where(some, pxy, 1.0))), -1.0, 1.0)
    return np.where(some | (px * py <= 0), ratio, -1.0)


def lift(counts: Counts) -> Floats:
    """Compute k n/(f l): how many times as frequent as under independence.

    >>> lift(Counts.of([60, 0], [100], [200], 1000)).tolist()
    [3.0, 0.0]
    """
    return _over(counts.joint * counts.total, counts.feature * counts.label)


def phi(counts: Counts) -> Floats:
    """Compute the correlation of feature and label, (ad - bc)/sqrt(f l (n-f) (n-l)), from -1 to 1.

    >>> phi(Counts.of([60], [100], [200], 1000)).round(9).tolist()
    [0.333333333]
    """
    f, l, n = counts.feature, counts.label, counts.total  # noqa: E741
    spread = np.sqrt(f * (n - f)) * np.sqrt(l * (n - l))
    return np.clip(_over(_surplus_of_products(counts), spread), -1.0, 1.0)


def chi2(counts: Counts) -> Floats:
    """Compute Pearson's chi-square of the whole 2 x 2 table without correction, n phi^2.

    >>> chi2(Counts.of([60], [100], [200], 1000)).round(2).tolist()
    [111.11]
    """
    return counts.total * phi(counts) ** 2


def g2(counts: Counts) -> Floats:
    """Compute the log-likelihood ratio, 2 n MI.

    >>> g2(Counts.of([60], [100], [200], 1000)).round(4).tolist()
    [88.1958]
    """
    return 2 * counts.total * mi(counts)


def yule_q(counts: Counts) -> Floats:
    """Compute Yule's Q, (ad - bc)/(ad + bc), from -1 to 1.

    >>> yule_q(Counts.of([60, 0], [100], [200], 1000)).round(6).tolist()
    [0.78125, -1.0]
    """
    k, f, l, n = counts.joint, counts.feature, counts.label, counts.total  # noqa: E741
    b, c = f - k, l - k
    d = np.maximum((n - f) - c, 0.0)
    return np.clip(_over(_surplus_of_products(counts), k * d + b * c), -1.0, 1.0)


def log_odds(counts: Counts, *, prior: float | None = None) -> Floats:
    """Compute the z-score of the log odds ratio with an informative Dirichlet prior.

    Monroe, Colaresi, Quinn 2008, equations 16, 20 and 22: the label against all others, with the prior a_f = prior * f/n.

    Args:
        counts: The tables.
        prior: The size of the prior; by default n, so that it has the weight of the data, as in tidylo.

    >>> log_odds(Counts.of([60, 20], [100], [200], 1000)).round(4).tolist()
    [5.1943, 0.0]
    """
    k, f, l, n = counts.joint, counts.feature, counts.label, counts.total  # noqa: E741
    size = n if prior is None else prior
    prior_f = _over(size * f, np.asarray(n))
    inside, outside = k + prior_f, (f - k) + prior_f
    other_inside = (l - k) + (size - prior_f)
    other_outside = ((n - l) - (f - k)) + (size - prior_f)
    known = (inside > 0) & (outside > 0) & (other_inside > 0) & (other_outside > 0)
    a, b, c, d = (np.where(known, cell, 1.0) for cell in (inside, outside, other_inside, other_outside))
    return np.where(known, (np.log(a / c) - np.log(b / d)) / np.sqrt(1 / a + 1 / b), 0.0)


def jlh(counts: Counts) -> Floats:
    """Compute Elasticsearch's JLH, (fg - bg) fg/bg with fg = k/l and bg = f/n; 0 for absence.

    >>> jlh(Counts.of([60, 10], [100], [200], 1000)).round(6).tolist()
    [0.6, 0.0]
    """
    inside, overall = _over(counts.joint, counts.label), _over(counts.feature, np.asarray(counts.total))
    return np.maximum(inside - overall, 0.0) * _over(inside, overall)


def gnd(counts: Counts) -> Floats:
    """Compute Elasticsearch's GND, exp(-(max(ln f, ln l) - ln k)/(ln n - min(ln f, ln l))), from 0 to 1.

    It is 0 where k = 0 and 1 where the feature is the label.

    >>> gnd(Counts.of([60, 0, 100], [100], [200, 200, 100], 1000)).round(6).tolist()
    [0.592812, 0.0, 1.0]
    """
    k, f, l = (np.where(counts.joint > 0, s, 1.0) for s in (counts.joint, counts.feature, counts.label))  # noqa: E741
    distance = _over(np.log(np.maximum(f, l) / k), np.log(max(counts.total, 1e-300) / np.minimum(f, l)))
    return np.where(counts.joint > 0, np.exp(-distance), 0.0)


def log_ratio(counts: Counts) -> Floats:
    """Compute Hardie's log ratio, log2 of the share inside over the share outside; 0 where a side is empty.

    >>> log_ratio(Counts.of([60, 20], [100], [200], 1000)).round(6).tolist()
    [2.584963, 0.0]
    """
    k, f, l, n = counts.joint, counts.feature, counts.label, counts.total  # noqa: E741
    known = (f > 0) & (l > 0) & (n - l > 0)
    usual = _over(f, np.asarray(n)) * _HALF
    inside = np.maximum(k, np.minimum(_HALF, usual * l))
    outside = np.maximum(f - k, np.minimum(_HALF, usual * (n - l)))
    a, b, c, d = (np.where(known, s, 1.0) for s in (inside, outside, l, n - l))
    return np.where(known, np.log2(a * d / (b * c)), 0.0)


_FORMULAS: dict[str, Callable[[Counts], Floats]] = {
    "mi": mi,
    "nmi": nmi,
    "pmi": pmi,
    "npmi": npmi,
    "lift": lift,
    "chi2": chi2,
    "g2": g2,
    "phi": phi,
    "yule_q": yule_q,
    "log_odds": log_odds,
    "jlh": jlh,
    "gnd": gnd,
    "log_ratio": log_ratio,
}
