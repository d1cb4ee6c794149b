"""SQL of a private set union, which finds the features that exist before anything is counted.

In: the rows that take part. Out, for each round: ``weights_n`` (feature, sum). A unit with t features that were not released
before adds the same weight w(t) to each of them, with t w(t)^2 <= 2^32. Features whose noisy sum reaches a threshold are
released; the sums never are. One round is the weighted Gaussian of Gopi et al. (2020); more rounds are DP-SIPS (2023).
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

from ddpmi.pipeline.aggregates import clamp
from ddpmi.pipeline.steps import Step

if TYPE_CHECKING:
    from ddpmi.pipeline.contributions import Bounding
    from ddpmi.pipeline.dialects import Dialect

WEIGHT_SQUARED = 2**32
"""The square of the sensitivity of the sums of one round."""
ROUNDS = {None: 0, "set_union": 1, "sips": 3}
"""The number of rounds of each kind of selection."""
#: The budget of a round is this times the budget of the round before.
_GROWTH = 3


def weight(features: int) -> int:
    """Return the largest w with features * w^2 <= 2^32.

    >>> weight(1), weight(3)
    (65536, 37837)
    """
    # proof: set-union.weight
    return isqrt(WEIGHT_SQUARED // features)


def round_shares(rounds: int) -> list[Fraction]:
    """Return the part of the selection's budget that each round uses; they sum to 1.

    >>> [str(share) for share in round_shares(3)]
    ['1/13', '3/13', '9/13']
    """
    parts = [_GROWTH**number for number in range(rounds)]
    return [Fraction(part, sum(parts)) for part in parts]


def steps(bounding: Bounding, dialect: Dialect, number: int) -> list[Step]:
    """Return the steps of one round, from the rows that take part to ``weights_n``.

    Args:
        bounding: The bound of one unit's contributions.
        dialect: The engine's spelling.
        number: The round, from 1.
    """
    # proof: set-union.rounds
    source = "unit_features"
    if number == 1:
        rows = f"SELECT {'' if bounding.one_pair else 'DISTINCT '}unit, feature FROM {bounding.members}"
        first = Step(name=source, shape="(unit, feature)", sql=rows, freeze=not bounding.one_pair)
    else:
        known = f"SELECT feature FROM released_{number - 1}"
        rows = f"SELECT unit, feature FROM {source} WHERE {dialect.as_text('feature')} NOT IN ({known})"
        source = f"candidates_{number}"
        first = Step(name=source, shape="(unit, feature), not released before", sql=rows)
    if bounding.one_pair:
        return [first, _weights(f"SELECT feature, {weight(1)} AS w FROM {source}", dialect, number)]
    counts = Step(
        name=f"feature_counts_{number}",
        shape="(unit, t), t features of the unit",
        sql=f"SELECT unit, COUNT(*) AS t FROM {source} GROUP BY unit",
        freeze=True,
    )
    cap, kept = bounding.most_pairs, f"kept_features_{number}"
    weighted = (
        f"SELECT p.feature, {_weight_of('u.t', dialect)} AS w\n"
        f"  FROM {source} AS p JOIN {counts.name} AS u ON p.unit = u.unit WHERE u.t <= {cap}\n"
        f"  UNION ALL SELECT feature, {weight(cap)} AS w FROM {kept}"
    )
    return [first, counts, _kept(bounding, dialect, number, source), _weights(weighted, dialect, number)]


def _kept(bounding: Bounding, dialect: Dialect, number: int, source: str) -> Step:
    """Return ``kept_features_n`` (unit, feature): `cap` features of each unit that has more, picked by a keyed hash."""
    # proof: set-union.cap
    cap = bounding.most_pairs
    order = f"{dialect.keyed_hash('feature', 'p.unit', 'p.feature')}, {dialect.as_text('p.feature')}"
    numbered = f"SELECT p.unit, p.feature, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY {order}) AS n"
    return Step(
        name=f"kept_features_{number}",
        shape="(unit, feature), `cap` features of each unit that has more",
        sql=(
            f"SELECT unit, feature\nFROM ({numbered}\n"
            f"      FROM {source} AS p JOIN feature_counts_{number} AS u ON p.unit = u.unit WHERE u.t > {cap}) AS ordered\n"
            f"WHERE n <= {cap}"
        ),
        freeze=True,
    )


def _weights(weighted: str, dialect: Dialect, number: int) -> Step:
    """Return ``weights_n`` (feature, sum), keys as text."""
    total = dialect.sum("w", weight(1))
    return Step(
        name=f"weights_{number}",
        shape="(feature, sum), what noise is added to; features that reach the threshold are released, sums are not",
        sql=(
            f"SELECT {dialect.as_text('feature')} AS feature, {clamp('total')} AS sum\n"
            f"FROM (SELECT feature, {total} AS total FROM (\n  {weighted}\n) AS weighted GROUP BY feature) AS grouped"
        ),
        freeze=True,
    )


def _weight_of(t: str, dialect: Dialect) -> str:
    """Return the SQL of w(t): the root in doubles is off by at most one, and integers correct it."""
    # proof: set-union.weight
    root = f"CAST(FLOOR(SQRT(CAST({WEIGHT_SQUARED} AS {dialect.double}) / {t})) AS BIGINT)"
    above, below = f"{t} * {root} * {root} > {WEIGHT_SQUARED}", f"{t} * ({root} + 1) * ({root} + 1) <= {WEIGHT_SQUARED}"
    return f"{root} - CASE WHEN {above} THEN 1 WHEN {below} THEN -1 ELSE 0 END"
