"""How far the noise of a release may have moved its mutual information.

Only the differential privacy noise is meant, not the sampling of people into the data. The delta method is
used to second order: the first-order term vanishes at independence, where the second-order one takes over.
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
_BLOCK = 1 << 14
_TINY = 1e-18  # below one unit in 2^59: no cell of a 64-bit table is smaller and not empty
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


def _cells(table: Table, floor: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Floor the four cells at one standard deviation of a joint sum: noise hides smaller ones."""
    pxy, px, py = table
    low = max(floor, _TINY)
    last = np.where(px > py, (1 - px) - (py - pxy), (1 - py) - (px - pxy))
    a, b, c, d = (np.maximum(cell, low) for cell in (pxy, px - pxy, py - pxy, last))
    return a, b, c, d


def moments(table: Table, noise: Noise, *, summed: Summed | None = None) -> tuple[Floats, Floats]:
    """Compute the upward bias and the variance of the mutual information, in nats, to second order.

    Args:
        table: pxy, px, py of feasible tables, arrays of one shape.
        noise: The release's noise.
        summed: Where the margins are sums of released pairs and a noisy rest: how many released pairs the
            sums of each pair's feature and of its label hold, the pair itself among them.

    Returns:
        Bias 1/2 tr(H S) and variance g.S.g + 1/2 tr((H S)^2), where g and H are the gradient and the Hessian
        in (pxy, px, py), and S is the covariance: noise of J, F, L apart, and of N along (pxy, px, py). In
        summed margins the pair's own noise moves all three.

    >>> noise = Noise(joint=0.001, feature=0.001, label=0.001, total=0)
    >>> bias, variance = moments((np.array([0.02]), np.array([0.1]), np.array([0.2])), noise)
    >>> bool(0 < bias[0] < 1e-3), bool(variance[0] > 0)
    (True, True)
    """
    a, b, c, d = _cells(table, noise.joint)
    ra, rb, rc, rd = 1 / a, 1 / b, 1 / c, 1 / d
    # Margins as sums of floored cells, so that the table of the derivatives is a table.
    x, not_x, y, not_y = a + b, c + d, a + c, b + d
    grad = (np.log(a * d * rb * rc), np.log(b * not_x * rd / x), np.log(c * not_y * rd / y))
    diagonal = (ra + rb + rc + rd, rb + rd - 1 / x - 1 / not_x, rc + rd - 1 / y - 1 / not_y)
    hessian = _symmetric(diagonal, (-rb - rd, -rc - rd, rd))
    spread = _spread(table, noise, summed)
    product = [[_dot(row, column) for column in spread] for row in hessian]
    bias = (product[0][0] + product[1][1] + product[2][2]) / 2
    first = _dot(grad, [_dot(row, grad) for row in spread])
    square = sum(_dot(product[i], [product[k][i] for k in range(3)]) for i in range(3))
    # Both are squares in exact arithmetic; rounding may leave a hair below zero.
    return bias, np.maximum(first + square / 2, 0.0)


def _spread(table: Table, noise: Noise, summed: Summed | None) -> list[list[Floats]]:
    """Write the covariance of (pxy, px, py), entry by entry."""
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


def _dot(left: Sequence[Floats], right: Sequence[Floats]) -> Floats:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def interval(
    mi: Floats, table: Table, noise: Noise, *, level: float = LEVEL, summed: Summed | None = None
) -> tuple[Floats, Floats]:
    """Bound the mutual information the exact sums would give, in nats.

    Args:
        mi: The mutual information of the tables, in nats.
        table: pxy, px, py of feasible tables, arrays of one length.
        noise: The release's noise.
        level: How often the bounds shall hold, about.
        summed: As in `moments`.

    Returns:
        Low and high with 0 <= low <= mi <= high.

    >>> p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    >>> noise = Noise(joint=0.001, feature=0.001, label=0.001, total=0)
    >>> low, high = interval(mutual_information(*p), p, noise)
    >>> bool(0.03 < low[0] < 0.0440979 < high[0] < 0.06)
    True
    """
    width = noise.width(level)
    low, high = np.empty_like(mi), np.empty_like(mi)
    for start in range(0, mi.size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        held = None if summed is None else (summed[0][rows], summed[1][rows])
        bias, variance = moments((table[0][rows], table[1][rows], table[2][rows]), noise, summed=held)
        reach = width * np.sqrt(variance)
        low[rows] = np.clip(mi[rows] - bias - reach, 0.0, mi[rows])
        # No bias is taken off here: where the sums had to be made feasible, that has already lowered mi.
        high[rows] = mi[rows] + reach
    return low, high


def widen_near_threshold(
    bounds: tuple[Floats, Floats],
    table: Table,
    excess: Floats,
    noise: Noise,
    *,
    mechanism: Literal["gaussian", "laplace"],
    summed: bool = False,
) -> tuple[Floats, Floats]:
    """Widen bounds of pairs near the threshold, which were kept because their noise was high.

    Given that a sum was kept, the true one may lie far lower than the noise alone suggests. The bounds then
    take in the mutual information of every joint sum from there up to the released one.

    Args:
        bounds: Low and high from `interval` at the default level.
        table: pxy, px, py of feasible tables.
        excess: Released joint sum minus threshold, in standard deviations of the joint sum.
        noise: The release's noise.
        mechanism: The noise of the joint sums.
        summed: Whether the margins are sums of released pairs, and so fall with the joint sum.

    Returns:
        The new low and high.

    >>> p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    >>> noise = Noise(joint=0.02, feature=0.0, label=0.0, total=0.0)
    >>> bounds = (np.array([0.04]), np.array([0.05]))
    >>> low, _ = widen_near_threshold(bounds, p, np.zeros(1), noise, mechanism="gaussian")
    >>> low.tolist()
    [0.0]
    """
    drop = _drops(excess, mechanism)
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


def _drops(excess: Floats, mechanism: str) -> Floats:
    """Bound how many standard deviations the true sum may lie lower; 0 where selection is harmless."""
    alpha = (1 - LEVEL) / 2
    if mechanism == "laplace":
        # The tail has no memory: up to this excess the released sum says nothing about a lower true one.
        return np.where(excess * math.sqrt(2) < -math.log(alpha), np.inf, 0.0)
    at, drops = _gaussian_drops(alpha)
    return np.where(excess < at[-1], np.interp(excess, at, drops), 0.0)


@lru_cache(maxsize=4)
def _gaussian_drops(alpha: float) -> tuple[Floats, Floats]:
    """Solve P[Z >= s] = alpha P[Z >= s - t] for s on a grid of excesses t, by bisection."""

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    at, drops = np.linspace(0.0, 4.0, 81), []
    for excess in at:
        low, high = 0.0, _FARTHEST
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(middle) > alpha * tail(middle - excess) else (low, middle)
        drops.append(high)
    return at, np.array(drops)
