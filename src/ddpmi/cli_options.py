"""The options of the command line, each written once, and how they become the values of the library.

Numbers that decide privacy stay text until the library reads them as exact decimals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddpmi.cli_columns import ColumnOptions
    from ddpmi.plan import Plan
    from ddpmi.spec import Bounds
    from ddpmi.statements import Table

PRIVACY = Group("Privacy", sort_key=2)
BOUNDS = Group("Bounds: how much one unit may change", sort_key=3)
KEYS = Group("Keys: what can appear", sort_key=4)
READING = Group("Reading", sort_key=5)

_LIST_HELP = (
    "Labels known beforehand, never taken from these data: all of them appear, and rows of others vanish. The file has "
    "one label per line in UTF-8; blanks count, and an empty line is refused. Also one column of CSV, with its head, "
    "or of Parquet."
)
_SHARES = "pairs=0.7,features=0.23,labels=0.06,total=0.01"
_HINTS = "units=1e6,labels=20,pairs_per_unit=40"


def example(*lines: str) -> str:
    r"""Write the end of a command's help.

    >>> example("ddpmi demo")
    'Example:\n\n    ddpmi demo'
    """
    return "Example:\n\n" + "\n".join(f"    {line}" for line in lines)


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Who reads the data."""

    engine: Literal["duckdb", "spark"] | None = None
    """Who reads: duckdb, which is embedded and the default, or spark."""
    master: Annotated[str | None, Parameter(metavar="URL")] = None
    """Where Spark runs: spark://host:7077, yarn, local[4], or sc://host of Spark Connect; all cores here by default."""
    table: Annotated[str | None, Parameter(metavar="NAME")] = None
    """Instead of DATA: a table of Spark's catalog."""
    conf: Annotated[tuple[str, ...], Parameter(metavar="KEY=VALUE", show_default=False)] = ()
    """Setting of the engine: memory_limit, threads or temp_directory, or of Spark: staging, or spark.*; may be repeated."""

    def named(self) -> dict[str, Any]:
        """Return the keywords of `observe`.

        >>> EngineOptions(conf=("threads=2",)).named()
        {'engine': None, 'conf': {'threads': '2'}}
        >>> EngineOptions(engine="spark", master="sc://host").named()
        {'engine': 'spark', 'conf': {'remote': 'sc://host'}}
        """
        for option in ("master", "table"):
            if getattr(self, option) is not None and self.engine != "spark":
                raise InputError(
                    f"--{option} is for Spark, which was not asked for.", hint=f"--engine spark --{option} ..."
                )
        conf = settings_of("--conf", self.conf, "spark.executor.memory=4g" if self.engine == "spark" else "threads=2")
        if self.master is not None:
            place = "remote" if self.master.startswith("sc://") else "master"
            if place in conf:
                raise InputError(f"--master and --conf {place} were both given.", hint=f"leave --conf {place} out")
            conf[place] = self.master
        return {"engine": self.engine, "conf": conf}

    def data(self, paths: list[str] | None) -> list[str] | Table:
        """Return what is to be observed: paths, or the table that stands in for them.

        >>> EngineOptions(engine="spark", table="db.visits").data(None)
        Table(name='db.visits')
        """
        from ddpmi.statements import table

        if paths and self.table is not None:
            raise InputError("DATA and --table were both given.", hint="leave one of them out")
        if self.table is not None:
            return table(self.table)
        if not paths:
            raise InputError(
                "There is no DATA.", hint="name files, or with Spark a table: --engine spark --table db.visits"
            )
        return paths


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions(EngineOptions):
    """How the data is read and what it is called."""

    dataset: Annotated[str, Parameter(metavar="NAME")] = "default"
    """Name under which the ledger counts releases of these data."""

    def named(self) -> dict[str, Any]:
        """Return the keywords of `observe`.

        >>> ReadingOptions(dataset="visits").named()
        {'engine': None, 'conf': {}, 'dataset': 'visits'}
        """
        return EngineOptions.named(self) | {"dataset": self.dataset}


