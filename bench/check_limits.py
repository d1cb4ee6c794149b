"""Which noise limits each label's own top list? The same release with the noise of some of its tables taken off.

    python bench/check_limits.py --data FOLDER arxiv --draws 5

All rows of an epsilon show the same pairs, those that the noise of the release chose, ordered pair by pair (by the estimate
behind a threshold, else shrunk) or pooled. "pairs alone are noisy" has exact sums of features, labels and all; "pairs are
exact" has noise on these and none on pairs; "nothing is noisy" is the ceiling.
"best order" is the best of all orders that check_estimates.py tries, chosen in hindsight for each figure by looking at the
truth, so no order among them can reach more.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accuracy_sums import Sums, drawn, ranked
from bench_accuracy import sets_of
from check_estimates import Subject, estimates, plan_of, score
from ddpmi.comparisons import compare

if TYPE_CHECKING:
    from ddpmi.rankings import Ranking

OUT = Path(__file__).parent / "results" / "limits.json"
EPSILONS = (1, 4)
FIGURES = ("top 100", "top 1,000", "label top 20", "presence only")


def halved(noisy: Sums, free: Sums) -> Sums:
    """Take half the noise off the pairs, and all of it off the margins."""
    return replace(free, joint=(noisy.joint + free.joint) // 2)


def in_sight(truth: Ranking, ceiling: Ranking) -> list[int]:
    """Count the labels that show any of their top 20, or any of those that stand out by presence, if nothing is noisy."""
    labels = compare(truth, ceiling).labels
    return [sum(label[name] > 0 for label in labels) for name in ("overlap_20", "presence_overlap_20")]


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """Everything on one set."""
    subject, rows = Subject(name, data), []
    truth = subject.truth
    for way, more in subject.ways.items():
        for epsilon in EPSILONS:
            plan = plan_of(subject.case, epsilon, None, more)
            sums = subject.sums(plan)
            found: dict[str, list[Any]] = {}
            for draw in range(draws):
                seed = f"{name} {way} {epsilon} {draw}"
                noisy, free = (drawn(sums, plan, seed, noise_free=off) for off in (False, True))
                kinds = {
                    "as released": (noisy, "estimate" if way == "threshold" else "shrunk"),
                    "as released, pooled": (noisy, "pooled"),
                    "pairs alone are noisy, pooled": (replace(free, joint=noisy.joint), "pooled"),
                    "half the noise, on pairs alone": (halved(noisy, free), None if way == "threshold" else "shrunk"),
                    "pairs are exact": (replace(noisy, joint=free.joint), "estimate"),
                    "nothing is noisy": (free, "estimate"),
                }
                for kind, (shown, order) in kinds.items():
                    found.setdefault(kind, []).append(score(truth, ranked(shown, plan, order=order)))
                found.setdefault("labels in sight", []).append(in_sight(truth, ranked(free, plan, order="estimate")))
                tried = estimates(truth, sums, plan, seed)
                found.setdefault("as released, best order", []).append(list(tried.values()))
            sights = np.mean(found.pop("labels in sight"), axis=0).tolist()
            about = {"set": name, "way": way, "epsilon": epsilon}
            rows.append(
                about
                | {
                    "kind": "labels that show any of their top 20",
                    "label top 20": sights[0],
                    "presence only": sights[1],
                }
            )
            for kind, scores in found.items():
                mean = np.mean(scores, axis=0)
                best = mean.max(axis=0) if mean.ndim > 1 else mean
                figures = dict(zip(FIGURES, best.round(4).tolist(), strict=True))
                rows.append(about | {"kind": kind, **figures})
                print(name, way, epsilon, kind, figures, flush=True)
    return rows


def main() -> None:
    """Measure and write."""
    given = sets_of(__doc__, draws=5)
    rows = [row for name in given.sets for row in measure(name, given.data, given.draws)]
    OUT.write_text(json.dumps({"draws": given.draws, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
