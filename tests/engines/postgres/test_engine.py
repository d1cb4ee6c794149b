"""Steps inside a PostgreSQL server give the same exact sums as the embedded engine, bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ddpmi
from ddpmi.pipeline.seeds import SEED_LABELS
from ddpmi.testing import seeded_release
from tests.engines.test_contract import CASES, SEED, VOCABULARIES, distinct, hostile, plan, sums, table

if TYPE_CHECKING:
    from ddpmi import Observations
    from tests.support.postgres_server import Server


def rows() -> list[tuple[Any, ...]]:
    """The hostile rows of the contract that a database can hold: PostgreSQL has no text with a null character."""
    return [row for row in hostile() if not any(isinstance(cell, str) and "\0" in cell for cell in row)]


def both(server: Server, data: pa.Table, **options: Any) -> tuple[Observations, Observations]:
    """The same data in memory and in the server."""
    server.fill("contract", data)
    return ddpmi.observe(data, **options), ddpmi.observe(server.address(), table="contract", **options)


@pytest.mark.parametrize("name", CASES)
def test_exact_sums_are_those_of_the_embedded_engine(postgres: Server, name: str) -> None:
    """For the same salt every sum is equal, with every option and with hostile rows."""
    options = CASES[name]
    data = rows()
    if options.get("distinct"):
        data = distinct(data) if options["distinct"] is True else list({row[0]: row for row in data}.values())
    made = plan(**options)
    here, there = both(postgres, table(data), value="minutes" if "clip" in options.get("bounds", {}) else None)
    replay = VOCABULARIES.get(made.selection)
    expected = sums(here, made, replay)
    assert sums(there, made, replay) == expected
    assert expected["joint"]
