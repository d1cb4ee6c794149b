"""Noise over batches of exact sums, the same in every process that adds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ddpmi.noise import add_noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from ddpmi.calibration import TableNoise
    from ddpmi.randomness import Source


def noisy(
    batches: Iterable[pa.RecordBatch], noise: TableNoise | None, source: Source | None = None
) -> Iterator[pa.RecordBatch]:
    """Add noise batch by batch and keep what reaches the threshold: the rest never leaves here.

    Args:
        batches: Keys and then the sum, a 64-bit integer.
        noise: What is added; None keeps the sums exact.
        source: Random words; the cryptographic source of this process by default.

    >>> import pyarrow as pa
    >>> [batch.num_rows for batch in noisy([pa.record_batch({"sum": pa.array([5], pa.int64())})], None)]
    [1]
    """
    import pyarrow as pa

    for batch in batches:
        if noise is None:
            yield batch
            continue
        exact = np.asarray(batch.column(batch.num_columns - 1))
        sums = add_noise(exact, noise.mechanism, source)
        drawn = batch.set_column(batch.num_columns - 1, "sum", pa.array(sums))
        yield drawn if noise.threshold is None else drawn.filter(pa.array(sums >= noise.threshold))


def constant(batches: Iterable[pa.RecordBatch], **columns: str) -> Iterator[pa.RecordBatch]:
    """Replace each batch by one row of texts.

    >>> import pyarrow as pa
    >>> [batch.to_pylist() for batch in constant([pa.record_batch({"id": [0]})], name="x")]
    [[{'name': 'x'}]]
    """
    import pyarrow as pa

    for _ in batches:
        yield pa.record_batch({name: pa.array([text], pa.string()) for name, text in columns.items()})


def in_key_order(sql: str, keys: list[str]) -> str:
    """Order exact sums by their keys: chosen noise, which is for tests, then falls on the same keys on every engine.

    >>> in_key_order("SELECT sum FROM joint", [])
    'SELECT sum FROM joint'
    """
    if not keys:
        return sql
    return f"SELECT * FROM ({sql}) AS sums ORDER BY {', '.join(f'{key} NULLS LAST' for key in keys)}"
