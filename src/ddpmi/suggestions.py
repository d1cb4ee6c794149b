"""A plan from public hints alone: how many pairs of a unit count, which noise, and what is shown.

The rules are measured in docs/accuracy.md. Nothing here reads data, and no hint may be computed from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi import mi as information
from ddpmi.errors import InputError
from ddpmi.hints import MOST, Hints
from ddpmi.spec import LONGEST_LIST, Bounds, check_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi.budget import Budget
    from ddpmi.plan import Plan

    Floats = NDArray[np.float64]

_DEEP = 1000
#: Options that say themselves what is shown, or leave no threshold to complete behind.
_SETTLE_WHAT_SHOWS = {"complete", "grid", "thresholds", "marginals", "public_features", "selection"}
_FEW_LABELS = 1000  # a completed release has a row for each feature and label, all of them in memory on one machine
_FAR = 4  # thresholds: a pair this far above them is seen under either noise
_LABELS_OF_GRIDS = 200  # a grid of more is long, and takes long to foresee
_HEAD = 20_000  # features among which the best pairs are looked for, at least
_CELLS = 1 << 21  # pairs whose mutual information is expected, if that gives more features
_BEST = 10_000  # pairs that should show, or 1% of all
_MOST_SHOWN = 0.9  # of them: where more are hidden, what is hidden decides how far ranks are off
_LONGEST = 10_000_000  # pairs of a grid, at most
#: How a grid divides a budget that is there to find features, labels being listed or not: measured, see docs/decisions/accuracy.md.
_FINDING_FEATURES = {
    True: {"pairs": "0.51", "features": "0.46", "labels": "0.02", "total": "0.01"},
    False: {"pairs": "0.47", "features": "0.49", "labels": "0.03", "total": "0.01"},
}


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
        check_count(name, count, most=LONGEST_LIST, hint=f"{name}=20")
    if budget.delta * units > 1:
        raise InputError(
            f"delta={float(budget.delta):g} is too large for {units} units: it should be no more than {1 / units:g}, better far less.",
            hint=f"Budget(epsilon={float(budget.epsilon):g}, delta={10 ** -math.ceil(math.log10(units) + 1):g})",
        )
    bounds = options.pop("bounds", None) or suggested_bounds(pairs_per_unit)
    if pairs_per_unit > 1 and labels <= _FEW_LABELS and not _SETTLE_WHAT_SHOWS & options.keys():
        options["complete"] = True
    found = _with_noise(plan, budget, bounds, hints, options)
    if pairs_per_unit > 1 or bounds.pairs > 1 or (_SETTLE_WHAT_SHOWS | {"shares", "sample_rate"}) & options.keys():
        return found
    return _that_shows_more(found, units, labels if found.public_labels is None else len(found.public_labels))


def _with_noise(
    plan: type[Plan], budget: Budget, bounds: Bounds, hints: tuple[int, float, int], options: dict[str, Any]
) -> Plan:
    """Choose the noise."""
    units, pairs_per_unit, labels = hints
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


def _that_shows_more(found: Plan, units: int, labels: int) -> Plan:
    """Take a grid where a threshold on pairs would hide more than a tenth of the best pairs, and the grid would not.

    A feature's total is larger than any of its pairs, so more features can be found by it; then all of their pairs show.
    Where the threshold hides little, its list is shorter and no worse.
    """
    if not 1 < labels <= _LABELS_OF_GRIDS or found.mechanism_name != "laplace" or found.thresholded != ("pairs",):
        return found
    grid = replace(found, grid=True, mechanism="laplace", shares=_FINDING_FEATURES[found.known_labels is not None])
    by_pairs, by_features = (one.calibration.threshold_in_units for one in (found, grid))
    best = Best.expected(Hints(units=min(units, MOST["units"]), labels=labels))
    helps = best.part(best.joint, by_pairs) < _MOST_SHOWN <= best.part(best.feature, by_features)
    return grid if helps and best.rows(by_features) <= _LONGEST else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Best:
    """The best pairs of data of a declared shape, as far as they can be expected."""

    joint: Floats
    """How many units each of the best pairs has."""
    feature: Floats
    """How many units its feature has."""
    features: Floats
    """How many units each feature has, whether its pairs are among the best or not."""
    labels: int
    """How many labels there are."""

    @classmethod
    def expected(cls, hints: Hints) -> Best:
        """Expect them from hints alone."""
        features, labels = hints.expected(), len(hints.shares())
        head = features[: max(_CELLS // labels, _HEAD)]
        joint = hints.cells(head, np.arange(len(head)) % labels)
        margins = np.broadcast_to(head[:, None], joint.shape).ravel(), np.broadcast_to(hints.shares(), joint.shape)
        total = float(hints.units * hints.pairs_per_unit)
        mi = information.mutual_information(joint.ravel() / total, margins[0] / total, margins[1].ravel())
        occur = float(-np.expm1(-joint).sum())
        count = min(max(int(occur) // 100, 100), _BEST, joint.size)
        best = np.argpartition(-mi, count - 1)[:count]
        return cls(joint=joint.ravel()[best], feature=margins[0][best], features=features, labels=labels)

    def part(self, sums: Floats, threshold: float) -> float:
        """Which part of the best pairs reaches a threshold by these sums."""
        return float(np.mean(sums >= threshold))

    def rows(self, threshold: float) -> int:
        """How many pairs a grid has whose features reach a threshold."""
        return self.labels * int(np.sum(self.features >= threshold))


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
