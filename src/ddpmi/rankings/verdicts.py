"""Verdicts: the probability that a pair's direction is wrong, and which pairs are clear.

released sums -> Tally : how often each reading occurs -> Prior : how lifts vary in this release -> chances of presence
A reading is a pair's distance from independence, D = J - F L / N, in standard deviations of its noise. How lifts vary
is estimated from all readings of the release (empirical Bayes), separately for pairs with equally precise lifts. The noise
of a label's total moves all of its pairs together: it is integrated over once for each label, and all pairs of the label say
how large it may be. `cut` then finds the largest set of pairs whose expected share of wrong directions is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from ddpmi.rankings.noise_model import CLEAR_TOTAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpmi._typing import Flags, Floats, Integers
    from ddpmi.rankings.noise_model import NoiseModel

    Sums = tuple[Integers, Integers, Integers]
    """Released sums of pair, feature and label."""
    Codes = tuple[Integers, Integers]
    """Indices of each pair's feature and label."""

WRONG = 0.05
"""The largest expected share of wrong directions among the pairs that are clear."""
DOUBTFUL = 0.2
"""A pair with a larger false_sign is never clear."""
_BLOCK = 1 << 14
# Readings z are counted in cells that are narrow around 0: z = 2 sinh(_STEP k).
_STEP = 0.075
_HALF = 170  # cells on each side of 0
_Z = 2.0 * np.sinh(_STEP * np.arange(-_HALF, _HALF + 1))
# Precision of a lift: the expected sum in deviations of the noise, in octaves.
_LOWEST, _HIGHEST = -5, 18
_PRECISIONS = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
# Largest lift - 1 of each part of the prior.
_SIZES = 2.0 ** np.arange(-14, 21)
_SMALLEST = 0.25  # in deviations of the noise: a narrower part cannot be told from 0
_EVEN = 0.5  # in deviations: the two directions of narrower parts have equal probability
_LAWS = ((1.0, 0.0), (2 / math.sqrt(5), 1 / math.sqrt(5)), (math.sqrt(0.5), math.sqrt(0.5)), (1.0, 0.7), (1.0, 1.4))
"""The laws of a reading's noise, each a sum of two parts with these deviations; in the last two the second part is
the noise of a label's total."""
_SHARED = 3  # the first of the laws in which a label's noise has a part
_FROM = (0.35, 1.0, 2.0)  # from which share of a label's noise on the laws of labels hold, and where no more is counted
_NEAR = 4.0  # kernel: readings of the next octave count this many times less
_ROUNDS = 80
_NEVER = 1e-290
NODES = 17
"""At how many values of a label's noise its pairs are read."""
_FEEL = 0.25  # a label's noise below this many deviations of the rest is added to it
_LUCKY = 2.0  # how much wider noise is taken to be, where it was perhaps high because the sum had to reach a threshold
_HIDDEN = 3.0  # deviations above the threshold from which on hardly any pair is hidden
_LEAST = 0.02  # smallest factor of a label's total
_HALF_OF_ALL = 0.5
_UNSURE = 0.5  # no direction is more probable than the other
_AGREED = 0.5  # how much a doubtful direction gains where the pooled reading agrees with it
_UNMOVED = 3.0  # imagined pairs without any lift, in each octave
_UNTOLD = 0.3  # the same as a part of the pairs counted, in octaves whose lifts are not precise
_FINE = float(1 << 20)
_LEVELS = 1 << 12
LEVELS = _LEVELS + 1
"""The number of levels of `false_sign` among which the cut is chosen."""


@lru_cache(maxsize=1)
def _normal_tail() -> tuple[Floats, Floats]:
    at = np.linspace(-8.0, 37.0, 9001)
    return at, np.array([math.log(math.erfc(x / math.sqrt(2)) / 2) for x in at.tolist()])


