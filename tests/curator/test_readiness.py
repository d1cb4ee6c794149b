"""Before the charge: what cannot work is refused, nothing is charged, and no row is read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import ddpmi
from ddpmi import Bounds, Budget, DdpmiError, InputError, Ledger, MissingExtra, Plan, ReleaseError
from ddpmi.curator import door, readiness
from ddpmi.curator.readiness import check_place, rehearse
from ddpmi.engines import lakes
from ddpmi.engines.duckdb.engine import DuckDBEngine
from ddpmi.releases import room
from tests.support.release_fixtures import states, two_groups

PLAN = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3))
SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "test.ledger", limit=Budget(10, 1e-2))


def refused(ledger: Ledger, to: str | Path, **conf: object) -> DdpmiError:
    """Release to a folder, expect a refusal, and check that nothing was charged and that nothing was left."""
    before = sorted(ledger.path.parent.iterdir())
    with pytest.raises(DdpmiError, match="Hint:") as caught:
        ddpmi.release(ddpmi.observe(two_groups(40), conf=conf), PLAN, ledger=ledger, to=to)
    assert (states(ledger), sorted(ledger.path.parent.iterdir())) == ([], before)
    return caught.value


@pytest.mark.parametrize("name", ["x" * 256, "ä" * 128, "a\0b", "x" * 300, "no such folder/out"])
def test_a_name_that_no_folder_can_have_is_refused(ledger: Ledger, tmp_path: Path, name: str) -> None:
    """Too long, a NUL, or no parent: refused before the charge."""
    assert isinstance(refused(ledger, tmp_path / name), ReleaseError)


@pytest.mark.skipif(sys.platform != "linux", reason="another system has no /proc")
def test_a_folder_that_cannot_be_written_is_refused(ledger: Ledger) -> None:
    """The permissions may say that a folder is writable; a file is tried."""
    assert os.access("/proc", os.R_OK)
    assert isinstance(refused(ledger, "/proc/out.release"), ReleaseError)


def test_a_full_disk_is_refused(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with less room than a small release needs is full."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=4096, f_blocks=9))
    assert "full" in str(refused(ledger, tmp_path / "out"))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096, f_blocks=0))
    room.check_room(tmp_path, hint="")


@pytest.mark.parametrize(
    "conf",
    [
        {"memory_limit": "1MB"},
        {"memory_limit": "2MB"},
        {"memory_limit": "4MB"},
        {"temp_directory": "/proc"},
        {"temp_directory": "no such folder"},
        {"threads": "0"},
        {"threads": "many"},
        {"memory_limit": "much"},
    ],
)
def test_a_setting_that_cannot_work_is_refused(ledger: Ledger, tmp_path: Path, conf: dict[str, str]) -> None:
    """Memory limits are tried on made-up rows, and a temporary folder by writing a file."""
    assert isinstance(refused(ledger, tmp_path / "out", **conf), InputError)


@pytest.mark.parametrize("where", ["no_such = 1", "feature LIKE", "feature + 1", "", "1"])
def test_a_broken_where_is_refused(ledger: Ledger, where: str) -> None:
    """An expression that cannot be parsed, bound or computed stops before the charge."""
    with pytest.raises(InputError, match="Hint:"):
        ddpmi.release(ddpmi.observe(two_groups(40), where=where), PLAN, ledger=ledger)
    assert states(ledger) == []


def test_a_file_that_is_gone_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    """The data was named, then its file was removed: nothing is charged."""
    file = tmp_path / "rows.csv"
    file.write_text("unit,feature,label\n")
    obs = ddpmi.observe(file)
    file.unlink()
    with pytest.raises(InputError, match="gone"):
        ddpmi.release(obs, PLAN, ledger=ledger)
    assert states(ledger) == []


def test_a_missing_driver_is_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records at an address need an extension, which no schema asks for: the rehearsal loads it."""
    monkeypatch.setenv("HOME", "/nonexistent")
    obs = ddpmi.observe("https://example.org/rows.jsonl", unit="u", feature="f", label="l")
    with pytest.raises(InputError, match="httpfs"):
        ddpmi.release(obs, PLAN, ledger=ledger)
    assert states(ledger) == []


