"""Adopting data: every input, recognised names, refused types, and nothing of a row in a text."""

from __future__ import annotations

import datetime as dt
import json

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ddpmi import Bounds, Budget, InputError, Plan, SchemaError, observe, observe_counts
from ddpmi.errors import InputNotFound
from ddpmi.testing import exact_sums

ROWS = pa.table({"unit": [1, 1, 2, 3, None], "feature": ["a", "b", "a", None, "a"], "label": ["x", "x", "y", "y", "x"]})
PLAN = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2), mechanism="laplace", row_local=True)
EXPECTED = {("a", "x"): 256, ("b", "x"): 256, ("a", "y"): 256}


def sums(data: object, **columns: str) -> dict[tuple[str, str], int]:
    rows = exact_sums(observe(data, **columns), PLAN)["pairs"].to_pylist()
    return {(row["feature"], row["label"]): row["sum"] for row in rows}


def as_parquet(folder, name: str = "rows.parquet"):
    pq.write_table(ROWS, folder / name)
    return folder / name


def as_csv(folder, name: str = "rows.csv", delimiter: str = ","):
    options = pa.csv.WriteOptions(delimiter=delimiter)
    pa.csv.write_csv(ROWS, folder / name, options)
    return folder / name


def in_folder(folder):
    (folder / "deep").mkdir()
    pq.write_table(ROWS.slice(0, 2), folder / "deep" / "a.parquet")
    pq.write_table(ROWS.slice(2), folder / "b.parquet")
    (folder / "_SUCCESS").touch()
    return folder


SOURCES = {
    "path": as_parquet,
    "text path": lambda folder: str(as_parquet(folder)),
    "csv": as_csv,
    "tsv": lambda folder: as_csv(folder, "rows.tsv", "\t"),
    "semicolon csv": lambda folder: as_csv(folder, "rows.csv", ";"),
    "folder": in_folder,
    "glob": lambda folder: str(in_folder(folder) / "**" / "*.parquet"),
    "list": lambda folder: [str(in_folder(folder) / "deep" / "a.parquet"), folder / "b.parquet"],
    "arrow": lambda folder: ROWS,
    "arrow reader": lambda folder: ROWS.to_reader(max_chunksize=2),
    "pandas": lambda folder: ROWS.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": lambda folder: pd.DataFrame(ROWS.to_pylist(), dtype=object),
    "polars": lambda folder: pl.from_arrow(ROWS),
    "duckdb table": lambda folder: _duckdb().table("rows"),
    "duckdb query": lambda folder: _duckdb().sql("SELECT * FROM rows"),
}


def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("source", ROWS)
    connection.execute("CREATE TABLE rows AS FROM source")
    return connection


@pytest.mark.parametrize("kind", SOURCES)
def test_every_input_gives_the_same_sums(kind: str, tmp_path) -> None:
    """Files, frames, readers and relations with the same rows give the same integers; rows with a NULL key are dropped."""
    assert sums(SOURCES[kind](tmp_path)) == EXPECTED


def test_the_papers_column_names_need_no_flags(tmp_path) -> None:
    """id, feature, partition are recognised."""
    assert sums(ROWS.rename_columns(["id", "feature", "partition"])) == EXPECTED


def test_files_of_one_set_may_differ_in_column_order_and_integer_type(tmp_path) -> None:
    """Columns are matched by name, and 1 is one unit in every file."""
    pq.write_table(ROWS.slice(0, 2), tmp_path / "a.parquet")
    other = ROWS.slice(2).select(["label", "unit", "feature"])
    pq.write_table(other.set_column(1, "unit", other.column("unit").cast(pa.string())), tmp_path / "b.parquet")
    assert sums(tmp_path) == EXPECTED


def test_one_and_the_text_one_are_one_unit() -> None:
    """Keys are compared as text: 1 and "1" name the same unit."""
    mixed = pd.DataFrame({"unit": [1, "1"], "feature": ["a", "a"], "label": ["x", "x"]}, dtype=object)
    assert sums(mixed) == {("a", "x"): 256}


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (pa.array([7]), "7"),
        (pa.array([-7], pa.int8()), "-7"),
        (pa.array([2**63], pa.uint64()), str(2**63)),
        (pa.array([True]), "true"),
        (pa.array([dt.date(2026, 1, 2)]), "2026-01-02"),
        (pa.array([" A "]), " A "),
        (pa.array(["é"]).dictionary_encode(), "é"),
    ],
)
def test_keys_are_released_as_canonical_text(keys: pa.Array, text: str) -> None:
    """Integers as digits, booleans true/false, dates ISO 8601, text unchanged."""
    data = pa.table({"unit": ["u"], "feature": keys, "label": keys})
    assert sums(data) == {(text, text): 256}


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        ("unit", pa.float64()),
        ("feature", pa.float32()),
        ("label", pa.decimal128(9, 2)),
        ("unit", pa.timestamp("us")),
        ("label", pa.binary()),
    ],
)
def test_key_columns_without_one_text_are_refused(column: str, type_: pa.DataType) -> None:
    """Floats, decimals, timestamps and bytes need a cast by the owner."""
    data = ROWS.set_column(ROWS.schema.get_field_index(column), column, pa.nulls(5, type_))
    with pytest.raises(SchemaError, match="Hint: cast it"):
        observe(data)


