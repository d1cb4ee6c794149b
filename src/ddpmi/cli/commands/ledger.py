"""``ddpmi ledger``: create, show, plan, verify, export and upgrade the record of what was spent, and print its head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ddpmi.cli import paths
from ddpmi.cli.output import example, put, say, status_table
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from ddpmi.ledger.ledger import Ledger

File = Annotated[Path, Parameter(metavar="FILE")]
ExpectHead = Annotated[str | None, Parameter(metavar="HEAD")]

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
    datasets: Annotated[str | None, Parameter(metavar="NAMES")] = None,
    max_epsilon: Annotated[str | None, Parameter(metavar="E")] = None,
) -> None:
    """Create a ledger with a limit that holds for each dataset in it and never changes.

    Args:
        file: The new file.
        epsilon: Largest privacy loss of all releases of one dataset together.
        delta: Largest probability that the promise fails, for all releases of one dataset together.
        datasets: The only datasets it accepts, with commas between them. The default accepts every name, each with a
            budget of its own.
        max_epsilon: Largest epsilon of one release.
    """
    from ddpmi.ledger.ledger import Ledger, listed
    from ddpmi.privacy.budget import Budget

    limit = Budget(epsilon, delta)
    if file.exists() or file.is_symlink():
        raise InputError(
            f"{file} exists already.",
            hint=f"choose another name, or use it as it is: ddpmi ledger show {file}",
        )
    paths.check_new_file(file)
    names = None if datasets is None else [name.strip() for name in datasets.split(",")]
    made = Ledger(file, limit=limit, datasets=names, max_epsilon=max_epsilon)
    whose = "each dataset" if made.terms.datasets is None else f"each of {listed(made.terms.datasets)}"
    budget = f"epsilon={float(made.limit.epsilon):g}, delta={float(made.limit.delta):g}"
    say(f"Created {file} with the limit {budget} for {whose}.")


@ledger.command(name="show", help_epilogue=example("ddpmi ledger show visits.ledger --dataset visits --format json"))
def ledger_show(
    file: File,
    /,
    *,
    dataset: Annotated[str | None, Parameter(metavar="NAME")] = None,
    format: Literal["table", "json"] = "table",  # noqa: A002 - the option's name
    expect_head: ExpectHead = None,
) -> None:
    """Show what a dataset has spent and has left.

    Args:
        file: The ledger.
        dataset: Dataset to show. The default is the only one in the ledger, or the one called default.
        format: Print a table for people, or JSON.
        expect_head: Refuse a ledger that does not contain this head.
    """
    from ddpmi.ledger.entries import HALF_OF_DELTA

    opened = paths.open_ledger(file, expect_head=expect_head)
    known = opened.datasets()
    if dataset is None:
        dataset = known[0] if len(known) == 1 else _usual(opened)
        others = [name for name in known if name != dataset]
        if others:
            listed = ", ".join(map(repr, others))
            say(f"This is dataset {dataset!r}; the ledger also knows {listed}: --dataset NAME")
    status = opened.status(dataset)
    put(json.dumps(status.to_dict(), indent=2) + "\n" if format == "json" else status_table(status))
    if 0 < status.limit.delta / 2 <= status.spent.delta:
        say(HALF_OF_DELTA)


def _usual(opened: Ledger) -> str:
    """Return the dataset that is meant where none is named."""
    names = opened.terms.datasets
    return "default" if names is None or "default" in names else names[0]


@ledger.command(name="plan", help_epilogue=example("ddpmi ledger plan visits.ledger --releases 52"))
def ledger_plan(
    file: File,
    /,
    *,
    releases: Annotated[int, Parameter(metavar="N")],
    dataset: Annotated[str | None, Parameter(metavar="NAME")] = None,
    mechanism: Literal["laplace", "gaussian"] | None = None,
    delta: Annotated[str | None, Parameter(metavar="D")] = None,
    format: Literal["table", "json"] = "table",  # noqa: A002 - the option's name
) -> None:
    """Say how large each of several further releases may be, so that all of them fit. Charges nothing.

    Args:
        file: The ledger.
        releases: How many releases are planned.
        dataset: Their dataset. The default is the only one in the ledger, or the one called default.
        mechanism: Kind of noise. The default shows both.
        delta: Delta of each release. The default is an equal part of what is left.
        format: Print text for people, or JSON.
    """
    from ddpmi.ledger.entries import rounded_down

    opened = paths.open_ledger(file)
    known = opened.datasets()
    name = dataset or (known[0] if len(known) == 1 else _usual(opened))
    found = opened.plan(releases, dataset=name, delta=delta)
    kinds = {"gaussian": found.gaussian, "laplace": found.laplace}
    kinds = {kind: epsilon for kind, epsilon in kinds.items() if mechanism in (None, kind)}
    if format == "json":
        printed = found.to_dict()
        printed["epsilon"] = {kind: printed["epsilon"][kind] for kind in kinds}
        put(json.dumps(printed, indent=2) + "\n")
        return
    lines = [f"Each of {releases} further releases of dataset {name!r} may have delta={rounded_down(found.delta)} and"]
    for kind, epsilon in kinds.items():
        most = f"epsilon of at most {rounded_down(epsilon)}" if epsilon else "no epsilon: none fits"
        lines.append(f"  with {kind.title()} noise {most}")
    put("\n".join(lines) + "\n")


@ledger.command(name="head", help_epilogue=example("ddpmi ledger head visits.ledger"))
def ledger_head(file: File, /) -> None:
    """Print one short line that names the newest event of a ledger.

    Keep it elsewhere. With --expect-head, or as expect_head under [ledger] in ddpmi.toml, a ledger without that event is
    refused: it is an older copy.

    Args:
        file: The ledger.
    """
    put(f"{paths.open_ledger(file).head()}\n")


@ledger.command(name="verify", help_epilogue=example("ddpmi ledger verify visits.ledger"))
def ledger_verify(file: File, /, *, expect_head: ExpectHead = None) -> None:
    """Check every page, every hash and every sum of a ledger.

    Args:
        file: The ledger.
        expect_head: Refuse a ledger that does not contain this head.
    """
    paths.open_ledger(file, expect_head=expect_head).verify()
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
