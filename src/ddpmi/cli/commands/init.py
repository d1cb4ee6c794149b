"""``ddpmi init``: name the data, its columns and a ledger once, in ``ddpmi.toml``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.options import DATA_HELP
from ddpmi.cli.output import example, say
from ddpmi.cli.settings import ROLES, SETTINGS, Settings
from ddpmi.curator.columns import KNOWN_NAMES, did_you_mean, listing
from ddpmi.errors import InputError, SchemaError
from ddpmi.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cyclopts import App

    from ddpmi.ledger.ledger import Ledger

_QUESTIONS = {
    "unit": "Which column names the one whose privacy is protected?",
    "feature": "Which column holds the features, which are ranked?",
    "label": "Which column holds the label, the group of a row?",
    "value": "Which column holds a number for each row? Leave it empty to count units.",
    "clip": "What is the largest value that one pair may count? Choose it from public knowledge.",
    "epsilon": "How much may all releases of these people cost together (epsilon)?",
}
EPSILON, DELTA = "4", "1e-6"
"""The limit of a new ledger that is offered."""


def init(
    data: Annotated[list[str], Parameter(metavar="DATA", help=f"{DATA_HELP} Only the schema is read.")],
    /,
    *,
    unit: Annotated[str | None, Parameter(name=["--unit", "--id"], metavar="NAME")] = None,
    feature: Annotated[str | None, Parameter(metavar="NAME")] = None,
    label: Annotated[str | None, Parameter(name=["--label", "--partition"], metavar="NAME")] = None,
    value: Annotated[str | None, Parameter(metavar="NAME")] = None,
    clip: Annotated[str | None, Parameter(metavar="C")] = None,
    epsilon: Annotated[str | None, Parameter(metavar="E")] = None,
    delta: Annotated[str, Parameter(metavar="D")] = DELTA,
    ledger: Annotated[Path | None, Parameter(metavar="FILE")] = None,
) -> None:
    """Write ddpmi.toml and a ledger, so that run, plan, release and rank need neither columns nor ledger.

    It asks for what is not given. Without a terminal nothing is asked: what is needed must be given.

    Args:
        data: The rows.
        unit: Column that identifies the unit, whose privacy is protected.
        feature: Column with the features, which are ranked.
        label: Column with the label, the group of a row.
        value: Column with a number for each row. Without it units are counted.
        clip: Largest value that one pair may count. Needed with --value.
        epsilon: Limit of the ledger: largest privacy loss of all releases together.
        delta: Limit of the ledger: largest probability that the promise fails, for all releases together.
        ledger: Ledger to create, or to use if it exists. The default is the only *.ledger of this folder, or one
            named after the data.
    """
    from ddpmi.curator.observations import observe
    from ddpmi.engines import open_source
    from ddpmi.privacy.budget import Budget

    file = Path(SETTINGS)
    paths.check_new_file(file)
    asker = _Asker(list(open_source(data, engine=None, settings={}, encoding=None).schema()))
    columns = asker.columns({"unit": unit, "feature": feature, "label": label, "value": value})
    observe(data, **columns).check_labelled()
    if "value" in columns and clip is None:
        clip = asker.ask("clip", needed="--clip 100")
    place = _place(data) if ledger is None else ledger
    used = paths.open_ledger(place) if place.exists() else None
    if used is not None:
        say(f"Using the ledger {printable(str(place))} that is there: a second one would be a second budget.")
    else:
        paths.check_new_file(place)
        limit = Budget(epsilon or asker.ask("epsilon", needed=f"--epsilon {EPSILON}", offered=EPSILON), delta)
        used = _made(place, limit)
    Settings(files=tuple(data), columns=columns, clip=clip, ledger=str(place)).save(file)
    say(f"Wrote {SETTINGS}. Edit it when something changes.")
    say(f"Type this next, and choose how much of the budget it spends:\n  ddpmi run --epsilon {_first(used)}")


def _place(data: list[str]) -> Path:
    """Return the ledger to use: the only one of this folder, because a second one would be a second budget."""
    found = paths.ledgers_here()
    return Path(found[0] if len(found) == 1 else f"{paths.name_of(data)}.ledger")


def _made(place: Path, limit: object) -> Ledger:
    from ddpmi.ledger.ledger import Ledger

    made = Ledger(place, limit=limit)  # type: ignore[arg-type]
    say(
        f"Created {printable(str(place))} with the limit epsilon={float(made.limit.epsilon):g}, delta={float(made.limit.delta):g}."
    )
    return made


def _first(ledger: Ledger) -> str:
    """Return an epsilon to begin with: 1, or what the ledger has at most."""
    return f"{min(1.0, float(ledger.limit.epsilon)):g}"


class _Asker:
    """Asks on the terminal for what was not given."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.interactive = sys.stdin is not None and sys.stdin.isatty()

    def columns(self, given: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the column of each role."""
        if self.interactive and None in given.values():
            say(f"The data has the columns {', '.join(map(printable, self.names))}.")
        found: dict[str, Any] = {}
        for role in ROLES:
            name = given[role] or self._column(role, given[role], found)
            if name:
                found[role] = name
        return found

    def _column(self, role: str, given: str | None, taken: Mapping[str, str]) -> str:
        if given == "":
            raise InputError(f"--{role} is empty.", hint=f"--{role} NAME, or leave it out")
        known = [name for name in KNOWN_NAMES.get(role, ()) if name in self.names and name not in taken.values()]
        offered = known[0] if len(known) == 1 else ""
        if role == "value" and not self.interactive:
            return ""
        while True:
            name = self.ask(role, needed=f"--{role} NAME", offered=offered, empty=role == "value")
            if not name or not self.names or name in self.names:
                return name
            say(f"There is no column {printable(name)!r}.{did_you_mean(name, self.names)}")

    def ask(self, what: str, *, needed: str, offered: str = "", empty: bool = False) -> str:
        """Ask one question, until it has an answer.

        Args:
            what: The question's name.
            needed: What to type in place of an answer where nobody can be asked.
            offered: The answer if only Enter is typed.
            empty: Whether there may be no answer.
        """
        if not self.interactive:
            if offered and what != "epsilon":
                return offered
            raise SchemaError(
                f"--{what} is missing, and there is no terminal to ask on; the data has {listing(self.names)}.",
                hint=needed,
            )
        while True:
            sys.stderr.write(f"{_QUESTIONS[what]}{f' [{printable(offered)}]' if offered else ''} ")
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise InputError("The answers ended too early, and nothing was written.", hint=needed)
            if (answer := line.strip() or offered) or empty:
                return answer


def register(app: App) -> None:
    """Add the command."""
    app.command(
        init,
        help_epilogue=example(
            "ddpmi init visits.csv",
            "ddpmi init visits.csv --unit user_id --feature site --label country --epsilon 4",
        ),
    )
