"""The calibration of a plan: the noise and the threshold of each table, from parameters alone.

Sensitivities and shares of the budget give the scale of the noise; the noise and delta give the threshold. All scales are
exact fractions, rounded up, so that no release costs more than its plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ddpmi._typing import TABLES
from ddpmi.errors import Hint, InputError
from ddpmi.pipeline.contributions import Bounding, Distinct, most_equal_pairs, weight_of_equal_pairs
from ddpmi.pipeline.selection import WEIGHT_SQUARED, round_shares
from ddpmi.pipeline.selection import weight as feature_weight
from ddpmi.privacy.accounting import Cost, rho_for
from ddpmi.privacy.noise import DiscreteGaussian, DiscreteLaplace, Mechanism, TableNoise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ddpmi.pipeline.bounds import Bounds
    from ddpmi.privacy.budget import Budget

    Cells = tuple[float, int]
    """A number of cells, and the most that one unit adds to each of them."""


MechanismName = Literal["laplace", "gaussian"]

#: Weights of units are integers up to 2 to the power of at most this.
_FINEST_WEIGHT = 8
_LARGEST_INTEGER = 2**53
_LARGEST_SCALE = 2**55
_SCALE_BITS = 64
#: The margin by which logarithms of tails have to be below that of delta.
_LOG_MARGIN = 1e-9
#: Bounded Gaussian noise reaches at least this number of (deviations + 1) beyond what one unit adds.
_LEAST_DEVIATIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """The options of a plan that decide how noise and thresholds are calibrated."""

    distinct: Distinct = False
    """What the owner of the data declares about duplicates."""
    public: tuple[str, ...] = ()
    """Keys with a public list: feature, label."""
    units: bool = False
    """Whether units are counted instead of events."""
    weighted: bool = True
    """Whether a unit adds its weight to labels and total; plans of older releases that count units say no."""
    thresholded: tuple[str, ...] = ("pairs",)
    """The tables with a threshold; empty where every key is known beforehand."""
    bounded: bool = True
    """Whether the noise of these tables may be bounded; that of the paper is not."""
    rounds: int = 0
    """Rounds of a private set union over features."""
    sample_rate: Fraction | None = None
    """The probability that a unit takes part; None means that every unit does."""

    def delta_of_each(self, delta: Fraction) -> Fraction:
        """Return the delta of each threshold: half of the release's delta, divided equally; 0 if there is no threshold."""
        # proof: set-union.delta, grid.labels
        steps = self.rounds + len(self.thresholded)
        return delta / 2 / steps if steps else Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The noise and thresholds of all tables for one mechanism."""

    name: MechanismName
    """The mechanism."""
    bounding: Bounding
    """The bound of one unit's contributions."""
    tables: Mapping[str, TableNoise]
    """The noise of each table."""
    cost: Cost
    """The cost of the release, not counting that units are sampled."""
    scheme: Scheme
    """The options it was made for."""
    threshold_delta: Fraction
    """The probability, at most, that a key which one unit alone has is released."""
    selection: tuple[TableNoise, ...] = ()
    """The noise of each round of a private set union."""

    @property
    def unit_weight(self) -> int:
        """X: the most that one pair of a unit with full weight adds, in grid steps."""
        return self.bounding.bounds.levels * 2**self.bounding.g if self.bounding.bounds else 1

    @property
    def sensitivities(self) -> dict[str, Sensitivity]:
        """How much one unit changes each table."""
        return sensitivities(self.bounding, units=self.scheme.units, weighted=self.scheme.weighted)

    @property
    def units_to_show(self) -> dict[str, float]:
        """How many units reach each threshold, if each has the full value and, in labels, ``pairs`` pairs."""
        bounds = self.bounding.bounds
        whole = self.unit_weight * (1 if self.scheme.units or not bounds else bounds.pairs)
        if self.scheme.units and not self.scheme.weighted:
            whole = 1
        weights = {"pairs": self.unit_weight, "features": self.unit_weight, "labels": whole}
        rate = float(self.bounding.sample_rate or 1)
        return {table: (self.tables[table].threshold or 0) / weights[table] / rate for table in self.scheme.thresholded}

    @property
    def threshold_in_units(self) -> float:
        """How many units reach the first threshold; 0 if there is none."""
        return next(iter(self.units_to_show.values()), 0.0)

    @property
    def badness(self) -> tuple[float, float]:
        """What ``mechanism="auto"`` minimises: the threshold in units, then the noise of pairs in units."""
        return self.threshold_in_units, self.tables["pairs"].mechanism.sd / self.unit_weight

    def weight_for(self, pairs: int) -> float:
        """Return the part of one that a pair of a unit counts, if the unit has that many pairs."""
        most = min(pairs, self.bounding.most_pairs)
        return weight_of_equal_pairs(self.bounding, most) / (1 << self.bounding.g)

    def threshold_for(self, pairs: int) -> float:
        """Return how many units with that many pairs each reach the first threshold; 0 if there is none."""
        return self.threshold_in_units / self.weight_for(pairs)

    def badness_for(self, pairs: int) -> tuple[float, float]:
        """Return the badness for units with that many pairs each."""
        return self.threshold_for(pairs), self.badness[1] / self.weight_for(pairs)