@Parameter(name="*", group=BOUNDS)
@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOptions:
    """How much one unit may change."""

    pairs: Annotated[int | None, Parameter(metavar="K")] = None
    """A unit with up to K (feature, label) pairs counts in full. Choose it by what is publicly known."""
    clip: Annotated[str | None, Parameter(metavar="C")] = None
    """Largest value that one pair may count; needed with --value, unless --space is units."""
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

    def bounds(self, columns: ColumnOptions, *, one_row_per_unit: bool = False, suggested: int | None = None) -> Bounds:
        """Check the bounds; --pairs may be left out where a unit has one row, or where it is suggested."""
        from ddpmi.spec import Bounds

        columns.roles()
        self._check_counted(columns)
        self._check_clip(columns)
        known = 1 if one_row_per_unit or columns.count is not None else suggested
        given = ({} if known is None else {"pairs": known}) | self.given()
        if "pairs" not in given:
            raise InputError(
                "--pairs is missing: how many (feature, label) pairs of one unit count in full.",
                hint="choose it by what is publicly known, not by looking at the data: --pairs 50",
            )
        return Bounds(**given)

    def _check_counted(self, columns: ColumnOptions) -> None:
        for name in ("pairs", "labels") if columns.count is not None else ():
            if getattr(self, name) not in (None, 1):
                raise InputError(
                    f"--count means that each unit was counted once, in one row, got --{name} {getattr(self, name)}.",
                    hint=f"leave --{name} out",
                )

    def _check_clip(self, columns: ColumnOptions) -> None:
        if columns.space == "units":
            if self.clip is not None:
                raise InputError("--space units ignores values, but --clip was given.", hint="leave --clip out")
        elif columns.valued and self.clip is None:
            named = "The value" if columns.value is None else f"The value column {columns.value!r}"
            raise InputError(
                f"{named} needs a clip: the most that one pair may count.",
                hint="choose it by what is publicly known: --clip 100",
            )
        elif self.clip is not None and not columns.valued:
            raise InputError(
                "--clip was given, but no value column is named.", hint="--value NAME, or leave --clip out"
            )


