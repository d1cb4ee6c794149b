"""Adopt a frame, path or relation and rename its columns to unit, feature, label and value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.errors import InputError, SchemaError
from ddpmi.roles import check_types, checked_key, named_roles
from ddpmi.seeds import SEED_LABELS, SHOWN, Seed, seed_names
from ddpmi.spec import dataset_name
from ddpmi.statements import Expression, Step, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ddpmi.engines import Engine, Kind, Source
    from ddpmi.engines.duckdb_sources import DuckDBSource
    from ddpmi.rankings import Ranking
    from ddpmi.roles import Role, Schema
    from ddpmi.spec import Columns

    Engines = Literal["duckdb", "spark"]

#: Sums of counts are clamped here, so no single count needs to be larger.
_LARGEST_COUNT = 2**62
_CHOSEN_SEED = "The owner declares that the seed was chosen without looking at these data, except at charged releases."
_HANDED_OVER = (
    "The owner declares that each row of the data handed over in memory was made from one unit's records alone, "
    "and that the types of its columns were not guessed from rows."
)
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
    seed: Seed | None = None
    """Makes the labels, in place of a column."""
    notes: tuple[str, ...] = ()
    """What else a receipt must tell about the promise for these data."""

    def __repr__(self) -> str:
        listed = ", ".join(f"{role}={name!r} {self.schema[name][1]}" for role, name in self.columns.named().items())
        listed += "" if self.seed is None else f", label={' or '.join(map(repr, reversed(SEED_LABELS)))} by a seed"
        kept = ", where=..." if self.where is not None else ""
        text = "" if self.source.encoding is None else f", encoding={self.source.encoding!r}"
        return f"Observations({listed}; dataset={self.dataset!r}, engine={self.source.engine!r}{text}{kept})"

    @property
    def merges_keys(self) -> bool:
        """Whether rows that differ in the source may have equal keys here: by an expression, or by labels replaced."""
        return self.seed is not None or bool(self.columns.expressions - {"value"})

    @property
    def unit_is_expression(self) -> bool:
        """Whether the unit is an expression, so that nothing is known about rows per unit."""
        return "unit" in self.columns.expressions

    @property
    def feature_role(self) -> tuple[str, bool]:
        """The column or expression of what is ranked, and whether it is an expression."""
        return self.columns.feature, "feature" in self.columns.expressions

    @property
    def relies_on(self) -> list[str]:
        """What the guarantee takes on the owner's word about these data."""
        # proof: row-local.memory
        declared = {
            _HANDED_OVER: self.source.in_memory,
            _COUNTED_ONCE: self.counted,
            _CHOSEN_SEED: self.seed is not None,
        }
        return [*(text for text, said in declared.items() if said), *self.notes]

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
        if self.source.encoding not in (None, "utf-8"):
            mapping["encoding"] = self.source.encoding
        if self.seed is not None:
            mapping["seed"] = self.seed.to_dict()
        return hashlib.sha256(json.dumps(mapping, sort_keys=True).encode()).hexdigest()

    def label_by(
        self,
        *,
        feature: str | Iterable[str] | None = None,
        ranking: Ranking | None = None,
        top: int | None = None,
        at_least: int = 1,
        keep_seed: bool = False,
        column: str | Expression | None = None,
    ) -> Observations:
        """Label units by what they show: "seed" for those who show the seed, "rest" for all others. Reads no row.

        The label of a unit is computed from all its rows that `where` keeps, also those without a feature, and before
        any bound; it takes the place of the label's column. A plan for it has ``public_labels=("rest", "seed")``. A seed
        that nobody shows is no error.

        Args:
            feature: The seed: one feature or several.
            ranking: A ranking whose best features, by presence, are the seed; those of "seed" if it came from one.
            top: How many features of the ranking.
            at_least: How many different features of the seed a unit must show.
            keep_seed: Rank the seed's own features too; they say what the label says.
            column: Column or expression that shows the seed, where it is not the feature's; then no row is dropped.

        Raises:
            InputError: There is no seed, or the data holds counts.
            SchemaError: The column is missing or cannot be a key.

        >>> import pyarrow as pa
        >>> observe(pa.table({"id": [1], "feature": ["a"]})).label_by(feature="azure iot").labelled
        True
        """
        if self.counted:
            raise InputError("Counts have no units that could show a seed.", hint="observe(data, unit='user_id')")
        seed = Seed(features=seed_names(feature, ranking, top), at_least=at_least, keep=keep_seed, column=column)
        reads = self.reads if column is None else tuple(dict.fromkeys((*self.reads, *checked_key(self.source, column))))
        columns = replace(self.columns, label=None, expressions=self.columns.expressions - {"label"})
        return replace(self, columns=columns, seed=seed, reads=reads)

    @property
    def labelled(self) -> bool:
        """Whether it is settled where labels come from."""
        return self.seed is not None or self.columns.label is not None

    def check_labelled(self) -> None:
        """Refuse data whose labels nobody has named.

        Raises:
            SchemaError: There is no label.
        """
        if not self.labelled:
            raise SchemaError(
                "No column was named for the label, and none is called 'label' or 'partition'.",
                hint="say which column holds it: label='...' in Python, --label NAME on the command line; "
                "or make two labels from a feature: label_by, ddpmi expand",
            )

    def open(self) -> Engine:
        """Start the engine over the columns in use."""
        shown = None if self.seed is None else self.seed.column
        made = bool(self.columns.expressions) or self.where is not None or isinstance(shown, Expression)
        return self.source.open(list(self.reads), expressions=made)

    def rows(self, engine: Engine) -> Step:
        """# rows : (unit, feature, label[, value]), keys not NULL; without a unit where units were counted."""
        self.check_labelled()
        # proof: bounding.row-local
        roles = {role: self._sql(role) for role in self.columns.named()}
        keys = [role for role in roles if role != "value"]
        # Of units that a seed labels all rows decide; those without a feature are dropped when that is done.
        valid = [f"{roles[role]} IS NOT NULL" for role in keys if role != "feature" or self.seed is None]
        clean = engine.dialect.clean_text
        roles |= {role: clean.format(m=roles[role]) for role in keys if self._is_text(role)}
        if "value" in roles:
            kind = self.schema[str(self.columns.value)][0]
            read = _count(engine, roles["value"], kind) if self.counted else engine.number(roles["value"], kind)
            roles["value"] = read
        if self.counted:
            # A count of zero is the absence of units: its keys must not show.
            valid.append(f"{roles['value']} > 0")
        if self.where is not None:
            valid.insert(0, _guarded(self.where))
        if self.seed is not None and (column := self.seed.column) is not None:
            shown = _guarded(column.text) if isinstance(column, Expression) else engine.dialect.quote(column)
            roles[SHOWN] = clean.format(m=shown)
        sql = (
            f"SELECT {', '.join(f'{sql} AS {role}' for role, sql in roles.items())}\n"
            f"FROM {engine.relation}\nWHERE {' AND '.join(valid)}"
        )
        if self.seed is None:
            return Step(name="rows", shape=f"({', '.join(roles)})", sql=sql, freeze=engine.one_pass)
        valued = "value" in roles
        sql = self.seed.labelled(sql, engine.dialect, valued=valued, read_once=engine.one_pass)
        shape = f"(unit, feature, label{', value' if valued else ''}), label by the unit's own rows"
        return Step(name="rows", shape=shape, sql=sql, freeze=engine.one_pass)

    def _sql(self, role: str) -> str:
        name = self.columns.named()[role]
        return _guarded(name) if role in self.columns.expressions else self.source.dialect.quote(name)

    def _is_text(self, role: str) -> bool:
        return self.schema[self.columns.named()[role]][0] == "text"

    def prepared(self, target: Path | None) -> Observations:
        """Return the same data, ready to be released to a folder. Refuses what cannot work, and reads no row."""
        return replace(self, source=self.source.prepared(target))


