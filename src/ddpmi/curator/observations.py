"""Observations: data that has been named, with its columns renamed to unit, feature, label and value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ddpmi.curator.columns import check_same_units, check_types, checked_key, listing, named_roles
from ddpmi.engines import Beside, open_source
from ddpmi.errors import Hint, InputError, SchemaError
from ddpmi.pipeline.bounds import dataset_name
from ddpmi.pipeline.seeds import SEED_LABELS, SHOWN, Seed, seed_names
from ddpmi.pipeline.steps import Expression, Step

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ddpmi.curator.columns import Columns, Role, Schema
    from ddpmi.engines import Engine, EngineName, Kind, Source
    from ddpmi.pipeline.seeds import RankedFeatures

#: Sums of counts are clamped to this number, so no single count needs to be larger.
_LARGEST_COUNT = 2**62
_CHOSEN_SEED = "The owner declares that the seed was chosen without looking at these data, except at charged releases."
_HANDED_OVER = (
    "The owner declares that each row of the data handed over in memory was made from one unit's records alone, "
    "and that the types of its columns were not guessed from rows."
)
_ENFORCED = "The database keeps no two rows of one (unit, feature, label), by a unique index or a primary key, so none are merged."
_SAME_UNITS = (
    "The owner declares that the unit of the rows ({here}) and the unit of the table in which the seed is looked up "
    "({there}) name the same units. The promise is for all rows of a unit in both tables."
)
_COUNTED_ONCE = "The owner declares that each unit was counted once, in one row."


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Data that has been named and checked, but not read."""

    source: Source = field(repr=False)
    columns: Columns
    schema: Schema
    """Column or expression -> (kind, type), for the roles in use."""
    dataset: str = "default"
    """The dataset whose budget a release of these data spends."""
    where: str | None = None
    """Only rows for which this expression is true are read. Its text is never shown."""
    reads: tuple[str, ...] = ()
    """The source's columns that are read."""
    counted: bool = False
    """Whether rows are counts of units. Then value is the count, and there is no unit."""
    seed: Seed | None = None
    """Makes the labels, in place of a column."""
    asked: str | None = field(default=None, repr=False)
    """The query of a database that gives the rows. Its text is never shown."""
    within: Observations | None = field(default=None, repr=False)
    """The second table, in which the seed is looked up; None for these rows."""
    notes: tuple[str, ...] = ()
    """Further declarations that a receipt must list."""

    def __repr__(self) -> str:
        listed = ", ".join(f"{role}={name!r} {self.schema[name][1]}" for role, name in self.columns.named().items())
        listed += "" if self.seed is None else f", label={' or '.join(map(repr, reversed(SEED_LABELS)))} by a seed"
        listed += "" if self.within is None else " within another table"
        kept = ", where=..." if self.where is not None else ""
        text = "" if self.source.encoding is None else f", encoding={self.source.encoding!r}"
        return f"Observations({listed}; dataset={self.dataset!r}, engine={self.source.engine!r}{text}{kept})"

    @property
    def merges_keys(self) -> bool:
        """Whether an expression or a seed may give equal keys to rows that differ in the source."""
        return self.seed is not None or bool(self.columns.expressions - {"value"})

    @property
    def enforced(self) -> bool:
        """Whether a unique index or primary key of the database keeps rows distinct per (unit, feature, label)."""
        # proof: bounding.enforced
        keys = {self.columns.unit, self.columns.feature, self.columns.label}
        if self.counted or self.merges_keys or None in keys:
            return False
        return any(unique <= keys for unique in self.source.unique)

    @property
    def unit_is_expression(self) -> bool:
        """Whether the unit is an expression. Then nothing is known about the number of rows per unit."""
        return "unit" in self.columns.expressions

    @property
    def unit_name(self) -> str:
        """The unit's column for messages and receipts, without the text of an expression."""
        return "an expression" if self.unit_is_expression else repr(self.columns.unit)

    @property
    def unit_role(self) -> tuple[str, bool]:
        """The column or expression of the unit, and whether it is an expression."""
        return str(self.columns.unit), self.unit_is_expression

    @property
    def query(self) -> str | None:
        """What kind of query or view one of the tables is, where its rows may depend on more than one unit."""
        return self.source.query or (None if self.within is None else self.within.source.query)

    @property
    def feature_role(self) -> tuple[str, bool]:
        """The column or expression of the feature, and whether it is an expression."""
        return self.columns.feature, "feature" in self.columns.expressions

    @property
    def column_names(self) -> dict[str, str]:
        """The columns in use by their role, without expressions and without the count of units that were counted before."""
        hidden = self.columns.expressions | ({"value"} if self.counted else set())
        return {role: name for role, name in self.columns.named().items() if role not in hidden}

    @property
    def relies_on(self) -> list[str]:
        """The owner's declarations about these data, on which the guarantee relies."""
        # proof: row-local.memory
        declared = {
            _HANDED_OVER: self.source.in_memory or (self.within is not None and self.within.source.in_memory),
            _COUNTED_ONCE: self.counted,
            _CHOSEN_SEED: self.seed is not None,
            _ENFORCED: self.enforced,
        }
        linked = [] if self.within is None else [_SAME_UNITS.format(here=self.unit_name, there=self.within.unit_name)]
        return [*(text for text, applies in declared.items() if applies), *linked, *self.notes]

    @property
    def columns_digest(self) -> str:
        """A hash of the mapping to the four columns. A release id belongs to one mapping."""
        return hashlib.sha256(json.dumps(self.mapping(), sort_keys=True).encode()).hexdigest()

    def mapping(self) -> dict[str, Any]:
        """Return how the four columns are made, for digests."""
        mapping: dict[str, Any] = {"columns": self.columns.named(), "dataset": self.dataset}
        if self.columns.expressions:
            mapping["expressions"] = sorted(self.columns.expressions)
        if self.where is not None:
            mapping["where"] = self.where
        if self.asked is not None:
            mapping["query"] = self.asked
        if self.counted:
            mapping["counted"] = True
        if self.source.encoding not in (None, "utf-8"):
            mapping["encoding"] = self.source.encoding
        if self.seed is not None:
            mapping["seed"] = self.seed.to_dict()
        if self.within is not None:
            mapping["within"] = self.within.mapping()
        return mapping

    def label_by(
        self,
        *,
        feature: str | Iterable[str] | None = None,
        ranking: RankedFeatures | None = None,
        top: int | None = None,
        at_least: int = 1,
        keep_seed: bool = False,
        column: str | Expression | None = None,
        within: Observations | None = None,
    ) -> Observations:
        """Label units by their features: "seed" for units that have the seed, "rest" for all others. Reads no row.

        The label of a unit is computed from all its rows that `where` keeps, also those without a feature, and before
        any bound. It replaces the label's column. A plan for it has ``public_labels=("rest", "seed")``. A seed that no
        unit has is no error.

        Args:
            feature: The seed: one feature or several.
            ranking: Take the best features of this ranking, by presence, as the seed. If the ranking itself came from
                a seed, take those of its label "seed".
            top: How many features of the ranking.
            at_least: How many different features of the seed a unit must have.
            keep_seed: Rank the seed's own features too. They repeat what the label says.
            column: Column or expression in which the seed is looked for, if not the feature's; then no row is dropped.
            within: A second table, in which the seed is looked up by the unit, from `observe`. You declare that the unit
                columns of both tables name the same units, and both must be of one dataset. Units that are only in the
                second table have no rows to rank; units that are not in it are the rest. `column` is then a column of
                the second table, by default its feature. The engine's settings are those of these data.

        Raises:
            InputError: There is no seed, the data holds counts, or the two tables cannot be linked.
            SchemaError: The column is missing or cannot be a key, or no unit could be in both tables.

        >>> import pyarrow as pa
        >>> observe(pa.table({"id": [1], "feature": ["a"]})).label_by(feature="azure iot").labelled
        True
        """
        if self.counted:
            raise _no_units()
        seed = Seed(features=seed_names(feature, ranking, top), at_least=at_least, keep=keep_seed, column=column)
        if within is not None:
            second = self._linked(within)
            return replace(_unlabelled(self), seed=seed, within=_with_key(second, column))
        return replace(_with_key(_unlabelled(self), column), seed=seed, within=None)

    def _linked(self, second: Observations) -> Observations:
        """Return the unit and feature of a second table; refuse one that cannot be linked to these data. Reads no row."""
        if not isinstance(second, Observations):
            raise InputError(
                f"within must be what observe returns, got {type(second).__name__}.",
                hint="label_by(feature='iot', within=observe('papers.parquet', unit='author', feature='word'))",
            )
        if second.counted:
            raise _no_units()
        # One account for both tables: the labels depend on the unit's rows in each of them.
        # proof: label-by.linked
        if second.dataset != self.dataset:
            raise InputError(
                f"The rows are of dataset {self.dataset!r} and the table of the seed of {second.dataset!r}; "
                f"a release from both would be charged to one of them only.",
                hint="observe both with the same dataset='...'",
            )
        self.source.check_beside(second.source)
        check_same_units(self.schema[str(self.columns.unit)], second.schema[str(second.columns.unit)])
        bare = replace(_unlabelled(second), seed=None, within=None)
        columns = replace(bare.columns, value=None, expressions=bare.columns.expressions - {"value"})
        return replace(bare, columns=columns)

    @property
    def labelled(self) -> bool:
        """Whether labels come from a column or from a seed."""
        return self.seed is not None or self.columns.label is not None

    def check_labelled(self) -> None:
        """Refuse data without a label.

        Raises:
            SchemaError: There is no label.
        """
        if not self.labelled:
            raise SchemaError(
                f"No column was named for the label, and none of {listing(self.source.schema())} is called 'label' or "
                "'partition'.",
                hint=Hint(
                    do="say which column holds it, or make two labels from a feature",
                    python="label='...', or label_by(feature='...')",
                    cli="--label NAME, or ddpmi expand",
                ),
            )

    def open(self) -> Engine:
        """Start the engine over the columns in use."""
        seed_column = None if self.seed is None else self.seed.column
        tables = [self] if self.within is None else [self, self.within]
        computed = isinstance(seed_column, Expression) or any(
            table.columns.expressions or table.where is not None for table in tables
        )
        if self.within is None:
            return self.source.open(list(self.reads), expressions=computed)
        second = Beside(source=self.within.source, columns=list(self.within.reads))
        return self.source.open(list(self.reads), expressions=computed, beside=second)

    def rows(self, engine: Engine) -> Step:
        """Return the step ``rows``: (unit, feature, label[, value]), keys not NULL; without a unit for counts."""
        self.check_labelled()
        # proof: bounding.row-local
        roles = {role: self._sql(role) for role in self.columns.named()}
        keys = [role for role in roles if role != "value"]
        # All rows of a unit decide whether a seed labels it; rows without a feature are dropped after that.
        valid = [f"{roles[role]} IS NOT NULL" for role in keys if role != "feature" or self.seed is None]
        clean = engine.dialect.clean_text
        roles |= {role: clean.format(m=roles[role]) for role in keys if self._is_text(role)}
        if "value" in roles:
            roles["value"] = self._value(roles["value"], self.schema[str(self.columns.value)][0])
        if self.counted:
            # A count of zero is the absence of units: its keys must not be released.
            valid.append(f"{roles['value']} > 0")
        if self.where is not None:
            valid.insert(0, self.source.guarded(self.where))
        if self.seed is not None and self.seed.column is not None and self.within is None:
            roles[SHOWN] = clean.format(m=self._key(self.seed.column))
        sql = (
            f"SELECT {', '.join(f'{sql} AS {role}' for role, sql in roles.items())}\n"
            f"FROM {engine.relation}\nWHERE {' AND '.join(valid)}"
        )
        if self.seed is None:
            return Step(name="rows", shape=f"({', '.join(roles)})", sql=sql, freeze=engine.one_pass)
        valued = "value" in roles
        beside = None if self.within is None else self.within.shown_rows(engine, self.seed.column)
        sql = self.seed.labelled(sql, engine.dialect, valued=valued, read_once=engine.one_pass, beside=beside)
        where = "" if beside is None else " in a second table"
        shape = f"(unit, feature, label{', value' if valued else ''}), label by the unit's own rows{where}"
        return Step(name="rows", shape=shape, sql=sql, freeze=engine.one_pass)

    def shown_rows(self, engine: Engine, column: str | Expression | None) -> str:
        """Return the SELECT of (unit as text, shown) of this second table."""
        dialect, clean = engine.dialect, engine.dialect.clean_text
        unit = self._sql("unit")
        shown = self._sql("feature") if column is None else self._key(column)
        valid = [*([] if self.where is None else [self.source.guarded(self.where)]), f"{unit} IS NOT NULL"]
        text = clean.format(m=unit) if self._is_text("unit") else unit
        return (
            f"SELECT {dialect.as_text(text)} AS unit, {clean.format(m=shown)} AS {SHOWN}\n"
            f"FROM {engine.beside}\nWHERE {' AND '.join(valid)}"
        )

    def _key(self, column: str | Expression) -> str:
        return self.source.guarded(column.text) if isinstance(column, Expression) else self.source.dialect.quote(column)

    def _sql(self, role: str) -> str:
        name = self.columns.named()[role]
        return self.source.guarded(name) if role in self.columns.expressions else self.source.dialect.quote(name)

    def _value(self, column: str, kind: Kind) -> str:
        """Return SQL of a number per row: the value, or the count of units, which is a whole number or NULL."""
        if not self.counted:
            return self.source.number(column, kind)
        if kind == "untyped":
            return self.source.text_count(column, _LARGEST_COUNT)
        # Not LEAST, which skips a NULL and returns the limit.
        small = f"WHEN {column} BETWEEN 0 AND {_LARGEST_COUNT} THEN CAST({column} AS BIGINT)"
        return f"CASE {small} WHEN {column} > {_LARGEST_COUNT} THEN {_LARGEST_COUNT} END"

    def _is_text(self, role: str) -> bool:
        return self.schema[self.columns.named()[role]][0] == "text"

    def prepared(self, target: Path | None) -> Observations:
        """Return the same data, ready to be released to a folder. Refuse what cannot work. Reads no row."""
        return replace(self, source=self.source.prepared(target))

    def rehearsal(self) -> Observations | None:
        """Return made-up rows under the same names; None for an engine that is not rehearsed. Reads no row."""
        made_up = self.source.rehearsal()
        if made_up is not None and self.within is not None:
            return replace(self, source=made_up, within=self.within.rehearsal())
        return None if made_up is None else replace(self, source=made_up)


