"""``ddpmi expunge``: remove a release, not its cost."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.options import ReleaseFolder  # noqa: TC001
from ddpmi.cli.output import example, say
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from cyclopts import App


def expunge(folder: ReleaseFolder, /, *, ledger: Annotated[Path | None, Parameter(metavar="FILE")] = None) -> None:
    """Remove a release. Its cost stays spent, and its entry stays in the ledger.

    Args:
        folder: The release.
        ledger: Ledger that was charged for it, to record there that the release was removed.
    """
    from ddpmi.releases.release import Release
    from ddpmi.releases.release import expunge as remove

    release_id = Release.load(folder).release_id
    opened = None if ledger is None else paths.open_ledger(ledger)
    if opened is not None and opened.find(release_id) is None:
        raise InputError(
            f"{ledger} has no entry of the release {release_id}.",
            hint="name the ledger that was charged for it, or leave --ledger out",
        )
    remove(folder)
    if opened is not None:
        opened.mark(release_id, "expunged")
    say(f"Removed the release {release_id} in {folder}. Its charge stays in the ledger.")


def register(app: App) -> None:
    """Add the command."""
    app.command(expunge, help_epilogue=example("ddpmi expunge visits.release --ledger visits.ledger"))
