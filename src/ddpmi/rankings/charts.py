"""Charts of rankings and of comparisons, drawn with Altair and written without a browser or a network.

Names may hold any text, also code or control characters. They are made printable and cut, and an HTML chart holds a
picture without scripts.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi import text
from ddpmi.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

_ENDING = re.compile("<(?=[/!])")
_SUFFIXES = (".svg", ".png", ".html")
# Blue and orange differ for all kinds of colour blindness.
COLOURS = {"presence": "#1f5fbf", "absence": "#c2570c"}
GREY = "#5f6b76"
PALE = 0.25  # opacity of what may be noise
_NAME = 42  # longest name, in terminal cells
WIDTH = 420
_LABELS = 20


def altair() -> Any:
    """Return the library that draws, or raise where it is missing."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401 - writes the files
    except ImportError as error:
        raise MissingExtra("Charts need Altair and vl-convert.", hint="pip install 'ddpmi[report]'") from error
    return alt


def check_extra() -> None:
    """Raise unless the packages that draw charts are installed.

    >>> check_extra()
    """
    altair()


def check_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a path, or raise if no chart can be written in that format.

    >>> check_suffix("errors.SVG")
    '.svg'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(
            f"The suffix must be one of {', '.join(_SUFFIXES)}, got {Path(path).name!r}.", hint="errors.svg"
        )
    return suffix


