"""``ddpmi plan``: what a release would do and cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ddpmi.cli.options import (
    DATA_HELP,
    BoundOptions,
    ColumnOptions,
    EngineOptions,
    KeyOptions,
    PlanOptions,
    PrivacyOptions,
)
from ddpmi.cli.output import Progress, example, put
from ddpmi.cli.settings import read_settings
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.curator.observations import Observations
    from ddpmi.pipeline.dialects import Dialect
    from ddpmi.planning.plan import Plan

_SIMULATE_HELP = (
    "Instead print what to expect for epsilons from 0.1 to 8, from public hints alone. units=N is needed. If known, add "
    "labels=N, features=N, pairs_per_unit=N, labels_per_unit=N, zipf=S (the k-th feature is as common as k to the power of "
    "-S) and lean=P (the part of each feature's pairs that has its own label). For example units=1e6,labels=20."
)
_DIALECT_HELP = (
    "Write the SQL for duckdb, spark, postgres, sqlite, bigquery, databricks, snowflake or trino. The default is that of the "
    "engine that reads DATA. ddpmi runs the first four; the text of the others is parsed by tests, and was never run there."
)


def plan(
    data: Annotated[
        list[str] | None,
        Parameter(metavar="DATA", help=f"{DATA_HELP} At most the schema is read, to check the columns."),
    ] = None,
    /,
    *,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008 - a frozen value
    privacy: PrivacyOptions = PrivacyOptions(),  # noqa: B008
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    keys: KeyOptions = KeyOptions(),  # noqa: B008
    reading: EngineOptions = EngineOptions(),  # noqa: B008
    simulate: Annotated[str | None, Parameter(metavar="HINTS", help=_SIMULATE_HELP)] = None,
    dialect: Annotated[str | None, Parameter(metavar="NAME", help=_DIALECT_HELP)] = None,
    sql: Annotated[bool, Parameter(show_default=False)] = False,
    format: Literal["text", "json"] = "text",  # noqa: A002 - the option's name
) -> None:
    """Print what a release would do and cost: shares, noise and thresholds. Free.

    Args:
        data: The rows.
        columns: Which column holds what.
        privacy: What is promised.
        bounds: How much one unit may change.
        keys: Which keys can be released.
        reading: Which engine reads the data.
        simulate: Public hints.
        dialect: The dialect of the SQL.
        sql: Add the SQL that will run; with --dialect, print it alone.
        format: Print text for people, or JSON.
    """
    from ddpmi.pipeline.steps import render
    from ddpmi.planning.auto import AutoPlan
    from ddpmi.planning.explain import explain, plan_numbers

    settings = read_settings()
    options = PlanOptions(columns=columns, privacy=privacy, bounds=bounds, keys=keys).with_settings(settings)
    chosen = options.plan() if simulate is not None else options.plan_or_look()
    usual = options.pairs_per_unit
    keywords = reading.keywords()
    obs = None
    if data or settings.files or reading.table is not None or reading.query is not None:
        obs = options.columns.observe(reading.data(data, settings.files), **keywords)
    elif columns.need_data:
        raise InputError(
            "Columns or rows are named, but there is no DATA to check them in.",
            hint="ddpmi plan DATA --unit NAME ..., or leave them out",
        )
    encoding = "" if obs is None else obs.source.encoding
    spoken = _dialect(dialect, reading, obs)
    enforced = obs is not None and obs.enforced
    if simulate is not None:
        _put_simulation(options.plan(), simulate, json_=format == "json")
    elif sql and dialect is not None and not isinstance(chosen, AutoPlan):
        put(f"{_head(spoken)}{render(options.columns.sql_of(chosen, spoken, enforced=enforced))}\n")
    elif format == "json":
        numbers = chosen.numbers() if isinstance(chosen, AutoPlan) else plan_numbers(chosen, pairs_per_unit=usual)
        put(json.dumps(numbers | ({"encoding": encoding} if encoding else {}), indent=2) + "\n")
    elif isinstance(chosen, AutoPlan):
        put(chosen.explain(spoken, encoding=encoding, sql=sql))
    else:
        relies_on = [] if obs is None else obs.relies_on
        steps = options.columns.sql_of(chosen, spoken, enforced=enforced) if sql else None
        put(explain(chosen, spoken, steps=steps, encoding=encoding, pairs_per_unit=usual, data_relies_on=relies_on))


def _dialect(name: str | None, reading: EngineOptions, obs: Observations | None) -> Dialect:
    """Return the dialect of --dialect, or that of the data, or that of the engine."""
    from ddpmi.pipeline.dialects import DIALECTS, DUCKDB, dialect_named

    if name is not None:
        return dialect_named(name)
    return DIALECTS.get(reading.engine or "", DUCKDB) if obs is None else obs.source.dialect


def _head(dialect: Dialect) -> str:
    """Return what a reader of the text has to know, as comments."""
    lines = [
        "-- From the rows (unit, feature, label[, value]) to the exact sums. They are not private before noise is added."
    ]
    if not dialect.is_run:
        lines.append(f"-- ddpmi does not run this on {dialect.name}: tests parse the text, and none has run it there.")
    if "secret" in dialect.salt:
        lines.append(
            "-- The table secret has one row with the salt: 64 random hexadecimal digits, new for each release."
        )
    return "\n".join(lines) + "\n\n"


def _put_simulation(plan: Plan, hints: str, *, json_: bool) -> None:
    """Print what to expect of a plan. No data is read."""
    from ddpmi.applications.simulation import simulate

    with Progress() as progress:
        progress("simulate", None)
        found = simulate(plan, hints)
    put(json.dumps(found.to_dict(), indent=2) + "\n" if json_ else found.to_text())


def register(app: App) -> None:
    """Add the command."""
    app.command(
        plan,
        help_epilogue=example(
            "ddpmi plan visits.parquet --unit user_id --feature site --label country \\",
            "    --epsilon 1 --delta 1e-7 --pairs 50",
            "ddpmi plan visits.parquet --unit user_id --feature site \\",
            '    --label-sql "year(visited)" --where "country = \'NZ\'" \\',
            "    --public-labels years.txt --grid --epsilon 1 --delta 1e-7 --pairs 50",
            "ddpmi plan --dialect trino --sql --epsilon 1 --delta 1e-7 --pairs 50",
            "ddpmi plan --suggest units=10e6,labels=22 --epsilon 0.5 --delta 1e-8 --distinct=units",
            "ddpmi plan --simulate units=10e6,zipf=1.1,labels=22 --epsilon 1 --delta 1e-7 --pairs 1",
        ),
    )
