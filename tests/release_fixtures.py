"""Data with two groups and a ledger, for tests that release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from ddpmi import Budget, Ledger

if TYPE_CHECKING:
    from pathlib import Path


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
