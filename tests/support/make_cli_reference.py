"""Write docs/reference/cli.md from the help of every command: ``python -m tests.support.make_cli_reference``."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from ddpmi.cli.app import app

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"
HEAD = """# Command line reference

This page is written by `python -m tests.support.make_cli_reference` from the help of every command.

Data goes to stdout, messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 budget refused,
130 interrupted. An empty release is a release: it is charged and saved, with a warning and exit code 0.
Every command takes `--log json`. It then writes one JSON object a line to stderr instead of messages and bars:
stages, seconds, charges and the exit code. See [how to schedule releases](../how-to/schedule-releases.md).

Public lists (`--public-labels`, `--public-features`) are files. Their ending decides how they are read:

- `.csv`, `.tsv`: a head and one column. Cells may be quoted; an empty cell is refused.
- `.parquet`, `.parq`, `.pq`: one column of text or whole numbers, without NULL. Only here the empty text is a key.
- any other ending: UTF-8 text with one key per line. Lines end with LF or CRLF, and the last one may lack its end.
  Spaces, commas and quotation marks belong to the key. An empty line is refused.

A key that is listed twice counts once. Write lists from public knowledge, never from the data.
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
