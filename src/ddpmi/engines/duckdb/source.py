"""The data that DuckDB reads: files and frames, what their columns hold, and which expressions fit them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.engines import lakes, workbooks
from ddpmi.engines.duckdb import databases, expressions, files, frames
from ddpmi.engines.duckdb.engine import DuckDBEngine
from ddpmi.engines.streams import Stream
from ddpmi.errors import Hint, InputError, SchemaError
from ddpmi.pipeline.dialects import DUCKDB, Dialect
from ddpmi.releases.room import check_room

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ddpmi.engines import Beside, Kind, Source

#: White space around, a plus, digits with a point, an exponent. Signs and digits are ASCII.
_NUMBER = r"\s*\+?([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?\s*"
#: The usual spellings, read faster. 18 digits fit 64 bits, and 15 digits fit a double.
_PLAIN, _POINT = "[0-9]{1,18}", r"[0-9]{1,15}\.0*"
#: A number with more digits is above all 64-bit integers.
_FITS = 19
#: No cell has 10^12 digits, so of a larger exponent only the sign matters.
_FAR = 10**12
#: With this many made-up rows and keys, units have several labels and too many pairs, and windows are partitioned.
_MADE_UP_ROWS, _MADE_UP_KEYS = 500, 40
#: A made-up cell of each kind, as SQL over a small number.
_CELLS: dict[Kind, str] = {
    "text": "'k' || ({n})",
    "untyped": "'' || ({n})",
    "integer": "{n}",
    "number": "{n}",
    "boolean": "({n}) % 2 = 0",
    "date": "DATE '2000-01-01' + CAST({n} AS INTEGER)",
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
    unique: tuple[frozenset[str], ...] = ()
    made_up: bool = False
    """Whether a few made-up rows take the place of the data, for a rehearsal."""
    known: dict[str, tuple[Kind, str]] = field(default_factory=dict, repr=False, compare=False)
    """The schema, once it has been read."""

    @property
    def open_names(self) -> bool:
        """Whether rows may have columns that the schema does not list."""
        return self.files is not None and self.files.format == "json"

    @property
    def in_memory(self) -> bool:
        """Whether the caller's program made the rows and the column types."""
        return frames.in_memory(self.frame)

    @property
    def encoding(self) -> str | None:
        """The encoding of text files; None for data that declares its own."""
        return None if self.files is None or self.files.format == "parquet" else self.files.encoding

    def schema(self) -> dict[str, tuple[Kind, str]]:
        """Return column -> (kind, type). Reads file metadata at most."""
        if not self.known:
            self.known.update(self._schema())
        return dict(self.known)

    def _schema(self) -> dict[str, tuple[Kind, str]]:
        if self.files is not None and self.files.format == "json":
            return dict.fromkeys(self.files.partitions, ("untyped", "VARCHAR"))
        with DuckDBEngine(self, columns=None) as engine:
            types = engine.types()
        if self.files is None:
            unread = frames.unread(self.frame)
            untyped_text = isinstance(self.frame, Stream) and self.frame.untyped
            return {
                name: ("other" if name in unread else "untyped" if untyped_text else kind, type_)
                for name, (kind, type_) in types.items()
            }
        untyped = set(self.files.partitions) if self.files.format == "parquet" else set(types)
        return {name: ("untyped" if name in untyped else kind, type_) for name, (kind, type_) in types.items()}

    def check(self, text: str, *, what: str, columns: Collection[str]) -> tuple[tuple[str, ...], Kind, str]:
        """Check that an expression is a function of one row; return the columns it reads, its kind and its type.

        Args:
            text: A scalar SQL expression.
            what: The name of the expression in messages.
            columns: The columns that exist.
        """
        with DuckDBEngine(self, columns=None) as engine:
            reader = engine.read(text, what=what, columns=columns, open_names=self.open_names)
            reads = tuple(reader.reads)
            self._check_cells(reads, engine)
            if self.files is not None:
                engine.relation = files.with_times(self.files.relation(list(reads)), self.schema(), reads)
            engine.check_columns(reader)
            found = engine.type_of(text, list(reads), what)
            engine.check_calls(reader)
            return reads, *found

    def _check_cells(self, columns: Collection[str], engine: DuckDBEngine) -> None:
        """Refuse columns of an expression whose reading could fail at one cell. Looks at the schema only."""
        # proof: row-local.cells
        if self.files is None:
            unread = frames.unread(self.frame)
            why = next((unread[name] for name in columns if name in unread), None)
        elif self.files.format == "parquet":
            why = files.unread(self.schema(), columns) or engine.coarse_times(self.files, columns)
        else:
            return
        if why:
            raise SchemaError(why, hint="cast it to text, or to a timestamp in microseconds, where the data is written")

    def guarded(self, text: str) -> str:
        """Return SQL of a checked expression; where it fails on a row, its result is NULL."""
        return expressions.guarded(text)

    def number(self, column: str, kind: Kind) -> str:
        """Return SQL that reads a column as a number; text of untyped files that is no number becomes NULL."""
        return f"TRY_CAST({column} AS DOUBLE)" if kind == "untyped" else column

    def text_count(self, column: str, most: int) -> str:
        """Return SQL that reads text as a whole number from 0 to a largest one; NULL for any other text.

        The count is exact in every spelling. A double would round large counts, so digits are read as digits. Counts above
        the largest one become the largest one: to drop them would lose all units of a cell when one unit is added.

        Args:
            column: The text, as SQL that is cheap to repeat.
            most: What larger numbers count as, at most 2^63 - 1.

        >>> DuckDBSource().text_count("n", 100).startswith("CASE WHEN regexp_full_match(n, ")
        True
        """
        before, after, power = (f"regexp_extract({column}, '{_NUMBER}', {group})" for group in (1, 2, 3))
        # The number is its significant digits times ten to a power; it is whole unless that power is negative.
        digits = f"ltrim({before} || {after}, '0')"
        significant = f"rtrim({digits}, '0')"
        sign = f"CASE WHEN {power} LIKE '-%' THEN {-_FAR} ELSE {_FAR} END"
        exponent = f"greatest(least(coalesce(TRY_CAST({power} AS BIGINT), {sign}), {_FAR}), {-_FAR})"
        given = f"CASE WHEN {power} = '' THEN 0 ELSE {exponent} END"
        zeros = f"({given} - length({after}) + length({digits}) - length({significant}))"
        length = f"(length({significant}) + {zeros})"
        padded = f"rpad({significant}, CAST(greatest(least({length}, {_FITS}), 0) AS INTEGER), '0')"
        # least() would skip a NULL and return the limit.
        none = f"{column} IS NULL OR NOT regexp_full_match({column}, '{_NUMBER}') OR {before} || {after} = ''"
        # proof: bounding.row-local
        return (
            f"CASE WHEN regexp_full_match({column}, '{_PLAIN}') THEN least(TRY_CAST({column} AS BIGINT), {most})\n"
            f"WHEN regexp_full_match({column}, '{_POINT}') THEN least(CAST(TRY_CAST({column} AS DOUBLE) AS BIGINT), {most})\n"
            f"WHEN {none} THEN NULL\n"
            f"WHEN {significant} = '' THEN 0\n"
            f"WHEN {zeros} < 0 THEN NULL\n"
            f"WHEN {length} > {_FITS} THEN {most}\n"
            f"ELSE CAST(least(TRY_CAST({padded} AS HUGEINT), {most}) AS BIGINT) END"
        )

    def prepared(self, target: Path | None) -> DuckDBSource:  # noqa: ARG002 - everything happens in this process
        """Return the data as it is, if there is room for temporary files."""
        place = Path(self.settings.get("temp_directory", tempfile.gettempdir()))
        check_room(
            place,
            hint=Hint(python="conf={'temp_directory': '/path/with/room'}", cli="--conf temp_directory=/path/with/room"),
        )
        return self

    def rehearsal(self) -> DuckDBSource:
        """Return made-up rows in place of the data, if its files and drivers are there."""
        if isinstance(self.frame, Stream):
            self.frame.check_driver()
        if self.files is not None:
            self.files.check_readable()
        self.schema()
        return replace(self, made_up=True)

    def made_up_rows(self, columns: list[str]) -> str:
        """Return SQL to select made-up rows from, with the types of these columns.

        >>> DuckDBSource(known={"id": ("integer", "BIGINT")}).made_up_rows(["id"])
        '(SELECT TRY_CAST(hash(i, 0) % 40 AS BIGINT) AS "id" FROM range(500) AS made_up(i)) AS source'
        """
        known = self.schema()
        cells = []
        for place, name in enumerate(columns):
            kind, type_ = known.get(name, ("untyped", "VARCHAR"))
            cell = _CELLS.get(kind, "NULL").format(n=f"hash(i, {place}) % {_MADE_UP_KEYS}")
            cells.append(f"TRY_CAST({cell} AS {type_}) AS {DUCKDB.quote(name)}")
        return f"(SELECT {', '.join(cells) or '1'} FROM range({_MADE_UP_ROWS}) AS made_up(i)) AS source"

    def check_beside(self, other: Source) -> None:
        """Refuse data that another engine reads, and one reader for both tables."""
        if not isinstance(other, DuckDBSource):
            raise _other_engine(other)
        if other.frame is self.frame and frames.read_once(self.frame):
            raise InputError(
                "An Arrow reader can be read only once, and both tables are this one.",
                hint="read it into a table first: reader.read_all()",
            )

    def open(self, columns: list[str], *, expressions: bool = True, beside: Beside | None = None) -> DuckDBEngine:
        """Start an engine over these columns, and those of a second table. These data's settings hold for both."""
        if beside is None:
            return DuckDBEngine(self, columns=columns, expressions=expressions)
        if not isinstance(beside.source, DuckDBSource):
            raise _other_engine(beside.source)
        return DuckDBEngine(
            self, columns=columns, expressions=expressions, beside=(beside.source, list(beside.columns))
        )


