"""The report page: one HTML file of a ranking with plain tables, without scripts or external files, of limited size.

Ranking -> a file that opens from disk and can be printed or mailed: it holds released numbers only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.errors import Hint, InputError, check_count
from ddpmi.information.scores import TITLES
from ddpmi.rankings.groups import NO_GROUP, group_features
from ddpmi.rankings.ranking import Ranking
from ddpmi.text import escape_html, number, write_new

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

MOST_LABELS = 60
"""The most labels on one page; the page says how many others were left out."""
MOST_ROWS = 100
"""The largest ``top``."""
_LONGEST_NAME = 160  # characters: browsers could not open a page with names of a megabyte
_BAR = 200  # width of a bar's drawing, in the drawing's own units
_HEADS = (
    ("Rank", ""),
    ("Feature", "text"),
    ("Direction", "text"),
    ("Information", "text"),
    ("MI", ""),
    ("95% interval", "interval"),
    ("Inside", ""),
    ("Outside", ""),
    ("Lift", ""),
)
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --page: #ffffff; --line: #d5dae0;
  --band: #f3f5f8; --presence: #1f5fbf; --absence: #b4500b; --warn: #8f1420; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebef; --soft: #a3adb8; --page: #14181d;
  --line: #363e48; --band: #1d232a; --presence: #7ab0ff; --absence: #f5a35c; --warn: #ffb3b8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 72rem; color: var(--ink);
  background: var(--page); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; overflow-wrap: anywhere; }
p, li { max-width: 46rem; }
.soft { color: var(--soft); }
.warn { border: 3px solid var(--warn); color: var(--warn); padding: .75rem 1rem; font-weight: 700; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0; list-style: none; max-width: none; }
a { color: var(--presence); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .925rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
thead th { background: var(--band); }
.text { text-align: left; }
tbody th { font-weight: 600; white-space: normal; overflow-wrap: break-word;
  min-width: 14rem; max-width: 24rem; }
.listed { white-space: normal; overflow-wrap: anywhere; }
.exact .interval { display: none; }
.presence { color: var(--presence); } .absence { color: var(--absence); }
svg { display: block; width: 9rem; height: 1rem; }
svg rect { fill: currentColor; } svg path { stroke: var(--ink); stroke-width: 1.5; fill: none; }
@media print { body { max-width: none; padding: 0; } nav { display: none; } .wide { overflow: visible; }
  tr, h2 { break-inside: avoid; } h2 { break-after: avoid; } }
"""
#: How each page starts.
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
"""


def report(
    ranking: Ranking,
    path: str | os.PathLike[str],
    *,
    top: int = 10,
    title: str | None = None,
    groups: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a ranking as one self-contained HTML page.

    Args:
        ranking: The ranking; a page of exact sums says NOT PRIVATE first.
        path: The path of the page.
        top: Features shown for each label, at most 100.
        title: The heading.
        groups: A public list, feature -> group: the page then has a table of each label's features by group.
        overwrite: Replace an existing file.

    Returns:
        The path.

    >>> import pyarrow as pa, tempfile
    >>> from types import SimpleNamespace
    >>> from ddpmi.rankings.ranking import rank
    >>> one = pa.array([60], pa.int64())
    >>> release = SimpleNamespace(
    ...     pairs=pa.table({"feature": ["tea"], "label": ["uk"], "sum": one}),
    ...     features=pa.table({"feature": ["tea"], "sum": one}),
    ...     labels=pa.table({"label": ["uk"], "sum": one}),
    ...     total=100,
    ...     receipt={"private": False, "grid": {"step": 1, "g": 0}},
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     "NOT PRIVATE" in report(rank(release), folder + "/page.html").read_text()
    True
    """
    check_count("top", top, most=MOST_ROWS, hint=Hint(python="top=10", cli="--top 10"))
    if not isinstance(ranking, Ranking):
        raise InputError(
            f"A report is written of a ranking, got {type(ranking).__name__}.",
            hint="report(rank('visits.release'), 'visits.html')",
        )
    grouped = "" if groups is None else _by_group(ranking, groups, top)
    page = _page(ranking, top, title or f"What sets each label apart: {ranking.dataset}", grouped)

    def write(draft: Path) -> None:
        draft.write_text(page, encoding="utf-8", newline="\n")

    return write_new(path, write, overwrite=overwrite)


