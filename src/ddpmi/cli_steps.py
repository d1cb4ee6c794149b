"""What several commands do: check paths before anything is spent, open what is named, release."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ddpmi import cli_show as show
from ddpmi.errors import DdpmiError, InputError, InputNotFound, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ddpmi.cli_options import PlanOptions, ReadingOptions, ReleaseOptions
    from ddpmi.ledger import Ledger
    from ddpmi.plan import Plan
    from ddpmi.releases import Release

_FORMATS = ("csv", "json", "parquet")


def make_release(
    data: list[str] | None,
    to: ReleaseOptions,
    asked: PlanOptions,
    reading: ReadingOptions,
) -> Release:
    """Check everything that can be checked for free, then pay, read and write."""
    plan = asked.plan()
    named = reading.named()
    obs = asked.columns.observe(reading.data(data), **named)
    ledger = open_ledger(to.ledger)
    known = to.release_id is not None and ledger.find(to.release_id) is not None
    if not known:
        check_new_folder(to.output)
    from ddpmi.curator import release

    with show.Progress() as progress, charges_told(ledger, reading.dataset):
        found = release(obs, plan, ledger=ledger, to=to.output, release_id=to.release_id, progress=progress)
    if known:
        show.say(f"{to.output} holds this release already; nothing was charged or drawn.")
    else:
        left = ledger.status(reading.dataset).left.to_dict()
        show.say(f"Released {found.tables.count('pairs')} pairs to {to.output}.")
        show.say(f"Dataset {reading.dataset!r} has epsilon={left['epsilon']:g}, delta={left['delta']:g} left.")
    show.warn_if_empty(found, found.tables.count("pairs"))
    return found


@contextmanager
def charges_told(ledger: Ledger, dataset: str) -> Iterator[None]:
    """Make sure that whoever sees an error also sees whether budget was spent."""
    before = len(ledger.status(dataset).entries)
    try:
        yield
    except BaseException as error:
        if not getattr(error, "__notes__", ()):
            error.add_note(_charge(ledger, dataset, before))
        raise


def _charge(ledger: Ledger, dataset: str, before: int) -> str:
    try:
        charged = len(ledger.status(dataset).entries) > before
    except DdpmiError:
        return f"Whether the ledger was charged is not known: ddpmi ledger verify {ledger.path}"
    if charged:
        return f"The ledger has a new charge, and it stays: ddpmi ledger show {ledger.path}"
    return "The ledger was not charged."


def open_ledger(file: Path) -> Ledger:
    """Open a ledger that is there."""
    from ddpmi.ledger import Ledger

    if not file.exists():
        raise InputNotFound(
            f"The ledger {file} does not exist.", hint=f"ddpmi ledger create {file} --epsilon 4 --delta 1e-6"
        )
    return Ledger(file)


def load_release(folder: Path) -> Release:
    """Open a release that is there."""
    from ddpmi.releases import Release

    if not (folder / "receipt.json").is_file():
        raise InputNotFound(
            f"{folder} is not a release: it has no receipt.json.",
            hint="ddpmi release DATA --ledger FILE -o DIR writes one",
        )
    return Release.load(folder)


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that a release could not be written to."""
    from ddpmi.releases import check_target

    try:
        check_target(folder)
    except ReleaseError as error:
        raise InputError(error.message, hint=error.hint) from None


def check_new_file(file: Path) -> None:
    """Refuse a file that exists or cannot be made.

    >>> from pathlib import Path
    >>> check_new_file(Path("no such folder/page.html"))
    Traceback (most recent call last):
    ddpmi.errors.InputError: The folder no such folder does not exist.
    <BLANKLINE>
    Hint: mkdir -p 'no such folder'
    """
    if file.exists() or file.is_symlink():
        raise InputError(
            f"{file} exists already, and nothing is overwritten.",
            hint="choose another name, or remove it first",
        )
    if not file.parent.is_dir():
        raise InputError(f"The folder {file.parent} does not exist.", hint=f"mkdir -p '{file.parent}'")
    if not os.access(file.parent, os.W_OK):
        raise InputError(f"The folder {file.parent} cannot be written to.", hint="choose another place")


def put_simulation(plan: Plan, hints: str, *, json_: bool) -> None:
    """Print what to expect of a plan; nothing is read."""
    from ddpmi.simulation import simulate

    with show.Progress() as progress:
        progress("simulate", None)
        found = simulate(plan, hints)
    show.put(json.dumps(found.to_dict(), indent=2) + "\n" if json_ else found.to_text())


def check_top_of_page(top: int) -> None:
    """Refuse more rows than a page can show, before anything is paid.

    >>> check_top_of_page(10)
    """
    from ddpmi.reports import MOST_ROWS

    if not 1 <= top <= MOST_ROWS:
        raise InputError(f"--top must be from 1 to {MOST_ROWS}, got {top}.", hint="--top 10")


def format_of(given: str | None, output: Path | None) -> str:
    """Choose how a ranking is written.

    >>> from pathlib import Path
    >>> format_of(None, None), format_of(None, Path("a.csv")), format_of("json", Path("a.txt"))
    ('table', 'csv', 'json')
    """
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    chosen = given or (ending if ending in _FORMATS else "table")
    if chosen == "parquet" and output is None:
        raise InputError(
            "Parquet is not text and needs a file.", hint="ddpmi rank DIR --format parquet -o ranking.parquet"
        )
    return chosen
