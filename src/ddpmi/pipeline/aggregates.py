"""SQL for the exact sums of a release, from bounded contributions. These sums are not private before noise is added.

In: ``bounded`` (unit, feature, label, x). Out: ``joint`` (feature, label, sum), and queries for the sums over features,
labels and all. Sums of integers do not depend on order, so summing ``joint`` equals summing ``bounded``. With
``space="units"`` each unit adds its weight, which is its contribution to any of its pairs, once to each of its features,
labels and the total, in steps of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpmi.pipeline.contributions import weights
from ddpmi.pipeline.steps import Step

if TYPE_CHECKING:
    from ddpmi.pipeline.contributions import Bounding
    from ddpmi.pipeline.dialects import Dialect

LARGEST_SUM = 2**61
"""Sums are clamped to +-LARGEST_SUM, so that noise can be added in 64 bits. Clamping never increases a change of a sum."""
#: Every pair of known keys, with its sum where it occurs.
_KNOWN_PAIRS = (
    "FROM known_features AS f CROSS JOIN known_labels AS l\n"
    "LEFT JOIN joint AS j ON j.feature = f.feature AND j.label = l.label"
)


def joint(bounding: Bounding, dialect: Dialect, only: tuple[str, ...] | None = None) -> Step:
    """Return the step ``joint`` (feature, label, sum), keys as text.

    Rows are grouped by the source's own types, which is faster. With ``only``, all other labels become one group with a
    NULL label, which counts in the margins and is never released as pairs.
    """
    # proof: bounding.integers
    uniform = bounding.uniform
    total = dialect.sum("x", bounding.largest) if uniform is None else f"CAST(COUNT(*) AS {dialect.wide}) * {uniform}"
    source = "bounded"
    if only is not None:
        # proof: public.only
        listed = ", ".join(dialect.literal(label) for label in only)
        chosen = f"CASE WHEN {dialect.as_text('label')} IN ({listed}) THEN label END"
        source = f"(SELECT feature, {chosen} AS label, x FROM bounded) AS relabelled"
    feature, label = dialect.as_text("feature"), dialect.as_text("label")
    return Step(
        name="joint",
        shape="(feature, label, sum)",
        sql=(
            f"SELECT {feature} AS feature, {label} AS label, {clamp('total')} AS sum\n"
            f"FROM (SELECT feature, label, {total} AS total FROM {source} GROUP BY feature, label) AS grouped"
        ),
        freeze=True,
    )


def unit_sums(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return the steps for the margins of ``space="units"``: each unit adds its weight once to each key, and once in all.

    A unit with one pair adds it to one feature, to one label and to the total, so the sums of pairs serve.
    """
    # proof: units.population
    if bounding.one_pair:
        return []
    by_label, every = _unit_weights(bounding, dialect)
    found = [
        Step(
            name="label_units",
            shape="(label, sum)",
            sql=_grouped("label", "w", by_label, bounding, dialect),
            freeze=True,
        ),
        Step(
            name="all_units",
            shape="(sum)",
            sql=f"SELECT {dialect.sum('w', bounding.largest)} AS sum FROM ({every}) AS w",
            freeze=True,
        ),
    ]
    if not _one_label(bounding):
        largest = "SELECT unit, feature, MAX(x) AS x FROM bounded GROUP BY unit, feature"
        sql = _grouped("feature", "x", largest, bounding, dialect)
        found.append(Step(name="feature_units", shape="(feature, sum)", sql=sql, freeze=True))
    return found


def _grouped(key: str, weight: str, once: str, bounding: Bounding, dialect: Dialect) -> str:
    """Return the sums of weights by key, from rows with each unit once for each key."""
    total = dialect.sum(weight, bounding.largest)
    return f"SELECT {dialect.as_text(key)} AS {key}, {total} AS sum FROM (\n  {once}\n) AS once GROUP BY {key}"


def _unit_weights(bounding: Bounding, dialect: Dialect) -> tuple[str, str]:
    """Return the queries for the weight of each unit: once for each of its labels (label, w), and once in all (w)."""
    if bounding.bounds is None:
        full = 2**bounding.g
        return f"SELECT DISTINCT unit, label, {full} AS w FROM pairs", f"SELECT DISTINCT unit, {full} AS w FROM pairs"
    light, crowded = weights(bounding, dialect)
    by_label = (
        f"SELECT p.label, w FROM unit_labels AS p JOIN ({light}) AS a ON p.unit = a.unit\n"
        f"  UNION ALL SELECT p.label, w FROM (SELECT DISTINCT unit, label FROM kept_pairs) AS p JOIN ({crowded}) AS b ON p.unit = b.unit"
    )
    return by_label, f"SELECT w FROM ({light}) AS a\n  UNION ALL SELECT w FROM ({crowded}) AS b"


def _one_label(bounding: Bounding) -> bool:
    """Return whether a unit has each feature under one label only, so that its largest contribution is the only one."""
    return bounding.bounds is not None and bounding.bounds.labels == 1


