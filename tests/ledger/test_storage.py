"""A ledger file guards itself, and what cannot be trusted is refused with advice."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddpmi.errors import BudgetExceeded, InputError, LedgerError
from ddpmi.ledger import ledger as ledger_module
from ddpmi.ledger import storage
from ddpmi.ledger.entries import Terms
from ddpmi.ledger.ledger import Charge, Ledger, upgrade_ledger
from ddpmi.ledger.storage import APPLICATION_ID, SCHEMA_VERSION, chained, schema, upgrade
from ddpmi.privacy.budget import Budget
from tests.support.ledger_fixtures import edit, laplace, old_ledger

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET rho = 0",
        "UPDATE limits SET epsilon = epsilon * 2",
        "UPDATE events SET time = ''",
        "DELETE FROM charges",
        "DELETE FROM limits",
        "DELETE FROM events",
        "REPLACE INTO limits VALUES (1, '', 1, 1, 1, NULL, NULL)",
        "REPLACE INTO charges SELECT id, 'x', dataset, mechanism, 0, 0, 0, 1, 0, '', '', '', '', '', '' FROM charges",
        "REPLACE INTO charges SELECT 2, release_id, dataset, '', 0, 0, 0, 1, 0, '', '', '', '', '', '' FROM charges",
        "INSERT INTO charges VALUES (2, 'b', 'default', '', 900000000000, 0, 500000000001, 1, 0, '', '', '', '', '', '')",
        "INSERT INTO charges VALUES (2, 'b', 'default', '', NULL, 9000000000000000, 0, 1, 0, '', '', '', '', '', '')",
        "INSERT INTO charges VALUES (2, 'b', 'default', '', 3600000000000, 900000000000000, 0, 1,0,'','','','','','')",
        "INSERT INTO charges VALUES (2, 'b', 'default', '', -1, -1, 0, 1, 0, '', '', '', '', '', '')",
        "INSERT INTO charges VALUES (2, 'b', 'default', '', 0.5, 0, 0, 1, 0, '', '', '', '', '', '')",
        "INSERT INTO events VALUES (9, 'released', 1, '', '', NULL)",
        "INSERT INTO events VALUES (3, 'created', NULL, '', '', NULL)",
        "INSERT INTO events VALUES (3, 'charged', 1, '', '', NULL)",
        "INSERT INTO events VALUES (3, 'refunded', 1, '', '', NULL)",
        "INSERT INTO events VALUES (3, 'abandoned', 1, '', '', 'digest')",
        "INSERT INTO charges VALUES (2, 'b', 'default', '', 0, 0, 0, 1, 0, '', '', '', '', NULL, '')",
    ],
)
def test_the_file_guards_itself(path: Path, statement: str) -> None:
    """Even plain SQL cannot edit, remove, replace, reorder or overspend."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    ledger.charge_many([laplace("a", "0.5")])
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    Ledger(path).verify()


@pytest.mark.parametrize(
    "statements",
    [
        ("UPDATE charges SET epsilon = 1 WHERE id = 1",),
        ("UPDATE charges SET dataset = 'other' WHERE id = 2",),
        ("UPDATE limits SET epsilon = epsilon * 2",),
        ("UPDATE limits SET rho = rho + 1",),
        ("UPDATE events SET kind = 'abandoned', receipt_digest = NULL WHERE kind = 'released'",),
        ("UPDATE events SET time = '' WHERE seq = 2",),
        ("DELETE FROM events WHERE seq = 3",),
        ("DELETE FROM events WHERE seq = 2", "DELETE FROM charges WHERE id = 1"),
        ("DELETE FROM events WHERE seq >= 3", "DELETE FROM charges WHERE id = 1"),
        ("DELETE FROM charges WHERE id = 2",),
        ("DELETE FROM events",),
        ("DELETE FROM limits",),
        ("UPDATE charges SET why = 'else' WHERE id = 1",),
        ("UPDATE charges SET who = folder, folder = who WHERE id = 1",),
        ("UPDATE charges SET folder = NULL, who = NULL, why = NULL WHERE id = 1",),
        ("UPDATE events SET receipt_digest = NULL WHERE kind = 'released'",),
        (f"UPDATE events SET receipt_digest = '{'b' * 64}' WHERE kind = 'released'",),
        ("UPDATE limits SET datasets = NULL",),
        ("UPDATE limits SET max_epsilon = NULL",),
        ("UPDATE limits SET max_epsilon = 2 * max_epsilon",),
        ("INSERT INTO charges VALUES (3, 'c', 'default', '', 0, 0, 0, 1, 0, '', '', '', '', '', '')",),
    ],
)
def test_an_edited_file_is_refused(path: Path, statements: tuple[str, ...]) -> None:
    """Whoever removes the guards, edits and puts them back breaks the chain."""
    ledger = Ledger(path, limit=Budget(4, 1e-6), datasets=["default"], max_epsilon=1)
    ledger.charge_many([replace(laplace("a", "0.5"), who="ann"), laplace("b", "0.5")])
    ledger.mark("a", "released", receipt_digest="a" * 64)
    edit(path, *statements)
    with pytest.raises(LedgerError, match="damaged") as caught:
        Ledger(path)
    assert "backup" in str(caught.value.hint)
    with pytest.raises(LedgerError, match="damaged"):
        ledger.verify()


