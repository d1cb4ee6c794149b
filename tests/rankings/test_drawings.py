"""Kinds of plots: what each draws, what it names, and what it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from ddpmi.errors import InputError
from ddpmi.rankings.charts import COLOURS, PALE
from ddpmi.rankings.ranking import Ranking, rank
from tests.support.fake_release import Counts, private_release

if TYPE_CHECKING:
    from pathlib import Path

YEARS = ("2015", "2016", "2017", "2018")
KINDS = ("bars", "shares", "map", "trend", "evidence")
LONG = [f"{at:02d} a name of a product with forty letters" for at in range(20)]


def drinks() -> Ranking:
    """Rank drinks by year, with the names of columns."""
    counts: Counts = {
        (feature, year): 500 + 90 * (at - 2) * (when - 1) + 40 * at
        for at, feature in enumerate(("tea", "milk", "cola", "wine", "beer"))
        for when, year in enumerate(YEARS)
    }
    del counts["beer", "2016"]
    counts["rare", "2015"] = 3
    release = private_release(counts)
    release.receipt["columns"] = {"unit": "customer_id", "feature": "drink", "label": "year", "value": None}
    return rank(release)


def values_of(chart: Any) -> list[dict[str, Any]]:
    """Return all values that a chart draws."""
    return [value for values in chart.to_dict()["datasets"].values() for value in values]


def test_shares_carry_the_intervals_of_the_rows() -> None:
    """Shares of one label have the numbers of its rows, in their order; a row that may be noise is pale."""
    ranking = drinks()
    chart = ranking.plot(kind="shares", label="2015")
    rows = ranking.label("2015").to_dicts()
    keys = ("share_in", "share_in_low", "share_in_high", "share_out")
    assert [[value[key] for key in keys] for value in values_of(chart)] == [[row[key] for key in keys] for row in rows]
    assert [value["opacity"] == PALE for value in values_of(chart)] == [not row["clear"] for row in rows]
    assert chart.to_dict()["title"]["text"] == "What sets 2015 apart: drinks"
    assert ranking.promise in chart.to_dict()["title"]["subtitle"]


def test_a_feature_is_drawn_over_its_labels() -> None:
    """The symmetric view names labels alone, and has one row for each."""
    chart = drinks().plot(kind="shares", feature="tea")
    assert sorted(value["name"].split(". ")[1] for value in values_of(chart)) == list(YEARS)
    assert chart.to_dict()["title"]["text"] == "tea by year"


def test_the_map_has_a_cell_for_each_released_pair() -> None:
    """A pair that was not released has no cell, and the sign of a cell's colour is that of its direction."""
    ranking = drinks()
    cells = values_of(ranking.plot(kind="map"))
    assert len(cells) == len(ranking) == 5 * 4
    rows = {(row["feature"], row["label"]): row for row in ranking.to_dicts()}
    for cell in cells:
        row = rows[cell["feature"].split(". ")[1], cell["label"].split(". ")[1]]
        assert (cell["far"] > 0) == (row["lift"] > 1)


def test_a_trend_has_a_panel_for_each_feature_and_breaks_at_gaps() -> None:
    """Panels are the best features; a line ends where a label between two points was not released."""
    chart = drinks().plot(kind="trend", feature="beer").to_dict()
    (values,) = chart["datasets"].values()
    assert [(value["label"], value["run"]) for value in values] == [("2015", 0), ("2017", 1), ("2018", 1)]
    panels = [panel for line in drinks().plot(kind="trend", top=4).to_dict()["vconcat"] for panel in line["hconcat"]]
    assert len(panels) == 4


def test_a_trend_needs_labels_with_an_order() -> None:
    """Names of countries have no order, and two years are no trend."""
    for labels in (("uk", "fr", "de"), ("2015", "2016")):
        with pytest.raises(InputError, match="order of their own"):
            rank(private_release({("tea", label): 300 for label in labels})).plot(kind="trend")


def test_evidence_names_only_points_that_have_room() -> None:
    """Points are drawn at lift and mutual information; equal points do not write upon each other."""
    counts = {(f"f{at}", label): 400 + (300 if label == "uk" else 0) for at in range(30) for label in ("uk", "fr")}
    ranking = rank(private_release(counts | {("tea", "uk"): 10, ("tea", "fr"): 2000}))
    values = values_of(ranking.plot(kind="evidence"))
    assert {(value["lift"], value["mi"]) for value in values} == {
        (row["lift"], row["mi"]) for row in ranking.to_dicts()
    }
    assert 1 <= len([value for value in values if value["name"]]) <= 12


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_with_long_and_hostile_names(tmp_path: Path, kind: str) -> None:
    """Twenty names of forty letters are whole in the picture, in panels their starts, and names stay text."""
    evil = "<script>alert(1)</script>\x1b[31m"
    names = [*(LONG[:5] if kind == "trend" else LONG), evil]
    counts = {
        (name, year): 300 + 17 * at * (when + 1) for at, name in enumerate(names) for when, year in enumerate(YEARS)
    }
    label = "2016" if kind in {"bars", "shares"} else None
    ranking = rank(private_release(counts))
    picture = ranking.plot(tmp_path / f"{kind}.svg", kind=kind, label=label, top=21).read_text("utf-8")
    assert "<script" not in picture
    assert "\x1b" not in picture
    texts = " ".join(re.findall(r">([^<>]+)</text>", picture))
    if kind != "evidence":
        assert [name for name in names[:-1] if (name[:10] if kind == "trend" else name) in texts] == names[:-1]


@pytest.mark.parametrize("kind", KINDS)
def test_names_do_not_end_the_script_of_a_notebook(kind: str) -> None:
    """Altair shows a chart by a script that holds its names: none of them ends that script."""
    evil = ("</script><script>alert(1)</script>", "<!--<script>")
    counts = {
        (name, year): 300 + 200 * at * (when - 1) ** 2
        for at, name in enumerate(("tea", *evil))
        for when, year in enumerate(YEARS)
    }
    page = rank(private_release(counts)).plot(kind=kind).to_html()
    assert "</script><script>alert" not in page
    assert "<!--" not in page
    assert kind == "evidence" or "<\\u2060/script>" in page


def test_wrong_plots_are_refused() -> None:
    """An unknown kind, label or feature, or a list of no length is an error with a hint."""
    ranking = drinks()
    for wrong in ({"kind": "pie"}, {"label": "2014"}, {"feature": "water"}, {"top": 0}):
        with pytest.raises(InputError) as raised:
            ranking.plot(**wrong)
        assert raised.value.advice is not None


def test_directions_differ_for_the_colour_blind() -> None:
    """The two colours differ in lightness or in blue against red, and not in red against green alone."""
    blue = {name: int(colour[5:7], 16) for name, colour in COLOURS.items()}
    assert blue["presence"] - blue["absence"] > 128
