"""Working folders: private, locked while their process lives, removed after it, and never a folder of somebody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddpmi.releases.workplaces import LOCK, Taken, Workplace, leftovers

SRC = Path(__file__).resolve().parents[2] / "src"
HOLD = """import sys, time
from pathlib import Path
from ddpmi.releases.workplaces import Workplace
place = Workplace.at(Path(sys.argv[1])) if sys.argv[2] == "at" else Workplace.new(sys.argv[1], prefix="ddpmi-")
(place.folder / "sums").write_text("exact")
print(place.folder, flush=True)
time.sleep(600)"""


def killed_holder(where: Path, how: str) -> Path:
    """Let a process make a working folder, kill it, and return what it left."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(where), how],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert leftovers(folder.parent, prefix="ddpmi-") == [], "the folder of a living process was removed"
        with pytest.raises(Taken):
            Workplace.at(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return folder


def test_a_folder_is_private_and_goes_with_its_owner(tmp_path: Path) -> None:
    """Mode 0700, and nothing is left after the last use."""
    with Workplace.new(tmp_path, prefix="ddpmi-") as place:
        assert place.folder.stat().st_mode & 0o777 == 0o700
        (place.folder / "sub").mkdir()
        (place.folder / "sub" / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []
    Workplace.new(tmp_path, prefix="ddpmi-")  # collected at once
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Its folder stays while it lives, and is removed with its content at the next start."""
    folder = killed_holder(tmp_path, "new")
    assert (folder / "sums").exists()
    assert leftovers(tmp_path, prefix="ddpmi-") == [folder.name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_name_of_a_killed_process_is_free_again(tmp_path: Path) -> None:
    """A folder with a fixed name is taken over, empty."""
    folder = killed_holder(tmp_path / "ddpmi-fixed", "at")
    with Workplace.at(folder) as place:
        assert [entry.name for entry in place.folder.iterdir()] == [LOCK]


def test_folders_of_others_are_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the lock file, a link, a folder that others may enter, of another owner or machine: all stay."""
    (tmp_path / "ddpmi-plain").mkdir(mode=0o700)
    (tmp_path / "ddpmi-open").mkdir()
    (tmp_path / "ddpmi-open").chmod(0o755)
    (tmp_path / "ddpmi-open" / LOCK).touch()
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine" / LOCK).touch()
    (tmp_path / "ddpmi-link").symlink_to(tmp_path / "mine")
    (tmp_path / "ddpmi-file").write_text("x")
    (tmp_path / "ddpmi-far").mkdir(mode=0o700)
    (tmp_path / "ddpmi-far" / LOCK).write_text("another machine")
    before = sorted(tmp_path.rglob("*"))
    assert leftovers(tmp_path, prefix="ddpmi-") == []
    (tmp_path / "ddpmi-theirs").mkdir(mode=0o700)
    (tmp_path / "ddpmi-theirs" / LOCK).touch()
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: 12345)
        assert leftovers(tmp_path, prefix="ddpmi-") == []
    assert leftovers(tmp_path, prefix="ddpmi-") == ["ddpmi-theirs"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_lock_of_a_lost_file_is_worth_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that opened the lock file of a leftover, which another one removes and makes again, does not win."""
    from ddpmi.releases import workplaces

    folder, usual = tmp_path / "ddpmi-fixed", workplaces._lock
    held: list[Workplace] = []

    def late(handle: int) -> None:
        """Lock only after another process has removed the leftover and reserved the name itself."""
        monkeypatch.setattr(workplaces, "_lock", usual)
        (folder / LOCK).unlink()
        held.append(Workplace.at(folder))
        usual(handle)

    monkeypatch.setattr(workplaces, "_lock", late)
    with pytest.raises(Taken):
        Workplace.at(folder)
    held[0].remove()
    assert not folder.exists()
