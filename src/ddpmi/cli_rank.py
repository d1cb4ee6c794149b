"""The commands that read releases: free, repeatable, and unable to reach rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ddpmi import cli_show as show
from ddpmi import cli_steps as steps
from ddpmi.cli_options import example
from ddpmi.errors import InputError
from ddpmi.spec import LONGEST_LIST, check_count

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.rankings import Ranking

USUAL_TOP = 10
Folder = Annotated[Path, Parameter(name="DIR")]
# Written again here because the library's list comes with its arrays, and help must load none; a test compares them.
Score = Literal[
    "mi", "nmi", "pmi", "npmi", "lift", "chi2", "g2", "phi", "yule_q", "log_odds", "jlh", "gnd", "log_ratio"
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RankOptions:
    """Which order, and which part of it."""

    top: Annotated[int | None, Parameter(metavar="N")] = None
    """Pairs kept of each label, each feature, or all; 10 for tables, everything for the other formats."""
    per: Literal["label", "feature", "all"] | None = None
    """What --top counts in and rows are grouped by; label, or all where everything is written."""
    direction: Literal["presence", "absence", "both"] = "both"
    """Keep only pairs that stand out by presence, or by absence."""
    score: Score | None = None
    """Order by another score, in a column of its own; by mutual information if it is not given."""
    method: Literal["stable", "paper"] = "stable"
    """How mutual information is computed; paper is CalcMI as printed."""
    base: Annotated[float | None, Parameter(metavar="B")] = None
    """Base of the logarithm of mutual information, 2 for bits; nats if it is not given."""
    order: Literal["estimate", "lower", "shrunk", "pooled"] | None = None
    """What of mutual information orders pairs: its estimate, its lower bound, the estimate less what noise may have made
    (shrunk), or what a feature's whole row makes likely (pooled), best for lists of labels. If it is not given: estimate
    behind a threshold, pooled where every pair was released."""
    rank_intervals: Annotated[bool, Parameter(show_default=False)] = False
    """Add between which ranks noise may have moved each pair, at 95%, among the released pairs."""

    def part(self, ranking: Ranking, *, table: bool) -> Ranking:
        """Return the rows that were asked for."""
        whole = self.top is None and not table
        if whole and self.per is None and self.direction == "both":
            return ranking  # as it is: sorting millions of pairs again would change nothing
        count = max(1, len(ranking)) if whole else self.top or USUAL_TOP
        return ranking.top(count, per=self.per or ("all" if whole else "label"), direction=self.direction)


def rank(
    folder: Folder,
    /,
    *,
    order: RankOptions = RankOptions(),
    format: Literal["table", "csv", "json", "parquet"] | None = None,  # noqa: A002 - the option's name
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], metavar="FILE")] = None,
) -> None:
    """Rank the pairs of a release by mutual information or another score. Free, and may be repeated.

    Args:
        folder: The release.
        order: Which order, and which part of it.
        format: How to write; by the ending of FILE if it is not given, else a table.
        output: File to write instead of printing; it must not exist.
    """
    from ddpmi.rankings import rank as rank_release

    if order.top is not None:
        check_count("--top", order.top, most=LONGEST_LIST, hint="--top 10")
    chosen = steps.format_of(format, output)
    if output is not None:
        steps.check_new_file(output)
    found = steps.load_release(folder)
    with show.working("ranking"):
        ranking = rank_release(
            found,
            score=order.score,
            method=order.method,
            base=order.base,
            rank_intervals=order.rank_intervals,
            order=order.order,
        )
        shown = order.part(ranking, table=chosen == "table")
        text = show.ranking_table(ranking, shown) if chosen == "table" else ""
    show.warn_if_empty(found, len(ranking))
    if not ranking.private and (chosen != "table" or output is not None):
        show.say(ranking.promise)
    if chosen != "table":
        show.write_ranking(shown, chosen, output)
    elif output is None:
        show.put(text)
    else:
        show.write_text(output, text)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Which part of two lists is compared."""

    top: Annotated[int, Parameter(metavar="N")] = 10_000
    """Rank errors are taken over that many best pairs."""
    by: Literal["reference", "private"] = "reference"
    """Whose best pairs: those of A, the reference, or those of B, the private one."""
    cut: Annotated[bool, Parameter(show_default=False)] = False
    """End both lists after --top places, so that a longer list pays no more for a pair it lacks than a shorter one."""


