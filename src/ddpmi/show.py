"""Names are hostile text: how they are shown on a terminal, in HTML and in CSV; how files are written."""

from __future__ import annotations

import html
import re
import tempfile
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    import pyarrow as pa

NOT_PRIVATE = "NOT PRIVATE"
"""The stamp of everything computed from exact sums."""

# Control characters, bidirectional marks, line separators, invisible and tag characters, lone surrogates.
# The joiners U+200C and U+200D stay: Persian, Indic scripts and emoji need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
# Also the full-width forms, which some spreadsheets read as the plain ones.
_FORMULA = "^[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"


def printable(text: str) -> str:
    r"""Show characters that would steer a terminal or reverse the reading order as escapes.

    >>> print(printable("red\x1b[31m\u202egnp.exe"))
    red\x1b[31m\u202egnp.exe
    """
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def escape_html(text: str) -> str:
    """Escape a name for element content and quoted attributes.

    >>> escape_html("<script>'x'")
    '&lt;script&gt;&#x27;x&#x27;'
    """
    return html.escape(printable(text), quote=True)


def csv_safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Put ' before cells that a spreadsheet would run as a formula; other cells stay as they are.

    >>> import pyarrow as pa
    >>> csv_safe(pa.chunked_array([["=1+1", "plain"]])).to_pylist()
    ["'=1+1", 'plain']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    risky = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(risky).as_py():
        return column
    quote = pa.scalar("'", column.type)
    return pc.if_else(risky, pc.binary_join_element_wise(quote, column, pa.scalar("", column.type)), column)


def width_of(text: str) -> int:
    """Count terminal cells: wide characters take two, combining ones none.

    >>> width_of("日本"), width_of("abc")
    (4, 3)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Cut or pad a text to a number of terminal cells.

    >>> fit("information", 6), fit("7", 3, right=True)
    ('infor…', '  7')
    """
    if width_of(text) > width:
        kept = ""
        for character in text:
            if width_of(kept + character) > width - 1:
                break
            kept += character
        text = kept + "…" if width > 0 else ""
    padding = " " * (width - width_of(text))
    return padding + text if right else text + padding


def number(value: float | None) -> str:
    """Write a number with four significant digits; a dash for one that does not exist.

    >>> number(0.0440979), number(12345678.0), number(None)
    ('0.0441', '1.235e+07', '-')
    """
    return "-" if value is None else f"{value:.4g}"


def promise(guarantee: Mapping[str, Any] | None, *, private: bool) -> str:
    """Say in one sentence what a release promises.

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
    """Write a file under a temporary name beside its place, then move it there whole.

    Args:
        path: Where the file shall stand.
        write: Called with the temporary path.
        overwrite: Replace a file that stands there; without it an existing path is refused.

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
        # Suffix kept: some writers choose the format by it.
        draft = Path(folder) / ("draft" + place.suffix)
        write(draft)
        draft.replace(place)
    return place


def stable_top(places: int, released: int) -> str:
    """Say how many of the first places are right with 95% confidence, among all pairs and among released ones.

    >>> stable_top(20, 25)
    'Stable top, 95% sure: 20 (the first 20 are the right pairs, in some order); 25 among released pairs'
    """
    what = f" (the first {places} are the right pairs, in some order)" if places else ""
    more = f"; {released} among released pairs" if released > places else ""
    return f"Stable top, 95% sure: {places}{what}{more}"


_SHOWN = ("rank", "label", "feature", "direction", "mi", "interval", "share_in", "share_out", "lift")
_SCORED = (*_SHOWN[:4], "score", *_SHOWN[4:])
_NAMES = ("label", "feature")
_NARROW = 8  # cells a name keeps on the narrowest terminal


def cells_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Write one row of a ranking as text, names made printable.

    >>> row = dict(rank=1, label="uk", feature="tea", direction="presence", mi=0.5, mi_low=0.4, mi_high=0.6)
    >>> cells_of(row | dict(share_in=0.3, share_out=None, lift=3.0))["interval"]
    '0.4 to 0.6'
    """
    cells = {name: printable(row[name]) for name in (*_NAMES, "direction")}
    named = ("mi", "share_in", "share_out", "lift", *(("score",) if "score" in row else ()))
    numbers = {name: number(row[name]) for name in named}
    interval = f"{number(row['mi_low'])} to {number(row['mi_high'])}"
    ranks = {"ranks": f"{row['rank_low']} to {row['rank_high']}"} if "rank_low" in row else {}
    return {"rank": str(row["rank"]), "interval": interval} | ranks | cells | numbers


def heads_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the columns that are shown of such a row.

    >>> heads_of({"rank_low": 1, "rank_high": 3})[:3]
    ('rank', 'ranks', 'label')
    """
    heads = _SCORED if "score" in row else _SHOWN
    return (heads[0], "ranks", *heads[1:]) if "rank_low" in row else heads


def ranking_text(rows: list[dict[str, Any]], count: int, said: str, *, width: int = 100) -> str:
    """Write rows of a ranking as a plain table, what is promised first.

    >>> print(ranking_text([], 0, "Nothing was released."))
    Nothing was released.
    0 pairs
    """
    shown = [cells_of(row) for row in rows]
    counted = f"{count} pair{'' if count == 1 else 's'}" + (f", {len(rows)} shown" if len(rows) < count else "")
    if not shown:
        return f"{said}\n{counted}"
    heads = heads_of(rows[0])
    widths = {name: max(len(name), *(width_of(cells[name]) for cells in shown)) for name in heads}
    room = width - sum(widths[name] for name in heads if name not in _NAMES) - 2 * (len(heads) - 1)
    widths["label"] = min(widths["label"], max(_NARROW, room // 3, room - widths["feature"]))
    widths["feature"] = min(widths["feature"], max(_NARROW, room - widths["label"]))
    lines = [{name: name for name in heads}, *shown]
    table = ("  ".join(fit(line[n], widths[n], right=n not in (*_NAMES, "direction")) for n in heads) for line in lines)
    return "\n".join((said, *(line.rstrip() for line in table), counted))


def ranking_html(rows: list[dict[str, Any]], count: int, said: str, *, stable: str = "") -> str:
    """Write rows of a ranking as an HTML table for notebooks, what is promised first.

    >>> ranking_html([], 0, "Nothing was released.")[:33]
    '<div><p><strong>Nothing was relea'
    """
    heads = heads_of(rows[0] if rows else {})
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cells[name])}</td>" for name in heads) + "</tr>"
        for cells in map(cells_of, rows)
    )
    caption = f"{count} pairs, {len(rows)} shown"
    foot = f"<p>{html.escape(stable)}</p>" if stable else ""
    return (
        f"<div><p><strong>{html.escape(said)}</strong></p><table><caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}</div>"
    )
