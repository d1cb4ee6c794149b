"""A closed or full stream never turns a charged release into a failure: a script would try again, and pay again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_fixtures import BUDGET, PAIRS, SRC, Place

RELEASE = ("visits.csv", *BUDGET, *PAIRS, "--ledger", "visits.ledger", "-o", "visits.release")
FULL = Path("/dev/full")


def in_a_shell(folder: Path, redirected: str, *words: str) -> int:
    """Run a command with its streams redirected by a shell, and return its exit code."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {redirected}', sys.executable, "-m", "ddpmi", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr + done.stdout
    return done.returncode


@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_release_with_closed_streams_exits_0(place: Place, redirected: str) -> None:
    """The release is written and charged, the exit code is 0, and the ledger is whole."""
    if "full" in redirected and not FULL.exists():
        pytest.skip("this system has no /dev/full")
    assert in_a_shell(place.folder, redirected, "release", *RELEASE) == 0
    assert place.charges() == ["released"]
    assert place.run("ledger", "verify", "visits.ledger").code == 0


@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">/dev/full"])
def test_run_with_closed_streams_exits_0(place: Place, redirected: str) -> None:
    """The ranking cannot be printed, but the release and its page are written."""
    if "full" in redirected and not FULL.exists():
        pytest.skip("this system has no /dev/full")
    assert in_a_shell(place.folder, redirected, "run", *RELEASE) == 0
    assert {"visits.release", "visits.release.html"} <= place.names()


def test_a_ranking_that_cannot_be_printed_is_a_failure(place: Place) -> None:
    """Printing is all that rank does, so a full disk at stdout is an error there."""
    if not FULL.exists():
        pytest.skip("this system has no /dev/full")
    assert place.release().code == 0
    assert in_a_shell(place.folder, ">/dev/full", "rank", "visits.release") == 1
    assert in_a_shell(place.folder, ">&-", "rank", "visits.release") == 0
