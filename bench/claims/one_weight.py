"""How near are shares, lifts and top lists of bounded sums to the true ones, before noise?

    python bench/claims/one_weight.py FOLDER --out bench/results/one-weight.json

FOLDER holds so2016.parquet. Units are bounded at K = half the median number of pairs. Three ways to count are compared with
sums without bounds: units by one weight in all four tables, units whose weight is left out in labels and in the total (as
releases of formats 1 and 2 have it), and events. Pairs of at least 100 units are compared. No noise is added.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import ddpmi
from ddpmi.information.mi import mutual_information
from ddpmi.planning.suggest import suggested_bounds
from ddpmi.testing import exact_sums

SETS = {"so2016 (tech_do)": "question = 'tech_do'", "so2016": "true"}
LEAST = 100
TOP = 1000
LEVELS = (10, 25, 50, 75, 90)


def read(path: Path, where: str) -> pa.Table:
    """Return the rows (unit, feature, label) of a set, each once."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        keys = "CAST(id AS VARCHAR) AS unit, feature, partition AS label"
        columns = ("id", "feature", "partition")
        valid = " AND ".join(f"{column} IS NOT NULL" for column in columns)
        return connection.sql(f"SELECT DISTINCT {keys} FROM '{path}' WHERE {where} AND {valid}").to_arrow_table()


def median_pairs(rows: pa.Table) -> float:
    """Return the median number of pairs of a unit."""
    return float(np.median(rows.group_by("unit").aggregate([("feature", "count")])["feature_count"].to_numpy()))


def sums_of(tables: dict[str, pa.Table]) -> dict[str, Any]:
    """Return J, F, L and N of tables, by their keys."""
    found = {
        name: {tuple(row[key] for key in keys): row["sum"] for row in tables[name].to_pylist()}
        for name, keys in {"pairs": ("feature", "label"), "features": ("feature",), "labels": ("label",)}.items()
    }
    return {**found, "total": tables["total"]["sum"][0].as_py()}


def numbers(sums: dict[str, Any], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the share inside, the lift and the mutual information of some pairs."""
    total = float(sums["total"])
    joint = np.array([sums["pairs"].get(pair, 0) for pair in pairs]) / total
    feature = np.array([sums["features"].get((pair[0],), 0) for pair in pairs]) / total
    label = np.array([sums["labels"].get((pair[1],), 0) for pair in pairs]) / total
    # The formerly counted way may give tables that no population has; the product projects them too.
    mi = mutual_information(np.minimum(joint, np.minimum(feature, label)), feature, label)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = joint / label
        return {"share": inside, "lift": inside / ((feature - joint) / (1 - label)), "mi": mi}


def compared(true: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return quantiles of the ratio of shares and lifts to the true ones, and the overlap of the best pairs."""
    pairs = sorted(true["pairs"])
    large = np.array([true["pairs"][pair] >= LEAST for pair in pairs])
    want, got = numbers(true, pairs), numbers(found, pairs)
    best = [set(np.lexsort((np.arange(len(pairs)), -one["mi"]))[:TOP].tolist()) for one in (want, got)]
    row: dict[str, Any] = {"pairs": int(large.sum()), f"overlap of the best {TOP}": len(best[0] & best[1]) / TOP}
    for name in ("share", "lift"):
        ratio = got[name][large] / want[name][large]
        row[name] = {str(level): float(np.nanpercentile(ratio, level)) for level in LEVELS}
    return row


def measured(rows: pa.Table, mechanism: Any, pairs: int) -> list[dict[str, Any]]:
    """Compare the three ways of counting for one norm."""
    obs, bounds = ddpmi.observe(rows, conf={"threads": 1}), ddpmi.Bounds(pairs=pairs)

    def counted(space: Any) -> dict[str, Any]:
        plan = ddpmi.Plan(budget=ddpmi.Budget(1, 1e-7), bounds=bounds, mechanism=mechanism, space=space)
        return sums_of(exact_sums(obs, plan, seed=1))

    def true(space: Any) -> dict[str, Any]:
        found = ddpmi.exact(obs, space=space)
        tables = {"pairs": found.pairs, "features": found.features, "labels": found.labels}
        return sums_of({**tables, "total": pa.table({"sum": [found.total]})})

    people, units, events = true("units"), counted("units"), counted("events")
    whole = {key: 256 * count for key, count in people["labels"].items()}
    formerly = {**units, "labels": whole, "total": 256 * people["total"]}
    ways = {
        "one weight": (people, units),
        "without weight in L and N": (people, formerly),
        "events": (true("events"), events),
    }
    return [{"counts": name, "mechanism": mechanism, "K": pairs, **compared(*both)} for name, both in ways.items()]


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found: dict[str, Any] = {"least units of a pair": LEAST, "sets": {}}
    for name, where in SETS.items():
        rows = read(given.folder / "so2016.parquet", where)
        half = suggested_bounds(median_pairs(rows)).pairs
        found["sets"][name] = {"median pairs of a unit": median_pairs(rows), "rows": []}
        for mechanism in ("gaussian", "laplace"):
            for row in measured(rows, mechanism, half):
                found["sets"][name]["rows"].append(row)
                share, lift = ([f"{one:.3f}" for one in row[of].values()] for of in ("share", "lift"))
                best = row[f"overlap of the best {TOP}"]
                print(
                    f"{name:18} K={half:<3} {mechanism:9} {row['counts']:26} share {share}  lift {lift}  best {best:.3f}",
                    flush=True,
                )
        given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
