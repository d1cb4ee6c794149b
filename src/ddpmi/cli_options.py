"""The options of the command line, each written once, and how they become the values of the library.

Numbers that decide privacy stay text until the library reads them as exact decimals.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddpmi.observations import Observations
    from ddpmi.plan import Plan
    from ddpmi.spec import Bounds

COLUMNS = Group("Columns", sort_key=1)
PRIVACY = Group("Privacy", sort_key=2)
BOUNDS = Group("Bounds: how much one unit may change", sort_key=3)
READING = Group("Reading", sort_key=4)

_SHARES = "pairs=0.7,features=0.23,labels=0.06,total=0.01"


def example(*lines: str) -> str:
    r"""Write the end of a command's help.

    >>> example("ddpmi demo")
    'Example:\n\n    ddpmi demo'
    """
    return "Example:\n\n" + "\n".join(f"    {line}" for line in lines)


@Parameter(name="*", group=COLUMNS)
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """Which column holds what."""

    unit: Annotated[str | None, Parameter(name=["--unit", "--id"], metavar="NAME")] = None
    """Column of the one whose privacy is protected; columns called unit or id are recognised."""
    feature: Annotated[str | None, Parameter(metavar="NAME")] = None
    """Column of what is ranked; a column called feature is recognised."""
    label: Annotated[str | None, Parameter(name=["--label", "--partition"], metavar="NAME")] = None
    """Column of the group; columns called label or partition are recognised."""
    value: Annotated[str | None, Parameter(name=["--value", "--observation"], metavar="NAME")] = None
    """Column with a number per row; without it each (unit, feature, label) counts 1."""

    def observe(self, data: list[str], **more: Any) -> Observations:
        """Name the data. Reads the schema and no row."""
        from ddpmi.observations import observe

        return observe(data, unit=self.unit, feature=self.feature, label=self.label, value=self.value, **more)


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """How the data is read and what it is called."""

    dataset: Annotated[str, Parameter(metavar="NAME")] = "default"
    """Name under which the ledger counts releases of these data."""
    conf: Annotated[tuple[str, ...], Parameter(metavar="KEY=VALUE", show_default=False)] = ()
    """Setting of the engine: memory_limit, threads or temp_directory; may be repeated."""

    def named(self) -> dict[str, Any]:
        """Return the keywords of `observe`.

        >>> ReadingOptions(conf=("threads=2",)).named()
        {'dataset': 'default', 'conf': {'threads': '2'}}
        """
        return {"dataset": self.dataset, "conf": settings_of("--conf", self.conf, "threads=2")}


@Parameter(name="*", group=BOUNDS)
@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOptions:
    """How much one unit may change."""

    pairs: Annotated[int | None, Parameter(metavar="K")] = None
    """A unit with up to K (feature, label) pairs counts in full. Choose it by what is publicly known."""
    clip: Annotated[str | None, Parameter(metavar="C")] = None
    """Largest value that one pair may count; needed with --value."""
    step: Annotated[str | None, Parameter(metavar="S")] = None
    """Grid on which values are counted; --clip is a multiple of it. The default is 1."""
    labels: Annotated[int | None, Parameter(metavar="M")] = None
    """Labels that one unit may appear in. The default is 1."""
    cap: Annotated[int | None, Parameter(metavar="N")] = None
    """Most pairs that are read of one unit. The default is 10 K."""
    strategy: Literal["scale", "sample"] | None = None
    """What happens to a unit above K: scale (the default) lowers its weight, sample keeps K pairs of it."""

    def given(self) -> dict[str, Any]:
        """Return the bounds that were named.

        >>> BoundOptions(pairs=50, step="0.5").given()
        {'pairs': 50, 'step': '0.5'}
        """
        names = ("pairs", "clip", "step", "labels", "cap", "strategy")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def bounds(self, *, one_row_per_unit: bool = False) -> Bounds:
        """Check the bounds; --pairs may be left out where a unit has one row."""
        from ddpmi.spec import Bounds

        given = ({"pairs": 1} if one_row_per_unit else {}) | self.given()
        if "pairs" not in given:
            raise InputError(
                "--pairs is missing: how many (feature, label) pairs of one unit count in full.",
                hint="choose it by what is publicly known, not by looking at the data: --pairs 50",
            )
        return Bounds(**given)


@Parameter(name="*", group=PRIVACY)
@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyOptions:
    """What is promised and how it is paid."""

    epsilon: Annotated[str, Parameter(metavar="E")]
    """Privacy loss of this release; 1 is a usual choice, smaller protects more."""
    delta: Annotated[str, Parameter(metavar="D")]
    """Probability that the promise fails; well below one over the number of units, for example 1e-7."""
    mechanism: Literal["auto", "laplace", "gaussian"] = "auto"
    """The noise; auto takes the one that shows more."""
    shares: Annotated[str | None, Parameter(metavar="TABLE=SHARE,...")] = None
    """Parts of the budget. The default is pairs=0.7,features=0.23,labels=0.06,total=0.01."""
    distinct: Annotated[
        bool | Literal["units"],
        Parameter(requires_equals=True, metavar="[=units]", show_choices=False, show_default=False),
    ] = False
    """You declare distinct rows per (unit, feature, label), or =units: one row per unit. Void if false."""

    def plan(self, bounds: BoundOptions, columns: ColumnOptions) -> Plan:
        """Settle the release before any row is read."""
        from ddpmi.budget import Budget
        from ddpmi.plan import DEFAULT_SHARES, Plan

        if columns.value is not None and bounds.clip is None:
            raise InputError(
                f"The value column {columns.value!r} needs a clip: the most that one pair may count.",
                hint="choose it by what is publicly known: --clip 100",
            )
        if columns.value is None and bounds.clip is not None:
            raise InputError(
                "--clip was given, but no value column is named.", hint="--value NAME, or leave --clip out"
            )
        shares = DEFAULT_SHARES if self.shares is None else shares_of(self.shares)
        settled = bounds.bounds(one_row_per_unit=self.distinct == "units")
        budget = Budget(self.epsilon, self.delta)
        return Plan(budget=budget, bounds=settled, mechanism=self.mechanism, shares=shares, distinct=self.distinct)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """Who pays and where the release goes."""

    ledger: Annotated[Path, Parameter(metavar="FILE")]
    """Ledger that pays for the release; made by ddpmi ledger create."""
    output: Annotated[Path, Parameter(name=["--output", "-o"], metavar="DIR")]
    """Folder to write; it must not exist."""
    release_id: Annotated[str | None, Parameter(metavar="ID")] = None
    """Name for retries: an id that was charged before returns its folder and never draws noise again."""


def shares_of(text: str) -> dict[str, str]:
    """Read --shares.

    >>> shares_of("pairs=0.7,features=0.3")
    {'pairs': '0.7', 'features': '0.3'}
    """
    return settings_of("--shares", text.split(","), _SHARES)


def settings_of(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    """Read KEY=VALUE, each key once.

    >>> settings_of("--conf", ["threads=2"], "threads=2")
    {'threads': '2'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, _, value = (part.strip() for part in text.partition("="))
        if not (key and value):
            raise InputError(f"{option} takes KEY=VALUE, got {text!r}.", hint=f"{option} {example}")
        if key in found:
            raise InputError(f"{option} names {key!r} twice.", hint=f"{option} {example}")
        found[key] = value
    return found
