"""SQL of the private look: how many labels and how many pairs units have, counted in fixed buckets.

In: the rows that take part. Out: ``label_look`` and ``pair_look`` (bucket, sum), one row for each bucket. A unit adds 1 to one
bucket of each. Pairs are counted after the cap of labels, as a release would keep them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpmi.pipeline.aggregates import clamp
from ddpmi.pipeline.steps import Step

if TYPE_CHECKING:
    from ddpmi.pipeline.dialects import Dialect

BUCKETS = tuple(f"{number:02}" for number in range(21))
"""The names of the buckets: 1, 2, 3 to 4, 5 to 8, ... The last one also holds everything above 2^20."""
BUCKET_TABLE = "look_buckets"
"""The public table of their names."""


def bucket_of(number: int) -> int:
    """Return the bucket of a count of at least 1.

    >>> [bucket_of(number) for number in (1, 2, 3, 4, 5, 2**30)]
    [0, 1, 2, 2, 3, 20]
    """
    return min((number - 1).bit_length(), len(BUCKETS) - 1)


def largest_of(bucket: int) -> int:
    """Return the largest count of a bucket.

    >>> [largest_of(bucket) for bucket in (0, 1, 2, 3)]
    [1, 2, 4, 8]
    """
    return 1 << bucket


def label_step() -> Step:
    """Return the step from ``looked_units`` to ``label_look``: units by their number of labels."""
    return _histogram("label_look", "SELECT labels AS n FROM looked_units")


def counted_units() -> Step:
    """Return the step ``looked_units``: how many labels and pairs each unit has."""
    return Step(
        name="looked_units",
        shape="(unit, labels, t), t pairs of the unit",
        sql="SELECT unit, COUNT(*) AS labels, SUM(t) AS t FROM unit_labels GROUP BY unit",
        freeze=True,
    )


def pair_step(labels: int, dialect: Dialect) -> Step:
    """Return the step from ``looked_units`` to ``pair_look``: units by their number of pairs under the labels they keep.

    Args:
        labels: The most labels that a unit keeps, picked by the keyed hash that a release uses.
        dialect: The engine's spelling.
    """
    # proof: look.label-cap
    order = f"{dialect.keyed_hash('label', 'p.unit', 'p.label')}, {dialect.as_text('p.label')}"
    numbered = (
        f"SELECT p.unit, p.t, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY {order}) AS n\n"
        f"      FROM unit_labels AS p JOIN looked_units AS u ON p.unit = u.unit WHERE u.labels > {labels}"
    )
    kept = (
        f"SELECT t AS n FROM looked_units WHERE labels <= {labels}\n"
        f"  UNION ALL SELECT SUM(t) AS n FROM ({numbered}) AS ordered WHERE n <= {labels} GROUP BY unit"
    )
    return _histogram("pair_look", kept)


def _histogram(name: str, counts: str) -> Step:
    """Return the number of units in each bucket, 0 where there is none."""
    # proof: look.histogram
    *lower, last = range(len(BUCKETS))
    cases = " ".join(f"WHEN n <= {largest_of(bucket)} THEN '{BUCKETS[bucket]}'" for bucket in lower)
    placed = f"SELECT CASE {cases} ELSE '{BUCKETS[last]}' END AS bucket FROM (\n  {counts}\n) AS counts WHERE n >= 1"
    return Step(
        name=name,
        shape="(bucket, sum), units in each bucket, what noise is added to",
        sql=(
            f"SELECT b.bucket AS bucket, {clamp('COALESCE(h.units, 0)')} AS sum\nFROM {BUCKET_TABLE} AS b LEFT JOIN (\n"
            f"SELECT bucket, COUNT(*) AS units FROM ({placed}) AS placed GROUP BY bucket\n"
            f") AS h ON b.bucket = h.bucket"
        ),
        freeze=True,
    )
