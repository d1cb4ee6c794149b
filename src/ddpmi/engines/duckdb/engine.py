"""The engine that runs steps in DuckDB, on one machine. Data may be larger than memory."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from ddpmi._typing import KEYS
from ddpmi.engines.duckdb import expressions, files, frames
from ddpmi.engines.noising import drawn, in_key_order
from ddpmi.engines.progress import polled
from ddpmi.engines.streams import Stream
from ddpmi.errors import EngineError, Hint, InputError, SchemaError
from ddpmi.pipeline.dialects import DUCKDB, quote
from ddpmi.releases.tables import MemoryTables
from ddpmi.releases.workplaces import Workplace, leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import duckdb
    import pyarrow as pa

    from ddpmi.engines import Kind
    from ddpmi.engines.duckdb.source import DuckDBSource
    from ddpmi.pipeline.steps import Step
    from ddpmi.privacy.noise import TableNoise
    from ddpmi.privacy.randomness import Source as Words

_BATCH_ROWS = 1 << 20
_SPILL = "ddpmi-"
#: The first keeps windows from spilling to disk; the second reversed a cheap join, which then took three times as long.
_OPTIMIZERS_OFF = ("top_n_window_elimination", "partial_aggregate_pushdown")
#: These move parts of an expression out of its TRY, or compute with the smallest and largest cell outside of it.
_OPTIMIZERS_UNSAFE = ("common_subexpressions", "in_clause", "statistics_propagation")
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


class DuckDBEngine:
    """A private in-memory database with its own settings and a spill folder that only the user can read."""

    dialect = DUCKDB

    def __init__(
        self,
        source: DuckDBSource,
        columns: list[str] | None,
        *,
        expressions: bool = True,
        beside: tuple[DuckDBSource, list[str]] | None = None,
    ) -> None:
        import duckdb

        self.version = duckdb.__version__
        self.one_pass = False
        self._spill = _spill_folder(source.settings)
        try:
            opened = [source, *([] if beside is None else beside[:1])]
            extensions = {one.files.extension for one in opened if one.files is not None and one.files.extension}
            spill = str(self._spill.folder)
            self._connection = _connect(spill, source.settings, extensions, expressions=expressions)
        except BaseException:
            self._spill.remove()
            raise
        try:
            self.relation = self._relation(source, columns, "source")
            self.beside = "" if beside is None else self._relation(*beside, "beside")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()
        self._spill.remove()

    def _relation(self, source: DuckDBSource, columns: list[str] | None, name: str) -> str:
        """Return what to select the rows of a source from.

        Args:
            source: The data.
            columns: What is read; None for the schema alone.
            name: The name under which a frame is registered.
        """
        if source.made_up and columns is not None:
            self.one_pass |= frames.is_streamed(source.frame)
            return source.made_up_rows(columns)
        if source.files is not None:
            if columns is None:
                return source.files.relation(None)
            ready = source.files.ready(str(self._spill.folder / name))
            return files.with_times(ready.relation(columns), source.schema(), columns)
        with _own_errors("read the data"):
            if columns is None:
                self._connection.register(name, frames.schema_of(source.frame))
                return name
            adopted = frames.adopt(source.frame, columns)
            if isinstance(source.frame, Stream) and source.frame.copied:
                self._copy(name, adopted.data)
                return name
            self._connection.register(name, adopted.data)
        self.one_pass |= adopted.one_pass
        return name

    def _copy(self, name: str, reader: pa.RecordBatchReader) -> None:
        """Copy what a reader gives into a table. It is read by this thread, so its own errors come out as they are."""
        self._connection.register("piece", reader.schema.empty_table())
        self._connection.execute(f"CREATE TEMP TABLE {name} AS FROM piece")
        for batch in reader:
            self._connection.register("piece", batch)
            self._connection.execute(f"INSERT INTO {name} FROM piece")
        self._connection.unregister("piece")

    def types(self) -> dict[str, tuple[Kind, str]]:
        """Describe the relation's columns."""
        with _own_errors("read the schema"):
            rows = self._connection.execute(f"DESCRIBE SELECT * FROM {self.relation}").fetchall()
        return {name: (_kind(type_), type_) for name, type_, *_ in rows}

    def read(self, text: str, *, what: str, columns: Collection[str], open_names: bool) -> expressions.Reader:
        """Parse an expression, check that it is a function of one row, and return what it reads and calls."""
        with _own_errors("parse an expression"):
            serialized, empty = (
                str(self._connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()[0][0])
                for sql in (expressions.statement(text), expressions.statement("1"))
            )
        reader = expressions.Reader(what=what, columns=columns, open_names=open_names)
        reader.read(serialized, empty)
        return reader

    def coarse_times(self, read: files.Files, columns: Collection[str]) -> str | None:
        """Say which column of Parquet files holds times in milliseconds; reading them fails if one is too large."""
        asked = f"SELECT name FROM parquet_schema({read.listed()}) WHERE logical_type LIKE '%MILLIS=Milli%'"
        with _own_errors("read the schema"):
            found = {name for (name,) in self._connection.execute(asked).fetchall()}
        coarse = next((name for name in columns if name in found), None)
        return (
            None if coarse is None else f"The column {coarse!r} holds timestamps in milliseconds, which are not read."
        )

    def check_columns(self, reader: expressions.Reader) -> None:
        """Refuse columns of types for which some cell could make an expression fail. Reads no row."""
        if not reader.reads:
            return
        with _own_errors("read the schema"):
            listed = ", ".join(quote(name) for name in reader.reads)
            found = self._connection.sql(f"SELECT {listed} FROM {self.relation}").types
        for name, type_ in zip(reader.reads, found, strict=True):
            if not expressions.is_known(type_):
                raise SchemaError(
                    f"{reader.what[0].upper()}{reader.what[1:]} reads {name!r}, whose type {type_} it cannot take.",
                    hint="cast the column before: to text, numbers, dates, lists or structs",
                )
            if name in reader.repeated and type_.id not in expressions.SIZED:
                raise SchemaError(
                    f"{reader.what[0].upper()}{reader.what[1:]} reads {name!r} in a lambda, once for each item of a list.",
                    hint="a lambda may read its own parameters, and columns of numbers and dates",
                )

    def check_calls(self, reader: expressions.Reader) -> None:
        """Try each call with its own constants on made-up cells. A call that fails here would fail after the charge."""
        import duckdb

        for call in reader.calls:
            try:
                # proof: row-local.expressions
                self._connection.execute(f"SELECT {self._made_up(call, list(reader.reads))}").fetchall()
            except (duckdb.Error, KeyError) as error:
                why = "" if isinstance(error, KeyError) else f": {str(error).splitlines()[0]}"
                raise InputError(
                    f"{reader.what[0].upper()}{reader.what[1:]} calls {call.name!r} with constants or types it does not take{why}.",
                    hint="try the call on a made-up row; in lambdas, cast or cut dates outside",
                ) from None

    def _made_up(self, call: expressions.Call, reads: list[str]) -> str:
        """Return a call as SQL, with made-up cells in place of columns."""
        texts = [self._text(node) for node in call.arguments]
        if call.name in expressions.TYPED:
            if call.inside:
                raise KeyError(call.name)
            listed = ", ".join(quote(name) for name in reads) or "1"
            others = [place for place in range(len(texts)) if place not in call.constants]
            asked = ", ".join(f"TRY({texts[place]})" for place in others)
            bound = f"SELECT {asked} FROM (SELECT {listed} FROM {self.relation}) AS source"
            for place, type_ in zip(others, self._connection.sql(bound).types, strict=True):
                texts[place] = expressions.CELLS[str(type_)]
        else:
            cell = "'{}'" if call.name in expressions.PATHS else "['a']" if call.name == "array_to_string" else "'a'"
            texts = [text if place in call.constants else cell for place, text in enumerate(texts)]
        return f"{quote(call.name)}({', '.join(texts)})"

    def _text(self, node: Any) -> str:
        """Return the tree of an argument as SQL."""
        tree = self._connection.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()[0][0]
        whole = json.loads(str(tree))
        whole["statements"][0]["node"]["select_list"] = [node]
        made = self._connection.execute("SELECT json_deserialize_sql($1::JSON)", [json.dumps(whole)]).fetchall()[0][0]
        return str(made).removeprefix("SELECT ")

    def type_of(self, text: str, reads: list[str], what: str) -> tuple[Kind, str]:
        """Bind an expression to the columns it reads. Reads no row."""
        import duckdb

        listed = ", ".join(quote(name) for name in reads) or "1"
        guarded = expressions.guarded(text)
        sql = f"SELECT {guarded} AS bound FROM (SELECT {listed} FROM {self.relation}) AS source"
        try:
            type_ = str(self._connection.execute(f"DESCRIBE {sql}").fetchall()[0][1])
            # DuckDB computes constants when it plans: an error of theirs comes here, not after the charge.
            self._connection.execute(f"EXPLAIN {sql} WHERE {guarded} IS NOT NULL").fetchall()
        except duckdb.BinderException as error:
            why = str(error).removeprefix("Binder Error: ").split("\n")[0]
            raise SchemaError(
                f"{what[0].upper()}{what[1:]} does not fit the columns: {why}",
                hint="columns of CSV and JSON files are text: year(CAST(visited AS DATE))",
            ) from None
        except duckdb.Error as error:
            raise InputError(
                f"{what[0].upper()}{what[1:]} cannot be computed ({type(error).__name__}).",
                hint="try it on a table of made-up rows first",
            ) from None
        return _kind(type_), type_

    def run(self, step: Step, *, salt: str = "", progress: Callable[[float], None] | None = None) -> None:
        """Define a view; a step to be frozen is evaluated once into a table of this connection."""
        kind = "TABLE" if step.freeze else "VIEW"
        statement = f"CREATE TEMP {kind} {quote(step.name)} AS {step.sql}"
        with _own_errors(f"compute {step.name}"), polled(self._fraction, progress if step.freeze else None):
            self._drop(step.name)
            # The parser decides: a text or a name in the caller's expression may look like the parameter.
            wanted = self._connection.extract_statements(statement)[0].named_parameters
            self._connection.execute(statement, {"salt": salt} if "salt" in wanted else None)

    def put(self, name: str, table: pa.Table) -> None:
        """Register a small table of public keys."""
        with _own_errors(f"keep {name}"):
            self._drop(name)
            self._connection.register(name, table)

    def _drop(self, name: str) -> None:
        """Remove a table of this name, which an earlier release from the same sums made."""
        import duckdb

        for kind in ("VIEW", "TABLE"):
            with suppress(duckdb.CatalogException):  # it is of the other kind
                self._connection.execute(f"DROP {kind} IF EXISTS {quote(name)}")

    def draw(self, name: str, sql: str, keys: list[str], noise: TableNoise | None, source: Words | None) -> None:
        """Stream exact sums through the noise into memory. Sums below the threshold are never stored."""
        exact = self.batches(sql if source is None else in_key_order(sql, keys))
        self.put(name, drawn(exact, keys, noise, source))

    def released(self) -> MemoryTables:
        """Read the drawn tables into memory."""
        found = {}
        for name, keys in KEYS.items():
            listed = ", ".join([*keys, "sum"])
            with _own_errors(f"read the released {name}"):
                sql = in_key_order(f"SELECT {listed} FROM drawn_{name}", list(keys))
                found[name] = self._connection.sql(sql).to_arrow_table()
        return MemoryTables(**found)

    def batches(self, sql: str, *, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
        with _own_errors("read the sums"):
            yield from self._connection.sql(sql).to_arrow_reader(rows)

    def _fraction(self) -> float | None:
        """Return how much of the running query is done, as far as DuckDB knows."""
        percent = self._connection.query_progress()
        return percent / 100 if percent >= 0 else None


def _kind(type_: str) -> Kind:
    return _KINDS.get(type_.partition("(")[0], "other")


def _spill_folder(settings: Mapping[str, str]) -> Workplace:
    """Make a folder that only the user can read. Folders of processes that died are removed first: they hold exact sums."""
    parent = settings.get("temp_directory")
    leftovers(parent, prefix=_SPILL)
    try:
        return Workplace.new(parent, prefix=_SPILL)
    except (OSError, ValueError):
        raise InputError(
            "No folder for temporary files can be made.",
            hint=Hint(python="conf={'temp_directory': '/path/with/room'}", cli="--conf temp_directory=/path/with/room"),
        ) from None


def _connect(
    spill: str, settings: Mapping[str, str], extensions: Collection[str] = (), *, expressions: bool
) -> duckdb.DuckDBPyConnection:
    """Open a database; for the caller's expressions, switch off the optimizers that rewrite them."""
    import duckdb

    connection = duckdb.connect(":memory:")
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    # proof: row-local.expressions
    wrong = (*_OPTIMIZERS_OFF, *(_OPTIMIZERS_UNSAFE if expressions else ()))
    off = ",".join(name for name in wrong if name in known)
    wanted = {
        "preserve_insertion_order": "false",
        "disabled_optimizers": off,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "TimeZone": "UTC",  # expressions give the same keys on every machine
    }
    unknown = set(settings) - set(_SETTINGS)
    if unknown:
        raise InputError(f"The embedded engine has no setting {min(unknown)!r}.", hint=f"one of {', '.join(_SETTINGS)}")
    for name, value in {**wanted, **settings, "temp_directory": spill}.items():
        try:
            connection.execute(f"SET {name} = '{str(value).replace(chr(39), chr(39) * 2)}'")
        except duckdb.Error:
            raise InputError(
                f"The embedded engine cannot set {name} to {value!r}.",
                hint=Hint(python="memory_limit='4GB', threads=2", cli="--conf memory_limit=4GB, --conf threads=2"),
            ) from None
    for choice in ("enable_progress_bar_print = false", "enable_progress_bar = true"):
        # In a notebook without ipywidgets DuckDB has no progress: the release runs without a bar.
        with suppress(duckdb.Error):
            connection.execute(f"SET {choice}")
    for extension in extensions:
        _load(connection, extension)
    connection.execute("SET lock_configuration = true")
    return connection


def _load(connection: duckdb.DuckDBPyConnection, extension: str) -> None:
    """Load an installed extension; nothing is downloaded."""
    import duckdb

    try:
        connection.execute(f"LOAD {extension}")
    except duckdb.Error:
        raise InputError(
            f"Addresses of this kind need DuckDB's {extension} extension, which is not installed.",
            hint=f"python -c \"import duckdb; duckdb.sql('INSTALL {extension}')\"",
        ) from None


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
            hint=Hint(
                python="give it more with conf={'memory_limit': '8GB'}, or a roomier temp_directory",
                cli="give it more with --conf memory_limit=8GB, or a roomier temp_directory",
            ),
        ) from None
    except duckdb.Error as error:
        raise EngineError(
            f"The embedded engine could not {doing} ({type(error).__name__}). Its message may quote rows, so it is not shown.",
            hint="check that the files are readable and complete",
        ) from None
