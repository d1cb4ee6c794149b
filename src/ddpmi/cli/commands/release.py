"""``ddpmi release``: charge the ledger, read the data once, write a private release."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ddpmi.cli import log, paths
from ddpmi.cli.options import (
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
from ddpmi.cli.output import Progress, example, say, warn_if_empty
from ddpmi.cli.settings import read_settings
from ddpmi.errors import DdpmiError, LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyclopts import App

    from ddpmi.ledger.ledger import Ledger
    from ddpmi.pipeline.steps import Table
    from ddpmi.planning.auto import AutoPlan
    from ddpmi.planning.plan import Plan
    from ddpmi.releases.release import Release


def release(
    data: Data = None,
    /,
    *,
    to: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - a frozen value
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008
    privacy: PrivacyOptions = PrivacyOptions(),  # noqa: B008
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    keys: KeyOptions = KeyOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """Charge the ledger, read the data and write a differentially private release.

    Args:
        data: The rows.
        to: Which ledger is charged and where the release goes.
        columns: Which column holds what.
        privacy: What is promised.
        bounds: How much one unit may change.
        keys: Which keys can be released.
        reading: How the data is read.
    """
    settings = read_settings()
    options = PlanOptions(columns=columns, privacy=privacy, bounds=bounds, keys=keys).with_settings(settings)
    source = reading.data(data, settings.files)
    plan = options.plan_or_look()
    make_release(source, to.destination(source, again("release", source, privacy)), plan, options.columns, reading)


def again(command: str, source: list[str] | Table, privacy: PrivacyOptions) -> str:
    """Return a command in short, to be typed again once there is a ledger."""
    data = " ".join(map(shlex.quote, source)) if isinstance(source, list) else f"--table {shlex.quote(source.name)}"
    return f"ddpmi {command} {data} --epsilon {privacy.epsilon or 1}"


def make_release(
    source: list[str] | Table, to: Destination, plan: Plan | AutoPlan, columns: ColumnOptions, reading: ReadingOptions
) -> Release:
    """Release the data, and print how many pairs it has and what budget is left.

    Everything that can be checked without budget is checked before the ledger is charged.
    """
    obs = columns.observe(source, **reading.keywords())
    ledger = paths.open_ledger(to.ledger, expect_head=to.expect_head)
    charged_before = was_charged(ledger, to)
    if not charged_before:
        paths.check_new_folder(to.output)
    from ddpmi.curator.door import release as draw
    from ddpmi.releases.receipts import look_of
    from ddpmi.releases.words import Words

    with Progress() as progress, note_charges(ledger, reading.dataset):
        found = draw(
            obs,
            plan,
            ledger=ledger,
            to=to.output,
            release_id=to.release_id,
            who=to.who,
            why=to.why,
            progress=progress,
        )
    if charged_before:
        say(f"{to.output} holds this release already; nothing was charged or drawn.")
    else:
        if (look := look_of(found.receipt)) is not None:
            chosen = found.receipt["plan"]["bounds"]
            seen = look.in_words(Words.of(found.receipt).units)
            say(f"A private look found {seen}; so pairs={chosen['pairs']}, labels={chosen['labels']}.")
        say(f"Released {found.tables.count('pairs')} pairs to {to.output}.")
        say_budget_left(ledger, reading.dataset)
    warn_if_empty(found, found.tables.count("pairs"))
    return found


def was_charged(ledger: Ledger, to: Destination) -> bool:
    """Tell whether the release id was charged before. Then its stored release is returned."""
    return to.release_id is not None and ledger.find(to.release_id) is not None


def say_budget_left(ledger: Ledger, dataset: str) -> None:
    """Print the budget that a dataset has left; nothing if the ledger has gone since the charge."""
    try:
        left = ledger.status(dataset).left.to_dict()
    except LedgerError:
        return
    say(f"Dataset {dataset!r} has epsilon={left['epsilon']:g}, delta={left['delta']:g} left.")


@contextmanager
def note_charges(ledger: Ledger, dataset: str) -> Iterator[None]:
    """Add a note to every error that says whether the ledger was charged."""
    before = len(ledger.status(dataset).entries)
    try:
        with log.new_charges(ledger, dataset):
            yield
    except BaseException as error:
        if not getattr(error, "__notes__", ()):
            error.add_note(_charge_note(ledger, dataset, before))
        raise


def _charge_note(ledger: Ledger, dataset: str, before: int) -> str:
    try:
        charged = len(ledger.status(dataset).entries) > before
    except DdpmiError:
        return f"Whether the ledger was charged is not known: ddpmi ledger verify {ledger.path}"
    if charged:
        return f"The ledger has a new charge, and it stays: ddpmi ledger show {ledger.path}"
    return "The ledger was not charged."


def register(app: App) -> None:
    """Add the command."""
    app.command(
        release,
        help_epilogue=example(
            "ddpmi release visits.parquet --unit user_id --feature site --label country \\",
            "    --epsilon 1 --delta 1e-7 --pairs 50 \\",
            "    --ledger visits.ledger -o visits.release",
            "ddpmi release counts.csv --count devices --feature app --label segment \\",
            "    --epsilon 1 --delta 1e-7 --ledger apps.ledger -o apps.release",
        ),
    )
