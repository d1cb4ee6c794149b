"""Frames in memory as Arrow tables that DuckDB can read. Imports no engine.

No cell makes the conversion fail, and no cell changes how another one is read. Text that is not Unicode is repaired.
Times outside the calendar become NULL, and so do Python objects that cannot be a key.
"""

from __future__ import annotations

import datetime as dt
import operator
import sys
import uuid
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpmi.engines.streams import Stream
from ddpmi.errors import EngineError, Hint, InputError, SchemaError
from ddpmi.pipeline.dialects import quote

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1 << 20
#: Formats of files in which types are written.
_TYPED_FORMATS = ("parquet", "ipc", "feather", "orc")
#: Longer whole numbers cannot be keys: writing them as digits takes too long.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """Data that the engine can register as a relation."""

    data: Any
    """An Arrow table or reader."""
    one_pass: bool = False
    """Whether it can be read only once."""


COMPUTED = "table with columns that are computed when it is read"
"""A kind of table that counts as a query: the expression of such a column may fail at one row."""


def is_frame(data: object) -> bool:
    """Tell whether `adopt` accepts the data."""
    return (
        isinstance(data, Stream)
        or is_a(data, "pandas", "DataFrame")
        or is_a(data, "polars", "DataFrame", "LazyFrame")
        or is_a(data, "pyarrow", "Table", "RecordBatch", "RecordBatchReader")
        or is_a(data, "pyarrow.dataset", "Dataset")
        or is_a(data, "duckdb", "DuckDBPyRelation")
    )


def query_kind(data: object) -> str | None:
    """Name data that may hide a LIMIT, a window or a join across units; None for plain rows."""
    if is_a(data, "duckdb", "DuckDBPyRelation"):
        return _kind_of_relation(data)
    # proof: row-local.memory
    if is_a(data, "pyarrow", "RecordBatchReader"):
        return "Arrow reader"
    if is_a(data, "pyarrow.dataset", "Dataset") and not _is_files(data):
        return "Arrow dataset that is not made of files"
    return "polars LazyFrame" if is_a(data, "polars", "LazyFrame") else None


def _kind_of_relation(data: Any) -> str | None:
    if data.type != "TABLE_RELATION":
        return "DuckDB relation"
    # proof: row-local.memory
    asked = "SELECT column_name FROM duckdb_columns() WHERE is_generated"
    computed = {name for (name,) in data.query("ddpmi_named", asked).fetchall()}
    return COMPUTED if computed & set(data.columns) else None


def in_memory(data: object) -> bool:
    """Tell whether the caller's program made the rows and the column types."""
    return (
        is_a(data, "pandas", "DataFrame")
        or is_a(data, "polars", "DataFrame")
        or is_a(data, "pyarrow", "Table", "RecordBatch")
    )


def _is_files(data: Any) -> bool:
    children = getattr(data, "children", None)
    return all(map(_is_files, children)) if children else is_a(data, "pyarrow.dataset", "FileSystemDataset")


def read_once(data: object) -> bool:
    """Tell whether the caller's object can be read only once."""
    return is_a(data, "pyarrow", "RecordBatchReader")


def is_streamed(data: object) -> bool:
    """Tell whether `adopt` gives a reader, which can be read only once.

    >>> is_streamed(None)
    False
    """
    return (
        isinstance(data, Stream)
        or is_a(data, "duckdb", "DuckDBPyRelation")
        or is_a(data, "pyarrow.dataset", "Dataset")
        or read_once(data)
    )


def schema_of(data: Any) -> pa.Table:
    """Return a table without rows that has the data's columns. Reads no row."""
    if isinstance(data, Stream):
        return _valid(data.schema().empty_table())
    if is_a(data, "pandas", "DataFrame"):
        return _pandas(data.iloc[:0], [str(name) for name in data.columns], all_types=True)
    if is_a(data, "polars", "LazyFrame", "DataFrame"):
        return _polars_schema(data)
    if is_a(data, "duckdb", "DuckDBPyRelation"):
        return data.limit(0).to_arrow_table()
    if is_a(data, "pyarrow.dataset", "Dataset"):
        _check_dataset(data)
    _check_once(data.schema.names, data.schema.names)
    return _valid(data.schema.empty_table())


def _polars_schema(data: Any) -> pa.Table:
    """Return the schema without columns of Python objects, which are not read."""
    polars = sys.modules["polars"]
    known = data.collect_schema() if is_a(data, "polars", "LazyFrame") else data.schema
    return polars.DataFrame(schema={name: type_ for name, type_ in known.items() if type_ != polars.Object}).to_arrow()


def unread(data: Any) -> dict[str, str]:
    """Return column -> why it is not read, for columns whose cells cannot be read one by one. Reads no row."""
    found = {}
    for column in schema_of(data).schema:
        try:
            check_type(column.type)
        except SchemaError as error:
            found[column.name] = str(error)
    return found


