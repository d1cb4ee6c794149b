"""Score and order the pairs of a release: from released sums to the columns of a ranking.

pairs : (feature, label, sum), features : (feature, sum), labels : (label, sum), total -> ``COLUMNS``
No Python object is made for a row: names are looked up once and carried as places in the released lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from ddpmi import mi as measures
from ddpmi import uncertainty
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
_TAKE = 1 << 22  # rows gathered at once, so that no text column reaches the 2 GiB limit of one Arrow array
_BLOCK = 1 << 16
_NUMBERS = COLUMNS[6:]
_DIGITS = 12
_FEW = 1 << 16  # NumPy sorts 16-bit integers by counting
_POWERS = np.array([float(f"1e{k}") for k in range(-280, 281)])  # read from text: exact on every platform


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

    >>> round_significant(np.array([0.1234567890123456, 0.0])).tolist()
    [0.123456789012, 0.0]
    """
    place = np.clip(np.searchsorted(_POWERS, np.abs(values), side="right") - 1, 0, None)
    # _POWERS[place] <= value < 10 times that, and its mirror image in the list is its inverse.
    scale = _POWERS[np.clip(len(_POWERS) - 1 - place + _DIGITS - 1, 0, len(_POWERS) - 1)]
    rounded: Floats = np.rint(values * scale) / scale
    return rounded


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The released sums, one entry for each pair, pairs in the order of their keys' bytes."""

    features: pa.Array
    """Released feature names."""
    labels: pa.Array
    """Released label names."""
    feature_code: Integers
    """Place of each pair's feature in ``features``."""
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


def read(release: Released) -> Cells:
    """Find each pair's feature and label among the released ones."""
    features, feature_sums = _keys(release.features, "feature")
    labels, label_sums = _keys(release.labels, "label")
    pairs = release.pairs
    feature_code, label_code = _find(pairs["feature"], features), _find(pairs["label"], labels)
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
        label_sums=label_sums,
        total=int(release.total),
    )


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


def _find(column: pa.ChunkedArray, keys: pa.Array) -> Integers:
    import pyarrow.compute as pc

    places = pc.index_in(column, value_set=keys)
    if places.null_count:
        raise ReleaseError("A released pair has a feature or label without a released sum.")
    codes: Integers = places.to_numpy()
    return codes


def score(cells: Cells, receipt: Mapping[str, Any], method: measures.Method, tol: float) -> dict[str, Floats]:
    """Compute the columns of numbers, in nats, pairs in the order of ``cells``."""
    count = len(cells.joint)
    columns = {name: np.empty(count) for name in (*_NUMBERS, "presence")}
    # Block by block: fresh memory for ten million rows at each step would cost more than the arithmetic.
    for start in range(0, count, _BLOCK):
        rows = slice(start, start + _BLOCK)
        for name, values in _score_block(_Block.of(cells, rows), receipt, method, tol).items():
            columns[name][rows] = values
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The sums of some pairs."""

    joint: Integers
    """J, noisy."""
    feature: Integers
    """F of each pair's feature, noisy."""
    label: Integers
    """L of each pair's label, noisy."""
    total: int
    """N, noisy."""

    @classmethod
    def of(cls, cells: Cells, rows: slice) -> _Block:
        """Look up the sums of these rows."""
        return cls(
            joint=cells.joint[rows],
            feature=cells.feature_sums[cells.feature_code[rows]],
            label=cells.label_sums[cells.label_code[rows]],
            total=cells.total,
        )


def _score_block(block: _Block, receipt: Mapping[str, Any], method: measures.Method, tol: float) -> dict[str, Floats]:
    unit, label_grid = _unit(receipt), _label_grid(receipt)
    total = np.int64(block.total * label_grid)
    sums = measures.clip_sums(block.joint, block.feature, block.label * label_grid, total)
    table = measures.feasible(*sums)
    mi = measures.mutual_information(*table, method=method, tol=tol)
    low, high = _bounds(mi, table, block, receipt) if receipt["private"] else (mi, mi)
    inside, outside = measures.shares(*sums)
    return {
        "mi": mi,
        "mi_low": low,
        "mi_high": high,
        "joint": _in_users_units(block.joint, unit),
        "feature_total": _in_users_units(block.feature, unit),
        "label_total": _in_users_units(block.label, unit * label_grid),
        "share_in": inside,
        "share_out": outside,
        "lift": _lift(*(s.astype(np.float64) for s in sums)),
        "presence": measures.direction(*sums).astype(np.float64),
    }


