"""Every type that a column can have, with its extreme cells: read row by row, or refused from the schema."""

from __future__ import annotations

import decimal
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi import SchemaError
from tests.support.reader_contract import adopted, check_row_local

if TYPE_CHECKING:
    from pathlib import Path

LONG = [0, 1, -1, 2**63 - 1, -(2**63), 2**62, 10**15, -(10**15), None]
SHORT = [0, 1, -1, 2**31 - 1, -(2**31), None]
UNITS = ("s", "ms", "us", "ns")


def long(type_: pa.DataType) -> pa.Array:
    return pa.array(LONG, pa.int64()).view(type_)


def short(type_: pa.DataType) -> pa.Array:
    return pa.array(SHORT, pa.int32()).view(type_)


def broken_text(type_: pa.DataType) -> pa.Array:
    """Text whose bytes are no text, of any Arrow type of text."""
    raw = pa.array([b"a", b"\xff", b"\xc3", b"a\x00", None], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    return text if type_ == pa.string() else raw.cast(BINARY[type_]).view(type_)


BINARY = {pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}

COLUMNS: dict[str, pa.Array] = {
    "int8": pa.array([-128, 127, None], pa.int8()),
    "int64": long(pa.int64()),
    "uint64": pa.array([0, 2**64 - 1, None], pa.uint64()),
    "half": pa.array(np.array([0, np.nan, np.inf, -np.inf, 65504], np.float16)),
    "float": pa.array([float("nan"), 3.4e38, -1.0, None], pa.float32()),
    "double": pa.array([float("nan"), 1e308, float("inf"), 5e-324, None]),
    "bool": pa.array([True, False, None]),
    "date32": short(pa.date32()),
    "date64": long(pa.date64()),
    **{f"timestamp {unit}": long(pa.timestamp(unit)) for unit in UNITS},
    **{f"timestamp {unit} UTC": long(pa.timestamp(unit, "UTC")) for unit in UNITS},
    **{f"duration {unit}": long(pa.duration(unit)) for unit in UNITS},
    **{f"time {unit}": short(pa.time32(unit)) for unit in UNITS[:2]},
    **{f"time {unit}": long(pa.time64(unit)) for unit in UNITS[2:]},
    "decimal128": pa.array([decimal.Decimal("9" * 38), decimal.Decimal("-" + "9" * 38), None], pa.decimal128(38, 0)),
    "decimal beyond its digits": pa.array(
        [decimal.Decimal("9" * 38), decimal.Decimal(7), None], pa.decimal128(38, 0)
    ).view(pa.decimal128(5, 0)),
    "decimal256": pa.array([decimal.Decimal("9" * 76), None], pa.decimal256(76, 0)),
    "binary": pa.array([b"\xff", b"", None]),
    "fixed binary": pa.array([b"\xff" * 16, b"\x00" * 16], pa.binary(16)),
    "text": broken_text(pa.string()),
    "large text": broken_text(pa.large_string()),
    "text view": broken_text(pa.string_view()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None], pa.int8()), broken_text(pa.string())[:4]),
    "dictionary of integers": pa.array([1, 2, None]).dictionary_encode(),
    "null": pa.nulls(3),
    "list": pa.array([[1], None, []]),
    "list of texts": pa.ListArray.from_arrays(pa.array([0, 1, 3, 5], pa.int32()), broken_text(pa.string())),
    "list of timestamps": pa.ListArray.from_arrays(pa.array([0, 9], pa.int32()), long(pa.timestamp("ms"))),
    "struct": pa.StructArray.from_arrays([broken_text(pa.string())], ["text"]),
    "struct of timestamps": pa.StructArray.from_arrays([long(pa.timestamp("us"))], ["time"]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "fixed list": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
    "interval": pa.array(
        [(2**31 - 1, 2**31 - 1, 2**63 - 1), (-(2**31), 0, -(2**63)), None], pa.month_day_nano_interval()
    ),
    "uuid": pa.array([b"\xff" * 16, None], pa.uuid()),
    "json": pa.array(["{", "1", None], pa.json_(pa.string())),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"])),
}
USES: dict[str, dict[str, Any]] = {
    "key": {"feature": "odd"},
    "value": {"value": "odd"},
    "where": {"where": "odd IS NOT NULL"},
    "text": {"feature": ddpmi.sql("CAST(odd AS VARCHAR)")},
}
#: What Arrow cannot write as Parquet, or not with these cells.
NOT_IN_PARQUET = {"interval", "run ends", "timestamp s", "timestamp s UTC"}
NUMBERS = itertools.count()


pytestmark = pytest.mark.usefixtures("one_database")


def table(name: str) -> pa.Table:
    column, count = COLUMNS[name], len(COLUMNS[name])
    keys = {role: [f"{role}{n}" for n in range(count)] for role in ("unit", "feature", "label")}
    return pa.table({**keys, "odd": column})


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", COLUMNS)
def test_arrow_columns_are_read_row_by_row_or_refused(name: str, use: str) -> None:
    """An extreme cell changes its own row alone, or its type is refused where there are no rows at all."""
    check(name, lambda rows: ddpmi.observe(rows, **USES[use]))


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in NOT_IN_PARQUET])
def test_parquet_columns_are_read_row_by_row_or_refused(name: str, use: str, tmp_path: Path) -> None:
    """The same in Parquet files, whose statistics hold the extreme cells too."""

    def observe(rows: pa.Table) -> ddpmi.Observations:
        place = tmp_path / f"{next(NUMBERS)}.parquet"
        pq.write_table(rows, place, row_group_size=3)
        return ddpmi.observe(place, **USES[use])

    check(name, observe)


def check(name: str, observe: Any) -> None:
    rows = table(name)
    try:
        observe(rows.slice(0, 0))
    except SchemaError:
        with pytest.raises(SchemaError):
            observe(rows)
        return
    places = [(place, place) for place in range(rows.num_rows)]
    check_row_local(places, lambda some: observe(pa.concat_tables([rows.slice(place, 1) for place in some])))


def test_timestamps_that_no_calendar_has_are_null(tmp_path: Path) -> None:
    """Users need the years of timestamps: a good one is kept beside a bad one, in Arrow and in Parquet."""
    good = 1_000_000_000_000_000
    times = pa.array([good, 2**63 - 1, -(2**63), None], pa.int64()).view(pa.timestamp("us"))
    rows = pa.table({"unit": ["a", "b", "c", "d"], "feature": ["f"] * 4, "visited": times})
    pq.write_table(rows, tmp_path / "rows.parquet")
    for data in (rows, tmp_path / "rows.parquet"):
        found = adopted(ddpmi.observe(data, label=ddpmi.sql("year(visited)"), where="visited IS NOT NULL"))
        assert found == {("a", "f", "2001"): 1}
