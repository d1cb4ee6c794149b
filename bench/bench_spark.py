"""What does privacy cost on Spark? A whole release against a plain GROUP BY, both written to Parquet, in one warm session.

    python bench/bench_spark.py WORDS.parquet --out bench/results/spark.json
    python bench/bench_spark.py WORDS.parquet --sizes 0.1 0.3 1 --repeats 3 --memory 1g

The data has columns id, feature, partition. A size is a share of its units, or a whole number of copies of them with
fresh ids. "distinct" declares rows distinct, which these are. "general" does not.
The baseline "plain" is ``GROUP BY feature, label`` with ``count(*)``. "Distinct counting" is the same over
``SELECT DISTINCT unit, feature, label``. Plain runs before and after each release.
Processor seconds ("x cpu") are those of the JVM and of its Python workers. On a shared machine they are more reliable
than the clock. Shuffle bytes come from Spark's event log. The JVM is driver and executor in one; --memory sets its heap.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

CORES = 2
PAIRS = 50
KINDS = {"distinct": True, "general": False}


def start(folder: Path, memory: str) -> SparkSession:
    """Start a session that keeps a log of its tasks."""
    from pyspark.sql import SparkSession as Sessions

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    (folder / "events").mkdir()
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "16",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }
    builder = Sessions.builder.master(f"local[{CORES}]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def prepare(session: SparkSession, data: str, size: float, folder: Path) -> tuple[str, int]:
    """Write a part of the units, or several copies of them, and count the rows."""
    path = folder / f"size-{size:g}"
    rows = session.read.parquet(data)
    if size > 1:
        copies = session.range(int(size)).withColumnRenamed("id", "copy")
        rows = rows.crossJoin(copies).selectExpr("concat(copy, ':', id) AS id", "feature", "partition")
    elif size < 1:
        rows = rows.where(f"pmod(xxhash64(id), 1000) < {round(size * 1000)}")
    rows.write.parquet(path.as_uri())
    return str(path), session.read.parquet(path.as_uri()).count()


def processor_seconds() -> float:
    """Add up the processor time of this process and all its descendants: the JVM and its Python workers."""
    below: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parts = (place / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            below.setdefault(int(parts[1]), []).append(int(place.name))
            used[int(place.name)] = sum(map(int, parts[11:15]))
    todo, total = [os.getpid()], 0
    while todo:
        pid = todo.pop()
        total += used.get(pid, 0)
        todo += below.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Run, and return the start time, the seconds and the processor seconds."""
    began, start_, used = time.time(), time.perf_counter(), processor_seconds()
    work()
    return {"began": began, "seconds": time.perf_counter() - start_, "cpu": processor_seconds() - used}


def plain(session: SparkSession, path: str, folder: Path, *, distinct: bool = False) -> dict[str, float]:
    """Time the counts without privacy."""
    rows = session.read.parquet(path)
    if distinct:
        rows = rows.select("id", "feature", "partition").distinct()
    to = Path(tempfile.mkdtemp(dir=folder)) / "counts"
    return timed(lambda: rows.groupBy("feature", "partition").count().write.parquet(to.as_uri()))


def release(session: SparkSession, path: str, folder: Path, *, distinct: bool) -> dict[str, Any]:
    """Time a whole release, from the rows to the folder."""
    import ddpmi

    place = Path(tempfile.mkdtemp(dir=folder))
    ledger = ddpmi.Ledger(place / "bench.ledger", limit=ddpmi.Budget(100, 1e-3))
    plan = ddpmi.Plan(budget=ddpmi.Budget(1, 1e-7), bounds=ddpmi.Bounds(pairs=PAIRS), distinct=distinct)

    def work() -> None:
        obs = ddpmi.observe(session.read.parquet(path), unit="id", feature="feature", label="partition")
        ddpmi.release(obs, plan, ledger=ledger, to=place / "release")

    found = timed(work)
    ranked = timed(lambda: rank(session, place / "release"))
    return {**found, "rank": ranked["seconds"], "pairs": ddpmi.Release.load(place / "release").tables.count("pairs")}


def rank(session: SparkSession, folder: Path) -> None:
    """Rank in Spark and take the best ten of each label."""
    import ddpmi

    with ddpmi.rank_on_spark(folder, session=session) as ranking:
        ranking.top(10).collect()


