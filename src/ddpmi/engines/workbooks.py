"""Sheets of Excel workbooks. The first row names the columns, and every cell below it is read by itself, as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.engines.streams import Stream, cell_text
from ddpmi.errors import Hint, InputError, InputNotFound, MissingExtra, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_ROWS = 10_000
#: A double holds whole numbers exactly up to here.
_LARGEST = 2**53


@dataclass(frozen=True, kw_only=True)
class Sheet(Stream):
    """One sheet of a workbook on disk."""

    path: str = field(repr=False)
    name: str
    untyped: bool = True

    def schema(self) -> pa.Schema:
        """Return the columns that the first row names. Columns without a name are not read."""
        import pyarrow as pa

        names = [name for name in self._names if name]
        if not names:
            raise SchemaError(
                f"The first row of the sheet {self.name!r} is empty.", hint="write names of columns into it"
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SchemaError(f"The sheet has more than one column {twice!r}.", hint="rename one of them")
        return pa.schema([(name, pa.string()) for name in names])

    @cached_property
    def _names(self) -> list[str]:
        first = next(self._rows(), [])
        return [cell_text(cell) or "" for cell in first]

    def check_driver(self) -> None:
        """Load what reads workbooks, and check that the file is there."""
        _opened(self.path)

    def reader(self, columns: list[str]) -> pa.RecordBatchReader:
        """Stream the named columns."""
        import pyarrow as pa

        schema = pa.schema([(name, pa.string()) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches(columns, schema))

    def _batches(self, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        places = [self._names.index(name) for name in columns]
        found: list[list[str | None]] = [[] for _ in places]
        rows = self._rows()
        next(rows, None)
        for row in rows:
            for cells, place in zip(found, places, strict=True):
                cells.append(sheet_text(row[place]) if place < len(row) else None)
            if len(found[0]) == _ROWS:
                yield pa.RecordBatch.from_arrays([pa.array(cells, pa.string()) for cells in found], schema=schema)
                found = [[] for _ in places]
        yield pa.RecordBatch.from_arrays([pa.array(cells, pa.string()) for cells in found], schema=schema)

    def _rows(self) -> Iterator[list[Any]]:
        yield from _opened(self.path).get_sheet_by_name(self.name).iter_rows()


def sheet_text(cell: object) -> str | None:
    """Return a cell of a sheet as text; None for an empty one, for times and for errors.

    Workbooks have one type of numbers, so 7 and 7.0 are one cell.

    >>> sheet_text(7.0), sheet_text(0.5), sheet_text(""), sheet_text(True)
    ('7', '0.5', None, 'true')
    """
    # proof: row-local.streams
    if cell == "":
        return None
    if isinstance(cell, float) and cell.is_integer() and abs(cell) <= _LARGEST:
        return str(int(cell))
    return cell_text(cell)


def _opened(path: str) -> Any:
    """Open a workbook. Errors of the library may quote cells, so their text is not shown."""
    try:
        import python_calamine
    except ImportError:
        raise MissingExtra("Excel workbooks need a reader.", hint="pip install 'ddpmi[excel]'") from None
    if not Path(path).is_file():
        raise InputNotFound(f"No file is at {path}.", hint="check the path")
    try:
        return python_calamine.load_workbook(path)
    except Exception as error:  # noqa: BLE001 - of many kinds
        raise InputError(
            f"{path} cannot be read as an Excel workbook ({type(error).__name__}).",
            hint="open it, and save it as .xlsx without a password",
        ) from None


def find_sheet(path: str, name: str | None) -> Sheet:
    """Name a sheet of a workbook; the name may be left out if there is only one.

    Args:
        path: The file.
        name: The sheet.
    """
    names = list(_opened(path).sheet_names)
    if name is None and len(names) == 1:
        return Sheet(path=path, name=names[0])
    shown = ", ".join(map(repr, names[:20]))
    if name is None:
        raise InputError(
            f"The workbook has {len(names)} sheets: {shown}.",
            hint=Hint(python=f"table={names[0]!r}", cli=f"--table {names[0]!r}"),
        )
    if name not in names:
        raise InputNotFound(f"The workbook has no sheet {name!r}.", hint=f"its sheets: {shown}")
    return Sheet(path=path, name=name)
