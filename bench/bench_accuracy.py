"""How far does privacy move ranks? Figures 2 and 3 of the paper, the paper's way and ours side by side.

    python bench/bench_accuracy.py --data FOLDER arxiv acl so2016 reddit      # the public sets
    python bench/bench_accuracy.py paper10m paper100m                         # generated
    python bench/bench_accuracy.py --report                                   # tables and pictures of all results

One pass over the rows for each way of bounding; then every epsilon is drawn ``--draws`` times from these sums, ranked and
compared with the ranking of the exact, unbounded sums. The noise and the code of rank and compare are the product's own.
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
from ddpmi import Bounds, Budget, Plan, datasets
from ddpmi.comparisons import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddpmi.orders import Order
    from ddpmi.rankings import Ranking

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.1, 0.5, 1, 2, 4, 8)
PERCENTILES = (10, 25, 50, 75, 90)
TOP = 10_000
#: A longer truth is cut for `compare`, which would look up millions of names again for each draw.
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
    #: Whether generated features differ in how much they lean to a label.
    varied: bool = False
    where: str | None = None
    distinct: Any = False
    delta: float = 1e-7
    #: Labels that anybody knows beforehand, such as years and countries.
    public: bool = False
    #: Whether every pair of features and labels that are found by their totals is released too.
    grid: bool = True


CASES = {
    "paper10m": Case(pairs=1, units=10_000_000, distinct="units"),
    "paper100m": Case(pairs=1, units=100_000_000, distinct="units", delta=1e-8, grid=False),
    # As many pairs, of features that differ in how much they lean: more of the best pairs are rare.
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
        numbers = case.units, datasets.PAPER_FEATURES, datasets.PAPER_LABELS
        datasets.paper_shape(*numbers, path, seed=1, varied=case.varied)
    return ddpmi.observe(path, unit="unit", feature="feature", label="label")


def ways(case: Case, labels: list[str]) -> dict[str, Any]:
    """The ways that are compared: the plan as a function of epsilon, how a release is ranked, and whether without its noise."""
    bounds = Bounds(pairs=case.pairs)

    def budget(epsilon: float) -> Budget:
        return Budget(epsilon, case.delta)

    # The paper's three queries, with the total nearly for free: a stronger baseline than the equal split.
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
    """The plans that `Plan.suggest` makes from how many units and labels there are, with a list of the labels and without."""

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
        # No label's best, and no rank that is compared, lies deeper.
        truth = truth.top(MANY // 10, per="all")
    passes: dict[str, Sums] = {}
    rows, errors = [], {}
    for way, (plan_of, method, noise_free) in ways(case, labels).items():
        for epsilon in EPSILONS:
            plan = plan_of(epsilon)
            settled = plan.calibration.bounding
            # A unit with one row is bounded alike by all.
            key = "one pair" if settled.one_pair else f"{settled.norm}/{plan.bounds.strategy}/{settled.g}"
            if key not in passes:
                # A public list of all labels drops no row, so these sums serve it too.
                plain = Plan(budget=plan.budget, bounds=plan.bounds, distinct=plan.distinct, mechanism=plan.mechanism)
                passes[key] = bounded(obs, plain, names)
            found = []
            for draw in range(1 if noise_free and case.units > 10**7 else draws):
                # Another order is another look at the same releases.
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
    """What bounding alone costs: the bounded sums before noise, with no threshold."""
    found = compare(truth, ranked(sums, None), top=TOP).to_dict()
    return {"overlap": found["overlap"], "label_overlap_20": found["label_overlap_20"]}


def codes_of(ranking: Ranking, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Pairs as numbers, in the order of their keys or the first of them in rank order, and their ranks."""
    coded = ranking.coded()
    codes = coded.feature_code.astype(np.int64) * len(coded.labels) + coded.label_code
    if count is None:
        return codes, coded.place
    first = np.argsort(coded.place)[:count]
    return codes[first], coded.place[first]


def there(best: np.ndarray, ranking: Ranking) -> np.ndarray:
    """The ranks that the best true pairs have in a ranking, in the order of truth; 0 for a missing one."""
    codes, place = codes_of(ranking)
    if not len(codes):
        return np.zeros(len(best), np.int64)
    at = np.minimum(np.searchsorted(codes, best), len(codes) - 1)
    return np.where(codes[at] == best, place[at], 0)


def summary(
    way: str, epsilon: float, plan: Plan, found: list[dict[str, Any]], ranks: list[np.ndarray]
) -> dict[str, Any]:
    """Means over the draws, and how far they spread."""

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
    """Figure 3: the median error of the pairs that are there, and how many are, by true rank."""
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

    Uncut, ``compare`` puts a missing pair behind the whole list that misses it, so a way that shows more pairs pays more
    for each one it still misses. Where neither misses a tenth of the pairs both measures agree.
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
    """Percentiles of the rank differences in a list of 10,000 places."""
    true = np.arange(1, len(ranks) + 1)
    return np.percentile(np.abs(np.where((ranks > 0) & (ranks <= TOP), ranks, TOP + 1) - true), PERCENTILES)


def sets_of(doc: str | None, *, draws: int, choices: Iterable[str] = CASES) -> argparse.Namespace:
    """Read the command line of a check that goes over some sets."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", choices=list(choices))
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the public sets")
    parser.add_argument("--draws", type=int, default=draws)
    return parser.parse_args()


def check_sets(
    doc: str | None,
    out: Path,
    measure: Callable[[str, Path, int], list[dict[str, Any]]],
    *,
    draws: int,
    choices: Iterable[str] = CASES,
) -> None:
    """Read the command line of a check, measure each of its sets and write all rows."""
    given = sets_of(doc, draws=draws, choices=choices)
    rows = [row for name in given.sets for row in measure(name, given.data, given.draws)]
    out.write_text(json.dumps({"draws": given.draws, "rows": rows}, indent=1) + "\n")


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
