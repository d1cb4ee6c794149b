"""A simulation of a plan before budget is spent: generated tables of a declared shape get noise, and are ranked and compared.

No data is read: the shape comes from public hints only. Features follow Zipf's law, labels are skewed, and each feature
is more frequent in one label, as in ``datasets.paper_shape``. Counts are Poisson; the noise is that of the plan, from a
seeded stream.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import LONGEST_LIST, Hint, InputError, check_count
from ddpmi.pipeline.contributions import weight_of_equal_pairs
from ddpmi.planning.suggest import Hints
from ddpmi.privacy.budget import Budget
from ddpmi.privacy.noise import add_noise
from ddpmi.privacy.randomness import Keystream
from ddpmi.rankings.comparisons import compare
from ddpmi.rankings.ranking import rank
from ddpmi.releases.receipts import Origin, private_receipt
from ddpmi.releases.release import Release
from ddpmi.releases.tables import MemoryTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ddpmi._typing import Flags, Floats
    from ddpmi.planning.plan import Plan

    Int64s = NDArray[np.int64]

EPSILONS = ("0.1", "0.5", "1", "2", "4", "8")
"""The values of epsilon that are tried by default: those of the paper."""
_CELLS = 8_000_000  # most pairs that are generated one by one
_TAIL = 50_000  # features sampled from all others, to count their visible pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The expected results of a plan at several budgets."""

    hints: Hints
    """The shape that was assumed."""
    top: int
    """How many of the best true pairs the rank errors are computed for."""
    rows: tuple[dict[str, Any], ...]
    """One row for each epsilon.

    epsilon, mechanism, threshold (in units), visible (number of released pairs);
    kept (fraction of the best true pairs that are released), overlap (fraction of them in the first ``top`` ranks);
    rank_error (median) and percentiles, where a suppressed pair gets the rank after the whole list;
    cut_rank_error and cut_percentiles, where it gets the rank after the first ``top`` ranks; and stable_top."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        hints = {field.name: getattr(self.hints, field.name) for field in fields(self.hints)}
        return {"hints": hints, "top": self.top, "rows": [dict(row) for row in self.rows]}

    def to_text(self) -> str:
        """Return a table for people."""
        heads = (
            "epsilon",
            "noise",
            "units to be seen",
            "visible pairs",
            "best kept",
            "best found",
            "median rank error",
            f"in {self.top:,} places",
            "stable top",
        )
        lines = [
            (
                f"{row['epsilon']:g}",
                row["mechanism"],
                f"{row['threshold']:.0f}",
                f"{row['visible']:,}",
                f"{row['kept']:.1%}",
                f"{row['overlap']:.1%}",
                f"{row['rank_error']:g}",
                f"{row['cut_rank_error']:g}",
                str(row["stable_top"]),
            )
            for row in self.rows
        ]
        widths = [max(len(line[at]) for line in (heads, *lines)) for at in range(len(heads))]
        hints = ", ".join(f"{name}={value:g}" for name, value in self.to_dict()["hints"].items())
        table = (
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in (heads, *lines)
        )
        about = f"Expected for {hints}; errors of the best {self.top:,} true pairs. Nothing was read."
        return "\n".join((about, *table)) + "\n"


def simulate(
    plan: Plan, hints: Hints | str, *, epsilons: Sequence[Any] = EPSILONS, top: int | None = None, seed: int = 0
) -> Simulation:
    """Simulate what a plan would release from data of a declared shape. Reads no data and costs no budget.

    Args:
        plan: The plan; each epsilon to try replaces its epsilon, its noise and shares stay.
        hints: The shape, or as text ``"units=10e6,zipf=1.1,labels=22"``.
        epsilons: The values of epsilon to try.
        top: How many of the best true pairs the rank errors are computed for; by default 1% of all, from 100 to 10,000.
        seed: Chooses the generated tables and their noise.

    Returns:
        Expected rank errors and numbers of released pairs. All units are assumed to have the same number of pairs.

    >>> from ddpmi.pipeline.bounds import Bounds
    >>> from ddpmi.planning.plan import Plan
    >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=1))
    >>> found = simulate(plan, "units=1e5,labels=4,features=50", epsilons=(1, 4), top=100)
    >>> [row["visible"] <= 200 for row in found.rows]
    [True, True]
    """
    shape = (Hints.parse(hints) if isinstance(hints, str) else hints).for_plan(plan)
    if top is not None:
        check_count("top", top, most=LONGEST_LIST, hint=Hint(python="top=10_000", cli="--top 10_000"))
    _check_plan(plan)
    plans = [replace(plan, budget=Budget(epsilon, plan.budget.delta)) for epsilon in epsilons]
    counts = _Counts(shape, np.random.default_rng([seed, shape.units]))
    reference = rank(counts.exact(plan))
    top = min(max(len(reference) // 100, 100), 10_000) if top is None else top
    rows = []
    for tried in plans:
        source = Keystream(hashlib.sha256(f"simulated {seed} {tried.digest}".encode()).digest())
        private = rank(counts.noised(tried, source), method="paper" if tried.thresholds == "every" else "stable")
        found = compare(reference, private, top=top)
        rows.append(
            {
                "epsilon": float(tried.budget.epsilon),
                "mechanism": tried.mechanism_name,
                "threshold": tried.calibration.threshold_in_units,
                "visible": len(private) + counts.visible_in_tail(tried, source, labels=len(private.coded().labels)),
                "kept": found.kept,
                "overlap": found.cut_kept,
                "rank_error": found.percentiles["50"],
                "percentiles": found.percentiles,
                "cut_rank_error": found.cut_percentiles["50"],
                "cut_percentiles": found.cut_percentiles,
                "stable_top": private.stable_top(),
            }
        )
    return Simulation(hints=shape, top=min(top, len(reference)), rows=tuple(rows))


def _check_plan(plan: Plan) -> None:
    other = {
        "public_features": plan.public_features,
        "labels_only": plan.labels_only,
        "selection": plan.selection,
        "sample_rate": plan.sample_rate,
        "marginals": plan.marginals == "other",
    }
    named = [name for name, value in other.items() if value]
    if named:
        raise InputError(
            f"Plans with {named[0]} cannot be simulated yet.",
            hint="simulate the same plan without it, as a lower bound",
        )


def _reaching(sums: Int64s, threshold: int | None) -> Flags:
    return np.ones(len(sums), np.bool_) if threshold is None else sums >= threshold


def _every_pair(features: Flags, labels: Flags) -> tuple[Int64s, Int64s]:
    """Return the indices of all pairs of some features and labels."""
    feature, label = np.meshgrid(np.flatnonzero(features), np.flatnonzero(labels), indexing="ij")
    return feature.ravel(), label.ravel()


class _Counts:
    """Generated counts: all pairs of the most common features, and those of a sample of the other features."""

    def __init__(self, hints: Hints, draw: np.random.Generator) -> None:
        self.hints, self.labels, self.thin = hints, len(hints.shares()), draw
        expected = hints.expected()
        head = min(max(_CELLS // self.labels, 1), hints.features)
        self.counts = self._drawn(expected[:head], draw)
        rest = expected[head:]
        self.each = max(1, len(rest) // _TAIL)
        self.tail = self._drawn(rest[:: self.each], draw)
        # The other features still count in labels and total.
        self.beyond = draw.poisson(rest.sum() * hints.shares())

    def _drawn(self, expected: Floats, draw: np.random.Generator) -> Int64s:
        home = draw.integers(0, self.labels, len(expected))
        counts: Int64s = draw.poisson(self.hints.cells(expected, home))
        return counts

    def exact(self, plan: Plan) -> Release:
        """Return the exact sums as a release of what the plan counts."""
        receipt = {"private": False, "grid": {"step": 1, "g": 0}, "dataset": "simulated", "plan": None}
        feature, label = np.nonzero(self.counts)
        margins = self.counts.sum(axis=1), self._labels(plan)
        return Release(
            receipt=receipt,
            tables=self._tables((feature, label, self.counts[feature, label]), margins, sum(margins[1])),
        )

    def noised(self, plan: Plan, source: Keystream) -> Release:
        """Return what the plan would release from these counts."""
        tables, weight = plan.calibration.tables, self._weight(plan)
        pairs = None if plan.grid else self._shown(plan, source)
        margins = [
            add_noise(sums * weight, tables[name].mechanism, source)
            for name, sums in (("features", self.counts.sum(axis=1)), ("labels", self._labels(plan)))
        ]
        shown = [
            _reaching(sums, tables[name].threshold) for name, sums in zip(("features", "labels"), margins, strict=True)
        ]
        total = np.array([self._labels(plan).sum()]) * weight
        if pairs is None:
            feature, label = _every_pair(*shown)
            joint = add_noise(self.counts[feature, label] * weight, tables["pairs"].mechanism, source)
        else:
            both = shown[0][pairs[0]] & shown[1][pairs[1]]
            feature, label, joint = (part[both] for part in pairs)
        receipt = private_receipt(
            plan, Origin(dataset="simulated", unit="unit", engine="-", version="-"), release_id="-", ledger={}
        )
        noisy_total = int(add_noise(total, tables["total"].mechanism, source)[0])
        return Release(
            receipt=receipt, tables=self._tables((feature, label, joint), (margins[0], margins[1]), noisy_total)
        )

    def _labels(self, plan: Plan) -> Int64s:
        """Return the total of each label: its pairs, or its units, which all have the same number of pairs under one label."""
        pairs: Int64s = self.counts.sum(axis=0) + self.beyond
        return pairs if plan.space == "events" else np.round(pairs / self.hints.pairs_per_unit).astype(np.int64)

    def _shown(self, plan: Plan, source: Keystream) -> tuple[Int64s, Int64s, Int64s]:
        """Return the pairs above the threshold; with ``complete``, also all other pairs of their features and labels."""
        if not plan.complete:
            return self._kept(self.counts, plan, source)
        noise = plan.calibration.tables["pairs"]
        # proof: completion.redraw (the result is distributed as if the noise of every pair were drawn once)
        counts = self._read(self.counts, plan)
        sums = add_noise(counts * self._weight(plan), noise.mechanism, source)
        seen = (counts > 0) & (sums >= (noise.threshold or 0))
        listed = np.full(self.labels, plan.public_labels is not None)
        feature, label = _every_pair(np.any(seen, axis=1), np.any(seen, axis=0) | listed)
        return feature, label, sums[feature, label]

    def visible_in_tail(self, plan: Plan, source: Keystream, *, labels: int) -> int:
        """Estimate the number of released pairs of the features that were only sampled; ``labels`` are released."""
        if not plan.grid:
            seen = self._kept(self.tail, plan, source)[0]
            return self.each * (labels * len(np.unique(seen)) if plan.complete else len(seen))
        noise = plan.calibration.tables["features"]
        sums = add_noise(self.tail.sum(axis=1) * self._weight(plan), noise.mechanism, source)
        return self.each * labels * int(np.sum(_reaching(sums, noise.threshold)))

    def _kept(self, counts: Int64s, plan: Plan, source: Keystream) -> tuple[Int64s, Int64s, Int64s]:
        noise = plan.calibration.tables["pairs"]
        counts = self._read(counts, plan)
        feature, label = np.nonzero(counts)
        sums = add_noise(counts[feature, label] * self._weight(plan), noise.mechanism, source)
        kept = sums >= (noise.threshold or 0)
        return feature[kept], label[kept], sums[kept]

    def _read(self, counts: Int64s, plan: Plan) -> Int64s:
        """Return the counts after sampling the pairs of units that have more than the plan's bound."""
        if plan.bounds.strategy != "sample" or self.hints.pairs_per_unit <= plan.bounds.pairs:
            return counts
        left: Int64s = self.thin.binomial(counts, plan.bounds.pairs / self.hints.pairs_per_unit)
        return left

    def _weight(self, plan: Plan) -> int:
        """Return what one count adds on the grid; units with more pairs than the plan's bound add less."""
        bounding = plan.calibration.bounding
        pairs = min(self.hints.pairs_per_unit, bounding.most_pairs)
        full = 1 << bounding.g
        return plan.bounds.levels * (weight_of_equal_pairs(bounding, pairs) if pairs > plan.bounds.pairs else full)

    def _tables(self, pairs: tuple[Int64s, Int64s, Int64s], margins: tuple[Int64s, Int64s], total: int) -> MemoryTables:
        import pyarrow as pa

        names = [
            pa.array([f"{key}-{at:08d}" for at in range(1, len(sums) + 1)])
            for key, sums in zip("fl", margins, strict=True)
        ]
        feature, label, joint = pairs
        used = [
            np.bincount(codes, minlength=len(sums)) > 0 for codes, sums in zip((feature, label), margins, strict=True)
        ]
        keyed = [
            {"keys": name.filter(pa.array(some)), "sum": sums[some]}
            for name, some, sums in zip(names, used, margins, strict=True)
        ]
        columns = {"feature": names[0].take(pa.array(feature)), "label": names[1].take(pa.array(label)), "sum": joint}
        return MemoryTables(
            pairs=pa.table(columns),
            features=pa.table({"feature": keyed[0]["keys"], "sum": keyed[0]["sum"]}),
            labels=pa.table({"label": keyed[1]["keys"], "sum": keyed[1]["sum"]}),
            total=pa.table({"sum": pa.array([int(total)], pa.int64())}),
        )
