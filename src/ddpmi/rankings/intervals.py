"""Intervals of mutual information, shares and lift: the values that are consistent with the released sums and their noise.

An interval is the range of a measure over all 2 x 2 tables near the released sums. Distance is measured in the
metric of the noise's covariance, from the nearest table that can exist. For normal noise this is the profile likelihood.
Tables with an empty cell are the sides of the set of tables. They are searched too where a cell may be empty: mutual
information is steepest there, and there one sum constrains the others more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

from ddpmi.information.mi import feasible, mutual_information
from ddpmi.rankings.noise_model import LEVEL, TINY, Noise, covariance_of, dot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ddpmi._typing import Flags, Floats, Integers
    from ddpmi.rankings.noise_model import NoiseModel, Summed, Table

    Vector = Sequence[Floats]
    Matrix = Sequence[Sequence[Floats]]

_BLOCK = 1 << 14
# The cells (both, feature alone, label alone, neither) as constant + coefficients of (pxy, px, py).
_CELLS = ((0, (1, 0, 0)), (0, (-1, 1, 0)), (0, (-1, 0, 1)), (1, (1, -1, -1)))
# Sides of the set of tables: one empty cell, or two that can be empty together.
_SIDES = ((0,), (1,), (2,), (3,), (1, 2), (0, 3))
_ROUNDING = 1e-9  # standard deviations by which rounding may make a cell negative
_STILL = 1e-6  # a measure that changes less along a side is constant there
_FARTHEST = 30.0  # standard deviations; the normal tail beyond it underflows


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a 2 x 2 table."""

    value: Callable[[Vector], Floats]
    """Its value at (pxy, px, py), which need not be a table that can exist."""
    slope: Callable[[Vector, float], Vector]
    """Its gradient up to a positive factor; cells below the second argument count as that."""
    steps: int
    """How often the gradient is computed again where the step before ended."""


def bounds(
    noise_model: NoiseModel,
    mi: Floats,
    sums: tuple[Integers, Integers, Integers],
    codes: tuple[Integers, Integers],
    *,
    level: float = LEVEL,
) -> tuple[Floats, Floats]:
    """Return bounds of the mutual information of some pairs, in nats; arguments as in `ranges`."""
    return ranges(noise_model, {"mi": mi}, sums, codes, level=level)["mi"]


def ranges(
    noise_model: NoiseModel,
    values: Mapping[str, Floats],
    sums: tuple[Integers, Integers, Integers],
    codes: tuple[Integers, Integers],
    *,
    level: float = LEVEL,
) -> dict[str, tuple[Floats, Floats]]:
    """Return bounds of some measures of some pairs.

    Args:
        noise_model: What the receipt says about the noise.
        values: For names of ``MEASURES`` the value of each pair; "mi" in nats. A value may be NaN.
        sums: Their sums of pair, feature and label, as released.
        codes: Indices of their features and labels.
        level: About how often each interval contains the value without noise.
    """
    summed = None
    if noise_model.pairs_of_feature is not None and noise_model.pairs_of_label is not None:
        summed = (
            noise_model.pairs_of_feature[codes[0]].astype(np.float64),
            noise_model.pairs_of_label[codes[1]].astype(np.float64),
        )
    table = feasible(*sums, np.int64(noise_model.total))
    whole = max(noise_model.total, 1)
    raw = (sums[0] / whole, sums[1] / whole, sums[2] / whole)
    found = measured(values, (table, raw), noise_model.noise, level=level, summed=summed)
    if noise_model.threshold is None or noise_model.sd == 0:
        return found
    excess = (sums[0] - int(noise_model.threshold)).astype(np.float64) / noise_model.sd
    # A pair below the threshold was released with the others of its feature and label, not because of its noise.
    drop = np.where(excess < 0, 0.0, drops_below(excess, noise_model.mechanism, level=level))
    noise = noise_model.noise
    return {
        name: widen_near_threshold(ends, table, drop, noise, summed=summed is not None, measure=name)
        for name, ends in found.items()
    }


