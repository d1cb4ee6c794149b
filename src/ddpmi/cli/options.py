"""The options that several commands share, as values that check themselves and become plans and observations."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ddpmi.cli.settings import Settings
    from ddpmi.curator.observations import Observations
    from ddpmi.pipeline.bounds import Bounds
    from ddpmi.pipeline.dialects import Dialect
    from ddpmi.pipeline.steps import Step, Table
    from ddpmi.planning.auto import AutoPlan
    from ddpmi.planning.plan import Plan
    from ddpmi.privacy.budget import Budget
    from ddpmi.rankings.ranking import Ranking


COLUMNS = Group("Columns and rows: what is counted", sort_key=1)
PRIVACY = Group("Privacy", sort_key=2)
BOUNDS = Group("Bounds: how much one unit may change", sort_key=3)
KEYS = Group("Keys: what can be released", sort_key=4)
READING = Group("Reading", sort_key=5)

DEFAULT_TOP = 10
"""Rows shown of each label, or features found in each round, if --top is not given."""
DATA_HELP = (
    "Parquet, CSV, TSV or JSON lines, the last three also .gz or .zst, or a Delta or Iceberg table: "
    "files, folders, globs, or addresses such as s3://bucket/visits/*.parquet. With --table or --query a database: "
    "postgresql://ann@host/db, a SQLite file (.sqlite, .db), or a DuckDB file (.duckdb). With --table a sheet of an "
    "Excel workbook (.xlsx)."
)
_TABLE_HELP = (
    "Table or view of the database that DATA names, for example visits or schema.visits; or the sheet of a workbook. "
    "With --engine spark, and instead of DATA: a table of Spark's catalog."
)
_QUERY_HELP = (
    "Instead of --table: a SELECT, which runs read-only. Declare with --row-local that each of its rows depends on the "
    "records of one unit alone."
)
_COUNT_HELP = (
    "Column with a number of units, for data in which the units were counted already. It cannot be combined with --unit, "
    "--value or --where. You declare that each unit was counted once, in one row; this implies --distinct=units and "
    "--pairs 1. Counts below 1, and text that is not a whole number, are skipped."
)
_LIST_HELP = (
    "File with labels that are publicly known, never taken from these data. All of them are released, even if no row has "
    "them. Rows with other labels are dropped. The file is UTF-8 text with one label per line; spaces count, and an empty "
    "line is refused. It may also be one column of CSV, with its head, or of Parquet."
)
_SHARES_HELP = (
    "Parts of the budget for pairs, features, labels and total, for example pairs=0.7,features=0.23,labels=0.06,total=0.01. "
    "The default depends on the noise; ddpmi plan shows it."
)
_SUGGEST_HELP = (
    "Choose what is not given (--pairs, the noise, its shares and which pairs are shown) from public hints alone. units=N "
    "is needed. If known, add labels=N and pairs_per_unit=N. For example units=1e6,labels=20."
)
_CONF_HELP = (
    "Setting of the engine, for example threads=2. DuckDB takes memory_limit, threads and temp_directory. Spark takes "
    "staging and every spark.* setting. PostgreSQL takes statement_timeout, lock_timeout, work_mem, temp_tablespaces, "
    "search_path and stream (yes reads the columns out of the server). May be repeated."
)
_SHARES = "pairs=0.7,features=0.23,labels=0.06,total=0.01"
_HINTS = "units=1e6,labels=20,pairs_per_unit=40"

Data = Annotated[list[str] | None, Parameter(metavar="DATA", help=DATA_HELP)]
NewFolder = Annotated[Path, Parameter(name=["--output", "-o"], metavar="DIR")]
ReleaseFolder = Annotated[Path, Parameter(name="DIR")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """Which rows of a ranking are read."""

    label: Annotated[tuple[str, ...], Parameter(metavar="NAME", show_default=False)] = ()
    """Only this label. May be repeated."""
    clear: Annotated[bool, Parameter(show_default=False)] = False
    """Only rows that are clear of the noise."""

    def labels_of(self, ranking: Ranking) -> Ranking:
        """Return the rows of these labels, also those that are not clear."""
        return ranking.label(*self.label) if self.label else ranking

    def of(self, ranking: Ranking) -> Ranking:
        """Return these rows of a ranking of these labels."""
        return ranking.clear() if self.clear else ranking


@Parameter(name="*", group=COLUMNS)
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """Which column holds what."""

    unit: Annotated[str | None, Parameter(name=["--unit", "--id"], metavar="NAME")] = None
    """Column that identifies the unit, whose privacy is protected. The default is a column called unit, id, user_id or alike."""
    feature: Annotated[str | None, Parameter(metavar="NAME")] = None
    """Column with the features, which are ranked. The default is a column called feature or item."""
    label: Annotated[str | None, Parameter(name=["--label", "--partition"], metavar="NAME")] = None
    """Column with the label, the group of a row. The default is a column called label, partition or group."""
    value: Annotated[str | None, Parameter(name=["--value", "--observation"], metavar="NAME")] = None
    """Column with a number for each row. Without it each (unit, feature, label) counts 1."""
    unit_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --unit: an expression over the columns of one row, in DuckDB's SQL, for example "lower(email)"."""
    feature_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --feature: such an expression, for example "lower(site)"."""
    label_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --label: such an expression, for example "year(visited)"."""
    value_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --value: such an expression, for example "seconds / 60"."""
    where: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Keep only the rows for which this expression is true, for example "country = 'NZ'"."""
    encoding: Annotated[str | None, Parameter(metavar="NAME")] = None
    """Text encoding of CSV and JSON lines files, for example latin-1, cp1252 or utf-16. The default is utf-8."""
    count: Annotated[str | None, Parameter(metavar="NAME", help=_COUNT_HELP)] = None
    """Column with a number of units, for data in which the units were counted already."""
    space: Literal["events", "units"] | None = None
    """Count units, each once for each of its features and labels, or events. The default is events with --value, --marginals
    other and --paper, and units otherwise. --space units ignores values."""

    @property
    def need_data(self) -> bool:
        """Whether an option was given that only makes sense with data."""
        names = (self.unit, self.feature, self.label, self.unit_sql, self.feature_sql, self.label_sql, self.where)
        return self.encoding is not None or any(name is not None for name in names)

    def observe(self, data: list[str] | Table, *, labelled: bool = True, **more: Any) -> Observations:
        """Observe the data: read the schema and no row.

        Args:
            data: Paths, or a table of Spark's catalog.
            labelled: Whether a label is needed. A seed makes its own labels.
            more: Other keywords of `observe`.
        """
        from ddpmi.curator.observations import observe, observe_counts

        roles, more = self.roles(), more | {"encoding": self.encoding}
        if self.count is None:
            found = observe(data, **roles, where=self.where, **more)
            if labelled:
                found.check_labelled()
            return found
        return observe_counts(data, feature=roles["feature"], label=roles["label"], count=self.count, **more)

    def roles(self) -> dict[str, Any]:
        """Return role -> column or expression. Options that contradict each other are refused."""
        from ddpmi.pipeline.steps import sql

        found: dict[str, Any] = {}
        for role in ("unit", "feature", "label", "value"):
            name, text = getattr(self, role), getattr(self, f"{role}_sql")
            if name is not None and text is not None:
                raise InputError(f"--{role} and --{role}-sql were both given.", hint="name a column or an expression")
            found[role] = name if text is None else sql(text)
        # The library reads an empty name as "not given", so a shell variable that is empty by mistake is refused here.
        empty = [role for role, name in (found | {"count": self.count}).items() if name == ""]
        if empty:
            raise InputError(f"--{empty[0]} is empty.", hint=f"--{empty[0]} NAME, or leave it out")
        if self.count is not None:
            given = found | {"where": self.where}
            for role in ("unit", "value", "where"):
                if given[role] is not None:
                    option = f"--{role}" if getattr(self, role) is not None else f"--{role}-sql"
                    raise InputError(f"--count and {option} were both given.", hint=f"leave {option} out")
        return found

    def sql_of(self, plan: Plan, dialect: Dialect, *, enforced: bool = False) -> list[Step]:
        """Return the steps that a release of these columns runs; ``enforced`` as for `Plan.phases`."""
        merged = any((self.unit_sql, self.feature_sql, self.label_sql))
        return plan.steps(dialect, merged_keys=merged, counted=self.count is not None, enforced=enforced)


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Which engine reads the data."""

    engine: Literal["duckdb", "spark", "postgres", "sqlite"] | None = None
    """Engine that reads the data. The default is duckdb, which is embedded; databases are read by their own engines."""
    master: Annotated[str | None, Parameter(metavar="URL")] = None
    """Where Spark runs: spark://host:7077, yarn, local[4], or sc://host for Spark Connect. The default is all local cores."""
    table: Annotated[str | None, Parameter(metavar="NAME", help=_TABLE_HELP)] = None
    """The table, where DATA is a database."""
    query: Annotated[str | None, Parameter(metavar="SQL", help=_QUERY_HELP)] = None
    """Instead of --table: a SELECT."""
    conf: Annotated[tuple[str, ...], Parameter(metavar="KEY=VALUE", show_default=False, help=_CONF_HELP)] = ()
    """Settings of the engine."""

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `observe`.

        >>> EngineOptions(conf=("threads=2",)).keywords()
        {'engine': None, 'conf': {'threads': '2'}}
        >>> EngineOptions(engine="spark", master="sc://host").keywords()
        {'engine': 'spark', 'conf': {'remote': 'sc://host'}}
        """
        if self.master is not None and self.engine != "spark":
            raise InputError("--master is for Spark, which was not asked for.", hint="--engine spark --master ...")
        if self.query is not None and self.engine == "spark":
            raise InputError("--query is for databases, not for Spark.", hint="--table VIEW --row-local")
        conf = settings_of("--conf", self.conf, "spark.executor.memory=4g" if self.engine == "spark" else "threads=2")
        if self.master is not None:
            place = "remote" if self.master.startswith("sc://") else "master"
            if place in conf:
                raise InputError(f"--master and --conf {place} were both given.", hint=f"leave --conf {place} out")
            conf[place] = self.master
        given = {} if self.engine == "spark" else {"table": self.table, "query": self.query}
        named = {name: text for name, text in given.items() if text is not None}
        return {"engine": self.engine, "conf": conf, **named}

    def data(self, paths: list[str] | None, default: Sequence[str] = ()) -> list[str] | Table:
        """Return what is to be observed: the paths, the table of --table, or the files of the settings.

        >>> EngineOptions(engine="spark", table="db.visits").data(None)
        Table(name='db.visits')
        """
        from ddpmi.pipeline.steps import table

        if self.engine == "spark" and self.table is not None:
            if paths:
                raise InputError("DATA and --table were both given.", hint="leave one of them out")
            return table(self.table)
        if not paths and not default:
            raise InputError(
                "There is no DATA.",
                hint="name files, postgresql://host/db with --table visits, or --engine spark --table db.visits",
            )
        found = paths or list(default)
        _check_addresses(found)
        return found


def _check_addresses(paths: list[str]) -> None:
    """Refuse a password in an address: other users of the machine see it in the list of processes."""
    from ddpmi.engines.postgres.sessions import has_password

    if any(has_password(path) for path in paths):
        raise InputError(
            "The address contains a password. Other users of this machine could see it in the list of processes.",
            hint="change it, leave it out, and put it into PGPASSWORD, ~/.pgpass, or a service: postgresql:///?service=NAME",
        )


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions(EngineOptions):
    """How the data is read and what it is called."""

    dataset: Annotated[str, Parameter(metavar="NAME")] = "default"
    """Name of these data in the ledger. Releases of one dataset share one budget."""

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `observe`.

        >>> ReadingOptions(dataset="visits").keywords()
        {'engine': None, 'conf': {}, 'dataset': 'visits'}
        """
        return EngineOptions.keywords(self) | {"dataset": self.dataset}


