"""Do intervals, rank intervals and stable tops hold as often as they promise?

    nice python bench/claims/intervals.py --data FOLDER --out bench/results/intervals.json
    nice python bench/claims/intervals.py --data FOLDER --held-out --epsilons 2 --out bench/results/intervals-held-out.json
    nice python bench/claims/intervals.py --data FOLDER --grid --out bench/results/intervals-grid.json
    nice python bench/claims/intervals.py --data FOLDER --complete --out bench/results/intervals-complete.json
    nice python bench/claims/intervals.py --data FOLDER --complete --public --out bench/results/intervals-public.json

Each set is summed once. Noise is then drawn many times from the plan's own samplers and read by the product's code.
Truth is the mutual information of the bounded sums before noise. A case is a released pair of one draw.
Cases are grouped by true direction and by the decile of the true mutual information in that direction. For information they
are also grouped by the decile of the released one. The results also give the bias of bounding: bounded against unbounded
mutual information.
The method was chosen while looking at the three default sets. The sets of --held-out were not used for that choice.
With --grid features and labels have to reach thresholds instead of pairs, and all their pairs are cases, zeros too.
With --complete the cases are all pairs of features and labels that have a pair above the threshold.
With --public all labels are listed.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import ddpmi
from ddpmi.datasets import paper_shape
from ddpmi.information import mi as information
from ddpmi.privacy.noise import add_noise
from ddpmi.rankings import certainty
from ddpmi.rankings.cells import Cells
from ddpmi.rankings.noise_model import NoiseModel
from ddpmi.rankings.pairs import ScoredPairs, mutual_information_of
from ddpmi.releases.receipts import Origin, private_receipt
from ddpmi.testing import exact_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Whole = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]

LEVEL, CONFIDENCE = 0.95, 0.95
MANY_CASES, MOST_DRAWS = 20_000, 5_000  # small releases are drawn more often, so that a decile has enough cases
AMONG: tuple[certainty.Among, ...] = ("all", "released")
BANDS = ((1, 10), (11, 100), (101, 1000), (1001, 1_000_000))


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The exact bounded sums of one set, with numbers for names."""

    feature: Integers
    label: Integers
    joint: Integers
    features: Integers
    labels: Integers
    total: int
    unbounded: Floats

    @property
    def truth(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Mutual information and direction before noise."""
        table = information.feasible(self.joint, self.features[self.feature], self.labels[self.label], self.total)
        return information.mutual_information(*table), information.direction(*table)


def summed(obs: ddpmi.Observations, plan: ddpmi.Plan) -> Sums:
    """Sum once, with and without bounds."""
    tables = exact_sums(obs, plan)
    names = {
        key: {name: at for at, name in enumerate(tables[f"{key}s"][key].to_pylist())} for key in ("feature", "label")
    }
    keys = list(zip(tables["pairs"]["feature"].to_pylist(), tables["pairs"]["label"].to_pylist(), strict=True))
    plain = ddpmi.rank(ddpmi.exact(obs)).table
    free = dict(
        zip(
            zip(plain["feature"].to_pylist(), plain["label"].to_pylist(), strict=True),
            plain["mi"].to_pylist(),
            strict=True,
        )
    )
    return Sums(
        feature=np.array([names["feature"][key[0]] for key in keys]),
        label=np.array([names["label"][key[1]] for key in keys]),
        joint=tables["pairs"]["sum"].to_numpy(),
        features=tables["features"]["sum"].to_numpy(),
        labels=tables["labels"]["sum"].to_numpy(),
        total=int(tables["total"]["sum"][0].as_py()),
        unbounded=np.array([free[key] for key in keys]),
    )


def with_zeros(sums: Sums) -> Sums:
    """Return every feature with every label. The bias of bounding is known only for pairs that occur."""
    width = len(sums.labels)
    at = sums.feature * width + sums.label
    joint, unbounded = np.zeros(len(sums.features) * width, np.int64), np.full(len(sums.features) * width, np.nan)
    joint[at], unbounded[at] = sums.joint, sums.unbounded
    feature, label = np.divmod(np.arange(len(joint)), width)
    return replace(sums, feature=feature, label=label, joint=joint, unbounded=unbounded)


def drawn(sums: Sums, plan: ddpmi.Plan) -> tuple[ScoredPairs, Integers]:
    """Draw one release; return its pairs and their positions in the sums."""
    noise = plan.calibration.tables
    joint = add_noise(sums.joint, noise["pairs"].mechanism)
    margins = {
        "features": add_noise(sums.features, noise["features"].mechanism),
        "labels": add_noise(sums.labels, noise["labels"].mechanism),
    }
    least = {name: -np.inf if table.threshold is None else float(table.threshold) for name, table in noise.items()}
    rows = np.flatnonzero(
        (joint >= least["pairs"])
        & (margins["features"] >= least["features"])[sums.feature]
        & (margins["labels"] >= least["labels"])[sums.label]
    )
    if plan.complete:
        # As if every pair had been drawn once: docs/proofs/completion.md.
        seen = rows[sums.joint[rows] > 0]
        labels = np.isin(sums.label, sums.label[seen]) if plan.public_labels is None else np.True_
        rows = np.flatnonzero(np.isin(sums.feature, sums.feature[seen]) & labels)
    known_features, feature = np.unique(sums.feature[rows], return_inverse=True)
    known_labels, label = np.unique(sums.label[rows], return_inverse=True)
    cells = Cells(
        features=pa.array(known_features),
        labels=pa.array(known_labels),
        feature_code=feature,
        label_code=label,
        joint=joint[rows],
        feature_sums=margins["features"][known_features],
        label_sums=margins["labels"][known_labels],
        total=int(add_noise(np.array([sums.total]), noise["total"].mechanism)[0]),
        unit=Fraction(plan.step),
    )
    origin = Origin(dataset="bench", unit="unit", engine="-", version="-")
    receipt = private_receipt(plan, origin, release_id="-", ledger={})
    mi = mutual_information_of(cells, "stable", 1e-15)
    return ScoredPairs(cells=cells, noise_model=NoiseModel.of(cells, receipt), mi=mi, base=None), rows


def checked(sums: Sums, plan: ddpmi.Plan, draws: int) -> dict[str, Any]:
    """Draw many releases and count how often each statement holds."""
    truth, presence = sums.truth
    best = np.argsort(-truth, kind="stable")
    cases: list[tuple[Any, ...]] = []
    tops: list[dict[certainty.Among, int]] = []
    wrong: dict[certainty.Among, int] = {"all": 0, "released": 0}
    counted = 0
    # Where a draw releases less than one pair on average, more draws show nothing.
    while len(tops) < draws or (len(tops) <= counted < MANY_CASES and len(tops) < MOST_DRAWS):
        pairs, rows = drawn(sums, plan)
        counted += len(rows)
        low, high = certainty.bounds_of(pairs, np.arange(len(rows)), LEVEL)
        true_rank, order = np.empty(len(rows), np.int64), np.argsort(-truth[rows], kind="stable")
        true_rank[order] = np.arange(1, len(rows) + 1)
        surely = certainty.sure_lows(pairs, np.arange(len(rows)), low, high)
        first, last = certainty.rank_bounds(pairs.mi, low, high, surely)
        cases.append((rows, pairs.mi, low, high, true_rank, first, last))
        released = rows[np.argsort(-pairs.mi, kind="stable")]
        top = {among: certainty.stable_top(pairs, CONFIDENCE, among=among) for among in AMONG}
        tops.append(top)
        wrong["all"] += set(released[: top["all"]].tolist()) != set(best[: top["all"]].tolist())
        wrong["released"] += set(released[: top["released"]].tolist()) != set(rows[order[: top["released"]]].tolist())
    if counted < len(tops):
        return {"draws": len(tops), "cases": counted, "directions": {}}
    rows, mi, low, high, true_rank, first, last = (np.concatenate(column) for column in zip(*cases, strict=True))
    # An interval that ends at the truth, up to rounding, contains it.
    holds = (low <= truth[rows] * (1 + 1e-12)) & (truth[rows] <= high * (1 + 1e-12))
    bias = (truth[rows] - sums.unbounded[rows]) / np.maximum(sums.unbounded[rows], 1e-300)
    return {
        "draws": len(tops),
        "cases": len(rows),
        "coverage": float(holds.mean()),
        "below": float((truth[rows] < low).mean()),
        "above": float((truth[rows] > high).mean()),
        "mean_width": float((high - low).mean()),
        "median_width_over_truth": float(np.median((high - low) / np.maximum(truth[rows], 1e-300))),
        "bounding_bias_median": float(np.nanmedian(bias)),
        "bounding_bias_quartiles": [float(q) for q in np.nanquantile(bias, (0.25, 0.75))],
        "directions": {
            name: by_deciles(holds, truth[rows], mi, presence[rows] == flag)
            for name, flag in (("presence", True), ("absence", False))
            if np.any(presence[rows] == flag)
        },
        "rank_intervals": [banded(true_rank, first, last, band) for band in BANDS if np.any(true_rank >= band[0])],
        "stable_top": {
            among: {"mean": float(np.mean([top[among] for top in tops])), "wrong": wrong[among]} for among in wrong
        },
    }


def by_deciles(holds: NDArray[np.bool_], truth: Floats, mi: Floats, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    """Split the cases of one direction by the deciles of true and of released mutual information."""
    parts = {}
    for name, values in (("deciles", truth[chosen]), ("deciles_of_released", mi[chosen])):
        tenth = np.searchsorted(np.quantile(values, np.arange(1, 10) / 10), values, side="right")
        parts[name] = [round(float(holds[chosen][group].mean()), 4) for group in _groups(tenth)]
    return {"cases": int(chosen.sum()), "coverage": round(float(holds[chosen].mean()), 4)} | parts


def _groups(tenth: Whole) -> list[NDArray[np.bool_]]:
    """Return which cases belong to each tenth. A tenth with less than half its share, because of ties, joins the next.

    The few pairs of a small set have the same true values in all draws. Some tenths would have a handful of cases.
    """
    found: list[NDArray[np.bool_]] = []
    open_group = np.zeros(len(tenth), np.bool_)
    for at in range(10):
        open_group = open_group | (tenth == at)
        if np.sum(open_group) * 20 >= len(tenth):
            found.append(open_group)
            open_group = np.zeros(len(tenth), np.bool_)
    if found:
        found[-1] = found[-1] | open_group
    return found or [open_group]


def banded(rank: Whole, first: Whole, last: Whole, band: tuple[int, int]) -> dict[str, Any]:
    """Count how often the true rank is in its interval, for one band of true ranks."""
    chosen = (rank >= band[0]) & (rank <= band[1])
    inside = (first <= rank) & (rank <= last)
    width = np.median((last - first + 1)[chosen])
    return {"from": band[0], "to": band[1], "coverage": float(inside[chosen].mean()), "median_width": float(width)}


def sets(data: Path, folder: Path) -> dict[str, tuple[ddpmi.Observations, dict[str, Any]]]:
    """Return the three default sets, each with the fields of its plan."""
    survey = ddpmi.observe(
        str(data / "so2016.parquet"), unit="id", feature="feature", label="partition", where="question = 'tech_do'"
    )
    links = ddpmi.observe(str(data / "reddit_domains.parquet"), unit="id", feature="feature", label="partition")
    paper = ddpmi.observe(str(paper_shape(1_000_000, 100_000, 22, folder / "paper.parquet", seed=3)))
    return {
        "so2016 tech_do x countries": (survey, {"bounds": ddpmi.Bounds(pairs=30)}),
        "reddit_domains": (links, {"bounds": ddpmi.Bounds(pairs=1), "distinct": "units"}),
        "paper_shape, 1,000,000 units": (paper, {"bounds": ddpmi.Bounds(pairs=1), "distinct": "units"}),
    }


def held_out(data: Path, folder: Path) -> dict[str, tuple[ddpmi.Observations, dict[str, Any]]]:
    """Return the sets that were not used for any choice."""
    columns: dict[str, Any] = {"unit": "id", "feature": "feature", "label": "partition"}
    tools, goods = (ddpmi.observe(str(data / f"{name}.parquet"), **columns) for name in ("onet_tech", "online_retail"))
    steep = ddpmi.observe(str(paper_shape(3_000_000, 20_000, 60, folder / "steep.parquet", seed=77)))
    return {
        "onet_tech": (tools, {"bounds": ddpmi.Bounds(pairs=10)}),
        "online_retail": (goods, {"bounds": ddpmi.Bounds(pairs=18)}),
        "paper_shape, 3,000,000 units, 60 labels": (steep, {"bounds": ddpmi.Bounds(pairs=1), "distinct": "units"}),
    }


def with_zeros_too(data: Path, folder: Path, option: str) -> dict[str, tuple[ddpmi.Observations, dict[str, Any]]]:
    """Return two sets with several pairs for each unit, and one with one, with a plan option that releases all their pairs."""
    showing = {option: True}
    columns: dict[str, Any] = {"unit": "id", "feature": "feature", "label": "partition"}
    survey, words = (ddpmi.observe(str(data / f"{name}.parquet"), **columns) for name in ("so2016", "acl_words_ccby"))
    paper = ddpmi.observe(str(paper_shape(1_000_000, 100_000, 22, folder / "paper.parquet", seed=3)))
    return {
        "so2016 x countries": (survey, {"bounds": ddpmi.Bounds(pairs=30)} | showing),
        "acl_words x years": (words, {"bounds": ddpmi.Bounds(pairs=50)} | showing),
        "paper_shape, 1,000,000 units": (paper, {"bounds": ddpmi.Bounds(pairs=1), "distinct": "units"} | showing),
    }


def main() -> None:
    """Print a line for each set and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--epsilons", nargs="+", default=["1", "4"])
    parser.add_argument("--held-out", dest="sets", action="store_const", const=held_out, default=sets)
    for option in ("grid", "complete"):
        chosen = partial(with_zeros_too, option=option)
        parser.add_argument(f"--{option}", dest="sets", action="store_const", const=chosen)
    parser.add_argument("--public", action="store_true", help="list all labels")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (obs, fields) in arguments.sets(arguments.data, Path(folder)).items():
            if arguments.public:
                fields["public_labels"] = tuple(ddpmi.exact(obs).labels["label"].to_pylist())
            for mechanism in ("gaussian", "laplace"):
                sums: Sums | None = None
                for epsilon in arguments.epsilons:
                    start = time.perf_counter()
                    plan = ddpmi.Plan(budget=ddpmi.Budget(epsilon, "1e-7"), mechanism=mechanism, **fields)
                    if sums is None:  # bounds do not depend on epsilon
                        sums = with_zeros(summed(obs, plan)) if plan.grid or plan.complete else summed(obs, plan)
                    found = checked(sums, plan, arguments.draws)
                    results.append({"set": name, "mechanism": mechanism, "epsilon": float(epsilon)} | found)
                    if not found["directions"]:
                        print(f"{name}, {mechanism}, epsilon {epsilon}: hardly anything is released", flush=True)
                        continue
                    worst = min(min(part["deciles"]) for part in found["directions"].values())
                    ranks = min(band["coverage"] for band in found["rank_intervals"])
                    print(
                        f"{name}, {mechanism}, epsilon {epsilon}: {found['coverage']:.4f} of {found['cases']:,} cases,"
                        f" worst decile {worst:.3f}, mean width {found['mean_width']:.3g},"
                        f" bounding bias {found['bounding_bias_median']:+.1%}, ranks {ranks:.3f},"
                        f" stable top {found['stable_top']} ({time.perf_counter() - start:.0f} s)",
                        flush=True,
                    )
    worst = min(min(part["deciles"]) for one in results for part in one["directions"].values())
    print(f"worst decile of all {worst:.4f}")
    if arguments.out:
        machine = {"python": platform.python_version()}
        machine |= {name: metadata.version(name) for name in ("numpy", "duckdb", "ddpmi")}
        told = {"machine": machine, "level": LEVEL, "worst_decile": worst, "results": results}
        arguments.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
