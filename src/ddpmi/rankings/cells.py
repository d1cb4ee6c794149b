"""The cells of a release: its sums as integer arrays on one grid, with names replaced by numbers.

pairs : (feature, label, sum), features : (feature, sum), labels : (label, sum), total -> Cells
For speed no Python object is made for a row, and names are looked up once for each run or distinct name.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ddpmi.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from ddpmi._typing import Floats, Integers


COLUMNS = (
    "label",
    "feature",
    "rank",
    "rank_in_label",
    "rank_in_feature",
    "direction",
    "mi",
    "mi_low",
    "mi_high",
    "joint",
    "feature_total",
    "label_total",
    "share_in",
    "share_in_low",
    "share_in_high",
    "share_out",
    "share_out_low",
    "share_out_high",
    "lift",
    "lift_low",
    "lift_high",
    "false_sign",
    "clear",
    "note",
)
"""The columns of a ranking, in order."""
NUMBERS = COLUMNS[6:-2]
"""The columns that hold numbers other than ranks."""
_DIGITS = 12
_FEW = 1 << 16  # NumPy sorts 16-bit integers by counting
_POWERS = np.array([float(f"1e{k}") for k in range(-280, 281)])  # read from text: the same on every platform
_LOWEST_EXPONENT = -1074
# For each binary exponent, the index in _POWERS of the largest power of ten that is not above its smallest number.
_PLACES = np.searchsorted(_POWERS, np.ldexp(0.5, np.arange(_LOWEST_EXPONENT, 1025)), side="right") - 1


class Released(Protocol):
    """A release, as far as ranking reads it."""

    @property
    def pairs(self) -> pa.Table:
        """feature, label, sum."""

    @property
    def features(self) -> pa.Table:
        """feature, sum."""

    @property
    def labels(self) -> pa.Table:
        """label, sum."""

    @property
    def total(self) -> int:
        """The sum of everything."""

    @property
    def receipt(self) -> Mapping[str, Any]:
        """The receipt."""


def round_significant(values: Floats) -> Floats:
    """Round to 12 significant digits, so that rounding errors of logarithms do not change an order.

    >>> round_significant(np.array([0.1234567890123456, 0.0, -2.5])).tolist()
    [0.123456789012, 0.0, -2.5]
    """
    size = np.abs(values)
    # A binary exponent spans at most two powers of ten.
    place = np.clip(_PLACES[np.frexp(size)[1] - _LOWEST_EXPONENT], 0, len(_POWERS) - 2)
    place += size >= _POWERS[place + 1]
    # _POWERS[place] <= value < 10 * _POWERS[place], and the power at the mirrored index is the inverse.
    scale = _POWERS[np.clip(len(_POWERS) - 1 - place + _DIGITS - 1, 0, len(_POWERS) - 1)]
    rounded: Floats = np.rint(values * scale) / scale
    return rounded


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The released sums on one grid; one entry for each pair, sorted by the bytes of feature and label."""

    features: pa.Array
    """Released feature names."""
    labels: pa.Array
    """Released label names."""
    feature_code: Integers
    """Index of each pair's feature in ``features``, ascending."""
    label_code: Integers
    """Index of each pair's label in ``labels``."""
    joint: Integers
    """J: the sum of each pair, as released."""
    feature_sums: Integers
    """F: the sum of each of ``features``, as released."""
    label_sums: Integers
    """L: the sum of each of ``labels``, as released."""
    total: int
    """N: the total, as released."""
    unit: Fraction
    """The size of one grid step in the user's units."""

    def in_users_units(self, sums: Integers) -> Floats:
        """Convert sums on the grid to the user's units."""
        # Numerator and denominator in turn: 3 steps of 1/10 are 0.3, not 0.30000000000000004.
        values = sums.astype(np.float64)
        if self.unit.numerator != 1:
            values *= float(self.unit.numerator)
        if self.unit.denominator != 1:
            values /= float(self.unit.denominator)
        return values

    @property
    def users_total(self) -> float:
        """The total in the user's units."""
        return float(self.total * self.unit)


def read(release: Released) -> Cells:
    """Read the tables of a release.

    Raises:
        ReleaseError: The tables do not fit together.
    """
    grid, unit = scale_of(release.receipt)
    features, feature_sums = _keys(release.features, "feature")
    labels, label_sums = _keys(release.labels, "label")
    pairs = release.pairs
    feature_code = _find_runs(pairs["feature"], features)
    label_code = _find_few(pairs["label"], labels)
    joint = pairs["sum"].to_numpy().astype(np.int64, copy=False)
    if not _increases(feature_code, label_code):
        order = np.lexsort((label_code, feature_code))
        feature_code, label_code, joint = feature_code[order], label_code[order], joint[order]
        if not _increases(feature_code, label_code):
            raise ReleaseError("The released table pairs holds a pair twice.")
    return Cells(
        features=features,
        labels=labels,
        feature_code=feature_code,
        label_code=label_code,
        joint=joint,
        feature_sums=feature_sums,
        label_sums=label_sums * grid,
        total=int(release.total) * grid,
        unit=unit,
    )


def scale_of(receipt: Mapping[str, Any]) -> tuple[int, Fraction]:
    """Return the factor that brings labels and total to the grid of pairs, and the size of a grid step in user's units.

    >>> scale_of({"grid": {"step": "0.5", "g": 1}}), scale_of({"grid": {"step": 1, "g": 8}, "space": "units"})[0]
    ((1, Fraction(1, 4)), 256)
    >>> scale_of({"grid": {"step": 1, "g": 8}, "space": "units", "weighted": True})[0]
    1
    """
    fine = 1 << int(receipt["grid"]["g"])
    # Releases of formats 1 and 2 that count units have the number of units in labels and total, on grid 1.
    whole = space_of(receipt) == "units" and not setting(receipt, "weighted")
    return fine if whole else 1, Fraction(str(receipt["grid"]["step"])) / fine / _rate(receipt)


