"""The released tables, read-only: all that code outside of the border may read of the data.

Shapes: pairs (feature, label, sum), features (feature, sum), labels (label, sum), total (sum). Keys are text,
sums are noisy integers on a grid, and rows are sorted by the bytes of their keys. An "other" cell has a NULL key.
"""

from __future__ import annotations

import shutil
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ddpmi._typing import KEYS, TableName
from ddpmi.errors import ReleaseError

if TYPE_CHECKING:
    import os

    import pyarrow as pa


@runtime_checkable
class Tables(Protocol):
    """Released tables by name."""

    def scan(self, name: TableName) -> pa.Table:
        """Read one released table."""

    def count(self, name: TableName) -> int:
        """Count the rows of one released table without reading them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTables:
    """Released tables that live in memory.

    >>> import pyarrow as pa
    >>> total = pa.table({"sum": pa.array([7], pa.int64())})
    >>> keys = {"feature": pa.array(["a"]), "label": pa.array(["x"])}
    >>> cells = pa.array([7], pa.int64())
    >>> tables = MemoryTables(
    ...     pairs=pa.table(keys | {"sum": cells}),
    ...     features=pa.table({"feature": keys["feature"], "sum": cells}),
    ...     labels=pa.table({"label": keys["label"], "sum": cells}),
    ...     total=total,
    ... )
    >>> tables.scan("total").num_rows
    1
    """

    pairs: pa.Table
    """feature, label, sum."""
    features: pa.Table
    """feature, sum."""
    labels: pa.Table
    """label, sum."""
    total: pa.Table
    """sum: one row."""

    def __post_init__(self) -> None:
        for name in KEYS:
            check_table(name, getattr(self, name))

    def scan(self, name: TableName) -> pa.Table:
        """Return one released table."""
        check_name(name)
        table: pa.Table = getattr(self, name)
        return table

    def count(self, name: TableName) -> int:
        """Return the number of rows of one released table."""
        return int(self.scan(name).num_rows)


def check_name(name: str) -> None:
    """Refuse a table that a release does not have.

    >>> check_name("pairs")
    """
    if name not in KEYS:
        raise ReleaseError(f"A release has no table {name!r}.", hint=f"one of {', '.join(KEYS)}")


def check_table(name: TableName, table: pa.Table) -> None:
    """Refuse a table whose columns are not those of the release format.

    >>> import pyarrow as pa
    >>> check_table("total", pa.table({"sum": pa.array([7], pa.int64())}))
    """
    import pyarrow as pa

    wanted = pa.schema([*((key, pa.string()) for key in KEYS[name]), ("sum", pa.int64())])
    if not table.schema.equals(wanted, check_metadata=False):
        got = ", ".join(f"{field.name}: {field.type}" for field in table.schema)
        need = ", ".join(f"{field.name}: {field.type}" for field in wanted)
        raise ReleaseError(f"The released table {name} must have the columns ({need}), got ({got}).")
    if name == "total" and table.num_rows != 1:
        raise ReleaseError(f"The released total must be one row, got {table.num_rows} rows.")


class Owner:
    """Removes a folder when this object is garbage-collected, or at the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTables:
    """The released tables of one folder. Each scan reads the files again."""

    folder: Path
    """The release folder."""
    owner: Owner | None = field(default=None, compare=False)
    """Removes the folder after its last use; None for a folder that stays."""

    def files(self, name: TableName) -> list[Path]:
        """List the files of one released table in the order of its keys."""
        check_name(name)
        return _files(self.folder, name)

    def scan(self, name: TableName) -> pa.Table:
        """Read one released table whole."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        files, columns, parts = self.files(name), [*KEYS[name], "sum"], []
        for file in files:
            try:
                # One file by itself, not a dataset: a folder called "a=b" above the release must not become a column.
                # One thread and no read-ahead: threads cost twice the processor time here, and memory.
                with pq.ParquetFile(file, pre_buffer=False) as opened:
                    parts.append(opened.read(columns=columns, use_threads=False))
            except (OSError, pa.ArrowException) as error:
                raise ReleaseError(f"The file {name}/{file.name} of the release cannot be read.") from error
        for part in parts:
            check_table_columns(name, part)
        table = pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
        check_table(name, table)
        return table

    def count(self, name: TableName) -> int:
        """Count the rows of one released table from the metadata of its files."""
        return sum(_rows(name, file) for file in self.files(name))


def _rows(name: TableName, file: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise ReleaseError(f"The file {name}/{file.name} of the release cannot be read.") from error


def check_table_columns(name: TableName, part: pa.Table) -> None:
    """Refuse a file with other columns; the total is checked as a whole, since any of its files may hold its row.

    >>> import pyarrow as pa
    >>> check_table_columns("labels", pa.table({"label": ["x"], "sum": pa.array([7], pa.int64())}))
    """
    if name != "total":
        check_table(name, part)


def _files(folder: Path, name: TableName) -> list[Path]:
    """List a table's files by name. Hidden files belong to an engine; links are refused, they could leave the folder."""
    place = folder / name
    if place.is_symlink() or not place.is_dir():
        raise ReleaseError(f"The release has no folder {name}.", hint="it may be incomplete; release again")
    files = sorted(file for file in place.glob("*.parquet") if not file.name.startswith((".", "_")))
    if not files or any(file.is_symlink() or not file.is_file() for file in files):
        raise ReleaseError(f"The folder {name} of the release must hold plain Parquet files.")
    return files


def open_folder(path: str | os.PathLike[str]) -> FolderTables:
    """Open the tables of a release folder, all four of them present.

    Args:
        path: The release folder.

    Returns:
        Tables that read that folder and nothing else.

    Raises:
        ReleaseError: A table is missing.

    >>> open_folder("no such folder")
    Traceback (most recent call last):
    ...
    ddpmi.errors.ReleaseError: The release has no folder pairs.
    <BLANKLINE>
    Hint: it may be incomplete; release again
    """
    tables = FolderTables(folder=Path(path))
    for name in KEYS:
        _files(tables.folder, name)
    return tables
