"""Noise over batches of exact sums, the same in every process that adds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ddpmi.noise import add_noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from ddpmi.calibration import TableNoise
    from ddpmi.randomness import Source

    Integers = NDArray[np.int64]

HIDDEN = "hidden"
"""Tells of each cell whether it was drawn before and did not reach the threshold."""
_MOST_TRIES = 1 << 12


def noisy(
    batches: Iterable[pa.RecordBatch], noise: TableNoise | None, source: Source | None = None
) -> Iterator[pa.RecordBatch]:
    """Add noise batch by batch and keep what reaches the threshold: the rest never leaves here.

    Args:
        batches: Keys and then the sum, a 64-bit integer; and the column ``HIDDEN`` where the noise has a ``below``.
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
        hidden = None
        if noise.below is not None:
            hidden = batch.column(HIDDEN).to_numpy(zero_copy_only=False)
            batch = batch.drop_columns([HIDDEN])  # noqa: PLW2901 - what is hidden goes no further
        exact = np.asarray(batch.column(batch.num_columns - 1))
        sums = add_noise(exact, noise.mechanism, source)
        if hidden is not None:
            _stay_below(sums, exact, hidden, noise, source)
        drawn = batch.set_column(batch.num_columns - 1, "sum", pa.array(sums))
        yield drawn if noise.threshold is None else drawn.filter(pa.array(sums >= noise.threshold))


def _stay_below(
    sums: Integers, exact: Integers, hidden: NDArray[np.bool_], noise: TableNoise, source: Source | None
) -> None:
    """Draw hidden cells again until they stay below the threshold, as they did when the keys were found.

    Of each cell that is not settled more and more draws are made at once and the first good one is taken, so that a large
    sum whose noise was very low costs few passes.
    """
    # proof: completion.redraw
    below, tries = int(noise.below or 0), 1
    open_cells = np.flatnonzero(hidden & (sums >= below))
    while len(open_cells):
        drawn = add_noise(np.repeat(exact[open_cells], tries), noise.mechanism, source).reshape(-1, tries)
        good = drawn < below
        settled = good.any(axis=1)
        sums[open_cells[settled]] = drawn[settled, good[settled].argmax(axis=1)]
        open_cells = open_cells[~settled]
        tries = min(2 * tries, _MOST_TRIES)


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
