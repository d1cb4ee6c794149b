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
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Table = tuple[Floats, Floats, Floats]

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


def moments(table: Table, noise: Noise) -> tuple[Floats, Floats]:
    """Compute the upward bias and the variance of the mutual information, in nats, to second order.

    Args:
        table: pxy, px, py of feasible tables, arrays of one shape.
        noise: The release's noise.

    Returns:
        Bias 1/2 tr(H S) and variance g.S.g + 1/2 tr((H S)^2), where g and H are the gradient and the Hessian
        in (pxy, px, py), and S is the covariance: noise of J, F, L apart, and of N along (pxy, px, py).

    >>> noise = Noise(joint=0.001, feature=0.001, label=0.001, total=0)
    >>> bias, variance = moments((np.array([0.02]), np.array([0.1]), np.array([0.2])), noise)
    >>> bool(0 < bias[0] < 1e-3), bool(variance[0] > 0)
    (True, True)
    """
    p = np.array(table)
    a, b, c, d = _cells(table, noise.joint)
    # Margins as sums of floored cells, so that the table of the derivatives is a table.
    odds = (a * d / (b * c), b * (c + d) / ((a + b) * d), c * (b + d) / ((a + c) * d))
    grad = np.log(np.array(odds))
    h01, h02, h12 = -1 / b - 1 / d, -1 / c - 1 / d, 1 / d
    h00 = 1 / a + 1 / b + 1 / c + 1 / d
    h11 = 1 / b + 1 / d - 1 / (a + b) - 1 / (c + d)
    h22 = 1 / c + 1 / d - 1 / (a + c) - 1 / (b + d)
    hessian = np.array(((h00, h01, h02), (h01, h11, h12), (h02, h12, h22)))
    var = np.array((noise.joint, noise.feature, noise.label)) ** 2
    var_n = noise.total**2
    along = np.einsum("ikn,kn->in", hessian, p)
    curve = np.einsum("in,in->n", p, along)
    bias = (var @ np.array((h00, h11, h22)) + curve * var_n) / 2
    first = var @ grad**2 + np.einsum("in,in->n", p, grad) ** 2 * var_n
    # tr((H S)^2) for S = diag(var) + var_n p p'.
    square = np.einsum("ikn,i,k->n", hessian**2, var, var) + 2 * var_n * (var @ along**2) + (var_n * curve) ** 2
    return bias, first + square / 2


def interval(mi: Floats, table: Table, noise: Noise, *, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Bound the mutual information the exact sums would give, in nats.

    Args:
        mi: The mutual information of the tables, in nats.
        table: pxy, px, py of feasible tables, arrays of one length.
        noise: The release's noise.
        level: How often the bounds shall hold, about.

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
        bias, variance = moments((table[0][rows], table[1][rows], table[2][rows]), noise)
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
    lowest = np.maximum(np.maximum(pxy - drop[near] * noise.joint, 0.0), px - (1 - py))
    at_lowest = mutual_information(np.minimum(lowest, pxy), px, py)
    # It falls towards px*py and rises after it, so the ends bound any stretch that misses px*py.
    crosses = (lowest <= px * py) & (px * py <= pxy)
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
