"""The noise of a release: how wide it is, what it does to mutual information on average, and what a threshold hides.

Only the differential privacy noise is meant, not the sampling of people into the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

from ddpmi.errors import InputError
from ddpmi.mi import mutual_information

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Table = tuple[Floats, Floats, Floats]
    Summed = tuple[Floats, Floats]

LEVEL = 0.95
"""The default confidence level."""
TINY = 1e-18
"""Below one unit in 2^59: no cell of a 64-bit table is smaller and not empty."""
_FARTHEST = 30.0  # standard deviations; a normal tail beyond is no longer a positive double


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviations of the released tables, as fractions of the total."""

    joint: float
    """Of one pair's sum."""
    feature: float
    """Of one feature's sum."""
    label: float
    """Of one label's sum."""
    total: float
    """Of the total."""
    heavy: bool = False
    """Whether any of them is Laplace noise, whose tails are longer than normal ones."""

    def __post_init__(self) -> None:
        for name in ("joint", "feature", "label", "total"):
            sd = getattr(self, name)
            if not (math.isfinite(sd) and sd >= 0):
                raise InputError(f"A standard deviation must be finite and not negative, got {name}={sd!r}.")

    def width(self, level: float) -> float:
        """Return the number of standard deviations that hold ``level`` of one noise.

        >>> round(Noise(joint=0, feature=0, label=0, total=0).width(0.95), 2)
        1.96
        """
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got level={level!r}.", hint="level=0.95")
        normal = NormalDist().inv_cdf((1 + level) / 2)
        return max(normal, -math.log1p(-level) / math.sqrt(2)) if self.heavy else normal


def covariance_of(table: Table, noise: Noise, summed: Summed | None) -> list[list[Floats]]:
    """Write the covariance of (pxy, px, py), entry by entry: noise of J, F, L apart, of N along (pxy, px, py).

    Args:
        table: pxy, px, py, arrays of one length.
        noise: The release's noise.
        summed: Where the margins are sums of released pairs and a noisy rest: how many released pairs the
            sums of each pair's feature and of its label hold, the pair itself among them. Its own noise then
            moves all three.

    >>> p = (np.array([0.02]), np.array([0.1]), np.array([0.2]))
    >>> spread = covariance_of(p, Noise(joint=2.0, feature=3.0, label=4.0, total=0.0), None)
    >>> [float(spread[at][at][0]) for at in range(3)], float(spread[0][1][0])
    ([4.0, 9.0, 16.0], 0.0)
    """
    pxy, px, py = table
    joint, feature, label, total = (sd**2 for sd in (noise.joint, noise.feature, noise.label, noise.total))
    own = 0.0 if summed is None else joint
    in_feature, in_label = (0.0, 0.0) if summed is None else summed
    diagonal = (
        joint + total * pxy * pxy,
        feature + in_feature * joint + total * px * px,
        label + in_label * joint + total * py * py,
    )
    return _symmetric(diagonal, (own + total * pxy * px, own + total * pxy * py, own + total * px * py))


def _symmetric(diagonal: Table, beside: Table) -> list[list[Floats]]:
    """Arrange a symmetric 3 x 3 matrix of arrays."""
    (s00, s11, s22), (s01, s02, s12) = diagonal, beside
    return [[s00, s01, s02], [s01, s11, s12], [s02, s12, s22]]


def dot(left: Sequence[Floats], right: Sequence[Floats]) -> Floats:
    """Multiply vectors of three arrays.

    >>> float(dot([np.float64(1)] * 3, [np.float64(2)] * 3))
    6.0
    """
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def widen_near_threshold(
    bounds: tuple[Floats, Floats], table: Table, drop: Floats, noise: Noise, *, summed: bool = False
) -> tuple[Floats, Floats]:
    """Widen bounds of pairs near the threshold, which were kept because their noise was high.

    Given that a sum was kept, the true one may lie far lower than the noise alone suggests. The bounds then
    take in the mutual information of every joint sum from there up to the released one.

    Args:
        bounds: Low and high of mutual information.
        table: pxy, px, py of feasible tables.
        drop: What `drops_below` gives for these pairs.
        noise: The release's noise.
        summed: Whether the margins are sums of released pairs, and so fall with the joint sum.

    Returns:
        The new low and high.

    >>> p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    >>> noise = Noise(joint=0.02, feature=0.0, label=0.0, total=0.0)
    >>> drop = drops_below(np.zeros(1), "gaussian")
    >>> widen_near_threshold((np.array([0.04]), np.array([0.05])), p, drop, noise)[0].tolist()
    [0.0]
    """
    near = np.flatnonzero(drop > 0)
    low, high = (bound.copy() for bound in bounds)
    pxy, px, py = (p[near] for p in table)
    if summed:
        # Lowering all three by as much keeps the feature outside, and the label without it, as they are.
        fall = np.minimum(drop[near] * noise.joint, pxy)
        lowest = (pxy - fall, px - fall, py - fall)
    else:
        joint = np.maximum(np.maximum(pxy - drop[near] * noise.joint, 0.0), px - (1 - py))
        lowest = (np.minimum(joint, pxy), px, py)
    at_lowest = mutual_information(*lowest)
    # It falls towards px*py and rises after it, so the ends bound any stretch that misses px*py.
    crosses = (lowest[0] <= lowest[1] * lowest[2]) & (px * py <= pxy)
    low[near] = np.minimum(low[near], np.where(crosses, 0.0, at_lowest))
    high[near] = np.maximum(high[near], at_lowest)
    return low, high


def drops_below(excess: Floats, mechanism: Literal["gaussian", "laplace"], *, level: float = LEVEL) -> Floats:
    """Bound how far below its released sum the true sum of a kept pair may lie.

    Args:
        excess: Released joint sum minus threshold, in standard deviations of the joint sum.
        mechanism: The noise of the joint sums.
        level: How often the bounds shall hold.

    Returns:
        Standard deviations; 0 where selection is harmless.

    >>> drops_below(np.array([0.0, 1.0, 9.0]), "gaussian").round(2).tolist()
    [30.0, 3.93, 0.0]
    """
    alpha = (1 - level) / 2
    if mechanism == "laplace":
        # The tail has no memory: up to this excess the released sum says nothing about a lower true one.
        return np.where(excess * math.sqrt(2) < -math.log(alpha), np.inf, 0.0)
    at, drops = _gaussian_drops(alpha)
    return np.where(excess < at[-1], np.interp(excess, at, drops), 0.0)


@lru_cache(maxsize=8)
def _gaussian_drops(alpha: float) -> tuple[Floats, Floats]:
    """Solve P[Z >= s] = alpha P[Z >= s - t] for s on a grid of excesses t, by bisection."""

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    at, drops = np.linspace(0.0, 2.0 - NormalDist().inv_cdf(alpha), 81), []
    for excess in at:
        low, high = 0.0, _FARTHEST
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(middle) > alpha * tail(middle - excess) else (low, middle)
        drops.append(high)
    return at, np.array(drops)
