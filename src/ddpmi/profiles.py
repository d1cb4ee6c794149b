"""Intervals of mutual information: every value that some table near the released sums has.

Near means within the reach of the noise, in the metric of its covariance, measured from the nearest table that can
exist: the profile likelihood for normal noise. Where a cell may be empty, the sides of the set of tables are searched
as well; there mutual information is steepest, and what is known of one sum says more about the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ddpmi.mi import mutual_information
from ddpmi.uncertainty import LEVEL, TINY, Noise, covariance_of, dot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ddpmi.uncertainty import Summed, Table

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Vector = Sequence[Floats]
    Matrix = Sequence[Sequence[Floats]]

_BLOCK = 1 << 14
# The cells (both, feature alone, label alone, neither) as constant + coefficients of (pxy, px, py).
_CELLS = ((0, (1, 0, 0)), (0, (-1, 1, 0)), (0, (-1, 0, 1)), (1, (1, -1, -1)))
# Sides of the set of tables: one empty cell, or two that can be empty together.
_SIDES = ((0,), (1,), (2,), (3,), (1, 2), (0, 3))
_ROUNDING = 1e-9  # standard deviations that a cell may be negative by


@dataclass(frozen=True, slots=True)
class _Place:
    """The point of a side that is nearest to the released sums, and the noise that is left on that side."""

    at: Vector
    """pxy, px, py."""
    spread: Matrix
    """Their covariance, given the side."""
    away: Floats
    """Squared distance from the released sums."""

    def on(self, cell: int) -> _Place:
        """Go to where a cell is empty."""
        ways = _CELLS[cell][1]
        moved = [_weighted(row, ways) for row in self.spread]
        variance = np.maximum(_weighted(moved, ways), np.finfo(np.float64).tiny)
        value = _cell(cell, self.at)
        at = [p - m * (value / variance) for p, m in zip(self.at, moved, strict=True)]
        spread = [
            [s - one * other / variance for s, other in zip(row, moved, strict=True)]
            for row, one in zip(self.spread, moved, strict=True)
        ]
        return _Place(at, spread, self.away + value * value / variance)

    def of(self, rows: Flags) -> _Place:
        """Keep some rows."""
        return _Place([p[rows] for p in self.at], [[s[rows] for s in row] for row in self.spread], self.away[rows])


def _weighted(values: Sequence[Floats], ways: tuple[int, ...]) -> Floats:
    found: Floats = sum((way * value for value, way in zip(values, ways, strict=True) if way), np.zeros(1))
    return found


def _cell(cell: int, at: Vector) -> Floats:
    constant, ways = _CELLS[cell]
    return constant + _weighted(at, ways)


def _exists(at: Vector, slack: float) -> Flags:
    smallest: Floats = np.minimum.reduce([_cell(cell, at) for cell in range(4)])
    return smallest >= -slack


def interval(
    mi: Floats, tables: tuple[Table, Table], noise: Noise, *, level: float = LEVEL, summed: Summed | None = None
) -> tuple[Floats, Floats]:
    """Bound the mutual information the exact sums would give, in nats.

    Args:
        mi: The released mutual information, in nats.
        tables: pxy, px, py of tables that can exist, and the same as they were released, arrays of one length.
        noise: The release's noise.
        level: How often the bounds shall hold, about.
        summed: As in `uncertainty.covariance_of`.

    Returns:
        Low and high with 0 <= low <= mi <= high.

    >>> p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    >>> noise = Noise(joint=0.001, feature=0.001, label=0.001, total=0)
    >>> low, high = interval(mutual_information(*p), (p, p), noise)
    >>> bool(0.03 < low[0] < 0.0440979 < high[0] < 0.06)
    True
    """
    reach = noise.width(level)
    low, high = np.empty_like(mi), np.empty_like(mi)
    for start in range(0, mi.size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        feasible, raw = ((t[0][rows], t[1][rows], t[2][rows]) for t in tables)
        held = None if summed is None else (summed[0][rows], summed[1][rows])
        spread = covariance_of(feasible, noise, held)
        least, most = _signed_ends(feasible, _Place(raw, spread, np.zeros(len(raw[0]))), noise, (reach, level))
        crosses = (least <= 0) & (most >= 0)
        least, most = np.abs(least), np.abs(most)
        low[rows] = np.minimum(np.where(crosses, 0.0, np.minimum(least, most)), mi[rows])
        high[rows] = np.maximum(np.maximum(least, most), mi[rows])
    return low, high


def _signed_ends(feasible: Table, released: _Place, noise: Noise, reach: tuple[float, float]) -> tuple[Floats, Floats]:
    """Bound mutual information with the sign of its direction, which passes through 0 smoothly."""
    slack = _ROUNDING * noise.joint
    floor = max(noise.joint, TINY)
    best = _signed(feasible)
    least, most = best.copy(), best.copy()
    places = list(_places(released, noise, reach))
    nearest = np.full(len(best), np.inf)
    for rows, place, _ in places:
        nearest[rows] = np.minimum(nearest[rows], np.where(_exists(place.at, slack), place.away, np.inf))
    # Sums that are off on many sides at once: the table they were moved to stands for them.
    lost = np.isinf(nearest)
    nearest[lost] = 0.0
    places.append((lost, _Place(feasible, released.spread, np.zeros(len(best))).of(lost), reach[0] ** 2))
    for rows, place, allowed in places:
        room = np.sqrt(np.maximum(allowed + nearest[rows] - place.away, 0.0))
        for way in (1.0, -1.0):
            end = _walk(place, way * room, floor)
            found = np.where(_exists(end, slack) & (place.away <= allowed + nearest[rows]), _signed(end), np.nan)
            least[rows], most[rows] = np.fmin(least[rows], found), np.fmax(most[rows], found)
    return least, most


def _places(released: _Place, noise: Noise, reach: tuple[float, float]) -> Iterator[tuple[Flags, _Place, float]]:
    """Yield the rows that may lie on each side, where, and how far away the truth may be, squared."""
    width, level = reach
    yield np.ones(len(released.away), np.bool_), released, width**2
    # On the edge of two sides the distances of both count: two degrees of freedom instead of one.
    edge = -2 * math.log1p(-level) / NormalDist().inv_cdf((1 + level) / 2) ** 2
    whole = noise.width(max(level, LEVEL)) * math.sqrt(edge)
    for side in _SIDES:
        near = np.ones(len(released.away), np.bool_)
        for cell in side:
            ways = _CELLS[cell][1]
            variance = _weighted([_weighted(row, ways) for row in released.spread], ways)
            near &= _cell(cell, released.at) <= whole * np.sqrt(np.maximum(variance, 0.0))
        if near.any():
            place = released.of(near)
            for cell in side:
                place = place.on(cell)
            yield near, place, width**2 * (edge if len(side) > 1 else 1.0)


def _walk(place: _Place, room: Floats, floor: float) -> Vector:
    """Go that far in the direction in which the signed root of mutual information rises fastest for its noise."""
    slope = _slope(place.at, floor)
    moved = [dot(row, slope) for row in place.spread]
    deviation = np.sqrt(np.maximum(dot(slope, moved), np.finfo(np.float64).tiny))
    return [p + room * (m / deviation) for p, m in zip(place.at, moved, strict=True)]


def _slope(at: Vector, floor: float) -> Vector:
    """Compute the gradient of mutual information divided by the covariance, which exists at independence too."""
    a, b, c, d = (np.maximum(_cell(cell, at), floor) for cell in range(4))
    x, y = a + b, a + c
    covariance = a * d - b * c
    return [
        _log_ratio(covariance / (b * c)) / (b * c),
        -_log_ratio(-covariance / (d * x)) / (d * x),
        -_log_ratio(-covariance / (d * y)) / (d * y),
    ]


def _log_ratio(t: Floats) -> Floats:
    """Compute ln(1 + t) / t; 1 at t = 0."""
    small = np.abs(t) < 1e-6  # noqa: PLR2004 - the next term of the series is below rounding
    safe = np.where(small, 1.0, np.maximum(t, -1 + 1e-15))
    return np.where(small, 1 - t / 2, np.log1p(safe) / safe)


def _signed(at: Vector) -> Floats:
    """Mutual information, negative for absence, of the nearest table that exists."""
    px, py = np.clip(at[1], 0.0, 1.0), np.clip(at[2], 0.0, 1.0)
    pxy = np.clip(at[0], np.maximum(0.0, px - (1 - py)), np.minimum(px, py))
    mi = mutual_information(pxy, px, py)
    return np.where(pxy >= px * py, mi, -mi)
