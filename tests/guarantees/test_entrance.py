"""One odd unit at the entrance, with real charged releases: totals move by noise alone, and nothing raises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi import Bounds, Budget, InputError, Ledger, Plan, SchemaError

UNITS = 2000
#: One pair a unit; the noise of the total has scale 1, so 45 is exceeded once in 1e19 releases.
PLAN = {"budget": Budget(100, 1e-6), "bounds": Bounds(pairs=1), "mechanism": "laplace"}
NOISE = 45
ROLES = {"unit": "person", "feature": "site", "label": "country"}


def total(data: Any, tmp_path: Path, *, plan: dict[str, Any] | None = None, **named: Any) -> int:
    """Release the data for real and return the total, which counts units."""
    ledger = Ledger(tmp_path / f"{len(list(tmp_path.iterdir()))}.ledger", limit=Budget(200, 1e-5))
    obs = ddpmi.observe(data, **(ROLES | named))
    released = ddpmi.release(obs, Plan(**(PLAN | (plan or {}))), ledger=ledger)
    return released.total // 2 ** released.receipt["grid"]["g"]


def table(units: int = UNITS) -> pa.Table:
    names = [f"person{n}" for n in range(units)]
    countries = [("NZ", "AU")[n % 2] for n in range(units)]
    return pa.table({"person": names, "site": ["home"] * units, "country": countries})


def with_text(column: str, cell: bytes) -> pa.Table:
    """The table and one more row, whose cell of a text column has these bytes."""
    rows = pa.concat_tables([table(), pa.table({"person": ["odd"], "site": ["home"], "country": ["NZ"]})])
    raw = pa.array([*rows[column].cast(pa.binary()).to_pylist()[:-1], cell], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    return rows.set_column(rows.schema.get_field_index(column), column, text)


def lines(path: Path, *records: Any) -> Path:
    """A JSON lines file of the given records; bytes are written as they are."""
    written = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    path.write_bytes(b"".join(line + b"\n" for line in written))
    return path


RECORDS = [dict(row) for row in table().to_pylist()]


@pytest.mark.parametrize("odd", [7, 2.5, [1], b"\xff", None], ids=["int", "float", "list", "bytes", "null"])
def test_bytes_in_pandas_survive_one_odd_cell(odd: object, tmp_path: Path) -> None:
    """1. Keys given as bytes are read one by one, so an int, a float, a list or a bad byte changes one row."""
    cells = [name.encode() for name in table()["person"].to_pylist()]
    frame = pd.DataFrame({"person": pd.Series(cells, dtype=object), "site": "home", "country": "NZ"})
    more = pd.DataFrame({"person": pd.Series([odd], dtype=object), "site": "home", "country": "NZ"})
    assert abs(total(frame, tmp_path) - UNITS) < NOISE
    assert abs(total(pd.concat([frame, more], ignore_index=True), tmp_path) - UNITS) < NOISE


def test_the_first_json_record_does_not_choose_roles(tmp_path: Path) -> None:
    """2. Keys of records are named by the caller; a first record that has others changes its own row alone."""
    odd = {"unit": "x", "id": "x", "feature": "x", "label": "x", "Country": "x", "person": "odd"}
    plain, first = lines(tmp_path / "a.jsonl", *RECORDS), lines(tmp_path / "b.jsonl", odd, *RECORDS)
    assert abs(total(plain, tmp_path) - UNITS) < NOISE
    assert abs(total(first, tmp_path) - UNITS) < NOISE
    for data in (plain, first):
        with pytest.raises(SchemaError, match="No key was named for the unit") as error:
            ddpmi.observe(data)
        assert "Country" not in str(error.value)


def test_the_first_json_record_does_not_spell_the_where(tmp_path: Path) -> None:
    """2. A key in a filter is spelled as in the filter, and not as the first record has it."""
    odd = {"person": "odd", "site": "home", "Country": "NZ"}
    plain, first = lines(tmp_path / "a.jsonl", *RECORDS), lines(tmp_path / "b.jsonl", odd, *RECORDS)
    kept = [total(data, tmp_path, label=ddpmi.sql("'all'"), where="country = 'NZ'") for data in (plain, first)]
    assert max(abs(found - UNITS // 2) for found in kept) < NOISE


@pytest.mark.parametrize("start", [b"[", b"{", b"[{", b"\xef\xbb\xbf", b"\xff", b"null"])
def test_no_error_depends_on_the_first_json_line(start: bytes, tmp_path: Path) -> None:
    """2. A first line that is no record is dropped like any other."""
    assert abs(total(lines(tmp_path / "a.jsonl", start, *RECORDS), tmp_path) - UNITS) < NOISE


@pytest.mark.parametrize("column", list(ROLES.values()))
def test_text_that_is_not_unicode_stays_visible(column: str, tmp_path: Path) -> None:
    """5. Bytes that are no text are replaced in their own cell, in Parquet and in Arrow, whichever column they stand in."""
    odd = with_text(column, b"a\xffb")
    pq.write_table(odd, tmp_path / "odd.parquet")
    for data in (odd, odd.to_batches()[-1], tmp_path / "odd.parquet"):
        units = data.num_rows if isinstance(data, pa.RecordBatch) else UNITS + 1
        assert abs(total(data, tmp_path) - units) < NOISE


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("megabytes", [17, 40])
def test_a_long_json_line_is_dropped(megabytes: int, last, tmp_path: Path) -> None:
    """5. A line over 16 MiB is dropped by rule, at every place, with or without a line end."""
    odd = json.dumps({"person": "odd", "site": "x" * (megabytes << 20), "country": "NZ"}).encode()
    place = lines(tmp_path / "a.jsonl", *RECORDS, odd) if last else lines(tmp_path / "a.jsonl", odd, *RECORDS)
    if last:
        place.write_bytes(place.read_bytes().rstrip(b"\n"))
    assert abs(total(place, tmp_path) - UNITS) < NOISE


@pytest.mark.parametrize(
    "odd", ["\ud800", np.array([1, 2]), 10**5000, object()], ids=["surrogate", "array", "huge", "object"]
)
def test_odd_cells_of_pandas_raise_nothing(odd: object, tmp_path: Path) -> None:
    """6. What is no key becomes NULL, and what is nearly text is repaired, cell by cell."""
    frame = table().to_pandas()
    more = pd.DataFrame({"person": ["odd"], "site": pd.Series([odd], dtype=object), "country": "NZ"})
    assert abs(total(pd.concat([frame, more], ignore_index=True), tmp_path) - UNITS) < NOISE


def test_sparse_columns_of_pandas_are_read(tmp_path: Path) -> None:
    """6. A sparse column is a column."""
    frame = table().to_pandas()
    frame["site"] = pd.arrays.SparseArray([n % 3 for n in range(UNITS)])
    assert abs(total(frame, tmp_path) - UNITS) < NOISE


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_names_of_files_are_no_patterns(suffix: str, tmp_path: Path) -> None:
    """7. A file whose name looks like a pattern is read, and the files that the pattern would match are not."""
    data = tmp_path / "data"
    data.mkdir()
    names = ["a1", "a[1]", "q?", "qx", "x[12]", "x1", "b*", "bb"]
    for name in names:
        rows = table(200).set_column(0, "person", pa.array([f"{name}-{n}" for n in range(200)]))
        write(rows, data / f"{name}{suffix}")
    plan = {"distinct": "units"}
    assert abs(total(data, tmp_path, plan=plan) - 200 * len(names)) < NOISE
    for name in names:
        assert abs(total(data / f"{name}{suffix}", tmp_path, plan=plan) - 200) < NOISE
    assert abs(total(str(data / f"a*{suffix}"), tmp_path, plan=plan) - 400) < NOISE


def write(rows: pa.Table, place: Path) -> None:
    if place.suffix == ".parquet":
        pq.write_table(rows, place)
    elif place.suffix == ".csv":
        rows.to_pandas().to_csv(place, index=False)
    else:
        lines(place, *rows.to_pylist())


def test_a_file_counts_once_under_all_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """7. The same file by a relative, a dotted and an absolute path, a symbolic and a hard link is one file."""
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(table(), data / "rows.parquet")
    (data / "soft.parquet").symlink_to(data / "rows.parquet")
    (data / "hard.parquet").hardlink_to(data / "rows.parquet")
    monkeypatch.chdir(data)
    names = ["rows.parquet", "./rows.parquet", str(data / "rows.parquet"), "soft.parquet", "hard.parquet", "*.parquet"]
    plan = {"distinct": "units"}
    assert abs(total(names, tmp_path, plan=plan) - UNITS) < NOISE
    assert abs(total(data, tmp_path, plan=plan) - UNITS) < NOISE


def test_one_file_in_two_key_folders_is_refused(tmp_path: Path) -> None:
    """7. A file cannot be of two years at once; the names of folders tell, not its rows."""
    for year in ("2025", "2026"):
        (tmp_path / "data" / f"country={year}").mkdir(parents=True)
    pq.write_table(table().drop_columns(["country"]), tmp_path / "data" / "country=2025" / "rows.parquet")
    (tmp_path / "data" / "country=2026" / "rows.parquet").hardlink_to(tmp_path / "data/country=2025/rows.parquet")
    with pytest.raises(InputError, match="are one file in folders"):
        ddpmi.observe(tmp_path / "data", **ROLES)


def test_cells_of_another_encoding_stay_visible(tmp_path: Path) -> None:
    """9. Rows with bytes that are not UTF-8 are kept, and the owner may say what the bytes mean."""
    rows = table().set_column(2, "country", pa.array(["Österreich"] * UNITS))
    place = tmp_path / "rows.csv"
    place.write_bytes(rows.to_pandas().to_csv(index=False).encode("latin-1"))
    assert abs(total(place, tmp_path) - UNITS) < NOISE
    labels = {}
    for encoding in (None, "latin-1"):
        found = ddpmi.exact(ddpmi.observe(place, **ROLES, encoding=encoding))
        labels[encoding] = set(found.labels["label"].to_pylist())
    assert labels == {None: {"\N{REPLACEMENT CHARACTER}sterreich"}, "latin-1": {"Österreich"}}


@pytest.mark.parametrize("encoding", ["shift-jis", "utf-7", "no such", "", "rot13", "unicode_escape", "idna", 7])
def test_encodings_in_which_a_byte_may_swallow_others_are_refused(encoding: Any, tmp_path: Path) -> None:
    """9. Only encodings are taken in which a bad byte spoils its own cell alone."""
    place = tmp_path / "rows.csv"
    place.write_text("person,site,country\n")
    with pytest.raises(InputError, match="is not read"):
        ddpmi.observe(place, **ROLES, encoding=encoding)


def test_an_encoding_belongs_to_text_files(tmp_path: Path) -> None:
    """9. Parquet files and frames say themselves what their text is."""
    pq.write_table(table(), tmp_path / "rows.parquet")
    for data in (tmp_path / "rows.parquet", table()):
        with pytest.raises(InputError, match="encoding"):
            ddpmi.observe(data, **ROLES, encoding="latin-1")


def test_a_stream_is_a_query_and_a_table_is_vouched_for(tmp_path: Path) -> None:
    """10. What may be the answer of a query needs row_local; rows handed over in memory rely on the owner's word."""
    plan = Plan(**PLAN)
    ledger = Ledger(tmp_path / "a.ledger", limit=Budget(1000, 1e-4))
    with pytest.raises(InputError, match="Arrow reader"):
        ddpmi.release(ddpmi.observe(table().to_reader(), **ROLES), plan, ledger=ledger)
    assert ledger.status("default").entries == ()
    declared = "handed over in memory"
    for data in (table(), table().to_pandas(), table().to_batches()[0]):
        receipt = ddpmi.release(ddpmi.observe(data, **ROLES), plan, ledger=ledger).receipt
        assert any(declared in text for text in receipt["relies_on"])
    pq.write_table(table(), tmp_path / "rows.parquet")
    receipt = ddpmi.release(ddpmi.observe(tmp_path / "rows.parquet", **ROLES), plan, ledger=ledger).receipt
    assert not any(declared in text for text in receipt["relies_on"])


