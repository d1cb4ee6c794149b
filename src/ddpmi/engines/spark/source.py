"""The data that Spark reads: DataFrames, tables of its catalog and files, and what their columns hold."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.engines.noising import noisy
from ddpmi.engines.spark.engine import SparkEngine, Staging, schema_of
from ddpmi.engines.spark.sessions import check_settings, find_session, folders_as_text, is_connect, own_errors
from ddpmi.errors import EngineError, Hint, InputError, SchemaError
from ddpmi.pipeline.dialects import SPARK, Dialect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ddpmi.engines import Beside, Kind, Source

_PATTERN = re.compile(r"[\\{}\[\]*?]")
#: An address of this machine's own files.
_LOCAL = re.compile(r"file:(//)?(?=/)")
#: Names that Spark ignores.
_HIDDEN = ("_", ".")
#: Formats of files that hold their types. Spark reads Delta and Iceberg with a package of their own.
_LAKES = ("delta", "iceberg")
_TYPED = ("parquet", "orc")
_FILES = (*_TYPED, *_LAKES)
#: Readers of Hive tables with typed files.
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
#: Types of text that is compared by its bytes and is not padded.
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
    unique: tuple[frozenset[str], ...] = ()
    staging: Path | None = None
    """Folder that the driver and all executors share. Noisy tables are written there before they are published."""
    engine: str = "spark"
    dialect: Dialect = SPARK
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
        """Refuse: only DuckDB's parser can check that an expression is a function of one row."""
        del text, columns
        raise _not_read(what)

    def guarded(self, text: str) -> str:
        """Refuse, as `check` does."""
        raise _not_read(f"the expression {text!r}")

    def number(self, column: str, kind: Kind) -> str:  # noqa: ARG002 - no column is untyped here
        """Return the column: it has a type, and casting it to a double never fails."""
        return column

    def text_count(self, column: str, most: int) -> str:
        """Refuse: columns have types here, and `check_types` accepts no text as a count."""
        del most
        raise SchemaError(f"The count column {column} holds text.", hint="cast it to a whole number first")

    def prepared(self, target: Path | None) -> SparkSource:
        """Return the data with a folder for what Spark writes. First test with a public number that tasks can write there."""
        folder = self.staging or (Path(tempfile.gettempdir()) if target is None else target.absolute().parent)
        if _PATTERN.search(str(folder)):
            raise InputError(
                f"Spark takes the folder {folder} for a pattern of names.",
                hint=Hint(python="conf={'staging': '/shared/plain/folder'}", cli="--conf staging=/shared/plain/folder"),
            )
        with Staging(folder) as staging:
            _probe(self.frame.sparkSession, staging)
        return replace(self, staging=folder)

    def rehearsal(self) -> None:
        """Return nothing: a job of made-up rows takes seconds, and `prepared` has run a task."""

    def check_beside(self, other: Source) -> None:
        """Refuse data of another engine or session."""
        if not isinstance(other, SparkSource):
            raise InputError(
                f"These data are read by spark, and the table of the seed by {other.engine}.",
                hint="observe both with engine='spark'",
            )
        if other.frame.sparkSession is not self.frame.sparkSession:
            raise InputError(
                "These data and the table of the seed belong to two Spark sessions.",
                hint="make both DataFrames in one session",
            )

    def open(self, columns: list[str], *, expressions: bool = True, beside: Beside | None = None) -> SparkEngine:
        """Start an engine over these columns, and those of a second table; they hold no expressions."""
        del expressions
        second = None
        if beside is not None:
            self.check_beside(beside.source)
            second = _selected(beside.source, beside.columns)
        return SparkEngine(_selected(self, columns), self.staging or Path(tempfile.gettempdir()), second)


def _selected(source: Any, columns: list[str]) -> Any:
    with own_errors("read the data"):
        return source.frame.select([SPARK.quote(name) for name in columns])


def _not_read(what: str) -> InputError:
    return InputError(
        f"{what[0].upper()}{what[1:]} is SQL, which is not read on Spark.",
        hint=Hint(
            do="make the column or filter in Spark first",
            python="observe(df.where(...)), with Plan(..., row_local=True)",
            cli="--table VIEW --row-local",
        ),
    )


def _probe(session: Any, staging: Staging) -> None:
    """Let a task import the code that adds noise and write a public number, and check that it can be read here."""
    import pyarrow.parquet as pq

    place = staging.new()
    with own_errors(
        "run a task that writes to the staging folder",
        hint=Hint(
            do=f"install ddpmi where tasks run, and share {staging.parent} with them, or name another folder",
            python="conf={'staging': '/shared/folder'}",
            cli="--conf staging=/shared/folder",
        ),
    ):
        session.range(1, 2).toDF("sum").mapInArrow(partial(noisy, noise=None), schema_of([])).write.parquet(
            f"file://{place}"
        )
    files = sorted(place.glob("*.parquet")) if place.is_dir() else []
    if [row for file in files for row in pq.read_table(file).column("sum").to_pylist()] != [1]:
        raise EngineError(
            f"What Spark's tasks write to {staging.parent} cannot be seen here.",
            hint=Hint(
                do="write the release to a folder that all machines share, or name one",
                python="conf={'staging': '/shared/folder'}",
                cli="--conf staging=/shared/folder",
            ),
        )


