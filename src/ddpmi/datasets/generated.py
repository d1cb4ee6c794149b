"""Generated rows in the shape of the paper's large experiment.

The rows are synthetic: they need no privacy, and the same seed gives the same rows. One unit has one row. Features follow
Zipf's law with exponent 1, labels are skewed, and each feature is more frequent in one label.

The paper states how many units, features and labels it had, but not how they depend on each other. ``suggest.SKEW`` and
``suggest.LEAN`` are round numbers that agree with a second account of such rows: 18.2 million pairs among 100 million units,
42 million at the paper's size, and the rank errors of the paper's method there (``docs/decisions/generated-rows.md``).
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import InputError, check_count
from ddpmi.planning.suggest import LEAN, SKEW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

PAPER_UNITS = 382_762_990
"""Units of the paper's large experiment."""
PAPER_FEATURES = 5_880_165
"""Features of the paper's large experiment."""
PAPER_LABELS = 22
"""Labels of the paper's large experiment."""

_CHUNK = 1 << 20  # rows of one row group and of one random stream
_LIMITS = {"units": 1 << 40, "features": 20_000_000, "labels": 10_000}  # keeps the tables under 500 MB
_ZIPF_SHIFT = float(np.exp(-np.euler_gamma))  # makes log((f + s) / (f - 1 + s)) about 1 / f, also for f = 1
_VARIED_SKEW = 0.8
_LEAN_BITS = 16
_SCRAMBLE = 0x1E3779B97F4A7C15  # odd, so i -> i * _SCRAMBLE mod 2^63 never gives two units one number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The parameters of the rows; a chunk is determined by them and by its number."""

    units: int
    """Rows in all."""
    features: int
    """Length of the feature list."""
    seed: int
    """The same seed gives the same rows."""
    home: NDArray[np.uint16]
    """The label in which each feature is more frequent."""
    lean: NDArray[np.uint16]
    """The part of the feature's rows that is given to this label, out of 2^16."""
    others: NDArray[np.uint16]
    """2^16 labels in proportion to their shares: a random 16-bit index draws one."""


def paper_shape(
    units: int, features: int, labels: int, path: str | os.PathLike[str], seed: int, *, varied: bool = False
) -> Path:
    """Write generated rows in the shape of the paper's large experiment to one Parquet file.

    The columns are unit (int64, each number once), feature and label (strings such as ``feature-0000123`` and
    ``label-07``). Memory stays under 500 MB for any number of units.

    Args:
        units: Rows to write, one for each unit.
        features: Length of the feature list; rare ones may not occur.
        labels: Length of the label list.
        path: The new file; it must not exist.
        seed: The same numbers and seed give the same rows.
        varied: Whether features differ in the part of their rows that one label gets, from none to half, with labels
            skewed so that there are as many pairs. More of the best pairs are then rare.

    Returns:
        The path of the file.

    Raises:
        InputError: If a number is out of range, or the path exists or has no parent folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paper_shape(1000, 50, 4, Path(folder) / "rows.parquet", seed=7).name
    'rows.parquet'
    """
    for name, number in {"units": units, "features": features, "labels": labels}.items():
        check_count(name, number, most=_LIMITS[name], hint=f"{name}=100")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number from 0 on, got seed={seed!r}.", hint="seed=0")
    target = _free_path(path)
    # A temporary name in the same folder: a file can be replaced atomically only within one file system.
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    try:
        _write(_shape(units, features, labels, seed, varied=varied), labels, part)
        Path(part).replace(target)
    finally:
        Path(part).unlink(missing_ok=True)
    return target


def _free_path(path: str | os.PathLike[str]) -> Path:
    """Return the path if a new file can be made there."""
    target = Path(path)
    if target.exists() or target.is_symlink():
        raise InputError(f"{str(path)!r} exists already.", hint="choose another path, or remove it first")
    if not target.parent.is_dir():
        raise InputError(f"The folder of {str(path)!r} does not exist.", hint=f"mkdir -p {str(target.parent)!r}")
    return target


def _shape(units: int, features: int, labels: int, seed: int, *, varied: bool) -> _Shape:
    """Draw the parameters of all rows: each feature's own label, and the part of its rows that the label gets."""
    draw = np.random.default_rng([seed, 0])
    shares = np.arange(1, labels + 1, dtype=np.float64) ** -(_VARIED_SKEW if varied else SKEW)
    places = (np.arange(1 << _LEAN_BITS) + 0.5) / (1 << _LEAN_BITS)
    others = np.searchsorted(np.cumsum(shares / shares.sum()), places).clip(max=labels - 1)
    home = draw.integers(0, labels, features, dtype=np.uint16)
    if varied:
        leans = draw.integers(0, 1 << (_LEAN_BITS - 1), features, dtype=np.uint16)
    else:
        leans = np.full(features, round((1 << _LEAN_BITS) * LEAN), np.uint16)
    return _Shape(
        units=units,
        features=features,
        seed=seed,
        home=home,
        lean=leans,
        others=others.astype(np.uint16),
    )


