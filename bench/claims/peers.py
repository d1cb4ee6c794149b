"""Does units space count what scikit-learn counts?

    python bench/claims/peers.py so2016.parquet --out bench/results/peers.json

Ranks technologies (question tech_do) for ten countries, exactly and in units space. Compares every pair with scikit-learn's
``mutual_info_classif`` on the binarised one-vs-all matrix (discrete features, nats) and its ``chi2``. Compares MI in bits, JLH and
GND with the formulas that Elasticsearch documents, computed here from plain counts.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import scipy.sparse as sp
from sklearn.feature_selection import chi2, mutual_info_classif

import ddpmi

COUNTRIES = 10


def rows_of(path: Path) -> Any:
    """Return (id, feature, partition) of one question for the countries with most answers."""
    with duckdb.connect() as connection:
        return connection.sql(
            f"SELECT id, feature, partition FROM '{path}' WHERE question = 'tech_do' AND partition IN ("
            f"SELECT partition FROM '{path}' GROUP BY partition ORDER BY count(*) DESC, partition LIMIT {COUNTRIES})"
        ).to_arrow_table()


def matrix(rows: Any) -> tuple[sp.csr_matrix, np.ndarray, list[str], list[str]]:
    """Return units x features (0/1), the label of each unit, and both vocabularies."""
    frame = rows.to_pydict()
    units = {unit: n for n, unit in enumerate(dict.fromkeys(frame["id"]))}
    features = {feature: n for n, feature in enumerate(sorted(set(frame["feature"])))}
    labels = sorted(set(frame["partition"]))
    y = np.empty(len(units), dtype=int)
    cells = set()
    for unit, feature, label in zip(frame["id"], frame["feature"], frame["partition"], strict=True):
        y[units[unit]] = labels.index(label)
        cells.add((units[unit], features[feature]))
    at = np.array(sorted(cells))
    x = sp.csr_matrix((np.ones(len(at)), (at[:, 0], at[:, 1])), shape=(len(units), len(features)))
    return x, y, list(features), labels


def elastic(k: float, nf: float, np_: float, n: float) -> dict[str, float]:
    """Return MI in bits, JLH and GND as Elasticsearch documents them."""
    cells = ((k, nf, np_), (nf - k, nf, n - np_), (np_ - k, n - nf, np_), (n - nf - np_ + k, n - nf, n - np_))
    bits = sum(c / n * math.log2(c * n / (row * col)) for c, row, col in cells if c > 0)
    share, background = k / np_, nf / n
    jlh = (share - background) * (share / background) if share > background else 0.0
    gnd = math.exp(-(max(math.log(nf), math.log(np_)) - math.log(k)) / (math.log(n) - min(math.log(nf), math.log(np_))))
    return {"bits": bits, "jlh": jlh, "gnd": gnd}


def main() -> None:
    """Print the largest differences and write JSON; fail above 1e-9."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = rows_of(arguments.data)
    release = ddpmi.exact(ddpmi.observe(rows), space="units")
    ranking = ddpmi.rank(release)
    scored = {
        name: {(r["feature"], r["label"]): r["score"] for r in ranking.score(name).to_dicts()}
        for name in ("chi2", "jlh", "gnd")
    }
    bits = {(r["feature"], r["label"]): r["mi"] for r in ddpmi.rank(release, base=2).to_dicts()}
    x, y, features, labels = matrix(rows)
    n, nf = x.shape[0], np.asarray(x.sum(axis=0)).ravel()
    worst: dict[str, float] = {}

    def note(name: str, got: float, expected: float) -> None:
        worst[name] = max(worst.get(name, 0.0), abs(got - expected) / max(1.0, abs(expected)))

    found = {(row["feature"], row["label"]): row for row in ranking.to_dicts()}
    for place, label in enumerate(labels):
        target = y == place
        mi = mutual_info_classif(x, target, discrete_features=True)
        joint = np.asarray(x[target].sum(axis=0)).ravel()
        presence = chi2(x, target)[0]  # sklearn sums (O - E)^2 / E over presence cells of both classes
        for column, feature in enumerate(features):
            if (feature, label) not in found:
                continue
            row = found[feature, label]
            note("mutual_info_classif", row["mi"], mi[column])
            note("joint", row["joint"], joint[column])
            note("chi2", scored["chi2"][feature, label], presence[column] / (1 - nf[column] / n))
            peer = elastic(joint[column], nf[column], float(target.sum()), float(n))
            note("mi in bits", bits[feature, label], peer["bits"])
            note("jlh", scored["jlh"][feature, label], peer["jlh"])
            note("gnd", scored["gnd"][feature, label], peer["gnd"])
    print(f"{len(found)} pairs, {n} units, {len(features)} features, {len(labels)} labels")
    for name, difference in worst.items():
        print(f"{name:<22} largest difference {difference:.3g}")
    if arguments.out:
        arguments.out.write_text(
            json.dumps({"pairs": len(found), "units": n, "largest_difference": worst}, indent=2) + "\n"
        )
    if max(worst.values()) > 1e-9:
        raise SystemExit("a score differs from its peer")


if __name__ == "__main__":
    main()
