"""Delta and Iceberg tables on disk, read by their own libraries, which leave out deleted rows."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.engines.streams import Stream
from ddpmi.errors import EngineError, Hint, InputError, MissingExtra
from ddpmi.pipeline.dialects import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

#: What loading the rows of a table needs, beyond its schema.
_DRIVERS = {"delta": ("deltalake", "pyarrow.dataset"), "iceberg": ("pyiceberg.table", "pyiceberg.io.pyarrow")}
_METADATA = ".metadata.json"
_VERSION = re.compile(r"v?(\d+)\D")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake(Stream):
    """A Delta or Iceberg table: files and the metadata that says which rows are deleted."""

    copied = False
    kind: Literal["delta", "iceberg"]
    path: str
    """The folder of a Delta table, the metadata file of an Iceberg table."""

    def schema(self) -> pa.Schema:
        """Return the columns. Reads only the table's metadata."""
        import pyarrow as pa

        with _own_errors(self.kind):
            if self.kind == "delta":
                return pa.schema(_delta(self.path).schema().to_arrow())
            return _iceberg(self.path).schema().as_arrow()

    def check_driver(self) -> None:
        """Load what reads the table's rows. Reads nothing.

        Raises:
            MissingExtra: A package is missing.
        """
        for name in _DRIVERS[self.kind]:
            try:
                import_module(name)
            except ImportError as error:
                raise MissingExtra(
                    f"{self.kind.capitalize()} tables are read with {error.name or name}, which is not installed.",
                    hint=f"pip install 'ddpmi[{self.kind}]'",
                ) from None

    def reader(self, columns: list[str]) -> pa.RecordBatchReader:
        """Stream the named columns of the rows that are not deleted."""
        with _own_errors(self.kind):
            if self.kind == "delta":
                return _delta_reader(self.path, columns)
            return _iceberg(self.path).scan(selected_fields=tuple(columns)).to_arrow_batch_reader()


def find_lake(path: str) -> Lake | None:
    """Recognise a Delta folder, an Iceberg folder or an Iceberg metadata file.

    >>> find_lake("visits.parquet") is None
    True
    """
    folder = Path(path)
    if path.endswith(_METADATA) and folder.is_file():
        return Lake(kind="iceberg", path=path)
    if (folder / "_delta_log").is_dir():
        return Lake(kind="delta", path=path)
    inside = folder / "metadata"
    found = sorted(inside.glob(f"*{_METADATA}")) if inside.is_dir() else []
    return Lake(kind="iceberg", path=str(_newest(folder, found))) if found else None


def _newest(folder: Path, found: list[Path]) -> Path:
    versions: dict[int, list[Path]] = {}
    for file in found:
        match = _VERSION.match(file.name)
        versions.setdefault(int(match[1]) if match else -1, []).append(file)
    hint = folder / "metadata" / "version-hint.text"
    hinted = hint.read_text(encoding="utf-8").strip() if hint.is_file() else ""
    newest = versions[int(hinted) if hinted.isdigit() and int(hinted) in versions else max(versions)]
    if len(newest) > 1:
        raise InputError(
            f"The Iceberg folder {folder} has more than one newest metadata file.",
            hint=Hint(
                do="name the one to read", python="observe('table/metadata/00003-....metadata.json', ...)", cli=""
            ),
        )
    return newest[0]


def _delta(path: str) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise MissingExtra("Delta tables need the deltalake package.", hint="pip install 'ddpmi[delta]'") from None
    return DeltaTable(path)


def _delta_reader(path: str, columns: list[str]) -> pa.RecordBatchReader:
    """Stream a table's files with Arrow, which leaves text as it is; with deletion vectors use the library's own query.

    Arrow would return the rows that a deletion vector deletes. The table's metadata decides which way is taken, no row does.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder

    table = _delta(path)
    try:
        return table.to_pyarrow_dataset().scanner(columns=columns).to_reader()
    except Exception:  # noqa: BLE001 - Arrow does not know a feature of the table, such as deletion vectors
        listed = ", ".join(quote(name) for name in columns)
        found = QueryBuilder().register("source", table).execute(f"SELECT {listed} FROM source")
        return pa.RecordBatchReader.from_stream(found)


def _iceberg(path: str) -> Any:
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise MissingExtra("Iceberg tables need the pyiceberg package.", hint="pip install 'ddpmi[iceberg]'") from None
    return StaticTable.from_metadata(path)


@contextmanager
def _own_errors(kind: str) -> Iterator[None]:
    """Replace the libraries' errors, which may quote rows."""
    try:
        yield
    except MissingExtra:
        raise
    except Exception as error:  # noqa: BLE001 - any message may quote rows
        raise EngineError(
            f"The {kind.capitalize()} table could not be read ({type(error).__name__}). Its message may quote rows, so it is not shown.",
            hint="check that the table is complete and that its features are known to the library's version",
        ) from None
