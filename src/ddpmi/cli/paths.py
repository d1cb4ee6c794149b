"""Files and folders that a command names: checked before any budget is spent, and opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpmi.errors import InputError, InputNotFound, ReleaseError
from ddpmi.releases.room import check_path, check_room

if TYPE_CHECKING:
    from pathlib import Path

    from ddpmi.ledger.ledger import Ledger


def open_ledger(file: Path, *, expect_head: str | None = None) -> Ledger:
    """Open a ledger that exists."""
    from ddpmi.ledger.ledger import Ledger

    if not file.exists():
        raise InputNotFound(
            f"The ledger {file} does not exist.", hint=f"ddpmi ledger create {file} --epsilon 4 --delta 1e-6"
        )
    return Ledger(file, expect_head=expect_head)


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that a release cannot be written to. This is wrong usage, so the error becomes an InputError."""
    from ddpmi.curator.readiness import check_place

    try:
        check_place(folder)
    except ReleaseError as error:
        raise InputError(error.message, hint=error.advice) from None


def check_new_file(file: Path) -> None:
    """Refuse a file that exists or cannot be written.

    >>> from pathlib import Path
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
