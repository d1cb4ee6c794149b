"""``ddpmi run``: release, rank and report in one command."""

from __future__ import annotations

import shlex
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.commands.rank import text_of
from ddpmi.cli.commands.release import again, make_release, was_charged
from ddpmi.cli.commands.report import check_top
from ddpmi.cli.options import (
    DEFAULT_TOP,
    BoundOptions,
    ColumnOptions,
    Data,
    Destination,
    KeyOptions,
    PlanOptions,
    PrivacyOptions,
    ReadingOptions,
    ReleaseOptions,
)
from ddpmi.cli.output import example, put_kept, ranking_summary, say, working
from ddpmi.cli.settings import read_settings
from ddpmi.text import printable

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.rankings.ranking import Ranking


def run(
    data: Data = None,
    /,
    *,
    to: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - a frozen value
    report: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    top: Annotated[int, Parameter(metavar="N")] = DEFAULT_TOP,
    format: Literal["text", "csv", "json"] = "text",  # noqa: A002 - the option's name
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008
    privacy: PrivacyOptions = PrivacyOptions(),  # noqa: B008
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    keys: KeyOptions = KeyOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """Release, rank and write a report in one command. Prints the clear findings of each label.

    Args:
        data: The rows.
        to: Which ledger is charged and where the release goes.
        report: Report to write. The default is DIR.html.
        top: Pairs that the report shows for each label, at most 100.
        format: Print the clear findings as text, or the best pairs of each label as CSV or JSON.
        columns: Which column holds what.
        privacy: What is promised.
        bounds: How much one unit may change.
        keys: Which keys can be released.
        reading: How the data is read.
    """
    from ddpmi.rankings.ranking import rank
    from ddpmi.reports.page import report as write_report

    check_top(top)
    settings = read_settings()
    options = PlanOptions(columns=columns, privacy=privacy, bounds=bounds, keys=keys).with_settings(settings)
    source = reading.data(data, settings.files)
    plan = options.plan_or_look()
    place = to.destination(source, again("run", source, privacy))
    page = place.output.with_name(f"{place.output.name}.html") if report is None else report
    known = _is_own_page(page, place)
    if not known:
        paths.check_new_file(page)
    paths.check_outside(page, place.output)
    released = make_release(source, place, plan, options.columns, reading)
    with working("ranking"):
        ranking = rank(released)
        write_report(ranking, page, top=top, overwrite=known)
        more = how_to_see_more(ranking, place.output)
        text = ranking_summary(ranking, more) if format == "text" else text_of(ranking.top(top), format)
    say(f"Wrote the report {page}.")
    put_kept(text)


def how_to_see_more(ranking: Ranking, folder: Path) -> list[str]:
    """Say what to type to see all rows of the first label, and of all labels."""
    command = f"ddpmi rank {shlex.quote(printable(str(folder)))}"
    one = [f"{command} --label {shlex.quote(printable(name))}" for name in ranking.labels[:1]]
    return [f"More: {' or '.join([command, *one])}"]


def _is_own_page(page: Path, to: Destination) -> bool:
    """Tell whether the page is the report of a release id that was charged before. Only such a page is written again."""
    from ddpmi.reports.page import is_report

    if to.release_id is None or not is_report(page):
        return False
    return was_charged(paths.open_ledger(to.ledger, expect_head=to.expect_head), to)


def register(app: App) -> None:
    """Add the command."""
    app.command(
        run,
        help_epilogue=example(
            "ddpmi run visits.csv --epsilon 1",
            "ddpmi run visits.parquet --unit user_id --feature site --label country \\",
            "    --epsilon 1 --delta 1e-7 --pairs 50 \\",
            "    --ledger visits.ledger -o visits.release",
        ),
    )
