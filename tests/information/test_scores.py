"""Scores against peers, hand-computed tables, transcriptions of their papers, and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from sklearn.feature_selection import chi2 as sklearn_chi2

from ddpmi._typing import SCORES
from ddpmi.errors import InputError
from ddpmi.information.mi import direction
from ddpmi.information.scores import TITLES, Counts, log_odds, score

CELL = st.integers(0, 500)
CELLS = st.tuples(CELL, CELL, CELL, CELL)
FULL = st.tuples(*(st.integers(1, 500),) * 4)
SUMS = st.tuples(*(st.one_of(st.integers(-50, 50), st.floats(-1e15, 1e15), st.floats(0, 1e-50)),) * 4)
SIGNED = ("pmi", "npmi", "phi", "yule_q", "log_odds", "log_ratio")


def sums_of(cells: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Return joint k, feature f, label m, total n of four cells."""
    a, b, c, d = cells
    return a, a + b, a + c, a + b + c + d


def value(name: str, *sums: float) -> float:
    return float(score(name, *sums))


def test_the_table_computed_by_hand() -> None:
    """All scores of N=1000, F=100, L=200, J=60 are those a pencil gives (a=60, b=40, c=140, d=760)."""
    entropy = -(0.2 * math.log(0.2) + 0.8 * math.log(0.8))
    expected = {
        "mi": 0.0440979,
        "nmi": 0.0440979 / entropy,
        "pmi": math.log(3),
        "npmi": math.log(3) / -math.log(0.06),
        "lift": 3.0,
        "chi2": 111.1111111,
        "g2": 88.1958,
        "phi": 1 / 3,
        "yule_q": (60 * 760 - 40 * 140) / (60 * 760 + 40 * 140),
        "log_odds": math.log((160 / 1040) / (140 / 1660)) / math.sqrt(1 / 160 + 1 / 140),
        "jlh": (0.3 - 0.1) * 3,
        "gnd": math.exp(-(math.log(200) - math.log(60)) / (math.log(1000) - math.log(100))),
        "log_ratio": math.log2(0.3 / 0.05),
    }
    assert tuple(expected) == SCORES
    assert {name: value(name, 60, 100, 200, 1000) for name in SCORES} == pytest.approx(expected, rel=2e-6)


@given(FULL)
@settings(deadline=None)
def test_chi2_and_g2_are_those_of_scipy(cells: tuple[int, int, int, int]) -> None:
    """scipy's 2 x 2 tests without correction give the same statistics."""
    table = np.array(cells).reshape(2, 2)
    for name, kind in (("chi2", "pearson"), ("g2", "log-likelihood")):
        expected = chi2_contingency(table, correction=False, lambda_=kind).statistic
        assert value(name, *sums_of(cells)) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@given(FULL)
@settings(max_examples=40, deadline=None)
def test_chi2_and_that_of_sklearn(cells: tuple[int, int, int, int]) -> None:
    """sklearn sums only the two cells with the feature, which is the whole chi-square times 1 - f/n."""
    a, b, c, d = cells
    x = np.repeat([1, 1, 0, 0], cells).reshape(-1, 1)
    y = np.repeat([1, 0, 1, 0], cells)
    expected = sklearn_chi2(x, y)[0][0]
    k, f, m, n = sums_of((a, b, c, d))
    assert value("chi2", k, f, m, n) * (1 - f / n) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def opensearch_mi(k: int, f: int, m: int, n: int) -> float:
    """Transcribe the documented mutual information of significant_terms, in bits."""
    cells = ((k, f, m), (f - k, f, n - m), (m - k, n - f, m), (n - f - m + k, n - f, n - m))
    return sum(cell / n * math.log2(n * cell / (row * column)) for cell, row, column in cells if cell > 0)


def opensearch_gnd(k: int, f: int, m: int, n: int) -> float:
    """Transcribe the documented Google normalised distance of significant_terms."""
    if k == 0:
        return 0.0
    if f == m == k:
        return 1.0
    score = (max(math.log(f), math.log(m)) - math.log(k)) / (math.log(n) - min(math.log(f), math.log(m)))
    return math.exp(-score)


def opensearch_jlh(k: int, f: int, m: int, n: int) -> float:
    """Transcribe the documented JLH of significant_terms."""
    foreground, background = k / m, f / n
    change = foreground - background
    return change * (foreground / background) if change > 0 else 0.0


@given(st.tuples(CELL, st.integers(1, 500), st.integers(1, 500), st.integers(1, 500)))
@settings(deadline=None)
def test_scores_of_significant_terms(cells: tuple[int, int, int, int]) -> None:
    """MI in bits, GND and JLH are those that Elasticsearch and OpenSearch document."""
    sums = sums_of(cells)
    assert value("mi", *sums) / math.log(2) == pytest.approx(opensearch_mi(*sums), abs=1e-12)
    assert value("gnd", *sums) == pytest.approx(opensearch_gnd(*sums), rel=1e-9)
    assert value("jlh", *sums) == pytest.approx(opensearch_jlh(*sums), rel=1e-9, abs=1e-15)


