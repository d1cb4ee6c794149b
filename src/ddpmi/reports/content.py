"""What a page holds of a ranking: names, counts and rows of limited size, as plain values for JSON.

Ranking -> Content : the best rows of each label, labels in the order of their scale or by size
Every number is a released number, or is computed from released numbers.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpmi.information.scores import TITLES
from ddpmi.rankings.cells import space_of
from ddpmi.rankings.labels import on_scale
from ddpmi.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddpmi.rankings.ranking import Ranking

NUMBERS = (
    *("mi", "mi_low", "mi_high", "share_in", "share_in_low", "share_in_high"),
    *("share_out", "share_out_low", "share_out_high", "lift", "lift_low", "lift_high", "false_sign"),
)
"""The columns with numbers that a page holds."""
MOST_BYTES = 1_800_000
"""The most bytes of a page's rows and names as JSON: a page stays below 2 MB, which mail accepts and a phone opens."""
FEWEST_ON_SCALE = 3
"""The fewest labels of which a course is drawn."""
_MOST_ROWS = 20_000
_MOST_LABELS = 3_000
LONGEST_NAME = 160  # characters: browsers could not open a page with names of a megabyte
_DIGITS = ".4g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One label of a page."""

    name: str
    size: float
    """Its released sum, in the user's units."""
    pairs: int
    """How many of its pairs were released."""
    clear: int
    """How many of them are clear of the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The rows of a page and what is said about them."""

    ranking: Ranking
    """The whole ranking."""
    rows: tuple[dict[str, Any], ...]
    """The rows that the page holds: the best of each label, as in `Ranking.to_dicts`."""
    labels: tuple[Label, ...]
    """The labels that the page holds, in the order of their scale, otherwise the largest first."""
    scale: bool
    """Whether the labels have an order of their own, as years have."""
    all_labels: int
    """How many labels have released pairs."""
    top: int
    """How many features are drawn for a label in each direction."""

    @classmethod
    def of(cls, ranking: Ranking, *, top: int = 10) -> Content:
        """Choose the rows: as many of each label as the size of a page allows.

        Args:
            ranking: The ranking.
            top: How many features are drawn for a label in each direction.
        """
        labels = _labels(ranking)
        shown = sorted(labels, key=lambda label: (-label.size, label.name.encode()))[:_MOST_LABELS]
        by_name = {label.name: label for label in shown}
        order = on_scale(list(by_name)) if len(shown) >= FEWEST_ON_SCALE else None
        ordered = shown if order is None else [by_name[name] for name in order]
        most = _rows_for_each([label.pairs for label in shown])
        while True:
            rows = _best_rows(ranking, most, {label.name for label in ordered})
            found = cls(
                ranking=ranking,
                rows=rows,
                labels=tuple(ordered),
                scale=order is not None,
                all_labels=len(labels),
                top=top,
            )
            if len(found.to_json().encode()) <= MOST_BYTES:
                return found
            if most > 1:
                most = max(1, most * 3 // 4)
            else:
                ordered = ordered[: max(1, len(ordered) * 3 // 4)]
            if len(ordered) <= 1 and most <= 1:
                return found

    @property
    def clear(self) -> int:
        """How many released pairs are clear of the noise."""
        return self.ranking.clear_count

    def to_dict(self) -> dict[str, Any]:
        """Return what the page's script reads; names are printable and cut."""
        features = sorted({row["feature"] for row in self.rows}, key=str.encode)
        at_feature = {name: at for at, name in enumerate(features)}
        at_label = {label.name: at for at, label in enumerate(self.labels)}
        names = (*NUMBERS, *(() if self.ranking.scored_by is None else ("score",)))
        rows: dict[str, list[Any]] = {
            "rank": [row["rank"] for row in self.rows],
            "feature": [at_feature[row["feature"]] for row in self.rows],
            "label": [at_label[row["label"]] for row in self.rows],
            "direction": [row["direction"] for row in self.rows],
            "clear": [row["clear"] for row in self.rows],
            "note": [row["note"] for row in self.rows],
            **{name: [_rounded(row[name]) for row in self.rows] for name in names},
        }
        return {"meta": self._meta(names, features), "rows": rows}

    def to_json(self) -> str:
        """Return `to_dict` as JSON that may be put into a page: no character of it can end a script element."""
        dense = json.dumps(_packed(self.to_dict()), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return dense.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

    def _meta(self, names: Sequence[str], features: Sequence[str]) -> dict[str, Any]:
        ranking, words = self.ranking, self.ranking.words
        labels = [
            {"name": cut(label.name), "size": _rounded(label.size), "pairs": label.pairs, "clear": label.clear}
            for label in self.labels
        ]
        return {
            "words": {
                "feature": cut(words.feature),
                "label": cut(words.label),
                "features": [cut(words.feature), cut(words.features)],
                "labels": [cut(words.label), cut(words.labels)],
            },
            "features": [cut(name) for name in features],
            "labels": labels,
            "scale": self.scale,
            "exact": not ranking.private,
            "notice": ranking.notice,
            "unit_of_mi": ranking.unit_of_mi,
            "score": None if ranking.scored_by is None else TITLES[ranking.scored_by],
            "numbers": list(names),
            "top": self.top,
            "pairs": len(ranking),
            "held": len(self.rows),
        }

    def telling(self, labels: int, each: int) -> list[tuple[str, list[dict[str, Any]]]]:
        """Return the best clear rows of the largest labels that have any."""
        by_label: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows:
            if row["clear"] and row["share_in"] is not None and row["share_out"] is not None:
                by_label.setdefault(row["label"], []).append(row)
        largest = sorted(self.labels, key=lambda label: (-label.size, label.name.encode()))
        some = [label.name for label in largest if label.name in by_label][:labels]
        return [(name, sorted(by_label[name], key=lambda row: row["rank_in_label"])[:each]) for name in some]


def hidden_share(ranking: Ranking, receipt: Mapping[str, Any]) -> float | None:
    """Return the share of all events that the released pairs do not hold, between 0 and 1; None where it is not known.

    It is a difference of released sums, so it tells nothing about single pairs. Where units are counted, a unit has many
    pairs and the sums of pairs do not add up to the sum of everything.
    """
    if ranking.source is None or space_of(receipt) == "units":
        return None
    cells = ranking.source.cells
    if cells.total <= 0:
        return None
    return min(max(1 - int(cells.joint.sum()) / cells.total, 0.0), 1.0)


def cut(text: str) -> str:
    r"""Return a name as harmless text, cut to the longest name.

    >>> print(cut("red\x1b[31m"), len(cut("a" * 5000)))
    red\x1b[31m 160
    """
    shown = printable(text)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


def _labels(ranking: Ranking) -> list[Label]:
    """Return all labels that have a pair in the ranking."""
    counts = ranking.counts_in_labels()
    sizes = ranking.top(1, per="label").table.select(["label", "label_total"]).to_pylist()
    return [
        Label(name=row["label"], size=row["label_total"], pairs=counts[row["label"]][0], clear=counts[row["label"]][1])
        for row in sizes
    ]


def _rows_for_each(pairs: Sequence[int]) -> int:
    """Return the most rows of each label so that all of them are not too many.

    >>> _rows_for_each([5, 3]), _rows_for_each([20_000, 10])
    (5, 19990)
    """
    left, most = _MOST_ROWS, 1
    for at, count in enumerate(sorted(pairs)):
        share = left // (len(pairs) - at)
        if count > share:
            return max(share, 1)
        left, most = left - count, count
    return max(most, 1)


def _best_rows(ranking: Ranking, most: int, labels: set[str]) -> tuple[dict[str, Any], ...]:
    rows = ranking.top(most, per="label").table.sort_by("rank").to_pylist()
    return tuple(row for row in rows if row["label"] in labels)


def _rounded(value: float | None) -> float | None:
    """Return four significant digits; None where there is no finite number."""
    if value is None or not math.isfinite(value):
        return None
    short = float(format(value, _DIGITS))
    return int(short) if short.is_integer() else short


def _packed(found: dict[str, Any]) -> dict[str, Any]:
    """Write columns of texts and truth values as positions and digits, which take less room."""
    rows = dict(found["rows"])
    notes = sorted({note for note in rows["note"] if note is not None})
    at = {note: place for place, note in enumerate(notes)}
    rows["note"] = [None if note is None else at[note] for note in rows["note"]]
    rows["clear"] = [int(clear) for clear in rows["clear"]]
    rows["direction"] = [int(direction == "presence") for direction in rows["direction"]]
    return {"meta": found["meta"] | {"notes": notes}, "rows": rows}
