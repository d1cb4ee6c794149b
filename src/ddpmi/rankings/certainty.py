"""The certainty of a ranking: an interval of each pair's rank, and the number of top pairs that are right.

Both compare with the order by mutual information of the bounded sums without noise. Only the noise of the release is
considered.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ddpmi.errors import InputError
from ddpmi.information.mi import mutual_information
from ddpmi.rankings import intervals
from ddpmi.rankings.noise_model import LEVEL
from ddpmi.rankings.pairs import best_of

if TYPE_CHECKING:
    from ddpmi._typing import Floats, Integers
    from ddpmi.rankings.noise_model import NoiseModel
    from ddpmi.rankings.pairs import ScoredPairs


Among = Literal["all", "released"]
"""Whether suppressed pairs compete for the top too, or released ones only."""
_BLOCK = 1 << 18
_HEAD = 1 << 14  # ranks examined first; few releases have a longer stable top
_HIDDEN = 0.1  # part of the error probability that is reserved for suppressed pairs


def rank_bounds(mi: Floats, low: Floats, high: Floats, surely: Floats) -> tuple[Integers, Integers]:
    """Bound the rank of each pair among the released ones.

    The best rank counts the pairs whose simultaneous lower end is above this pair's upper end. The worst rank counts the
    pairs whose value reaches this pair's lower end.

    Args:
        mi: Mutual information of all pairs.
        low: Lower ends of their intervals.
        high: Upper ends.
        surely: Lower ends that hold simultaneously. Of many separate intervals some are wrong, and pairs with large
            positive noise would then count as ahead of the best ones.

    Returns:
        Best and worst rank.

    >>> mi, low, high = np.array([0.9, 0.5, 0.4]), np.array([0.8, 0.3, 0.1]), np.array([1.0, 0.6, 0.6])
    >>> [ranks.tolist() for ranks in rank_bounds(mi, low, high, np.array([0.7, 0.2, 0.0]))]
    [[1, 2, 2], [1, 3, 3]]
    """
    count = len(mi)
    best = 1 + count - np.searchsorted(np.sort(surely), high, side="right")
    worst = count - np.searchsorted(np.sort(mi), low, side="left")
    return best, worst


def bounds_of(pairs: ScoredPairs, rows: Integers, level: float) -> tuple[Floats, Floats]:
    """Return bounds of the mutual information of some pairs, in nats."""
    low, high = pairs.mi[rows], pairs.mi[rows]
    if pairs.noise_model is None:
        return low, high
    cells = pairs.cells
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        codes = cells.feature_code[rows[part]], cells.label_code[rows[part]]
        sums = cells.joint[rows[part]], cells.feature_sums[codes[0]], cells.label_sums[codes[1]]
        low[part], high[part] = intervals.bounds(pairs.noise_model, pairs.mi[rows[part]], sums, codes, level=level)
    return low, high


def sure_lows(pairs: ScoredPairs, rows: Integers, low: Floats, high: Floats) -> Floats:
    """Return lower ends of some pairs, in nats, that hold simultaneously in 95% of releases.

    Args:
        pairs: All pairs of the release.
        rows: Row numbers of the pairs.
        low: Lower ends that each hold in 95% of releases.
        high: Upper ends.
    """
    surely = low.copy()
    # Only these can be surely ahead of another pair.
    near = np.flatnonzero(low > np.min(high, initial=np.inf))
    level = 1 - (1 - LEVEL) / max(len(rows), 1)
    surely[near] = np.minimum(low[near], bounds_of(pairs, rows[near], level)[0])
    return surely


def check_confidence(confidence: float) -> None:
    """Raise unless the confidence is between 0 and 1.

    >>> check_confidence(0.95)
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, got confidence={confidence!r}.", hint="confidence=0.95")


