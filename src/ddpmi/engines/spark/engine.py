"""The engine that runs steps on Spark. Pairs and features never come to the driver.

Exact sums are kept in Spark's memory and in its own local folders, which are removed when the application ends. Only noisy
sums are written elsewhere: tasks add the noise and write the result once, through Spark's commit protocol. Everything later
reads those files. A task that is tried again draws again, but only one attempt is ever committed.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ddpmi._typing import KEYS
from ddpmi.engines.noising import HIDDEN, constant, in_key_order, noisy
from ddpmi.engines.renaming import renamed
from ddpmi.engines.spark import sessions
from ddpmi.engines.spark.sessions import own_errors, watched
from ddpmi.errors import EngineError, Hint
from ddpmi.pipeline.dialects import SPARK
from ddpmi.releases.reservations import PREFIX, STAGED
from ddpmi.releases.tables import FolderTables
from ddpmi.releases.workplaces import Workplace, leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from ddpmi.pipeline.steps import Step
    from ddpmi.privacy.noise import TableNoise
    from ddpmi.privacy.randomness import Source as Words

#: With version 1, the driver makes all files of a job visible in one step at its end.
_WRITE = {"compression": "zstd", "mapreduce.fileoutputcommitter.algorithm.version": "1"}


class SparkEngine:
    """Temporary views with random names in the DataFrame's session, and a folder for drawn tables."""

    dialect = SPARK
    one_pass = False
    relation = "source"

    def __init__(self, frame: Any, staging: Path, beside: Any = None) -> None:
        self.session = frame.sparkSession
        self.beside = "" if beside is None else "beside"
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
                if beside is not None:
                    self._view("beside", beside)
                self._before = sessions.change_settings(self.session)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._staging.remove()
        # If Spark has ended, everything it kept is gone, and the error to show is the one that ended it.
        with suppress(Exception):
            for frame in self._kept:
                frame.unpersist()
            for name in self._views:
                self.session.catalog.dropTempView(f"{self._prefix}_{name}")
            sessions.restore_settings(self.session, self._before)

    def _view(self, name: str, frame: Any) -> None:
        frame.createOrReplaceTempView(f"{self._prefix}_{name}")
        self._views[name] = frame

    def _sql(self, sql: str) -> Any:
        """Run the text of a step over this engine's views. Not over CTEs, for which Spark would not use the kept sums."""
        return self.session.sql(renamed(sql, f"{self._prefix}_", self._views))

    def run(self, step: Step, *, salt: str = "", progress: Callable[[float], None] | None = None) -> None:
        """Define a view; a step to be frozen is computed now and kept in Spark's memory and local folders.

        Every step is a function of the rows and the salt. So a part that is computed again, after the loss of an
        executor, has the same rows.
        """
        # proof: one-draw.exact
        with own_errors(f"compute {step.name}"):
            if step.salted and "secret" not in self._views:
                # A task makes the table: sent from here, the salt would pass through a file.
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
            rows = kept.count()  # computes it now
        # With this filter Spark knows that the table is empty, and skips every step that joins it.
        return kept if rows else kept.where("false")

    def put(self, name: str, table: pa.Table) -> None:
        """Send a small table to Spark."""
        with own_errors(f"take {name}"):
            self._view(name, self.session.createDataFrame(table))

    def batches(self, sql: str, *, rows: int = 0) -> Iterator[pa.RecordBatch]:
        """Bring the rows of a small query to the driver."""
        del rows
        with own_errors("read the sums"), watched(self.session, self._prefix, None):
            yield from self._sql(sql).toArrow().to_batches()

    def draw(self, name: str, sql: str, keys: list[str], noise: TableNoise | None, source: Words | None) -> None:
        """Add noise in the tasks that hold the sums, and write the sums that reach the threshold, once."""
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
        """Draw in the driver: seeded noise, which is for tests, is one stream of words and so needs one process."""
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
        """Write the drawn tables sorted by key bytes. Files are named by this order, so the layout reveals nothing else."""
        owner = self._staging.sibling()
        folder = owner.folder
        tables = FolderTables(folder=folder, owner=owner)
        # proof: one-draw.layout
        for name, keys in KEYS.items():
            order = f" ORDER BY {', '.join(f'{key} NULLS LAST' for key in keys)}" if keys else ""
            with own_errors(f"write the released {name}"), watched(self.session, self._prefix, None):
                frame = self._sql(f"SELECT {', '.join([*keys, 'sum'])} FROM drawn_{name}{order}")
                self._written(frame, folder / name, schema_of(list(keys)))
            _tidy(folder / name)
        return tables


class Staging:
    """A folder of this process in a shared one. Folders of processes that died there are removed first."""

    def __init__(self, parent: Path) -> None:
        self.parent, self._count = parent, 0
        leftovers(parent, prefix=PREFIX, suffix=STAGED)
        self._workplace = self.sibling()
        self.folder = self._workplace.folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def sibling(self) -> Workplace:
        """Make another folder beside this one."""
        try:
            return Workplace.new(self.parent, prefix=PREFIX, suffix=STAGED)
        except OSError as error:
            raise EngineError(
                f"No folder can be made in {self.parent} ({error.strerror}).",
                hint=Hint(python="conf={'staging': '/shared/folder'}", cli="--conf staging=/shared/folder"),
            ) from None

    def new(self) -> Path:
        """Return the path of a folder that does not exist yet."""
        self._count += 1
        return self.folder / str(self._count)

    def remove(self) -> None:
        """Remove the folder with all drawn tables."""
        self._workplace.remove()


def schema_of(keys: list[str]) -> str:
    """Return the columns of a drawn table as Spark writes them.

    >>> schema_of(["label"])
    'label STRING, sum BIGINT'
    """
    return ", ".join([*(f"{key} STRING" for key in keys), "sum BIGINT"])


def _tidy(folder: Path) -> None:
    """Rename the data files by their order, and remove all other files."""
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
