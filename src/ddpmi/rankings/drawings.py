"""Drawings of a ranking: shares inside and outside, a map, the course over ordered labels, and effect against evidence.

rows of a ranking -> Altair charts. Rows that may be noise are pale or hollow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from ddpmi.errors import InputError
from ddpmi.rankings import views
from ddpmi.rankings.charts import COLOURS, GREY, PALE, WIDTH, altair, of_ranking, short, styled
from ddpmi.rankings.labels import on_scale
from ddpmi.text import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddpmi.rankings.ranking import Ranking

    Rows = Sequence[Mapping[str, Any]]

Kind = Literal["bars", "shares", "map", "trend", "evidence"]
"""The kinds of plots of a ranking."""
_MOST_COLUMNS = 24
_MOST_POINTS = 3_000
_LOOKED_AT = 50  # rows that are looked at to find one more feature
_LEAST_LABELS = 3
_SIDE = "share outside"
_FARTHEST = 3  # the map's colours end at 8 times, and at an eighth
_CLEAR, _NOISE = "clear", "may be noise"
_PANEL = 210
_PANELS = 3
_NAMED = 12  # points with names
_PLANE = (560, 400)  # width and height of a chart of points
_LETTER, _LINE = 6, 14  # pixels of a letter's width and of a line's height


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What a chart says above its picture."""

    title: str
    """The title, in the words of the data."""
    lines: Sequence[str]
    """The guarantee of the release, and what is certain."""

    def of(self, alt: Any, *more: str) -> Any:
        """Return the title and the lines below it."""
        lines = [line for line in (*more, *self.lines) if line]
        return alt.TitleParams(self.title, subtitle=lines, anchor="start", offset=10)


def of_shares(rows: Rows, names: Sequence[str], heading: Heading) -> Any:
    """Draw the share inside and the share outside of each row, with their 95% intervals.

    Args:
        rows: Rows of a ranking, in the order to draw.
        names: The name of each row.
        heading: What is said above.
    """
    alt = altair()
    values = [
        {"name": f"{at}. {name}", "opacity": 1.0 if row["clear"] else PALE, "direction": row["direction"]}
        | {key: row[key] for key in ("share_in", "share_in_low", "share_in_high", "share_out")}
        | {"outside": _SIDE}
        for at, (row, name) in enumerate(zip(rows, names, strict=True), start=1)
        if row["share_in"] is not None and row["share_out"] is not None
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("name:N", sort=[value["name"] for value in values], title=None).axis(labelLimit=520),
        opacity=alt.Opacity("opacity:Q", scale=None),
    )
    kinds = [*COLOURS, _SIDE]
    colour = alt.Color("direction:N", title=None).scale(domain=kinds, range=[*COLOURS.values(), GREY])
    x = alt.X("share_in:Q", title="share inside (filled) and outside (hollow), with 95% interval inside").axis(
        format="~%"
    )
    link = base.mark_rule(strokeWidth=4, strokeOpacity=0.3).encode(x="share_out:Q", x2="share_in:Q", color=colour)
    interval = base.mark_rule(strokeWidth=1.5).encode(x="share_in_low:Q", x2="share_in_high:Q", color=colour)
    outside = base.mark_point(size=55, filled=False, strokeWidth=2).encode(
        x="share_out:Q", color=alt.Color("outside:N", title=None)
    )
    inside = base.mark_point(size=65, filled=True).encode(x=x, color=colour)
    title = heading.of(alt, "" if all(row["clear"] for row in rows) else "Pale rows may be noise.")
    return styled((link + interval + outside + inside).properties(width=WIDTH, height={"step": 20}, title=title))


