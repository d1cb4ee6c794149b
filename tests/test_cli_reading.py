"""The command line reads releases: scores, comparisons and reports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

import ddpmi
from cli_fixtures import (
    Place,
    drinks,
    told_clearly,
)
from ddpmi import cli_show, measures
from ddpmi.cli_rank import Score
from ddpmi.releases import Release


@pytest.fixture(scope="session", name="two_releases")
def make_two_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two exact releases with pairs in common; each test takes a copy."""
    folder = tmp_path_factory.mktemp("releases")
    rows = pa.Table.from_pylist([dict(zip(("unit", "feature", "label"), row, strict=False)) for row in drinks()])
    for name, where in (("a", "true"), ("b", "feature <> 'Tea' OR label < '2022'")):
        ddpmi.exact(ddpmi.observe(rows, where=where), to=folder / name)
    return folder


@pytest.fixture(name="pair")
def make_pair(place: Place, two_releases: Path) -> Place:
    """Add the releases a and b."""
    shutil.copytree(two_releases, place.folder, dirs_exist_ok=True)
    return place


def test_the_scores_are_those_of_the_library() -> None:
    """The choices of --score are the library's list."""
    assert get_args(Score) == measures.NAMES


@pytest.mark.parametrize("name", measures.NAMES)
def test_scores(pair: Place, name: str) -> None:
    """--score gives the rows of the library, best first, with their score."""
    ran = pair.run("rank", "a", "--score", name, "--format", "json")
    assert json.loads(ran.out) == ddpmi.rank(Release.load("a"), score=name).to_dicts()
    shown = pair.run("rank", "a", "--score", name, "--top", "1").out
    assert "score" in shown.splitlines()[1].split()


def test_scores_on_a_narrow_terminal(pair: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with a score still fits into 80 columns."""
    monkeypatch.setattr(cli_show, "_width", lambda: 80)
    assert max(map(len, pair.run("rank", "a", "--score", "log_odds").out.splitlines()[1:])) <= 80


@pytest.mark.parametrize(
    ("words", "keywords"),
    [
        ((), {}),
        (("--top", "3"), {"top": 3}),
        (("--top", "2", "--by", "private"), {"top": 2, "by": "private"}),
        (("--top", "2", "--cut"), {"top": 2, "cut": True}),
    ],
)
def test_compare(pair: Place, words: tuple[str, ...], keywords: dict) -> None:
    """The comparison is that of the library, A the reference, as JSON and as text."""
    expected = ddpmi.compare(Release.load("a"), Release.load("b"), **keywords)
    ran = pair.run("compare", "a", "b", *words, "--format", "json")
    assert (ran.code, json.loads(ran.out)) == (0, expected.to_dict())
    assert expected.to_dict() != ddpmi.compare("b", "a", **keywords).to_dict()
    assert "NOT PRIVATE" in ran.err
    told = pair.run("compare", "a", "b", *words)
    assert (told.code, told.out, told.err) == (0, expected.to_text() + "\n", "")


def test_compare_with_a_private_release(pair: Place) -> None:
    """A private release is compared with another one without a stamp."""
    for folder in ("one", "two"):
        assert pair.release(output=folder).code == 0
    ran = pair.run("compare", "one", "two", "--format", "json")
    assert (ran.code, ran.err, "notice" in json.loads(ran.out)) == (0, "", False)


@pytest.mark.parametrize(
    "words",
    [
        ("a", "b", "--top", "0"),
        ("a", "b", "--by", "a"),
        ("a", "b", "--format", "csv"),
        ("a", "visits.csv"),
        ("no", "b"),
    ],
)
def test_compare_refuses(pair: Place, words: tuple[str, ...]) -> None:
    """A folder that is no release, and options that mean nothing, end with exit 2."""
    ran = pair.run("compare", *words)
    assert (ran.code, told_clearly(ran)) == (2, True), ran.err


def test_report(pair: Place) -> None:
    """The page is that of the library, stamped on stderr too."""
    ran = pair.run("report", "a", "-o", "page.html", "--top", "3", "--title", "Drinks <by> day")
    assert (ran.code, ran.out, "NOT PRIVATE" in ran.err) == (0, "", True)
    ddpmi.report(ddpmi.rank(Release.load("a")), "other.html", top=3, title="Drinks <by> day")
    assert Path("page.html").read_bytes() == Path("other.html").read_bytes()


@pytest.mark.parametrize(
    "words",
    [("-o", "visits.csv"), ("-o", "no/page.html"), ("-o", "new.html", "--top", "0"), ("-o", "x", "--top", "101")],
)
def test_report_refuses(pair: Place, words: tuple[str, ...]) -> None:
    """A taken name, a missing folder and more rows than a page shows end with exit 2 and write nothing."""
    before = pair.names()
    ran = pair.run("report", "a", *words)
    assert (ran.code, told_clearly(ran), pair.names()) == (2, True, before), ran.err


@pytest.mark.parametrize(
    ("words", "keywords"),
    [(("--sample-rate", "0.5"), {"sample_rate": "0.5"}), (("--selection", "sips"), {"selection": "sips"})],
)
def test_sampling_and_selection_are_those_of_the_library(place: Place, words: tuple[str, ...], keywords: dict) -> None:
    """The flags make the plan that Python makes, and a release with them runs."""
    assert place.release(*words).code == 0
    receipt = json.loads((place.folder / "visits.release" / "receipt.json").read_text())
    expected = ddpmi.Plan(budget=ddpmi.Budget("1", "1e-6"), bounds=ddpmi.Bounds(pairs=2), **keywords)
    assert receipt["plan"] == expected.to_dict()


@pytest.mark.parametrize("words", [("--sample-rate", "0"), ("--sample-rate", "1.5"), ("--selection", "x")])
def test_wrong_sampling_and_selection_are_refused(place: Place, words: tuple[str, ...]) -> None:
    """Exit 2, and nothing is charged."""
    assert place.release(*words).code == 2
    assert place.charges() == []
