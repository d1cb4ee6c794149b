"""Functions that SQLite lacks, and cells as text. SQLite has no types of columns: each cell has its own."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

from ddpmi.engines.temporary import LONGEST_KEY

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

_LARGEST = 2**63 - 1


def text_of(cell: object) -> str | None:
    r"""Return a cell as text. Text comes as its bytes, which need not be Unicode; a blob is no text.

    >>> text_of(b"a\xff"), text_of(7), text_of(0.5), text_of(None)
    ('a\ufffd', '7', '0.5', None)
    """
    # proof: row-local.sqlite
    if isinstance(cell, bytes):
        return cell.decode(errors="replace") if len(cell) <= LONGEST_KEY else None
    return None if cell is None else repr(cell)


def number_of(text: str | None) -> float | None:
    """Return the number that a text is, or None. Never raises.

    >>> number_of("1e3"), number_of("ten"), number_of("1_0")
    (1000.0, None, None)
    """
    # proof: row-local.sqlite
    if text is None or not text.isascii() or "_" in text:
        return None
    try:
        found = float(text)
    except ValueError:
        return None
    return None if math.isnan(found) else found


class WideSum:
    """A sum that does not fail beyond 64 bits: it becomes a double, which is clamped or divides later."""

    def __init__(self) -> None:
        self._sum: float | None = None

    def step(self, number: float | None) -> None:
        """Add a number; NULL adds nothing."""
        if number is not None:
            self._sum = number if self._sum is None else self._sum + number

    def finalize(self) -> float | None:
        """Return the sum."""
        # proof: bounding.integers
        return self._sum if self._sum is None or abs(self._sum) <= _LARGEST else float(self._sum)


def _least(*cells: float | None) -> float | None:
    return min((cell for cell in cells if cell is not None), default=None)


def _greatest(*cells: float | None) -> float | None:
    return max((cell for cell in cells if cell is not None), default=None)


def _sha256(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def register(connection: sqlite3.Connection) -> None:
    """Give a connection the functions that the pipeline's text uses."""
    functions: dict[tuple[str, int], Callable[..., Any]] = {
        ("ddpmi_text", 1): text_of,
        ("ddpmi_number", 1): number_of,
        ("ddpmi_sha256", 1): _sha256,
        ("ddpmi_length", 1): lambda text: None if text is None else len(text),
        ("LEAST", 2): _least,
        ("GREATEST", 2): _greatest,
        ("FLOOR", 1): lambda number: None if number is None else float(math.floor(number)),
        ("SQRT", 1): lambda number: None if number is None else math.sqrt(number),
    }
    for (name, arguments), function in functions.items():
        connection.create_function(name, arguments, function, deterministic=True)
    connection.create_aggregate("ddpmi_sum", 1, WideSum)  # type: ignore[arg-type]
