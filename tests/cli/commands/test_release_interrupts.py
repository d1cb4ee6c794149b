"""Ctrl-C and other sudden ends: a charge stays and is reported, and nothing is half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi.ledger.ledger import Ledger
from tests.support.cli_fixtures import BUDGET, PAIRS, SRC, Place
from tests.support.spark_local import SETTINGS, need_spark

if TYPE_CHECKING:
    from collections.abc import Callable

# Restores Ctrl-C, which shells switch off for programs in the background.
INTERRUPTIBLE = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from ddpmi.cli import main
sys.exit(main())"""


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something holds; the limit only ends a run that hangs."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def check_ctrl_c(place: Place, working: str, pause: float, *words: str) -> None:
    """Release two million rows, and press Ctrl-C a moment after the folder appears that the engine works in."""
    row = np.arange(2_000_000)
    columns = {"unit": row // 10, "feature": row % 1000, "label": row // 10 % 7}
    pq.write_table(pa.table(columns), place.folder / "big.parquet")
    before = place.names()
    release = ("release", "big.parquet", *BUDGET, *PAIRS, *place.paid("visits.release"))
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *release, *words],
        cwd=place.folder,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        wait_for(lambda: place.charges() == ["charged"] or run.poll() is not None)
        # The engine's folder is back: rows are being read, for many times as long as the pause.
        wait_for(lambda: any(place.folder.glob(working)) or run.poll() is not None)
        time.sleep(pause)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()
    assert (run.returncode, out) == (130, ""), err
    assert "Interrupted." in err
    assert "The ledger was charged" in err
    assert "Traceback" not in err
    assert (place.names(), place.charges()) == (before, ["abandoned"])


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c(place: Place) -> None:
    """Ctrl-C while rows are read: exit 130, the charge is reported and stays, and nothing is half written."""
    slow = ("--strategy", "sample", "--conf", "threads=1", "--conf", f"temp_directory={place.folder}")
    check_ctrl_c(place, "ddpmi-*", 0.3, *slow)


@pytest.mark.spark
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_on_spark(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same while Spark works."""
    need_spark()
    settings = SETTINGS | {"spark.local.dir": str(tmp_path_factory.mktemp("spark"))}
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    check_ctrl_c(place, ".ddpmi-*.partial", 1.0, "--engine", "spark", "--master", "local[1]", *words)


def test_ctrl_c_before_the_charge(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C before the charge reports that nothing was charged."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "charge_many", interrupted)
    ran = place.release()
    assert (ran.code, place.charges()) == (130, [])
    assert "The ledger was not charged." in ran.err


def test_an_error_right_after_the_charge_reports_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that stops between the charge and its first row reports the new charge."""
    whole = Ledger.charge_many

    def charged_then_interrupted(ledger: Ledger, charges: list[object]) -> None:
        whole(ledger, charges)  # type: ignore[arg-type]  # passed on as it came
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "charge_many", charged_then_interrupted)
    ran = place.release()
    assert (ran.code, place.charges()) == (130, ["charged"])
    assert "new charge" in ran.err
