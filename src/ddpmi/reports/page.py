"""The report page: one HTML file with charts and tables that opens from disk, without a network.

Ranking -> a file that can be read, printed or mailed: it holds released numbers only.
The file allows its own script by its hash, and no other. Names reach the script as JSON and are set as text.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ddpmi.errors import Hint, InputError, check_count
from ddpmi.rankings.groups import NO_GROUP, group_features
from ddpmi.rankings.ranking import Ranking
from ddpmi.reports import sentences
from ddpmi.reports.content import Content, cut
from ddpmi.text import escape_html, write_new

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_MOST_LABELS = 60  # of the table by group
MOST_ROWS = 100
"""The largest ``top``."""
_FRONT = Path(__file__).parent / "front"
_SCRIPTS = ("source.js", "draw.js", "views.js", "report.js")
#: How each page starts.
_HEAD = b'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="ddpmi report">\n'


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
        top: Features drawn for each label in each direction, at most 100. The page's table holds more of them.
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
    page = html_of(ranking, top=top, title=title, groups=groups)

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
            return file.read(len(_HEAD)) == _HEAD
    except OSError:
        return False


def html_of(
    ranking: Ranking, *, top: int = 10, title: str | None = None, groups: Mapping[str, str] | None = None
) -> str:
    """Return the page of a ranking as HTML."""
    seed = ranking.words.seed
    if seed is not None and seed in ranking.labels:
        # The other side has the same pairs with the opposite direction.
        ranking = ranking.label(seed)
    content = Content.of(ranking, top=top)
    heading = title or f"What sets {sentences.group(ranking.words)} apart"
    findings = Template(front("findings.html")).substitute(telling=sentences.telling(content)) if content.rows else ""
    findings += "" if groups is None else _by_group(ranking, groups, top)
    script, style = scripts(*_SCRIPTS), front("page.css")
    notice = f"{ranking.notice}: " if ranking.notice else ""
    kind = "promise" if ranking.private else "promise warn"
    return Template(front("page.html")).substitute(
        policy=f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; base-uri 'none';"
        " form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        title=escape_html(notice + cut(heading)),
        style=style,
        promise=f'<p class="{kind}">{escape_html(ranking.promise)}</p>',
        heading=sentences.name(heading),
        summary=sentences.question(ranking) + sentences.figures(content),
        findings=findings,
        about=sentences.about(ranking),
        data=content.to_json(),
        script=script,
    )


def _by_group(ranking: Ranking, groups: Mapping[str, str], top: int) -> str:
    """Return a table of the groups of the best labels and their features, which needs no script."""
    found = group_features(ranking, groups, top=top).groups
    labels = list(dict.fromkeys(one.label for one in found))[:_MOST_LABELS]
    body = "".join(
        f'<tr><th scope="row">{sentences.name(one.label)}</th><td>{sentences.name(one.group or NO_GROUP)}</td>'
        f"<td>{', '.join(map(sentences.name, one.features))}</td></tr>\n"
        for one in found
        if one.label in labels
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Label", "Group", "Features"))
    return f"""<section aria-labelledby="groups-head">
<h2 id="groups-head">Features by group</h2>
<p>The best {top} features of each label that are more common inside it. Groups come from a public list.</p>
<div class="groups" role="region" aria-labelledby="groups-head" tabindex="0"><table>
<thead><tr>{head}</tr></thead>
<tbody>{body}</tbody>
</table></div>
</section>
"""


@cache
def front(file: str) -> str:
    """Return a file of the front end."""
    return (_FRONT / file).read_text(encoding="utf-8")


@cache
def scripts(*files: str) -> str:
    """Return some scripts of the front end as one, with names of their own.

    >>> scripts("source.js").startswith('"use strict";')
    True
    """
    return '"use strict";\n{\n' + "\n".join(front(file) for file in files) + "}\n"


def source(text: str) -> str:
    """Return the source by which a Content-Security-Policy allows an inline script or style.

    >>> source("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
