"""A plan from public hints alone: how many pairs of a unit count, which noise, and what is shown.

The rules are measured in docs/accuracy.md. Nothing here reads data, and no hint may be computed from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import InputError
from ddpmi.spec import Bounds

if TYPE_CHECKING:
    from ddpmi.budget import Budget
    from ddpmi.plan import Plan

_DEEP = 1000
#: Options that say themselves what is shown, or leave no threshold to complete behind.
_SETTLE_WHAT_SHOWS = {"complete", "grid", "thresholds", "marginals", "public_features", "selection"}
_FEW_LABELS = 1000  # a completed release has a row for each feature and label, all of them in memory on one machine
_FAR = 4  # thresholds: a pair this far above them is seen under either noise


def suggested_bounds(pairs_per_unit: float) -> Bounds:
    """Choose how many pairs of one unit count in full: half of what a usual unit has.

    A unit above K keeps all its pairs at a lower weight. Noise grows with K as fast as the weight of such a unit, so a
    smaller K costs a usual unit nothing, and a unit above it says less. Half was best, or within 0.01 of the best overlap,
    on three sets.

    >>> suggested_bounds(92).pairs, suggested_bounds(1).pairs
    (46, 1)
    """
    if isinstance(pairs_per_unit, bool) or not (math.isfinite(pairs_per_unit) and 1 <= pairs_per_unit <= 10**6):
        raise InputError(
            f"pairs_per_unit must be a number from 1 to 1000000, got pairs_per_unit={pairs_per_unit!r}.",
            hint="how many (feature, label) pairs a usual unit has: pairs_per_unit=40",
        )
    return Bounds(pairs=max(1, math.ceil(pairs_per_unit / 2)))


def suggest(plan: type[Plan], budget: Budget, hints: tuple[int, float, int], options: dict[str, Any]) -> Plan:
    """Make the plan; see `Plan.suggest`."""
    units, pairs_per_unit, labels = hints
    for name, count in (("units", units), ("labels", labels)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {name}={count!r}.", hint=f"{name}=20")
    if budget.delta * units >= 1:
        raise InputError(
            f"delta={float(budget.delta):g} is too large for {units} units: it should be well below {1 / units:g}.",
            hint=f"Budget({float(budget.epsilon):g}, {10 ** -math.ceil(math.log10(units) + 1):g})",
        )
    bounds = options.pop("bounds", None) or suggested_bounds(pairs_per_unit)
    if pairs_per_unit > 1 and labels <= _FEW_LABELS and not _SETTLE_WHAT_SHOWS & options.keys():
        options["complete"] = True
    if "mechanism" in options or budget.delta == 0 or options.get("selection") is not None:
        return plan(budget=budget, bounds=bounds, **options)
    laplace, gaussian = (
        plan(budget=budget, bounds=bounds, mechanism=name, **options) for name in ("laplace", "gaussian")
    )
    deep = expected_sum(units * pairs_per_unit, labels)
    if deep >= _FAR * max(one.calibration.threshold_in_units for one in (laplace, gaussian)):
        # Both show the best pairs: the one with less noise orders them better.
        noise = [one.calibration.tables["pairs"].mechanism.sd * float(one.step) for one in (laplace, gaussian)]
        return laplace if noise[0] <= noise[1] else gaussian
    return laplace if laplace.calibration.badness <= gaussian.calibration.badness else gaussian


def expected_sum(total: float, labels: int) -> float:
    """Expect the count of the pair that is the 1,000th largest, if features follow Zipf's law.

    >>> expected_sum(1e6, 20) > expected_sum(1e6, 500)
    True
    """
    features = np.arange(1, 100_001, dtype=np.float64)
    shares = np.arange(1, labels + 1, dtype=np.float64) ** -0.8
    common = (total / np.sum(1 / features)) / features[:_DEEP]
    sums = np.sort((common[:, None] * (shares / shares.sum())).ravel())
    return float(sums[-min(_DEEP, len(sums))])
