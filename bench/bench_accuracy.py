"""How far does privacy move ranks? Figures 2 and 3 of the paper, for the paper's way and for ours.

    python bench/bench_accuracy.py --data FOLDER arxiv acl so2016 reddit      # the public sets
    python bench/bench_accuracy.py paper10m paper100m                         # generated
    python bench/bench_accuracy.py --report                                   # tables and pictures of all results

The rows are summed once for each way of bounding. Each epsilon is then drawn ``--draws`` times from these sums, ranked, and
compared with the ranking of the exact, unbounded sums. Noise, ``rank`` and ``compare`` are the product's own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import tempfile
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ddpmi
from accuracy_sums import Sums, bounded, drawn, exact, ranked
from ddpmi import Bounds, Budget, Plan
from ddpmi.datasets import generated
from ddpmi.rankings.comparisons import compare

if TYPE_CHECKING:
    from ddpmi.rankings.orders import Order
    from ddpmi.rankings.ranking import Ranking

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.1, 0.5, 1, 2, 4, 8)
PERCENTILES = (10, 25, 50, 75, 90)
TOP = 10_000
#: A longer truth is cut for `compare`, which would otherwise look up millions of names for each draw.
MANY = 2_000_000
SUGGESTED = "ours, suggested"
#: Edges of the rank bands of figure 3.
EDGES = (0, 10, 30, 100, 300, 1000, 3000, 10_000)


@dataclass(frozen=True)
class Case:
    """One set and how its units are bounded."""

    pairs: int
    file: str = ""
    units: int = 0
    #: Whether generated features differ in how strongly they lean to a label.
    varied: bool = False
    where: str | None = None
    distinct: Any = False
    delta: float = 1e-7
    #: Whether the labels are public knowledge, such as years and countries.
    public: bool = False
    #: Whether the grid is measured too: features and labels selected by their totals, and every pair of them released.
    grid: bool = True


CASES = {
    "paper10m": Case(pairs=1, units=10_000_000, distinct="units"),
    "paper100m": Case(pairs=1, units=100_000_000, distinct="units", delta=1e-8, grid=False),
    # As many pairs, of features that lean more or less: more of the best pairs are rare.
    "varied10m": Case(pairs=1, units=10_000_000, varied=True, distinct="units"),
    "varied100m": Case(pairs=1, units=100_000_000, varied=True, distinct="units", delta=1e-8, grid=False),
    "reddit": Case(pairs=1, file="reddit_domains.parquet", distinct="units"),
    "arxiv": Case(pairs=50, file="arxiv_cs_words.parquet", distinct=True, public=True),
    "acl": Case(pairs=50, file="acl_words_ccby.parquet", public=True),
    "so2016": Case(pairs=30, file="so2016.parquet", public=True),
    "so2016_tech": Case(pairs=8, file="so2016.parquet", where="question = 'tech_do'", public=True),
}


def observed(case: Case, data: Path, scratch: Path) -> ddpmi.Observations:
    """Find the rows of a case, or generate them."""
    if not case.units:
        return ddpmi.observe(data / case.file, unit="id", feature="feature", label="partition", where=case.where)
    path = data / f"paper_shape_{case.units}{'_varied' * case.varied}.parquet"
    if not path.exists():
        path = scratch / path.name
        numbers = case.units, generated.PAPER_FEATURES, generated.PAPER_LABELS
        generated.paper_shape(*numbers, path, seed=1, varied=case.varied)
    return ddpmi.observe(path, unit="unit", feature="feature", label="label")


def ways(case: Case, labels: list[str]) -> dict[str, Any]:
    """Return the ways to compare: the plan by epsilon, how a release is ranked, and whether its noise is removed."""
    bounds = Bounds(pairs=case.pairs)

    def budget(epsilon: float) -> Budget:
        return Budget(epsilon, case.delta)

    # The paper's three queries, with hardly any budget for the total: a stronger baseline than the equal split.
    three = {"pairs": "0.33", "features": "0.33", "labels": "0.33", "total": "0.01"}
    found: dict[str, Any] = {
        "paper": (lambda e: Plan.paper(budget=budget(e), bounds=bounds, distinct=case.distinct), "paper", False),
        "paper, total free": (
            lambda e: Plan.paper(budget=budget(e), bounds=bounds, distinct=case.distinct, shares=three),
            "paper",
            False,
        ),
        "ours": (lambda e: Plan(budget=budget(e), bounds=bounds, distinct=case.distinct), "stable", False),
        "ceiling": (lambda e: Plan(budget=budget(e), bounds=bounds, distinct=case.distinct), "stable", True),
    }

    def grid(e: float, public: tuple[str, ...] | None = None) -> Plan:
        return Plan(budget=budget(e), bounds=bounds, distinct=case.distinct, public_labels=public, grid=True)

    def complete(e: float, public: tuple[str, ...] | None = None) -> Plan:
        return Plan(budget=budget(e), bounds=bounds, distinct=case.distinct, public_labels=public, complete=True)

    if case.units:
        found |= suggestions(case, labels)
    if case.grid:
        found |= {"ours, grid": (grid, "stable", False), "ceiling, grid": (grid, "stable", True)}
        found |= {"ours, complete": (complete, "stable", False), "ceiling, complete": (complete, "stable", True)}
    if case.public:

        def listed(e: float) -> Plan:
            return grid(e, tuple(labels))

        def completed(e: float) -> Plan:
            return complete(e, tuple(labels))

        found["ours, pooled"] = (found["ours"][0], "pooled", False)
        found["ours, complete, public labels"] = (completed, "stable", False)
        found |= {"ours, public labels": (listed, "stable", False), "ceiling, public labels": (listed, "stable", True)}
    return found


def suggestions(case: Case, labels: list[str]) -> dict[str, Any]:
    """Return the plans that `Plan.suggest` makes from the numbers of units and labels, with a list of labels and without."""

    def suggested(e: float, public: tuple[str, ...] | None) -> Plan:
        return Plan.suggest(
            budget=Budget(e, case.delta),
            units=case.units,
            labels=len(labels),
            distinct=case.distinct,
            public_labels=public,
        )

    return {
        SUGGESTED: (lambda e: suggested(e, tuple(labels)), "stable", False),
        f"{SUGGESTED}, labels found": (lambda e: suggested(e, None), "stable", False),
    }


def measure(name: str, data: Path, draws: int, scratch: Path) -> dict[str, Any]:
    """Compare all ways on one set."""
    case, start = CASES[name], time.perf_counter()
    obs = observed(case, data, scratch)
    names = exact(obs)
    truth, labels = ranked(names, None), names.labels.to_pylist()
    true_pairs, best = len(truth), codes_of(truth, TOP)[0]
    if true_pairs > MANY:
        # No label's best pair, and no compared rank, is beyond this.
        truth = truth.top(MANY // 10, per="all")
    passes: dict[str, Sums] = {}
    rows, errors = [], {}
    for way, (plan_of, method, noise_free) in ways(case, labels).items():
        for epsilon in EPSILONS:
            plan = plan_of(epsilon)
            bounding_of = plan.calibration.bounding
            # All plans bound a unit with one row alike.
            key = "one pair" if bounding_of.one_pair else f"{bounding_of.norm}/{plan.bounds.strategy}/{bounding_of.g}"
            if key not in passes:
                # A public list of all labels drops no row, so plans with it use these sums too.
                plain = Plan(budget=plan.budget, bounds=plan.bounds, distinct=plan.distinct, mechanism=plan.mechanism)
                passes[key] = bounded(obs, plain, names)
            found = []
            for draw in range(1 if noise_free and case.units > 10**7 else draws):
                # The pooled order reads the same releases, so the seed is the same.
                seed = f"{name} {way.removesuffix(', pooled')} {epsilon} {draw}"
                sums = drawn(passes[key], plan, seed, noise_free=noise_free)
                order: Order | None = "estimate" if noise_free else "pooled" if method == "pooled" else None
                ranking = ranked(sums, plan, method="paper" if method == "paper" else "stable", order=order)
                found.append((compare(truth, ranking, top=TOP).to_dict(), there(best, ranking)))
            errors[way, epsilon] = [ranks for _, ranks in found]
            rows.append(summary(way, epsilon, plan, [one for one, _ in found], errors[way, epsilon]))
            print(name, way, epsilon, rows[-1]["overlap"], rows[-1]["percentiles"], flush=True)
    return {
        "set": name,
        "delta": case.delta,
        "pairs_per_unit": case.pairs,
        "true_pairs": true_pairs,
        "draws": draws,
        "passes": len(passes),
        "bounding_alone": {key: bounding(truth, sums) for key, sums in passes.items()},
        "first_places": side_by_side(errors),
        "rows": rows,
        "seconds": round(time.perf_counter() - start, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "version": metadata.version("ddpmi"),
    }


def bounding(truth: Ranking, sums: Sums) -> dict[str, Any]:
    """Measure what bounding alone costs: the bounded sums before noise, without a threshold."""
    found = compare(truth, ranked(sums, None), top=TOP).to_dict()
    return {"overlap": found["overlap"], "label_overlap_20": found["label_overlap_20"]}


def codes_of(ranking: Ranking, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs as numbers, and their ranks: all in key order, or the first ``count`` in rank order."""
    coded = ranking.coded()
    codes = coded.feature_code.astype(np.int64) * len(coded.labels) + coded.label_code
    if count is None:
        return codes, coded.place
    first = np.argsort(coded.place)[:count]
    return codes[first], coded.place[first]


