"""Files: paths, globs, folders and addresses of Parquet, CSV and JSON lines as one relation. Imports no engine.

How rows are read depends on the files' names, the first line of CSV files and the schema of Parquet files, never on a row.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ddpmi.engines.duckdb import encodings
from ddpmi.engines.lakes import find_lake
from ddpmi.errors import Hint, InputError, InputNotFound
from ddpmi.pipeline.dialects import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Format = Literal["parquet", "csv", "json"]
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
}
_READ = "Parquet (.parquet), CSV (.csv, .tsv) and JSON lines (.jsonl, .ndjson), the last two also .gz or .zst"
#: Address -> the extension of DuckDB that reads it.
_EXTENSIONS = {
    **dict.fromkeys(["s3", "gs", "gcs", "r2", "http", "https", "hf"], "httpfs"),
    **dict.fromkeys(["az", "azure", "abfss"], "azure"),
}
#: Types of Parquet columns whose reading fails at one bad cell.
_STRICT = ("JSON", "GEOMETRY", "VARIANT", "TIME", "TIME_NS", "TIME WITH TIME ZONE")
#: Type of timestamps in Parquet columns -> the type that they are read as.
_TIMESTAMPS = {
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMPTZ_NS": "TIMESTAMP WITH TIME ZONE",
}
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_GLOB = set("*?[")
_PANDAS = "convert it: python -c \"import pandas; pandas.{read}('visits{end}').to_parquet('visits.parquet')\""
#: The end of a name -> how to convert such a file.
_CONVERTED = {
    ".txt": "if it has columns, rename it to .csv (commas) or .tsv (tabs)",
    ".xls": "open it in Excel or LibreOffice, and save it as .xlsx",
    ".ods": "open it in LibreOffice, and save it as .xlsx",
    **{
        end: _PANDAS.format(read=read, end=end)
        for end, read in {
            ".sav": "read_spss",
            ".dta": "read_stata",
            ".sas7bdat": "read_sas",
            ".feather": "read_feather",
        }.items()
    },
    ".mdb": "export its tables as .csv",
    ".accdb": "export its tables as .csv",
}
#: Longest line of a text file, in bytes; a longer one is dropped.
_LONGEST_LINE = 1 << 24
#: A character that is never in a JSON text, where control characters are escaped.
_NO_DELIMITER = "\x01"
#: The byte order mark. It is removed from the start of any line.
_MARK = 0xFEFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Data files of one format."""

    paths: tuple[str, ...]
    format: Format
    delimiter: str = ","
    header: tuple[str, ...] = ()
    """Column names of CSV files, from their first line."""
    encoding: str = encodings.UTF8
    """The encoding of CSV and JSON lines files."""
    partitions: tuple[str, ...] = ()
    """Columns in the names of folders, as key=value."""
    extension: str | None = None
    """The extension of DuckDB that addresses need."""

    def check_readable(self) -> None:
        """Refuse files of this machine that are gone, or that this user may not read. Opens none of them.

        Raises:
            InputNotFound: A file is gone.
            InputError: A file may not be read.
        """
        for path in self.paths if self.extension is None else ():
            if not Path(path).is_file():
                raise InputNotFound(f"The file {path} is gone.", hint="check the path, and name the data again")
            if not os.access(path, os.R_OK):
                raise InputError(f"The file {path} may not be read.", hint=f"check its permissions: ls -l '{path}'")

    def ready(self, folder: str) -> Files:
        """Return files that the engine can read: files that are not valid UTF-8 are copied to a private folder.

        This reads the files, so it runs after the charge.
        """
        if self.format == "parquet" or self.extension is not None:
            return self
        places = enumerate(self.paths)
        return replace(self, paths=tuple(encodings.readable(path, self.encoding, folder, n) for n, path in places))

    def listed(self) -> str:
        """Return the names of the files as a list in SQL."""
        return "[" + ", ".join(literal(_spelled(path)) for path in self.paths) + "]"

    def relation(self, columns: list[str] | None) -> str:
        """Return SQL to select the files from. JSON lines get the columns that are asked for."""
        listed = self.listed()
        hive = f"hive_partitioning={'true' if self.partitions else 'false'}, hive_types_autocast=false"
        if self.format == "parquet":
            many = "true" if len(self.paths) > 1 or self.extension else "false"
            # Text that is not UTF-8 is repaired cell by cell.
            # proof: row-local.text
            return f"read_parquet({listed}, union_by_name={many}, utf8_validation='replace', {hive})"
        # No type is guessed and bad lines are skipped: neither a type nor an error may depend on one row.
        # proof: row-local.files
        lines = f"ignore_errors=true, strict_mode=false, parallel=false, max_line_size={_LONGEST_LINE}, {hive}"
        if self.format == "json":
            return self._json(listed, lines, list(self.partitions) if columns is None else columns)
        typed = "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.header) + "}"
        return (
            f"read_csv({listed}, auto_detect=false, header=true, columns={typed}, delim={literal(self.delimiter)}, "
            f"quote='\"', escape='\"', nullstr='', null_padding=true, {lines})"
        )

    def _json(self, listed: str, lines: str, columns: list[str]) -> str:
        """Return the scalars of each record as text. Lists, objects and NaN are neither keys nor numbers: NULL.

        Lines are split before they are parsed, so a broken line does not change the next one.
        """
        names = [name for name in columns if name not in self.partitions]
        folders = [quote(name) for name in columns if name in self.partitions]
        paths = "[" + ", ".join(literal(_pointer(name)) for name in names) + "]"
        texts_ = [
            f"CASE WHEN kinds[{n}] NOT IN ('OBJECT', 'ARRAY') AND NOT (kinds[{n}] = 'DOUBLE' AND found[{n}] = 'NaN') "
            f"THEN found[{n}] END AS {quote(name)}"
            for n, name in enumerate(names, start=1)
        ]
        # A relation needs a column even if an expression reads none.
        picked = ", ".join([*texts_, *folders]) or "line"
        parsed = [
            f"CASE WHEN json_valid(line) THEN {what}(line, {paths}) END AS {as_}"
            for what, as_ in (("json_extract_string", "found"), ("json_type", "kinds"))
        ]
        # proof: row-local.json
        return (
            f"(SELECT {picked} FROM (SELECT {', '.join(['*', *(parsed if names else [])])} FROM "
            f"(SELECT * REPLACE (ltrim(line, chr({_MARK})) AS line) FROM read_csv({listed}, "
            f"auto_detect=false, header=false, columns={{'line': 'VARCHAR'}}, delim={literal(_NO_DELIMITER)}, "
            f"quote='', escape='', {lines})) AS lines) AS parsed) AS records"
        )


