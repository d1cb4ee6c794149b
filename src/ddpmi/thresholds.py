"""Which noisy sums may be shown where nobody declared the keys: from parameters alone.

Noise and threshold are settled together. Noise that stays within a bound never lifts an empty cell above it, so what lies
above may be shown: the price is that one unit can push a sum over the edge of the noise, and that is what delta pays.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ddpmi.contributions import most_equal_pairs, weight_of_equal_pairs
from ddpmi.errors import InputError
from ddpmi.noise import DiscreteLaplace
from ddpmi.selection import weight as feature_weight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from fractions import Fraction

    from ddpmi.calibration import Sensitivity
    from ddpmi.contributions import Bounding
    from ddpmi.noise import Mechanism

    Cells = tuple[float, int]
    """So many cells, and how much one unit adds to each at most."""

#: Logarithms of tails and deltas are compared with this much to spare.
_LOG_MARGIN = 1e-9
#: Bounded Gaussian noise has at least this many deviations, and as many steps, beside what one unit adds.
_LEAST_DEVIATIONS = 3


def of_table(
    mechanism: Mechanism, bounding: Bounding, table: str, moved: Sensitivity, delta: Fraction, *, bounded: bool
) -> tuple[Mechanism, int]:
    """Settle the noise of a table whose keys are private, and the smallest noisy sum that is shown.

    Args:
        mechanism: Noise without a bound, as wide as the table's share of the budget pays for.
        bounding: The bound of one unit's contributions.
        table: pairs, features or labels.
        moved: How far one unit moves the table.
        delta: What may go wrong.
        bounded: Whether the noise may be bounded, which shows more.
    """
    most = _keys_of_a_unit(bounding, table)
    equal = _equal_weights(bounding, moved, most)
    lone = equal or [(float(most), moved.linf)]
    return _settled(mechanism, lone, equal or [_cells_moved(moved, most)], delta, bounded=bounded)


def of_selection(mechanism: Mechanism, most: int, delta: Fraction) -> tuple[Mechanism, int]:
    """Settle the noise of a round of a private set union, and the smallest noisy weight that is shown.

    Args:
        mechanism: Noise without a bound.
        most: The most features of one unit.
        delta: What may go wrong.
    """
    # proof: set-union.threshold
    cells = [(float(features), feature_weight(features)) for features in (1, *range(most, 1, -1))]
    return _settled(mechanism, cells, cells, delta, bounded=True)


def _settled(
    mechanism: Mechanism, lone: list[Cells], moved: list[Cells], delta: Fraction, *, bounded: bool
) -> tuple[Mechanism, int]:
    """Take the bound or the tail, whichever shows more."""
    allowed = math.log(delta.numerator) - math.log(delta.denominator) - _LOG_MARGIN
    # proof: threshold.tail
    threshold = _smallest(lone, lambda t, weight: mechanism.log_tail(t - weight), 1, allowed)
    if not bounded:
        return mechanism, threshold
    # proof: bounded.edge
    bound = _smallest(moved, mechanism.log_edge, _least_bound(mechanism, moved), allowed)
    # proof: bounded.together
    return (replace(mechanism, bound=bound), bound + 1) if bound < threshold else (mechanism, threshold)


def _least_bound(mechanism: Mechanism, moved: list[Cells]) -> int:
    """No less than what one unit adds; Gaussian noise needs room besides."""
    largest = max(weight for _, weight in moved)
    if isinstance(mechanism, DiscreteLaplace):
        return largest
    # proof: bounded.gaussian
    return largest + math.ceil(_LEAST_DEVIATIONS * (mechanism.sd + 1))


def _keys_of_a_unit(bounding: Bounding, table: str) -> int:
    """The most keys of a table that one unit alone may have."""
    labels = bounding.bounds.labels if bounding.bounds is not None and table == "labels" else bounding.most_pairs
    return min(labels, bounding.most_pairs)


def _equal_weights(bounding: Bounding, moved: Sensitivity, most: int) -> list[Cells]:
    """What units of every size can have, where all their cells weigh the same; nothing where they may not."""
    bounds = bounding.bounds
    if bounds is None:
        raise InputError("A threshold needs bounds.", hint="Bounds(pairs=50)")
    # proof: threshold.single
    if bounding.valued or not moved.single or most == 1:
        return []
    # proof: threshold.equal-weights
    light = (float(min(bounds.pairs, most)), moved.linf)
    # Of all units with one weight the largest is the worst, and there are few weights. The lowest comes first: it is
    # nearly always the worst of all, and spares the others their search.
    weights = range(max(1, weight_of_equal_pairs(bounding, most)), moved.linf)
    return [light, *((float(min(most, most_equal_pairs(bounding, weight))), weight) for weight in weights)]


def _cells_moved(moved: Sensitivity, most: int) -> Cells:
    """As many cells at their largest change as are worth what one unit moves in all."""
    # proof: bounded.cells
    if moved.l1 is not None:
        return min(most, moved.l1 / moved.linf), moved.linf
    reach = math.sqrt(most * (moved.l2_squared or 0)) / moved.linf
    return min(most, reach * (1 + _LOG_MARGIN)), moved.linf


def _smallest(cells: Iterable[Cells], log_probability: Callable[[int, int], float], least: int, allowed: float) -> int:
    """The smallest integer, from the least on, at which the worst unit's cells are rare enough."""
    for number, weight in cells:

        def too_often(at: int, number: float = number, weight: int = weight) -> bool:
            return math.log(number) + log_probability(at, weight) > allowed

        if not too_often(least):
            continue
        step = 1
        while too_often(least + step):
            step *= 2
        low, high = least + step // 2, least + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if too_often(middle) else (low, middle)
        least = high
    return least
