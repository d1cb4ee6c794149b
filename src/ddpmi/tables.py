"""Read-only view of released tables: the only thing the outside layer may read.

Shapes: pairs (feature, label, sum), features (feature, sum), labels (label, sum), total (sum). Keys are text,
sums are noisy grid integers, rows are sorted by the bytes of their keys. An "other" cell has a NULL key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ddpmi.errors import ReleaseError

if TYPE_CHECKING:
    import pyarrow as pa

TableName = Literal["pairs", "features", "labels", "total"]
KEYS: dict[TableName, tuple[str, ...]] = {
    "pairs": ("feature", "label"),
    "features": ("feature",),
    "labels": ("label",),
    "total": (),
}
"""The key columns of each table; the column ``sum`` follows them."""


@runtime_checkable
class Tables(Protocol):
    """Released tables by name."""

    def scan(self, name: TableName) -> pa.Table:
        """Read one released table."""

    def count(self, name: TableName) -> int:
        """Count the rows of one released table without reading them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTables:
    """Released tables that live in memory.

    >>> import pyarrow as pa
    >>> total = pa.table({"sum": pa.array([7], pa.int64())})
    >>> keys = {"feature": pa.array(["a"]), "label": pa.array(["x"])}
    >>> cells = pa.array([7], pa.int64())
    >>> tables = MemoryTables(
    ...     pairs=pa.table(keys | {"sum": cells}),
    ...     features=pa.table({"feature": keys["feature"], "sum": cells}),
    ...     labels=pa.table({"label": keys["label"], "sum": cells}),
    ...     total=total,
    ... )
    >>> tables.scan("total").num_rows
    1
    """

    pairs: pa.Table
    """feature, label, sum."""
    features: pa.Table
    """feature, sum."""
    labels: pa.Table
    """label, sum."""
    total: pa.Table
    """sum: one row."""

    def __post_init__(self) -> None:
        for name in KEYS:
            check_table(name, getattr(self, name))

    def scan(self, name: TableName) -> pa.Table:
        """Return one released table."""
        check_name(name)
        table: pa.Table = getattr(self, name)
        return table

    def count(self, name: TableName) -> int:
        """Return the number of rows of one released table."""
        return int(self.scan(name).num_rows)


def check_name(name: str) -> None:
    """Refuse a table that a release does not have.

    >>> check_name("pairs")
    """
    if name not in KEYS:
        raise ReleaseError(f"A release has no table {name!r}.", hint=f"one of {', '.join(KEYS)}")


def check_table(name: TableName, table: pa.Table) -> None:
    """Refuse a table whose columns are not those of the release format.

    >>> import pyarrow as pa
    >>> check_table("total", pa.table({"sum": pa.array([7], pa.int64())}))
    """
    import pyarrow as pa

    wanted = pa.schema([*((key, pa.string()) for key in KEYS[name]), ("sum", pa.int64())])
    if not table.schema.equals(wanted, check_metadata=False):
        got = ", ".join(f"{field.name}: {field.type}" for field in table.schema)
        need = ", ".join(f"{field.name}: {field.type}" for field in wanted)
        raise ReleaseError(f"The released table {name} must have the columns ({need}), got ({got}).")
    if name == "total" and table.num_rows != 1:
        raise ReleaseError(f"The released total must be one row, got {table.num_rows} rows.")
