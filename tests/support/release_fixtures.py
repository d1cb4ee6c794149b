"""Data with two or three groups and a ledger, for tests that release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from ddpmi import Budget, Ledger

if TYPE_CHECKING:
    from pathlib import Path


THREE_LABELS = ("a", "b", "c")


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    """Rows of (unit, feature, label) as a table of texts."""
    names = ("unit", "feature", "label")
    return pa.table({name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(names)})


def three_groups(units: int = 900) -> list[tuple[object, ...]]:
    """Three groups that all have "common"; "never-c" is frequent in a and b and in nobody of c."""
    rows: list[tuple[object, ...]] = []
    for n in range(units):
        label = THREE_LABELS[n % 3]
        rows.append((f"u{n}", "common", label))
        if label != "c":
            rows.append((f"u{n}", "never-c", label))
    return rows


def two_groups(units: int) -> pa.Table:
    """Two groups: everybody has "common", each group has its own feature; one unit has a secret of its own."""
    rows = [(f"u{n}", feature, "ab"[n % 2]) for n in range(units) for feature in ("common", f"own-{'ab'[n % 2]}")]
    rows.append(("u0", "SECRET-FEATURE", "a"))
    return pa.table(dict(zip(("unit", "feature", "label"), map(list, zip(*rows, strict=True)), strict=True)))


def states(ledger: Ledger) -> list[str]:
    """Return what became of each charge."""
    return [entry["state"] for entry in ledger.status().to_dict()["entries"]]


@pytest.fixture(name="ledger")
def make_ledger(tmp_path: Path) -> Ledger:
    """Make a ledger that is far from its limit."""
    return Ledger(tmp_path / "test.ledger", limit=Budget(1000, 1e-2))
