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
