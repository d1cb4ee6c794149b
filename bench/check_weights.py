"""Would a bound that counts common features less help each label's own list? An experiment, not a part of the product.

    python bench/check_weights.py --data FOLDER arxiv --draws 3

With public labels and a grid, features are released first. Their noisy totals F are public then, so a unit's row of pairs
may be weighted by F to the power of -a before its norm is bounded; features that were not released weigh nothing. A pair's
noise is then divided by its feature's weight. The bound is a part of the mean squared norm: 0.54 is what pairs=50 means
on the words of abstracts. Margins are exact here, which favours all rows alike (check_limits.py: they hardly matter).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from accuracy_sums import Sums, exact, ranked, reordered
from bench_accuracy import CASES, check_sets, observed
from check_estimates import plan_of, score
from check_limits import FIGURES
from ddpmi import mi as information

OUT = Path(__file__).parent / "results" / "weights.json"
EPSILONS = (1, 4)
#: The exponent, and the bound as a part of the mean squared norm.
TRIED = ((0.0, 0.54), (0.25, 0.54), (0.25, 0.3), (0.35, 0.3), (0.5, 0.54), (0.5, 1.0))
#: The sums of this experiment are no whole numbers.
STEPS = 1000
STRENGTH = 8


def bounded(rows: Any, names: Sums, weights: np.ndarray, part: float) -> tuple[np.ndarray, float]:
    """Sum each unit's scale over features and labels, where its weighted norm is bounded; and the bound."""
    codes = np.arange(len(weights), dtype=np.int32)
    rows.register("weights", pa.table({"feature": names.features, "w": weights, "code": codes}))
    rows.execute(
        "CREATE OR REPLACE TABLE norms AS SELECT unit, sqrt(sum(w * w)) AS norm"
        " FROM rows JOIN weights USING (feature) WHERE w > 0 GROUP BY unit"
    )
    bound = float(np.sqrt(part * rows.execute("SELECT avg(norm * norm) FROM norms").fetchone()[0]))
    found = rows.execute(
        f"SELECT code, label, sum(least(1, {bound} / norm)) AS sum FROM rows JOIN weights USING (feature)"
        " JOIN norms USING (unit) WHERE w > 0 GROUP BY code, label"
    ).to_arrow_table()
    places = {label: place for place, label in enumerate(names.labels.to_pylist())}
    joint = np.zeros((len(weights), len(places)))
    joint[found["code"].to_numpy(), [places[label] for label in found["label"].to_pylist()]] = found["sum"].to_numpy()
    return joint, bound


def overlaps(
    truth: Any, names: Sums, joint: np.ndarray, deviations: np.ndarray, draw: np.random.Generator
) -> list[float]:
    """Draw noise on the rows whose deviation is finite, and rank by the shrunk estimate."""
    width = joint.shape[1]
    shown = np.flatnonzero(np.isfinite(deviations))
    noise = draw.normal(0, 1, (len(shown), width)) * deviations[shown, None]
    sums = replace(
        names,
        feature=np.repeat(shown, width).astype(np.int32),
        label=np.tile(np.arange(width), len(shown)).astype(np.int32),
        joint=np.rint((joint[shown] + noise).ravel() * STEPS).astype(np.int64),
        feature_sums=np.rint(joint.sum(1) * STEPS).astype(np.int64),
        label_sums=np.rint(joint.sum(0) * STEPS).astype(np.int64),
        total=int(joint.sum() * STEPS),
    )
    plain = ranked(sums, None)
    pxy, px, py = (
        part / sums.total for part in (sums.joint, sums.feature_sums[sums.feature], sums.label_sums[sums.label])
    )
    distance = pxy - px * py
    squared = (distance * sums.total / (STEPS * deviations[sums.feature])) ** 2
    left = distance * np.maximum(0, 1 - STRENGTH / np.maximum(squared, 1e-9))
    estimate = np.clip(px * py + left, np.maximum(0, px + py - 1), np.minimum(px, py))
    values = information.mutual_information(estimate, px, py)
    return score(truth, reordered(plain, values))


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """Everything on one set."""
    case = CASES[name]
    names = exact(observed(case, data, Path()))
    truth = ranked(names, None)
    rows = duckdb.connect()
    rows.execute(
        "CREATE TABLE rows AS SELECT DISTINCT id AS unit, feature, partition AS label FROM read_parquet(?)",
        [str(data / case.file)],
    )
    draw, found = np.random.default_rng(1), []
    for epsilon in EPSILONS:
        plan = plan_of(case, epsilon, None, {"public_labels": tuple(names.labels.to_pylist()), "grid": True})
        grid, tables = 2**plan.calibration.bounding.g, plan.calibration.tables
        noisy = names.feature_sums + draw.normal(0, tables["features"].mechanism.sd / grid, len(names.features))
        shown = noisy >= (tables["features"].threshold or 0) / grid
        for power, part in TRIED:
            weights = np.where(shown, (np.maximum(noisy, 1) / noisy[shown].min()) ** -power, 0)
            joint, bound = bounded(rows, names, weights, part)
            one = tables["pairs"].mechanism.sd / grid / np.sqrt(case.pairs)
            deviations = np.divide(one * bound, weights, out=np.full(len(weights), np.inf), where=weights > 0)
            mean = np.mean([overlaps(truth, names, joint, deviations, draw) for _ in range(draws)], axis=0)
            figures = dict(zip(FIGURES, mean.round(4).tolist(), strict=True))
            found.append({"set": name, "epsilon": epsilon, "power": power, "part": part, **figures})
            print(found[-1], flush=True)
    return found


def main() -> None:
    """Measure and write."""
    check_sets(__doc__, OUT, measure, draws=3, choices=[name for name, case in CASES.items() if case.public])


if __name__ == "__main__":
    main()
