"""Is sampling units worth it? Time and rank error of amplified and plain releases with the same guarantee.

    python bench/bench_sampling.py words.parquet --out bench/results/sampling.json

The data has columns id, feature, partition, and distinct rows. For each sampling rate a release with the same epsilon and delta
is made several times. Time is a ratio to the plain release of the same round. Error is the overlap with the best pairs of the
exact ranking.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import ddpmi

RATES = (None, "0.5", "0.2", "0.05")


def released(data: str, rate: str | None, budget: ddpmi.Budget, folder: str) -> tuple[float, ddpmi.Release]:
    """Make one release; return its seconds and the release."""
    number = len(list(Path(folder).iterdir()))
    ledger = ddpmi.Ledger(f"{folder}/{number}.ledger", limit=ddpmi.Budget(1000, 1e-2))
    plan = ddpmi.Plan(budget=budget, bounds=ddpmi.Bounds(pairs=50), distinct=True, sample_rate=rate)
    start = time.perf_counter()
    found = ddpmi.release(ddpmi.observe(data, unit="id", feature="feature", label="partition"), plan, ledger=ledger)
    return time.perf_counter() - start, found


def measure(data: str, budget: ddpmi.Budget, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each rate, medians over the repeats."""
    truth = ddpmi.rank(ddpmi.exact(ddpmi.observe(data, unit="id", feature="feature", label="partition")))
    runs: dict[str | None, list[dict[str, float]]] = {rate: [] for rate in RATES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            plain = 0.0
            for rate in RATES:
                seconds, found = released(data, rate, budget, folder)
                plain = plain or seconds
                compared = ddpmi.compare(truth, found, top=1000).to_dict()
                runs[rate].append(
                    {
                        "x_plain": seconds / plain,
                        "pairs": compared["pairs"]["b"],
                        "overlap_1000": compared["overlap"]["1000"],
                        "kept": compared["kept"],
                        "median_error": compared["percentiles"]["50"],
                    }
                )
    return [
        {"sample_rate": rate, **{name: statistics.median(run[name] for run in found) for name in found[0]}}
        for rate, found in runs.items()
    ]


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-7")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = measure(arguments.data, ddpmi.Budget(arguments.epsilon, arguments.delta), arguments.repeats)
    print(f"{'rate':>6}{'x plain':>9}{'pairs':>8}{'overlap':>9}{'kept':>7}{'median error':>14}")
    for row in rows:
        rate = row["sample_rate"] or "all"
        print(
            f"{rate:>6}{row['x_plain']:>9.2f}{row['pairs']:>8.0f}{row['overlap_1000']:>9.3f}{row['kept']:>7.3f}"
            f"{row['median_error']:>14.1f}"
        )
    if arguments.out:
        told = {"epsilon": arguments.epsilon, "delta": arguments.delta, "repeats": arguments.repeats, "results": rows}
        arguments.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