def test_one_json_document_is_refused_by_its_name(tmp_path: Path) -> None:
    """A .json file may be one document, which only its rows could show; so the name is refused."""
    for content in (b"[]", b'{"person": "a"}\n', b""):
        (tmp_path / "rows.json").write_bytes(content)
        with pytest.raises(InputError, match="one record per line"):
            ddpmi.observe(tmp_path / "rows.json", **ROLES)


@pytest.mark.parametrize(
    "text",
    [
        "strftime(timezone('Europe/Berlin', CAST(visited AS TIMESTAMP)), '%Y')",
        "CAST(time_bucket(INTERVAL '7 days', CAST(visited AS DATE)) AS VARCHAR)",
        "CAST(date_trunc('month', CAST(visited AS TIMESTAMP)) AS DATE)",
        "year(CAST(visited AS DATE))",
        "CASE WHEN visited LIKE '20!_%' ESCAPE '!' THEN 'odd' ELSE substr(visited, 1, 4) END",
        "lpad(visited, 4, '0')",
        "CAST(CAST(substr(visited, 1, 4) AS INTEGER) // 10 AS INTEGER)",
    ],
)
def test_expressions_survive_odd_cells(text: str, tmp_path: Path) -> None:
    """8. What is computed from a cell is NULL where it fails, and the cells of all others are as they were."""
    days = [f"202{n % 7}-0{1 + n % 9}-11" for n in range(UNITS)]
    rows = table().set_column(2, "visited", pa.array(days))
    odd = ["", "infinity", "290000-01-01", "-4000-01-01 (BC)", "%s", "\\", "9" * 400, "\x00"]
    more = pa.table({"person": [f"odd{n}" for n in range(len(odd))], "site": ["home"] * len(odd), "visited": odd})
    found = [total(data, tmp_path, label=ddpmi.sql(text)) for data in (rows, pa.concat_tables([rows, more]))]
    assert max(abs(units - UNITS) for units in found) < NOISE


@pytest.mark.parametrize(
    "text",
    [
        "timezone(zone, CAST(visited AS TIMESTAMP))",
        "CAST(visited AS TIMESTAMP) AT TIME ZONE zone",
        "time_bucket(CAST(zone AS INTERVAL), CAST(visited AS DATE))",
        "like_escape(visited, zone, zone)",
        "lpad(visited, CAST(zone AS INTEGER), 'x')",
        "rpad(visited, CAST(zone AS INTEGER), 'x')",
        "printf(zone, visited)",
        "format(zone, visited)",
        "bitstring(visited, CAST(zone AS INTEGER))",
        "repeat(visited, CAST(zone AS INTEGER))",
    ],
)
def test_what_a_cell_could_break_is_refused(text: str) -> None:
    """8. A time zone, an interval, an escape, a format or a length that comes from a cell is refused by name."""
    data = pa.table({"person": ["a"], "site": ["home"], "visited": ["2026-11-18"], "zone": ["1"]})
    with pytest.raises(InputError):
        ddpmi.observe(data, unit="person", feature="site", label=ddpmi.sql(f"CAST({text} AS VARCHAR)"))
