"""Adopt a frame, path or relation and rename its columns to unit, feature, label and value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from ddpmi.errors import InputError, SchemaError
from ddpmi.spec import Columns, find_columns
from ddpmi.statements import Expression, Step, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddpmi.engines import Engine, Kind, Source
    from ddpmi.engines.duckdb import DuckDBSource

    Schema = Mapping[str, tuple[Kind, str]]
    Role = str | Expression | None

_KEY_KINDS = ("text", "untyped", "integer", "boolean", "date")
_VALUE_KINDS = ("number", "integer", "boolean", "untyped")
_COUNT_KINDS = ("integer", "untyped")
#: Sums of counts are clamped here, so no single count needs to be larger.
_LARGEST_COUNT = 2**62
#: Whole numbers in text are read as doubles, which hold each one up to here.
_LARGEST_WHOLE = 2**53
_COUNTED_ONCE = "The owner declares that each unit was counted once, in one row."


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Data that has been named and checked, but not read."""

    source: Source = field(repr=False)
    columns: Columns
    schema: Schema
    """Column or expression -> (kind, type) of the roles in use."""
    dataset: str = "default"
    """Whose budget a release of these data spends."""
    where: str | None = None
    """Keeps the rows for which this expression is true. Never shown."""
    reads: tuple[str, ...] = ()
    """The source's columns that are read."""
    counted: bool = False
    """Whether rows are counts of units instead of units; then value is the count and there is no unit."""

    def __repr__(self) -> str:
        listed = ", ".join(f"{role}={name!r} {self.schema[name][1]}" for role, name in self.columns.named().items())
        kept = ", where=..." if self.where is not None else ""
        return f"Observations({listed}; dataset={self.dataset!r}, engine={self.source.engine!r}{kept})"

    @property
    def merges_keys(self) -> bool:
        """Whether rows that differ in the source may have equal keys here, because a key is an expression."""
        return bool(self.columns.expressions - {"value"})

    @property
    def unit_is_expression(self) -> bool:
        """Whether the unit is an expression, so that nothing is known about rows per unit."""
        return "unit" in self.columns.expressions

    @property
    def relies_on(self) -> list[str]:
        """What the guarantee takes on the owner's word about these data."""
        return [_COUNTED_ONCE] if self.counted else []

    @property
    def columns_digest(self) -> str:
        """A hash of the mapping to the four columns; a release id stands for one mapping."""
        mapping: dict[str, Any] = {"columns": self.columns.named(), "dataset": self.dataset}
        if self.columns.expressions:
            mapping["expressions"] = sorted(self.columns.expressions)
        if self.where is not None:
            mapping["where"] = self.where
        if self.counted:
            mapping["counted"] = True
        return hashlib.sha256(json.dumps(mapping, sort_keys=True).encode()).hexdigest()

    def open(self) -> Engine:
        """Start the engine over the columns in use."""
        return self.source.open(list(self.reads))

    def rows(self, engine: Engine) -> Step:
        """# rows : (unit, feature, label[, value]), keys not NULL; without a unit where units were counted."""
        # proof: bounding.row-local
        roles = {role: self._sql(role) for role in self.columns.named()}
        if "value" in roles:
            kind = self.schema[str(self.columns.value)][0]
            roles["value"] = (_count if self.counted else _number)(engine, roles["value"], kind)
        valid = [f"{sql} IS NOT NULL" for role, sql in roles.items() if role != "value"]
        if self.counted:
            # A count of zero is the absence of units: its keys must not show.
            valid.append(f"{roles['value']} > 0")
        if self.where is not None:
            valid.insert(0, _guarded(self.where))
        return Step(
            name="rows",
            shape=f"({', '.join(roles)})",
            sql=(
                f"SELECT {', '.join(f'{sql} AS {role}' for role, sql in roles.items())}\n"
                f"FROM {engine.relation}\nWHERE {' AND '.join(valid)}"
            ),
            freeze=engine.one_pass,
        )

    def _sql(self, role: str) -> str:
        name = self.columns.named()[role]
        return _guarded(name) if role in self.columns.expressions else quote(name)


