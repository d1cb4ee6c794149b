"""Mutual information of one feature and one label, once in NumPy and once as an SQL expression.

A pair is a 2 x 2 table: ``pxy`` (feature and label), ``px`` (feature), ``py`` (label). Results are in nats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

Method = Literal["stable", "paper"]
"""``stable`` loses no digits; ``paper`` is CalcMI as printed (algorithms 2 and 3)."""

_BLOCK = 1 << 14  # rows worked on at once: the temporaries of one block stay in the processor's cache
_NEAR = 1 / 16  # |e| below this uses the series, where (1+e) ln(1+e) - e would cancel
_SERIES = tuple(1 / (k * (k - 1)) for k in range(2, 14))
_SQL_NEAR = 0.01
_SQL_SERIES = _SERIES[:8]
_SPLIT = 134217729.0  # 2^27 + 1, Dekker's constant for splitting a double


def check_method(method: str, tol: float) -> None:
    """Refuse a method or tolerance that does not exist.

    >>> check_method("paper", 1e-15)
    """
    if method not in get_args(Method):
        raise InputError(f"method must be one of {get_args(Method)}, got {method!r}.", hint='method="stable"')
    if not 0 < tol < 1:
        raise InputError(f"tol must lie between 0 and 1, got tol={tol!r}.", hint="tol=1e-15")


def mutual_information(
    pxy: ArrayLike, px: ArrayLike, py: ArrayLike, *, method: Method = "stable", tol: float = 1e-15
) -> Floats:
    """Compute the mutual information of 2 x 2 tables, in nats.

    Args:
        pxy: Probability of feature and label together.
        px: Probability of the feature.
        py: Probability of the label.
        method: "stable" (relative error near 1e-13 on any feasible table) or "paper".
        tol: Only for "paper": cells below it count nothing, products below it are raised to it.

    Returns:
        One value for each table. "stable" is never negative and never NaN on feasible tables.

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
    """Follow algorithm 2 to the letter."""
    not_x, not_y = 1.0 - px, 1.0 - py
    return (
        _paper_arm(px, py, pxy, tol)
        + _paper_arm(px, not_y, px - pxy, tol)
        + _paper_arm(not_x, py, py - pxy, tol)
        + _paper_arm(not_x, not_y, 1.0 - px - py + pxy, tol)
    )


def _paper_arm(px: Floats, py: Floats, pxy: Floats, tol: float) -> Floats:
    """Follow algorithm 3 to the letter."""
    phi = np.maximum(px * py, tol)
    counted = pxy >= tol
    ratio = np.where(counted, pxy, phi) / phi
    return np.where(counted, pxy * np.log(ratio), 0.0)


def _stable(pxy: Floats, px: Floats, py: Floats) -> Floats:
    """Sum row*col*h(e) over the cells, h(e) = (1+e) ln(1+e) - e, where cell = row*col*(1+e).

    The four row*col*e sum to zero, so this equals sum p ln(p/(row*col)). No term is negative: none cancels.
    """
    qx, qy = 1.0 - px, 1.0 - py
    cov = covariance(pxy, px, py)
    b, c = px - pxy, py - pxy
    # The larger margin has the complement without rounding, so the last cell is taken from it.
    d = np.where(px > py, qx - c, qy - b)
    total = _term(pxy, px, py, cov) + _term(b, px, qy, -cov) + _term(c, qx, py, -cov) + _term(d, qx, qy, cov)
    return np.maximum(total, 0.0)


def covariance(joint: Floats, feature: Floats, label: Floats, total: Floats | float = 1.0) -> Floats:
    """Compute joint*total - feature*label with the products' rounding errors given back (Dekker 1971).

    >>> covariance(np.array([20.0]), np.array([100.0]), np.array([200.0]), 1000.0).tolist()
    [0.0]
    """
    expected, error = _product(feature, label)
    if isinstance(total, float) and total == 1.0:
        return np.asarray((joint - expected) - error)
    product, own_error = _product(joint, np.asarray(total))
    return np.asarray((product - expected) + (own_error - error))