def forge(path: Path, charge: Charge, number: int, step: int) -> None:
    """Add a charge whose hash fits, guards removed and put back."""
    with closing(sqlite3.connect(path)) as connection:
        seq, previous = connection.execute("SELECT max(seq), hash FROM events").fetchone()
    row = charge.row(number)
    event = (seq + step, "charged", number, "now")
    values = (*event, chained(previous, *event, *row))
    edit(
        path,
        f"INSERT INTO charges VALUES {row}",
        f"INSERT INTO events (seq, kind, charge, time, hash) VALUES {values}",
    )


@pytest.mark.parametrize(
    ("epsilon", "number", "step", "message"),
    [(3, 2, 1, "more than its limit"), (1, 3, 1, "moved"), (1, 2, 2, "moved")],
)
def test_a_forged_chain_is_refused(path: Path, epsilon: int, number: int, step: int, message: str) -> None:
    """Rows whose hashes fit are still counted and added up."""
    Ledger(path, limit=Budget(4)).charge_many([laplace("a", 2)])
    forge(path, laplace("b", epsilon), number, step)
    with pytest.raises(LedgerError, match=message):
        Ledger(path)


def truncated(path: Path) -> None:
    """Cut the file in its second half."""
    os.truncate(path, path.stat().st_size // 2)


def scribbled(path: Path) -> None:
    """Overwrite every page after the first."""
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


def unguarded(path: Path) -> None:
    """Drop one guard."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER within_limit")


def pragma(text: str) -> Callable[[Path], None]:
    """Set one pragma."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA {text}")

    return change


def foreign_database(path: Path) -> None:
    """Replace it by another application's database."""
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE charges (id)")


def pretender(path: Path) -> None:
    """Replace it by a database that has the right number and no tables."""
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def hollow(path: Path) -> None:
    """Replace it by a ledger without any row."""
    pretender(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema())