def adopt(data: Any, columns: list[str]) -> Adopted:
    """Make the named columns readable by the engine."""
    reader = _reader(data, columns)
    if reader is not None:
        return Adopted(data=reader, one_pass=True)
    if is_a(data, "pandas", "DataFrame"):
        return Adopted(data=_pandas(data, columns))
    if is_a(data, "polars", "DataFrame", "LazyFrame"):
        return Adopted(data=_valid(_collected(data, columns).to_arrow()))
    if is_a(data, "pyarrow", "RecordBatch"):
        data = sys.modules["pyarrow"].Table.from_batches([data])
    return Adopted(data=_valid(data.select(columns)))


def _valid(data: Any) -> Any:
    """Replace the cells of a table or batch at which the engine would fail."""
    return type(data).from_arrays([valid(column) for column in data.columns], names=data.schema.names)


def _reader(data: Any, columns: list[str]) -> Any:
    """Open data that streams as a reader; None for data in memory."""
    if is_a(data, "duckdb", "DuckDBPyRelation"):
        reader = data.project(", ".join(quote(name) for name in columns)).to_arrow_reader(_BATCH_ROWS)
    elif isinstance(data, Stream):
        reader = data.reader(columns)
    elif is_a(data, "pyarrow.dataset", "Dataset"):
        reader = data.scanner(columns=columns).to_reader()
    elif read_once(data):
        reader = data
    else:
        return None
    schema = sys.modules["pyarrow"].schema([reader.schema.field(name) for name in columns])
    batches = (_valid(batch.select(columns)) for batch in reader)
    return sys.modules["pyarrow"].RecordBatchReader.from_batches(_valid(schema.empty_table()).schema, batches)


def _collected(data: Any, columns: list[str]) -> Any:
    narrow = data.select(columns)
    try:
        return narrow.collect() if is_a(data, "polars", "LazyFrame") else narrow
    except Exception as error:  # noqa: BLE001 - any message may quote rows
        raise EngineError(
            f"polars could not collect the LazyFrame ({type(error).__name__}). Its message may quote rows, so it is not shown.",
            hint="collect it yourself and pass the DataFrame",
        ) from None


def _check_dataset(data: Any) -> None:
    """Refuse formats without types: Arrow guesses the types from rows and fails at a bad row."""
    for part in getattr(data, "children", None) or [data]:
        name = getattr(getattr(part, "format", None), "default_extname", "parquet")
        if name not in _TYPED_FORMATS:
            raise InputError(
                f"An Arrow dataset of {name} files guesses types from rows and stops at a bad one.",
                hint=Hint(do="pass the files themselves", python="observe('data/*.csv', ...)", cli=""),
            )


def _check_once(columns: list[str], known: list[str]) -> None:
    twice = [name for name in columns if known.count(name) > 1]
    if twice:
        raise SchemaError(f"The data has more than one column {twice[0]!r}.", hint="rename one of them")


def _pandas(data: Any, columns: list[str], *, all_types: bool = False) -> pa.Table:
    """Read the named columns; with ``all_types``, leave out columns of types that are not read."""
    import pyarrow as pa

    known = [str(name) for name in data.columns]
    _check_once(columns, known)
    found = {}
    for name in columns:
        with suppress(SchemaError) if all_types else nullcontext():
            found[name] = pandas_column(data.iloc[:, known.index(name)])
    return pa.table(found)


def key_text(item: object) -> str | None:
    """Return the canonical text of one Python object; None for an object that cannot be a key. Never raises.

    >>> key_text(7), key_text(b"7"), key_text(True), key_text(2.5), key_text([7])
    ('7', '7', 'true', None, None)
    """
    # proof: row-local.cells
    try:
        return _key_text(item)
    except Exception:  # noqa: BLE001 - an object of the caller's own class; an error would reveal its row
        return None


def _key_text(item: Any) -> str | None:
    if isinstance(item, str):
        # A lone surrogate is no character; a pair of surrogates is one character.
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
    """Read cells as text. A column that holds only texts is read at once, with the same result as cell by cell."""
    import pyarrow as pa

    # proof: row-local.cells
    if sys.modules["pandas"].api.types.infer_dtype(series, skipna=True) in ("string", "empty"):
        try:
            return pa.array(series, type=pa.string(), from_pandas=True)
        except (pa.ArrowException, UnicodeError):  # a lone surrogate: read cell by cell; all other texts stay the same
            pass
    return pa.array([key_text(item) for item in series], type=pa.string())


def _categories(series: Any) -> pa.Array:
    """Read each category as a single object, because rows may have decided the type of the categories."""
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
    """Return a column in which cells that the engine cannot read are NULL. `check_type` must accept its type."""
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
    """Replace decimals with more digits than their type declares by NULL: the engine would fail at them."""
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
    """Return the smallest and the largest number that the engine accepts as a time; None if it accepts all."""
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
    # The engine also reads the number that is stored under a NULL.
    small = pc.if_else(inside, numbers, pa.scalar(0, numbers.type)).view(column.type)
    return pc.if_else(inside, small, None)


def valid_text(column: pa.Array | pa.ChunkedArray) -> Any:
    """Return a column in which all text is Unicode; bad bytes are replaced."""
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
    """Rebuild an array with bad bytes replaced. `check_type` must accept its type."""
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
