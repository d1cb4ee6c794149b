"""Steps on a SQLite file give the same exact sums as the embedded engine, bit by bit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import ddpmi
from ddpmi import AutoPlan
from ddpmi.curator.looking import exact_look
from ddpmi.testing import _salt
from tests.engines.test_contract import CASES, SEED, VOCABULARIES, fitting, hostile, plan, sums, table

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from ddpmi import Observations

TYPES = {"string": "TEXT", "double": "REAL", "int64": "INTEGER", "bool": "BOOLEAN", "date32[day]": "TEXT"}


def both(folder: Path, data: pa.Table, **options: Any) -> tuple[Observations, Observations]:
    """The same data in memory and in a file."""
    path = folder / "contract.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE IF EXISTS contract")
        columns = ", ".join(f"{field.name} {TYPES[str(field.type)]}" for field in data.schema)
        connection.execute(f"CREATE TABLE contract ({columns})")
        marks = ", ".join("?" for _ in data.schema)
        rows = zip(*(column.to_pylist() for column in data.columns), strict=True)
        connection.executemany(f"INSERT INTO contract VALUES ({marks})", rows)
    return ddpmi.observe(data, **options), ddpmi.observe(path, table="contract", **options)


@pytest.mark.parametrize("name", CASES)
def test_exact_sums_are_those_of_the_embedded_engine(tmp_path: Path, name: str) -> None:
    """For the same salt every sum is equal, with every option and with hostile rows."""
    options = CASES[name]
    data = fitting(options, hostile())
    made = plan(**options)
    here, there = both(tmp_path, table(data), value="minutes" if "clip" in options.get("bounds", {}) else None)
    replay = VOCABULARIES.get(made.selection)
    expected = sums(here, made, replay)
    assert sums(there, made, replay) == expected
    assert expected["joint"]


def test_a_private_look_counts_the_same(tmp_path: Path) -> None:
    """The histograms that choose the bounds are equal before noise."""
    looks = [
        exact_look(obs, AutoPlan.of(epsilon=1, delta=1e-6), salt=_salt(SEED), labels=2)
        for obs in both(tmp_path, table(hostile()))
    ]
    assert looks[0] == looks[1]
