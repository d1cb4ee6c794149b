"""With one row for each unit: a threshold on pairs, or features found by their totals? And how should that divide the budget?

    python bench/check_one_row.py --data FOLDER paper10m varied10m --draws 3

Plans with a threshold on pairs, completed or not, and grids with other shares, labels listed or found, all with Laplace
noise. The figures are what `compare` says about the true top 10,000: what shows, what is among the first 10,000 places,
and percentiles of the rank difference, in lists of 10,000 places and in whole lists.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import ddpmi
from accuracy_sums import bounded, drawn, exact, ranked
from bench_accuracy import CASES, MANY, TOP, check_sets, observed
from check_estimates import hundredths
from ddpmi.comparisons import compare

OUT = Path(__file__).parent / "results" / "one-row.json"
SETS = ("paper10m", "varied10m")
EPSILONS = (0.1, 0.5, 1, 4)
#: Hundredths for pairs, features, labels and total.
SHARES = ((65, 30, 4, 1), (60, 37, 2, 1), (54, 43, 2, 1), (51, 46, 2, 1), (48, 49, 2, 1), (40, 57, 2, 1))
FINDING_LABELS = ((60, 30, 9, 1), (54, 40, 5, 1), (50, 46, 3, 1), (47, 49, 3, 1), (44, 52, 3, 1))


def ways(labels: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The options of the plans that are compared."""
    found: dict[str, dict[str, Any]] = {"threshold": {}, "complete": {"complete": True}}
    listed = {"public_labels": labels, "grid": True}
    found |= {f"grid, listed, {' / '.join(map(str, s))}": listed | {"shares": hundredths(s)} for s in SHARES}
    return found | {f"grid, {' / '.join(map(str, s))}": {"grid": True, "shares": hundredths(s)} for s in FINDING_LABELS}


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """All plans on one set."""
    case = CASES[name]
    one_row: Any = {"bounds": ddpmi.Bounds(pairs=case.pairs), "distinct": case.distinct, "mechanism": "laplace"}
    with tempfile.TemporaryDirectory() as scratch:
        obs = observed(case, data, Path(scratch))
        names = exact(obs)
        sums = bounded(obs, ddpmi.Plan(budget=ddpmi.Budget(1, case.delta), **one_row), names)
    truth, labels = ranked(names, None), tuple(names.labels.to_pylist())
    if len(truth) > MANY:
        truth = truth.top(MANY // 10, per="all")
    rows = []
    for epsilon in EPSILONS:
        for way, options in ways(labels).items():
            plan = ddpmi.Plan(budget=ddpmi.Budget(epsilon, case.delta), **one_row, **options)
            found = [
                compare(truth, ranked(drawn(sums, plan, f"{name} {epsilon} {draw}"), plan), top=TOP).to_dict()
                for draw in range(draws)
            ]
            rows.append({"set": name, "epsilon": epsilon, "way": way} | means(found))
            print(rows[-1], flush=True)
    return rows


def means(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the draws."""

    def mean(pick: str) -> float:
        return round(float(np.mean([one[pick] for one in found])), 4)

    def errors(pick: str) -> list[float]:
        return [round(float(error), 1) for error in np.mean([list(one[pick].values()) for one in found], axis=0)]

    return {
        "pairs": round(float(np.mean([one["pairs"]["b"] for one in found]))),
        "kept": mean("kept"),
        "found": mean("cut_kept"),
        "label_overlap_20": mean("label_overlap_20"),
        "percentiles": errors("cut_percentiles"),
        "whole_percentiles": errors("percentiles"),
    }


if __name__ == "__main__":
    check_sets(__doc__, OUT, measure, draws=3, choices=SETS)
