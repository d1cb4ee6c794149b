"""How near does a release after a look come to the best plan chosen by hand, how sure is its K, and what does it add in time?

    python bench/bench_look.py FOLDER overlap --sets so2016,onet_tech --out bench/results/look.json
    python bench/bench_look.py FOLDER median --out bench/results/look-median.json
    python bench/bench_look.py FOLDER time --sets arxiv_cs_words --out bench/results/look-time.json

FOLDER holds Parquet files with the columns id, feature, partition. Epsilon is 1 and delta 1e-8 in all.

overlap: the best plan by hand is chosen on draws 1 to 3, among K of a quarter, half, one and two times the median number of
pairs, both kinds of noise, and pairs with a threshold, completed or on a grid. It is compared on draws 4 to 8 with a release
after a look, which pays for the look from the same epsilon. The truth has no bounds and no noise. Two overlaps are compared:
of the first 1,000 pairs, and of the first 20 of each label, on average.
median: units are drawn again from a set, 2,000 at a time, and K is compared with half of their true median.
time: a release after a look, and a release with the plan that it chose, one after the other.
"""

from __future__ import annotations

import argparse
import json
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

import ddpmi
from ddpmi.curator.drawing import Reading, measure, origin_of, summed_by
from ddpmi.curator.looking import looked
from ddpmi.pipeline.looks import BUCKETS, bucket_of
from ddpmi.planning.auto import AutoPlan, Histogram
from ddpmi.releases.receipts import private_receipt
from ddpmi.releases.release import Release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SETS = {
    "so2016": "question = 'tech_do'",
    "online_retail": "true",
    "onet_tech": "true",
    "arxiv_authors": "true",
    "reddit_domains": "true",
    "acl_words_ccby": "true",
    "arxiv_cs_words": "true",
}
EPSILON, DELTA = 1, 1e-8
CHOSEN_ON, COMPARED_ON = range(1, 4), range(4, 9)
TOP, LABEL_TOP = 1000, 20
KINDS: dict[str, dict[str, Any]] = {"threshold": {}, "completed": {"complete": True}, "grid": {"grid": True}}
PARTS = {"1/4": 0.25, "1/2": 0.5, "1": 1, "2": 2}
UNITS, DRAWS = 2000, 1000


def observed(folder: Path, name: str) -> ddpmi.Observations:
    """Name one set; a missing partition counts as any other missing key."""
    file = str(folder / f"{name}.parquet")
    conf = {"threads": 1}
    return ddpmi.observe(file, unit="id", feature="feature", label="partition", where=SETS[name], conf=conf)


def pairs_per_unit(folder: Path, name: str) -> NDArray[np.int64]:
    """Return the true number of pairs of each unit."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        rows = f"SELECT DISTINCT id, feature, partition FROM '{folder / name}.parquet' WHERE {SETS[name]}"
        valid = "id IS NOT NULL AND feature IS NOT NULL AND partition IS NOT NULL"
        counts = connection.sql(f"SELECT COUNT(*) AS n FROM ({rows}) WHERE {valid} GROUP BY id").fetchnumpy()["n"]
        return np.asarray(counts, np.int64)


def best_pairs(ranking: ddpmi.Ranking) -> dict[str, Any]:
    """Return the first pairs of all, and of each label."""
    columns = ["label", "feature"]
    first = {tuple(row.values()) for row in ranking.top(TOP, per="all").table.select(columns).to_pylist()}
    labels: dict[str, set[str]] = {}
    for row in ranking.top(LABEL_TOP).table.select(columns).to_pylist():
        labels.setdefault(row["label"], set()).add(row["feature"])
    return {"first": first, "labels": labels}


def overlaps(found: dict[str, Any], truth: dict[str, Any]) -> tuple[float, float]:
    """Return both overlaps; a label that is not released has none."""
    parts = [len(names & found["labels"].get(label, set())) / len(names) for label, names in truth["labels"].items()]
    return len(found["first"] & truth["first"]) / len(truth["first"]), float(np.mean(parts))


def drawn(obs: ddpmi.Observations, plan: ddpmi.Plan, engine: Any) -> dict[str, Any]:
    """Draw one release from an engine that holds its sums, and rank it."""
    tables = measure(engine, Reading.of(plan))
    receipt = private_receipt(plan, origin_of(obs, engine), release_id="bench", ledger={})
    return best_pairs(ddpmi.rank(Release(receipt=receipt, tables=tables)))


def by_hand(obs: ddpmi.Observations, median: float, truth: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield each plan by hand with its overlaps on all draws. One computation of sums serves all kinds and draws."""
    for part, times in PARTS.items():
        for noise in ("laplace", "gaussian"):
            bounds = ddpmi.Bounds(pairs=max(1, round(median * times)), labels=1)
            plans = {}
            for kind, options in KINDS.items():
                budget = ddpmi.Budget(EPSILON, DELTA)
                plans[kind] = ddpmi.Plan(budget=budget, bounds=bounds, mechanism=noise, **options)
            with summed_by(obs, plans["threshold"], salt=secrets.token_hex(32)) as engine:
                for kind, plan in plans.items():
                    scores = [overlaps(drawn(obs, plan, engine), truth) for _ in (*CHOSEN_ON, *COMPARED_ON)]
                    yield f"K={part} {noise} {kind}", scores


