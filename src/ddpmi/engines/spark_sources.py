"""What Spark reads: DataFrames, tables of its catalog, and files, with what their columns hold."""

from __future__ import annotations

import glob
import re
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.engines.draws import noisy
from ddpmi.engines.spark import SparkEngine, Staging, schema_of
from ddpmi.engines.spark_sessions import check_settings, find_session, is_connect, own_errors
from ddpmi.errors import EngineError, InputError, SchemaError
from ddpmi.statements import SPARK, Dialect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ddpmi.engines import Kind

_PATTERN = re.compile(r"[\\{}\[\]*?]")
#: Formats of files in which each row is a row; of these Spark reads the last two with a package of theirs.
_LAKES = ("delta", "iceberg")
_FILES = ("parquet", "orc", *_LAKES)
_KINDS: dict[str, Kind] = {
    "string": "text",
    "boolean": "boolean",
    "date": "date",
    "float": "number",
    "double": "number",
    "decimal": "number",
    **dict.fromkeys(["tinyint", "smallint", "int", "bigint"], "integer"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSource:
    """A DataFrame of a Spark session, classic or Connect."""

    frame: Any = field(repr=False)
    query: str | None = None
    staging: Path | None = None
    """Folder that the driver and all executors share; noisy tables are written there before they are published."""
    engine: str = "spark"
    dialect: Dialect = SPARK
    read_once: bool = False
    in_memory: bool = False
    encoding: str | None = None
    open_names: bool = False

    def schema(self) -> dict[str, tuple[Kind, str]]:
        """Return column -> (kind, type). Reads no row."""
        with own_errors("read the schema"):
            fields = list(self.frame.schema.fields)
        names = [field.name.lower() for field in fields]
        twice = [field.name for field in fields if names.count(field.name.lower()) > 1]
        if twice:
            raise SchemaError(
                f"The data has more than one column {twice[0]!r}, upper and lower case being the same.",
                hint="rename one of them",
            )
        return {field.name: _kind(field) for field in fields}

    def check(self, text: str, *, what: str, columns: Collection[str]) -> tuple[tuple[str, ...], Kind, str]:
        """Refuse: only DuckDB's parser tells whether an expression is a function of one row."""
        del text, columns
        raise InputError(
            f"{what[0].upper()}{what[1:]} is SQL, which is not read on Spark.",
            hint="make the column or filter in Spark first: observe(df.where(...)), with Plan(..., row_local=True)",
        )

    def prepared(self, target: Path | None) -> SparkSource:
        """Return the data with a folder for what Spark writes, after a public number went all the way there and back."""
        folder = self.staging or (Path(tempfile.gettempdir()) if target is None else target.absolute().parent)
        if _PATTERN.search(str(folder)):
            raise InputError(
                f"Spark takes the folder {folder} for a pattern of names.",
                hint="conf={'staging': '/shared/plain/folder'}",
            )
        with Staging(folder) as staging:
            _probe(self.frame.sparkSession, staging)
        return replace(self, staging=folder)

    def open(self, columns: list[str]) -> SparkEngine:
        """Start an engine over these columns."""
        with own_errors("read the data"):
            frame = self.frame.select([SPARK.quote(name) for name in columns])
        return SparkEngine(frame, self.staging or Path(tempfile.gettempdir()))


def _probe(session: Any, staging: Staging) -> None:
    """Let a task import what adds noise and write a public number, and look whether it is here."""
    import pyarrow.parquet as pq

    place = staging.new()
    with own_errors(
        "run a task that writes to the staging folder",
        hint=f"ddpmi must be installed where tasks run, and {staging.parent} be shared with them; "
        "conf={'staging': '/shared/folder'} names another one",
    ):
        session.range(1, 2).toDF("sum").mapInArrow(partial(noisy, noise=None), schema_of([])).write.parquet(
            f"file://{place}"
        )
    files = sorted(place.glob("*.parquet")) if place.is_dir() else []
    if [row for file in files for row in pq.read_table(file).column("sum").to_pylist()] != [1]:
        raise EngineError(
            f"What Spark's tasks write to {staging.parent} cannot be seen here.",
            hint="write the release to a folder that all machines share, or name one: conf={'staging': '/shared/folder'}",
        )


def _kind(field: Any) -> tuple[Kind, str]:
    """What a column holds; CHAR is padded and a collation merges texts, so neither has one text."""
    type_ = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", field.dataType.simpleString()))
    return _KINDS.get(
        type_ if type_.startswith("string") else type_.partition("(")[0].replace("varchar", "string"), "other"
    ), type_


def frame_source(frame: Any, settings: Mapping[str, str]) -> SparkSource:
    """Adopt a DataFrame; one that is more than the reading of files may depend on several units in a row."""
    check_settings(settings)
    if _is_random(frame):
        raise InputError(
            "The DataFrame computes random numbers, so reading it again would give other rows.",
            hint="write it to a table first, and observe that",
        )
    return SparkSource(frame=frame, query=None if _is_bare(frame) else "Spark DataFrame", staging=_staging(settings))


def table_source(name: str, settings: Mapping[str, str]) -> SparkSource:
    """Name a table or view of the catalog."""
    session = find_session(settings)
    with own_errors(f"find the table {name}"):
        kind = str(session.catalog.getTable(name).tableType)
        frame = session.table(name)
    view = kind in ("VIEW", "TEMPORARY", "METRIC_VIEW")
    return SparkSource(frame=frame, query="view of Spark's catalog" if view else None, staging=_staging(settings))


def path_source(paths: list[str], settings: Mapping[str, str]) -> SparkSource:
    """Name Parquet or ORC files or folders, or one Delta or Iceberg table."""
    session = find_session(settings)
    formats = {_format(path) for path in paths}
    if len(formats) > 1:
        raise InputError("The files are of more than one format.", hint="name files of one format")
    places, kind = [_place(path) for path in paths], formats.pop()
    hint = (
        f"start Spark with the package of {kind}, or leave Spark out: DuckDB reads such tables"
        if kind in _LAKES
        else ""
    )
    with own_errors(f"read {kind} files", hint=hint or "check that Spark can read them"):
        frame = session.read.format(kind).load(places if len(places) > 1 else places[0])
    return SparkSource(frame=frame, staging=_staging(settings))


def _place(path: str) -> str:
    """What is found from here is meant: Spark's process may stand in another folder, and in another file system."""
    here = Path(path).absolute()
    found = "://" not in path and (here.exists() or any(glob.iglob(str(here))))  # noqa: PTH207 - the pattern is absolute
    return f"file://{here}" if found else path


def _format(path: str) -> str:
    from ddpmi.engines.lakes import find_lake

    lake = find_lake(path)
    if lake is not None:
        return lake.kind
    suffix = Path(path).suffix.lower()
    if suffix in (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".gz", ".zst", ".txt"):
        raise InputError(
            f"Spark would guess types from the rows of {suffix} files.",
            hint="read them with a schema, and pass the DataFrame: observe(spark.read.schema(...).csv(...))",
        )
    return "orc" if suffix == ".orc" else "parquet"


def _staging(settings: Mapping[str, str]) -> Path | None:
    return Path(settings["staging"]).absolute() if "staging" in settings else None


def _is_random(frame: Any) -> bool:
    """Whether Spark says that a DataFrame may differ from one evaluation to the next; Connect does not say."""
    # proof: one-draw.exact
    try:
        return not frame._jdf.queryExecution().analyzed().deterministic()  # noqa: SLF001 - there is no other way to ask
    except Exception:  # noqa: BLE001 - Connect, or another version of Spark
        return False


def _is_bare(frame: Any) -> bool:
    """Whether a DataFrame is the reading of files and nothing else, as far as Spark tells; when in doubt it is not."""
    try:
        if is_connect(frame.sparkSession):
            plan = frame._plan  # noqa: SLF001 - Connect has no other way to ask
            return type(plan).__name__ == "DataSource" and plan._format in _FILES  # noqa: SLF001
        analyzed = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - nor has the classic one
        is_leaf = analyzed.getClass().getSimpleName() == "LogicalRelation"
        return bool(is_leaf and analyzed.relation().getClass().getSimpleName() == "HadoopFsRelation")
    except Exception:  # noqa: BLE001 - another version of Spark; the owner has to say
        return False
