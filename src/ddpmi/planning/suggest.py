"""Plans chosen from public hints: the declared shape of data that are not read, and the plan that suits it.

`Hints` are the shape: how many units, labels and features there are, and how pairs are spread over them. `suggest` uses
them to foresee which pairs would reach a threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import LONGEST_LIST, Hint, InputError, check_count
from ddpmi.information import mi as information
from ddpmi.pipeline.bounds import Bounds

if TYPE_CHECKING:
    from ddpmi._typing import Floats, Integers
    from ddpmi.planning.plan import Plan
    from ddpmi.privacy.budget import Budget


SKEW = 0.5
"""Among pairs that do not lean, the share of the k-th label is in proportion to k to the power of -SKEW. It agrees with known
figures of the paper's experiment: docs/decisions/generated-rows.md."""
LEAN = 0.35
"""Part of each feature's pairs that has the feature's own label, in rows of the paper's shape."""
USUAL_LEAN = 0.2
"""The same part for forecasts of real data: the largest one that promised little too much. Measured: docs/decisions/lean.md."""
MOST = {
    "units": 1 << 40,
    "features": 20_000_000,
    "labels": 10_000,
    "pairs_per_unit": 100_000,
    "labels_per_unit": 10_000,
}
"""The largest numbers of `Hints`."""
SUGGESTING = ("units", "labels", "pairs_per_unit")
"""The hints that `suggest` takes."""
#: Hints that are whole numbers.
_COUNTS = ("units", "labels", "features", "pairs_per_unit", "labels_per_unit")
#: Labels if neither the hints nor the plan say how many.
_LABELS = 20
#: Options that decide what is released, or leave no threshold on pairs. Suggestions do not change them.
_DECIDING = {"complete", "grid", "thresholds", "marginals", "public_features", "selection"}
_FEW_LABELS = 1000  # a completed release has a row for each feature and label, all in the memory of one machine
_DEEP = 1000  # both mechanisms are compared by the pair of this rank
_FAR = 4  # a pair this number of times above both thresholds is released with either noise
_LABELS_OF_GRIDS = 200  # grids of more labels are long, and slow to foresee
_HEAD = 20_000  # the best pairs are looked for among at least this number of features
_CELLS = 1 << 21  # or among this number of pairs, if that gives more features
_BEST = 10_000  # at most this number of pairs are the best ones
_MOST_SHOWN = 0.9  # part of the best pairs that should be released; if fewer are, suppression decides the rank errors
_LONGEST = 10_000_000  # the most pairs of a grid
_ROUNDS = 4  # the sizes of labels and what leans to them depend on each other
#: Shares of a grid chosen to find features, with listed labels or without. Measured: docs/decisions/shares.md.
_FINDING_FEATURES = {
    True: {"pairs": "0.51", "features": "0.46", "labels": "0.02", "total": "0.01"},
    False: {"pairs": "0.47", "features": "0.49", "labels": "0.03", "total": "0.01"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """The publicly known shape of data. Never computed from these data.

    >>> Hints(units=1_000_000, labels=22).features
    20100
    """

    units: int
    """How many units there are, about."""
    labels: int | None = None
    """How many labels; None means those that the plan lists, or 20 if it lists none."""
    features: int = 0
    """How many features; 0 means one for every 50 pairs, and at least 100."""
    pairs_per_unit: int = 1
    """How many (feature, label) pairs a unit has."""
    zipf: float = 1.0
    """The frequency of the k-th feature is in proportion to k to the power of -zipf."""
    lean: float = USUAL_LEAN
    """Part of each feature's pairs that has the feature's own label: how strongly features depend on labels."""
    labels_per_unit: int = 1
    """Under how many labels a unit appears; its pairs are divided among them."""

    def __post_init__(self) -> None:
        if self.features == 0 and not isinstance(self.features, bool) and isinstance(self.units, int):
            guess = min(100 + self.units * max(self.pairs_per_unit, 1) // 50, MOST["features"])
            object.__setattr__(self, "features", guess)
        example = _example(self.names())
        for name in _COUNTS:
            if name != "labels" or self.labels is not None:
                check_count(name, getattr(self, name), most=MOST[name], hint=example)
        if not 0 <= self.zipf <= 4:  # noqa: PLR2004 - larger than any exponent found in data
            raise InputError(f"zipf must be between 0 and 4, got zipf={self.zipf!r}.", hint=example)
        if not 0 <= self.lean <= 1:
            raise InputError(
                f"lean must be between 0 and 1, got lean={self.lean!r}.",
                hint=_example(self.names(), f",lean={USUAL_LEAN}"),
            )
        if self.labels_per_unit > self.pairs_per_unit:
            raise InputError(
                f"A unit has at least one pair under each of its labels, but labels_per_unit={self.labels_per_unit} and"
                f" pairs_per_unit={self.pairs_per_unit}.",
                hint=_example(self.names(), f",pairs_per_unit={self.labels_per_unit}"),
            )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all hints."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def parse(cls, text: str) -> Hints:
        """Read the text ``NAME=NUMBER,...``.

        >>> Hints.parse("units=10e6, zipf=1.1, labels=22").units
        10000000
        """
        return cls(**read_hints(text, cls.names()))

    def for_plan(self, plan: Plan) -> Hints:
        """Return the same hints with the number of labels that the plan lists."""
        listed = None if plan.public_labels is None else len(plan.public_labels)
        if listed is not None and self.labels not in (None, listed):
            raise InputError(
                f"The hint labels={self.labels} contradicts the plan, which lists {listed}: rows of other labels are dropped.",
                hint="leave the hint labels out",
            )
        named = 0 if plan.labels_only is None else len(plan.labels_only)
        if self.labels is not None and self.labels < named:
            raise InputError(
                f"The hint labels={self.labels} contradicts the plan, which ranks {named} labels by name.",
                hint=f"labels={named} or more: all labels of the data count",
            )
        return replace(self, labels=listed or self.labels or max(_LABELS, named))

    @property
    def visits(self) -> int:
        """How many (unit, label) combinations there are."""
        return self.units * self.labels_per_unit

    def expected(self) -> Floats:
        """Return the expected number of pairs of each feature, most common first; none has more than every unit and label gives."""
        weights = np.arange(1, self.features + 1, dtype=np.float64) ** -self.zipf
        left, full = float(self.units * self.pairs_per_unit), 0
        found: Floats = weights * (left / weights.sum())
        # Features that every unit has leave more pairs to all others.
        while full < len(found) and found[full] > self.visits:
            over = full + int(np.sum(found[full:] > self.visits))
            left -= float((over - full) * self.visits)
            found[full:over], full = self.visits, over
            found[full:] = weights[full:] * (max(left, 0.0) / max(float(weights[full:].sum()), 1e-300))
        return found

    def shares(self) -> Floats:
        """Return the part of all pairs that each label has."""
        return label_shares(self.labels or _LABELS)

    def leans(self, expected: Floats, home: Integers) -> Floats:
        """Return the part of each feature's pairs that has its own label: `lean`, or less where that label has too few units.

        Args:
            expected: The expected number of pairs of each feature.
            home: The label to which each feature leans.
        """
        shares, each = self.shares(), self.pairs_per_unit / self.labels_per_unit
        rest = float(self.units * self.pairs_per_unit) - float(expected.sum())
        leans: Floats = np.full(len(expected), self.lean)
        for _ in range(_ROUNDS):
            own = np.bincount(home, weights=expected * leans, minlength=len(shares))
            pairs = own + shares * (float(np.sum(expected * (1 - leans))) + rest)
            # The label's units, as a part of all that have the feature.
            room = (pairs / each)[home] / np.maximum(expected, 1e-300)
            most = (room - shares[home]) / np.maximum(1 - shares[home], 1e-300)
            leans = np.clip(most, 0.0, leans)
        return leans

    def cells(self, expected: Floats, home: Integers) -> Floats:
        """Return the expected number of pairs of each feature and label.

        Args:
            expected: The expected number of pairs of each feature.
            home: The label to which each feature leans.
        """
        leans = self.leans(expected, home)
        cells: Floats = (expected * (1 - leans))[:, None] * self.shares()
        cells[np.arange(len(expected)), home] += expected * leans
        return cells


def read_hints(text: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Read the text ``NAME=NUMBER,...``, with each name at most once and ``units`` among them.

    Args:
        text: The hints.
        known: The names that are accepted.

    Raises:
        InputError: A name is unknown or given twice, a number is missing, or there are no ``units``.

    >>> read_hints("units=10e6,labels=22", SUGGESTING)
    {'units': 10000000, 'labels': 22}
    """
    found: dict[str, Any] = {}
    example = _example(known)
    for part in text.split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        if name not in known or not number:
            raise InputError(f"Hints are {', '.join(known)}, each with =NUMBER; got {part.strip()!r}.", hint=example)
        if name in found:
            raise InputError(f"The hint {name} is given twice.", hint=example)
        found[name] = _number(name, number, example)
    if "units" not in found:
        raise InputError("The hint units is missing: how many units there are, about.", hint=example)
    return found


def _example(known: tuple[str, ...], more: str = "") -> Hint:
    """Return hints to type, for `suggest` or for a simulation."""
    option, text = (
        ("suggest", "labels=20,pairs_per_unit=40") if known == SUGGESTING else ("simulate", "zipf=1.1,labels=20")
    )
    return Hint(python=f"units=1e6,{text}{more}", cli=f"--{option} units=1e6,{text}{more}")


def _number(name: str, text: str, example: Hint) -> float | int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"The hint {name} needs a number, got {text!r}.", hint=example)
    return int(value) if name in _COUNTS and value == int(value) else value


def label_shares(labels: int) -> Floats:
    """Return the part of all pairs that each of a number of labels has, largest first.

    >>> label_shares(4).round(3).tolist()
    [0.359, 0.254, 0.207, 0.18]
    """
    weights = np.arange(1, labels + 1, dtype=np.float64) ** -SKEW
    found: Floats = weights / weights.sum()
    return found


def suggest(
    plan: type[Plan], budget: Budget, *, units: int, pairs_per_unit: float, labels: int, options: dict[str, Any]
) -> Plan:
    """Choose a plan; see `Plan.suggest`."""
    for name, count in (("units", units), ("labels", labels)):
        check_count(name, count, most=LONGEST_LIST, hint=f"{name}=20")
    if budget.delta * units > 1:
        epsilon, delta = f"{float(budget.epsilon):g}", f"{10 ** (-math.ceil(math.log10(units) + 1)):g}"
        raise InputError(
            f"delta={float(budget.delta):g} is too large for {units} units: it should be at most {1 / units:g}, better far less.",
            hint=Hint(python=f"Budget(epsilon={epsilon}, delta={delta})", cli=f"--epsilon {epsilon} --delta {delta}"),
        )
    bounds = options.pop("bounds", None) or suggested_bounds(pairs_per_unit)
    if pairs_per_unit > 1 and labels <= _FEW_LABELS and not _DECIDING & options.keys():
        options["complete"] = True
    found = _with_noise(
        plan, budget, bounds, units=units, pairs_per_unit=pairs_per_unit, labels=labels, options=options
    )
    if pairs_per_unit > 1 or bounds.pairs > 1 or (_DECIDING | {"shares", "sample_rate"}) & options.keys():
        return found
    return _or_grid(found, units, labels if found.public_labels is None else len(found.public_labels))


def suggested_bounds(pairs_per_unit: float) -> Bounds:
    """Choose how many pairs of one unit count in full: half of what a usual unit has.

    A unit with more than K pairs keeps all of them at a lower weight. Noise grows with K as fast as that weight does, so a
    smaller K costs a usual unit nothing and limits heavier units more. Half was the best choice, or within 0.01 of the best
    overlap, on three data sets: docs/decisions/suggestions.md.

    >>> suggested_bounds(92).pairs, suggested_bounds(1).pairs
    (46, 1)
    """
    if isinstance(pairs_per_unit, bool) or not (math.isfinite(pairs_per_unit) and 1 <= pairs_per_unit <= 10**6):
        raise InputError(
            f"pairs_per_unit must be a number from 1 to 1000000, got pairs_per_unit={pairs_per_unit!r}.",
            hint="how many (feature, label) pairs a usual unit has: pairs_per_unit=40",
        )
    return Bounds(pairs=max(1, math.ceil(pairs_per_unit / 2)))


def _with_noise(
    plan: type[Plan],
    budget: Budget,
    bounds: Bounds,
    *,
    units: int,
    pairs_per_unit: float,
    labels: int,
    options: dict[str, Any],
) -> Plan:
    """Choose the noise, for units that have a usual number of pairs."""
    if "mechanism" in options or budget.delta == 0 or options.get("selection") is not None:
        return plan(budget=budget, bounds=bounds, **options)
    laplace, gaussian = (
        plan(budget=budget, bounds=bounds, mechanism=name, **options) for name in ("laplace", "gaussian")
    )
    total = units * pairs_per_unit
    return better_noise(laplace, gaussian, total=total, labels=labels, pairs_per_unit=pairs_per_unit)


def better_noise(laplace: Plan, gaussian: Plan, *, total: float, pairs_per_unit: float, labels: int = _LABELS) -> Plan:
    """Choose between two plans by their noise, for units of the usual weight.

    A unit with more than K pairs counts for less than one, and for less with Laplace noise than with Gaussian noise.

    Args:
        laplace: A plan with Laplace noise.
        gaussian: The same with Gaussian noise.
        total: How many pairs all units have together.
        pairs_per_unit: How many pairs a usual unit has.
        labels: How many labels there are.
    """
    usual = max(1, round(pairs_per_unit))
    laplace_badness, gaussian_badness = (one.calibration.badness_for(usual) for one in (laplace, gaussian))
    if expected_sum(total, labels) >= _FAR * max(laplace_badness[0], gaussian_badness[0]):
        # Both release the best pairs, so the one with less noise ranks them better.
        return laplace if laplace_badness[1] <= gaussian_badness[1] else gaussian
    return laplace if laplace_badness <= gaussian_badness else gaussian


def expected_sum(total: float, labels: int) -> float:
    """Return the expected count of the 1,000th largest pair, if features follow Zipf's law and no feature leans.

    >>> expected_sum(1e6, 20) > expected_sum(1e6, 500)
    True
    """
    features = np.arange(1, 100_001, dtype=np.float64)
    common = (total / np.sum(1 / features)) / features[:_DEEP]
    sums = np.sort((common[:, None] * label_shares(labels)).ravel())
    return float(sums[-min(_DEEP, len(sums))])


def _or_grid(found: Plan, units: int, labels: int) -> Plan:
    """Choose a grid if a threshold on pairs would suppress more than a tenth of the best pairs, and a grid would not.

    A feature's total is larger than the sum of any of its pairs, so more features reach a threshold by their totals; all of
    their pairs are then released. If the threshold on pairs suppresses less, its list is shorter and no worse.
    """
    if not 1 < labels <= _LABELS_OF_GRIDS or found.mechanism_name != "laplace" or found.thresholded != ("pairs",):
        return found
    grid = replace(found, grid=True, mechanism="laplace", shares=_FINDING_FEATURES[found.known_labels is not None])
    by_pairs, by_features = (one.calibration.threshold_in_units for one in (found, grid))
    best = Best.expected(Hints(units=min(units, MOST["units"]), labels=labels, lean=LEAN))
    helps = best.part(best.joint, by_pairs) < _MOST_SHOWN <= best.part(best.feature, by_features)
    return grid if helps and best.rows(by_features) <= _LONGEST else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Best:
    """The expected best pairs of data of a declared shape."""

    joint: Floats
    """How many units each of the best pairs has."""
    feature: Floats
    """How many units its feature has."""
    features: Floats
    """How many units each feature has, also those without a pair among the best."""
    labels: int
    """How many labels there are."""

    @classmethod
    def expected(cls, hints: Hints) -> Best:
        """Compute them from hints alone."""
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
        """Return the part of the best pairs whose sums reach a threshold."""
        return float(np.mean(sums >= threshold))

    def rows(self, threshold: float) -> int:
        """Return the number of pairs of a grid whose features reach a threshold."""
        return self.labels * int(np.sum(self.features >= threshold))