def observe(  # noqa: PLR0913 - each is its own question
    data: Any,
    *,
    unit: Role = None,
    feature: Role = None,
    label: Role = None,
    value: Role = None,
    where: str | Expression | None = None,
    dataset: str = "default",
    engine: EngineName | None = None,
    encoding: str | None = None,
    conf: Mapping[str, Any] | None = None,
    table: str | None = None,
    query: str | None = None,
) -> Observations:
    """Name the data to be observed. Reads the schema and no row.

    Args:
        data: A path, glob, folder, address or list of Parquet, CSV or JSON lines files, a Delta or Iceberg table, a
            pandas or polars frame, an Arrow table, batch, reader or dataset, a DuckDB relation, a Spark DataFrame, or
            with Spark a ``table("db.visits")``; with ``table`` or ``query`` a ``postgresql://`` address, a SQLite or
            DuckDB file, or an open connection; a sheet of an Excel workbook.
        unit: Column of the unit, whose privacy is protected; ``unit``, ``id``, ``user_id`` and a few others are recognised.
        feature: Column of the feature, which is ranked; ``feature`` is recognised.
        label: Column of the label (group); ``label``, ``partition`` and ``group`` are recognised. It may be left out if `label_by`
            follows. Each role also takes an expression over the row's own columns: ``label=sql("year(visited)")``.
        value: Column with a number per row; only used when named.
        where: Keep the rows for which this SQL expression over the row's own columns is true.
        dataset: Name under which the ledger counts releases of these data.
        engine: The engine that reads paths and tables: "duckdb", which is embedded and the default, or "spark".
            Databases are read by their own engines, "postgres" and "sqlite".
        encoding: Encoding of CSV and JSON lines files: "utf-8", the default, "latin-1" and others. It is never
            guessed. Bytes that do not decode become U+FFFD.
        conf: Settings of the engine, for example ``{"memory_limit": "4GB", "threads": 2}``; for Spark ``master``,
            ``remote``, ``staging`` (a folder that all its machines share), and its own ``spark.*``; for PostgreSQL
            ``statement_timeout``, ``lock_timeout``, ``work_mem``, ``temp_tablespaces``, ``search_path`` and ``stream``.
        table: The table or view of a database, as ``"visits"`` or ``"schema.visits"``; the sheet of a workbook.
        query: Instead of a table: a SELECT, which runs read-only. The plan must then say ``row_local=True``.

    Raises:
        InputNotFound: There is no file.
        InputError: An expression is no function of one row.
        SchemaError: A column is missing or of the wrong type.

    >>> import pyarrow as pa
    >>> observe(pa.table({"id": [1], "feature": ["a"], "label": ["x"]}))
    Observations(unit='id' BIGINT, feature='feature' VARCHAR, label='label' VARCHAR; dataset='default', engine='duckdb')
    """
    source = open_source(data, engine=engine, settings=_settings(conf), encoding=encoding, table=table, query=query)
    roles = {"unit": unit, "feature": feature, "label": label, "value": value}
    columns, schema, reads = named_roles(source, roles)
    check_types(columns, schema)
    text = where.text if isinstance(where, Expression) else where
    if text is not None:
        more, kind, type_ = source.check(Expression(text).text, what="the where", columns=[*source.schema(), *reads])
        if kind != "boolean":
            raise SchemaError(
                f"The where must be true or false for each row, got type {type_}.",
                hint=Hint(python="where=\"country = 'NZ'\"", cli="--where \"country = 'NZ'\""),
            )
        reads |= dict.fromkeys(more)
    return Observations(
        source=source,
        columns=columns,
        schema=schema,
        dataset=dataset_name(dataset),
        where=text,
        reads=tuple(reads),
        asked=query,
    )


