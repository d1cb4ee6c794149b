"""Adopt a frame, path or relation and rename its columns to unit, feature, label and value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from ddpmi.errors import InputError, SchemaError
from ddpmi.spec import Columns, find_columns
from ddpmi.sql import Step, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.engines import Engine, Kind, Source

_KEY_KINDS = ("text", "untyped", "integer", "boolean", "date")
_VALUE_KINDS = ("number", "integer", "boolean", "untyped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Data that has been named and checked, but not read."""

    source: Source = field(repr=False)
    columns: Columns
    schema: Mapping[str, tuple[Kind, str]]
    """Column -> (kind, type) of the columns in use."""
    dataset: str = "default"
    """Whose budget a release of these data spends."""

    def __repr__(self) -> str:
        listed = ", ".join(f"{role}={name!r} {self.schema[name][1]}" for role, name in self.columns.named().items())
        return f"Observations({listed}; dataset={self.dataset!r}, engine={self.source.engine!r})"

    @property
    def columns_digest(self) -> str:
        """A hash of the mapping to the four columns; a release id stands for one mapping."""
        canonical = json.dumps({"columns": self.columns.named(), "dataset": self.dataset}, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def open(self) -> Engine:
        """Start the engine over the columns in use."""
        return self.source.open(list(self.columns.named().values()))

    def rows(self, engine: Engine) -> Step:
        """# rows : (unit, feature, label[, value]), keys not NULL."""
        # proof: bounding.row-local
        keys = {role: quote(name) for role, name in self.columns.named().items() if role != "value"}
        listed = [f"{name} AS {role}" for role, name in keys.items()]
        if self.columns.value is not None:
            kind = self.schema[self.columns.value][0]
            listed.append(f"{engine.number(quote(self.columns.value), kind)} AS value")
        valid = " AND ".join(f"{name} IS NOT NULL" for name in keys.values())
        return Step(
            name="rows",
            shape="(unit, feature, label, value)" if self.columns.value else "(unit, feature, label)",
            sql=f"SELECT {', '.join(listed)}\nFROM {engine.relation}\nWHERE {valid}",
            freeze=engine.one_pass,
        )


def observe(  # noqa: PLR0913 - the four roles are the interface
    data: Any,
    *,
    unit: str | None = None,
    feature: str | None = None,
    label: str | None = None,
    value: str | None = None,
    dataset: str = "default",
    conf: Mapping[str, Any] | None = None,
) -> Observations:
    """Name the data to be observed. Reads the schema and no row.

    Args:
        data: A path, glob, folder or list of Parquet or CSV files, a pandas or polars frame, an Arrow table or
            reader, or a DuckDB relation.
        unit: Column of the one whose privacy is protected; ``unit`` and ``id`` are recognised.
        feature: Column of what is ranked; ``feature`` is recognised.
        label: Column of the group; ``label`` and ``partition`` are recognised.
        value: Column with a number per row; only used when named.
        dataset: Name under which the ledger counts releases of these data.
        conf: Settings of the engine, for example ``{"memory_limit": "4GB", "threads": 2}``.

    Raises:
        InputNotFound: There is no file.
        SchemaError: A column is missing or of the wrong type.

    >>> import pyarrow as pa
    >>> observe(pa.table({"id": [1], "feature": ["a"], "label": ["x"]}))
    Observations(unit='id' BIGINT, feature='feature' VARCHAR, label='label' VARCHAR; dataset='default', engine='duckdb')
    """
    if not isinstance(dataset, str) or not dataset.strip():
        raise InputError(f"dataset must be a name, got dataset={dataset!r}.", hint="dataset='visits'")
    source = _source(data, {name: str(setting) for name, setting in (conf or {}).items()})
    schema = source.schema()
    columns = find_columns({"unit": unit, "feature": feature, "label": label, "value": value}, schema)
    used = {name: schema[name] for name in columns.named().values()}
    _check_types(columns, used)
    return Observations(source=source, columns=columns, schema=used, dataset=dataset)


def _source(data: Any, settings: Mapping[str, str]) -> Source:
    from ddpmi.engines import files, frames
    from ddpmi.engines.duckdb import DuckDBSource

    if isinstance(data, str | PathLike) or (
        isinstance(data, list | tuple) and all(isinstance(item, str | PathLike) for item in data)
    ):
        return DuckDBSource(files=files.find_files(data), settings=settings)
    if frames.is_a(data, "duckdb", "DuckDBPyRelation"):
        # A table is rows; anything else is a query that may hide a LIMIT, a window or a join across units.
        query = None if data.type == "TABLE_RELATION" else "DuckDB relation"
        return DuckDBSource(frame=data, query=query, settings=settings)
    if frames.column_names(data) is not None or frames.is_a(data, "pyarrow", "Table", "RecordBatchReader"):
        return DuckDBSource(frame=data, settings=settings)
    raise InputError(
        f"Data of type {type(data).__name__} cannot be observed.",
        hint="pass a path, a list of paths, a pandas or polars DataFrame, an Arrow table or a DuckDB relation",
    )


def _check_types(columns: Columns, schema: Mapping[str, tuple[Kind, str]]) -> None:
    for role, name in columns.named().items():
        kind, type_ = schema[name]
        if role == "value":
            if kind not in _VALUE_KINDS:
                raise SchemaError(
                    f"The value column {name!r} must hold numbers, got type {type_}.", hint="cast it to a number first"
                )
        elif kind == "number":
            raise SchemaError(
                f"The {role} column {name!r} has type {type_}; 1 and 1.0 would be two {role}s or one, by chance.",
                hint="cast it to a whole number or to text first",
            )
        elif kind not in _KEY_KINDS:
            raise SchemaError(
                f"The {role} column {name!r} has type {type_}, which has no one way to be written as text.",
                hint="cast it to text, a whole number or a date first",
            )
