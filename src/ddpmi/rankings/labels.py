"""The labels of a ranking: their natural order, and the one that a person meant.

Released labels are public: a message may name them.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from ddpmi.errors import Hint, InputError
from ddpmi.text import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NUMBER = re.compile(r"[<>\u2264\u2265~+ ]*(-?\d[\d,]*(?:\.\d+)?)")
_DATE = re.compile(r"\d{4}(?:[-/.](?:\d{1,2}|[QWH]\d{1,2})(?:[-/.]\d{1,2})?)?(?:[T ].*)?$")
_NAMES = (
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ],
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
)
_SHORT = 3  # letters that name a month or a day
_MENTIONED = 10  # labels that a message names


def natural_order(sizes: Mapping[str, float]) -> list[str]:
    """Order labels as people do: numbers, dates, months and days by value, and all other labels by size, largest first.

    Args:
        sizes: The total of each label.

    >>> natural_order({"10": 5.0, "9": 7.0}), natural_order({"France": 5.0, "UK": 90.0})
    (['9', '10'], ['UK', 'France'])
    """
    return on_scale(list(sizes)) or sorted(sizes, key=lambda name: (-sizes[name], name.encode()))


def on_scale(names: Sequence[str]) -> list[str] | None:
    """Order labels that are numbers, dates, months or days by value; None where they are other names.

    >>> on_scale(["2016", "2015"]), on_scale(["2016", "UK"])
    (['2015', '2016'], None)
    """
    names = sorted(names, key=str.encode)
    for value in (_date, _number, *map(_in_calendar, _NAMES)):
        found = [(place, name) for name in names if (place := value(name)) is not None]
        if len(found) == len(names) > 0:
            return [name for _, name in sorted(found, key=lambda pair: (pair[0], pair[1].encode()))]
    return None


def _number(name: str) -> tuple[float, ...] | None:
    """Return the number that a label starts with: 18 of "18-24 years"."""
    found = _NUMBER.match(name)
    if found is None:
        return None
    # What is below a number comes before it.
    return float(found[1].replace(",", "")), 0.0 if "<" in found[0] or "\u2264" in found[0] else 1.0


def _date(name: str) -> tuple[float, ...] | None:
    """Return the numbers of a date that starts with its year."""
    return tuple(float(part) for part in re.findall(r"\d+", name)) if _DATE.fullmatch(name) else None


def _in_calendar(names: Sequence[str]) -> Callable[[str], tuple[float, ...] | None]:
    """Return what finds the place of a month or of a day, in full or as its first three letters."""
    places = {short: float(at) for at, name in enumerate(names) for short in (name, name[:_SHORT])}

    def place(name: str) -> tuple[float, ...] | None:
        found = places.get(name.strip(" .").lower())
        return None if found is None else (found,)

    return place


def check_known(wanted: Sequence[str], sizes: Mapping[str, float]) -> None:
    """Raise unless these are released labels. The message names the nearest ones.

    >>> check_known(["Germny"], {"Germany": 5.0, "France": 4.0})
    Traceback (most recent call last):
    ddpmi.errors.InputError: There is no released label 'Germny'. Did you mean 'Germany'?
    <BLANKLINE>
    Hint: ranking.label('Germany')
    """
    for name in wanted:
        if name in sizes:
            continue
        folded = {known.casefold(): known for known in sizes}
        near = [folded[found] for found in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
        message = f"There is no released label {shortened(name)}."
        if near:
            message += f" Did you mean {' or '.join(map(shortened, near))}?"
        elif sizes:
            some = natural_order(sizes)[:_MENTIONED]
            more = f" and {len(sizes) - len(some)} more" if len(sizes) > len(some) else ""
            message += f" The released ones are {', '.join(map(shortened, some))}{more}."
        example = (near or natural_order(sizes) or ["NAME"])[0]
        raise InputError(
            message, hint=Hint(python=f"ranking.label({shortened(example)})", cli=f"--label {shortened(example)}")
        )
