"""Pages of a Parquet file: how much memory it takes to decode, known before it is decoded.

A stranger's file of some hundred kilobytes may ask for gigabytes: one long name in a dictionary that a million rows repeat,
or pages that are almost nothing but zeros. The footer may lie about both. So the headers of the pages themselves are read.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpmi.errors import ReleaseError

if TYPE_CHECKING:
    from pathlib import Path

#: Decoded tables up to this size are read from any file.
_ALWAYS = 512 << 20
#: Larger ones must have a byte on disk for each of these bytes. Noise cannot be compressed: each noisy sum takes several
#: bits, and a row takes a few dozen bytes in memory. Only exact sums that are all equal come near this ratio.
_LARGEST_RATIO = 1000
#: What this package and Spark write: PLAIN, the two dictionary encodings, and RLE and BIT_PACKED for levels. The encodings
#: of prefixes and deltas are left out: they repeat a long name without a dictionary.
_PLAIN, _DICTIONARY = 0, (2, 8)
_DATA, _INDEX, _DICTIONARY_PAGE, _DATA_V2 = 0, 1, 2, 3
_BOOLS, _INTEGERS, _BINARY, _STRUCT = (1, 2), (4, 5, 6), 8, 12
_DEEPEST = 8
#: A row in memory has a sum of eight bytes and two indices of four. Runs of equal values may take no bytes on disk.
_ROW = 16


class Damaged(Exception):  # noqa: N818 - callers turn it into their own error
    """The headers of the pages cannot be read."""


def allowed(size: int) -> int:
    """Return how many bytes a file of this size may have when it is decoded.

    >>> allowed(1) == allowed(1 << 10) == 512 << 20, allowed(1 << 30) == 1000 << 30
    (True, True)
    """
    return max(_ALWAYS, _LARGEST_RATIO * size)


def check_decoded(name: str, decoded: int, size: int) -> None:
    """Refuse a file that would fill the memory.

    Args:
        name: The file, for the message.
        decoded: The bytes of its rows in memory.
        size: Its bytes on disk.

    Raises:
        ReleaseError: It would.
    """
    if decoded > allowed(size):
        raise ReleaseError(
            f"The file {name} of the release has {size} bytes, and would take {decoded >> 20} MiB in memory.",
            hint="no release looks like this; do not trust it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What the headers of all pages of a file say."""

    decoded: int
    """The bytes of all pages after decompression, and those of a sum and two indices for each row."""
    dictionaries: frozenset[str]
    """The columns that have a dictionary somewhere."""


def read_pages(file: Path, metadata: Any) -> Pages:
    """Read the headers of all pages of a file.

    Args:
        file: The file.
        metadata: Its footer, as pyarrow reads it.

    Raises:
        Damaged: The headers do not fit the footer, or a page has an encoding that no release has.
    """
    decoded, dictionaries = _ROW * metadata.num_rows, set()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group)
            if rows.num_rows == 0:
                continue  # nothing of it is read, and its offsets may be 0
            for at in range(rows.num_columns):
                column = rows.column(at)
                found = _column(content, column)
                if found.values != rows.num_rows:
                    raise Damaged
                decoded += found.decoded
                if found.dictionary:
                    dictionaries.add(column.path_in_schema)
    return Pages(decoded=decoded, dictionaries=frozenset(dictionaries))


@dataclass(slots=True, kw_only=True)
class _Column:
    decoded: int = 0
    values: int = 0
    dictionary: bool = False


def _column(content: mmap.mmap, column: Any) -> _Column:
    """Walk the pages of one column in one row group, as a reader does."""
    start = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    end, found = start + column.total_compressed_size, _Column()
    if not 0 <= start <= end <= len(content):
        raise Damaged
    while start < end:
        reader = _Reader(content, start, end)
        header = reader.struct()
        kind, size, stored = (_count(header.get(place)) for place in (1, 2, 3))
        start = reader.place + stored
        found.decoded += size
        if kind in (_DATA, _DATA_V2):
            page = header.get(5 if kind == _DATA else 8)
            if not isinstance(page, dict):
                raise Damaged
            found.values += _count(page.get(1))
            encoding = _count(page.get(2 if kind == _DATA else 4))
            if encoding != _PLAIN and encoding not in _DICTIONARY:
                raise Damaged
        elif kind == _DICTIONARY_PAGE:
            found.dictionary = True
        elif kind != _INDEX:
            raise Damaged
    if start != end:
        raise Damaged
    return found


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Damaged
    return value


class _Reader:
    """Reads structs of Thrift's compact protocol: integers, and structs of them; all else is skipped."""

    def __init__(self, content: mmap.mmap, place: int, end: int) -> None:
        self.content, self.place, self.end = content, place, end

    def byte(self) -> int:
        if self.place >= self.end:
            raise Damaged
        self.place += 1
        return self.content[self.place - 1]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follows
                return value
        raise Damaged

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, count: int) -> None:
        if count > self.end - self.place:
            raise Damaged
        self.place += count

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Read a struct: its integers and structs by the numbers of their fields."""
        if depth > _DEEPEST:
            raise Damaged
        found: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            value = self.value(head & 0x0F, depth)
            # A reader takes the last of two fields with one number. No writer has two.
            if number in found:
                raise Damaged
            found[number] = value
        return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in _BOOLS:
            return None
        if kind in _INTEGERS:
            return self.integer()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            self.skip(self.varint())
        elif kind in (3, 7):  # a byte, a double
            self.skip(1 if kind == 3 else 8)  # noqa: PLR2004
        else:
            raise Damaged  # headers of pages hold no lists and no maps
        return None
