"""What a plan shows of usual units: how many of them a pair, a feature or a label needs to be released.

A threshold is a number of grid steps. How many units reach it depends on the weight of each, which falls with the number of
its pairs once there are more than the plan's bound. That number is public knowledge, or unknown: nothing is read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ddpmi.pipeline.contributions import weight_of_equal_pairs
from ddpmi.privacy.budget import shortest

if TYPE_CHECKING:
    from ddpmi.planning.plan import Plan


def usual_weight(plan: Plan, pairs: int) -> int:
    """Return what one pair adds on the grid, at the full value, if its unit has that number of pairs.

    >>> from ddpmi import Bounds, Budget, Plan
    >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=10), mechanism="laplace")
    >>> usual_weight(plan, 40) / usual_weight(plan, 10)
    0.25
    """
    bounding = plan.calibration.bounding
    kept = min(pairs, bounding.most_pairs)
    full = 1 << bounding.g
    return plan.bounds.levels * (weight_of_equal_pairs(bounding, kept) if kept > plan.bounds.pairs else full)


def units_to_show(plan: Plan, pairs_per_unit: float | None = None) -> dict[str, float]:
    """Return how many units reach the threshold of each table that has one, if each has a usual number of pairs.

    Half of the pairs with that number of units are released, because the noise is symmetric.

    Args:
        plan: The plan.
        pairs_per_unit: How many pairs a usual unit has; None means as many as count in full.

    >>> from ddpmi import Bounds, Budget, Plan
    >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=10), mechanism="laplace")
    >>> full, usual = (units_to_show(plan, pairs)["pairs"] for pairs in (None, 40))
    >>> round(usual / full, 2)
    4.0
    """
    bounds, scheme = plan.bounds, plan.calibration.scheme
    pairs = max(1, round(bounds.pairs if pairs_per_unit is None else pairs_per_unit))
    read = min(pairs, plan.calibration.bounding.most_pairs)
    if bounds.strategy == "sample":
        read = min(read, bounds.pairs)
    # Of a unit with more pairs than are read, each pair is read with the same probability.
    weight = usual_weight(plan, pairs) * read / pairs
    # A unit adds its weight to its label once, or once for each event; plans of older versions count it as 1.
    whole = usual_weight(plan, pairs) * (1 if scheme.units else read) if scheme.weighted or not scheme.units else 1
    weights = {"pairs": weight, "features": weight, "labels": whole}
    rate = float(plan.sample_rate or 1)
    tables = plan.calibration.tables
    return {table: (tables[table].threshold or 0) / weights[table] / rate for table in scheme.thresholded}


def units_needed(plan: Plan, pairs_per_unit: float | None = None) -> dict[str, str]:
    """Say for each table with a threshold how many units reach it, and what that assumes.

    >>> from ddpmi import Bounds, Budget, Plan
    >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=10), mechanism="laplace")
    >>> units_needed(plan)["pairs"], units_needed(plan, 40)["pairs"]
    ('about 242 units with at most 10 pairs each', 'about 968 units with 40 pairs each')
    """
    value = "" if plan.bounds.clip is None else f" at the full value of {shortest(plan.bounds.clip)}"
    return {
        table: f"about {math.ceil(units)} units{_having(plan, table, pairs_per_unit)}{value}"
        for table, units in units_to_show(plan, pairs_per_unit).items()
    }


def _having(plan: Plan, table: str, pairs_per_unit: float | None) -> str:
    """Say how many pairs each of these units has."""
    if plan.calibration.bounding.one_pair:
        return ""
    if pairs_per_unit is None:
        most = plan.bounds.pairs
        exactly = table == "labels" and plan.space == "events"
        return f" with {'' if exactly else 'at most '}{most} pair{'' if most == 1 else 's'} each"
    return f" with {pairs_per_unit:g} pair{'' if pairs_per_unit == 1 else 's'} each"


def what_is_assumed(plan: Plan, pairs_per_unit: float | None = None) -> str:
    """Say what these numbers assume, in one line or two; empty where a unit has one pair.

    >>> from ddpmi import Bounds, Budget, Plan
    >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=10), mechanism="laplace")
    >>> what_is_assumed(plan, 40)
    'A unit with 40 pairs counts 0.25 in each of them.'
    """
    if plan.calibration.bounding.one_pair:
        return ""
    if pairs_per_unit is not None:
        ratio = units_to_show(plan)
        part = next(iter(ratio.values())) / next(iter(units_to_show(plan, pairs_per_unit).values())) if ratio else 1.0
        if part > 1 - 1e-9:
            return ""
        return f"A unit with {pairs_per_unit:g} pairs counts {part:.2g} in each of them."
    double = 2 * plan.bounds.pairs
    table, units = next(iter(units_to_show(plan, double).items()), ("", 0.0))
    if not table:
        return ""
    return (
        f"This assumes that no unit has more than {plan.bounds.pairs} pairs, because no hint says how many are usual.\n"
        f"Units with {double} pairs count less: then about {math.ceil(units)} are needed."
    )
