"""The display of a ranking: plain text, HTML for notebooks, and files in csv, json, parquet and xlsx."""

from __future__ import annotations

import html
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi import text
from ddpmi.errors import Hint, InputError, MissingExtra
from ddpmi.text import cut, escape_html, fit, percent, printable, times, width_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from ddpmi.releases.words import Words


CLEAR, UNCLEAR = "clear", "may be noise"
"""The verdicts of rows, in words."""
NOTHING_CLEAR = "Nothing here is certain: no difference is clear of the noise."
"""What is said first where no row is clear."""
_NUMBERS = ("share_in", "share_out", "lift")
_LEFT = ("feature", "label", "verdict")
_HEADS = {"share_in": "inside", "share_out": "outside", "lift": "times", "direction": "direction"}
_NARROW = 8  # least width of a name, in terminal cells
_EXCEL_ROWS = (1 << 20) - 1  # rows of a sheet, without its head
_EXCEL_TEXT = 32_767  # characters of a cell
_NOTEBOOK = 120  # terminal cells that a notebook has room for, about
_RANKED = 74  # narrower terminals show no ranks
#: From this width on the interval of a column is shown beside it.
_INTERVALS = {"share_in": 116, "share_out": 116, "lift": 136, "mi": 150}
_PALE = ' style="opacity:0.55"'
_CELL = ' style="white-space:nowrap;text-align:{}"'
_JSON_ROWS = 1 << 14  # rows turned into Python objects at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of text for a terminal."""

    text: str
    """The text, with names made printable."""
    dim: bool = False
    """Whether it shows what may be noise."""


def broken(text: str, width: int) -> str:
    """Break a sentence between words where it is wider than a terminal.

    >>> broken("Nothing here is certain.", 12).splitlines()
    ['Nothing here', 'is certain.']
    """
    if width_of(text) <= width:
        return text
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False))


