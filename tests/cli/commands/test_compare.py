"""`ddpmi compare`: numbers and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ddpmi
from ddpmi.releases.release import Release
from tests.support.cli_fixtures import Place, refused_clearly


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
    printed = pair.run("compare", "a", "b", *words)
    assert (printed.code, printed.out, printed.err) == (0, expected.to_text() + "\n", "")


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
    assert (ran.code, refused_clearly(ran)) == (2, True), ran.err


def test_compare_draws(place: Place) -> None:
    """The picture is a new file of a known kind; what cannot be drawn is refused before anything else."""
    place.release()
    drawn = place.run("compare", "visits.release", "visits.release", "--plot", "errors.svg")
    assert (drawn.code, "Drew errors.svg." in drawn.err) == (0, True)
    assert Path("errors.svg").read_text(encoding="utf-8").startswith("<svg")
    for file, said in (("errors.svg", "exists already"), ("errors.pdf", "suffix")):
        refused = place.run("compare", "visits.release", "visits.release", "--plot", file)
        assert (refused.code, said in refused.err) == (2, True)