def compare(
    a: Annotated[Path, Parameter(name="A")],
    b: Annotated[Path, Parameter(name="B")],
    /,
    *,
    part: CompareOptions = CompareOptions(),
    plot: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    format: Literal["table", "json"] = "table",  # noqa: A002
) -> None:
    """Compare the rankings of two releases: rank errors, overlaps and directions. Free.

    Args:
        a: The release that is the reference, as a rule exact or of a larger budget.
        b: The other release, as a rule the private one.
        part: Which part of both lists.
        plot: Also draw errors by rank band, overlaps and labels to a new .svg, .png or .html file.
        format: Text for people, or JSON.
    """
    from ddpmi.comparisons import compare as compare_releases

    if plot is not None:
        _check_plot(plot)
    check_count("--top", part.top, most=LONGEST_LIST, hint="--top 10000")
    releases = [steps.load_release(folder) for folder in (a, b)]
    for release in releases:
        show.warn_if_empty(release, release.tables.count("pairs"))
    with show.working("comparing"):
        found = compare_releases(*releases, top=part.top, by=part.by, cut=part.cut)
    if plot is not None:
        found.plot(plot)
        show.say(f"Drew {plot}.")
    if format == "json" and not found.private:
        show.say(show.COMPARED_EXACT)
    show.put(json.dumps(found.to_dict(), indent=2) + "\n" if format == "json" else show.printed(found.to_text() + "\n"))


def _check_plot(file: Path) -> None:
    """Refuse a file that could not be drawn, before anything is computed."""
    from ddpmi import charts

    charts.check_suffix(file)
    charts.check_extra()
    steps.check_new_file(file)


def report(
    folder: Folder,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], metavar="FILE")],
    top: Annotated[int, Parameter(metavar="N")] = USUAL_TOP,
    title: Annotated[str | None, Parameter(metavar="TEXT")] = None,
) -> None:
    """Write the ranking of a release as one HTML page that needs no network. Free.

    Args:
        folder: The release.
        output: Page to write; it must not exist.
        top: Features shown for each label, at most 100.
        title: Heading of the page; it names the dataset if it is not given.
    """
    from ddpmi.rankings import rank as rank_release
    from ddpmi.reports import report as write_report

    steps.check_top_of_page(top)
    steps.check_new_file(output)
    found = steps.load_release(folder)
    ranking = rank_release(found)
    show.warn_if_empty(found, len(ranking))
    if not ranking.private:
        show.say(ranking.promise)
    with show.working("writing the page"):
        write_report(ranking, output, top=top, title=title)
    show.say(f"Wrote the report {output}.")


def receipt(
    folder: Folder,
    /,
    *,
    format: Literal["text", "json"] = "text",  # noqa: A002
) -> None:
    """Print what a release promises and how it was made.

    Args:
        folder: The release.
        format: Text for people, or JSON.
    """
    from ddpmi.rankings import rank as rank_release
    from ddpmi.receipts import describe

    found = steps.load_release(folder)
    ranking = rank_release(found)
    if format == "json":
        # Not in the file: what follows from released sums is computed when it is asked for.
        stable = {"confidence": 0.95, "all": ranking.stable_top(), "released": ranking.stable_top(among="released")}
        show.put(json.dumps({**found.receipt, "stable_top": stable if ranking.private else None}, indent=2) + "\n")
    else:
        told = f"\n{ranking.stability}\n" if ranking.stability else ""
        show.put(show.printed(describe(found.receipt) + told))


def expunge(folder: Folder, /, *, ledger: Annotated[Path | None, Parameter(metavar="FILE")] = None) -> None:
    """Remove a release. What it cost stays spent, and its entry stays in the ledger.

    Args:
        folder: The release.
        ledger: The ledger that paid for it, to record there that the release was removed.
    """
    from ddpmi.releases import expunge as remove

    release_id = steps.load_release(folder).release_id
    book = None if ledger is None else steps.open_ledger(ledger)
    if book is not None and book.find(release_id) is None:
        raise InputError(
            f"{ledger} has no entry of the release {release_id}.", hint="give the ledger that paid for it, or none"
        )
    remove(folder)
    if book is not None:
        book.mark(release_id, "expunged")
    show.say(f"Removed the release {release_id} in {folder}. Its charge stays in the ledger.")


def add_to(app: App) -> None:
    """Make these commands known to the program."""
    app.command(expunge, help_epilogue=example("ddpmi expunge visits.release --ledger visits.ledger"))
    app.command(
        rank,
        help_epilogue=example(
            "ddpmi rank visits.release --top 5",
            "ddpmi rank visits.release --score log_odds --direction presence",
            "ddpmi rank visits.release --format csv -o visits.csv",
        ),
    )
    app.command(
        compare,
        help_epilogue=example(
            "ddpmi compare abstracts.exact abstracts.release --top 1000 --cut",
            "ddpmi compare larger-budget.release smaller-budget.release --format json",
            "ddpmi compare abstracts.exact abstracts.release --plot errors.svg",
        ),
    )
    app.command(
        report,
        help_epilogue=example('ddpmi report visits.release -o visits.html --top 20 --title "Sites by country"'),
    )
    app.command(receipt, help_epilogue=example("ddpmi receipt visits.release"))
