"""Charts: what is written, what a missing extra says, and that names stay text."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import pytest

from ddpmi.errors import InputError, MissingExtra
from ddpmi.rankings import charts
from ddpmi.rankings.comparisons import compare
from ddpmi.rankings.ranking import rank
from tests.support.fake_release import Counts, exact_release, private_release

HOSTILE = "<script>alert(1)</script>\x1b[31m"
COUNTS: Counts = {
    (HOSTILE, "</svg>"): 300,
    ("a", "</svg>"): 100,
    ("b & c", "y"): 600,
    (HOSTILE, "y"): 20,
    ("c" * 200, "y"): 50,
}


def test_a_ranking_is_drawn_best_first() -> None:
    """Bars carry the values of the rows, in the order of ranks, with their intervals."""
    ranking = rank(private_release(COUNTS))
    spec = ranking.plot(top=3).to_dict()
    (values,) = spec["datasets"].values()
    rows = ranking.top(3, per="all").to_dicts()
    assert [(v["mi"], v["mi_low"], v["mi_high"]) for v in values] == [
        (row["mi"], row["mi_low"], row["mi_high"]) for row in rows
    ]
    assert spec["layer"][0]["encoding"]["y"]["sort"] == [v["name"] for v in values]
    assert spec["title"]["subtitle"][0] == ranking.promise


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_files_are_written_once(suffix: str, tmp_path: Path) -> None:
    """Each format is written, nothing is overwritten, and the bytes are of that format."""
    found = compare(exact_release(COUNTS), private_release(COUNTS))
    path = found.plot(tmp_path / f"errors{suffix}")
    start = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!doctype html>"}[suffix]
    assert path.read_bytes().startswith(start)
    with pytest.raises(InputError, match="exists already"):
        found.plot(path)
    assert found.plot(path, overwrite=True) == path


def test_names_stay_text(tmp_path: Path) -> None:
    """Tags in names are escaped, control characters shown as escapes, long names cut; pages hold no script."""
    page = rank(private_release(COUNTS)).plot(tmp_path / "ranking.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "c" * 100 not in page
    assert page.count("</svg>") == 1
    compared = compare(exact_release(COUNTS), private_release(COUNTS)).plot(tmp_path / "compared.svg")
    assert compared.read_text(encoding="utf-8").count("</svg>") == 1


def test_a_comparison_shows_bands_overlaps_and_labels(tmp_path: Path) -> None:
    """The picture names every band and label, says how much was kept, and carries the stamp of exact sums."""
    counts = {(f"f{f}", f"l{label}"): 1 + (f * 7 + label * 3) % 50 for f in range(60) for label in range(25)}
    picture = compare(exact_release(counts), private_release(counts)).plot(tmp_path / "c.svg").read_text("utf-8")
    texts = re.findall(r">([^<>]+)</text>", picture)
    assert {"1\u201310", "11\u2013100", "101\u20131,000", "first 10", "first 1,000", "100% kept"} <= set(texts)
    assert "NOT PRIVATE" in picture
    assert "the 20 labels with most of the best pairs" in picture


def test_an_empty_comparison_can_be_drawn(tmp_path: Path) -> None:
    """A release without pairs has an empty chart, not an error."""
    nothing = compare(exact_release(COUNTS), nothing_release())
    assert nothing.plot(tmp_path / "nothing.svg").stat().st_size > 0
    assert compare(nothing_release(), nothing_release()).plot(tmp_path / "both.svg").stat().st_size > 0


def nothing_release() -> Any:
    """Return a release of no pairs."""
    base = private_release(COUNTS)
    none = {name: getattr(base, name).slice(0, 0) for name in ("pairs", "features", "labels")}
    return type(base)(total=base.total, receipt=base.receipt, **none)


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    """A chart is a picture or a page."""
    with pytest.raises(InputError, match="suffix"):
        rank(private_release(COUNTS)).plot(tmp_path / "ranking.pdf")


def test_a_missing_extra_has_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Altair the error says what to install."""
    plain = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "altair":
            raise ImportError
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"ddpmi\[report\]"):
        charts.check_extra()