def margin_source(key: str, bounding: Bounding, *, units: bool) -> str:
    """Return the name of the step from which the sums over one key are read."""
    if not units or bounding.one_pair or (key == "feature" and _one_label(bounding)):
        return "joint"
    return f"{key}_units"


def total_source(bounding: Bounding, *, units: bool) -> str:
    """Return the name of the step from which the total is read."""
    return "all_units" if units and not bounding.one_pair else "joint"


def pairs(*, every: bool) -> str:
    """Return the query for the exact sums of pairs: of those that occur, or of every pair of known keys."""
    if not every:
        return "SELECT feature, label, sum FROM joint WHERE label IS NOT NULL"
    return f"SELECT f.feature AS feature, l.label AS label, COALESCE(j.sum, 0) AS sum\n{_KNOWN_PAIRS}"


def unseen_pairs(seen: str) -> str:
    """Return the query for the exact sums of known pairs that were not released; ``hidden`` marks those that occur.

    A hidden pair was drawn before and stayed below the threshold.
    """
    # proof: completion.keys
    return (
        "SELECT f.feature AS feature, l.label AS label, COALESCE(j.sum, 0) AS sum, j.sum IS NOT NULL AS hidden\n"
        f"{_KNOWN_PAIRS}\n"
        f"LEFT JOIN {seen} AS s ON s.feature = f.feature AND s.label = l.label\n"
        "WHERE s.feature IS NULL"
    )


def every_key(key: str, source: str, dialect: Dialect) -> str:
    """Return the query for the exact sum of every feature or label that occurs, for selection by a threshold."""
    return f"SELECT {key}, {clamp(dialect.sum('sum'))} AS sum FROM {source} GROUP BY {key}"


def margin(key: str, source: str, dialect: Dialect) -> str:
    """Return the query for the exact sum of every known feature or label, 0 where it does not occur."""
    known = f"known_{key}s"
    return (
        f"SELECT k.{key} AS {key}, {clamp('COALESCE(s.total, 0)')} AS sum\n"
        f"FROM {known} AS k LEFT JOIN (\n"
        f"  SELECT {key}, {dialect.sum('sum')} AS total FROM {source} WHERE {key} IN (SELECT {key} FROM {known}) GROUP BY {key}\n"
        f") AS s ON k.{key} = s.{key}"
    )


def remainder(key: str, dialect: Dialect) -> str:
    """Return the query for the exact sum of pairs that were not kept, for every known key and, for labels, for all others.

    Features have no such cell for all others: one unit could put all its contributions into it, which is more than the
    sensitivity of features allows.
    """
    # proof: other.remainder
    known = f"known_{key}s"
    keys = f"SELECT {key} FROM {known}" + (" UNION ALL SELECT NULL" if key == "label" else "")
    # Features may be many, and some engines compare every pair of keys unless the condition is an equality.
    same = "IS NOT DISTINCT FROM" if key == "label" else "="
    return (
        f"SELECT k.{key} AS {key}, {clamp('COALESCE(s.total, 0)')} AS sum\n"
        f"FROM ({keys}) AS k LEFT JOIN (\n"
        f"  SELECT g.{key} AS {key}, {dialect.sum('j.sum')} AS total\n"
        f"  FROM joint AS j LEFT JOIN kept ON j.feature = kept.feature AND j.label = kept.label\n"
        f"  LEFT JOIN {known} AS g ON j.{key} = g.{key}\n"
        f"  WHERE kept.feature IS NULL GROUP BY g.{key}\n"
        f") AS s ON k.{key} {same} s.{key}"
    )


def plus_released(key: str, dialect: Dialect) -> str:
    """Return the query for each key's noisy remainder plus its released pairs. Post-processing: no exact sum is read."""
    # proof: other.remainder
    whole = f"CAST(r.sum AS {dialect.wide}) + COALESCE(p.total, 0)"
    return (
        f"SELECT r.{key} AS {key}, {clamp(whole)} AS sum\n"
        f"FROM rest_{key}s AS r LEFT JOIN (\n"
        f"  SELECT {key}, {dialect.sum('sum')} AS total FROM drawn_pairs GROUP BY {key}\n"
        f") AS p ON p.{key} = r.{key}"
    )


def of_released_keys(pairs: str) -> str:
    """Return the query for the noisy pairs whose feature and label are both above their thresholds too."""
    return (
        f"SELECT feature, label, sum FROM {pairs}\n"
        "WHERE feature IN (SELECT feature FROM drawn_features) AND label IN (SELECT label FROM drawn_labels)"
    )


def total(source: str, dialect: Dialect) -> str:
    """Return the query for the exact total; one row even where there is no data."""
    whole = f"COALESCE({dialect.sum('sum')}, 0)"
    return f"SELECT {clamp(whole)} AS sum FROM {source}"


def clamp(expression: str) -> str:
    """Return the SQL that clamps a sum, so that noise can be added in 64 bits.

    >>> clamp("s")
    'CAST(GREATEST(LEAST(s, 2305843009213693952), -2305843009213693952) AS BIGINT)'
    """
    return f"CAST(GREATEST(LEAST({expression}, {LARGEST_SUM}), -{LARGEST_SUM}) AS BIGINT)"