def stable_top(pairs: ScoredPairs, confidence: float, *, among: Among = "all") -> int:
    """Return the largest k such that the first k pairs are the k best ones without noise, in some order.

    The intervals are wide enough to hold simultaneously with the given confidence. Then each prefix whose lower ends are
    above the upper ends of all other pairs is right, and the longest is taken. The other pairs include the suppressed
    ones, unless ``among`` is "released".
    """
    check_confidence(confidence)
    if among not in get_args(Among):
        raise InputError(f"among must be one of {get_args(Among)}, got {among!r}.", hint='among="all"')
    count = len(pairs)
    if pairs.noise_model is None or count == 0:
        return count
    level = 1 - (1 - confidence) * (1 - _HIDDEN) / count
    hidden = 0.0 if among == "released" else float(np.max(hidden_most(pairs, pairs.noise_model, confidence)))
    head = min(_HEAD, count)
    while True:
        first = best_of(pairs.key, pairs.cells.joint, np.arange(count), head)
        others = np.ones(count, np.bool_)
        others[first] = False
        found, least = _separated(pairs, first, np.flatnonzero(others), level=level, hidden=hidden)
        # A longer prefix contains this one, so its lowest end is not higher.
        if least <= hidden or head == count:
            return found
        head = min(4 * head, count)


def stable_tops(pairs: ScoredPairs, confidence: float) -> list[int]:
    """Return the stable top within each label; the confidence holds for all labels together."""
    check_confidence(confidence)
    label, noise_model = pairs.cells.label_code, pairs.noise_model
    counts = np.bincount(label, minlength=len(pairs.cells.labels))
    if noise_model is None or len(pairs) == 0:
        return [int(count) for count in counts]
    level = 1 - (1 - confidence) * (1 - _HIDDEN) / len(pairs)
    hidden = hidden_most(pairs, noise_model, confidence)
    order = pairs.order[np.argsort(label[pairs.order], kind="stable")]
    groups = np.split(order, np.cumsum(counts)[:-1])
    return [
        _separated(pairs, rows[:_HEAD], rows[_HEAD:], level=level, hidden=float(most))[0]
        for rows, most in zip(groups, hidden[:-1], strict=True)
    ]


def _separated(pairs: ScoredPairs, head: Integers, tail: Integers, *, level: float, hidden: float) -> tuple[int, float]:
    """Find the longest prefix of the head whose lower ends are above the upper ends of all other pairs.

    Args:
        pairs: All pairs of the release.
        head: Row numbers of the first pairs, in order.
        tail: Row numbers of the pairs to compare with.
        level: The level of the intervals.
        hidden: An upper end for suppressed pairs.

    Returns:
        The length of the prefix, and the lowest lower end in the head.
    """
    low, high = bounds_of(pairs, head, level)
    floor = np.minimum.accumulate(low)
    # Upper ends in the tail are at least the values there: a cheap first test.
    others = np.append(high[1:], np.max(pairs.mi[tail], initial=0.0))
    ceiling = np.maximum.accumulate(others[::-1])[::-1]
    sure = np.flatnonzero(floor > np.maximum(ceiling, hidden))
    if len(sure) == 0 or len(tail) == 0:
        return int(sure[-1]) + 1 if len(sure) else 0, float(floor[-1])
    # Mutual information is at most the feature's entropy: most of the tail cannot reach the head and needs no interval.
    tail = tail[_most_of_features(pairs, level)[pairs.cells.feature_code[tail]] > floor[sure[-1]]]
    most = float(np.max(bounds_of(pairs, tail, level)[1], initial=0.0))
    sure = sure[floor[sure] > most]
    return int(sure[-1]) + 1 if len(sure) else 0, float(floor[-1])


def _most_of_features(pairs: ScoredPairs, level: float) -> Floats:
    """Return an upper bound of the entropy of each feature, in nats."""
    if pairs.noise_model is None:
        return np.full(len(pairs.cells.features), np.inf)
    noise = pairs.noise_model.noise
    summed = pairs.noise_model.pairs_of_feature
    held = np.zeros(len(pairs.cells.features), np.int64) if summed is None else summed
    part = np.maximum(pairs.cells.feature_sums, 0) / max(pairs.cells.total, 1)
    # Twice the width: feature sum, joint sum and total may all have errors.
    reach = 2 * noise.width(level)
    spread = np.sqrt(noise.feature**2 + (1 + held) * noise.joint**2 + (part * noise.total) ** 2)
    px = np.minimum(part + reach * spread, 0.5)
    return mutual_information(px, px, px)


