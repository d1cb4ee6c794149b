"""An older ledger that was put back is noticed, and an honest one never is refused."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from ddpmi.errors import InputError, LedgerError
from ddpmi.ledger import heads
from ddpmi.ledger.heads import Head, head_file, keep, kept
from ddpmi.ledger.ledger import Ledger
from ddpmi.privacy.budget import Budget
from tests.support.ledger_fixtures import laplace


def rolled_back(path: Path, *, sidecar: bool) -> tuple[str, str]:
    """Put an older copy in the place of a ledger; return the heads before and after the charge that is lost."""
    ledger = Ledger(path, limit=Budget(4))
    ledger.charge_many([laplace("a")])
    older, before = path.with_name("older"), ledger.head()
    shutil.copy(path, older)
    ledger.charge_many([laplace("b")])
    after = ledger.head()
    shutil.move(older, path)
    if not sidecar:
        head_file(path).unlink()
    return before, after


def test_a_head_is_one_short_line(path: Path) -> None:
    """It has the id, the number of the last event and 128 bits of its hash, and it changes with each event."""
    ledger = Ledger(path, limit=Budget(4))
    first = ledger.head()
    ledger.charge_many([laplace("a")])
    name, seq, prefix = ledger.head().split(":")
    events = ledger.export()
    assert (name, int(seq), prefix) == (events[0]["row"]["ledger_id"], 2, events[-1]["hash"][:32])
    assert (ledger.head() != first, len(ledger.head()) < 80, "\n" in ledger.head()) == (True, True, False)


def test_an_older_ledger_is_refused_by_the_head_that_was_kept(path: Path) -> None:
    """The copy is whole and verifies, but it does not contain the event; its own events it does contain."""
    before, after = rolled_back(path, sidecar=False)
    Ledger(path).verify()
    assert Ledger(path, expect_head=before).head() == before
    with pytest.raises(LedgerError, match="does not contain event 3") as caught:
        Ledger(path, expect_head=after)
    assert "forgets the budget that was spent since" in str(caught.value.hint)
    with pytest.raises(LedgerError, match="does not contain event 3"):
        Ledger(path).check_head(after)


def test_another_ledger_is_not_the_expected_one(path: Path) -> None:
    """A new ledger with the same limit has another id, and one that went another way has another hash."""
    before, after = rolled_back(path, sidecar=False)
    Ledger(path).charge_many([laplace("else")])
    with pytest.raises(LedgerError, match="does not contain event 3"):
        Ledger(path, expect_head=after)
    other = path.with_name("other.ledger")
    with pytest.raises(LedgerError, match="not the ledger of the expected head"):
        Ledger(other, limit=Budget(4), expect_head=before)


@pytest.mark.parametrize(
    "head", ["", "7", "x:1:y", f"{'a' * 32}:0:{'b' * 32}", f"{'a' * 32}:1:{'b' * 31}", 7, "a" * 999]
)
def test_what_is_no_head_is_refused(path: Path, head: Any) -> None:
    """A head that was cut or mistyped expects nothing, so it must not pass."""
    Ledger(path, limit=Budget(4))
    with pytest.raises(InputError, match="ddpmi ledger head"):
        Ledger(path, expect_head=head)


def test_the_file_beside_the_ledger_notices_an_older_copy(path: Path) -> None:
    """Opening is refused with what it means for the promise; without the file, knowingly removed, it opens."""
    rolled_back(path, sidecar=True)
    with pytest.raises(LedgerError, match="is an older copy") as caught:
        Ledger(path)
    hint = str(caught.value.hint)
    assert [words in hint for words in ("newest copy", "forgets the budget", "releases made since", "remove ")] == [
        True
    ] * 4
    head_file(path).unlink()
    assert [entry.release_id for entry in Ledger(path).status().entries] == ["a"]


def test_the_file_beside_the_ledger_is_as_private_as_the_ledger(path: Path) -> None:
    """It has the mode of the ledger, is written at each event, and no draft stays."""
    ledger = Ledger(path, limit=Budget(4))
    assert not head_file(path).exists()
    ledger.charge_many([laplace("a")])
    assert stat.S_IMODE(head_file(path).stat().st_mode) == 0o600
    path.chmod(0o640)
    ledger.mark("a", "released")
    assert stat.S_IMODE(head_file(path).stat().st_mode) == 0o640
    assert str(kept(path)) == ledger.head()
    assert sorted(file.name for file in path.parent.iterdir()) == ["visits.ledger", "visits.ledger.head"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"garbage", b"a" * 10**6, f"{'a' * 32}:9:{'b' * 32}".encode(), b"\0" * 90],
)
def test_a_garbled_file_beside_the_ledger_says_nothing(path: Path, content: bytes) -> None:
    """An honest ledger opens, and the next charge makes the file true again."""
    ledger = Ledger(path, limit=Budget(4))
    ledger.charge_many([laplace("a")])
    head_file(path).write_bytes(content)
    Ledger(path).charge_many([laplace("b")])
    assert str(kept(path)) == Ledger(path).head()


def test_every_flipped_byte_beside_the_ledger_says_nothing(path: Path) -> None:
    """A damaged head is not taken for the head of a ledger that was rolled back."""
    Ledger(path, limit=Budget(4)).charge_many([laplace("a")])
    good = head_file(path).read_bytes()
    for place in range(len(good)):
        head_file(path).write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        Ledger(path)


def test_a_crash_before_the_file_is_written_is_harmless(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that is older than the ledger is contained in it, also when two writers write it in the other order."""
    ledger = Ledger(path, limit=Budget(4))
    ledger.charge_many([laplace("a")])
    before = Head.read(ledger.head())
    monkeypatch.setattr("ddpmi.ledger.ledger.keep", lambda *_: None)
    ledger.charge_many([laplace("b")])
    monkeypatch.undo()
    assert len(Ledger(path).status().entries) == 2
    Ledger(path).charge_many([laplace("c")])
    keep(path, before)
    assert len(Ledger(path).status().entries) == 3


