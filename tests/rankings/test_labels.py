"""Labels: their natural order, and what a wrong name is answered with."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from ddpmi.errors import InputError
from ddpmi.rankings.labels import check_known, natural_order
from ddpmi.rankings.ranking import rank
from tests.support.fake_release import Counts, FakeRelease, exact_release, private_release

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "ordered",
    [
        ["2", "9", "10", "1,000"],
        ["< 18", "18-24", "25-34", "65 and older"],
        ["-3", "0.5", "2"],
        ["1999", "2000", "2016"],
        ["2024-12-30", "2025-01-02", "2025-1-10", "2025-11-01"],
        ["2023-Q4", "2024-Q1", "2024-Q2"],
        ["January", "February", "October"],
        ["mon", "tue", "Sun."],
    ],
)
def test_numbers_dates_months_and_days_have_their_own_order(ordered: list[str]) -> None:
    """Their order does not depend on their sizes, nor on the order in which they are given."""
    names = list(ordered)
    random.Random(1).shuffle(names)
    assert natural_order({name: float(len(name)) for name in names}) == ordered


def test_all_other_labels_are_ordered_by_size() -> None:
    """The largest comes first, equal ones by their bytes; one name that is no number is enough."""
    assert natural_order({"Chile": 3.0, "India": 70.0, "Peru": 3.0}) == ["India", "Chile", "Peru"]
    assert natural_order({"10": 1.0, "other": 5.0, "9": 3.0}) == ["other", "9", "10"]
    assert natural_order({}) == []


def test_a_wrong_name_is_answered_with_the_nearest_ones() -> None:
    """Case does not matter, and where nothing is near, the first labels are named; hostile names are escaped."""
    sizes = {"Germany": 9.0, "India": 5.0}
    check_known(["India", "Germany"], sizes)
    with pytest.raises(InputError, match=r"'germany'\. Did you mean 'Germany'") as found:
        check_known(["India", "germany"], sizes)
    assert found.value.advice is not None
    assert found.value.advice.cli == "--label 'Germany'"
    with pytest.raises(InputError, match="The released ones are 'Germany', 'India'"):
        check_known(["xyz"], sizes)
    with pytest.raises(InputError) as hostile:
        check_known(["\x1b[31m"], sizes)
    assert "\x1b" not in str(hostile.value)


COUNTS = {("tea", "uk"): 900, ("tea", "fr"): 100, ("wine", "uk"): 200, ("wine", "fr"): 700, ("milk", "de"): 50}


@pytest.mark.parametrize("make", [exact_release, private_release])
def test_a_ranking_of_some_labels_keeps_its_ranks(make: Callable[[Counts], FakeRelease]) -> None:
    """Its rows are those of the whole ranking, also when it is taken from a table of rows, and further steps work."""
    ranking = rank(make(COUNTS))
    expected = [row for row in ranking.to_dicts() if row["label"] in ("uk", "de")]
    assert ranking.label("de", "uk").to_dicts() == expected
    assert ranking.top(9, per="all").label("uk", "de").to_dicts() == expected
    assert ranking.label("uk").label("uk").top(1).to_dicts() == [row for row in expected if row["label"] == "uk"][:1]
    assert ranking.labels == ranking.top(9, per="all").labels == ("uk", "fr", "de")
    assert ranking.label("fr").labels == ("fr",)
    for whole in (ranking, ranking.top(9, per="all")):
        assert {name: pairs for name, (pairs, _) in whole.counts_in_labels().items()} == {"uk": 2, "fr": 2, "de": 1}


def test_only_names_are_taken() -> None:
    """No name, a list, and a label that was not released are refused."""
    ranking = rank(exact_release(COUNTS))
    for wrong in ((), (["uk"],), (3,)):
        with pytest.raises(InputError, match="Labels are texts"):
            ranking.label(*wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Did you mean 'uk'"):
        ranking.label("UK")