def observe(  # noqa: PLR0913 - the four roles are the interface
    data: Any,
    *,
    unit: Role = None,
    feature: Role = None,
    label: Role = None,
    value: Role = None,
    where: str | Expression | None = None,
    dataset: str = "default",
    engine: Engines | None = None,
    encoding: str | None = None,
    conf: Mapping[str, Any] | None = None,
) -> Observations:
    """Name the data to be observed. Reads the schema and no row.

    Args:
        data: A path, glob, folder, address or list of Parquet, CSV or JSON lines files, a Delta or Iceberg table, a
            pandas or polars frame, an Arrow table, batch, reader or dataset, a DuckDB relation, a Spark DataFrame, or
            with Spark a ``table("db.visits")``.
        unit: Column of the one whose privacy is protected; ``unit`` and ``id`` are recognised.
        feature: Column of what is ranked; ``feature`` is recognised.
        label: Column of the group; ``label`` and ``partition`` are recognised, and it may be left out where `label_by`
            follows. Each role also takes an expression over the row's own columns: ``label=sql("year(visited)")``.
        value: Column with a number per row; only used when named.
        where: Keep the rows for which this SQL expression over the row's own columns is true.
        dataset: Name under which the ledger counts releases of these data.
        engine: Who reads paths and tables: "duckdb", which is embedded and the default, or "spark".
        encoding: How the bytes of CSV and JSON lines files are read as text: "utf-8", the default, "latin-1" and so
            on. It is never guessed; bytes that do not decode are shown as U+FFFD.
        conf: Settings of the engine, for example ``{"memory_limit": "4GB", "threads": 2}``; for Spark ``master``,
            ``remote``, ``staging`` (a folder that all its machines share), and its own ``spark.*``.

    Raises:
        InputNotFound: There is no file.
        InputError: An expression is no function of one row.
        SchemaError: A column is missing or of the wrong type.

    >>> import pyarrow as pa
    >>> observe(pa.table({"id": [1], "feature": ["a"], "label": ["x"]}))
    Observations(unit='id' BIGINT, feature='feature' VARCHAR, label='label' VARCHAR; dataset='default', engine='duckdb')
    """
    source = _source(data, conf, engine, encoding)
    roles = {"unit": unit, "feature": feature, "label": label, "value": value}
    columns, schema, reads = named_roles(source, roles)
    check_types(columns, schema)
    text = where.text if isinstance(where, Expression) else where
    if text is not None:
        more, kind, type_ = source.check(Expression(text).text, what="the where", columns=[*source.schema(), *reads])
        if kind != "boolean":
            raise SchemaError(
                f"The where must be true or false for each row, got type {type_}.", hint="where=\"country = 'NZ'\""
            )
        reads |= dict.fromkeys(more)
    return Observations(
        source=source, columns=columns, schema=schema, dataset=dataset_name(dataset), where=text, reads=tuple(reads)
    )


