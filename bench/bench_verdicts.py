"""Are clear rows right? Verdicts, and intervals of shares and lift, against the bounded sums before noise.

    nice python bench/bench_verdicts.py --data FOLDER --cache FOLDER --draws 10
    nice python bench/bench_verdicts.py --data FOLDER --cache FOLDER --draws 200 --sets so2016_tech retail3 retail
    nice python bench/bench_verdicts.py --data FOLDER --cache FOLDER --draws 10 --held-out
    python bench/bench_verdicts.py --report

Each set is summed once, in units space, and the sums are kept in --cache: NOT PRIVATE, so choose a place of your own. Noise is
then drawn many times from the plan's own samplers and read by the product's code. A combination of set, epsilon, law of noise
and kind of release is one line of the results; a combination that has its draws already is not drawn again.
"Wrong" is a direction other than that of J - F L / N of the bounded sums; equality is wrong too.
The sets of --held-out had no part in making the method: they were chosen and named before the first draw.
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import tempfile
import time
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

import ddpmi
from accuracy_sums import ORIGIN, Sums, drawn
from ddpmi import testing
from ddpmi.datasets import generated
from ddpmi.rankings import orders, verdicts
from ddpmi.rankings.cells import Cells, scale_of
from ddpmi.rankings.noise_model import NoiseModel
from ddpmi.rankings.pairs import ScoredPairs, mutual_information_of
from ddpmi.releases.receipts import private_receipt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

RESULTS = Path(__file__).parent / "results" / "verdicts.json"
EPSILONS = (0.5, 1, 4)
LAWS = ("laplace", "gaussian")
KINDS: dict[str, dict[str, Any]] = {"threshold": {}, "complete": {"complete": True}, "grid": {"grid": True}}
SMALL = 1000
"""Labels with fewer units are small."""
MEASURES = ("share_in", "share_out", "lift")
TENTHS = 10


@dataclass(frozen=True)
class Case:
    """One set and its bounds."""

    file: str
    pairs: int
    labels: int = 1
    where: str | None = None
    seed: str | None = None
    delta: float = 1e-6
    epsilons: tuple[float, ...] = EPSILONS
    kinds: tuple[str, ...] = tuple(KINDS)
    note: str = ""


THREE = "partition IN ('Germany', 'France', 'United Kingdom')"
CASES = {
    "so2016_tech": Case("so2016.parquet", pairs=4, where="question = 'tech_do'"),
    "retail3": Case("online_retail.parquet", pairs=18, where=THREE),
    "retail": Case("online_retail.parquet", pairs=18, epsilons=(*EPSILONS, 2)),
    "msweb": Case("msweb.parquet", pairs=2, seed="Free Downloads"),
    "acl": Case(
        "acl_words_ccby.parquet",
        pairs=50,
        note="words of at least 20 papers",
        where="feature IN (SELECT feature FROM common)",
    ),
    "generated": Case("", pairs=1, delta=1e-7),
}
HELD_OUT = {
    "onet_tech": Case("onet_tech.parquet", pairs=10),
    "arxiv_authors": Case("arxiv_authors.parquet", pairs=5, labels=5, delta=1e-7),
}


@dataclass(frozen=True)
class Truth:
    """What is known of one set: its sums with bounds, its sums without, and the units of each label."""

    bounded: Sums
    unbounded: Sums
    units: dict[str, int]


def plan_of(case: Case, epsilon: float, law: str, kind: str) -> ddpmi.Plan:
    """Return the plan of a combination."""
    return ddpmi.Plan(
        budget=ddpmi.Budget(epsilon, case.delta),
        bounds=ddpmi.Bounds(pairs=case.pairs, labels=case.labels),
        mechanism=law,  # type: ignore[arg-type]
        space="units",
        **KINDS[kind],
    )


def truth_of(name: str, case: Case, data: Path, cache: Path, law: str) -> Truth:
    """Sum a set, or read the sums that were kept."""
    kept = cache / f"{name}-{law}.pickle"
    if kept.exists():
        known: Truth = pickle.loads(kept.read_bytes())
        return known
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        if name == "generated":
            generated.paper_shape(1_000_000, 100_000, 22, path, seed=3, varied=True)
            columns = ("unit", "feature", "label")
        else:
            columns = ("id", "feature", "partition")
            where = (
                "feature IN (SELECT feature FROM rows GROUP BY feature HAVING count(*) >= 20)"
                if name == "acl"
                else case.where
            )
            duckdb.sql(
                f"COPY (WITH rows AS (FROM '{data / case.file}') SELECT * FROM rows WHERE {where or 'true'}) TO '{path}'"
            )
        unit, feature, label = columns
        obs = ddpmi.observe(str(path), unit=unit, feature=feature, label=label)
        if case.seed is not None:
            obs = ddpmi.observe(str(path), unit=unit, feature=feature).label_by(feature=case.seed)
        plan = plan_of(case, 1, law, "threshold")
        free = replace(plan, bounds=ddpmi.Bounds(pairs=5000, labels=max(case.labels, 40)))
        unbounded = Sums.of(testing.exact_sums(obs, free, seed=1))
        bounded = Sums.of(testing.exact_sums(obs, plan, seed=1), unbounded)
        units: dict[str, int] = {}
        if case.seed is None:
            counted = duckdb.connect().execute(f"SELECT {label}, count(DISTINCT {unit}) FROM '{path}' GROUP BY 1").fetchall()
            units = {str(key): int(count) for key, count in counted}
    found = Truth(bounded=bounded, unbounded=unbounded, units=units)
    cache.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(pickle.dumps(found))
    return found


def scored(sums: Sums, plan: ddpmi.Plan) -> ScoredPairs:
    """Rank a drawn release with the product's own code."""
    receipt = private_receipt(plan, ORIGIN, release_id="bench", ledger={})
    grid, unit = scale_of(receipt)
    cells = Cells(
        features=sums.features,
        labels=sums.labels,
        feature_code=sums.feature,
        label_code=sums.label,
        joint=sums.joint,
        feature_sums=sums.feature_sums,
        label_sums=sums.label_sums * grid,
        total=sums.total * grid,
        unit=unit,
    )
    model = NoiseModel.of(cells, receipt)
    mi = mutual_information_of(cells, "stable", 1e-15)
    return ScoredPairs(cells=cells, noise_model=model, mi=mi, base=None, ranked_by=orders.default_order(model))


