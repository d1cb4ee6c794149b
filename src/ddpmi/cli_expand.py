"""The commands ``ddpmi expand`` and ``ddpmi cascade``: rankings that start from the result of another."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ddpmi import cli_show as show
from ddpmi import cli_steps as steps
from ddpmi.cli_columns import ColumnOptions
from ddpmi.cli_options import BoundOptions, KeyOptions, PlanOptions, PrivacyOptions, ReadingOptions, example
from ddpmi.errors import BudgetExceeded, InputError
from ddpmi.show import cells_of
from ddpmi.spec import check_count

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.cascades import Folded, Round

_SHOWN = ("round", "feature", "direction", "mi", "share_in", "share_out", "lift")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandOptions:
    """Where to start, how far to go, and who pays."""

    seed: Annotated[tuple[str, ...], Parameter(metavar="FEATURE")]
    """Feature to start from; may be repeated: a unit that shows any of them belongs to the seed."""
    ledger: Annotated[Path, Parameter(metavar="FILE")]
    """Ledger that pays for each round; made by ddpmi ledger create."""
    rounds: Annotated[int, Parameter(metavar="R")] = 1
    """Most rounds; each is charged, and starts from all that was found before."""
    top: Annotated[int, Parameter(metavar="N")] = 10
    """Features that each round finds."""
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], metavar="DIR")] = None
    """Folder for the releases round-1, round-2 and so on; without it only the list is kept."""
    format: Literal["table", "json"] = "table"
    """Table for people, or JSON."""


def expand(
    data: Annotated[list[str] | None, Parameter(metavar="DATA")] = None,
    /,
    *,
    walk: ExpandOptions,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008 - a frozen value
    privacy: PrivacyOptions,
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """List the features that set apart those who show a seed. Charges the ledger for each round.

    Args:
        data: Files, folders, globs, tables or addresses, as for release.
        walk: Where to start, how far to go, and who pays.
        columns: Which column holds what; no label is needed.
        privacy: What each round promises.
        bounds: How much one unit may change.
        reading: How the data is read.
    """
    from ddpmi.cascades import Walk

    _check_walk(walk, columns)
    # Who shows the seed is a question about units; a value column asks about events.
    chosen = replace(columns, space=columns.space or ("events" if columns.valued else "units"))
    plan = PlanOptions(columns=chosen, privacy=privacy, bounds=bounds, keys=KeyOptions()).plan()
    named = reading.named()
    obs = columns.observe(reading.data(data), labelled=False, **named)
    ledger = steps.open_ledger(walk.ledger)
    if walk.output is not None:
        steps.check_new_folder(walk.output)
    done: list[Round] = []
    try:
        with show.Progress() as progress, steps.charges_told(ledger, reading.dataset):
            way = Walk(plan=plan, ledger=ledger, rounds=walk.rounds, top=walk.top, to=walk.output, progress=progress)
            for found in way.each(obs, walk.seed):
                done = [*done, found]
                show.say(f"Round {found.number}: {len(found.found)} features.")
                show.warn_if_empty(found.release, found.release.tables.count("pairs"))
    except BudgetExceeded as error:
        if not done:
            raise
        show.say(f"Stopped after round {len(done)}: {error.message}")
    finally:
        # What was paid for is shown, whatever happened to a later round.
        if done:
            _put_rounds(done, walk.format)
    if not done[-1].found:
        show.say(f"Stopped after round {len(done)}: nothing new was found.")
    left = ledger.status(reading.dataset).left.to_dict()
    show.say(f"Dataset {reading.dataset!r} has epsilon={left['epsilon']:g}, delta={left['delta']:g} left.")


def _check_walk(walk: ExpandOptions, columns: ColumnOptions) -> None:
    if columns.label is not None or columns.label_sql is not None:
        raise InputError("expand makes its own labels from the seed.", hint="leave --label out")
    if columns.count is not None:
        raise InputError("expand needs rows of units, not counts.", hint="leave --count out")
    for name in ("rounds", "top"):
        check_count(f"--{name}", getattr(walk, name), hint=f"--{name} 1")


def _put_rounds(done: list[Round], format_: str) -> None:
    rows = [row for found in done for row in found.rows()]
    if format_ == "json":
        show.put(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
        return
    cells = ({**cells_of(row), "round": str(row["round"])} for row in rows)
    heads = [f"mi ({done[0].ranking.unit_of_mi})" if name == "mi" else name.replace("_", " ") for name in _SHOWN]
    table = (
        show.rich_table(heads, ([row[name] for name in _SHOWN] for row in cells), names=("feature",)) if rows else ""
    )
    show.put(f"{done[-1].ranking.promise}\n{table}{len(rows)} features in {len(done)} rounds, each with this promise\n")


def cascade(
    spec: Annotated[Path, Parameter(metavar="SPEC.toml")],
    /,
    *,
    dry_run: bool = False,
    top: Annotated[int, Parameter(metavar="N")] = 10,
    format: Literal["table", "json"] = "table",  # noqa: A002 - the option's name
) -> None:
    """Run folds that start from each other's results, from a file that describes them, on one ledger.

    Finished folds are taken from their folders, so the command may be repeated after a failure.

    Args:
        spec: The file.
        dry_run: Print what all folds would do and cost, and stop. Free.
        top: Pairs shown for each label of each fold.
        format: Table for people, or JSON.
    """
    from ddpmi.cascades import Cascade, check_affordable, each_fold

    check_count("--top", top, hint="--top 10")
    told = Cascade.load(spec)
    told.observe()
    if told.ledger is None:
        raise InputError(f"{spec} names no ledger.", hint="ledger = 'visits.ledger'")
    if dry_run:
        show.put(show.printed(told.explain()))
        if told.ledger.exists():
            check_affordable(told, steps.open_ledger(told.ledger))
        return
    ledger = steps.open_ledger(told.ledger)
    show.say(show.printed(told.explain()).rstrip("\n"))
    pages: dict[str, Any] = {}
    with show.Progress() as progress:
        for done in each_fold(told, ledger=ledger, progress=progress):
            _say_fold(done)
            pages[done.fold.name] = done.ranking.top(top).to_dicts()
            if format == "table":
                show.put(f"Fold {done.fold.name}\n{show.ranking_table(done.ranking, done.ranking.top(top))}\n")
    if format == "json":
        show.put(json.dumps(pages, indent=2, ensure_ascii=False) + "\n")


def _say_fold(done: Folded) -> None:
    pairs = done.release.tables.count("pairs")
    how = "was released before; nothing was charged or drawn" if done.resumed else f"released {pairs} pairs"
    show.say(f"Fold {done.fold.name} {how}.")
    show.warn_if_empty(done.release, pairs)


def register(app: App) -> None:
    """Add both commands."""
    app.command(
        expand,
        help_epilogue=example(
            "ddpmi expand visits.parquet --unit user_id --feature site --seed 'azure iot' \\",
            "    --epsilon 1 --delta 1e-7 --pairs 50 --ledger visits.ledger",
        ),
    )
    app.command(
        cascade, help_epilogue=example("ddpmi cascade survey.toml --dry-run", "ddpmi cascade survey.toml --top 5")
    )
