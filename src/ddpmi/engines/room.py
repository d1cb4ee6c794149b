"""Room on disk, as far as it can be known before anything is charged."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import TYPE_CHECKING

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from ddpmi.errors import Hint

#: Small releases are smaller than this. How large a release is only its rows could tell.
LEAST_ROOM = 4 << 20
_TRIED = 1 << 16


def check_room(folder: Path, *, hint: Hint | str) -> None:
    """Refuse a folder in which no file can be written, or whose disk is almost full. Leaves nothing behind.

    Args:
        folder: The folder.
        hint: What to do about it.

    Raises:
        InputError: There is no room.

    >>> from pathlib import Path
    >>> check_room(Path("no such folder"), hint="choose another place")
    Traceback (most recent call last):
    ddpmi.errors.InputError: No file can be written in no such folder (No such file or directory).
    <BLANKLINE>
    Hint: choose another place
    """
    try:
        # The file has no name where the system supports it, so that a kill leaves nothing either.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_TRIED))
            file.flush()
        free = _free(folder)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        raise InputError(f"No file can be written in {folder} ({why}).", hint=hint) from None
    if free is not None and free < LEAST_ROOM:
        raise InputError(f"The disk of {folder} is full: it has {free} bytes left.", hint=hint)


def _free(folder: Path) -> int | None:
    """Return the bytes that this user may still write; None where the disk does not say."""
    if not hasattr(os, "statvfs"):
        return None
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize if found.f_blocks else None


def check_name(path: Path, *, longer: int = 0) -> None:
    """Refuse a path that no file can have.

    Args:
        path: The path.
        longer: How many characters a temporary name beside it has more.

    Raises:
        InputError: The path is too long, or holds a NUL.

    >>> from pathlib import Path
    >>> check_name(Path("visits.release"), longer=40)
    >>> check_name(Path("a" * 245), longer=40)
    Traceback (most recent call last):
    ddpmi.errors.InputError: The name that starts with 'aaaaaaaaaaaaaaaaaaaa' is too long for this disk.
    <BLANKLINE>
    Hint: choose a name of at most 200 characters
    """
    if "\0" in str(path):
        raise InputError("A path must not hold a NUL.", hint="choose another name")
    if not path.name:
        return
    try:
        # A name that is too long is refused before the disk looks for it.
        path.with_name(path.name + "x" * longer).lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"The name that starts with {path.name[:20]!r} is too long for this disk.",
                hint="choose a name of at most 200 characters",
            ) from None
