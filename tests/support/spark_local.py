"""One Spark session on two threads of this machine, shared by all tests of a process."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


#: Spark Connect then listens at a port of its own, so that tests may run beside each other.
FREE_PORT = {"SPARK_TESTING": "1"}


#: Tests start Java often and keep it for a minute: compiling what it runs for speed takes longer than it saves.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_START)
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", QUICK_START)


def need_spark() -> None:
    """Skip where Spark cannot run; in continuous integration a skip is a failure."""
    # Spark would start its Python processes with the first python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'ddpmi[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or newer on the PATH")


@pytest.fixture(scope="session", name="spark")
def make_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark once for all tests of this process."""
    need_spark()
    from pyspark.sql import SparkSession

    folder: Path = tmp_path_factory.mktemp("spark")
    settings = SETTINGS | {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    with warnings.catch_warnings():
        # What Spark's own start says about this machine is no matter of the tests.
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master("local[2]").appName("ddpmi tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session", name="connect")
def make_connect(spark: SparkSession) -> Iterator[SparkSession]:
    """A client of Spark Connect, whose server runs inside the session of all other tests: same files, same catalog."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    from pyspark.sql.connect.session import SparkSession as Client

    context = spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.port", "0")
    service = getattr(getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(context)
    client = Client.builder.remote(f"sc://127.0.0.1:{service.localPort()}").create()
    yield client
    client.client.close()  # the server goes with the session


@pytest.fixture(name="either", params=["classic", "connect"])
def make_either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Each kind of session in turn, also for paths and tables."""
    session: SparkSession = request.getfixturevalue("spark" if request.param == "classic" else "connect")
    monkeypatch.setattr("ddpmi.engines.spark.source.find_session", lambda _: session)
    return session


def slow(frame: DataFrame) -> DataFrame:
    """Pass rows on after a while, each task after another one: Spark tells of what ends at the same time late or never."""
    import time

    from pyspark import TaskContext

    def pause(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(0.5 + 0.3 * (TaskContext.get().partitionId() % 4))
        yield from batches

    return frame.mapInArrow(pause, frame.schema)
