"""Released tables in the Parquet files of a release folder, read with pyarrow.

No engine is opened: reading whole tables needs none, and a reader that knows only these four folders cannot
be asked for another file.
"""

from __future__ import annotations

import shutil
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.errors import ReleaseError
from ddpmi.tables import KEYS, TableName, check_name, check_table

if TYPE_CHECKING:
    import os

    import pyarrow as pa


class Owner:
    """Removes a folder when nobody holds this object any more, or at the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTables:
    """The released tables of one folder. Each scan reads the files again."""

    folder: Path
    """The release folder."""
    owner: Owner | None = field(default=None, compare=False)
    """Removes the folder when the last reader of it is gone; None for a folder that stays."""

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
        """Count the rows of one released table from the ends of its files."""
        return sum(_rows(name, file) for file in self.files(name))


def _rows(name: TableName, file: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise ReleaseError(f"The file {name}/{file.name} of the release cannot be read.") from error


def check_table_columns(name: TableName, part: pa.Table) -> None:
    """Refuse one file of a table; the total's single row may lie in any of its files.

    >>> import pyarrow as pa
    >>> check_table_columns("labels", pa.table({"label": ["x"], "sum": pa.array([7], pa.int64())}))
    """
    if name != "total":
        check_table(name, part)


def _files(folder: Path, name: TableName) -> list[Path]:
    """List a table's files by name; hidden ones are an engine's own, links could lead out of the folder."""
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
