"""The options that say what the data is: columns, expressions, rows, counts, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from ddpmi.observations import Observations
    from ddpmi.plan import Plan
    from ddpmi.statements import Dialect, Step, Table

COLUMNS = Group("Columns and rows: what is counted", sort_key=1)

DATA_HELP = (
    "Parquet, CSV, TSV or JSON lines, the last three also .gz or .zst, or a Delta or Iceberg table: "
    "files, folders, globs, or addresses such as s3://bucket/visits/*.parquet."
)

_COUNT_HELP = (
    "Column with a number of units, for data in which the units were counted already; it takes no --unit, --value or "
    "--where. You declare that each unit was counted once, in one row, so it implies --distinct=units and --pairs 1. "
    "Counts below 1 and text that is no whole number are passed over."
)


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
    unit_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --unit: an expression over the columns of one row, in the SQL of DuckDB."""
    feature_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --feature: likewise, for example "lower(site)"."""
    label_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --label: likewise, for example "year(visited)"."""
    value_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --value: likewise, for example "seconds / 60"."""
    where: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Keep the rows for which this expression is true, for example "country = 'NZ'"."""
    encoding: Annotated[str | None, Parameter(metavar="NAME")] = None
    """How the bytes of CSV and JSON lines files are read as text: utf-8 (the default), latin-1, cp1252, utf-16 and so on."""
    count: Annotated[str | None, Parameter(metavar="NAME", help=_COUNT_HELP)] = None
    """Column with a number of units, for data in which the units were counted already."""
    space: Literal["events", "units"] | None = None
    """Count events (the default), or units, each once in its label and in the total; values are then ignored."""

    @property
    def valued(self) -> bool:
        """Whether rows carry a value."""
        return self.value is not None or self.value_sql is not None

    @property
    def need_data(self) -> bool:
        """Whether something is named that only data can answer for."""
        names = (self.unit, self.feature, self.label, self.unit_sql, self.feature_sql, self.label_sql, self.where)
        return self.encoding is not None or any(name is not None for name in names)

    @property
    def counts(self) -> Literal["events", "units"]:
        """What is counted."""
        return self.space or "events"

    def observe(self, data: list[str] | Table, *, labelled: bool = True, **more: Any) -> Observations:
        """Name the data. Reads the schema and no row.

        A label may be missing only where a seed makes it.
        """
        from ddpmi.observations import observe, observe_counts

        roles, more = self.roles(), more | {"encoding": self.encoding}
        if self.count is None:
            found = observe(data, **roles, where=self.where, **more)
            if labelled:
                found.check_labelled()
            return found
        return observe_counts(data, feature=roles["feature"], label=roles["label"], count=self.count, **more)

    def roles(self) -> dict[str, Any]:
        """Return role -> column or expression, and refuse what contradicts itself."""
        from ddpmi.statements import sql

        found: dict[str, Any] = {}
        for role in ("unit", "feature", "label", "value"):
            name, text = getattr(self, role), getattr(self, f"{role}_sql")
            if name is not None and text is not None:
                raise InputError(f"--{role} and --{role}-sql were both given.", hint="name a column or an expression")
            found[role] = name if text is None else sql(text)
        # The library takes an empty name for none: a variable that the shell left empty must not pass as that.
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

    def sql_of(self, plan: Plan, dialect: Dialect) -> list[Step]:
        """Return the steps that a release of these columns runs."""
        merged = any((self.unit_sql, self.feature_sql, self.label_sql))
        return plan.steps(dialect, merged_keys=merged, counted=self.count is not None)
