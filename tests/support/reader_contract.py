"""The contract of all readers: what is adopted from all units is the union of what is adopted from each unit alone."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ddpmi.engines.duckdb import engine

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from ddpmi import Observations

    Rows = Counter[tuple[Any, ...]]


@pytest.fixture(name="one_database", scope="module")
def share_databases() -> Iterator[None]:
    """Open a cursor instead of a database for each reading: 2,000 cases then take a minute."""
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.closing(engine._connect("", {}, expressions=True)) as careful,
        contextlib.closing(engine._connect("", {}, expressions=False)) as fast,
    ):
        patch.setattr(engine, "_connect", lambda *_, expressions: (careful if expressions else fast).cursor())
        yield


def adopted(obs: Observations) -> Rows:
    """Read the canonical rows (unit, feature, label[, value]) as a multiset, keys as the text that sums group by."""
    with obs.open() as engine:
        engine.run(obs.rows(engine))
        roles = [role for role in obs.columns.named() if role != "value"]
        if obs.seed is not None:
            roles.append("label")
        listed = [f"{engine.dialect.as_text(role)} AS {role}" for role in roles]
        if obs.columns.value is not None:
            # The text of a number tells NaN from NaN as equal, which the number itself does not.
            listed.append(f"{engine.dialect.as_text(f'CAST(value AS {engine.dialect.double})')} AS value")
        found = engine.batches(f"SELECT {', '.join(listed)} FROM rows")
        return Counter(tuple(row.values()) for batch in found for row in batch.to_pylist())


def check_row_local(records: Sequence[tuple[Hashable, Any]], read: Callable[[list[Any]], Observations]) -> Rows:
    """Assert the contract for one generated case, and return what was adopted from all units.

    Args:
        records: (who it belongs to, record), in the order in which they are written.
        read: Writes some records in the reader's format and observes them; never looks at who owns them.
    """
    together = adopted(read([record for _, record in records]))
    alone: Rows = Counter()
    for unit in dict.fromkeys(owner for owner, _ in records):
        alone += adopted(read([record for owner, record in records if owner == unit]))
    assert together == alone
    return together
