"""Write docs/cli-reference.md from the help of every command: ``python -m tests.make_cli_reference``."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from ddpmi.cli import app

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "cli-reference.md"
HEAD = """# Command line reference

This page is written by `python -m tests.make_cli_reference` from the help of every command.

Data goes to stdout, talk to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 budget refused,
130 interrupted. An empty release is a release: it is charged and saved, with a warning and exit code 0.
"""


def commands() -> list[str]:
    """Return every command, those of a group after the group."""
    found = [""]
    for name in app:
        if not name.startswith("-"):
            inner = [f"{name} {word}" for word in app[name] if not word.startswith("-")]
            found += [name, *inner]
    return found


def help_of(command: str) -> str:
    """Return the help of one command as plain text of 100 columns."""
    page = io.StringIO()
    console = Console(file=page, width=100, color_system=None, force_terminal=False, legacy_windows=False)
    app([*command.split(), "--help"], console=console, result_action="return_value")
    return "\n".join(line.rstrip() for line in page.getvalue().strip().splitlines())


def reference() -> str:
    """Return the whole page."""
    parts = [f"## `{f'ddpmi {name}'.strip()}`\n\n```text\n{help_of(name)}\n```\n" for name in commands()]
    return "\n".join([HEAD, *parts])


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
