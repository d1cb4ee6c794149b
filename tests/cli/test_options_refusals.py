"""Options that contradict each other, or that nothing can be done with, are refused by plan and release alike."""

from __future__ import annotations

import pytest

from tests.support.cli_fixtures import BUDGET, DAY_WORDS, PAIRS, Place, refused_clearly

PLAIN = ("visits.csv", *BUDGET, *PAIRS)
DAYS_PLAIN = ("days.csv", *DAY_WORDS, *BUDGET, *PAIRS)
COUNTS = ("counts.csv", "--count", "units", *BUDGET)
REFUSED = {
    "no such list": ((*PLAIN, "--public-labels", "nowhere.txt"), "there is no file nowhere.txt"),
    "a folder as list": ((*PLAIN, "--public-features", "."), "there is no file"),
    "empty name of a list": ((*PLAIN, "--public-features", ""), "there is no file"),
    "empty label": ((*PLAIN, "--labels-only", "a", "--labels-only", ""), "--labels-only is empty"),
    "grid with both lists": (
        (*PLAIN, "--grid", "--public-labels", "labels.txt", "--public-features", "features.txt"),
        "both are known beforehand",
    ),
    "complete without a threshold": ((*PLAIN, "--complete", "--grid"), "leave --complete out"),
    "grid and other": (
        (*PLAIN, "--grid", "--public-labels", "labels.txt", "--marginals", "other"),
        "nothing to add",
    ),
    "labels only and public labels": (
        (*PLAIN, "--labels-only", "a", "--public-labels", "labels.txt"),
        "both given",
    ),
    "units and other": ((*PLAIN, "--space", "units", "--marginals", "other"), "sums events"),
    "units and a clip": ((*PLAIN, "--space", "units", "--clip", "5"), "ignores values"),
    "units, a value and a clip": (
        (*DAYS_PLAIN, "--space", "units", "--value", "cups", "--clip", "5"),
        "ignores values",
    ),
    "unknown space": ((*PLAIN, "--space", "rows"), "--space"),
    "unknown marginals": ((*PLAIN, "--marginals", "all"), "--marginals"),
    "a value without clip": ((*DAYS_PLAIN, "--value-sql", "CAST(cups AS INT)"), "needs a clip"),
    "a clip without value": ((*DAYS_PLAIN, "--clip", "5"), "no value column"),
    "unit twice": ((*PLAIN, "--unit", "unit", "--unit-sql", "unit"), "--unit and --unit-sql"),
    "feature twice": ((*PLAIN, "--feature", "a", "--feature-sql", "a"), "--feature and --feature-sql"),
    "label twice": ((*PLAIN, "--partition", "a", "--label-sql", "a"), "--label and --label-sql"),
    "value twice": ((*PLAIN, "--value", "a", "--value-sql", "a", "--clip", "1"), "--value and --value-sql"),
    "empty name": ((*PLAIN, "--feature", ""), "--feature is empty"),
    "empty name of counts": (("counts.csv", "--count", "", *BUDGET), "--count is empty"),
    "empty expression": ((*PLAIN, "--label-sql", " "), "a text of SQL"),
    "empty where": ((*PLAIN, "--where", ""), "a text of SQL"),
    "a subquery": ((*PLAIN, "--where", "label IN (SELECT label FROM source)"), "where"),
    "a window": ((*PLAIN, "--label-sql", "first(label) OVER ()"), "window"),
    "an aggregate": ((*PLAIN, "--feature-sql", "max(feature)"), "feature"),
    "a where that is no test": ((*PLAIN, "--where", "length(label)"), "true or false"),
    "a where on a missing column": ((*PLAIN, "--where", "town = 'x'"), "no column 'town'"),
    "broken SQL": ((*PLAIN, "--where", "label = = 'x'"), "not one SQL expression"),
    "random numbers": ((*PLAIN, "--unit-sql", "random()"), "random"),
    "units merged but declared distinct": ((*PLAIN, "--unit-sql", "lower(unit)", "--distinct"), "declared distinct"),
    "count with unit": ((*COUNTS, "--unit", "unit"), "--count and --unit were"),
    "count with an expression of units": ((*COUNTS, "--unit-sql", "label"), "--count and --unit-sql"),
    "count with value": ((*COUNTS, "--value", "units", "--clip", "1"), "--count and --value were"),
    "count with where": ((*COUNTS, "--where", "label = 'uk'"), "--count and --where"),
    "count with pairs": ((*COUNTS, "--pairs", "2"), "got --pairs 2"),
    "count with labels": ((*COUNTS, "--labels", "2"), "got --labels 2"),
    "count with clip": ((*COUNTS, "--clip", "2"), "no value column"),
    "count with distinct rows": ((*COUNTS, "--distinct"), "implies --distinct=units"),
    "counts in a missing column": (("counts.csv", "--count", "devices", *BUDGET), "no column 'devices'"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_usage(lists: Place, words: tuple[str, ...], message: str) -> None:
    """What cannot be used ends with exit 2, one message, a hint, no file and no charge; plans refuse it too."""
    before = lists.names()
    for command, more in (("release", lists.paid("new")), ("plan", ())):
        ran = lists.run(command, *words, *more)
        assert (ran.code, refused_clearly(ran), message in ran.err) == (2, True, True), ran.err
        assert "3141" not in ran.err
    assert (lists.names(), lists.charges()) == (before, [])


OTHERS = {
    "exact takes no lists": ("exact", "visits.csv", "-o", "new", "--public-labels", "labels.txt"),
    "exact with units and a clip": (
        *("exact", "days.csv", *DAY_WORDS, "--value", "cups", "--space", "units"),
        *("--pairs", "2", "--clip", "3", "-o", "new"),
    ),
    "exact with bounds but no clip": ("exact", "days.csv", *DAY_WORDS, "--value", "cups", *PAIRS, "-o", "new"),
    "exact with counts and pairs": ("exact", "counts.csv", "--count", "units", *PAIRS, "-o", "new"),
    "exact with two roles": ("exact", "visits.csv", "--label", "label", "--label-sql", "label", "-o", "new"),
    "plan with where but without data": ("plan", *BUDGET, *PAIRS, "--where", "a = 'b'"),
    "plan with an expression but without data": ("plan", *BUDGET, *PAIRS, "--label-sql", "a"),
    "compare with one release": ("compare", "visits.csv"),
    "compare with no release": ("compare", "visits.csv", "visits.csv"),
    "report of no release": ("report", "visits.csv", "-o", "page.html"),
    "report without a page": ("report", "visits.csv"),
}


@pytest.mark.parametrize("words", OTHERS.values(), ids=OTHERS)
def test_wrong_usage_elsewhere(lists: Place, words: tuple[str, ...]) -> None:
    """The other commands refuse in the same way."""
    before = lists.names()
    ran = lists.run(*words)
    assert (ran.code, refused_clearly(ran)) == (2, True), ran.err
    assert (lists.names(), lists.charges()) == (before, [])
