"""Cells of columns in memory as Arrow arrays that the engine can read, each decided by itself. Imports no engine.

Conversion never fails because of one row, and no cell changes how another one is read: text that is not Unicode is
repaired, times that no calendar has become NULL, and so does what is no key in a column of Python objects.
"""

from __future__ import annotations

import datetime as dt
import operator
import sys
import uuid
from typing import TYPE_CHECKING, Any

from ddpmi.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

#: Longer whole numbers are no keys: to write them as digits takes too long.
_LONGEST_INTEGER_BITS = 4096
#: Seconds from 1970 to the years 1 and 9999.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_DAY_SECONDS = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LARGEST = 2**63 - 1
_CAST = "cast it to text, whole numbers or dates first"


def is_a(data: object, module: str, *names: str) -> bool:
    """Tell whether data is an instance of a class of a library that may not be loaded.

    >>> is_a(1, "pandas", "DataFrame")
    False
    """
    loaded = sys.modules.get(module)
    return loaded is not None and any(isinstance(data, getattr(loaded, name, ())) for name in names)


def key_text(item: object) -> str | None:
    """Return the canonical text of one Python object, None for what is no key. Never raises.

    >>> key_text(7), key_text(b"7"), key_text(True), key_text(2.5), key_text([7])
    ('7', '7', 'true', None, None)
    """
    # proof: row-local.cells
    try:
        return _key_text(item)
    except Exception:  # noqa: BLE001 - an object of the caller's own class; an error would tell about its row
        return None


def _key_text(item: Any) -> str | None:
    if isinstance(item, str):
        # A lone surrogate is no character; two that belong together are one.
        return str(item) if item.isascii() else item.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(item, bytes):
        return item.decode(errors="replace")
    if isinstance(item, bool) or is_a(item, "numpy", "bool_"):
        return "true" if item else "false"
    if isinstance(item, dt.date):
        return None if isinstance(item, dt.datetime) else item.isoformat()
    if isinstance(item, uuid.UUID):
        return str(item)
    number = operator.index(item)
    return str(number) if number.bit_length() <= _LONGEST_INTEGER_BITS else None


def pandas_column(series: Any) -> Any:
    """Return a pandas column; objects become text, cell by cell.

    Raises:
        SchemaError: Columns of this type are not read.
    """
    import pyarrow as pa

    kind = type(series.dtype).__name__
    if kind == "SparseDtype":
        return pandas_column(series.sparse.to_dense())
    if kind == "CategoricalDtype":
        return _categories(series)
    if series.dtype == object or kind == "StringDtype":
        return _objects(series)
    try:
        return valid(pa.Array.from_pandas(series))
    except (pa.ArrowException, TypeError, ValueError):
        raise _unread(series.dtype) from None


def _unread(type_: object) -> SchemaError:
    return SchemaError(f"Columns of type {type_} are not read.", hint=_CAST)


def _objects(series: Any) -> pa.Array:
    """Read cells as text. Only a column of texts alone takes the fast way, where each is read as it would be alone."""
    import pyarrow as pa

    # proof: row-local.cells
    if sys.modules["pandas"].api.types.infer_dtype(series, skipna=True) in ("string", "empty"):
        try:
            return pa.array(series, type=pa.string(), from_pandas=True)
        except (pa.ArrowException, UnicodeError):  # a lone surrogate: the slow way reads all other texts alike
            pass
    return pa.array([key_text(item) for item in series], type=pa.string())


def _categories(series: Any) -> pa.Array:
    """Read each category as the object it is: rows may have made the type of the categories."""
    import numpy as np
    import pyarrow as pa

    if series.cat.categories.dtype.kind not in "OSUTbiu":
        raise _unread(f"category of {series.cat.categories.dtype}")
    texts = pa.array([key_text(item) for item in series.cat.categories], type=pa.string())
    codes = np.asarray(series.cat.codes, dtype=np.int64)
    return texts.take(pa.array(codes, mask=codes < 0))


