"""A release, decided before any row is read: budget, bounds, noise, thresholds and SQL. Making one is free."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ddpmi import aggregates, contributions
from ddpmi.budget import Budget, exact_decimal, shortest
from ddpmi.calibration import TABLES, Calibration, MechanismName, calibrate
from ddpmi.errors import InputError
from ddpmi.spec import Bounds
from ddpmi.sql import DUCKDB, Dialect, Step, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.accounting import Cost

PLAN_FORMAT = 1
#: Held up on long and on skewed label lists: most of the rank error comes from the pairs.
DEFAULT_SHARES = {
    "pairs": Fraction(70, 100),
    "features": Fraction(23, 100),
    "labels": Fraction(6, 100),
    "total": Fraction(1, 100),
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
    """The noise; "auto" takes the one with the lower threshold."""
    shares: Mapping[str, Any] = field(default_factory=lambda: dict(DEFAULT_SHARES))
    """Parts of the budget for pairs, features, labels and total; they sum to 1."""
    distinct: contributions.Distinct = False
    """What the data's owner declares about duplicates: True or "units" skips work, and is void if false."""
    row_local: bool = False
    """The owner's word that each row of a query or view depends on one unit's records alone."""

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget) or not isinstance(self.bounds, Bounds):
            raise InputError(
                "A plan takes a Budget and Bounds.",
                hint="Plan(budget=Budget(epsilon=1, delta=1e-7), bounds=Bounds(pairs=50))",
            )
        if self.mechanism not in ("auto", "laplace", "gaussian"):
            raise InputError(
                f"mechanism must be 'auto', 'laplace' or 'gaussian', got mechanism={self.mechanism!r}.",
                hint="leave it out: 'auto' compares both",
            )
        if self.distinct not in (False, True, "units"):
            raise InputError(
                f"distinct must be False, True or 'units', got distinct={self.distinct!r}.", hint="distinct=False"
            )
        if self.distinct == "units" and (self.bounds.pairs, self.bounds.labels) != (1, 1):
            raise InputError(
                f"distinct='units' means one row per unit, got pairs={self.bounds.pairs}, labels={self.bounds.labels}.",
                hint="Bounds(pairs=1)",
            )
        object.__setattr__(self, "shares", _checked_shares(self.shares))
        _ = self.calibration  # refuse now what could not run later

    @cached_property
    def calibration(self) -> Calibration:
        """The chosen mechanism with its scales and threshold."""
        if self.mechanism != "auto":
            return self._calibrated(self.mechanism)
        laplace, gaussian = self._calibrated("laplace"), self._calibrated("gaussian")
        return laplace if laplace.threshold_in_units <= gaussian.threshold_in_units else gaussian

    def _calibrated(self, name: MechanismName) -> Calibration:
        return calibrate(self.budget, self.bounds, self.shares, name=name, distinct=self.distinct)

    @property
    def mechanism_name(self) -> MechanismName:
        """The mechanism in use: "laplace" or "gaussian"."""
        return self.calibration.name

    @property
    def cost(self) -> Cost:
        """What the ledger is charged."""
        return self.calibration.cost

    @property
    def grid(self) -> Fraction:
        """One grid step of a released sum in the value's own units."""
        return self.bounds.step / (1 << self.calibration.bounding.g)

    @property
    def relies_on(self) -> list[str]:
        """What the guarantee takes on the owner's word."""
        found = []
        if self.distinct == "units":
            found.append("The owner declares that the data has at most one row per unit.")
        elif self.distinct:
            found.append("The owner declares that rows are distinct per (unit, feature, label).")
        if self.row_local:
            found.append("The owner declares that each row depends on one unit's records and public tables alone.")
        return found

    def steps(self, dialect: Dialect = DUCKDB) -> list[Step]:
        """Return the SQL from ``rows`` to the exact joint sums."""
        bounding = self.calibration.bounding
        return [*contributions.steps(bounding, dialect), aggregates.joint(bounding, dialect)]

    def explain(self, dialect: Dialect = DUCKDB) -> str:
        """Describe shares, noise, thresholds, guarantee and SQL. Reads nothing and costs nothing."""
        from ddpmi.explain import explain

        return explain(self, dialect)

    def sql(self, dialect: Dialect = DUCKDB) -> str:
        """Return the SQL as one text."""
        return render(self.steps(dialect))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` restores exactly."""
        return {
            "format": PLAN_FORMAT,
            "budget": {"epsilon": _exact(self.budget.epsilon), "delta": _exact(self.budget.delta)},
            "bounds": self.bounds.to_dict(),
            "mechanism": self.mechanism,
            "shares": {table: _exact(share) for table, share in self.shares.items()},
            "distinct": self.distinct,
            "row_local": self.row_local,
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
            budget = Budget(values["budget"]["epsilon"], values["budget"]["delta"])
            bounds = Bounds.from_dict(values["bounds"])
            rest = {name: values[name] for name in ("mechanism", "shares", "distinct", "row_local")}
        except KeyError as error:
            raise InputError(
                f"The plan lacks {error}.", hint="Plan.from_dict takes what Plan.to_dict returned"
            ) from error
        return cls(budget=budget, bounds=bounds, **rest)

    @property
    def digest(self) -> str:
        """A hash of all parameters, the same for equal plans."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def _checked_shares(shares: Mapping[str, Any]) -> dict[str, Fraction]:
    if not hasattr(shares, "items") or set(shares) != set(TABLES):
        raise InputError(
            f"shares must name {', '.join(TABLES)}, got {sorted(shares) if hasattr(shares, 'items') else shares!r}.",
            hint="shares={'pairs': 0.7, 'features': 0.23, 'labels': 0.06, 'total': 0.01}",
        )
    exact = {table: exact_decimal(shares[table], f"the share of {table}") for table in TABLES}
    if any(share <= 0 for share in exact.values()) or sum(exact.values()) != 1:
        raise InputError(
            f"shares must be positive and sum to 1, got {', '.join(f'{t}={shortest(s)}' for t, s in exact.items())}.",
            hint="shares={'pairs': 0.7, 'features': 0.23, 'labels': 0.06, 'total': 0.01}",
        )
    return exact


def _exact(number: Fraction) -> str:
    """Write a fraction as a decimal where that is exact."""
    text = shortest(number)
    return text if exact_decimal(text, "number") == number else str(number)