def _write(shape: _Shape, labels: int, part: str) -> None:
    """Write all chunks, in order, as row groups of one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.array([f"label-{i:0{max(2, len(str(labels)))}d}" for i in range(1, labels + 1)])
    text = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("unit", pa.int64()), ("feature", text), ("label", text)])
    writer = pq.ParquetWriter(
        part,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=["feature", "label"],
        dictionary_pagesize_limit=64 << 20,  # the default 1 MB is too small for a row group
        write_statistics=["unit", "label"],  # minimum and maximum of a feature are useless and take a third of the time
        store_schema=False,  # so that readers see plain strings
    )
    with writer:
        for unit, (codes, used), label in _chunks(shape):
            feature = pa.DictionaryArray.from_arrays(codes, _names(used + 1, shape.features))
            columns = [pa.array(unit), feature, pa.DictionaryArray.from_arrays(label.astype(np.int32), names)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=_CHUNK)


def _chunks(shape: _Shape) -> Iterator[tuple[Any, tuple[Any, Any], Any]]:
    """Yield the chunks; a second thread draws them, two ahead of the writer."""
    count = -(-shape.units // _CHUNK)
    with ThreadPoolExecutor(max_workers=1) as pool:
        ahead = deque(pool.submit(_chunk, shape, i) for i in range(min(2, count)))
        for i in range(count):
            rows = ahead.popleft().result()
            if i + 2 < count:
                ahead.append(pool.submit(_chunk, shape, i + 2))
            yield rows


def _chunk(
    shape: _Shape, number: int
) -> tuple[NDArray[np.int64], tuple[NDArray[np.int32], NDArray[np.int64]], NDArray[np.uint16]]:
    """Draw the rows of one chunk: units, features (codes, and the features that the codes mean), labels."""
    start = number * _CHUNK
    rows = min(_CHUNK, shape.units - start)
    draw = np.random.default_rng([shape.seed, 1, number])
    feature = _zipf(draw.random(rows), shape.features)
    bits = draw.integers(0, 1 << 32, rows, dtype=np.uint32)
    leans = (bits >> np.uint32(_LEAN_BITS)) < shape.lean[feature]
    label = np.where(leans, shape.home[feature], shape.others[bits & np.uint32((1 << _LEAN_BITS) - 1)])
    unit = np.arange(start, start + rows, dtype=np.uint64) * np.uint64(_SCRAMBLE) & np.uint64((1 << 63) - 1)
    return unit.view(np.int64), _compact(feature, shape.features), label


def _zipf(uniform: NDArray[np.float64], features: int) -> NDArray[np.int32]:
    """Convert uniform numbers on [0, 1) to indices 0..features-1 with probability about 1/(index+1), by inversion."""
    # The distribution function is log((f + s)/s) / log((features + s)/s), so its inverse is one exponential.
    rate = float(np.log((features + _ZIPF_SHIFT) / _ZIPF_SHIFT))
    place = _ZIPF_SHIFT * np.expm1(uniform * rate)
    return np.minimum(place, features - 1).astype(np.int32)


def _compact(index: NDArray[np.int32], features: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return codes into the sorted list of the indices that occur, and that list."""
    seen = np.zeros(features, dtype=bool)
    seen[index] = True
    used = np.flatnonzero(seen)
    code = np.empty(features, dtype=np.int32)
    code[used] = np.arange(used.size, dtype=np.int32)
    return code[index], used


def _names(number: NDArray[np.int64], features: int) -> Any:
    """Return the names of feature numbers as an Arrow array, without a Python object for each."""
    import pyarrow as pa

    width = max(7, len(str(features)))
    text = np.empty((number.size, len(b"feature-") + width), dtype=np.uint8)
    text[:, : len(b"feature-")] = np.frombuffer(b"feature-", dtype=np.uint8)
    rest = number.astype(np.int32)
    for place in range(1, width + 1):
        rest, digit = np.divmod(rest, np.int32(10))
        text[:, -place] = digit + ord("0")
    offsets = np.arange(0, text.size + 1, text.shape[1], dtype=np.int32)
    return pa.StringArray.from_buffers(number.size, pa.py_buffer(offsets), pa.py_buffer(text))
