"""Progress of a running query, asked for by a second thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_SECONDS = 0.2


@contextmanager
def polled(fraction_done: Callable[[], float | None], progress: Callable[[float], None] | None) -> Iterator[None]:
    """Report progress while the body runs.

    Args:
        fraction_done: Returns the fraction done, or None while it is unknown.
        progress: Called with each fraction; None reports nothing.
    """
    if progress is None:
        yield
        return
    done = threading.Event()

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            fraction = fraction_done()
            if fraction is not None:
                progress(fraction)

    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
