"""Plans whose bounds are chosen by a private look: what is declared, what the look costs, and the plan that follows from it.

The look is two noisy histograms: how many labels, and how many pairs, units have. `AutoPlan.resolve` turns them into an
ordinary `Plan`. It is a pure function of released numbers, so it costs nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from math import ceil, floor, sqrt
from typing import TYPE_CHECKING, Any

from ddpmi.errors import LARGEST_COUNT, Hint, InputError
from ddpmi.pipeline import contributions, looks
from ddpmi.pipeline.bounds import Bounds
from ddpmi.pipeline.dialects import DUCKDB, Dialect
from ddpmi.pipeline.looks import BUCKETS, largest_of
from ddpmi.pipeline.steps import render
from ddpmi.planning.explain import guarantee, keys_in_words, page, text_files
from ddpmi.planning.plan import DEFAULT_DELTA, Plan
from ddpmi.planning.suggest import better_noise
from ddpmi.privacy.accounting import RHO_GRID, Cost, epsilon_for, rho_for
from ddpmi.privacy.budget import EPSILON_GRID, Budget, shortest
from ddpmi.privacy.noise import DiscreteLaplace, TableNoise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.pipeline.steps import Step
    from ddpmi.planning.calibration import MechanismName

SHARE = Fraction(25, 1000)
"""The part of epsilon that each histogram of a look uses."""
MOST_EPSILON = Fraction(1, 4)
"""A histogram never uses more than this epsilon: more would not change the plan."""
#: A bucket above this number of deviations of its noise holds units for certain, or nearly so.
_SURE = 3
#: Beside such a bucket, one above this number of deviations is taken to hold units too.
_LIKELY = 1
#: A run of buckets apart from the largest one holds units if its sum is above this number of deviations.
_APART = 5
#: Noise alone lifts one of all buckets above this number of deviations with a probability of less than a tenth.
_CERTAIN = 4
#: The part of units whose labels are all kept.
_KEPT_LABELS = Fraction(95, 100)
_LEAST_EPSILON = Fraction(1, 10**6)
#: Buckets of pairs that are shown as examples of what may follow, and how many units are taken to be there.
_EXAMPLES, _MANY = (0, 2, 4, 6), 10**7
#: The largest ratio of cap to pairs, so that weights of 2^-8 suffice: planning/calibration.py.
_LARGEST_RATIO = 32
#: cap * levels^2 stays below this.
_LARGEST_INTEGER = 2**53
#: Options of a plan that do not go with a look, and why.
_EXCLUDED = {
    "budget": "is given once",
    "bounds": "are what the look chooses",
    "pairs": "is what the look chooses",
    "cap": "is what the look chooses",
    "selection": "finds features before it counts the pairs of units",
    "sample_rate": "reads a sample that is drawn after the look",
    "weighted": "describes releases of older versions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A noisy histogram: about how many units are in each bucket.

    >>> Histogram(counts=(0,) * 21, scale=40.0).units
    0
    """

    counts: tuple[int, ...]
    """The noisy number of units of each bucket; it may be negative."""
    scale: float
    """The scale b of the Laplace noise."""

    def __post_init__(self) -> None:
        if len(self.counts) != len(BUCKETS) or any(type(count) is not int for count in self.counts):
            raise InputError(f"A histogram has {len(BUCKETS)} whole numbers.", hint="take it from a receipt")

    @property
    def sd(self) -> float:
        """The standard deviation of the noise of one bucket."""
        return sqrt(2) * self.scale

    @property
    def stands_out(self) -> bool:
        """Whether some bucket is so far above the noise that there are units for certain."""
        return max(self.counts) > self.certain

    @property
    def certain(self) -> float:
        """How many units a bucket needs to stand out."""
        return _CERTAIN * self.sd

    @property
    def filled(self) -> list[int]:
        """The counts, with 0 for buckets that noise alone explains.

        Units with similar counts lie in neighbouring buckets. So a bucket is kept if it is far above the noise, or if it is
        above it and beside such a bucket. A second run of buckets apart from the first one has to be farther above it.
        """
        sure = [count > _SURE * self.sd for count in self.counts]
        beside = [left or right for left, right in zip([False, *sure[:-1]], [*sure[1:], False], strict=True)]
        held = [
            count if here or (near and count > _LIKELY * self.sd) else 0
            for count, here, near in zip(self.counts, sure, beside, strict=True)
        ]
        runs = [list(run) for any_, run in groupby(range(len(held)), key=lambda place: held[place] > 0) if any_]
        if not runs:
            return [max(count, 0) for count in self.counts]
        sums = [sum(held[place] for place in run) for run in runs]
        kept = {
            place
            for run, total in zip(runs, sums, strict=True)
            if total == max(sums) or total > _APART * self.sd
            for place in run
        }
        return [count if place in kept else 0 for place, count in enumerate(held)]

    @property
    def units(self) -> int:
        """About how many units there are."""
        return sum(self.filled)

    def quantile(self, part: Fraction) -> tuple[int, float]:
        """Return the bucket in which a part of all units is reached, and where in the bucket, from 0 to 1.

        >>> Histogram(counts=(100, 300) + (0,) * 19, scale=0.1).quantile(Fraction(1, 2))
        (1, 0.3333333333333333)
        """
        wanted, below, found = part * self.units, Fraction(0), (0, 0.0)
        for bucket, count in enumerate(self.filled):
            if count and below < wanted:
                found = (bucket, float(min((wanted - below) / count, Fraction(1))))
            below += count
        return found

    @property
    def usual(self) -> int:
        """What a usual unit has: the median, to 1, 2, 3, 4, 6, 8, 12 and so on."""
        bucket, place = self.quantile(Fraction(1, 2))
        if bucket <= 1:
            return bucket + 1
        low = largest_of(bucket - 1)
        value = low * 2.0**place
        steps = (low, low * 3 // 2, 2 * low)
        return min(steps, key=lambda step: abs(step / value - 1))

    def covering(self, part: Fraction) -> int:
        """Return a count, a power of two, that a part of all units does not exceed."""
        return largest_of(self.quantile(part)[0])

    @property
    def most(self) -> int:
        """The largest count of the highest bucket that holds units."""
        return largest_of(max((bucket for bucket, count in enumerate(self.filled) if count), default=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look found."""

    labels: Histogram | None
    """Units by their number of labels; None where the plan says how many one unit may have."""
    pairs: Histogram
    """Units by their number of pairs, under the labels that they keep."""

    @property
    def stands_out(self) -> bool:
        """Whether one of the histograms shows units for certain."""
        return self.pairs.stands_out or (self.labels is not None and self.labels.stands_out)

    def in_words(self, units: str = "units") -> str:
        """Return the look in one sentence.

        >>> Look(labels=None, pairs=Histogram(counts=(0, 0, 5000) + (0,) * 18, scale=40.0)).in_words("visitors")
        'about 5,000 visitors, usually 3 pairs each'
        """
        usual = self.pairs.usual
        return f"about {_rounded(self.pairs.units):,} {units}, usually {usual} pair{'s' if usual > 1 else ''} each"


def _rounded(number: int) -> int:
    """Round to two digits: more would be noise."""
    digits = len(str(number))
    return round(number, min(0, 2 - digits))


@dataclass(frozen=True, kw_only=True)
class AutoPlan:
    """A plan whose bounds a private look will choose. `release` takes it in place of a `Plan`.

    >>> plan = AutoPlan.of(epsilon=1)
    >>> float(plan.look_epsilon), float(plan.rest("laplace").epsilon)
    (0.025, 0.95)
    >>> AutoPlan.from_dict(plan.to_dict()) == plan
    True
    """

    budget: Budget
    """The guarantee of look and release together."""
    labels: int | None = None
    """How many labels one unit may appear in; None lets the look choose."""
    clip: Fraction | None = None
    """The largest value of one pair; None where values are not counted."""
    step: Fraction = Fraction(1)
    """The grid of values."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the plan that are declared, such as ``public_labels``. The look decides ``complete`` if it is not among them."""

    @classmethod
    def of(cls, *, epsilon: Any, delta: Any = DEFAULT_DELTA, **declared: Any) -> AutoPlan:
        """Declare what is known, and let a look choose the rest.

        Args:
            epsilon: The epsilon of look and release together.
            delta: Their delta.
            declared: ``labels``, ``clip`` and ``step`` as in `Bounds`, and options of `Plan`.

        Raises:
            InputError: Options contradict each other, or leave the look nothing to choose.
        """
        bounds = {name: declared.pop(name) for name in ("labels", "clip", "step") if name in declared}
        return cls(budget=Budget(epsilon, delta), **bounds, options=declared)

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget) or self.budget.epsilon < _LEAST_EPSILON:
            raise InputError(
                f"A look needs an epsilon of at least 1e-6, got {self.budget!r}.",
                hint=Hint(python="AutoPlan.of(epsilon=1)", cli="--epsilon 1"),
            )
        _check_options(self.options)
        bounds = self._bounds(pairs=1, labels=1 if self.labels is None else self.labels, cap=1)
        object.__setattr__(self, "clip", bounds.clip)
        object.__setattr__(self, "step", bounds.step)
        example = self.example(next(iter(self.possible)))
        # As a plan stores them, so that equal declarations are equal. The noise may still be "auto".
        same = {name: value for name, value in self.options.items() if name == "mechanism" or value is None}
        object.__setattr__(self, "options", {name: getattr(example, name) for name in self.options} | same)

    @property
    def histograms(self) -> int:
        """How many histograms the look draws: one of labels, unless they are declared, and one of pairs."""
        return 2 if self.labels is None else 1

    @property
    def look_epsilon(self) -> Fraction:
        """The epsilon of each histogram."""
        return min(Fraction(floor(self.budget.epsilon * SHARE * EPSILON_GRID), EPSILON_GRID), MOST_EPSILON)

    @property
    def look_budget(self) -> Budget:
        """The guarantee of the look by itself."""
        return Budget(self.look_epsilon * self.histograms)

    @property
    def look_cost(self) -> Cost:
        """The cost of the look."""
        # proof: look.cost
        return Cost.of_laplace([self.look_epsilon] * self.histograms)

    @property
    def look_noise(self) -> TableNoise:
        """The noise of each histogram: one unit changes one bucket by 1."""
        # proof: look.histogram
        scale = 1 / self.look_epsilon
        return TableNoise(mechanism=DiscreteLaplace(scale=scale), share=SHARE, threshold=None)

    def rest(self, mechanism: MechanismName) -> Budget:
        """Return the budget of the release that follows the look, such that both together keep to the whole budget.

        Raises:
            InputError: Gaussian noise needs a larger budget.
        """
        # proof: look.rest
        delta = self.budget.delta
        if mechanism == "laplace":
            return Budget(self.budget.epsilon - self.look_budget.epsilon, delta)
        spent = Fraction(ceil(self.look_cost.rho * RHO_GRID), RHO_GRID)
        left = rho_for(self.budget.epsilon, delta / 2) - spent
        if left <= 0:
            raise InputError("The look leaves nothing for Gaussian noise.", hint=Hint.without("mechanism"))
        epsilon = epsilon_for(left, delta / 2)
        while rho_for(epsilon, delta / 2) > left:
            epsilon -= Fraction(1, EPSILON_GRID)
        return Budget(epsilon, delta)

    @cached_property
    def possible(self) -> tuple[MechanismName, ...]:
        """The kinds of noise that the release may get."""
        given = self.options.get("mechanism", "auto")
        names: tuple[MechanismName, ...] = ("laplace", "gaussian")
        if given in names:
            return (given,)
        try:
            self.rest("gaussian")
        except InputError:
            return ("laplace",)
        return names

    @property
    def costs(self) -> list[Cost]:
        """What look and release may cost together: one cost for each kind of noise."""
        return [self.look_cost + self.example(name).cost for name in self.possible]

    def example(self, mechanism: MechanismName) -> Plan:
        """Return a plan that the look may lead to. All with the same noise cost the same."""
        return self._plan(mechanism, self._bounds(pairs=1, labels=self.labels or 1, cap=1))

    def _bounds(self, *, pairs: int, labels: int, cap: int) -> Bounds:
        return Bounds(pairs=pairs, labels=labels, cap=cap, clip=self.clip, step=self.step)

    def _plan(self, mechanism: MechanismName, bounds: Bounds, **more: Any) -> Plan:
        given = {name: value for name, value in self.options.items() if value is not None}
        return Plan(budget=self.rest(mechanism), bounds=bounds, **(given | more | {"mechanism": mechanism}))

    def label_cap(self, labels: Histogram) -> int:
        """Return how many labels of one unit are kept: all of them for nearly all units."""
        return min(labels.covering(_KEPT_LABELS), LARGEST_COUNT)

    def bounds(self, look: Look) -> Bounds:
        """Return the bounds that follow from a look."""
        # proof: look.plan
        levels = self._bounds(pairs=1, labels=1, cap=1).levels
        largest = (_LARGEST_INTEGER - 1) // levels**2
        usual = look.pairs.usual
        # Half of what a usual unit has: docs/decisions/suggestions.md.
        pairs = min(ceil(usual / 2), largest)
        cap = min(_LARGEST_RATIO * pairs, max(2 * usual, look.pairs.most), largest)
        labels = self.labels or (1 if look.labels is None else self.label_cap(look.labels))
        return self._bounds(pairs=pairs, labels=labels, cap=cap)

    def resolve(self, look: Look) -> Plan:
        """Return the plan that follows from a look. Every look leads to a valid one."""
        bounds = self.bounds(look)
        while True:
            try:
                return self._resolved(bounds, look)
            except InputError:
                # With a tiny epsilon large bounds need noise beyond 64 bits. Bounds of 1 fit: they were tried before the look.
                if bounds.cap == 1:
                    raise
                pairs, cap = max(1, bounds.pairs // 2), max(1, bounds.cap // 2)
                labels = self.labels or max(1, bounds.labels // 2)
                bounds = self._bounds(pairs=pairs, labels=labels, cap=cap)

    def _resolved(self, bounds: Bounds, look: Look) -> Plan:
        usual = look.pairs.usual
        plans = [self._plan(name, bounds) for name in self.possible]
        if usual > 1 and "complete" not in self.options:
            plans = [replace(plan, complete=True) if _can_complete(plan) else plan for plan in plans]
        if len(plans) == 1:
            return plans[0]
        return better_noise(*plans, total=max(look.pairs.units, 1) * usual, pairs_per_unit=usual)

    def shows(self, look: Look, plan: Plan) -> bool:
        """Return whether any pair could show: not if every bucket is within its noise."""
        return not plan.thresholded or look.stands_out

    def explain(self, dialect: Dialect = DUCKDB, *, encoding: str | None = "", sql: bool = False) -> str:
        """Describe the look, and the plans that may follow from it, as text. It reads nothing and costs nothing.

        Args:
            dialect: The engine's spelling.
            encoding: As for `Plan.explain`.
            sql: Add the SQL of the look.
        """
        example = self.example(self.possible[0])
        return page(
            [
                ("Guarantee", guarantee(self.budget)),
                ("First a private look", self._look_in_words()),
                ("Then the release, by what the look finds", self._rest_in_words()),
                ("Cost", self._cost_in_words()),
                ("Options", "\n".join(keys_in_words(example))),
                ("Text files", text_files(encoding)),
                ("Relies on", "\n".join(example.relies_on)),
                (f"SQL ({dialect.name}) of the look", render(self.steps(dialect)) if sql else ""),
            ]
        )

    def _look_in_words(self) -> str:
        both = self.labels is None
        what = "labels, and by their number of pairs" if both else "pairs"
        chosen = "pairs, labels, cap, the noise" if both else "pairs, cap, the noise"
        return (
            f"Units are counted by their number of {what}: 1, 2, 3 to 4, 5 to 8, and so on.\n"
            f"Each count gets Laplace noise (sd {self.look_noise.mechanism.sd:.3g} units, "
            f"epsilon={shortest(self.look_epsilon)} for each histogram).\n"
            f"From these released numbers follow {chosen}, and whether other pairs are shown too.\n"
            "A unit with up to half of the usual number of pairs then counts in full."
        )

    def _rest_in_words(self) -> str:
        """Write what would follow for some usual numbers of pairs, among very many units."""
        lines = [f"{'usual pairs':>11}{'pairs':>8}{'noise':>12}{'epsilon':>12}   a pair needs about"]
        for bucket in _EXAMPLES:
            counts = [_MANY if place == bucket else 0 for place in range(len(BUCKETS))]
            look = Look(labels=None, pairs=Histogram(counts=tuple(counts), scale=1.0))
            plan, usual = self.resolve(look), look.pairs.usual
            needed = ceil(plan.calibration.threshold_for(usual))
            shown = f"{needed:,} such units" if plan.thresholded else "no threshold"
            epsilon = float(plan.budget.epsilon)
            lines.append(f"{usual:>11}{plan.bounds.pairs:>8}{plan.mechanism_name:>12}{epsilon:>12.4g}   {shown}")
        return "\n".join(lines)

    def _cost_in_words(self) -> str:
        look, whole = self.look_budget, self.budget
        return (
            f"The ledger is charged twice: epsilon={shortest(look.epsilon)} for the look, then the rest for the release.\n"
            f"Both together keep to epsilon={shortest(whole.epsilon)}, delta={shortest(whole.delta)}. "
            "If the look finds that nothing would show, only the look is charged."
        )

    def numbers(self) -> dict[str, Any]:
        """Return what is declared, and what the look costs, as plain values."""
        return {
            "look": self.to_dict(),
            "plan_digest": self.digest,
            "histograms": self.histograms,
            "epsilon_of_each": float(self.look_epsilon),
            "sd": self.look_noise.mechanism.sd,
            "rest": {name: self.rest(name).to_dict() for name in self.possible},
        }

    def steps(self, dialect: Dialect = DUCKDB) -> list[Step]:
        """Return the SQL of the look, with the label cap at its lowest."""
        bounding = self.example(self.possible[0]).calibration.bounding
        labels = [looks.label_step()] if self.labels is None else []
        first = [*contributions.counted_steps(bounding, dialect), looks.counted_units()]
        return [*first, *labels, looks.pair_step(self.labels or 1, dialect)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` restores exactly."""
        plain = self.example(self.possible[0]).to_dict()
        options = {name: plain[name] for name in self.options} | {
            name: value for name, value in self.options.items() if name == "mechanism" or value is None
        }
        bounds = {name: plain["bounds"][name] for name in ("clip", "step")}
        budget = {name: str(getattr(self.budget, name)) for name in ("epsilon", "delta")}
        return {"budget": budget, "labels": self.labels, **bounds, "options": options}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AutoPlan:
        """Restore what `to_dict` returned."""
        budget = Budget(Fraction(values["budget"]["epsilon"]), Fraction(values["budget"]["delta"]))
        clip = None if values["clip"] is None else Fraction(values["clip"])
        step, options = Fraction(values["step"]), dict(values["options"])
        return cls(budget=budget, labels=values["labels"], clip=clip, step=step, options=options)

    @property
    def digest(self) -> str:
        """A hash of everything declared, the same for equal declarations."""
        canonical = json.dumps({"look": self.to_dict()}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that leave nothing to look for, or that a look does not go with."""
    hint = Hint(
        python="say how many pairs of a unit count in full: Plan(..., pairs=50)",
        cli="say how many pairs of a unit count in full: --pairs 50",
    )
    for name in (name for name in _EXCLUDED if options.get(name) is not None):
        raise InputError(f"{name} {_EXCLUDED[name]}, so it does not go with a look.", hint=hint)
    if options.get("distinct") == "units":
        raise InputError(
            "A unit with one row has one pair, so there is nothing to look for.", hint=Hint.setting("pairs", 1)
        )
    if unknown := sorted(set(options) - {entry.name for entry in fields(Plan)}):
        raise InputError(
            f"A plan has no option {unknown[0]!r}.", hint="AutoPlan.of(epsilon=1, public_labels=['a', 'b'])"
        )


def _can_complete(plan: Plan) -> bool:
    """Return whether a plan may be completed: pairs have a threshold, and nothing else."""
    return plan.thresholded == ("pairs",) and plan.marginals == "measured"
