"""How fast are rankings, and do time and memory grow in step with the pairs?

    nice python bench/bench_rank.py --out bench/results/rank.json

A release of generated pairs (Zipf features, 22 labels, Gaussian noise on the receipt) is written once for each size.
Each task runs in a process of its own. All load the folder and rank. The tasks are: rank only; the best 10 of each label;
the same in the pooled order; a comparison of the ranking with itself; the whole table.
Seconds are processor seconds of all threads. The growth exponent is that of a power law between two sizes: 1 is linear.
Memory is the peak of the process above the memory of the imports.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

LABELS = 22
SIZES = (100_000, 1_000_000, 10_000_000)
TASKS = ("rank", "top", "pooled top", "compare", "table")
NOISE = {"pairs": 1e3, "features": 1.8e3, "labels": 1e4, "total": 3e4}
THRESHOLD = 20_000


def generate(pairs: int, path: Path) -> None:
    """Write a release with about that number of pairs, at most four for each feature."""
    import numpy as np
    import pyarrow as pa

    from ddpmi.releases.release import Release
    from ddpmi.releases.tables import MemoryTables

    rng = np.random.default_rng(1)
    count = int(pairs / 3.6)
    drawn = rng.integers(0, LABELS, (count, 4)) + np.arange(count)[:, None] * LABELS
    key = np.unique(drawn)[:pairs]
    feature, label = key // LABELS, key % LABELS
    size = 1e10 / (1 + rng.permutation(count)) ** 0.9
    joint = (size[feature] * rng.exponential(1, len(key))).astype(np.int64) + THRESHOLD
    features = pa.array([f"https://site-{at:09d}.example.com/" for at in range(count)])
    labels = pa.array([f"label {at:02d}" for at in range(LABELS)])
    sums = {
        "features": np.bincount(feature, joint, count).astype(np.int64),
        "labels": np.bincount(label, joint, LABELS).astype(np.int64),
    }
    known = np.bincount(feature, minlength=count) > 0
    tables = MemoryTables(
        pairs=pa.table(
            {"feature": features.take(pa.array(feature)), "label": labels.take(pa.array(label)), "sum": joint}
        ),
        features=pa.table({"feature": features.filter(pa.array(known)), "sum": sums["features"][known]}),
        labels=pa.table({"label": labels, "sum": sums["labels"]}),
        total=pa.table({"sum": pa.array([int(joint.sum())], pa.int64())}),
    )
    noise = {
        name: {"mechanism": "discrete_gaussian", "scale": sd, "sd_user": sd / 256, "threshold": None}
        for name, sd in NOISE.items()
    }
    noise["pairs"]["threshold"] = THRESHOLD
    receipt = {"format": 1, "release_id": "bench", "dataset": "bench", "private": True, "plan": None, "tables": noise}
    promise = {"epsilon": 1.0, "delta": 1e-7, "unit": "unit"}
    Release(receipt=receipt | {"grid": {"step": 1, "g": 8}, "guarantee": promise}, tables=tables).save(path)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _run(queue: Any, path: str, task: str) -> None:
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401

    from ddpmi.rankings.comparisons import compare
    from ddpmi.rankings.ranking import rank
    from ddpmi.releases.release import Release

    before = _peak()
    wall, start = time.perf_counter(), time.process_time()
    ranking = rank(Release.load(path), order="pooled" if task == "pooled top" else None)
    if task in ("top", "pooled top"):
        ranking.top(10)
    elif task == "compare":
        compare(ranking, ranking)
    elif task == "table":
        ranking.to_arrow()
    seconds, waited = time.process_time() - start, time.perf_counter() - wall
    queue.put({"pairs": len(ranking), "seconds": seconds, "wall": waited, "bytes": (_peak() - before) / len(ranking)})


def measure(path: Path, task: str, repeats: int) -> dict[str, Any]:
    """Run one task several times, each in a process of its own, and take medians."""
    context = multiprocessing.get_context("spawn")
    runs = []
    for _ in range(repeats):
        queue = context.Queue()
        process = context.Process(target=_run, args=(queue, str(path), task))
        process.start()
        runs.append(queue.get())
        process.join()
    middle = {key: statistics.median(run[key] for run in runs) for key in ("seconds", "wall")}
    return {"task": task, "pairs": runs[0]["pairs"], **middle, "bytes_per_pair": max(run["bytes"] for run in runs)}


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for pairs in arguments.pairs:
            path = Path(folder) / f"{pairs}.release"
            writer = multiprocessing.get_context("spawn").Process(target=generate, args=(pairs, path))
            writer.start()
            writer.join()
            for task in TASKS:
                one = measure(path, task, arguments.repeats)
                smaller = [other for other in results if other["task"] == task]
                one["growth"] = None
                if smaller:
                    last = smaller[-1]
                    one["growth"] = math.log(one["seconds"] / last["seconds"]) / math.log(one["pairs"] / last["pairs"])
                results.append(one)
    print(f"{'load, rank, and':<16}{'pairs':>12}{'seconds':>9}{'wall':>8}{'growth':>8}{'bytes/pair':>12}")
    for one in results:
        growth = "-" if one["growth"] is None else f"{one['growth']:.2f}"
        figures = (
            f"{one['pairs']:>12,}{one['seconds']:>9.2f}{one['wall']:>8.2f}{growth:>8}{one['bytes_per_pair']:>12.0f}"
        )
        print(f"{one['task']:<16}{figures}")
    if arguments.out:
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "shared": True}
        machine |= {name: metadata.version(name) for name in ("pyarrow", "numpy", "ddpmi")}
        arguments.out.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