def _rate(receipt: Mapping[str, Any]) -> Fraction:
    """Return the part of the units that was sampled; sums are divided by it to estimate those of all units."""
    return Fraction(str(receipt.get("sample_rate") or 1))


def space_of(receipt: Mapping[str, Any]) -> str:
    """Return what a release counts: "events" unless its receipt or its plan says "units".

    >>> space_of({"plan": None}), space_of({"space": "units"})
    ('events', 'units')
    """
    return str(setting(receipt, "space") or "events")


def are_summed(receipt: Mapping[str, Any]) -> bool:
    """Return whether the sums of features and labels are sums of released pairs plus a noisy remainder.

    >>> are_summed({"plan": None}), are_summed({"plan": {"marginals": "other"}})
    (False, True)
    """
    return bool(setting(receipt, "marginals") == "other")


def setting(receipt: Mapping[str, Any], name: str) -> Any:
    """Return a setting of a receipt, or else of its plan; None where neither has it.

    >>> setting({"plan": {"space": "units"}}, "space")
    'units'
    """
    found = receipt.get(name)
    return (receipt.get("plan") or {}).get(name) if found is None else found


def _increases(feature_code: Integers, label_code: Integers) -> bool:
    """Return whether the keys increase from row to row: sorted, and without duplicates."""
    same = feature_code[1:] == feature_code[:-1]
    after = feature_code[1:] > feature_code[:-1]
    return bool(np.all(after | (same & (label_code[1:] > label_code[:-1]))))


def _keys(table: pa.Table, key: str) -> tuple[pa.Array, Integers]:
    """Return a table's keys, sorted by bytes, and their sums, without the row "other" (it has no key)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = table.filter(pc.is_valid(table[key]))
    keys = pa.array([], pa.string()) if table.num_rows == 0 else pa.concat_arrays(table[key].chunks)
    sums = table["sum"].to_numpy().astype(np.int64, copy=False)
    if pc.all(pc.less(keys[:-1], keys[1:])).as_py() is False:
        order = pc.array_sort_indices(keys)
        keys, sums = keys.take(order), sums[order.to_numpy()]
        if not pc.all(pc.less(keys[:-1], keys[1:])).as_py():
            raise ReleaseError(f"A released table holds a {key} twice.")
    return keys, sums


def _find_runs(column: pa.ChunkedArray, keys: pa.Array) -> Integers:
    """Look up names that come in runs of equal ones, once for each run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [pc.run_end_encode(chunk) for chunk in column.chunks if len(chunk)]
    if not parts:
        return np.empty(0, np.int32)
    names = pa.chunked_array([part.values for part in parts])
    lengths = np.concatenate([np.diff(part.run_ends.to_numpy(), prepend=0) for part in parts])
    if len(parts) > 1:
        # A run may continue in the next chunk.
        borders = np.cumsum([len(part.values) for part in parts])[:-1]
        fresh = np.ones(len(lengths), np.bool_)
        fresh[borders] = [names[at] != names[at - 1] for at in borders.tolist()]
        names, lengths = names.filter(pa.array(fresh)), np.add.reduceat(lengths, np.flatnonzero(fresh))
    # Usually there is one run for each key, in the same order.
    codes = np.arange(len(keys), dtype=np.int32) if names == pa.chunked_array([keys]) else _find(names, keys)
    return np.repeat(codes, lengths)


def _find_few(column: pa.ChunkedArray, keys: pa.Array) -> Integers:
    """Look up names with few distinct values, once for each distinct name in each chunk."""
    kind: type[np.integer[Any]] = np.uint16 if len(keys) <= _FEW else np.int32
    codes: Integers = np.empty(len(column), kind)
    start = 0
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        if encoded.null_count:
            raise _unknown()
        codes[start : start + len(chunk)] = _find(encoded.dictionary, keys).astype(kind)[encoded.indices.to_numpy()]
        start += len(chunk)
    return codes


def _find(names: pa.Array | pa.ChunkedArray, keys: pa.Array) -> Integers:
    import pyarrow.compute as pc

    places = pc.index_in(names, value_set=keys)
    if places.null_count:
        raise _unknown()
    codes: Integers = places.to_numpy()
    return codes


def _unknown() -> ReleaseError:
    return ReleaseError("A released pair has a feature or label without a released sum.")


def places_in_groups(groups: Integers) -> Integers:
    """Count 1, 2, 3, ... within each group, in the order given.

    >>> places_in_groups(np.array([7, 3, 7, 7, 3])).tolist()
    [1, 1, 2, 3, 2]
    """
    count = len(groups)
    if count == 0:
        return np.empty(0, np.int64)
    if groups.max() < _FEW:
        by_group = np.argsort(groups.astype(np.uint16), kind="stable")
    else:
        # One sort of distinct integers is faster than a stable sort with ties.
        by_group = np.argsort(groups.astype(np.int64) * count + np.arange(count))
    ordered = groups[by_group]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    places = np.empty(count, np.int64)
    places[by_group] = np.arange(1, count + 1) - np.repeat(first, np.diff(np.r_[first, count]))
    return places


def names_by_bytes(column: pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """Return the distinct names of a column, sorted by bytes, and the index of each row's name among them.

    >>> import pyarrow as pa
    >>> names, codes = names_by_bytes(pa.chunked_array([["b", "a", "b"]]))
    >>> names.to_pylist(), codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(pc.unique(column))
    names = names.take(pc.array_sort_indices(names))
    return names, np.asarray(pc.index_in(column, value_set=names).to_numpy()).astype(np.int64)
