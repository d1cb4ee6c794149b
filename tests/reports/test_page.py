"""The page: well formed, self-contained, bounded, and stamped where it must be."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from ddpmi.errors import InputError
from ddpmi.rankings.ranking import rank
from ddpmi.reports.page import MOST_LABELS, report
from tests.support.fake_release import exact_release, private_release

if TYPE_CHECKING:
    from pathlib import Path

COUNTS = {
    ("tea", "uk"): 60,
    ("tea", "fr"): 10,
    ("coffee", "uk"): 30,
    ("coffee", "fr"): 70,
    ("milk", "uk"): 20,
}
VOID = {"meta", "rect", "path"}


class Page(HTMLParser):
    """Read a page: its balance of tags, its attributes, and the text of table cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_private_page_says_what_is_promised(tmp_path: Path) -> None:
    """Each label has a table of its features; the guarantee comes before the heading."""
    text = report(rank(private_release(COUNTS)), tmp_path / "p.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("table") == 2
    assert page.tags.count("tr") == 2 + len(COUNTS)
    assert {"tea", "coffee", "milk", "uk", "fr"} <= set(page.text)
    assert "NOT PRIVATE" not in text
    assert text.index("epsilon=1, delta=1e-07") < text.index("<h1>")
    assert page.tags.count("svg") == len(COUNTS)
    assert "presence" in text
    assert "absence" in text


def test_an_exact_page_is_stamped_first(tmp_path: Path) -> None:
    """NOT PRIVATE is in the title and before the heading."""
    text = report(rank(exact_release(COUNTS)), tmp_path / "p.html", title="Drinks").read_text(encoding="utf-8")
    assert "<title>NOT PRIVATE: Drinks</title>" in text
    body = text[text.index("<body") :]
    assert body.index("NOT PRIVATE") < body.index("<h1><bdi>Drinks</bdi></h1>")


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """No script, no address, no loaded file; the policy forbids them too."""
    text = report(rank(private_release(COUNTS)), tmp_path / "p.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?://|url\(|@import", text)
    assert all(value is not None and value.startswith("#") for name, value in page.attributes if name == "href")
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert "default-src 'none'" in text


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """Markup in a feature, label, title or unit opens no tag and ends no attribute."""
    evil = "\"><script>alert('x')</script><b a='\u202e\x07"
    release = private_release({(evil, evil): 9, ("a", "b"): 4})
    release.receipt["guarantee"]["unit"] = evil
    text = report(rank(release), tmp_path / "p.html", title=evil).read_text(encoding="utf-8")
    page = Page(text)
    assert not {"script", "b"} & set(page.tags)
    assert not {"\u202e", "\x07"} & set(text)


def test_the_page_is_bounded_and_says_what_was_cut(tmp_path: Path) -> None:
    """Beyond 60 labels the page says how many are cut; long names and long lists are cut too."""
    counts = {(f"f{label % 7}", f"label {label:03d}"): 5 + label for label in range(100)}
    counts |= {("x" * 10**6, "label 099"): 3} | {(f"g{at:03d}", "label 098"): 2 for at in range(300)}
    path = report(rank(exact_release(counts)), tmp_path / "p.html", top=5)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("table") == MOST_LABELS
    assert "40 labels are cut" in text
    assert page.tags.count("tr") <= MOST_LABELS * 6
    assert path.stat().st_size < 400_000


def test_an_empty_ranking_gives_a_page(tmp_path: Path) -> None:
    """Nothing released is said in words."""
    release = private_release({})
    text = report(rank(release), tmp_path / "p.html").read_text(encoding="utf-8")
    assert "No pair was released" in text
    assert "table" not in Page(text).tags


def test_arguments_and_files_are_checked(tmp_path: Path) -> None:
    """A file is replaced only when asked to, and top has limits."""
    ranking = rank(exact_release(COUNTS))
    path = report(ranking, tmp_path / "p.html")
    with pytest.raises(InputError, match="exists already"):
        report(ranking, path)
    assert report(ranking, path, overwrite=True) == path
    for top in (0, 101, True):
        with pytest.raises(InputError, match="top must"):
            report(ranking, tmp_path / "q.html", top=top)
    assert [file.name for file in tmp_path.iterdir()] == ["p.html"]


def test_a_scored_page_names_its_score(tmp_path: Path) -> None:
    """The page of another score has its column under its name, and says that it is no test."""
    release = exact_release({("tea", "uk"): 60, ("tea", "fr"): 10, ("coffee", "fr"): 70})
    plain, scored = (
        report(rank(release, score=score), tmp_path / f"{score}.html").read_text(encoding="utf-8")
        for score in (None, "chi2")
    )
    assert '<th scope="col">Chi-square</th>' in scored
    assert "no p-value" in scored
    assert "Chi-square" not in plain
    assert scored.count("<td>") > plain.count("<td>")