def measure(session: SparkSession, path: str, kind: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Repeat one case."""
    runs = []
    for _ in range(repeats):
        before = plain(session, path, folder)
        counting = None if KINDS[kind] else plain(session, path, folder, distinct=True)
        private = release(session, path, folder, distinct=KINDS[kind])
        after = plain(session, path, folder)
        usual = {name: (before[name] + after[name]) / 2 for name in ("seconds", "cpu")}
        took = {"took": before["seconds"]}
        runs.append(
            {"plain": before | usual | took, "counting": counting, "release": private | {"took": private["seconds"]}}
        )
    return {"kind": kind, "runs": runs}


def shuffled(folder: Path, began: float, seconds: float) -> int:
    """Add up the shuffle bytes of tasks that ended within a period."""
    total = 0
    for file in (folder / "events").iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith('{"Event":"SparkListenerTaskEnd"'):
                continue
            event = json.loads(line)
            ended = event["Task Info"]["Finish Time"] / 1000
            if began <= ended <= began + seconds:
                total += event.get("Task Metrics", {}).get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total


def summary(case: dict[str, Any], rows: int, folder: Path) -> dict[str, Any]:
    """Reduce the runs of a case to medians."""
    runs = case["runs"]
    found = {"kind": case["kind"], "rows": rows, "released_pairs": runs[-1]["release"]["pairs"]}
    found["plain_seconds"] = statistics.median(run["plain"]["seconds"] for run in runs)
    found["seconds"] = statistics.median(run["release"]["seconds"] for run in runs)
    found["rank_seconds"] = statistics.median(run["release"]["rank"] for run in runs)
    found["x_plain"] = statistics.median(run["release"]["seconds"] / run["plain"]["seconds"] for run in runs)
    if runs[0]["counting"] is not None:
        ratios = (run["release"]["seconds"] / run["counting"]["seconds"] for run in runs)
        found["x_distinct_counting"] = statistics.median(ratios)
    found["cpu"] = statistics.median(run["release"]["cpu"] for run in runs)
    found["plain_cpu"] = statistics.median(run["plain"]["cpu"] for run in runs)
    found["x_plain_cpu"] = statistics.median(run["release"]["cpu"] / run["plain"]["cpu"] for run in runs)
    for name in ("plain", "release"):
        last = runs[-1][name]
        found[f"{name}_shuffle_bytes_per_row"] = shuffled(folder, last["began"], last["took"]) / rows
    found["each_x_plain"] = [round(run["release"]["seconds"] / run["plain"]["seconds"], 2) for run in runs]
    return found


def peak_mb(session: SparkSession) -> float:
    """Return the largest resident size of the JVM."""
    pid = session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def show(results: list[dict[str, Any]], growth: dict[str, float]) -> None:
    """Print the table."""
    heads = ("plain s", "release s", "x plain", "x cpu", "x distinct", "rank s", "B/row", "plain B/row", "released")
    print(f"{'kind':<10}{'rows':>12}" + "".join(f"{head:>12}" for head in heads))
    for one in results:
        ratios = (one["x_plain"], one["x_plain_cpu"], one.get("x_distinct_counting", math.nan))
        numbers = (one["plain_seconds"], one["seconds"], *ratios)
        more = (one["rank_seconds"], one["release_shuffle_bytes_per_row"], one["plain_shuffle_bytes_per_row"])
        cells = "".join(f"{number:>12.2f}" for number in (*numbers, *more))
        print(f"{one['kind']:<10}{one['rows']:>12,}{cells}{one['released_pairs']:>12,}")
    for kind, slope in growth.items():
        print(f"growth exponent of seconds in rows, {kind}: {slope:.2f}")


def slope(results: list[dict[str, Any]], kind: str, name: str) -> float:
    """Fit a power law."""
    points = [(math.log(one["rows"]), math.log(one[name])) for one in results if one["kind"] == kind]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def main() -> None:
    """Measure all sizes, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a Parquet file with columns id, feature, partition")
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        session = start(folder, asked.memory)
        prepared = [prepare(session, str(Path(asked.data).resolve()), size, folder) for size in asked.sizes]
        for kind in asked.kinds:
            measure(session, prepared[0][0], kind, folder, 1)  # warm-up: every code path is compiled
        cases = [
            (measure(session, path, kind, folder, asked.repeats), rows)
            for path, rows in prepared
            for kind in asked.kinds
        ]
        peak = peak_mb(session)
        session.stop()
        results = [summary(case, rows, folder) for case, rows in cases]
    growth = {kind: slope(results, kind, "seconds") for kind in asked.kinds if len(asked.sizes) > 1}
    if len(asked.sizes) > 1:
        growth |= {f"{kind}, processor": slope(results, kind, "cpu") for kind in asked.kinds}
        growth |= {"plain": slope(results, asked.kinds[0], "plain_seconds")}
    show(results, growth)
    if asked.out:
        machine = {"cores": CORES, "driver_memory": asked.memory, "python": platform.python_version()}
        machine |= {name: metadata.version(name) for name in ("pyspark", "pyarrow", "numpy", "ddpmi")}
        told = {"machine": machine, "jvm_peak_mb": round(peak), "growth": growth, "results": results}
        asked.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
