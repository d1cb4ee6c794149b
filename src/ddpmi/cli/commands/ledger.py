"""``ddpmi ledger``: create, show, verify, export and upgrade the record of what was spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ddpmi.cli import paths
from ddpmi.cli.output import example, put, say, status_table
from ddpmi.errors import InputError

File = Annotated[Path, Parameter(metavar="FILE")]

ledger = App(
    name="ledger",
    version_flags=(),
    help="Create and read ledgers. A ledger is the record of what was spent.",
    help_epilogue=example(
        "ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6", "ddpmi ledger show visits.ledger"
    ),
)


@ledger.command(name="create", help_epilogue=example("ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6"))
def ledger_create(
    file: File,
    /,
    *,
    epsilon: Annotated[str, Parameter(metavar="E")],
    delta: Annotated[str, Parameter(metavar="D")],
) -> None:
    """Create a ledger with a limit that holds for each dataset in it and never changes.

    Args:
        file: The new file.
        epsilon: Largest privacy loss of all releases of one dataset together.
        delta: Largest probability that the promise fails, for all releases of one dataset together.
    """
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.privacy.budget import Budget

    limit = Budget(epsilon, delta)
    if file.exists() or file.is_symlink():
        raise InputError(
            f"{file} exists already.",
            hint=f"choose another name, or use it as it is: ddpmi ledger show {file}",
        )
    paths.check_new_file(file)
    made = Ledger(file, limit=limit).limit
    say(f"Created {file} with the limit epsilon={float(made.epsilon):g}, delta={float(made.delta):g} for each dataset.")


@ledger.command(name="show", help_epilogue=example("ddpmi ledger show visits.ledger --dataset visits --format json"))
def ledger_show(
    file: File,
    /,
    *,
    dataset: Annotated[str | None, Parameter(metavar="NAME")] = None,
    format: Literal["table", "json"] = "table",  # noqa: A002 - the option's name
) -> None:
    """Show what a dataset has spent and has left.

    Args:
        file: The ledger.
        dataset: Dataset to show. The default is the only one in the ledger, or the one called default.
        format: Print a table for people, or JSON.
    """
    opened = paths.open_ledger(file)
    known = opened.datasets()
    if dataset is None:
        dataset = known[0] if len(known) == 1 else "default"
        others = [name for name in known if name != dataset]
        if others:
            listed = ", ".join(map(repr, others))
            say(f"This is dataset {dataset!r}; the ledger also knows {listed}: --dataset NAME")
    status = opened.status(dataset)
    put(json.dumps(status.to_dict(), indent=2) + "\n" if format == "json" else status_table(status))


@ledger.command(name="verify", help_epilogue=example("ddpmi ledger verify visits.ledger"))
def ledger_verify(file: File, /) -> None:
    """Check every page, every hash and every sum of a ledger.

    Args:
        file: The ledger.
    """
    paths.open_ledger(file).verify()
    say(f"{file} is intact.")


@ledger.command(name="export", help_epilogue=example("ddpmi ledger export visits.ledger > visits.ledger.json"))
def ledger_export(file: File, /) -> None:
    """Print every event of a ledger as JSON, enough to recompute its chain of hashes.

    Args:
        file: The ledger.
    """
    put(json.dumps(paths.open_ledger(file).export(), indent=2) + "\n")


@ledger.command(name="upgrade", help_epilogue=example("ddpmi ledger upgrade visits.ledger"))
def ledger_upgrade(file: File, /) -> None:
    """Upgrade a ledger that an older ddpmi wrote to this version. What was spent stays spent.

    Older versions of ddpmi can no longer use the file.

    Args:
        file: The ledger.
    """
    from ddpmi.ledger.ledger import upgrade_ledger

    found, made = upgrade_ledger(file)
    say(f"{file} has schema {made} already." if found == made else f"{file} now has schema {made}, it had {found}.")


def register(app: App) -> None:
    """Add the group of commands."""
    app.command(ledger)