def _kind(field: Any) -> tuple[Kind, str]:
    """Return what a column holds, by the class of its type: user-defined types may have the same name.

    CHAR is padded, and a collation makes different texts equal, so neither has one text for each key.
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
    """Name a DataFrame. Unless it only reads files, one of its rows may depend on several units."""
    check_settings(settings)
    if _is_random(frame):
        raise InputError(
            "The DataFrame computes random numbers, so reading it again would give other rows.",
            hint="write it to a table first, and observe that",
        )
    return SparkSource(frame=frame, query=None if _is_bare(frame) else "Spark DataFrame", staging=_staging(settings))


def table_source(name: str, settings: Mapping[str, str]) -> SparkSource:
    """Name a table or view of the catalog. A table without typed files may be a query of another system."""
    session = find_session(settings)
    with own_errors(f"find the table {name}"):
        found = session.catalog.getTable(name)
        query: str | None = "view of Spark's catalog"
        if found.tableType in ("MANAGED", "EXTERNAL"):
            described = [tuple(row) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
            query = None if _is_plain(session, found, described) else "table of Spark's catalog without typed files"
        frame = session.table(name)
    return SparkSource(frame=frame, query=query, staging=_staging(settings))


def _is_plain(session: Any, found: Any, described: list[tuple[Any, ...]]) -> bool:
    """Tell whether a table of the catalog is typed files and nothing else; False when in doubt."""
    # The last such line: a column might have this name.
    # proof: row-local.spark
    starts = [place for place, row in enumerate(described) if row[0] == "# Detailed Table Information"]
    facts = {row[0]: row[1] for row in described[starts[-1] :]} if starts else {}
    provider = str(facts.get("Provider", "")).lower()
    if provider == "hive":
        return facts.get("Serde Library") in _SERDES
    return provider in _FILES and (provider != "iceberg" or not _is_about_files(session, found))


def _is_about_files(session: Any, found: Any) -> bool:
    """Tell whether a table is Iceberg's metadata of another one, as db.visits.files is: a row describes many units."""
    parent = [SPARK.quote(part) for part in (found.catalog, *(found.namespace or ())) if part]
    try:
        return bool(session.catalog.tableExists(".".join(parent)))
    except Exception:  # noqa: BLE001 - a catalog that does not answer: in doubt
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
            # Connect analyses a frame again at each use, when the settings are restored.
            frame = session.read.format(kind).schema(frame.schema).load(places)
    return SparkSource(frame=frame, staging=_staging(settings))


def _named(paths: list[str]) -> tuple[list[str], list[str]]:
    """Return the files on this machine, each once, with patterns expanded; then paths that only Spark may find.

    Names are resolved here, because Spark's process may run in another folder or on another file system.
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
                f"{path!r} is in the folder {here[folder]!r}, and both are named: it would be read twice.",
                hint="name the folder, or the files in it",
            )
    return sorted(here.values()), elsewhere


def _found(path: str) -> list[str]:
    """Return the files of this name on this machine; if a file has this name, it is not taken for a pattern."""
    local = _LOCAL.sub("", path)
    if "://" in local:
        return []
    if Path(local).exists():
        return [local]
    found = sorted(glob.glob(local, recursive=True))  # noqa: PTH207 - patterns may be absolute
    return [file for file in found if not Path(file).name.startswith(_HIDDEN)]


def _literal(path: str, kind: str) -> str:
    """Write a name so that Spark does not take any part of it for a pattern."""
    if kind in _LAKES and _PATTERN.search(path):
        raise InputError(
            f"Spark may take the name of the {kind} table {path!r} for a pattern of names.",
            hint="give the folder a name without any of \\ { } [ ] * ?",
        )
    # The last part keeps its name: a link may lead to a name that Spark ignores.
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
            hint=Hint(
                do="read them with a schema, and pass the DataFrame",
                python="observe(spark.read.schema(...).csv(...)), with Plan(..., row_local=True)",
                cli="observe(spark.read.schema(...).csv(...)), with --row-local",
            ),
        )
    return "orc" if suffix == ".orc" else "parquet"


def _staging(settings: Mapping[str, str]) -> Path | None:
    return Path(settings["staging"]).absolute() if "staging" in settings else None


def _is_random(frame: Any) -> bool:
    """Tell whether a DataFrame may differ from one evaluation to the next, as far as Spark says; Connect does not say."""
    # proof: one-draw.exact
    try:
        return not frame._jdf.queryExecution().analyzed().deterministic()  # noqa: SLF001 - there is no other way to ask
    except Exception:  # noqa: BLE001 - Connect, or another version of Spark
        return False


def _is_bare(frame: Any) -> bool:
    """Tell whether a DataFrame reads typed files and does nothing else, as far as Spark says; False when in doubt.

    In CSV or JSON files one cell may have decided the type of its column, and Spark does not say whether it did or the user.
    The same holds for columns in the names of folders, as in ``year=2026/``.
    """
    try:
        # proof: row-local.spark
        return _is_bare_plan(frame) if is_connect(frame.sparkSession) else _is_bare_relation(frame)
    except Exception:  # noqa: BLE001 - another version of Spark; the owner has to declare it
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
