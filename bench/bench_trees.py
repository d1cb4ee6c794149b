"""Is this tree slower than another one? The same release by both trees, in turn, so that a busy machine slows both.

    git worktree add ../before COMMIT
    python bench/bench_trees.py DATA.parquet --unit id --feature feature --label partition --before ../before
    python bench/bench_trees.py DATA.parquet --unit id --feature feature --label partition --before ../before --engine spark

Each run is a process of its own. It times `ddpmi.release` with distinct rows, from the call to the written folder. A ratio
is the median of this tree over the median of the other tree. Processor seconds are those of the process and of all its
descendants, the JVM among them: on a shared machine they are more reliable. Runs of Spark share no session.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
RUN = """import json, sys, time
import ddpmi
from bench_spark import processor_seconds
data, columns, folder, pairs, engine = json.loads(sys.argv[1])
ledger = ddpmi.Ledger(f"{folder}/a.ledger", limit=ddpmi.Budget(10, 1e-5))
plan = ddpmi.Plan(budget=ddpmi.Budget(1, 1e-7), bounds=ddpmi.Bounds(pairs=pairs), distinct=True)
conf = {"threads": 2} if engine == "duckdb" else {"master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "6g"}
start, used = time.perf_counter(), processor_seconds()
obs = ddpmi.observe(data, **columns, engine=engine, conf=conf)
if engine == "spark":
    obs.schema  # starts the session, which is not what is measured
    start, used = time.perf_counter(), processor_seconds()
found = ddpmi.release(obs, plan, ledger=ledger, to=f"{folder}/a.release")
print(json.dumps([ddpmi.__file__, time.perf_counter() - start, processor_seconds() - used, found.tables.count("pairs")]))
"""
MEASURES = ("seconds", "processor_seconds")


def timed(tree: Path, words: argparse.Namespace) -> tuple[float, float, int]:
    """Return the seconds and the processor seconds of one release by one tree, and the number of released pairs."""
    columns = {"unit": words.unit, "feature": words.feature, "label": words.label}
    with tempfile.TemporaryDirectory() as folder:
        case = json.dumps([words.data, columns, folder, words.pairs, words.engine])
        ran = subprocess.run(
            [sys.executable, "-c", RUN, case],
            env=os.environ | {"PYTHONPATH": f"{tree / 'src'}:{HERE / 'bench'}"},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise SystemExit(f"The release of {tree} failed:\n{ran.stderr[-2000:]}")
    loaded, taken, used, pairs = json.loads(ran.stdout.splitlines()[-1])
    if not Path(loaded).is_relative_to(tree):
        raise SystemExit(f"The release of {tree} used {loaded}.")
    return taken, used, pairs


def compared(found: dict[str, list[float]]) -> dict[str, Any]:
    """Return the medians of both trees and their ratio."""
    medians = {name: statistics.median(each) for name, each in found.items()}
    return {"runs": found, "medians": medians, "ratio": medians["now"] / medians["before"]}


def commit_of(tree: Path) -> str:
    """Return the commit of a source tree."""
    words = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Run both trees in turn, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--before", type=Path, required=True, help="the other source tree")
    for name in ("unit", "feature", "label"):
        parser.add_argument(f"--{name}", default=name)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    words.data = str(Path(words.data).resolve())
    trees = {"before": words.before.resolve(), "now": HERE}
    for tree in trees.values():
        timed(tree, words)  # fills the cache of the disk
    found: dict[str, dict[str, list[float]]] = {measure: {name: [] for name in trees} for measure in MEASURES}
    pairs = 0
    for place in range(words.runs):
        for name in sorted(trees, reverse=place % 2 == 1):
            taken, used, pairs = timed(trees[name], words)
            found["seconds"][name].append(taken)
            found["processor_seconds"][name].append(used)
    results = {measure: compared(runs) for measure, runs in found.items()}
    for measure, result in results.items():
        print(measure.replace("_", " "))
        for name, each in result["runs"].items():
            print(f"  {name:<8}{result['medians'][name]:8.3f}   {min(each):.3f} to {max(each):.3f}")
        print(f"  ratio   {result['ratio']:8.3f}")
    print(f"{pairs} pairs released, {words.runs} runs each, {words.engine}")
    if words.json:
        result = {
            "question": __doc__.splitlines()[0],
            "data": Path(words.data).name,
            "before": commit_of(trees["before"]),
            "now": commit_of(HERE),
            "engine": words.engine,
            "runs": words.runs,
            "pairs": pairs,
            **results,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, shared",
        }
        words.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