def observe_counts(  # noqa: PLR0913 - as for `observe`
    data: Any,
    *,
    feature: Role = None,
    label: Role = None,
    count: str | Expression = "count",
    dataset: str = "default",
    engine: Engines | None = None,
    encoding: str | None = None,
    conf: Mapping[str, Any] | None = None,
) -> Observations:
    """Name data in which the units were counted already: rows of feature, label and how many units. Reads no row.

    Each unit must have been counted once, in one row; a release says that it relies on this. A count of NULL, of zero or
    below is no unit and is passed over; so is text that is no whole number. Rows with equal keys are added. No count is
    an error, because an error would tell about its row.

    Args:
        data: As for `observe`.
        feature: Column of what is ranked; ``feature`` is recognised.
        label: Column of the group; ``label`` and ``partition`` are recognised.
        count: Column with a whole number of units.
        dataset: Name under which the ledger counts releases of these data.
        engine: As for `observe`.
        encoding: As for `observe`.
        conf: Settings of the engine.

    Raises:
        SchemaError: A column is missing or of the wrong type.

    >>> import pyarrow as pa
    >>> observe_counts(pa.table({"feature": ["a"], "label": ["x"], "count": [7]})).counted
    True
    """
    source = _source(data, conf, engine, encoding)
    columns, schema, reads = named_roles(source, {"feature": feature, "label": label, "value": count})
    check_types(columns, schema, counted=True)
    return Observations(
        source=source,
        columns=columns,
        schema=schema,
        dataset=dataset_name(dataset),
        reads=tuple(reads),
        counted=True,
    )


