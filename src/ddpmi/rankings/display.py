"""The display of a ranking: plain text, HTML for notebooks, and files in csv, json and parquet."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi import text
from ddpmi.errors import InputError
from ddpmi.text import fit, number, printable, width_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    import pyarrow as pa


_SHOWN = ("rank", "label", "feature", "direction", "mi", "interval", "share_in", "share_out", "lift")
_SCORED = (*_SHOWN[:4], "score", *_SHOWN[4:])
_NAMES = ("label", "feature")
_NARROW = 8  # least width of a name, in terminal cells
_JSON_ROWS = 1 << 14  # rows turned into Python objects at once


def cells_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of one row as text, with names made printable.

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
    """Return the names of the columns that are shown of such a row.

    >>> heads_of({"rank_low": 1, "rank_high": 3})[:3]
    ('rank', 'ranks', 'label')
    """
    heads = _SCORED if "score" in row else _SHOWN
    return (heads[0], "ranks", *heads[1:]) if "rank_low" in row else heads


def ranking_text(rows: list[dict[str, Any]], count: int, guarantee: str, *, width: int = 100) -> str:
    """Return rows of a ranking as a plain table, with the guarantee first.

    >>> print(ranking_text([], 0, "Nothing was released."))
    Nothing was released.
    0 pairs
    """
    shown = [cells_of(row) for row in rows]
    counted = f"{count} pair{'' if count == 1 else 's'}" + (f", {len(rows)} shown" if len(rows) < count else "")
    if not shown:
        return f"{guarantee}\n{counted}"
    heads = heads_of(rows[0])
    widths = {name: max(len(name), *(width_of(cells[name]) for cells in shown)) for name in heads}
    room = width - sum(widths[name] for name in heads if name not in _NAMES) - 2 * (len(heads) - 1)
    widths["label"] = min(widths["label"], max(_NARROW, room // 3, room - widths["feature"]))
    widths["feature"] = min(widths["feature"], max(_NARROW, room - widths["label"]))
    lines = [{name: name for name in heads}, *shown]
    table = ("  ".join(fit(line[n], widths[n], right=n not in (*_NAMES, "direction")) for n in heads) for line in lines)
    return "\n".join((guarantee, *(line.rstrip() for line in table), counted))


def ranking_html(rows: list[dict[str, Any]], count: int, guarantee: str, *, stable: str = "") -> str:
    """Return rows of a ranking as an HTML table for notebooks, with the guarantee first.

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
        f"<div><p><strong>{html.escape(guarantee)}</strong></p><table><caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}</div>"
    )


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
    ddpmi.errors.InputError: The suffix must be one of .csv, .json, .parquet, got 'ranking.doc'.
    <BLANKLINE>
    Hint: ranking.save("ranking.csv")
    """
    writers = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet}
    write = writers.get(Path(path).suffix.lower())
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
            lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
            out.write(("\n" if start == 0 else ",\n") + ",\n".join(lines))
        out.write("\n]\n")


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")
