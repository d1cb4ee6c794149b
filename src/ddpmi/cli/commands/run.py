"""``ddpmi run``: release, rank and report in one command."""

from __future__ import annotations

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
from ddpmi.cli.output import example, put_kept, ranking_table, say, working
from ddpmi.cli.settings import read_settings

if TYPE_CHECKING:
    from cyclopts import App


def run(
    data: Data = None,
    /,
    *,
    to: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - a frozen value
    report: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    top: Annotated[int, Parameter(metavar="N")] = DEFAULT_TOP,
    format: Literal["table", "csv", "json"] = "table",  # noqa: A002 - the option's name
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008
    privacy: PrivacyOptions = PrivacyOptions(),  # noqa: B008
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    keys: KeyOptions = KeyOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """Release, rank and write a report in one command.

    Args:
        data: The rows.
        to: Which ledger is charged and where the release goes.
        report: Report to write. The default is DIR.html.
        top: Pairs shown for each label, at most 100.
        format: Print the best pairs as a table, as CSV or as JSON.
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
    released = make_release(source, place, plan, options.columns, reading)
    with working("ranking"):
        ranking = rank(released)
        write_report(ranking, page, top=top, overwrite=known)
        best = ranking.top(top)
        text = ranking_table(ranking, best) if format == "table" else text_of(best, format)
    say(f"Wrote the report {page}.")
    put_kept(text)


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
