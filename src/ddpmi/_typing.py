"""Types and names that many modules share. It loads no array library, so that the command line can import it."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Integers: TypeAlias = NDArray[np.integer[Any]]
    Flags: TypeAlias = NDArray[np.bool_]

Number: TypeAlias = int | float | str | Decimal | Fraction
"""A number that is read exactly; a float means the decimal that it prints as."""
Target: TypeAlias = str | os.PathLike[str]
"""A path to write to."""
Progress: TypeAlias = Callable[[str, float | None], None]
"""Called with the name of a stage and the fraction of it that is done, or None if that is unknown."""

TableName = Literal["pairs", "features", "labels", "total"]
"""The four tables of a release."""
TABLES: tuple[TableName, ...] = ("pairs", "features", "labels", "total")
KEYS: dict[TableName, tuple[str, ...]] = {
    "pairs": ("feature", "label"),
    "features": ("feature",),
    "labels": ("label",),
    "total": (),
}
"""Columns that identify a row of each table."""

ScoreName = Literal[
    "mi", "nmi", "pmi", "npmi", "lift", "chi2", "g2", "phi", "yule_q", "log_odds", "jlh", "gnd", "log_ratio"
]
"""The scores of a pair; `ddpmi.information.scores` has a formula for each."""
SCORES: tuple[ScoreName, ...] = get_args(ScoreName)
