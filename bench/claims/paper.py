"""Does ``method="paper"`` equal the paper's algorithms to the letter, on real data?

    python bench/claims/paper.py so2016.parquet onet_tech.parquet --out bench/results/paper-algorithms.json

Counts each set exactly, ranks it, and compares every pair with a plain-Python transcription of algorithms 1 to 3.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import ddpmi

TOLERANCE = 1e-15


def calc_single_mi(p_x: float, p_y: float, p_xy: float) -> float:
    """Algorithm 3."""
    if p_xy < TOLERANCE:
        return 0.0
    phi = p_x * p_y
    phi = max(phi, TOLERANCE)
    return p_xy * math.log(p_xy / phi)


def calc_mi(p_x: float, p_y: float, p_xy: float) -> float:
    """Algorithm 2."""
    not_x, not_y = 1.0 - p_x, 1.0 - p_y
    return (
        calc_single_mi(p_x, p_y, p_xy)
        + calc_single_mi(p_x, not_y, p_x - p_xy)
        + calc_single_mi(not_x, p_y, p_y - p_xy)
        + calc_single_mi(not_x, not_y, 1.0 - p_x - p_y + p_xy)
    )


def mi_ranking(rows: set[tuple[Any, str, str]]) -> dict[tuple[str, str], tuple[float, str]]:
    """Algorithm 1: mutual information and direction of every pair."""
    joint = Counter((feature, label) for _, feature, label in rows)
    total = sum(joint.values())
    features, labels = Counter[str](), Counter[str]()
    for (feature, label), count in joint.items():
        features[feature] += count
        labels[label] += count
    found = {}
    for (feature, label), count in joint.items():
        p_xy, p_x, p_y = count / total, features[feature] / total, labels[label] / total
        presence = p_y < 1 and p_xy / p_y > (p_x - p_xy) / (1 - p_y)
        found[feature, label] = (calc_mi(p_x, p_y, p_xy), "presence" if presence else "absence")
    return found


def compare(path: Path) -> dict[str, Any]:
    """Return the largest difference and the number of differing directions."""
    table = pq.read_table(path, columns=["id", "feature", "partition"])
    rows = {tuple(row.values()) for row in table.to_pylist() if None not in row.values()}
    expected = mi_ranking(rows)
    ranking = ddpmi.rank(
        ddpmi.exact(ddpmi.observe(path, unit="id", feature="feature", label="partition")), method="paper"
    ).to_dicts()
    differences = [abs(row["mi"] - expected[row["feature"], row["label"]][0]) for row in ranking]
    turned = sum(row["direction"] != expected[row["feature"], row["label"]][1] for row in ranking)
    return {
        "data": path.stem,
        "pairs": len(ranking),
        "missing": len(expected) - len(ranking),
        "largest_difference": max(differences),
        "directions_that_differ": turned,
    }


def main() -> None:
    """Print a table and write JSON; fail on any difference above 1e-12."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = [compare(path) for path in arguments.data]
    for row in results:
        print("  ".join(f"{name}: {value}" for name, value in row.items()))
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": results}, indent=2) + "\n")
    if any(row["missing"] or row["directions_that_differ"] or row["largest_difference"] > 1e-12 for row in results):
        raise SystemExit("the rankings differ")


if __name__ == "__main__":
    main()
