"""Which `lean` do real sets have, and how well does `simulate` foresee them with it?

    nice python bench/claims/lean.py --data FOLDER --out bench/results/lean.json

Each set is released at several budgets and compared with its exact ranking. The simulation gets what a user would declare:
the numbers of units, labels and features, the usual number of pairs of a unit, and the slope of the features' frequencies.
For each `lean` of a list its forecast of "best found" is compared with the measured one: how far it is off on average, and
how far it is too high at worst. Leaving out one set at a time shows how much this depends on single sets.
Results of a set are written when it is complete, and a second run goes on behind them.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ddpmi
from ddpmi.applications.simulation import simulate
from ddpmi.planning.suggest import Hints

EPSILONS, DELTA, DRAWS = ("0.5", "1", "4"), "1e-7", 2
LEANS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.35, 0.5)
_COMMON = 1000  # features whose frequencies give the slope
_OFTEN = 1000  # units that a feature needs for its lean to be measured


@dataclass(frozen=True, kw_only=True)
class Case:
    """A set and how it is observed."""

    file: str
    where: str | None = None
    labels: int = 1

    @property
    def path(self) -> str:
        """The name of the set's file."""
        return f"{self.file}.parquet"


CASES = {
    "so2016": Case(file="so2016", where="question = 'tech_do'"),
    "online_retail": Case(file="online_retail"),
    "onet_tech": Case(file="onet_tech"),
    "acl_words": Case(file="acl_words_ccby"),
    "reddit": Case(file="reddit_domains"),
    "arxiv_authors": Case(file="arxiv_authors", labels=5),
    "arxiv_words": Case(file="arxiv_cs_words"),
}


