"""Lists of public keys in files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi.cli.keys import read_keys
from ddpmi.errors import InputError
from tests.support.cli_fixtures import (
    CANARY,
    Place,
    refused_clearly,
)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", b"b\na\n", ["b", "a"]),
        ("a.txt", b"b\na", ["b", "a"]),
        ("a", b" b \n\t\n", [" b ", "\t"]),
        ("a.txt", b"\xef\xbb\xbfb\r\na\r\n", ["b", "a"]),
        ("a.txt", "one\u2028line\n\x0c\nx\ry\n".encode(), ["one\u2028line", "\x0c", "x\ry"]),
        ("a.txt", b'"b",c\n', ['"b",c']),
        ("a.csv", b'label\n"b,c"\n d \n"e\nf"\n', ["b,c", " d ", "e\nf"]),
        ("a.tsv", b"label\r\na,b\r\n", ["a,b"]),
    ],
)
def test_lists_are_read_as_they_are(tmp_path: Path, name: str, content: bytes, expected: list[str]) -> None:
    """Lines and cells are keys without any trimming; ends of lines and a byte order mark are none of them."""
    (tmp_path / name).write_bytes(content)
    assert read_keys(tmp_path / name, "--public-labels") == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["b", ""], ["b", ""]), ([3, -1], ["3", "-1"]), (pa.array(["a", "a"]).dictionary_encode(), ["a", "a"])],
)
def test_lists_in_parquet(tmp_path: Path, values: object, expected: list[str]) -> None:
    """One column of text or whole numbers is a list, and it may hold the empty key."""
    pq.write_table(pa.table({"key": values}), tmp_path / "a.parquet")
    assert read_keys(tmp_path / "a.parquet", "--public-labels") == expected


BAD_LISTS = {
    "nothing": ("a.txt", b"", "holds no key"),
    "one empty line": ("a.txt", b"\n", "line 1 is empty"),
    "an empty line between": ("a.txt", b"a\n\nb\n", "line 2 is empty"),
    "an empty line at the end": ("a.txt", b"a\r\n\r\n", "line 2 is empty"),
    "not UTF-8": ("a.txt", b"canary\xff\n", "not text in UTF-8"),
    "two columns": ("a.csv", b"a,b\ncanary,canary\n", "line 1 has 2 cells"),
    "two cells later": ("a.csv", b"a\ncanary,canary\n", "line 2 has 2 cells"),
    "an empty cell": ("a.csv", b'a\n""\n', "line 2 is empty"),
    "an empty row": ("a.csv", b"a\n\nb\n", "line 2 is empty"),
    "an open quotation": ("a.csv", b'a\n"canary', "is not CSV"),
    "only a head": ("a.csv", b"label\n", "holds no key"),
    "no Parquet": ("a.parquet", b"canary", "not a Parquet file"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD_LISTS.values(), ids=BAD_LISTS)
def test_lists_that_are_refused(place: Place, name: str, content: bytes, message: str) -> None:
    """A list that cannot be used ends with exit 2 before any charge, and its content is not shown."""
    (place.folder / name).write_bytes(content)
    ran = place.release("--public-features", name)
    assert (ran.code, refused_clearly(ran), place.charges()) == (2, True, []), ran.err
    assert ("--public-features: " in ran.err, message in ran.err) == (True, True)


@pytest.mark.parametrize(
    "table",
    [{"a": [CANARY, None]}, {"a": [1.5]}, {"a": [True]}, {"a": [[CANARY]]}, {"a": ["x"], "b": ["y"]}],
)
def test_parquet_lists_that_are_refused(tmp_path: Path, table: dict[str, list]) -> None:
    """NULL, floats, booleans, lists and a second column are no list of keys."""
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"must hold text|has 2 columns") as caught:
        read_keys(tmp_path / "a.parquet", "--public-labels")
    assert CANARY not in str(caught.value)


def test_a_list_that_may_not_be_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that may not be read is refused before any charge."""

    def fails(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (place.folder / "a.txt").write_text("north\n", encoding="utf-8")
    monkeypatch.setattr(Path, "read_bytes", fails)
    ran = place.release("--public-labels", "a.txt")
    assert (ran.code, refused_clearly(ran), place.charges()) == (2, True, []), ran.err


def test_a_damaged_parquet_list(tmp_path: Path) -> None:
    """Pages that do not unpack are no list."""
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": [f"{CANARY}-{n}" for n in range(1000)]}), file, compression="zstd")
    whole = bytearray(file.read_bytes())
    whole[40:400] = b"\xff" * 360
    file.write_bytes(whole)
    with pytest.raises(InputError, match="is not a Parquet file"):
        read_keys(file, "--public-labels")
