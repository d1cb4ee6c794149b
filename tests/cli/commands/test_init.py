"""`ddpmi init` asks, or takes options, and writes what later commands need."""

from __future__ import annotations

import io

import pytest

from ddpmi.cli.settings import SETTINGS, read_settings
from ddpmi.ledger.ledger import Ledger
from tests.support.cli_fixtures import Place, refused_clearly

HEAD = "who,what,where"
WORDS = ("--unit", "who", "--feature", "what", "--label", "where")


class Terminal(io.StringIO):
    """Answers that are typed."""

    def isatty(self) -> bool:
        """Say that somebody is there."""
        return True


@pytest.fixture
def empty(place: Place) -> Place:
    """Keep the data of a place, and take its ledger away."""
    for name in ("visits.ledger", "visits.ledger.head"):
        (place.folder / name).unlink(missing_ok=True)
    place.write("odd.csv", [("a", "b", "c")], head=HEAD)
    return place


def test_options_are_enough_for_scripts(empty: Place) -> None:
    """Nothing is asked; the file and the ledger are written, and the next command is named and works."""
    ran = empty.run("init", "visits.csv", "--epsilon", "4")
    assert (ran.code, "ddpmi run --epsilon 1" in ran.err) == (0, True)
    found = read_settings()
    assert (found.files, found.ledger) == (("visits.csv",), "visits.ledger")
    assert found.columns == {"unit": "unit", "feature": "feature", "label": "label"}
    assert float(Ledger("visits.ledger").limit.epsilon) == 4
    assert empty.run("run", "--epsilon", "1").code == 0


def test_questions_are_asked_on_a_terminal(empty: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong name is asked again with what it looks like; Enter takes what is offered; a value needs a clip."""
    empty.write("odd.csv", [("a", "b", "c", 3)], head=f"{HEAD},n")
    monkeypatch.setattr("sys.stdin", Terminal("woh\nwho\nwhat\nwhere\nn\n100\n\n"))
    ran = empty.run("init", "odd.csv")
    assert (ran.code, "Did you mean 'who'?" in ran.err) == (0, True)
    found = read_settings()
    assert (found.columns["value"], found.clip, found.ledger) == ("n", "100", "odd.ledger")
    assert float(Ledger("odd.ledger").limit.epsilon) == 4


def test_answers_that_end_write_nothing(empty: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the terminal is closed in between there is no file and no ledger."""
    monkeypatch.setattr("sys.stdin", Terminal("who\nwhat\n"))
    before = empty.names()
    ran = empty.run("init", "odd.csv")
    assert (ran.code, refused_clearly(ran), empty.names()) == (2, True, before)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("odd.csv",), "'who', 'what', 'where'"),
        (("odd.csv", "--unit", "woh", "--feature", "what", "--label", "where"), "Did you mean 'who'?"),
        (("odd.csv", *WORDS), "--epsilon is missing"),
        (("odd.csv", *WORDS, "--value", "who"), "--clip is missing"),
        (("odd.csv", *WORDS, "--epsilon", "0"), "epsilon"),
        (("nowhere.csv",), "nowhere.csv"),
        (("odd.csv", *WORDS[:-1], ""), "--label is empty"),
    ],
)
def test_what_is_missing_is_named(empty: Place, words: tuple[str, ...], said: str) -> None:
    """Without a terminal the error lists the columns or the option, and nothing is written."""
    before = empty.names()
    ran = empty.run("init", *words)
    assert (ran.code, refused_clearly(ran), empty.names()) == (2, True, before)
    assert said in ran.err


def test_a_second_ledger_is_not_made(place: Place) -> None:
    """The ledger of the folder is used, because a second one would be a second budget."""
    place.write("odd.csv", [("a", "b", "c")], head=HEAD)
    ran = place.run("init", "odd.csv", *WORDS)
    assert (ran.code, read_settings().ledger, "second budget" in ran.err) == (0, "visits.ledger", True)
    assert "odd.ledger" not in place.names()


def test_settings_are_not_overwritten(place: Place) -> None:
    """A file that is there stays."""
    (place.folder / SETTINGS).write_text("[data]\n")
    ran = place.run("init", "visits.csv")
    assert (ran.code, refused_clearly(ran), (place.folder / SETTINGS).read_text()) == (2, True, "[data]\n")
