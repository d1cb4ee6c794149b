"""How a release divides its budget between its tables: measured defaults for each kind of noise, and checks."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ddpmi.budget import exact_decimal, shortest
from ddpmi.calibration import TABLES
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.calibration import MechanismName

#: Hundredths for pairs, features, labels and total. Measured: see docs/decisions/accuracy.md.
_DEFAULTS = {"laplace": (65, 30, 4, 1), "gaussian": (85, 10, 4, 1)}
#: The same where labels have to reach a threshold of their own before any pair is drawn.
_FINDING_LABELS = {"laplace": (60, 30, 9, 1), "gaussian": (75, 17, 7, 1)}
#: The best of 0.05, 0.1, 0.2 and 0.3 on words by years; the other shares are scaled to make room.
SELECTION_SHARE = Fraction(10, 100)
_HINT = "shares={'pairs': 0.85, 'features': 0.1, 'labels': 0.04, 'total': 0.01}, or leave shares out"


def default_shares(mechanism: MechanismName, *, finding_labels: bool = False) -> dict[str, Fraction]:
    """Return the parts of the budget that each table gets where a plan names none.

    Args:
        mechanism: The noise.
        finding_labels: Whether a grid finds its labels by their totals.

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
    """Read shares as exact fractions.

    Args:
        shares: A part for each table, and one named "selection" where features are selected first.
        selecting: Whether they are; a part that is not named is 0.1, and the others are scaled to make room.

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
            hint=_HINT,
        )
    exact = {table: exact_decimal(shares[table], f"the share of {table}") for table in names}
    if any(share <= 0 for share in exact.values()) or sum(exact.values()) != 1:
        raise InputError(
            f"shares must be positive and sum to 1, got {', '.join(f'{t}={shortest(s)}' for t, s in exact.items())}.",
            hint=_HINT,
        )
    if selecting and "selection" not in exact:
        exact = {table: share * (1 - SELECTION_SHARE) for table, share in exact.items()}
        exact["selection"] = SELECTION_SHARE
    return exact
