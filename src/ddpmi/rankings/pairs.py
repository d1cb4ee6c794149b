"""The pairs of a ranking: how they are ordered, and how rows are selected from them.

`ScoredPairs` come from a release: Cells -> ScoredPairs -> a table with the columns ``COLUMNS``. They sort only as many
pairs as a result needs. Rows of a table that was made before are in `listed`.
Order: score (or mi) to 12 significant digits descending, joint descending, feature, label by bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ddpmi.errors import LONGEST_LIST, InputError, check_count
from ddpmi.information import mi as information
from ddpmi.information.scores import score
from ddpmi.rankings import intervals, orders, verdicts
from ddpmi.rankings.cells import COLUMNS, NUMBERS, Cells, places_in_groups, round_significant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from ddpmi._typing import Flags, Floats, Integers
    from ddpmi.rankings.noise_model import NoiseModel


Per = Literal["label", "feature", "all"]
Direction = Literal["presence", "absence", "both"]
SCORE = "score"
"""The column that follows ``COLUMNS`` where another score gives the order."""
NOTES = ("the total of this label is not clear of its noise", "the total outside this label is not clear of its noise")
"""Why a share or lift is NULL, numbered from 1."""
WITHOUT: dict[str, tuple[int, ...]] = {"share_in": (1,), "share_out": (2,), "lift": (1,)}
"""The notes with which a measure is NULL."""
_BLOCK = 1 << 14  # rows computed at once: the temporary arrays of one block fit into the processor's cache
_TAKE = 1 << 22  # rows gathered at once, so that no text column reaches the 2 GiB limit of one Arrow array
_LOOP = 1 << 12  # most groups that are selected one by one
_MANY = 8  # a list longer than 1/8 of all pairs is cut from the whole order


def check_top(n: object, per: str, direction: str) -> None:
    """Raise unless these are arguments of `top`.

    >>> check_top(10, "label", "both")
    """
    check_count("top", n, most=LONGEST_LIST, hint="ranking.top(10)")
    for word, kind in ((per, Per), (direction, Direction)):
        if word not in get_args(kind):
            raise InputError(f"Choose one of {get_args(kind)}, got {word!r}.")


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
    # ~ instead of - for integers: - overflows for the smallest one.
    fall = ~sums[at] if sums.dtype.kind == "i" else -sums[at]
    order[at] = order[at][np.lexsort((fall, ordered[at]))]
    return order


def best_of(key: Floats, joint: Integers, rows: Integers, n: int) -> Integers:
    """Return the first n of some rows, in order, without sorting the others.

    Args:
        key: The sort key of every pair.
        joint: The sum of every pair.
        rows: Row numbers of the pairs to choose from, ascending.
        n: How many, at least 1.

    >>> best_of(np.array([0.0, -1.0, 0.0, -3.0]), np.array([5, 1, 9, 5]), np.array([0, 1, 2]), 2).tolist()
    [1, 2]
    """
    if len(rows) > n:
        keys = key[rows]
        rows = rows[keys <= np.partition(keys, n - 1)[n - 1]]
    return rows[order_of(key[rows], joint[rows])][:n]


def places_of(key: Floats, joint: Integers, rows: Integers, chosen: Integers) -> Integers:
    """Return the rank of each chosen pair among some rows, without sorting all of them.

    Args:
        key: The sort key of every pair.
        joint: The sum of every pair.
        rows: Row numbers of the pairs to rank among, ascending.
        chosen: Some of these rows.

    >>> places_of(np.array([0.0, -1.0, 0.0, -3.0]), np.array([5, 1, 9, 5]), np.arange(4), np.array([0, 3])).tolist()
    [4, 1]
    """
    if not len(chosen):
        return np.empty(0, np.int64)
    keys, steps = key[rows], np.unique(key[chosen])
    # Rows that come after all chosen ones do not matter, and these are most rows.
    ahead_of_last = keys <= steps[-1]
    rows, keys = rows[ahead_of_last], keys[ahead_of_last]
    before = np.searchsorted(steps, keys)
    equal = rows[keys == steps[before]]
    # How many rows have a smaller key than each chosen key.
    counted = np.bincount(before, minlength=len(steps))
    ordered = equal[order_of(key[equal], joint[equal])]
    step = np.searchsorted(steps, key[ordered])
    ahead = np.cumsum(counted) - np.bincount(step, minlength=len(steps))
    places = ahead[step] + places_in_groups(step)
    by_row = np.argsort(ordered)
    found: Integers = places[by_row[np.searchsorted(ordered, chosen, sorter=by_row)]]
    return found


def first_of_groups(order: Integers, group: Integers | None, n: int) -> Integers:
    """Return the first n rows of each group, groups ascending; of all rows where there are no groups.

    Args:
        order: Row numbers, best first.
        group: The group of every row.
        n: How many, at least 1.

    >>> first_of_groups(np.array([3, 0, 2, 1]), np.array([1, 0, 1, 1]), 2).tolist()
    [1, 3, 0]
    """
    if group is None:
        return order[:n]
    groups = group[order]
    first = places_in_groups(groups) <= n
    order, groups = order[first], groups[first]
    return order[np.argsort(groups, kind="stable")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coded:
    """Ranked pairs as numbers, sorted by the bytes of feature and label."""

    features: pa.Array
    """Feature names, sorted by bytes."""
    labels: pa.Array
    """Label names, sorted by bytes."""
    feature_code: Integers
    """Index of each pair's feature in ``features``."""
    label_code: Integers
    """Index of each pair's label in ``labels``."""
    place: Integers
    """Position of each pair in the ranking, from 1."""
    presence: Flags
    """Whether each pair's direction is presence."""

    def __len__(self) -> int:
        return len(self.place)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredPairs:
    """All pairs of a release with their mutual information; ranks and intervals are computed on demand."""

    cells: Cells
    """The released sums."""
    noise_model: NoiseModel | None
    """The noise of the sums; None where they are exact."""
    mi: Floats
    """Mutual information of each pair, in nats."""
    base: float | None
    """The base of the logarithm in tables; None for nats."""
    scores: Floats | None = None
    """Another score to order by; None to order by mutual information."""
    ranked_by: orders.Order = "estimate"
    """How pairs are ordered by mutual information, where there is no other score."""
    pooled: orders.Pooled | None = None
    """The values of the pooled order, where they were computed before."""
    judge: verdicts.Judge | None = None
    """What gives verdicts, where it was learned before."""

    def __len__(self) -> int:
        return len(self.mi)

    def scored(self, name: str) -> ScoredPairs:
        """Order by another score."""
        if name == "mi":
            return replace(self, scores=self.mi)
        scores = np.empty(len(self))
        for rows in _blocks(len(self)):
            joint, feature, label = (self.cells.in_users_units(sums) for sums in self._sums(rows))
            scores[rows] = score(name, joint, feature, label, self.cells.users_total)
        return replace(self, scores=scores)

    @cached_property
    def key(self) -> Floats:
        """The sort key of each pair, ascending: the score to 12 significant digits, negated."""
        key = np.empty(len(self))
        for rows in _blocks(len(self)):
            np.negative(round_significant(self._values(rows)), out=key[rows])
        return key

    def _values(self, rows: slice) -> Floats:
        """Return the values that some rows are ordered by, descending, before rounding."""
        if self.scores is not None:
            return self.scores[rows]
        if self.noise_model is None or self.ranked_by == "estimate":
            return self.mi[rows]
        if self._pooled is not None:
            return self._pooled.value[rows]
        sums = self._sums(rows)
        if self.ranked_by == "lower":
            codes = self.cells.feature_code[rows], self.cells.label_code[rows]
            return intervals.bounds(self.noise_model, self.mi[rows], sums, codes)[0]
        strength = orders.EVERY_PAIR if self.noise_model.every_pair else orders.BEHIND_THRESHOLD
        return orders.shrunk((*sums, self.cells.total), self.noise_model.noise, strength)

    @cached_property
    def _pooled(self) -> orders.Pooled | None:
        """The values of the pooled order; None where pairs are ordered otherwise."""
        if self.scores is not None or self.noise_model is None or self.ranked_by != "pooled":
            return None
        if self.pooled is not None:
            return self.pooled
        cells = self.cells
        codes, names = (cells.feature_code, cells.label_code), (cells.features, cells.labels)
        return orders.pooled((*self._sums(slice(None)), cells.total), codes, names, self.noise_model.noise)

    @cached_property
    def order(self) -> Integers:
        """Row numbers of the pairs, best first."""
        return order_of(self.key, self.cells.joint).astype(_kind_of(len(self)), copy=False)

    @cached_property
    def presence(self) -> Flags:
        """Whether each pair is more common inside its label than outside."""
        flags = np.empty(len(self), np.bool_)
        for rows in _blocks(len(self)):
            flags[rows] = self._presence(rows, information.clip_sums(*self._sums(rows), np.int64(self.cells.total)))
        return flags

    def _presence(self, rows: slice | Integers, sums: tuple[Integers, ...]) -> Flags:
        """Return the direction of some rows: that of the pooled estimate where it gives the order, else that of the sums."""
        return information.direction(*sums) if self._pooled is None else self._pooled.presence[rows]

    def coded(self) -> Coded:
        """Return the pairs as numbers, with their positions in the order."""
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

    def lifts(self, rows: Integers) -> pa.Table:
        """Return names, label_total, share_in, and lift with its interval of some pairs, given by their row numbers in `coded`."""
        import pyarrow as pa

        cells = self.cells
        codes, sums = (cells.feature_code[rows], cells.label_code[rows]), self._sums(rows)
        clipped = information.clip_sums(*sums, np.int64(cells.total))
        lift = _lift(*(part.astype(np.float64) for part in clipped))
        share, low, high = information.shares(*clipped)[0], lift, lift
        if self.noise_model is not None:
            low, high = intervals.ranges(self.noise_model, {"lift": lift}, sums, codes)["lift"]
            unclear = np.isin(self.noise_model.unclear(sums[2]), WITHOUT["lift"])
            share, lift, low, high = (_blank(values, unclear) for values in (share, lift, low, high))
        numbers = {"share_in": share, "lift": lift, "lift_low": low, "lift_high": high}
        numbers["label_total"] = cells.in_users_units(sums[2])
        names = {"label": _gather(cells.labels, codes[1]), "feature": _gather(cells.features, codes[0])}
        return pa.table(names | {name: pa.array(v, pa.float64(), from_pandas=True) for name, v in numbers.items()})

    def label_totals(self) -> dict[str, float]:
        """Return the total of each released label."""
        totals = self.cells.in_users_units(self.cells.label_sums).tolist()
        return dict(zip(self.cells.labels.to_pylist(), totals, strict=True))

    def of_labels(self, names: Sequence[str]) -> pa.Table:
        """Return the pairs of some released labels, best first, with the ranks they have among all pairs."""
        wanted = np.isin(np.asarray(self.cells.labels.to_pylist(), object), names)
        rows = self.order[wanted[self.cells.label_code[self.order]]]
        return self._assemble(rows, self._ranks_of(rows))

    def of_features(self, names: Sequence[str]) -> pa.Table:
        """Return the pairs of some features, best first, with the ranks they have among all pairs."""
        import pyarrow as pa
        import pyarrow.compute as pc

        codes = pc.index_in(pa.array(list(names), pa.string()), value_set=self.cells.features.cast(pa.string()))
        wanted = np.isin(self.cells.feature_code, codes.drop_null().to_numpy())
        some = np.flatnonzero(wanted)
        rows = some[order_of(self.key[some], self.cells.joint[some])]
        return self._assemble(rows, self._ranks_of(rows))

    def counts_in_labels(self) -> dict[str, tuple[int, int]]:
        """Return for each label with pairs how many it has, and how many of them are clear."""
        code, count = self.cells.label_code, len(self.cells.labels)
        pairs, clear = np.bincount(code, minlength=count), np.bincount(code[self._clear], minlength=count)
        found = zip(self.cells.labels.to_pylist(), pairs.tolist(), clear.tolist(), strict=True)
        return {name: (all_, some) for name, all_, some in found if all_}

    def clear_top(self, n: int) -> pa.Table:
        """Return the best n clear pairs of each label, with the ranks they have among all pairs."""
        rows = first_of_groups(self.order[self._clear[self.order]], self.cells.label_code, n)
        return self._assemble(rows, self._ranks_of(rows))

    @property
    def _clear(self) -> Flags:
        """Whether each pair is clear."""
        return self._levels < self.cut

    def table(self) -> pa.Table:
        """Return all pairs, best first."""
        return self._assemble(self.order, self._ranks_in_order())

    def first(self, n: int) -> pa.Table:
        """Return the best n pairs of all."""
        return self.top(n, per="all", direction="both") if n > 0 else self.table().slice(0, n)

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
        return first_of_groups(rows, None if per == "all" else self._codes(per), n)

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
        # The pairs of one feature are consecutive rows.
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

        names = (*NUMBERS, *(() if self.scores is None else (SCORE,)))
        numbers = {name: np.empty(len(rows)) for name in names}
        presence, notes = np.empty(len(rows), np.int8), np.empty(len(rows), np.int8)
        for block in _blocks(len(rows)):
            found = self.numbers(rows[block])
            presence[block], notes[block] = found.pop("presence"), found.pop("note")
            for name, values in found.items():
                numbers[name][block] = values
        columns: dict[str, Any] = {
            "label": _gather(self.cells.labels, self.cells.label_code[rows]),
            "feature": _gather(self.cells.features, self.cells.feature_code[rows]),
            **dict(zip(COLUMNS[2:5], (pa.array(column, pa.int64()) for column in ranks), strict=True)),
            "direction": _gather(pa.array(["absence", "presence"]), presence),
        }
        clear = verdicts.level_of(numbers["false_sign"]) < self.cut
        for name in names:
            # from_pandas: a share or lift that is not defined is NULL, not NaN.
            columns[name] = pa.array(numbers.pop(name), pa.float64(), from_pandas=True)
        columns |= {"clear": pa.array(clear), "note": notes_in_words(notes)}
        return pa.table({name: columns[name] for name in (*COLUMNS, *names[len(NUMBERS) :])})

    def numbers(self, rows: Integers) -> dict[str, Any]:
        """Compute the numeric columns of some rows, their directions, and the number of their notes."""
        cells, mi = self.cells, self.mi[rows]
        joint, feature, label = self._sums(rows)
        sums = information.clip_sums(joint, feature, label, np.int64(cells.total))
        inside, outside = information.shares(*sums)
        lift = _lift(*(s.astype(np.float64) for s in sums))
        values = {"mi": mi, "share_in": inside, "share_out": outside, "lift": lift}
        ends = {name: (value, value) for name, value in values.items()}
        notes: Integers = np.zeros(len(rows), np.int8)
        if self.noise_model is not None:
            codes = cells.feature_code[rows], cells.label_code[rows]
            ends = intervals.ranges(self.noise_model, values, (joint, feature, label), codes)
            notes = self.noise_model.unclear(label)
            for name in ("share_in", "share_out", "lift"):
                without = np.isnan(values[name]) | np.isin(notes, WITHOUT[name])
                low, high = ends[name]
                values[name], ends[name] = _blank(values[name], without), (_blank(low, without), _blank(high, without))
        scale = nats(self.base)
        found: dict[str, Any] = {
            "joint": cells.in_users_units(joint),
            "feature_total": cells.in_users_units(feature),
            "label_total": cells.in_users_units(label),
            "false_sign": self._false_sign(rows, sums),
            "presence": self._presence(rows, sums),
            "note": notes,
        }
        for name, value in values.items():
            low, high = ends[name]
            size = scale if name == "mi" else 1.0
            found |= {name: value / size, f"{name}_low": low / size, f"{name}_high": high / size}
        return found if self.scores is None else found | {SCORE: self.scores[rows]}

    @cached_property
    def _judged(self) -> verdicts.Judge | None:
        """What gives verdicts; None where sums are exact."""
        if self.judge is not None or self.noise_model is None:
            return self.judge
        cells = self.cells
        codes = cells.feature_code, cells.label_code
        return verdicts.Judge.of(self.noise_model, self._sums(slice(None)), codes, len(cells.labels))

    def _false_sign(self, rows: slice | Integers, clipped: tuple[Integers, ...]) -> Floats:
        """Return for some rows the probability that the direction shown is wrong."""
        if self.noise_model is None or self._judged is None:
            return np.zeros(len(clipped[0]))
        codes = self.cells.feature_code[rows], self.cells.label_code[rows]
        chance = self._judged.presence(self.noise_model, self._sums(rows), codes)
        shown, own = self._presence(rows, clipped), information.direction(*clipped)
        return verdicts.false_sign(chance, shown, own, pooled=self._pooled is not None)

    @cached_property
    def _levels(self) -> NDArray[np.int16]:
        """The level of each pair's false_sign."""
        levels = np.empty(len(self), np.int16)
        for rows in _blocks(len(self)):
            clipped = information.clip_sums(*self._sums(rows), np.int64(self.cells.total))
            levels[rows] = verdicts.level_of(self._false_sign(rows, clipped))
        return levels

    @cached_property
    def cut(self) -> int:
        """The lowest level of false_sign that is not clear."""
        return verdicts.cut(np.bincount(self._levels, minlength=verdicts.LEVELS))

    def clear_rows(self) -> pa.Table:
        """Return the clear pairs, best first, with the ranks they have among all pairs."""
        rows = self.order[self._levels[self.order] < self.cut]
        return self._assemble(rows, self._ranks_of(rows))

    @property
    def clear_count(self) -> int:
        """How many pairs are clear."""
        return int(np.sum(self._levels < self.cut))


