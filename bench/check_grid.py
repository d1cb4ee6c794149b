"""Does a completed release, or a grid that finds its labels, rank better than a threshold on pairs? And how should they divide the budget?

    python bench/check_grid.py --data FOLDER arxiv acl so2016 so2016_tech categories authors retail --draws 3

Plans with a threshold on pairs, in both orders, the same completed, and with a grid, all else by default, over five epsilons.
The default shares of a grid were chosen on the first four sets; the last three had no part in it, nor in the choice of the
pooled order, but for how it believes pairs against their pattern: that was chosen on all seven. The figures are means over
epsilons and draws of four overlaps with the exact ranking: top 100, top 1,000, each label's top 20, and the same for presence
alone. Exact rankings have no pair that nobody has, the two have: a true zero in their lists counts as wrong. So sets of
moderate size are also compared with the exact ranking of all features with all labels, zeros too.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import bench_accuracy
import ddpmi
from accuracy_sums import Sums, bounded, drawn, exact, ranked
from bench_accuracy import sets_of
from check_estimates import hundredths, score, slow_belief

if TYPE_CHECKING:
    from ddpmi.orders import Order

OUT = Path(__file__).parent / "results" / "grid.json"
EPSILONS = (0.5, 1, 2, 4, 8)
#: Pairs of an exact ranking with its zeros, at most.
MOST = 2_000_000
CHOSEN_ON = ("arxiv", "acl", "so2016", "so2016_tech")
#: Hundredths for pairs, features, labels and total.
COMPLETE_SHARES = ((80, 15, 4, 1), (78, 15, 6, 1), (75, 20, 4, 1))
#: Behind the threshold, in the order that every pair has where all show.
POOLED = "threshold, pooled"
#: Completed, in the pooled order as it believed pairs once.
SLOWLY = "complete, slow belief"
GRID_SHARES = ((85, 10, 4, 1), (80, 15, 4, 1), (78, 14, 7, 1), (70, 22, 7, 1), (60, 30, 9, 1))


def ways() -> dict[str, dict[str, Any]]:
    """The options of the plans that are compared; shares are by default unless they are named."""
    found: dict[str, dict[str, Any]] = {"threshold": {}, POOLED: {}}
    for option, tried in (("complete", COMPLETE_SHARES), ("grid", GRID_SHARES)):
        found[option] = {option: True}
        found |= {SLOWLY: {"complete": True}} if option == "complete" else {}
        found |= {f"{option}, {' / '.join(map(str, s))}": {option: True, "shares": hundredths(s)} for s in tried}
    return found


@dataclass(frozen=True)
class Case:
    """One set and how its units are bounded."""

    file: str
    bounds: ddpmi.Bounds
    label: str = "partition"
    where: str | None = None


CASES = {
    **{
        name: Case(case.file, ddpmi.Bounds(pairs=case.pairs), where=case.where)
        for name, case in bench_accuracy.CASES.items()
        if name in CHOSEN_ON
    },
    # The words of the arXiv set once more, by field instead of by year.
    "categories": Case("arxiv_cs_words.parquet", ddpmi.Bounds(pairs=50), label="primary_cat"),
    "authors": Case("arxiv_authors.parquet", ddpmi.Bounds(pairs=4, labels=2)),
    "retail": Case("online_retail.parquet", ddpmi.Bounds(pairs=18)),
}


class Subject:
    """A set, its exact ranking, and its bounded sums, which are read once for each way of bounding."""

    def __init__(self, case: Case, data: Path) -> None:
        self.bounds = case.bounds
        self.obs = ddpmi.observe(data / case.file, unit="id", feature="feature", label=case.label, where=case.where)
        self.names = exact(self.obs)
        self.truths = [ranked(self.names, None)]
        if len(self.names.features) * len(self.names.labels) <= MOST:
            self.truths.append(ranked(self.names.every_pair(np.arange(len(self.names.features))), None))
        self.passes: dict[Any, Sums] = {}

    def overlaps(self, plan: ddpmi.Plan, seed: str, order: Order | None) -> list[list[float]]:
        """Release and rank once; compare with each exact ranking."""
        key = plan.calibration.bounding
        if key not in self.passes:
            self.passes[key] = bounded(self.obs, plan, self.names)
        ranking = ranked(drawn(self.passes[key], plan, seed), plan, order=order)
        return [score(truth, ranking) for truth in self.truths]


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """All plans on one set."""
    subject, rows = Subject(CASES[name], data), []
    for way, options in ways().items():
        found = []
        for epsilon in EPSILONS:
            plan = ddpmi.Plan(
                budget=ddpmi.Budget(epsilon, 1e-7), bounds=subject.bounds, mechanism="gaussian", **options
            )
            seeds = [f"{name} {epsilon} {draw}" for draw in range(draws)]
            order: Order | None = "pooled" if way == POOLED else None
            with slow_belief() if way == SLOWLY else nullcontext():
                found.append(np.mean([subject.overlaps(plan, seed, order) for seed in seeds], axis=0))
        # By epsilon, exact ranking and figure.
        means = np.array(found)
        row = {"set": name, "way": way, "mean": round(float(means[:, 0].mean()), 4)}
        row |= {"by epsilon": means[:, 0].mean(axis=1).round(4).tolist()}
        kinds = ("overlaps", "overlaps with zeros")
        rows.append(
            row | {kind: means[:, at].mean(axis=0).round(4).tolist() for at, kind in enumerate(kinds[: means.shape[1]])}
        )
        print(rows[-1], flush=True)
    return rows


def over_sets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the sets that the shares were chosen on, and over the others."""
    table = []
    for way in dict.fromkeys(row["way"] for row in rows):
        means = {row["set"]: row["mean"] for row in rows if row["way"] == way}
        sides = {
            "chosen on": [mean for name, mean in means.items() if name in CHOSEN_ON],
            "others": [mean for name, mean in means.items() if name not in CHOSEN_ON],
        }
        table.append({"way": way} | {side: round(float(np.mean(part)), 4) for side, part in sides.items() if part})
        print(table[-1])
    return table


def main() -> None:
    """Measure and write."""
    given = sets_of(__doc__, draws=3, choices=CASES)
    rows = [row for name in given.sets for row in measure(name, given.data, given.draws)]
    found = {"draws": given.draws, "epsilons": EPSILONS, "means": over_sets(rows), "rows": rows}
    OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