def calibrate(
    budget: Budget, bounds: Bounds, shares: Mapping[str, Fraction], *, name: MechanismName, scheme: Scheme
) -> Calibration:
    """Compute the weights, scales and thresholds of one mechanism.

    Args:
        budget: The guarantee; that of the sample where units are sampled.
        bounds: How much one unit may change.
        shares: The part of the budget of each table.
        name: The mechanism.
        scheme: The other options of the plan.

    Raises:
        InputError: The numbers do not fit 64-bit arithmetic, or the mechanism needs a larger budget.
    """
    delta = scheme.delta_of_each(budget.delta)
    if budget.delta == 0 and (scheme.rounds or scheme.thresholded):
        raise InputError(
            "delta must be positive, because it is private which pairs occur; got delta=0.",
            hint=Hint(python="Budget(epsilon=1, delta=1e-7)", cli="--epsilon 1 --delta 1e-7"),
        )
    rho = rho_for(budget.epsilon, budget.delta / 2) if name == "gaussian" else None
    problem = ""
    for g in _weights(bounds, one_pair=scheme.distinct == "units"):
        bounding = _bounding(bounds, scheme, name, g)
        declared = sensitivities(bounding, units=scheme.units, weighted=scheme.weighted)
        widths = {table: _width(moved, shares[table], budget.epsilon, rho) for table, moved in declared.items()}
        problem = _too_large(bounding, widths)
        if not problem:
            noises = _noises(delta, bounding, scheme, widths=widths, rho=rho)
            tables = {
                table: TableNoise(share=shares[table], mechanism=m, threshold=t) for table, (m, t) in noises.items()
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
        hint=Hint(
            python="raise step, or lower clip, pairs or cap; or raise epsilon",
            cli="raise --step, or lower --clip, --pairs or --cap; or raise --epsilon",
        ),
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
    """Return the exponents g to try, largest first; with each of them every weight of a scaled unit is well above 0."""
    # proof: bounding.integers, bounding.one-pair
    if bounds.strategy == "sample" or one_pair:
        return range(1)
    least = 3 + math.ceil(math.log2(bounds.cap / bounds.pairs))
    if least > _FINEST_WEIGHT:
        raise InputError(
            f"cap must be at most {2 ** (_FINEST_WEIGHT - 3)} times pairs={bounds.pairs}, got cap={bounds.cap}.",
            hint=Hint(
                python=f"cap={2 ** (_FINEST_WEIGHT - 3) * bounds.pairs}, or raise pairs",
                cli=f"--cap {2 ** (_FINEST_WEIGHT - 3) * bounds.pairs}, or raise --pairs",
            ),
        )
    return range(_FINEST_WEIGHT, least - 1, -1)


def _too_large(bounding: Bounding, widths: Mapping[str, Fraction]) -> str:
    """Say which number does not fit 64-bit arithmetic; empty if all do."""
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
    """How much adding or removing one unit changes a table, in grid steps."""

    linf: int
    """Largest change of one cell."""
    l1: int | None
    """Sum of changes, where the l1 norm is bounded."""
    l2_squared: int | None
    """Sum of squared changes, where the l2 norm is bounded."""
    single: bool = field(default=False, repr=False)
    """Whether each cell that a unit changes gets the weight of one of its pairs."""


def sensitivities(bounding: Bounding, *, units: bool = False, weighted: bool = True) -> dict[str, Sensitivity]:
    """Return the declared sensitivity of each table.

    Args:
        bounding: The bound of one unit's contributions.
        units: Whether units are counted instead of events.
        weighted: Whether a unit adds its weight to labels and total, or 1 as in older releases.

    >>> from ddpmi.pipeline.bounds import Bounds
    >>> sensitivities(Bounding(bounds=Bounds(pairs=4), g=8))["pairs"]
    Sensitivity(linf=256, l1=1024, l2_squared=None)
    """
    bounds = bounding.bounds
    if bounds is None:
        raise InputError(
            "Without bounds there is no limit to what one unit can change.",
            hint=Hint(python="Bounds(pairs=50)", cli="--pairs 50"),
        )
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
        # proof: units.features, threshold.single
        if not weighted:
            return {"pairs": pairs, "features": pairs, "labels": of(1, labels, labels), "total": of(1, 1, 1)}
        reached = min(labels, k)
        # proof: units.labels
        found = replace(of(x, reached * x, reached * x * x), single=True)
        # proof: units.total
        return {"pairs": pairs, "features": pairs, "labels": found, "total": of(x, x, x * x)}
    features = of(min(labels, total) * x, k * x, labels * k * x * x)  # proof: sensitivities.F
    return {
        "pairs": pairs,
        # proof: threshold.single
        "features": replace(features, single=labels == 1),
        "labels": of(total * x, k * x, total_squared * x * x),  # proof: sensitivities.L
        "total": of(total * x, k * x, total_squared * x * x),  # proof: sensitivities.N
    }


def _width(moved: Sensitivity, share: Fraction, epsilon: Fraction, rho: Fraction | None) -> Fraction:
    """Return the smallest width of the noise within its share: b = L1/epsilon, or variance = L2^2/(2 rho)."""
    if rho is None:
        return round_up((moved.l1 or 0) / (share * epsilon))
    return round_up((moved.l2_squared or 0) / (2 * share * rho))


def _selection(
    bounding: Bounding, shares: Mapping[str, Fraction], rho: Fraction | None, delta: Fraction
) -> tuple[TableNoise, ...]:
    """Return the noise and threshold of each round of a private set union."""
    if not bounding.rounds or rho is None:
        return ()
    found = []
    for part in round_shares(bounding.rounds):
        share = shares["selection"] * part
        wide = DiscreteGaussian(variance=round_up(WEIGHT_SQUARED / (2 * share * rho)))
        mechanism, threshold = of_selection(wide, bounding.most_pairs, delta)
        found.append(TableNoise(mechanism=mechanism, share=share, threshold=threshold))
    return tuple(found)


def _noises(
    delta: Fraction, bounding: Bounding, scheme: Scheme, *, widths: Mapping[str, Fraction], rho: Fraction | None
) -> dict[str, tuple[Mechanism, int | None]]:
    """Return the noise of each table and its threshold, None where it has none."""
    # proof: threshold.known-keys
    found: dict[str, tuple[Mechanism, int | None]] = {}
    declared = sensitivities(bounding, units=scheme.units, weighted=scheme.weighted)
    for table, width in widths.items():
        mechanism = DiscreteLaplace(scale=width) if rho is None else DiscreteGaussian(variance=width)
        found[table] = (mechanism, None)
        if table in scheme.thresholded:
            # proof: threshold.every, grid.selection, grid.labels
            found[table] = of_table(mechanism, bounding, table, declared[table], delta, bounded=scheme.bounded)
    return found


def _cost(budget: Budget, shares: Mapping[str, Fraction], rho: Fraction | None, *, delta: Fraction) -> Cost:
    if rho is not None:
        return Cost.of_gaussian(rho, delta)
    return Cost.of_laplace([shares[table] * budget.epsilon for table in TABLES], delta)


def round_up(value: Fraction) -> Fraction:
    """Round up to 64 significant bits, to keep the integers of the samplers small.

    >>> round_up(Fraction(1, 3)) >= Fraction(1, 3)
    True
    """
    exponent = _SCALE_BITS - math.floor(math.log2(value))
    factor = Fraction(2) ** exponent
    return Fraction(math.ceil(value * factor)) / factor


def of_table(
    mechanism: Mechanism, bounding: Bounding, table: str, moved: Sensitivity, delta: Fraction, *, bounded: bool
) -> tuple[Mechanism, int]:
    """Return the noise of a table whose keys are private, and the smallest noisy sum that is released.

    Args:
        mechanism: Unbounded noise, as wide as the table's share of the budget requires.
        bounding: The bound of one unit's contributions.
        table: pairs, features or labels.
        moved: How much one unit changes the table.
        delta: The probability with which the threshold may fail.
        bounded: Whether the noise may be bounded, if that gives a lower threshold.
    """
    most = _keys_of_a_unit(bounding, table)
    equal = _equal_weights(bounding, moved, most)
    lone = equal or [(float(most), moved.linf)]
    return _lower_threshold(mechanism, lone, equal or [_cells_moved(moved, most)], delta, bounded=bounded)


def of_selection(mechanism: Mechanism, most: int, delta: Fraction) -> tuple[Mechanism, int]:
    """Return the noise of a round of a private set union, and the smallest noisy weight of a released feature.

    Args:
        mechanism: Unbounded noise.
        most: The most features of one unit.
        delta: The probability with which the threshold may fail.
    """
    # proof: set-union.threshold
    cells = [(float(features), feature_weight(features)) for features in (1, *range(most, 1, -1))]
    return _lower_threshold(mechanism, cells, cells, delta, bounded=True)


def _lower_threshold(
    mechanism: Mechanism, lone: list[Cells], moved: list[Cells], delta: Fraction, *, bounded: bool
) -> tuple[Mechanism, int]:
    """Choose between bounded and unbounded noise by the lower threshold.

    Args:
        mechanism: Unbounded noise.
        lone: The cells that one unit alone can have, one entry for each kind of unit.
        moved: The cells that one unit can change, likewise.
        delta: The probability with which the threshold may fail.
        bounded: Whether the noise may be bounded.
    """
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
    """Return the smallest bound to try: what one unit adds, and for Gaussian noise some deviations more."""
    largest = max(weight for _, weight in moved)
    if isinstance(mechanism, DiscreteLaplace):
        return largest
    # proof: bounded.gaussian
    return largest + math.ceil(_LEAST_DEVIATIONS * (mechanism.sd + 1))


def _keys_of_a_unit(bounding: Bounding, table: str) -> int:
    """Return the most keys of a table that one unit alone may have."""
    labels = bounding.bounds.labels if bounding.bounds is not None and table == "labels" else bounding.most_pairs
    return min(labels, bounding.most_pairs)


def _equal_weights(bounding: Bounding, moved: Sensitivity, most: int) -> list[Cells]:
    """Return the cells of units of every size, if all cells of a unit have the same weight; empty if they may differ."""
    bounds = bounding.bounds
    if bounds is None:
        raise InputError("A threshold needs bounds.", hint=Hint(python="Bounds(pairs=50)", cli="--pairs 50"))
    # proof: threshold.single
    if bounding.valued or not moved.single or most == 1:
        return []
    # proof: threshold.equal-weights
    light = (float(min(bounds.pairs, most)), moved.linf)
    # Of all units with the same weight the largest is the worst, and there are few weights. The lowest weight comes first:
    # it nearly always decides the result, and the others are then checked without a search.
    weights = range(max(1, weight_of_equal_pairs(bounding, most)), moved.linf)
    return [light, *((float(min(most, most_equal_pairs(bounding, weight))), weight) for weight in weights)]


def _cells_moved(moved: Sensitivity, most: int) -> Cells:
    """Return a number of cells: changing each by the largest amount has at least the l1 norm of any change by one unit."""
    # proof: bounded.cells
    if moved.l1 is not None:
        return min(most, moved.l1 / moved.linf), moved.linf
    reach = math.sqrt(most * (moved.l2_squared or 0)) / moved.linf
    return min(most, reach * (1 + _LOG_MARGIN)), moved.linf


def _smallest(cells: Iterable[Cells], log_probability: Callable[[int, int], float], least: int, allowed: float) -> int:
    """Return the smallest integer, at least ``least``, at which the probability of every kind of unit is allowed.

    Args:
        cells: The cells of one unit, one entry for each kind of unit.
        log_probability: ln of the probability that one cell fails, given the integer and the weight of the cell.
        least: Where the search begins.
        allowed: ln of the largest probability that any of a unit's cells fails.
    """
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
