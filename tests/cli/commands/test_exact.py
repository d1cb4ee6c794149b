"""`ddpmi exact` sums exactly and marks everything NOT PRIVATE."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi.releases.release import Release
from tests.support.cli_fixtures import DAY_WORDS, DAYS, Place, tables_of


def test_exact_is_stamped(place: Place) -> None:
    """Exact sums say NOT PRIVATE on stderr, in the receipt and in every way to print their ranking."""
    ran = place.run("exact", "visits.csv", "-o", "visits.exact")
    assert (ran.code, ran.out) == (0, "")
    assert "NOT PRIVATE" in ran.err
    assert "NOT PRIVATE" in place.run("receipt", "visits.exact").out
    for form in ("table", "csv", "json"):
        assert "NOT PRIVATE" in place.run("rank", "visits.exact", "--format", form).out, form
    assert place.run("rank", "visits.exact", "-o", "ranking.parquet").code == 0
    assert pq.read_table("ranking.parquet").column("notice")[0].as_py() == "NOT PRIVATE"
    assert place.charges() == []


def test_exact_bounds_only_when_asked(place: Place) -> None:
    """Without bounds each pair counts; a bound of one label drops the others."""
    place.write("wide.csv", [("u", "a", label) for label in "xyz"])
    assert place.run("exact", "wide.csv", "-o", "free").code == 0
    assert place.run("exact", "wide.csv", "-o", "bound", "--pairs", "5", "--labels", "1").code == 0
    assert (Release.load("free").pairs.num_rows, Release.load("bound").pairs.num_rows) == (3, 1)


TWO_PAIRS = ddpmi.Bounds(pairs=2)


@pytest.mark.parametrize("bounds", [(), ("--pairs", "2")])
def test_exact_counts_units(lists: Place, bounds: tuple[str, ...]) -> None:
    """`exact --space units` is that of the library, and a value needs no clip there."""
    words = (*DAY_WORDS, "--value", "cups", "--space", "units", *bounds)
    assert lists.run("exact", "days.csv", *words, "-o", "days.exact").code == 0
    obs = ddpmi.observe("days.csv", **DAYS, value="cups")
    expected = ddpmi.exact(obs, space="units", bounds=TWO_PAIRS if bounds else None)
    assert tables_of(Release.load("days.exact")) == tables_of(expected)
