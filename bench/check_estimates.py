"""What should give the order, and how should a budget be divided? Everything that was tried, losers too.

    python bench/check_estimates.py --data FOLDER so2016 so2016_tech acl arxiv reddit

For each set, epsilon and way of release (behind a threshold, or every pair with public labels) a few releases are drawn from
sums that were read once. Each is ranked by every estimate, and plans with other shares by the default one. The figure is
the mean of four overlaps with the exact ranking: top 100, top 1,000, each label's top 20, and the same for presence alone.
"""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from accuracy_sums import Sums, bounded, drawn, exact, ranked, reordered
from bench_accuracy import CASES, observed, sets_of
from ddpmi import Bounds, Budget, Plan, orders, patterns, pooling
from ddpmi import mi as information
from ddpmi.calibration import TABLES
from ddpmi.comparisons import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import ddpmi
    from ddpmi.patterns import Patterns
    from ddpmi.rankings import Ranking

    Estimate = Callable[[Sums, Ranking], np.ndarray | pooling.Pooled]

OUT = Path(__file__).parent / "results" / "estimates.json"
EPSILONS = (0.5, 1, 2, 4, 8)
#: The strength that was the best one for the slow belief.
SLOW = 12.0
SHARES = (
    (70, 23, 6, 1),
    (60, 33, 6, 1),
    (66, 28, 5, 1),
    (75, 20, 4, 1),
    (80, 15, 4, 1),
    (80, 10, 9, 1),
    (85, 10, 4, 1),
    (90, 6, 3, 1),
    (90, 8, 1.5, 0.5),
)


def by_shrinking(strength: float) -> Callable[[Sums, Ranking], np.ndarray]:
    """James and Stein: the product's own, with any strength."""
    return lambda sums, ranking: orders.shrunk(parts(sums), noise_of(ranking), strength)


def by_cutting(deviations: float, *, soft: bool) -> Callable[[Sums, Ranking], np.ndarray]:
    """Move the joint sum towards independence by some deviations, or all the way where it is nearer than that."""

    def values(sums: Sums, ranking: Ranking) -> np.ndarray:
        pxy, px, py = (part / max(sums.total, 1) for part in parts(sums)[:3])
        px, py = np.clip(px, 0, 1), np.clip(py, 0, 1)
        noise, expected = noise_of(ranking), px * py
        distance = pxy - expected
        reach = deviations * np.sqrt(noise.joint**2 + (py * noise.feature) ** 2 + (px * noise.label) ** 2)
        size = np.abs(distance)
        left = np.maximum(size - reach, 0) if soft else np.where(size >= reach, size, 0)
        joint = np.clip(expected + np.sign(distance) * left, np.maximum(0, px + py - 1), np.minimum(px, py))
        return information.mutual_information(joint, px, py)

    return values


def without_selection_bias(sums: Sums, ranking: Ranking) -> np.ndarray:
    """Near the threshold, take the joint sum whose mean, given that it was kept, is the released one."""
    doubt = ranking.source.doubt if ranking.source else None
    if doubt is None or doubt.threshold is None:
        return by_shrinking(0)(sums, ranking)
    means = np.linspace(-30, 30, 6001)
    # E[X | X >= T] of a normal X, in deviations from T; beyond -8 the mean excess is about -1/m.
    tail = np.array([math.erfc(-m / math.sqrt(2)) / 2 for m in means])
    density = np.exp(-(means**2) / 2) / math.sqrt(2 * math.pi)
    excess = np.where(means > -8, means + density / np.maximum(tail, 1e-300), -1 / np.minimum(means, -1))
    moved = np.interp((sums.joint - doubt.threshold) / doubt.sd, excess, means) * doubt.sd + doubt.threshold
    return by_shrinking(0)(replace(sums, joint=np.rint(np.clip(moved, 0, sums.joint)).astype(np.int64)), ranking)


def merged(strength: float) -> Callable[[Sums, Ranking], np.ndarray]:
    """Where rows are complete, merge each feature's sum with the sum of its row by inverse variance, then shrink."""

    def values(sums: Sums, ranking: Ranking) -> np.ndarray:
        noise, width = noise_of(ranking), len(sums.labels)
        complete = np.bincount(sums.feature, minlength=len(sums.features)) == width
        rows = np.bincount(sums.feature, sums.joint, minlength=len(sums.features))
        weight = noise.feature**2 / (noise.feature**2 + width * noise.joint**2)
        better = np.where(complete, (1 - weight) * sums.feature_sums + weight * rows, sums.feature_sums)
        return by_shrinking(strength)(replace(sums, feature_sums=np.rint(better).astype(np.int64)), ranking)

    return values


