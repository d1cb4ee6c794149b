"""The page in a real browser: what a person, a keyboard and a screen reader meet, and what hostile names can do."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from ddpmi.rankings.ranking import Ranking, rank
from ddpmi.reports.page import report
from tests.support.browser import NARROW, WIDE, faults, opened, overflow
from tests.support.fake_release import exact_release, private_release

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

FEATURES = ("tea", "coffee", "milk", "water", "cola", "wine")
YEARS = ("2015", "2016", "2017", "2018")
VIEWS = ("labels", "features", "pairs", "map", "course")
EVIL = (
    "<script>window.hit = 1</script>",
    "\"><img src=x onerror='window.hit = 1'>",
    "</script><script>window.hit = 1</script>",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    '=HYPERLINK("http://example.org","x")',
    " \u00a0=1+1",
    "\u202egnp.exe",
    "\x1b[31mred",
    "long " + "x" * 10_000,
    "W" * 10_000,
)


def drinks() -> Ranking:
    """Rank drinks by year: large counts, small noise, and a drift from tea to cola."""
    counts = {
        (feature, year): 400 + 150 * (at - 2) * (when - 1) * (1 if at % 2 else -1) + 30 * at
        for at, feature in enumerate(FEATURES)
        for when, year in enumerate(YEARS)
    }
    return rank(private_release({pair: max(count, 5) for pair, count in counts.items()}))


def hostile() -> Ranking:
    """Rank pairs of hostile names."""
    return rank(
        private_release({(a, b): 300 + 80 * ((i * j) % 7) for i, a in enumerate(EVIL) for j, b in enumerate(EVIL)})
    )


@pytest.fixture(name="page_of_drinks", scope="module")
def write_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of the drinks once."""
    return report(drinks(), tmp_path_factory.mktemp("page") / "drinks.html")


def go(page: Page, view: str) -> None:
    """Choose a view."""
    page.locator(f"#tab-{view}").click()
    assert page.locator(f"#panel-{view}").is_visible()


def column(page: Page, place: int) -> list[str]:
    """Return the cells of one column of the table of all findings."""
    return page.locator(f"#panel-pairs tbody tr > *:nth-child({place})").all_inner_texts()


def test_all_views_open_without_a_network(browser: Browser, page_of_drinks: Path) -> None:
    """Every view shows something, logs nothing and asks nobody."""
    with opened(browser, page_of_drinks) as (page, seen):
        assert page.locator("h1").inner_text() == "What sets each label apart"
        assert page.locator("#panel-labels article").count() == len(YEARS)
        for view in VIEWS[1:]:
            go(page, view)
        assert page.locator("#panel-map td").count() > len(FEATURES) * len(YEARS)
        assert page.locator("#panel-course article").count() == len(FEATURES)
        assert seen.nothing_wrong()


def test_the_table_sorts_filters_and_searches(browser: Browser, page_of_drinks: Path) -> None:
    """A click on a head sorts and a second one turns the order; texts, a direction and the verdict filter."""
    with opened(browser, page_of_drinks) as (page, seen):
        go(page, "pairs")
        ranks = [int(text) for text in column(page, 1)]
        assert ranks == sorted(ranks)
        assert len(ranks) == len(FEATURES) * len(YEARS)
        head = page.get_by_role("columnheader", name="feature")
        head.get_by_role("button").click()
        names = column(page, 2)
        assert (names, head.get_attribute("aria-sort")) == (sorted(names), "ascending")
        head.get_by_role("button").click()
        assert (column(page, 2), head.get_attribute("aria-sort")) == (sorted(names, reverse=True), "descending")
        page.get_by_label("feature contains").fill("TEA")
        assert set(column(page, 2)) == {"tea"}
        page.get_by_label("label contains").fill("2016")
        assert set(column(page, 3)) == {"2016"}
        page.get_by_label("feature contains").fill("")
        page.get_by_label("Direction").select_option("absence")
        assert all("▼" in text for text in column(page, 6))
        page.get_by_label("Direction").select_option("")
        page.get_by_label("Only clear findings").check()
        assert set(column(page, 7)) == {"clear"}
        page.get_by_label("feature contains").fill("no such drink")
        assert "No finding meets this." in page.locator("#panel-pairs [role=status]").inner_text()
        assert seen.nothing_wrong()


