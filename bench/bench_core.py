"""What does privacy cost in time? A whole release and ranking against a plain GROUP BY in the same process.

    python bench/bench_core.py words DATA.parquet        # rows distinct, and the general case
    python bench/bench_core.py paper --units 50000000    # one row per unit, generated
    python bench/bench_core.py paper --epsilons 0.1 0.5 1 2 4 8 --units 382762990   # six releases from one pass
    python bench/bench_core.py paper --units 50000000 --memory 1GB                  # out of core

Each measurement runs in its own process with two threads: read Parquet, bound, sum, add noise, sum margins, write, rank.
The baseline "plain" is ``SELECT feature, label, count(*) GROUP BY ALL`` into a table. The baseline "distinct counting" is
the same over ``SELECT DISTINCT unit, feature, label``. Peak memory is that of the process.
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

THREADS = 2


def baseline(path: str, columns: dict[str, str], *, distinct: bool) -> float:
    """Return the seconds of the non-private query."""
    import duckdb

    keys = f'"{columns["feature"]}" AS feature, "{columns["label"]}" AS label'
    source = f"'{path}'"
    if distinct:
        source = f'(SELECT DISTINCT "{columns["unit"]}", {keys} FROM {source})'
        keys = "feature, label"
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {THREADS}")
        start = time.perf_counter()
        connection.execute(f"CREATE TABLE counted AS SELECT {keys}, count(*) AS n FROM {source} GROUP BY ALL")
        return time.perf_counter() - start


def release(case: dict[str, Any], folder: str) -> tuple[float, float, list[int]]:
    """Return the seconds of the releases, written to disk, the seconds of their rankings, and the numbers of released pairs."""
    import ddpmi

    number = len(list(Path(folder).iterdir()))
    ledger = ddpmi.Ledger(f"{folder}/{number}.ledger", limit=ddpmi.Budget(1000, 1e-3))
    conf = {"threads": THREADS} | ({"memory_limit": case["memory"]} if case["memory"] else {})
    start = time.perf_counter()
    plans = [
        ddpmi.Plan(
            budget=ddpmi.Budget(epsilon, 1e-7),
            bounds=ddpmi.Bounds(pairs=case["pairs"]),
            distinct=case["distinct"],
            mechanism="auto" if len(case["epsilons"]) == 1 else "laplace",
        )
        for epsilon in case["epsilons"]
    ]
    obs = ddpmi.observe(case["path"], **case["columns"], conf=conf)
    targets = [f"{folder}/{number}-{place}.release" for place in range(len(plans))]
    found = ddpmi.release_many(obs, plans, ledger=ledger, to=targets)
    middle = time.perf_counter()
    pairs = [len(ddpmi.rank(one).top(10)) and one.pairs.num_rows for one in found]
    return middle - start, time.perf_counter() - middle, pairs


def _measure(queue: Any, case: dict[str, Any]) -> None:
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(case["repeats"]):
            # Baselines run before and after the release, so that a busy machine slows both.
            plain = baseline(case["path"], case["columns"], distinct=False)
            dedupe = baseline(case["path"], case["columns"], distinct=True) if case["distinct"] is False else None
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            seconds, ranking, pairs = release(case, folder)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if case["repeats"] > 1:
                plain = (plain + baseline(case["path"], case["columns"], distinct=False)) / 2
            runs.append(
                {
                    "plain": plain,
                    "distinct_counting": dedupe,
                    "release": seconds,
                    "rank": ranking,
                    "pairs": pairs,
                    "peak_mb": peak / 1024,
                    "peak_before_mb": before / 1024,
                }
            )
    queue.put(runs)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Run one case in a process of its own and summarise its repeats by medians."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_measure, args=(queue, case))
    process.start()
    runs = queue.get()
    process.join()
    whole = [run["release"] + run["rank"] for run in runs]
    result = {key: case[key] for key in ("name", "rows", "pairs", "distinct", "epsilons", "memory")}
    result["seconds"] = statistics.median(whole)
    result["plain_seconds"] = statistics.median(run["plain"] for run in runs)
    result["x_plain"] = statistics.median(w / run["plain"] for w, run in zip(whole, runs, strict=True))
    if runs[0]["distinct_counting"] is not None:
        result["x_distinct_counting"] = statistics.median(
            w / run["distinct_counting"] for w, run in zip(whole, runs, strict=True)
        )
    result["released_pairs"] = runs[0]["pairs"]
    result["peak_mb"] = max(run["peak_mb"] for run in runs)
    result["runs"] = runs
    return result


def _rows(path: str) -> int:
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(path).metadata.num_rows)


def _cases(arguments: argparse.Namespace, folder: str) -> list[dict[str, Any]]:
    shared = {"repeats": arguments.repeats, "epsilons": arguments.epsilons, "memory": arguments.memory}
    if arguments.question == "words":
        columns = {"unit": "id", "feature": "feature", "label": "partition"}
        base = {**shared, "path": arguments.data, "columns": columns, "pairs": 50, "rows": _rows(arguments.data)}
        kinds = {"distinct": True, "general": False}
        wanted = kinds if arguments.kind is None else {arguments.kind: kinds[arguments.kind]}
        return [{**base, "name": f"words, {kind}", "distinct": distinct} for kind, distinct in wanted.items()]
    from ddpmi.datasets import PAPER_FEATURES, PAPER_LABELS, paper_shape

    cases = []
    for units in arguments.units:
        numbers = units, PAPER_FEATURES, PAPER_LABELS
        # The rows of the committed results. Time does not depend on how strongly features lean.
        path = arguments.data or str(paper_shape(*numbers, f"{folder}/{units}.parquet", 1, varied=True))
        columns = {"unit": "unit", "feature": "feature", "label": "label"}
        cases.append(
            {**shared, "name": f"paper shape, {units:,} units", "path": path, "columns": columns, "pairs": 1}
            | {"rows": _rows(path), "distinct": "units"}
        )
    return cases


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["words", "paper"])
    parser.add_argument("data", nargs="?", help="a Parquet file with columns id, feature, partition")
    parser.add_argument("--kind", choices=["distinct", "general"])
    parser.add_argument("--units", type=int, nargs="+", default=[2_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--epsilons", nargs="+", default=["1"])
    parser.add_argument("--memory", help="memory limit of the engine, for example 1GB")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(case) for case in _cases(arguments, folder)]
    print(
        f"{'case':<32}{'rows':>13}{'plain s':>9}{'whole s':>9}{'x plain':>9}{'x distinct':>12}{'released':>10}{'peak MB':>9}"
    )
    for one in results:
        print(
            f"{one['name']:<32}{one['rows']:>13,}{one['plain_seconds']:>9.2f}{one['seconds']:>9.2f}{one['x_plain']:>9.2f}"
            f"{one.get('x_distinct_counting', float('nan')):>12.2f}{one['released_pairs'][-1]:>10,}{one['peak_mb']:>9.0f}"
        )
    sizes = [(one["rows"], one["seconds"]) for one in results]
    growth = None
    if len({rows for rows, _ in sizes}) >= 3:
        growth = statistics.linear_regression(
            [math.log(rows) for rows, _ in sizes], [math.log(seconds) for _, seconds in sizes]
        ).slope
        print(f"growth exponent of seconds in rows: {growth:.2f}")
    if arguments.out:
        machine = {"cores": os.cpu_count(), "python": platform.python_version()}
        machine |= {name: metadata.version(name) for name in ("duckdb", "pyarrow", "numpy", "ddpmi")}
        arguments.out.write_text(
            json.dumps({"machine": machine, "threads": THREADS, "growth": growth, "results": results}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