def folder(path: Path) -> None:
    """Replace it by a folder."""
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncated, "damaged"),
        (scribbled, "damaged"),
        (unguarded, "guards were changed"),
        (pragma("user_version = 4"), "schema 4"),
        (pragma("user_version = 0"), "schema 0"),
        (pragma("application_id = 7"), "not a ddpmi ledger"),
        (lambda path: path.write_bytes(b""), "not a ddpmi ledger"),
        (lambda path: path.write_text("unit,feature,label\n" * 999), "not a ddpmi ledger"),
        (lambda path: os.truncate(path, 50), "damaged"),
        (foreign_database, "not a ddpmi ledger"),
        (pretender, "guards were changed"),
        (hollow, "limit is missing|in its place"),
        (folder, "not a file"),
        (lambda path: path.unlink(), "does not exist"),
    ],
)
def test_a_bad_file_is_refused_by_every_operation(path: Path, spoil: Callable[[Path], Any], message: str) -> None:
    """Opening, charging, reading and creating refuse it with a LedgerError that has a hint."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    ledger.charge_many([laplace(str(number), "0.01") for number in range(200)])
    spoil(path)
    for operation in (
        lambda: Ledger(path),
        ledger.verify,
        lambda: ledger.charge_many([laplace("new", "0.01")]),
        lambda: ledger.mark("0", "released"),
        ledger.status,
        ledger.export,
    ):
        with pytest.raises(LedgerError, match=message) as caught:
            operation()
        assert caught.value.hint
        assert caught.value.__cause__ is None
    if path.exists():
        with pytest.raises(LedgerError, match=message):
            Ledger(path, limit=Budget(4, 1e-6))


def test_every_flipped_byte_of_a_row_is_noticed(path: Path) -> None:
    """No single changed byte in the table of charges opens as a good ledger."""
    Ledger(path, limit=Budget(4, 1e-6)).charge_many([laplace("release-a", "0.5"), laplace("release-b", "0.5")])
    good = path.read_bytes()
    for name in (b"release-a", b"release-b"):
        place = good.index(name)
        for offset in range(place - 8, place + len(name) + 40):
            path.write_bytes(good[:offset] + bytes([good[offset] ^ 1]) + good[offset + 1 :])
            with pytest.raises(LedgerError):
                Ledger(path).verify()


def test_a_read_only_file_can_be_read_but_not_charged(path: Path) -> None:
    """An auditor may look, and a release is refused before it starts."""
    ledger = Ledger(path, limit=Budget(1))
    path.chmod(0o400)
    assert Ledger(path).status().left.epsilon == 1
    for operation in (lambda: ledger.charge_many([laplace("a")]), lambda: ledger.mark("a", "released")):
        with pytest.raises(LedgerError, match="read-only"):
            operation()


def test_another_ledger_in_the_same_place_is_refused(path: Path) -> None:
    """Swapping the file under an open ledger does not bring fresh budget."""
    ledger = Ledger(path, limit=Budget(1))
    fresh = path.parent / "fresh.ledger"
    Ledger(fresh, limit=Budget(1))
    shutil.move(fresh, path)
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.charge_many([laplace("a")])


def test_an_older_copy_of_the_same_ledger_is_refused(path: Path) -> None:
    """A process that saw a charge does not accept a file without it."""
    ledger = Ledger(path, limit=Budget(1))
    older = path.parent / "older.ledger"
    shutil.copy(path, older)
    ledger.charge_many([laplace("a", 1)])
    shutil.move(older, path)
    with pytest.raises(LedgerError, match="older copy"):
        ledger.charge_many([laplace("b", 1)])


def test_a_failed_commit_is_not_remembered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge that could not be committed leaves the ledger usable."""
    ledger = Ledger(path, limit=Budget(1))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        monkeypatch.setattr(storage, "_BUSY_SECONDS", 0)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM limits").fetchall()
        with pytest.raises(LedgerError, match="in use"):
            ledger.charge_many([laplace("a", 1)])
    ledger.charge_many([laplace("a", 1)])
    assert [entry.release_id for entry in Ledger(path).status().entries] == ["a"]


def test_a_busy_ledger_is_an_error_that_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting ends with advice, and nothing is charged."""
    monkeypatch.setattr(storage, "_BUSY_SECONDS", 0)
    ledger = Ledger(path, limit=Budget(1))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="in use by another process"):
            ledger.charge_many([laplace("a")])
    assert ledger.find("a") is None


def test_a_full_disk_charges_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When SQLite cannot write, the charge fails as a whole."""
    ledger = Ledger(path, limit=Budget(100))
    connect = storage._connect

    def small(target: Path) -> sqlite3.Connection:
        connection = connect(target)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(storage, "_connect", small)
    with pytest.raises(LedgerError, match="full"):
        ledger.charge_many([laplace(str(number), "0.01") for number in range(500)])
    monkeypatch.undo()
    assert ledger.status().entries == ()
    ledger.verify()


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without strict tables there is no ledger."""
    ledger = Ledger(path, limit=Budget(1))
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 0))
    with pytest.raises(LedgerError, match="SQLite 3"):
        ledger.status()


def test_the_file_keeps_a_rollback_journal(path: Path) -> None:
    """A file that was switched to WAL is switched back."""
    ledger = Ledger(path, limit=Budget(1))
    pragma("journal_mode = WAL")(path)
    ledger.charge_many([laplace("a")])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_ledger_is_upgraded_and_forgets_nothing(path: Path, version: int) -> None:
    """It is refused with the command to run; upgraded, its rows, hashes and sums are what they were, and guarded."""
    history = old_ledger(path, version)
    with pytest.raises(LedgerError, match=f"schema {version}") as caught:
        Ledger(path)
    assert caught.value.hint == f"ddpmi ledger upgrade {path}"
    assert upgrade_ledger(path) == (version, SCHEMA_VERSION)
    ledger = Ledger(path)
    ledger.verify()
    assert ledger.export() == history
    assert [entry.state for entry in ledger.status().entries] == ["released", "abandoned"]
    assert [(entry.folder, entry.who, entry.why) for entry in ledger.status().entries] == [("", "", "")] * 2
    assert (ledger.terms, ledger.status().entries[0].receipt_digest) == (Terms(), None)
    assert ledger.mark("a", "expunged").state == "expunged"
    with pytest.raises(BudgetExceeded):
        ledger.charge_many([laplace("d", 4)])
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="only grows"):
        connection.execute("DELETE FROM events")
    assert upgrade_ledger(path) == (SCHEMA_VERSION, SCHEMA_VERSION)
    assert Ledger(path).export()[:-1] == history
    ledger.charge_many([replace(laplace("e", "0.01"), who="ann", why="weekly", folder="/e.release")])
    assert Ledger(path).export()[-1]["row"]["why"] == "weekly"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("statement", [0, 4, 6, 9, -1])
def test_an_upgrade_that_fails_leaves_the_ledger_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, statement: int, version: int
) -> None:
    """Wherever it stops, not a byte of the history has changed, and the next try works."""
    history = old_ledger(path, version)
    before = path.read_bytes()
    broken = [*upgrade(version)]
    broken[statement] = "SELECT * FROM nowhere"
    monkeypatch.setattr(ledger_module, "upgrade", lambda asked: broken if asked == version else upgrade(asked))
    with pytest.raises(LedgerError):
        upgrade_ledger(path)
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert upgrade_ledger(path) == (version, SCHEMA_VERSION)
    assert Ledger(path).export() == history


@pytest.mark.parametrize("version", [1, 2])
def test_an_upgrade_that_leaves_a_guard_out_is_undone(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The upgraded file must be what a new one would be."""
    old_ledger(path, version)
    monkeypatch.setattr(
        ledger_module, "upgrade", lambda asked: [line for line in upgrade(asked) if "charges_no_delete" not in line]
    )
    with pytest.raises(LedgerError, match=r"cannot be upgraded|could not be used"):
        upgrade_ledger(path)
    with pytest.raises(LedgerError, match=f"schema {version}"):
        Ledger(path)


