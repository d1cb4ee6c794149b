"""``ddpmi cascade``: releases that start from the results of earlier ones, as a file describes them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ddpmi.cli import log, paths
from ddpmi.cli.options import DEFAULT_TOP, WHO, WHY
from ddpmi.cli.output import Progress, escape_lines, example, put, put_kept, ranking_table, say, warn_if_empty
from ddpmi.errors import InputError, check_count

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.applications.cascades import Folded


def cascade(
    spec: Annotated[Path, Parameter(metavar="SPEC.toml")],
    /,
    *,
    dry_run: bool = False,
    top: Annotated[int, Parameter(metavar="N")] = DEFAULT_TOP,
    who: WHO = "",
    why: WHY = "",
    format: Literal["table", "json"] = "table",  # noqa: A002 - the option's name
) -> None:
    """Run the folds that a file describes, on one ledger. A fold may start from the results of an earlier one.

    Finished folds are read from their folders, so the command may be repeated after a failure.

    Args:
        spec: The file.
        dry_run: Print what all folds would do and cost, then stop. Free.
        top: Pairs shown for each label of each fold.
        who: Who asks for these releases.
        why: What they are for.
        format: Print tables for people, or JSON.
    """
    from ddpmi.applications.cascades import Cascade, check_affordable, each_fold, is_affordable

    check_count("--top", top, hint="--top 10")
    loaded = Cascade.load(spec)
    loaded.observe()
    if loaded.ledger is None:
        raise InputError(f"{spec} names no ledger.", hint="ledger = 'visits.ledger'")
    if dry_run:
        put(escape_lines(loaded.explain()))
        if loaded.ledger.exists():
            check_affordable(loaded, paths.open_ledger(loaded.ledger))
        return
    ledger = paths.open_ledger(loaded.ledger)
    say(escape_lines(loaded.explain()).rstrip("\n"))
    best: dict[str, Any] = {}
    with Progress() as progress, ExitStack() as logged:
        for dataset in dict.fromkeys(fold.dataset for fold in loaded.folds):
            logged.enter_context(log.new_charges(ledger, dataset))
        for done in each_fold(loaded, ledger=ledger, who=who, why=why, progress=progress):
            _say_fold(done)
            best[done.fold.name] = done.ranking.top(top).to_dicts()
            if format == "table":
                put_kept(f"Fold {done.fold.name}\n{ranking_table(done.ranking, done.ranking.top(top))}\n")
    rounds = len(best) // len(loaded.folds)
    if rounds < loaded.repeat:
        short = not is_affordable(loaded, ledger, number=rounds + 1)
        why_ = "the ledger cannot cover the next one" if short else "it found nothing new that is clear of the noise"
        say(f"Stopped after round {rounds}: {why_}.")
    if format == "json":
        put_kept(json.dumps(best, indent=2, ensure_ascii=False) + "\n")


def _say_fold(done: Folded) -> None:
    pairs = done.release.tables.count("pairs")
    how = "was released before; nothing was charged or drawn" if done.resumed else f"released {pairs} pairs"
    say(f"Fold {done.fold.name} {how}.")
    warn_if_empty(done.release, pairs)


def register(app: App) -> None:
    """Add the command."""
    app.command(
        cascade, help_epilogue=example("ddpmi cascade survey.toml --dry-run", "ddpmi cascade survey.toml --top 5")
    )