def monroe(k: int, f: int, m: int, n: int, prior: float) -> float:
    """Transcribe Monroe, Colaresi, Quinn 2008: equations 16 (delta), 20 (variance), 22 (z)."""
    alpha_w, alpha_0 = prior * f / n, prior
    y_i, n_i, y_j, n_j = k, m, f - k, n - m
    delta_i = math.log((y_i + alpha_w) / (n_i + alpha_0 - y_i - alpha_w))
    delta_j = math.log((y_j + alpha_w) / (n_j + alpha_0 - y_j - alpha_w))
    variance = 1 / (y_i + alpha_w) + 1 / (y_j + alpha_w)
    return (delta_i - delta_j) / math.sqrt(variance)


@given(st.tuples(CELL, st.integers(1, 500), CELL, st.integers(1, 500)), st.sampled_from([None, 1.0, 250.0]))
@settings(deadline=None)
def test_log_odds_are_those_of_the_paper(cells: tuple[int, int, int, int], prior: float | None) -> None:
    """The z-score is Monroe's; the prior weighs as much as the data unless it is given."""
    k, f, m, n = sums_of(cells)
    got = float(log_odds(Counts.of([k], [f], [m], n), prior=prior)[0])
    assert got == pytest.approx(monroe(k, f, m, n, n if prior is None else prior), rel=1e-9, abs=1e-9)


@given(CELLS)
@settings(deadline=None)
def test_identities(cells: tuple[int, int, int, int]) -> None:
    """G2 = 2 N MI, chi2 = N phi^2, lift = exp PMI, 0 <= NMI <= 1, and MI <= the label's entropy."""
    k, f, m, n = sums_of(cells)
    found = {name: value(name, k, f, m, n) for name in SCORES}
    assert found["g2"] == pytest.approx(2 * n * found["mi"], rel=1e-12)
    assert found["chi2"] == pytest.approx(n * found["phi"] ** 2, rel=1e-12)
    if k > 0:
        assert math.log(found["lift"]) == pytest.approx(found["pmi"], abs=1e-12)
    assert 0 <= found["nmi"] <= 1
    assert -1 <= found["npmi"] <= 1
    assert -1 <= found["yule_q"] <= 1
    assert -1 <= found["phi"] <= 1
    assert 0 <= found["gnd"] <= 1


@given(CELLS)
@settings(deadline=None)
def test_signs_follow_the_direction(cells: tuple[int, int, int, int]) -> None:
    """Signed scores are above 0 for presence, below for absence, and exactly 0 at independence."""
    k, f, m, n = sums_of(cells)
    sign = np.sign(k * n - f * m)
    if 0 < f < n and 0 < m < n:
        assert bool(direction(k, f, m, n)) == (sign > 0) or sign == 0
        for name in SIGNED:
            found = value(name, k, f, m, n)
            assert np.sign(found) == sign or (sign == 0 and abs(found) < 1e-12), name


@given(SUMS)
@settings(max_examples=300, deadline=None)
def test_any_sums_give_finite_scores(sums: tuple[float, float, float, float]) -> None:
    """Negative, absent and contradicting sums give finite numbers: never NaN, never infinite."""
    for name in SCORES:
        assert math.isfinite(value(name, *sums)), name


def test_nothing_over_nothing_is_zero() -> None:
    """Where a side of the table is empty every score is 0, but for GND, where a feature that is the label is 1."""
    for sums in ((0, 0, 0, 0), (0, 0, 20, 100), (0, 10, 0, 100), (0, 0, 0, 100), (5, 5, 5, 0)):
        assert {value(name, *sums) for name in SCORES} == {0.0}, sums
    everything = {name: value(name, 100, 100, 100, 100) for name in SCORES}
    assert everything == dict.fromkeys(SCORES, 0.0) | {"gnd": 1.0, "lift": 1.0}


def test_empty_cells_speak_for_their_side() -> None:
    """A joint of 0 gives a negative pmi and log ratio for every expected count, further below 0 where more is expected."""
    rare, common = (value("pmi", 0, f, 200, 1000) for f in (1, 100))
    assert common < rare < 0
    assert common == pytest.approx(math.log(0.5 / 20))
    assert value("log_ratio", 0, 1, 10, 1000) < 0
    assert value("log_ratio", 1, 1, 10, 1000) > 0
    assert value("npmi", 0, 10, 20, 100) == -1
    assert value("npmi", 1e-50, 9, 9, 45) == pytest.approx(math.log(1e-50 * 45 / 81) / -math.log(1e-50 / 45))


def test_arrays_are_taken_in_blocks() -> None:
    """More pairs than one block holds, and shapes that broadcast, give each pair its own number."""
    joint = np.arange(40_000) % 60
    got = score("chi2", joint, 100, 200, 1000)
    assert got.shape == joint.shape
    assert got[[0, 59, 39_999]] == pytest.approx([value("chi2", k, 100, 200, 1000) for k in (0, 59, 39_999 % 60)])


def test_unknown_scores_are_refused() -> None:
    """The error lists the names."""
    with pytest.raises(InputError, match="nmi, pmi"):
        score("tf_idf", 1, 2, 3, 4)


def test_every_score_has_a_title() -> None:
    """Tables and pages can name each score of the one list."""
    assert tuple(TITLES) == SCORES
