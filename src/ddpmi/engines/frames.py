"""Frames of other libraries as Arrow tables and readers, recognised without importing the libraries.

Conversion never fails because of one row: in a column of mixed Python objects, what is no valid key becomes NULL.
"""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpmi.engines.lakes import Lake
from ddpmi.errors import EngineError, InputError, SchemaError
from ddpmi.statements import quote

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1 << 20
_TYPED_FORMATS = ("parquet", "ipc", "feather", "orc")


def is_a(data: object, module: str, *names: str) -> bool:
    """Tell whether data is an instance of a class of a library that may not be loaded.

    >>> is_a(1, "pandas", "DataFrame")
    False
    """
    loaded = sys.modules.get(module)
    return loaded is not None and any(isinstance(data, getattr(loaded, name, ())) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """What the engine registers."""

    data: Any
    """An Arrow table or reader."""
    one_pass: bool = False
    """Whether it can be read only once."""


def is_frame(data: object) -> bool:
    """Tell whether `adopt` takes the data."""
    return (
        isinstance(data, Lake)
        or is_a(data, "pandas", "DataFrame")
        or is_a(data, "polars", "DataFrame", "LazyFrame")
        or is_a(data, "pyarrow", "Table", "RecordBatch", "RecordBatchReader")
        or is_a(data, "pyarrow.dataset", "Dataset")
        or is_a(data, "duckdb", "DuckDBPyRelation")
    )


def query_kind(data: object) -> str | None:
    """Name what may hide a LIMIT, a window or a join across units; None where rows are rows."""
    if is_a(data, "duckdb", "DuckDBPyRelation"):
        return None if data.type == "TABLE_RELATION" else "DuckDB relation"  # type: ignore[attr-defined]
    return "polars LazyFrame" if is_a(data, "polars", "LazyFrame") else None


def read_once(data: object) -> bool:
    """Tell whether the caller's object itself is used up by one reading."""
    return is_a(data, "pyarrow", "RecordBatchReader")


def schema_of(data: Any) -> pa.Table:
    """Return a table without rows that has the data's columns. Reads no row."""
    if isinstance(data, Lake):
        return data.schema().empty_table()
    if is_a(data, "pandas", "DataFrame"):
        return _pandas(data.iloc[:0], [str(name) for name in data.columns])
    if is_a(data, "polars", "LazyFrame"):
        with_schema = sys.modules["polars"].DataFrame(schema=data.collect_schema())
        return with_schema.to_arrow()
    if is_a(data, "polars", "DataFrame"):
        return data.clear().to_arrow()
    if is_a(data, "duckdb", "DuckDBPyRelation"):
        return data.limit(0).to_arrow_table()
    if is_a(data, "pyarrow.dataset", "Dataset"):
        _check_dataset(data)
    _check_once(data.schema.names, data.schema.names)
    return data.schema.empty_table()


def adopt(data: Any, columns: list[str]) -> Adopted:
    """Make the named columns readable by the engine."""
    reader = _reader(data, columns)
    if reader is not None:
        return Adopted(data=reader, one_pass=True)
    if is_a(data, "pandas", "DataFrame"):
        return Adopted(data=_pandas(data, columns))
    if is_a(data, "polars", "DataFrame", "LazyFrame"):
        return Adopted(data=_collected(data, columns).to_arrow())
    if is_a(data, "pyarrow", "RecordBatch"):
        return Adopted(data=sys.modules["pyarrow"].Table.from_batches([data]))
    return Adopted(data=data)


def _reader(data: Any, columns: list[str]) -> Any:
    """Open what streams, None for what is in memory."""
    if isinstance(data, Lake):
        return data.reader(columns)
    if is_a(data, "duckdb", "DuckDBPyRelation"):
        return data.project(", ".join(quote(name) for name in columns)).to_arrow_reader(_BATCH_ROWS)
    if is_a(data, "pyarrow.dataset", "Dataset"):
        return data.scanner(columns=columns).to_reader()
    return data if read_once(data) else None


def _collected(data: Any, columns: list[str]) -> Any:
    narrow = data.select(columns)
    try:
        return narrow.collect() if is_a(data, "polars", "LazyFrame") else narrow
    except Exception as error:  # noqa: BLE001 - whatever it is, its words may quote rows
        raise EngineError(
            f"polars could not collect the LazyFrame ({type(error).__name__}). Its message may quote rows, so it is not shown.",
            hint="collect it yourself and pass the DataFrame",
        ) from None


def _check_dataset(data: Any) -> None:
    """Formats without types are guessed from rows by Arrow, and fail on a bad one."""
    for part in getattr(data, "children", None) or [data]:
        name = getattr(getattr(part, "format", None), "default_extname", "parquet")
        if name not in _TYPED_FORMATS:
            raise InputError(
                f"An Arrow dataset of {name} files guesses types from rows and stops at a bad one.",
                hint="pass the files themselves: observe('data/*.csv', ...)",
            )


def _check_once(columns: list[str], known: list[str]) -> None:
    twice = [name for name in columns if known.count(name) > 1]
    if twice:
        raise SchemaError(f"The data has more than one column {twice[0]!r}.", hint="rename one of them")


def _pandas(data: Any, columns: list[str]) -> pa.Table:
    import pyarrow as pa

    known = [str(name) for name in data.columns]
    _check_once(columns, known)
    return pa.table({name: _pandas_column(data.iloc[:, known.index(name)]) for name in columns})


def _pandas_column(series: Any) -> pa.Array:
    import pyarrow as pa

    if series.dtype != object:
        return pa.Array.from_pandas(series)
    try:
        return pa.array(series, type=pa.string(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([_key_text(item) for item in series], type=pa.string())


def _key_text(item: object) -> str | None:
    """The canonical text of one key, None for what is no key."""
    if isinstance(item, str):
        return item if item.isprintable() or _encodes(item) else None
    if isinstance(item, bool):
        return "true" if item else "false"
    if hasattr(item, "__index__"):
        return str(int(item))
    if isinstance(item, dt.date) and not isinstance(item, dt.datetime):
        return item.isoformat()
    return None


def _encodes(text: str) -> bool:
    """Lone surrogates are not text in any file format."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
