"""Bars appear where somebody watches, and every terminal can show the text."""

from __future__ import annotations

import io
import sys
import threading
from typing import TYPE_CHECKING

from ddpmi.cli import output
from tests.support.cli_fixtures import Place, in_its_own_process

if TYPE_CHECKING:
    import pytest


def test_a_bar_appears_only_where_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress goes to a terminal after a while, with stage and percent, and to nothing else."""
    for terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(output, "_PATIENCE", 0.0)
        monkeypatch.setenv("TERM", "xterm")
        with output.Progress() as progress:
            progress("sum pairs", 0.25)
            progress("draw noise", None)
        assert ("sum pairs" in stream.getvalue(), "draw noise" in stream.getvalue()) == (terminal, terminal)


def test_a_short_run_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that ends at once prints no bar."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(output, "_PATIENCE", 1e9)
    with output.Progress() as progress:
        progress("sum pairs", 0.25)
    assert stream.getvalue() == ""


def test_work_of_unknown_length_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar without a percentage appears while the work goes on."""
    stream, shown = io.StringIO(), threading.Event()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(output, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    bar = output.Progress.__call__
    monkeypatch.setattr(output.Progress, "__call__", lambda self, *given: (bar(self, *given), shown.set()))
    with output.working("ranking"):
        assert shown.wait(60)
    assert "ranking" in stream.getvalue()


def test_a_terminal_without_utf8(ranked: Place) -> None:
    """Names that the terminal cannot show are escaped, and lines are drawn in ASCII."""
    ranked.write("accent.csv", [(unit, "caf\u00e9 \u65e5\u672c", "x") for unit in range(9)])
    assert ranked.run("exact", "accent.csv", "-o", "accent").code == 0
    program = "import sys; sys.stdout.reconfigure(encoding='ascii'); from ddpmi.cli import main; sys.exit(main())"
    ran = in_its_own_process(ranked.folder, "rank", "accent", python=("-c", program))
    assert (ran.code, r"caf\xe9 \u65e5\u672c" in ran.out, ran.out.isascii()) == (0, True, True)
