"""The command line as a process: streams, bars, pipes, terminals and unexpected errors."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cli_fixtures import (
    CANARY,
    SRC,
    Place,
    in_its_own_process,
    told_clearly,
)
from ddpmi import cli_show, cli_steps


def test_unexpected_errors_show_no_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error nobody thought of is named by its type alone; DDPMI_DEBUG=1 shows the rest."""

    def fails(*_: object) -> None:
        raise TypeError(CANARY)

    monkeypatch.setattr(cli_steps, "load_release", fails)
    ran = place.run("rank", "visits.release")
    assert (ran.code, CANARY in ran.err) == (1, False)
    assert "internal error: TypeError" in ran.err
    monkeypatch.setenv("DDPMI_DEBUG", "1")
    assert CANARY in place.run("rank", "visits.release").err


def test_errors_of_the_disk_are_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the operating system is told in its words."""

    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "visits.release")

    monkeypatch.setattr(cli_steps, "load_release", fails)
    ran = place.run("rank", "visits.release")
    assert (ran.code, told_clearly(ran)) == (1, True)
    assert "Permission denied: visits.release" in ran.err


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("Bounds(pairs=50, clip=100), or --clip 100", "--pairs 50 --clip 100, or --clip 100"),
        ("shares={'pairs': 0.7, 'total': 0.3}", "--shares pairs=0.7,total=0.3"),
        ("--shares pairs=0.7,labels=0.3", "--shares pairs=0.7,labels=0.3"),
        ("pass them as unit=, feature=", "pass them as --unit, --feature"),
        ("release_id='a-1'", "--release-id a-1"),
        ("memory_limit='4GB'", "--conf memory_limit=4GB"),
        ("mkdir -p out", "mkdir -p out"),
    ],
)
def test_hints_speak_in_options(hint: str, expected: str) -> None:
    """Hints of the library are translated into what can be typed here."""
    assert cli_show.in_options(hint) == expected


def test_a_bar_appears_only_where_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress goes to a terminal after a while, with stage and percent, and to nothing else."""
    for terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(cli_show, "_PATIENCE", 0.0)
        monkeypatch.setenv("TERM", "xterm")
        with cli_show.Progress() as progress:
            progress("sum pairs", 0.25)
            progress("draw noise", None)
        assert ("sum pairs" in stream.getvalue(), "draw noise" in stream.getvalue()) == (terminal, terminal)


def test_a_short_run_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends at once prints no bar."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(cli_show, "_PATIENCE", 1e9)
    with cli_show.Progress() as progress:
        progress("sum pairs", 0.25)
    assert stream.getvalue() == ""


def test_work_that_cannot_say_how_far_it_is_shows_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar without a percentage appears while the work goes on."""
    stream, shown = io.StringIO(), threading.Event()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(cli_show, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    bar = cli_show.Progress.__call__
    monkeypatch.setattr(cli_show.Progress, "__call__", lambda self, *told: (bar(self, *told), shown.set()))
    with cli_show.working("ranking"):
        assert shown.wait(60)
    assert "ranking" in stream.getvalue()


def test_help_is_light() -> None:
    """Help and version load no engine, no frames and no numbers."""
    heavy = ["duckdb", "pyarrow", "numpy", "pandas", "polars", "pyspark", "cryptography"]
    program = f"""import sys
from ddpmi.cli import main
main(sys.argv[1:])
print("LOADED", *sorted(set({heavy}) & set(sys.modules)), file=sys.stderr)"""
    pages = (["--help"], ["release", "--help"], ["ledger", "--help"], ["rank", "--help"], ["compare", "--help"])
    for words in (*pages, ["--version"]):
        ran = in_its_own_process(Path.cwd(), *words, python=("-c", program))
        assert (ran.code, ran.err.split()) == (0, ["LOADED"]), words


def test_python_m_ddpmi(place: Place) -> None:
    """The package runs as a module, with the same exit codes."""
    from importlib.metadata import version

    ran = in_its_own_process(place.folder, "--version")
    assert (ran.code, ran.out.strip()) == (0, version("ddpmi"))
    assert in_its_own_process(place.folder, "rank", "nowhere").code == 2


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_closed_pipe_is_silent(ranked: Place) -> None:
    """Whoever reads only the first lines sees no complaint."""
    command = [sys.executable, "-m", "ddpmi", "ledger", "export", "visits.ledger"]
    # A pipe whose reader has gone before the first byte.
    reader, writer = os.pipe()
    os.close(reader)
    env = os.environ | {"PYTHONPATH": str(SRC)}
    for words in (command, [*command[:3], "rank", "names", "--format", "csv"], [*command[:3], "--help"]):
        done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, env=env, check=False)
        told = [line for line in done.stderr.decode().splitlines() if not line.startswith("NOT PRIVATE")]
        assert (done.returncode, told) == (0, [])
    os.close(writer)


def test_a_terminal_without_utf8(ranked: Place) -> None:
    """Names that the terminal cannot show are escaped, and lines are drawn in ASCII."""
    ranked.write("accent.csv", [(unit, "caf\u00e9 \u65e5\u672c", "x") for unit in range(9)])
    assert ranked.run("exact", "accent.csv", "-o", "accent").code == 0
    program = "import sys; sys.stdout.reconfigure(encoding='ascii'); from ddpmi.cli import main; sys.exit(main())"
    ran = in_its_own_process(ranked.folder, "rank", "accent", python=("-c", program))
    assert (ran.code, r"caf\xe9 \u65e5\u672c" in ran.out, ran.out.isascii()) == (0, True, True)
