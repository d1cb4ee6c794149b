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

#: Small releases are smaller than this. Only its rows could tell how large a release is.
LEAST_ROOM = 16 << 20
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


def check_path(path: Path, *, below: int = 0) -> None:
    """Refuse a path that no file can have.

    Args:
        path: The path.
        below: How many characters the path of a file below it has more.

    Raises:
        InputError: The path is too long, is not Unicode, or holds a NUL.

    >>> from pathlib import Path
    >>> check_path(Path("visits.release"))
    >>> check_path(Path("a" * 256))
    Traceback (most recent call last):
    ddpmi.errors.InputError: The path whose name starts with 'aaaaaaaaaaaaaaaaaaaa' is too long for this disk.
    <BLANKLINE>
    Hint: choose a shorter name
    """
    try:
        whole = os.fsencode(path.absolute())
    except UnicodeEncodeError:
        raise InputError("The path is not Unicode.", hint="choose another name") from None
    if b"\0" in whole:
        raise InputError("A path must not hold a NUL character.", hint="choose another name")
    try:
        # A path that is too long is refused before the disk looks for it.
        (path / ("x" * below)).lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"The path whose name starts with {path.name[:20]!r} is too long for this disk.",
                hint="choose a shorter name",
            ) from None
