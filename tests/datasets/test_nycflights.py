"""The public flights are found, and are written with names."""

from __future__ import annotations

import importlib.util
import zipfile
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from ddpmi.datasets import nycflights
from ddpmi.errors import DdpmiError, InputError, MissingExtra

if TYPE_CHECKING:
    from pathlib import Path


def test_flights_are_found_without_importing_their_package() -> None:
    """The demo's table has the columns that the demo names."""
    with zipfile.ZipFile(nycflights.flights()) as archive, archive.open("flights.csv") as file:
        header = file.readline().decode().replace('"', "").strip().split(",")
    assert {"tailnum", "carrier", "origin", "dest", "month"} <= set(header)


def test_missing_flights_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error is an ImportError with a line to paste."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'ddpmi\[demo\]'") as caught:
        nycflights.flights()
    assert isinstance(caught.value, (DdpmiError, ImportError))


def test_flights_are_written_with_names(tmp_path: Path) -> None:
    """Airports and airlines have names, an unknown tail number is NULL, and an existing file is refused."""
    (tmp_path / "flights.csv").write_text("year,carrier,tailnum,dest\n2013,WN,N1,MDW\n2013,WN,NA,MDW\n2013,WN,N2,QQQ\n")
    (tmp_path / "airlines.csv").write_text("carrier,name\nWN,Southwest Airlines Co.\n")
    (tmp_path / "airports.csv").write_text("faa,name,lat\nMDW,Chicago Midway Intl,41\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nycflights, "flights", lambda: tmp_path / "flights.csv")
        path = nycflights.flights_by_name(tmp_path / "named.parquet")
        with pytest.raises(InputError, match="exists already"):
            nycflights.flights_by_name(path)
        assert nycflights.flights_by_name(path, overwrite=True) == path
    assert pq.read_table(path).to_pylist() == [
        {"airplane": plane, "destination": "Chicago Midway Intl", "airline": "Southwest Airlines Co."}
        for plane in ("N1", None)
    ]


def test_all_flights_to_airports_with_names_are_written(tmp_path: Path) -> None:
    """Of 336,776 flights, 7,602 go to four airports without a name."""
    table = pq.read_table(nycflights.flights_by_name(tmp_path / "flights.parquet"))
    assert (table.num_rows, table.column_names) == (329_174, ["airplane", "destination", "airline"])
    assert [column.null_count > 0 for column in table.columns] == [True, False, False]