def observe(  # noqa: PLR0913 - the four roles are the interface
    data: Any,
    *,
    unit: Role = None,
    feature: Role = None,
    label: Role = None,
    value: Role = None,
    where: str | Expression | None = None,
    dataset: str = "default",
    conf: Mapping[str, Any] | None = None,
) -> Observations:
    """Name the data to be observed. Reads the schema and no row.

    Args:
        data: A path, glob, folder, address or list of Parquet, CSV or JSON lines files, a Delta or Iceberg table, a
            pandas or polars frame, an Arrow table, batch, reader or dataset, or a DuckDB relation.
        unit: Column of the one whose privacy is protected; ``unit`` and ``id`` are recognised.
        feature: Column of what is ranked; ``feature`` is recognised.
        label: Column of the group; ``label`` and ``partition`` are recognised. Each role also takes an expression over
            the row's own columns: ``label=sql("year(visited)")``.
        value: Column with a number per row; only used when named.
        where: Keep the rows for which this SQL expression over the row's own columns is true.
        dataset: Name under which the ledger counts releases of these data.
        conf: Settings of the engine, for example ``{"memory_limit": "4GB", "threads": 2}``.

    Raises:
        InputNotFound: There is no file.
        InputError: An expression is no function of one row.
        SchemaError: A column is missing or of the wrong type.

    >>> import pyarrow as pa
    >>> observe(pa.table({"id": [1], "feature": ["a"], "label": ["x"]}))
    Observations(unit='id' BIGINT, feature='feature' VARCHAR, label='label' VARCHAR; dataset='default', engine='duckdb')
    """
    source = _source(data, conf)
    roles = {"unit": unit, "feature": feature, "label": label, "value": value}
    columns, schema, reads = _named(source, roles)
    _check_types(columns, schema)
    text = where.text if isinstance(where, Expression) else where
    if text is not None:
        more, kind, type_ = source.check(Expression(text).text, what="the where", columns=[*source.schema(), *reads])
        if kind != "boolean":
            raise SchemaError(
                f"The where must be true or false for each row, got type {type_}.", hint="where=\"country = 'NZ'\""
            )
        reads |= dict.fromkeys(more)
    return Observations(
        source=source, columns=columns, schema=schema, dataset=_checked_name(dataset), where=text, reads=tuple(reads)
    )


def observe_counts(
    data: Any,
    *,
    feature: Role = None,
    label: Role = None,
    count: str | Expression = "count",
    dataset: str = "default",
    conf: Mapping[str, Any] | None = None,
) -> Observations:
    """Name data in which the units were counted already: rows of feature, label and how many units.

    Each unit must have been counted once, in one row; a release says that it relies on this. Counts of NULL or zero
    are passed over, and rows with equal keys are added. A negative count is no count of units in any data, so the
    data is searched for one here, and refused.

    Args:
        data: As for `observe`, but no reader that is used up by reading it.
        feature: Column of what is ranked; ``feature`` is recognised.
        label: Column of the group; ``label`` and ``partition`` are recognised.
        count: Column with a whole number of units.
        dataset: Name under which the ledger counts releases of these data.
        conf: Settings of the engine.

    Raises:
        InputError: A count is negative.
        SchemaError: A column is missing or of the wrong type.

    >>> import pyarrow as pa
    >>> observe_counts(pa.table({"feature": ["a"], "label": ["x"], "count": [7]})).counted
    True
    """
    source = _source(data, conf)
    if source.read_once:
        raise InputError("Counts are read twice, and a reader only once.", hint="pass a table: reader.read_all()")
    columns, schema, reads = _named(source, {"feature": feature, "label": label, "value": count})
    _check_types(columns, schema, counted=True)
    obs = Observations(
        source=source,
        columns=columns,
        schema=schema,
        dataset=_checked_name(dataset),
        reads=tuple(reads),
        counted=True,
    )
    _check_counts(obs)
    return obs


def _check_counts(obs: Observations) -> None:
    name = str(obs.columns.value)
    with obs.open() as engine:
        number = _number(engine, obs._sql("value"), obs.schema[name][0])  # noqa: SLF001 - this module's own class
        found = any(
            batch.num_rows for batch in engine.batches(f"SELECT 1 FROM {engine.relation} WHERE {number} < 0 LIMIT 1")
        )
    if found:
        raise InputError(
            f"The count column {name!r} holds a negative number, which is no count of units.",
            hint="count the units again, or name another column: observe_counts(data, count='units')",
        )


def _number(engine: Engine, sql: str, kind: Kind) -> str:
    return engine.number(sql, kind)


