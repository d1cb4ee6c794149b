"""``ddpmi report``: the ranking of a release as one HTML page."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.keys import read_groups
from ddpmi.cli.options import DEFAULT_TOP, ReleaseFolder, RowOptions
from ddpmi.cli.output import example, say, warn_if_empty, working
from ddpmi.errors import check_count

if TYPE_CHECKING:
    from cyclopts import App


def report(
    folder: ReleaseFolder,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], metavar="FILE")],
    top: Annotated[int, Parameter(metavar="N")] = DEFAULT_TOP,
    title: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    groups: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    rows: RowOptions = RowOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Write the ranking of a release as one HTML page that needs no network. Free.

    The page has charts by label and by feature, a table that sorts, filters and searches, a map, and the receipt.

    Args:
        folder: The release.
        output: Page to write. It must not exist.
        top: Features drawn for each label in each direction, at most 100.
        title: Heading of the page. The default names the column of the labels.
        groups: Public list of features and their groups (CSV with a head, or Parquet; two columns), for a table by group.
        rows: Which rows.
    """
    from ddpmi.rankings.ranking import rank
    from ddpmi.releases.release import Release
    from ddpmi.reports.page import report as write_report

    check_top(top)
    paths.check_new_file(output)
    listed = None if groups is None else read_groups(groups, "--groups")
    found = Release.load(folder)
    ranking = rank(found)
    warn_if_empty(found, len(ranking))
    ranking = rows.of(rows.labels_of(ranking))
    if not ranking.private:
        say(ranking.promise)
    with working("writing the page"):
        write_report(ranking, output, top=top, title=title, groups=listed)
    say(f"Wrote the report {output}.")


def check_top(top: int) -> None:
    """Refuse more rows than a page can show.

    >>> check_top(10)
    """
    from ddpmi.reports.page import MOST_ROWS

    check_count("--top", top, most=MOST_ROWS, hint="--top 10")


def register(app: App) -> None:
    """Add the command."""
    app.command(
        report,
        help_epilogue=example(
            'ddpmi report visits.release -o visits.html --top 20 --title "Sites by country"',
            "ddpmi report visits.release -o india.html --label India",
        ),
    )