def _bounds(mi: Floats, table: uncertainty.Table, block: _Block, receipt: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Bound mutual information by the noise that the receipt states."""
    tables, unit = receipt["tables"], _unit(receipt)
    whole = max(float(block.total * _label_grid(receipt) * unit), float(unit))
    sd = {name: float(tables[name]["sd_user"] or 0.0) / whole for name in ("pairs", "features", "labels", "total")}
    noise = uncertainty.Noise(
        joint=sd["pairs"],
        feature=sd["features"],
        label=sd["labels"],
        total=sd["total"],
        heavy=any(_kind(entry) == "laplace" for entry in tables.values()),
    )
    bounds = uncertainty.interval(mi, table, noise)
    threshold = tables["pairs"].get("threshold")
    if threshold is None or noise.joint == 0:
        return bounds
    excess = (block.joint - int(threshold)).astype(np.float64) * (float(unit) / (noise.joint * whole))
    return uncertainty.widen_near_threshold(bounds, table, excess, noise, mechanism=_kind(tables["pairs"]))


def _kind(entry: Mapping[str, Any]) -> Literal["gaussian", "laplace"]:
    """Read the kind of noise from a table's entry in the receipt: "discrete_laplace" or "discrete_gaussian"."""
    return "laplace" if "laplace" in entry["mechanism"] else "gaussian"


def _unit(receipt: Mapping[str, Any]) -> Fraction:
    """Return what one grid step of J and F is worth in the user's units."""
    return Fraction(str(receipt["grid"]["step"])) / (1 << int(receipt["grid"]["g"]))


def _label_grid(receipt: Mapping[str, Any]) -> int:
    """Return how many grid steps of J one step of L and N is: in units space these count units, on grid 1."""
    in_units = (receipt.get("plan") or {}).get("space") == "units"
    return 1 << int(receipt["grid"]["g"]) if in_units else 1


def _in_users_units(sums: Integers, unit: Fraction) -> Floats:
    # Numerator and denominator apart: 3 steps of 1/10 are 0.3, not 0.30000000000000004.
    return sums.astype(np.float64) * float(unit.numerator) / float(unit.denominator)


def _lift(joint: Floats, feature: Floats, label: Floats, total: Floats) -> Floats:
    expected = feature * label
    lift: Floats = np.divide(joint * total, expected, out=np.full(joint.shape, np.nan), where=expected > 0)
    return lift


def order_of(cells: Cells, mi: Floats) -> Integers:
    """Order pairs: mi to 12 significant digits descending, joint descending, then the keys' own order."""
    # Two stable sorts over keys in byte order: equal pairs stay in that order.
    return np.lexsort((-cells.joint, -round_significant(mi)))


def assemble(cells: Cells, numbers: dict[str, Floats], order: Integers) -> pa.Table:
    """Put the columns together in rank order."""
    import pyarrow as pa

    feature_code, label_code = cells.feature_code[order], cells.label_code[order]
    words = pa.array(["absence", "presence"])
    columns: dict[str, Any] = {
        "label": _gather(cells.labels, label_code),
        "feature": _gather(cells.features, feature_code),
        "rank": np.arange(1, len(order) + 1),
        "rank_in_label": places_in_groups(label_code),
        "rank_in_feature": places_in_groups(feature_code),
        "direction": _gather(words, numbers["presence"][order].astype(np.int64)),
    }
    for name in _NUMBERS:
        # from_pandas: a share or lift that does not exist is NULL, not NaN.
        columns[name] = pa.array(numbers[name][order], pa.float64(), from_pandas=True)
    return pa.table(columns)


def _gather(keys: pa.Array, codes: Integers) -> pa.ChunkedArray:
    import pyarrow as pa

    parts = [keys.take(pa.array(codes[at : at + _TAKE])) for at in range(0, len(codes), _TAKE)]
    return pa.chunked_array(parts, pa.string())


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
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(pc.unique(column))
    names = names.take(pc.array_sort_indices(names))
    return np.asarray(pc.index_in(column, value_set=names).to_numpy()).astype(np.int64)
