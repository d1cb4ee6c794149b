"""Read the sums of a release: names become numbers once, and all sums stand on one grid.

pairs : (feature, label, sum), features : (feature, sum), labels : (label, sum), total -> Cells
No Python object is made for a row, and no name is compared with another row by row.
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
    from numpy.typing import NDArray

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]

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
    "share_out",
    "lift",
)
"""The columns of a ranking, in order."""
_DIGITS = 12
_FEW = 1 << 16  # NumPy sorts 16-bit integers by counting
_POWERS = np.array([float(f"1e{k}") for k in range(-280, 281)])  # read from text: exact on every platform
_LOWEST_EXPONENT = -1074
# For each binary exponent the place in _POWERS of the power of ten at or below its smallest number.
_PLACES = np.searchsorted(_POWERS, np.ldexp(0.5, np.arange(_LOWEST_EXPONENT, 1025)), side="right") - 1


class Released(Protocol):
    """What ranking needs of a release."""

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
    """Round to 12 significant digits, so that the last bits of a logarithm cannot decide an order.

    >>> round_significant(np.array([0.1234567890123456, 0.0, -2.5])).tolist()
    [0.123456789012, 0.0, -2.5]
    """
    size = np.abs(values)
    # A binary exponent leaves two powers of ten to choose from.
    place = np.clip(_PLACES[np.frexp(size)[1] - _LOWEST_EXPONENT], 0, len(_POWERS) - 2)
    place += size >= _POWERS[place + 1]
    # _POWERS[place] <= value < 10 times that, and its mirror image in the list is its inverse.
    scale = _POWERS[np.clip(len(_POWERS) - 1 - place + _DIGITS - 1, 0, len(_POWERS) - 1)]
    rounded: Floats = np.rint(values * scale) / scale
    return rounded


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The released sums, one entry for each pair, pairs in the order of their keys' bytes; one grid for all."""

    features: pa.Array
    """Released feature names."""
    labels: pa.Array
    """Released label names."""
    feature_code: Integers
    """Place of each pair's feature in ``features``; it never falls."""
    label_code: Integers
    """Place of each pair's label in ``labels``."""
    joint: Integers
    """J, noisy."""
    feature_sums: Integers
    """F of each of ``features``, noisy."""
    label_sums: Integers
    """L of each of ``labels``, noisy."""
    total: int
    """N, noisy."""
    unit: Fraction
    """What one grid step is worth in the user's units."""

    def in_users_units(self, sums: Integers) -> Floats:
        """Turn sums on the grid into the user's units."""
        # Numerator and denominator apart: 3 steps of 1/10 are 0.3, not 0.30000000000000004.
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
    """Find each pair's feature and label among the released ones."""
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
    """Return what the sums of labels and the total are multiplied with, and what one grid step is worth.

    >>> scale_of({"grid": {"step": "0.5", "g": 1}}), scale_of({"grid": {"step": 1, "g": 8}, "space": "units"})[0]
    ((1, Fraction(1, 4)), 256)
    """
    fine = 1 << int(receipt["grid"]["g"])
    # In units space labels and total count units, on grid 1.
    return fine if space_of(receipt) == "units" else 1, Fraction(str(receipt["grid"]["step"])) / fine / _rate(receipt)


def _rate(receipt: Mapping[str, Any]) -> Fraction:
    """The part of the units that was read; what they sum to stands for all."""
    return Fraction(str(receipt.get("sample_rate") or 1))


def space_of(receipt: Mapping[str, Any]) -> str:
    """Return what a release counts: "events" unless its receipt or its plan says "units".

    >>> space_of({"plan": None}), space_of({"space": "units"})
    ('events', 'units')
    """
    return str(said(receipt, "space") or "events")


def are_summed(receipt: Mapping[str, Any]) -> bool:
    """Tell whether the sums of features and labels are sums of released pairs and a noisy rest.

    >>> are_summed({"plan": None}), are_summed({"plan": {"marginals": "other"}})
    (False, True)
    """
    return bool(said(receipt, "marginals") == "other")


def said(receipt: Mapping[str, Any], name: str) -> Any:
    """Return what a receipt says, or else its plan; None where neither does.

    >>> said({"plan": {"space": "units"}}, "space")
    'units'
    """
    return receipt.get(name) or (receipt.get("plan") or {}).get(name)


def _increases(feature_code: Integers, label_code: Integers) -> bool:
    """Tell whether the keys increase from row to row: then they are sorted, and none comes twice."""
    same = feature_code[1:] == feature_code[:-1]
    after = feature_code[1:] > feature_code[:-1]
    return bool(np.all(after | (same & (label_code[1:] > label_code[:-1]))))


def _keys(table: pa.Table, key: str) -> tuple[pa.Array, Integers]:
    """Return a table's keys in the order of their bytes, and their sums, without "other" (it has no key)."""
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
    """Look up names that stand in runs: once for each run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [pc.run_end_encode(chunk) for chunk in column.chunks if len(chunk)]
    if not parts:
        return np.empty(0, np.int32)
    names = pa.chunked_array([part.values for part in parts])
    lengths = np.concatenate([np.diff(part.run_ends.to_numpy(), prepend=0) for part in parts])
    if len(parts) > 1:
        # A run may go on in the next chunk.
        borders = np.cumsum([len(part.values) for part in parts])[:-1]
        fresh = np.ones(len(lengths), np.bool_)
        fresh[borders] = [names[at] != names[at - 1] for at in borders.tolist()]
        names, lengths = names.filter(pa.array(fresh)), np.add.reduceat(lengths, np.flatnonzero(fresh))
    # Most often the runs are the keys, one by one.
    codes = np.arange(len(keys), dtype=np.int32) if names == pa.chunked_array([keys]) else _find(names, keys)
    return np.repeat(codes, lengths)


def _find_few(column: pa.ChunkedArray, keys: pa.Array) -> Integers:
    """Look up names of which there are few different ones: once for each of them and chunk."""
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


def codes_by_bytes(column: pa.ChunkedArray) -> Integers:
    """Number names by the order of their bytes.

    >>> import pyarrow as pa
    >>> codes_by_bytes(pa.chunked_array([["b", "a", "b"]])).tolist()
    [1, 0, 1]
    """
    return names_by_bytes(column)[1]


def names_by_bytes(column: pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """Return the different names of a column by the order of their bytes, and which one each row has.

    >>> import pyarrow as pa
    >>> names_by_bytes(pa.chunked_array([["b", "a", "b"]]))[0].to_pylist()
    ['a', 'b']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(pc.unique(column))
    names = names.take(pc.array_sort_indices(names))
    return names, np.asarray(pc.index_in(column, value_set=names).to_numpy()).astype(np.int64)


def equals(column: pa.ChunkedArray, word: str) -> NDArray[np.bool_]:
    """Tell which rows hold a word.

    >>> import pyarrow as pa
    >>> equals(pa.chunked_array([["b", "a"]]), "a").tolist()
    [False, True]
    """
    import pyarrow.compute as pc

    return np.asarray(pc.equal(column, word).to_numpy(), np.bool_)
