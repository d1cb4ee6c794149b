"""Reservations: the name of a release folder, taken before the charge."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ddpmi.errors import ReleaseError
from ddpmi.releases.release import check_target

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Reservation", "check_target", "reserve"]


@dataclass(slots=True)
class Reservation:
    """A name that no other release can take."""

    target: Path
    file: Path
    handle: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self.file.unlink()
        os.close(self.handle)


def reserve(target: Path) -> Reservation:
    """Take the name of a release folder; another process that holds it is an error."""
    check_target(target)
    file = target.with_name(f".{target.name}.reserved")
    while True:
        try:
            handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise ReleaseError(f"{target} cannot be written to ({error.strerror}).", hint="choose another") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise ReleaseError(
                f"Another release is about to write {target}.", hint="choose another name, or wait"
            ) from None
        try:
            if os.fstat(handle).st_ino == file.stat().st_ino:
                break
        except OSError:
            pass
        os.close(handle)
    found = Reservation(target, file, handle)
    try:
        check_target(target)
    except BaseException:
        found.__exit__()
        raise
    return found