def _tail(x: Floats, law: int, *, heavy: bool) -> Floats:
    """Return P[noise >= x] under one of ``_LAWS``."""
    first, second = _LAWS[law]
    if not heavy:
        at, logs = _normal_tail()
        scaled = x / math.hypot(first, second)
        return np.where(scaled > at[-1], 0.0, np.exp(np.interp(scaled, at, logs)))
    size = np.abs(x)
    a, b = first / math.sqrt(2), second / math.sqrt(2)
    if a == b:
        above = np.exp(-size / a) * (2 + size / a) / 4
    elif b == 0:
        above = np.exp(-size / a) / 2
    else:
        above = (a * a * np.exp(-size / a) - b * b * np.exp(-size / b)) / (2 * (a * a - b * b))
    return np.where(x >= 0, above, 1 - above)


def _between(low: Floats, high: Floats, law: int, *, heavy: bool) -> Floats:
    """Return P[low <= noise <= high], exact far from 0 on both sides."""
    right = low + high > 0
    near, far = np.where(right, low, -high), np.where(right, high, -low)
    return np.maximum(_tail(near, law, heavy=heavy) - _tail(far, law, heavy=heavy), 0.0)


def _parts(z: Floats, precision: float, law: int, *, heavy: bool) -> tuple[Floats, Floats]:
    """Return the likelihood of readings under each part of the prior: directions of absence, and of presence.

    A part is a lift - 1 that is uniform between 0 and one of ``_SIZES``, or its negative, which is never below -1.
    """
    sizes = np.maximum(_SIZES * precision, _SMALLEST)[:, None]
    limited = np.minimum(sizes, max(precision, _SMALLEST))
    presence = _between(z - sizes, z, law, heavy=heavy) / sizes
    absence = _between(z, z + limited, law, heavy=heavy) / limited
    even = sizes <= _EVEN
    middle = (presence + absence) / 2
    return np.where(even, middle, absence), np.where(even, middle, presence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Some pairs, with the ratio of their label's total to the whole as released."""

    joint: Floats
    """J."""
    feature: Floats
    """F."""
    ratio: Floats
    """L / N."""
    deviation: Floats
    """Standard deviation of J - F ratio, given the ratio."""
    relative: Floats
    """Standard deviation of the ratio's noise, divided by the ratio; infinite where the total is not above 0."""
    mixture: Floats
    """Standard deviation of the noise of F ratio, divided by that of J."""
    inside: Flags
    """Whether the label has at most half of the whole. Other pairs are read outside their label: F - J instead of J."""

    @classmethod
    def of(cls, noise_model: NoiseModel, sums: Sums, codes: Codes) -> Readings:
        """Read some pairs; there is noise in joint sums or in features."""
        joint, feature, label = (part.astype(np.float64) for part in sums)
        whole = float(max(noise_model.total, 1))
        noise = noise_model.noise
        own = noise.joint * whole
        features, labels = (np.full(len(joint), sd * whole) for sd in (noise.feature, noise.label))
        ratio = np.clip(label / whole, 0.0, 1.0)
        first = np.full(len(joint), own)
        if noise_model.pairs_of_feature is not None and noise_model.pairs_of_label is not None:
            # A margin is a sum of released pairs, this one included, and of the rest.
            first = own * (1 - ratio)
            features = np.hypot(features, own * np.sqrt(np.maximum(noise_model.pairs_of_feature[codes[0]] - 1, 0)))
            labels = np.hypot(labels, own * np.sqrt(noise_model.pairs_of_label[codes[1]]))
        second = features * ratio
        near_pair, near_feature = near_thresholds(noise_model, sums)
        inside = ratio <= _HALF_OF_ALL
        # Outside its label a pair is what its feature has beyond J, and a J that is high by chance looks like presence.
        first = np.where(near_pair & ~inside, _LUCKY * first, first)
        second = np.where(near_feature, _LUCKY * second, second)
        relative = np.divide(labels, label, out=np.full(len(joint), np.inf), where=label > 0)
        return cls(
            joint=joint,
            feature=feature,
            ratio=ratio,
            deviation=np.maximum(np.hypot(first, second), np.finfo(np.float64).tiny),
            relative=np.hypot(relative, noise.total),
            mixture=np.divide(second, first, out=np.full(len(joint), np.inf), where=first > 0),
            inside=inside,
        )

    def of_rows(self, rows: Any) -> Readings:
        """Return some rows."""
        return Readings(**{name: getattr(self, name)[rows] for name in self.__slots__})

    @property
    def share(self) -> Floats:
        """The deviation of J - F ratio that the ratio's noise adds, divided by that of the rest."""
        size = np.maximum(self.feature, 0.0) * self.ratio / self.deviation
        return np.multiply(size, self.relative, out=np.zeros(len(size)), where=size > 0)

    def precision(self, ratio: Floats) -> Floats:
        """Return the expected sum of the side that is read, in deviations, if the ratio is as given."""
        return np.maximum(self.feature, 0.0) * np.where(self.inside, ratio, 1 - ratio) / self.deviation

    def distance(self, ratio: Floats) -> Floats:
        """Return the distance of the side that is read from independence, in deviations, if the ratio is as given."""
        distance = (self.joint - self.feature * ratio) / self.deviation
        return np.where(self.inside, distance, -distance)

    @property
    def law(self) -> Integers:
        """Which of ``_LAWS`` the noise has, given the ratio."""
        even = np.minimum(self.mixture, 1 / np.maximum(self.mixture, 1e-300))
        return np.digitize(even, (0.25, 0.75))


def near_thresholds(noise_model: NoiseModel, sums: Sums) -> tuple[Flags, Flags]:
    """Return which pairs were released, and which features, because their noise was perhaps high."""
    joint, feature, _ = sums
    pair = np.zeros(len(joint), np.bool_)
    if noise_model.threshold is not None:
        above = (joint - int(noise_model.threshold)) / max(noise_model.sd, 1e-300)
        pair = (above >= 0) & (above < _HIDDEN)
    by_total = np.zeros(len(joint), np.bool_)
    if noise_model.hides is not None and noise_model.hides.features == "by totals":
        least = noise_model.hides.pairs
        by_total = feature - least.threshold < _HIDDEN * least.sd
    return pair, by_total


def _octave(precision: Floats) -> Floats:
    """Return the position of each precision among the octaves, from 0."""
    found: Floats = np.clip(np.log2(np.maximum(precision, _PRECISIONS[0])) - _LOWEST, 0, len(_PRECISIONS) - 1)
    return found


def _cell(z: Floats) -> Floats:
    """Return the position of each reading among the cells, from 0."""
    return np.clip(np.arcsinh(z / 2) / _STEP + _HALF, 0, 2 * _HALF)


TALLY = (len(_LAWS), len(_PRECISIONS), len(_Z))
"""The shape of a tally: laws, octaves of precision, cells of readings."""


def tallied(noise_model: NoiseModel, sums: Sums, codes: Codes) -> Integers:
    """Count the readings of some pairs: integers that may be added up in any order."""
    found = np.zeros(TALLY, np.int64)
    for rows in _blocks(len(sums[0])):
        some_sums, some_codes = _of_rows(sums, codes, rows)
        some = Readings.of(noise_model, some_sums, some_codes)
        shared = some.share
        law = np.where(shared < _FROM[0], some.law, _SHARED - 1 + np.digitize(shared, _FROM))
        counted = (shared < _FROM[-1]) & (some.relative < 1 / CLEAR_TOTAL)
        if noise_model.hides is not None and noise_model.hides.features == "by totals":
            counted &= ~near_thresholds(noise_model, some_sums)[1]
        if noise_model.threshold is not None:
            # Pairs near the threshold are released, or decide that their feature is released, because their noise is high.
            above = (some.feature * some.ratio - int(noise_model.threshold)) / some.deviation
            counted &= (above > _HIDDEN) | ((above < -_HIDDEN) & noise_model.every_pair)
        octave = np.rint(_octave(some.precision(some.ratio))).astype(np.int64)
        cell = np.rint(_cell(some.distance(some.ratio))).astype(np.int64)
        code = (law * TALLY[1] + octave) * TALLY[2] + cell
        found += np.bincount(code[counted], minlength=found.size).reshape(TALLY)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """How lifts vary in one release; a value that can be sent to a task."""

    logit: Floats
    """The log odds of presence: law, octave of precision, cell of the reading."""
    evidence: Floats
    """The logarithm of the probability of each reading, in the same order."""
    heavy: bool
    """Whether the noise is Laplace noise."""

    @classmethod
    def fitted(cls, tally: Integers, *, heavy: bool) -> Prior:
        """Estimate it from a tally of all pairs, by expectation maximisation."""
        law, octave, cell = np.nonzero(tally)
        counts = tally[law, octave, cell].astype(np.float64)
        likelihood = np.empty((2 * len(_SIZES), len(law)))
        for one, precision in sorted(set(zip(law.tolist(), octave.tolist(), strict=True))):
            at = (law == one) & (octave == precision)
            parts = _table(precision, one, heavy=heavy)[:, cell[at]]
            # Where a label's noise moves all of its pairs, one direction says nothing about the prior.
            likelihood[:, at] = parts if one < _SHARED else (parts + np.roll(parts, len(_SIZES), axis=0)) / 2
        apart = np.abs(np.arange(TALLY[1])[:, None] - octave)
        with threadpool_limits(limits=1, user_api="blas"):
            weights = _weights(likelihood, counts * _NEAR**-apart)
            return cls.of_weights(weights, heavy=heavy)

    @classmethod
    def of_weights(cls, weights: Floats, *, heavy: bool) -> Prior:
        """Tabulate the prior with the given probabilities of its parts, one row for each octave."""
        logit, evidence = np.empty((_SHARED, *TALLY[1:])), np.empty((_SHARED, *TALLY[1:]))
        for at, parts in enumerate(weights):
            for one in range(_SHARED):
                if one and not heavy:
                    logit[one, at], evidence[one, at] = logit[0, at], evidence[0, at]
                    continue
                table = _table(at, one, heavy=heavy)
                below = parts[: len(_SIZES)] @ table[: len(_SIZES)] + _NEVER
                above = parts[len(_SIZES) :] @ table[len(_SIZES) :] + _NEVER
                # Rounded: the last bits of a matrix product may depend on the machine.
                logit[one, at] = np.round(np.clip(np.log(above) - np.log(below), -60.0, 60.0), 9)
                evidence[one, at] = np.round(np.log(above + below), 9)
        return cls(logit=logit, evidence=evidence, heavy=heavy)

    def read(self, law: Integers, precision: Floats, distance: Floats) -> tuple[Floats, Floats]:
        """Return the log odds of presence, and the logarithm of the probability, of some readings."""
        octave, cell = _octave(precision), _cell(distance)
        low, left = np.minimum(octave.astype(np.int64), TALLY[1] - 2), np.minimum(cell.astype(np.int64), TALLY[2] - 2)
        up, right = octave - low, cell - left
        at = (law * TALLY[1] + low) * TALLY[2] + left
        found = []
        for table in (self.logit.ravel(), self.evidence.ravel()):
            lower = table[at] * (1 - right) + table[at + 1] * right
            upper = table[at + TALLY[2]] * (1 - right) + table[at + TALLY[2] + 1] * right
            found.append(lower * (1 - up) + upper * up)
        return found[0], found[1]


@lru_cache(maxsize=2 * len(_LAWS) * len(_PRECISIONS))
def _table(octave: int, law: int, *, heavy: bool) -> Floats:
    """Return the likelihood of every cell under every part of the prior: those of absence, then those of presence."""
    return np.concatenate(_parts(_Z, float(_PRECISIONS[octave]), law, heavy=heavy))


def _weights(likelihood: Floats, counts: Floats) -> Floats:
    """Estimate how probable the parts of the prior are, for each row of counts."""
    parts = len(likelihood)
    imagined = np.full((len(counts), parts), 1 / parts)
    narrow = _SIZES * _PRECISIONS[:, None]
    narrowest = np.maximum(np.sum(narrow <= _SMALLEST, axis=1) - 1, 0)
    # Below 0, a lift that is not precise is almost one that is 0: readings say little about how many are.
    unmoved = _UNMOVED + np.where(_PRECISIONS <= 1, _UNTOLD, 0.0) * counts.sum(axis=1)
    for side in (narrowest, narrowest + len(_SIZES)):
        imagined[np.arange(len(counts)), side] += unmoved / 2
    weights = np.full(imagined.shape, 1 / parts) if likelihood.size else imagined
    for _ in range(_ROUNDS if likelihood.size else 0):
        total = np.maximum(weights @ likelihood, _NEVER)
        weights = weights * ((counts / total) @ likelihood.T) + imagined
        weights /= weights.sum(axis=1, keepdims=True)
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


@lru_cache(maxsize=2)
def _nodes(*, heavy: bool) -> tuple[Floats, Floats]:
    """Return values of a label's noise in deviations, and their log probabilities."""
    at = np.linspace(-1.0, 1.0, NODES) * (7.0 if heavy else 4.5)
    density = -np.abs(at) * math.sqrt(2) if heavy else -at * at / 2
    return at, density - np.log(np.sum(np.exp(density)))


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, count, _BLOCK))


