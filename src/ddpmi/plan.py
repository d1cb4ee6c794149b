"""A release, decided before any row is read: budget, bounds, noise, thresholds and SQL. Making one is free."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ddpmi import aggregates, contributions, selection
from ddpmi.amplification import amplified_cost, checked_rate, inner_budget
from ddpmi.budget import Budget, exact_decimal, shortest
from ddpmi.calibration import Calibration, MechanismName, Scheme, calibrate
from ddpmi.combinations import check_combination
from ddpmi.errors import InputError
from ddpmi.shares import checked_shares, default_shares, equal_shares
from ddpmi.spec import Bounds, key_list
from ddpmi.statements import DUCKDB, Dialect, Step, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.accounting import Cost

PLAN_FORMAT = 1
#: Fields that came later, and what was done before: receipts of that time can be read, and equal plans keep their digest.
_LATER: dict[str, Any] = {"complete": False}
#: The tables that count whole units in units space.
_COUNTING = ("labels", "total")
_CHOICES = {
    "mechanism": ("auto", "laplace", "gaussian"),
    "thresholds": ("pairs", "every"),
    "distinct": (False, True, "units"),
    "marginals": ("measured", "other"),
    "space": ("events", "units"),
    "selection": (None, "set_union", "sips"),
    "grid": (False, True),
    "complete": (False, True),
    "row_local": (False, True),
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a release will do and cost.

    >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=50))
    >>> plan.mechanism_name
    'gaussian'
    >>> Plan.from_dict(plan.to_dict()) == plan
    True
    """

    budget: Budget
    """The guarantee of this release."""
    bounds: Bounds
    """How much one unit may change."""
    mechanism: Literal["auto", "laplace", "gaussian"] = "auto"
    """The noise; "auto" takes the one with the lower threshold, or with less noise where nothing is thresholded, and
    the plan then holds its name."""
    shares: Mapping[str, Any] | None = None
    """Parts of the budget for pairs, features, labels and total; they sum to 1. None means what was measured to be good for
    the mechanism. With ``selection`` there is one more of that name; left out it is 0.1, and the others make room."""
    distinct: contributions.Distinct = False
    """What the data's owner declares about duplicates: True or "units" skips work, and is void if false."""
    row_local: bool = False
    """The owner's word that each row of a query or view depends on one unit's records alone."""
    public_labels: tuple[str, ...] | None = None
    """Labels known beforehand: all of them appear, others vanish. Never computed from these data."""
    public_features: tuple[str, ...] | None = None
    """Features known beforehand, likewise."""
    labels_only: tuple[str, ...] | None = None
    """Rank these labels alone, each against everybody else, who still count in the totals."""
    grid: bool = False
    """Select features and labels that are not known beforehand by their totals, and release every pair of them, zeros too."""
    marginals: Literal["measured", "other"] = "measured"
    """Measure totals over all pairs, or measure what was dropped and add it to the released pairs."""
    space: Literal["events", "units"] = "events"
    """Count events (the paper), or count units, each once in its label and in the total."""
    selection: Literal["set_union", "sips"] | None = None
    """Find the features that exist by a private set union first, in one round or in three, and drop all others."""
    sample_rate: Any = None
    """Let each unit take part with this probability, by a secret coin; the budget is what the release costs then."""
    thresholds: Literal["pairs", "every"] = "pairs"
    """Which tables have to reach a threshold: pairs alone, or features and labels once more (the paper)."""
    complete: bool = False
    """Show all other pairs of the features and labels that have a pair above the threshold too, zeros as well. It costs
    nothing: their keys are public by then, and their noise is part of what the pairs paid for."""

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget) or not isinstance(self.bounds, Bounds):
            raise InputError(
                "A plan takes a Budget and Bounds.",
                hint="Plan(budget=Budget(epsilon=1, delta=1e-7), bounds=Bounds(pairs=50))",
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                listed = ", ".join(repr(choice) for choice in choices)
                raise InputError(
                    f"{name} must be one of {listed}, got {name}={getattr(self, name)!r}.",
                    hint=f"leave it out for the default, {name}={choices[0]!r}",
                )
            # 1 equals True, and is stored as True: equal plans have equal digests.
            object.__setattr__(self, name, choices[choices.index(getattr(self, name))])
        for name in ("public_labels", "public_features", "labels_only"):
            object.__setattr__(self, name, key_list(getattr(self, name), name))
        object.__setattr__(self, "sample_rate", checked_rate(self.sample_rate))
        check_combination(self)
        chosen = self.calibration  # refuse now what could not run later
        # What is stored and compared says what will be done, whatever the defaults were.
        object.__setattr__(self, "shares", self._shares_for(chosen.name))
        object.__setattr__(self, "mechanism", chosen.name)

    @classmethod
    def paper(cls, *, budget: Budget, bounds: Bounds, **options: Any) -> Plan:
        """Plan as the paper does, as a baseline: private and charged like any other plan.

        Heavy units are sampled, noise is Laplace, every table gets the same part of epsilon, and features and labels have to
        reach a threshold again. Its releases are meant to be ranked with ``method="paper"``.

        Args:
            budget: The guarantee.
            bounds: How much one unit may change; heavy units are sampled whatever its strategy.
            options: Other fields of a plan, such as ``distinct``.

        >>> plan = Plan.paper(budget=Budget(1, 1e-7), bounds=Bounds(pairs=50))
        >>> plan.mechanism, plan.bounds.strategy, plan.thresholds, float(plan.shares["pairs"])
        ('laplace', 'sample', 'every', 0.25)
        """
        ways = {"mechanism": "laplace", "shares": equal_shares(), "thresholds": "every"}
        sampled = replace(bounds, strategy="sample", cap=0)
        return cls(budget=budget, bounds=sampled, **(ways | options))

    @classmethod
    def suggest(
        cls, *, budget: Budget, units: int, pairs_per_unit: float = 1, labels: int = 20, **options: Any
    ) -> Plan:
        """Plan from what is publicly known about the data, which is not read.

        Half of a usual unit's pairs count in full, heavier units are scaled. The noise is the one with the lower threshold;
        where the best pairs are far above both thresholds, the one with the smaller deviation. Where units have several pairs
        and labels are few, up to 1,000, the release is completed; where they have one, labels are up to 200, and a threshold on
        pairs would hide more than a tenth of the best, features are found by their totals (``grid``) if that would show them.
        Options that say what is to be shown, or divide the budget, are kept.

        Args:
            budget: The guarantee; delta must be no more than one over the number of units.
            units: How many units there are, about.
            pairs_per_unit: How many (feature, label) pairs a usual unit has.
            labels: How many labels there are, about.
            options: Fields of a plan that are settled already, such as ``bounds`` or ``distinct``.

        >>> Plan.suggest(budget=Budget(1, 1e-7), units=200_000, pairs_per_unit=92, labels=31).bounds.pairs
        46
        """
        from ddpmi.suggestions import suggest

        return suggest(cls, budget, (units, pairs_per_unit, labels), options)

    @cached_property
    def calibration(self) -> Calibration:
        """The chosen mechanism with its scales and threshold."""
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
            thresholded=self.thresholded,
            bounded=self.thresholds != "every",
            rounds=selection.ROUNDS[self.selection],
            sample_rate=self.sample_rate,
        )
        return calibrate(self.inner_budget, self.bounds, self._shares_for(name), name=name, scheme=scheme)

    @cached_property
    def inner_budget(self) -> Budget:
        """The guarantee of the release for a unit that takes part: the budget itself unless units are sampled."""
        return self.budget if self.sample_rate is None else inner_budget(self.budget, self.sample_rate)

    @property
    def known_labels(self) -> tuple[str, ...] | None:
        """The labels that appear whatever the data; None where they come from the released pairs."""
        return self.labels_only if self.labels_only is not None else self.public_labels

    @property
    def unknown(self) -> tuple[str, ...]:
        """The margins whose keys only the data can tell: features, labels."""
        known = {
            "features": self.public_features is not None or self.selection is not None,
            "labels": self.known_labels is not None,
        }
        return tuple(table for table, is_known in known.items() if not is_known)

    @property
    def thresholded(self) -> tuple[str, ...]:
        """The tables whose keys have to reach a threshold to be shown."""
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
        """What the ledger is charged."""
        if self.sample_rate is None:
            return self.calibration.cost
        pure = self.mechanism_name == "laplace" and self.calibration.threshold_delta == 0
        return amplified_cost(self.budget, pure=pure)

    @property
    def threshold_delta(self) -> Fraction:
        """How often, at most, a release shows a key that one unit alone has."""
        return self.calibration.threshold_delta * (self.sample_rate or 1)

    @property
    def step(self) -> Fraction:
        """One grid step of a released pair in the value's own units, scaled up from the sample to everybody."""
        return self.bounds.step / (1 << self.calibration.bounding.g) / (self.sample_rate or 1)

    def step_of(self, table: str) -> Fraction:
        """One grid step of a released table; labels and total of units space count whole units."""
        return 1 / (self.sample_rate or Fraction(1)) if self.space == "units" and table in _COUNTING else self.step

    @property
    def sums(self) -> tuple[object, ...]:
        """What the exact sums depend on: plans that are equal here can be served by one pass over the data.

        A plan that samples units or selects features equals none, not even itself: coins and vocabularies that two
        releases share are not independent, and costs would not add up.
        """
        # proof: amplification.fresh
        own = object() if self.sample_rate is not None or self.selection is not None else None
        return self.calibration.bounding, self.public_labels, self.public_features, self.labels_only, self.space, own

    @property
    def relies_on(self) -> list[str]:
        """What the guarantee takes on the owner's word."""
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

    def steps(self, dialect: Dialect = DUCKDB, *, merged_keys: bool = False, counted: bool = False) -> list[Step]:
        """Return the SQL from ``rows`` to the exact sums, as `phases` in one list."""
        return [step for phase in self.phases(dialect, merged_keys=merged_keys, counted=counted) for step in phase]

    def phases(
        self, dialect: Dialect = DUCKDB, *, merged_keys: bool = False, counted: bool = False
    ) -> list[list[Step]]:
        """Return the SQL from ``rows`` to the exact sums, one list for each round of selection and one for the rest.

        After a round's list its ``weights_n`` is noised, and the features released so far are put as ``released_n``.

        Args:
            dialect: The engine's spelling.
            merged_keys: Features or labels come from expressions, so distinct rows may have become equal ones.
            counted: Rows are counts of units with one row each.
        """
        if counted and (self.sample_rate is not None or self.selection is not None):
            raise InputError(
                "Counts that were summed beforehand have no unit to toss a coin for or to select features by.",
                hint="leave sample_rate and selection out, or observe the rows themselves",
            )
        bounding = replace(self.calibration.bounding, counted=counted)
        if merged_keys and bounding.distinct is True:
            bounding = replace(bounding, distinct=False)
        rounds = [selection.steps(bounding, dialect, number) for number in range(1, bounding.rounds + 1)]
        last = [
            *contributions.bounded_steps(bounding, dialect),
            aggregates.joint(bounding, dialect, self.labels_only),
            *(aggregates.unit_counts(bounding, dialect) if self.space == "units" else []),
        ]
        first, *rest = [*rounds, last]
        return [[*contributions.member_steps(bounding, dialect), *first], *rest]

    def explain(self, dialect: Dialect = DUCKDB, *, encoding: str | None = "") -> str:
        """Describe shares, noise, thresholds, guarantee and SQL. Reads nothing and costs nothing.

        Args:
            dialect: The engine's spelling.
            encoding: How text files are read; None for data that says so itself, empty where no data is named.
        """
        from ddpmi.explain import explain

        return explain(self, dialect, encoding)

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
            InputError: The values are of a newer format or incomplete.
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
                f"The plan lacks {error}.", hint="Plan.from_dict takes what Plan.to_dict returned"
            ) from error
        return cls(**given)

    @property
    def digest(self) -> str:
        """A hash of all parameters, the same for equal plans."""
        told = {name: value for name, value in self.to_dict().items() if name not in _LATER or value != _LATER[name]}
        canonical = json.dumps(told, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def _exact(number: Fraction) -> str:
    """Write a fraction as a decimal where that is exact."""
    text = shortest(number)
    return text if exact_decimal(text, "number") == number else str(number)
