"""What does a release cost where the data is in PostgreSQL? Inside the server, and with all rows read out, against plain SQL.

    python bench/bench_postgres.py postgresql://user@host/db words.parquet --rows 500000 2000000 5000000

The first rows of the file are loaded into tables of a schema of its own, which is dropped at the end. Each table has a
primary key over (unit, feature, label), and a twin without one. Each release runs in a process of its own, with the whole
of its time, ledger, rehearsal and folder included. "plain" is ``SELECT feature, label, count(*) ... GROUP BY`` into a
temporary table of the same server, "plain distinct" the same over distinct rows. Rows and bytes are counted where batches
leave the driver. Peak memory is that of the process, less what it has after its imports.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import tempfile
import time
from pathlib import Path
from typing import Any

SCHEMA = "ddpmi_bench"
#: A link of 100 Mbit/s.
LINK_BYTES_PER_SECOND = 100e6 / 8
COLUMNS = ("unit", "feature", "label")
PAIRS = 150


def connected(address: str) -> Any:
    """Connect, each statement in its own transaction."""
    from adbc_driver_postgresql import dbapi

    return dbapi.connect(address, autocommit=True)


def load(address: str, file: str, names: list[str], rows: int) -> None:
    """Make the table of this many rows, and its twin with a primary key."""
    import pyarrow.dataset as ds

    with connected(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        left = rows
        for batch in ds.dataset(file).to_batches(columns=names):
            piece = batch.slice(0, left).rename_columns(list(COLUMNS))
            cursor.adbc_ingest(f"bare_{rows}", piece, mode="create_append", db_schema_name=SCHEMA)
            left -= piece.num_rows
            if left == 0:
                break
        listed = ", ".join(COLUMNS)
        cursor.execute(f"CREATE TABLE {SCHEMA}.keyed_{rows} (LIKE {SCHEMA}.bare_{rows})")
        cursor.execute(f"INSERT INTO {SCHEMA}.keyed_{rows} SELECT DISTINCT {listed} FROM {SCHEMA}.bare_{rows}")
        cursor.execute(f"ALTER TABLE {SCHEMA}.keyed_{rows} ADD PRIMARY KEY ({listed})")
        for table in ("bare", "keyed"):
            cursor.execute(f"ANALYZE {SCHEMA}.{table}_{rows}")


def plain(address: str, rows: int, *, distinct: bool) -> float:
    """Return the seconds of the query that is not private."""
    source = f"{SCHEMA}.keyed_{rows}"
    if distinct:
        source = f"(SELECT DISTINCT unit, feature, label FROM {SCHEMA}.bare_{rows}) AS once"
    with connected(address) as connection, connection.cursor() as cursor:
        cursor.execute("SET work_mem = '64MB'")
        start = time.perf_counter()
        cursor.execute(
            f"CREATE TEMP TABLE counted AS SELECT feature, label, count(*) AS n FROM {source} GROUP BY feature, label"
        )
        return time.perf_counter() - start


def counts(address: str, rows: int) -> dict[str, int]:
    """Return how many keys the table has."""
    with connected(address) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(DISTINCT feature), count(DISTINCT label) FROM "
            f"(SELECT DISTINCT feature, label FROM {SCHEMA}.keyed_{rows}) AS pairs"
        )
        pairs, features, labels = cursor.fetchone()
    return {"pairs": pairs, "features": features, "labels": labels}


def peak_kb() -> int:
    """Return the peak of this process's memory. Not by getrusage, which counts that of the process before exec too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]


