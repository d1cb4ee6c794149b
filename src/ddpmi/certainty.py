"""How sure an order is: between which ranks each pair may stand, and how many of the first places are surely right.

Both speak of the order by mutual information of the bounded sums before noise, and of the release's noise alone.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ddpmi.errors import InputError
from ddpmi.mi import mutual_information
from ddpmi.uncertainty import LEVEL
from ddpmi.views import best_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi.doubts import Doubt
    from ddpmi.views import Pairs

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]

Among = Literal["all", "released"]
_BLOCK = 1 << 18
_HEAD = 1 << 14  # places that are looked at first; few releases are sure of more
_HIDDEN = 0.1  # part of the failures that is left to pairs that were not released


def rank_bounds(mi: Floats, low: Floats, high: Floats, surely: Floats) -> tuple[Integers, Integers]:
    """Bound the rank of each pair among the released ones.

    The best rank counts only pairs that are surely ahead, by lower ends that all hold at once. The worst counts every pair
    whose own value reaches the low end of this pair's interval.

    Args:
        mi: Mutual information of all pairs.
        low: Lower ends of their intervals.
        high: Upper ends.
        surely: Lower ends that all hold at once: of many intervals some are wrong, and those of pairs that noise lifted
            far would stand before the best.

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


def bounds_of(pairs: Pairs, rows: Integers, level: float) -> tuple[Floats, Floats]:
    """Bound the mutual information of some pairs, in nats."""
    low, high = pairs.mi[rows], pairs.mi[rows]
    if pairs.doubt is None:
        return low, high
    cells = pairs.cells
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        codes = cells.feature_code[rows[part]], cells.label_code[rows[part]]
        sums = cells.joint[rows[part]], cells.feature_sums[codes[0]], cells.label_sums[codes[1]]
        low[part], high[part] = pairs.doubt.bounds(pairs.mi[rows[part]], sums, codes, level=level)
    return low, high


def sure_lows(pairs: Pairs, rows: Integers, low: Floats, high: Floats) -> Floats:
    """Lower ends of some pairs, in nats, so low that all of them hold at once in 95% of releases.

    Args:
        pairs: The release.
        rows: Places of the pairs.
        low: Lower ends that hold in 95% of cases each.
        high: Upper ends.
    """
    surely = low.copy()
    # No other pair can be ahead of any.
    near = np.flatnonzero(low > np.min(high, initial=np.inf))
    level = 1 - (1 - LEVEL) / max(len(rows), 1)
    surely[near] = np.minimum(low[near], bounds_of(pairs, rows[near], level)[0])
    return surely


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is no probability.

    >>> check_confidence(0.95)
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, got confidence={confidence!r}.", hint="confidence=0.95")


def stable_top(pairs: Pairs, confidence: float, *, among: Among = "all") -> int:
    """Count the first places that surely hold the pairs that belong there, in whatever order.

    All intervals are taken so wide that all of them hold at once with the confidence; then every prefix that is
    separated from the rest is right, and the longest may be chosen. The rest holds the pairs that were not released,
    unless only released ones are asked about.
    """
    check_confidence(confidence)
    if among not in get_args(Among):
        raise InputError(f"among must be one of {get_args(Among)}, got {among!r}.", hint='among="all"')
    count = len(pairs)
    if pairs.doubt is None or count == 0:
        return count
    level = 1 - (1 - confidence) * (1 - _HIDDEN) / count
    hidden = 0.0 if among == "released" else float(np.max(hidden_most(pairs, pairs.doubt, confidence)))
    head = min(_HEAD, count)
    while True:
        first = best_of(pairs.key, pairs.cells.joint, np.arange(count), head)
        others = np.ones(count, np.bool_)
        others[first] = False
        found, least = _separated(pairs, first, np.flatnonzero(others), (level, hidden))
        # A longer prefix holds this one, so its lowest end is no higher.
        if least <= hidden or head == count:
            return found
        head = min(4 * head, count)


def stable_tops(pairs: Pairs, confidence: float) -> list[int]:
    """Do the same within each label, for all labels at once."""
    check_confidence(confidence)
    label, doubt = pairs.cells.label_code, pairs.doubt
    counts = np.bincount(label, minlength=len(pairs.cells.labels))
    if doubt is None or len(pairs) == 0:
        return [int(count) for count in counts]
    level = 1 - (1 - confidence) * (1 - _HIDDEN) / len(pairs)
    hidden = hidden_most(pairs, doubt, confidence)
    order = pairs.order[np.argsort(label[pairs.order], kind="stable")]
    groups = np.split(order, np.cumsum(counts)[:-1])
    return [
        _separated(pairs, rows[:_HEAD], rows[_HEAD:], (level, float(most)))[0]
        for rows, most in zip(groups, hidden[:-1], strict=True)
    ]