def shape_of(folder: Path, case: Case) -> dict[str, Any]:
    """Count what a user would declare."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as db:
        rows = f"read_parquet('{folder / case.path}')" + (f" WHERE {case.where}" if case.where else "")
        db.execute(f"CREATE VIEW pairs AS SELECT DISTINCT id, feature, partition FROM {rows}")
        units = "SELECT COUNT(*) AS pairs, COUNT(DISTINCT partition) AS labels FROM pairs GROUP BY id"
        per_unit, labels_per_unit, count = db.execute(
            f"SELECT QUANTILE_DISC(pairs, 0.5), QUANTILE_DISC(labels, 0.5), COUNT(*) FROM ({units})"
        ).fetchone() or (1, 1, 0)
        sums = db.execute("SELECT COUNT(*) FROM pairs GROUP BY feature ORDER BY 1 DESC").fetchnumpy()["count_star()"]
        labels = db.execute("SELECT COUNT(DISTINCT partition) FROM pairs").fetchone() or (1,)
    ranks = np.arange(1, min(len(sums), _COMMON) + 1)
    slope = -np.polyfit(np.log(ranks), np.log(sums[: len(ranks)]), 1)[0]
    found = {"units": count, "labels": labels[0], "features": len(sums), "pairs_per_unit": int(per_unit)}
    return found | {"labels_per_unit": int(labels_per_unit), "zipf": round(float(np.clip(slope, 0, 4)), 2)}


def measured(folder: Path, case: Case, shape: dict[str, Any]) -> dict[str, Any]:
    """Release the set at every budget and compare with its exact ranking."""
    obs = ddpmi.observe(
        str(folder / case.path), unit="id", feature="feature", label="partition", where=case.where,
        conf={"threads": "1"},
    )  # fmt: skip
    pairs = max(1, math.ceil(shape["pairs_per_unit"] / 2))
    plans = [
        ddpmi.Plan(
            budget=ddpmi.Budget(epsilon, DELTA),
            bounds=ddpmi.Bounds(pairs=pairs, labels=case.labels, cap=max(pairs * 10, case.labels)),
            complete=pairs > 1,
            space="events",
        )
        for epsilon in EPSILONS
    ]
    reference = ddpmi.rank(ddpmi.exact(obs))
    top = min(max(len(reference) // 100, 100), 10_000)
    found: dict[str, Any] = {"top": top, "pairs": pairs, "bounds_labels": case.labels, "rows": []}
    with tempfile.TemporaryDirectory() as place:
        ledger = ddpmi.Ledger(Path(place) / "bench.ledger", limit=ddpmi.Budget(1000, "1e-3"))
        for draw in range(DRAWS):
            for epsilon, release in zip(EPSILONS, ddpmi.release_many(obs, plans, ledger=ledger), strict=True):
                compared = ddpmi.compare(reference, ddpmi.rank(release), top=top)
                found["rows"].append(
                    {
                        "draw": draw,
                        "epsilon": float(epsilon),
                        "visible": compared.pairs["b"],
                        "overlap": compared.cut_kept,
                        "kept": compared.kept,
                        "rank_error": compared.percentiles["50"],
                    }
                )
    return found | {"lean": own_leans(reference)}


def own_leans(reference: ddpmi.Ranking) -> dict[str, float]:
    """Measure by the definition of `lean`: how far the share of a feature's favourite label lies above that label's own.

    A feature that leans by a has the share (1 - a) s + a of its pairs in its own label, where s is that label's share.
    """
    table = reference.table
    joint, feature, label = (table[name].to_numpy() for name in ("joint", "feature_total", "label_total"))
    share = label / (reference.total or 1)
    lean = (joint / feature - share) / np.maximum(1 - share, 1e-9)
    names = table["feature"].combine_chunks().dictionary_encode().indices.to_numpy()
    largest = np.full(names.max() + 1, -1.0)
    np.maximum.at(largest, names, lean)
    totals = np.zeros(len(largest))
    totals[names] = feature
    often = totals >= min(_OFTEN, np.sort(totals)[-min(len(totals), 20)])
    order = np.argsort(largest[often])
    weight = np.cumsum(totals[often][order])
    at = [float(largest[often][order][np.searchsorted(weight, q * weight[-1])]) for q in (0.25, 0.5, 0.75)]
    return {name: round(value, 4) for name, value in zip(("25%", "median", "75%"), at, strict=True)}


def forecasts(shape: dict[str, Any], real: dict[str, Any]) -> dict[str, list[float]]:
    """Return the forecast of "best found" at every budget, for each lean."""
    plan = ddpmi.Plan(
        budget=ddpmi.Budget(1, DELTA),
        bounds=ddpmi.Bounds(pairs=real["pairs"], labels=real["bounds_labels"], cap=real["pairs"] * 10),
        complete=real["pairs"] > 1,
        space="events",
    )
    found = {}
    for lean in LEANS:
        rows = simulate(plan, Hints(**shape, lean=lean), epsilons=EPSILONS, top=real["top"]).rows
        found[f"{lean:g}"] = [round(row["overlap"], 4) for row in rows]
    return found


def nearest(results: dict[str, Any], without: str = "") -> tuple[float, dict[str, float]]:
    """Return the lean with the smallest mean distance of forecast and measured overlap, and the distance of each."""
    mean = {
        f"{lean:g}": float(
            np.mean(
                [
                    abs(guess - real)
                    for name, one in results.items()
                    if name != without
                    for guess, real in zip(one["forecast"][f"{lean:g}"], one["overlap"], strict=True)
                ]
            )
        )
        for lean in LEANS
    }
    best = min(mean, key=lambda lean: mean[lean])
    return float(best), {lean: round(value, 4) for lean, value in mean.items()}


def too_high(results: dict[str, Any]) -> dict[str, float]:
    """Return by how much the forecast of each lean was too high at worst, over all sets and budgets."""
    return {
        f"{lean:g}": round(
            max(
                guess - real
                for one in results.values()
                for guess, real in zip(one["forecast"][f"{lean:g}"], one["overlap"], strict=True)
            ),
            4,
        )
        for lean in LEANS
    }


def main() -> None:
    """Measure each set, fit, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--measure-only", action="store_true")
    arguments = parser.parse_args()
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"sets": {}}
    results = kept["sets"]
    for name, case in CASES.items():
        if name not in results:
            shape = shape_of(arguments.data, case)
            real = measured(arguments.data, case, shape)
            overlap = [
                float(np.mean([row["overlap"] for row in real["rows"] if row["epsilon"] == float(epsilon)]))
                for epsilon in EPSILONS
            ]
            results[name] = {"shape": shape, "measured": real, "overlap": overlap}
            arguments.out.write_text(json.dumps({"sets": results}, indent=2) + "\n")
        print(name, results[name]["shape"], results[name]["overlap"], results[name]["measured"]["lean"], flush=True)
    if arguments.measure_only:
        return
    for name, one in results.items():
        if "forecast" not in one:
            one["forecast"] = forecasts(one["shape"], one["measured"])
            arguments.out.write_text(json.dumps({"sets": results}, indent=2) + "\n")
        one["best_lean"] = nearest({name: one})[0]
        print(f"{name:<14} nearest lean {one['best_lean']:g}; measured {one['overlap']}; forecast {one['forecast']}")
    best, distances = nearest(results)
    left_out = {name: nearest(results, without=name)[0] for name in results}
    print(f"nearest over all sets: lean {best:g}; mean distances {distances}; leaving one set out: {left_out}")
    worst = too_high(results)
    print(f"too high at worst: {worst}")
    command = "bench/claims/lean.py --data FOLDER --out bench/results/lean.json"
    settings = {"command": command, "epsilons": EPSILONS, "delta": DELTA, "draws": DRAWS}
    found = {"nearest": best, "distance": distances, "leaving_one_out": left_out, "too_high_at_worst": worst}
    arguments.out.write_text(json.dumps(settings | found | {"sets": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
