"""`ddpmi ledger` and `ddpmi expunge`: what was spent is shown, checked, carried over, and never given back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_fixtures import (
    Place,
    told_clearly,
)
from ddpmi import cli_show
from ledger_fixtures import old_ledger


def test_ledger_show(place: Place) -> None:
    """JSON has numbers for one dataset; without a name it is the default one or the only one."""
    place.release("--dataset", "visits")
    told = json.loads(place.run("ledger", "show", "visits.ledger", "--format", "json").out)
    assert (told["dataset"], told["limit"]) == ("visits", {"epsilon": 4.0, "delta": 1e-5})
    entry = told["entries"][0]
    assert (entry["state"], entry["epsilon"], entry["delta"]) == ("released", 1.0, 1e-6)
    assert told["spent"]["epsilon"] + told["left"]["epsilon"] == pytest.approx(4)
    place.release(output="second")
    ran = place.run("ledger", "show", "visits.ledger", "--format", "json")
    assert json.loads(ran.out)["dataset"] == "default"
    assert "'visits'" in ran.err
    unused = json.loads(place.run("ledger", "show", "visits.ledger", "--dataset", "n", "--format", "json").out)
    assert (unused["entries"], unused["spent"]) == ([], {"epsilon": 0.0, "delta": 0.0})


def test_a_space_makes_no_second_budget(place: Place) -> None:
    """A dataset that looks like another is refused with the plain name, and nothing is charged."""
    for ran in (
        place.release("--dataset", "default "),
        place.run("ledger", "show", "visits.ledger", "--dataset", " x"),
    ):
        assert (ran.code, "white space" in ran.err, "dataset=" in ran.err) == (2, True, True), ran.err
    assert "No release was charged yet." in place.run("ledger", "show", "visits.ledger").out


def test_ledger_show_table(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table names limit, spent and left, and each charge."""
    assert "No release was charged yet." in place.run("ledger", "show", "visits.ledger").out
    place.release("--release-id", "monday")
    shown = place.run("ledger", "show", "visits.ledger").out
    assert [word in shown for word in ("limit", "spent", "left", "monday", "released", "time")] == [True] * 6
    monkeypatch.setattr(cli_show, "_width", lambda: 80)
    narrow = place.run("ledger", "show", "visits.ledger").out
    assert ("monday" in narrow, max(map(len, narrow.splitlines())) <= 80) == (True, True)


def test_ledger_verify_and_export(place: Place) -> None:
    """A whole ledger verifies, and its events are JSON; an edited one fails with exit 1."""
    place.release()
    assert place.run("ledger", "verify", "visits.ledger").code == 0
    events = json.loads(place.run("ledger", "export", "visits.ledger").out)
    assert [event["kind"] for event in events] == ["created", "charged", "released"]
    whole = Path("visits.ledger").read_bytes()
    Path("visits.ledger").write_bytes(whole.replace(b"gaussian", b"gausSian"))
    ran = place.run("ledger", "verify", "visits.ledger")
    assert (ran.code, "Hint:" in ran.err) == (1, True)


def test_expunge_removes_the_folder_and_keeps_the_charge(place: Place) -> None:
    """The release is gone, its entry is not, and its id is never drawn again."""
    assert place.release("--release-id", "monday").code == 0
    ran = place.run("expunge", "visits.release")
    assert (ran.code, (place.folder / "visits.release").exists()) == (0, False)
    assert "charge stays" in ran.err
    assert place.charges() == ["released"]
    assert place.release("--release-id", "monday").code != 0
    assert place.run("expunge", "visits.release").code == 2


def test_expunge_tells_the_ledger(place: Place) -> None:
    """With the ledger at hand the removal is recorded there; another ledger is refused before anything is removed."""
    assert place.release().code == 0
    assert place.run("ledger", "create", "other.ledger", "--epsilon", "1", "--delta", "1e-6").code == 0
    ran = place.run("expunge", "visits.release", "--ledger", "other.ledger")
    assert (ran.code, told_clearly(ran), (place.folder / "visits.release").exists()) == (2, True, True)
    assert place.run("expunge", "visits.release", "--ledger", "visits.ledger").code == 0
    assert ((place.folder / "visits.release").exists(), place.charges()) == (False, ["expunged"])
    assert place.run("ledger", "verify", "visits.ledger").code == 0


def test_ledger_upgrade(place: Place) -> None:
    """A ledger of an older version is refused with the command that helps; after it, everything works."""
    file = place.folder / "old.ledger"
    old_ledger(file)
    ran = place.run("ledger", "show", "old.ledger")
    assert (ran.code, told_clearly(ran), "ddpmi ledger upgrade old.ledger" in ran.err) == (1, True, True)
    ran = place.run("ledger", "upgrade", "old.ledger")
    assert (ran.code, "now has schema 2, it had 1" in ran.err) == (0, True)
    assert "already" in place.run("ledger", "upgrade", "old.ledger").err
    assert place.run("ledger", "verify", "old.ledger").code == 0
    ran = place.run("ledger", "upgrade", "visits.csv")
    assert (ran.code, told_clearly(ran)) == (1, True)