def check_type(type_: pa.DataType) -> None:
    """Refuse a type whose text could not be repaired.

    Raises:
        SchemaError: It is such a type.
    """
    import pyarrow.types as pt

    if pt.is_dictionary(type_):
        check_type(type_.value_type)
    elif pt.is_struct(type_) or pt.is_list(type_) or pt.is_large_list(type_):
        for place in range(type_.num_fields):
            inside = type_.field(place).type
            if pt.is_timestamp(inside) or pt.is_time(inside) or pt.is_duration(inside):
                raise _unread(type_)
            check_type(inside)
    elif _holds_text(type_) and not _is_text(type_):
        raise _unread(type_)


def _is_text(type_: pa.DataType) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))


def _holds_text(type_: pa.DataType) -> bool:
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return _holds_text(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return _holds_text(type_.storage_type)
    if pt.is_nested(type_):
        return any(_holds_text(type_.field(place).type) for place in range(type_.num_fields))
    return _is_text(type_)


def valid(column: pa.Array | pa.ChunkedArray) -> Any:
    """Return a column of a type that `check_type` lets pass so that the engine reads each cell, or NULL in its place."""
    import pyarrow as pa
    import pyarrow.types as pt

    type_ = column.type
    if pt.is_float16(type_):
        return column.cast(pa.float32())
    if pt.is_decimal256(type_):
        return column.cast(pa.float64())
    if pt.is_decimal(type_):
        return _declared(column)
    if pt.is_timestamp(type_) and type_.unit == "ns":
        return column.cast(pa.timestamp("us", type_.tz), safe=False)
    limits = _limits(type_)
    return valid_text(column) if limits is None else _within(column, *limits)


def _declared(column: Any) -> Any:
    """Put NULL for decimals with more digits than their type declares, at which the engine would fail."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_declared(chunk) for chunk in column.chunks], type=column.type)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        most = column.type.precision
        fitting = [n if n is not None and len(n.as_tuple().digits) <= most else None for n in column.to_pylist()]
        return pa.array(fitting, column.type)
    return column


def _limits(type_: pa.DataType) -> tuple[int, int] | None:
    """The smallest and the largest number that the engine takes for a time, None where it takes all."""
    import pyarrow.types as pt

    # proof: row-local.cells
    if pt.is_timestamp(type_):
        return _FIRST_SECOND * _PER_SECOND[type_.unit], (_LAST_SECOND + 1) * _PER_SECOND[type_.unit] - 1
    if pt.is_duration(type_) and type_.unit in ("s", "ms"):
        most = _LARGEST // 10**6 * _PER_SECOND[type_.unit]
        return -most, most
    if pt.is_time(type_):
        return 0, _DAY_SECONDS * _PER_SECOND[type_.unit] - 1
    return None


def _within(column: Any, least: int, most: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_within(chunk, least, most) for chunk in column.chunks], type=column.type)
    numbers = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits
    inside = pc.fill_null(pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, most)), False)
    # The engine looks at the number below a NULL, too.
    small = pc.if_else(inside, numbers, pa.scalar(0, numbers.type)).view(column.type)
    return pc.if_else(inside, small, None)


def valid_text(column: pa.Array | pa.ChunkedArray) -> Any:
    """Return a column in which all text is Unicode: in each cell that is not, bad bytes are replaced."""
    import pyarrow as pa

    if not _holds_text(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([valid_text(chunk) for chunk in column.chunks], type=column.type)
    # proof: row-local.text
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return _repaired(column)
    return column


def _repaired(column: pa.Array) -> pa.Array:
    """Rebuild an array of a type that `check_type` lets pass."""
    import pyarrow as pa
    import pyarrow.types as pt

    type_ = column.type
    if pt.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(column.indices, valid_text(column.dictionary), safe=False)
    if pt.is_struct(type_):
        children = [valid_text(column.field(place)) for place in range(type_.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=column.is_null())
    if pt.is_list(type_) or pt.is_large_list(type_):
        own, child = column.buffers()[: type_.num_buffers], valid_text(column.values)
        return pa.Array.from_buffers(type_, len(column), own, offset=column.offset, children=[child])
    raw = column.cast(pa.binary_view() if pt.is_string_view(type_) else pa.large_binary())
    return pa.array([None if item is None else item.decode(errors="replace") for item in raw.to_pylist()], type=type_)
