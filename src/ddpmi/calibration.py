"""How much noise each table needs, and which pairs may be shown: from parameters alone.

All scales are exact fractions, rounded up from sensitivity and share, so that no release costs more than its plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ddpmi import thresholds
from ddpmi.accounting import Cost, rho_for
from ddpmi.contributions import Bounding, Distinct
from ddpmi.errors import InputError
from ddpmi.noise import DiscreteGaussian, DiscreteLaplace
from ddpmi.selection import WEIGHT_SQUARED, round_shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.budget import Budget
    from ddpmi.spec import Bounds

MechanismName = Literal["laplace", "gaussian"]
Mechanism = DiscreteLaplace | DiscreteGaussian
TABLES = ("pairs", "features", "labels", "total")

_FINEST_WEIGHT = 8
_LARGEST_INTEGER = 2**53
_LARGEST_SCALE = 2**55
_SCALE_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """The options of a plan that decide what is noised and what is thresholded."""

    distinct: Distinct = False
    public: tuple[str, ...] = ()
    """Keys with a public list: feature, label."""
    units: bool = False
    """Whether labels and total count units instead of events."""
    thresholded: tuple[str, ...] = ("pairs",)
    """The tables whose keys have to reach a threshold; none where every key is known beforehand."""
    bounded: bool = True
    """Whether noise of such tables may be bounded; the paper's is not."""
    rounds: int = 0
    """Rounds of a private set union over features."""
    sample_rate: Fraction | None = None
    """The probability that a unit takes part at all; None for everybody."""

    def delta_of_each(self, delta: Fraction) -> Fraction:
        """Divide what thresholds may fail by over all thresholded steps; 0 where there is none."""
        # proof: set-union.delta, grid.labels
        steps = self.rounds + len(self.thresholded)
        return delta / 2 / steps if steps else Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNoise:
    """The noise of one released table."""

    mechanism: Mechanism
    share: Fraction
    """Part of the budget that this table uses."""
    threshold: int | None
    """Smallest noisy sum that is shown; None where the keys are known and all are shown."""
    below: int | None = None
    """Cells that are marked as hidden were drawn before and did not reach this; they are drawn so that they do not."""

    @property
    def of_the_rest(self) -> TableNoise:
        """The noise of cells that are shown whatever it is, some of which are known to stay below the threshold."""
        return replace(self, threshold=None, below=self.threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A mechanism with all its numbers."""

    name: MechanismName
    bounding: Bounding
    tables: Mapping[str, TableNoise]
    cost: Cost
    """What the release costs; without the gain of sampling."""
    scheme: Scheme
    threshold_delta: Fraction
    """How often any thresholded step may show what one unit alone has."""
    selection: tuple[TableNoise, ...] = ()
    """The noise of each round of a private set union."""

    @property
    def unit_weight(self) -> int:
        """X: what one pair of a light unit adds at most, in grid units."""
        return self.bounding.bounds.levels * 2**self.bounding.g if self.bounding.bounds else 1

    @property
    def units_to_show(self) -> dict[str, float]:
        """How many units it takes to reach each threshold: at full value, and in labels with ``pairs`` pairs each."""
        bounds = self.bounding.bounds
        whole = 1 if self.scheme.units else self.unit_weight * (bounds.pairs if bounds else 1)
        weights = {"pairs": self.unit_weight, "features": self.unit_weight, "labels": whole}
        rate = float(self.bounding.sample_rate or 1)
        return {table: (self.tables[table].threshold or 0) / weights[table] / rate for table in self.scheme.thresholded}

    @property
    def threshold_in_units(self) -> float:
        """How many units it takes to reach the first threshold; 0 where there is none."""
        return next(iter(self.units_to_show.values()), 0.0)

    @property
    def badness(self) -> tuple[float, float]:
        """What the choice of a mechanism minimises: the threshold in units, then the noise of pairs in units."""
        return self.threshold_in_units, self.tables["pairs"].mechanism.sd / self.unit_weight


def calibrate(
    budget: Budget, bounds: Bounds, shares: Mapping[str, Fraction], *, name: MechanismName, scheme: Scheme
) -> Calibration:
    """Settle weights, scales and thresholds of one mechanism.

    Raises:
        InputError: The numbers do not fit 64-bit arithmetic, or the budget cannot pay for the mechanism.
    """
    delta = scheme.delta_of_each(budget.delta)
    if budget.delta == 0 and (scheme.rounds or scheme.thresholded):
        raise InputError(
            "delta must be positive, because which pairs occur is private: got delta=0.",
            hint="Budget(epsilon=1, delta=1e-7)",
        )
    rho = rho_for(budget.epsilon, budget.delta / 2) if name == "gaussian" else None
    problem = ""
    for g in _weights(bounds, one_pair=scheme.distinct == "units"):
        bounding = _bounding(bounds, scheme, name, g)
        declared = sensitivities(bounding, units=scheme.units)
        widths = {table: _width(moved, shares[table], budget.epsilon, rho) for table, moved in declared.items()}
        problem = _too_large(bounding, widths)
        if not problem:
            noisy = _with_noise(delta, bounding, scheme, widths=widths, rho=rho)
            tables = {
                table: TableNoise(share=shares[table], mechanism=m, threshold=t) for table, (m, t) in noisy.items()
            }
            spent = budget.delta / 2 if delta else Fraction(0)
            return Calibration(
                name=name,
                bounding=bounding,
                tables=tables,
                cost=_cost(budget, shares, rho, delta=spent),
                scheme=scheme,
                threshold_delta=spent,
                selection=_selection(bounding, shares, rho, delta),
            )
    raise InputError(
        f"These bounds do not fit 64-bit arithmetic: {problem}.",
        hint="raise step or lower clip, pairs or cap; epsilon may also be too small",
    )


def _bounding(bounds: Bounds, scheme: Scheme, name: MechanismName, g: int) -> Bounding:
    return Bounding(
        bounds=bounds,
        norm="l1" if name == "laplace" else "l2",
        g=g,
        distinct=scheme.distinct,
        valued=bounds.clip is not None,
        step=bounds.step,
        public=scheme.public,
        sample_rate=scheme.sample_rate,
        rounds=scheme.rounds,
    )


def _weights(bounds: Bounds, *, one_pair: bool) -> range:
    """The exponents g that keep every weight of a scaled unit well above zero, finest first."""
    # proof: bounding.integers, bounding.one-pair
    if bounds.strategy == "sample" or one_pair:
        return range(1)
    least = 3 + math.ceil(math.log2(bounds.cap / bounds.pairs))
    if least > _FINEST_WEIGHT:
        raise InputError(
            f"cap must be at most {2 ** (_FINEST_WEIGHT - 3)} times pairs={bounds.pairs}, got cap={bounds.cap}.",
            hint=f"cap={2 ** (_FINEST_WEIGHT - 3) * bounds.pairs}, or raise pairs",
        )
    return range(_FINEST_WEIGHT, least - 1, -1)


def _too_large(bounding: Bounding, widths: Mapping[str, Fraction]) -> str:
    # proof: bounding.integers
    bounds = bounding.bounds
    if bounds is None:
        return ""
    if bounds.cap * bounds.levels**2 >= _LARGEST_INTEGER:
        return f"cap * (clip/step)^2 = {bounds.cap * bounds.levels**2} is not below 2^53"
    if 2 * bounds.pairs * bounds.levels * 2**bounding.g >= _LARGEST_INTEGER:
        return "2 * pairs * (clip/step) is too large"
    largest = _LARGEST_SCALE if bounding.norm == "l1" else _LARGEST_SCALE**2
    return "the noise would be wider than 2^55 grid steps" if max(widths.values()) >= largest else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How far adding or removing one unit moves a table, in grid units."""

    linf: int
    """Largest change of one cell."""
    l1: int | None
    """Sum of changes, where the l1 norm is bounded."""
    l2_squared: int | None
    """Sum of squared changes, where the l2 norm is bounded."""
    single: bool = field(default=False, repr=False)
    """Whether each cell that a unit moves is moved by the contribution of one pair, never by several together."""


def sensitivities(bounding: Bounding, *, units: bool = False) -> dict[str, Sensitivity]:
    """Return the declared sensitivity of each table.

    Args:
        bounding: The bound of one unit's contributions.
        units: Whether labels and total count units.

    >>> from ddpmi.spec import Bounds
    >>> sensitivities(Bounding(bounds=Bounds(pairs=4), g=8))["pairs"]
    Sensitivity(linf=256, l1=1024, l2_squared=None)
    """
    bounds = bounding.bounds
    if bounds is None:
        raise InputError("Without bounds one unit can change anything.", hint="Bounds(pairs=50)")
    k, x, most = bounds.pairs, bounds.levels * 2**bounding.g, bounding.most_pairs
    labels = min(bounds.labels, most)
    scaled_l2 = bounding.norm == "l2" and bounds.strategy == "scale"
    total = min(2 * k, most) if scaled_l2 else k
    total_squared = min(4 * k * k, most * k) if scaled_l2 else k * k

    def of(linf: int, l1: int, l2_squared: int) -> Sensitivity:
        by_l1 = bounding.norm == "l1"
        return Sensitivity(linf=linf, l1=l1 if by_l1 else None, l2_squared=None if by_l1 else l2_squared)

    pairs = replace(of(x, k * x, k * x * x), single=True)  # proof: sensitivities.J
    if units:
        # proof: units.margins, threshold.single
        return {"pairs": pairs, "features": pairs, "labels": of(1, labels, labels), "total": of(1, 1, 1)}
    features = of(min(labels, total) * x, k * x, labels * k * x * x)  # proof: sensitivities.F
    return {
        "pairs": pairs,
        # proof: threshold.single
        "features": replace(features, single=labels == 1),
        "labels": of(total * x, k * x, total_squared * x * x),  # proof: sensitivities.L
        "total": of(total * x, k * x, total_squared * x * x),  # proof: sensitivities.N
    }


def _width(moved: Sensitivity, share: Fraction, epsilon: Fraction, rho: Fraction | None) -> Fraction:
    """The narrowest noise that the share pays for: b = L1/epsilon, or variance = L2^2/(2 rho)."""
    if rho is None:
        return round_up((moved.l1 or 0) / (share * epsilon))
    return round_up((moved.l2_squared or 0) / (2 * share * rho))


def _selection(
    bounding: Bounding, shares: Mapping[str, Fraction], rho: Fraction | None, delta: Fraction
) -> tuple[TableNoise, ...]:
    """The noise and threshold of each round of a private set union."""
    if not bounding.rounds or rho is None:
        return ()
    found = []
    for part in round_shares(bounding.rounds):
        share = shares["selection"] * part
        wide = DiscreteGaussian(variance=round_up(WEIGHT_SQUARED / (2 * share * rho)))
        mechanism, threshold = thresholds.of_selection(wide, bounding.most_pairs, delta)
        found.append(TableNoise(mechanism=mechanism, share=share, threshold=threshold))
    return tuple(found)


def _with_noise(
    delta: Fraction, bounding: Bounding, scheme: Scheme, *, widths: Mapping[str, Fraction], rho: Fraction | None
) -> dict[str, tuple[Mechanism, int | None]]:
    # proof: threshold.known-keys
    found: dict[str, tuple[Mechanism, int | None]] = {}
    declared = sensitivities(bounding, units=scheme.units)
    for table, width in widths.items():
        mechanism = DiscreteLaplace(scale=width) if rho is None else DiscreteGaussian(variance=width)
        found[table] = (mechanism, None)
        if table in scheme.thresholded:
            # proof: threshold.every, grid.selection, grid.labels
            found[table] = thresholds.of_table(
                mechanism, bounding, table, declared[table], delta, bounded=scheme.bounded
            )
    return found


def _cost(budget: Budget, shares: Mapping[str, Fraction], rho: Fraction | None, *, delta: Fraction) -> Cost:
    if rho is not None:
        return Cost.of_gaussian(rho, delta)
    return Cost.of_laplace([shares[table] * budget.epsilon for table in TABLES], delta)


def round_up(value: Fraction) -> Fraction:
    """Round up to 64 significant bits, which keeps the samplers' integers small.

    >>> round_up(Fraction(1, 3)) >= Fraction(1, 3)
    True
    """
    exponent = _SCALE_BITS - math.floor(math.log2(value))
    factor = Fraction(2) ** exponent
    return Fraction(math.ceil(value * factor)) / factor
