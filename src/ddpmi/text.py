"""Text for people: names made safe for terminals, HTML and CSV, numbers and sentences, new files, and TOML that is checked.

Names come from data and may hold any characters: terminal codes, HTML or spreadsheet formulas.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.errors import InputError, InputNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

NOT_PRIVATE = "NOT PRIVATE"
"""The stamp of everything computed from exact sums."""

# Control characters, bidirectional marks, line separators, invisible and tag characters, lone surrogates.
# The joiners U+200C and U+200D stay: Persian, Indic scripts and emoji need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
# Spreadsheets skip spaces, no-break spaces and a byte order mark, and some treat the full-width forms alike.
_FORMULA = "^[\t\r\n]|^[\\s\u00a0\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20]"
# What a terminal obeys, apart from tabs and the ends of lines.
_CONTROLS = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\u009f]"
#: Categories of characters without a width of their own.
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")
_SMALLEST_PART = 1e-5


def printable(text: str) -> str:
    r"""Escape characters that would control a terminal or reverse the reading order.

    >>> print(printable("red\x1b[31m\u202egnp.exe"))
    red\x1b[31m\u202egnp.exe
    """
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def json_safe(text: str) -> str:
    r"""Escape what is allowed in JSON but would control a terminal or reverse the reading order. The values stay the same.

    >>> print(json_safe('"red\x9b31m"'))
    "red\u009b31m"
    """
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def shortened(value: object, most: int = 100) -> str:
    """Write a value as in Python, cut off where it is long.

    >>> shortened("tea"), len(shortened("a" * 5000))
    ("'tea'", 100)
    """
    shown = repr(value) if not isinstance(value, int) or abs(value) < _LARGEST_INTEGER else "a large number"
    return printable(shown if len(shown) <= most else shown[: most - 3] + "...")


def escape_html(text: str) -> str:
    """Escape a name for element content and quoted attributes.

    >>> escape_html("<script>'x'")
    '&lt;script&gt;&#x27;x&#x27;'
    """
    return html.escape(printable(text), quote=True)


def html_lines(text: str) -> str:
    r"""Return lines of text as an HTML block of fixed width, for notebooks.

    >>> html_lines("a <b>\nc")
    '<pre>a &lt;b&gt;\nc</pre>'
    """
    lines = "\n".join(escape_html(line) for line in text.rstrip("\n").split("\n"))
    return f"<pre>{lines}</pre>"


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str) -> str:
    """Return texts as an HTML table, for notebooks.

    >>> html_table(["a"], [["<1>"]], caption="one")[:35]
    '<table><caption>one</caption><thead'
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape_html(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    head = f"<thead>{line('th', heads)}</thead>"
    return f"<table><caption>{escape_html(caption)}</caption>{head}<tbody>{body}</tbody></table>"


def csv_safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Put ' before cells that a spreadsheet would run as a formula, and escape what a terminal would obey.

    >>> import pyarrow as pa
    >>> csv_safe(pa.chunked_array([["=1+1", "plain", "  @x"]])).to_pylist()
    ["'=1+1", 'plain', "'  @x"]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(column, _CONTROLS)).as_py():
        escaped = [None if cell is None else re.sub(_CONTROLS, _escaped, cell) for cell in column.to_pylist()]
        column = pa.chunked_array([pa.array(escaped, column.type)])
    risky = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(risky).as_py():
        return column
    quote = pa.scalar("'", column.type)
    return pc.if_else(risky, pc.binary_join_element_wise(quote, column, pa.scalar("", column.type)), column)


def width_of(text: str) -> int:
    """Return the width of a text in terminal cells: wide characters take two, combining and joining ones none.

    >>> width_of("日本"), width_of("abc"), width_of("e\u0301")
    (4, 3, 1)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Cut a text in the middle, or pad it, to a number of terminal cells.

    >>> fit("information", 6), fit("7", 3, right=True)
    ('inf…on', '  7')
    """
    text = cut(text, width)
    padding = " " * (width - width_of(text))
    return padding + text if right else text + padding


def cut(text: str, width: int) -> str:
    """Cut a text in the middle if it is wider than a number of terminal cells: names often differ at their ends.

    >>> cut("WHITE HANGING HEART T-LIGHT HOLDER", 20), cut("tea", 20)
    ('WHITE HANG…HT HOLDER', 'tea')
    """
    if width_of(text) <= width:
        return text
    room = max(width - 1, 0)
    head, left = _start(text, room - room // 2)
    tail = _start(text[::-1], room // 2 + left)[0][::-1]
    # A mark without width belongs to the character before it, which was cut away.
    while tail and _cells(tail[0]) == 0:
        tail = tail[1:]
    return head + "…" + tail if width > 0 else ""


def _start(text: str, width: int) -> tuple[str, int]:
    """Return the characters that fit into a number of cells, and how many cells are left."""
    used = 0
    for at, character in enumerate(text):
        used += _cells(character)
        if used > width:
            return text[:at], width - used + _cells(character)
    return text, width - used


def number(value: float | None) -> str:
    """Return a number with four significant digits, or a dash for None.

    >>> number(0.0440979), number(12345678.0), number(None)
    ('0.0441', '1.235e+07', '-')
    """
    return "-" if value is None else f"{value:.4g}"


def percent(part: float | None, digits: int = 3) -> str:
    """Return a part of one as a percentage with a number of significant digits, or a dash for None.

    >>> percent(0.32608), percent(0.0021), percent(0.1549, 2), percent(0.996, 2), percent(4e-7), percent(None)
    ('32.6%', '0.21%', '15%', '100%', '<0.001%', '-')
    """
    if part is None:
        return "-"
    if 0 < abs(part) < _SMALLEST_PART:
        return "<0.001%"
    shown = f"{100 * part:.{digits}g}"
    return f"{100 * part:.0f}%" if "e" in shown else f"{shown}%"


def times(factor: float | None) -> str:
    """Return a factor with three digits, or a dash for None.

    >>> times(1.8), times(0.04219), times(2412.3), times(None)
    ('1.80', '0.0422', '2,412', '-')
    """
    if factor is None:
        return "-"
    return f"{factor:.3g}" if factor < 1 else f"{factor:,.{max(0, 2 - int(math.log10(factor)))}f}"


def promise(guarantee: Mapping[str, Any] | None, *, private: bool) -> str:
    """Return the guarantee of a release in one sentence.

    >>> promise({"epsilon": 1.0, "delta": 1e-7, "unit": "user_id"}, private=True)
    'Differentially private: epsilon=1, delta=1e-07 for adding or removing all rows of one user_id.'
    """
    if not private or guarantee is None:
        return f"{NOT_PRIVATE}: computed from exact sums; it may expose the people in the data."
    epsilon, delta = (f"{float(guarantee[key]):g}" for key in ("epsilon", "delta"))
    unit = printable(str(guarantee.get("unit") or "unit"))
    spent = f"epsilon={epsilon}, delta={delta}"
    return f"Differentially private: {spent} for adding or removing all rows of one {unit}."


def write_new(path: str | os.PathLike[str], write: Callable[[Path], None], *, overwrite: bool = False) -> Path:
    """Write a file under a temporary name in the same folder, then move it to its path when it is complete.

    Args:
        path: The path of the file.
        write: Writes the file; called with the temporary path.
        overwrite: Replace an existing file; without it an existing path is refused.

    Returns:
        The path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_new(Path(folder) / "a.txt", lambda place: print(place.write_text("hello"))).name
    5
    'a.txt'
    """
    place = Path(path)
    if place.is_dir() or (place.exists() and not overwrite):
        raise InputError(f"{place.name} exists already.", hint="give another path, or overwrite=True")
    if not place.parent.is_dir():
        raise InputError(f"The folder of {place.name} does not exist.", hint="create it first")
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".ddpmi-") as folder:
        # The same suffix: some writers choose the format by it.
        draft = Path(folder) / ("draft" + place.suffix)
        write(draft)
        sync(draft)
        draft.replace(place)
    sync(place.parent)
    return place


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk.

    A rename is durable after its folder is: without this a crash of the machine may undo it.

    >>> sync(Path())
    """
    if sys.platform == "win32" and path.is_dir():
        return  # Windows opens no folder as a file, and writes renames through
    handle = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


LARGEST_TOML = 2**20
"""The largest TOML file in bytes."""
_DEEPEST = 16
_LARGEST_INTEGER = 2**63


def read_toml(path: str | os.PathLike[str], *, what: str) -> dict[str, Any]:
    r"""Read a TOML file of at most 1 MiB that holds tables, lists, texts, truth values and finite numbers alone.

    Args:
        path: The file.
        what: What the file is, for the messages.

    Returns:
        Its content.

    Raises:
        InputNotFound: It does not exist.
        InputError: It cannot be read, is too large or too deep, is not TOML, or holds another kind of value.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ddpmi.toml"
    ...     _ = path.write_text("[ledger]\nfile = 'visits.ledger'")
    ...     read_toml(path, what="The settings")
    {'ledger': {'file': 'visits.ledger'}}
    """
    import tomllib

    content = _start_of(path, what)
    if len(content) > LARGEST_TOML:
        raise InputError(f"{what} {path} is larger than 1 MiB.", hint="name long lists in files of their own")
    try:
        given = tomllib.loads(content.decode("utf-8"))
    except RecursionError:
        raise InputError(f"{what} {path} is nested too deeply.", hint=f"at most {_DEEPEST} levels") from None
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise InputError(f"{what} {path} is not TOML: {printable(str(error))}.", hint="see https://toml.io") from None
    _check_toml(given, f"{what} {path}")
    return given


def _start_of(path: str | os.PathLike[str], what: str) -> bytes:
    """Read as much of a file as a TOML file may have, and one byte more."""
    hint = "give the path of a TOML file"
    try:
        # A pipe or a device would block, or never end.
        regular = Path(path).is_file() or not Path(path).exists()
        with Path(path if regular else os.devnull).open("rb") as file:
            content = file.read(LARGEST_TOML + 1)
    except FileNotFoundError:
        raise InputNotFound(f"{what} {path} does not exist.", hint=hint) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{what} {str(path)!r} cannot be read: {error}.", hint=hint) from None
    if not regular:
        raise InputError(f"{what} {path} is not a file.", hint=hint)
    return content


def _check_toml(given: dict[str, Any], where: str) -> None:
    """Refuse values that no setting takes. It does not recurse, because dotted keys nest without end."""
    level: list[Any] = [given]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += [*value, *value.values()]
            elif isinstance(value, list):
                inner += value
            else:
                _check_value(value, where)
        if not inner:
            return
        level = inner
    raise InputError(f"{where} is nested too deeply.", hint=f"at most {_DEEPEST} levels")


def _check_value(value: object, where: str) -> None:
    if isinstance(value, str) and "\0" not in value:
        return
    if isinstance(value, int) and -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    kind = {str: "a NUL character", int: "an integer beyond 64 bits", float: "a number that is not finite"}
    held = kind.get(type(value), "a date or a time")
    raise InputError(f"{where} holds {held}.", hint="texts without NUL, truth values and finite numbers are read")