def test_a_value_column_of_text_is_refused() -> None:
    """Values must be numbers where the source has types."""
    with pytest.raises(SchemaError, match="must hold numbers"):
        observe(ROWS.append_column("value", pa.array(["1"] * 5)), value="value")


def test_csv_cells_that_are_no_number_are_dropped_not_raised(tmp_path) -> None:
    """A CSV value that does not parse counts nothing, and the error it could be is never shown."""
    (tmp_path / "rows.csv").write_text(
        "unit,feature,label,value\n1,a,x,2\n2,a,x,SECRET\n3,a,x,\n4,a,x,nan\n5,a,x,1e400\n"
    )
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, clip=3), mechanism="laplace")
    got = exact_sums(observe(tmp_path / "rows.csv", value="value"), plan)["pairs"].to_pylist()
    assert [row["sum"] for row in got] == [(2 + 3) * 256]


def test_broken_csv_lines_never_raise(tmp_path) -> None:
    """Lines with too many or too few cells, or an open quote, do not stop the run."""
    (tmp_path / "rows.csv").write_text('unit,feature,label\n1,"a,b",x\n2,b,y,z\n4\n5,"q""q",w\n3,"open,x\n')
    assert (("a,b", "x") in sums(tmp_path / "rows.csv")) is True


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("none.parquet", None, InputNotFound),
        ("*.nothing", None, InputNotFound),
        ("empty.parquet", b"", InputError),
        ("empty.csv", b"", InputError),
        ("rows.xlsx", b"x", InputError),
        ("twice.csv", b"unit,unit,label\n", InputError),
        ("latin.csv", "unit,é,label\n".encode("latin-1"), InputError),
    ],
)
def test_files_that_cannot_be_read_say_why(name: str, content: bytes | None, error: type[Exception], tmp_path) -> None:
    """Missing, empty, unknown and badly headed files are clear errors."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match="Hint:"):
        observe(str(tmp_path / name))


def test_an_empty_folder_says_so(tmp_path) -> None:
    """A folder without data files is not an empty data set."""
    with pytest.raises(InputNotFound, match="holds no"):
        observe(tmp_path)


def test_mixed_formats_are_refused(tmp_path) -> None:
    """Parquet and CSV in one call would be two schemas."""
    with pytest.raises(InputError, match="more than one format"):
        observe([as_parquet(tmp_path), as_csv(tmp_path)])


def test_a_damaged_parquet_file_is_an_engine_error_without_its_words(tmp_path) -> None:
    """The engine's message is not repeated."""
    from ddpmi import EngineError

    (tmp_path / "bad.parquet").write_bytes(b"PAR1 SECRET PAR1")
    with pytest.raises(EngineError) as caught:
        observe(tmp_path / "bad.parquet")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("data", [3, {"unit": [1]}, object()])
def test_unknown_data_is_refused_with_what_is_known(data: object) -> None:
    """The error lists what can be observed."""
    with pytest.raises(InputError, match="cannot be observed"):
        observe(data)


def test_repr_shows_the_schema_and_no_row() -> None:
    """What prints in a notebook holds names and types only."""
    text = repr(observe(pa.table({"unit": ["SECRET1"], "feature": ["SECRET2"], "label": ["SECRET3"]})))
    assert "VARCHAR" in text
    assert "SECRET" not in text


def test_unknown_engine_settings_are_refused() -> None:
    """A setting is used or refused, never ignored."""
    with pytest.raises(InputError, match="no setting 'ram'"):
        observe(ROWS, conf={"ram": "1GB"})
    with pytest.raises(InputError, match="cannot set memory_limit"):
        observe(ROWS, conf={"memory_limit": "lots"})


def test_a_dataset_needs_a_name() -> None:
    """The ledger counts by name."""
    with pytest.raises(InputError, match="dataset"):
        observe(ROWS, dataset=" ")


def test_a_space_makes_no_second_budget() -> None:
    """A name that looks like another one is refused with the plain one, for rows and for counts."""
    with pytest.raises(InputError, match="white space") as caught:
        observe(ROWS, dataset="default ")
    assert caught.value.hint == "dataset='default'"
    with pytest.raises(InputError, match="white space"):
        observe_counts(pa.table({"feature": ["a"], "label": ["x"], "count": [7]}), dataset="\u00a0default")


COUNTS = pa.table({"feature": ["a", "a", "b", None, "c", "d"], "label": ["x"] * 6, "count": [3, 4, 0, 5, None, 2**40]})