def there(best: np.ndarray, ranking: Ranking) -> np.ndarray:
    """Return the ranks of the best true pairs in a ranking, in true order; 0 for a missing pair."""
    codes, place = codes_of(ranking)
    if not len(codes):
        return np.zeros(len(best), np.int64)
    at = np.minimum(np.searchsorted(codes, best), len(codes) - 1)
    return np.where(codes[at] == best, place[at], 0)


def summary(
    way: str, epsilon: float, plan: Plan, found: list[dict[str, Any]], ranks: list[np.ndarray]
) -> dict[str, Any]:
    """Return means and standard deviations over the draws."""

    def mean(pick: Any) -> float:
        return round(float(np.mean([pick(one) for one in found])), 4)

    def presence(one: dict[str, Any]) -> float:
        return float(np.mean([label["presence_overlap_20"] for label in one["labels"]]))

    overlaps = {depth: [one["overlap"][depth] for one in found] for depth in found[0]["overlap"]}
    errors = {str(p): [one["percentiles"][str(p)] for one in found] for p in PERCENTILES}
    return {
        "way": way,
        "epsilon": epsilon,
        "mechanism": plan.mechanism,
        "threshold_in_units": round(plan.calibration.threshold_in_units, 2),
        "pairs": mean(lambda one: one["pairs"]["b"]),
        "kept": mean(lambda one: one["kept"]),
        "percentiles": {p: round(float(np.mean(values)), 1) for p, values in errors.items()},
        "percentiles_sd": {p: round(float(np.std(values)), 1) for p, values in errors.items()},
        "overlap": {depth: round(float(np.mean(values)), 4) for depth, values in overlaps.items()},
        "overlap_sd": {depth: round(float(np.std(values)), 4) for depth, values in overlaps.items()},
        "label_overlap_20": mean(lambda one: one["label_overlap_20"]),
        "presence_overlap_20": round(float(np.mean([presence(one) for one in found])), 4),
        "rbo": mean(lambda one: one["rbo"]),
        "direction_error": round(float(np.mean([one["direction_error"] or 0 for one in found])), 4),
        "bands": bands(ranks),
    }


