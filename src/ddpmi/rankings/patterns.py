"""Patterns of lifts: an empirical Bayes factor analysis of how the lifts of a feature vary together over the labels.

The model. z is a pair's lift minus one, as released; its noise has the known variance v.
    z = offset[label] + sqrt(scale) (loadings[label] . u + e) + noise,    u ~ N(0, 1),    e ~ N(0, own[label])
Each feature has its own u and its own scale, one of ``_SCALES``. The offset is the effect of noise in a label's total, the
same for all of its pairs; it carries no information and is subtracted. The rest e of a pair is shrunk towards 0 as
the model says, or less where it is clearly larger than the noise (`believed`): a feature may be frequent in one label
alone, which is neither a pattern nor noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ddpmi._typing import Floats, Integers


_SCALES = 4.0 ** np.arange(-6, 3)
_PATTERNS = 8  # more gain nothing on the sets of docs/decisions/pooled-order.md
STAGES = ((400, 60), (2000, 12))
"""The number of features and of rounds of each stage of fitting: first a part of the sample, then all of it."""
_PRIOR = 5.0  # weight of the prior: imagined features without a pattern, for each label
_PRIOR_OWN = 0.1
LEAST = 1e-4
"""The smallest variance and the smallest relative total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Matrices of features by labels. A pair that was not released has lift 0 and infinite variance."""

    lift: Floats
    """Lift minus one."""
    variance: Floats
    """Variance of its noise."""

    def less(self, offsets: Floats) -> Rows:
        """Subtract an offset for each label."""
        return Rows(lift=np.where(np.isfinite(self.variance), self.lift - offsets, 0.0), variance=self.variance)

    def relative_to(self, totals: Floats) -> Rows:
        """Return the lifts if each label's total is multiplied by the given factor."""
        lift = np.where(np.isfinite(self.variance), (1 + self.lift) / totals - 1, 0.0)
        return Rows(lift=lift, variance=self.variance / totals**2)

    def every(self, step: int) -> Rows:
        """Return every step-th feature."""
        return Rows(lift=self.lift[::step], variance=self.variance[::step])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Patterns:
    """The fitted model; a value that can be sent to a task."""

    loadings: Floats
    """Labels by patterns."""
    own: Floats
    """Variance of each label that the patterns do not explain."""
    weights: Floats
    """The fraction of features that have each scale."""
    offsets: Floats
    """The error of each label's total, relative to it."""

    def of_one_size(self, counts: Integers) -> Patterns:
        """Scale the model to mean variance 1 over all pairs: only products of scale and loadings are determined."""
        size = max(float(counts @ (self.own + np.sum(self.loadings**2, axis=1)) / max(counts.sum(), 1)), LEAST)
        return replace(self, loadings=self.loadings / np.sqrt(size), own=self.own / size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The posterior of u, given one scale."""

    scale: float
    """The scale, the same for all features."""
    precision: Floats
    """Precision of each lift around its pattern."""
    spread: Floats
    """Covariance of u for each feature, flattened."""
    mean: Floats
    """Mean of u for each feature."""


def fitted(rows: Rows, total_variances: Floats) -> Patterns:
    """Fit the model by expectation maximisation; ``total_variances`` are the relative variances of the labels' totals."""
    features, labels = rows.lift.shape
    steps = [-(-features // most) for most, _ in STAGES]
    first = rows.every(steps[0])
    model = Patterns(
        loadings=_first_loadings(first, min(_PATTERNS, labels - 1, len(first.lift) - 1)),
        own=np.full(labels, 0.5),
        weights=np.full(len(_SCALES), 1 / len(_SCALES)),
        offsets=np.zeros(labels),
    )
    for step, (_, rounds) in zip(steps, STAGES, strict=True):
        some = rows.every(step)
        counts = np.isfinite(some.variance).sum(axis=0)
        for _ in range(rounds):
            model = _improved(some, model, total_variances).of_one_size(counts)
    return model


def _first_loadings(rows: Rows, patterns: int) -> Floats:
    """Return the main directions of the lifts that exceed their noise, all features weighted equally."""
    square = rows.lift**2
    clear = np.where(square > 4 * rows.variance, rows.lift, 0.0)
    size = np.sqrt(np.mean(clear**2, axis=1, keepdims=True))
    _, values, directions = np.linalg.svd(
        np.divide(clear, size, out=np.zeros(clear.shape), where=size > 0), full_matrices=False
    )
    loadings: Floats = (directions[:patterns] * values[:patterns, None]).T
    largest = np.sqrt(np.mean(np.sum(loadings**2, axis=1)))
    loadings *= np.sqrt(0.5) / max(float(largest), LEAST)
    return loadings


def _read(rows: Rows, model: Patterns) -> tuple[Floats, list[_Reading]]:
    """Return the probability of each scale for each feature, and the posterior of u given each scale."""
    features = len(rows.lift)
    patterns = model.loadings.shape[1]
    seen = np.isfinite(rows.variance)
    products = _products(model.loadings)
    found, chances = [], np.empty((len(_SCALES), features))
    for at, scale in enumerate(_SCALES.tolist()):
        spread = scale * model.own + rows.variance
        precision = 1 / spread
        inner = np.eye(patterns) + (scale * precision @ products).reshape(features, patterns, patterns)
        pull = np.sqrt(scale) * (precision * rows.lift) @ model.loadings
        covariance = np.linalg.inv(inner)
        mean = np.einsum("fij,fj->fi", covariance, pull)
        misfit = np.sum(np.log(spread, out=np.zeros(spread.shape), where=seen) + precision * rows.lift**2, axis=1)
        misfit += np.linalg.slogdet(inner)[1] - np.sum(pull * mean, axis=1)
        chances[at] = np.log(model.weights[at]) - misfit / 2
        flat = covariance.reshape(features, patterns * patterns)
        found.append(_Reading(scale=scale, precision=precision, spread=flat, mean=mean))
    chances = np.exp(chances - chances.max(axis=0))
    return chances / chances.sum(axis=0), found


def _improved(rows: Rows, model: Patterns, total_variances: Floats) -> Patterns:
    """Do one round of expectation maximisation."""
    seen = np.isfinite(rows.variance)
    labels, patterns = model.loadings.shape
    plain = rows.less(model.offsets)
    chances, readings = _read(plain, model)
    products = _products(model.loadings)
    second = np.zeros((labels, patterns * patterns))
    first = np.zeros((labels, patterns))
    own, shift, weight = np.zeros(labels), np.zeros(labels), np.zeros(labels)
    for chance, reading in zip(chances, readings, strict=True):
        counted = chance[:, None] * seen
        pattern = reading.mean @ model.loadings.T
        kept = reading.scale * model.own * reading.precision
        rest = plain.lift / np.sqrt(reading.scale) - pattern
        moments = reading.spread + _products(reading.mean)
        second += counted.T @ moments
        first += (counted * kept * (rest + pattern)).T @ reading.mean
        held = ((counted * (1 - kept)).T @ moments).reshape(labels, patterns, patterns)
        first += np.einsum("lij,lj->li", held, model.loadings)
        own += np.sum(counted * (kept**2 * (rest**2 + reading.spread @ products.T) + (1 - kept) * model.own), axis=0)
        shift += np.sum(counted * reading.precision * (rows.lift - np.sqrt(reading.scale) * pattern), axis=0)
        weight += np.sum(counted * reading.precision, axis=0)
    square = second.reshape(labels, patterns, patterns)
    # The second term only keeps the matrix regular where a label has one huge lift.
    imagined = _PRIOR + 1e-9 * np.trace(square, axis1=1, axis2=2)
    square += imagined[:, None, None] * np.eye(patterns)
    return Patterns(
        loadings=np.linalg.solve(square, first[..., None])[..., 0].astype(np.float64),
        own=np.maximum((own + _PRIOR * _PRIOR_OWN) / (seen.sum(axis=0) + _PRIOR), LEAST),
        weights=(chances.sum(axis=1) + 0.1) / (chances.shape[1] + 0.1 * len(_SCALES)),
        offsets=total_variances * shift / (total_variances * weight + 1),
    )


def possible_lifts(rows: Rows, model: Patterns, strength: float) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each lift, given all lifts of its feature."""
    chances, readings = _read(rows, model)
    noise = np.where(np.isfinite(rows.variance), rows.variance, 0.0)
    products = _products(model.loadings)
    means, variances = [], []
    for reading in readings:
        pattern = np.sqrt(reading.scale) * reading.mean @ model.loadings.T
        beside = rows.lift - pattern
        clear = believed(beside**2, rows.variance, strength)
        kept = np.maximum(reading.scale * model.own * reading.precision, clear)
        means.append(pattern + kept * beside)
        # The variance of the pattern for the part taken from it, and of the noise for the part taken from the pair.
        variances.append((1 - kept) ** 2 * reading.scale * (reading.spread @ products.T) + kept * noise)
    mean = np.einsum("sf,sfl->fl", chances, means)
    return mean, np.sqrt(np.einsum("sf,sfl->fl", chances, variances + (np.array(means) - mean) ** 2))


def believed(square: Floats, variance: Floats, strength: float) -> Floats:
    """Return the least part of a pair's distance from its pattern that is kept, independently of the model.

    It is 0 up to ``strength`` times the variance of the noise, and 1 - (strength / z^2)^2 beyond. James and Stein's
    1 - strength / z^2 approaches 1 so slowly that pairs clearly above the noise would still swap ranks.

    Args:
        square: Squared distances.
        variance: Variances of their noise.
        strength: As in `orders.pooled`.

    >>> believed(np.array([9.0, 20.0, 100.0]), np.ones(3), 10.0).round(2).tolist()
    [0.0, 0.75, 0.99]
    """
    limit = strength * variance
    return 1 - np.divide(limit, square, out=np.ones(square.shape), where=square > limit) ** 2


def _products(vectors: Floats) -> Floats:
    """Return the products of all pairs of numbers in each row."""
    return (vectors[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