def save(chart: Any, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a chart as svg, png or html, by the path's suffix.

    Args:
        chart: An Altair chart.
        path: A new file.
        overwrite: Replace an existing file.

    Returns:
        The path.
    """
    import vl_convert

    suffix = check_suffix(path)
    spec = chart.to_dict()

    def write(place: Path) -> None:
        if suffix == ".png":
            place.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
            return
        picture = vl_convert.vegalite_to_svg(spec)
        # The page has no scripts, so that no name can be run as one.
        page = f"<!doctype html>\n<meta charset='utf-8'>\n<title>ddpmi</title>\n{picture}\n"
        place.write_text(picture if suffix == ".svg" else page, encoding="utf-8")

    return text.write_new(path, write, overwrite=overwrite)


def of_ranking(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, title: str, unit: str, subtitle: Sequence[str]
) -> Any:
    """Draw rows of a ranking as bars with intervals, best first. Rows that may be noise are pale, and their names say so.

    Args:
        rows: Rows with rank, direction, mi, mi_low, mi_high and clear.
        names: The name of each row.
        title: The title.
        unit: The unit of mutual information.
        subtitle: The guarantee of the release, and what is certain.
    """
    alt = altair()
    values = [
        {
            "name": f"{row['rank']}. {name}{'' if row['clear'] else ' (may be noise)'}",
            "opacity": 0.75 if row["clear"] else PALE,
            **{key: row[key] for key in ("direction", "mi", "mi_low", "mi_high")},
        }
        for row, name in zip(rows, names, strict=True)
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("name:N", sort=[value["name"] for value in values], title=None).axis(labelLimit=620)
    )
    colour = alt.Color("direction:N", title=None).scale(domain=list(COLOURS), range=list(COLOURS.values()))
    opacity = alt.Opacity("opacity:Q", scale=None)
    bars = base.mark_bar(height={"band": 0.7}).encode(
        x=alt.X("mi:Q", title=f"mutual information ({unit}), with 95% interval"), color=colour, opacity=opacity
    )
    ends = base.mark_rule(color="black", strokeWidth=1.5).encode(x="mi_low:Q", x2="mi_high:Q")
    heading = alt.TitleParams(title, subtitle=list(subtitle), anchor="start")
    return styled((bars + ends).properties(width=WIDTH, height={"step": 18}, title=heading))


def of_comparison(found: Mapping[str, Any]) -> Any:
    """Draw the values of `Comparison.to_dict`: errors by rank, overlaps by depth and by label."""
    alt = altair()
    parts = [_bands(alt, found["bands"]), _overlaps(alt, found["overlap"]), _labels(alt, found["labels"])]
    stamp = f"{text.NOT_PRIVATE}: at least one side was computed from exact sums" if "notice" in found else ""
    pairs = found["pairs"]
    counted = f"{pairs['a']:,} pairs in the reference, {pairs['b']:,} in the other, {pairs['common']:,} in both"
    subtitle = [line for line in (stamp, counted) if line]
    title = alt.TitleParams("Ranking against its reference", subtitle=subtitle, anchor="start", offset=12)
    return styled(alt.vconcat(*parts).properties(title=title).resolve_scale(color="independent"))


def _bands(alt: Any, bands: Sequence[Mapping[str, Any]]) -> Any:
    values = [
        {
            "band": f"{band['from']:,}\u2013{band['to']:,}",
            # A logarithmic axis has no 0.
            **{f"p{p}": 1 + error for p, error in band["percentiles"].items() if error is not None},
            "kept": f"{100 * (band['kept'] or 0):.0f}% kept",
        }
        for band in bands
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("band:N", sort=[value["band"] for value in values], title="rank in the reference")
    )
    largest = max((max(v for k, v in value.items() if k.startswith("p")) for value in values), default=1)
    ticks = [10**power for power in range(1 + math.ceil(math.log10(max(largest, 10))))]
    scale = alt.Scale(type="log", domain=[1, ticks[-1]], clamp=True)
    axis = alt.Axis(values=ticks, format=",")
    x = alt.X("p10:Q", scale=scale, axis=axis, title="1 + rank difference: 10%, 25%, median, 75%, 90%")
    outer = base.mark_rule(color=COLOURS["presence"], strokeWidth=2).encode(x=x, x2="p90:Q")
    inner = base.mark_bar(color=COLOURS["presence"], opacity=0.5, height=12).encode(
        x=alt.X("p25:Q", scale=scale), x2="p75:Q"
    )
    middle = base.mark_tick(color="black", thickness=3, height=16).encode(x=alt.X("p50:Q", scale=scale))
    kept = base.mark_text(align="left", color=GREY).encode(text="kept:N", x=alt.value(WIDTH + 8))
    title = alt.TitleParams("Rank errors, head to tail", anchor="start", fontSize=12)
    return (outer + inner + middle + kept).properties(width=WIDTH, height={"step": 26}, title=title)


def _overlaps(alt: Any, overlap: Mapping[str, float]) -> Any:
    values = [{"name": f"first {int(depth):,}", "part": part} for depth, part in overlap.items()]
    title = alt.TitleParams("Shared part of the first places", anchor="start", fontSize=12)
    return _parts(alt, values).properties(width=WIDTH, height={"step": 20}, title=title)


def _labels(alt: Any, labels: Sequence[Mapping[str, Any]]) -> Any:
    # The labels with most of the best pairs matter most, and a chart of all labels would be unreadable.
    largest = sorted(labels, key=lambda label: (-label["best"], label["label"].encode()))[:_LABELS]
    values = [
        {"name": f"{at}. {short(label['label'])}", "part": label["overlap_20"]}
        for at, label in enumerate(largest, start=1)
    ]
    some = f": the {_LABELS} labels with most of the best pairs" if len(labels) > _LABELS else ""
    title = alt.TitleParams(f"Shared part of each label's best 20{some}", anchor="start", fontSize=12)
    return _parts(alt, values).properties(width=WIDTH, height={"step": 16}, title=title)


def _parts(alt: Any, values: list[dict[str, Any]]) -> Any:
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("name:N", sort=[value["name"] for value in values], title=None).axis(labelLimit=260)
    )
    bars = base.mark_bar(color=COLOURS["presence"], opacity=0.75, height={"band": 0.7}).encode(
        x=alt.X("part:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    )
    numbers = base.mark_text(align="left", dx=4, color=GREY).encode(x="part:Q", text=alt.Text("part:Q", format=".0%"))
    return bars + numbers


def short(name: str, width: int = _NAME) -> str:
    """Return a name as harmless text, cut to a number of terminal cells.

    >>> short("W" * 50, 10)
    'WWWWW…WWWW'
    """
    # Altair writes names into a script of its notebook page as they are: "</" and "<!" would end it or change how it is read.
    return _ENDING.sub("<\u2060", text.fit(text.printable(name), width).rstrip())


def styled(chart: Any) -> Any:
    """Give a chart the looks of all charts."""
    return (
        chart.configure(padding=16, background="white")  # first: it replaces all earlier settings
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=11, titleFontWeight="normal", gridColor="#e6e6e6")
        .configure_title(fontSize=14, subtitleFontSize=11, subtitleColor=GREY)
        .configure_legend(orient="top", labelFontSize=11)
    )
