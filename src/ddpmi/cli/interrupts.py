"""Ctrl-C: one sentence and exit code 130, at any moment, and never a traceback.

Libraries turn a Ctrl-C into errors of their own: DuckDB into a RuntimeError, others into an AttributeError of a half-made
object. So the handler remembers that Ctrl-C was pressed, and an error that ends the command later counts as its result.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

EXIT_CODE = 130

#: Errors that caused each other may form a ring.
_LONGEST_CHAIN = 100

_pressed = False


def was_interrupted(error: BaseException) -> bool:
    """Return whether an error ends a command because of Ctrl-C.

    >>> was_interrupted(KeyboardInterrupt()), was_interrupted(ValueError())
    (True, False)
    """
    link: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if isinstance(link, KeyboardInterrupt):
            return True
        link = None if link is None else link.__cause__ or link.__context__
    return _pressed


@contextmanager
def at_start(*, program: bool) -> Iterator[None]:
    """End the process at Ctrl-C while the program loads. Nothing is open yet.

    Args:
        program: Whether this process is the program ``ddpmi``; a caller's process is never ended.
    """
    with _handler(_end_at_once if program else signal.default_int_handler):
        yield


@contextmanager
def noticed() -> Iterator[None]:
    """Remember whether Ctrl-C was pressed, until the command has ended."""
    global _pressed  # noqa: PLW0603 - a signal belongs to the whole process
    _pressed = False
    with _handler(_remember):
        yield


@contextmanager
def _handler(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle Ctrl-C while the body runs, unless the caller of this process handles or ignores it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # another thread than the main one, which receives no signals
        yield
        return
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - of every handler
    os.write(2, b"Error: Interrupted.\nThe ledger was not charged.\n")
    os._exit(EXIT_CODE)


def _remember(number: int, frame: FrameType | None) -> None:
    global _pressed  # noqa: PLW0603
    _pressed = True
    signal.default_int_handler(number, frame)


def end_process() -> None:
    """End this process with the exit code of Ctrl-C.

    CPython would end it by a signal instead if Ctrl-C was pressed while some library evaluated text as code.
    """
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001 - removes temporary folders, stops Spark's gateway
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(EXIT_CODE)
