"""Exact integer sums of a set, read once, and many releases drawn from them. NOT PRIVATE: for measurements only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ddpmi import testing
from ddpmi.privacy.randomness import Keystream
from ddpmi.rankings import orders
from ddpmi.rankings.cells import Cells, scale_of
from ddpmi.rankings.noise_model import NoiseModel
from ddpmi.rankings.pairs import ScoredPairs, mutual_information_of
from ddpmi.rankings.ranking import Ranking
from ddpmi.releases.receipts import Origin, private_receipt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import ddpmi

    Integers = NDArray[np.int64]

ORIGIN = Origin(dataset="bench", unit="unit", engine="duckdb", version="-")


@dataclass(frozen=True)
class Sums:
    """The sums J, F, L and N of every key that occurs. Keys are positions in the lists of names."""

    features: pa.Array
    labels: pa.Array
    feature: NDArray[np.int32]
    label: NDArray[np.int32]
    joint: Integers
    feature_sums: Integers
    label_sums: Integers
    total: int

    @classmethod
    def of(cls, tables: dict[str, pa.Table], names: Sums | None = None) -> Sums:
        """Replace names by numbers, in the lists of names of other sums if given."""
        lists = [
            sorted_names(tables[f"{key}s"][key]) if names is None else getattr(names, f"{key}s")
            for key in ("feature", "label")
        ]
        pairs, codes, margins = tables["pairs"], [], []
        for key, known in zip(("feature", "label"), lists, strict=True):
            codes.append(pc.index_in(pairs[key], value_set=known).to_numpy().astype(np.int32))
            sums = np.zeros(len(known), np.int64)
            margin = tables[f"{key}s"]
            sums[pc.index_in(margin[key], value_set=known).to_numpy()] = margin["sum"].to_numpy()
            margins.append(sums)
        by_key = np.lexsort((codes[1], codes[0]))
        joint = pairs["sum"].to_numpy()[by_key]
        total = int(tables["total"]["sum"][0].as_py())
        return cls(
            features=lists[0],
            labels=lists[1],
            feature=codes[0][by_key],
            label=codes[1][by_key],
            joint=joint,
            feature_sums=margins[0],
            label_sums=margins[1],
            total=total,
        )

    def every_pair(self, features: Integers) -> Sums:
        """Return all pairs of some features with all labels, zeros too."""
        width = len(self.labels)
        wanted = np.repeat(features, width) * width + np.tile(np.arange(width), len(features))
        at = self.found(wanted)
        joint = np.where(at < 0, 0, self.joint[at])
        feature, label = np.divmod(wanted, width)
        return replace(self, feature=feature.astype(np.int32), label=label.astype(np.int32), joint=joint)

    @property
    def code(self) -> Integers:
        """The pairs as ascending numbers."""
        return self.feature.astype(np.int64) * len(self.labels) + self.label

    def found(self, wanted: Integers) -> Integers:
        """Return the positions of some pairs, or -1 for pairs that do not occur."""
        code = self.code
        at = np.minimum(np.searchsorted(code, wanted), len(code) - 1)
        return np.where(code[at] == wanted, at, -1)

    def kept(self, rows: NDArray[np.bool_]) -> Sums:
        """Return some of the pairs."""
        return replace(self, feature=self.feature[rows], label=self.label[rows], joint=self.joint[rows])


def sorted_names(column: pa.ChunkedArray) -> pa.Array:
    """Return the names of a column in the order of their bytes."""
    names = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    return names.take(pc.array_sort_indices(names))


def exact(obs: ddpmi.Observations) -> Sums:
    """Sum without bounds."""
    import ddpmi as product

    found = product.exact(obs)
    total = pa.table({"sum": pa.array([found.total], pa.int64())})
    return Sums.of({"pairs": found.pairs, "features": found.features, "labels": found.labels, "total": total})


def bounded(obs: ddpmi.Observations, plan: ddpmi.Plan, names: Sums) -> Sums:
    """Sum with the bounds of a plan, before noise, in one pass over the data."""
    return Sums.of(testing.exact_sums(obs, plan, seed=1), names)


def drawn(sums: Sums, plan: ddpmi.Plan, seed: str, *, noise_free: bool = False) -> Sums:
    """Draw a release of a plan with the product's noise; ``noise_free`` keeps the released keys and removes the noise."""
    source = Keystream(hashlib.sha256(seed.encode()).digest())
    tables = plan.calibration.tables
    noisy = {
        "features": sums.feature_sums + tables["features"].mechanism.sample(len(sums.feature_sums), source),
        "labels": sums.label_sums + tables["labels"].mechanism.sample(len(sums.label_sums), source),
    }
    if plan.grid:
        sums = sums.every_pair(np.flatnonzero(noisy["features"] >= (tables["features"].threshold or 0)))
        if tables["labels"].threshold is not None:
            sums = sums.kept(noisy["labels"][sums.label] >= tables["labels"].threshold)
    joint = sums.joint + tables["pairs"].mechanism.sample(len(sums.joint), source)
    shown = np.ones(len(joint), np.bool_) if tables["pairs"].threshold is None else joint >= tables["pairs"].threshold
    if plan.thresholds == "every":
        shown &= noisy["features"][sums.feature] >= (tables["features"].threshold or 0)
        shown &= noisy["labels"][sums.label] >= (tables["labels"].threshold or 0)
    if plan.complete:
        sums, joint = completed(sums, joint, shown, plan, source)
        shown = np.ones(len(joint), np.bool_)
    total = sums.total + int(tables["total"].mechanism.sample(1, source)[0])
    if noise_free:
        return sums.kept(shown)
    released = replace(sums, joint=joint, feature_sums=noisy["features"], label_sums=noisy["labels"], total=total)
    return released.kept(shown)


def completed(
    sums: Sums, joint: Integers, shown: NDArray[np.bool_], plan: ddpmi.Plan, source: Keystream
) -> tuple[Sums, Integers]:
    """Return all pairs of the released features and labels: with their own noise, or fresh noise if they do not occur."""
    every = sums.every_pair(np.unique(sums.feature[shown]).astype(np.int64))
    if plan.known_labels is None:
        every = every.kept(np.isin(every.label, sums.label[shown]))
    at = sums.found(every.code)
    fresh = every.joint + plan.calibration.tables["pairs"].mechanism.sample(len(every.joint), source)
    return every, np.where(at < 0, fresh, joint[at])


def ranked(
    sums: Sums, plan: ddpmi.Plan | None, *, method: Any = "stable", order: orders.Order | None = None
) -> Ranking:
    """Rank with the product's own code. Without a plan the sums are exact."""
    receipt = {"private": False, "grid": {"step": 1, "g": 0}}
    if plan is not None:
        receipt = private_receipt(plan, ORIGIN, release_id="bench", ledger={})
    cells = Cells(
        features=sums.features,
        labels=sums.labels,
        feature_code=sums.feature,
        label_code=sums.label,
        joint=sums.joint,
        feature_sums=sums.feature_sums,
        label_sums=sums.label_sums,
        total=sums.total,
        unit=scale_of(receipt)[1],
    )
    noise_model = NoiseModel.of(cells, receipt)
    mi = mutual_information_of(cells, method, 1e-15)
    pairs = ScoredPairs(
        cells=cells, noise_model=noise_model, mi=mi, base=None, ranked_by=order or orders.default_order(noise_model)
    )
    return Ranking(table=pairs, private=plan is not None, guarantee=None, dataset="bench", source=pairs)