def test_the_symmetric_view_shows_the_labels_of_a_feature(browser: Browser, page_of_drinks: Path) -> None:
    """A searched feature has one row for each label, and a row leads back to its label."""
    with opened(browser, page_of_drinks) as (page, seen):
        go(page, "features")
        page.locator("#panel-features input[type=search]").fill("col")
        page.locator("#panel-features .picks button").first.click()
        assert page.locator("#panel-features h3").inner_text() == "cola"
        rows = page.locator("#panel-features .rows li:not(.axis) .name").all_inner_texts()
        assert sorted(rows) == list(YEARS)
        page.locator("#panel-features .rows .linkish").first.click()
        assert page.locator("#panel-labels h3").all_inner_texts() == [rows[0]]
        assert seen.nothing_wrong()


def test_what_is_seen_can_be_downloaded(browser: Browser, page_of_drinks: Path) -> None:
    """The file holds the rows of the filter, with the numbers of the ranking to four digits."""
    ranking = drinks()
    with opened(browser, page_of_drinks) as (page, seen):
        go(page, "pairs")
        page.get_by_label("feature contains").fill("tea")
        with page.expect_download() as download:
            page.locator("#panel-pairs").get_by_role("button", name="Download CSV").click()
        text = download.value.path().read_text(encoding="utf-8-sig")
        for view, held in (("labels", "2016"), ("features", "cola")):
            go(page, view)
            page.locator(f"#panel-{view} input[type=search]").fill(held)
            with page.expect_download() as download:
                page.locator(f"#panel-{view}").get_by_role("button", name="Download CSV").click()
            part = csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8-sig")))
            assert {row[view.removesuffix("s")] for row in part} == {held}
        assert seen.nothing_wrong()
    rows = list(csv.DictReader(io.StringIO(text)))
    wanted = [row for row in ranking.to_dicts() if row["feature"] == "tea"]
    assert [(row["feature"], row["label"], int(row["rank"])) for row in rows] == [
        (row["feature"], row["label"], row["rank"]) for row in wanted
    ]
    for row, right in zip(rows, wanted, strict=True):
        assert float(row["share_in"]) == pytest.approx(right["share_in"], rel=1e-3)
        assert row["clear"] == str(right["clear"]).lower()


def test_a_keyboard_is_enough(browser: Browser, page_of_drinks: Path) -> None:
    """Tab reaches the views, arrows change them, and Enter sorts."""
    with opened(browser, page_of_drinks) as (page, seen):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "tab-labels"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-pairs"
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.innerText").startswith("Inside"):
                break
        page.keyboard.press("Enter")
        head = page.get_by_role("columnheader", name="Inside")
        assert head.get_attribute("aria-sort") == "descending"
        page.locator("#tab-pairs").focus()
        page.keyboard.press("End")
        assert page.evaluate("document.activeElement.id") == "tab-course"
        assert seen.nothing_wrong()


def test_a_link_leads_back_to_what_was_seen(browser: Browser, page_of_drinks: Path) -> None:
    """The address holds the view and its filters, and opens them again."""
    with opened(browser, page_of_drinks) as (page, _):
        go(page, "pairs")
        page.get_by_label("feature contains").fill("tea")
        page.get_by_role("columnheader", name="Times").get_by_role("button").click()
        before, address = column(page, 3), page.url
    with opened(browser, address) as (page, seen):
        assert column(page, 3) == before
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        assert column(page, 3) == before
        page.evaluate("location.hash = 'view=features&feature=cola'")
        page.locator("#panel-features h3").wait_for()
        assert page.locator("#panel-features h3").inner_text() == "cola"
        page.go_back()
        page.go_back()
        page.locator("#panel-pairs tbody tr").first.wait_for()
        assert page.get_by_label("feature contains").input_value() == "tea"
        assert seen.nothing_wrong()


@pytest.mark.parametrize(("width", "theme"), [(WIDE, "light"), (NARROW, "dark")])
def test_no_barrier_for_screen_readers(browser: Browser, page_of_drinks: Path, width: int, theme: str) -> None:
    """axe-core finds nothing wrong in any view, and nothing is wider than the window."""
    with opened(browser, page_of_drinks, width=width, theme=theme) as (page, seen):
        for view in VIEWS:
            go(page, view)
            assert faults(page) == []
            assert overflow(page) == 0
        assert seen.nothing_wrong()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path, width: int) -> None:
    """Names with markup, scripts, templates or 10,000 characters stay text and fit the window."""
    path = report(hostile(), tmp_path / "p.html", title=EVIL[0])
    with opened(browser, path, width=width) as (page, seen):
        for view in VIEWS[:4]:
            go(page, view)
            assert overflow(page) == 0
        assert page.evaluate("window.hit") is None
        assert page.locator("img, iframe, object, main script[src]").count() == 0
        text = page.locator("body").inner_text()
        assert all(name in text for name in EVIL[:4])
        assert not {"\u202e", "\x1b"} & set(text)
        assert len(text) < 200_000
        assert seen.nothing_wrong()


