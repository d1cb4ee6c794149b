"""What Spark reads: DataFrames, tables of its catalog, and files, with what their columns hold."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.engines.draws import noisy
from ddpmi.engines.spark import SparkEngine, Staging, schema_of
from ddpmi.engines.spark_sessions import check_settings, find_session, folders_as_text, is_connect, own_errors
from ddpmi.errors import EngineError, InputError, SchemaError
from ddpmi.statements import SPARK, Dialect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ddpmi.engines import Kind

_PATTERN = re.compile(r"[\\{}\[\]*?]")
#: An address of this machine's own files.
_LOCAL = re.compile(r"file:(//)?(?=/)")
#: Names that Spark passes over.
_HIDDEN = ("_", ".")
#: Formats of files whose types are written in them; of these Spark reads the last two with a package of theirs.
_LAKES = ("delta", "iceberg")
_TYPED = ("parquet", "orc")
_FILES = (*_TYPED, *_LAKES)
#: What reads the files of a table of Hive.
_SERDES = (
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
)
_READERS = (
    "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat",
    "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat",
    "org.apache.spark.sql.hive.orc.OrcFileFormat",
)
_DELTA_READER = "org.apache.spark.sql.delta.DeltaParquetFileFormat"
#: Text that is equal where its bytes are, and as long as it was written.
_PLAIN_TEXT = re.compile(r"(string|varchar\(\d+\))( collate UTF8_BINARY)?")
_KINDS: dict[str, Kind] = {
    "BooleanType": "boolean",
    "DateType": "date",
    **dict.fromkeys(["FloatType", "DoubleType", "DecimalType"], "number"),
    **dict.fromkeys(["ByteType", "ShortType", "IntegerType", "LongType"], "integer"),
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

    def open(self, columns: list[str], *, expressions: bool = True) -> SparkEngine:
        """Start an engine over these columns; there are no expressions here."""
        del expressions
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
    """What a column holds, by its class and not by its name, which types of users may share.

    CHAR is padded, and a collation makes different texts equal, so neither has one text.
    """
    from pyspark.sql import types

    own = str(field.dataType.simpleString())
    if type(field.dataType) not in (types.StringType, types.VarcharType):
        return (_KINDS.get(type(field.dataType).__name__, "other"), own)
    # proof: row-local.spark
    declared = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", own))
    odd = [type_ for type_ in (own, declared) if not _PLAIN_TEXT.fullmatch(type_)]
    return ("other" if odd else "text", [*odd, declared][0])


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
    """Name a table or view of the catalog; a table that is no typed files may be a query of another system."""
    session = find_session(settings)
    with own_errors(f"find the table {name}"):
        found = session.catalog.getTable(name)
        query: str | None = "view of Spark's catalog"
        if found.tableType in ("MANAGED", "EXTERNAL"):
            told = [tuple(row) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
            query = None if _is_plain(session, found, told) else "table of Spark's catalog without typed files"
        frame = session.table(name)
    return SparkSource(frame=frame, query=query, staging=_staging(settings))


def _is_plain(session: Any, found: Any, told: list[tuple[Any, ...]]) -> bool:
    """Whether a table of the catalog is typed files and nothing else; when in doubt it is not."""
    # The last such line: a column might be called so.
    # proof: row-local.spark
    starts = [place for place, row in enumerate(told) if row[0] == "# Detailed Table Information"]
    facts = {row[0]: row[1] for row in told[starts[-1] :]} if starts else {}
    provider = str(facts.get("Provider", "")).lower()
    if provider == "hive":
        return facts.get("Serde Library") in _SERDES
    return provider in _FILES and (provider != "iceberg" or not _is_about_files(session, found))


def _is_about_files(session: Any, found: Any) -> bool:
    """Whether a table is a table of Iceberg about another one, as db.visits.files is: its rows tell of many units."""
    parent = [SPARK.quote(part) for part in (found.catalog, *(found.namespace or ())) if part]
    try:
        return bool(session.catalog.tableExists(".".join(parent)))
    except Exception:  # noqa: BLE001 - a catalog that does not answer leaves it in doubt
        return True


def path_source(paths: list[str], settings: Mapping[str, str]) -> SparkSource:
    """Name Parquet or ORC files or folders, or one Delta or Iceberg table."""
    session = find_session(settings)
    here, elsewhere = _named(paths)
    formats = {_format(path) for path in (*here, *elsewhere)}
    if len(formats) > 1:
        raise InputError("The files are of more than one format.", hint="name files of one format")
    kind = formats.pop()
    places = [_literal(path, kind) for path in here] + elsewhere
    hint = (
        f"start Spark with the package of {kind}, or leave Spark out: DuckDB reads such tables"
        if kind in _LAKES
        else ""
    )
    with own_errors(f"read {kind} files", hint=hint or "check that Spark can read them"), folders_as_text(session):
        frame = session.read.format(kind).load(places if len(places) > 1 else places[0])
        if is_connect(session) and kind in _TYPED:
            # Connect analyses a frame again at each use, when the settings have changed back.
            frame = session.read.format(kind).schema(frame.schema).load(places)
    return SparkSource(frame=frame, staging=_staging(settings))


def _named(paths: list[str]) -> tuple[list[str], list[str]]:
    """Find what is here, each file once, patterns written out; what is not found here may be where Spark runs.

    Spark's process may run in another folder or on another file system, so names are resolved here.
    """
    # proof: row-local.names
    here: dict[str, str] = {}
    elsewhere: list[str] = []
    for path in paths:
        found = _found(path)
        here |= {os.path.realpath(file): file for file in reversed(found)}
        elsewhere += [] if found or path in elsewhere else [path]
    if here and elsewhere:
        raise InputError(
            f"{elsewhere[0]!r} is not found here, but other files are.",
            hint="name files of one place, and check the names",
        )
    for real, path in here.items():
        folder = next((str(parent) for parent in Path(real).parents if str(parent) in here), None)
        if folder is not None:
            raise InputError(
                f"{path!r} lies in the folder {here[folder]!r}, and both are named: it would be read twice.",
                hint="name the folder, or the files in it",
            )
    return sorted(here.values()), elsewhere


def _found(path: str) -> list[str]:
    """What is named so on this machine; a name that is also a pattern is the name."""
    local = _LOCAL.sub("", path)
    if "://" in local:
        return []
    if Path(local).exists():
        return [local]
    found = sorted(glob.glob(local, recursive=True))  # noqa: PTH207 - patterns may be absolute
    return [file for file in found if not Path(file).name.startswith(_HIDDEN)]


def _literal(path: str, kind: str) -> str:
    """Write a name so that Spark takes no part of it for a pattern."""
    if kind in _LAKES and _PATTERN.search(path):
        raise InputError(
            f"Spark may take the name of the {kind} table {path!r} for a pattern of names.",
            hint="give the folder a name without any of \\ { } [ ] * ?",
        )
    # The last part stays as it is named: what a link leads to may have a name that Spark passes over.
    given = Path(path)
    real = Path(os.path.realpath(given.parent)) / given.name if given.name not in ("", "..") else given.resolve()
    # proof: row-local.names
    return "file://" + _PATTERN.sub(r"\\\g<0>", str(real))


def _format(path: str) -> str:
    from ddpmi.engines.lakes import find_lake

    lake = find_lake(path)
    if lake is not None:
        return lake.kind
    suffix = Path(path).suffix.lower()
    if suffix in (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".gz", ".zst", ".txt"):
        raise InputError(
            f"Spark would guess types from the rows of {suffix} files.",
            hint="read them with a schema, and pass the DataFrame: observe(spark.read.schema(...).csv(...)), "
            "with Plan(..., row_local=True)",
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
    """Whether a DataFrame is the reading of typed files and nothing else, as far as Spark tells; when in doubt it is not.

    Where files are CSV or JSON, one cell may have decided the type of its column, and Spark does not tell whether it
    did or the user. The same is true of columns in the names of folders, as in ``year=2026/``.
    """
    try:
        # proof: row-local.spark
        return _is_bare_plan(frame) if is_connect(frame.sparkSession) else _is_bare_relation(frame)
    except Exception:  # noqa: BLE001 - another version of Spark; the owner has to say
        return False


def _is_bare_plan(frame: Any) -> bool:
    plan = frame._plan  # noqa: SLF001 - Connect has no other way to ask
    if type(plan).__name__ != "DataSource":
        return False
    if plan._format == "delta":  # noqa: SLF001
        return not plan._options  # noqa: SLF001 - one of them asks for the history of rows
    return plan._format in _TYPED and not any("=" in file for file in frame.inputFiles())  # noqa: SLF001


def _is_bare_relation(frame: Any) -> bool:
    analyzed = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - there is no other way to ask
    if analyzed.getClass().getSimpleName() != "LogicalRelation":
        return False
    relation = analyzed.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return False
    reader = relation.fileFormat().getClass().getName()
    return reader == _DELTA_READER or (reader in _READERS and relation.partitionSchema().length() == 0)
