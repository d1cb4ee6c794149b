"""Files: JSON lines, packed files, key=value folders and addresses."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi import Bounds, Budget, EngineError, InputError, Plan, SchemaError, exact, observe, sql
from ddpmi.engines.duckdb.files import find_files
from ddpmi.testing import exact_sums

CSV = "unit,feature,label\n1,a,x\n2,b,x\n,c,y\n"
TSV = CSV.replace(",", "\t")
NAMED = {"unit": "unit", "feature": "feature", "label": "label"}
JSON = '{"unit":1,"feature":"a","label":"x"}\n{"unit":2,"feature":"b","label":"x"}\n{"feature":"c","label":"y"}\n'


def pairs(data: object, **roles: object) -> list[tuple[str, str]]:
    return [(row["feature"], row["label"]) for row in exact(observe(data, **roles)).pairs.to_pylist()]


def write(path, text: str):
    """Write a text, packed as the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(text.encode())
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((f"rows.csv{packed}", CSV) for packed in ("", ".gz", ".zst")),
        *((f"rows.tsv{packed}", TSV) for packed in ("", ".gz", ".zst")),
        *((f"rows.jsonl{packed}", JSON) for packed in ("", ".gz", ".zst")),
        ("rows.ndjson", JSON),
        ("rows.jsonl", "\ufeff" + JSON),
        ("ROWS.CSV.GZ", "\ufeff" + CSV),
    ],
)
def test_text_files_are_read_packed_or_not(name: str, text: str, tmp_path) -> None:
    """CSV, TSV and JSON lines, plain, gzip or zstd, give the same pairs."""
    assert pairs(write(tmp_path / name, text), **NAMED) == [("a", "x"), ("b", "x")]


def test_packed_and_plain_files_are_read_together(tmp_path) -> None:
    """A folder may hold both."""
    write(tmp_path / "a.csv", CSV)
    write(tmp_path / "b.csv.gz", "unit,feature,label\n7,g,x\n")
    assert pairs(tmp_path) == [("a", "x"), ("b", "x"), ("g", "x")]


@pytest.mark.parametrize(
    ("cell", "key"),
    [
        ("1", "1"),
        ("-7", "-7"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1.0", "1.0"),
        ("1.50", "1.5"),
        ("true", "true"),
        ('"1"', "1"),
        ('" A "', " A "),
        ('"caf\\u00e9"', "café"),
        ('"{x"', "{x"),
        ('"N"', "N"),
        ('""', ""),
        ("null", None),
        ("NaN", None),
        ('{"x":1}', None),
        ("[1]", None),
    ],
)
def test_json_scalars_become_key_text(cell: str, key: str | None, tmp_path) -> None:
    """Whole numbers are digits, other numbers their shortest text, texts themselves; lists, objects and NULL no keys."""
    file = write(tmp_path / "rows.jsonl", f'{{"unit":1,"feature":{cell},"label":"x"}}\n')
    assert pairs(file, **NAMED) == ([] if key is None else [(key, "x")])


@pytest.mark.parametrize(
    "line", ["broken {", '{"unit":', "[1]", "5", '"s"', "null", "", '{"unit":"\\ud800"}', "\x00", "{" * 5000]
)
def test_broken_json_lines_are_passed_over(line: str, tmp_path) -> None:
    """No line raises an error, at any place."""
    for text in (line + "\n" + JSON, JSON + line, JSON + line + "\n" + JSON.replace('"a"', '"z"')):
        file = write(tmp_path / "rows.jsonl", text)
        assert {("a", "x"), ("b", "x")} <= set(pairs(file, **NAMED))


def test_bytes_that_are_no_text_change_one_json_cell(tmp_path) -> None:
    """A record in another encoding stays visible, and the encoding may be named."""
    (tmp_path / "rows.jsonl").write_bytes(b'{"unit":9,"feature":"\xff","label":"x"}\n' + JSON.encode())
    assert pairs(tmp_path / "rows.jsonl", **NAMED) == [("a", "x"), ("b", "x"), ("\ufffd", "x")]
    assert pairs(tmp_path / "rows.jsonl", **NAMED, encoding="latin-1") == [("a", "x"), ("b", "x"), ("ÿ", "x")]


def test_json_types_do_not_depend_on_rows(tmp_path) -> None:
    """Numbers and texts in one key are one column, and named keys need not be in the first record."""
    rows = [{"u": 1, "f": 1, "l": "x"}, {"u": "1", "f": "1", "l": "x"}, {"u": 2, "f": True, "l": "x", "v": "3"}]
    file = write(tmp_path / "rows.jsonl", "\n".join(map(json.dumps, rows)))
    obs = observe(file, unit="u", feature="f", label="l", value="v")
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, clip=5), mechanism="laplace")
    assert exact_sums(obs, plan)["pairs"].to_pylist() == [{"feature": "true", "label": "x", "sum": 3 * 256}]
    assert pairs(file, unit="u", feature="f", label="l") == [("1", "x"), ("true", "x")]


def test_json_columns_are_text_in_expressions(tmp_path) -> None:
    """Keys of any record may be named in a where or an expression."""
    file = write(tmp_path / "rows.jsonl", JSON + '{"unit":5,"feature":"e","label":"x","Day":"2020-03-04"}\n')
    assert pairs(file, **NAMED, where='"Day" IS NULL AND DAY IS NULL') == [("a", "x"), ("b", "x")]
    assert pairs(file, **(NAMED | {"label": sql('year(CAST("Day" AS DATE))')})) == [("e", "2020")]
    assert pairs(file, **NAMED, where="true") == [("a", "x"), ("b", "x"), ("e", "x")]


