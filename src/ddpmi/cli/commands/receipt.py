"""``ddpmi receipt``: what a release promises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from ddpmi.cli.options import ReleaseFolder  # noqa: TC001 - the command line reads these hints when it runs
from ddpmi.cli.output import escape_lines, example, put

if TYPE_CHECKING:
    from cyclopts import App


def receipt(
    folder: ReleaseFolder,
    /,
    *,
    format: Literal["text", "json"] = "text",  # noqa: A002 - the option's name
) -> None:
    """Print what a release promises and how it was made.

    Args:
        folder: The release.
        format: Print text for people, or the receipt as JSON.
    """
    from ddpmi.releases.receipts import describe
    from ddpmi.releases.release import Release

    found = Release.load(folder).receipt
    put(json.dumps(found, indent=2, allow_nan=False) + "\n" if format == "json" else escape_lines(describe(found)))


def register(app: App) -> None:
    """Add the command."""
    app.command(receipt, help_epilogue=example("ddpmi receipt visits.release"))
