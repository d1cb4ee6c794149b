"""``ddpmi compare``: how far the rankings of two releases differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.output import escape_lines, example, put, say, warn_if_empty, working
from ddpmi.errors import LONGEST_LIST, check_count
from ddpmi.text import NOT_PRIVATE

if TYPE_CHECKING:
    from cyclopts import App


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Which part of two lists is compared."""

    top: Annotated[int, Parameter(metavar="N")] = 10_000
    """Rank errors are taken over the N best pairs."""
    by: Literal["reference", "private"] = "reference"
    """Whose best pairs these are: those of A (reference) or those of B (private)."""
    cut: Annotated[bool, Parameter(show_default=False)] = False
    """End both lists after --top places, so that a missing pair costs a longer list no more than a shorter one."""


def compare(
    a: Annotated[Path, Parameter(name="A")],
    b: Annotated[Path, Parameter(name="B")],
    /,
    *,
    part: CompareOptions = CompareOptions(),
    plot: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    format: Literal["table", "json"] = "table",  # noqa: A002 - the option's name
) -> None:
    """Compare the rankings of two releases: rank errors, overlaps and directions. Free.

    Args:
        a: The reference, usually an exact release or one of a larger budget.
        b: The other release, usually the private one.
        part: Which part of both lists.
        plot: Also draw errors by rank band, overlaps and labels to a new .svg, .png or .html file.
        format: Print text for people, or JSON.
    """
    from ddpmi.rankings.comparisons import compare as compare_releases
    from ddpmi.releases.release import Release

    if plot is not None:
        _check_plot(plot)
    check_count("--top", part.top, most=LONGEST_LIST, hint="--top 10000")
    releases = [Release.load(folder) for folder in (a, b)]
    for release in releases:
        warn_if_empty(release, release.tables.count("pairs"))
    with working("comparing"):
        found = compare_releases(*releases, top=part.top, by=part.by, cut=part.cut)
    if plot is not None:
        found.plot(plot)
        say(f"Drew {plot}.")
    if format == "json" and not found.private:
        say(f"{NOT_PRIVATE}: at least one side was computed from exact sums.")
    put(json.dumps(found.to_dict(), indent=2) + "\n" if format == "json" else escape_lines(found.to_text() + "\n"))


def _check_plot(file: Path) -> None:
    """Refuse a file that cannot be drawn, before anything is computed."""
    from ddpmi.rankings import charts

    charts.check_suffix(file)
    charts.check_extra()
    paths.check_new_file(file)


def register(app: App) -> None:
    """Add the command."""
    app.command(
        compare,
        help_epilogue=example(
            "ddpmi compare abstracts.exact abstracts.release --top 1000 --cut",
            "ddpmi compare larger-budget.release smaller-budget.release --format json",
            "ddpmi compare abstracts.exact abstracts.release --plot errors.svg",
        ),
    )
