"""Mutual information of one feature and one label.

A pair is a 2 x 2 table: ``pxy`` (feature and label), ``px`` (feature), ``py`` (label). Results are in nats.
Noisy sums may contradict each other; `clip_sums` moves them to a table that can exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ddpmi.errors import Hint, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from ddpmi._typing import Floats


Method = Literal["stable", "paper"]
"""``stable`` loses no digits; ``paper`` is CalcMI as the paper prints it (algorithms 2 and 3)."""

_BLOCK = 1 << 14  # rows computed at once: the arrays of one block stay in the processor's cache
_NEAR = 1 / 16  # below this |e| a series is used, because (1+e) ln(1+e) - e would lose digits
_SERIES = tuple(1 / (k * (k - 1)) for k in range(2, 14))
_SPLIT = 134217729.0  # 2^27 + 1, Dekker's constant for splitting a double


def check_method(method: str, tol: float) -> None:
    """Check a method and its tolerance.

    Raises:
        InputError: The method does not exist, or the tolerance is not between 0 and 1.

    >>> check_method("paper", 1e-15)
    """
    if method not in get_args(Method):
        raise InputError(
            f"method must be one of {get_args(Method)}, got {method!r}.",
            hint=Hint.setting("method", "stable"),
        )
    if not 0 < tol < 1:
        raise InputError(f"tol must be between 0 and 1, got tol={tol!r}.", hint="tol=1e-15")


def mutual_information(
    pxy: ArrayLike, px: ArrayLike, py: ArrayLike, *, method: Method = "stable", tol: float = 1e-15
) -> Floats:
    """Compute the mutual information of 2 x 2 tables, in nats.

    Args:
        pxy: Probability of feature and label together.
        px: Probability of the feature.
        py: Probability of the label.
        method: "stable" (relative error near 1e-13 on any feasible table) or "paper".
        tol: Only for "paper": cells below it count as 0, and products below it are raised to it.

    Returns:
        One value for each table. On feasible tables "stable" is never negative and never NaN.

    >>> float(mutual_information(0.5, 0.5, 0.5).round(6))  # the feature is the label: ln 2
    0.693147
    >>> mutual_information([0.06, 0.02], 0.1, 0.2).round(7).tolist()
    [0.0440979, 0.0]
    """
    check_method(method, tol)
    arrays = np.broadcast_arrays(*(np.asarray(p, dtype=np.float64) for p in (pxy, px, py)))
    shape = arrays[0].shape
    a, x, y = (array.ravel() for array in arrays)
    kernel: Callable[[Floats, Floats, Floats], Floats] = _stable
    if method == "paper":

        def kernel(a: Floats, x: Floats, y: Floats) -> Floats:
            return _paper(a, x, y, tol)

    out = np.empty(a.size)
    for start in range(0, a.size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        out[rows] = kernel(a[rows], x[rows], y[rows])
    return out.reshape(shape)


def _paper(pxy: Floats, px: Floats, py: Floats, tol: float) -> Floats:
    """Compute algorithm 2 of the paper as printed."""
    not_x, not_y = 1.0 - px, 1.0 - py
    return (
        _paper_arm(px, py, pxy, tol)
        + _paper_arm(px, not_y, px - pxy, tol)
        + _paper_arm(not_x, py, py - pxy, tol)
        + _paper_arm(not_x, not_y, 1.0 - px - py + pxy, tol)
    )


def _paper_arm(px: Floats, py: Floats, pxy: Floats, tol: float) -> Floats:
    """Compute algorithm 3 of the paper as printed."""
    phi = np.maximum(px * py, tol)
    counted = pxy >= tol
    ratio = np.where(counted, pxy, phi) / phi
    return np.where(counted, pxy * np.log(ratio), 0.0)


def _stable(pxy: Floats, px: Floats, py: Floats) -> Floats:
    """Sum row*col*h(e) over the four cells, with h(e) = (1+e) ln(1+e) - e and cell = row*col*(1+e).

    The four row*col*e sum to zero, so this equals sum p ln(p/(row*col)). No term is negative, so none cancels.
    """
    qx, qy = 1.0 - px, 1.0 - py
    cov = covariance(pxy, px, py)
    b, c = px - pxy, py - pxy
    # The complement of the larger margin is exact, so the last cell is computed from it.
    d = np.where(px > py, qx - c, qy - b)
    total = _term(pxy, px, py, cov) + _term(b, px, qy, -cov) + _term(c, qx, py, -cov) + _term(d, qx, qy, cov)
    return np.maximum(total, 0.0)


def covariance(joint: Floats, feature: Floats, label: Floats, total: Floats | float = 1.0) -> Floats:
    """Compute joint*total - feature*label with the rounding errors of the products added back (Dekker 1971).

    >>> covariance(np.array([20.0]), np.array([100.0]), np.array([200.0]), 1000.0).tolist()
    [0.0]
    """
    expected, error = _product(feature, label)
    if isinstance(total, float) and total == 1.0:
        return np.asarray((joint - expected) - error)
    product, own_error = _product(joint, np.asarray(total))
    return np.asarray((product - expected) + (own_error - error))


def _product(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product and its rounding error."""
    product = left * right
    left_high, right_high = (_SPLIT * p - (_SPLIT * p - p) for p in (left, right))
    left_low, right_low = left - left_high, right - right_high
    error = ((left_high * right_high - product) + left_high * right_low + left_low * right_high) + left_low * right_low
    return product, error


