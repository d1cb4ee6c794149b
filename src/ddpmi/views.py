"""Scored pairs of a release whose order is found on demand: all of it, or only as much as a top list needs.

Cells -> Pairs -> a table with the columns ``COLUMNS``
Order: score (or mi) to 12 significant digits descending, joint descending, feature, label by bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ddpmi import measures, orders, pooling
from ddpmi import mi as information
from ddpmi.scores import COLUMNS, Cells, places_in_groups, round_significant

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from ddpmi.doubts import Doubt

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

Per = Literal["label", "feature", "all"]
Direction = Literal["presence", "absence", "both"]
SCORE = "score"
"""The column that follows ``COLUMNS`` where another score gives the order."""
_NUMBERS = COLUMNS[6:]
_BLOCK = 1 << 14  # rows worked on at once: the temporaries of one block stay in the processor's cache
_TAKE = 1 << 22  # rows gathered at once, so that no text column reaches the 2 GiB limit of one Arrow array
_LOOP = 1 << 12  # groups that may be gone through one by one
_MANY = 8  # a list longer than a part of this many in all pairs is cut from the whole order


def order_of(key: Floats, joint: NDArray[Any]) -> Integers:
    """Order pairs: key ascending, joint descending, then the order given.

    >>> order_of(np.array([0.0, -1.0, 0.0, 0.0]), np.array([5, 1, 9, 5])).tolist()
    [1, 2, 0, 3]
    """
    order = np.argsort(key, kind="stable")
    ordered, sums = key[order], joint[order]
    same = ordered[1:] == ordered[:-1]
    if not np.any(same & (sums[1:] > sums[:-1])):
        return order
    tied = np.zeros(len(key), np.bool_)
    tied[1:] = same
    tied[:-1] |= same
    at = np.flatnonzero(tied)
    # ~ and not - for integers: it reverses the order of all of them, the smallest one too.
    fall = ~sums[at] if sums.dtype.kind == "i" else -sums[at]
    order[at] = order[at][np.lexsort((fall, ordered[at]))]
    return order


def best_of(key: Floats, joint: Integers, rows: Integers, n: int) -> Integers:
    """Return the first n of some rows, in order, without ordering the others.

    Args:
        key: The key of every pair.
        joint: The sum of every pair.
        rows: Places of pairs, ascending.
        n: How many, at least 1.

    >>> best_of(np.array([0.0, -1.0, 0.0, -3.0]), np.array([5, 1, 9, 5]), np.array([0, 1, 2]), 2).tolist()
    [1, 2]
    """
    if len(rows) > n:
        keys = key[rows]
        rows = rows[keys <= np.partition(keys, n - 1)[n - 1]]
    return rows[order_of(key[rows], joint[rows])][:n]


def places_of(key: Floats, joint: Integers, rows: Integers, chosen: Integers) -> Integers:
    """Return which place each chosen pair has among some rows, without ordering all of them.

    Args:
        key: The key of every pair.
        joint: The sum of every pair.
        rows: Places of pairs, ascending.
        chosen: Some of them.

    >>> places_of(np.array([0.0, -1.0, 0.0, -3.0]), np.array([5, 1, 9, 5]), np.arange(4), np.array([0, 3])).tolist()
    [4, 1]
    """
    if not len(chosen):
        return np.empty(0, np.int64)
    keys, steps = key[rows], np.unique(key[chosen])
    # Whatever stands behind all chosen ones does not matter, and most rows do.
    ahead_of_last = keys <= steps[-1]
    rows, keys = rows[ahead_of_last], keys[ahead_of_last]
    before = np.searchsorted(steps, keys)
    equal = rows[keys == steps[before]]
    # Rows with a smaller key than a step's, counted over all steps at once.
    counted = np.bincount(before, minlength=len(steps))
    ordered = equal[order_of(key[equal], joint[equal])]
    step = np.searchsorted(steps, key[ordered])
    ahead = np.cumsum(counted) - np.bincount(step, minlength=len(steps))
    places = ahead[step] + places_in_groups(step)
    by_row = np.argsort(ordered)
    found: Integers = places[by_row[np.searchsorted(ordered, chosen, sorter=by_row)]]
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coded:
    """Ranked pairs as numbers, in the order of their keys' bytes."""

    features: pa.Array
    """Feature names by bytes."""
    labels: pa.Array
    """Label names by bytes."""
    feature_code: Integers
    """Place of each pair's feature in ``features``."""
    label_code: Integers
    """Place of each pair's label in ``labels``."""
    place: Integers
    """Place of each pair in the ranking, from 1."""
    presence: Flags
    """Direction of each pair."""

    def __len__(self) -> int:
        return len(self.place)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """All pairs of a release with their mutual information; ranks and intervals are made when asked for."""

    cells: Cells
    """The released sums."""
    doubt: Doubt | None
    """Their noise; None where they are exact."""
    mi: Floats
    """Mutual information of each pair, in nats."""
    base: float | None
    """The base of the logarithm that is shown; None for nats."""
    scores: Floats | None = None
    """Another score that gives the order."""
    ranked_by: orders.Order = "estimate"
    """What of mutual information gives the order, where no other score does."""
    read: pooling.Pooled | None = None
    """What the pooled order says, where it was read before."""

    def __len__(self) -> int:
        return len(self.mi)

    def scored(self, name: str) -> Pairs:
        """Order by another score."""
        if name == "mi":
            return replace(self, scores=self.mi)
        scores = np.empty(len(self))
        for rows in _blocks(len(self)):
            joint, feature, label = (self.cells.in_users_units(sums) for sums in self._sums(rows))
            scores[rows] = measures.score(name, joint, feature, label, self.cells.users_total)
        return replace(self, scores=scores)

    @cached_property
    def key(self) -> Floats:
        """What orders the pairs, ascending: the score to 12 significant digits, negated."""
        key = np.empty(len(self))
        for rows in _blocks(len(self)):
            np.negative(round_significant(self._values(rows)), out=key[rows])
        return key

    def _values(self, rows: slice) -> Floats:
        """What gives the order of some rows, before rounding, descending."""
        if self.scores is not None:
            return self.scores[rows]
        if self.doubt is None or self.ranked_by == "estimate":
            return self.mi[rows]
        if self._pooled is not None:
            return self._pooled.value[rows]
        sums = self._sums(rows)
        if self.ranked_by == "lower":
            codes = self.cells.feature_code[rows], self.cells.label_code[rows]
            return self.doubt.bounds(self.mi[rows], sums, codes)[0]
        strength = orders.EVERY_PAIR if self.doubt.every_pair else orders.BEHIND_THRESHOLD
        return orders.shrunk((*sums, self.cells.total), self.doubt.noise, strength)

    @cached_property
    def _pooled(self) -> pooling.Pooled | None:
        """What the rows of features make likely; None where it does not give the order."""
        if self.scores is not None or self.doubt is None or self.ranked_by != "pooled":
            return None
        if self.read is not None:
            return self.read
        cells = self.cells
        codes, names = (cells.feature_code, cells.label_code), (cells.features, cells.labels)
        return pooling.pooled((*self._sums(slice(None)), cells.total), codes, names, self.doubt.noise)

    @cached_property
    def order(self) -> Integers:
        """Places of the pairs, best first."""
        return order_of(self.key, self.cells.joint).astype(_kind_of(len(self)), copy=False)

    @cached_property
    def presence(self) -> Flags:
        """Whether each pair is more common inside its label than outside."""
        flags = np.empty(len(self), np.bool_)
        for rows in _blocks(len(self)):
            flags[rows] = self._presence(rows, information.clip_sums(*self._sums(rows), np.int64(self.cells.total)))
        return flags

    def _presence(self, rows: slice | Integers, sums: tuple[Integers, ...]) -> Flags:
        """Tell the direction of some rows: in the pooled order as it reads them, not as noise may have turned them."""
        return information.direction(*sums) if self._pooled is None else self._pooled.presence[rows]

    def coded(self) -> Coded:
        """Return the pairs with their places in the order."""
        cells = self.cells
        place = np.empty(len(self), np.int64)
        place[self.order] = np.arange(1, len(self) + 1)
        return Coded(
            features=cells.features,
            labels=cells.labels,
            feature_code=cells.feature_code,
            label_code=cells.label_code,
            place=place,
            presence=self.presence,
        )

    def table(self) -> pa.Table:
        """Return all pairs, best first."""
        return self._assemble(self.order, self._ranks_in_order())

    def top(self, n: int, *, per: Per, direction: Direction) -> pa.Table:
        """Return the best n of each group, groups by name, with the ranks they have among all pairs."""
        rows = self._whole_top(n, per, direction) if self._is_long(n, per) else self._short_top(n, per, direction)
        return self._assemble(rows, self._ranks_of(rows))

    def _is_long(self, n: int, per: Per) -> bool:
        groups = {"all": 1, "label": len(self.cells.labels), "feature": len(self.cells.features)}[per]
        return groups > _LOOP or n * groups * _MANY >= len(self)

    def _codes(self, per: Literal["label", "feature"]) -> Integers:
        return self.cells.label_code if per == "label" else self.cells.feature_code

    def _whole_top(self, n: int, per: Per, direction: Direction) -> Integers:
        rows = self.order
        if direction != "both":
            rows = rows[self.presence[rows] == (direction == "presence")]
        if per == "all":
            return rows[:n]
        codes = self._codes(per)[rows]
        first = places_in_groups(codes) <= n
        rows, codes = rows[first], codes[first]
        return rows[np.argsort(codes, kind="stable")]

    def _short_top(self, n: int, per: Per, direction: Direction) -> Integers:
        groups = self._groups(per)
        if direction != "both":
            groups = [rows[self.presence[rows] == (direction == "presence")] for rows in groups]
        return np.concatenate([best_of(self.key, self.cells.joint, rows, n) for rows in groups])

    def _groups(self, per: Per) -> list[Integers]:
        if per == "all":
            return [np.arange(len(self))]
        return self._label_rows if per == "label" else _rows_by(self.cells.feature_code)

    @cached_property
    def _label_rows(self) -> list[Integers]:
        return _rows_by(self.cells.label_code)

    def _ranks_in_order(self) -> tuple[Integers, Integers, Integers]:
        rows = self.order
        ranks = np.arange(1, len(rows) + 1)
        return ranks, places_in_groups(self.cells.label_code[rows]), places_in_groups(self.cells.feature_code[rows])

    def _ranks_of(self, rows: Integers) -> tuple[Integers, Integers, Integers]:
        """Return the ranks of some rows among all pairs, within label and within feature."""
        key, joint, cells = self.key, self.cells.joint, self.cells
        if len(rows) * _MANY >= len(self):
            at = np.empty(len(self), self.order.dtype)
            at[self.order] = np.arange(len(self))
            ranks, in_label, in_feature = (column[at[rows]] for column in self._ranks_in_order())
            return ranks, in_label, in_feature
        in_label = np.empty(len(rows), np.int64)
        for label, at in enumerate(_rows_by(cells.label_code[rows])):
            if len(at):
                in_label[at] = places_of(key, joint, self._label_rows[label], rows[at])
        return places_of(key, joint, np.arange(len(self)), rows), in_label, self._ranks_in_feature(rows)

    def _ranks_in_feature(self, rows: Integers) -> Integers:
        code = self.cells.feature_code
        wanted = np.unique(code[rows])
        start, end = np.searchsorted(code, wanted), np.searchsorted(code, wanted, side="right")
        # Pairs of one feature stand side by side.
        members = np.repeat(end - np.cumsum(end - start), end - start) + np.arange(int(np.sum(end - start)))
        ordered = members[order_of(self.key[members], self.cells.joint[members])]
        places = places_in_groups(code[ordered])
        by_row = np.argsort(ordered)
        found: Integers = places[by_row[np.searchsorted(ordered, rows, sorter=by_row)]]
        return found

    def _sums(self, rows: slice | Integers) -> tuple[Integers, Integers, Integers]:
        cells = self.cells
        feature, label = cells.feature_sums[cells.feature_code[rows]], cells.label_sums[cells.label_code[rows]]
        return cells.joint[rows], feature, label

    def _assemble(self, rows: Integers, ranks: tuple[Integers, Integers, Integers]) -> pa.Table:
        import pyarrow as pa

        names = (*_NUMBERS, *(() if self.scores is None else (SCORE,)))
        numbers = {name: np.empty(len(rows)) for name in names}
        presence = np.empty(len(rows), np.int8)
        for block in _blocks(len(rows)):
            found = self.numbers(rows[block])
            presence[block] = found.pop("presence")
            for name, values in found.items():
                numbers[name][block] = values
        columns: dict[str, Any] = {
            "label": _gather(self.cells.labels, self.cells.label_code[rows]),
            "feature": _gather(self.cells.features, self.cells.feature_code[rows]),
            **dict(zip(COLUMNS[2:5], (pa.array(column, pa.int64()) for column in ranks), strict=True)),
            "direction": _gather(pa.array(["absence", "presence"]), presence),
        }
        for name in names:
            # from_pandas: a share or lift that does not exist is NULL, not NaN.
            columns[name] = pa.array(numbers.pop(name), pa.float64(), from_pandas=True)
        return pa.table(columns)

    def numbers(self, rows: Integers) -> dict[str, Any]:
        """Compute the columns of numbers of some rows."""
        cells, mi = self.cells, self.mi[rows]
        joint, feature, label = self._sums(rows)
        sums = information.clip_sums(joint, feature, label, np.int64(cells.total))
        low, high = mi, mi
        if self.doubt is not None:
            codes = cells.feature_code[rows], cells.label_code[rows]
            low, high = self.doubt.bounds(mi, (joint, feature, label), codes)
        inside, outside = information.shares(*sums)
        scale = nats(self.base)
        return {
            "mi": mi / scale,
            "mi_low": low / scale,
            "mi_high": high / scale,
            "joint": cells.in_users_units(joint),
            "feature_total": cells.in_users_units(feature),
            "label_total": cells.in_users_units(label),
            "share_in": inside,
            "share_out": outside,
            "lift": _lift(*(s.astype(np.float64) for s in sums)),
            "presence": self._presence(rows, sums),
        } | ({} if self.scores is None else {SCORE: self.scores[rows]})