def observe_counts(
    data: Any,
    *,
    feature: Role = None,
    label: Role = None,
    count: str | Expression = "count",
    dataset: str = "default",
    engine: EngineName | None = None,
    encoding: str | None = None,
    conf: Mapping[str, Any] | None = None,
    table: str | None = None,
    query: str | None = None,
) -> Observations:
    """Name data in which the units were counted already: rows of feature, label and a number of units. Reads no row.

    Each unit must have been counted once, in one row; the receipt says that the release relies on this. Rows whose
    count is NULL, zero, negative or no whole number are ignored. Counts of rows with equal keys are added. No count is
    an error, because an error would reveal its row.

    Args:
        data: As for `observe`.
        feature: Column of the feature, which is ranked; ``feature`` is recognised.
        label: Column of the label (group); ``label`` and ``partition`` are recognised.
        count: Column with a whole number of units.
        dataset: Name under which the ledger counts releases of these data.
        engine: As for `observe`.
        encoding: As for `observe`.
        conf: Settings of the engine.
        table: As for `observe`.
        query: As for `observe`.

    Raises:
        SchemaError: A column is missing or of the wrong type.

    >>> import pyarrow as pa
    >>> observe_counts(pa.table({"feature": ["a"], "label": ["x"], "count": [7]})).counted
    True
    """
    source = open_source(data, engine=engine, settings=_settings(conf), encoding=encoding, table=table, query=query)
    columns, schema, reads = named_roles(source, {"feature": feature, "label": label, "value": count})
    check_types(columns, schema, counted=True)
    return Observations(
        source=source,
        columns=columns,
        schema=schema,
        dataset=dataset_name(dataset),
        reads=tuple(reads),
        asked=query,
        counted=True,
    )


def _unlabelled(obs: Observations) -> Observations:
    return replace(obs, columns=replace(obs.columns, label=None, expressions=obs.columns.expressions - {"label"}))


def _with_key(obs: Observations, column: str | Expression | None) -> Observations:
    """Return the same data with one more key that is read."""
    if column is None:
        return obs
    return replace(obs, reads=tuple(dict.fromkeys((*obs.reads, *checked_key(obs.source, column)))))


def _no_units() -> InputError:
    return InputError(
        "Counts have no units that could show a seed.",
        hint=Hint(python="observe(data, unit='user_id')", cli="--unit user_id"),
    )


def _settings(conf: Mapping[str, Any] | None) -> dict[str, str]:
    if not isinstance(conf, Mapping | None):
        raise InputError(
            f"conf must be a mapping of settings, got {type(conf).__name__}.",
            hint=Hint(python="conf={'threads': 2}", cli="--conf threads=2"),
        )
    return {name: str(setting) for name, setting in (conf or {}).items()}
