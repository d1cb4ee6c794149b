"""What pairs are ordered by: their estimate, its lower bound, or an estimate that noise alone cannot make large.

Each is a function of one pair's released sums and of the noise that the receipt declares; only the pooled one, in
`ddpmi.pooling`, looks at other pairs too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ddpmi import mi as information
from ddpmi.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ddpmi.doubts import Doubt
    from ddpmi.uncertainty import Noise

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]

Order = Literal["estimate", "lower", "shrunk", "pooled"]
"""``estimate`` is mutual information itself, ``lower`` its lower bound, ``shrunk`` the value of `shrunk`, ``pooled`` that of
`ddpmi.pooling.pooled`."""
#: How strongly estimates shrink; measured over all sets of docs/decisions/accuracy.md. Behind a threshold every pair is many
#: deviations above zero already, so little is left to doubt.
BEHIND_THRESHOLD = 2.0
EVERY_PAIR = 8.0


IN_WORDS: dict[Order, str] = {
    "estimate": "",
    "lower": "Ordered by the low end of the interval of mutual information.",
    "shrunk": "Ordered by mutual information less what noise alone may have made.",
    "pooled": (
        "Ordered by the mutual information that a feature's whole row makes likely. The row gives directions too: where noise"
        " alone turned a pair round, its own lift points the other way."
    ),
}
"""What a reader must know who expects rows in the order of mi."""


def check_order(order: str | None) -> None:
    """Refuse an order that does not exist.

    >>> check_order("lower")
    """
    if order is not None and order not in get_args(Order):
        raise InputError(f"order must be one of {get_args(Order)}, got {order!r}.", hint='order="estimate"')


def default_order(doubt: Doubt | None) -> Order:
    """Choose the order of a release from its receipt alone.

    Behind a threshold the orders agree with the truth about equally well over all, and the estimate is the plainest and the
    fastest. Where every pair is shown, zeros too, noise takes the top ranks unless estimates are shrunk, and a pair's row
    tells most about it.

    Args:
        doubt: The noise; None where sums are exact.

    >>> default_order(None)
    'estimate'
    """
    if doubt is None or not doubt.every_pair or doubt.sd == 0:
        return "estimate"
    return "pooled"


def shrunk(sums: tuple[Integers, Integers, Integers, int], noise: Noise, strength: float = EVERY_PAIR) -> Floats:
    """Compute mutual information after moving each joint sum towards independence, in nats.

    The distance x = pxy - px py keeps the part max(0, 1 - strength / z^2), where z is x in standard deviations of its noise
    (as James and Stein 1961 shrink a mean, one pair at a time). A pair at z = 2 keeps nothing, one at z = 10 nearly all.

    Args:
        sums: Released sums of pair, feature and label, and the total.
        noise: The release's noise.
        strength: How much is taken away; 0 takes nothing.

    Returns:
        One value for each pair, never above the plain estimate by more than rounding.

    >>> from ddpmi.uncertainty import Noise
    >>> noise = Noise(joint=0.01, feature=0.0, label=0.0, total=0.0)
    >>> pair = (np.array([60, 30]), np.array([100, 100]), np.array([200, 200]), 1000)
    >>> shrunk(pair, noise).round(4).tolist(), shrunk(pair, noise, 0.0).round(4).tolist()
    ([0.0119, 0.0], [0.0441, 0.0032])
    """
    pxy, px, py = fractions(sums)
    expected = px * py
    distance = pxy - expected
    variance = (
        noise.joint**2 + (py * noise.feature) ** 2 + (px * noise.label) ** 2 + ((2 * expected - pxy) * noise.total) ** 2
    )
    square = distance * distance
    kept = np.divide(
        square - strength * variance, square, out=np.zeros(square.shape), where=square > strength * variance
    )
    return nearest(expected + distance * kept, px, py) if sums[3] > 0 else np.zeros(len(pxy))


def fractions(sums: tuple[Integers, Integers, Integers, int]) -> tuple[Floats, Floats, Floats]:
    """Divide sums by their total: the joint one as it was released, its margins moved to where they can be.

    >>> [part.tolist() for part in fractions((np.array([-1]), np.array([30]), np.array([12]), 10))]
    [[-0.1], [1.0], [1.0]]
    """
    _, feature, label, _ = information.clip_sums(*sums[:3], np.int64(sums[3]))
    whole = float(max(sums[3], 1))
    return sums[0] / whole, feature / whole, label / whole


def nearest(joint: Floats, px: Floats, py: Floats) -> Floats:
    """Compute the mutual information of the nearest joint fraction that such margins allow, in nats.

    >>> nearest(np.array([0.9]), np.array([0.5]), np.array([0.5])).round(4).tolist()
    [0.6931]
    """
    return information.mutual_information(np.clip(joint, np.maximum(0.0, px - (1 - py)), np.minimum(px, py)), px, py)
