"""Tables, views and queries of SQLite files: cells of every type, names that try to break out, and files that stay as they are."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, EngineError, InputError, InputNotFound, Plan, SchemaError
from ddpmi.engines.sqlite.cells import number_of
from tests.engines.test_contract import plan, sums
from tests.support.reader_contract import adopted, check_row_local
from tests.support.reader_strategies import integers, numbers, pairs, raw_texts, rows, texts

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [("a", "f", "x"), ("a", "g", "y"), ("b", "f", "x"), ("b", "f", "x"), ("c", None, "x")]


def stored(path: Path, made: list[tuple[Any, ...]], types: tuple[str, ...] = ("TEXT", "TEXT", "TEXT")) -> Path:
    """Write a table of rows. A cell of bytes becomes a text that may be no Unicode."""
    path.unlink(missing_ok=True)
    names = ("unit", "feature", "label", "value")[: len(types)]
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = ", ".join(f"{name} {type_}" for name, type_ in zip(names, types, strict=True))
        connection.execute(f"CREATE TABLE visits ({columns})")
        for row in made:
            marks = ", ".join("CAST(? AS TEXT)" if isinstance(cell, bytes) else "?" for cell in row)
            connection.execute(f"INSERT INTO visits VALUES ({marks})", row)
    return path


CELLS = st.one_of(texts, raw_texts, integers, numbers)


@settings(max_examples=20, deadline=None)
@given(records=pairs(rows(CELLS, CELLS, CELLS, CELLS)))
def test_no_cell_changes_how_others_are_read(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, Any]]
) -> None:
    """Columns hold cells of any type, texts that are no Unicode among them: each is read by itself."""
    path = tmp_path_factory.mktemp("sqlite") / "visits.sqlite"
    for types in (("TEXT", "", "INTEGER", "REAL"), ("INTEGER", "TEXT", "", "")):

        def read(some: list[Any], types: tuple[str, ...] = types) -> ddpmi.Observations:
            return ddpmi.observe(stored(path, some, types), table="visits", value="value")

        check_row_local(records, read)


def test_cells_become_the_same_keys_as_elsewhere(tmp_path: Path) -> None:
    """Whole numbers and bad bytes have the text that they have in other readers; a blob is no text."""
    made = [(7, b"\xff", "x"), ("7", "a\0b", b"x"), (1.5, "", "x"), (None, "f", "x")]
    path = stored(tmp_path / "v.db", made)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO visits VALUES (X'41', 'blob', 'x')")
    assert set(adopted(ddpmi.observe(path, table="visits"))) == {
        ("7", "\ufffd", "x"),
        ("7", "a\0b", "x"),
        ("1.5", "", "x"),
    }


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1.0), (" 2.5e1 ", 25.0), ("1_000", None), ("٣", None), ("nan", None), ("0x10", None)]
)
def test_a_text_is_a_number_or_none(text: str, number: float | None) -> None:
    """Only plain spellings are numbers."""
    assert number_of(text) == number


def test_sums_beyond_64_bits_do_not_fail(tmp_path: Path) -> None:
    """Counts near the largest integer are added, and the sum is clamped."""
    path = tmp_path / "counts.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE counts (feature TEXT, label TEXT, count INTEGER)")
        cells: list[object] = [2**63 - 1, 2**63 - 1, 7, 0, None, 3, -5, "many", 2.5]
        connection.executemany("INSERT INTO counts VALUES (?, 'x', ?)", [(f"f{n % 2}", c) for n, c in enumerate(cells)])
    found = sums(ddpmi.observe_counts(path, table="counts"), plan(bounds={"pairs": 1}, distinct="units"))
    assert max(row[2] for row in found["joint"]) == 2**61
    assert len(found["joint"]) == 2


NAMES = ['vi"sits', "x'; DROP TABLE visits; --", "select", "häuser 🏠", "pairs", "source", "[a]", "`b`", "a.b", "rows"]


@pytest.mark.parametrize("name", NAMES)
def test_names_never_execute_and_files_stay_as_they_are(tmp_path: Path, name: str) -> None:
    """Tables and columns with odd names, also those of steps, are read, and no byte of the file changes."""
    path = stored(tmp_path / "odd ?#%.sqlite", ROWS)
    expected = sums(ddpmi.observe(path, table="visits"), plan())
    quoted = '"' + name.replace('"', '""') + '"'
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE {quoted} AS SELECT unit, feature AS {quoted}, label FROM visits")
    before = path.read_bytes()
    assert sums(ddpmi.observe(path, table=name, feature=name), plan()) == expected
    asked = f"SELECT unit, {quoted} AS feature, label FROM {quoted} -- all"
    assert sums(ddpmi.observe(path, query=asked), plan()) == expected
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, InputError, "'visits'"),
        ({"table": "no"}, InputNotFound, "no table 'no'"),
        ({"table": "visits", "query": "SELECT 1"}, InputError, "a table or a query"),
        ({"query": "DELETE FROM visits"}, EngineError, "could not understand"),
        ({"query": "SELECT 1; DELETE FROM visits"}, (EngineError, InputError), "."),
        ({"query": "SELECT 1) AS a; DROP TABLE visits; SELECT * FROM (SELECT 1"}, (EngineError, InputError), "."),
        ({"query": "SELECT unit, unit FROM visits"}, (InputError, SchemaError), "."),
        ({"query": "SELECT load_extension('x') AS unit, feature, label FROM visits"}, EngineError, "could not"),
        ({"table": "visits", "conf": {"threads": 2}}, InputError, "no setting 'threads'"),
        ({"table": "visits", "conf": {"timeout": "long"}}, InputError, "number of seconds"),
        ({"table": "visits", "where": "unit = 'a'"}, InputError, "write it into the query"),
        ({"table": "visits", "unit": "blob"}, SchemaError, "no column 'blob'"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """Each mistake has its own sentence, and nothing is written."""
    path = stored(tmp_path / "v.sqlite", ROWS)
    before = path.read_bytes()
    with pytest.raises(kind, match=message), ddpmi.observe(path, **options).open() as engine:
        list(engine.batches("SELECT * FROM source"))
    assert path.read_bytes() == before


def test_views_and_queries_need_a_declaration(tmp_path: Path, ledger: ddpmi.Ledger) -> None:
    """One of their rows may depend on several units; nothing is charged."""
    path = stored(tmp_path / "v.sqlite", ROWS)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE VIEW shown AS SELECT * FROM visits LIMIT 1")
    bare = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2))
    for options in ({"table": "shown"}, {"query": "SELECT * FROM visits"}):
        with pytest.raises(InputError, match="row_local=True"):
            ddpmi.release(ddpmi.observe(path, **options), bare, ledger=ledger)
    assert ledger.status("default").entries == ()
    assert ddpmi.release(ddpmi.observe(path, table="visits"), bare, ledger=ledger).receipt["engine"] == "sqlite"


def test_columns_that_are_computed_when_read_need_a_declaration(tmp_path: Path, ledger: ddpmi.Ledger) -> None:
    """Their expression may fail at one row, after the charge; a column that was computed when the row was stored cannot."""
    path = stored(tmp_path / "v.sqlite", [("a", "{not json", "x")])
    bare = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE visits ADD COLUMN f TEXT AS (json_extract(feature, '$.f')) VIRTUAL")
        connection.execute("CREATE TABLE kept (unit TEXT, feature TEXT, label TEXT AS (feature || 'x') STORED)")
    with pytest.raises(InputError, match="computed when it is read"):
        ddpmi.release(ddpmi.observe(path, table="visits", feature="f"), bare, ledger=ledger)
    assert ledger.status("default").entries == ()
    assert ddpmi.observe(path, table="kept").source.query is None


def test_a_query_runs_no_part_of_itself_before_the_charge(tmp_path: Path) -> None:
    """A part that SQLite keeps in a table of its own is computed from rows even for a result without rows."""
    path = stored(tmp_path / "v.sqlite", [("a", "{not json", "x")])
    kept = "WITH c AS MATERIALIZED (SELECT unit, json_extract(feature, '$.f') AS feature, label FROM visits)"
    obs = ddpmi.observe(
        path, query=f"{kept} SELECT a.unit, a.feature, b.label FROM c AS a JOIN c AS b ON a.unit = b.unit"
    )
    made_up = obs.rehearsal()
    assert made_up is not None
    with made_up.open() as engine:
        assert sum(batch.num_rows for batch in engine.batches("SELECT * FROM source")) > 0


def test_files_that_are_no_database_are_said_to_be_none(tmp_path: Path) -> None:
    """Text, nothing, and a database whose text is not UTF-8."""
    (tmp_path / "text.sqlite").write_text("unit,feature,label\n" * 100)
    with pytest.raises(EngineError, match="no SQLite database"):
        ddpmi.observe(tmp_path / "text.sqlite", table="visits")
    with pytest.raises(InputNotFound):
        ddpmi.observe(tmp_path / "none.sqlite", table="visits")
    with closing(sqlite3.connect(tmp_path / "wide.db")) as connection, connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.execute("CREATE TABLE visits (unit, feature, label)")
    with pytest.raises(InputError, match="UTF-16"):
        ddpmi.observe(tmp_path / "wide.db", table="visits")


def test_a_writer_does_not_change_what_a_release_sees(tmp_path: Path) -> None:
    """A release reads one state of the file. A writer that holds the file is waited for, and then named."""
    path = stored(tmp_path / "v.sqlite", ROWS)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        with ddpmi.observe(path, table="visits").open() as engine:
            before = sum(batch.num_rows for batch in engine.batches("SELECT * FROM source"))
            writer.execute("INSERT INTO visits VALUES ('late', 'f', 'x')")
            assert sum(batch.num_rows for batch in engine.batches("SELECT * FROM source")) == before
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(EngineError, match="Another process is writing"):
            ddpmi.observe(path, table="visits", conf={"timeout": 0.1})


def test_an_interrupt_ends_a_query(tmp_path: Path) -> None:
    """What stops a running query from outside is Ctrl-C, and no error of the data."""
    path = stored(tmp_path / "v.sqlite", ROWS)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS unit, 'f' AS feature, 'x' AS label FROM n"
    with ddpmi.observe(path, query=endless).open() as engine:
        timer = threading.Timer(0.3, engine._connection.interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            list(engine.batches("SELECT count(*) AS sum FROM source"))
        timer.join()


def test_a_text_that_is_too_long_is_no_key(tmp_path: Path) -> None:
    """A text beyond 16 MiB could make a hash fail, so its row is dropped by looking at that row alone."""
    path = stored(tmp_path / "v.sqlite", [("a", "f", "x"), ("b", "f" * (2**24 + 1), "x")])
    assert set(adopted(ddpmi.observe(path, table="visits"))) == {("a", "f", "x")}


def test_a_seed_in_a_second_table_is_refused(tmp_path: Path) -> None:
    """A database's engine opens one table, so the refusal comes before anything is charged."""
    obs = ddpmi.observe(stored(tmp_path / "visits.sqlite", ROWS), table="visits")
    with pytest.raises(InputError, match=r"not looked up in a second table in SQLite"):
        obs.label_by(feature="f", within=obs)