def _of_rows(sums: Sums, codes: Codes, rows: slice) -> tuple[Sums, Codes]:
    return (sums[0][rows], sums[1][rows], sums[2][rows]), (codes[0][rows], codes[1][rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """How large the noise of each label's total may be; a value that can be sent to a task."""

    weights: Floats
    """Log probabilities of the nodes of `_nodes`, one row for each label."""

    @classmethod
    def of(cls, gathered: Integers, *, heavy: bool) -> Labels:
        """Combine the noise's own law with what all pairs of each label say; ``gathered`` is the result of `gathered`."""
        weights = _nodes(heavy=heavy)[1] + gathered / _FINE
        return cls(weights=weights - weights.max(axis=1, keepdims=True, initial=-np.inf))

    def of_rows(self, rows: Integers) -> Labels:
        """Return some labels."""
        return Labels(weights=self.weights[rows])


def gathered(prior: Prior, noise_model: NoiseModel, sums: Sums, codes: Codes, labels: int) -> Integers:
    """Return what some pairs say about their labels' noise: integers that may be added up in any order."""
    found = np.zeros((labels, NODES), np.int64)
    for rows in _blocks(len(sums[0])):
        label = codes[1][rows]
        some_sums, some_codes = _of_rows(sums, codes, rows)
        some = Readings.of(noise_model, some_sums, some_codes)
        uncertain = np.flatnonzero((some.share >= _FEEL) & (some.relative < 1 / CLEAR_TOTAL))
        _, evidence = _at_nodes(prior, some.of_rows(uncertain))
        evidence = evidence - evidence.max(axis=1, keepdims=True, initial=-np.inf)
        np.add.at(found, label[uncertain], np.rint(evidence * _FINE).astype(np.int64))
    return found


def _at_nodes(prior: Prior, some: Readings) -> tuple[Floats, Floats]:
    """Read pairs at each node of their label's noise: log odds of presence, and logarithms of probability."""
    nodes = _nodes(heavy=prior.heavy)[0]
    ratio = some.ratio[:, None] * np.maximum(1 - some.relative[:, None] * nodes, _LEAST)
    spread = some.of_rows(np.s_[:, None])
    return prior.read(spread.law, spread.precision(ratio), spread.distance(ratio))


def chances(prior: Prior, labels: Labels, noise_model: NoiseModel, sums: Sums, codes: Codes) -> Floats:
    """Return the probability of presence of some pairs."""
    found = np.empty(len(sums[0]))
    for rows in _blocks(len(found)):
        some_sums, some_codes = _of_rows(sums, codes, rows)
        some = Readings.of(noise_model, some_sums, some_codes)
        found[rows] = _chances(prior, labels, some, codes[1][rows])
    return found


def _chances(prior: Prior, labels: Labels, some: Readings, label: Integers) -> Floats:
    shared = some.share
    wide = np.sqrt(1 + np.where(shared < _FEEL, shared, 0.0) ** 2)
    logit = prior.read(some.law, some.precision(some.ratio), some.distance(some.ratio) / wide)[0]
    found = _probability(np.where(some.inside, logit, -logit))
    uncertain = np.flatnonzero((shared >= _FEEL) & (some.relative < 1 / CLEAR_TOTAL))
    rows = some.of_rows(uncertain)
    logit = np.where(rows.inside, 1.0, -1.0)[:, None] * _at_nodes(prior, rows)[0]
    weights = np.exp(labels.weights[label[uncertain]])
    found[uncertain] = np.sum(weights * _probability(logit), axis=1) / np.sum(weights, axis=1)
    return np.where(some.relative < 1 / CLEAR_TOTAL, found, 0.5)


def _probability(logit: Floats) -> Floats:
    return 1 / (1 + np.exp(-logit))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judge:
    """What was learned from all pairs of a release; a value that can be sent to a task."""

    prior: Prior
    """How lifts vary."""
    labels: Labels
    """How large the noise of each label's total may be."""

    @classmethod
    def of(cls, noise_model: NoiseModel, sums: Sums, codes: Codes, labels: int) -> Judge:
        """Learn from all pairs of a release."""
        heavy = noise_model.noise.heavy
        prior = Prior.fitted(tallied(noise_model, sums, codes), heavy=heavy)
        return cls(prior=prior, labels=Labels.of(gathered(prior, noise_model, sums, codes, labels), heavy=heavy))

    def presence(self, noise_model: NoiseModel, sums: Sums, codes: Codes) -> Floats:
        """Return the probability of presence of some pairs."""
        return chances(self.prior, self.labels, noise_model, sums, codes)


def false_sign(chance: Floats, presence: Flags, own: Flags, *, pooled: bool) -> Floats:
    """Return the probability that the direction shown is wrong: at least 0.5 where a pair's own sums say the opposite.

    Args:
        chance: The probability of presence.
        presence: Whether presence is shown.
        own: Whether the released sums of the pair alone show presence.
        pooled: Whether the direction shown comes from the other labels of the feature too.

    >>> shown, own = np.array([True, False, True]), np.array([True, True, False])
    >>> false_sign(np.array([0.9, 0.9, 0.4]), shown, own, pooled=False).round(2).tolist()
    [0.1, 0.9, 0.6]
    """
    found = np.where(presence, 1 - chance, chance)
    # Where other labels agree, doubtful directions are right more often; clear ones hardly are.
    agreed = np.where(found < _UNSURE, found * (1 - _AGREED * found), found) if pooled else found
    return np.where(presence == own, agreed, np.maximum(found, _UNSURE))


def cut(levels: Integers) -> int:
    """Return how many of the lowest levels of false_sign are clear.

    Args:
        levels: How many pairs have each level, as `level_of` gives it.

    >>> counts = np.zeros(4097, np.int64)
    >>> counts[[0, 410, 800]] = 3, 2, 3
    >>> cut(counts)  # the pairs of the first two levels have a mean of 0.04, all have one of 0.1
    800
    """
    held = np.cumsum(levels * np.arange(len(levels)))
    fine = held <= WRONG * _LEVELS * np.cumsum(levels)
    found = int(np.flatnonzero(fine)[-1]) + 1 if fine.any() else 0
    # Without this limit many certain pairs would make doubtful ones clear, and those are mostly of the smallest labels.
    return min(found, int(DOUBTFUL * _LEVELS) + 1)


def level_of(false_sign: Floats) -> Integers:
    """Return the level of each value of false_sign, rounded up: what `cut` counts.

    >>> level_of(np.array([0.0, 0.1, 0.5])).tolist()
    [0, 410, 2048]
    """
    levels: Integers = np.ceil(false_sign * _LEVELS).astype(np.int64)
    return levels
