"""The contract of all readers of the embedded engine, generated: no unit changes how others are read, and nothing raises."""

from __future__ import annotations

import gzip
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

import ddpmi
from tests.support import reader_strategies as made
from tests.support.reader_contract import check_row_local
from tests.support.reader_strategies import ROLES

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ddpmi import Observations

    Read = Callable[[list[Any]], Observations]

NAMED = {"unit": "person", "feature": "site", "label": "country"}
NUMBERS = itertools.count()


pytestmark = pytest.mark.usefixtures("one_database")


def text_array(cells: list[bytes | None]) -> pa.Array:
    """A column of text whose bytes are those given, Unicode or not."""
    raw = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())


def raw_table(records: list[Any]) -> pa.Table:
    return pa.table({name: text_array([record[place] for record in records]) for place, name in enumerate(ROLES)})


def typed_table(records: list[Any]) -> pa.Table:
    """A whole number, a day, a truth value and a number: each type that a key or a value may have."""
    types = {"person": pa.int64(), "site": pa.date32(), "country": pa.bool_(), "minutes": pa.float64()}
    columns = {name: [record[place] for record in records] for place, name in enumerate(types)}
    return pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()})


def categories(cells: list[Any]) -> pd.Categorical:
    """Made here, because pandas itself merges cells when it makes categories: to it a text ends at NUL."""
    known = list(dict.fromkeys(cell for cell in cells if cell is not None))
    codes = [-1 if cell is None else known.index(cell) for cell in cells]
    return pd.Categorical.from_codes(
        codes, dtype=pd.CategoricalDtype(pd.Index(known, dtype=object, tupleize_cols=False))
    )


def csv_bytes(records: list[Any], delimiter: bytes = b",") -> bytes:
    """What a proper writer writes: cells with quotation marks, line ends or delimiters are quoted."""

    def cell(text: bytes) -> bytes:
        odd = any(mark in text for mark in (b'"', b"\n", b"\r", delimiter))
        return b'"' + text.replace(b'"', b'""') + b'"' if odd else text

    lines = [ROLES_BYTES, *(tuple(record) for record in records)]
    return b"".join(delimiter.join(cell(text) for text in line) + b"\n" for line in lines)


ROLES_BYTES = tuple(name.encode() for name in ROLES)


