"""Changes between two releases: who rose and fell, and what is clear of the noise of both."""

from __future__ import annotations

import numpy as np
import pytest

from ddpmi.rankings.changes import clear_of_noise, times_the_noise
from ddpmi.rankings.comparisons import compare
from tests.support.fake_release import SD, Counts, exact_release, private_release

BASE: Counts = {
    (f"f{at:02d}", label): 300 + 40 * at * (1 + (label == "x")) for at in range(25) for label in ("x", "y", "z")
}


def noisy(counts: Counts, seed: int) -> Counts:
    draw = np.random.default_rng(seed)
    return {key: count + round(draw.normal(0, SD["pairs"])) for key, count in counts.items()}


def test_a_large_change_is_clear_and_named() -> None:
    """A pair that doubled rises clearly, its feature's other pairs fall, and text and JSON name them."""
    found = compare(private_release(BASE), private_release(noisy(BASE | {("f05", "z"): 1200}, 1)))
    first = found.changes.risers[0]
    assert (first["feature"], first["label"], first["clear"]) == ("f05", "z", True)
    assert first["rank_b"] < first["rank_a"]
    assert first["lift_b"] > first["lift_a"]
    assert found.to_dict()["changes"]["risers"][0] == first
    assert f"z: f05, rank {first['rank_a']} to {first['rank_b']}" in found.to_text()
    assert "(clear)" in found.to_text()


def test_the_same_numbers_differ_nowhere() -> None:
    """A release compared with itself has no risers, no fallers and nothing clear, and the text says so."""
    found = compare(private_release(BASE), private_release(BASE))
    assert (found.changes.clear, found.changes.risers, found.changes.fallers) == (0, (), ())
    assert "None of 75 pairs among the best of either list differs clearly." in found.to_text()


def test_noise_alone_is_seldom_clear() -> None:
    """Of 12 pairs of releases of the same sums at most 5% have a clear difference: more than 7 has a chance below 1e-7."""
    clear = [
        compare(private_release(noisy(BASE, 2 * seed)), private_release(noisy(BASE, 2 * seed + 1))).changes.clear > 0
        for seed in range(12)
    ]
    assert sum(clear) <= 7


def test_exact_sides_have_no_noise() -> None:
    """Without noise every difference is clear, and equal lifts are not different."""
    found = compare(exact_release(BASE), exact_release(BASE | {("f05", "z"): 501}))
    assert all(one["clear"] for one in (*found.changes.risers, *found.changes.fallers))
    assert compare(exact_release(BASE), exact_release(BASE)).changes.clear == 0


def test_only_the_best_of_either_list_are_compared() -> None:
    """With top=10 the first ten places of both lists count, and pairs that one list lacks do not."""
    other = noisy({key: count for key, count in BASE.items() if key[0] != "f03"}, 3)
    a, b = private_release(BASE), private_release(other)
    found = compare(a, b, top=10)
    assert 5 <= found.changes.compared <= 20
    assert compare(a, b).changes.compared == 72


def test_differences_are_measured_by_the_sides_that_face_each_other() -> None:
    """Unknown values never differ; squares of half widths add up."""
    one = tuple(np.array(part) for part in ([1.0, 1.0, np.nan, 2.0], [0.7, 0.1, 0.5, 1.0], [1.3, 1.4, 2.0, 9.0]))
    two = tuple(np.array(part) for part in ([2.0, 0.0, 1.0, 2.0], [1.6, 0.0, 0.5, 1.0], [2.4, 1.2, 1.5, 9.0]))
    assert times_the_noise(one, two) == pytest.approx([1 / 0.5, 1 / np.hypot(0.9, 1.2), 0.0, 0.0])


def test_more_comparisons_need_larger_differences() -> None:
    """A difference of 1.2 half widths is clear alone, but not among a hundred that are none."""
    assert clear_of_noise(np.array([1.2])).tolist() == [True]
    assert not clear_of_noise(np.r_[1.2, np.zeros(100)]).any()
    assert clear_of_noise(np.array([])).tolist() == []


def test_hostile_names_are_escaped() -> None:
    """Terminal codes in names do not reach the text."""
    counts = {(f"\x1b{feature}", label): count for (feature, label), count in BASE.items()}
    text = compare(private_release(counts), private_release(noisy(counts, 5))).to_text()
    assert "Risers:" in text
    assert "\x1b" not in text