def _term(p: Floats, row: Floats, col: Floats, cov: Floats) -> Floats:
    """Compute row*col*h(e) for one cell, e = cov/(row*col)."""
    product = row * col
    some = (product > 0) & (p > 0)
    safe = np.where(some, product, 1.0)
    e = np.where(some, cov / safe, 0.0)
    near = np.abs(e) < _NEAR
    e_near = np.where(near, e, 0.0)
    series = np.full_like(e, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        series *= -e_near
        series += coefficient
    far = p * np.log(np.where(some, p, 1.0) / np.where(some, row, 1.0) / np.where(some, col, 1.0)) - cov
    # An empty cell has e = -1 and h = 1, so its term is row*col = -cov.
    return np.where(near & some, product * e_near * e_near * series, np.where(some, far, np.where(p > 0, 0.0, -cov)))


def clip_sums(
    joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Move noisy sums to a table that can exist; sums of a feasible table do not change.

    The margins are clipped to [0, N], then the joint to [max(0, F + L - N), min(F, L)]. Integers are used, so that
    rounding cannot change a feasible table. Where N <= 0 all sums become 0.

    >>> [int(x) for x in clip_sums(12, 10, 20, 100)]
    [10, 10, 20, 100]
    """
    given = (np.asarray(s, dtype=np.int64) for s in (joint, feature, label, total))
    j, f, l, n = np.broadcast_arrays(*given)  # noqa: E741
    n = np.maximum(n, 0)
    f, l = np.clip(f, 0, n), np.clip(l, 0, n)  # noqa: E741
    # f - (n - l) instead of f + l - n, because the sum of two large margins could overflow 64 bits.
    return np.clip(j, np.maximum(0, f - (n - l)), np.minimum(f, l)), f, l, n


def feasible(joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Convert noisy integer sums to probabilities of a table that can exist.

    Args:
        joint: Sums of the pairs, J.
        feature: Sums of the pairs' features, F.
        label: Sums of the pairs' labels, L.
        total: The total, N. Where it is not positive, all probabilities are 0.

    Returns:
        pxy, px, py with 0 <= pxy <= min(px, py) and px + py - pxy <= 1. For sums of a feasible table they are exactly
        the doubles J/N, F/N, L/N.

    >>> [float(p) for p in feasible(12, 10, 20, 100)]
    [0.1, 0.1, 0.2]
    """
    return probabilities(*clip_sums(joint, feature, label, total))


def unprojected(
    joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Divide noisy sums by their total without clipping, as the paper does. The result may be no feasible table.

    Returns:
        J/N, F/N, L/N; 0 where N is not positive.

    >>> [float(p) for p in unprojected(12, 10, 20, 100)]
    [0.12, 0.1, 0.2]
    """
    j, f, l, n = np.broadcast_arrays(*(np.asarray(s, dtype=np.float64) for s in (joint, feature, label, total)))  # noqa: E741
    pxy, px, py = (np.divide(s, n, out=np.zeros(n.shape), where=n > 0) for s in (j, f, l))
    return pxy, px, py


def probabilities(
    joint: NDArray[np.int64], feature: NDArray[np.int64], label: NDArray[np.int64], total: NDArray[np.int64]
) -> tuple[Floats, Floats, Floats]:
    """Divide what `clip_sums` returned by its total.

    >>> [float(p) for p in probabilities(*clip_sums(10, 10, 20, 100))]
    [0.1, 0.1, 0.2]
    """
    whole = np.maximum(total, 1)
    return joint / whole, feature / whole, label / whole


def shares(joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    """Compute the feature's share inside the label and outside of it; NaN where that side is empty.

    >>> inside, outside = shares(6, 10, 20, 100)
    >>> float(inside), float(outside)
    (0.3, 0.05)
    """
    j, f, l, n = (np.asarray(s) for s in (joint, feature, label, total))  # noqa: E741
    return _ratio(j, l), _ratio(f - j, n - l)


def direction(joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike = 1.0) -> NDArray[np.bool_]:
    """Decide presence (True) or absence (False): whether the share inside the label is larger than outside of it.

    Args:
        joint: Sums or probabilities of the pairs.
        feature: Sums or probabilities of their features.
        label: Sums or probabilities of their labels.
        total: The total of the sums; 1 for probabilities.

    Returns:
        True where the feature is more frequent with the label than without it. An empty side has share 0.

    >>> direction([6, 1], 10, 20, 100).tolist()
    [True, False]
    """
    j, f, l, n = (np.asarray(s) for s in (joint, feature, label, total))  # noqa: E741
    result: NDArray[np.bool_] = _ratio(j, l, empty=0.0) > _ratio(f - j, n - l, empty=0.0)
    return result


def _ratio(numerator: NDArray[np.generic], denominator: NDArray[np.generic], *, empty: float = np.nan) -> Floats:
    top, bottom = np.broadcast_arrays(
        np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    )
    ratio: Floats = np.divide(top, bottom, out=np.full(top.shape, empty), where=bottom > 0)
    return ratio