def measured(case: dict[str, Any]) -> dict[str, Any]:
    """Release once, in this process."""
    import ddpmi
    from ddpmi.engines.postgres.sessions import Session

    seen = {"rows": 0, "bytes": 0}
    stream = Session.stream

    def counting(session: Session, query: str) -> Any:
        for batch in stream(session, query):
            seen["rows"] += batch.num_rows
            seen["bytes"] += batch.nbytes
            yield batch

    Session.stream = counting  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory() as folder:
        ledger = ddpmi.Ledger(f"{folder}/ledger", limit=ddpmi.Budget(10, 1e-5))
        plan = ddpmi.Plan(budget=ddpmi.Budget(1, 1e-7), bounds=ddpmi.Bounds(pairs=PAIRS))
        conf = {"stream": "yes"} if case["way"] == "streamed" else {}
        start, before = time.perf_counter(), peak_kb()
        obs = ddpmi.observe(case["address"], table=f"{SCHEMA}.{case['table']}", conf=conf)
        found = ddpmi.release(obs, plan, ledger=ledger, to=f"{folder}/x.release")
        seconds = time.perf_counter() - start
    return {
        "seconds": round(seconds, 2),
        "rows_fetched": seen["rows"],
        "bytes_fetched": seen["bytes"],
        "memory_mb": round((peak_kb() - before) / 1024, 1),
        "released_pairs": found.tables.count("pairs"),
    }


def apart(case: dict[str, Any]) -> dict[str, Any]:
    """Measure in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (case,))


def of_size(address: str, rows: int) -> dict[str, Any]:
    """Measure everything for one number of rows; the plain queries run before and after, and the faster time counts."""
    first = [plain(address, rows, distinct=distinct) for distinct in (False, True)]
    ways = {
        "inside, unique index": ("keyed", "inside"),
        "inside": ("bare", "inside"),
        "streamed": ("keyed", "streamed"),
    }
    found = {
        name: apart({"address": address, "table": f"{table}_{rows}", "way": way}) for name, (table, way) in ways.items()
    }
    again = [plain(address, rows, distinct=distinct) for distinct in (False, True)]
    base, distinct = (min(pair) for pair in zip(first, again, strict=True))
    streamed = found["streamed"]
    streamed["link_seconds"] = round(streamed["bytes_fetched"] / LINK_BYTES_PER_SECOND, 2)
    return {
        "rows": rows,
        **counts(address, rows),
        "plain_seconds": round(base, 2),
        "plain_distinct_seconds": round(distinct, 2),
        "ratio_unique": round(found["inside, unique index"]["seconds"] / base, 2),
        "ratio_distinct": round(found["inside"]["seconds"] / distinct, 2),
        "ways": found,
    }


def shown(case: dict[str, Any]) -> None:
    """Print one size as a table."""
    print(f"{case['rows']:,} rows, {case['pairs']:,} pairs; plain {case['plain_seconds']} s", end="")
    print(f" (x{case['ratio_unique']}), plain distinct {case['plain_distinct_seconds']} s (x{case['ratio_distinct']})")
    for name, way in case["ways"].items():
        link = f", {way['link_seconds']} s over a link of 100 Mbit/s" if "link_seconds" in way else ""
        print(
            f"  {name:22} {way['seconds']:8} s  {way['rows_fetched']:>10,} rows  {way['bytes_fetched']:>12,} bytes"
            f"  {way['memory_mb']:>7} MB{link}"
        )


def main() -> None:
    """Load, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("data")
    parser.add_argument("--columns", nargs=3, default=list(COLUMNS), help="unit, feature and label in the file")
    parser.add_argument("--rows", nargs="+", type=int, default=[500_000, 2_000_000, 5_000_000])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "postgres.json")
    given = parser.parse_args()
    cases = []
    try:
        with connected(given.address) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('server_version')")
            version = cursor.fetchone()[0]
        for rows in given.rows:
            load(given.address, given.data, given.columns, rows)
            cases.append(of_size(given.address, rows))
            shown(cases[-1])
            about = {"python": platform.python_version(), "cpus": os.cpu_count(), "postgres": version}
            given.out.write_text(json.dumps({"about": about, "pairs_per_unit": PAIRS, "cases": cases}, indent=2) + "\n")
    finally:
        with connected(given.address) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


if __name__ == "__main__":
    main()
