"""Ctrl-C at moments in which libraries would print a traceback, or report an error of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ddpmi.cli import interrupts
from ddpmi.ledger.ledger import Ledger
from tests.support.cli_fixtures import SRC, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


@pytest.fixture(autouse=True)
def _ctrl_c_works() -> Iterator[None]:
    """Restore Ctrl-C, which shells switch off for programs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Presses Ctrl-C when a module is first imported.
PRESSED_AT_IMPORT = """import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Press:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
from ddpmi.cli import main
sys.exit(main())"""


@pytest.mark.parametrize(
    "name", ["cyclopts", "attr", "ddpmi.cli.commands.rank", "ddpmi.cli.options", "ddpmi.planning.plan", "duckdb"]
)
def test_ctrl_c_while_modules_are_loaded(place: Place, name: str) -> None:
    """Ctrl-C at any import ends with exit 130 and one sentence, and charges nothing."""
    words = (
        "release",
        "visits.csv",
        "--epsilon",
        "1",
        "--delta",
        "1e-7",
        "--pairs",
        "5",
        "--ledger",
        "visits.ledger",
        "-o",
        "a.release",
    )
    ran = subprocess.run(
        [sys.executable, "-c", PRESSED_AT_IMPORT.format(name=name), *words],
        cwd=place.folder,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (130, ""), ran.stderr
    assert ran.stderr.startswith("Error: Interrupted.\n")
    assert "Traceback" not in ran.stderr
    assert place.charges() == []


@pytest.mark.parametrize("kind", [RuntimeError, AttributeError, SystemError])
def test_an_error_that_a_library_makes_of_ctrl_c(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """An error of a library after Ctrl-C counts as Ctrl-C: exit 130, not an internal error."""

    def swallowed(*_: object, **__: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        raise kind("the library's own words") from None

    monkeypatch.setattr(Ledger, "charge_many", swallowed)
    ran = place.release()
    assert (ran.code, ran.out) == (130, "")
    assert "Interrupted." in ran.err
    assert "internal error" not in ran.err


def test_a_command_after_ctrl_c_starts_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C of one command does not count for errors of the next one in the same process."""
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "charge_many", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        assert place.release().code == 130
    assert place.run("ledger", "show", "no.ledger").code == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_ring_of_errors_is_walked_once() -> None:
    """Errors that caused each other are not followed for ever."""
    first, second = ValueError(), ValueError()
    first.__context__, second.__context__ = second, first
    assert not interrupts.was_interrupted(first)