def of_map(rows: Rows, features: Sequence[str], labels: Sequence[str], heading: Heading) -> Any:
    """Draw how many times as common each feature is inside each label; the colour has the sign of the direction.

    Args:
        rows: Rows of these features and labels; pairs without a row stay empty.
        features: The features, from the top.
        labels: The labels, from the left.
        heading: What is said above.
    """
    alt = altair()
    shown = {name: f"{at}. {short(name)}" for at, name in enumerate(features, start=1)}
    columns = {name: f"{at}. {short(name, 20)}" for at, name in enumerate(labels, start=1)}
    values = [
        {
            "feature": shown[row["feature"]],
            "label": columns[row["label"]],
            "far": _far(row),
            "times": f"{row['lift']:.2g}" if row["lift"] < 100 else f"{row['lift']:.0f}",  # noqa: PLR2004
            "dark": abs(_far(row)) > 1.6 and row["clear"],  # noqa: PLR2004
            "opacity": 1.0 if row["clear"] else PALE,
        }
        for row in rows
        if row["lift"] is not None
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("label:N", sort=list(columns.values()), title=None).axis(orient="top", labelAngle=-45, labelLimit=180),
        y=alt.Y("feature:N", sort=list(shown.values()), title=None).axis(labelLimit=520),
    )
    ticks = list(range(-_FARTHEST, _FARTHEST + 1))
    colour = alt.Color("far:Q", title="times as common as overall").scale(
        domain=[-_FARTHEST, 0, _FARTHEST], range=[COLOURS["absence"], "#f4f4f4", COLOURS["presence"]], clamp=True
    )
    legend = alt.Legend(values=ticks, labelExpr="pow(2, datum.value) + '\u00d7'", gradientLength=220)
    cells = base.mark_rect(stroke="white").encode(
        color=colour.legend(legend), opacity=alt.Opacity("opacity:Q", scale=None)
    )
    numbers = base.mark_text(fontSize=10).encode(
        text="times:N", color=alt.condition("datum.dark", alt.value("white"), alt.value("#1b1f24"))
    )
    title = heading.of(alt, "Pale cells may be noise; empty ones were not released.")
    return styled((cells + numbers).properties(width={"step": 38}, height={"step": 20}, title=title))


def of_trend(rows: Rows, features: Sequence[str], labels: Sequence[str], heading: Heading) -> Any:
    """Draw the share of each feature inside each label, labels in their own order, one panel for each feature.

    Args:
        rows: Rows of these features and labels.
        features: The features, a panel each.
        labels: The labels in their own order.
        heading: What is said above.
    """
    alt = altair()
    columns = {name: short(name, 16) for name in labels}
    panels = [_panel(alt, [row for row in rows if row["feature"] == name], name, columns) for name in features]
    lines = [alt.hconcat(*panels[at : at + _PANELS]) for at in range(0, len(panels), _PANELS)]
    title = heading.of(alt, "Hollow points may be noise.")
    return styled(alt.vconcat(*lines).properties(title=title))


def _panel(alt: Any, rows: Rows, feature: str, columns: Mapping[str, str]) -> Any:
    place = {name: at for at, name in enumerate(columns)}
    known = sorted((row for row in rows if row["share_in"] is not None), key=lambda row: place[row["label"]])
    values = [
        {"label": columns[row["label"]], "kind": _CLEAR if row["clear"] else _NOISE}
        # Labels without a released pair between two points end a line: its number is the same along a run alone.
        | {"run": place[row["label"]] - at}
        | {key: row[key] for key in ("share_in", "share_in_low", "share_in_high")}
        for at, row in enumerate(known)
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("label:O", sort=list(columns.values()), title=None)
        .scale(domain=list(columns.values()))
        .axis(labelOverlap="greedy", labelAngle=0 if max(map(len, columns.values()), default=0) < 8 else -45)  # noqa: PLR2004
    )
    y = alt.Y("share_in:Q", title=None).axis(format="~%", tickCount=4).scale(zero=True)
    line = base.mark_line(color=COLOURS["presence"]).encode(y=y, detail="run:N")
    interval = base.mark_rule(color=COLOURS["presence"], strokeWidth=3, opacity=0.3).encode(
        y="share_in_low:Q", y2="share_in_high:Q"
    )
    points = base.mark_point(filled=True, size=40, stroke=COLOURS["presence"], strokeWidth=1.5, opacity=1).encode(
        y=y,
        fill=alt.Fill("kind:N", legend=None).scale(domain=[_CLEAR, _NOISE], range=[COLOURS["presence"], "white"]),
    )
    title = alt.TitleParams(short(feature, 30), anchor="start", fontSize=12)
    return (line + interval + points).properties(width=_PANEL, height=110, title=title)


def of_evidence(rows: Rows, names: Sequence[str], heading: Heading, *, unit: str) -> Any:
    """Draw effect against evidence: how many times as common, and how much is known by it.

    Args:
        rows: Rows of a ranking, best first; the first clear ones are named.
        names: The name of each row.
        heading: What is said above.
        unit: The unit of mutual information.
    """
    alt = altair()
    known = [
        (row, name) for row, name in zip(rows, names, strict=True) if row["lift"] and row["lift"] > 0 and row["mi"] > 0
    ]
    named = _apart(known)
    values = [
        {
            "name": name if at in named else "",
            "lift": row["lift"],
            "mi": row["mi"],
            "direction": row["direction"],
            "opacity": 0.8 if row["clear"] else PALE,
        }
        for at, (row, name) in enumerate(known)
    ]
    x = (
        alt.X("lift:Q", title="times as common inside as overall")
        .scale(type="log", nice=False, padding=20)
        .axis(format="~r", tickCount=6)
    )
    y = (
        alt.Y("mi:Q", title=f"mutual information ({unit})")
        .scale(type="log", nice=False, padding=15)
        .axis(format="~g", tickCount=5)
    )
    base = alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y)
    colour = alt.Color("direction:N", title=None).scale(domain=list(COLOURS), range=list(COLOURS.values()))
    shape = alt.Shape("direction:N", title=None).scale(domain=list(COLOURS), range=["triangle-up", "triangle-down"])
    points = base.mark_point(filled=True, size=50).encode(
        color=colour, shape=shape, opacity=alt.Opacity("opacity:Q", scale=None)
    )
    texts = base.mark_text(align="left", dx=7, fontSize=10, limit=260).encode(text="name:N")
    title = heading.of(alt, "Pale points may be noise.")
    return styled((points + texts).properties(width=_PLANE[0], height=_PLANE[1], title=title))


