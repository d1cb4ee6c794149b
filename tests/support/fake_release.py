"""Releases made by hand: the attributes that ranking reads, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

Counts = dict[tuple[str, str], int]
SD = {"pairs": 2.0, "features": 3.0, "labels": 5.0, "total": 8.0}


@dataclass(frozen=True, kw_only=True)
class FakeRelease:
    """Released tables with a receipt."""

    pairs: pa.Table
    features: pa.Table
    labels: pa.Table
    total: int
    receipt: dict[str, Any]


def keyed(names: tuple[str, ...], sums: Mapping[Any, int]) -> pa.Table:
    """Make a table of keys and sums, sorted by the bytes of the keys."""
    rows = sorted(
        ((key if isinstance(key, tuple) else (key,), total) for key, total in sums.items()),
        key=lambda row: [part.encode() for part in row[0]],
    )
    columns: dict[str, pa.Array] = {
        name: pa.array([key[at] for key, _ in rows], pa.string()) for at, name in enumerate(names)
    }
    return pa.table(columns | {"sum": pa.array([total for _, total in rows], pa.int64())})


def margins(counts: Counts) -> tuple[Counter[str], Counter[str], int]:
    """Sum counts by feature, by label, and in all."""
    features: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    for (feature, label), count in counts.items():
        features[feature] += count
        labels[label] += count
    return features, labels, sum(counts.values())


def exact_release(counts: Counts) -> FakeRelease:
    """Release counts as they are."""
    features, labels, total = margins(counts)
    return FakeRelease(
        pairs=keyed(("feature", "label"), counts),
        features=keyed(("feature",), features),
        labels=keyed(("label",), labels),
        total=total,
        receipt={"private": False, "notice": "NOT PRIVATE", "grid": {"step": 1, "g": 0}, "dataset": "tea"},
    )


def private_release(
    counts: Counts, *, g: int = 0, step: object = 1, mechanism: str = "discrete_gaussian", threshold: int | None = None
) -> FakeRelease:
    """Release counts with a receipt that says how noisy they are."""
    exact = exact_release(counts)
    tables = {name: {"mechanism": mechanism, "scale": sd, "sd_user": sd, "threshold": None} for name, sd in SD.items()}
    tables["pairs"]["threshold"] = threshold
    receipt = {
        "private": True,
        "notice": None,
        "grid": {"step": step, "g": g},
        "dataset": "tea",
        "guarantee": {"epsilon": 1.0, "delta": 1e-7, "rho": None, "unit": "user_id"},
        "tables": tables,
    }
    return FakeRelease(
        pairs=exact.pairs, features=exact.features, labels=exact.labels, total=exact.total, receipt=receipt
    )