def test_a_downloaded_formula_is_text(browser: Browser, tmp_path: Path) -> None:
    """Cells that a spreadsheet would run begin with a quote, also after spaces."""
    with opened(browser, report(hostile(), tmp_path / "p.html")) as (page, _):
        go(page, "pairs")
        with page.expect_download() as download:
            page.locator("#panel-pairs").get_by_role("button", name="Download CSV").click()
        text = download.value.path().read_text(encoding="utf-8-sig")
    cells = {cell for row in csv.reader(io.StringIO(text)) for cell in row[:2]}
    assert {f"'{EVIL[4]}", f"'{EVIL[5]}"} <= cells
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "@"))]


def test_the_policy_forbids_other_scripts(browser: Browser, page_of_drinks: Path) -> None:
    """A script, a handler or markup that something adds to the page does not run, and nothing can be fetched."""
    with opened(browser, page_of_drinks, offline=False) as (page, _):
        ran = page.evaluate(
            """async () => {
              const tried = [];
              const attempt = async (work) => { try { await work(); tried.push("done"); } catch { tried.push("refused"); } };
              await attempt(() => { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.hit = 1'>"); });
              await attempt(() => { const s = document.createElement("script"); s.text = "window.hit = 1"; document.body.append(s); });
              await attempt(() => { document.body.setAttribute("onclick", "window.hit = 1"); document.body.click(); });
              await attempt(() => fetch("http://127.0.0.1:9/"));
              return [tried[0], tried[1], tried[3], window.hit ?? null];
            }"""
        )
        assert ran == ["refused", "refused", "refused", None]


def test_axe_finds_what_is_wrong(browser: Browser, page_of_drinks: Path) -> None:
    """The check of barriers reports a picture without words and text that is too pale."""
    with opened(browser, page_of_drinks) as (page, _):
        page.evaluate(
            """() => { const [image, text] = [document.createElement("img"), document.createElement("p")];
            text.textContent = "pale"; text.style.color = "#ddd"; document.querySelector("main").append(image, text); }"""
        )
        assert {fault.split(":")[0] for fault in faults(page)} == {"image-alt", "color-contrast"}


@pytest.mark.parametrize("kind", ["empty", "one", "exact", "noise"])
def test_small_and_uncertain_pages(browser: Browser, tmp_path: Path, kind: str) -> None:
    """Nothing released, one label, exact sums and nothing clear are said in words, and no view fails."""
    ranking = {
        "empty": lambda: rank(private_release({})),
        "one": lambda: rank(private_release({("tea", "uk"): 500, ("milk", "uk"): 200})),
        "exact": lambda: rank(exact_release({("tea", "uk"): 60, ("tea", "fr"): 10, ("milk", "fr"): 70})),
        "noise": lambda: rank(private_release({(f, label): 3 for f in FEATURES for label in ("uk", "fr", "de")})),
    }[kind]()
    with opened(browser, report(ranking, tmp_path / "p.html"), width=NARROW) as (page, seen):
        text = page.locator("body").inner_text()
        said = {
            "empty": "No pair was released",
            "one": "1 label",
            "exact": "NOT PRIVATE",
            "noise": "Nothing here is certain",
        }[kind]
        assert said in text
        for view in VIEWS[:4] if kind != "empty" else ():
            go(page, view)
            assert overflow(page) == 0
        assert faults(page) == []
        assert seen.nothing_wrong()


def test_a_printed_page_has_no_controls(browser: Browser, page_of_drinks: Path) -> None:
    """On paper the charts stay, and buttons, searches and tabs are gone."""
    with opened(browser, page_of_drinks) as (page, _):
        page.emulate_media(media="print")
        assert page.locator(".rows li").first.is_visible()
        for hidden in (".tabs", ".controls", ".skip"):
            assert not page.locator(hidden).first.is_visible()
