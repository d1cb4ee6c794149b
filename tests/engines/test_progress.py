"""Progress is asked for while a query runs, and not afterwards."""

from __future__ import annotations

import threading

from ddpmi.engines.progress import polled


def test_what_is_found_is_passed_on() -> None:
    """Fractions arrive while the body runs; an unknown one is not reported."""
    found = iter([None, 0.25, 0.5])
    seen: list[float] = []
    enough = threading.Event()

    def report(fraction: float) -> None:
        seen.append(fraction)
        if len(seen) == 2:
            enough.set()

    before = threading.active_count()
    with polled(lambda: next(found, None), report):
        assert enough.wait(60)
    assert seen == [0.25, 0.5]
    assert threading.active_count() == before


def test_nobody_watches() -> None:
    """Without somebody to tell, nothing is looked at."""
    looked: list[int] = []
    with polled(lambda: looked.append(1), None):
        pass
    assert looked == []