@Parameter(name="*", group=BOUNDS)
@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOptions:
    """How much one unit may change."""

    pairs: Annotated[int | None, Parameter(metavar="K")] = None
    """A unit with up to K (feature, label) pairs counts in full, for example 50. By default a private look chooses it."""
    clip: Annotated[str | None, Parameter(metavar="C")] = None
    """Largest value that one pair may count, for example 100. Needed with --value, unless --space is units."""
    step: Annotated[str | None, Parameter(metavar="S")] = None
    """Grid on which values are counted, for example 0.01. --clip must be a multiple of it. The default is 1."""
    labels: Annotated[int | None, Parameter(metavar="M")] = None
    """Largest number of labels that one unit may appear in. The default is 1."""
    cap: Annotated[int | None, Parameter(metavar="N")] = None
    """Largest number of pairs that are read for one unit. The default is 10 times K."""
    strategy: Literal["scale", "sample"] | None = None
    """What happens to a unit with more than K pairs: scale (the default) lowers its weight, sample keeps K of its pairs."""

    def given(self) -> dict[str, Any]:
        """Return the bounds that were given.

        >>> BoundOptions(pairs=50, step="0.5").given()
        {'pairs': 50, 'step': '0.5'}
        """
        names = ("pairs", "clip", "step", "labels", "cap", "strategy")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def bounds(self, columns: ColumnOptions, *, one_row_per_unit: bool = False, suggested: int | None = None) -> Bounds:
        """Return the bounds, checked. --pairs may be left out if a unit has one row, or if it is suggested."""
        from ddpmi.pipeline.bounds import Bounds

        self.check(columns)
        default = 1 if one_row_per_unit or columns.count is not None else suggested
        given = ({} if default is None else {"pairs": default}) | self.given()
        if "pairs" not in given:
            raise InputError(
                "--pairs is missing: how many (feature, label) pairs of one unit count in full.",
                hint="choose it by what is publicly known, not by looking at the data: --pairs 50",
            )
        return Bounds(**given)

    def check(self, columns: ColumnOptions) -> None:
        """Refuse columns and bounds that contradict each other."""
        columns.roles()
        self._check_counted(columns)
        self._check_clip(columns)

    def _check_counted(self, columns: ColumnOptions) -> None:
        for name in ("pairs", "labels") if columns.count is not None else ():
            if getattr(self, name) not in (None, 1):
                raise InputError(
                    f"--count means that each unit was counted once, in one row, got --{name} {getattr(self, name)}.",
                    hint=f"leave --{name} out",
                )

    def _check_clip(self, columns: ColumnOptions) -> None:
        from ddpmi.pipeline.bounds import check_clip

        check_clip(self.clip, units=columns.space == "units", value=columns.value or columns.value_sql)


