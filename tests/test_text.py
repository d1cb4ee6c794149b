"""Hostile text, terminal widths, and files that are written whole or not at all."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import text as show
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@given(st.text())
@settings(deadline=None)
def test_printable_leaves_no_control_character(text: str) -> None:
    """After escaping no control, line separator, surrogate or bidirectional character is left."""
    shown = show.printable(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(shown) & set(BIDI)


def test_printable_keeps_ordinary_text() -> None:
    """Letters of all scripts, emoji with joiners and spaces stay as they are."""
    for text in ("plain", "Zürich", "日本", "نمی‌خواهم", "👩‍💻", "a b"):
        assert show.printable(text) == text


@given(st.text())
@settings(deadline=None)
def test_html_has_no_markup(text: str) -> None:
    """No name can open a tag, end an attribute or start an entity of its own."""
    assert not set(show.escape_html(text)) & set("<>\"'")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_csv_cells_cannot_start_a_formula(start: str) -> None:
    """A cell that would run gets a quote before it; NULL and other cells stay."""
    column = pa.chunked_array([[start + "1", "a" + start, None, ""]])
    assert show.csv_safe(column).to_pylist() == ["'" + start + "1", "a" + start, None, ""]


def test_csv_column_without_formulas_is_not_copied() -> None:
    """A harmless column is returned as it is."""
    column = pa.chunked_array([["a", "b"]])
    assert show.csv_safe(column) is column


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs", "Mn", "Me"))), st.integers(1, 30))
@settings(deadline=None)
def test_fit_fills_the_width(text: str, width: int) -> None:
    """A text is cut or padded to its cells."""
    assert show.width_of(show.fit(text, width)) == show.width_of(show.fit(text, width, right=True)) == width


def test_promise_names_what_is_known() -> None:
    """Small deltas are not rounded away, and exact sums are called by their name."""
    said = show.promise({"epsilon": 0.25, "delta": 1e-12, "unit": None}, private=True)
    assert said == "Differentially private: epsilon=0.25, delta=1e-12 for adding or removing all rows of one unit."
    assert show.promise(None, private=False).startswith("NOT PRIVATE")


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """Where the writer raises, neither the file nor its draft stays, and an old file stays whole."""

    def fail(draft: Path) -> None:
        draft.write_text("half")
        raise OSError("disk full")

    old = tmp_path / "old.txt"
    old.write_text("whole")
    for path in (tmp_path / "new.txt", old):
        with pytest.raises(OSError, match="disk full"):
            show.write_new(path, fail, overwrite=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.txt": "whole"}


def test_a_folder_is_never_replaced(tmp_path: Path) -> None:
    """overwrite=True is for files."""
    with pytest.raises(InputError, match="exists already"):
        show.write_new(tmp_path, lambda draft: draft.touch(), overwrite=True)


@pytest.mark.parametrize("start", [" ", "\u00a0", "\ufeff", " \t\u00a0"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@"])
def test_formulas_behind_spaces_are_guarded(start: str, sign: str) -> None:
    """Spreadsheets skip spaces, no-break spaces and a byte order mark before a formula."""
    column = pa.chunked_array([pa.array([f"{start}{sign}1", f"{start}1"])])
    assert show.csv_safe(column).to_pylist() == [f"'{start}{sign}1", f"'{start}1" if start[0] == "\t" else f"{start}1"]


@pytest.mark.parametrize("code", ["\x1b", "\x9b", "\x07", "\x00", "\x7f"])
def test_no_format_holds_what_a_terminal_obeys(code: str) -> None:
    """CSV and JSON hold escapes in place of control characters, and JSON the same values."""
    found = show.csv_safe(pa.chunked_array([pa.array([f"red{code}[31m", None])])).to_pylist()
    assert found == [show.printable(f"red{code}[31m"), None]
    written = show.json_safe(json.dumps({"name": f"red{code}[31m"}, ensure_ascii=False))
    assert code not in written
    assert json.loads(written) == {"name": f"red{code}[31m"}