def _count(engine: Engine, sql: str, kind: Kind) -> str:
    """A whole number of units, NULL for what is none."""
    from ddpmi.engines.counts import text_count

    if kind == "untyped":
        return text_count(sql, _LARGEST_COUNT)
    number = engine.number(sql, kind)
    # LEAST would skip a NULL and give the limit.
    small = f"WHEN {number} BETWEEN 0 AND {_LARGEST_COUNT} THEN CAST({number} AS BIGINT)"
    return f"CASE {small} WHEN {number} > {_LARGEST_COUNT} THEN {_LARGEST_COUNT} END"


def _guarded(text: str) -> str:
    from ddpmi.engines.expressions import guarded

    return guarded(text)


def _source(data: Any, conf: Mapping[str, Any] | None, engine: str | None, encoding: str | None) -> Source:
    settings = {name: str(setting) for name, setting in (conf or {}).items()}
    given: Iterable[Any] = data if isinstance(data, list | tuple) else [data]
    paths = [str(item) for item in given] if all(isinstance(item, str | PathLike) for item in given) else None
    on_spark = is_spark(data)
    if engine not in (None, "duckdb", "spark") or (on_spark and engine == "duckdb"):
        raise InputError(f"engine={engine!r} cannot read these data.", hint="leave engine out, or engine='spark'")
    if isinstance(data, Table) and engine != "spark":
        raise InputError("A table lives in an engine's catalog.", hint="observe(table('db.visits'), engine='spark')")
    if encoding is not None and (paths is None or on_spark or engine == "spark"):
        raise InputError(
            "An encoding is for CSV and JSON lines files that DuckDB reads.", hint="leave encoding out for these data"
        )
    if on_spark or engine == "spark":
        return _spark_source(data, paths, settings)
    return _duckdb_source(data, paths, settings, encoding)


def _spark_source(data: Any, paths: list[str] | None, settings: Mapping[str, str]) -> Source:
    from ddpmi.engines import spark_sources

    if isinstance(data, Table):
        return spark_sources.table_source(data.name, settings)
    if paths is not None:
        return spark_sources.path_source(paths, settings)
    if is_spark(data):
        return spark_sources.frame_source(data, settings)
    raise InputError(
        f"Data of type {type(data).__name__} cannot be observed on Spark.",
        hint="pass a Spark DataFrame, a path, or table('db.visits')",
    )


def is_spark(data: object) -> bool:
    """Tell whether data is a Spark DataFrame, classic or Connect, without loading Spark.

    >>> is_spark("visits.parquet")
    False
    """
    return type(data).__module__.startswith("pyspark.sql.") and type(data).__name__ == "DataFrame"


def _duckdb_source(
    data: Any, paths: list[str] | None, settings: Mapping[str, str], encoding: str | None
) -> DuckDBSource:
    from ddpmi.engines import files, frames, lakes
    from ddpmi.engines.duckdb_sources import DuckDBSource

    if paths is not None:
        lake = lakes.find_lake(paths[0]) if len(paths) == 1 else None
        if lake is not None and encoding is None:
            return DuckDBSource(frame=lake, settings=settings)
        return DuckDBSource(files=files.find_files(paths, encoding), settings=settings)
    if frames.is_frame(data):
        return DuckDBSource(frame=data, query=frames.query_kind(data), settings=settings)
    raise InputError(
        f"Data of type {type(data).__name__} cannot be observed.",
        hint="pass a path, a list of paths, a pandas, polars or Spark DataFrame, an Arrow table or a DuckDB relation",
    )
