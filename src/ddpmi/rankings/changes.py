"""Changes between two rankings: which pairs rose or fell, and which of them differ by more than the noise of both.

The lift of a pair is compared, because it does not depend on how common the feature and the label are, nor on the number of
units. A difference is measured by the 95% intervals of both releases: half a width of each, on the sides that face each
other, added as squares. The chance of a larger difference without a change is taken to be 0.05 to the power of that ratio,
which is exact for one Laplace noise and too large for all others. Among many pairs some differ by chance, so the clear ones
are chosen as Benjamini and Hochberg do: at most 5% of them are expected to be false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from ddpmi._typing import Flags, Floats, Integers
    from ddpmi.rankings.ranking import Ranking

FALSE = 0.05
"""The part of the clear differences that is expected to be false, at most."""
RULE = (
    "Clear: the 95% intervals of lift of both releases leave little chance of no change;"
    " at most 5% of these are expected to be false."
)
"""The rule in one sentence."""
LISTED = 10
"""How many risers, and how many fallers, are listed."""
_AT_LEAST = 3  # risers and fallers that are listed even if they are not clear


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Pairs that both rankings contain and that are among the best of either one."""

    compared: int
    """How many pairs were compared."""
    clear: int
    """How many of them differ clearly."""
    risers: tuple[dict[str, Any], ...]
    """Pairs with a better rank in the second ranking: clear ones first, and among these the largest for their noise. Keys: label,
    feature, rank_a, rank_b, share_in_a, share_in_b, lift_a, lift_b, clear."""
    fallers: tuple[dict[str, Any], ...]
    """Pairs with a worse rank, likewise."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        lists = {"risers": [dict(one) for one in self.risers], "fallers": [dict(one) for one in self.fallers]}
        return {"compared": self.compared, "clear": self.clear, "rule": RULE} | lists

    def lines(self) -> list[str]:
        """Return lines for people; unclear changes say so."""
        if not self.compared:
            return []
        counted = f"{self.clear} of {self.compared} pairs among the best of either list differ clearly."
        lines = [counted if self.clear else f"None {counted.partition(' ')[2].replace('differ', 'differs')}", RULE]
        for title, listed in (("Risers", self.risers), ("Fallers", self.fallers)):
            if listed:
                lines += [f"{title}:", *(f"  {_line(one)}" for one in listed)]
        return lines


def _line(change: dict[str, Any]) -> str:
    """Write one change."""
    named = f"{printable(change['label'])}: {printable(change['feature'])}"
    ranks = f"rank {change['rank_a']} to {change['rank_b']}"
    verdict = "clear" if change["clear"] else "may be noise"
    return f"{named}, {ranks}, {_times(change['lift_a'])} to {_times(change['lift_b'])} ({verdict})"


def _times(lift: float | None) -> str:
    return "?" if lift is None else f"{lift:.3g} times"


def changes(
    left: Ranking, right: Ranking, *, rows: tuple[Integers, Integers], places: tuple[Integers, Integers]
) -> Changes:
    """Compare the lifts of pairs that two rankings share.

    Args:
        left: The first ranking.
        right: The second one.
        rows: The same pairs as rows of `Ranking.coded` of either one.
        places: Their ranks in either one.
    """
    if not len(rows[0]):
        return Changes(compared=0, clear=0, risers=(), fallers=())
    tables = left.lifts(rows[0]), right.lifts(rows[1])
    beyond = times_the_noise(*(_ends(table) for table in tables))
    clear = clear_of_noise(beyond)
    rise = np.log(places[0] / places[1])
    listed = []
    for way in (rise, -rise):
        order = np.lexsort((-way, np.where(clear, -beyond, 0.0), ~clear))
        order = order[way[order] > 0]
        few = order[: max(_AT_LEAST, min(LISTED, int(np.sum(clear[order]))))]
        listed.append(tuple(_described(tables, int(at), places, clear) for at in few))
    return Changes(compared=len(rows[0]), clear=int(np.sum(clear)), risers=listed[0], fallers=listed[1])


def _ends(table: pa.Table) -> tuple[Floats, Floats, Floats]:
    """Return lift and its bounds; NaN where a lift is not known."""
    value, low, high = (np.asarray(table[name].to_numpy(), np.float64) for name in ("lift", "lift_low", "lift_high"))
    return value, low, high


def times_the_noise(one: tuple[Floats, Floats, Floats], two: tuple[Floats, Floats, Floats]) -> Floats:
    """Return by how many half widths values differ; 0 where one is not known.

    Args:
        one: Values, their lower and their upper bounds.
        two: The other values, likewise.

    >>> a, b = (np.array([1.0]), np.array([0.7]), np.array([1.3])), (np.array([2.0]), np.array([1.6]), np.array([2.4]))
    >>> times_the_noise(a, b).round(2).tolist()
    [2.0]
    """
    (a, a_low, a_high), (b, b_low, b_high) = one, two
    rises = b > a
    first, second = np.where(rises, a_high - a, a - a_low), np.where(rises, b - b_low, b_high - b)
    width, gap = np.hypot(first, second), np.abs(b - a)
    exact = np.where(gap > 0, np.inf, 0.0)  # without noise every difference is one
    ratio = np.divide(gap, width, out=exact, where=width > 0)
    found: Floats = np.where(np.isnan(gap + width), 0.0, ratio)
    return found


def clear_of_noise(beyond: Floats) -> Flags:
    """Return which of several differences are clear, each given in half widths.

    >>> clear_of_noise(np.array([0.3, 2.5, 0.9, 1.1])).tolist()
    [False, True, False, False]
    """
    chance = FALSE**beyond
    order = np.argsort(chance)
    allowed = FALSE * np.arange(1, len(chance) + 1) / max(len(chance), 1)
    passed = np.flatnonzero(chance[order] <= allowed)
    clear = np.zeros(len(chance), np.bool_)
    if len(passed):
        clear[order[: passed[-1] + 1]] = True
    return clear


def _described(
    tables: tuple[pa.Table, pa.Table], at: int, places: tuple[Integers, Integers], clear: Flags
) -> dict[str, Any]:
    """Return one change as plain values."""
    found: dict[str, Any] = {name: tables[0][name][at].as_py() for name in ("label", "feature")}
    found |= {f"rank_{side}": int(place[at]) for side, place in zip("ab", places, strict=True)}
    for name in ("share_in", "lift"):
        found |= {f"{name}_{side}": table[name][at].as_py() for side, table in zip("ab", tables, strict=True)}
    return found | {"clear": bool(clear[at])}
