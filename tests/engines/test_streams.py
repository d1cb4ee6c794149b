"""Rows of any driver, of DuckDB files and of workbooks: cells are read one by one, and sums are those of the same rows."""

from __future__ import annotations

import datetime as dt
import decimal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import ddpmi
from ddpmi import EngineError, InputError, InputNotFound
from ddpmi.engines.streams import cell_text
from tests.engines.test_contract import hostile, plan, sums, table
from tests.support.reader_contract import adopted

if TYPE_CHECKING:
    from pathlib import Path

MADE = plan(bounds={"clip": 5, "step": 0.5, "labels": 2}, mechanism="gaussian")


def connected(rows: list[tuple[Any, ...]]) -> sqlite3.Connection:
    """A connection of the DB-API with the hostile rows."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE visits (unit, feature, label, minutes)")
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    return connection


def test_any_connection_gives_the_same_sums() -> None:
    """Rows of a driver are streamed, and the embedded engine computes the sums of the same rows in memory."""
    rows = hostile()
    with closing(connected(rows)) as connection:
        obs = ddpmi.observe(connection, table="visits", value="minutes")
        assert sums(obs, MADE) == sums(ddpmi.observe(table(rows), value="minutes"), MADE)
        assert obs.source.query == "query through a connection"


def test_a_connection_keeps_the_contract_of_readers() -> None:
    """What is read of all units is the union of what is read of each."""
    odd = [None, "", b"\xff", 10**5000, "\ud800", object, 0.5, dt.date(2026, 1, 2), decimal.Decimal("1E+2"), [1]]
    assert [cell_text(cell) for cell in odd] == [
        None,
        "",
        "\ufffd",
        None,
        "\ufffd",
        None,
        "0.5",
        "2026-01-02",
        "1E+2",
        None,
    ]
    rows = [("a", "f", "x", 1.0), ("b", b"\xff", "x", "ten"), ("c", 7, "x", "2e0"), ("d", None, "x", 1)]

    def read(some: list[tuple[Any, ...]]) -> Any:
        with closing(connected(some)) as connection:
            return adopted(ddpmi.observe(connection, query="SELECT * FROM visits;", value="minutes"))

    together = read(rows)
    assert together == sum((read([row]) for row in rows), start=type(together)())
    assert {row[3] for row in together} == {"1.0", "2.0", None}


def test_an_arrow_connection_keeps_its_types(postgres: Any) -> None:
    """A driver that returns Arrow batches is read as Arrow."""
    from ddpmi.engines.streams import rows_of

    postgres.fill("typed", pa.table({"unit": [1, 2], "feature": ["a", "b"], "label": [True, None]}))
    with postgres.connected() as connection:
        stream = rows_of(connection, table="typed", query=None)
        assert [str(field.type) for field in stream.schema()] == ["int64", "string", "bool"]
        assert stream.reader(["label", "unit"]).read_all().to_pydict() == {"label": [True, None], "unit": [1, 2]}


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"table": 'visits"; DROP TABLE visits'}, InputError, "not known"),
        ({"query": "SELECT nothing FROM visits"}, EngineError, "could not be read"),
        ({"query": "DELETE FROM visits"}, EngineError, "could not be read"),
        ({}, InputError, "table or a query|not known"),
    ],
)
def test_what_a_connection_cannot_read_is_refused(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    """A name that needs quoting, a query that fails and one that writes: a clear error, and the rows stay."""
    with closing(connected([("a", "b", "canary", 1)])) as connection:
        with pytest.raises(kind, match=message) as caught:
            ddpmi.observe(connection, **options)
        assert "canary" not in str(caught.value)
        assert connection.execute("SELECT count(*) FROM visits").fetchone() == (1,)


@pytest.fixture(name="stored")
def make_stored(tmp_path: Path) -> Path:
    """A DuckDB file with a table, a view and a second schema."""
    path = tmp_path / "visits.duckdb"
    data = table(hostile())
    with duckdb.connect(path) as connection:
        connection.register("data", data)
        connection.execute('CREATE SCHEMA "my schema"; CREATE TABLE visits AS FROM data')
        connection.execute('CREATE TABLE "my schema".pairs AS FROM data; CREATE VIEW shown AS FROM visits LIMIT 3')
    return path


def test_a_computed_column_of_a_duckdb_file_needs_a_declaration(tmp_path: Path, ledger: ddpmi.Ledger) -> None:
    """After an update its expression may fail at one row; nothing is charged, and nothing is read."""
    with duckdb.connect(tmp_path / "v.duckdb") as connection:
        connection.execute(
            "CREATE TABLE visits (unit INTEGER, told VARCHAR, label VARCHAR, feature AS (CAST(told AS INTEGER)))"
        )
        connection.execute("INSERT INTO visits VALUES (1, '7', 'x')")
        connection.execute("UPDATE visits SET told = 'no number'")
    once = ddpmi.Plan(budget=ddpmi.Budget(1, 1e-6), bounds=ddpmi.Bounds(pairs=1))
    with pytest.raises(ddpmi.InputError, match="row_local=True"):
        ddpmi.release(ddpmi.observe(tmp_path / "v.duckdb", table="visits"), once, ledger=ledger)
    assert ledger.status("default").entries == ()


def test_a_duckdb_file_gives_the_same_sums(stored: Path) -> None:
    """A table of a file, by its name or with its schema, and a query that names what steps are called, too."""
    expected = sums(ddpmi.observe(table(hostile()), value="minutes"), MADE)
    for options in ({"table": "visits"}, {"table": "my schema.pairs"}, {"query": 'SELECT * FROM "my schema".pairs;'}):
        assert sums(ddpmi.observe(stored, value="minutes", **options), MADE) == expected
    assert [ddpmi.observe(stored, table=name).source.query for name in ("visits", "shown")] == [None, "view"]
    assert ddpmi.observe(stored, table="visits", where="minutes > 1").where
    other = stored.rename(stored.with_suffix(".db"))
    assert sums(ddpmi.observe(other, table="visits", value="minutes"), MADE) == expected


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, InputError, "'my schema.pairs', 'shown', 'visits'|'visits'"),
        ({"table": "no"}, InputNotFound, "no table 'no'"),
        ({"query": "DELETE FROM visits"}, InputError, "not one SELECT"),
        ({"query": "SELECT 1; SELECT 2"}, InputError, "not one SELECT"),
        ({"query": "SELECT 1", "table": "visits"}, InputError, "both given"),
        ({"query": "SELECT nothing FROM visits"}, EngineError, "could not answer"),
        ({"table": "visits", "encoding": "latin-1"}, InputError, "An encoding is for"),
    ],
)
def test_what_a_duckdb_file_cannot_give_is_refused(
    stored: Path, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """Each mistake has its own sentence, and the file is never written."""
    before = stored.read_bytes()
    with pytest.raises(kind, match=message):
        ddpmi.observe(stored, **options)
    assert stored.read_bytes() == before


def test_a_missing_or_foreign_file_is_said_to_be_one(tmp_path: Path) -> None:
    """No file, and a file of another kind."""
    (tmp_path / "text.duckdb").write_text("no database")
    with pytest.raises(InputNotFound):
        ddpmi.observe(tmp_path / "none.duckdb", table="visits")
    with pytest.raises(EngineError, match="cannot be opened"):
        ddpmi.observe(tmp_path / "text.duckdb", table="visits")


@pytest.fixture(name="book")
def make_book(tmp_path: Path) -> Path:
    """A workbook with two sheets; the second has everything that people put into cells."""
    openpyxl = pytest.importorskip("openpyxl", reason="pip install openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Notes"
    sheet = book.create_sheet("Vi'sits 1")
    rows = [
        (None, "unit", "feature", "label", "minutes"),
        ("x", 7, "a", dt.date(2026, 1, 2), 2),
        (None, 7.0, "b", True, "3.5"),
        (None, 0.5, "a", "x", "ten"),
        (None, 8, dt.time(3), "x", 1),
        (None, 8, None, "x", 1),
        (None, "#N/A", "a", "x", 1, "far right"),
    ]
    for row in rows:
        sheet.append(row)
    book.save(tmp_path / "book.xlsx")
    return tmp_path / "book.xlsx"


def test_a_sheet_is_read_cell_by_cell(book: Path) -> None:
    """Whole numbers have no point, days are days, and what is no key gives no row."""
    found = adopted(ddpmi.observe(book, table="Vi'sits 1", value="minutes"))
    assert sorted(found) == [
        ("0.5", "a", "x", None),
        ("7", "a", "2026-01-02", "2.0"),
        ("7", "b", "true", "3.5"),
    ] or {row[:3] for row in found} == {
        ("0.5", "a", "x"),
        ("7", "a", "2026-01-02"),
        ("7", "b", "true"),
        ("#N/A", "a", "x"),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "2 sheets: 'Notes'"),
        ({"table": "Nodes"}, "no sheet 'Nodes'"),
        ({"table": "Notes"}, "first row of the sheet"),
        ({"query": "SELECT 1"}, "takes no query"),
    ],
)
def test_what_a_workbook_cannot_give_is_refused(book: Path, options: dict[str, Any], message: str) -> None:
    """Each mistake has its own sentence."""
    with pytest.raises(InputError, match=message):
        ddpmi.observe(book, **options)


@pytest.mark.parametrize("end", ["txt", "xls", "sav", "dta"])
def test_other_files_get_a_hint(tmp_path: Path, end: str) -> None:
    """A file of a known other kind says how to convert it."""
    (tmp_path / f"visits.{end}").write_text("x")
    with pytest.raises(InputError, match=f"'.{end}' are not read"):
        ddpmi.observe(tmp_path / f"visits.{end}")


def test_addresses_of_other_databases_are_not_repeated() -> None:
    """The address may hold a password, so only its kind is said."""
    with pytest.raises(InputError, match="mysql are not opened") as caught:
        ddpmi.observe("mysql+pymysql://ann:s3cret@host/db", table="visits")
    assert "s3cret" not in str(caught.value)
