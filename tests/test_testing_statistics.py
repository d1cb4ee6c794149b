"""The statistics of the checks, against scipy."""

from __future__ import annotations

from fractions import Fraction

import pytest
from scipy import stats

from ddpmi.privacy.noise import DiscreteGaussian, DiscreteLaplace
from ddpmi.testing import binomial_tail, chi_square_tail, expected_counts


@pytest.mark.parametrize(
    ("events", "trials", "chance"), [(1, 10, 0.1), (30, 1000, 0.01), (300, 20_000, 0.01), (7, 7, 0.5)]
)
def test_the_binomial_tail_is_scipys(events: int, trials: int, chance: float) -> None:
    """P[B >= events] agrees to nine digits."""
    assert binomial_tail(events, trials, chance) == pytest.approx(stats.binom.sf(events - 1, trials, chance), rel=1e-9)


@pytest.mark.parametrize(("statistic", "degrees"), [(0.5, 1), (10, 3), (60, 60), (150, 60), (20, 60), (400, 59)])
def test_the_chi_square_tail_is_scipys(statistic: float, degrees: int) -> None:
    """Both branches agree to nine digits."""
    assert chi_square_tail(statistic, degrees) == pytest.approx(stats.chi2.sf(statistic, degrees), rel=1e-9)


@pytest.mark.parametrize("scale", ["0.3", "2.5", "1000", "1e5"])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_expected_counts_are_those_of_the_law(scale: str, law: str) -> None:
    """Bins cover all integers, expect 20 draws or more, and match scipy's distribution function."""
    b = Fraction(scale)
    mechanism = DiscreteLaplace(scale=b) if law == "laplace" else DiscreteGaussian(variance=b * b)
    edges, expected = expected_counts(mechanism, 10_000)
    assert expected.sum() == pytest.approx(10_000)
    assert len(edges) == len(expected) - 1
    assert expected.min() >= 20 or len(expected) == 2
    if law == "laplace":
        below = stats.dlaplace(1 / float(b)).cdf(edges - 1)
        assert expected.cumsum()[:-1] / 10_000 == pytest.approx(below, abs=1e-9)