def test_keys_of_json_records_are_named(tmp_path) -> None:
    """No record is looked at, so nothing can be recognised; keys of the folders' names can."""
    file = write(tmp_path / "rows.jsonl", JSON)
    for named in ({}, {"unit": "unit"}, {"feature": "feature", "label": "label"}):
        with pytest.raises(SchemaError, match="No key was named for the"):
            observe(file, **named)
    assert not observe(file, unit="unit", feature="feature").labelled
    assert pairs(file, unit="u", feature="f", label="l") == []
    inside = write(tmp_path / "data" / "feature=a" / "rows.jsonl", JSON)
    assert pairs(inside, unit="unit", label="label") == [("a", "x")]


def test_a_description_beside_data_files_is_not_data(tmp_path) -> None:
    """In a folder a .json file is passed over."""
    write(tmp_path / "rows.csv", CSV)
    write(tmp_path / "about.json", '{"made": "today"}')
    assert pairs(tmp_path) == [("a", "x"), ("b", "x")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv.gz", b"not gzip"),
        ("rows.jsonl.zst", b"not zstd"),
        ("rows.parquet.gz", b"x"),
        ("rows.csv.bz2", b"x"),
        ("rows.gz", b"x"),
        ("twice.csv", b"unit,UNIT,label\n"),
    ],
)
def test_packed_files_that_cannot_be_read_say_why(name: str, content: bytes, tmp_path) -> None:
    """Wrong packing and unknown names are clear errors."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="Hint:"):
        observe(tmp_path / name)


def test_a_cut_packed_file_is_an_engine_error_without_its_words(tmp_path) -> None:
    """Half a file fails as a whole."""
    rows = "".join(f"{n},SECRET{n},x\n" for n in range(200_000))
    packed = gzip.compress(("unit,feature,label\n" + rows).encode())
    (tmp_path / "rows.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises((EngineError, InputError)) as caught:
        exact(observe(tmp_path / "rows.csv.gz"))
    assert "SECRET" not in str(caught.value)


def hive(folder, write_rows) -> None:
    """Write two files in key=value folders."""
    for country, unit in (("01", 1), ("a%20b", 2)):
        write_rows(folder / f"country={country}" / "year=2020", unit)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_keys_of_folders_are_text_columns(kind: str, tmp_path) -> None:
    """key=value folders give columns whose text is kept as it is: 01 stays 01."""

    def write_rows(folder, unit: int) -> None:
        folder.mkdir(parents=True)
        if kind == "parquet":
            pq.write_table(pa.table({"unit": [unit], "feature": ["a"]}), folder / "rows.parquet")
        elif kind == "csv":
            write(folder / "rows.csv", f"unit,feature\n{unit},a\n")
        else:
            write(folder / "rows.jsonl", f'{{"unit":{unit},"feature":"a"}}\n')

    hive(tmp_path, write_rows)
    named = {"unit": "unit", "feature": "feature", "label": "country"}
    assert pairs(tmp_path, **named) == [("a", "01"), ("a", "a b")]
    assert pairs(tmp_path, **named, where="country = '01' AND year = '2020'") == [("a", "01")]
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, clip=3000), mechanism="laplace")
    obs = observe(tmp_path, **named, value="year")
    assert [row["sum"] for row in exact_sums(obs, plan)["pairs"].to_pylist()] == [2020 * 256] * 2


def test_the_default_partition_is_null(tmp_path) -> None:
    """Rows of the folder for NULL have no key."""
    folder = tmp_path / "label=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir()
    pq.write_table(pa.table({"unit": [1], "feature": ["a"]}), folder / "rows.parquet")
    assert pairs(tmp_path) == []


@pytest.mark.parametrize("inside", [["k=1/a.csv", "b.csv"], ["k=1/a.csv", "m=1/a.csv"], ["k=1/K=2/a.csv"]])
def test_folders_with_different_keys_are_refused(inside: list[str], tmp_path) -> None:
    """Every file has the same columns."""
    for name in inside:
        write(tmp_path / name, CSV)
    with pytest.raises(InputError, match="key=value folders"):
        observe(tmp_path)


@pytest.mark.parametrize(
    ("address", "extension"),
    [
        ("s3://bucket/rows.parquet", "httpfs"),
        ("gs://bucket/*.jsonl.gz", "httpfs"),
        ("https://example.org/rows.parquet?token=SECRET", "httpfs"),
        ("hf://datasets/a/b/rows.parquet", "httpfs"),
        ("az://container/rows.parquet", "azure"),
    ],
)
def test_addresses_need_an_installed_extension(address: str, extension: str, monkeypatch, tmp_path) -> None:
    """Nothing is downloaded: without the extension the error gives the command to paste."""
    assert find_files(address).extension == extension
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match=rf"duckdb.sql\('INSTALL {extension}'\)") as caught:
        observe(address, unit="unit", feature="feature", label="label", where="unit > '1'")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("s3://bucket/rows.csv", "CSV files are not read from an address"),
        ("s3://bucket/folder", "ending in 'nothing' are not read"),
        ("ftp://host/rows.parquet", "ftp://"),
        (["s3://b/rows.parquet", "az://b/rows.parquet"], "two different extensions"),
        (["s3://b/rows.parquet", "rows.parquet"], "cannot be read together"),
        (["s3://b/rows.parquet", "s3://b/rows.jsonl"], "more than one format"),
    ],
)
def test_addresses_that_cannot_be_read_say_why(data: object, message: str) -> None:
    """Stores, formats and mixtures are checked before anything is loaded."""
    with pytest.raises(InputError, match=message):
        observe(data)
