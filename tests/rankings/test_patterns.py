"""Patterns that features share over the labels, learned from rows with known noise."""

from __future__ import annotations

import numpy as np
import pytest

from ddpmi.rankings.orders import STRENGTH
from ddpmi.rankings.patterns import Patterns, Rows, believed, fitted, possible_lifts

LABELS, FEATURES = 15, 900
TREND = np.linspace(-1.5, 1.5, LABELS)


def made(seed: int, *, hidden: float = 0.0) -> tuple[Rows, np.ndarray]:
    """Rows whose features follow one trend at scales of their own, with noise that differs; and their true lifts."""
    draw = np.random.default_rng(seed)
    scale = draw.choice([0.05, 0.4], (FEATURES, 1))
    lift = scale * (TREND * draw.normal(0, 1, (FEATURES, 1)) + 0.3 * draw.normal(0, 1, (FEATURES, LABELS)))
    variance = np.where(draw.random(lift.shape) < hidden, np.inf, draw.uniform(0.01, 0.2, lift.shape))
    noisy = lift + draw.normal(0, 1, lift.shape) * np.sqrt(np.where(np.isfinite(variance), variance, 0))
    return Rows(lift=np.where(np.isfinite(variance), noisy, 0.0), variance=variance), lift


def main_direction(model: Patterns) -> np.ndarray:
    """The strongest pattern."""
    return np.linalg.svd(model.loadings)[0][:, 0]


@pytest.mark.parametrize("hidden", [0.0, 0.5])
def test_a_trend_is_found(hidden: float) -> None:
    """The strongest pattern is that of the features, also where half of the pairs were not released."""
    rows, _ = made(1, hidden=hidden)
    found = main_direction(fitted(rows, np.zeros(LABELS)))
    assert abs(found @ TREND) / np.linalg.norm(TREND) > 0.98


def test_what_is_wrong_with_a_total_is_found() -> None:
    """A shift of all lifts of a label is an offset where the label's total is noisy, and information where it is exact."""
    rows, _ = made(2)
    moved = Rows(lift=rows.lift + np.where(np.arange(LABELS) == 7, 0.3, 0.0), variance=rows.variance)
    total_variances = np.full(LABELS, 0.1)
    np.testing.assert_allclose(fitted(moved, total_variances).offsets[7], 0.3, atol=0.05)
    np.testing.assert_array_equal(fitted(moved, np.zeros(LABELS)).offsets, 0)


@pytest.mark.parametrize("seed", range(3))
def test_lifts_are_where_they_are_said_to_be(seed: int) -> None:
    """Expected lifts miss less than noisy ones, and by about as much as is said: two deviations hold about 95%."""
    rows, lift = made(seed)
    mean, spread = possible_lifts(rows, fitted(rows, np.zeros(LABELS)), np.inf)
    assert np.mean((mean - lift) ** 2) < 0.4 * np.mean((rows.lift - lift) ** 2)
    assert 0.9 < np.mean(np.abs(mean - lift) < 2 * spread) < 0.99
    assert 0.8 < np.sqrt(np.mean((mean - lift) ** 2 / spread**2)) < 1.3


def test_a_pair_clear_of_noise_is_believed_against_its_pattern() -> None:
    """A burst keeps its lift and its own noise; at infinite strength the pattern would take some of it."""
    rows, _ = made(4)
    model = fitted(rows, np.zeros(LABELS))
    rows.lift[0, 3], rows.variance[0, 3] = 5.0, 0.01
    (burst, spread), (doubted, _) = (possible_lifts(rows, model, strength) for strength in (STRENGTH, np.inf))
    np.testing.assert_allclose(burst[0, 3], 5.0, atol=0.05)
    np.testing.assert_allclose(spread[0, 3], 0.1, atol=0.02)
    assert doubted[0, 3] < burst[0, 3]


def test_belief_begins_at_the_strength_and_grows_with_the_distance() -> None:
    """Nothing is kept below the limit, half soon above it, nearly all far above it, and nothing of a suppressed pair."""
    deviations = np.linspace(0, 12, 400)
    found = believed(deviations**2, np.ones(400), 10.0)
    assert np.all(found[deviations**2 <= 10] == 0)
    assert np.all(np.diff(found) >= 0)
    assert believed(np.array([10.0 * np.sqrt(2)]), np.ones(1), 10.0)[0] == pytest.approx(0.5)
    assert found[-1] > 0.99
    assert believed(np.zeros(1), np.full(1, np.inf), 10.0)[0] == 0
    assert believed(np.ones(1), np.zeros(1), 10.0)[0] == 1


def test_sizes_are_fixed() -> None:
    """Scales say how large lifts are, so the model's own mean variance is 1; what it expects stays the same shape."""
    model = fitted(made(5)[0], np.zeros(LABELS))
    np.testing.assert_allclose(np.mean(model.own + np.sum(model.loadings**2, axis=1)), 1)
    assert np.sum(model.weights) == pytest.approx(1)