@dataclass(frozen=True)
class Exact:
    """The true numbers of the pairs of one release."""

    joint: Floats
    feature: Floats
    label: Floats
    total: float

    @classmethod
    def of(cls, sums: Sums, released: Sums, grid: int) -> Exact:
        """Look up the released pairs among the sums before noise."""
        at = sums.found(released.feature.astype(np.int64) * len(sums.labels) + released.label)
        joint = np.where(at < 0, 0, sums.joint[at]).astype(np.float64)
        feature, label = sums.feature_sums[released.feature], sums.label_sums[released.label] * grid
        return cls(joint, feature.astype(np.float64), label.astype(np.float64), float(sums.total * grid))

    @property
    def distance(self) -> Floats:
        """J - F L / N."""
        return self.joint - self.feature * self.label / self.total

    def measures(self) -> dict[str, Floats]:
        """Return shares and lift, NaN where they are not defined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                "share_in": self.joint / self.label,
                "share_out": (self.feature - self.joint) / (self.total - self.label),
                "lift": self.joint * self.total / (self.feature * self.label),
            }


def checked(truth: Truth, plan: ddpmi.Plan, seed: str) -> dict[str, Any]:
    """Draw one release and count what is right."""
    released = drawn(truth.bounded, plan, seed)
    if not len(released.joint):
        return {"rows": 0}
    pairs = scored(released, plan)
    model = pairs.noise_model
    assert model is not None
    grid = (
        1 << plan.calibration.g if hasattr(plan.calibration, "g") else pairs.cells.total // max(int(released.total), 1)
    )
    rows = pairs.numbers(np.arange(len(pairs)))
    clear = verdicts.level_of(rows["false_sign"]) < pairs.cut
    true, free = Exact.of(truth.bounded, released, grid), Exact.of(truth.unbounded, released, grid)
    presence = rows["presence"]
    wrong = np.where(presence, true.distance <= 0, true.distance >= 0)
    wrong_free = np.where(presence, free.distance <= 0, free.distance >= 0)
    names = released.labels.to_pylist()
    small = np.array([0 < truth.units.get(name, SMALL) < SMALL for name in names])[released.label]
    found: dict[str, Any] = {"rows": len(clear), "clear": int(clear.sum())}
    for word, chosen in (("", clear), ("small_", clear & small)):
        found[f"{word}clear"], found[f"{word}wrong"] = int(chosen.sum()), int(wrong[chosen].sum())
        found[f"{word}wrong_free"] = int(wrong_free[chosen].sum())
    found["per_label"] = (
        {names[at]: int(np.sum(clear & (released.label == at))) for at in np.unique(released.label)}
        if len(names) < 40
        else {}
    )
    far = np.abs(true.distance) >= 3 * deviation(true, model)
    found |= {"far": int(far.sum()), "far_clear": int(np.sum(far & clear)), "far_wrong": int(np.sum(far & wrong))}
    bins = np.minimum((rows["false_sign"] * TENTHS).astype(int), TENTHS - 1)
    found["bins"] = [
        [int(np.sum(bins == at)), float(rows["false_sign"][bins == at].sum()), int(wrong[bins == at].sum())]
        for at in range(TENTHS)
    ]
    found["covered"] = {name: covered(rows, name, value, small) for name, value in true.measures().items()}
    return found


def deviation(true: Exact, model: NoiseModel) -> Floats:
    """Return the standard deviation of the noise of J - F L / N."""
    noise, whole = model.noise, max(model.total, 1)
    x, y = true.feature / true.total, true.label / true.total
    parts = (noise.joint, noise.feature * y, noise.label * x, noise.total * x * y)
    return np.sqrt(sum((part * whole) ** 2 for part in parts)) * np.ones(len(x))


def covered(rows: dict[str, Any], name: str, value: Floats, small: Flags) -> dict[str, Any]:
    """Count by tenths of the true value how often the interval contains it; ties of the true value stay together."""
    there = ~np.isnan(rows[f"{name}_low"]) & ~np.isnan(value)
    low, high, value, small = rows[f"{name}_low"][there], rows[f"{name}_high"][there], value[there], small[there]
    holds = (low <= value * (1 + 1e-9) + 1e-12) & (value <= high * (1 + 1e-9) + 1e-12)
    edges = np.unique(np.quantile(value, np.arange(1, TENTHS) / TENTHS)) if len(value) else np.empty(0)
    tenth = np.searchsorted(edges, value, side="left")
    return {
        "tenths": [[int(np.sum(tenth == at)), int(holds[tenth == at].sum())] for at in range(TENTHS)],
        "small": [int(small.sum()), int(holds[small].sum())],
        "null": int(np.sum(~there)),
    }


def added(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up the draws of one combination."""
    parts_there = [part for part in parts if part["rows"]]

    def total(name: str) -> int:
        return sum(part[name] for part in parts_there)

    def mean(top: str, bottom: str) -> float:
        return float(sum(part[top] / part[bottom] for part in parts_there if part[bottom]) / len(parts))

    found: dict[str, Any] = {"draws": len(parts), "rows": total("rows"), "clear": total("clear")}
    for word in ("", "small_"):
        with_any = sum(1 for part in parts_there if part[f"{word}clear"])
        found |= {
            f"{word}wrong": round(mean(f"{word}wrong", f"{word}clear"), 4),
            f"{word}wrong_pooled": round(total(f"{word}wrong") / max(total(f"{word}clear"), 1), 4),
            f"{word}wrong_unbounded": round(mean(f"{word}wrong_free", f"{word}clear"), 4),
            f"{word}clear_rows": total(f"{word}clear"),
            f"{word}releases_with_clear_rows": with_any,
        }
    found |= {"far": total("far"), "far_clear": round(total("far_clear") / max(total("far"), 1), 4)}
    found["bins"] = np.sum([part["bins"] for part in parts_there], axis=0).round(2).tolist() if parts_there else []
    labels: dict[str, float] = {}
    for part in parts_there:
        for name, count in part["per_label"].items():
            labels[name] = labels.get(name, 0) + count / len(parts)
    found["clear_by_label"] = {name: round(count, 2) for name, count in labels.items()}
    found["covered"] = {
        name: {
            "tenths": np.sum([part["covered"][name]["tenths"] for part in parts_there], axis=0).tolist(),
            "small": np.sum([part["covered"][name]["small"] for part in parts_there], axis=0).tolist(),
            "null": sum(part["covered"][name]["null"] for part in parts_there),
        }
        for name in MEASURES
        if parts_there
    }
    return found


