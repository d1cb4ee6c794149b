"""`--log json`: every line on stderr is one event, and none holds a key of the data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cli_fixtures import visits

if TYPE_CHECKING:
    from tests.support.cli_fixtures import Place, Ran

RUN = ["release", "seen.csv", "--unit", "unit", "--feature", "feature", "--label", "place", "--ledger", "visits.ledger"]
RUN += ["--epsilon", "1", "--delta", "1e-6", "--pairs", "3", "-o", "out", "--release-id", "week-1"]


def events(ran: Ran) -> list[dict[str, Any]]:
    """Return the events; every line must be one."""
    return [json.loads(line) for line in ran.err.splitlines()]


@pytest.mark.parametrize("option", [["--log", "json"], ["--log=json"]])
def test_a_release_is_logged(seen: Place, option: list[str]) -> None:
    """Stages with their seconds, the charge, how it ended, and the exit code; no key of the data."""
    ran = seen.run(*option, *RUN)
    found = events(ran)
    assert (ran.code, ran.out, found[-1]["event"], found[-1]["exit_code"]) == (0, "", "end", 0)
    kinds = [event["event"] for event in found]
    assert kinds.index("charged") + 1 == kinds.index("released")
    charged = found[kinds.index("charged")]
    assert (charged["release_id"], charged["dataset"], charged["epsilon"]) == ("week-1", "default", 1.0)
    stages = [event for event in found if event["event"] == "stage"]
    assert stages
    assert all(event["seconds"] >= 0 and event["time"].endswith("+00:00") for event in found if "seconds" in event)
    keys = {str(key) for row in visits() for key in row if len(str(key)) > 3}
    assert not [key for key in keys if key in ran.err]
    again = seen.run(*RUN, *option)
    assert (again.code, "charged" in [event["event"] for event in events(again)]) == (0, False)


def test_a_failure_is_logged(seen: Place) -> None:
    """An error has its hint and says whether the ledger was charged; the exit code is the last event."""
    words = [*RUN, "--log", "json"]
    words[words.index("--epsilon") + 1] = "9"
    ran = seen.run(*words)
    error, end = events(ran)[-2:]
    assert (ran.code, error["event"], end["exit_code"]) == (3, "error", 3)
    assert error["hint"]
    missing = seen.run("--log", "json", "rank", "no.release")
    assert [event["event"] for event in events(missing)] == ["error", "end"]


def test_a_cascade_is_logged(seen: Place) -> None:
    """Each fold's charge is an event, and stdout has the tables as before."""
    ran = seen.run("cascade", "spec.toml", "--log", "json")
    kinds = [event["event"] for event in events(ran)]
    assert (ran.code, kinds.count("charged"), kinds.count("released")) == (0, 2, 2), ran.err
    assert "Fold places" in ran.out


def test_other_forms_are_refused(seen: Place) -> None:
    """Only JSON; without the option messages are for people; a word after -- is no option."""
    for words in (["--log"], ["--log", "text"], ["--log=", "rank", "x"]):
        ran = seen.run(*words)
        assert (ran.code, "--log takes json" in ran.err) == (2, True)
    assert seen.run("rank", "no.release").err.startswith("Error: ")
    assert seen.run("rank", "--", "--log").err.startswith("Error: ")
