"""The rows of a ranking's table that was made before: a selection of pairs, or pairs that were ranked elsewhere.

table -> ListedPairs -> a table with the same columns
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import Hint, InputError
from ddpmi.information import mi as information
from ddpmi.information.scores import score
from ddpmi.rankings.cells import COLUMNS, names_by_bytes, places_in_groups, round_significant
from ddpmi.rankings.pairs import SCORE, Coded, Direction, Per, first_of_groups, nats, order_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ddpmi._typing import Flags, Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListedPairs:
    """The rows of a ranking's table: a selection of pairs, or pairs that were ranked elsewhere."""

    rows: pa.Table
    """The columns of a ranking, in any order."""
    total: float | None
    """The released sum of everything, in the user's units; None where it is unknown."""
    base: float | None
    """The base of the logarithm of mi; None for nats."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def table(self) -> pa.Table:
        """Return the rows as they are."""
        return self.rows

    def first(self, n: int) -> pa.Table:
        """Return the first n rows as they are listed."""
        return self.rows.slice(0, n)

    def top(self, n: int, *, per: Per, direction: Direction) -> pa.Table:
        """Return the best n of each group, groups by name, with the ranks they have."""
        import pyarrow.compute as pc

        rows = self.rows
        if direction != "both":
            rows = rows.filter(pc.equal(rows["direction"], direction))
        group = None if per == "all" else names_by_bytes(rows[per])[1]
        return rows.take(first_of_groups(np.argsort(rows["rank"].to_numpy()), group, n))

    def clear_rows(self) -> pa.Table:
        """Return the clear rows as they are listed."""
        return self.rows.filter(self.rows["clear"])

    @property
    def clear_count(self) -> int:
        """How many rows are clear."""
        import pyarrow.compute as pc

        return int(pc.sum(self.rows["clear"]).as_py() or 0)

    def scored(self, name: str) -> pa.Table:
        """Order the rows by another score, count their ranks anew, and take directions from their own shares."""
        import pyarrow as pa
        import pyarrow.compute as pc

        table = self.rows.select(COLUMNS)
        values = self._scores(name)
        (_, feature), (_, label) = (names_by_bytes(table[key]) for key in ("feature", "label"))
        by_key = np.lexsort((label, feature))
        order = by_key[order_of(-round_significant(values[by_key]), table["joint"].to_numpy()[by_key])]
        table = table.take(order).append_column(SCORE, pa.array(values[order]))
        presence = self._presence()[order]
        same = np.asarray(pc.equal(table["direction"], "presence").to_numpy(), np.bool_) == presence
        wrong = table["false_sign"].to_numpy()
        columns: dict[str, Any] = {
            "direction": pa.array(["absence", "presence"]).take(pa.array(presence.astype(np.int8))),
            "false_sign": pa.array(np.where(same, wrong, 1 - wrong)),
            "clear": pc.and_(table["clear"], pa.array(same)),
            "rank": pa.array(np.arange(1, len(order) + 1), pa.int64()),
            "rank_in_label": pa.array(places_in_groups(label[order]), pa.int64()),
            "rank_in_feature": pa.array(places_in_groups(feature[order]), pa.int64()),
        }
        for key, column in columns.items():
            table = table.set_column(table.column_names.index(key), key, column)
        return table

    def _presence(self) -> Flags:
        """Return the direction of each row's own sums."""
        sums = [np.clip(self.rows[key].to_numpy(), 0, self.total) for key in ("joint", "feature_total", "label_total")]
        lowest = np.maximum(0.0, sums[1] - (np.float64(self.total or 0) - sums[2]))
        joint = np.clip(sums[0], lowest, np.minimum(sums[1], sums[2]))
        return information.direction(joint, sums[1], sums[2], np.float64(self.total or 0))

    def _scores(self, name: str) -> Floats:
        if self.total is None:
            raise InputError(
                "This ranking does not know its total.",
                hint=Hint(python="ddpmi.rank(release, score=...)", cli="ddpmi rank DIR --score NAME"),
            )
        if name == "mi":
            return np.asarray(self.rows["mi"].to_numpy() * nats(self.base))
        joint, feature, label = (self.rows[key].to_numpy() for key in ("joint", "feature_total", "label_total"))
        return score(name, joint, feature, label, self.total)

    def lifts(self, rows: Integers) -> pa.Table:
        """Return some pairs with all columns, given by their row numbers in `coded`."""
        (_, feature), (_, label) = (names_by_bytes(self.rows[key]) for key in ("feature", "label"))
        return self.rows.take(np.lexsort((label, feature))[rows])

    def label_totals(self) -> dict[str, float]:
        """Return the total of each label that has rows."""
        names, label = names_by_bytes(self.rows["label"])
        first = np.unique(label, return_index=True)[1]
        return dict(zip(names.to_pylist(), self.rows["label_total"].take(first).to_pylist(), strict=True))

    def of_features(self, names: Sequence[str]) -> pa.Table:
        """Return the rows of some features as they are listed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return self.rows.filter(pc.is_in(self.rows["feature"], value_set=pa.array(list(names), pa.string())))

    def of_labels(self, names: Sequence[str]) -> pa.Table:
        """Return the rows of some labels as they are listed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return self.rows.filter(pc.is_in(self.rows["label"], value_set=pa.array(list(names), pa.string())))

    def counts_in_labels(self) -> dict[str, tuple[int, int]]:
        """Return for each label with rows how many it has, and how many of them are clear."""
        names, label = names_by_bytes(self.rows["label"])
        clear = self.rows["clear"].to_numpy()
        pairs, some = np.bincount(label, minlength=len(names)), np.bincount(label[clear], minlength=len(names))
        found = zip(names.to_pylist(), pairs.tolist(), some.tolist(), strict=True)
        return {name: (all_, of_these) for name, all_, of_these in found}

    def clear_top(self, n: int) -> pa.Table:
        """Return the best n clear rows of each label."""
        return replace(self, rows=self.clear_rows()).top(n, per="label", direction="both")

    def coded(self) -> Coded:
        """Return the pairs as numbers, with their positions in the order of their ranks."""
        import pyarrow.compute as pc

        (features, feature), (labels, label) = (names_by_bytes(self.rows[key]) for key in ("feature", "label"))
        by_key = np.lexsort((label, feature))
        place = np.empty(len(self), np.int64)
        place[np.argsort(self.rows["rank"].to_numpy(), kind="stable")] = np.arange(1, len(self) + 1)
        presence = np.asarray(pc.equal(self.rows["direction"], "presence").to_numpy(), np.bool_)
        return Coded(
            features=features,
            labels=labels,
            feature_code=feature[by_key],
            label_code=label[by_key],
            place=place[by_key],
            presence=presence[by_key],
        )
