"""Working folders: made for one process, locked while it lives, and removed by a later one if it died.

A working folder has mode 0700 and holds a lock file. The kernel drops the lock when the process ends, in any way. So a
folder whose lock nobody holds is a leftover. Folders without that file, of another owner or of another machine are never
touched: some shared disks keep locks on each machine alone.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK = ".ddpmi-lock"
"""The name of the lock file, which also marks a folder as ours."""
#: A process that looks for leftovers holds a lock for an instant, so one refusal does not mean that the folder is in use.
_TRIES, _PAUSE = 20, 0.01
_LONGEST_NAME = 255


class Taken(Exception):  # noqa: N818 - callers turn it into their own error
    """Another process, thread or call holds the lock of the folder."""


class Workplace:
    """A locked folder of this process. `remove` removes it; so do garbage collection and the end of the process.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent, Workplace.new(parent, prefix="ddpmi-") as place:
    ...     place.folder.is_dir(), leftovers(parent, prefix="ddpmi-")
    (True, [])
    """

    def __init__(self, folder: Path, handle: int | None) -> None:
        self.folder = folder
        self.remove: Callable[[], object] = weakref.finalize(self, _remove, folder, handle)
        """Remove the folder and give the lock back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    @classmethod
    def new(cls, parent: str | os.PathLike[str] | None, *, prefix: str, suffix: str = "") -> Workplace:
        """Make a folder with a random name.

        Args:
            parent: Where to make it; None for the machine's folder of temporary files.
            prefix: How its name starts.
            suffix: How its name ends.

        Raises:
            OSError: No folder can be made there.
        """
        while True:
            folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent))  # mode 0700
            try:
                return cls(folder, _locked(folder / LOCK))
            except (FileNotFoundError, Taken):
                continue  # another process took it for a leftover before it was locked
            except _NoLocks:
                # It works without a lock, but no later process can tell that it is a leftover.
                return cls(folder, None)

    @classmethod
    def at(cls, folder: Path) -> Workplace:
        """Make a folder with a given name, or take over a leftover of that name and empty it.

        Raises:
            Taken: Another process, thread or call holds it.
            OSError: The folder cannot be made, or the disk has no locks.
        """
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE)
            try:
                _make(folder)
                handle = _locked(folder / LOCK)
            except (FileNotFoundError, Taken):
                if not folder.parent.is_dir():
                    raise
                continue
            place = cls(folder, handle)
            _empty(folder)
            return place
        raise Taken


def _make(folder: Path) -> None:
    """Make a folder that only its owner may enter; one that exists must be such a folder."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_ours(folder):
            raise PermissionError(13, "a folder of another owner is in the way", str(folder)) from None


class _NoLocks(OSError):  # noqa: N818 - caught in this module
    """The disk has no locks."""


def _locked(file: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a lock file and lock it, without waiting.

    Raises:
        Taken: Somebody holds the lock, or removed the file in the meantime.
        FileNotFoundError: The folder, or without O_CREAT the file, is not there.
    """
    handle = os.open(file, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        _lock(handle)
        # A process that removes a leftover unlinks the file while it holds the lock: a lock of a lost file is worth nothing.
        if not os.path.samestat(os.fstat(handle), file.stat(follow_symlinks=False)):
            raise Taken  # noqa: TRY301 - the handle is closed below
        if flags & os.O_CREAT:
            os.truncate(handle, 0)
            os.write(handle, _machine())
    except FileNotFoundError:
        os.close(handle)
        raise Taken from None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _machine() -> bytes:
    return socket.gethostname().encode("utf-8", "replace")[:_LONGEST_NAME]


def _is_of_this_machine(handle: int) -> bool:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, _LONGEST_NAME) in (b"", _machine())


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            raise Taken from None
    else:
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Taken from None
        except OSError as error:
            raise _NoLocks(error.errno, "the disk has no locks") from error


def _remove(folder: Path, handle: int | None) -> None:
    """Empty and remove a folder. The lock file goes last: until then nobody else can lock the folder."""
    _empty(folder)
    if handle is not None and sys.platform == "win32":
        os.close(handle)  # Windows removes no open file
        handle = None
    try:
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        pass  # another process has locked it anew, or it is gone
    finally:
        if handle is not None:
            os.close(handle)


def _empty(folder: Path) -> None:
    """Remove all of a folder but the lock file."""
    try:
        entries = [entry for entry in os.scandir(folder) if entry.name != LOCK]
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            Path(entry.path).unlink(missing_ok=True)


def _is_ours(folder: Path) -> bool:
    """Tell whether a path is a folder, not a link, of this user, which nobody else may enter."""
    try:
        found = folder.stat(follow_symlinks=False)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    return sys.platform == "win32" or (found.st_uid == os.geteuid() and found.st_mode & 0o077 == 0)


def leftovers(parent: str | os.PathLike[str] | None, *, prefix: str, suffix: str = "") -> list[str]:
    """Remove the working folders of processes that died.

    Args:
        parent: The folder in which they were made; None for the machine's folder of temporary files.
        prefix: How their names start.
        suffix: How their names end.

    Returns:
        The names of the removed folders.

    >>> leftovers("no such folder", prefix="ddpmi-")
    []
    """
    place, removed = Path(tempfile.gettempdir() if parent is None else parent), []
    try:
        names = [entry.name for entry in os.scandir(place) if entry.name.startswith(prefix)]
    except OSError:
        return []
    for name in names:
        folder = place / name
        if not name.endswith(suffix) or not _is_ours(folder):
            continue
        try:
            handle = _locked(folder / LOCK, os.O_RDWR)
        except (OSError, Taken):
            continue  # in use, or not ours
        if _is_of_this_machine(handle):
            _remove(folder, handle)
            removed.append(name)
        else:
            os.close(handle)
    return removed
