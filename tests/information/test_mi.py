"""Mutual information against its definition in high precision and the paper's algorithms in loops."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from ddpmi.errors import InputError
from ddpmi.information.mi import (
    Method,
    clip_sums,
    direction,
    feasible,
    mutual_information,
    shares,
    unprojected,
)

COUNTS = st.integers(0, 2**40)
SMALL_COUNTS = st.integers(0, 1000)
SUMS = st.integers(-(2**61), 2**61)


@st.composite
def exact_sums(draw: st.DrawFn, counts: st.SearchStrategy[int] = COUNTS) -> tuple[int, int, int, int]:
    """Draw J, F, L, N of a real table from its four cells."""
    a, b, c, d = (draw(counts) for _ in range(4))
    return a, a + b, a + c, max(a + b + c + d, 1)


@st.composite
def probabilities(draw: st.DrawFn) -> tuple[float, float, float]:
    """Draw a feasible table of doubles, margins from 1e-12 to 1 - 1e-12, independent ones among them."""
    px, py = (
        draw(st.one_of(st.floats(1e-12, 1e-3), st.floats(1e-3, 0.999), st.floats(1e-12, 1e-3).map(lambda p: 1 - p)))
        for _ in range(2)
    )
    low, high = max(0.0, px - (1 - py)), min(px, py)
    nudge = draw(st.one_of(st.just(0.0), st.floats(-1e-6, 1e-6), st.floats(-1, 1)))
    pxy = draw(st.one_of(st.just(low), st.just(high), st.just(px * py * (1 + nudge))))
    return min(max(pxy, low), high), px, py


def defined(pxy: float, px: float, py: float) -> float:
    """Compute sum p ln(p/(row*col)) of these very doubles with 80 digits."""
    with localcontext(prec=80):
        a, x, y = Decimal(pxy), Decimal(px), Decimal(py)
        cells = ((a, x, y), (x - a, x, 1 - y), (y - a, 1 - x, y), (1 - x - y + a, 1 - x, 1 - y))
        return float(sum(p * (p / (row * col)).ln() for p, row, col in cells if p > 0))


def calc_single_mi(px: float, py: float, pxy: float, tol: float) -> float:
    """Transcribe the paper's algorithm 3."""
    if pxy < tol:
        return 0.0
    phi = px * py
    if phi < tol:  # noqa: PLR1730 - as printed
        phi = tol
    return pxy * math.log(pxy / phi)


def calc_mi(pxy: float, px: float, py: float, tol: float = 1e-15) -> float:
    """Transcribe the paper's algorithm 2."""
    not_px, not_py = 1.0 - px, 1.0 - py
    px_not_y, py_not_x = px - pxy, py - pxy
    p_neither = 1.0 - px - py + pxy
    return (
        calc_single_mi(px, py, pxy, tol)
        + calc_single_mi(px, not_py, px_not_y, tol)
        + calc_single_mi(not_px, py, py_not_x, tol)
        + calc_single_mi(not_px, not_py, p_neither, tol)
    )


@given(probabilities())
@settings(max_examples=400, deadline=None)
def test_stable_equals_the_definition(table: tuple[float, float, float]) -> None:
    """On any feasible table of doubles the stable method has 11 correct digits, near independence too."""
    expected = defined(*table)
    got = float(mutual_information(*table))
    # The cells need not sum to 1 to the last bit: 1e-32 is the square of that rounding.
    assert abs(got - expected) <= 1e-11 * expected + 1e-32


@pytest.mark.parametrize("p", [1e-3, 1e-9, 1e-15, 1e-18])
def test_rare_feature_that_is_the_label(p: float) -> None:
    """The entropy of a rare event is exact where the paper's clamp is not."""
    expected = defined(p, p, p)
    assert float(mutual_information(p, p, p)) == pytest.approx(expected, rel=1e-13)
    if p < 1e-8:
        assert float(mutual_information(p, p, p, method="paper")) < 0.9 * expected


@given(exact_sums())
@settings(deadline=None)
def test_exact_tables_have_information_between_zero_and_entropy(sums: tuple[int, int, int, int]) -> None:
    """Mutual information is never negative, never NaN, and never above the smaller entropy."""
    pxy, px, py = feasible(*sums)
    got = float(mutual_information(pxy, px, py))
    entropy = min(float(mutual_information(p, p, p)) for p in (px, py))
    assert 0.0 <= got <= entropy * (1 + 1e-9) + 1e-15


@given(exact_sums())
@settings(deadline=None)
def test_symmetric(sums: tuple[int, int, int, int]) -> None:
    """Feature and label may change places."""
    pxy, px, py = feasible(*sums)
    assert mutual_information(pxy, px, py) == pytest.approx(mutual_information(pxy, py, px), rel=1e-12, abs=1e-32)


