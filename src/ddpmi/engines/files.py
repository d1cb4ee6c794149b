"""Paths, globs and folders of Parquet and CSV files as one relation. Imports no engine."""

from __future__ import annotations

import csv
import glob
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ddpmi.errors import InputError, InputNotFound
from ddpmi.sql import literal

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

Format = Literal["parquet", "csv"]
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
}
_GLOB = set("*?[")
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Data files of one format."""

    paths: tuple[str, ...]
    format: Format
    delimiter: str = ","
    header: tuple[str, ...] = ()
    """Column names, read from the first line of CSV files."""

    @property
    def relation(self) -> str:
        """The files as something to select from."""
        listed = "[" + ", ".join(literal(path) for path in self.paths) + "]"
        many = "true" if len(self.paths) > 1 else "false"
        if self.format == "parquet":
            return f"read_parquet({listed}, union_by_name={many}, hive_partitioning=false)"
        # Types are not guessed from cells and bad lines are skipped: neither a type nor an error may depend on one row.
        columns = "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.header) + "}"
        return (
            f"read_csv({listed}, auto_detect=false, header=true, columns={columns}, delim={literal(self.delimiter)}, "
            f"quote='\"', escape='\"', nullstr='', ignore_errors=true, null_padding=true, strict_mode=false, "
            f"parallel=false, max_line_size=16777216)"
        )


def find_files(data: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Files:
    """Resolve a path, glob, folder or list of them.

    Raises:
        InputNotFound: Nothing is there.
        InputError: Formats are mixed or unknown, or a CSV file has no header.
    """
    from os import PathLike

    given = [data] if isinstance(data, str | PathLike) else list(data)
    if not given:
        raise InputNotFound("The list of files is empty.", hint="observe(['a.parquet', 'b.parquet'], ...)")
    found = sorted({path for item in given for path in _expand(str(item))})
    formats = {_format(path) for path in found}
    if len(formats) > 1:
        raise InputError(
            "The files are of more than one format.", hint="name files of one format, for example 'data/*.parquet'"
        )
    if formats == {"parquet"}:
        return Files(paths=tuple(found), format="parquet")
    headers = {_header(path) for path in found}
    if len(headers) > 1:
        raise InputError(
            "The CSV files do not all have the same first line.", hint="write them with the same columns, or as Parquet"
        )
    delimiter, names = headers.pop()
    return Files(paths=tuple(found), format="csv", delimiter=delimiter, header=names)


def _expand(item: str) -> list[str]:
    path = Path(item)
    if path.is_dir():
        inside = [str(file) for file in path.rglob("*") if file.suffix.lower() in _FORMATS and _visible(file, path)]
        if not inside:
            raise InputNotFound(
                f"The folder {item} holds no Parquet or CSV file.", hint="*.parquet, *.csv and *.tsv are read"
            )
        return inside
    if path.is_file():
        return [item]
    matches = [match for match in glob.glob(item, recursive=True) if Path(match).is_file()] if _GLOB & set(item) else []  # noqa: PTH207 - patterns may be absolute
    if not matches:
        raise InputNotFound(f"No file is at {item}.", hint="check the path; a glob such as 'data/*.parquet' is fine")
    return matches


def _visible(file: Path, folder: Path) -> bool:
    """Hidden and underscored parts are other tools' bookkeeping."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _format(path: str) -> Format:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"Files ending in {suffix or 'nothing'!r} are not read.", hint="Parquet (.parquet) and CSV (.csv, .tsv) are"
        )
    if Path(path).stat().st_size == 0:
        raise InputError(f"The file {path} is empty.", hint="a data file needs at least a header or a schema")
    return _FORMATS[suffix]


def _header(path: str) -> tuple[str, tuple[str, ...]]:
    """Read the first line alone: it is the schema, and the only part of a CSV file that decides how it is read."""
    with Path(path).open("rb") as file:
        line = file.readline(_HEADER_BYTES)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError(f"The first line of {path} is not UTF-8 text.", hint="save the file as UTF-8") from None
    delimiter = "\t" if path.lower().endswith(".tsv") else max(",;\t|", key=text.count)
    names = next(csv.reader(io.StringIO(text), delimiter=delimiter), [])
    if not names or len(set(names)) < len(names) or not all(names):
        raise InputError(f"The first line of {path} must name each column once.", hint="unit,feature,label")
    return delimiter, tuple(names)