def unread(schema: Mapping[str, tuple[str, str]], columns: Iterable[str]) -> str | None:
    """Say which column of Parquet files has a type for which one bad cell makes reading fail; None for none."""
    for name in columns:
        type_ = schema[name][1]
        nested = type_.endswith(("]", ")")) and not type_.startswith(("DECIMAL(", "ENUM("))
        if type_ in _STRICT or (nested and any(word in type_ for word in _STRICT)):
            return f"The column {name!r} has type {type_}, which is not read."
    return None


def with_times(relation: str, schema: Mapping[str, tuple[str, str]], columns: Iterable[str]) -> str:
    """Replace timestamps outside the calendar by NULL: writing one of them as text ends the engine."""
    guarded = []
    for name, type_ in ((quote(name), schema[name][1]) for name in columns if name in schema):
        plain = _TIMESTAMPS.get(type_)
        if plain is None:
            continue
        time = name if type_ == plain else f"CAST({name} AS {plain})"
        first, last = f"CAST('0001-01-01' AS {plain})", f"CAST('9999-12-31 23:59:59.999999' AS {plain})"
        # Without the TRY the optimizer rewrites the CASE and then relies on the file's statistics.
        # proof: row-local.cells
        guarded.append(f"TRY(CASE WHEN {time} BETWEEN {first} AND {last} THEN {time} END) AS {name}")
    return f"(SELECT * REPLACE ({', '.join(guarded)}) FROM {relation}) AS source" if guarded else relation


def find_files(data: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], encoding: str | None = None) -> Files:
    """Resolve a path, glob, folder, address or list of them.

    Args:
        data: What was named.
        encoding: The encoding of CSV and JSON lines files; None for UTF-8.

    Raises:
        InputNotFound: There is no file.
        InputError: Formats are mixed or unknown, or a CSV file has no header.
    """
    from os import PathLike

    given = [str(item) for item in ([data] if isinstance(data, str | PathLike) else data)]
    if not given:
        raise InputNotFound(
            "The list of files is empty.",
            hint=Hint(python="observe(['a.parquet', 'b.parquet'], ...)", cli="name one or more files"),
        )
    addresses = [item for item in given if _ADDRESS.match(item)]
    if addresses:
        return _remote(addresses, given, encoding)
    found = _once([path for item in given for path in _expand(item)])
    format_ = _one_format([_format(path) for path in found])
    _check_encoding(format_, encoding)
    for path in found:
        if Path(path).stat().st_size == 0:
            raise InputError(f"The file {path} is empty.", hint="a data file needs at least a header or a schema")
    partitions = _partitions(found)
    if format_ == "parquet":
        _refuse_lakes(found)
        return Files(paths=tuple(found), format="parquet", partitions=partitions)
    code = encodings.checked(encoding)
    if format_ == "json":
        return Files(paths=tuple(found), format="json", encoding=code, partitions=partitions)
    headers = {_header(path, code) for path in found}
    if len(headers) > 1:
        raise InputError(
            "The CSV files do not all have the same first line.", hint="write them with the same columns, or as Parquet"
        )
    delimiter, names = headers.pop()
    return Files(
        paths=tuple(found), format="csv", delimiter=delimiter, header=names, encoding=code, partitions=partitions
    )


def _check_encoding(format_: Format, encoding: str | None) -> None:
    if encoding is not None and format_ == "parquet":
        raise InputError("Parquet files declare their own encoding.", hint="leave encoding out")