def test_an_entry_holds_who_why_where_and_the_receipt(path: Path) -> None:
    """They come back as they were given, in the entry, in the JSON and in the export; a receipt is recorded once."""
    ledger = Ledger(path, limit=Budget(4))
    ledger.charge_many([replace(laplace("a"), who="ann", why="weekly report", folder="/data/a.release")])
    assert ledger.mark("a", "released", receipt_digest="c" * 64).receipt_digest == "c" * 64
    entry = Ledger(path).find("a")
    assert entry is not None
    kept = {"who": "ann", "why": "weekly report", "folder": "/data/a.release", "receipt_digest": "c" * 64}
    assert {name: entry.to_dict()[name] for name in kept} == kept
    assert kept.items() <= {key: value for event in ledger.export() for key, value in event["row"].items()}.items()
    assert ledger.mark("a", "released", receipt_digest="c" * 64) == ledger.mark("a", "released") == entry
    with pytest.raises(LedgerError, match="already released"):
        ledger.mark("a", "released", receipt_digest="d" * 64)
    for state, digest in (("released", "short"), ("expunged", "c" * 64), ("released", 7)):
        with pytest.raises(InputError, match="sha256"):
            ledger.mark("a", state, receipt_digest=digest)
    assert ledger.mark("a", "expunged").receipt_digest == "c" * 64


def test_an_edited_older_ledger_is_not_upgraded(path: Path) -> None:
    """An upgrade does not launder a history that was changed."""
    old_ledger(path)
    edit(path, "UPDATE charges SET rho = 0 WHERE id = 1")
    with pytest.raises(LedgerError, match="edited"):
        upgrade_ledger(path)


def test_only_what_was_not_given_up_is_expunged(path: Path) -> None:
    """A published release, or one whose publication a crash left unrecorded, may be removed; once, and for good."""
    ledger = Ledger(path, limit=Budget(4))
    ledger.charge_many([laplace("published"), laplace("unknown"), laplace("given up")])
    ledger.mark("published", "released")
    ledger.mark("given up", "abandoned")
    spent = ledger.status().spent
    for name in ("published", "unknown", "unknown"):
        assert ledger.mark(name, "expunged").state == "expunged"
    for name, state in (("given up", "expunged"), ("published", "released"), ("unknown", "abandoned")):
        with pytest.raises(LedgerError, match="already"):
            ledger.mark(name, state)
    with closing(sqlite3.connect(path)) as connection:
        for charge, kind in ((3, "expunged"), (1, "expunged"), (1, "released")):
            row = f"(SELECT max(seq) + 1, '{kind}', {charge}, '', '', NULL FROM events)"
            with pytest.raises(sqlite3.IntegrityError, match="in order"):
                connection.execute(f"INSERT INTO events SELECT * FROM {row}")
    ledger.verify()
    assert ledger.status().spent == spent