def interval(
    mi: Floats, tables: tuple[Table, Table], noise: Noise, *, level: float = LEVEL, summed: Summed | None = None
) -> tuple[Floats, Floats]:
    """Return bounds of the mutual information that the exact sums would give, in nats.

    Args:
        mi: Mutual information of the released sums, in nats.
        tables: pxy, px, py of the nearest tables that can exist, and pxy, px, py as released; arrays of one length.
        noise: The release's noise.
        level: About how often an interval contains the value without noise.
        summed: As in `noise_model.covariance_of`.

    Returns:
        Low and high with 0 <= low <= mi <= high.

    >>> p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    >>> noise = Noise(joint=0.001, feature=0.001, label=0.001, total=0)
    >>> low, high = interval(mutual_information(*p), (p, p), noise)
    >>> bool(0.03 < low[0] < 0.0440979 < high[0] < 0.06)
    True
    """
    return measured({"mi": mi}, tables, noise, level=level, summed=summed)["mi"]


def measured(
    values: Mapping[str, Floats],
    tables: tuple[Table, Table],
    noise: Noise,
    *,
    level: float = LEVEL,
    summed: Summed | None = None,
) -> dict[str, tuple[Floats, Floats]]:
    """Return bounds of several measures; the other arguments are those of `interval`.

    >>> p = (np.array([0.06]), np.array([0.1]), np.array([0.2]))
    >>> noise = Noise(joint=0.001, feature=0.001, label=0.001, total=0)
    >>> low, high = measured({"lift": np.array([3.0])}, (p, p), noise)["lift"]
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([2.88], [3.12])
    """
    width = noise.width(level)
    count = len(tables[0][0])
    ends = {name: (np.empty(count), np.empty(count)) for name in values}
    for start in range(0, count, _BLOCK):
        rows = slice(start, start + _BLOCK)
        feasible, raw = ((t[0][rows], t[1][rows], t[2][rows]) for t in tables)
        held = None if summed is None else (summed[0][rows], summed[1][rows])
        spread = covariance_of(feasible, noise, held)
        released = _Place(raw, spread, np.zeros(len(raw[0])))
        measures = {name: MEASURES[name] for name in values}
        for name, found in _ends(feasible, released, noise, measures, width=width, level=level).items():
            low, high = ends[name]
            least, most = _unsigned(*found) if name == "mi" else found
            # fmin and fmax: where a value is NaN, its bounds are those of the tables near it.
            low[rows], high[rows] = np.fmin(least, values[name][rows]), np.fmax(most, values[name][rows])
    return ends