@Parameter(name="*", group=KEYS)
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """Which keys are publicly known, and which pairs are released."""

    public_labels: Annotated[Path | None, Parameter(metavar="FILE", help=_LIST_HELP)] = None
    """File with labels that are publicly known."""
    public_features: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """The same for features. With both lists every pair is released, and there is no threshold."""
    labels_only: Annotated[tuple[str, ...], Parameter(metavar="NAME", show_default=False)] = ()
    """Rank only this label, against all other units, which still count in the totals. May be repeated."""
    grid: Annotated[bool, Parameter(show_default=False)] = False
    """Select features and labels by their totals, unless they are listed. Then release every combination, zeros included."""
    complete: Annotated[bool, Parameter(show_default=False)] = False
    """Also show every other combination of visible features and labels, zeros included, at no extra cost."""
    marginals: Literal["measured", "other"] = "measured"
    """Measure the totals (measured), or measure what was suppressed and add it to the released pairs (other)."""

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `Plan`; reads the lists.

        >>> KeyOptions(labels_only=("a",)).keywords()["labels_only"]
        ('a',)
        """
        from ddpmi.cli.keys import read_keys

        if "" in self.labels_only:
            raise InputError("--labels-only is empty.", hint="--labels-only NAME, or leave it out")
        lists = {"--public-labels": self.public_labels, "--public-features": self.public_features}
        labels, features = (None if file is None else read_keys(file, option) for option, file in lists.items())
        only = self.labels_only or None
        keys = {"public_labels": labels, "public_features": features, "labels_only": only}
        return keys | {"grid": self.grid, "complete": self.complete, "marginals": self.marginals}


@Parameter(name="*", group=PRIVACY)
@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyOptions:
    """What is promised, and how the budget is used."""

    epsilon: Annotated[str | None, Parameter(metavar="E")] = None
    """Privacy loss of this release; it is needed. 1 is a usual choice; a smaller number protects more."""
    delta: Annotated[str | None, Parameter(metavar="D")] = None
    """Probability that the promise fails: well below 1 divided by the number of units. The default is 1e-8."""
    mechanism: Literal["auto", "laplace", "gaussian"] = "auto"
    """Kind of noise. auto takes the one with the lower threshold or, if there is no threshold, with less noise."""
    shares: Annotated[str | None, Parameter(metavar="TABLE=SHARE,...", help=_SHARES_HELP)] = None
    """Parts of the budget for each table."""
    thresholds: Literal["pairs", "every"] = "pairs"
    """Which tables have a threshold: pairs alone, or also features and labels (every), as in the paper."""
    paper: Annotated[bool, Parameter(show_default=False)] = False
    """Plan as in the paper, for comparison: --strategy sample --mechanism laplace --thresholds every, with equal shares."""
    suggest: Annotated[str | None, Parameter(metavar="HINTS", help=_SUGGEST_HELP)] = None
    """Public hints."""
    sample_rate: Annotated[str | None, Parameter(metavar="R")] = None
    """Read each unit with probability R, for example 0.1, chosen in secret. The promise then needs less noise per unit read."""
    selection: Literal["set_union", "sips"] | None = None
    """Release the features first, in one round (set_union) or three (sips), and drop all others. Needs Gaussian noise."""
    distinct: Annotated[
        bool | Literal["units"],
        Parameter(requires_equals=True, metavar="[=units]", show_choices=False, show_default=False),
    ] = False
    """You declare one row per (unit, feature, label), or with =units one row per unit. If false, the promise is void."""
    row_local: Annotated[bool, Parameter(show_default=False)] = False
    """You declare that each row of a view depends on the records of one unit alone. If false, the promise is void."""

    def budget(self) -> Budget:
        """Return the budget. Epsilon is always typed, because it is what a release spends."""
        from ddpmi.planning.plan import DEFAULT_DELTA
        from ddpmi.privacy.budget import Budget

        if self.epsilon is None:
            raise InputError(
                "--epsilon is missing: how much privacy this release may spend.",
                hint="1 is a usual choice, a smaller number protects more: --epsilon 1",
            )
        return Budget(self.epsilon, DEFAULT_DELTA if self.delta is None else self.delta)

    def declared(self, columns: ColumnOptions) -> bool | Literal["units"]:
        """Return what is declared about duplicates; counts declare it themselves."""
        from ddpmi.curator.door import check_distinct

        check_distinct(self.distinct, unit_is_expression=columns.unit_sql is not None)
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

    def with_settings(self, settings: Settings) -> PlanOptions:
        """Fill in what was not given from the file of settings."""
        columns = settings.with_columns(self.columns)
        return replace(
            self,
            columns=columns,
            privacy=settings.with_delta(self.privacy),
            bounds=settings.with_clip(self.bounds, columns),
        )

    def plan(self) -> Plan:
        """Return the plan of the release. Its bounds must be given.

        Raises:
            InputError: --pairs is missing, or options contradict each other.
        """
        from ddpmi.planning.plan import Plan

        distinct, options = self._options()
        if self.privacy.suggest is not None:
            return self._suggested(Plan, options)
        bounds = self.bounds.bounds(self.columns, one_row_per_unit=distinct == "units")
        return self._plan_maker(Plan)(bounds=bounds, **options)

    def plan_or_look(self) -> Plan | AutoPlan:
        """Return the plan of the release, or one whose bounds a look will choose: where --pairs is not given."""
        from ddpmi.planning.plan import Plan

        distinct, options = self._options()
        given = self.bounds.pairs is not None or self.privacy.suggest is not None
        return self.plan() if given or self._needs_pairs(distinct) else self._looking(Plan, options)

    def _options(self) -> tuple[bool | Literal["units"], dict[str, Any]]:
        """Return what is declared about duplicates, and the fields of a plan apart from its bounds and noise."""
        privacy = self.privacy
        distinct = privacy.declared(self.columns)
        options = {
            "budget": privacy.budget(),
            "distinct": distinct,
            "row_local": privacy.row_local,
            "sample_rate": privacy.sample_rate,
            "selection": privacy.selection,
            **({} if self.columns.space is None else {"space": self.columns.space}),
            **self.keys.keywords(),
        }
        return distinct, options

    def _needs_pairs(self, distinct: bool | Literal["units"]) -> bool:  # noqa: FBT001 - as in a plan
        """Return whether nothing is to be looked for, or a look does not go with what was given."""
        bounds, privacy = self.bounds, self.privacy
        one_row = distinct == "units" or self.columns.count is not None
        decided = privacy.paper or bounds.cap is not None or bounds.strategy is not None
        return one_row or decided or privacy.selection is not None or privacy.sample_rate is not None

    def _looking(self, plan: type[Plan], options: dict[str, Any]) -> AutoPlan:
        """Return a plan whose bounds a look will choose. Options that were given are kept."""
        from ddpmi.planning.auto import AutoPlan

        self.bounds.check(self.columns)
        defaults = {field.name: field.default for field in fields(plan)}
        chosen = (options | self._plan_maker(plan).keywords).items()
        given = {name: value for name, value in chosen if name != "budget" and value != defaults[name]}
        bounds = {name: value for name, value in self.bounds.given().items() if name in ("labels", "clip", "step")}
        return AutoPlan(budget=options["budget"], **bounds, options=given)

    @property
    def pairs_per_unit(self) -> float | None:
        """How many pairs a usual unit has, where --suggest says it."""
        from ddpmi.planning.suggest import SUGGESTING, read_hints

        if self.privacy.suggest is None:
            return None
        return read_hints(self.privacy.suggest, SUGGESTING).get("pairs_per_unit")

    def _suggested(self, plan: type[Plan], options: dict[str, Any]) -> Plan:
        """Return the plan that public hints suggest. Options that were given are kept."""
        from ddpmi.planning.suggest import SUGGESTING, read_hints, suggested_bounds

        if self.privacy.paper:
            raise InputError("--paper leaves nothing to suggest.", hint="leave --suggest out, or --paper")
        hints = read_hints(self.privacy.suggest or "", SUGGESTING)
        per_unit, one_row = hints.get("pairs_per_unit", 1), options["distinct"] == "units"
        if one_row and per_unit != 1:
            raise InputError(
                f"One row per unit is declared, but --suggest says pairs_per_unit={per_unit:g}.",
                hint="leave pairs_per_unit out, or the declaration",
            )
        suggested = suggested_bounds(per_unit).pairs
        bounds = self.bounds.bounds(self.columns, one_row_per_unit=one_row, suggested=suggested)
        defaults = {field.name: field.default for field in fields(plan)}
        chosen = (options | self._plan_maker(plan).keywords).items()
        given = {name: value for name, value in chosen if value != defaults[name]}
        return plan.suggest(bounds=bounds, **hints, **given)

    def _plan_maker(self, plan: type[Plan]) -> partial[Plan]:
        """Return what makes the plan: that of the paper, or one with the given noise, shares and thresholds."""
        privacy, bounds = self.privacy, self.bounds
        if not privacy.paper:
            shares = None if privacy.shares is None else shares_of(privacy.shares)
            return partial(plan, mechanism=privacy.mechanism, shares=shares, thresholds=privacy.thresholds)
        contradicting = {
            "--mechanism": privacy.mechanism == "gaussian",
            "--shares": privacy.shares is not None,
            "--strategy": bounds.strategy == "scale",
            "--cap": bounds.cap is not None,
        }
        for option in (option for option, given in contradicting.items() if given):
            raise InputError(
                f"--paper samples heavy units, with Laplace noise and equal shares, but {option} asks for something else.",
                hint=f"leave {option} out, or --paper",
            )
        return partial(plan.paper)


WHO = Annotated[
    str, Parameter(metavar="NAME", show_default=False, help="Who asks for this release. The ledger keeps it.")
]
WHY = Annotated[
    str, Parameter(metavar="TEXT", show_default=False, help="What the release is for. The ledger keeps it.")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """Which ledger is charged and where the release goes."""

    ledger: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """Ledger that is charged for the release. The default is that of ddpmi.toml, or the only *.ledger in this folder."""
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], metavar="DIR")] = None
    """Folder to write. It must not exist. The default is a new one, named after the data."""
    release_id: Annotated[str | None, Parameter(metavar="ID")] = None
    """Name for retries, for example visits-2026. An id that was charged before returns its release and draws no new noise."""
    who: WHO = ""
    """Who asks for this release."""
    why: WHY = ""
    """What the release is for."""
    expect_head: Annotated[str | None, Parameter(metavar="HEAD")] = None
    """Line that ddpmi ledger head printed before. A ledger that does not contain it, such as an old copy, is refused."""

    def destination(self, data: list[str] | Table, command: str) -> Destination:
        """Return ledger and folder, also where they were not given.

        Args:
            data: What is released: a folder without a name is named after it.
            command: The command, for the hint.
        """
        from ddpmi.cli import paths

        output = paths.new_release_folder(data, self.release_id) if self.output is None else self.output
        given = {name: getattr(self, name) for name in ("release_id", "who", "why", "expect_head")}
        return Destination(ledger=paths.find_ledger(self.ledger, command), output=output, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Which ledger is charged and where a release goes."""

    ledger: Path
    output: Path
    release_id: str | None
    who: str
    why: str
    expect_head: str | None


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
