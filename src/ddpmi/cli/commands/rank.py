"""``ddpmi rank``: put the pairs of a release in order. Reads the release, never the data."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from cyclopts import Parameter

from ddpmi._typing import ScoreName  # noqa: TC001 - the command line reads this hint when it runs
from ddpmi.cli import paths
from ddpmi.cli.keys import read_groups
from ddpmi.cli.options import DEFAULT_TOP, ReleaseFolder, RowOptions
from ddpmi.cli.output import example, put, ranking_table, rich_table, say, warn_if_empty, working
from ddpmi.errors import LONGEST_LIST, InputError, check_count
from ddpmi.text import printable, write_new

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cyclopts import App

    from ddpmi.rankings.groups import Grouped
    from ddpmi.rankings.ranking import Ranking

Format = Literal["table", "csv", "json", "parquet", "xlsx"]
_ENDINGS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".xlsx": "xlsx", ".txt": "table"}
_ORDER_HELP = (
    "Which number orders the pairs: mutual information itself (estimate), its lower bound (lower), the estimate less what "
    "noise may have added (shrunk), or an estimate that borrows strength across groups (pooled), which is best for lists "
    "of labels. The default is estimate if pairs have a threshold, and pooled if every pair was released."
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RankOptions:
    """Which order, and which part of it."""

    top: Annotated[int | None, Parameter(metavar="N")] = None
    """Pairs to keep per label, per feature or in all (see --per). The default is 10 for tables, everything for other formats."""
    per: Literal["label", "feature", "all"] | None = None
    """How rows are grouped; --top counts within each group. The default is label, or all if everything is written."""
    direction: Literal["presence", "absence", "both"] = "both"
    """Keep only pairs whose feature is more common under the label than elsewhere (presence), or less common (absence)."""
    score: ScoreName | None = None
    """Order by another score, which gets its own column. The default is mutual information."""
    method: Literal["stable", "paper"] = "stable"
    """How mutual information is computed. paper is CalcMI as printed in the paper."""
    tol: Annotated[float | None, Parameter(metavar="T")] = None
    """Tolerance of --method paper: smaller probabilities count as 0. The default is 1e-15."""
    base: Annotated[float | None, Parameter(metavar="B")] = None
    """Base of the logarithm of mutual information, for example 2 for bits. The default is nats."""
    order: Annotated[Literal["estimate", "lower", "shrunk", "pooled"] | None, Parameter(help=_ORDER_HELP)] = None
    """Which number orders the pairs."""
    rank_intervals: Annotated[bool, Parameter(show_default=False)] = False
    """Add the lowest and highest rank that noise allows for each pair, at 95% confidence, among the released pairs."""

    def checked_tol(self) -> float:
        """Return the tolerance. Without the method that has one it is refused."""
        if self.tol is None:
            return 1e-15
        if self.method != "paper":
            raise InputError(
                f"--tol {self.tol:g} belongs to --method paper.", hint="--method paper, or leave --tol out"
            )
        if not 0 <= self.tol < 1:
            raise InputError(f"--tol must be a number from 0 to 1, got {self.tol!r}.", hint="--tol 1e-15")
        return self.tol

    def part(self, ranking: Ranking, *, table: bool) -> Ranking:
        """Return the rows to print or write."""
        whole = self.top is None and not table
        if whole and self.per is None and self.direction == "both":
            return ranking  # sorting millions of pairs again would change nothing
        count = max(1, len(ranking)) if whole else self.top or DEFAULT_TOP
        return ranking.top(count, per=self.per or ("all" if whole else "label"), direction=self.direction)

    def grouped(self, part: Ranking, groups: Mapping[str, str], *, table: bool) -> Grouped:
        """Return the rows to print or write, by the groups of a public list."""
        from ddpmi.rankings.groups import group_features

        top = self.top or (DEFAULT_TOP if table else max(1, len(part)))
        return group_features(part, groups, top=top, direction=self.direction)


def rank(
    folder: ReleaseFolder | None = None,
    /,
    *,
    order: RankOptions = RankOptions(),
    rows: RowOptions = RowOptions(),  # noqa: B008 - a frozen value
    groups: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    format: Format | None = None,  # noqa: A002 - the option's name
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], metavar="FILE")] = None,
) -> None:
    """Rank the pairs of a release by mutual information or another score. Free, and may be repeated.

    Args:
        folder: The release. The default is the newest one that the ledger of this folder was charged for.
        order: Which order, and which part of it.
        rows: Which rows.
        groups: Public list of features and their groups (CSV with a head, or Parquet; two columns): features are listed by group.
        format: Format to write. If not given, the ending of FILE decides: .csv, .json, .parquet, .xlsx, or .txt for a table.
        output: File to write instead of printing. It must not exist.
    """
    from ddpmi.rankings.ranking import rank as rank_release
    from ddpmi.releases.release import Release

    if order.top is not None:
        check_count("--top", order.top, most=LONGEST_LIST, hint="--top 10")
    chosen, tol = format_of(format, output), order.checked_tol()
    if output is not None:
        paths.check_new_file(output)
    listed = None if groups is None else read_groups(groups, "--groups")
    if folder is None:
        folder = paths.newest_release()
        say(f"Ranking {printable(str(folder))}.")
    found = Release.load(folder)
    with working("ranking"):
        ranking = rank_release(
            found,
            score=order.score,
            method=order.method,
            base=order.base,
            tol=tol,
            rank_intervals=order.rank_intervals,
            order=order.order,
        )
        empty = not len(ranking)
        ranking = rows.labels_of(ranking)
        part = order.part(rows.of(ranking), table=chosen == "table")
        by_label = order.per in (None, "label")
        text = ranking_table(ranking, part, by_label=by_label) if chosen == "table" else ""
    if empty:
        warn_if_empty(found, 0)
    if not ranking.private and (chosen != "table" or output is not None):
        say(ranking.promise)
    if listed is None:
        _put(part, text, chosen, output)
    else:
        grouped = order.grouped(part, listed, table=chosen == "table")
        _put(grouped, groups_table(grouped), chosen, output)


def format_of(given: Format | None, output: Path | None) -> Format:
    """Choose the format of a ranking: the given one, or by the ending of the file.

    Raises:
        InputError: The ending is not known, or the format needs a file.

    >>> from pathlib import Path
    >>> format_of(None, None), format_of(None, Path("a.csv")), format_of("json", Path("a.txt"))
    ('table', 'csv', 'json')
    """
    if given is None and output is not None:
        if output.suffix.lower() not in _ENDINGS:
            raise InputError(
                f"The name must end in {', '.join(_ENDINGS)}, got {printable(output.name)!r}.",
                hint="-o ranking.csv, or say what to write: --format table",
            )
        return cast("Format", _ENDINGS[output.suffix.lower()])
    if given in ("parquet", "xlsx") and output is None:
        raise InputError("Parquet and Excel are not text and need a file.", hint=f"ddpmi rank DIR -o ranking.{given}")
    return given or "table"


def text_of(ranking: Ranking, format_: Literal["csv", "json"]) -> str:
    """Return a ranking as the text of a CSV or JSON file."""
    with tempfile.TemporaryDirectory() as folder:
        return ranking.save(Path(folder) / f"ranking.{format_}").read_text(encoding="utf-8")


def _put(rows: Ranking | Grouped, text: str, chosen: str, output: Path | None) -> None:
    """Print or write the rows, as the text of a table or in another format."""
    if chosen != "table":
        _write(rows, chosen, output)
    elif output is None:
        put(text)
    else:
        write_new(output, lambda place: _write_text(place, text))


def groups_table(grouped: Grouped) -> str:
    """Write the groups of each label and their features as a table, below what the ranking promises."""
    from ddpmi.rankings.groups import NO_GROUP

    found: dict[tuple[str, str], list[str]] = {}
    for row in grouped.rows:
        less = " (absence)" if row["direction"] == "absence" else ""
        found.setdefault((row["label"], row["group"] or NO_GROUP), []).append(f"{row['feature']}{less}")
    heads = ("label", "group", "features")
    rows = [(*keys, ", ".join(names)) for keys, names in found.items()]
    return f"{grouped.promise}\n{rich_table(heads, rows, names=heads) if rows else ''}"


def _write(ranking: Ranking | Grouped, format_: str, output: Path | None) -> None:
    """Write csv, json, parquet or xlsx to a file, or copy it to stdout."""
    if output is not None and output.suffix.lower() == f".{format_}":
        ranking.save(output)
        return
    with tempfile.TemporaryDirectory() as folder:
        draft = ranking.save(Path(folder) / f"ranking.{format_}")
        if output is not None:
            write_new(output, lambda place: _copy(draft, place))
            return
        sys.stdout.flush()
        with draft.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()


def _write_text(place: Path, text: str) -> None:
    place.write_text(text, encoding="utf-8")


def _copy(draft: Path, place: Path) -> None:
    shutil.copyfile(draft, place)


def register(app: App) -> None:
    """Add the command."""
    app.command(
        rank,
        help_epilogue=example(
            "ddpmi rank visits.release --top 5",
            "ddpmi rank visits.release --label India --label Chile --clear",
            "ddpmi rank visits.release --score log_odds --direction presence",
            "ddpmi rank visits.release --groups industries.csv --direction presence",
            "ddpmi rank visits.release -o visits.xlsx",
        ),
    )
