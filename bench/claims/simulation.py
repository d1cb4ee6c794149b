"""Does ``plan --simulate`` predict the rank error that real releases have?

    nice python bench/claims/simulation.py --out bench/results/simulation.json

Rows in the shape of the paper's large experiment are generated, released at several budgets from one pass, and
compared with their exact ranking. The simulation gets the same numbers as hints and never sees the rows.
The ratio is the predicted median rank difference of the true best 10,000 pairs over the measured one, in whole lists
and in lists of 10,000 places.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import ddpmi
from ddpmi.applications.simulation import EPSILONS, simulate
from ddpmi.datasets import PAPER_FEATURES, PAPER_LABELS, paper_shape
from ddpmi.planning.suggest import LEAN, Hints

DELTA = "1e-7"


def measured(units: int, seed: int) -> list[dict[str, Any]]:
    """Release generated rows at every budget and compare with the exact ranking."""
    with tempfile.TemporaryDirectory() as folder:
        rows = paper_shape(units, PAPER_FEATURES, PAPER_LABELS, Path(folder) / "rows.parquet", seed=seed)
        obs = ddpmi.observe(str(rows))
        plans = [plan_of(epsilon) for epsilon in EPSILONS]
        ledger = ddpmi.Ledger(Path(folder) / "bench.ledger", limit=ddpmi.Budget(1000, "1e-3"))
        reference = ddpmi.rank(ddpmi.exact(obs))
        found = []
        for epsilon, release in zip(EPSILONS, ddpmi.release_many(obs, plans, ledger=ledger), strict=True):
            compared = ddpmi.compare(reference, ddpmi.rank(release))
            found.append(
                {
                    "epsilon": float(epsilon),
                    "visible": compared.pairs["b"],
                    "kept": compared.kept,
                    "rank_error": compared.percentiles["50"],
                    "percentiles": compared.percentiles,
                    "cut_rank_error": compared.cut_percentiles["50"],
                    "cut_percentiles": compared.cut_percentiles,
                }
            )
        return found


def plan_of(epsilon: str) -> ddpmi.Plan:
    """Plan one row for each unit."""
    return ddpmi.Plan(budget=ddpmi.Budget(epsilon, DELTA), bounds=ddpmi.Bounds(pairs=1), distinct="units")


def main() -> None:
    """Print both sides and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    hints = Hints(units=arguments.units, features=PAPER_FEATURES, labels=PAPER_LABELS, lean=LEAN)
    start = time.perf_counter()
    expected = simulate(plan_of("1"), hints)
    seconds = time.perf_counter() - start
    results = []
    for guess, real in zip(expected.rows, measured(arguments.units, arguments.seed), strict=True):
        # Both medians may be 0; half a rank keeps the ratio finite.
        ratio, cut_ratio = ((guess[name] + 0.5) / (real[name] + 0.5) for name in ("rank_error", "cut_rank_error"))
        results.append(
            {"epsilon": real["epsilon"], "expected": guess, "measured": real, "ratio": ratio, "cut_ratio": cut_ratio}
        )
        print(
            f"epsilon {real['epsilon']:<5g} median rank error {guess['rank_error']:>8g} expected"
            f" {real['rank_error']:>8g} measured, ratio {ratio:.2f} (lists of 10,000: {cut_ratio:.2f});"
            f" visible {guess['visible']:>8,} expected {real['visible']:>8,} measured"
        )
    worst = max(max(one[name], 1 / one[name]) for one in results for name in ("ratio", "cut_ratio"))
    print(f"worst factor {worst:.2f}; the simulation took {seconds:.1f} s")
    if arguments.out:
        machine = {"python": platform.python_version()}
        machine |= {name: metadata.version(name) for name in ("numpy", "duckdb", "ddpmi")}
        told = {"machine": machine, "units": arguments.units, "delta": DELTA, "worst_factor": worst, "results": results}
        arguments.out.write_text(json.dumps(told | {"simulation_seconds": round(seconds, 1)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
