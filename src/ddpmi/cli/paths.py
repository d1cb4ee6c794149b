"""Files and folders that a command names: checked before any budget is spent, and opened."""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.cli.settings import read_settings
from ddpmi.errors import InputError, InputNotFound, ReleaseError
from ddpmi.releases.room import check_path, check_room
from ddpmi.text import printable

if TYPE_CHECKING:
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.pipeline.steps import Table


_LEDGER, _RELEASE = ".ledger", ".release"


def open_ledger(file: Path, *, expect_head: str | None = None) -> Ledger:
    """Open a ledger that exists, and that contains the head of the command line and the one of ``ddpmi.toml``.

    Args:
        file: The ledger.
        expect_head: A head that ``ddpmi ledger head`` printed before.

    Raises:
        InputNotFound: There is no such file.
        InputError: ``ddpmi.toml`` in the current folder, or the head, is not valid.
        LedgerError: The ledger is damaged, or does not contain a head.
    """
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.ledger.storage import missing

    kept = read_settings().head_of(file)
    if not file.exists():
        error = missing(file)
        raise InputNotFound(f"The ledger {error.message}", hint=error.advice)
    found = Ledger(file, expect_head=expect_head)
    if kept is not None:
        found.check_head(kept)
    return found


def find_ledger(given: Path | None, command: str) -> Path:
    """Return the ledger to charge: the one given, the one of ``ddpmi.toml``, or the only one in the current folder.

    Args:
        given: What the command line names.
        command: The command, for the hint.

    Raises:
        InputError: There is none to choose, or there are several.
    """
    if given is not None:
        return given
    if (named := read_settings().ledger) is not None:
        return Path(named)
    found = ledgers_here()
    if len(found) == 1:
        return Path(found[0])
    if found:
        raise InputError(
            f"No ledger was named, and this folder has {len(found)}: {', '.join(map(printable, found))}.",
            hint=f"--ledger {printable(found[0])}",
        )
    raise InputError(
        "No ledger was named, and this folder has none. A ledger is the record of what was spent.",
        hint="make one, with the most that may ever be spent on these people, and type the command again:\n"
        f"    ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6\n    {command}",
    )


def ledgers_here() -> list[str]:
    """Return the names of the ledgers in the current folder."""
    return sorted(path.name for path in Path().glob(f"*{_LEDGER}") if not path.name.startswith("."))


def newest_release() -> Path:
    """Return the folder of the newest release that the ledger of this folder was charged for.

    Raises:
        InputError: There is no ledger to look in, or none of its releases is here.
    """
    ledger = open_ledger(find_ledger(None, "ddpmi rank visits.release"))
    entries = [entry for dataset in ledger.datasets() for entry in ledger.status(dataset).entries]
    folders = (Path(entry.folder) for entry in sorted(entries, key=lambda entry: -entry.id) if entry.folder)
    found = next((folder for folder in folders if (folder / "receipt.json").is_file()), None)
    if found is None:
        raise InputError(
            f"No release was named, and none that {ledger.path} was charged for is here.",
            hint="ddpmi rank visits.release",
        )
    return found


def name_of(data: list[str] | Table) -> str:
    """Return a plain name for files that belong to some data.

    >>> name_of(["s3://bucket/visits/2026*.parquet"]), name_of(["visits.csv.gz"])
    ('2026', 'visits')
    """
    first = data[0] if isinstance(data, list) else data.name
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(first).name.split(".")[0]).strip("-") or "data"


def new_release_folder(data: list[str] | Table, release_id: str | None) -> Path:
    """Return a folder for a release that names none: ``visits.release``, or with a number if that exists.

    A release id always gives the same folder, so that a retry finds its release.

    >>> new_release_folder(["data/visits.csv.gz"], None).name, new_release_folder(["a.csv"], "monday").name
    ('visits.release', 'monday.release')
    """
    if release_id is not None:
        return Path(f"{release_id}{_RELEASE}")
    stem = name_of(data)
    folders = (Path(f"{stem}{'' if number == 1 else f'-{number}'}{_RELEASE}") for number in count(1))
    return next(folder for folder in folders if not os.path.lexists(folder))


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that a release cannot be written to. This is wrong usage, so the error becomes an InputError."""
    from ddpmi.curator.readiness import check_place

    try:
        check_place(folder)
    except ReleaseError as error:
        raise InputError(error.message, hint=error.advice) from None


def check_new_file(file: Path) -> None:
    """Refuse a file that exists or cannot be written.

    >>> check_new_file(Path("no such folder/page.html"))
    Traceback (most recent call last):
    ddpmi.errors.InputError: The folder no such folder does not exist.
    <BLANKLINE>
    Hint: mkdir -p 'no such folder'
    """
    check_path(file)
    if file.exists() or file.is_symlink():
        raise InputError(
            f"{file} exists already, and nothing is overwritten.",
            hint="choose another name, or remove it first",
        )
    if not file.parent.is_dir():
        raise InputError(f"The folder {file.parent} does not exist.", hint=f"mkdir -p '{file.parent}'")
    check_room(file.parent, hint="choose another place, or make room")


def check_outside(file: Path, folder: Path) -> None:
    """Refuse a file that is to be written to the folder of a release: nothing else may be in it.

    >>> check_outside(Path("visits.release/page.html"), Path("visits.release"))
    Traceback (most recent call last):
    ddpmi.errors.InputError: visits.release/page.html would be in the folder of the release.
    <BLANKLINE>
    Hint: choose another place
    """
    place, release = (Path(os.path.normpath(path.absolute())) for path in (file, folder))
    if place.is_relative_to(release):
        raise InputError(f"{file} would be in the folder of the release.", hint="choose another place")
