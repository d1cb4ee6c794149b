"""Tables and pictures of the results of bench_accuracy.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PERCENTILES = ("10", "25", "50", "75", "90")
INTRODUCTION = """\
Written by `python bench/bench_accuracy.py --report` from the JSON files beside it. *paper* is `Plan.paper`, ranked with
`method="paper"`. *paper, total free* gives it a third of epsilon for each of its three queries. *ceiling* is the bounded
sums without noise, above the same threshold: no estimate from such a release can be expected to do better.
*ours, suggested* is the plan that `Plan.suggest` makes from the numbers of units and labels. Its labels are listed; in *labels found* they
are not.
Truth is the ranking of exact sums without bounds. Figures are means over the draws; after ± comes the standard deviation of a draw."""
NOTE = """\
The same for lists that end after 10,000 places, `compare(truth, ranking, cut=True)`, as the paper compares. In the table above, `compare`
puts a missing pair at the end of the whole list that misses it, so a missing pair costs the longer list more. By that rule the last two
columns compare with the whole list of the paper's way: first our list of 10,000 places, then our whole list."""
COLOURS = {
    "paper": "#d1495b",
    "paper, total free": "#e8a0aa",
    "ours": "#1b6ca8",
    "ours, suggested": "#2f4858",
    "ours, suggested, labels found": "#86bbd8",
    "ours, complete": "#e09f3e",
    "ours, grid": "#7b52ab",
    "ours, public labels": "#2a9d8f",
    "ceiling": "#9aa5b1",
    "ceiling, public labels": "#c5ccd3",
}


