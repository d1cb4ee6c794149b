"""Release folders: atomic, complete, and refused when they are not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from ddpmi import Release, ReleaseError, exact, observe
from ddpmi.errors import InputNotFound
from ddpmi.releases.release import check_target, expunge

ROWS = pa.table({"unit": ["u", "v"], "feature": ["f", "g"], "label": ["x", "y"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return exact(observe(ROWS)).save(tmp_path / "out")


def test_a_folder_holds_the_documented_files(folder: Path) -> None:
    """Four tables in Parquet and one receipt."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert names == [
        "features/part-0.parquet",
        "labels/part-0.parquet",
        "pairs/part-0.parquet",
        "receipt.json",
        "total/part-0.parquet",
    ]


def test_other_tools_can_read_the_tables(folder: Path) -> None:
    """DuckDB reads what the format promises: text keys and 64-bit sums."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT feature, label, sum FROM '{folder}/pairs/*.parquet'").fetchall()
    assert rows == [("f", "x", 1), ("g", "y", 1)]


def test_a_folder_without_a_receipt_is_not_a_release(folder: Path) -> None:
    """The receipt is written last, so its absence means an unfinished write."""
    (folder / "receipt.json").unlink()
    with pytest.raises(InputNotFound, match="not a release"):
        Release.load(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 99}', '{"nothing": 1}'])
def test_a_damaged_or_newer_receipt_is_refused(folder: Path, content: str) -> None:
    """What cannot be understood is not half read."""
    (folder / "receipt.json").write_text(content)
    with pytest.raises(ReleaseError, match="Hint:"):
        Release.load(folder)


def test_a_release_never_overwrites(folder: Path) -> None:
    """Saving onto an existing folder is refused and changes nothing."""
    before = (folder / "receipt.json").read_text()
    with pytest.raises(ReleaseError, match="exists already"):
        Release.load(folder).save(folder)
    assert (folder / "receipt.json").read_text() == before


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error half way removes the partial folder."""
    from ddpmi.releases import release

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    found = exact(observe(ROWS))
    monkeypatch.setattr(release, "_write_receipt", full)
    with pytest.raises(ReleaseError, match="No space left"):
        found.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_parent_is_refused_with_the_command_to_make_it(tmp_path: Path) -> None:
    """The hint can be pasted."""
    with pytest.raises(ReleaseError, match="mkdir -p"):
        check_target(tmp_path / "no" / "out")


def test_the_layout_depends_on_released_rows_alone(tmp_path: Path) -> None:
    """Equal tables give equal bytes."""
    one, two = (exact(observe(rows)).save(tmp_path / name) for name, rows in (("a", ROWS), ("b", ROWS.take([1, 0]))))
    for table in ("pairs", "features", "labels", "total"):
        assert (one / table / "part-0.parquet").read_bytes() == (two / table / "part-0.parquet").read_bytes()


def test_repr_is_one_line_and_stamped(folder: Path) -> None:
    """A notebook shows at once that the sums are exact."""
    assert repr(Release.load(folder)).startswith("Release(NOT PRIVATE, id=")


def test_the_receipt_is_readable_json(folder: Path) -> None:
    """Indented, with a final newline."""
    text = (folder / "receipt.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text)["notice"] == "NOT PRIVATE"


def test_expunging_removes_the_release_and_nothing_else(folder: Path) -> None:
    """The folder is gone; a folder with other files, or one that is no release, is left alone."""
    other = folder.parent / "other"
    other.mkdir()
    with pytest.raises(InputNotFound, match="not a release"):
        expunge(other)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ReleaseError, match="more than a release"):
        expunge(folder)
    (folder / "notes.txt").unlink()
    expunge(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["other"]


def test_a_release_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders are synced before the rename, and the folder that holds the new name after it."""
    synced, fsync = [], os.fsync

    def spy(handle: int) -> None:
        fsync(handle)
        there = (tmp_path / "out").exists()
        synced.append((there, os.stat(handle).st_ino))

    monkeypatch.setattr(os, "fsync", spy)
    exact(observe(ROWS), to=tmp_path / "out")
    before = {inode for there, inode in synced if not there}
    wrote = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert {path.stat().st_ino for path in wrote} <= before
    assert (True, tmp_path.stat().st_ino) in synced
