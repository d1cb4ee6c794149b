"""The plan of a release, made before any row is read: budget, bounds, noise, thresholds and SQL. Making one is free."""

from __future__ import annotations

import hashlib
import json
from dataclasses import InitVar, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ddpmi._typing import TABLES
from ddpmi.errors import Hint, InputError
from ddpmi.pipeline import aggregates, contributions, selection
from ddpmi.pipeline.bounds import Bounds, check_units_clip, key_list
from ddpmi.pipeline.dialects import DUCKDB, Dialect
from ddpmi.pipeline.steps import Step, render
from ddpmi.planning.calibration import Calibration, MechanismName, Scheme, calibrate
from ddpmi.privacy.accounting import amplified_cost, checked_rate, inner_budget
from ddpmi.privacy.budget import Budget, exact_decimal, shortest
from ddpmi.text import html_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.privacy.accounting import Cost


PLAN_FORMAT = 1
DEFAULT_DELTA = "1e-8"
"""Delta where none is given. It suits up to some ten million units."""
#: Fields added after the first version, with the value that older plans have. Older receipts can be read, and plans with
#: false values keep their digest.
_LATER: dict[str, Any] = {"complete": False, "weighted": False}
#: The tables that count whole units in older plans with space="units".
_COUNTING = ("labels", "total")
_CHOICES = {
    "mechanism": ("auto", "laplace", "gaussian"),
    "thresholds": ("pairs", "every"),
    "distinct": (False, True, "units"),
    "marginals": ("measured", "other"),
    "space": ("units", "events", None),
    "weighted": (None, False, True),
    "selection": (None, "set_union", "sips"),
    "grid": (False, True),
    "complete": (False, True),
    "row_local": (False, True),
}
#: Hundredths for pairs, features, labels and total. Measured: docs/decisions/shares.md.
_DEFAULTS = {"laplace": (65, 30, 4, 1), "gaussian": (85, 10, 4, 1)}
#: Likewise where labels have a threshold of their own before any pair is drawn.
_FINDING_LABELS = {"laplace": (60, 30, 9, 1), "gaussian": (75, 17, 7, 1)}
SELECTION_SHARE = Fraction(10, 100)
"""The share of a selection. It was the best of 0.05, 0.1, 0.2 and 0.3 on words by years; the other shares are scaled down."""
_SHARES_HINT = Hint(
    python="shares={'pairs': 0.85, 'features': 0.1, 'labels': 0.04, 'total': 0.01}, or leave shares out",
    cli="--shares pairs=0.85,features=0.1,labels=0.04,total=0.01, or leave --shares out",
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a release, and what follows from them.

    ``Plan(epsilon=1, pairs=50)`` is the short form of ``Plan(budget=Budget(1, 1e-8), bounds=Bounds(pairs=50))``.

    >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=50))
    >>> plan == Plan(epsilon=1, delta=1e-7, pairs=50)
    True
    >>> plan.mechanism_name
    'gaussian'
    >>> Plan.from_dict(plan.to_dict()) == plan
    True
    """

    budget: Budget = None  # type: ignore[assignment]
    """The guarantee of this release. ``epsilon=1, delta=1e-7`` may be given in its place; delta is then 1e-8 by default."""
    bounds: Bounds = None  # type: ignore[assignment]
    """How much one unit may change. The fields of `Bounds` may be given in its place: ``pairs=50``."""
    epsilon: InitVar[Any] = None
    delta: InitVar[Any] = None
    pairs: InitVar[Any] = None
    clip: InitVar[Any] = None
    labels: InitVar[Any] = None
    cap: InitVar[Any] = None
    mechanism: Literal["auto", "laplace", "gaussian"] = "auto"
    """The noise. "auto" takes the one with the lower threshold or, without a threshold, the one with less noise; the plan
    then stores its name."""
    shares: Mapping[str, Any] | None = None
    """Parts of the budget for pairs, features, labels and total; they sum to 1. None means the default of the mechanism, which
    was measured. With ``selection`` there is a share of that name too; by default it is 0.1, and the others are scaled down."""
    distinct: contributions.Distinct = False
    """What the owner of the data declares about duplicates. True or "units" saves work; the guarantee is void if it is false."""
    row_local: bool = False
    """The owner declares that each row of a query or view depends on one unit's records alone."""
    public_labels: tuple[str, ...] | None = None
    """Labels known beforehand: all of them are released, and rows of others are dropped. Never computed from these data."""
    public_features: tuple[str, ...] | None = None
    """Features known beforehand, likewise."""
    labels_only: tuple[str, ...] | None = None
    """Rank only these labels, each against everybody else, who still count in the totals."""
    grid: bool = False
    """Select features and labels that are not known beforehand by their totals, and release every pair of them, zeros too."""
    marginals: Literal["measured", "other"] = "measured"
    """Measure totals over all pairs, or measure the sum of suppressed pairs and add it to the released ones."""
    space: Literal["events", "units"] | None = None
    """Count units, each by one weight in its pairs, features, labels and the total, or count events (the paper). None counts
    events where values are counted (a ``clip``) and with ``marginals="other"``, and units otherwise. The plan stores which."""
    selection: Literal["set_union", "sips"] | None = None
    """Find the features that exist by a private set union first, in one round or in three, and drop all others."""
    sample_rate: Any = None
    """Let each unit take part with this probability, by a secret coin. The budget is the cost of the whole release."""
    thresholds: Literal["pairs", "every"] = "pairs"
    """Which tables have a threshold: pairs only, or features and labels too (the paper)."""
    complete: bool = False
    """Also release all other pairs of the features and labels that have a pair above the threshold, zeros too. It costs no
    budget: their keys are already released, and their noise is part of the cost of pairs."""
    weighted: bool | None = None
    """Whether a unit that is counted adds its weight to its labels and to the total. Never given: only plans that an older
    version made say False. They can be read, not released. None where events are counted."""

    def __post_init__(self, epsilon: Any, delta: Any, pairs: Any, clip: Any, labels: Any, cap: Any) -> None:
        named = {"pairs": pairs, "clip": clip, "labels": labels, "cap": cap}
        object.__setattr__(self, "budget", _short_budget(self.budget, epsilon, delta))
        object.__setattr__(self, "bounds", _short_bounds(self.bounds, named))
        if not isinstance(self.budget, Budget) or not isinstance(self.bounds, Bounds):
            raise InputError(
                "A plan takes a Budget and Bounds, or epsilon and pairs.",
                hint=Hint(
                    python="Plan(epsilon=1, delta=1e-7, pairs=50)",
                    cli="--epsilon 1 --delta 1e-7 --pairs 50",
                ),
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                listed = ", ".join(repr(choice) for choice in choices)
                raise InputError(
                    f"{name} must be one of {listed}, got {name}={getattr(self, name)!r}.",
                    hint=Hint(
                        do="leave it out for the default",
                        python=f"{name}={choices[0]!r}",
                        cli=f"--{name.replace('_', '-')} {choices[0]}",
                    ),
                )
            # 1 equals True and is stored as True, so that equal plans have equal digests.
            object.__setattr__(self, name, choices[choices.index(getattr(self, name))])
        for name in ("public_labels", "public_features", "labels_only"):
            object.__setattr__(self, name, key_list(getattr(self, name), name))
        object.__setattr__(self, "sample_rate", checked_rate(self.sample_rate))
        check_combination(self)
        self._choose_space()
        chosen = self.calibration  # it refuses parameters that could not run later
        # The plan stores and compares what it will do, so that it does not depend on the defaults of a version.
        object.__setattr__(self, "shares", self._shares_for(chosen.name))
        object.__setattr__(self, "mechanism", chosen.name)

    def _choose_space(self) -> None:
        """Store what is counted, and whether values were to be ignored for it."""
        object.__setattr__(self, "_ignores_values", self.space == "units")
        if self.space is None:
            events = self.bounds.clip is not None or self.marginals == "other"
            object.__setattr__(self, "space", "events" if events else "units")
        object.__setattr__(self, "weighted", None if self.space == "events" else self.weighted is not False)

    @property
    def ignores_values(self) -> bool:
        """Whether it was said that units are counted, so that a value column is ignored."""
        return bool(self.__dict__["_ignores_values"])

    @classmethod
    def paper(cls, *, budget: Budget, bounds: Bounds, **options: Any) -> Plan:
        """Make a plan as in the paper, as a baseline. It is private and charged like any other plan.

        Events are counted, heavy units are sampled, noise is Laplace, every table gets the same part of epsilon, and features
        and labels have thresholds too. Rank its releases with ``method="paper"``.

        Args:
            budget: The guarantee.
            bounds: How much one unit may change; its strategy is replaced by "sample".
            options: Other fields of a plan, such as ``distinct``.

        >>> plan = Plan.paper(budget=Budget(1, 1e-7), bounds=Bounds(pairs=50))
        >>> plan.mechanism, plan.bounds.strategy, plan.thresholds, float(plan.shares["pairs"])
        ('laplace', 'sample', 'every', 0.25)
        """
        paper = {"mechanism": "laplace", "shares": equal_shares(), "thresholds": "every", "space": "events"}
        sampled = replace(bounds, strategy="sample", cap=0)
        return cls(budget=budget, bounds=sampled, **(paper | options))

    @classmethod
    def suggest(
        cls, *, budget: Budget, units: int, pairs_per_unit: float = 1, labels: int = 20, **options: Any
    ) -> Plan:
        """Choose a plan from what is publicly known about the data, which is not read.

        Half of a usual unit's pairs count in full; heavier units are scaled. The noise is the one with the lower threshold or,
        where the best pairs are far above both thresholds, the one with the smaller deviation. If units have several pairs and
        there are at most 1,000 labels, the release is completed (``complete``). If units have one pair and there are at most
        200 labels, features are selected by their totals (``grid``) where a threshold on pairs would suppress more than a tenth
        of the best pairs and a grid would not. Given options that decide what is released or divide the budget are kept.

        Args:
            budget: The guarantee; delta must be at most one over the number of units.
            units: How many units there are, about.
            pairs_per_unit: How many (feature, label) pairs a usual unit has.
            labels: How many labels there are, about.
            options: Fields of a plan that are not to be chosen, such as ``bounds`` or ``distinct``.

        >>> Plan.suggest(budget=Budget(1, 1e-7), units=200_000, pairs_per_unit=92, labels=31).bounds.pairs
        46
        """
        from ddpmi.planning.suggest import suggest

        return suggest(cls, budget, units=units, pairs_per_unit=pairs_per_unit, labels=labels, options=options)

    @cached_property
    def calibration(self) -> Calibration:
        """The chosen mechanism with its scales and thresholds."""
        if self.mechanism != "auto":
            return self._calibrated(self.mechanism)
        if self.selection is not None:
            return self._calibrated("gaussian")
        laplace = self._calibrated("laplace")
        if self.budget.delta == 0:
            return laplace
        gaussian = self._calibrated("gaussian")
        return laplace if laplace.badness <= gaussian.badness else gaussian

    def _shares_for(self, name: MechanismName) -> dict[str, Fraction]:
        found = self.grid and "labels" in self.unknown
        given = default_shares(name, finding_labels=found) if self.shares is None else self.shares
        return checked_shares(given, selecting=self.selection is not None)

    def _calibrated(self, name: MechanismName) -> Calibration:
        scheme = Scheme(
            distinct=self.distinct,
            public=tuple(
                key for key, keys in (("feature", self.public_features), ("label", self.public_labels)) if keys
            ),
            units=self.space == "units",
            weighted=bool(self.weighted),
            thresholded=self.thresholded,
            bounded=self.thresholds != "every",
            rounds=selection.ROUNDS[self.selection],
            sample_rate=self.sample_rate,
        )
        return calibrate(self.inner_budget, self.bounds, self._shares_for(name), name=name, scheme=scheme)

    @cached_property
    def inner_budget(self) -> Budget:
        """The budget that the noise is made for: that of the sample if units are sampled, otherwise the budget itself."""
        return self.budget if self.sample_rate is None else inner_budget(self.budget, self.sample_rate)

    @property
    def known_labels(self) -> tuple[str, ...] | None:
        """Labels released even if no row has them; None if labels come from the released pairs."""
        return self.labels_only if self.labels_only is not None else self.public_labels

    @property
    def unknown(self) -> tuple[str, ...]:
        """The margins whose keys are not known before the release: features, labels."""
        known = {
            "features": self.public_features is not None or self.selection is not None,
            "labels": self.known_labels is not None,
        }
        return tuple(table for table, is_known in known.items() if not is_known)

    @property
    def thresholded(self) -> tuple[str, ...]:
        """The tables in which a key has to reach a threshold to be released."""
        if self.thresholds == "every":
            return ("pairs", "features", "labels")
        if self.grid:
            return self.unknown
        return ("pairs",) if self.unknown else ()

    @property
    def mechanism_name(self) -> MechanismName:
        """The mechanism in use: "laplace" or "gaussian"."""
        return self.calibration.name

    @property
    def cost(self) -> Cost:
        """The cost that the ledger is charged."""
        if self.sample_rate is None:
            return self.calibration.cost
        pure = self.mechanism_name == "laplace" and self.calibration.threshold_delta == 0
        return amplified_cost(self.budget, pure=pure)

    @property
    def threshold_delta(self) -> Fraction:
        """The probability, at most, that a key which one unit alone has is released."""
        return self.calibration.threshold_delta * (self.sample_rate or 1)

    @property
    def step(self) -> Fraction:
        """One grid step of a released pair in the value's own units, divided by the sample rate."""
        return self.bounds.step / (1 << self.calibration.bounding.g) / (self.sample_rate or 1)

    def step_of(self, table: str) -> Fraction:
        """Return one grid step of a released table; in older plans with ``space="units"`` labels and total count whole units."""
        whole = self.space == "units" and not self.weighted and table in _COUNTING
        return 1 / (self.sample_rate or Fraction(1)) if whole else self.step

    @property
    def sums(self) -> tuple[object, ...]:
        """The parameters that the exact sums depend on. Plans with equal ones can be released from one pass over the data.

        The value of a plan that samples units or selects features equals no other, not even its own: releases that
        share coins or selected features are not independent, and their costs would not add up.
        """
        # proof: amplification.fresh
        own = object() if self.sample_rate is not None or self.selection is not None else None
        counted = (self.space, self.weighted)
        return self.calibration.bounding, self.public_labels, self.public_features, self.labels_only, counted, own

    @property
    def relies_on(self) -> list[str]:
        """The declarations of the owner on which the guarantee relies."""
        found = []
        if self.distinct == "units":
            found.append("The owner declares that the data has at most one row per unit.")
        elif self.distinct:
            found.append("The owner declares that rows are distinct per (unit, feature, label), keys compared as text.")
        if self.row_local:
            found.append("The owner declares that each row depends on one unit's records and public tables alone.")
        if self.public_labels or self.public_features:
            found.append("The owner declares that the public lists were not computed from these data.")
        return found

    def steps(
        self,
        dialect: Dialect = DUCKDB,
        *,
        merged_keys: bool = False,
        counted: bool = False,
        enforced: bool = False,
    ) -> list[Step]:
        """Return the SQL from ``rows`` to the exact sums: the steps of all `phases` in one list."""
        phases = self.phases(dialect, merged_keys=merged_keys, counted=counted, enforced=enforced)
        return [step for phase in phases for step in phase]

    def phases(
        self,
        dialect: Dialect = DUCKDB,
        *,
        merged_keys: bool = False,
        counted: bool = False,
        enforced: bool = False,
    ) -> list[list[Step]]:
        """Return the SQL from ``rows`` to the exact sums, one list for each round of selection and one for all later steps.

        After the steps of round n, noise is added to ``weights_n``, and the features released so far become ``released_n``.

        Args:
            dialect: The engine's spelling.
            merged_keys: Whether features or labels come from expressions, so that distinct rows may have become equal.
            counted: Whether rows are counts of units with one row each.
            enforced: Whether the database keeps no two rows of a (unit, feature, label). Then nothing has to merge them.
        """
        check_counting(self)
        if counted:
            check_counts(self)
        bounding = replace(self.calibration.bounding, counted=counted)
        if merged_keys and bounding.distinct is True:
            bounding = replace(bounding, distinct=False)
        elif enforced and not bounding.distinct:
            # proof: bounding.enforced
            bounding = replace(bounding, distinct=True)
        rounds = [selection.steps(bounding, dialect, number) for number in range(1, bounding.rounds + 1)]
        last = [
            *contributions.bounded_steps(bounding, dialect),
            aggregates.joint(bounding, dialect, self.labels_only),
            *(aggregates.unit_sums(bounding, dialect) if self.space == "units" else []),
        ]
        first, *rest = [*rounds, last]
        return [[*contributions.member_steps(bounding, dialect), *first], *rest]

    def explain(
        self,
        dialect: Dialect = DUCKDB,
        *,
        encoding: str | None = "",
        sql: bool = False,
        pairs_per_unit: float | None = None,
    ) -> str:
        """Describe guarantee, bounds, noise, thresholds and cost as text. It reads nothing and costs nothing.

        Args:
            dialect: The engine's spelling.
            encoding: How text files are read; None for data that has no encoding to choose, empty if no data is named.
            sql: Add the SQL that will run, from the observed rows to the sums that noise is added to.
            pairs_per_unit: How many pairs a usual unit has, from public knowledge: what will be visible depends on it.
        """
        from ddpmi.planning.explain import explain

        steps = self.steps(dialect) if sql else None
        return explain(self, dialect, steps=steps, encoding=encoding, pairs_per_unit=pairs_per_unit)

    def _repr_html_(self) -> str:
        return html_lines(self.explain())

    def sql(self, dialect: Dialect = DUCKDB) -> str:
        """Return the SQL as one text."""
        return render(self.steps(dialect))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` restores exactly."""
        plain = {
            entry.name: list(value) if isinstance(value := getattr(self, entry.name), tuple) else value
            for entry in fields(self)
        }
        return plain | {
            "format": PLAN_FORMAT,
            "budget": {"epsilon": _exact(self.budget.epsilon), "delta": _exact(self.budget.delta)},
            "bounds": self.bounds.to_dict(),
            "shares": {table: _exact(share) for table, share in (self.shares or {}).items()},
            "sample_rate": None if self.sample_rate is None else _exact(self.sample_rate),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Restore what `to_dict` returned.

        Raises:
            InputError: The values have another format or are incomplete.
        """
        if values.get("format") != PLAN_FORMAT:
            raise InputError(
                f"This version reads plans of format {PLAN_FORMAT}, got format={values.get('format')!r}.",
                hint="pip install --upgrade ddpmi",
            )
        try:
            given = {entry.name: {**_LATER, **values}[entry.name] for entry in fields(cls)}
            given["budget"] = Budget(values["budget"]["epsilon"], values["budget"]["delta"])
            given["bounds"] = Bounds.from_dict(values["bounds"])
        except KeyError as error:
            raise InputError(
                f"The plan lacks {error}.", hint="pass to Plan.from_dict what Plan.to_dict returned"
            ) from error
        return cls(**given)

    @property
    def digest(self) -> str:
        """A hash of all parameters, the same for equal plans."""
        values = {name: value for name, value in self.to_dict().items() if name not in _LATER or value}
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def _short_budget(budget: Any, epsilon: Any, delta: Any) -> Any:
    """Return the budget, or make it of an epsilon and a delta."""
    if epsilon is None and delta is None:
        return budget
    if budget is not None or epsilon is None:
        raise InputError(
            "A plan takes a budget, or an epsilon with a delta.", hint=Hint(python="Plan(epsilon=1, pairs=50)")
        )
    return Budget(epsilon, DEFAULT_DELTA if delta is None else delta)


def _short_bounds(bounds: Any, named: Mapping[str, Any]) -> Any:
    """Return the bounds, or make them of their fields."""
    given = {name: value for name, value in named.items() if value is not None}
    if not given:
        return bounds
    if bounds is not None or "pairs" not in given:
        raise InputError(
            "A plan takes bounds, or pairs with clip, labels and cap.", hint=Hint(python="Plan(epsilon=1, pairs=50)")
        )
    return Bounds(**given)


def _exact(number: Fraction) -> str:
    """Write a fraction as a decimal if that is exact, otherwise as a fraction."""
    text = shortest(number)
    return text if exact_decimal(text, "number") == number else str(number)


def check_combination(plan: Plan) -> None:
    """Refuse options that contradict each other.

    Raises:
        InputError: Two options do; the hint says which to leave out.
    """
    bounds, units = plan.bounds, plan.space == "units"
    check_units_clip(bounds.clip, units=units)
    wrong = [
        (
            plan.distinct == "units" and (bounds.pairs, bounds.labels) != (1, 1),
            f"distinct='units' means one row per unit, got pairs={bounds.pairs}, labels={bounds.labels}.",
            Hint(python="Bounds(pairs=1)", cli="--pairs 1"),
        ),
        (
            None not in (plan.labels_only, plan.public_labels),
            "labels_only and public_labels were both given.",
            Hint(
                python="choose one: labels_only counts everybody else in the totals, public_labels drops them",
                cli="choose one: --labels-only counts everybody else in the totals, --public-labels drops them",
            ),
        ),
        *_wrong_grid(plan),
        (
            units and plan.marginals == "other",
            "marginals='other' sums events, so it does not go with space='units'.",
            Hint.without("marginals"),
        ),
        (
            plan.thresholds == "every" and _knows_keys(plan),
            "thresholds='every' drops features and labels, so it goes with no list, grid, selection or marginals='other'.",
            Hint.without("thresholds", "keys that are known need no threshold"),
        ),
        *_wrong_completion(plan),
        *_wrong_selection(plan),
    ]
    for is_wrong, message, hint in wrong:
        if is_wrong:
            raise InputError(message, hint=hint)


def _knows_keys(plan: Plan) -> bool:
    lists = (plan.public_labels, plan.public_features, plan.labels_only, plan.selection)
    return plan.grid or plan.marginals == "other" or any(given is not None for given in lists)


def _wrong_grid(plan: Plan) -> list[tuple[bool, str, Hint]]:
    return [
        (
            plan.grid and not plan.unknown,
            "grid=True selects features and labels by their totals, but both are known beforehand.",
            Hint.without("grid", "every pair of known keys is released"),
        ),
        (
            plan.grid and plan.marginals == "other",
            "grid=True measures the margins themselves, so marginals='other' has nothing to add.",
            Hint.without("marginals"),
        ),
    ]


def _wrong_completion(plan: Plan) -> list[tuple[bool, str, Hint]]:
    return [
        (
            plan.complete and plan.thresholds == "every",
            "complete=True releases pairs of features and labels that thresholds='every' drops.",
            Hint.without("complete"),
        ),
        (
            plan.complete and plan.marginals == "other",
            "complete=True releases the pairs whose sum marginals='other' would measure.",
            Hint.without("marginals"),
        ),
        (
            plan.complete and "pairs" not in plan.thresholded,
            "complete=True adds to the pairs above a threshold, but pairs of this plan have no threshold.",
            Hint.without("complete", "every pair of known or selected keys is released"),
        ),
    ]


def _wrong_selection(plan: Plan) -> list[tuple[bool, str, Hint]]:
    chosen = plan.selection is not None
    return [
        (
            chosen and plan.mechanism == "laplace",
            f"selection={plan.selection!r} adds Gaussian noise, got mechanism='laplace'.",
            Hint.without("mechanism"),
        ),
        (
            chosen and plan.public_features is not None,
            f"selection={plan.selection!r} finds the features, but public_features already lists them.",
            Hint.without("selection", "listed features need no budget"),
        ),
    ]


def check_counting(plan: Plan) -> None:
    """Refuse a plan of an older version that counts units: its noise is too little for the sums of today.

    Raises:
        InputError: It counts a unit in labels and in the total without its weight.
    """
    # proof: units.population
    if plan.space == "units" and not plan.weighted:
        raise InputError(
            "This plan counts units as an older version did, so it describes its release and cannot be released again.",
            hint=Hint(python="Plan(..., space='units') without weighted=False", cli="--space units"),
        )


def check_counts(plan: Plan) -> None:
    """Refuse a plan that does not fit rows of counts, which have no unit and count each unit in one row.

    Raises:
        InputError: It does not declare one row per unit, or it needs units to sample or to select by.
    """
    if plan.distinct != "units":
        raise InputError(
            "Counts are of units with one row each, and the plan must declare that.",
            hint=Hint(python="Plan(..., bounds=Bounds(pairs=1), distinct='units')", cli="--pairs 1 --distinct=units"),
        )
    if plan.sample_rate is not None or plan.selection is not None:
        raise InputError(
            "Counts have no units to sample or to select features by.",
            hint=Hint(
                python="leave sample_rate and selection out, or observe the rows themselves",
                cli="leave --sample-rate and --selection out, or read the rows themselves",
            ),
        )


def default_shares(mechanism: MechanismName, *, finding_labels: bool = False) -> dict[str, Fraction]:
    """Return the default part of the budget of each table.

    Args:
        mechanism: The noise.
        finding_labels: Whether a grid selects labels by their totals.

    >>> {table: float(share) for table, share in default_shares("gaussian").items()}
    {'pairs': 0.85, 'features': 0.1, 'labels': 0.04, 'total': 0.01}
    """
    parts = (_FINDING_LABELS if finding_labels else _DEFAULTS)[mechanism]
    return {table: Fraction(part, 100) for table, part in zip(TABLES, parts, strict=True)}


def equal_shares() -> dict[str, Fraction]:
    """Return the same part of the budget for every table, as the paper divides it.

    >>> set(equal_shares().values())
    {Fraction(1, 4)}
    """
    return {table: Fraction(1, len(TABLES)) for table in TABLES}


def checked_shares(shares: Mapping[str, Any], *, selecting: bool) -> dict[str, Fraction]:
    """Read shares as exact fractions, and add the share of a selection if it is missing.

    Args:
        shares: A part for each table, and one named "selection" where features are selected first.
        selecting: Whether features are selected first. A missing share of it is 0.1, and the others are scaled down.

    Raises:
        InputError: The names are wrong, or the parts are not positive or do not sum to 1.

    >>> checked_shares({"pairs": 0.7, "features": 0.2, "labels": 0.05, "total": 0.05}, selecting=False)["pairs"]
    Fraction(7, 10)
    """
    given = shares if hasattr(shares, "items") else {}
    names = (*TABLES, "selection") if selecting and "selection" in given else TABLES
    if set(given) != set(names):
        raise InputError(
            f"shares must name {', '.join(names)}, got {sorted(shares) if hasattr(shares, 'items') else shares!r}.",
            hint=_SHARES_HINT,
        )
    exact = {table: exact_decimal(shares[table], f"the share of {table}") for table in names}
    if any(share <= 0 for share in exact.values()) or sum(exact.values()) != 1:
        raise InputError(
            f"shares must be positive and sum to 1, got {', '.join(f'{t}={shortest(s)}' for t, s in exact.items())}.",
            hint=_SHARES_HINT,
        )
    if selecting and "selection" not in exact:
        exact = {table: share * (1 - SELECTION_SHARE) for table, share in exact.items()}
        exact["selection"] = SELECTION_SHARE
    return exact
