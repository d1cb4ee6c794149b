"""Would a second look at each label's best pairs help its list? An experiment, not a part of the product.

    python bench/check_again.py --data FOLDER arxiv --draws 3

A part of the pairs' budget pays for a release as usual, whose pooled order gives each label's best candidates. The rest pays
for sums of the candidates alone: a unit has few of them, so its bound, and with it the noise, is small. Both sums of a
candidate are merged by inverse variance, and all pairs are ordered again. The bound of the second look is the 95th percentile
of what units have, read from the data: a little more than a product could know. Part 1 has no second look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from accuracy_sums import Sums, ranked, reordered
from bench_accuracy import CASES, check_sets
from check_estimates import Subject, noise_of, parts, plan_of, score
from check_limits import FIGURES
from ddpmi import pooling

OUT = Path(__file__).parent / "results" / "again.json"
EPSILONS = (1, 4)
#: The part of the pairs' budget that the first look has, and how many candidates each label and direction sends on.
TRIED = ((1.0, 0), (0.8, 30), (0.8, 40), (0.8, 60), (0.6, 40), (0.6, 60))


class Rows:
    """Every row as three numbers, and the weight that the plan's bound gives to each unit."""

    def __init__(self, data: Path, names: Sums, pairs: int) -> None:
        rows = duckdb.connect()
        for key, known in (("feature", names.features), ("partition", names.labels)):
            rows.register(f"{key}s", pa.table({key: known, f"{key}_code": np.arange(len(known))}))
        found = rows.sql(
            "SELECT dense_rank() OVER (ORDER BY id) - 1 AS unit, feature_code, partition_code FROM"
            f" (SELECT DISTINCT id, feature, partition FROM read_parquet('{data}'))"
            " JOIN features USING (feature) JOIN partitions USING (partition)"
        ).to_arrow_table()
        self.unit = found["unit"].to_numpy()
        self.pair = found["feature_code"].to_numpy() * len(names.labels) + found["partition_code"].to_numpy()
        self.count = len(names.features) * len(names.labels)
        self.weight = np.minimum(1, np.sqrt(pairs / np.bincount(self.unit)))

    def sums_of(self, pairs: np.ndarray) -> tuple[np.ndarray, float]:
        """Sum some pairs, where what units have of them is bounded; and the bound, squared."""
        place = np.full(self.count, -1)
        place[pairs] = np.arange(len(pairs))
        place = place[self.pair]
        unit, place = self.unit[place >= 0], place[place >= 0]
        squared = np.bincount(unit, minlength=len(self.weight)) * self.weight**2
        bound = float(np.quantile(squared[squared > 0], 0.95))
        weight = self.weight * np.sqrt(np.minimum(1, bound / np.maximum(squared, 1e-9)))
        return np.bincount(place, weight[unit], minlength=len(pairs)), bound


@dataclass(frozen=True)
class Look:
    """A released table of pairs with its margins, and the deviation of each pair's noise."""

    sums: Sums
    before: Sums
    deviation: np.ndarray
    plan: Any

    def ordered(self) -> pooling.Pooled:
        """What the pooled order says."""
        sums, codes = parts(self.sums), (self.sums.feature, self.sums.label)
        usual = noise_of(ranked(self.sums, self.plan, order="estimate"))
        deviation = usual.joint * self.deviation / self.plan.calibration.tables["pairs"].mechanism.sd
        noise = replace(usual, joint=float(deviation.max()))
        model = pooling.fitted(sums, codes, noise, len(self.sums.labels))
        # Here pairs differ in their noise, which no receipt can say and no function of the product takes.
        told: Any = SimpleNamespace(joint=deviation, feature=noise.feature, label=noise.label, total=noise.total)
        return pooling._block(model, pooling._Pairs.of(sums, codes, told), pooling.STRENGTH)  # noqa: SLF001

    def scored(self, truth: Any) -> list[float]:
        """The four overlaps."""
        plain = ranked(self.sums, self.plan, order="estimate")
        return score(truth, reordered(plain, self.ordered()))


