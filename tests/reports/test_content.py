"""What a page holds of a ranking: how many rows, in which order of labels, and the share that was left out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ddpmi.rankings.ranking import rank
from ddpmi.reports.content import Content, hidden_share
from ddpmi.reports.sentences import about
from tests.support.fake_release import Counts, private_release

COUNTS: Counts = {("tea", "2017"): 600, ("milk", "2016"): 250, ("tea", "2015"): 100, ("milk", "2015"): 50}


def test_labels_are_in_the_order_of_their_scale_or_by_size() -> None:
    """Years are in their own order; countries are by size."""
    assert [label.name for label in Content.of(rank(private_release(COUNTS))).labels] == ["2015", "2016", "2017"]
    names = {"2015": "fr", "2016": "uk", "2017": "de"}
    renamed = {(feature, names[year]): count for (feature, year), count in COUNTS.items()}
    found = Content.of(rank(private_release(renamed)))
    assert ([label.name for label in found.labels], found.scale) == (["de", "uk", "fr"], False)


def test_counts_of_labels_are_those_of_the_ranking() -> None:
    """Each label knows how many of its pairs were released and are clear, whether or not the page holds them."""
    ranking = rank(private_release(COUNTS))
    found = {label.name: (label.pairs, label.clear) for label in Content.of(ranking).labels}
    assert found == ranking.counts_in_labels()
    assert sum(clear for _, clear in found.values()) == ranking.clear_count


def test_the_share_left_out_is_that_of_the_noisy_sums() -> None:
    """Where events are counted it is one minus the released pairs over the total; where units are counted nobody knows it."""
    release = replace(private_release(COUNTS, threshold=20), total=2000)
    ranking = rank(release)
    assert hidden_share(ranking, release.receipt) == pytest.approx(0.5)
    assert hidden_share(ranking.label("2015"), release.receipt) == pytest.approx(0.5)
    release.receipt["space"] = "units"
    assert hidden_share(rank(release), release.receipt) is None


@pytest.mark.parametrize(
    ("threshold", "complete", "said"),
    [
        (None, False, "None was hidden"),
        (20, True, "All pairs of the"),
        (20, False, "Rare pairs are left out"),
    ],
)
def test_what_was_hidden_is_said_by_the_plan(*, threshold: int | None, complete: bool, said: str) -> None:
    """The page says why pairs are missing, and never how many."""
    release = replace(private_release(COUNTS, threshold=threshold), total=2000)
    more: dict[str, object] = {
        "release_id": "r",
        "created": "now",
        "engine": "duckdb",
        "versions": {"ddpmi": "0", "duckdb": "2"},
        "relies_on": [],
        "ledger": None,
        "plan": {"complete": complete},
    }
    release.receipt.update(more)
    release.receipt["guarantee"]["neighbours"] = "add or remove one unit"
    text = about(rank(release))
    assert said in text
    assert ("about 50% of the sum of everything" in text) == (threshold is not None)


def test_numbers_without_a_finite_value_are_null() -> None:
    """JSON holds no NaN and no infinity, and four digits of every number."""
    ranking = rank(private_release({("tea", "uk"): 6, ("milk", "fr"): 100_000}))
    rows = json.loads(Content.of(ranking).to_json())["rows"]
    for name in ("lift_high", "share_in", "mi"):
        assert all(value is None or value == float(f"{value:.4g}") for value in rows[name])
