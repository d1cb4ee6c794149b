"""`ddpmi run` releases, ranks and reports."""

from __future__ import annotations

from tests.support.cli_fixtures import BUDGET, PAIRS, Place


def test_run_does_it_all(place: Place) -> None:
    """`run` releases, ranks and reports, and prints the best pairs."""
    ran = place.run("run", "visits.csv", *BUDGET, *PAIRS, *place.paid("visits.release"), "--top", "1")
    assert (ran.code, place.charges()) == (0, ["released"])
    assert {"visits.release", "visits.release.html"} <= place.names()
    assert "only north" in ran.out
    assert "2 of 4 pairs" in ran.out


def test_run_takes_another_page(place: Place) -> None:
    """--report names the page."""
    words = (*BUDGET, *PAIRS, *place.paid("visits.release"), "--report", "page.html")
    assert place.run("run", "visits.csv", *words).code == 0
    assert "page.html" in place.names()
