"""The noise model of a release: what its receipt says about the noise in each sum, and about the thresholds.

receipt, Cells -> NoiseModel
It describes the noise that protects people. It does not describe how people were sampled into the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ddpmi.errors import InputError
from ddpmi.rankings.cells import are_summed, scale_of, setting, space_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ddpmi._typing import Floats, Integers
    from ddpmi.rankings.cells import Cells

    Table = tuple[Floats, Floats, Floats]
    Summed = tuple[Floats, Floats]

LEVEL = 0.95
"""The default confidence level."""
CLEAR_TOTAL = 5.0
"""How many standard deviations of its noise a total must have, so that something may be divided by it."""
TINY = 1e-18
"""Less than 1 / 2^59: every cell of a 64-bit table that is not empty is larger."""
_ROUGH = 0.4  # variance added to each noise, in grid steps squared


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviations of the noise in the released tables, as fractions of the total."""

    joint: float
    """Of one pair's sum."""
    feature: float
    """Of one feature's sum."""
    label: float
    """Of one label's sum."""
    total: float
    """Of the total."""
    heavy: bool = False
    """Whether any of them is Laplace noise, whose tails are heavier than normal ones."""

    def __post_init__(self) -> None:
        for name in ("joint", "feature", "label", "total"):
            sd = getattr(self, name)
            if not (math.isfinite(sd) and sd >= 0):
                raise InputError(f"A standard deviation must be finite and not negative, got {name}={sd!r}.")

    def width(self, level: float) -> float:
        """Return the w for which noise is within w standard deviations with probability ``level``.

        >>> round(Noise(joint=0, feature=0, label=0, total=0).width(0.95), 2)
        1.96
        """
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got level={level!r}.", hint="level=0.95")
        normal = NormalDist().inv_cdf((1 + level) / 2)
        return max(normal, -math.log1p(-level) / math.sqrt(2)) if self.heavy else normal


def covariance_of(table: Table, noise: Noise, summed: Summed | None) -> list[list[Floats]]:
    """Return the covariance of (pxy, px, py) as a 3 x 3 matrix of arrays.

    The noise of J, F and L is independent; that of N moves pxy, px and py in proportion.

    Args:
        table: pxy, px, py, arrays of one length.
        noise: The release's noise.
        summed: Where the margins are sums of released pairs plus a noisy remainder: how many released pairs the sum of
            each pair's feature and the sum of its label contain, the pair included. The pair's own noise then
            moves all three.

    >>> p = (np.array([0.02]), np.array([0.1]), np.array([0.2]))
    >>> spread = covariance_of(p, Noise(joint=2.0, feature=3.0, label=4.0, total=0.0), None)
    >>> [float(spread[at][at][0]) for at in range(3)], float(spread[0][1][0])
    ([4.0, 9.0, 16.0], 0.0)
    """
    pxy, px, py = table
    joint, feature, label, total = (sd**2 for sd in (noise.joint, noise.feature, noise.label, noise.total))
    own = 0.0 if summed is None else joint
    in_feature, in_label = (0.0, 0.0) if summed is None else summed
    diagonal = (
        joint + total * pxy * pxy,
        feature + in_feature * joint + total * px * px,
        label + in_label * joint + total * py * py,
    )
    return _symmetric(diagonal, (own + total * pxy * px, own + total * pxy * py, own + total * px * py))


def _symmetric(diagonal: Table, beside: Table) -> list[list[Floats]]:
    """Return a symmetric 3 x 3 matrix from its diagonal and the entries (0, 1), (0, 2), (1, 2)."""
    (s00, s11, s22), (s01, s02, s12) = diagonal, beside
    return [[s00, s01, s02], [s01, s11, s12], [s02, s12, s22]]


