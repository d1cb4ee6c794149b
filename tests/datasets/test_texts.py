"""Import of texts: rows of one record come from that record alone, and no record is an error."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi import InputError, InputNotFound, sql
from ddpmi.datasets import Words, import_aminer, import_text
from ddpmi.datasets.texts import aminer_version

if TYPE_CHECKING:
    from pathlib import Path

PAPER = {"id": "p1", "title": "On Noise", "abstract": "Noise hides one. Noise!", "year": 2006, "authors": ["A B"]}


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Return the rows of an import, sorted."""
    table = pq.read_table(path)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def lines(tmp_path: Path, *records: object, name: str = "papers.json") -> Path:
    """Write records as JSON lines."""
    place = tmp_path / name
    made = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    place.write_bytes(b"\n".join(made))
    return place


def test_a_table_of_texts_becomes_rows(tmp_path: Path) -> None:
    """Columns keep their types and get the names that ddpmi knows, so the next command names none."""
    (tmp_path / "texts.csv").write_text(
        "id,title,text,year\n1,Hide,Noise hides noise,2006\n2,,one,2007\n,x,lost,1\n3,x,y,\n"
    )
    made = import_text(tmp_path / "texts.csv", to=tmp_path / "a.parquet", unit="id", text="text", label="year")
    assert rows(made) == [("1", "hides", "2006", 1), ("1", "noise", "2006", 2), ("2", "one", "2007", 1)]
    assert ddpmi.observe(made).columns.named() == {"unit": "unit", "feature": "feature", "label": "label"}
    both = import_text(
        tmp_path / "texts.csv",
        to=tmp_path / "b.parquet",
        unit="id",
        text=["title", "text"],
        label=sql("CAST(year AS INTEGER) // 10"),
        where="id = '1'",
        words=Words(ngrams=2),
    )
    # Words of two columns are no neighbours.
    assert {row[1] for row in rows(both)} == {"hide", "noise", "hides", "noise hides", "hides noise"}
    assert {row[2] for row in rows(both)} == {200}


def test_texts_without_a_label_have_no_label_column(tmp_path: Path) -> None:
    """Labels then come from a seed; numbers stay numbers."""
    table = pa.table({"id": pa.array([7], pa.int32()), "text": ["tea time"]})
    made = import_text(table, to=tmp_path / "a.parquet", unit="id", text="text")
    assert pq.read_schema(made).names == ["unit", "feature", "value"]
    assert pq.read_schema(made).field("unit").type == pa.int32()
    assert pq.read_schema(made).field("feature").type == pa.string()
    assert ddpmi.observe(made).label_by(feature="tea").labelled


def test_no_text_is_an_empty_file(tmp_path: Path) -> None:
    """Rows never decide whether an import fails."""
    (tmp_path / "texts.csv").write_text("id,text,year\n")
    made = import_text(tmp_path / "texts.csv", to=tmp_path / "a.parquet", unit="id", text="text", label="year")
    assert (pq.read_schema(made).names, rows(made)) == (["unit", "feature", "label", "value"], [])
    empty = import_aminer(lines(tmp_path), to=tmp_path / "b.parquet")
    assert rows(empty) == []


def test_records_of_all_versions_are_read(tmp_path: Path) -> None:
    """V10 has abstracts, V11 places of words, V12 is one array of lines; keys may be absent; files may be packed."""
    index = {"IndexLength": 3, "InvertedIndex": {"noise": [0, 2], "hides": [1]}}
    v11 = {
        "id": 12,
        "year": 2007,
        "indexed_abstract": index,
        "authors": [{"name": "A B", "id": 1}],
        "venue": {"raw": "IRI"},
    }
    v10 = lines(tmp_path, PAPER, {"id": "p2", "year": 2001}, {"title": "no id", "year": 1, "abstract": "x y"})
    second = lines(tmp_path, v11, name="v11.json")
    v12 = lines(tmp_path, b"[", json.dumps(PAPER).encode(), b"," + json.dumps(v11).encode(), b"]", name="v12.json")
    packed = tmp_path / "v10.json.gz"
    packed.write_bytes(gzip.compress(v10.read_bytes()))
    first = [("p1", "hides", 2006, 1), ("p1", "noise", 2006, 2), ("p1", "one", 2006, 1)]
    other = [("12", "hides", 2007, 1), ("12", "noise", 2007, 2)]
    assert [aminer_version(path) for path in (v10, second, v12, packed)] == [
        "V10 or V11",
        "V10 or V11",
        "V12",
        "V10 or V11",
    ]
    assert rows(import_aminer([v10, second], to=tmp_path / "a.parquet")) == sorted([*first, *other])
    assert rows(import_aminer(v12, to=tmp_path / "b.parquet")) == sorted([*first, *other])
    assert rows(import_aminer(packed, to=tmp_path / "c.parquet")) == first
    venues = rows(import_aminer([v10, second], to=tmp_path / "d.parquet", text=("title", "venue")))
    assert venues == [("12", "iri", 2007, 1), ("p1", "noise", 2006, 1)]


