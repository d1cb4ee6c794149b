"""Which noise limits each label's own top list? The same release with the noise of some of its tables taken off.

    python bench/check_limits.py --data FOLDER arxiv --draws 5

All rows of an epsilon show the same pairs, those that the noise of the release chose, ordered pair by pair (by the estimate
behind a threshold, else shrunk) or pooled. "pairs alone are noisy" has exact sums of features, labels and all; "pairs are
exact" has noise on these and none on pairs; "nothing is noisy" is the ceiling. A completed release shows more than its threshold
lets through; its last row is the ceiling behind that threshold.
"rows are known" is what somebody could do who knows all margins, and of each pair's feature the exact sums in all other
labels: more than any reading of the release can know beside the pair's own noisy sum.
"best order" is the best of all orders that check_estimates.py tries, chosen in hindsight for each figure by looking at the
truth, so no order among them can reach more.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict

from accuracy_sums import Sums, drawn, ranked, reordered
from bench_accuracy import check_sets
from check_estimates import Subject, by_patterns, estimates, noise_of, plan_of, score
from ddpmi import patterns, pooling
from ddpmi.comparisons import compare

if TYPE_CHECKING:
    import ddpmi
    from ddpmi.rankings import Ranking

OUT = Path(__file__).parent / "results" / "limits.json"
EPSILONS = (1, 4)
FIGURES = ("top 100", "top 1,000", "label top 20", "presence only")


BEHIND = "nothing is noisy, pairs above the threshold alone"
#: A label with fewer pairs is read pair by pair.
FEW = 30
#: Neighbours by expected sum over which misses of the oracle's predictions are averaged.
NEAR = 51


def with_half_the_noise(noisy: Sums, free: Sums, plan: ddpmi.Plan) -> Ranking:
    """Take half the noise off the pairs and all of it off the margins, and order them pooled."""
    sums = replace(free, joint=(noisy.joint + free.joint) // 2)
    plain = ranked(sums, plan, order="estimate")
    noise = noise_of(plain)
    return reordered(plain, by_patterns(sums, replace(noise, joint=noise.joint / 2)))


def with_known_rows(noisy: Sums, free: Sums, before: Sums, plan: ddpmi.Plan) -> Ranking:
    """Read each pair's noisy sum together with the exact sums of its feature in all other labels.

    Lifts of a label are predicted from those in the others by regression, learned from exact lifts of other features. How
    far predictions miss is taken from the truth as well, and the noisy lift is believed as much as that makes it better.
    A pair far from its prediction is believed as in the pooled order.
    """
    width, deviation = len(before.labels), plan.calibration.tables["pairs"].mechanism.sd
    seen, row = np.unique(free.feature.astype(np.int64), return_inverse=True)
    expected = before.feature_sums[seen, None] * (before.label_sums / before.total)
    lifts = before.every_pair(seen).joint.reshape(-1, width) / np.maximum(expected, 1) - 1
    # A lift that rests on a few units says little about other labels.
    reliable = np.clip(lifts, -1, 8) * np.sqrt(expected / (expected + 20 * 2**plan.calibration.bounding.g))
    joint = noisy.joint.astype(np.float64)
    for label in range(width):
        at = np.flatnonzero(free.label == label)
        if len(at) < FEW:
            continue
        true, size = lifts[row[at], label], np.maximum(expected[row[at], label], 1)
        others = np.delete(reliable[row[at]], label, axis=1)
        guess = cross_val_predict(RidgeCV((0.1, 1, 10, 100)), others, true, cv=10)
        by_size = np.argsort(size)
        missed = np.pad((true - guess)[by_size] ** 2, NEAR // 2, mode="reflect")
        spread = np.empty(len(at))
        spread[by_size] = np.convolve(missed, np.ones(NEAR) / NEAR, "valid")
        beside, noise = joint[at] / size - 1 - guess, (deviation / size) ** 2
        kept = np.maximum(spread / (spread + noise), patterns.believed(beside**2, noise, pooling.STRENGTH))
        joint[at] = (1 + guess + kept * beside) * size
    known = replace(free, joint=np.rint(np.maximum(joint, 0)).astype(np.int64))
    return ranked(known, plan, order="estimate")


def kinds(noisy: Sums, free: Sums, before: Sums, plan: ddpmi.Plan) -> dict[str, Ranking]:
    """Rank one release with the noise of some tables taken off; ``before`` are the sums before noise and threshold."""
    found = {
        "as released": ranked(noisy, plan, order="shrunk" if plan.grid or plan.complete else "estimate"),
        "as released, pooled": ranked(noisy, plan, order="pooled"),
        "pairs alone are noisy, pooled": ranked(replace(free, joint=noisy.joint), plan, order="pooled"),
        "pairs alone are noisy, rows are known": with_known_rows(noisy, free, before, plan),
        "half the noise, on pairs alone, pooled": with_half_the_noise(noisy, free, plan),
        "pairs are exact": ranked(replace(noisy, joint=free.joint), plan, order="estimate"),
        "nothing is noisy": ranked(free, plan, order="estimate"),
    }
    if plan.complete:
        found[BEHIND] = behind_threshold(noisy, free, plan)
    return found


def behind_threshold(noisy: Sums, free: Sums, plan: ddpmi.Plan) -> Ranking:
    """Rank a completed release without noise, only the pairs that reached its threshold: what it would be uncompleted."""
    reached = (noisy.joint >= (plan.calibration.tables["pairs"].threshold or 0)) & (free.joint > 0)
    return ranked(free.kept(reached), plan, order="estimate")


def in_sight(truth: Ranking, ceiling: Ranking) -> list[int]:
    """Count the labels that show any of their top 20, or any of those that stand out by presence, if nothing is noisy."""
    labels = compare(truth, ceiling).labels
    return [sum(label[name] > 0 for label in labels) for name in ("overlap_20", "presence_overlap_20")]


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """Everything on one set."""
    subject, rows = Subject(name, data), []
    truth = subject.truth
    # "every pair" knows the labels beforehand, "grid" finds them.
    found_keys: dict[str, dict[str, Any]] = {"grid": {"grid": True}, "complete": {"complete": True}}
    if subject.case.public:
        found_keys["complete, public labels"] = {"complete": True, **subject.ways["every pair"], "grid": False}
    for way, more in (subject.ways | found_keys).items():
        for epsilon in EPSILONS:
            plan = plan_of(subject.case, epsilon, None, more)
            sums = subject.sums(plan)
            found: dict[str, list[Any]] = {}
            for draw in range(draws):
                seed = f"{name} {way} {epsilon} {draw}"
                noisy, free = (drawn(sums, plan, seed, noise_free=off) for off in (False, True))
                for kind, ranking in kinds(noisy, free, sums, plan).items():
                    found.setdefault(kind, []).append(score(truth, ranking))
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
    check_sets(__doc__, OUT, measure, draws=5)


if __name__ == "__main__":
    main()
