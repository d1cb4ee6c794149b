"""Files and folders that a command names: checked before any budget is spent, and opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.errors import InputError, InputNotFound, ReleaseError
from ddpmi.releases.room import check_path, check_room
from ddpmi.text import read_toml

if TYPE_CHECKING:
    from ddpmi.ledger.ledger import Ledger


SETTINGS = "ddpmi.toml"
"""The file of settings in the current folder."""
_LEDGER_KEYS = ("expect_head", "file")


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

    kept = _kept_head(file)
    if not file.exists():
        error = missing(file)
        raise InputNotFound(f"The ledger {error.message}", hint=error.advice)
    found = Ledger(file, expect_head=expect_head)
    if kept is not None:
        found.check_head(kept)
    return found


def _kept_head(file: Path) -> str | None:
    """Return the head that ``ddpmi.toml`` in the current folder keeps for a ledger, if any."""
    from ddpmi.ledger.heads import Head

    settings = Path(SETTINGS)
    if not os.path.lexists(settings):
        return None
    given = read_toml(settings, what="The file of settings")
    example = "[ledger] and then expect_head = '...', as ddpmi ledger head FILE prints it"
    ledger = given.get("ledger", {})
    unknown = sorted(set(given) - {"ledger"}) or sorted(
        set(ledger) - set(_LEDGER_KEYS) if isinstance(ledger, dict) else ()
    )
    if unknown:
        raise InputError(f"There is no setting {unknown[0]!r} in {SETTINGS}.", hint=example)
    if not isinstance(ledger, dict) or not all(isinstance(value, str) for value in ledger.values()):
        raise InputError(f"The ledger of {SETTINGS} must be a table of texts.", hint=example)
    if "expect_head" not in ledger:
        return None
    head = str(Head.read(ledger["expect_head"]))
    named = ledger.get("file")
    return head if named is None or os.path.realpath(named) == os.path.realpath(file) else None


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
