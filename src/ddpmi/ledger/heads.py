"""Heads of a ledger: one short line that names its newest event, and a file beside the ledger that keeps the line.

A ledger that was replaced by an older copy of itself is whole, so no check of the file alone can notice it. A head that
was kept elsewhere can: the older copy does not contain that event. The file beside the ledger, ``visits.ledger.head``,
notices the plain case. It is written after each commit, so it never names an event that the ledger did not have. Where it
is missing, unreadable, older, or of another ledger, it says nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ddpmi.errors import Hint, InputError, LedgerError
from ddpmi.text import shortened

_DIGITS = 32
_LINE = re.compile(r"([0-9a-f]{32}):([1-9][0-9]{0,17}):([0-9a-f]{32})")
_LONGEST_FILE = 1000

RESTORED = (
    "an older copy forgets the budget that was spent since it was made, but the releases made since then still exist; "
    "so their people may lose more privacy than the limit says"
)
"""What it means for the promise to restore a backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest event of a ledger at some time.

    >>> print(Head.of("0" * 32, 7, "a" * 64))
    00000000000000000000000000000000:7:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    """

    ledger_id: str
    """The id of the ledger."""
    seq: int
    """The number of the event."""
    prefix: str
    """The first 128 bits of its hash, in hex."""

    @classmethod
    def of(cls, ledger_id: str, seq: int, digest: str) -> Head:
        """Shorten an event to its head."""
        return cls(ledger_id=ledger_id, seq=seq, prefix=digest[:_DIGITS])

    @classmethod
    def read(cls, text: object) -> Head:
        """Read the line that ``ddpmi ledger head`` printed.

        Raises:
            InputError: It is no such line.

        >>> Head.read("0" * 32 + ":7:" + "a" * 32).seq
        7
        """
        found = _LINE.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise InputError(
                f"expect_head must be a line of ddpmi ledger head, got {shortened(text)}.",
                hint=Hint(do="print one with ddpmi ledger head FILE, and keep it elsewhere"),
            )
        return cls(ledger_id=found[1], seq=int(found[2]), prefix=found[3])

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.seq}:{self.prefix}"

    def check(self, path: Path, ledger_id: str, digest: str | None) -> None:
        """Refuse a ledger that does not contain the event.

        Args:
            path: The ledger, for the message.
            ledger_id: Its id.
            digest: The hash of its event of the same number; None if it has none.

        Raises:
            LedgerError: It does not contain the event.
        """
        if ledger_id != self.ledger_id:
            raise LedgerError(
                f"{path} is not the ledger of the expected head {self}.",
                hint="give the ledger that the head was printed for, or the head of this one: ddpmi ledger head FILE",
            )
        if digest is None or digest[:_DIGITS] != self.prefix:
            raise LedgerError(
                f"{path} does not contain event {self.seq} of the expected head: an older copy was put in its place.",
                hint=f"put the newest copy back: {RESTORED}.",
            )


def head_file(path: Path) -> Path:
    """Return the file that keeps the head of a ledger.

    >>> head_file(Path("/data/visits.ledger")).name
    'visits.ledger.head'
    """
    # Beside the file itself, so that all links to it share one.
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.head")


def keep(path: Path, head: Head) -> None:
    """Write the head beside its ledger. A failure is harmless: the file is then older, or missing.

    Args:
        path: The ledger.
        head: Its newest event, which was committed before.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "visits.ledger"
    ...     path.touch()
    ...     keep(path, Head.of("0" * 32, 7, "a" * 64))
    ...     kept(path).seq
    7
    """
    with suppress(OSError, ValueError):
        place = head_file(path)
        # One name for all processes, so that a crash leaves one draft and not many. If two write at once, the text may
        # be garbled; its checksum then fails, and the file says nothing until the next commit.
        draft = place.with_name(f".{place.name}.new")
        mode = stat.S_IMODE(path.stat().st_mode)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            os.write(handle, f"{head} {_checksum(str(head))}\n".encode())
            if hasattr(os, "fchmod"):
                os.fchmod(handle, mode)
        finally:
            os.close(handle)
        draft.replace(place)


def kept(path: Path) -> Head | None:
    """Read the head beside a ledger; None where there is none that can be trusted."""
    try:
        place = head_file(path)
        if not stat.S_ISREG(place.stat().st_mode):
            return None
        with place.open("rb") as file:
            line, _, checksum = file.read(_LONGEST_FILE).decode("ascii").rstrip("\n").partition(" ")
        return Head.read(line) if checksum == _checksum(line) else None
    except (OSError, ValueError):  # InputError and UnicodeDecodeError are ValueErrors
        return None


def check_kept(path: Path, head: Head | None, ledger_id: str, digest: str | None) -> None:
    """Refuse a ledger that does not contain the head beside it. One of another ledger says nothing.

    Args:
        path: The ledger.
        head: The head, read before the ledger was: it is never newer than the ledger then.
        ledger_id: The ledger's id.
        digest: The hash of the ledger's event of the same number; None if it has none.

    Raises:
        LedgerError: It is an older copy.
    """
    if head is None or head.ledger_id != ledger_id or (digest is not None and digest[:_DIGITS] == head.prefix):
        return
    place = head_file(path)
    raise LedgerError(
        f"{path} is an older copy: {place.name} beside it knows event {head.seq}, which it does not contain.",
        hint=f"put the newest copy back; {RESTORED}. "
        f"To go on with this copy knowingly, count that budget as spent elsewhere and remove {place}",
    )


def _checksum(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()[:16]