def bands(ranks: list[np.ndarray]) -> list[dict[str, Any]]:
    """Return the data of figure 3: by true rank, the median error of released pairs and the share of pairs released."""
    true = np.arange(1, len(ranks[0]) + 1)
    found = []
    for low, high in itertools.pairwise(EDGES):
        inside = (true > low) & (true <= high)
        if not inside.any():
            continue
        seen = [one[inside] > 0 for one in ranks]
        errors = np.concatenate(
            [np.abs(one[inside] - true[inside])[here] for one, here in zip(ranks, seen, strict=True)]
        )
        median = round(float(np.median(errors)), 1) if len(errors) else None
        found.append({"from": low + 1, "to": high, "median": median, "kept": round(float(np.mean(seen)), 4)})
    return found


def side_by_side(errors: dict[tuple[str, float], list[np.ndarray]]) -> list[dict[str, Any]]:
    """Compare the first 10,000 places of ours with those of the paper's way: `compare(truth, ranking, cut=True)`.

    Uncut, ``compare`` puts a missing pair at the end of the whole list that misses it. So a missing pair costs more in a
    way that releases more pairs. Where neither way misses a tenth of the pairs, both measures agree.
    """
    found = []
    tried = ("ours", SUGGESTED, f"{SUGGESTED}, labels found", "ours, grid", "ours, complete", "ours, public labels")
    ours = [way for way in tried if (way, EPSILONS[0]) in errors]
    epsilons = [(e, e) for e in EPSILONS] + [(e / 2, e) for e in EPSILONS if e / 2 in EPSILONS]
    for way, baseline in itertools.product(ours, ("paper", "paper, total free")):
        for mine, theirs in epsilons:
            sides = [errors[way, mine], errors[baseline, theirs]]
            values = [np.mean([misses(ranks) for ranks in side], axis=0).round(1).tolist() for side in sides]
            found.append(
                {
                    "way": way,
                    "baseline": baseline,
                    "epsilon": mine,
                    "baseline_epsilon": theirs,
                    "ours": values[0],
                    "theirs": values[1],
                }
            )
    return found


def misses(ranks: np.ndarray) -> np.ndarray:
    """Return percentiles of the rank differences in a list of 10,000 places."""
    true = np.arange(1, len(ranks) + 1)
    return np.percentile(np.abs(np.where((ranks > 0) & (ranks <= TOP), ranks, TOP + 1) - true), PERCENTILES)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[*CASES, []], help="which sets")
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the public sets")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--report", action="store_true", help="write the table and the pictures of all results")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.sets:
            found = measure(name, given.data, given.draws, Path(scratch))
            (given.out / f"accuracy-{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    if given.report:
        from accuracy_report import report

        report(given.out)


if __name__ == "__main__":
    main()
