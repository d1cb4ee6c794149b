"""Rank all pairs of a release by mutual information: free post-processing, nothing here can reach rows.

release -> Ranking : the columns ``scores.COLUMNS``, best pair first
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ddpmi import mi as measures
from ddpmi import scores, show
from ddpmi.errors import InputError, MissingExtra
from ddpmi.scores import COLUMNS, Released

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd
    import polars as pl
    import pyarrow as pa

Per = Literal["label", "feature", "all"]
Direction = Literal["presence", "absence", "both"]
_JSON_ROWS = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Pairs in order, best first. Made by `rank`; never holds anything that was not released."""

    table: pa.Table
    """The columns ``COLUMNS``."""
    private: bool
    """Whether the sums were noisy."""
    guarantee: Mapping[str, Any] | None
    """The receipt's guarantee; None where there is none."""
    dataset: str
    """The dataset's name."""
    method: measures.Method = "stable"
    """How mutual information was computed."""
    base: float | None = None
    """The base of the logarithm; None for nats."""

    def __post_init__(self) -> None:
        if tuple(self.table.column_names) != COLUMNS:
            raise InputError(f"A ranking has the columns {COLUMNS}, got {tuple(self.table.column_names)}.")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return show.ranking_html(self.table.slice(0, 20).to_pylist(), len(self), self.promise)

    @property
    def notice(self) -> str | None:
        """NOT PRIVATE for a ranking of exact sums, else None."""
        return None if self.private else show.NOT_PRIVATE

    @property
    def promise(self) -> str:
        """What the release promises, in one sentence."""
        return show.promise(self.guarantee, private=self.private)

    @property
    def unit_of_mi(self) -> str:
        """The unit of mutual information: nats, bits, or logarithm base b."""
        return {None: "nats", 2.0: "bits"}.get(self.base, f"log base {self.base}")

    def top(self, n: int, *, per: Per = "label", direction: Direction = "both") -> Ranking:
        """Keep the best n of each label, of each feature, or of all.

        Args:
            n: How many, at least 1.
            per: "label" and "feature" give groups by name, each in rank order; "all" gives rank order.
            direction: Keep presence or absence alone before counting to n.

        Returns:
            A ranking whose rows keep the ranks they had.
        """
        import pyarrow.compute as pc

        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"top needs a whole number of at least 1, got {n!r}.", hint="ranking.top(10)")
        for word, kind in ((per, Per), (direction, Direction)):
            if word not in get_args(kind):
                raise InputError(f"Choose one of {get_args(kind)}, got {word!r}.")
        table = self.table
        if direction != "both":
            table = table.filter(pc.equal(table["direction"], direction))
        rank = table["rank"].to_numpy()
        if per == "all":
            return replace(self, table=table.take(np.argsort(rank)[:n]))
        group = scores.codes_by_bytes(table[per])
        order = np.lexsort((rank, group))
        return replace(self, table=table.take(order[scores.places_in_groups(group[order]) <= n]))

    def to_arrow(self) -> pa.Table:
        """Return the columns ``COLUMNS``; what is promised is in the schema's metadata."""
        meta = {
            "ddpmi.private": json.dumps(self.private),
            "ddpmi.promise": self.promise,
            "ddpmi.mi": self.unit_of_mi,
        }
        return self.table.replace_schema_metadata(meta)

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas frame; what is promised is in its ``attrs``."""
        frame = self.table.to_pandas()
        frame.attrs.update(private=self.private, promise=self.promise)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return a polars frame."""
        try:
            import polars as pl
        except ImportError as error:
            raise MissingExtra("polars is not installed.", hint="pip install polars") from error
        return pl.DataFrame(self.table)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dict for each row; rows of exact sums start with their notice."""
        return [dict(row) for row in self._stamped().to_pylist()]

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write csv, json or parquet, by the path's suffix.

        In CSV a name that a spreadsheet would run as a formula gets a leading '. Files of exact sums have a
        first column ``notice``.
        """
        import pathlib

        writers = {".csv": self._write_csv, ".json": self._write_json, ".parquet": self._write_parquet}
        write = writers.get(pathlib.Path(path).suffix.lower())
        if write is None:
            raise InputError(
                f"The suffix must be one of {', '.join(writers)}, got {pathlib.Path(path).name!r}.",
                hint='ranking.save("ranking.csv")',
            )
        return show.write_new(path, write, overwrite=overwrite)

    def to_text(self, width: int = 100, *, rows: int = 20) -> str:
        """Write a plain table for a terminal of that width."""
        return show.ranking_text(self.table.slice(0, rows).to_pylist(), len(self), self.promise, width=width)

    def _stamped(self) -> pa.Table:
        import pyarrow as pa

        if self.private:
            return self.to_arrow()
        return self.to_arrow().add_column(0, "notice", pa.repeat(show.NOT_PRIVATE, len(self)))

    def _write_csv(self, path: Path) -> None:
        from pyarrow import csv

        table = self._stamped()
        for name in ("label", "feature"):
            at = table.column_names.index(name)
            table = table.set_column(at, name, show.csv_safe(table[name]))
        csv.write_csv(table, path)

    def _write_json(self, path: Path) -> None:
        table = self._stamped()
        with path.open("w", encoding="utf-8") as out:
            out.write("[")
            for start in range(0, len(self), _JSON_ROWS):
                rows = table.slice(start, _JSON_ROWS).to_pylist()
                lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
                out.write(("\n" if start == 0 else ",\n") + ",\n".join(lines))
            out.write("\n]\n")

    def _write_parquet(self, path: Path) -> None:
        import pyarrow.parquet as pq

        pq.write_table(self._stamped(), path, compression="zstd")


def rank(
    release: Released, *, method: measures.Method = "stable", base: float | None = None, tol: float = 1e-15
) -> Ranking:
    """Rank every pair of a release.

    Args:
        release: The release; it is only read.
        method: "stable", or "paper" for CalcMI as printed.
        base: The base of the logarithm; None for nats, 2 for bits.
        tol: The tolerance of method "paper".

    Returns:
        All pairs: mi to 12 significant digits descending, joint descending, feature, label by bytes.

    >>> import pyarrow as pa
    >>> from types import SimpleNamespace
    >>> sums = pa.array([60], pa.int64())
    >>> release = SimpleNamespace(
    ...     pairs=pa.table({"feature": ["tea"], "label": ["uk"], "sum": sums}),
    ...     features=pa.table({"feature": ["tea"], "sum": pa.array([100], pa.int64())}),
    ...     labels=pa.table({"label": ["uk"], "sum": pa.array([200], pa.int64())}),
    ...     total=1000,
    ...     receipt={"private": False, "grid": {"step": 1, "g": 0}},
    ... )
    >>> row = rank(release).to_dicts()[0]
    >>> row["notice"], row["direction"], round(row["mi"], 7), row["lift"]
    ('NOT PRIVATE', 'presence', 0.0440979, 3.0)
    """
    measures.check_method(method, tol)
    if base is not None and not (math.isfinite(base) and base > 1):
        raise InputError(f"base must be larger than 1, got base={base!r}.", hint="base=2 for bits")
    cells, receipt = scores.read(release), release.receipt
    numbers = scores.score(cells, receipt, method, tol)
    order = scores.order_of(cells, numbers["mi"])
    for name in ("mi", "mi_low", "mi_high"):
        numbers[name] /= 1.0 if base is None else math.log(base)
    return Ranking(
        table=scores.assemble(cells, numbers, order),
        private=bool(receipt["private"]),
        guarantee=receipt.get("guarantee"),
        dataset=str(receipt.get("dataset", "default")),
        method=method,
        base=base,
    )
