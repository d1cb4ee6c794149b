"""Released tables in memory and in a folder: their shapes, and that a folder leads nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi._typing import KEYS, TableName
from ddpmi.errors import ReleaseError
from ddpmi.releases.tables import FolderTables, MemoryTables, Tables, open_folder
from tests.support.fake_release import exact_release

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def memory() -> MemoryTables:
    release = exact_release({("a", "x"): 3, ("a", "y"): 4, ("b", "y"): 5})
    total = pa.table({"sum": pa.array([release.total], pa.int64())})
    return MemoryTables(pairs=release.pairs, features=release.features, labels=release.labels, total=total)


@pytest.fixture
def folder(memory: MemoryTables, tmp_path: Path) -> Path:
    place = tmp_path / "kind=release" / "visits.release"
    for name in KEYS:
        (place / name).mkdir(parents=True)
        pq.write_table(memory.scan(name), place / name / "part-0.parquet")
    return place


@pytest.mark.parametrize("name", list(KEYS))
def test_a_folder_gives_what_was_written(memory: MemoryTables, folder: Path, name: TableName) -> None:
    """Both kinds are Tables, and give the same rows."""
    tables = open_folder(folder)
    assert isinstance(tables, Tables)
    assert isinstance(memory, Tables)
    assert tables.scan(name).equals(memory.scan(name))
    assert tables.count(name) == memory.count(name) == memory.scan(name).num_rows


def test_parts_are_read_in_the_order_of_their_names(memory: MemoryTables, folder: Path) -> None:
    """An engine that writes sorted parts gets sorted rows back; its own hidden files are left alone."""
    pairs = memory.scan("pairs")
    for at in range(3):
        pq.write_table(pairs.slice(at, 1), folder / "pairs" / f"part-{at}.parquet")
    (folder / "pairs" / "_SUCCESS.parquet").write_text("")
    (folder / "pairs" / ".part-0.parquet.crc").write_text("")
    assert open_folder(folder).scan("pairs").equals(pairs)
    assert open_folder(folder).count("pairs") == 3


@pytest.mark.parametrize("name", list(KEYS))
def test_a_missing_table_is_no_release(folder: Path, name: str) -> None:
    """All four tables must be there."""
    (folder / name / "part-0.parquet").unlink()
    with pytest.raises(ReleaseError, match="Parquet files"):
        open_folder(folder)
    (folder / name).rmdir()
    with pytest.raises(ReleaseError, match=f"no folder {name}"):
        open_folder(folder)


def test_links_do_not_lead_out(folder: Path, tmp_path: Path) -> None:
    """Neither a linked file nor a linked folder is read, also when it appears after opening."""
    tables = open_folder(folder)
    outside = tmp_path / "secret.parquet"
    (folder / "pairs" / "part-0.parquet").rename(outside)
    (folder / "pairs" / "part-0.parquet").symlink_to(outside)
    with pytest.raises(ReleaseError, match="plain Parquet"):
        tables.scan("pairs")
    (folder / "labels").rename(tmp_path / "labels")
    (folder / "labels").symlink_to(tmp_path / "labels")
    with pytest.raises(ReleaseError, match="no folder labels"):
        tables.scan("labels")


@pytest.mark.parametrize("name", ["../secret", "receipt", ""])
def test_other_names_are_refused(memory: MemoryTables, folder: Path, name: str) -> None:
    """Only the four tables can be asked for."""
    for tables in (memory, FolderTables(folder=folder)):
        with pytest.raises(ReleaseError, match="no table"):
            tables.scan(name)  # type: ignore[arg-type]


def test_rows_of_a_damaged_file_are_not_counted(folder: Path) -> None:
    """A file that is no Parquet has no number of rows."""
    (folder / "pairs" / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReleaseError, match=r"pairs/part-0\.parquet"):
        open_folder(folder).count("pairs")


def test_wrong_columns_and_damaged_files_are_refused(memory: MemoryTables, folder: Path) -> None:
    """A table with other types, a total of two rows and a file that is no Parquet are not a release."""
    tables = open_folder(folder)
    pq.write_table(pa.table({"feature": [1], "sum": [2]}), folder / "features" / "part-0.parquet")
    with pytest.raises(ReleaseError, match="feature: string"):
        tables.scan("features")
    pq.write_table(pa.table({"sum": [2, 3]}), folder / "total" / "part-0.parquet")
    with pytest.raises(ReleaseError, match="one row"):
        tables.scan("total")
    (folder / "labels" / "part-0.parquet").write_text("no parquet")
    with pytest.raises(ReleaseError, match=r"labels/part-0\.parquet"):
        tables.scan("labels")
    with pytest.raises(ReleaseError, match="must have the columns"):
        MemoryTables(pairs=memory.labels, features=memory.features, labels=memory.labels, total=memory.total)
