"""The distributed engine: pairs and features never come to the driver.

Exact sums live in Spark's memory and in its own local folders, which go when the application ends. What is written is noisy:
the tasks that add the noise write it once, through Spark's commit protocol, and everything later reads those files. A task
that is tried again draws again, but only one attempt is ever committed.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ddpmi.engines import spark_sessions
from ddpmi.engines.draws import HIDDEN, constant, in_key_order, noisy
from ddpmi.engines.spark_sessions import own_errors, watched
from ddpmi.errors import EngineError
from ddpmi.statements import SPARK, Step
from ddpmi.tables import KEYS
from ddpmi.tables_arrow import FolderTables, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from ddpmi.calibration import TableNoise
    from ddpmi.engines import Kind
    from ddpmi.randomness import Source as Words

#: Version 1 makes all files of a job visible at its end, in one step of the driver.
_WRITE = {"compression": "zstd", "mapreduce.fileoutputcommitter.algorithm.version": "1"}
#: Where the text of a step reads another one, quoted names and texts passed over.
_READ = re.compile(r"`[^`]*`|'[^']*'|(?P<verb>FROM|JOIN) (?P<name>\w+)(?P<alias> AS \w+)?")


class SparkEngine:
    """Temporary views under names of chance in the session of the DataFrame, and a folder for what was drawn."""

    dialect = SPARK
    one_pass = False
    relation = "source"

    def __init__(self, frame: Any, staging: Path) -> None:
        self.session = frame.sparkSession
        self.version = str(self.session.version)
        self._prefix = f"ddpmi_{secrets.token_hex(8)}"
        self._views: dict[str, Any] = {}
        self._kept: list[Any] = []
        self._before: dict[str, str | None] = {}
        self._staging = Staging(staging)
        try:
            with own_errors("read the data"):
                # Before the settings change: the caller's own expressions keep their meaning.
                self._view("source", frame)
                self._before = spark_sessions.borrow(self.session)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._staging.remove()
        # Where Spark is gone, so is what it kept, and the error that ended it is the one to show.
        with suppress(Exception):
            for frame in self._kept:
                frame.unpersist()
            for name in self._views:
                self.session.catalog.dropTempView(f"{self._prefix}_{name}")
            spark_sessions.give_back(self.session, self._before)

    def _view(self, name: str, frame: Any) -> None:
        frame.createOrReplaceTempView(f"{self._prefix}_{name}")
        self._views[name] = frame

    def _sql(self, sql: str) -> Any:
        """Read the text of a step, whose names stand for this engine's views."""
        return self.session.sql(_READ.sub(self._renamed, sql))

    def _renamed(self, found: re.Match[str]) -> str:
        """Put the view's own name for that of the step; a CTE in its place would hide from Spark that it keeps the sums."""
        name = found["name"]
        if name not in self._views:
            return found[0]
        return f"{found['verb']} {self._prefix}_{name}{found['alias'] or f' AS {name}'}"

    def number(self, column: str, kind: Kind) -> str:  # noqa: ARG002 - no column is untyped here
        """Read a column as a number; types are known here, and a cast to a double never fails."""
        return column

    def run(self, step: Step, *, salt: str = "", progress: Callable[[float], None] | None = None) -> None:
        """Define a view; what is to be frozen is computed now and kept in Spark's memory and local folders.

        Every step is a function of the rows and the salt, so a part that is computed again, after the loss of an
        executor, is the same.
        """
        # proof: one-draw.exact
        with own_errors(f"compute {step.name}"):
            if step.salted and "secret" not in self._views:
                # Made by a task: a table sent from here would pass through a file.
                salted = self.session.range(1).mapInArrow(partial(constant, salt=salt), "salt STRING")
                self._view("secret", self._kept_in_spark(salted, None))
            frame = self._sql(step.sql)
            if step.freeze:
                frame = self._kept_in_spark(frame, progress)
            self._view(step.name, frame)

    def _kept_in_spark(self, frame: Any, progress: Callable[[float], None] | None) -> Any:
        from pyspark.storagelevel import StorageLevel

        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        with watched(self.session, self._prefix, progress):
            rows = kept.count()  # makes Spark keep it
        # What is empty is said to be: Spark then leaves out every step that joins it.
        return kept if rows else kept.where("false")

    def put(self, name: str, table: pa.Table) -> None:
        """Send a small table to Spark."""
        with own_errors(f"take {name}"):
            self._view(name, self.session.createDataFrame(table))

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Bring the rows of a query to the driver: for small ones."""
        with own_errors("read the sums"), watched(self.session, self._prefix, None):
            yield from self._sql(sql).toArrow().to_batches()

    def draw(self, name: str, sql: str, keys: list[str], noise: TableNoise | None, source: Words | None) -> None:
        """Add noise in the tasks that hold the sums, and write what is left, once."""
        if source is not None:
            self._draw_here(name, in_key_order(sql, keys), noise, source)
            return
        schema = schema_of(keys)
        # proof: one-draw.commit
        # proof: one-draw.source
        with own_errors(f"draw {name}"), watched(self.session, self._prefix, None):
            exact = self._sql(sql)
            drawn = exact if noise is None else exact.mapInArrow(partial(noisy, noise=noise), schema)
            self._view(name, self._written(drawn, self._staging.new(), schema))

    def _draw_here(self, name: str, sql: str, noise: TableNoise | None, source: Words) -> None:
        """Chosen noise is for tests: one stream of words, so one process."""
        import pyarrow as pa

        with own_errors(f"draw {name}"), watched(self.session, self._prefix, None):
            table = self._sql(sql).toArrow()
        fields = [(field.name, field.type) for field in table.schema]
        exact = table.cast(pa.schema(fields)).combine_chunks().to_batches()
        schema = pa.schema([field for field in fields if field[0] != HIDDEN])
        self.put(name, pa.Table.from_batches(noisy(exact, noise, source), schema=schema))

    def _written(self, frame: Any, folder: Path, schema: str) -> Any:
        frame.write.mode("error").options(**_WRITE).parquet(f"file://{folder}")
        return self.session.read.schema(schema).parquet(f"file://{folder}")

    def released(self) -> FolderTables:
        """Sort what was drawn into files whose names follow the bytes of the keys: layout and order tell nothing else."""
        folder = self._staging.sibling()
        tables = FolderTables(folder=folder, owner=Owner(folder))
        # proof: one-draw.layout
        for name, keys in KEYS.items():
            order = f" ORDER BY {', '.join(f'{key} NULLS LAST' for key in keys)}" if keys else ""
            with own_errors(f"write the released {name}"), watched(self.session, self._prefix, None):
                frame = self._sql(f"SELECT {', '.join([*keys, 'sum'])} FROM drawn_{name}{order}")
                self._written(frame, folder / name, schema_of(list(keys)))
            _tidy(folder / name)
        return tables


class Staging:
    """A folder of this process in a shared one."""

    def __init__(self, parent: Path) -> None:
        self.parent, self._count = parent, 0
        self.folder = self.sibling()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def sibling(self) -> Path:
        """Make another folder beside this one."""
        try:
            return Path(tempfile.mkdtemp(prefix=".ddpmi-", suffix=".partial", dir=self.parent))
        except OSError as error:
            raise EngineError(
                f"No folder can be made in {self.parent} ({error.strerror}).", hint="conf={'staging': '/shared/folder'}"
            ) from None

    def new(self) -> Path:
        """Name a folder that is not there yet."""
        self._count += 1
        return self.folder / str(self._count)

    def remove(self) -> None:
        """Remove the folder with all that was drawn."""
        shutil.rmtree(self.folder, ignore_errors=True)


def schema_of(keys: list[str]) -> str:
    """Return the columns of a drawn table as Spark writes them.

    >>> schema_of(["label"])
    'label STRING, sum BIGINT'
    """
    return ", ".join([*(f"{key} STRING" for key in keys), "sum BIGINT"])


def _tidy(folder: Path) -> None:
    """Leave plain files alone, named by their order."""
    number = re.compile(r"part-(\d+)-.*?(?:-c(\d+))?\D*\.parquet")
    parts = sorted(
        (tuple(int(n or 0) for n in found.groups()), file)
        for file in folder.iterdir()
        if (found := number.fullmatch(file.name)) is not None
    )
    kept = {file for _, file in parts}
    for file in folder.iterdir():
        if file not in kept:
            file.unlink()
    for place, (_, file) in enumerate(parts):
        file.rename(folder / f"part-{place:05d}.parquet")
