"""Paths, globs, folders and addresses of Parquet, CSV and JSON lines files as one relation. Imports no engine."""

from __future__ import annotations

import csv
import glob
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ddpmi.engines.lakes import find_lake
from ddpmi.errors import InputError, InputNotFound
from ddpmi.statements import literal, quote

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

Format = Literal["parquet", "csv", "json"]
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_PACKED = (".gz", ".zst")
_READ = "Parquet (.parquet), CSV (.csv, .tsv) and JSON lines (.jsonl, .ndjson, .json), the last two also .gz or .zst"
#: Address -> the extension of DuckDB that reads it.
_EXTENSIONS = {
    **dict.fromkeys(["s3", "gs", "gcs", "r2", "http", "https", "hf"], "httpfs"),
    **dict.fromkeys(["az", "azure", "abfss"], "azure"),
}
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_GLOB = set("*?[")
_HEADER_BYTES = 1 << 20
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Data files of one format."""

    paths: tuple[str, ...]
    format: Format
    delimiter: str = ","
    header: tuple[str, ...] = ()
    """Column names: the first line of CSV files, the keys of the first record of JSON lines."""
    partitions: tuple[str, ...] = ()
    """Columns that are written in the folders' names, as key=value."""
    extension: str | None = None
    """The extension of DuckDB that addresses need."""

    def relation(self, columns: list[str] | None) -> str:
        """The files as something to select from; JSON lines have the columns that are asked for."""
        listed = "[" + ", ".join(literal(path) for path in self.paths) + "]"
        hive = f"hive_partitioning={'true' if self.partitions else 'false'}, hive_types_autocast=false"
        if self.format == "parquet":
            many = "true" if len(self.paths) > 1 or self.extension else "false"
            return f"read_parquet({listed}, union_by_name={many}, {hive})"
        # Types are not guessed from cells and bad lines are skipped: neither a type nor an error may depend on one row.
        if self.format == "json":
            return self._json(listed, hive, list(self.header) if columns is None else columns)
        typed = "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.header) + "}"
        return (
            f"read_csv({listed}, auto_detect=false, header=true, columns={typed}, delim={literal(self.delimiter)}, "
            f"quote='\"', escape='\"', nullstr='', ignore_errors=true, null_padding=true, strict_mode=false, "
            f"parallel=false, max_line_size=16777216, {hive})"
        )

    def _json(self, listed: str, hive: str, columns: list[str]) -> str:
        """Scalars as text; lists, objects and NaN are no keys and no numbers, so they are NULL."""
        # A relation needs a column, also where an expression reads none.
        plain = [name for name in columns if name not in self.partitions] or ["no column"]
        typed = "{" + ", ".join(f"{literal(name)}: 'JSON'" for name in plain) + "}"
        texts = [
            f"CASE WHEN left({name}, 1) NOT IN ('{{', '[', 'N') THEN {name} ->> '$' END AS {name}"
            for name in map(quote, plain)
        ]
        texts += [quote(name) for name in columns if name in self.partitions]
        return (
            f"(SELECT {', '.join(texts)} FROM read_json({listed}, format='newline_delimited', columns={typed}, "
            f"ignore_errors=true, maximum_object_size=16777216, {hive})) AS records"
        )