def first_look(before: Sums, plan: Any, part: float, draw: np.random.Generator) -> Look:
    """Release with a part of the pairs' budget."""
    tables = plan.calibration.tables

    def noisy(sums: np.ndarray, table: str, part: float = 1.0) -> np.ndarray:
        return np.rint(sums + draw.normal(0, tables[table].mechanism.sd / np.sqrt(part), len(sums))).astype(np.int64)

    features, labels = noisy(before.feature_sums, "features"), noisy(before.label_sums, "labels")
    if plan.grid:
        before = before.every_pair(np.flatnonzero(features >= tables["features"].threshold))
    joint = noisy(before.joint, "pairs", part)
    if tables["pairs"].threshold is not None:
        shown = joint >= tables["pairs"].threshold / np.sqrt(part)
        before, joint = before.kept(shown), joint[shown]
    total = int(noisy(np.array([before.total]), "total")[0])
    sums = replace(before, joint=joint, feature_sums=features, label_sums=labels, total=total)
    deviation = np.full(len(joint), tables["pairs"].mechanism.sd / np.sqrt(part))
    return Look(sums=sums, before=before, deviation=deviation, plan=plan)


def second_look(first: Look, rows: Rows, part: float, most: int, draw: np.random.Generator, pairs: int) -> Look:
    """Measure each label's best again with what is left."""
    sums, (values, presence) = first.sums, first.ordered()
    chosen = np.zeros(len(values), np.bool_)
    for label in range(len(sums.labels)):
        own = np.flatnonzero(sums.label == label)
        for some in (own, own[presence[own]]):
            chosen[some[np.argsort(-values[some])[:most]]] = True
    exact, bound = rows.sums_of(sums.feature[chosen].astype(np.int64) * len(sums.labels) + sums.label[chosen])
    grid = 2**first.plan.calibration.bounding.g
    deviation = first.plan.calibration.tables["pairs"].mechanism.sd * np.sqrt(bound / pairs / (1 - part))
    again = exact * grid + draw.normal(0, deviation, len(exact))
    weight = deviation**2 / (deviation**2 + first.deviation[chosen] ** 2)
    joint, left = sums.joint.copy(), first.deviation.copy()
    joint[chosen] = np.rint(weight * joint[chosen] + (1 - weight) * again)
    left[chosen] *= np.sqrt(weight)
    return replace(first, sums=replace(sums, joint=joint), deviation=left)


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """Everything on one set."""
    subject, found = Subject(name, data), []
    pairs = subject.case.pairs
    rows = Rows(data / subject.case.file, subject.names, pairs)
    for way, more in subject.ways.items():
        for epsilon in EPSILONS:
            plan = plan_of(subject.case, epsilon, None, more)
            before = subject.sums(plan)
            for part, most in TRIED:
                scores, ceilings = [], []
                for seed in range(draws):
                    draw = np.random.default_rng(seed)
                    look = first_look(before, plan, part, draw)
                    ceilings.append(score(subject.truth, ranked(look.before, plan, order="estimate")))
                    last = second_look(look, rows, part, most, draw, pairs) if most else look
                    scores.append(last.scored(subject.truth))
                for kind, values in (("as released", scores), ("ceiling", ceilings)):
                    figures = dict(zip(FIGURES, np.mean(values, axis=0).round(4).tolist(), strict=True))
                    about = {"set": name, "way": way, "epsilon": epsilon, "first_part": part, "candidates": most}
                    found.append(about | {"kind": kind, **figures})
                    print(found[-1], flush=True)
    return found


def main() -> None:
    """Measure and write."""
    choices = [name for name, case in CASES.items() if case.public and not case.where]
    check_sets(__doc__, OUT, measure, draws=3, choices=choices)


if __name__ == "__main__":
    main()
