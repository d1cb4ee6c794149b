"""Noise over batches: what is dropped, and what is drawn again."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from ddpmi.engines.noising import HIDDEN, noisy
from ddpmi.privacy.noise import DiscreteGaussian, DiscreteLaplace, Mechanism, TableNoise
from ddpmi.privacy.randomness import Keystream

WIDE = DiscreteGaussian(variance=Fraction(100))


def drawn(sums: list[int], hidden: list[bool], *, threshold: int, mechanism: Mechanism = WIDE) -> pa.RecordBatch:
    noise = TableNoise(mechanism=mechanism, share=Fraction(1), threshold=threshold).without_threshold
    names = [f"k{place}" for place in range(len(sums))]
    batch = pa.record_batch({"feature": names, "sum": pa.array(sums, pa.int64()), HIDDEN: hidden})
    return next(noisy([batch], noise, Keystream(bytes(32))))


def test_hidden_cells_stay_below_the_threshold_and_the_others_are_free() -> None:
    """Of 2,000 sums at the threshold the hidden half stays below it; of the free half some hundreds do not."""
    found = drawn([50] * 2000, [True, False] * 1000, threshold=50)
    assert found.schema.names == ["feature", "sum"]
    sums = found.column("sum").to_numpy()
    assert np.all(sums[::2] < 50)
    assert 400 < np.sum(sums[1::2] >= 50) < 700


def test_sums_far_above_the_threshold_are_drawn_below_it_too() -> None:
    """A hidden sum four deviations above takes tens of thousands of draws, and has the law of its tail."""
    narrow = DiscreteLaplace(scale=Fraction(2))
    found = drawn([20] * 200, [True] * 200, threshold=0, mechanism=narrow).column("sum").to_numpy()
    assert np.all(found < 0)
    # The tail has no memory: below the threshold a sum falls as it would from there, by 2.5 on average.
    assert -4.5 < found.mean() < -1.5


def test_nothing_is_dropped_and_an_empty_batch_is_no_trouble() -> None:
    """All cells come back, in order, and none where there are none."""
    assert drawn([0, 1], [False, True], threshold=5).column("feature").to_pylist() == ["k0", "k1"]
    assert drawn([], [], threshold=5).num_rows == 0
