"""Noise added to batches of exact sums. Every engine uses it, in the process that holds the sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ddpmi.privacy.noise import add_noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from ddpmi._typing import Flags, Integers
    from ddpmi.privacy.noise import TableNoise
    from ddpmi.privacy.randomness import Source

HIDDEN = "hidden"
"""Column that is true for a cell which was drawn before and did not reach the threshold."""
_MOST_TRIES = 1 << 12


def noisy(
    batches: Iterable[pa.RecordBatch], noise: TableNoise | None, source: Source | None = None
) -> Iterator[pa.RecordBatch]:
    """Add noise batch by batch and keep the sums that reach the threshold; all others are dropped here.

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
            batch = batch.drop_columns([HIDDEN])  # noqa: PLW2901 - the column is not released
        exact = np.asarray(batch.column(batch.num_columns - 1))
        sums = add_noise(exact, noise.mechanism, source)
        if hidden is not None:
            _stay_below(sums, exact, hidden, noise, source)
        drawn = batch.set_column(batch.num_columns - 1, "sum", pa.array(sums))
        yield drawn if noise.threshold is None else drawn.filter(pa.array(sums >= noise.threshold))


def _stay_below(sums: Integers, exact: Integers, hidden: Flags, noise: TableNoise, source: Source | None) -> None:
    """Draw hidden cells again until they stay below the threshold, as they did when the keys were found.

    The number of draws for each open cell doubles with every pass, and the first draw below the threshold is taken.
    So a large sum whose first noise was very low needs few passes.
    """
    # proof: completion.redraw
    below, tries = int(noise.below or 0), 1
    open_cells = np.flatnonzero(hidden & (sums >= below))
    while len(open_cells):
        drawn = add_noise(np.repeat(exact[open_cells], tries), noise.mechanism, source).reshape(-1, tries)
        fits = drawn < below
        done = fits.any(axis=1)
        sums[open_cells[done]] = drawn[done, fits[done].argmax(axis=1)]
        open_cells = open_cells[~done]
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


def drawn(
    batches: Iterable[pa.RecordBatch], keys: list[str], noise: TableNoise | None, source: Source | None
) -> pa.Table:
    """Add noise to a stream of exact sums, and return those that reach the threshold. Others are never stored.

    Args:
        batches: Keys and then the sum, and ``HIDDEN`` where the noise has a ``below``.
        keys: Names of the keys.
        noise: What is added; None keeps the sums exact.
        source: Random words; the cryptographic source of this process by default.
    """
    import pyarrow as pa

    schema = pa.schema([*((key, pa.string()) for key in keys), ("sum", pa.int64())])
    marked = schema if noise is None or noise.below is None else schema.append(pa.field(HIDDEN, pa.bool_()))
    exact = (batch.cast(marked) for batch in batches)
    return pa.Table.from_batches(noisy(exact, noise, source), schema=schema)


def in_key_order(sql: str, keys: list[str]) -> str:
    """Order exact sums by their keys, so that seeded noise, which is for tests, is the same on every engine.

    >>> in_key_order("SELECT sum FROM joint", [])
    'SELECT sum FROM joint'
    """
    if not keys:
        return sql
    return f"SELECT * FROM ({sql}) AS sums ORDER BY {', '.join(f'{key} NULLS LAST' for key in keys)}"