def line_of(name: str, found: dict[str, Any]) -> str:
    """Return one combination in a line."""
    worst = {}
    for measure, parts in found["covered"].items():
        rates = [held / count for count, held in parts["tenths"] if count >= 20 * TENTHS]
        small = parts["small"]
        worst[measure] = f"{min(rates, default=1):.3f}/{small[1] / small[0] if small[0] else 1:.3f}"
    bins = " ".join(
        f"{right / count - stated / count:+.2f}" if count >= 500 else "-" for count, stated, right in found["bins"]
    )
    return (
        f"{name:<34} draws {found['draws']:>3} rows {found['rows']:>8} clear {found['clear']:>7} wrong {found['wrong']:.3f}"
        f" ({found['wrong_pooled']:.3f})"
        f" small {found['small_wrong']:.3f} ({found['small_wrong_pooled']:.3f} of {found['small_clear_rows']})"
        f" unbounded {found['wrong_unbounded']:.3f} far {found['far_clear']:.3f} of {found['far']} | {worst} | {bins}"
    )


def main() -> None:
    """Draw, print a line for each combination, and write JSON after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=None)
    parser.add_argument("--epsilons", nargs="*", type=float, default=None)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--laws", nargs="*", default=list(LAWS))
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text())["results"] if arguments.out.exists() else {}
    if arguments.report:
        print("\n".join(line_of(name, found) for name, found in results.items()))
        return
    cases = HELD_OUT if arguments.held_out else CASES
    for name in arguments.sets or cases:
        case = cases[name]
        for law in arguments.laws:
            truth = truth_of(name, case, arguments.data, arguments.cache, law)
            for epsilon in arguments.epsilons or case.epsilons:
                for kind in arguments.kinds:
                    key = f"{name}, {law}, epsilon {epsilon:g}, {kind}"
                    if results.get(key, {}).get("draws", 0) >= arguments.draws:
                        continue
                    plan, start = plan_of(case, epsilon, law, kind), time.perf_counter()
                    parts = [checked(truth, plan, f"{key} {draw}") for draw in range(arguments.draws)]
                    results[key] = added(parts)
                    print(line_of(key, results[key]), f"({time.perf_counter() - start:.0f} s)", flush=True)
                    machine = {"python": platform.python_version()}
                    machine |= {part: metadata.version(part) for part in ("numpy", "duckdb", "ddpmi")}
                    told = {"machine": machine, "held_out": list(HELD_OUT), "small": SMALL, "results": results}
                    arguments.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
