"""`ddpmi ledger`: what was spent is shown, checked and carried over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpmi.cli import output
from tests.support.cli_fixtures import PAIRS, Place, refused_clearly
from tests.support.ledger_fixtures import old_ledger


def test_ledger_show(place: Place) -> None:
    """JSON has numbers for one dataset; without a name it is the default one or the only one."""
    place.release("--dataset", "visits")
    printed = json.loads(place.run("ledger", "show", "visits.ledger", "--format", "json").out)
    assert (printed["dataset"], printed["limit"]) == ("visits", {"epsilon": 4.0, "delta": 1e-5})
    entry = printed["entries"][0]
    assert (entry["state"], entry["epsilon"], entry["delta"]) == ("released", 1.0, 1e-6)
    assert printed["spent"]["epsilon"] + printed["left"]["epsilon"] == pytest.approx(4)
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
    monkeypatch.setattr(output, "_width", lambda: 80)
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


def test_ledger_upgrade(place: Place) -> None:
    """A ledger of an older version is refused with the command that helps; after it, everything works."""
    file = place.folder / "old.ledger"
    old_ledger(file)
    ran = place.run("ledger", "show", "old.ledger")
    assert (ran.code, refused_clearly(ran), "ddpmi ledger upgrade old.ledger" in ran.err) == (1, True, True)
    ran = place.run("ledger", "upgrade", "old.ledger")
    assert (ran.code, "now has schema 3, it had 1" in ran.err) == (0, True)
    assert "already" in place.run("ledger", "upgrade", "old.ledger").err
    assert place.run("ledger", "verify", "old.ledger").code == 0
    ran = place.run("ledger", "upgrade", "visits.csv")
    assert (ran.code, refused_clearly(ran)) == (1, True)


def test_a_ledger_for_named_datasets(place: Place) -> None:
    """Another dataset is not a new budget, and a release above the largest epsilon is refused; neither is charged."""
    made = place.run(
        *("ledger", "create", "two.ledger", "--epsilon", "4", "--delta", "1e-5"),
        *("--datasets", "visits,orders", "--max-epsilon", "1"),
    )
    assert made.code == 0, made.err
    usual = ("visits.csv", "--pairs", "2", "--delta", "1e-6", "--ledger", "two.ledger", "-o", "out")
    ran = place.run("release", *usual, "--epsilon", "1", "--dataset", "mine2")
    assert (ran.code, "does not accept dataset 'mine2'" in ran.err, "Hint:" in ran.err) == (2, True, True), ran.err
    ran = place.run("release", *usual, "--epsilon", "2", "--dataset", "visits")
    assert (ran.code, "at most epsilon=1" in ran.err) == (3, True), ran.err
    assert "No release was charged yet." in place.run("ledger", "show", "two.ledger").out
    ran = place.run("release", *usual, "--epsilon", "1", "--dataset", "visits", "--who", "Ada", "--why", "board")
    assert ran.code == 0, ran.err
    entry = json.loads(place.run("ledger", "show", "two.ledger", "--format", "json").out)["entries"][0]
    assert (entry["who"], entry["why"]) == ("Ada", "board")
    events = json.loads(place.run("ledger", "export", "two.ledger").out)
    rows = [event["row"] for event in events if event["kind"] == "charged"]
    assert [(row["who"], row["why"]) for row in rows] == [("Ada", "board")]


def test_ledger_plan(place: Place) -> None:
    """As many releases as were planned fit, at the size that was printed, and one more does not."""
    printed = place.run("ledger", "plan", "visits.ledger", "--releases", "3", "--mechanism", "gaussian")
    assert (printed.code, "Each of 3 further releases" in printed.out) == (0, True), printed.err
    found = json.loads(place.run("ledger", "plan", "visits.ledger", "--releases", "3", "--format", "json").out)
    size = ("--epsilon", str(found["epsilon"]["gaussian"]), "--delta", str(found["delta"]), "--mechanism", "gaussian")
    for number, code in enumerate((0, 0, 0, 3)):
        ran = place.run("release", "visits.csv", *PAIRS, *size, *place.paid(f"r{number}"))
        assert ran.code == code, ran.err
    ran = place.run("ledger", "plan", "visits.ledger", "--releases", "0")
    assert (ran.code, refused_clearly(ran)) == (2, True)


def test_an_older_ledger_is_noticed(place: Place) -> None:
    """The file beside the ledger notices an older copy; without it a kept head does, named by an option or ddpmi.toml."""
    older = Path("visits.ledger").read_bytes()
    assert place.release().code == 0
    head = place.run("ledger", "head", "visits.ledger").out.strip()
    Path("visits.ledger").write_bytes(older)
    for words in (("show",), ("verify",)):
        ran = place.run("ledger", *words, "visits.ledger")
        assert (ran.code, "older copy" in ran.err, "newest copy" in ran.err) == (1, True, True), ran.err
    Path("visits.ledger.head").unlink()
    assert place.run("ledger", "verify", "visits.ledger").code == 0
    ran = place.run("ledger", "verify", "visits.ledger", "--expect-head", head)
    assert (ran.code, "does not contain event" in ran.err) == (1, True), ran.err
    Path("ddpmi.toml").write_text(f'[ledger]\nfile = "visits.ledger"\nexpect_head = "{head}"\n')
    ran = place.release(output="again")
    assert (ran.code, "does not contain event" in ran.err, Path("again").exists()) == (1, True, False), ran.err
    Path("ddpmi.toml").write_text("[ledger]\nexpected = 3\n")
    ran = place.run("ledger", "show", "visits.ledger")
    assert (ran.code, refused_clearly(ran)) == (2, True)
