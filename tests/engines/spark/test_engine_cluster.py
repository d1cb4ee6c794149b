"""Releases on a real cluster, whose executors are killed while they draw noise."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from tests.support import spark_cluster
from tests.support.cli_fixtures import visits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.spark_cluster import Cluster

pytestmark = pytest.mark.spark
PATIENCE = 240.0  # seconds; ten times what it takes on a quiet machine

# The driver: a process of its own, because a task that fails twice must end its work and not that of the tests.
DRIVER = """
import hashlib, json, sys
from pathlib import Path
import ddpmi

folder, master, name, failures = Path(sys.argv[1]), *sys.argv[2:]
settings = {
    "master": master, "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": failures, "spark.sql.files.maxPartitionBytes": "40000",
    "spark.sql.adaptive.coalescePartitions.enabled": "false", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
obs = ddpmi.observe(str(folder / "visits.parquet"), engine="spark", conf=settings)
plan = ddpmi.Plan(budget=ddpmi.Budget(1, 1e-6), bounds=ddpmi.Bounds(pairs=2))
ledger = ddpmi.Ledger(folder / "visits.ledger")

def say(**facts):
    print(json.dumps(facts), flush=True)

def digest(path):
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

try:
    found = ddpmi.release(obs, plan, ledger=ledger, to=folder / name, release_id=name)
except ddpmi.EngineError as error:
    say(error=error.message, notes=getattr(error, "__notes__", []))
else:
    before, first = digest(folder / name), found.pairs
    with ddpmi.rank_on_spark(folder / name) as ranking:
        best = ranking.top(1).collect().table.select(["label", "feature"]).to_pylist()
    again = found.pairs.equals(first) and digest(folder / name) == before
    ddpmi.exact(obs, bounds=ddpmi.Bounds(pairs=2), to=folder / "exact")
    say(again=again, best=best)
"""


@pytest.fixture(scope="module", name="cluster")
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a cluster for this module."""
    with spark_cluster.running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


class Driver:
    """The driver's process and what it says."""

    def __init__(self, cluster: Cluster, folder: Path, name: str, failures: int) -> None:
        self.log = cluster.folder / f"driver-{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, str(folder), cluster.url, name, str(failures)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=spark_cluster.environment(cluster.folder),
            )

    def answer(self) -> dict[str, Any]:
        """Wait for its words and its end."""
        try:
            out, _ = self.process.communicate(timeout=PATIENCE)
            return json.loads(out)
        except (subprocess.TimeoutExpired, ValueError):
            self.process.kill()
            self.process.communicate()
            pytest.fail(self.log.read_text(errors="replace")[-5000:])


@pytest.fixture(name="folder")
def make_folder(tmp_path: Path) -> Path:
    """Write small data and a ledger."""
    columns = zip(*visits(), strict=True)
    rows = {name: pa.array(column) for name, column in zip(("unit", "feature", "label"), columns, strict=True)}
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet", row_group_size=1000)
    ddpmi.Ledger(tmp_path / "visits.ledger", limit=ddpmi.Budget(4, 1e-5))
    return tmp_path


def answer_after_a_kill(cluster: Cluster, folder: Path, name: str, failures: int) -> dict[str, Any]:
    """Release, and kill an executor that holds noise which it drew and has not handed on."""
    cluster.hold()
    driver = Driver(cluster, folder, name, failures)
    end = time.monotonic() + PATIENCE
    while not cluster.kill_while_drawing():
        if driver.process.poll() is not None or time.monotonic() > end:
            break
        time.sleep(0.1)
    cluster.go()
    return driver.answer()


def states(folder: Path) -> list[tuple[str, str]]:
    """Return what the ledger says about its releases."""
    entries = ddpmi.Ledger(folder / "visits.ledger").status("default").entries
    return [(entry.release_id, entry.state) for entry in entries]


def test_a_release_outlives_an_executor(cluster: Cluster, folder: Path) -> None:
    """Killed amid its noise, an executor is replaced; the one release is read twice alike, and exact sums are DuckDB's."""
    answer = answer_after_a_kill(cluster, folder, "survives", 4)
    best = [{"label": label, "feature": f"only {label}"} for label in ("north", "south")]
    assert answer == {"again": True, "best": best}
    assert lost(cluster, "survives")
    assert len(ddpmi.rank(ddpmi.Release.load(folder / "survives"))) >= 2
    assert states(folder) == [("survives", "released")]
    here = ddpmi.exact(ddpmi.observe(folder / "visits.parquet"), bounds=ddpmi.Bounds(pairs=2))
    there = ddpmi.Release.load(folder / "exact")
    for name in ("pairs", "features", "labels", "total"):
        assert there.tables.scan(name).equals(here.tables.scan(name)), name
    assert {path.name for path in folder.iterdir()} == {
        "visits.parquet",
        "visits.ledger",
        "visits.ledger.head",
        "survives",
        "exact",
    }


def lost(cluster: Cluster, name: str) -> bool:
    """Tell whether the driver saw an executor go."""
    return "Lost executor" in (cluster.folder / f"driver-{name}.log").read_text(errors="replace")


def test_a_release_that_fails_is_charged_and_unreadable(cluster: Cluster, folder: Path) -> None:
    """Where Spark may not try again, a killed executor ends the release: it is paid for, and there is nothing to read."""
    answer = answer_after_a_kill(cluster, folder, "fails", 1)
    assert "Spark could not" in answer["error"]
    assert "the charge stays" in " ".join(answer["notes"])
    assert lost(cluster, "fails")
    assert states(folder) == [("fails", "abandoned")]
    with pytest.raises(ddpmi.InputError, match="is not a release"):
        ddpmi.Release.load(folder / "fails")
    assert {path.name for path in folder.iterdir()} == {"visits.parquet", "visits.ledger", "visits.ledger.head"}