class Readers:
    """Ways to write records and observe them; each method takes the records of one reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new(self, suffix: str) -> Path:
        return self.folder / f"{next(NUMBERS)}{suffix}"

    def written(self, content: bytes, suffix: str, **named: Any) -> Observations:
        place = self.new(suffix)
        place.write_bytes(content)
        return ddpmi.observe(place, **NAMED, **named)

    def csv(self, records: list[Any]) -> Observations:
        return self.written(csv_bytes(records), ".csv")

    def tsv(self, records: list[Any]) -> Observations:
        return self.written(csv_bytes(records, b"\t"), ".tsv")

    def csv_latin(self, records: list[Any]) -> Observations:
        return self.written(csv_bytes(records), ".csv", encoding="latin-1")

    def csv_utf16(self, records: list[Any]) -> Observations:
        content = csv_bytes([[cell.encode() for cell in record] for record in records])
        return self.written(content.decode().encode("utf-16"), ".csv", encoding="utf-16")

    def csv_packed(self, records: list[Any]) -> Observations:
        return self.written(gzip.compress(csv_bytes(records), 1), ".csv.gz")

    def json_lines(self, records: list[Any]) -> Observations:
        # A file without a byte is refused by its size; the rows of other files do not matter.
        return self.written(b"".join(line + b"\n" for line in records), ".jsonl")

    def json_open_end(self, records: list[Any]) -> Observations:
        return self.written(b"\n" + b"\n".join(records), ".jsonl", where="country <> 'key1'")

    def json_packed(self, records: list[Any]) -> Observations:
        packed = pa.BufferOutputStream()
        with pa.CompressedOutputStream(packed, "zstd") as stream:
            stream.write(b"".join(line + b"\n" for line in records))
        return self.written(packed.getvalue().to_pybytes(), ".jsonl.zst")

    def parquet(self, records: list[Any]) -> Observations:
        place = self.new(".parquet")
        pq.write_table(raw_table(records), place)
        return ddpmi.observe(place, **NAMED)

    def parquet_typed(self, records: list[Any]) -> Observations:
        place = self.new(".parquet")
        pq.write_table(typed_table(records), place)
        return ddpmi.observe(place, **NAMED, value="minutes")

    def hive(self, records: list[Any]) -> Observations:
        place = self.new(".data")
        for number, (person, site, country) in enumerate(records):
            inside = place / f"country={quote(country.decode(errors='replace'), safe='')}"
            inside.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                pa.table({"person": text_array([person]), "site": text_array([site])}), inside / f"{number}.parquet"
            )
        return ddpmi.observe(place, **NAMED)

    def arrow(self, records: list[Any]) -> Observations:
        return ddpmi.observe(raw_table(records), **NAMED)

    def arrow_dictionary(self, records: list[Any]) -> Observations:
        table = raw_table(records)
        coded = [
            pa.DictionaryArray.from_arrays(pa.array(range(len(c)), pa.int32()), c.combine_chunks())
            for c in table.columns
        ]
        return ddpmi.observe(pa.table(dict(zip(ROLES, coded, strict=True))), **NAMED)

    def arrow_nested(self, records: list[Any]) -> Observations:
        table = raw_table(records)
        inside = pa.StructArray.from_arrays([table["site"].combine_chunks()], ["name"])
        listed = pa.ListArray.from_arrays(
            pa.array(range(len(records) + 1), pa.int32()), table["country"].combine_chunks()
        )
        data = pa.table({"person": table["person"], "site": inside, "country": listed})
        return ddpmi.observe(data, unit="person", feature=ddpmi.sql("site.name"), label=ddpmi.sql("country[1]"))

    def arrow_typed(self, records: list[Any]) -> Observations:
        return ddpmi.observe(typed_table(records), **NAMED, value="minutes")

    def arrow_reader(self, records: list[Any]) -> Observations:
        return ddpmi.observe(raw_table(records).to_reader(max_chunksize=2), **NAMED)

    def dataset(self, records: list[Any]) -> Observations:
        place = self.new(".parquet")
        pq.write_table(raw_table(records), place)
        return ddpmi.observe(ds.dataset(place), **NAMED)

    def pandas_objects(self, records: list[Any]) -> Observations:
        columns = [pd.Series([record[place] for record in records], dtype=object) for place in range(3)]
        return ddpmi.observe(pd.DataFrame(dict(zip(ROLES, columns, strict=True))), **NAMED)

    def pandas_strings(self, records: list[Any]) -> Observations:
        columns = [pd.Series([record[place] for record in records], dtype="string") for place in range(3)]
        return ddpmi.observe(pd.DataFrame(dict(zip(ROLES, columns, strict=True))), **NAMED)

    def pandas_categories(self, records: list[Any]) -> Observations:
        columns = [categories([record[place] for record in records]) for place in range(3)]
        return ddpmi.observe(pd.DataFrame(dict(zip(ROLES, columns, strict=True))), **NAMED)

    def pandas_arrow(self, records: list[Any]) -> Observations:
        table = raw_table(records)
        frame = {name: pd.arrays.ArrowExtensionArray(table[name]) for name in ROLES}
        return ddpmi.observe(pd.DataFrame(frame), **NAMED)

    def pandas_sparse(self, records: list[Any]) -> Observations:
        columns = [
            pd.arrays.SparseArray(np.array([record[place] for record in records], np.int64)) for place in range(3)
        ]
        return ddpmi.observe(pd.DataFrame(dict(zip(ROLES, columns, strict=True))), **NAMED)

    def polars(self, records: list[Any]) -> Observations:
        columns = {name: [record[place] for record in records] for place, name in enumerate(ROLES)}
        return ddpmi.observe(pl.DataFrame(columns, schema=dict.fromkeys(ROLES, pl.String)), **NAMED)

    def polars_lazy(self, records: list[Any]) -> Observations:
        columns = {name: [record[place] for record in records] for place, name in enumerate(ROLES)}
        return ddpmi.observe(pl.LazyFrame(columns, schema=dict.fromkeys(ROLES, pl.Categorical)), **NAMED)

    def duckdb_relation(self, records: list[Any]) -> Observations:
        import duckdb

        connection = duckdb.connect()
        connection.execute("CREATE TABLE visits (person VARCHAR, site VARCHAR, country VARCHAR)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", [list(record) for record in records])
        return ddpmi.observe(connection.table("visits"), **NAMED)

    def delta(self, records: list[Any]) -> Observations:
        from deltalake import write_deltalake

        place = self.new(".delta")
        write_deltalake(place, typed_table(records))
        return ddpmi.observe(place, **NAMED, value="minutes")

    def delta_texts(self, records: list[Any]) -> Observations:
        from deltalake import convert_to_deltalake

        place = self.new(".delta")
        place.mkdir()
        pq.write_table(raw_table(records), place / "rows.parquet", write_statistics=False)
        convert_to_deltalake(place)
        return ddpmi.observe(place, **NAMED)

    def iceberg(self, records: list[Any]) -> Observations:
        from pyiceberg.catalog.memory import InMemoryCatalog

        catalog = InMemoryCatalog("made", warehouse=self.new(".iceberg").as_uri())
        catalog.create_namespace("db")
        data = typed_table(records)
        table = catalog.create_table("db.visits", schema=data.schema)
        table.append(data)
        return ddpmi.observe(table.metadata_location.removeprefix("file://"), **NAMED, value="minutes")


RAW = made.rows(made.raw_texts, made.raw_texts, made.raw_texts)
TEXTS = made.rows(made.texts, made.texts, made.texts)
TYPED = made.rows(made.integers, made.days, made.booleans, made.numbers)
OBJECTS = made.rows(made.objects(), made.objects(), made.objects())
#: Reader -> the records it is given.
CASES: dict[str, SearchStrategy[Any]] = {
    **dict.fromkeys(["csv", "tsv", "csv_latin", "csv_packed", "hive", "parquet", "dataset", "delta_texts"], RAW),
    **dict.fromkeys(["arrow", "arrow_dictionary", "arrow_nested", "arrow_reader", "pandas_arrow"], RAW),
    **dict.fromkeys(["parquet_typed", "arrow_typed", "delta", "iceberg"], TYPED),
    **dict.fromkeys(["json_lines", "json_open_end", "json_packed"], made.json_lines()),
    **dict.fromkeys(["csv_utf16", "polars", "polars_lazy", "duckdb_relation"], TEXTS),
    "pandas_objects": OBJECTS,
    "pandas_strings": made.rows(made.texts, made.texts, made.texts),
    "pandas_categories": made.rows(made.hashable(), made.hashable(), made.hashable()),
    "pandas_sparse": made.rows(*[made.small_integers] * 3),
}
SLOW = {"delta": 6, "delta_texts": 6, "iceberg": 4}


def check(name: str, folder: Path, examples: int) -> None:
    """Generate cases for a reader and check each."""
    counted = 0

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(made.pairs(CASES[name]))
    def holds(records: list[tuple[int, Any]]) -> None:
        nonlocal counted
        counted += 1
        place = folder / "case"
        place.mkdir()
        try:
            check_row_local(records, getattr(Readers(place), name))
        finally:
            shutil.rmtree(place)

    holds()
    assert counted >= min(examples, 4)


@pytest.mark.parametrize("name", CASES)
def test_no_unit_changes_how_others_are_read(name: str, tmp_path: Path) -> None:
    """The rows adopted from all units are the union of those adopted from each unit's records alone."""
    check(name, tmp_path, SLOW.get(name, 25))


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_no_unit_changes_how_others_are_read_at_length(name: str, tmp_path: Path) -> None:
    """The same, over 2,000 generated cases for each reader."""
    check(name, tmp_path, 2000)


#: A folder's name is not so long.
TEXT_READERS = [name for name, cells in CASES.items() if cells in (RAW, TEXTS, OBJECTS) and name != "hive"]


@pytest.mark.parametrize("name", TEXT_READERS)
def test_a_cell_of_ten_megabytes_changes_its_own_row_alone(name: str, tmp_path: Path) -> None:
    """It is read as it is, first, last or alone."""
    usual: tuple[Any, ...] = ("key0", "key1", "key2")
    odd: tuple[Any, ...] = ("key0", "x" * (10 << 20), "key2")
    if CASES[name] is RAW:
        usual, odd = (tuple(text.encode() for text in row) for row in (usual, odd))
    for records in ([(0, odd), (1, usual)], [(1, usual), (0, odd)], [(0, odd)]):
        found = check_row_local(records, getattr(Readers(tmp_path), name))
        assert {len(row[1]) for row in found} >= {10 << 20}
