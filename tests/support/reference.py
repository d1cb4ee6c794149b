"""The pipeline before noise, in plain Python and exact integers: what every engine must agree with."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from ddpmi.pipeline.contributions import Bounding


def keyed_hash(salt: str, purpose: str, *fields: str) -> str:
    text = f"{salt}:{purpose}" + "".join(f":{len(field)}:{field}" for field in fields)
    return hashlib.sha256(text.encode()).hexdigest()


def takes_part(salt: str, unit: str, rate: Fraction) -> bool:
    """Whether a unit's coin falls right: the first 64 bits of its hash as a number."""
    return int(keyed_hash(salt, "coin", unit)[:16], 16) < math.floor(rate * 2**64)


def selection(
    rows: Iterable[tuple[Any, ...]], bounding: Bounding, salt: str, *, known: Iterable[str] = ()
) -> dict[str, int]:
    """Sum the weights of each unit's features that are not known, the `cap` of smallest hash where it has more."""
    features: dict[str, set[str]] = defaultdict(set)
    for unit, feature, label, *_ in rows:
        if None not in (unit, feature, label) and feature not in known and _samples(bounding, salt, unit):
            features[unit].add(feature)
    sums: Counter[str] = Counter()
    for unit, found in features.items():
        kept = sorted(found, key=lambda feature: keyed_hash(salt, "feature", unit, feature))[: bounding.most_pairs]
        w = 0
        while len(kept) * (w + 1) ** 2 <= 2**32:
            w = w + 4096 if len(kept) * (w + 4096) ** 2 <= 2**32 else w + 1
        for feature in kept:
            sums[feature] += w
    return dict(sums)


def _samples(bounding: Bounding, salt: str, unit: str) -> bool:
    return bounding.sample_rate is None or takes_part(salt, unit, bounding.sample_rate)


def level(value: float | None, bounding: Bounding) -> int:
    """One row's value on the grid; NULL and NaN count nothing."""
    if value is None or math.isnan(value):
        return 0
    clip = bounding.bounds.clip if bounding.bounds else None
    top = float(2**52 * bounding.step) if clip is None else float(clip)
    return math.floor(min(max(value, 0.0), top) / float(bounding.step) + 0.5)


def weight(values: list[int], bounding: Bounding) -> int:
    bounds = bounding.bounds
    if bounds is None or bounds.strategy == "sample":
        return int(2**bounding.g)
    k, c, full = bounds.pairs, bounds.levels, 2**bounding.g
    s, ss = sum(values), sum(v * v for v in values)
    margin = 1 - 2.0**-40
    if bounding.norm == "l1":
        return full if s <= k * c else math.floor(k * c * full / s * margin)
    if ss <= k * c * c and s <= 2 * k * c:
        return full
    return math.floor(min(math.sqrt(k * c * c * full * full / ss), 2 * k * c * full / s) * margin)


def contributions(
    rows: Iterable[tuple[Any, ...]], bounding: Bounding, salt: str
) -> dict[str, dict[tuple[str, str], int]]:
    """Bound what each unit contributes to each pair, from rows (unit, feature, label[, value])."""
    units: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for unit, feature, label, *value in rows:
        if None not in (unit, feature, label) and _samples(bounding, salt, unit):
            units[unit][feature, label] += level(value[0], bounding) if bounding.valued else 1
    found = {}
    for unit, counts in units.items():
        most = bounding.bounds.levels if bounding.bounds else math.inf
        pairs = {pair: (min(q, most) if bounding.valued else 1) for pair, q in counts.items() if q > 0}
        if bounding.bounds is not None:
            pairs = _capped(unit, pairs, bounding, salt)
        w = weight(list(pairs.values()), bounding) if pairs else 0
        found[unit] = {pair: int(v) * w for pair, v in pairs.items()}
    return found


def joint(rows: Iterable[tuple[Any, ...]], bounding: Bounding, salt: str) -> dict[tuple[str, str], int]:
    """Sum the bounded contributions of all units."""
    sums: Counter[tuple[str, str]] = Counter()
    for pairs in contributions(rows, bounding, salt).values():
        sums.update(pairs)
    return dict(sums)


def population(
    rows: Iterable[tuple[Any, ...]], bounding: Bounding, salt: str
) -> tuple[dict[str, int], dict[str, int], int]:
    """Sum the weight of each unit once for each of its features, once for each of its labels, and once in all."""
    features, labels, total = Counter[str](), Counter[str](), 0
    for pairs in contributions(rows, bounding, salt).values():
        if pairs:
            (w,) = set(pairs.values())
            total += w
            features.update(dict.fromkeys({feature for feature, _ in pairs}, w))
            labels.update(dict.fromkeys({label for _, label in pairs}, w))
    return dict(features), dict(labels), total


def _capped(unit: str, pairs: dict[tuple[str, str], Any], bounding: Bounding, salt: str) -> dict[tuple[str, str], Any]:
    assert bounding.bounds is not None
    labels = sorted({label for _, label in pairs}, key=lambda label: keyed_hash(salt, "label", unit, label))
    kept = set(labels[: bounding.bounds.labels])
    left = [pair for pair in pairs if pair[1] in kept]
    left.sort(key=lambda pair: keyed_hash(salt, "pair", unit, *pair))
    return {pair: pairs[pair] for pair in left[: bounding.bounds.cap]}
