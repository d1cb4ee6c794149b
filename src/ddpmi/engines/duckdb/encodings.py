"""Encodings of text files, whose bytes become UTF-8. An encoding is never guessed. Imports no engine."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ddpmi.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

UTF8: Final = "utf-8"
PACKED: Final = (".gz", ".zst")
#: Replaces bytes that are no text.
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_CHUNK = 1 << 22
_HEADER_BYTES = 1 << 20
_LINE_END = re.compile(r"[\r\n]")
#: Each character is two bytes or four, so a bad one never includes a line end.
_WIDE = ("utf-16", "utf-16-le", "utf-16-be")


def checked(encoding: str | None) -> str:
    """Return the name of an encoding in which a bad byte changes only its own cell.

    Raises:
        InputError: The encoding is unknown, or a bad byte could hide the next delimiter.

    >>> checked("Latin1"), checked(None)
    ('iso8859-1', 'utf-8')
    """
    try:
        name = codecs.lookup(UTF8 if encoding is None else encoding).name
        single = _is_single(name)
    except (LookupError, UnicodeError, TypeError, AttributeError):
        name, single = str(encoding), False
    if name == "utf-8-sig":
        name = UTF8
    if name != UTF8 and name not in _WIDE and not single:
        raise InputError(
            f"Text in the encoding {encoding!r} is not read.",
            hint="utf-8, utf-16, latin-1, cp1252 and other encodings of one byte a character; "
            "else convert first: iconv -f NAME -t utf-8 data.csv > utf8.csv",
        )
    return name


def _is_single(name: str) -> bool:
    """Tell whether each byte is one character, and each ASCII byte is its ASCII character."""
    # proof: row-local.text
    plain = all(bytes([code]).decode(name, "replace") == chr(code) for code in range(128))
    return plain and len(bytes(range(256)).decode(name, "replace")) == 256  # noqa: PLR2004 - one for each byte


def first_line(path: str, encoding: str) -> str:
    """Return the first line of a file without its end and without a byte order mark; bad bytes are replaced."""
    try:
        with _opened(path) as stream:
            head = bytes(stream.read(_HEADER_BYTES))
    except OSError:
        raise InputError(f"The file {path} cannot be read or unpacked.", hint="check that it is complete") from None
    text = head.decode(encoding, "replace").removeprefix(_MARK)
    return _LINE_END.split(text, maxsplit=1)[0]


def folder_keys(path: str) -> list[str]:
    """Return the folders of a path that are named key=value.

    >>> folder_keys("data/year=2026/rows.csv")
    ['year=2026']
    """
    return [part for part in Path(path).parts[:-1] if part.find("=") > 0]


def readable(path: str, encoding: str, folder: str, number: int) -> str:
    """Return the path itself where its bytes are valid UTF-8, else that of a copy in which bad bytes are replaced.

    All other bytes of a copy are those of the file, so a row without bad bytes is read alike from either.

    Args:
        path: A text file, which may be packed.
        encoding: What `checked` returned.
        folder: Where a copy may be written; nobody else can read it.
        number: A different number for each copy.
    """
    # proof: row-local.text
    if encoding == UTF8 and _is_utf8(path):
        return path
    # key=value folders are columns, so the copy keeps them.
    place = Path(folder, f"text-{number}", *folder_keys(path), "copy.txt")
    place.parent.mkdir(parents=True)
    with place.open("wb") as copy:
        for text in _decoded(path, encoding):
            copy.write(text.encode())
    return str(place)


def _is_utf8(path: str) -> bool:
    decoder = codecs.getincrementaldecoder(UTF8)()
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(path: str, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    start = True
    for chunk in _chunks(path):
        text = decoder.decode(chunk)
        if start and text:
            text, start = text.removeprefix(_MARK), False
        yield text
    yield decoder.decode(b"", final=True)


def _chunks(path: str) -> Iterator[bytes]:
    try:
        with _opened(path) as stream:
            while chunk := bytes(stream.read(_CHUNK)):
                yield chunk
    except OSError:
        raise EngineError(
            f"The file {path} cannot be read or unpacked.", hint="check that it is complete and readable"
        ) from None


def _opened(path: str) -> Any:
    if not path.lower().endswith(PACKED):
        return Path(path).open("rb")
    import pyarrow as pa

    return pa.input_stream(path, compression="gzip" if path.lower().endswith(".gz") else "zstd")
