"""Lists of public keys in files: text with one key per line, or one column of CSV or Parquet.

Keys are never trimmed. Errors never show a key, because a file that was named by mistake may hold data.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from ddpmi.errors import InputError, InputNotFound

if TYPE_CHECKING:
    from pathlib import Path

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".parq", ".pq")
_GROUPS_HINT = "a CSV file with a head and two columns, the feature and its group"
_HINT = "name a file with one key per line, or leave {option} out"


def read_keys(file: Path, option: str) -> list[str]:
    r"""Read the keys of a list.

    Text is UTF-8. Lines end with LF or CRLF, the last one may lack its end, and nothing else is taken off a line.
    An empty line is refused, because it is nearly always a mistake. Parquet can hold the empty key.

    Args:
        file: The file. .csv and .tsv have a head and one column, .parquet has one column, others are text.
        option: The option that names the file, for messages.

    Raises:
        InputNotFound: There is no file.
        InputError: The file has no key, or a line or cell that is not a key.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "labels.txt"
    ...     _ = file.write_bytes(b"NZ\n A, B \n")
    ...     read_keys(file, "--public-labels")
    ['NZ', ' A, B ']
    """
    hint = _HINT.format(option=option)
    # Not is_file, because a list may come from a pipe.
    if not file.exists() or file.is_dir():
        raise InputNotFound(f"{option}: there is no file {file}.", hint=hint)
    ending = file.suffix.lower()
    try:
        if ending in _PARQUET:
            keys = _column(file, option)
        elif ending in _DELIMITERS:
            keys = _cells(_text(file, option), option, _DELIMITERS[ending])
        else:
            keys = _lines(_text(file, option), option)
    except PermissionError:
        raise InputError(f"{option}: {file} cannot be read.", hint="check its permissions") from None
    if not keys:
        raise InputError(f"{option}: {file} holds no key, so nothing could be released.", hint=hint)
    return keys


def read_groups(file: Path, option: str) -> dict[str, str]:
    r"""Read a public list of features and their groups: two columns, the feature and then its group.

    Args:
        file: The file. .parquet has two columns of text; .tsv and others have a head and two columns.
        option: The option that names the file, for messages.

    Raises:
        InputNotFound: There is no file.
        InputError: The file does not have two columns, or gives one feature two groups.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "groups.csv"
    ...     _ = file.write_bytes(b"site,kind\nirctc.co.in,travel\n")
    ...     read_groups(file, "--groups")
    {'irctc.co.in': 'travel'}
    """
    if not file.exists() or file.is_dir():
        raise InputNotFound(f"{option}: there is no file {file}.", hint=_GROUPS_HINT)
    ending = file.suffix.lower()
    rows = _two_columns(file, option) if ending in _PARQUET else _two_cells(_text(file, option), option, ending)
    found: dict[str, str] = {}
    for number, (feature, group) in enumerate(rows, start=1):
        if found.setdefault(feature, group) != group:
            raise InputError(
                f"{option}: row {number} gives a feature another group than before.", hint="one group for each feature"
            )
    if not found:
        raise InputError(f"{option}: {file} names no group.", hint=_GROUPS_HINT)
    return found


def _two_cells(text: str, option: str, ending: str) -> list[tuple[str, str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_DELIMITERS.get(ending, ","), strict=True)
    try:
        rows = [row for row in list(reader)[1:] if row]
    except csv.Error:
        raise InputError(f"{option}: line {reader.line_num} is not CSV.", hint=_GROUPS_HINT) from None
    wrong = next((number for number, row in enumerate(rows, start=2) if len(row) != 2 or not row[1]), None)  # noqa: PLR2004
    if wrong is not None:
        raise InputError(f"{option}: line {wrong} does not have a feature and its group.", hint=_GROUPS_HINT)
    return [(feature, group) for feature, group in rows]


def _two_columns(file: Path, option: str) -> list[tuple[str, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file, partitioning=None)
        columns = [column.to_pylist() for column in table.columns]
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InputError(f"{option}: {file} is not a Parquet file.", hint=_GROUPS_HINT) from None
    if len(columns) != 2 or not all(isinstance(name, str) for column in columns for name in column):  # noqa: PLR2004
        raise InputError(f"{option}: {file} must have two columns of text without NULL.", hint=_GROUPS_HINT)
    return list(zip(*columns, strict=True))


def _text(file: Path, option: str) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{option}: {file} is not text in UTF-8.", hint="save it as UTF-8, not compressed") from None


def _lines(text: str, option: str) -> list[str]:
    # Not splitlines, because it also splits at characters that a key may hold.
    keys = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    for number, key in enumerate(keys, start=1):
        if not key:
            raise _empty(option, number)
    return keys


def _cells(text: str, option: str, delimiter: str) -> list[str]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    keys = []
    try:
        for at, row in enumerate(reader):
            if len(row) > 1:
                raise InputError(
                    f"{option}: line {reader.line_num} has {len(row)} cells, and a list has one column.",
                    hint="quote keys that hold the delimiter, or write one key per line into a .txt file",
                )
            if at and not any(row):
                raise _empty(option, reader.line_num)
            keys += row if at else []
    except csv.Error:
        raise InputError(
            f"{option}: line {reader.line_num} is not CSV.", hint="write one key per line into a .txt file"
        ) from None
    return keys


def _empty(option: str, line: int) -> InputError:
    return InputError(f"{option}: line {line} is empty.", hint="remove it; a Parquet file can hold the empty key")


def _column(file: Path, option: str) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file, partitioning=None)
        keys = table.column(0).to_pylist() if table.num_columns else []
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InputError(f"{option}: {file} is not a Parquet file.", hint=_HINT.format(option=option)) from None
    if table.num_columns != 1:
        raise InputError(f"{option}: {file} has {table.num_columns} columns, and a list has one.", hint="keep one")
    if not all(isinstance(key, str | int) and not isinstance(key, bool) for key in keys):
        raise InputError(
            f"{option}: {file} must hold text or whole numbers, and no NULL.", hint="cast its column to text"
        )
    return [str(key) for key in keys]
