"""What is publicly known about data that nobody may look at: their declared shape."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi.plan import Plan

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]

SKEW = 0.5
"""The k-th label has a share of k to the power of minus this among pairs that do not lean."""
LEAN = 0.35
"""Part of each feature's pairs that goes to its own label."""
MOST = {"units": 1 << 40, "features": 20_000_000, "labels": 10_000, "pairs_per_unit": 100_000}
"""The largest numbers that can be declared."""
_LABELS = 20
_COUNTS = ("units", "labels", "features", "pairs_per_unit")
_HINTS = "units=1e6,zipf=1.1,labels=20"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What is publicly known about the shape of data. Never computed from these data.

    >>> Hints(units=1_000_000, labels=22).features
    20100
    """

    units: int
    """How many units there are, about."""
    labels: int | None = None
    """How many labels; None means as many as the plan lists, else 20."""
    features: int = 0
    """How many features; 0 means one for every 50 pairs, and at least 100."""
    pairs_per_unit: int = 1
    """How many (feature, label) pairs a unit has."""
    zipf: float = 1.0
    """The k-th feature is as common as k to the power of minus this."""
    lean: float = LEAN
    """Part of each feature's pairs that has the feature's own label: how strongly features tell labels apart."""

    def __post_init__(self) -> None:
        if self.features == 0 and not isinstance(self.features, bool) and isinstance(self.units, int):
            guess = min(100 + self.units * max(self.pairs_per_unit, 1) // 50, MOST["features"])
            object.__setattr__(self, "features", guess)
        for name in _COUNTS:
            value, most = getattr(self, name), MOST[name]
            if name == "labels" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise InputError(f"{name} must be a whole number from 1 to {most}, got {name}={value!r}.", hint=_HINTS)
        if not 0 <= self.zipf <= 4:  # noqa: PLR2004 - steeper than anything that was ever counted
            raise InputError(f"zipf must lie between 0 and 4, got zipf={self.zipf!r}.", hint=_HINTS)
        if not 0 <= self.lean <= 1:
            raise InputError(f"lean must lie between 0 and 1, got lean={self.lean!r}.", hint=f"{_HINTS},lean={LEAN}")

    @classmethod
    def parse(cls, text: str) -> Hints:
        """Read KEY=NUMBER,... as the command line takes it.

        >>> Hints.parse("units=10e6, zipf=1.1, labels=22").units
        10000000
        """
        found: dict[str, Any] = {}
        known = [field.name for field in fields(cls)]
        for part in text.split(","):
            name, _, number = (word.strip() for word in part.partition("="))
            if name not in known or not number:
                raise InputError(f"Hints are {', '.join(known)}, each with =NUMBER; got {part.strip()!r}.", hint=_HINTS)
            if name in found:
                raise InputError(f"The hint {name} is named twice.", hint=_HINTS)
            found[name] = _number(name, number)
        if "units" not in found:
            raise InputError("The hint units is missing: how many units there are, about.", hint=_HINTS)
        return cls(**found)

    def for_plan(self, plan: Plan) -> Hints:
        """Settle how many labels there are: as many as the plan lists."""
        listed = None if plan.public_labels is None else len(plan.public_labels)
        if listed is not None and self.labels not in (None, listed):
            raise InputError(
                f"The hint labels={self.labels} contradicts the plan, which lists {listed}: rows of other labels are dropped.",
                hint="leave the hint labels out",
            )
        return replace(self, labels=listed or self.labels or _LABELS)

    def expected(self) -> Floats:
        """How many pairs each feature has, most common first."""
        weights = np.arange(1, self.features + 1, dtype=np.float64) ** -self.zipf
        found: Floats = weights * (self.units * self.pairs_per_unit / weights.sum())
        return found

    def shares(self) -> Floats:
        """Which part of all pairs each label has."""
        shares = np.arange(1, (self.labels or _LABELS) + 1, dtype=np.float64) ** -SKEW
        found: Floats = shares / shares.sum()
        return found

    def cells(self, expected: Floats, home: Integers) -> Floats:
        """Spread features over the labels: each leans to one, its home."""
        cells = (expected * (1 - self.lean))[:, None] * self.shares()
        cells[np.arange(len(expected)), home] += expected * self.lean
        return cells


def _number(name: str, text: str) -> float | int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"The hint {name} needs a number, got {text!r}.", hint=_HINTS)
    return int(value) if name in _COUNTS and value == int(value) else value
