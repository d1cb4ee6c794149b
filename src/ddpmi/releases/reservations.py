"""Reservations: a process takes the name of a release folder before the ledger is charged for it.

The release is written in a working folder beside its target and renamed when it is complete. The name of the working
folder follows from the target's name, so one process wins. Its death gives the name back.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ddpmi.errors import InputError, ReleaseError
from ddpmi.releases.room import check_path, check_room
from ddpmi.releases.workplaces import Taken, Workplace, leftovers
from ddpmi.text import sync

if TYPE_CHECKING:
    from ddpmi._typing import Target

PREFIX, RESERVED = ".ddpmi-", ".reserved"
"""How the names of reserved working folders start and end."""
STAGED = ".partial"
"""How the names of an engine's folders beside a release end."""
#: The longest path below a release or its working folder, with room to spare.
_BELOW = 120


class Reservation:
    """The name of a release folder, taken until the end of a ``with``, or until the process dies. Made by `reserve`."""

    def __init__(self, target: Path, workplace: Workplace) -> None:
        self.target = target
        """The folder that the release will have."""
        self._workplace = workplace
        self._held = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()

    @property
    def folder(self) -> Path:
        """A folder for unfinished files, on the same disk as the target. It is empty at first."""
        return self._workplace.folder

    def cancel(self) -> None:
        """Give the name back and remove unfinished files; a release that was published stays."""
        self._held = False
        self._workplace.remove()

    def check(self, target: Path) -> None:
        """Refuse to write another folder than the reserved one.

        Raises:
            ReleaseError: The reservation is of another folder, or has ended.
        """
        if not self._held or target.absolute() != self.target.absolute():
            raise ReleaseError(
                f"{target} is not reserved.", hint="with reserve(path) as reservation: release.save(path, ...)"
            )

    def publish(self, finished: Path) -> Path:
        """Rename a finished folder to the target, durably. Nothing is ever replaced.

        Args:
            finished: A folder in `folder`.

        Raises:
            OSError: Something is at the target now, or the disk failed.
        """
        _rename_new(finished, self.target)
        sync(self.target.parent)
        return self.target


def reserve(target: Target) -> Reservation:
    """Take the name of a release folder, so that only this call can write it.

    Args:
        target: The folder of the release. It must not exist; its parent must.

    Returns:
        The reservation, to use in a ``with``.

    Raises:
        ReleaseError: The folder exists or cannot be written, the disk is full, or another release is about to write it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent, reserve(Path(parent) / "visits.release") as reservation:
    ...     reservation.target.name
    'visits.release'
    """
    place = Path(target)
    check_target(place)
    for suffix in (RESERVED, STAGED):
        leftovers(place.parent, prefix=PREFIX, suffix=suffix)
    # A digest: the name itself would be too long with a prefix.
    digest = hashlib.sha256(os.fsencode(place.name)).hexdigest()[:32]
    try:
        workplace = Workplace.at(place.parent / f"{PREFIX}{digest}{RESERVED}")
    except Taken:
        raise ReleaseError(
            f"Another release is about to write {place}.", hint="wait for it, or choose another name"
        ) from None
    except OSError as error:
        raise ReleaseError(
            f"The folder {place.parent} cannot be written to ({error.strerror}).", hint="choose another place"
        ) from None
    try:
        _check_new(place)  # the release that held the name may have been published a moment ago
    except BaseException:
        workplace.remove()
        raise
    return Reservation(place, workplace)


def check_target(target: Path) -> None:
    """Refuse a folder that exists or cannot be made, before anything is charged.

    Raises:
        ReleaseError: It exists, its name cannot be used, its parent is missing, or the disk is full or read-only.

    >>> check_target(Path("no such folder") / "visits.release")
    Traceback (most recent call last):
    ...
    ddpmi.errors.ReleaseError: The folder no such folder does not exist.
    <BLANKLINE>
    Hint: mkdir -p 'no such folder'
    """
    if target.parts and target.parts[0].endswith(":") and len(target.parts[0]) > len("C:"):
        raise ReleaseError(
            f"A release is written to a folder, and {target.parts[0]}// is an address.",
            hint="write it to a folder that all machines share, and copy it from there",
        )
    try:
        check_path(target, below=_BELOW)
        _check_new(target)
        if not target.parent.is_dir():
            raise ReleaseError(f"The folder {target.parent} does not exist.", hint=f"mkdir -p '{target.parent}'")
        check_room(target.parent, hint="choose another place, or make room")
    except InputError as error:
        raise ReleaseError(error.message, hint=error.advice) from None


def _check_new(target: Path) -> None:
    try:
        exists = os.path.lexists(target) or target.exists()
    except OSError as error:
        raise ReleaseError(f"{target} cannot be used ({error.strerror}).", hint="choose another name") from None
    if exists:
        raise ReleaseError(
            f"{target} exists already; a release never overwrites.", hint="choose another name, or remove it first"
        )


def _rename_new(source: Path, target: Path) -> None:
    """Rename a folder without replacing anything: a plain rename would replace an empty folder."""
    if sys.platform == "linux":
        try:
            rename = ctypes.CDLL(None, use_errno=True).renameat2
        except (OSError, AttributeError):
            rename = None
        if rename is not None:
            here, no_replace = -100, 1  # AT_FDCWD and RENAME_NOREPLACE of the kernel
            if rename(here, os.fsencode(source), here, os.fsencode(target), no_replace) == 0:
                return
            code = ctypes.get_errno()
            if code not in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
                raise OSError(code, os.strerror(code), str(target))
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)