def counted(data: object, **given: object) -> dict[str, int]:
    obs = observe_counts(data, **given)
    with obs.open() as engine:
        engine.run(obs.rows(engine), salt="")
        found = pa.Table.from_batches(
            engine.batches("SELECT feature, SUM(value)::BIGINT AS n FROM rows GROUP BY feature")
        )
    return dict(zip(found["feature"].to_pylist(), found["n"].to_pylist(), strict=True))


def test_counts_are_rows_without_a_unit() -> None:
    """NULL and zero are passed over, rows with equal keys are added, and nothing names a unit."""
    obs = observe_counts(COUNTS)
    assert counted(COUNTS) == {"a": 7, "d": 2**40}
    assert (obs.counted, obs.columns.unit, obs.columns.value) == (True, None, "count")
    assert obs.relies_on[1:] == ["The owner declares that each unit was counted once, in one row."]
    assert observe(ROWS).relies_on == obs.relies_on[:1]
    assert "handed over in memory" in obs.relies_on[0]
    assert obs.columns_digest != observe(COUNTS, unit="count").columns_digest


def test_counts_of_text_files_are_whole_numbers_or_nothing(tmp_path) -> None:
    """A cell that is no whole number counts nothing, and says nothing."""
    cells = ["3", "2.0", "1.5", "SECRET", "", "nan", "inf", "1e400", "1e3"]
    lines = "".join(f"f{place},x,{cell}\n" for place, cell in enumerate(cells))
    (tmp_path / "rows.csv").write_text("feature,label,n\n" + lines)
    assert counted(tmp_path / "rows.csv", count="n") == {"f0": 3, "f1": 2, "f7": 2**62, "f8": 1000}


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint64(), pa.int64()])
def test_counts_of_every_integer_type_are_read(type_: pa.DataType) -> None:
    """Sums are clamped later, so a huge count is clamped here."""
    data = pa.table({"feature": ["a"], "label": ["x"], "count": pa.array([7], type_)})
    assert counted(data) == {"a": 7}
    huge = pa.table({"feature": ["a"], "label": ["x"], "count": pa.array([2**64 - 1], pa.uint64())})
    assert counted(huge) == {"a": 2**62}


def test_negative_counts_are_no_units(tmp_path) -> None:
    """No data has fewer than no units: a negative count is passed over as zero is, and is no error."""
    cells = ["-1", "-0.5", "7", "-9223372036854775808", "-1e400", "5"]
    lines = "".join(f"f{place},x,{cell}\n" for place, cell in enumerate(cells))
    (tmp_path / "rows.csv").write_text("feature,label,count\n" + lines)
    assert counted(tmp_path / "rows.csv") == {"f2": 7, "f5": 5}
    data = pa.table({"feature": ["a", "b", "a"], "label": ["x"] * 3, "count": [-3, -(2**63), 5]})
    assert counted(data) == {"a": 5}


def test_naming_counts_reads_no_row(monkeypatch) -> None:
    """What is refused is refused from the schema: no row is looked at before a release is charged."""
    from ddpmi.engines.duckdb.engine import DuckDBEngine

    def looked(*_: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr(DuckDBEngine, "batches", looked)
    monkeypatch.setattr(DuckDBEngine, "run", looked)
    assert observe_counts(COUNTS).counted


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_large_counts_in_text_are_clamped_as_integers_are(tmp_path, ending: str) -> None:
    """Text and integer columns give the same counts, cell by cell, also where doubles would round or overflow."""
    wholes = [1, 2**53, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1]
    data = pa.table({"feature": [f"f{n}" for n in range(len(wholes))], "label": ["x"] * len(wholes), "count": wholes})
    rows = data.to_pylist()
    if ending == "csv":
        lines = ["feature,label,count", *(",".join(map(str, row.values())) for row in rows), f"huge,x,{'9' * 5000}"]
    else:
        lines = [*map(json.dumps, rows), '{"feature": "huge", "label": "x", "count": "' + "9" * 5000 + '"}']
    (tmp_path / f"rows.{ending}").write_text("\n".join(lines) + "\n")
    assert counted(tmp_path / f"rows.{ending}", feature="feature", label="label") == counted(data) | {"huge": 2**62}


@pytest.mark.parametrize("type_", [pa.float64(), pa.string(), pa.bool_(), pa.decimal128(9, 0)])
def test_counts_must_be_whole_numbers(type_: pa.DataType) -> None:
    """Where the source has types, the count's must be an integer."""
    data = COUNTS.set_column(2, "count", pa.nulls(6, type_))
    with pytest.raises(SchemaError, match="count column 'count' must hold whole numbers"):
        observe_counts(data)


def test_counts_are_taken_from_a_reader() -> None:
    """They are read once, as all data is."""
    assert counted(COUNTS.to_reader()) == counted(COUNTS)


def test_counts_need_their_column() -> None:
    """A count column is named or called count."""
    with pytest.raises(SchemaError, match="no column 'count'"):
        observe_counts(ROWS)
