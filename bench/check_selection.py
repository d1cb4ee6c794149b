"""Does it help to know the labels, or to find the features first? Words by years, by the order of pairs.

    python bench/check_selection.py DATA.parquet      # columns id, feature, partition; rows distinct

Each plan is released with noise from a seed, ranked in the four orders and compared with the ranking of exact sums.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ddpmi
from ddpmi import Bounds, Budget, Plan, testing
from ddpmi.comparisons import compare

if TYPE_CHECKING:
    from ddpmi.orders import Order

OUT = Path(__file__).parent / "results" / "selection.json"
ORDERS: tuple[Order, ...] = ("estimate", "lower", "shrunk", "pooled")


def plans(labels: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What is compared, by name."""
    return {
        "unknown labels": {},
        "unknown labels, set union": {"selection": "set_union"},
        "public labels": {"public_labels": labels},
        "public labels, grid": {"public_labels": labels, "grid": True},
        "public labels, set union": {"public_labels": labels, "selection": "set_union"},
        "public labels, sips": {"public_labels": labels, "selection": "sips"},
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1, 4])
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    obs = ddpmi.observe(given.data, unit="id", feature="feature", label="partition")
    exact = ddpmi.exact(obs)
    truth = ddpmi.rank(exact)
    rows = []
    for epsilon in given.epsilons:
        for name, options in plans(tuple(exact.labels["label"].to_pylist())).items():
            plan = Plan(budget=Budget(epsilon, 1e-7), bounds=Bounds(pairs=50), distinct=True, **options)
            for seed in range(given.seeds):
                start = time.perf_counter()
                drawn = testing.seeded_release(obs, plan, seed=seed)
                seconds = time.perf_counter() - start
                # The receipt of a private release tells the orders how much noise there is.
                release = ddpmi.Release(receipt=dict(drawn.receipt) | {"private": True}, tables=drawn.tables)
                for order in ORDERS:
                    found = compare(truth, ddpmi.rank(release, order=order)).to_dict()
                    row = {"epsilon": epsilon, "plan": name, "seed": seed, "order": order, **told(found)}
                    rows.append(row | {"features": release.features.num_rows, "seconds": round(seconds, 1)})
                    print(rows[-1], flush=True)
    OUT.write_text(json.dumps({"pairs": 50, "delta": 1e-7, "rows": rows}, indent=1) + "\n")


def told(found: dict[str, Any]) -> dict[str, Any]:
    """The figures that the page of the decision quotes."""
    presence = float(np.mean([label["presence_overlap_20"] for label in found["labels"]]))
    return {
        "pairs": found["pairs"]["b"],
        "overlap_100": found["overlap"]["100"],
        "overlap_1000": found["overlap"]["1000"],
        "label_overlap_20": round(found["label_overlap_20"], 4),
        "presence_overlap_20": round(presence, 4),
    }


if __name__ == "__main__":
    main()