def _other_engine(other: Source) -> InputError:
    return InputError(
        f"These data are read by duckdb, and the table of the seed by {other.engine}.",
        hint="observe both with the same engine",
    )


def path_source(paths: list[str], settings: Mapping[str, str], encoding: str | None) -> DuckDBSource:
    """Name files, or one Delta or Iceberg table. Reads no row."""
    lake = lakes.find_lake(paths[0]) if len(paths) == 1 else None
    if lake is not None and encoding is None:
        return DuckDBSource(frame=lake, settings=settings)
    return DuckDBSource(files=files.find_files(paths, encoding), settings=settings)


def database_source(path: str, settings: Mapping[str, str], *, table: str | None, query: str | None) -> DuckDBSource:
    """Name a table or a query of a DuckDB file. Reads no row."""
    found, kind = databases.find_table(path, table=table, query=query)
    return stream_source(found, kind, settings)


def workbook_source(path: str, settings: Mapping[str, str], *, sheet: str | None, query: str | None) -> DuckDBSource:
    """Name a sheet of a workbook. Reads its first row, which names the columns."""
    if query is not None:
        raise InputError("A workbook takes no query.", hint=Hint(python="table='Sheet1'", cli="--table Sheet1"))
    return stream_source(workbooks.find_sheet(path, sheet), None, settings)


def stream_source(data: Stream, query: str | None, settings: Mapping[str, str]) -> DuckDBSource:
    """Name data that streams from elsewhere. Reads no row."""
    return DuckDBSource(frame=data, query=query, settings=settings)


def frame_source(data: Any, settings: Mapping[str, str]) -> DuckDBSource | None:
    """Name a frame, Arrow data or a DuckDB relation; None for data of another type. Reads no row."""
    if not frames.is_frame(data):
        return None
    return DuckDBSource(frame=data, query=frames.query_kind(data), settings=settings)
