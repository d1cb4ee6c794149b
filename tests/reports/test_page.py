"""The page as a file: well formed, self-contained, bounded, and stamped where it must be."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from ddpmi.errors import InputError
from ddpmi.rankings.ranking import rank
from ddpmi.reports.content import LONGEST_NAME
from ddpmi.reports.page import is_report, report
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
VOID = {"meta"}
MOST = 2 * 1000 * 1000


class Page(HTMLParser):
    """Read a page: its balance of tags, its attributes, its text, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.code: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        self.code.get(inside, self.text).append(data)

    @property
    def data(self) -> dict[str, Any]:
        """The rows that the page holds."""
        return json.loads(self.code["script"][0])


def written(path: Path) -> tuple[str, Page]:
    """Return a page's text and what it holds."""
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def test_a_private_page_holds_the_ranking(tmp_path: Path) -> None:
    """All rows are in the page with their numbers; the guarantee comes before the heading."""
    ranking = rank(private_release(COUNTS))
    text, page = written(report(ranking, tmp_path / "p.html"))
    rows, meta = page.data["rows"], page.data["meta"]
    names = [
        (meta["features"][feature], meta["labels"][label]["name"])
        for feature, label in zip(rows["feature"], rows["label"], strict=True)
    ]
    assert names == [(row["feature"], row["label"]) for row in ranking.to_dicts()]
    assert rows["share_in"] == pytest.approx([row["share_in"] for row in ranking.to_dicts()], rel=1e-3)
    assert [bool(clear) for clear in rows["clear"]] == [row["clear"] for row in ranking.to_dicts()]
    assert "NOT PRIVATE" not in text
    assert text.index("epsilon=1, delta=1e-07") < text.index("<h1>")


def test_the_first_screen_answers_without_a_script(tmp_path: Path) -> None:
    """The question, the number of clear findings and the first of them are in the text of the page."""
    counts = {pair: 100 * count for pair, count in COUNTS.items()}
    release = private_release(counts)
    release.receipt.update({"columns": {"unit": "customer_id", "feature": "drink", "label": "country", "value": None}})
    ranking = rank(release)
    _, page = written(report(ranking, tmp_path / "p.html"))
    text = "".join(page.text)
    assert "What sets each country apart" in text
    assert "Which drink is more or less common inside each country than outside?" in text
    assert f"{len(ranking.clear())} of {len(ranking)} findings are clear" in text
    assert "default" not in text
    best = next(row for row in ranking.clear().to_dicts() if row["label"] == "uk")
    kind = "more" if best["direction"] == "presence" else "less"
    assert f"uk: {best['feature']} is {kind} common, {100 * best['share_in']:.0f}%" in text
    assert "Nobody can tell" in text


def test_an_exact_page_is_stamped_first(tmp_path: Path) -> None:
    """NOT PRIVATE is in the title and before the heading."""
    text = report(rank(exact_release(COUNTS)), tmp_path / "p.html", title="Drinks").read_text(encoding="utf-8")
    assert "<title>NOT PRIVATE: Drinks</title>" in text
    body = text[text.index("<body") :]
    assert body.index("NOT PRIVATE") < body.index("<h1><bdi>Drinks</bdi></h1>")


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """No address, no loaded file, no style in an attribute; the policy allows one script and one style by their hashes."""
    text, page = written(report(rank(private_release(COUNTS)), tmp_path / "p.html"))
    assert not {"link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|@import|innerHTML|\beval\b|Function\(", text)
    assert all(value is not None and value.startswith("#") for name, value in page.attributes if name == "href")
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in {"src", "style"}]
    policy = next(value for name, value in page.attributes if name == "content" and value.startswith("default-src"))
    data, script = page.code["script"]
    hashes = [
        base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in (script, *page.code["style"])
    ]
    parts = policy.split("; ")
    assert parts[:3] == [
        "default-src 'none'",
        *(f"{kind}-src 'sha256-{found}'" for kind, found in zip(("script", "style"), hashes, strict=True)),
    ]
    assert "unsafe" not in policy
    assert not {"<", ">", "&"} & set(data)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """Markup in a feature, label, title, column or unit opens no tag and ends no attribute or script."""
    evil = "\"></script><script>alert('x')</script><b a='\u202e\x07"
    release = private_release({(evil, evil): 900, ("a", "b"): 400})
    release.receipt["guarantee"]["unit"] = evil
    release.receipt.update({"dataset": evil, "columns": {"unit": evil, "feature": evil, "label": evil, "value": evil}})
    text, page = written(report(rank(release), tmp_path / "p.html", title=evil))
    assert page.tags.count("script") == 2
    assert not {"\u202e", "\x07"} & set(text)
    assert page.data["meta"]["labels"][0]["name"].startswith('"></script><script>alert')


@pytest.mark.parametrize(("labels", "features", "name"), [(200, 150, "w" * 500 + "{}"), (2491, 9, "{}")])
def test_the_page_is_bounded_and_says_what_was_cut(tmp_path: Path, labels: int, features: int, name: str) -> None:
    """A page of many labels stays below 2 MB, keeps the best rows of each, and says how many findings it holds."""
    counts = {
        (name.format(at), f"label {label:04d}"): 3 + (7 * at + 3 * label) % 100
        for label in range(labels)
        for at in range(features)
    }
    path = report(rank(exact_release(counts)), tmp_path / "p.html")
    _, page = written(path)
    rows, meta = page.data["rows"], page.data["meta"]
    assert path.stat().st_size <= MOST
    assert meta["pairs"] == len(counts)
    assert meta["held"] == len(rows["rank"]) < len(counts)
    assert f"this page holds {meta['held']:,} of {len(counts):,} findings" in "".join(page.text)
    assert len(set(rows["label"])) == len(meta["labels"]) == labels
    assert max(len(shown) for shown in meta["features"]) <= LONGEST_NAME


def test_names_of_a_million_characters_are_cut(tmp_path: Path) -> None:
    """A browser can open a page with a huge name."""
    path = report(rank(exact_release({("x" * 10**6, "uk"): 3, ("y", "fr"): 3})), tmp_path / "p.html")
    assert path.stat().st_size < 200_000


def test_labels_of_a_seed_show_one_side(tmp_path: Path) -> None:
    """The units with the seed are shown once: the other side has the same pairs with the opposite direction."""
    release = private_release(
        {(name, side): 300 + 40 * at for at, name in enumerate("abc") for side in ("seed", "rest")}
    )
    release.receipt["plan"] = {"public_labels": ["rest", "seed"], "complete": False}
    ranking = rank(release)
    assert ranking.words.seed == "seed"
    _, page = written(report(ranking, tmp_path / "p.html"))
    assert [label["name"] for label in page.data["meta"]["labels"]] == ["seed"]
    assert "with the seed than outside?" in "".join(page.text)


def test_an_empty_ranking_gives_a_page(tmp_path: Path) -> None:
    """Nothing released is said in words."""
    release = private_release({})
    path = report(rank(release), tmp_path / "p.html")
    _, page = written(path)
    assert "No pair was released" in "".join(page.text)
    assert page.data["rows"]["rank"] == []
    assert "Look closer" not in "".join(page.text)
    assert is_report(path)


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
    assert "no p-value" in scored
    assert "Chi-square" not in plain
    assert Page(scored).data["meta"]["score"] == "Chi-square"
    assert len(Page(scored).data["rows"]["score"]) == 3
