"""Release and rank on a cluster, with its own rows staying there.

    spark-submit examples/spark_job.py --data /shared/visits.parquet --unit user_id --feature site --label country \
        --epsilon 1 --delta 1e-7 --pairs 50 --ledger visits.ledger --release /shared/visits.release

The folder of the release must be seen by the driver and by all executors, and ddpmi must be installed where they run.
The ledger lives with the driver; make it once: ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

import ddpmi


def arguments() -> argparse.Namespace:
    """Read the command line; numbers that decide privacy stay text until the library reads them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "unit", "feature", "label", "epsilon", "delta", "ledger", "release"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--distinct", action="store_true", help="you declare distinct rows per unit, feature and label")
    parser.add_argument("--ranking", help="folder for the whole ranking, in Parquet")
    parser.add_argument("--top", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    """Release, rank where the pairs lie, print the best of each label."""
    asked = arguments()
    session = SparkSession.builder.appName("ddpmi").getOrCreate()
    rows = session.read.parquet(asked.data)
    obs = ddpmi.observe(rows, unit=asked.unit, feature=asked.feature, label=asked.label)
    plan = ddpmi.Plan(
        budget=ddpmi.Budget(asked.epsilon, asked.delta),
        bounds=ddpmi.Bounds(pairs=asked.pairs),
        distinct=asked.distinct,
    )
    ddpmi.release(obs, plan, ledger=ddpmi.Ledger(asked.ledger), to=asked.release)
    with ddpmi.rank_on_spark(asked.release, session=session) as ranking:
        if asked.ranking:
            ranking.save(asked.ranking)
        sys.stdout.write(f"{ranking.top(asked.top).collect().to_text(rows=100)}\n")
    session.stop()


if __name__ == "__main__":
    main()
