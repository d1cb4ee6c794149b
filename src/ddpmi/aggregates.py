"""From bounded contributions to the exact sums behind a release. Left of the border: nothing here is private yet.

In: ``bounded`` (feature, label, x). Out: ``joint`` (feature, label, sum), and the sums over features, labels and
all that are read from it. Integer sums do not depend on order, so summing ``joint`` equals summing ``bounded``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpmi.sql import Dialect, Step

if TYPE_CHECKING:
    from ddpmi.contributions import Bounding

#: Sums are clamped here so that noise can be added in 64 bits; a clamp changes no sum by more than its input changed.
LARGEST_SUM = 2**61


def joint(bounding: Bounding, dialect: Dialect) -> Step:
    """# joint : (feature, label, sum), keys as canonical text. Grouping runs on the source's own types, which is faster."""
    # proof: bounding.integers
    uniform = bounding.uniform
    total = "SUM(x)" if uniform is None else f"CAST(COUNT(*) AS {dialect.wide}) * {uniform}"
    return Step(
        name="joint",
        shape="(feature, label, sum)",
        sql=(
            f"SELECT {dialect.as_text('feature')} AS feature, {dialect.as_text('label')} AS label, {_clamp('total')} AS sum\n"
            f"FROM (SELECT feature, label, {total} AS total FROM bounded GROUP BY feature, label) AS grouped"
        ),
        freeze=True,
    )


def margin(key: str, known: str) -> str:
    """Return the exact sums over one key, for every known key whether or not it occurs."""
    return (
        f"SELECT k.{key} AS {key}, {_clamp('COALESCE(s.total, 0)')} AS sum\n"
        f"FROM {known} AS k LEFT JOIN (\n"
        f"  SELECT {key}, SUM(sum) AS total FROM joint WHERE {key} IN (SELECT {key} FROM {known}) GROUP BY {key}\n"
        f") AS s ON k.{key} = s.{key}"
    )


def total() -> str:
    """Return the exact sum of everything, one row also where there is nothing."""
    return f"SELECT {_clamp('COALESCE(SUM(sum), 0)')} AS sum FROM joint"


def _clamp(expression: str) -> str:
    return f"CAST(GREATEST(LEAST({expression}, {LARGEST_SUM}), -{LARGEST_SUM}) AS BIGINT)"