def _unsigned(least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Turn bounds of mutual information with the sign of its direction into bounds without sign."""
    crosses = (least <= 0) & (most >= 0)
    least, most = np.abs(least), np.abs(most)
    return np.where(crosses, 0.0, np.minimum(least, most)), np.maximum(least, most)


@dataclass(frozen=True, slots=True)
class _Place:
    """The point of a side that is nearest to the released sums, and the covariance of the noise within that side."""

    at: Vector
    """pxy, px, py."""
    spread: Matrix
    """Their covariance, given the side."""
    away: Floats
    """Squared distance from the released sums."""

    def on(self, cell: int) -> _Place:
        """Return the nearest point at which a cell is empty."""
        coefficients = _CELLS[cell][1]
        moved = [_weighted(row, coefficients) for row in self.spread]
        variance = np.maximum(_weighted(moved, coefficients), np.finfo(np.float64).tiny)
        value = _cell(cell, self.at)
        at = [p - m * (value / variance) for p, m in zip(self.at, moved, strict=True)]
        spread = [
            [s - one * other / variance for s, other in zip(row, moved, strict=True)]
            for row, one in zip(self.spread, moved, strict=True)
        ]
        return _Place(at, spread, self.away + value * value / variance)

    def of(self, rows: Flags) -> _Place:
        """Return some rows."""
        return _Place([p[rows] for p in self.at], [[s[rows] for s in row] for row in self.spread], self.away[rows])


def _weighted(values: Sequence[Floats], coefficients: tuple[int, ...]) -> Floats:
    found: Floats = sum((c * value for value, c in zip(values, coefficients, strict=True) if c), np.zeros(1))
    return found


def _cell(cell: int, at: Vector) -> Floats:
    constant, coefficients = _CELLS[cell]
    return constant + _weighted(at, coefficients)


def _exists(at: Vector, slack: float) -> Flags:
    smallest: Floats = np.minimum.reduce([_cell(cell, at) for cell in range(4)])
    return smallest >= -slack


def _ends(
    feasible: Table,
    released: _Place,
    noise: Noise,
    measures: Mapping[str, Measure],
    *,
    width: float,
    level: float,
) -> dict[str, tuple[Floats, Floats]]:
    """Return the least and the largest value of each measure over the tables that are near the released sums."""
    slack = _ROUNDING * noise.joint
    floor = max(noise.joint, TINY)
    ends = {name: (best := measure.value(feasible), best.copy()) for name, measure in measures.items()}
    places = list(_places(released, noise, width=width, level=level))
    nearest = np.full(len(released.away), np.inf)
    for rows, place, _ in places:
        nearest[rows] = np.minimum(nearest[rows], np.where(_exists(place.at, slack), place.away, np.inf))
    # No point was found for sums that violate several sides at once: start from the nearest table that can exist.
    lost = np.isinf(nearest)
    nearest[lost] = 0.0
    places.append((lost, _Place(feasible, released.spread, np.zeros(len(lost))).of(lost), width**2))
    for rows, place, allowed in places:
        room = np.sqrt(np.maximum(allowed + nearest[rows] - place.away, 0.0))
        possible = place.away <= allowed + nearest[rows]
        for name, measure in measures.items():
            least, most = ends[name]
            for sign in (1.0, -1.0):
                end = _move(place, measure, sign * room, floor)
                found = np.where(_exists(end, slack) & possible, measure.value(end), np.nan)
                least[rows], most[rows] = np.fmin(least[rows], found), np.fmax(most[rows], found)
    return ends


def _places(released: _Place, noise: Noise, *, width: float, level: float) -> Iterator[tuple[Flags, _Place, float]]:
    """Yield for each side the rows that may lie on it, their nearest points, and the largest squared distance."""
    yield np.ones(len(released.away), np.bool_), released, width**2
    # At the edge of two sides the distance has two degrees of freedom instead of one.
    edge = -2 * math.log1p(-level) / NormalDist().inv_cdf((1 + level) / 2) ** 2
    whole = noise.width(max(level, LEVEL)) * math.sqrt(edge)
    for side in _SIDES:
        near = np.ones(len(released.away), np.bool_)
        for cell in side:
            coefficients = _CELLS[cell][1]
            variance = _weighted([_weighted(row, coefficients) for row in released.spread], coefficients)
            near &= _cell(cell, released.at) <= whole * np.sqrt(np.maximum(variance, 0.0))
        if near.any():
            place = released.of(near)
            for cell in side:
                place = place.on(cell)
            yield near, place, width**2 * (edge if len(side) > 1 else 1.0)


def _move(place: _Place, measure: Measure, room: Floats, floor: float) -> Vector:
    """Move by ``room`` standard deviations in the direction in which the measure changes fastest."""
    end: Vector = place.at
    for _ in range(1 + measure.steps):
        slope = measure.slope(end, floor)
        moved = [dot(row, slope) for row in place.spread]
        # Within a side the measure may be constant; rounding alone must not move the place off the side.
        still = _STILL * floor * np.maximum.reduce([np.abs(part) for part in slope])
        deviation = np.maximum(np.sqrt(np.maximum(dot(slope, moved), 0.0)), still)
        end = [p + room * (m / deviation) for p, m in zip(place.at, moved, strict=True)]
    return end


def _slope(at: Vector, floor: float) -> Vector:
    """Return the gradient of mutual information divided by pxy - px py, which is defined at independence too."""
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


def _possible(at: Vector) -> Vector:
    """Return the nearest table that can exist."""
    px, py = np.clip(at[1], 0.0, 1.0), np.clip(at[2], 0.0, 1.0)
    return [np.clip(at[0], np.maximum(0.0, px - (1 - py)), np.minimum(px, py)), px, py]


def _signed(at: Vector) -> Floats:
    """Return mutual information, negative for absence, which is smooth at independence."""
    pxy, px, py = _possible(at)
    mi = mutual_information(pxy, px, py)
    return np.where(pxy >= px * py, mi, -mi)


def _share_in(at: Vector) -> Floats:
    pxy, _, py = _possible(at)
    return pxy / np.maximum(py, TINY)


def _share_out(at: Vector) -> Floats:
    pxy, px, py = _possible(at)
    return (px - pxy) / np.maximum(1 - py, TINY)


def _lift(at: Vector) -> Floats:
    pxy, px, py = _possible(at)
    return pxy / np.maximum(px * py, TINY)


def _share_in_slope(at: Vector, floor: float) -> Vector:
    return [np.ones(len(at[0])), np.zeros(len(at[0])), -at[0] / np.maximum(at[2], floor)]


def _share_out_slope(at: Vector, floor: float) -> Vector:
    ones = np.ones(len(at[0]))
    return [-ones, ones, (at[1] - at[0]) / np.maximum(1 - at[2], floor)]


def _lift_slope(at: Vector, floor: float) -> Vector:
    return [np.ones(len(at[0])), -at[0] / np.maximum(at[1], floor), -at[0] / np.maximum(at[2], floor)]


MEASURES = {
    "mi": Measure(_signed, _slope, 0),
    "share_in": Measure(_share_in, _share_in_slope, 1),
    "share_out": Measure(_share_out, _share_out_slope, 1),
    "lift": Measure(_lift, _lift_slope, 2),
}
"""The measures that have intervals. That of mutual information has the sign of its direction."""


def widen_near_threshold(
    bounds: tuple[Floats, Floats],
    table: Table,
    drop: Floats,
    noise: Noise,
    *,
    summed: bool = False,
    measure: str = "mi",
) -> tuple[Floats, Floats]:
    """Widen the bounds of pairs near the threshold, which were released because their noise was high.

    Given that a sum was released, the true sum may be far lower than the noise alone suggests. The widened bounds
    contain the measure's value for every joint sum from there up to the released one.

    Args:
        bounds: Low and high of the measure.
        table: pxy, px, py of tables that can exist.
        drop: The result of `drops_below` for these pairs.
        noise: The release's noise.
        summed: Whether the margins are sums of released pairs, and so decrease with the joint sum.
        measure: One of ``MEASURES``.

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
        # All three decrease by the same amount, so the cells "feature alone" and "label alone" stay the same.
        fall = np.minimum(drop[near] * noise.joint, pxy)
        lowest = (pxy - fall, px - fall, py - fall)
    else:
        joint = np.maximum(np.maximum(pxy - drop[near] * noise.joint, 0.0), px - (1 - py))
        lowest = (np.minimum(joint, pxy), px, py)
    at_lowest = mutual_information(*lowest) if measure == "mi" else MEASURES[measure].value(lowest)
    # Mutual information falls until px*py and rises after it, so the ends bound any range that does not contain px*py.
    # The other measures rise or fall with the joint sum, so that the ends bound any range.
    crosses = (measure == "mi") & (lowest[0] <= lowest[1] * lowest[2]) & (px * py <= pxy)
    low[near] = np.minimum(low[near], np.where(crosses, 0.0, at_lowest))
    high[near] = np.maximum(high[near], at_lowest)
    return low, high


def drops_below(excess: Floats, mechanism: Literal["gaussian", "laplace"], *, level: float = LEVEL) -> Floats:
    """Bound how far the true sum of a released pair may be below its released sum.

    Args:
        excess: Released joint sum minus threshold, in standard deviations of the joint sum.
        mechanism: The noise of the joint sums.
        level: How often the bound holds.

    Returns:
        Standard deviations; 0 where the threshold makes no difference.

    >>> drops_below(np.array([0.0, 1.0, 9.0]), "gaussian").round(2).tolist()
    [30.0, 3.93, 0.0]
    """
    alpha = (1 - level) / 2
    if mechanism == "laplace":
        # The tail is memoryless: up to this excess the released sum does not bound the true sum from below.
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