def find_files(data: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Files:
    """Resolve a path, glob, folder, address or list of them.

    Raises:
        InputNotFound: Nothing is there.
        InputError: Formats are mixed or unknown, or a CSV file has no header.
    """
    from os import PathLike

    given = [str(item) for item in ([data] if isinstance(data, str | PathLike) else data)]
    if not given:
        raise InputNotFound("The list of files is empty.", hint="observe(['a.parquet', 'b.parquet'], ...)")
    addresses = [item for item in given if _ADDRESS.match(item)]
    if addresses:
        return _remote(addresses, given)
    found = sorted({path for item in given for path in _expand(item)})
    format_ = _one_format([_format(path) for path in found])
    for path in found:
        if Path(path).stat().st_size == 0:
            raise InputError(f"The file {path} is empty.", hint="a data file needs at least a header or a schema")
    partitions = _partitions(found)
    if format_ == "parquet":
        _refuse_lakes(found)
        return Files(paths=tuple(found), format="parquet", partitions=partitions)
    if format_ == "json":
        return Files(paths=tuple(found), format="json", header=_record_keys(found), partitions=partitions)
    headers = {_header(path) for path in found}
    if len(headers) > 1:
        raise InputError(
            "The CSV files do not all have the same first line.", hint="write them with the same columns, or as Parquet"
        )
    delimiter, names = headers.pop()
    return Files(paths=tuple(found), format="csv", delimiter=delimiter, header=names, partitions=partitions)


def _remote(addresses: list[str], given: list[str]) -> Files:
    if len(addresses) < len(given):
        raise InputError("Files here and addresses elsewhere cannot be read together.", hint="name one kind of them")
    schemes = {address.split("://")[0].lower() for address in addresses}
    unknown = schemes - set(_EXTENSIONS)
    if unknown:
        raise InputError(
            f"Addresses that start with {min(unknown)}:// are not read.", hint=f"{', '.join(_EXTENSIONS)}, or a path"
        )
    extensions = {_EXTENSIONS[scheme] for scheme in schemes}
    if len(extensions) > 1:
        raise InputError("The addresses need two different extensions.", hint="name files of one store")
    format_ = _one_format([_format(address.partition("?")[0]) for address in addresses])
    if format_ == "csv":
        raise InputError(
            "CSV files are not read from an address: their first line has to be read beforehand.",
            hint="copy them here first, or write them as Parquet",
        )
    return Files(paths=tuple(sorted(set(addresses))), format=format_, extension=extensions.pop())


def _one_format(formats: list[Format]) -> Format:
    if len(set(formats)) > 1:
        raise InputError(
            "The files are of more than one format.", hint="name files of one format, for example 'data/*.parquet'"
        )
    return formats[0]


def _expand(item: str) -> list[str]:
    path = Path(item)
    if path.is_dir():
        inside = [str(file) for file in path.rglob("*") if _suffix(str(file)) in _FORMATS and _visible(file, path)]
        # A lone .json beside data files is more often a description than rows.
        inside = [file for file in inside if _suffix(file) != ".json"] or inside
        if not inside:
            raise InputNotFound(f"The folder {item} holds no data file.", hint=f"read are {_READ}")
        return inside
    if path.is_file():
        return [item]
    matches = [match for match in glob.glob(item, recursive=True) if Path(match).is_file()] if _GLOB & set(item) else []  # noqa: PTH207 - patterns may be absolute
    if not matches:
        raise InputNotFound(f"No file is at {item}.", hint="check the path; a glob such as 'data/*.parquet' is fine")
    return matches


def _visible(file: Path, folder: Path) -> bool:
    """Hidden and underscored parts are other tools' bookkeeping."""
    return file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _suffix(path: str) -> str:
    """The suffix that names the format; that of the packing is taken off where the format may be packed."""
    name = path.lower()
    inner = Path(name.removesuffix(Path(name).suffix)).suffix if name.endswith(_PACKED) else ""
    return inner if _FORMATS.get(inner, "parquet") != "parquet" else Path(name).suffix


def _format(path: str) -> Format:
    suffix = _suffix(path)
    if suffix not in _FORMATS:
        raise InputError(f"Files ending in {suffix or 'nothing'!r} are not read.", hint=f"read are {_READ}")
    return _FORMATS[suffix]


def _refuse_lakes(paths: list[str]) -> None:
    """The files of a Delta or Iceberg table still hold rows that were deleted from it."""
    for folder in {parent for path in paths for parent in Path(path).absolute().parents}:
        lake = find_lake(str(folder))
        if lake is not None:
            raise InputError(
                f"The files belong to the {lake.kind.capitalize()} table {folder} and may hold rows deleted from it.",
                hint=f"name the table's own folder alone: observe({str(folder)!r}, ...)",
            )


def _partitions(paths: list[str]) -> tuple[str, ...]:
    """The keys of key=value folders, which all files must share."""
    keys = {tuple(part.partition("=")[0] for part in Path(path).parts[:-1] if "=" in part.strip("=")) for path in paths}
    if len(keys) > 1:
        raise InputError(
            "Some files lie in key=value folders and others in different ones.",
            hint="name a folder in which all files lie equally deep, for example 'data/year=*/**/*.parquet'",
        )
    found = keys.pop()
    if len({name.lower() for name in found}) < len(found):
        raise InputError("A key of the key=value folders appears twice in one path.", hint="rename a folder")
    return found


def _head(path: str) -> bytes:
    """The first bytes of a file, unpacked."""
    try:
        if not path.lower().endswith(_PACKED):
            with Path(path).open("rb") as file:
                return file.read(_HEADER_BYTES)
        import pyarrow as pa

        with pa.input_stream(path, compression="gzip" if path.lower().endswith(".gz") else "zstd") as stream:
            return bytes(stream.read(_HEADER_BYTES))
    except OSError:
        raise InputError(f"The file {path} cannot be read or unpacked.", hint="check that it is complete") from None


def _header(path: str) -> tuple[str, tuple[str, ...]]:
    """Read the first line alone: it is the schema, and the only part of a CSV file that decides how it is read."""
    line = _head(path).partition(b"\n")[0]
    try:
        text = line.decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError:
        raise InputError(f"The first line of {path} is not UTF-8 text.", hint="save the file as UTF-8") from None
    delimiter = "\t" if _suffix(path) == ".tsv" else max(",;\t|", key=text.count)
    names = next(csv.reader(io.StringIO(text), delimiter=delimiter), [])
    if not names or len({name.lower() for name in names}) < len(names) or not all(names):
        raise InputError(
            f"The first line of {path} must name each column once, upper and lower case being the same.",
            hint="unit,feature,label",
        )
    return delimiter, tuple(names)


def _record_keys(paths: list[str]) -> tuple[str, ...]:
    """The keys of the first record, by which unit, feature and label are recognised; broken lines are passed over."""
    for path in paths:
        lines = _head(path).split(b"\n")
        start = next((line.strip().replace(b" ", b"") for line in lines if line.strip()), b"")
        if start in (b"[", b"{") or start.startswith(b"[{"):
            raise InputError(
                f"The file {path} is one JSON document, not one record per line.",
                hint="jq -c '.[]' data.json > data.jsonl",
            )
        if start.startswith(_MARK):
            raise InputError(
                f"The file {path} starts with a byte order mark, which would hide its first record.",
                hint="tail -c +4 data.jsonl > plain.jsonl",
            )
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                return tuple({name.lower(): name for name in reversed(record) if name}.values())
    return ()