def report(folder: Path) -> None:
    """Write accuracy.md, and a picture for each set."""
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("accuracy-*.json"))]
    parts = ["# Accuracy, measured", INTRODUCTION]
    for result in results:
        parts += [section(result)]
        pictures(result, folder)
    (folder / "accuracy.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def section(result: dict[str, Any]) -> str:
    """Write the tables of one set."""
    bounding = "; ".join(
        f"{name}: {short(found['overlap'].get('1000'))} and {short(found['label_overlap_20'])}"
        for name, found in result["bounding_alone"].items()
    )
    facts = (
        f"delta {result['delta']:g}, pairs={result['pairs_per_unit']}, {result['true_pairs']:,} pairs in truth,"
        f" {result['draws']} draws, {result['passes']} passes over the rows, {result['seconds']} s. Bounding alone, without"
        f" noise or threshold, overlap of the top 1,000 and of each label's top 20 (norm/strategy/g): {bounding}."
    )
    names = (
        "way",
        "epsilon",
        "pairs shown",
        "top 100",
        "top 1,000",
        "label top 20",
        "presence only",
        "kept of top 10,000",
    )
    lines = [f"| {' | '.join(names)} | rank difference 10 / 25 / 50 / 75 / 90 |", "|---" * (len(names) + 1) + "|"]
    lines += [line(row) for row in result["rows"]]
    whole = {(row["way"], row["epsilon"]): [row["percentiles"][p] for p in PERCENTILES] for row in result["rows"]}
    places = [
        "| way | at | against | at | ours 10 / 25 / 50 / 75 / 90 | theirs | ratio | to their whole list | whole to whole |",
        "|---|---|---|---|---|---|---|---|---|",
        *(compared(one, whole) for one in result["first_places"]),
    ]
    picture = f"![rank differences](accuracy-{result['set']}.svg)"
    return "\n\n".join([f"## {result['set']}", facts, "\n".join(lines), NOTE, "\n".join(places), picture])


def line(row: dict[str, Any]) -> str:
    """Write the row of one way at one epsilon."""

    def with_sd(depth: str) -> str:
        if depth not in row["overlap"]:
            return "-"
        return f"{row['overlap'][depth]:.3f} ± {row['overlap_sd'][depth]:.3f}"

    errors = " / ".join(f"{row['percentiles'][p]:.0f}" for p in PERCENTILES)
    spread = f"{row['percentiles_sd']['50']:.0f}"
    cells = [
        row["way"],
        f"{row['epsilon']:g}",
        f"{row['pairs']:,.0f}",
        with_sd("100"),
        with_sd("1000"),
        f"{row['label_overlap_20']:.3f}",
        f"{row['presence_overlap_20']:.3f}",
        f"{row['kept']:.3f}",
        f"{errors} (median ± {spread})",
    ]
    return f"| {' | '.join(cells)} |"


def compared(one: dict[str, Any], whole: dict[tuple[str, float], list[float]]) -> str:
    """Write one comparison with the paper's way, and with its whole list."""
    theirs = whole[one["baseline"], one["baseline_epsilon"]]
    shown = [" / ".join(f"{value:.0f}" for value in one[side]) for side in ("ours", "theirs")]
    cells = (
        one["way"],
        f"{one['epsilon']:g}",
        one["baseline"],
        f"{one['baseline_epsilon']:g}",
        *shown,
        ratios(one["ours"], one["theirs"]),
        ratios(one["ours"], theirs),
        ratios(whole[one["way"], one["epsilon"]], theirs),
    )
    return f"| {' | '.join(cells)} |"


def ratios(ours: list[float], theirs: list[float]) -> str:
    """Divide ours by theirs; a dash where theirs is 0 and ours is not."""
    sides = zip(ours, theirs, strict=True)
    return " / ".join(f"{mine / other:.2f}" if other else ("-" if mine else "1.00") for mine, other in sides)


def short(value: float | None) -> str:
    """Format with three digits, or as a dash."""
    return "-" if value is None else f"{value:.3f}"


def pictures(result: dict[str, Any], folder: Path) -> None:
    """Draw figures 2 and 3 of the paper."""
    import altair as alt

    from ddpmi.rankings import charts

    shown = [
        way for way in COLOURS if not way.startswith("ceiling") and any(row["way"] == way for row in result["rows"])
    ]
    colour = alt.Color(
        "way:N",
        scale=alt.Scale(domain=shown, range=[COLOURS[way] for way in shown]),
        legend=alt.Legend(orient="top", title=None),
    )
    second = (
        alt.Chart(alt.InlineData(values=list(figure_2(result["first_places"]))))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "epsilon:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=[0.1, 0.5, 1, 2, 4, 8]), title="epsilon"
            ),
            y=alt.Y("error:Q", scale=alt.Scale(type="symlog"), title="|rank difference|"),
            color=colour,
        )
        .properties(width=150, height=180)
        .facet(
            column=alt.Column(
                "percentile:O", title=f"{result['set']}: percentile of the true top 10,000, lists of 10,000 (figure 2)"
            )
        )
    )
    third = (
        alt.Chart(alt.InlineData(values=list(figure_3(result["rows"], shown))))
        .mark_line(point=True)
        .encode(
            x=alt.X("rank:Q", scale=alt.Scale(type="log"), title="true rank, up to"),
            y=alt.Y("median:Q", scale=alt.Scale(type="symlog"), title="median |rank difference| of shown pairs"),
            color=colour,
        )
        .properties(width=150, height=180)
        .facet(column=alt.Column("epsilon:O", title="head against tail, by epsilon (figure 3)"))
    )
    charts.save(alt.vconcat(second, third), folder / f"accuracy-{result['set']}.svg", overwrite=True)


def figure_2(first_places: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Return percentiles by epsilon, for lists with as many places as the paper's."""
    # Each way occurs in several comparisons.
    found = {(one["way"], one["epsilon"]): one["ours"] for one in first_places}
    found |= {(one["baseline"], one["baseline_epsilon"]): one["theirs"] for one in first_places}
    for (way, epsilon), errors in found.items():
        for p, error in zip(PERCENTILES, errors, strict=True):
            yield {"way": way, "epsilon": epsilon, "percentile": int(p), "error": error}


def figure_3(rows: list[dict[str, Any]], shown: list[str]) -> Iterable[dict[str, Any]]:
    """Return medians by band of the true rank."""
    for row in rows:
        if row["way"] in shown:
            for band in row["bands"]:
                if band["median"] is not None:
                    yield {"way": row["way"], "epsilon": row["epsilon"], "rank": band["to"], "median": band["median"]}
