"""The commands of ``ddpmi ledger``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ddpmi import cli_show as show
from ddpmi import cli_steps as steps
from ddpmi.cli_options import example
from ddpmi.errors import InputError

File = Annotated[Path, Parameter(metavar="FILE")]

app = App(
    name="ledger",
    version_flags=(),
    help="Create and read ledgers: the record of what was spent.",
    help_epilogue=example(
        "ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6", "ddpmi ledger show visits.ledger"
    ),
)


@app.command(name="create", help_epilogue=example("ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6"))
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
        delta: Largest probability that the promise fails, of all releases of one dataset together.
    """
    from ddpmi.budget import Budget
    from ddpmi.ledger import Ledger

    limit = Budget(epsilon, delta)
    if file.exists() or file.is_symlink():
        raise InputError(
            f"{file} exists already.",
            hint=f"choose another name, or use it as it is: ddpmi ledger show {file}",
        )
    steps.check_new_file(file)
    made = Ledger(file, limit=limit).limit
    show.say(
        f"Created {file} with the limit epsilon={float(made.epsilon):g}, delta={float(made.delta):g} for each dataset."
    )


@app.command(name="show", help_epilogue=example("ddpmi ledger show visits.ledger --dataset visits --format json"))
def ledger_show(
    file: File,
    /,
    *,
    dataset: Annotated[str | None, Parameter(metavar="NAME")] = None,
    format: Literal["table", "json"] = "table",  # noqa: A002
) -> None:
    """Show what a dataset has spent and has left.

    Args:
        file: The ledger.
        dataset: The dataset; if it is not given, default, or the only one that the ledger knows.
        format: Table for people, or JSON.
    """
    ledger = steps.open_ledger(file)
    known = ledger.datasets()
    if dataset is None:
        dataset = known[0] if len(known) == 1 else "default"
        others = [name for name in known if name != dataset]
        if others:
            listed = ", ".join(map(repr, others))
            show.say(f"This is dataset {dataset!r}; the ledger also knows {listed}: --dataset NAME")
    status = ledger.status(dataset)
    show.put(json.dumps(status.to_dict(), indent=2) + "\n" if format == "json" else show.status_table(status))


@app.command(name="verify", help_epilogue=example("ddpmi ledger verify visits.ledger"))
def ledger_verify(file: File, /) -> None:
    """Check every page, every hash and every sum of a ledger.

    Args:
        file: The ledger.
    """
    steps.open_ledger(file).verify()
    show.say(f"{file} is whole.")


@app.command(name="export", help_epilogue=example("ddpmi ledger export visits.ledger > visits.ledger.json"))
def ledger_export(file: File, /) -> None:
    """Print every event of a ledger as JSON, enough to recompute its chain of hashes.

    Args:
        file: The ledger.
    """
    show.put(json.dumps(steps.open_ledger(file).export(), indent=2) + "\n")


@app.command(name="upgrade", help_epilogue=example("ddpmi ledger upgrade visits.ledger"))
def ledger_upgrade(file: File, /) -> None:
    """Bring a ledger that an older ddpmi wrote to this version. What was spent stays spent.

    Older versions of ddpmi refuse the file from then on.

    Args:
        file: The ledger.
    """
    from ddpmi.ledger import upgrade_ledger

    found, made = upgrade_ledger(file)
    show.say(
        f"{file} has schema {made} already." if found == made else f"{file} now has schema {made}, it had {found}."
    )
