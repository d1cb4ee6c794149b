"""Frames of other libraries: batches, datasets and lazy frames."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ddpmi import Bounds, Budget, EngineError, InputError, Ledger, Plan, SchemaError, exact, observe, release
from ddpmi.engines.duckdb.frames import COMPUTED, adopt, is_frame, query_kind, schema_of

ROWS = pa.table({"unit": [1, 1, 2, None], "feature": ["a", "b", "a", "a"], "label": ["x", "x", "y", "x"]})
EXPECTED = [("a", "x"), ("a", "y"), ("b", "x")]


def pairs(data: object, **roles: object) -> list[tuple[str, str]]:
    return [(row["feature"], row["label"]) for row in exact(observe(data, **roles)).pairs.to_pylist()]


def as_dataset(folder) -> ds.Dataset:
    pq.write_table(ROWS.slice(0, 2), folder / "a.parquet")
    pq.write_table(ROWS.slice(2), folder / "b.parquet")
    return ds.dataset(folder)


FRAMES = {
    "record batch": lambda folder: ROWS.to_batches()[0],
    "dataset": as_dataset,
    "filtered dataset": lambda folder: as_dataset(folder).filter(ds.field("unit") < 9),
    "dataset in memory": lambda folder: ds.dataset(ROWS),
    "union of datasets": lambda folder: ds.dataset([as_dataset(folder), ds.dataset(ROWS)]),
    "lazy frame": lambda folder: pl.from_arrow(ROWS).lazy().filter(pl.col("unit") < 9),
    "lazy scan": lambda folder: as_dataset(folder) and pl.scan_parquet(folder / "*.parquet"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same_pairs(kind: str, tmp_path) -> None:
    """Batches, datasets and lazy frames are read like tables, again and again."""
    data = FRAMES[kind](tmp_path)
    assert is_frame(data)
    obs = observe(data)
    for _ in range(2):
        got = [(row["feature"], row["label"]) for row in exact(obs).pairs.to_pylist()]
        assert got == EXPECTED


def test_a_lazy_frame_is_a_query(tmp_path) -> None:
    """It may hide a head, a window or a join across units, so a release needs the owner's word."""
    obs = observe(pl.from_arrow(ROWS).lazy().head(3))
    assert query_kind(obs.source.frame) == "polars LazyFrame"
    ledger = Ledger(tmp_path / "x.ledger", limit=Budget(1, 1e-6))
    with pytest.raises(InputError, match="row_local=True"):
        release(obs, Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2)), ledger=ledger)


def test_a_lazy_frame_that_fails_does_not_show_rows() -> None:
    """The message of polars may quote rows, so it is not repeated."""
    lazy = pl.LazyFrame({"unit": ["SECRET"], "feature": ["a"], "label": ["x"]}).with_columns(
        pl.col("unit").cast(pl.Int64)
    )
    with pytest.raises(EngineError, match="could not collect") as caught:
        exact(observe(lazy))
    assert "SECRET" not in str(caught.value)


def test_datasets_of_untyped_files_are_refused(tmp_path) -> None:
    """Arrow guesses the types of CSV cells from rows; the files themselves are read without guessing."""
    pa.csv.write_csv(ROWS, tmp_path / "rows.csv")
    data = ds.dataset(tmp_path, format="csv")
    for one in (data, ds.dataset([data, data])):
        with pytest.raises(InputError, match="guesses types from rows"):
            observe(one)


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        ROWS.to_batches()[0],
        ROWS.to_pandas(),
        pd.DataFrame({"unit": [1, "x", None, 2.5]}, dtype=object),
        pl.from_arrow(ROWS),
        pl.from_arrow(ROWS).lazy(),
        ds.dataset(ROWS),
    ],
)
def test_the_schema_has_no_rows_and_the_types_of_the_data(data: object) -> None:
    """Types come from the frame's declaration, never from its rows."""
    empty = schema_of(data)
    assert empty.num_rows == 0
    assert empty.schema.types == adopt(data, empty.column_names).data.schema.types


def test_a_relation_with_a_computed_column_is_a_query() -> None:
    """An update leaves cells for which the column's expression fails, so a reading of the table could fail at one row."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE visits (unit INTEGER, told VARCHAR, label VARCHAR, feature AS (CAST(told AS INTEGER)))"
        )
        connection.execute("CREATE TABLE plain (unit INTEGER, told VARCHAR)")
        connection.execute("INSERT INTO visits VALUES (1, '7', 'x')")
        connection.execute("UPDATE visits SET told = 'no number'")
        assert query_kind(connection.table("visits")) == COMPUTED
        assert query_kind(connection.table("plain")) is None
        assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_a_frame_with_one_name_twice_is_refused() -> None:
    """Nothing says which of two columns is meant."""
    names = ["unit", "feature", "label", "label"]
    frame = pd.DataFrame([[1, "a", "x", "y"]], columns=names)
    for data in (frame, pa.table([[1], ["a"], ["x"], ["y"]], names=names)):
        with pytest.raises(SchemaError, match="more than one column 'label'"):
            observe(data)


def test_columns_of_pandas_need_not_be_named_by_text() -> None:
    """A frame without names has numbers for names."""
    assert pairs(pd.DataFrame([[1, "a", "x"]]), unit="0", feature="1", label="2") == [("a", "x")]
