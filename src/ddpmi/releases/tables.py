"""The released tables, read-only: all that code outside of the border may read of the data.

Shapes: pairs (feature, label, sum), features (feature, sum), labels (label, sum), total (sum). Keys are text,
sums are noisy integers on a grid, and rows are sorted by the bytes of their keys. An "other" cell has a NULL key.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ddpmi._typing import KEYS, TableName
from ddpmi.errors import ReleaseError
from ddpmi.releases.digests import COPY, Identity, identity
from ddpmi.releases.pages import Damaged, check_decoded, read_pages
from ddpmi.text import printable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from ddpmi.releases.workplaces import Workplace

_SHOWN = 200  # characters of names that a stranger chose
_DAMAGED = "the file is damaged or was edited; use a copy"
#: Arrow's texts hold less than 2 GiB in one array.
_PIECE_BYTES, _PIECE_ROWS = 1 << 30, 1 << 16


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


def check_schema(name: TableName, schema: pa.Schema) -> None:
    """Refuse columns that are not those of the release format.

    >>> import pyarrow as pa
    >>> check_schema("total", pa.schema([("sum", pa.int64())]))
    """
    import pyarrow as pa

    wanted = {**dict.fromkeys(KEYS[name], pa.string()), "sum": pa.int64()}
    if [(field.name, field.type) for field in schema] != list(wanted.items()):
        got = ", ".join(f"{field.name}: {field.type}" for field in schema)
        need = ", ".join(f"{key}: {type_}" for key, type_ in wanted.items())
        raise ReleaseError(
            f"The released table {name} must have the columns ({need}), got ({printable(got[:_SHOWN])})."
        )


def check_table(name: TableName, table: pa.Table) -> None:
    """Refuse a table whose columns are not those of the release format.

    >>> import pyarrow as pa
    >>> check_table("total", pa.table({"sum": pa.array([7], pa.int64())}))
    """
    check_schema(name, table.schema)
    if name == "total" and table.num_rows != 1:
        raise ReleaseError(f"The released total must be one row, got {table.num_rows} rows.")


def check_rows(name: TableName, table: pa.Table) -> None:
    """Refuse rows that no release has: a sum that is missing, a key twice, or keys that are not sorted by their bytes.

    >>> import pyarrow as pa
    >>> check_rows("labels", pa.table({"label": ["x", "y"], "sum": pa.array([7, 8], pa.int64())}))
    """
    import pyarrow.compute as pc

    keys = [table[key] for key in KEYS[name]]
    nulls = sum(column.null_count for column in keys)
    if table["sum"].null_count or nulls > (name in ("features", "labels")):
        raise ReleaseError(f"The released table {name} lacks a sum or a key.", hint=_DAMAGED)
    if not keys or table.num_rows < 2:  # noqa: PLR2004 - one row is sorted
        return
    rises = [pc.less(column[:-1], column[1:]) for column in keys]
    if len(keys) > 1:
        same = pc.equal(keys[0][:-1], keys[0][1:])
        rises[0] = pc.or_(rises[0], pc.and_(same, rises[1]))
    # A row "other" has no key, and is last.
    if pc.all(rises[0]).as_py() is False or (nulls and keys[0][-1].is_valid):
        raise ReleaseError(f"The released table {name} is not sorted, or holds a key twice.", hint=_DAMAGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTables:
    """The released tables of one folder. Each scan reads the files again."""

    folder: Path
    """The release folder."""
    owner: Workplace | None = field(default=None, compare=False)
    """Removes the folder after its last use; None for a folder that stays."""
    known: Mapping[Path, Identity] | None = field(default=None, compare=False, repr=False)
    """The files as they were when they were compared with the receipt; None where they were not. Other files are refused."""

    def files(self, name: TableName) -> list[Path]:
        """List the files of one released table in the order of its keys."""
        check_name(name)
        return _files(self.folder, name)

    def scan(self, name: TableName) -> pa.Table:
        """Read one released table whole."""
        import pyarrow as pa

        files, parts = self.files(name), []
        self.check_unchanged(name)
        for file in files:
            with _own_errors(name, file):
                parts.append(_read(name, file))
        # Again: a file that was exchanged while it was read is seen now.
        self.check_unchanged(name)
        table = pa.concat_tables(parts)
        check_table(name, table)
        check_rows(name, table)
        return table

    def count(self, name: TableName) -> int:
        """Count the rows of one released table from the metadata of its files."""
        self.check_unchanged(name)
        return sum(_rows(name, file) for file in self.files(name))

    def check_unchanged(self, name: TableName) -> None:
        """Refuse files that changed since they were compared with the receipt.

        Raises:
            ReleaseError: A file was written, replaced, added or removed.
        """
        if self.known is None:
            return
        files = self.files(name)
        wanted = {file: found for file, found in self.known.items() if file.parent.name == name}
        try:
            same = {file: identity(file) for file in files} == wanted
        except OSError:
            same = False
        if not same:
            raise ReleaseError(f"The files of {name} changed while the release was in use.", hint=COPY)


@contextmanager
def _own_errors(name: TableName, file: Path) -> Iterator[None]:
    """Replace the errors of pyarrow, which are of many types for files that are damaged on purpose."""
    import pyarrow as pa

    try:
        yield
    except (
        OSError,
        pa.ArrowException,
        Damaged,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        MemoryError,
    ) as error:
        raise ReleaseError(f"The file {name}/{file.name} of the release cannot be read.", hint=_DAMAGED) from error


def _rows(name: TableName, file: Path) -> int:
    import pyarrow.parquet as pq

    with _own_errors(name, file):
        return int(pq.read_metadata(file).num_rows)


def _read(name: TableName, file: Path) -> pa.Table:
    """Read one file, after a check that its rows fit into memory."""
    import pyarrow.parquet as pq

    size, shown = file.stat().st_size, f"{name}/{file.name}"
    # One file by itself, not a dataset: a folder called "a=b" above the release must not become a column.
    with pq.ParquetFile(file, pre_buffer=False) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
    check_schema(name, schema)
    pages = read_pages(file, metadata)
    check_decoded(shown, pages.decoded, size)
    # Columns with a dictionary stay so: a million rows may repeat one long name. With one thread and no read-ahead, because
    # threads cost twice the processor time here, and memory.
    with pq.ParquetFile(
        file, metadata=metadata, pre_buffer=False, read_dictionary=sorted(pages.dictionaries & set(KEYS[name]))
    ) as opened:
        part = opened.read(use_threads=False).replace_schema_metadata(None)
    part.validate(full=True)  # indices are in range, and texts are UTF-8
    grown = {key: _expanded(part[key]) for key in KEYS[name] if _is_dictionary(part[key])}
    check_decoded(shown, pages.decoded + sum(grown.values()), size)
    for key, expanded in grown.items():
        part = part.set_column(part.column_names.index(key), key, _plain(part[key], expanded))
    return part


def _is_dictionary(column: pa.ChunkedArray) -> bool:
    from pyarrow import types

    return bool(types.is_dictionary(column.type))


def _expanded(column: pa.ChunkedArray) -> int:
    """Return how many bytes the texts of a column have when they are written out."""
    import numpy as np
    import pyarrow.compute as pc

    found = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).to_numpy(zero_copy_only=False)
        used = np.bincount(chunk.indices.drop_null().to_numpy(zero_copy_only=False), minlength=len(lengths))
        found += int(used.astype(object) @ lengths.astype(object)) if len(lengths) else 0
    return found


def _plain(column: pa.ChunkedArray, expanded: int) -> pa.ChunkedArray:
    """Write the texts of a column out, in pieces that Arrow can hold."""
    import pyarrow as pa

    chunks = column.chunks
    if expanded >= _PIECE_BYTES:
        chunks = [chunk[at : at + _PIECE_ROWS] for chunk in chunks for at in range(0, len(chunk), _PIECE_ROWS)]
    return pa.chunked_array([chunk.cast(pa.string()) for chunk in chunks], pa.string())


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
