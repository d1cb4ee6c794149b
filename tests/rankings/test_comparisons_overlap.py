"""Rank-error measures against loops that follow their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.errors import InputError
from ddpmi.rankings.comparisons import overlap, percentiles, rank_biased_overlap

LISTS = st.tuples(st.permutations(range(12)), st.permutations(range(12)), st.integers(0, 12), st.integers(0, 12))


def common(a: list[int], b: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return both ranks of the items in both lists."""
    both = [thing for thing in a if thing in b]
    return np.array([a.index(x) + 1 for x in both], int), np.array([b.index(x) + 1 for x in both], int)


def webber(a: list[int], b: list[int], p: float) -> float:
    """Transcribe equation 32 of Webber, Moffat, Zobel 2010 with sets."""
    short, long = sorted((a, b), key=len)
    s, e = len(short), len(long)
    x = [len(set(short[:d]) & set(long[:d])) for d in range(e + 1)]
    total = sum(x[d] / d * p**d for d in range(1, e + 1))
    total += sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, e + 1))
    return (1 - p) / p * total + ((x[e] - x[s]) / e + x[s] / s) * p**e


@given(LISTS, st.sampled_from([0.5, 0.9, 0.98]))
@settings(deadline=None)
def test_rbo_is_the_published_formula(lists: tuple[list[int], list[int], int, int], p: float) -> None:
    """Extrapolated RBO of lists of any two lengths is equation 32."""
    a, b = lists[0][: lists[2]], lists[1][: lists[3]]
    got = rank_biased_overlap(*common(a, b), (len(a), len(b)), p=p)
    if a and b:
        assert got == pytest.approx(webber(a, b, p), abs=1e-12)
    else:
        assert got == (1.0 if a == b else 0.0)
    assert 0 <= got <= 1


@given(LISTS, st.integers(1, 15))
@settings(deadline=None)
def test_overlap_is_that_of_sets(lists: tuple[list[int], list[int], int, int], depth: int) -> None:
    """The overlap counts what both have in their first places."""
    a, b = lists[0][: lists[2]], lists[1][: lists[3]]
    assert overlap(*common(a, b), depth) == len(set(a[:depth]) & set(b[:depth])) / depth


def test_the_same_list_and_a_foreign_one() -> None:
    """The same list gives 1, one without a common thing 0."""
    same = np.arange(1, 201)
    nothing = np.array([], int)
    assert rank_biased_overlap(same, same, (200, 200)) == pytest.approx(1.0, abs=1e-12)
    assert rank_biased_overlap(nothing, nothing, (200, 100)) == 0.0


def test_percentiles_interpolate() -> None:
    """Percentiles are NumPy's linear ones; without errors there are none."""
    assert percentiles(np.arange(101)) == {"10": 10.0, "25": 25.0, "50": 50.0, "75": 75.0, "90": 90.0}
    assert percentiles(np.array([], int), (50, 90)) == {"50": None, "90": None}


def test_wrong_depth_and_persistence_are_refused() -> None:
    """A depth of 0 and a persistence of 1 have no meaning."""
    with pytest.raises(InputError, match="depth=0"):
        overlap(np.array([1]), np.array([1]), 0)
    for p in (0.0, 1.0):
        with pytest.raises(InputError, match="p="):
            rank_biased_overlap(np.array([1]), np.array([1]), (1, 1), p=p)