def is_report(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is a page that `report` wrote.

    >>> is_report("no such page.html")
    False
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD.encode()
    except OSError:
        return False


def _page(ranking: Ranking, top: int, title: str, grouped: str = "") -> str:
    groups, labels = _groups(ranking, top)
    sections = "".join(_section(at, label, rows, ranking.scored_by) for at, (label, rows) in enumerate(groups.items()))
    links = "".join(f'<li><a href="#label-{at}">{_name(label)}</a></li>' for at, label in enumerate(groups))
    promise = "" if ranking.private else ' class="warn" role="note"'
    return f"""{_HEAD}<title>{escape_html(ranking.notice + ": " if ranking.notice else "")}{_cut(title)}</title>
<style>{_STYLE}</style>
</head>
<body{_kind("" if ranking.private else "exact")}>
<header>
<p{promise}>{escape_html(ranking.promise)}</p>
<h1>{_name(title)}</h1>
<p>{_summary(ranking, len(groups), labels, top)}</p>
{_explanation(ranking)}
</header>
<nav aria-label="Labels"><ul>{links}</ul></nav>
<main>{sections}{grouped}</main>
</body>
</html>
"""


def _groups(ranking: Ranking, top: int) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Return the best rows of the labels with the best pairs, and the number of all labels."""
    import pyarrow.compute as pc

    best = ranking.top(1, per="label").table.sort_by("rank")
    labels = best["label"].slice(0, MOST_LABELS)
    shown = ranking.top(top, per="label").table
    groups: dict[str, list[dict[str, Any]]] = {label: [] for label in labels.to_pylist()}
    for row in shown.filter(pc.is_in(shown["label"], value_set=labels.combine_chunks())).to_pylist():
        groups[row["label"]].append(row)
    return groups, best.num_rows


def _summary(ranking: Ranking, shown: int, labels: int, top: int) -> str:
    if not labels:
        return "No pair was released: no sum reached the threshold."
    cut = f" {labels - shown} labels are cut: their best pairs rank lower." if shown < labels else ""
    return (
        f"{len(ranking)} released pairs of {labels} label{'' if labels == 1 else 's'}."
        f" Shown: the best {top} features of {'each label' if shown == labels else f'{shown} labels'}.{cut}"
    )


def _explanation(ranking: Ranking) -> str:
    noise = (
        "The line on a bar is the 95% interval: it covers the noise that protects people, and nothing else."
        if ranking.private
        else "The sums are exact, so no interval is shown."
    )
    return f"""<ul class="soft">
<li><span class="presence">▲ presence</span>: more common inside the label than outside.
<span class="absence">▼ absence</span>: less common.</li>
<li>MI is mutual information in {ranking.unit_of_mi}: how much the feature tells about the label. Bars start
at zero and compare rows of one table. {noise}</li>
<li>Inside and outside are the feature's shares of the label and of all the rest. Lift is its share inside
divided by its share overall.</li>
{_order_of_rows(ranking)}</ul>"""


def _order_of_rows(ranking: Ranking) -> str:
    if ranking.scored_by is None:
        return f"<li>{ranking.order_in_words}</li>\n" if ranking.order_in_words else ""
    name = TITLES[ranking.scored_by]
    return f"<li>Rows are ordered by {escape_html(name)}: a score, not a test; it carries no p-value.</li>\n"


def _section(at: int, label: str, rows: list[dict[str, Any]], scored_by: str | None) -> str:
    longest = max((row["mi_high"] for row in rows), default=0.0)
    head = "".join(f'<th scope="col"{_kind(kind)}>{name}</th>' for name, kind in _heads(scored_by))
    body = "".join(_row(row, longest) for row in rows)
    return f"""<section>
<h2 id="label-{at}">{_name(label)}</h2>
<div class="wide" role="region" aria-labelledby="label-{at}" tabindex="0"><table>
<caption>Most informative features; the label's total is {_total(rows[0]["label_total"])}.</caption>
<thead><tr>{head}</tr></thead>
<tbody>{body}</tbody>
</table></div>
</section>
"""


def _by_group(ranking: Ranking, groups: Mapping[str, str], top: int) -> str:
    """Return a section with the groups of each label and their features, of the labels that the page shows."""
    shown, _ = _groups(ranking, top)
    found = [found for found in group_features(ranking, groups, top=top).groups if found.label in shown]
    body = "".join(
        f'<tr><th scope="row" class="text">{_name(one.label)}</th><td class="text">{_name(one.group or NO_GROUP)}</td>'
        f'<td class="text listed">{", ".join(_name(name) for name in one.features)}</td></tr>\n'
        for one in found
    )
    head = "".join(f'<th scope="col" class="text">{name}</th>' for name in ("Label", "Group", "Features"))
    return f"""<section>
<h2 id="groups">Features by group</h2>
<div class="wide" role="region" aria-labelledby="groups" tabindex="0"><table>
<caption>The best {top} features of each label that are more common inside; groups are from a public list.</caption>
<thead><tr>{head}</tr></thead>
<tbody>{body}</tbody>
</table></div>
</section>
"""


def _heads(scored_by: str | None) -> tuple[tuple[str, str], ...]:
    return _HEADS if scored_by is None else (*_HEADS[:3], (TITLES[scored_by], ""), *_HEADS[3:])


def _row(row: dict[str, Any], longest: float) -> str:
    kind = row["direction"]
    arrow = "▲" if kind == "presence" else "▼"
    score = f"<td>{number(row['score'])}</td>" if "score" in row else ""
    interval = f"{row['mi_low']:.3g} to {row['mi_high']:.3g}"
    cells = f'<td>{row["mi"]:.3g}</td><td class="interval">{interval}</td>'
    shares = (_percent(row["share_in"]), _percent(row["share_out"]), number(row["lift"]))
    cells += "".join(f"<td>{share}</td>" for share in shares)
    return (
        f'<tr><td>{row["rank_in_label"]}</td><th scope="row" class="text">{_name(row["feature"])}</th>'
        f'<td class="text {kind}">{arrow} {kind}</td>{score}<td class="text {kind}">{_bar(row, longest)}</td>'
        f"{cells}</tr>\n"
    )


def _bar(row: dict[str, Any], longest: float) -> str:
    low, at, high = (_BAR * row[name] / longest if longest > 0 else 0.0 for name in ("mi_low", "mi", "mi_high"))
    whisker = f'<path d="M{low:.1f} 8H{high:.1f}M{low:.1f} 5v6M{high:.1f} 5v6"/>' if high - low >= 1 else ""
    return (
        f'<svg viewBox="0 0 {_BAR + 2} 16" aria-hidden="true" focusable="false">'
        f'<rect y="3" height="10" width="{at:.1f}"/>{whisker}</svg>'
    )


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _total(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g}%"


def _name(text: str) -> str:
    """Escape a name and isolate its reading direction from the text around it."""
    return f"<bdi>{_cut(text)}</bdi>"


def _cut(text: str) -> str:
    """Escape a text, cut to the longest name."""
    return escape_html(text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…")
