"""Tables of rankings: in another order, or with the ranks that noise leaves possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ddpmi import certainty, scores
from ddpmi.views import SCORE, nats, order_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ddpmi.views import Pairs

RANK_BOUNDS = ("rank_low", "rank_high")
"""The columns that rank intervals add."""


def with_rank_bounds(pairs: Pairs) -> pa.Table:
    """Return all pairs, best first, with the best and the worst rank that noise may have moved each from."""
    import pyarrow as pa

    table = pairs.table()
    ranks = table["rank"].to_numpy()
    mi, low, high = (table[name].to_numpy() * nats(pairs.base) for name in ("mi", "mi_low", "mi_high"))
    best, worst = certainty.rank_bounds(mi, low, high, certainty.sure_lows(pairs, pairs.order, low, high))
    # Another order than that of mutual information may put a pair outside; exact sums leave no doubt.
    bounds = (np.minimum(best, ranks), np.maximum(worst, ranks)) if pairs.doubt is not None else (ranks, ranks)
    for name, column in zip(RANK_BOUNDS, bounds, strict=True):
        table = table.append_column(name, pa.array(column, pa.int64()))
    return table


def ordered_by(table: pa.Table, values: NDArray[np.float64]) -> pa.Table:
    """Order the rows of a table by another score, count their ranks anew, and take directions from their own shares."""
    import pyarrow as pa
    import pyarrow.compute as pc

    feature, label = (scores.codes_by_bytes(table[key]) for key in ("feature", "label"))
    by_key = np.lexsort((label, feature))
    order = by_key[order_of(-scores.round_significant(values[by_key]), table["joint"].to_numpy()[by_key])]
    table = table.take(order).append_column(SCORE, pa.array(values[order]))
    inside, outside = (pc.fill_null(table[name], 0.0) for name in ("share_in", "share_out"))
    directions = pc.if_else(pc.greater(inside, outside), "presence", "absence")
    table = table.set_column(table.column_names.index("direction"), "direction", directions)
    places = {
        "rank": np.arange(1, len(order) + 1),
        "rank_in_label": scores.places_in_groups(label[order]),
        "rank_in_feature": scores.places_in_groups(feature[order]),
    }
    for key, column in places.items():
        table = table.set_column(table.column_names.index(key), key, pa.array(column, pa.int64()))
    return table