def after_looks(obs: ddpmi.Observations, truth: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the overlaps of releases after a look, and the plans that followed."""
    scores, plans = [], []
    auto = AutoPlan.of(epsilon=EPSILON, delta=DELTA)
    for _ in COMPARED_ON:
        salt = secrets.token_hex(32)
        with looked(obs, auto, salt=salt) as found:
            plan = auto.resolve(found.look)
            with summed_by(obs, plan, salt=salt, done=found.done) as engine:
                scores.append(overlaps(drawn(obs, plan, engine), truth))
        bounds = {name: getattr(plan.bounds, name) for name in ("pairs", "labels", "cap")}
        plans.append({**bounds, "noise": plan.mechanism_name, "complete": plan.complete, "look": found.look.in_words()})
    return scores, plans


def measure_overlap(folder: Path, name: str) -> dict[str, Any]:
    """Compare a release after a look with the best plan by hand, on one set."""
    obs = observed(folder, name)
    truth = best_pairs(ddpmi.rank(ddpmi.exact(obs, space="units")))
    scores, plans = after_looks(obs, truth)
    median = float(np.median(pairs_per_unit(folder, name)))
    hand = dict(by_hand(obs, median, truth))
    row: dict[str, Any] = {"median": median, "plans after looks": plans}
    for at, what in enumerate((f"first {TOP}", f"first {LABEL_TOP} of a label")):
        chosen = max(hand, key=lambda plan, at=at: np.mean([score[at] for score in hand[plan][: len(CHOSEN_ON)]]))  # type: ignore[misc]
        best = float(np.mean([score[at] for score in hand[chosen][len(CHOSEN_ON) :]]))
        mine = float(np.mean([score[at] for score in scores]))
        row[what] = {"best by hand": best, "plan": chosen, "after a look": mine, "ratio": mine / best if best else None}
        print(f"{name:<18}{what:<22}{best:>8.3f}{mine:>8.3f}{mine / best if best else 1:>8.3f}  {chosen}", flush=True)
    row["by hand"] = {plan: np.mean(found[len(CHOSEN_ON) :], axis=0).round(4).tolist() for plan, found in hand.items()}
    return row


def measure_median(folder: Path, name: str) -> dict[str, Any]:
    """Count how often K is within a factor of 2 of half the true median, at 2,000 units drawn with replacement."""
    generator = np.random.default_rng(20261118)
    counts, auto = pairs_per_unit(folder, name), AutoPlan.of(epsilon=EPSILON, delta=DELTA)
    scale = float(1 / auto.look_epsilon)
    near = 0
    for _ in range(DRAWS):
        units = generator.choice(counts, UNITS)
        exact = np.bincount([bucket_of(int(count)) for count in units], minlength=len(BUCKETS))
        noisy = exact + np.round(generator.laplace(0, scale, len(BUCKETS))).astype(int)
        usual = Histogram(counts=tuple(noisy.tolist()), scale=scale).usual
        half = max(float(np.median(units)) / 2, 0.5)
        near += half / 2 <= -(-usual // 2) <= 2 * max(half, 1)
    row = {"units": UNITS, "draws": DRAWS, "median": float(np.median(counts)), "within a factor of 2": near / DRAWS}
    print(f"{name:<18}{row['median']:>8.0f}{near / DRAWS:>8.3f}", flush=True)
    return row


def measure_time(folder: Path, name: str, runs: int = 7) -> dict[str, Any]:
    """Time releases after a look and releases with the same plan, interleaved. Rows are declared distinct."""
    obs = observed(folder, name)
    auto = AutoPlan.of(epsilon=EPSILON, delta=DELTA, distinct=True)
    times: dict[str, list[float]] = {"after a look": [], "with its plan": []}
    for _ in range(runs):
        salt, started = secrets.token_hex(32), time.perf_counter()
        with looked(obs, auto, salt=salt) as found:
            plan = auto.resolve(found.look)
            with summed_by(obs, plan, salt=salt, done=found.done) as engine:
                measure(engine, Reading.of(plan))
        times["after a look"].append(time.perf_counter() - started)
        started = time.perf_counter()
        with summed_by(obs, plan, salt=salt) as engine:
            measure(engine, Reading.of(plan))
        times["with its plan"].append(time.perf_counter() - started)
        print(name, {what: round(seconds[-1], 2) for what, seconds in times.items()}, flush=True)
    medians = {what: float(np.median(seconds)) for what, seconds in times.items()}
    return {
        "runs": runs,
        "seconds": times,
        "medians": medians,
        "ratio": medians["after a look"] / medians["with its plan"],
    }


def main() -> None:
    """Run one question and write what was found after each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("question", choices=("overlap", "median", "time"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    ask = {"overlap": measure_overlap, "median": measure_median, "time": measure_time}[given.question]
    found: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name in given.sets.split(","):
        if name not in found:
            found[name] = ask(given.folder, name)
            given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
