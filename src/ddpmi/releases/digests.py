"""Digests: which files a release has, and what is in them, so that tables and receipt belong together."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpmi.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Identity = tuple[int, int, int, int, int]
"""Device, inode, size and times of a file: it changes when the file is replaced or written."""
_THREADS = 4
COPY = "the folder was changed after it was released; use a copy that was not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The size and the SHA-256 of one file."""

    size: int
    """Bytes."""
    sha256: str
    """The hash, as 64 hexadecimal digits."""

    def to_dict(self) -> dict[str, Any]:
        """Return the digest as a receipt lists it."""
        return {"bytes": self.size, "sha256": self.sha256}


def digests_of(folder: Path, files: Sequence[Path]) -> dict[str, Digest]:
    """Hash files, several at a time.

    Args:
        folder: The folder of the release.
        files: Files in it.

    Returns:
        The digests by the files' names in the folder, with ``/`` between names, sorted.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place) / "a"
    ...     _ = file.write_bytes(b"tea")
    ...     digests_of(Path(place), [file])["a"].size
    3
    """
    names = [file.relative_to(folder).as_posix() for file in files]
    # Hashing leaves the interpreter's lock, so threads help where there are many files.
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return dict(sorted(zip(names, pool.map(_digest, files), strict=True)))


def _digest(file: Path) -> Digest:
    with file.open("rb") as opened:
        sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
        return Digest(size=opened.tell(), sha256=sha256)


def identity(file: Path) -> Identity:
    """Return what identifies the content of a file without reading it.

    >>> from pathlib import Path
    >>> identity(Path(__file__)) == identity(Path(__file__))
    True
    """
    found = file.stat(follow_symlinks=False)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def check_files(folder: Path, files: Sequence[Path], listed: Mapping[str, Digest]) -> dict[Path, Identity]:
    """Compare the files of a folder with the list of its receipt.

    Args:
        folder: The folder of the release.
        files: All files of its tables.
        listed: The digests in its receipt.

    Returns:
        What identifies each file, taken before it was read.

    Raises:
        ReleaseError: A file is missing, was added, or has another content.
    """
    names = {file.relative_to(folder).as_posix(): file for file in files}
    if names.keys() != listed.keys():
        wrong = min(names.keys() ^ listed.keys())
        what = "is not listed in its receipt" if wrong in names else "is missing"
        raise ReleaseError(f"The file {wrong} of the release {folder} {what}.", hint=COPY)
    try:
        known = {file: identity(file) for file in files}
        for name, digest in listed.items():
            if os.path.getsize(names[name]) != digest.size:  # noqa: PTH202 - its error is caught below
                raise _changed(folder, name)
        for name, found in digests_of(folder, files).items():
            if found != listed[name]:
                raise _changed(folder, name)
    except OSError as error:
        raise ReleaseError(
            f"The files of the release {folder} cannot be read ({error.strerror}).", hint="check permissions"
        ) from error
    return known


def _changed(folder: Path, name: str) -> ReleaseError:
    return ReleaseError(f"The file {name} of the release {folder} does not match its receipt.", hint=COPY)
