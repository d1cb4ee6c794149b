"""The embedded engine: files and frames, on one machine, larger than memory if need be."""

from __future__ import annotations

import shutil
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ddpmi.engines import files, frames
from ddpmi.errors import EngineError, InputError
from ddpmi.sql import DUCKDB, Dialect, Step, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import duckdb
    import pyarrow as pa

    from ddpmi.engines import Kind

_BATCH_ROWS = 1 << 20
_POLL_SECONDS = 0.2
#: The first keeps windows out of core; the second turned a cheap join around and took three times as long.
_OPTIMIZERS_OFF = ("top_n_window_elimination", "partial_aggregate_pushdown")
_SETTINGS = ("memory_limit", "threads", "temp_directory")
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_KINDS: dict[str, Kind] = {
    "VARCHAR": "text",
    "UUID": "text",
    "ENUM": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "DECIMAL": "number",
    "FLOAT": "number",
    "DOUBLE": "number",
    **dict.fromkeys([*_INTEGERS, *(f"U{name}" for name in _INTEGERS)], "integer"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDBSource:
    """Files, an Arrow table or reader, a frame, or a DuckDB relation."""

    files: files.Files | None = None
    frame: Any = None
    query: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    engine: str = "duckdb"
    dialect: Dialect = DUCKDB

    def schema(self) -> dict[str, tuple[Kind, str]]:
        """Return column -> (kind, type). Reads file metadata at most."""
        with DuckDBEngine(self, columns=None) as engine:
            types = engine.types()
        text: Kind = "untyped" if self.files is not None and self.files.format == "csv" else "text"
        return {name: (text if kind == "text" else kind, type_) for name, (kind, type_) in types.items()}

    def open(self, columns: list[str]) -> DuckDBEngine:
        """Start an engine over these columns."""
        return DuckDBEngine(self, columns=columns)


class DuckDBEngine:
    """A private in-memory database with its own settings and a spill folder that only the user can read."""

    dialect = DUCKDB

    def __init__(self, source: DuckDBSource, columns: list[str] | None) -> None:
        import duckdb

        self.version = duckdb.__version__
        self.one_pass = False
        self._spill = _spill_folder(source.settings)
        try:
            self._connection = _connect(self._spill, source.settings)
            self.relation = self._relation(source, columns)
        except BaseException:
            shutil.rmtree(self._spill, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def _relation(self, source: DuckDBSource, columns: list[str] | None) -> str:
        if source.files is not None:
            return source.files.relation
        frame = source.frame
        if frames.is_a(frame, "duckdb", "DuckDBPyRelation"):
            listed = columns or list(frame.columns)
            narrow = frame.project(", ".join(quote(name) for name in listed))
            if columns is None:
                return self._types_only(narrow)
            frame = narrow.to_arrow_reader(_BATCH_ROWS)
            self.one_pass = True
        elif frames.column_names(frame) is not None:
            frame = frames.to_arrow(frame, columns or frames.column_names(frame) or [])
        elif frames.is_a(frame, "pyarrow", "RecordBatchReader"):
            if columns is None:
                frame = frame.schema.empty_table()
            self.one_pass = True
        self._connection.register("source", frame)
        return "source"

    def _types_only(self, relation: duckdb.DuckDBPyRelation) -> str:
        empty = relation.limit(0).to_arrow_table()
        self._connection.register("source", empty)
        return "source"

    def types(self) -> dict[str, tuple[Kind, str]]:
        """Describe the relation's columns."""
        with _own_errors("read the schema"):
            rows = self._connection.execute(f"DESCRIBE SELECT * FROM {self.relation}").fetchall()
        return {name: (_KINDS.get(type_.split("(")[0], "other"), type_) for name, type_, *_ in rows}

    def number(self, column: str, kind: Kind) -> str:
        """Read a column as a number; text of untyped files that is no number becomes NULL."""
        return f"TRY_CAST({column} AS DOUBLE)" if kind == "untyped" else column

    def run(self, step: Step, *, salt: str, progress: Callable[[float], None] | None = None) -> None:
        """Define a view, or evaluate once into a table of this connection."""
        kind = "TABLE" if step.freeze else "VIEW"
        statement = f"CREATE TEMP {kind} {quote(step.name)} AS {step.sql}"
        with _own_errors(f"compute {step.name}"), self._watched(progress if step.freeze else None):
            self._connection.execute(statement, {"salt": salt} if step.salted else None)

    def put(self, name: str, table: pa.Table) -> None:
        """Register a small table of released keys."""
        self._connection.register(name, table)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
        with _own_errors("read the sums"):
            yield from self._connection.sql(sql).to_arrow_reader(_BATCH_ROWS)

    @contextmanager
    def _watched(self, progress: Callable[[float], None] | None) -> Iterator[None]:
        """Report the running query's fraction from a second thread."""
        if progress is None:
            yield
            return
        done = threading.Event()

        def poll() -> None:
            while not done.wait(_POLL_SECONDS):
                percent = self._connection.query_progress()
                if percent >= 0:
                    progress(percent / 100)

        watcher = threading.Thread(target=poll, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _spill_folder(settings: Mapping[str, str]) -> str:
    try:
        return tempfile.mkdtemp(prefix="ddpmi-", dir=settings.get("temp_directory"))  # mode 0700
    except OSError:
        raise InputError(
            "No folder for temporary files can be made.", hint="conf={'temp_directory': '/path/with/room'}"
        ) from None


def _connect(spill: str, settings: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:")
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    off = ",".join(name for name in _OPTIMIZERS_OFF if name in known)
    wanted = {
        "preserve_insertion_order": "false",
        "disabled_optimizers": off,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "enable_progress_bar": "true",
        "enable_progress_bar_print": "false",
    }
    unknown = set(settings) - set(_SETTINGS)
    if unknown:
        raise InputError(f"The embedded engine has no setting {min(unknown)!r}.", hint=f"one of {', '.join(_SETTINGS)}")
    for name, value in {**wanted, **settings, "temp_directory": spill}.items():
        try:
            connection.execute(f"SET {name} = '{str(value).replace(chr(39), chr(39) * 2)}'")
        except duckdb.Error:
            raise InputError(
                f"The embedded engine cannot set {name} to {value!r}.", hint="memory_limit='4GB', threads=2"
            ) from None
    connection.execute("SET lock_configuration = true")
    return connection


@contextmanager
def _own_errors(doing: str) -> Iterator[None]:
    """Replace the engine's errors, which may quote rows."""
    import duckdb

    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as error:
        # DuckDB 2.0 reports Ctrl-C as a bare RuntimeError.
        if isinstance(error, duckdb.InterruptException) or str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise
    except duckdb.OutOfMemoryException:
        raise EngineError(
            f"The embedded engine ran out of memory or disk while it tried to {doing}.",
            hint="give it more with conf={'memory_limit': '8GB'}, or a roomier temp_directory",
        ) from None
    except duckdb.Error as error:
        raise EngineError(
            f"The embedded engine could not {doing} ({type(error).__name__}). Its message may quote rows, so it is not shown.",
            hint="check that the files are readable and complete",
        ) from None
