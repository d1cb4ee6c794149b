"""How well one order of things agrees with another: rank errors, overlaps, rank-biased overlap.

Ranks start at 1. Functions take the two ranks of the things that stand in both lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.integer[Any]]

RBO_P = 0.98
"""Persistence of rank-biased overlap: the first 50 places carry about 86% of its weight."""


def percentiles(errors: Integers, at: Sequence[int] = (10, 25, 50, 75, 90)) -> dict[str, float | None]:
    """Return percentiles of errors by name, interpolated linearly; None where there are no errors.

    >>> percentiles(np.array([0, 1, 2, 3, 4]), (50, 90))
    {'50': 2.0, '90': 3.6}
    """
    if len(errors) == 0:
        return {str(p): None for p in at}
    return {str(p): float(value) for p, value in zip(at, np.percentile(errors, at), strict=True)}


def overlap(rank_a: Integers, rank_b: Integers, depth: int) -> float:
    """Return which part of the first ``depth`` places the two lists share.

    Args:
        rank_a: Ranks in one list of what stands in both.
        rank_b: Their ranks in the other.
        depth: How many places, at least 1.

    >>> overlap(np.array([1, 2, 9]), np.array([2, 7, 1]), 2)
    0.5
    """
    if depth < 1:
        raise InputError(f"depth must be at least 1, got depth={depth!r}.", hint="depth=10")
    return float(np.count_nonzero(np.maximum(rank_a, rank_b) <= depth) / depth)


def rank_biased_overlap(rank_a: Integers, rank_b: Integers, lengths: tuple[int, int], *, p: float = RBO_P) -> float:
    """Compute extrapolated rank-biased overlap, from 0 (nothing shared) to 1 (the same list).

    Webber, Moffat, Zobel 2010, equation 32 (RBO_ext): beyond the ends the agreement seen so far is assumed
    to go on.

    Args:
        rank_a: Ranks in one list of what stands in both.
        rank_b: Their ranks in the other.
        lengths: How long the two lists are.
        p: Persistence, above 0 and below 1: the larger, the deeper it looks.

    Returns:
        The overlap; 1 for two empty lists.

    >>> rank_biased_overlap(np.array([1, 2, 3]), np.array([1, 2, 3]), (3, 3))
    1.0
    >>> round(rank_biased_overlap(np.array([1, 2]), np.array([2, 1]), (2, 2), p=0.5), 9)
    0.5
    """
    if not 0 < p < 1:
        raise InputError(f"p must lie between 0 and 1, got p={p!r}.", hint="p=0.98")
    short, long = sorted(lengths)
    if short == 0:
        return 1.0 if long == 0 else 0.0
    met = np.bincount(np.maximum(rank_a, rank_b), minlength=long + 1)[1 : long + 1]
    shared = np.cumsum(met).astype(np.float64)
    depth = np.arange(1, long + 1)
    at_short, at_long = shared[short - 1], shared[-1]
    # Where only the longer list goes on, the shorter one is taken to agree as it did at its end.
    beyond = np.where(depth > short, at_short * (depth - short) / short, 0.0)
    weights = np.exp(depth * np.log(p))
    seen = (1 - p) / p * float(np.sum((shared + beyond) / depth * weights))
    tail = ((at_long - at_short) / long + at_short / short) * p**long
    return float(min(seen + tail, 1.0))
