"""Do real units move the sums further than the plan declares?

    python bench/claims/sensitivity.py FOLDER --out bench/results/sensitivity.json

Computes the sums before noise with and without one unit, as exact integers, for both norms and both strategies. The units are
the heaviest ones, some random ones and an invented worst one.

FOLDER holds online_retail.parquet (quantity, clip 100), arxiv_cs_words.parquet
(word frequency, clip 5) and arxiv_authors.parquet (up to 31 labels per author).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import ddpmi
from ddpmi.testing import exact_sums, moved_between

SETS: dict[str, dict[str, Any]] = {
    "online_retail": {"value": "observation", "bounds": {"pairs": 30, "clip": 100}},
    "arxiv_cs_words": {"value": "observation", "bounds": {"pairs": 50, "clip": 5}},
    "arxiv_authors": {"value": None, "bounds": {"pairs": 20, "labels": 31}},
}


def units(path: str, heavy: int, random: int) -> list[Any]:
    """Return the ids with most pairs, those with the largest values, and some picked by a hash."""
    with duckdb.connect() as connection:
        by_pairs = f"SELECT id FROM '{path}' GROUP BY id ORDER BY count(*) DESC, id LIMIT {heavy}"
        by_value = f"SELECT id FROM '{path}' GROUP BY id ORDER BY sum(observation) DESC, id LIMIT {heavy}"
        by_chance = f"SELECT id FROM '{path}' GROUP BY id ORDER BY md5(CAST(id AS VARCHAR)) LIMIT {random}"
        return [row[0] for query in (by_pairs, by_value, by_chance) for row in connection.execute(query).fetchall()]


def worst_unit(table: pa.Table) -> pa.Table:
    """Invent a unit with a million rows over every frequent feature and label, with huge values."""
    with duckdb.connect() as connection:
        connection.register("rows", table)
        return connection.sql(
            "SELECT (SELECT max(id) FROM rows) || 'x' AS id, f.feature, l.partition, 1000000 AS observation "
            "FROM (SELECT DISTINCT feature FROM rows USING SAMPLE 4000) f, (SELECT DISTINCT partition FROM rows LIMIT 25) l, range(10)"
        ).to_arrow_table()


def check(name: str, path: str, counts: tuple[int, int]) -> list[dict[str, Any]]:
    """Replay one set and return a row for each plan: how close the worst unit came to each bound."""
    with duckdb.connect() as connection:
        table: pa.Table = connection.sql(
            f"SELECT CAST(id AS VARCHAR) AS id, feature, partition, CAST(observation AS BIGINT) AS observation FROM '{path}'"
        ).to_arrow_table()
    setting, removed = SETS[name], [str(unit) for unit in units(path, *counts)]
    results = []
    for strategy in ("scale", "sample"):
        for mechanism in ("laplace", "gaussian"):
            bounds = ddpmi.Bounds(**setting["bounds"], strategy=strategy)
            plan = ddpmi.Plan(budget=ddpmi.Budget(1, 1e-7), bounds=bounds, mechanism=mechanism)

            def sums(rows: pa.Table, plan: ddpmi.Plan = plan) -> dict[str, pa.Table]:
                return exact_sums(
                    ddpmi.observe(rows, unit="id", feature="feature", label="partition", value=setting["value"]), plan
                )

            whole = sums(table)
            replays = [
                moved_between(sums(pa.concat_tables([table, worst_unit(table).cast(table.schema)])), whole, plan)
            ]
            for unit in removed:
                rest = table.filter(pa.compute.not_equal(table.column("id"), unit))
                replays.append(moved_between(whole, sums(rest), plan))
            closest: dict[str, float] = {}
            for moved in (one for replay in replays for one in replay):
                used = (
                    moved.l1 / moved.allowed_l1
                    if moved.allowed_l1
                    else (moved.l2_squared / (moved.allowed_l2_squared or 1)) ** 0.5
                )
                closest[moved.table] = max(closest.get(moved.table, 0.0), used)
            within = all(one.within for replay in replays for one in replay)
            results.append(
                {
                    "data": name,
                    "strategy": strategy,
                    "mechanism": mechanism,
                    "units": len(replays),
                    "within": within,
                    "used": closest,
                }
            )
            print(f"{name:<16}{strategy:<8}{mechanism:<10}{len(replays):>6} units  within: {within}  ", end="")
            print("  ".join(f"{table} {share:.3f}" for table, share in closest.items()), flush=True)
    return results


def main() -> None:
    """Print a table and write JSON; fail if any unit moved a sum too far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--heavy", type=int, default=2)
    parser.add_argument("--random", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    print("used: the largest share of its declared norm that any unit took\n")
    results = [
        row
        for name in SETS
        for row in check(name, str(arguments.folder / f"{name}.parquet"), (arguments.heavy, arguments.random))
    ]
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": results}, indent=2) + "\n")
    if not all(row["within"] for row in results):
        raise SystemExit("a unit moved a sum further than declared")


if __name__ == "__main__":
    main()