def by_pooling(strength: float = pooling.STRENGTH, *, offsets: bool = True, expected: bool = True) -> Estimate:
    """Read each pair together with the other labels of its feature: the product's own, with any strength.

    Without offsets the totals of labels are taken as exact. If it is not the expected mutual information, it is that of
    the expected lift.
    """

    def values(sums: Sums, ranking: Ranking) -> pooling.Pooled:
        noise = noise_of(ranking) if offsets else replace(noise_of(ranking), label=0.0)
        points = pooling._POINTS if expected else ((0.0, 1.0),)  # noqa: SLF001
        with mock.patch.object(pooling, "_POINTS", points):
            return by_patterns(sums, noise, strength)

    return values


@contextmanager
def slow_belief() -> Iterator[None]:
    """Let the pooled order believe a pair against its pattern by 1 - 12 / z^2, as it did once."""

    def slowly(square: np.ndarray, variance: np.ndarray, strength: float) -> np.ndarray:
        doubt = SLOW / pooling.STRENGTH * strength * variance
        return np.asarray(1 - np.divide(doubt, square, out=np.ones(square.shape), where=square > doubt))

    with mock.patch.object(patterns, "believed", slowly):
        yield


def by_slow_belief(sums: Sums, ranking: Ranking) -> pooling.Pooled:
    """Pooled, with the slow belief."""
    with slow_belief():
        return by_patterns(sums, noise_of(ranking))


def by_patterns(sums: Sums, noise: Any, strength: float = pooling.STRENGTH) -> pooling.Pooled:
    """What the pooled order says."""
    codes = (sums.feature, sums.label)
    if len(sums.joint) == 0:
        return pooling.pooled(parts(sums), codes, (sums.features, sums.labels), noise)
    return pooling.read(patterns_of(sums, noise), parts(sums), codes, noise, strength)


#: The last release that was read, with what was learned from it.
LEARNED: list[tuple[Sums, Any, Patterns]] = []


def patterns_of(sums: Sums, noise: Any) -> Patterns:
    """What the pooled order learns from a release, once for all that read it."""
    for known, its_noise, found in LEARNED:
        if known is sums and its_noise == noise:
            return found
    LEARNED[:] = [row for row in LEARNED if row[0] is sums]
    names = (sums.features, sums.labels)
    LEARNED.append((sums, noise, pooling.learned(parts(sums), (sums.feature, sums.label), names, noise)))
    return LEARNED[-1][2]


def parts(sums: Sums) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """J, F, L and N of each pair."""
    return sums.joint, sums.feature_sums[sums.feature], sums.label_sums[sums.label], sums.total


def noise_of(ranking: Ranking) -> Any:
    """The noise that the receipt declares."""
    return ranking.source.doubt.noise if ranking.source and ranking.source.doubt else None


ESTIMATES: dict[str, Estimate | None] = {
    "estimate": None,
    **{f"shrunk, strength {k}": by_shrinking(k) for k in (1, 2, 4, 6, 8, 12)},
    **{f"{c} deviations less": by_cutting(c, soft=True) for c in (1, 2, 3)},
    "0 below 3 deviations": by_cutting(3, soft=False),
    "debiased at the threshold": without_selection_bias,
    **{f"pooled, strength {k}": by_pooling(k) for k in (7, 10, 14, math.inf)},
    "pooled, believed as slowly as James and Stein would": by_slow_belief,
    "pooled, no offsets": by_pooling(offsets=False),
    "pooled, at the expected lift": by_pooling(expected=False),
    "pooled, directions as released": lambda sums, ranking: by_patterns(sums, noise_of(ranking)).value,
    "rows merged": merged(0),
    "rows merged, shrunk, strength 8": merged(8),
}


def score(truth: Ranking, ranking: Ranking) -> list[float]:
    """The four overlaps."""
    found = compare(truth, ranking).to_dict()
    presence = float(np.mean([label["presence_overlap_20"] for label in found["labels"]]))
    return [found["overlap"]["100"], found["overlap"]["1000"], found["label_overlap_20"], presence]


def estimates(truth: Ranking, sums: Sums, plan: Plan, seed: str) -> dict[str, list[float]]:
    """Rank one release by everything."""
    released = drawn(sums, plan, seed)
    plain = ranked(released, plan, order="estimate")
    found = {"lower bound": score(truth, ranked(released, plan, order="lower"))}
    for name, values in ESTIMATES.items():
        found[name] = score(truth, plain if values is None else reordered(plain, values(released, plain)))
    return found