def mutual_information_of(cells: Cells, method: information.Method, tol: float) -> Floats:
    """Compute the mutual information of all pairs, in nats."""
    mi = np.empty(len(cells.joint))
    total = np.int64(cells.total)
    # Block by block: allocating memory for ten million rows at each step would cost more than the arithmetic.
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
    """Return how many nats one unit of information has, in the given base."""
    return 1.0 if base is None else math.log(base)


def _kind_of(count: int) -> type[np.int32 | np.int64]:
    return np.int32 if count < 1 << 31 else np.int64


def _lift(joint: Floats, feature: Floats, label: Floats, total: Floats) -> Floats:
    expected = feature * label
    lift: Floats = np.divide(joint * total, expected, out=np.full(joint.shape, np.nan), where=expected > 0)
    return lift


def _blank(values: Floats, where: Flags) -> Floats:
    return np.where(where, np.nan, values)


def notes_in_words(notes: Integers) -> pa.Array:
    """Return notes by number: NULL for 0."""
    import pyarrow as pa

    words = pa.array([None, *NOTES], pa.string())
    return words.take(pa.array(notes))


def _gather(keys: pa.Array, codes: Integers) -> pa.ChunkedArray:
    import pyarrow as pa

    parts = [keys.take(pa.array(codes[at : at + _TAKE])) for at in range(0, len(codes), _TAKE)]
    return pa.chunked_array(parts, pa.string())
