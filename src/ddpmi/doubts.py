"""What the receipt of a release says about its noise, and how far each released number may be off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ddpmi import mi as information
from ddpmi import profiles, uncertainty
from ddpmi.scores import are_summed, said, scale_of, space_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from ddpmi.scores import Cells

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]
    Bounds = tuple[Floats, Floats]


_ROUGH = 0.4  # grid steps squared


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What thresholds kept back: sums below the highest of them, or nothing where it is 0."""

    threshold: int = 0
    """In grid steps."""
    sd: float = 0.0
    """Deviation of the sums that were compared with it, in grid steps; the widest."""

    @classmethod
    def of(cls, found: Iterable[tuple[int, float]]) -> Cut:
        """Take the highest of some thresholds, each with the deviation of its sums."""
        every = [(0, 0.0), *found]
        return cls(threshold=max(threshold for threshold, _ in every), sd=max(sd for _, sd in every))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """What thresholds kept back."""

    pairs: Cut
    """Pairs of released labels."""
    labels: Cut
    """Pairs of other labels: none of them, or no whole label, reached it."""
    features: Literal["by pairs", "by totals"] | None
    """Whether features were kept back as a whole, by their largest pair or by their total, so that no pair is missing
    from a released feature and label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What a receipt says about the noise in the sums."""

    noise: uncertainty.Noise
    """Deviations as fractions of the total."""
    mechanism: Literal["gaussian", "laplace"]
    """The noise of the joint sums."""
    sd: float
    """Deviation of a joint sum, in grid steps."""
    threshold: int | None
    """What joint sums had to reach, in grid steps, to be shown for their own sake; None where none had to."""
    every_pair: bool
    """Whether all pairs of released features and labels were released."""
    total: int
    """The released total, in grid steps."""
    pairs_of_feature: Integers | None
    """Released pairs of each feature; None unless margins are sums of released pairs."""
    pairs_of_label: Integers | None
    """Released pairs of each label; None unless margins are sums of released pairs."""
    hides: Hidden | None
    """The threshold that keys had to reach; None where all were released."""
    labels_known: bool
    """Whether all labels were named beforehand."""
    units: bool
    """Whether labels and total count units."""

    @classmethod
    def of(cls, cells: Cells, receipt: Mapping[str, Any]) -> Doubt | None:
        """Read a receipt; None where the sums are exact."""
        if not receipt["private"]:
            return None
        tables = receipt["tables"]
        whole = max(cells.users_total, float(cells.unit))
        users = _deviations(receipt, float(cells.unit))
        sds = {name: sd / whole for name, sd in users.items()}
        heavy = any(_kind(entry) == "laplace" for entry in tables.values())
        summed = are_summed(receipt)
        return cls(
            noise=uncertainty.Noise(
                joint=sds["pairs"], feature=sds["features"], label=sds["labels"], total=sds["total"], heavy=heavy
            ),
            mechanism=_kind(tables["pairs"]),
            sd=users["pairs"] / float(cells.unit),
            threshold=tables["pairs"].get("threshold"),
            every_pair=tables["pairs"].get("threshold") is None or bool(said(receipt, "complete")),
            total=cells.total,
            pairs_of_feature=np.bincount(cells.feature_code, minlength=len(cells.features)) if summed else None,
            pairs_of_label=np.bincount(cells.label_code, minlength=len(cells.labels)) if summed else None,
            hides=_hidden(receipt, {name: sd / float(cells.unit) for name, sd in users.items()}),
            labels_known=bool(said(receipt, "public_labels") or said(receipt, "labels_only")),
            units=space_of(receipt) == "units",
        )

    def bounds(
        self,
        mi: Floats,
        sums: tuple[Integers, Integers, Integers],
        codes: tuple[Integers, Integers],
        *,
        level: float = uncertainty.LEVEL,
    ) -> Bounds:
        """Bound the mutual information of some pairs, in nats.

        Args:
            mi: Their mutual information.
            sums: Their released sums of pair, feature and label, as they are.
            codes: Places of their features and labels.
            level: How often each of the bounds shall hold, about.
        """
        summed = None
        if self.pairs_of_feature is not None and self.pairs_of_label is not None:
            summed = (
                self.pairs_of_feature[codes[0]].astype(np.float64),
                self.pairs_of_label[codes[1]].astype(np.float64),
            )
        table = information.feasible(*sums, np.int64(self.total))
        whole = max(self.total, 1)
        raw = (sums[0] / whole, sums[1] / whole, sums[2] / whole)
        bounds = profiles.interval(mi, (table, raw), self.noise, level=level, summed=summed)
        if self.threshold is None or self.sd == 0:
            return bounds
        excess = (sums[0] - int(self.threshold)).astype(np.float64) / self.sd
        # A pair below the threshold was shown for the sake of others: its noise did not choose it.
        drop = np.where(excess < 0, 0.0, uncertainty.drops_below(excess, self.mechanism, level=level))
        return uncertainty.widen_near_threshold(bounds, table, drop, self.noise, summed=summed is not None)


def _deviations(receipt: Mapping[str, Any], unit: float) -> dict[str, float]:
    """Return the deviation of each table in the user's units, wider where noise is hardly more than a grid step.

    Such noise is not smooth: intervals must reach past the last step that is likely. With this much more variance they
    do, for Laplace noise of any width within 1% of the level; it is nothing where a step is small.
    """
    tables, grid = receipt["tables"], scale_of(receipt)[0]
    steps = {"pairs": unit, "features": unit, "labels": unit * grid, "total": unit * grid}
    found = {name: float(tables[name]["sd_user"] or 0.0) for name in steps}
    return {name: math.sqrt(sd**2 + _ROUGH * steps[name] ** 2) if sd else 0.0 for name, sd in found.items()}


def _hidden(receipt: Mapping[str, Any], sds: Mapping[str, float]) -> Hidden | None:
    """Find the highest thresholds: a pair is at most what its feature or label is, which may have been dropped too."""
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
    # A label without a threshold of its own is hidden with its pairs.
    whole = Cut.of([found["labels"]]) if "pairs" not in found and "labels" in found else Cut.of(found.values())
    by_pairs: Literal["by pairs"] | None = "by pairs" if said(receipt, "complete") else None
    return Hidden(pairs=within, labels=whole, features=by_pairs if "pairs" in found else "by totals")


def _kind(entry: Mapping[str, Any]) -> Literal["gaussian", "laplace"]:
    """Read the kind of noise from a table's entry in the receipt: "discrete_laplace" or "discrete_gaussian"."""
    return "laplace" if "laplace" in entry["mechanism"] else "gaussian"
