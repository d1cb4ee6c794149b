"""How many pairs of one unit should count in full? The rule of ``Plan.suggest`` against other choices.

    nice python bench/check_suggestions.py --data FOLDER --out bench/results/suggestions.json

Each set is planned with K as a part of what a usual unit has. The figure is the overlap of the best 500 pairs with those
of the exact, unbounded ranking, over several draws of noise. The rule (half) was chosen on these sets.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from importlib import metadata
from pathlib import Path
from typing import Any

import ddpmi
from ddpmi.testing import seeded_release

PARTS = (0.125, 0.25, 0.5, 1.0, 2.0)
BEST = 500
# The median number of pairs of a unit, as the publishers of the sets describe them.
SETS = {"acl_words_ccby": 97, "so2016": 39, "online_retail": 35}


def overlap(obs: ddpmi.Observations, plan: ddpmi.Plan, best: set[tuple[str, str]], seed: int) -> float:
    """Release with seeded noise and count how many of the best pairs are right."""
    table = ddpmi.rank(seeded_release(obs, plan, seed=seed)).top(BEST, per="all").table
    found = set(zip(table["feature"].to_pylist(), table["label"].to_pylist(), strict=True))
    return len(found & best) / BEST


def main() -> None:
    """Print a line for each choice and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--epsilon", default="2")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    for name, usual in SETS.items():
        obs = ddpmi.observe(str(arguments.data / f"{name}.parquet"), unit="id", feature="feature", label="partition")
        table = ddpmi.rank(ddpmi.exact(obs)).top(BEST, per="all").table
        best = set(zip(table["feature"].to_pylist(), table["label"].to_pylist(), strict=True))
        for part in PARTS:
            plan = ddpmi.Plan(
                budget=ddpmi.Budget(arguments.epsilon, "1e-7"),
                bounds=ddpmi.Bounds(pairs=max(1, round(part * usual))),
                mechanism="gaussian",
            )
            shared = [overlap(obs, plan, best, seed) for seed in range(arguments.draws)]
            one = {"set": name, "usual": usual, "part": part, "pairs": plan.bounds.pairs}
            results.append(one | {"overlap": statistics.mean(shared), "draws": shared})
            print(
                f"{name:<16} K = {plan.bounds.pairs:>4} ({part:g} of {usual}): {statistics.mean(shared):.3f}",
                flush=True,
            )
    if arguments.out:
        machine = {"python": platform.python_version()}
        machine |= {name: metadata.version(name) for name in ("numpy", "duckdb", "ddpmi")}
        told = {"machine": machine, "epsilon": float(arguments.epsilon), "best": BEST, "results": results}
        arguments.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