class Subject:
    """A set, its exact ranking, and its bounded sums, which are read once for each mechanism."""

    def __init__(self, name: str, data: Path) -> None:
        self.case = CASES[name]
        self.obs = observed(self.case, data, Path())
        self.names = exact(self.obs)
        self.truth = ranked(self.names, None)
        self.passes: dict[str, Sums] = {}
        #: The ways to release it, with the options of their plans.
        self.ways: dict[str, dict[str, Any]] = {"threshold": {}}
        if self.case.public:
            self.ways["every pair"] = {"public_labels": tuple(self.names.labels.to_pylist()), "grid": True}

    def sums(self, plan: ddpmi.Plan) -> Sums:
        """The sums that a plan's noise is added to."""
        if plan.mechanism not in self.passes:
            plain = plan_of(self.case, float(plan.budget.epsilon), None, {}, plan.mechanism)
            self.passes[plan.mechanism] = bounded(self.obs, plain, self.names)
        return self.passes[plan.mechanism]


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """Everything on one set."""
    subject, found = Subject(name, data), []
    truth = subject.truth
    for epsilon in EPSILONS:
        for way, more in subject.ways.items():
            for shares in (None, *SHARES):
                plan = plan_of(subject.case, epsilon, shares, more)
                sums = subject.sums(plan)
                for draw in range(draws):
                    seed, about = f"{name} {epsilon} {way} {draw}", {"set": name, "epsilon": epsilon, "way": way}
                    if shares is None:
                        tried = estimates(truth, sums, plan, seed)
                        found += [about | {"estimate": key, "overlaps": value} for key, value in tried.items()]
                    else:
                        value = score(truth, ranked(drawn(sums, plan, seed), plan))
                        found.append(about | {"shares": shares, "mechanism": plan.mechanism, "overlaps": value})
        print(name, epsilon, flush=True)
    return found


def plan_of(case: Any, epsilon: float, shares: Any, more: dict[str, Any], mechanism: Any = "auto") -> ddpmi.Plan:
    """The plan of a set."""
    return Plan(
        budget=Budget(epsilon, case.delta),
        bounds=Bounds(pairs=case.pairs),
        distinct=case.distinct,
        shares=None if shares is None else hundredths(shares),
        mechanism=mechanism,
        **more,
    )


def hundredths(parts: tuple[float, ...]) -> dict[str, str]:
    """The shares of a plan."""
    return {table: f"{part / 100:g}" for table, part in zip(TABLES, parts, strict=True)}


def overlaps(rows: list[dict[str, Any]], way: str, name: str, kind: tuple[str, str]) -> np.ndarray:
    """The mean over epsilons and draws of one set."""
    chosen = [
        row["overlaps"] for row in rows if (row["way"], row["set"], str(row.get(kind[0]))) == (way, name, kind[1])
    ]
    return np.asarray(np.mean(chosen, axis=0))


def summed(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Means over sets, epsilons and draws, best first; and with each set left out, which one would have been chosen."""
    table = []
    for way in ("threshold", "every pair"):
        sets = sorted({row["set"] for row in rows if row["way"] == way and key in row})
        kinds = sorted({str(row[key]) for row in rows if row["way"] == way and key in row})
        mean = {kind: {name: overlaps(rows, way, name, (key, kind)) for name in sets} for kind in kinds}
        for kind in sorted(kinds, key=lambda kind: -np.mean(list(mean[kind].values()))):
            each = np.mean(list(mean[kind].values()), axis=0).round(4).tolist()
            by_set = {name: round(float(np.mean(values)), 4) for name, values in mean[kind].items()}
            table.append(
                {"way": way, key: kind, "mean": round(float(np.mean(each)), 4), "overlaps": each, "sets": by_set}
            )
        for out in sets:
            rest = [name for name in sets if name != out]
            chosen = max(kinds, key=lambda kind: float(np.mean([mean[kind][name] for name in rest])))
            table.append(
                {"way": way, "left_out": out, "chosen": chosen, "there": round(float(np.mean(mean[chosen][out])), 4)}
            )
    return table


def main() -> None:
    """Measure and write."""
    given = sets_of(__doc__, draws=2)
    rows = [row for name in given.sets for row in measure(name, given.data, given.draws)]
    found = {"estimates": summed(rows, "estimate"), "shares": summed(rows, "shares")}
    OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