@given(st.integers(0, 1000), st.integers(0, 1000))
@settings(deadline=None)
def test_zero_under_independence(x: int, y: int) -> None:
    """A table whose joint is the product of its margins carries nothing but its rounding."""
    pxy, px, py = feasible(x * y, x * 1000, y * 1000, 10**6)
    # Rounding moves the joint by 1e-16 of itself; its square over the rarest outside (1e-6) may remain.
    assert float(mutual_information(pxy, px, py)) <= 1e-25


@given(exact_sums(SMALL_COUNTS))
@settings(max_examples=40, deadline=None)
def test_equals_scikit_learn(sums: tuple[int, int, int, int]) -> None:
    """Counts of units give scikit-learn's number."""
    j, f, l, n = sums  # noqa: E741
    contingency = np.array([[j, f - j], [l - j, n - f - l + j]])
    expected = mutual_info_score(None, None, contingency=contingency)
    assert float(mutual_information(*feasible(*sums))) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(st.lists(exact_sums(), min_size=1, max_size=30))
@settings(deadline=None)
def test_paper_equals_its_algorithms(tables: list[tuple[int, int, int, int]]) -> None:
    """Method "paper" is the loop of algorithms 2 and 3, direction that of algorithm 1."""
    pxy, px, py = feasible(*np.array(tables).T)
    got = mutual_information(pxy, px, py, method="paper")
    triples = list(zip(pxy.tolist(), px.tolist(), py.tolist(), strict=True))
    assert got == pytest.approx([calc_mi(*triple) for triple in triples], abs=1e-12)
    inside = [a / y > (x - a) / (1 - y) for a, x, y in triples if 0 < y < 1]
    assert direction(pxy, px, py)[(py > 0) & (py < 1)].tolist() == inside


@given(SUMS, SUMS, SUMS, SUMS)
@settings(deadline=None)
def test_noisy_sums_become_feasible(joint: int, feature: int, label: int, total: int) -> None:
    """With any noise the projected table can exist, and its information is finite and not negative."""
    j, f, l, n = (int(s) for s in clip_sums(joint, feature, label, total))  # noqa: E741
    assert max(0, f + l - n) <= j <= min(f, l) <= max(f, l) <= n
    pxy, px, py = feasible(joint, feature, label, total)
    assert 0 <= pxy <= min(px, py) <= max(px, py) <= 1
    for method in ("stable", "paper"):
        assert math.isfinite(mutual_information(pxy, px, py, method=method))
    assert mutual_information(pxy, px, py) >= 0


@given(exact_sums())
@settings(deadline=None)
def test_exact_sums_stay_bit_for_bit(sums: tuple[int, int, int, int]) -> None:
    """A table that exists is left alone: its probabilities are plain quotients."""
    j, f, l, n = sums  # noqa: E741
    assert tuple(int(s) for s in clip_sums(*sums)) == sums
    assert tuple(float(p) for p in feasible(*sums)) == (j / n, f / n, l / n)


def test_projection_is_idempotent_and_near() -> None:
    """A joint above its feature is lowered to it, margins above the total to the total."""
    assert [int(s) for s in clip_sums(12, 10, 20, 100)] == [10, 10, 20, 100]
    assert [int(s) for s in clip_sums(-3, 10, 20, 100)] == [0, 10, 20, 100]
    assert [int(s) for s in clip_sums(1, 70, 120, 100)] == [70, 70, 100, 100]
    assert [int(s) for s in clip_sums(5, 5, 5, -1)] == [0, 0, 0, 0]


def test_direction_of_ties_and_empty_sides() -> None:
    """Equal shares are absence, as in the paper; an empty side has share 0 and is shown as none."""
    assert direction([3, 1, 2], [10, 10, 10], [30, 10, 100], 100).tolist() == [False, False, True]
    inside, outside = shares([0, 5], [5, 5], [0, 100], 100)
    assert np.isnan(inside).tolist() == [True, False]
    assert np.isnan(outside).tolist() == [False, True]


@pytest.mark.parametrize(("method", "tol"), [("exact", 1e-15), ("paper", 0.0), ("paper", float("nan"))])
def test_wrong_method_or_tolerance_is_refused(method: Method, tol: float) -> None:
    """An unknown method and a useless tolerance raise."""
    with pytest.raises(InputError):
        mutual_information(0.1, 0.2, 0.3, method=method, tol=tol)


def test_shapes_are_kept() -> None:
    """Scalars, empty arrays and broadcast arrays keep their shapes."""
    assert mutual_information(0.1, 0.2, 0.3).shape == ()
    assert mutual_information([], [], []).shape == (0,)
    assert mutual_information(np.full((2, 3), 0.1), 0.2, 0.3).shape == (2, 3)


@given(st.tuples(*(st.integers(-(10**6), 10**6) for _ in range(4))))
def test_the_papers_arms_are_finite_on_sums_that_cannot_exist(sums: tuple[int, int, int, int]) -> None:
    """Without projection noisy sums may contradict each other; CalcMI as printed still gives a number."""
    table = unprojected(*sums)
    assert all(p == (value / sums[3] if sums[3] > 0 else 0) for p, value in zip(table, sums, strict=False))
    assert np.isfinite(mutual_information(*table, method="paper"))