def _separated(pairs: Pairs, head: Integers, tail: Integers, limits: tuple[float, float]) -> tuple[int, float]:
    """Return the longest prefix of the head whose lower ends all lie above all other upper ends, and the lowest end."""
    level, hidden = limits
    low, high = bounds_of(pairs, head, level)
    floor = np.minimum.accumulate(low)
    # Upper ends in the tail are at least the values there, which is enough to begin with.
    others = np.append(high[1:], np.max(pairs.mi[tail], initial=0.0))
    ceiling = np.maximum.accumulate(others[::-1])[::-1]
    sure = np.flatnonzero(floor > np.maximum(ceiling, hidden))
    if len(sure) == 0 or len(tail) == 0:
        return int(sure[-1]) + 1 if len(sure) else 0, float(floor[-1])
    # No pair tells more than its feature: most of the tail cannot reach the head, and needs no interval.
    tail = tail[_most_of_features(pairs, level)[pairs.cells.feature_code[tail]] > floor[sure[-1]]]
    most = float(np.max(bounds_of(pairs, tail, level)[1], initial=0.0))
    sure = sure[floor[sure] > most]
    return int(sure[-1]) + 1 if len(sure) else 0, float(floor[-1])


def _most_of_features(pairs: Pairs, level: float) -> Floats:
    """Return the entropy that each feature has at most, in nats."""
    if pairs.doubt is None:
        return np.full(len(pairs.cells.features), np.inf)
    noise = pairs.doubt.noise
    summed = pairs.doubt.pairs_of_feature
    held = np.zeros(len(pairs.cells.features), np.int64) if summed is None else summed
    share = np.maximum(pairs.cells.feature_sums, 0) / max(pairs.cells.total, 1)
    # Twice the reach: feature and joint sum may both be off, and the total with them.
    reach = 2 * noise.width(level)
    spread = np.sqrt(noise.feature**2 + (1 + held) * noise.joint**2 + (share * noise.total) ** 2)
    px = np.minimum(share + reach * spread, 0.5)
    return mutual_information(px, px, px)


def hidden_most(pairs: Pairs, doubt: Doubt, confidence: float) -> Floats:
    """Bound the mutual information of pairs that were not released, for each label and for labels not released.

    A pair below the threshold has a small joint sum. By presence it tells most if it is all of its feature; by
    absence, if it is empty and its feature as large as one can be that was not released with the label. A label below a
    threshold of its own tells no more than its entropy. 0 where nothing is hidden.
    """
    count = len(pairs.cells.labels)
    if doubt.hides is None:
        return np.zeros(count + 1)
    total, noise = max(pairs.cells.total, 1), doubt.noise
    cuts = {cut for cut in (doubt.hides.pairs, doubt.hides.labels) if cut.threshold}
    # No more than 1 / threshold pairs, or labels, have such a sum, so as many chances are enough.
    least_share = min(min(cut.threshold for cut in cuts) / total, 1.0)
    reach = _one_sided((1 - confidence) * _HIDDEN / len(cuts) * least_share, heavy=noise.heavy)
    largest, of_labels = (
        min(max((cut.threshold + reach * cut.sd) / total, 0.0), 1.0) for cut in (doubt.hides.pairs, doubt.hides.labels)
    )
    label = np.clip(pairs.cells.label_sums / total, 0.0, 1.0)
    slack = reach * math.hypot(noise.label, noise.total)
    least, most = np.clip(label - slack, largest, 1.0), np.minimum(label + slack, 1.0)
    presence = mutual_information(np.full(count, largest), np.full(count, largest), least)
    elsewhere = _in_other_labels(pairs, doubt, reach)
    # A feature of which nothing was released has a small total, or only small pairs, one for each label and some elsewhere.
    feature = np.full(count, largest if doubt.hides.features == "by totals" else count * largest + elsewhere)
    if doubt.hides.features is None:
        missing = _largest_missing(pairs) / total
        reached = missing + reach * math.hypot(noise.feature, noise.total)
        feature = np.where(missing > 0, np.maximum(feature, reached), feature)
    # What is more common than all other labels together cannot be wholly absent from this one.
    absence = mutual_information(np.zeros(count), np.clip(feature, 0.0, 1 - most), most)
    unknown = 0.0 if doubt.labels_known else min(of_labels, elsewhere, 0.5)  # more than half has less entropy
    return np.append(np.maximum(presence, absence), mutual_information(unknown, unknown, unknown))


def _one_sided(chance: float, *, heavy: bool) -> float:
    """Return the deviations that noise exceeds with that chance."""
    return -math.log(2 * chance) / math.sqrt(2) if heavy else -NormalDist().inv_cdf(chance)


def _in_other_labels(pairs: Pairs, doubt: Doubt, reach: float) -> float:
    """Bound what labels that were not released can hold, as a part of the total: hidden ones, or those that are not ranked."""
    if doubt.units:
        return 1.0
    total, count = max(pairs.cells.total, 1), len(pairs.cells.labels)
    rest = 1 - float(np.sum(pairs.cells.label_sums.astype(np.float64))) / total
    slack = reach * math.sqrt(count * doubt.noise.label**2 + doubt.noise.total**2)
    return min(max(rest + slack, 0.0), 1.0)


def _largest_missing(pairs: Pairs) -> Floats:
    """Return for each label the sum of the largest feature that was not released with it; 0 where none is missing."""
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
