"""``ddpmi expand``: the features that set apart the units that show a seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.commands.release import note_charges, say_budget_left
from ddpmi.cli.options import (
    DEFAULT_TOP,
    WHO,
    WHY,
    BoundOptions,
    ColumnOptions,
    KeyOptions,
    PlanOptions,
    PrivacyOptions,
    ReadingOptions,
)
from ddpmi.cli.output import Progress, column_head, example, put_kept, rich_table, say, warn_if_empty
from ddpmi.errors import InputError, check_count
from ddpmi.rankings.display import cells_of

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.applications.expansion import Round

_SHOWN = ("round", "feature", "share_in", "share_out", "lift", "verdict", "mi")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandOptions:
    """Where to start, how far to go, and which ledger is charged."""

    seed: Annotated[tuple[str, ...], Parameter(metavar="FEATURE")]
    """Feature to start from. May be repeated: a unit that shows any of them belongs to the seed."""
    ledger: Annotated[Path, Parameter(metavar="FILE")]
    """Ledger that is charged for each round. Make one with ddpmi ledger create."""
    rounds: Annotated[int, Parameter(metavar="R")] = 1
    """Largest number of rounds. Each round is charged, and starts from the seed and all features found before."""
    top: Annotated[int, Parameter(metavar="N")] = DEFAULT_TOP
    """Features that each round finds."""
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], metavar="DIR")] = None
    """Folder for the releases round-1, round-2 and so on. Without it only the list is kept."""
    who: WHO = ""
    """Who asks for these releases."""
    why: WHY = ""
    """What they are for."""
    format: Literal["table", "json"] = "table"
    """Print a table for people, or JSON."""


def expand(
    data: Annotated[list[str] | None, Parameter(metavar="DATA")] = None,
    /,
    *,
    walk: ExpandOptions,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008 - a frozen value
    privacy: PrivacyOptions = PrivacyOptions(),  # noqa: B008
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """List the features that set apart the units that show a seed. Each round is charged to the ledger.

    Args:
        data: Files, folders, globs, tables or addresses, as for release.
        walk: Where to start, how far to go, and which ledger is charged.
        columns: Which column holds what. No label is needed.
        privacy: What each round promises.
        bounds: How much one unit may change.
        reading: How the data is read.
    """
    from ddpmi.applications import expansion

    _check_walk(walk, columns)
    plan = PlanOptions(columns=columns, privacy=privacy, bounds=bounds, keys=KeyOptions()).plan()
    keywords = reading.keywords()
    obs = columns.observe(reading.data(data), labelled=False, **keywords)
    ledger = paths.open_ledger(walk.ledger)
    done: list[Round] = []

    def keep(found: Round) -> None:
        done.append(found)
        _say_round(found)

    try:
        with Progress() as progress, note_charges(ledger, reading.dataset):
            ended = expansion.expand(
                obs,
                seed=walk.seed,
                plan=plan,
                ledger=ledger,
                rounds=walk.rounds,
                top=walk.top,
                to=walk.output,
                who=walk.who,
                why=walk.why,
                progress=progress,
                on_round=keep,
            )
        if ended.refusal is not None:
            say(f"Stopped after round {len(done)}: {ended.refusal}")
    finally:
        # Print the rounds that were charged, even if a later round failed.
        if done:
            _put_rounds(done, walk.format)
    if ended.stopped == "novelty":
        say(f"Stopped after round {len(done)}: nothing new was found.")
    say_budget_left(ledger, reading.dataset)


def _check_walk(walk: ExpandOptions, columns: ColumnOptions) -> None:
    if columns.label is not None or columns.label_sql is not None:
        raise InputError("expand makes its own labels from the seed.", hint="leave --label out")
    if columns.count is not None:
        raise InputError("expand needs rows of units, not counts.", hint="leave --count out")
    for name in ("rounds", "top"):
        check_count(f"--{name}", getattr(walk, name), hint=f"--{name} 1")
    if walk.output is not None:
        paths.check_new_folder(walk.output)


def _say_round(found: Round) -> None:
    say(f"Round {found.number}: {len(found.found)} features.")
    warn_if_empty(found.release, found.release.tables.count("pairs"))


def _put_rounds(done: list[Round], format_: str) -> None:
    rows = [row for found in done for row in found.rows()]
    if format_ == "json":
        put_kept(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
        return
    cells = ({**cells_of(row), "round": str(row["round"])} for row in rows)
    heads = [column_head(name, done[0].ranking) for name in _SHOWN]
    table = rich_table(heads, ([row[name] for name in _SHOWN] for row in cells), names=("feature",)) if rows else ""
    put_kept(f"{done[-1].ranking.promise}\n{table}{len(rows)} features in {len(done)} rounds, each with this promise\n")


def register(app: App) -> None:
    """Add the command."""
    app.command(
        expand,
        help_epilogue=example(
            "ddpmi expand visits.parquet --unit user_id --feature site --seed 'azure iot' \\",
            "    --epsilon 1 --delta 1e-7 --pairs 50 --ledger visits.ledger",
        ),
    )
