"""Frames of other libraries as Arrow tables, recognised without importing the libraries.

Conversion never fails because of one row: in a column of mixed Python objects, what is no valid key becomes NULL.
"""

from __future__ import annotations

import datetime as dt
import sys
from typing import TYPE_CHECKING, Any

from ddpmi.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


def is_a(data: object, module: str, *names: str) -> bool:
    """Tell whether data is an instance of a class of a library that may not be loaded.

    >>> is_a(1, "pandas", "DataFrame")
    False
    """
    loaded = sys.modules.get(module)
    return loaded is not None and any(isinstance(data, getattr(loaded, name, ())) for name in names)


def column_names(data: Any) -> list[str] | None:
    """Return the columns of a pandas or polars frame, or None for anything else."""
    if is_a(data, "pandas", "DataFrame"):
        return [str(name) for name in data.columns]
    if is_a(data, "polars", "DataFrame"):
        return list(data.columns)
    return None


def to_arrow(data: Any, columns: list[str]) -> pa.Table:
    """Convert the named columns of a pandas or polars frame."""
    if is_a(data, "polars", "DataFrame"):
        return data.select(columns).to_arrow()
    import pyarrow as pa

    return pa.table({name: _pandas_column(data[name], name) for name in columns})


def _pandas_column(series: Any, name: str) -> pa.Array:
    import pyarrow as pa

    if getattr(series, "ndim", 1) != 1:
        raise SchemaError(f"The frame has more than one column {name!r}.", hint="rename one of them")
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
