"""Write a ranking's table as csv, json or parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi import show
from ddpmi.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import pyarrow as pa

_JSON_ROWS = 1 << 14


def save(table: Callable[[], pa.Table], path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a table in the format that the path's suffix names.

    Args:
        table: Makes the table, once the path is known to be right.
        path: Where it shall stand.
        overwrite: Replace a file that stands there.

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
    return show.write_new(path, lambda place: write(table(), place), overwrite=overwrite)


def _write_csv(table: pa.Table, path: Path) -> None:
    from pyarrow import csv

    for name in ("label", "feature"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, show.csv_safe(table[name]))
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
