"""Scales: whether labels such as years, months or ranges of ages have an order of their own, and which.

names -> their order, or None where they are only names
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEWEST = 3
_LONGEST = 60  # longer labels are sentences
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FULL_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CYCLES = (_MONTHS, _FULL_MONTHS, _DAYS, _FULL_DAYS)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NUMBER = re.compile(r"(?:(?<![^\s<>=~])-)?[0-9]+(?:\.[0-9]+)?")
_BELOW = re.compile(r"<|≤|\b(?:under|below|less|up to|younger)\b")
_ABOVE = re.compile(r">|≥|\+|\b(?:over|above|more|older)\b")
_FILLING = re.compile(
    r"[\s\-\u2013\u2014/:.,+<>≤≥=~$€£%()\[\]]|\b(?:to|and|than|or|old|years?|under|below|less|up|over|above|more|older|younger)\b"
)


def order_on_scale(names: Sequence[str]) -> list[int] | None:
    """Return the positions of names in the order of their scale, or None where they have none.

    A scale is numbers, ranges of numbers, dates, months or days of the week, with the same words around all numbers.

    Args:
        names: Different names, in any order.

    >>> order_on_scale(["2017", "2015", "2016"])
    [1, 2, 0]
    >>> order_on_scale(["30-39", "> 60", "20-29", "under 20"])
    [3, 2, 0, 1]
    >>> order_on_scale(["March", "January", "February"])
    [1, 2, 0]
    >>> order_on_scale(["India", "Peru", "Chad"]) is None
    True
    """
    if len(names) < _FEWEST or any(len(name) > _LONGEST for name in names):
        return None
    lowered = [name.strip().lower() for name in names]
    keys = _in_cycle(lowered) or _by_numbers(lowered)
    if keys is None or len(set(keys)) < len(keys):
        return None
    return sorted(range(len(keys)), key=lambda at: keys[at])


def _in_cycle(names: Sequence[str]) -> list[tuple[float, ...]] | None:
    for cycle in _CYCLES:
        if all(name in cycle for name in names):
            return [(float(cycle.index(name)),) for name in names]
    return None


def _by_numbers(names: Sequence[str]) -> list[tuple[float, ...]] | None:
    plain = [_THOUSANDS.sub("", name) for name in names]
    words = {_FILLING.sub("", _NUMBER.sub("", name)) for name in plain}
    if len(words) > 1:
        return None
    keys = []
    for name in plain:
        numbers = [float(found) for found in _NUMBER.findall(name)]
        if not numbers:
            return None
        # "under 20" comes before "20 to 29", and "more than 60" after "60".
        side = -0.5 if _BELOW.search(name) else 0.5 if _ABOVE.search(name) else 0.0
        keys.append((numbers[0], side, *numbers[1:]))
    return keys