def hidden_most(pairs: ScoredPairs, noise_model: NoiseModel, confidence: float) -> Floats:
    """Return upper bounds of the mutual information of suppressed pairs: for each label, and last for suppressed labels.

    A pair below the threshold has a small joint sum. By presence its information is largest if it is all of its feature.
    By absence it is largest if its sum is 0 and its feature is as large as a feature that was not released with the label
    can be. For a label below its own threshold the bound is its entropy. The bounds are 0 where nothing is suppressed.
    """
    count = len(pairs.cells.labels)
    if noise_model.hides is None:
        return np.zeros(count + 1)
    total, noise = max(pairs.cells.total, 1), noise_model.noise
    cuts = {cut for cut in (noise_model.hides.pairs, noise_model.hides.labels) if cut.threshold}
    # At most total / threshold pairs, or labels, can have such a sum: the error probability is divided by this number.
    least_share = min(min(cut.threshold for cut in cuts) / total, 1.0)
    reach = _one_sided((1 - confidence) * _HIDDEN / len(cuts) * least_share, heavy=noise.heavy)
    largest, of_labels = (
        min(max((cut.threshold + reach * cut.sd) / total, 0.0), 1.0)
        for cut in (noise_model.hides.pairs, noise_model.hides.labels)
    )
    label = np.clip(pairs.cells.label_sums / total, 0.0, 1.0)
    slack = reach * math.hypot(noise.label, noise.total)
    least, most = np.clip(label - slack, largest, 1.0), np.minimum(label + slack, 1.0)
    presence = mutual_information(np.full(count, largest), np.full(count, largest), least)
    elsewhere = _in_other_labels(pairs, noise_model, reach)
    # A suppressed feature has a small total, or only small pairs: one for each label, and some in suppressed labels.
    feature = np.full(count, largest if noise_model.hides.features == "by totals" else count * largest + elsewhere)
    if noise_model.hides.features is None:
        missing = _largest_missing(pairs) / total
        reached = missing + reach * math.hypot(noise.feature, noise.total)
        feature = np.where(missing > 0, np.maximum(feature, reached), feature)
    # A feature that is more common than all other labels together cannot be wholly absent from this label.
    absence = mutual_information(np.zeros(count), np.clip(feature, 0.0, 1 - most), most)
    unknown = 0.0 if noise_model.labels_known else min(of_labels, elsewhere, 0.5)  # more than half has less entropy
    return np.append(np.maximum(presence, absence), mutual_information(unknown, unknown, unknown))


def _one_sided(chance: float, *, heavy: bool) -> float:
    """Return the number of standard deviations that noise exceeds with the given probability."""
    return -math.log(2 * chance) / math.sqrt(2) if heavy else -NormalDist().inv_cdf(chance)


def _in_other_labels(pairs: ScoredPairs, noise_model: NoiseModel, reach: float) -> float:
    """Return an upper bound of the sum of all labels that are not in the release, as a fraction of the total."""
    if noise_model.labels_overlap:
        return 1.0
    total, count = max(pairs.cells.total, 1), len(pairs.cells.labels)
    rest = 1 - float(np.sum(pairs.cells.label_sums.astype(np.float64))) / total
    slack = reach * math.sqrt(count * noise_model.noise.label**2 + noise_model.noise.total**2)
    return min(max(rest + slack, 0.0), 1.0)


def _largest_missing(pairs: ScoredPairs) -> Floats:
    """Return for each label the sum of the largest released feature without a released pair; 0 where there is none."""
    cells = pairs.cells
    by_size = np.argsort(-cells.feature_sums, kind="stable")
    place = np.empty(len(by_size), np.int64)
    place[by_size] = np.arange(len(by_size))
    sizes = np.append(cells.feature_sums[by_size], 0).astype(np.float64)
    places = place[cells.feature_code]
    order = np.lexsort((places, cells.label_code))
    found = np.zeros(len(cells.labels))
    starts = np.searchsorted(cells.label_code[order], np.arange(len(cells.labels) + 1))
    for label, (start, end) in enumerate(pairwise(starts.tolist())):
        own = places[order[start:end]]
        gaps = np.flatnonzero(own != np.arange(len(own)))
        found[label] = sizes[gaps[0] if len(gaps) else len(own)]
    return np.maximum(found, 0.0)