def _apart(known: Sequence[tuple[Mapping[str, Any], str]]) -> set[int]:
    """Choose the first clear points whose names do not lie upon each other."""
    places = [(math.log(row["lift"]), math.log(row["mi"])) for row, _ in known]
    low, high = ([end(column) for column in zip(*places, strict=True)] if places else [0.0, 0.0] for end in (min, max))
    boxes: dict[int, tuple[float, float, float]] = {}
    for at, ((row, name), place) in enumerate(zip(known, places, strict=True)):
        if not row["clear"] or len(boxes) == _NAMED:
            continue
        x, y = (
            size * (value - a) / max(b - a, 1e-9) for size, value, a, b in zip(_PLANE, place, low, high, strict=True)
        )
        end = x + _LETTER * len(name)
        if all(abs(y - other[1]) > _LINE or end < other[0] or x > other[2] for other in boxes.values()):
            boxes[at] = (x, y, end)
    return set(boxes)


def _far(row: Mapping[str, Any]) -> float:
    """Return the logarithm of the lift to base 2, held within the map's colours."""
    return max(-_FARTHEST, min(_FARTHEST, math.log2(max(row["lift"], 1e-9))))


def check_kind(kind: str) -> None:
    """Raise unless this is a kind of plot.

    >>> check_kind("shares")
    """
    if kind not in get_args(Kind):
        raise InputError(
            f"kind must be one of {get_args(Kind)}, got {shortened(kind)}.", hint='ranking.plot(kind="shares")'
        )


def draw(ranking: Ranking, kind: Kind, *, label: str | None, feature: str | None, top: int) -> Any:
    """Draw a ranking, or its rows of one label or of one feature; the arguments are those of `Ranking.plot`."""
    check_kind(kind)
    part = ranking if label is None else ranking.label(label)
    part = part if feature is None else part.feature(feature)
    heading = Heading(title=_title(ranking, label, feature), lines=views.first_of(ranking))
    if kind in {"map", "trend"}:
        features = _best_features(part, top)
        labels = list(ranking.labels) if label is None else [label]
        if kind == "trend" and (len(labels) < _LEAST_LABELS or on_scale(labels) is None):
            raise InputError(
                "A trend needs three labels or more with an order of their own, such as years or months.",
                hint='ranking.plot(kind="map")',
            )
        labels = labels if kind == "trend" else labels[:_MOST_COLUMNS]
        rows = part.feature(*features).to_dicts() if features else []
        rows = [row for row in rows if row["label"] in labels]
        return (of_map if kind == "map" else of_trend)(rows, features, labels, heading)
    rows = part.top(_MOST_POINTS if kind == "evidence" else top, per="all").to_dicts()
    names = [_name(row, label=label is None, feature=feature is None) for row in rows]
    if kind == "shares":
        return of_shares(rows, names, heading)
    if kind == "evidence":
        return of_evidence(rows, names, heading, unit=ranking.unit_of_mi)
    return of_ranking(rows, names, title=heading.title, unit=ranking.unit_of_mi, subtitle=heading.lines)


def _best_features(ranking: Ranking, top: int) -> list[str]:
    """Return the features of the best rows, those with clear rows first."""
    rows = ranking.top(top * _LOOKED_AT, per="all").to_dicts()
    ordered = [row["feature"] for row in rows if row["clear"]] + [row["feature"] for row in rows]
    return list(dict.fromkeys(ordered))[:top]


def _title(ranking: Ranking, label: str | None, feature: str | None) -> str:
    words = ranking.words
    if feature is not None:
        return f"{short(feature)} by {short(words.label)}"
    if label is not None:
        return f"What sets {short(label)} apart: {short(words.features)}"
    return f"What sets each {short(words.label)} apart: {short(words.features)}"


def _name(row: Mapping[str, Any], *, label: bool, feature: bool) -> str:
    parts = [row["feature"]] * feature + [row["label"]] * label
    return " | ".join(short(part) for part in parts) or printable(row["feature"])
