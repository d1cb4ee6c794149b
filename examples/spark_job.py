"""Release and rank on a Spark cluster. The rows stay on the cluster.

    spark-submit examples/spark_job.py --data /shared/visits.parquet --unit user_id --feature site --label country \
        --epsilon 1 --delta 1e-7 --pairs 50 --ledger visits.ledger --release /shared/visits.release

The driver and all executors must see the folder of the release, and ddpmi must be installed where they run.
The ledger is a file of the driver. Make it once: ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

import ddpmi


def arguments() -> argparse.Namespace:
    """Read the command line. Epsilon and delta stay text, so that the library reads them exactly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "unit", "feature", "label", "epsilon", "delta", "ledger", "release"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--distinct", action="store_true", help="you declare one row per (unit, feature, label)")
    parser.add_argument("--ranking", help="folder for the whole ranking, in Parquet")
    parser.add_argument("--top", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    """Release, rank on the cluster, and print the best pairs of each label."""
    options = arguments()
    session = SparkSession.builder.appName("ddpmi").getOrCreate()
    rows = session.read.parquet(options.data)
    obs = ddpmi.observe(rows, unit=options.unit, feature=options.feature, label=options.label)
    plan = ddpmi.Plan(
        budget=ddpmi.Budget(options.epsilon, options.delta),
        bounds=ddpmi.Bounds(pairs=options.pairs),
        distinct=options.distinct,
    )
    ddpmi.release(obs, plan, ledger=ddpmi.Ledger(options.ledger), to=options.release)
    with ddpmi.rank_on_spark(options.release, session=session) as ranking:
        if options.ranking:
            ranking.save(options.ranking)
        sys.stdout.write(f"{ranking.top(options.top).collect().to_text(rows=100)}\n")
    session.stop()


if __name__ == "__main__":
    main()