def test_a_missing_package_is_refused(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads a lake and what writes a release is loaded before the charge."""
    monkeypatch.setitem(lakes._DRIVERS, "delta", ("no_such_package",))
    with pytest.raises(MissingExtra, match="no_such_package"):
        lakes.Lake(kind="delta", path="").check_driver()
    monkeypatch.setattr(readiness, "_WRITERS", ("no_such_package",))
    assert isinstance(refused(ledger, tmp_path / "out"), MissingExtra)


PLANS = {
    "plain": PLAN,
    "grid": Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), grid=True),
    "other": Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), marginals="other"),
    "units": Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), space="units"),
    "every": Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), thresholds="every"),
    "complete": Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), complete=True),
    "sample": Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3, strategy="sample")),
    "sips": Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), mechanism="gaussian", selection="sips"),
    "listed": Plan(
        budget=Budget(1, 1e-4),
        bounds=Bounds(pairs=3),
        public_labels=["a", "b"],
        public_features=[f"f{n}" for n in range(10_000)],
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_every_kind_of_plan_can_be_rehearsed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rehearsal opens made-up rows alone, and a plan that works passes it."""
    obs = ddpmi.observe(two_groups(40), where="feature <> 'x'")
    opened = DuckDBEngine.__init__

    def spy(self, source, columns, **more: object) -> None:
        assert source.made_up
        opened(self, source, columns, **more)

    monkeypatch.setattr(DuckDBEngine, "__init__", spy)
    rehearse(obs, [PLANS[name]])


def test_columns_of_every_type_can_be_rehearsed() -> None:
    """Made-up cells have the types of the data's columns, and other types are NULL."""
    table = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "feature": pa.array([True]),
            "label": pa.array([0], pa.date32()),
            "amount": pa.array([1.5]),
            "items": pa.array([["a"]]),
            "seen": pa.array([0], pa.timestamp("us")),
        }
    )
    where = "len(items) > 1 AND year(seen) > 2000"
    plan = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3, clip=5))
    rehearse(ddpmi.observe(table, value="amount", where=where), [plan])
    rehearse(ddpmi.observe(table).label_by(feature="true"), [Plan.from_dict(PLAN.to_dict())])


def test_of_four_releases_at_once_one_is_charged(tmp_path: Path, ledger: Ledger, monkeypatch) -> None:
    """Threads that write one folder: the first takes its name, the others are refused before they are charged."""
    gate, ends = threading.Barrier(4), []
    real = door.check_place

    def together(target: Path) -> None:
        real(target)
        gate.wait(timeout=60)

    def run() -> None:
        try:
            ddpmi.release(ddpmi.observe(two_groups(40)), PLAN, ledger=Ledger(ledger.path), to=tmp_path / "out")
            ends.append("released")
        except ReleaseError:
            ends.append("refused")

    monkeypatch.setattr(door, "check_place", together)
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(ends), states(ledger)) == (["refused"] * 3 + ["released"], ["released"])


def test_of_four_processes_at_once_one_is_charged(tmp_path: Path, ledger: Ledger) -> None:
    """Processes that write one folder: one succeeds, and three are refused and not charged."""
    rows = "".join(f"u{unit},f{unit % 3},l{unit % 2}\n" for unit in range(3000))
    (tmp_path / "rows.csv").write_text(f"unit,feature,label\n{rows}")
    words = [
        "release",
        "rows.csv",
        "--epsilon",
        "1",
        "--delta",
        "1e-4",
        "--pairs",
        "3",
        "--ledger",
        "test.ledger",
        "-o",
        "out",
    ]
    command = [sys.executable, "-m", "ddpmi", *words]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    all_ = [subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL) for _ in range(4)]
    codes = sorted(process.wait(120) for process in all_)
    assert (codes[0], 0 in codes[1:], states(ledger)) == (0, False, ["released"])


def test_one_folder_for_two_plans_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    """Two releases of one call cannot share a folder."""
    with pytest.raises(InputError, match="twice"):
        ddpmi.release_many(
            ddpmi.observe(two_groups(40)), [PLAN, PLAN], ledger=ledger, to=[tmp_path / "out", tmp_path / "." / "out"]
        )
    assert states(ledger) == []


def test_a_place_that_works_is_left_as_it_was(tmp_path: Path) -> None:
    """The check leaves no file behind."""
    check_place(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