def _spelled(path: str) -> str:
    """Write a file's name so that the engine reads only that file and does not take the name for a pattern.

    >>> _spelled("a[1].parquet")
    './a[[]1].parquet'
    """
    # proof: row-local.names
    if _ADDRESS.match(path):
        return path
    return glob.escape(path if Path(path).is_absolute() else f"./{path}")


def _pointer(name: str) -> str:
    """Write a key of a record as a JSON pointer."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _once(paths: list[str]) -> list[str]:
    """Keep one name of each file: the rows of a file that is named twice must not count twice."""
    # proof: row-local.names
    found: dict[tuple[int, int] | str, str] = {}
    for path in sorted(set(paths)):
        _check_name(path)
        status = Path(path).stat()
        same: tuple[int, int] | str = (status.st_dev, status.st_ino) if status.st_ino else str(Path(path).resolve())
        first = found.setdefault(same, path)
        if encodings.folder_keys(first) != encodings.folder_keys(path):
            raise InputError(
                f"{first} and {path} are one file in folders of different key=value names.",
                hint="name one of them, or make it two files",
            )
    return list(found.values())


def _check_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError("The name of a file is not Unicode text.", hint="rename the file") from None


def _remote(addresses: list[str], given: list[str], encoding: str | None) -> Files:
    if len(addresses) < len(given):
        raise InputError(
            "Local files and addresses cannot be read together.", hint="name only files, or only addresses"
        )
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
    if encoding is not None:
        raise InputError("Files at an address are read as UTF-8.", hint="copy them here first, or leave encoding out")
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
        if not inside:
            raise InputNotFound(f"The folder {item} holds no data file.", hint=f"these are read: {_READ}")
        return inside
    if path.is_file():
        return [item]
    matches = [match for match in glob.glob(item, recursive=True) if Path(match).is_file()] if _GLOB & set(item) else []  # noqa: PTH207 - patterns may be absolute
    if not matches:
        raise InputNotFound(f"No file is at {item}.", hint="check the path; a glob such as 'data/*.parquet' is fine")
    return matches


def _visible(file: Path, folder: Path) -> bool:
    """Tell whether a file is data; names that start with a dot or underscore belong to other tools."""
    return file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _suffix(path: str) -> str:
    """Return the suffix that names the format, without the suffix of a compression."""
    name = path.lower()
    inner = Path(name.removesuffix(Path(name).suffix)).suffix if name.endswith(encodings.PACKED) else ""
    return inner if _FORMATS.get(inner, "parquet") != "parquet" else Path(name).suffix


def _format(path: str) -> Format:
    suffix = _suffix(path)
    if suffix == ".json" or path.lower().endswith(tuple(f".json{packed}" for packed in encodings.PACKED)):
        raise InputError(
            f"{path} may be one JSON document or one record per line, and its rows must not decide which.",
            hint="one record per line: rename it to .jsonl; one document: jq -c '.[]' data.json > data.jsonl",
        )
    if suffix in _CONVERTED:
        raise InputError(f"Files ending in {suffix!r} are not read.", hint=_CONVERTED[suffix])
    if suffix not in _FORMATS:
        raise InputError(f"Files ending in {suffix or 'nothing'!r} are not read.", hint=f"these are read: {_READ}")
    return _FORMATS[suffix]


def _refuse_lakes(paths: list[str]) -> None:
    """Refuse files of a Delta or Iceberg table: they still hold rows that were deleted from it."""
    for folder in {parent for path in paths for parent in Path(path).absolute().parents}:
        lake = find_lake(str(folder))
        if lake is not None:
            raise InputError(
                f"The files belong to the {lake.kind.capitalize()} table {folder} and may hold rows deleted from it.",
                hint=Hint(do="name the table's own folder alone", python=f"observe({str(folder)!r}, ...)", cli=""),
            )


def _partitions(paths: list[str]) -> tuple[str, ...]:
    """Return the keys of key=value folders, which all files must share."""
    keys = {tuple(part.partition("=")[0] for part in encodings.folder_keys(path)) for path in paths}
    if len(keys) > 1:
        raise InputError(
            "The files are not all in key=value folders with the same keys.",
            hint="name a folder in which all files are equally deep, for example 'data/year=*/**/*.parquet'",
        )
    found = keys.pop()
    if len({name.lower() for name in found}) < len(found):
        raise InputError("A key of the key=value folders appears twice in one path.", hint="rename a folder")
    return found


def _header(path: str, encoding: str) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter and the column names from the first line, the only line that decides how a file is read."""
    line = encodings.first_line(path, encoding)
    if encodings.REPLACEMENT in line:
        raise InputError(
            f"The first line of {path} is not {encoding} text.", hint="name its encoding: encoding='latin-1'"
        )
    delimiter = "\t" if _suffix(path) == ".tsv" else max(",;\t|", key=line.count)
    try:
        names = next(csv.reader(io.StringIO(line), delimiter=delimiter), [])
    except csv.Error:
        names = []
    if not names or len({name.lower() for name in names}) < len(names) or not all(names):
        raise InputError(
            f"The first line of {path} must name each column once, upper and lower case being the same.",
            hint="unit,feature,label",
        )
    return delimiter, tuple(names)
