"""Databases on the command line: --table, --query and addresses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.support.cli_fixtures import BUDGET, PAIRS, Place, refused_clearly

if TYPE_CHECKING:
    from tests.support.postgres_server import Server

ROWS = [(f"u{n}", f"f{n % 2}", f"l{n % 3 % 2}") for n in range(900)]


@pytest.fixture(name="stored")
def make_stored(place: Place) -> str:
    """A SQLite file in the place where commands run."""
    with closing(sqlite3.connect(place.folder / "visits.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE visits (unit TEXT, feature TEXT, label TEXT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", ROWS)
    return "visits.sqlite"


def test_a_sqlite_file_is_released_and_ranked(place: Place, stored: str) -> None:
    """A table needs no declaration, a query needs --row-local, and a run of it writes the report."""
    ran = place.run("run", stored, "--table", "visits", *BUDGET, *PAIRS, *place.paid("x"))
    assert ran.code == 0, ran.err
    assert (place.folder / "x.html").is_file()
    query = (stored, "--query", "SELECT * FROM visits", *BUDGET, *PAIRS)
    refused = place.run("release", *query, *place.paid("y"))
    assert (refused.code, "--row-local" in refused.err) == (2, True)
    assert place.run("release", *query, "--row-local", *place.paid("y")).code == 0


def test_a_database_without_a_table_is_refused(place: Place, stored: str) -> None:
    """The message lists the tables."""
    ran = place.run("exact", stored, "-o", "x")
    assert (ran.code, "'visits'" in ran.err, refused_clearly(ran)) == (2, True, True)


def test_postgres_is_planned_released_and_never_shown(
    place: Place, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password comes from the environment; a release, its receipt and the plan name neither it nor the address."""
    columns = zip(*ROWS, strict=True)
    postgres.fill("cli_visits", pa.table(dict(zip(("unit", "feature", "label"), columns, strict=True))))
    postgres.run("ALTER TABLE cli_visits ADD PRIMARY KEY (unit, feature, label)")
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    data = (f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres", "--table", "cli_visits")
    planned = place.run("plan", *data, "--sql", *BUDGET, *PAIRS)
    assert (planned.code, "SQL (postgres)" in planned.out, "by a unique index" in planned.out) == (0, True, True)
    ran = place.run("release", *data, *BUDGET, *PAIRS, *place.paid("x"))
    assert ran.code == 0, ran.err
    receipt = (place.folder / "x" / "receipt.json").read_text(encoding="utf-8")
    assert "by a unique index" in receipt
    assert not [text for text in (receipt, ran.out, ran.err, planned.out) if "127.0.0.1" in text]


@pytest.mark.parametrize("words", [("--table", "visits"), ("--query", "SELECT 1")])
def test_a_table_without_a_database_is_refused(place: Place, words: tuple[str, str]) -> None:
    """No command ignores --table or --query."""
    ran = place.run("plan", *words, *BUDGET, *PAIRS)
    assert (ran.code, "There is no DATA" in ran.err, refused_clearly(ran)) == (2, True, True)


def test_a_password_in_an_address_is_refused(place: Place) -> None:
    """Other users see the words of a command, so the message asks to change the password, and does not repeat it."""
    ran = place.run("release", "postgresql://ann:s3cret@host/db", "--table", "v", *BUDGET, *PAIRS, *place.paid("x"))
    assert (ran.code, "PGPASSWORD" in ran.err, "s3cret" in ran.err, refused_clearly(ran)) == (2, True, False, True)
    assert place.charges() == []


def test_the_sql_alone_is_printed_in_any_dialect(place: Place) -> None:
    """--sql prints statements and comments; a database that lacks something is refused."""
    ran = place.run("plan", "--dialect", "trino", "--sql", *BUDGET, *PAIRS)
    assert (ran.code, "does not run this on trino" in ran.out, "to_utf8" in ran.out) == (0, True, True)
    for name, message in (("mysql", "it lacks"), ("oracle", "no dialect 'oracle'")):
        ran = place.run("plan", "--dialect", name, "--sql", *BUDGET, *PAIRS)
        assert (ran.code, message in ran.err, refused_clearly(ran)) == (2, True, True)
