"""Delta and Iceberg tables: their own libraries read them, and deleted rows stay deleted."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from ddpmi import EngineError, InputError, exact, observe, sql
from ddpmi.engines.lakes import find_lake
from ddpmi.errors import MissingExtra

ROWS = pa.table({"unit": [1, 2, 3, 4], "feature": ["a", "b", "c", "d"], "label": ["x", "x", "y", "y"]})
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def features(data: object, **roles: object) -> list[str]:
    return exact(observe(data, **roles)).pairs.column("feature").to_pylist()


def z85(data: bytes) -> str:
    """Encode by ZeroMQ's alphabet, as the Delta protocol does."""
    padded = data + bytes(-len(data) % 4)
    return "".join(
        Z85[word // 85**place % 85] for (word,) in struct.iter_unpack(">I", padded) for place in (4, 3, 2, 1, 0)
    )


def delete_by_vector(table: Path, rows: list[int]) -> None:
    """Mark rows of the table's only file as deleted, as Spark does, and leave the file as it is."""
    log = table / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    packed = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    vector = {
        "storageType": "i",
        "pathOrInlineDv": z85(packed),
        "sizeInBytes": len(packed),
        "cardinality": len(rows),
    }
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    written = [{"remove": remove}, {"add": {**add, "deletionVector": vector}}]
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, written)) + "\n")


def iceberg(folder: Path) -> Path:
    """Make a table of two commits and a delete; return its folder."""
    catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=folder.as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=ROWS.schema)
    table.append(ROWS)
    table.append(pa.table({"unit": [9], "feature": ["z"], "label": ["x"]}))
    table.delete("unit = 9")
    catalog.engine.dispose()
    return folder / "n" / "t"


def test_a_delta_folder_is_a_table(tmp_path) -> None:
    """The current version is read, with its partition columns, and not the files of earlier ones."""
    write_deltalake(tmp_path / "t", ROWS, partition_by=["label"])
    write_deltalake(tmp_path / "t", ROWS.slice(0, 3), mode="overwrite", partition_by=["label"])
    assert features(tmp_path / "t") == ["a", "b", "c"]
    assert features(str(tmp_path / "t"), label=sql("upper(label)"), where="unit < 3") == ["a", "b"]


def test_deletion_vectors_are_honoured(tmp_path) -> None:
    """Rows that a vector deletes are not read, although the file still holds them."""
    settings = {"delta.enableDeletionVectors": "true"}
    write_deltalake(tmp_path / "t", ROWS, configuration=settings)
    delete_by_vector(tmp_path / "t", [1, 3])
    assert len(DeltaTable(tmp_path / "t").file_uris()) == 1
    assert features(tmp_path / "t") == ["a", "c"]


def test_an_iceberg_table_is_read_at_its_newest_snapshot(tmp_path) -> None:
    """The folder means its newest metadata; an older metadata file may be named."""
    table = iceberg(tmp_path)
    assert features(table) == ["a", "b", "c", "d"]
    older = next((table / "metadata").glob("00002-*.metadata.json"))
    assert features(older) == ["a", "b", "c", "d", "z"]


def test_the_version_hint_of_hadoop_tables_is_followed(tmp_path) -> None:
    """A hint names the version; without one the highest number wins."""
    metadata = tmp_path / "metadata"
    metadata.mkdir()
    for version in (1, 2, 10):
        (metadata / f"v{version}.metadata.json").touch()
    assert find_lake(str(tmp_path)).path.endswith("v10.metadata.json")
    (metadata / "version-hint.text").write_text("2\n")
    assert find_lake(str(tmp_path)).path.endswith("v2.metadata.json")


def test_two_newest_metadata_files_are_refused(tmp_path) -> None:
    """Nothing says which of two commits is the table."""
    (tmp_path / "metadata").mkdir()
    for name in ("00001-a", "00001-b"):
        (tmp_path / "metadata" / f"{name}.metadata.json").touch()
    with pytest.raises(InputError, match="more than one newest metadata file"):
        observe(tmp_path)


def test_the_files_of_a_table_are_not_read_behind_its_back(tmp_path) -> None:
    """A glob over a table's files, or a folder around it, would bring deleted rows back."""
    write_deltalake(tmp_path / "lake" / "t", ROWS)
    for data in (tmp_path / "lake", str(tmp_path / "lake" / "t" / "*.parquet")):
        with pytest.raises(InputError, match="belong to the Delta table"):
            observe(data)
    table = iceberg(tmp_path / "ice")
    with pytest.raises(InputError, match="belong to the Iceberg table"):
        observe(table / "data")


@pytest.mark.parametrize(
    ("path", "package", "extra"),
    [("_delta_log/x", "deltalake", "delta"), ("metadata/v1.metadata.json", "pyiceberg.table", "iceberg")],
)
def test_a_missing_package_is_named(path: str, package: str, extra: str, tmp_path, monkeypatch) -> None:
    """The error says what to install."""
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).touch()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'ddpmi\[{extra}\]'"):
        observe(tmp_path)


@pytest.mark.parametrize("path", ["_delta_log/00000000000000000000.json", "metadata/v1.metadata.json"])
def test_a_damaged_table_is_an_error_without_its_words(path: str, tmp_path) -> None:
    """The library's message is not repeated."""
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text("SECRET")
    with pytest.raises(EngineError, match="Hint:") as caught:
        observe(tmp_path)
    assert "SECRET" not in str(caught.value)
