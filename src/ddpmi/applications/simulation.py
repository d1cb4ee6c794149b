"""A simulation of a plan before budget is spent: generated tables of a declared shape get noise, and are ranked and compared.

No data is read: the shape comes from public hints only. Features follow Zipf's law, labels are skewed, and each feature
is more frequent in one label, as in ``datasets.paper_shape``. All units have the same number of pairs, under the same number
of labels. Counts are Poisson; the noise is that of the plan, from a seeded stream. Of labels that the plan names (``labels_only``)
it is assumed that they are the largest ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import LONGEST_LIST, Hint, InputError, check_count
from ddpmi.planning.forecasts import units_to_show, usual_weight
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

    epsilon, mechanism, threshold (in usual units), visible (number of released pairs);
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
        Expected rank errors and numbers of released pairs.

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
    counts = _Counts(shape, np.random.default_rng([seed, shape.units]), named=len(plan.labels_only or ()) or None)
    reference = rank(counts.exact(units=plan.space == "units"))
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
                "threshold": next(iter(units_to_show(tried, shape.pairs_per_unit).values()), 0.0),
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

    def __init__(self, hints: Hints, draw: np.random.Generator, *, named: int | None = None) -> None:
        self.hints, self.thin = hints, draw
        self.labels = named or len(hints.shares())
        expected = hints.expected()
        head = min(max(_CELLS // len(hints.shares()), 1), hints.features)
        self.counts = self._drawn(expected[:head], draw)
        rest = expected[head:]
        self.each = max(1, len(rest) // _TAIL)
        self.tail = self._drawn(rest[:: self.each], draw)
        # The other features still count in labels and total.
        self.beyond = draw.poisson(rest.sum() * hints.shares())

    def _drawn(self, expected: Floats, draw: np.random.Generator) -> Int64s:
        home = draw.integers(0, len(self.hints.shares()), len(expected))
        counts: Int64s = draw.poisson(self.hints.cells(expected, home))
        return counts

    def exact(self, *, units: bool) -> Release:
        """Return the exact sums as a release that counts units or events."""
        receipt = {"private": False, "grid": {"step": 1, "g": 0}, "dataset": "simulated", "plan": None}
        feature, label = np.nonzero(self.counts[:, : self.labels])
        joint = self.counts[feature, label]
        features, labels, total = self._margins(self.counts, self.beyond, units=units, labels_per_unit=self._labels())
        tables = self._tables((feature, label, joint), (features, labels[: self.labels]), total)
        return Release(receipt=receipt | {"space": "units" if units else "events"}, tables=tables)

    def noised(self, plan: Plan, source: Keystream) -> Release:
        """Return what the plan would release from these counts."""
        tables, weight = plan.calibration.tables, self._weight(plan)
        read, beyond = self._read(self.counts, plan), self._read(self.beyond, plan)
        pairs = None if plan.grid else self._shown(read, plan, source)
        sums = self._margins(read, beyond, units=plan.space == "units", labels_per_unit=self._labels(plan))
        margins = [
            add_noise(exact * weight, tables[name].mechanism, source)
            for name, exact in (("features", sums[0]), ("labels", sums[1][: self.labels]))
        ]
        shown = [
            _reaching(noisy, tables[name].threshold)
            for name, noisy in zip(("features", "labels"), margins, strict=True)
        ]
        if pairs is None:
            feature, label = _every_pair(*shown)
            joint = add_noise(read[feature, label] * weight, tables["pairs"].mechanism, source)
        else:
            both = shown[0][pairs[0]] & shown[1][pairs[1]]
            feature, label, joint = (part[both] for part in pairs)
        receipt = private_receipt(
            plan, Origin(dataset="simulated", unit="unit", engine="-", version="-"), release_id="-", ledger={}
        )
        total = int(add_noise(np.array([sums[2] * weight]), tables["total"].mechanism, source)[0])
        return Release(receipt=receipt, tables=self._tables((feature, label, joint), (margins[0], margins[1]), total))

    def _labels(self, plan: Plan | None = None) -> int:
        """Return under how many labels a unit appears, after a plan's bound."""
        most = self.hints.labels_per_unit
        return most if plan is None else min(most, plan.bounds.labels)

    def _margins(
        self, counts: Int64s, beyond: Int64s, *, units: bool, labels_per_unit: int
    ) -> tuple[Int64s, Int64s, int]:
        """Return the sums of features, labels and all: of events, or of units that count once in each.

        Units count once in a feature also where they have it under several labels, which are taken to be independent.
        """
        by_feature, by_label = counts.sum(axis=1), counts.sum(axis=0) + beyond
        if not units:
            return by_feature, by_label, int(by_label.sum())
        largest = counts.max(axis=0, initial=0)
        kept = min(1.0, float(by_label.sum()) / max(1.0, float(self.hints.units * self.hints.pairs_per_unit)))
        each = max(1.0, kept * self.hints.pairs_per_unit / labels_per_unit)
        labels = np.maximum(np.rint(by_label / each).astype(np.int64), largest)
        total = max(round(float(labels.sum()) / labels_per_unit), int(labels.max(initial=0)))
        if labels_per_unit == 1:
            return by_feature, labels, total
        rate = np.clip(by_feature / max(total * labels_per_unit, 1), 0, 1)
        once = np.rint(total * -np.expm1(labels_per_unit * np.log1p(-np.minimum(rate, 1 - 1e-12)))).astype(np.int64)
        return np.clip(once, counts.max(axis=1, initial=0), by_feature), labels, total

    def _shown(self, counts: Int64s, plan: Plan, source: Keystream) -> tuple[Int64s, Int64s, Int64s]:
        """Return the pairs above the threshold; with ``complete``, also all other pairs of their features and labels."""
        if not plan.complete:
            return self._kept(counts, plan, source)
        noise = plan.calibration.tables["pairs"]
        # proof: completion.redraw (the result is distributed as if the noise of every pair were drawn once)
        counts = counts[:, : self.labels]
        sums = add_noise(counts * self._weight(plan), noise.mechanism, source)
        seen = (counts > 0) & (sums >= (noise.threshold or 0))
        listed = np.full(self.labels, plan.known_labels is not None)
        feature, label = _every_pair(np.any(seen, axis=1), np.any(seen, axis=0) | listed)
        return feature, label, sums[feature, label]

    def visible_in_tail(self, plan: Plan, source: Keystream, *, labels: int) -> int:
        """Estimate the number of released pairs of the features that were only sampled; ``labels`` are released."""
        if not plan.grid:
            seen = self._kept(self._read(self.tail, plan), plan, source)[0]
            return self.each * (labels * len(np.unique(seen)) if plan.complete else len(seen))
        noise = plan.calibration.tables["features"]
        sums = add_noise(self.tail.sum(axis=1) * self._weight(plan), noise.mechanism, source)
        return self.each * labels * int(np.sum(_reaching(sums, noise.threshold)))

    def _kept(self, counts: Int64s, plan: Plan, source: Keystream) -> tuple[Int64s, Int64s, Int64s]:
        noise = plan.calibration.tables["pairs"]
        feature, label = np.nonzero(counts[:, : self.labels])
        sums = add_noise(counts[feature, label] * self._weight(plan), noise.mechanism, source)
        kept = sums >= (noise.threshold or 0)
        return feature[kept], label[kept], sums[kept]

    def _read(self, counts: Int64s, plan: Plan) -> Int64s:
        """Return the counts that the plan's bounds leave: of labels, of pairs that are read, and of pairs that are sampled."""
        bounds = plan.bounds
        pairs = self._pairs(plan)
        most = bounds.pairs if bounds.strategy == "sample" else plan.calibration.bounding.most_pairs
        part = self._labels(plan) / self.hints.labels_per_unit * min(1.0, most / pairs)
        if part == 1:
            return counts
        left: Int64s = self.thin.binomial(counts, part)
        return left

    def _pairs(self, plan: Plan) -> int:
        """Return how many pairs a unit has under the labels that the plan leaves it."""
        hints = self.hints
        return max(1, round(hints.pairs_per_unit * self._labels(plan) / hints.labels_per_unit))

    def _weight(self, plan: Plan) -> int:
        """Return what one count adds on the grid; units with more pairs than the plan's bound add less."""
        return usual_weight(plan, self._pairs(plan))

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
