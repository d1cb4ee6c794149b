"""Look from a second thread how far a running query is."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_SECONDS = 0.2


@contextmanager
def polled(look: Callable[[], float | None], progress: Callable[[float], None] | None) -> Iterator[None]:
    """Pass on what ``look`` finds while the body runs.

    Args:
        look: Returns the fraction done, or None where nothing can be said.
        progress: Called with each fraction; None looks at nothing.
    """
    if progress is None:
        yield
        return
    done = threading.Event()

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            fraction = look()
            if fraction is not None:
                progress(fraction)

    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