def text_of(lines: Sequence[Line], width: int) -> str:
    """Join lines to plain text; sentences after the guarantee are broken where they are wider than a terminal."""
    return "\n".join(line.text if at == 0 else broken(line.text, width) for at, line in enumerate(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a table of a ranking says besides its rows."""

    private: bool
    """Whether the sums were noisy, so that rows have verdicts and intervals."""
    unit_of_mi: str
    """The unit of mutual information."""
    words: Words
    """The names of the data's columns."""
    scored: bool = False
    """Whether rows have another score, which orders them."""
    ranks: bool = False
    """Whether rows have intervals of their ranks."""
    labelled: bool = True
    """Whether the label is a column, because rows of several labels are mixed."""

    def columns(self, width: int) -> tuple[str, ...]:
        """Return the columns that are shown in a number of terminal cells, first what a person reads first."""

        def with_interval(name: str) -> tuple[str, ...]:
            return (name, f"{name}_interval") if self.private and width >= _INTERVALS[name] else (name,)

        shares = [part for name in _NUMBERS for part in with_interval(name)]
        verdict = ("verdict",) if self.private else ()
        score = ("score",) if self.scored else ()
        rank = ("rank",) if self.ranks or width >= _RANKED else ()
        labels = ("label",) if self.labelled else ()
        return ("feature", *labels, *shares, *verdict, *score, *rank, *with_interval("mi"))

    def head(self, column: str) -> str:
        """Return the head of a column."""
        if column in ("feature", "label"):
            return printable(getattr(self.words, column))
        if column.endswith("_interval"):
            return "95% interval"
        return f"mi ({self.unit_of_mi})" if column == "mi" else _HEADS.get(column, column)

    @property
    def caption(self) -> str:
        """What the shares are parts of, in the names of the data's own columns."""
        label, feature = printable(self.words.seed or self.words.label), printable(self.words.feature)
        counted = self.words.counted
        of = (
            f"{counted} that have the {feature}" if self.words.space == "units" else f"{counted} that the {feature} has"
        )
        return f"inside: the share of {of}, within the {label}; outside: in all others; times: inside, divided by that in all."


def cells_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of one row as text, with names made printable.

    >>> row = dict(rank=1, label="uk", feature="tea", mi=0.5, mi_low=0.4, mi_high=0.6, share_in=0.3, share_out=None, lift=3.0)
    >>> cells = cells_of(row | dict(share_in_low=0.25, share_in_high=0.35, clear=False))
    >>> cells["share_in"], cells["share_in_interval"], cells["share_out"], cells["lift"], cells["verdict"]
    ('30%', '25 to 35%', '-', '3.00', 'may be noise')
    """
    cells = {name: printable(row[name]) for name in ("label", "feature", "direction") if name in row}
    cells |= {"share_in": percent(row["share_in"]), "share_out": percent(row["share_out"]), "lift": times(row["lift"])}
    cells |= {name: three_digits(row[name]) for name in ("mi", "score") if name in row}
    for name, write in (("share_in", percent), ("share_out", percent), ("lift", times), ("mi", three_digits)):
        low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
        unknown = low is None or high is None or row[name] is None
        cells[f"{name}_interval"] = "-" if unknown else f"{write(low).removesuffix('%')} to {write(high)}"
    ranks = f" ({row['rank_low']} to {row['rank_high']})" if "rank_low" in row else ""
    return cells | {"rank": f"{row['rank']}{ranks}", "verdict": CLEAR if row.get("clear", True) else UNCLEAR}


def three_digits(value: float | None) -> str:
    """Return a number with three significant digits, or a dash for None.

    >>> three_digits(0.0440979), three_digits(None)
    ('0.0441', '-')
    """
    return "-" if value is None else f"{value:.3g}"


def table_lines(groups: Sequence[tuple[str, Sequence[Mapping[str, Any]]]], look: Look, *, width: int) -> list[Line]:
    """Lay out rows of a ranking as a table. Rows that may be noise are dim, and say so.

    Args:
        groups: The title of each group of rows, which may be empty, and the rows.
        look: What is said besides them.
        width: The width of the terminal.
    """
    rows = [row for _, group in groups for row in group]
    if not rows:
        return []
    shown, columns = [cells_of(row) for row in rows], look.columns(width)
    heads = {name: look.head(name) for name in columns}
    widths = _widths((heads, *shown), columns, width)
    head, *texts = (
        "  ".join(fit(cells[name], widths[name], right=name not in _LEFT) for name in columns).rstrip()
        for cells in (heads, *shown)
    )
    lines, left = [Line(text=head), Line(text="-" * max(map(width_of, (head, *texts))))], iter(texts)
    for title, group in groups:
        lines += [Line(text=cut(title, width))] if title else []
        lines += [Line(text=next(left), dim=look.private and not row["clear"]) for row in group]
        lines += [Line(text=f"({note})") for note in _notes(group, look)]
    return lines


def _notes(rows: Sequence[Mapping[str, Any]], look: Look) -> list[str]:
    """Return why numbers of some rows are missing, once for each label."""
    named = [(f"{printable(row['label'])}: " if look.labelled else "") + row["note"] for row in rows if row["note"]]
    return list(dict.fromkeys(named))


def _widths(lines: Sequence[Mapping[str, str]], columns: Sequence[str], width: int) -> dict[str, int]:
    """Return the width of each column: names share the room that numbers leave. The heads are the first line."""
    widths = {name: max(width_of(cells[name]) for cells in lines) for name in columns}
    names = [name for name in ("feature", "label") if name in columns]
    room = width - sum(widths[name] for name in columns if name not in names) - 2 * (len(columns) - 1)
    if "label" in names:
        least = max(_NARROW, width_of(lines[0]["label"]))
        widths["label"] = min(widths["label"], max(least, 2 * room // 5, room - widths["feature"]))
        room -= widths["label"]
    widths["feature"] = min(widths["feature"], max(_NARROW, room))
    return widths


def ranking_html(rows: Sequence[Mapping[str, Any]], look: Look, *, first: Sequence[str], last: Sequence[str]) -> str:
    """Return rows of a ranking as an HTML table for notebooks. Rows that may be noise are pale, and say so.

    Args:
        rows: The rows.
        look: What is said besides them.
        first: Sentences above the table; the first one is the guarantee.
        last: Sentences below it.
    """
    columns = look.columns(_NOTEBOOK)
    styles = {name: _CELL.format("left" if name in _LEFT else "right") for name in columns}
    head = "".join(f'<th scope="col">{escape_html(look.head(name))}</th>' for name in columns)
    body = "".join(
        f"<tr{_PALE if look.private and not row['clear'] else ''}>"
        + "".join(f"<td{styles[name]}>{html.escape(cells[name])}</td>" for name in columns)
        + "</tr>"
        for row, cells in ((row, cells_of(row)) for row in rows)
    )
    strong, *others = (html.escape(sentence) for sentence in first)
    above = f"<p><strong>{strong}</strong></p>" + "".join(f"<p>{sentence}</p>" for sentence in others)
    below = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in last)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div>{above}{table}{below}</div>"


def finding(row: Mapping[str, Any]) -> str:
    """Return a row as a few words: the feature, its share inside and outside.

    >>> finding({"feature": "Android", "share_in": 0.2134, "share_out": 0.1471, "lift": 1.4})
    'Android 21% vs 15%'
    """
    feature = printable(row["feature"])
    if row["share_in"] is None or row["share_out"] is None:
        return feature if row["lift"] is None else f"{feature} {times(row['lift'])} times"
    return f"{feature} {percent(row['share_in'], 2)} vs {percent(row['share_out'], 2)}"


def finding_line(label: str, rows: Sequence[Mapping[str, Any]], count: int, *, width: int) -> str:
    """Return the first findings of a label in one line, as many as fit, and how many more there are.

    Args:
        label: The label.
        rows: Its first clear rows, at least one.
        count: How many clear rows it has.
        width: The width of the terminal.

    >>> rows = [{"feature": name, "share_in": 0.21, "share_out": 0.15, "lift": 1.4} for name in ("Android", "Java", "C")]
    >>> finding_line("India", rows, 5, width=60)
    'India: Android 21% vs 15%, Java 21% vs 15%, and 3 more'
    """
    name = cut(printable(label), max(_NARROW, width // 4))
    line, said = f"{name}: ", 0
    for row in rows:
        words = finding(row)
        rest = count - said - 1
        more = f", and {rest} more" if rest else ""
        room = width - width_of(line) - width_of(more) - (2 if said else 0)
        if width_of(words) > room:
            if said:
                break
            shares = words.removeprefix(printable(row["feature"]))
            words = cut(printable(row["feature"]), max(_NARROW, room - width_of(shares))) + shares
        line, said = line + (", " if said else "") + words, said + 1
    rest = count - said
    return line + (f", and {rest} more" if rest else "")


def stable_top(places: int, released: int) -> str:
    """Return the stable top in one sentence: its size among all pairs, and among released pairs.

    >>> stable_top(20, 25)
    'Stable top, 95% sure: 20 (the first 20 are the right pairs, in some order); 25 among released pairs'
    """
    what = f" (the first {places} are the right pairs, in some order)" if places else ""
    more = f"; {released} among released pairs" if released > places else ""
    return f"Stable top, 95% sure: {places}{what}{more}"


def save(table: Callable[[], pa.Table], path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a table in the format that the path's suffix names.

    Args:
        table: Returns the table; called after the path was checked.
        path: The path of the file.
        overwrite: Replace an existing file.

    Returns:
        The path.

    >>> save(lambda: None, "ranking.doc")
    Traceback (most recent call last):
    ddpmi.errors.InputError: The suffix must be one of .csv, .json, .parquet, .xlsx, got 'ranking.doc'.
    <BLANKLINE>
    Hint: ranking.save("ranking.csv")
    """
    writers = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet, ".xlsx": _write_excel}
    write: Callable[[pa.Table, Path], None] | None = writers.get(Path(path).suffix.lower())
    if write is None:
        raise InputError(
            f"The suffix must be one of {', '.join(writers)}, got {Path(path).name!r}.",
            hint='ranking.save("ranking.csv")',
        )
    return text.write_new(path, lambda place: write(table(), place), overwrite=overwrite)


def _write_csv(table: pa.Table, path: Path) -> None:
    from pyarrow import csv

    for name in ("label", "group", "feature"):
        if name not in table.column_names:
            continue
        at = table.column_names.index(name)
        table = table.set_column(at, name, text.csv_safe(table[name]))
    csv.write_csv(table, path)


def _write_json(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.write("[")
        for start in range(0, table.num_rows, _JSON_ROWS):
            rows = table.slice(start, _JSON_ROWS).to_pylist()
            lines = (text.json_safe(json.dumps(row, ensure_ascii=False, allow_nan=False)) for row in rows)
            out.write(("\n" if start == 0 else ",\n") + ",\n".join(lines))
        out.write("\n]\n")


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")


def _write_excel(table: pa.Table, path: Path) -> None:
    """Write one sheet. Names are texts there, also those that begin like a formula."""
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    except ImportError as error:
        raise MissingExtra("Excel files need openpyxl.", hint="pip install 'ddpmi[excel]'") from error
    if table.num_rows > _EXCEL_ROWS:
        raise InputError(
            f"A sheet of Excel has at most {_EXCEL_ROWS} rows, and the ranking has {table.num_rows}.",
            hint=Hint(python="ranking.top(1000).save('ranking.xlsx')", cli="--top 1000, or -o ranking.csv"),
        )
    book = Workbook(write_only=True)
    sheet = book.create_sheet("ranking")
    sheet.freeze_panes = "A2"

    def cell(value: object) -> object:
        if not isinstance(value, str):
            return value
        # As text of its own type: Excel would run a text that begins with = as a formula.
        made = WriteOnlyCell(sheet, value=printable(value)[:_EXCEL_TEXT])
        made.data_type = "s"
        return made

    sheet.append([cell(name) for name in table.column_names])
    for batch in table.to_batches(_JSON_ROWS):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            sheet.append([cell(value) for value in row])
    book.save(path)
