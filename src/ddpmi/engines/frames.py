"""Frames of other libraries as Arrow tables and readers, recognised without importing the libraries.

`cells` converts their columns, so that no cell changes how another one is read.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpmi.engines.cells import check_type, is_a, pandas_column, valid
from ddpmi.engines.lakes import Lake
from ddpmi.errors import EngineError, InputError, SchemaError
from ddpmi.statements import quote

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1 << 20
_TYPED_FORMATS = ("parquet", "ipc", "feather", "orc")


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
    # proof: row-local.memory
    if is_a(data, "pyarrow", "RecordBatchReader"):
        return "Arrow reader"
    if is_a(data, "pyarrow.dataset", "Dataset") and not _is_files(data):
        return "Arrow dataset that is not made of files"
    return "polars LazyFrame" if is_a(data, "polars", "LazyFrame") else None


def in_memory(data: object) -> bool:
    """Tell whether rows and types were made by the caller's program, before they were handed over."""
    return (
        is_a(data, "pandas", "DataFrame")
        or is_a(data, "polars", "DataFrame")
        or is_a(data, "pyarrow", "Table", "RecordBatch")
    )


def _is_files(data: Any) -> bool:
    children = getattr(data, "children", None)
    return all(map(_is_files, children)) if children else is_a(data, "pyarrow.dataset", "FileSystemDataset")


def read_once(data: object) -> bool:
    """Tell whether the caller's object itself is used up by one reading."""
    return is_a(data, "pyarrow", "RecordBatchReader")


def schema_of(data: Any) -> pa.Table:
    """Return a table without rows that has the data's columns. Reads no row."""
    if isinstance(data, Lake):
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
    """Leave columns of Python objects out: they are not read."""
    polars = sys.modules["polars"]
    known = data.collect_schema() if is_a(data, "polars", "LazyFrame") else data.schema
    return polars.DataFrame(schema={name: type_ for name, type_ in known.items() if type_ != polars.Object}).to_arrow()


def unread(data: Any) -> dict[str, str]:
    """Return column -> why it is not read, for columns whose cells cannot each be decided alone. Reads no row."""
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
    """Make each cell of a table or batch one that the engine reads."""
    return type(data).from_arrays([valid(column) for column in data.columns], names=data.schema.names)


def _reader(data: Any, columns: list[str]) -> Any:
    """Open what streams, None for what is in memory."""
    if is_a(data, "duckdb", "DuckDBPyRelation"):
        reader = data.project(", ".join(quote(name) for name in columns)).to_arrow_reader(_BATCH_ROWS)
    elif isinstance(data, Lake):
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


def _pandas(data: Any, columns: list[str], *, all_types: bool = False) -> pa.Table:
    """Read the named columns; with all types, leave out those that are not read."""
    import pyarrow as pa

    known = [str(name) for name in data.columns]
    _check_once(columns, known)
    found = {}
    for name in columns:
        with suppress(SchemaError) if all_types else nullcontext():
            found[name] = pandas_column(data.iloc[:, known.index(name)])
    return pa.table(found)
