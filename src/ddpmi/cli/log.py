"""The log of ``--log json``: one JSON object a line on stderr, for schedulers. It replaces messages and bars for people.

Events hold stages, seconds, ids, budgets and exit codes. None holds a key of the data: neither rows nor released names.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ddpmi.errors import InputError, LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpmi.ledger.ledger import Ledger

_OPTION = "--log"
_started: list[float] = []


def take_option(words: list[str]) -> list[str]:
    """Return the words of a command without ``--log json``, and start the log if it was among them.

    Raises:
        InputError: Another form was asked for.

    >>> take_option(["ledger", "show", "visits.ledger"])
    ['ledger', 'show', 'visits.ledger']
    """
    _started.clear()
    end = words.index("--") if "--" in words else len(words)
    for at, word in enumerate(words[:end]):
        name, equals, given = word.partition("=")
        if name != _OPTION:
            continue
        value = given if equals else "".join(words[at + 1 : at + 2])
        if value != "json":
            raise InputError(f"--log takes json, got {value!r}.", hint="--log json, or leave it out")
        _started.append(time.monotonic())
        return words[:at] + words[at + (1 if equals else 2) :]
    return words


def is_on() -> bool:
    """Tell whether the log replaces messages for people."""
    return bool(_started)


def put_event(event: str, **fields: Any) -> None:
    """Write one event, if the log is on. If nobody can read it, the command goes on."""
    if not _started:
        return
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
    try:
        sys.stderr.write(json.dumps(line, ensure_ascii=True) + "\n")
        sys.stderr.flush()
    except OSError:
        _started.clear()


def put_end(code: int) -> None:
    """Write the last event: the exit code and the seconds since the start."""
    if _started:
        put_event("end", exit_code=code, seconds=round(time.monotonic() - _started[0], 3))
    _started.clear()


@contextmanager
def new_charges(ledger: Ledger, dataset: str) -> Iterator[None]:
    """Write an event for each charge that is made meanwhile, and how its release ended."""
    if not _started:
        yield
        return
    before = {entry.id for entry in ledger.status(dataset).entries}
    try:
        yield
    finally:
        _put_new(ledger, dataset, before)


def _put_new(ledger: Ledger, dataset: str, before: set[int]) -> None:
    try:
        entries = ledger.status(dataset).entries
    except LedgerError:
        put_event("unknown", dataset=dataset)
        return
    for entry in entries:
        if entry.id in before:
            continue
        cost = {"epsilon": float(entry.guarantee.epsilon), "delta": float(entry.guarantee.delta)}
        put_event("charged", release_id=entry.release_id, dataset=dataset, **cost)
        if entry.state != "charged":
            put_event(entry.state, release_id=entry.release_id, dataset=dataset)


class Stages:
    """Writes an event when a stage ends."""

    def __init__(self) -> None:
        self._stage, self._since = "", time.monotonic()

    def enter(self, stage: str) -> None:
        """Begin a stage, which ends the one before."""
        if stage != self._stage:
            self.end()
            self._stage, self._since = stage, time.monotonic()

    def end(self) -> None:
        """End the current stage."""
        if self._stage:
            put_event("stage", stage=self._stage, seconds=round(time.monotonic() - self._since, 3))
        self._stage = ""
