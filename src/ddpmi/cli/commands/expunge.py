"""``ddpmi expunge``: remove releases, not their cost."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.options import ReleaseFolder  # noqa: TC001
from ddpmi.cli.output import example, say
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.ledger.ledger import Ledger
    from ddpmi.releases.release import Release

_AGE = re.compile(r"([0-9]{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


def expunge(
    folder: ReleaseFolder,
    /,
    *folders: ReleaseFolder,
    ledger: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    older_than: Annotated[str | None, Parameter(metavar="AGE")] = None,
) -> None:
    """Remove releases. Their cost stays spent, and their entries stay in the ledger.

    Only files that a release wrote are removed. A folder that holds other files is left alone.

    Args:
        folder: The release.
        folders: More releases.
        ledger: Ledger that was charged for them, to record there that they were removed.
        older_than: Remove only releases that are older: 90d for days, 12w for weeks, 48h for hours.
    """
    from ddpmi.releases.release import Release
    from ddpmi.releases.release import expunge as remove

    before = None if older_than is None else datetime.now(UTC) - age_of(older_than)
    # All folders are read before the first is removed, so that a wrong name removes nothing.
    found = {place: Release.load(place, verify=False) for place in dict.fromkeys((folder, *folders))}
    old = {place: release for place, release in found.items() if before is None or created(release) < before}
    opened = None if ledger is None else paths.open_ledger(ledger)
    if opened is not None:
        _check_entries(opened, old, ledger)
    for place, release in found.items():
        if place not in old:
            say(f"Kept the release {release.release_id} in {place}, made {release.receipt['created']}.")
            continue
        remove(place)
        if opened is not None:
            opened.mark(release.release_id, "expunged")
        say(f"Removed the release {release.release_id} in {place}. Its charge stays in the ledger.")


def _check_entries(ledger: Ledger, found: dict[Path, Release], file: Path | None) -> None:
    for release in found.values():
        if ledger.find(release.release_id) is None:
            raise InputError(
                f"{file} has no entry of the release {release.release_id}.",
                hint="name the ledger that was charged for it, or leave --ledger out",
            )


def created(release: Release) -> datetime:
    """Return when a release was made, from its receipt."""
    return datetime.fromisoformat(str(release.receipt["created"]))


def age_of(text: str) -> timedelta:
    """Read an age in hours, days or weeks.

    Raises:
        InputError: It is no such age.

    >>> age_of("90d").days, age_of("12w").days, age_of("48h").days
    (90, 84, 2)
    """
    found = _AGE.fullmatch(text)
    if found is None:
        raise InputError(
            f"--older-than must be a number of hours, days or weeks, got {text!r}.", hint="--older-than 90d"
        )
    return timedelta(hours=int(found[1]) * _HOURS[found[2]])


def register(app: App) -> None:
    """Add the command."""
    app.command(
        expunge,
        help_epilogue=example(
            "ddpmi expunge visits.release --ledger visits.ledger",
            "ddpmi expunge *.release --older-than 90d",
        ),
    )