def _product(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Multiply; return the rounded product and what rounding took from it."""
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
    # An empty cell has e = -1 and h = 1: its term is row*col, which is -cov.
    return np.where(near & some, product * e_near * e_near * series, np.where(some, far, np.where(p > 0, 0.0, -cov)))


def mutual_information_sql(
    pxy: str = "pxy", px: str = "px", py: str = "py", *, method: Method = "stable", tol: float = 1e-15
) -> str:
    """Write the same mutual information as one SQL expression over three double precision columns.

    It uses LN, ABS, GREATEST and CASE alone, and every LN and division stands behind a guard: the text runs
    unchanged on DuckDB, Spark and PostgreSQL. It agrees with `mutual_information` to 1e-9, 1e-15 near zero.

    Args:
        pxy: Expression for the joint probability.
        px: Expression for the feature's probability.
        py: Expression for the label's probability.
        method: As in `mutual_information`.
        tol: As in `mutual_information`.

    Returns:
        The expression, in nats, without alias.

    >>> mutual_information_sql(method="paper").count("LN")
    4
    """
    check_method(method, tol)
    a, x, y = f"({pxy})", f"({px})", f"({py})"
    qx, qy = f"(1e0 - {x})", f"(1e0 - {y})"
    b, c = f"({x} - {a})", f"({y} - {a})"
    if method == "paper":
        d = f"(1e0 - {x} - {y} + {a})"
        arms = [_sql_paper_arm(*cell, tol) for cell in ((a, x, y), (b, x, qy), (c, qx, y), (d, qx, qy))]
        return f"({' + '.join(arms)})"
    d = f"(CASE WHEN {x} > {y} THEN {qx} - {c} ELSE {qy} - {b} END)"
    plus, minus = f"({a} - {x} * {y})", f"({x} * {y} - {a})"
    cells = ((a, x, y, plus), (b, x, qy, minus), (c, qx, y, minus), (d, qx, qy, plus))
    return f"GREATEST(0e0, {' + '.join(_sql_term(*cell) for cell in cells)})"


def _sql_paper_arm(p: str, row: str, col: str, tol: float) -> str:
    return f"CASE WHEN {p} < {tol!r} THEN 0e0 ELSE {p} * LN({p} / GREATEST({row} * {col}, {tol!r})) END"


def _sql_term(p: str, row: str, col: str, cov: str) -> str:
    product, e = f"({row} * {col})", f"({cov} / ({row} * {col}))"
    series = f"{_SQL_SERIES[-1]:.17e}"
    for coefficient in reversed(_SQL_SERIES[:-1]):
        series = f"({coefficient:.17e} - {e} * {series})"
    return (
        f"CASE WHEN {p} <= 0 THEN -{cov} WHEN {product} <= 0 THEN 0e0"
        f" WHEN ABS({cov}) < {_SQL_NEAR} * {product} THEN {product} * {e} * {e} * {series}"
        f" ELSE {p} * LN({p} / {row} / {col}) - {cov} END"
    )


def clip_sums(
    joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Move noisy sums to a table that can exist; sums of a real table stay as they are.

    The margins are cut to [0, N], then the joint to [max(0, F + L - N), min(F, L)]. It is done in integers,
    where no rounding can move a feasible table. Where N <= 0 nothing is known, and all sums become 0.

    >>> [int(x) for x in clip_sums(12, 10, 20, 100)]
    [10, 10, 20, 100]
    """
    given = (np.asarray(s, dtype=np.int64) for s in (joint, feature, label, total))
    j, f, l, n = np.broadcast_arrays(*given)  # noqa: E741
    n = np.maximum(n, 0)
    f, l = np.clip(f, 0, n), np.clip(l, 0, n)  # noqa: E741
    # f - (n - l) and not f + l - n: the sum of two large margins could leave 64 bits.
    return np.clip(j, np.maximum(0, f - (n - l)), np.minimum(f, l)), f, l, n


def feasible(joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Turn noisy integer sums into probabilities of a table that can exist.

    Args:
        joint: Sums of the pairs, J.
        feature: Sums of the pairs' features, F.
        label: Sums of the pairs' labels, L.
        total: The total, N. Where it is not positive all probabilities are 0.

    Returns:
        pxy, px, py with 0 <= pxy <= min(px, py) and px + py - pxy <= 1. A table that needs no change is
        J/N, F/N, L/N bit for bit.

    >>> [float(p) for p in feasible(12, 10, 20, 100)]
    [0.1, 0.1, 0.2]
    """
    return probabilities(*clip_sums(joint, feature, label, total))


def unprojected(
    joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Divide noisy sums by their total as they are, as the paper does: such a table need not exist.

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
    """Divide the sums of tables that can exist by their totals, as `clip_sums` gives them.

    >>> [float(p) for p in probabilities(*clip_sums(10, 10, 20, 100))]
    [0.1, 0.1, 0.2]
    """
    whole = np.maximum(total, 1)
    return joint / whole, feature / whole, label / whole


def shares(joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    """Compute the feature's share inside the label and outside it; NaN where that side is empty.

    >>> inside, outside = shares(6, 10, 20, 100)
    >>> float(inside), float(outside)
    (0.3, 0.05)
    """
    j, f, l, n = (np.asarray(s) for s in (joint, feature, label, total))  # noqa: E741
    return _ratio(j, l), _ratio(f - j, n - l)


def direction(joint: ArrayLike, feature: ArrayLike, label: ArrayLike, total: ArrayLike = 1.0) -> NDArray[np.bool_]:
    """Tell presence (True) from absence (False): is the share inside larger than the share outside?

    Args:
        joint: Sums or probabilities of the pairs.
        feature: The same of the features.
        label: The same of the labels.
        total: The total of the sums; 1 for probabilities.

    Returns:
        True where the feature's presence speaks for the label. An empty side has share 0.

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
