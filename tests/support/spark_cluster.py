"""A real Spark cluster on this machine: one master and two workers, each a process of its own, from the pip package."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.spark_local import need_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

SRC = Path(__file__).resolve().parents[2] / "src"
HOST = "127.0.0.1"
PATIENCE = 90.0  # seconds for a process to come up on a busy machine
_EXECUTOR = r"CoarseGrainedExecutorBackend.*--worker-url spark://Worker@[\d.]+:(\d+)"
_READY = {"master": "I have been elected leader", "worker": "Successfully registered with master"}


# Runs in every Python process that Spark starts for its tasks. Noise is drawn, and then, while there is a file "hold"
# and no file "go", the task waits before it hands the noise on, and says which executor it belongs to.
_HOLD = """
import os, pathlib, time
import ddpmi.privacy.noise as noise

place, executor, draw = pathlib.Path({place!r}), os.getppid(), noise.add_noise

def add_noise(*given):
    drawn = draw(*given)
    while (place / "hold").exists() and not (place / "go").exists():
        (place / f"drawing-{{executor}}").touch()
        time.sleep(0.05)
    return drawn

noise.add_noise = add_noise
"""


def environment(folder: Path) -> dict[str, str]:
    """Return what a process of the cluster needs: this Python, these sources, the loopback address."""
    return os.environ | {
        "PYTHONPATH": str(SRC),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster."""

    folder: Path
    """Logs and work folders."""
    url: str
    """Address of the master."""

    def executors(self) -> list[int]:
        """Return the ids of the processes that run tasks."""
        ports = {_port_in(self.folder / f"worker-{number}.log") for number in range(2)}
        lines = ((pid, re.search(_EXECUTOR, line)) for pid, line in _processes())
        return [pid for pid, found in lines if found is not None and found[1] in ports]

    def hold(self) -> None:
        """Let the tasks that draw noise from now on wait with it in their hands."""
        for file in ("go", *(marker.name for marker in self.folder.glob("drawing-*"))):
            (self.folder / file).unlink(missing_ok=True)
        (self.folder / "hold").touch()

    def go(self) -> None:
        """Let them go on."""
        (self.folder / "go").touch()

    def kill_while_drawing(self) -> bool:
        """Kill one executor that has drawn noise and not handed it on, as a failing machine would: without a word."""
        running = self.executors()
        for marker in self.folder.glob("drawing-*"):
            victim = int(marker.name.removeprefix("drawing-"))
            if victim in running:
                os.kill(victim, signal.SIGKILL)
                return True
        return False

    def logs(self) -> str:
        """Return the ends of all logs."""
        parts = (f"== {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in self.folder.glob("*.log"))
        return "\n".join(parts)


def _port_in(log: Path) -> str:
    found = re.search(r"Starting Spark worker [\d.]+:(\d+)", log.read_text(errors="replace")) if log.exists() else None
    return "" if found is None else found[1]


def _processes() -> list[tuple[int, str]]:
    """List processes with their command lines."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append(
                (int(place.name), (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            )
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Ask the kernel to end this process with the one that started it, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _start(kind: str, name: str, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["nice", str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}.{kind.title()}", *words],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(folder) | {"SPARK_HOME": str(home), "PYTHONPATH": f"{SRC}{os.pathsep}{folder / 'hooks'}"},
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it calls one function of the C library
        )
    until = time.monotonic() + PATIENCE
    while _READY[kind] not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            _stop(process)
            raise RuntimeError(f"{name} did not start: {log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process with everything that it started and that stayed in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Start a cluster; it is always stopped afterwards, and its logs stay in the folder."""
    need_spark()
    port = _free_port()
    url = f"spark://{HOST}:{port}"
    started: list[subprocess.Popen[bytes]] = []
    (folder / "hooks").mkdir()
    (folder / "hooks" / "sitecustomize.py").write_text(_HOLD.format(place=str(folder)))
    address = ("--host", HOST, "--webui-port", "0")
    cluster = Cluster(folder=folder, url=url)
    try:
        started.append(_start("master", "master", folder, *address, "--port", str(port)))
        for number in range(2):
            work = str(folder / f"work-{number}")
            words = (*address, "-c", "1", "-m", "1g", "--work-dir", work, url)
            started.append(_start("worker", f"worker-{number}", folder, *words))
        yield cluster
    finally:
        stray = cluster.executors()
        for process in reversed(started):
            _stop(process)
        for pid in stray:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