def dot(left: Sequence[Floats], right: Sequence[Floats]) -> Floats:
    """Return the inner product of two vectors of three arrays each.

    >>> float(dot([np.float64(1)] * 3, [np.float64(2)] * 3))
    6.0
    """
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The highest of some thresholds: sums below it may have been suppressed, none where it is 0."""

    threshold: int = 0
    """In grid steps."""
    sd: float = 0.0
    """The largest standard deviation of the sums that were compared with these thresholds, in grid steps."""

    @classmethod
    def of(cls, found: Iterable[tuple[int, float]]) -> Cut:
        """Return the highest of some thresholds, each given with the standard deviation of its sums."""
        every = [(0, 0.0), *found]
        return cls(threshold=max(threshold for threshold, _ in every), sd=max(sd for _, sd in every))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """What thresholds suppressed."""

    pairs: Cut
    """The threshold that suppressed pairs of released labels did not reach."""
    labels: Cut
    """The threshold that the pairs of suppressed labels, or these labels as a whole, did not reach."""
    features: Literal["by pairs", "by totals"] | None
    """Whether features were suppressed only as a whole, by their largest pair or by their total. Then all pairs of
    released features and labels were released. None where single pairs were suppressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseModel:
    """What a receipt says about the noise in the sums."""

    noise: Noise
    """Standard deviations as fractions of the total."""
    mechanism: Literal["gaussian", "laplace"]
    """The kind of noise of the joint sums."""
    sd: float
    """Standard deviation of a joint sum, in grid steps."""
    threshold: int | None
    """The threshold of joint sums, in grid steps; None where pairs have none."""
    every_pair: bool
    """Whether all pairs of released features and labels were released."""
    total: int
    """The released total, in grid steps."""
    pairs_of_feature: Integers | None
    """How many pairs of each feature were released; None unless margins are sums of released pairs."""
    pairs_of_label: Integers | None
    """How many pairs of each label were released; None unless margins are sums of released pairs."""
    hides: Hidden | None
    """What thresholds suppressed; None where there are none."""
    labels_known: bool
    """Whether all labels were listed in the plan."""
    labels_overlap: bool
    """Whether a unit counts once in each of several labels, so that labels may sum to more than the total."""

    @classmethod
    def of(cls, cells: Cells, receipt: Mapping[str, Any]) -> NoiseModel | None:
        """Read a receipt. Return None where the sums are exact."""
        if not receipt["private"]:
            return None
        tables = receipt["tables"]
        whole = max(cells.users_total, float(cells.unit))
        users = _deviations(receipt, float(cells.unit))
        sds = {name: sd / whole for name, sd in users.items()}
        heavy = is_heavy(receipt)
        summed = are_summed(receipt)
        return cls(
            noise=Noise(
                joint=sds["pairs"], feature=sds["features"], label=sds["labels"], total=sds["total"], heavy=heavy
            ),
            mechanism=_kind(tables["pairs"]),
            sd=users["pairs"] / float(cells.unit),
            threshold=tables["pairs"].get("threshold"),
            every_pair=tables["pairs"].get("threshold") is None or bool(setting(receipt, "complete")),
            total=cells.total,
            pairs_of_feature=np.bincount(cells.feature_code, minlength=len(cells.features)) if summed else None,
            pairs_of_label=np.bincount(cells.label_code, minlength=len(cells.labels)) if summed else None,
            hides=_hidden(receipt, {name: sd / float(cells.unit) for name, sd in users.items()}),
            labels_known=bool(setting(receipt, "public_labels") or setting(receipt, "labels_only")),
            labels_overlap=space_of(receipt) == "units" and _labels_of_a_unit(receipt) != 1,
        )

    def unclear(self, label: Integers) -> Integers:
        """Return 1 where a label's total is not clear of its noise, 2 where that of all other labels is not, else 0."""
        whole = max(self.total, 1)
        share = label / whole
        least = CLEAR_TOTAL * self.noise.label
        beside = (1 - share) < CLEAR_TOTAL * math.hypot(self.noise.label, self.noise.total)
        return np.where(share < least, 1, np.where(beside, 2, 0)).astype(np.int8)


def _labels_of_a_unit(receipt: Mapping[str, Any]) -> int | None:
    """Return how many labels one unit may have; None where the receipt does not say."""
    bounds = (receipt.get("plan") or {}).get("bounds") or {}
    return bounds.get("labels")


def _deviations(receipt: Mapping[str, Any], unit: float) -> dict[str, float]:
    """Return the standard deviation of each table in the user's units, increased where noise is about one grid step.

    Such noise is not smooth, so that intervals of normal noise would end before its last likely step. The added variance
    corrects this: for Laplace noise of any width, intervals then hold within 1% of the level. It is negligible where
    a step is small.
    """
    tables, grid = receipt["tables"], scale_of(receipt)[0]
    steps = {"pairs": unit, "features": unit, "labels": unit * grid, "total": unit * grid}
    found = {name: float(tables[name]["sd_user"] or 0.0) for name in steps}
    return {name: math.sqrt(sd**2 + _ROUGH * steps[name] ** 2) if sd else 0.0 for name, sd in found.items()}


def _hidden(receipt: Mapping[str, Any], sds: Mapping[str, float]) -> Hidden | None:
    """Find the highest thresholds; a pair may also be missing because its feature or its label was suppressed."""
    tables = receipt["tables"]
    steps = {"labels": scale_of(receipt)[0]}
    found = {
        name: (int(entry["threshold"]) * steps.get(name, 1), sds[name])
        for name, entry in tables.items()
        if entry.get("threshold") is not None
    }
    if not found:
        return None
    within = Cut.of(found[name] for name in found if name != "labels")
    # A label without a threshold of its own is suppressed with its pairs.
    whole = Cut.of([found["labels"]]) if "pairs" not in found and "labels" in found else Cut.of(found.values())
    by_pairs: Literal["by pairs"] | None = "by pairs" if setting(receipt, "complete") else None
    return Hidden(pairs=within, labels=whole, features=by_pairs if "pairs" in found else "by totals")


def is_heavy(receipt: Mapping[str, Any]) -> bool:
    """Return whether any table has Laplace noise.

    >>> is_heavy({"tables": {"pairs": {"mechanism": "discrete_laplace"}}})
    True
    """
    return any(_kind(entry) == "laplace" for entry in receipt["tables"].values())


def _kind(entry: Mapping[str, Any]) -> Literal["gaussian", "laplace"]:
    """Read the kind of noise from a table's entry in the receipt: "discrete_laplace" or "discrete_gaussian"."""
    return "laplace" if "laplace" in entry["mechanism"] else "gaussian"