HOSTILE = [
    b"",
    b"{",
    b"[1, 2]",
    b'"text"',
    b"[" * 100_000,
    b'{"id": "x", "year": 1e999, "abstract": "lost"}',
    b'{"id": true, "year": 2000, "abstract": "lost"}',
    b'{"id": "", "year": 2000, "abstract": "lost"}',
    b'{"id": "x", "year": "soon", "abstract": "lost"}',
    b'{"id": "x", "year": 2000, "abstract": {"a": 1}}',
    b'{"id": "x", "year": 2000, "indexed_abstract": {"InvertedIndex": {"a": ["b"]}}}',
    b'{"id": "x", "year": 2000, "indexed_abstract": {"InvertedIndex": [1]}}',
    b'{"id": "x", "year": 2000, "indexed_abstract": "InvertedIndex"}',
    b'{"id": "x", "year": 99999999999999999999999, "abstract": "lost"}',
]


@pytest.mark.parametrize("bad", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_record_changes_no_other(bad: bytes, tmp_path: Path) -> None:
    """A line that is no record is skipped, before, between and after others."""
    alone = rows(import_aminer(lines(tmp_path, PAPER), to=tmp_path / "alone.parquet"))
    mixed = lines(tmp_path, PAPER, bad, {**PAPER, "id": "p2"}, bad, name="mixed.json")
    found = rows(import_aminer(mixed, to=tmp_path / "mixed.parquet"))
    assert found == sorted([*alone, *(("p2", *row[1:]) for row in alone)])


def test_odd_text_is_kept_as_text(tmp_path: Path) -> None:
    """Half characters and bytes that are no text are replaced in their own record."""
    odd = b'{"id": "\\ud800", "year": "2001", "abstract": "caf\xc3\xa9 \xff\xff tea"}'
    assert rows(import_aminer(lines(tmp_path, odd), to=tmp_path / "a.parquet")) == [
        ("?", "café", 2001, 1),
        ("?", "tea", 2001, 1),
    ]


def test_a_line_beyond_a_block_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any size give the same lines; a line that is too long is left out alone."""
    made = lines(tmp_path, PAPER, b"x" * 500, {**PAPER, "id": "p2"})
    whole = rows(import_aminer(made, to=tmp_path / "a.parquet"))
    for size in (1, 7, 64):
        monkeypatch.setattr("ddpmi.datasets.texts._BLOCK", size)
        monkeypatch.setattr("ddpmi.datasets.texts._LONGEST_LINE", 300)
        assert rows(import_aminer(made, to=tmp_path / f"{size}.parquet")) == whole


def test_other_versions_are_named(tmp_path: Path) -> None:
    """A file of another form is refused by its start, with what to do."""
    older, newer = tmp_path / "v8.txt", tmp_path / "v13.json"
    older.write_text("#*Title\n#@Author\n")
    newer.write_text('[\n{\n  "_id" : "1",\n  "year" : NumberInt(2007)\n}\n]')
    (tmp_path / "table.csv").write_text("id,text\n")
    for path, told in (
        (older, "V9 or older"),
        (newer, "V13 or newer"),
        (tmp_path / "table.csv", "no file of the AMiner"),
    ):
        with pytest.raises(InputError, match=told) as caught:
            import_aminer(path, to=tmp_path / "a.parquet")
        assert caught.value.hint
    assert not (tmp_path / "a.parquet").exists()


def test_wrong_arguments_are_refused_before_reading(tmp_path: Path) -> None:
    """The output, the columns and the texts are checked first, and nothing is overwritten."""
    table, papers = pa.table({"id": [1], "text": ["x y"]}), lines(tmp_path, PAPER)
    kept = tmp_path / "kept.parquet"
    kept.write_bytes(b"kept")
    of_table: list[dict[str, Any]] = [{"to": kept}, {"to": tmp_path / "a.csv"}, {"text": []}, {"text": "nowhere"}]
    for wrong in (*of_table, {"text": ["id", 3]}):
        with pytest.raises(InputError, match="Hint:"):
            import_text(table, **{"to": tmp_path / "a.parquet", "unit": "id", "text": "text"} | wrong)
    no_file = tmp_path / "no.json"
    of_papers: list[dict[str, Any]] = [
        {"to": kept},
        {"text": "authors"},
        {"text": ()},
        {"files": []},
        {"files": no_file},
    ]
    for wrong in of_papers:
        given = {"files": papers, "to": tmp_path / "a.parquet"} | wrong
        with pytest.raises((InputError, InputNotFound), match="Hint:"):
            import_aminer(given.pop("files"), **given)
    assert kept.read_bytes() == b"kept"
    assert import_text(table, to=kept, unit="id", text="text", overwrite=True) == kept


def test_progress_is_told(tmp_path: Path) -> None:
    """A large import says how far it is."""
    seen: list[float | None] = []
    papers = lines(tmp_path, *({**PAPER, "id": f"p{n}"} for n in range(5000)))
    import_aminer(papers, to=tmp_path / "a.parquet", progress=lambda _, done: seen.append(done))
    assert seen == [1.0]
    table = pa.table({"id": range(5000), "text": ["x y"] * 5000})
    import_text(table, to=tmp_path / "b.parquet", unit="id", text="text", progress=lambda _, done: seen.append(done))
    assert None in seen
