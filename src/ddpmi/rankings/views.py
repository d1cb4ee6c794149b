"""Views: what a person reads of a ranking, as lines for a terminal: a table, sections for each label, or a summary.

Sentences on what is certain come first, then rows. Rows that may be noise are dim, and say so in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddpmi.rankings.display import NOTHING_CLEAR, Line, Look, finding_line, table_lines
from ddpmi.text import cut, printable, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddpmi.rankings.ranking import Ranking

    Rows = list[dict[str, Any]]

_FINDINGS = 10  # clear rows of a label that a line of a summary may name
_NAMED = 8  # labels without findings that a summary names, at most
_AROUND = 4  # lines of a summary besides labels, and the prompt
_LEAST_LINES = 5  # labels that a summary lists, even on a small screen


def look_of(ranking: Ranking, *, labelled: bool = True) -> Look:
    """Return what a table of a ranking says besides its rows."""
    return Look(
        private=ranking.private,
        unit_of_mi=ranking.unit_of_mi,
        words=ranking.words,
        scored=ranking.scored_by is not None,
        ranks=ranking.rank_intervals,
        labelled=labelled,
    )


def certainty_of(ranking: Ranking) -> str:
    """Say how many rows of a ranking are clear; empty where sums are exact or there are no rows."""
    if not ranking.private or not len(ranking):
        return ""
    clear = ranking.clear_count
    if not clear:
        return NOTHING_CLEAR
    of = f"{clear:,} of {_several(len(ranking))} {'is' if clear == 1 else 'are'} clear of the noise"
    return f"{of}; of all clear ones at most 5% are expected to point in the wrong direction."


def first_of(ranking: Ranking) -> list[str]:
    """Return the sentences above the rows: the guarantee, and what is certain."""
    return [line for line in (ranking.promise, certainty_of(ranking)) if line]


def feet_of(ranking: Ranking) -> list[str]:
    """Return the sentences below the rows: how they are ordered, what bounding changed, and what is stable."""
    caption = look_of(ranking).caption if len(ranking) else ""
    return [line for line in (caption, ranking.order_in_words, ranking.bounding_note, ranking.stability) if line]


def flat(ranking: Ranking, rows: Rows, *, width: int) -> list[Line]:
    """Lay out some rows of a ranking as one table, in the order given."""
    shown = f", {len(rows)} shown" if len(rows) < len(ranking) else ""
    counts = ranking.counts_in_labels()
    titles = [_title(ranking, name, found) for name, found in counts.items()] if len(counts) == 1 else [""]
    table = table_lines([(titles[0], rows)], look_of(ranking, labelled=len(counts) != 1), width=width)
    return _framed(ranking, table, f"{_several(len(ranking))}{shown}")


def sections(ranking: Ranking, part: Ranking, *, width: int) -> list[Line]:
    """Lay out some rows of a ranking label by label, labels in their natural order.

    Args:
        ranking: The whole ranking.
        part: The rows to show.
        width: The width of the terminal.
    """
    rows: Rows = part.table.to_pylist()
    by_label: dict[str, Rows] = {}
    for row in rows:
        by_label.setdefault(row["label"], []).append(row)
    if seed := _seed_side(ranking, by_label):
        by_label = {seed: by_label[seed]}
    counts = ranking.counts_in_labels()
    groups = [
        (_title(ranking, name, counts.get(name, (0, 0))), by_label[name]) for name in ranking.labels if name in by_label
    ]
    shown = sum(len(group) for _, group in groups)
    table = table_lines(groups, look_of(ranking, labelled=False), width=width)
    without = [name for name in ranking.labels if name not in by_label and name in counts and not counts[name][1]]
    if without and not seed:
        table.append(Line(text=_nothing_in(without, width=width)))
    counted = f"{shown:,} of {_several(len(ranking))}"
    if seed:
        counted += f"; the side of {printable(seed)} alone, because the other side has the same pairs turned round"
    return _framed(ranking, table, counted)


def _framed(ranking: Ranking, table: list[Line], counted: str) -> list[Line]:
    """Put the guarantee and what is certain above a table, and what it counts and how it is ordered below."""
    return [
        *(Line(text=line) for line in first_of(ranking)),
        *table,
        *(Line(text=line) for line in (counted, *feet_of(ranking))),
    ]


def _title(ranking: Ranking, label: str, counts: tuple[int, int]) -> str:
    """Return the heading of a label, with what is certain in it."""
    pairs, clear = counts
    name = printable(label)
    if not ranking.private:
        return f"{name}: {_several(pairs)}"
    if not clear:
        return f"{name}: nothing certain here; none of {_several(pairs)} is clear of the noise"
    return f"{name}: {clear:,} of {_several(pairs)} {'is' if clear == 1 else 'are'} clear"


def _seed_side(ranking: Ranking, by_label: Mapping[str, object]) -> str:
    """Return the label of the seed, if the labels were made by a seed and both sides would be shown."""
    seed = ranking.words.seed
    return seed if seed is not None and seed in by_label else ""


def summary(ranking: Ranking, *, width: int, height: int, more: Sequence[str] = ()) -> list[Line]:
    """Write the clear findings of each label in one line, at most a screen in all.

    Args:
        ranking: The whole ranking.
        width: The width of the terminal.
        height: Its height in lines.
        more: How to see more, in lines.
    """
    first = first_of(ranking)
    best, counts = ranking.clear_top(_FINDINGS), ranking.counts_in_labels()
    found: dict[str, Rows] = {}
    for row in best.table.to_pylist():
        found.setdefault(row["label"], []).append(row)
    if seed := _seed_side(ranking, counts):
        counts, found = {seed: counts[seed]}, {seed: found[seed]} if seed in found else {}
    without = [name for name in ranking.labels if name in counts and name not in found]
    taken = sum(-(-width_of(line) // width) for line in (*first, *more))
    room = max(_LEAST_LINES, height - taken - _AROUND)
    # On a small screen the labels with most clear findings are listed, in their natural order.
    listed = sorted(found, key=lambda name: -counts[name][1])[:room]
    lines = [finding_line(name, found[name], counts[name][1], width=width) for name in ranking.labels if name in listed]
    if len(found) > len(listed):
        lines.append(f"{len(found) - len(listed)} more labels have clear findings.")
    if without and found:
        lines.append(_nothing_in(without, width=width))
    if found:
        of = f"of {ranking.words.counted}" if ranking.words.space == "units" else f"of all {ranking.words.counted}"
        lines.append(f"Each: the share {of} within the {printable(ranking.words.label)}, vs within all others.")
    return [Line(text=line) for line in (*first, *lines, *more)]


def _nothing_in(labels: Sequence[str], *, width: int) -> str:
    """Name the labels in which nothing is clear, as many as fit in one line."""
    line, said = "Nothing certain: ", 0
    for name in labels[:_NAMED]:
        word = cut(printable(name), max(10, width // 4))
        rest = f" and {len(labels) - said - 1} more labels"
        if said and width_of(line + word + rest) + 2 > width:
            break
        line, said = line + (", " if said else "") + word, said + 1
    left = len(labels) - said
    return line + (f" and {left} more label{'' if left == 1 else 's'}" if left else "")


def _several(pairs: int) -> str:
    return f"{pairs:,} pair{'' if pairs == 1 else 's'}"