@Parameter(name="*", group=KEYS)
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """Which keys are known beforehand and which pairs are released."""

    public_labels: Annotated[Path | None, Parameter(metavar="FILE", help=_LIST_HELP)] = None
    """Labels known beforehand, never taken from these data."""
    public_features: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """Features known beforehand, likewise. With both lists every pair is released and nothing is thresholded."""
    labels_only: Annotated[tuple[str, ...], Parameter(metavar="NAME", show_default=False)] = ()
    """Rank this label alone, against everybody else, who still count in the totals; may be repeated."""
    grid: Annotated[bool, Parameter(show_default=False)] = False
    """Select features and labels by their totals, those that are not listed, then release every pair of them, zeros too."""
    complete: Annotated[bool, Parameter(show_default=False)] = False
    """Show all other pairs of the features and labels that have a pair above the threshold too, zeros as well; free."""
    marginals: Literal["measured", "other"] = "measured"
    """Measure the totals, or measure what was dropped and add it to the released pairs."""

    def named(self) -> dict[str, Any]:
        """Return the keywords of `Plan`; reads the lists.

        >>> KeyOptions(labels_only=("a",)).named()["labels_only"]
        ('a',)
        """
        from ddpmi.cli_keys import read_keys

        if "" in self.labels_only:
            raise InputError("--labels-only is empty.", hint="--labels-only NAME, or leave it out")
        lists = {"--public-labels": self.public_labels, "--public-features": self.public_features}
        labels, features = (None if file is None else read_keys(file, option) for option, file in lists.items())
        only = self.labels_only or None
        named = {"public_labels": labels, "public_features": features, "labels_only": only}
        return named | {"grid": self.grid, "complete": self.complete, "marginals": self.marginals}


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
    """Parts of the budget for pairs, features, labels and total; the default depends on the noise, plan shows it."""
    thresholds: Literal["pairs", "every"] = "pairs"
    """Which tables have to reach a threshold: pairs, or features and labels once more, as in the paper."""
    paper: Annotated[bool, Parameter(show_default=False)] = False
    """Plan as the paper does, for comparison: --strategy sample --mechanism laplace --thresholds every, and equal shares."""
    suggest: Annotated[str | None, Parameter(metavar="HINTS")] = None
    """Choose what is not named, --pairs, the noise, its shares and what is shown, by public hints alone: units=N and, if known, labels=N
    and pairs_per_unit=N."""
    sample_rate: Annotated[str | None, Parameter(metavar="R")] = None
    """Part of the units that is read, each by a secret coin; the same promise then needs less noise per unit read."""
    selection: Literal["set_union", "sips"] | None = None
    """Release the vocabulary of features first, in one round or in three, and drop all others. Gaussian noise."""
    distinct: Annotated[
        bool | Literal["units"],
        Parameter(requires_equals=True, metavar="[=units]", show_choices=False, show_default=False),
    ] = False
    """You declare distinct rows per (unit, feature, label), or =units: one row per unit. Void if false."""
    row_local: Annotated[bool, Parameter(show_default=False)] = False
    """You declare that each row of a view depends on one unit's records alone. Void if false."""

    def declared(self, columns: ColumnOptions) -> bool | Literal["units"]:
        """Return what is declared about duplicates; counts declare it themselves."""
        if columns.unit_sql is not None and self.distinct:
            raise InputError(
                "The unit comes from an expression, which may merge units that were declared distinct.",
                hint="leave --distinct out",
            )
        if columns.count is None:
            return self.distinct
        if self.distinct is True:
            raise InputError("--count implies --distinct=units, but --distinct was given.", hint="leave --distinct out")
        return "units"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Everything that decides a release before any row is read."""

    columns: ColumnOptions
    privacy: PrivacyOptions
    bounds: BoundOptions
    keys: KeyOptions

    def plan(self) -> Plan:
        """Settle the release."""
        from ddpmi.budget import Budget
        from ddpmi.plan import Plan

        privacy = self.privacy
        distinct = privacy.declared(self.columns)
        options = {
            "budget": Budget(privacy.epsilon, privacy.delta),
            "distinct": distinct,
            "row_local": privacy.row_local,
            "sample_rate": privacy.sample_rate,
            "selection": privacy.selection,
            "space": self.columns.counts,
            **self.keys.named(),
        }
        if privacy.suggest is not None:
            return self._suggested(Plan, options)
        bounds = self.bounds.bounds(self.columns, one_row_per_unit=distinct == "units")
        return self._way(Plan)(bounds=bounds, **options)

    def _suggested(self, plan: type[Plan], options: dict[str, Any]) -> Plan:
        """Plan by public hints; what was named on the command line is settled."""
        from ddpmi.suggestions import suggested_bounds

        if self.privacy.paper:
            raise InputError("--paper leaves nothing to suggest.", hint="leave --suggest out, or --paper")
        hints = hints_of(self.privacy.suggest or "")
        usual, one_row = hints.get("pairs_per_unit", 1), options["distinct"] == "units"
        if one_row and usual != 1:
            raise InputError(
                f"One row per unit is declared, but --suggest says pairs_per_unit={usual:g}.",
                hint="leave pairs_per_unit out, or the declaration",
            )
        suggested = suggested_bounds(usual).pairs
        bounds = self.bounds.bounds(self.columns, one_row_per_unit=one_row, suggested=suggested)
        usually = {field.name: field.default for field in fields(plan)}
        named = (options | self._way(plan).keywords).items()
        return plan.suggest(bounds=bounds, **hints, **{name: value for name, value in named if value != usually[name]})

    def _way(self, plan: type[Plan]) -> partial[Plan]:
        """Choose between the paper's way and the noise, shares and thresholds that were named."""
        named, bounds = self.privacy, self.bounds
        if not named.paper:
            shares = None if named.shares is None else shares_of(named.shares)
            return partial(plan, mechanism=named.mechanism, shares=shares, thresholds=named.thresholds)
        against = {
            "--mechanism": named.mechanism == "gaussian",
            "--shares": named.shares is not None,
            "--strategy": bounds.strategy == "scale",
            "--cap": bounds.cap is not None,
        }
        for option in (option for option, given in against.items() if given):
            raise InputError(
                f"--paper samples heavy units, with Laplace noise and equal shares, but {option} says otherwise.",
                hint=f"leave {option} out, or --paper",
            )
        return partial(plan.paper)


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


def hints_of(text: str) -> dict[str, Any]:
    """Read --suggest.

    >>> hints_of("units=10e6,labels=22")
    {'units': 10000000, 'labels': 22}
    """
    found: dict[str, Any] = {}
    for name, given in settings_of("--suggest", text.split(","), _HINTS).items():
        try:
            number = float(given)
        except ValueError:
            number = math.nan
        if name not in ("units", "labels", "pairs_per_unit") or not math.isfinite(number):
            raise InputError(
                f"--suggest takes units, labels and pairs_per_unit, each a number, got {name}={given}.",
                hint=f"--suggest {_HINTS}",
            )
        found[name] = int(number) if number == int(number) else number
    if "units" not in found:
        raise InputError("--suggest needs units: how many there are, about.", hint=f"--suggest {_HINTS}")
    return found


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