def test_a_head_that_cannot_be_written_costs_no_release(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a link or a disk that refuses leaves the charge as it is."""
    ledger = Ledger(path, limit=Budget(4))
    head_file(path).mkdir()
    ledger.charge_many([laplace("a")])
    draft = path.with_name(".visits.ledger.head.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(path)
    ledger.charge_many([laplace("b")])

    def full(*_: Any) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(heads.os, "write", full)
    ledger.charge_many([laplace("c")])
    assert len(Ledger(path).status().entries) == 3
    Ledger(path).verify()


def test_copies_and_other_ledgers_open_as_before(path: Path) -> None:
    """A copy without the file opens; a new ledger at an old place ignores the head of the one before."""
    ledger = Ledger(path, limit=Budget(4))
    ledger.charge_many([laplace("a")])
    copy = path.with_name("copy.ledger")
    shutil.copy(path, copy)
    assert len(Ledger(copy).status().entries) == 1
    path.unlink()
    assert Ledger(path, limit=Budget(1)).status().entries == ()
    os.link(copy, path.with_name("second"))
    path.with_name("link").symlink_to(copy)
    Ledger(path.with_name("link")).charge_many([laplace("b")])
    assert head_file(path.with_name("link")).name == "copy.ledger.head"


def test_a_ledger_that_was_moved_away_is_to_be_put_back(path: Path) -> None:
    """Whoever used it is not advised to make a new one; before anybody used it, the hint says how to."""
    ledger = Ledger(path, limit=Budget(4))
    ledger.charge_many([laplace("a")])
    path.rename(path.with_name("elsewhere"))
    for operation in (ledger.status, lambda: ledger.mark("a", "released"), lambda: Ledger(path)):
        with pytest.raises(LedgerError, match="does not exist any more") as caught:
            operation()
        assert ("put it back" in str(caught.value), "ledger create" in str(caught.value)) == (True, False)
    head_file(path).unlink()
    with pytest.raises(LedgerError, match="any more"):
        ledger.status()
    with pytest.raises(LedgerError, match="does not exist") as caught:
        Ledger(path)
    assert "ddpmi ledger create" in str(caught.value)


def test_the_hint_of_a_damaged_ledger_says_what_a_backup_means(path: Path) -> None:
    """Restoring forgets what was spent since, and the releases are still there."""
    Ledger(path, limit=Budget(4)).charge_many([laplace("a")])
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(LedgerError, match="damaged") as caught:
        Ledger(path)
    assert "backup; an older copy forgets the budget that was spent since" in str(caught.value.hint)