def _count(engine: Engine, sql: str, kind: Kind) -> str:
    """A whole number of units, NULL for what is none."""
    number = engine.number(sql, kind)
    if kind == "integer":
        # LEAST would skip a NULL and give the limit.
        small = f"WHEN {number} BETWEEN 0 AND {_LARGEST_COUNT} THEN CAST({number} AS BIGINT)"
        return f"CASE {small} WHEN {number} > {_LARGEST_COUNT} THEN {_LARGEST_COUNT} END"
    whole = f"{number} = FLOOR({number}) AND {number} BETWEEN 0 AND {_LARGEST_WHOLE}"
    return f"CASE WHEN {whole} THEN CAST({number} AS BIGINT) END"


def _guarded(text: str) -> str:
    from ddpmi.engines.expressions import guarded

    return guarded(text)


def _checked_name(dataset: str) -> str:
    if not isinstance(dataset, str) or not dataset.strip():
        raise InputError(f"dataset must be a name, got dataset={dataset!r}.", hint="dataset='visits'")
    return dataset


def _source(data: Any, conf: Mapping[str, Any] | None) -> DuckDBSource:
    from ddpmi.engines import files, frames, lakes
    from ddpmi.engines.duckdb import DuckDBSource

    settings = {name: str(setting) for name, setting in (conf or {}).items()}
    given: Iterable[Any] = data if isinstance(data, list | tuple) else [data]
    if all(isinstance(item, str | PathLike) for item in given):
        paths = [str(item) for item in given]
        lake = lakes.find_lake(paths[0]) if len(paths) == 1 else None
        if lake is not None:
            return DuckDBSource(frame=lake, settings=settings)
        return DuckDBSource(files=files.find_files(paths), settings=settings)
    if frames.is_frame(data):
        return DuckDBSource(frame=data, query=frames.query_kind(data), settings=settings)
    raise InputError(
        f"Data of type {type(data).__name__} cannot be observed.",
        hint="pass a path, a list of paths, a pandas or polars DataFrame, an Arrow table or a DuckDB relation",
    )


def _named(
    source: DuckDBSource, roles: Mapping[str, Role]
) -> tuple[Columns, dict[str, tuple[Kind, str]], dict[str, None]]:
    """Settle what each role is: the columns, their types, and the source's columns that they read."""
    for role, given in roles.items():
        if not isinstance(given, str | Expression | None):
            raise InputError(
                f"The {role} must be the name of a column or an expression, got {type(given).__name__}.",
                hint=f"{role}='...' or {role}=sql('...')",
            )
    available: dict[str, tuple[Kind, str]] = dict(source.schema())
    if source.open_names:
        named = [given for given in roles.values() if isinstance(given, str) and given]
        available |= {name: ("untyped", "VARCHAR") for name in named if name not in available}
    schema: dict[str, tuple[Kind, str]] = {}
    reads: dict[str, None] = {}
    texts = {role: given.text for role, given in roles.items() if isinstance(given, Expression)}
    for role, text in texts.items():
        more, kind, type_ = source.check(text, what=f"the expression for the {role}", columns=available)
        reads |= dict.fromkeys(more)
        schema[text] = (kind, type_)
    names = {role: given.text if isinstance(given, Expression) else given for role, given in roles.items()}
    columns = find_columns(names, available, expressions=frozenset(texts), counted="unit" not in roles)
    plain = {name for role, name in columns.named().items() if role not in texts}
    schema |= {name: available[name] for name in plain}
    return columns, schema, reads | dict.fromkeys(sorted(plain))


def _check_types(columns: Columns, schema: Schema, *, counted: bool = False) -> None:
    for role, name in columns.named().items():
        kind, type_ = schema[name]
        given = f"{'count' if counted and role == 'value' else role} {'expression' if role in columns.expressions else 'column'} {name!r}"
        if role == "value" and counted and kind not in _COUNT_KINDS:
            raise SchemaError(
                f"The {given} must hold whole numbers, got type {type_}.", hint="cast it to a whole number first"
            )
        if role == "value":
            if kind not in _VALUE_KINDS:
                raise SchemaError(f"The {given} must hold numbers, got type {type_}.", hint="cast it to a number first")
        elif kind == "number":
            raise SchemaError(
                f"The {given} has type {type_}; 1 and 1.0 would be two {role}s or one, by chance.",
                hint="cast it to a whole number or to text first",
            )
        elif kind not in _KEY_KINDS:
            raise SchemaError(
                f"The {given} has type {type_}, which has no one way to be written as text.",
                hint="cast it to text, a whole number or a date first",
            )