def mutual_information_of(cells: Cells, method: information.Method, tol: float) -> Floats:
    """Compute the mutual information of all pairs, in nats."""
    mi = np.empty(len(cells.joint))
    total = np.int64(cells.total)
    # Block by block: fresh memory for ten million rows at each step would cost more than the arithmetic.
    for rows in _blocks(len(mi)):
        feature, label = cells.feature_sums[cells.feature_code[rows]], cells.label_sums[cells.label_code[rows]]
        sums = cells.joint[rows], feature, label
        table = information.unprojected(*sums, total) if method == "paper" else information.feasible(*sums, total)
        mi[rows] = information.mutual_information(*table, method=method, tol=tol)
    return mi


def _rows_by(codes: Integers) -> list[Integers]:
    """Return the rows of each group, ascending."""
    rows = np.argsort(codes, kind="stable").astype(_kind_of(len(codes)), copy=False)
    return np.split(rows, np.cumsum(np.bincount(codes))[:-1])


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, count, _BLOCK))


def nats(base: float | None) -> float:
    """Return how many nats one unit of information is."""
    return 1.0 if base is None else math.log(base)


def _kind_of(count: int) -> type[np.int32 | np.int64]:
    return np.int32 if count < 1 << 31 else np.int64


def _lift(joint: Floats, feature: Floats, label: Floats, total: Floats) -> Floats:
    expected = feature * label
    lift: Floats = np.divide(joint * total, expected, out=np.full(joint.shape, np.nan), where=expected > 0)
    return lift


def _gather(keys: pa.Array, codes: Integers) -> pa.ChunkedArray:
    import pyarrow as pa

    parts = [keys.take(pa.array(codes[at : at + _TAKE])) for at in range(0, len(codes), _TAKE)]
    return pa.chunked_array(parts, pa.string())
