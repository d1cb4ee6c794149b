"""What a person reads of a ranking: tables, sections and summaries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ddpmi.rankings import views
from ddpmi.rankings.display import NOTHING_CLEAR, UNCLEAR, text_of
from ddpmi.rankings.ranking import Ranking, rank
from ddpmi.text import width_of
from tests.support.fake_release import Counts, exact_release, private_release

if TYPE_CHECKING:
    from ddpmi.rankings.display import Line

SURE: Counts = {("tea", "uk"): 9000, ("tea", "fr"): 1000, ("wine", "uk"): 2000, ("wine", "fr"): 7000}
VAGUE: Counts = {(f"thing {at}", label): 10 for at in range(6) for label in ("uk", "fr")}


def of(counts: Counts) -> Ranking:
    return rank(private_release(counts))


def lines_of(ranking: Ranking, width: int = 100) -> list[Line]:
    return views.sections(ranking, ranking.top(5), width=width)


def test_people_read_shares_before_information() -> None:
    """The columns are feature, inside, outside, times, verdict, rank, and mi last, with three digits."""
    for lines in (lines_of(of(SURE), 80), views.flat(of(SURE), of(SURE).to_dicts(), width=80)):
        head = next(line.text for line in lines if line.text.startswith("feature"))
        assert [word for word in head.split() if word not in ("label", "(nats)")] == [
            *("feature", "inside", "outside", "times", "verdict", "rank", "mi"),
        ]
    row = next(line.text for line in lines_of(of(SURE), 80) if line.text.startswith("tea"))
    assert "81.8%" in row
    assert len(row.split()[-1].replace("0.", "").lstrip("0")) <= 3


def test_unclear_rows_are_dim_and_say_so() -> None:
    """Exactly the rows that are not clear are dim, and exactly these say that they may be noise."""
    ranking = of(SURE | VAGUE)
    rows = {row["feature"]: row["clear"] for row in ranking.top(5).to_dicts()}
    assert set(rows.values()) == {True, False}
    shown = [line for line in lines_of(ranking) if line.text.startswith(("tea", "wine", "thing"))]
    assert shown
    for line in shown:
        name = next(name for name in rows if line.text.startswith(name))
        assert line.dim == (UNCLEAR in line.text) == (not rows[name])
    page = ranking._repr_html_()
    assert page.count("opacity") == page.count(f">{UNCLEAR}<") == sum(not row["clear"] for row in ranking.to_dicts())


def test_where_nothing_is_clear_a_sentence_says_so_first() -> None:
    """Text, page, summary and chart say it before any row, and each label says it too."""
    ranking = of(VAGUE)
    assert ranking.clear_count == 0
    assert ranking.to_text().splitlines()[1] == NOTHING_CLEAR
    assert lines_of(ranking)[1].text == NOTHING_CLEAR
    page = ranking._repr_html_()
    assert 0 < page.index(NOTHING_CLEAR) < page.index("<table>")
    assert ranking.summary().splitlines()[1:] == [NOTHING_CLEAR]
    assert "uk: nothing certain here; none of 6 pairs is clear of the noise" in text_of(lines_of(ranking), 200)


def test_exact_rankings_have_no_verdicts() -> None:
    """They have no noise: neither a column of verdicts nor intervals, and the stamp comes first."""
    ranking = rank(exact_release(SURE))
    for text in (ranking.to_text(200), text_of(lines_of(ranking, 200), 200), ranking.summary()):
        assert text.startswith("NOT PRIVATE")
        assert "verdict" not in text
        assert "interval" not in text


@pytest.mark.parametrize("width", [72, 80, 100, 120, 140, 160, 220])
def test_tables_fit_and_use_the_width(width: int) -> None:
    """No line is wider than the terminal, wide names are cut in the middle, and wide terminals show intervals."""
    names = [
        "日本語の長い名前がここにあります" * 2,
        "a plain name that is much longer than it should be " * 3,
        "é" * 90,
    ]
    ranking = of({(name, label): 500 + 100 * at for at, name in enumerate(names) for label in ("uk", "fr" * 20)})
    for lines in (lines_of(ranking, width), views.flat(ranking, ranking.to_dicts(), width=width)):
        table = [line.text for line in lines[2:] if not line.text.startswith(("inside:", "Stable", "Ordered"))]
        assert max(map(width_of, table)) <= width
        assert any("…" in line for line in table)
    assert ("95% interval" in text_of(lines_of(ranking, width), width)) == (width >= 116)


def test_labels_come_in_their_natural_order() -> None:
    """Sections and summaries follow the order of the numbers that labels are."""
    counts = {(f, y): c for y in ("9", "10", "11") for f, c in (("tea", 900 * int(y)), ("wine", 9000 // int(y)))}
    ranking = of(counts)
    found = [line.text.split(":")[0] for line in lines_of(ranking) if line.text.startswith(("9:", "10:", "11:"))]
    assert found == ["9", "10", "11"]
    said = [line.split(":")[0] for line in ranking.summary().splitlines() if line[:1].isdigit() and ":" in line]
    assert said[1:] == [name for name in ("9", "10", "11") if name in said[1:]]


def test_a_summary_is_at_most_a_screen() -> None:
    """Many labels do not make it longer; labels that are left out, and those without findings, are counted."""
    sure = {(f"f{at}", f"label {at}"): 4000 for at in range(60)}
    rest = {("common", f"label {at}"): 4000 for at in range(60)}
    ranking = of(sure | rest | {("common", "nothing"): 3})
    lines = views.summary(ranking, width=80, height=24, more=["More: type this"])
    assert len(text_of(lines, 80).splitlines()) <= 24
    assert max(width_of(line.text) for line in lines[2:]) <= 80
    assert lines[-1].text == "More: type this"
    assert any("more labels have clear findings." in line.text for line in lines)
    assert any(line.text.startswith("Nothing certain: nothing") for line in lines)


def test_a_summary_names_shares_inside_and_outside() -> None:
    """A finding is a feature with both shares."""
    line = next(line for line in of(SURE).summary().splitlines() if line.startswith("uk: "))
    assert "tea 82% vs 12%" in line or "wine 18% vs 88%" in line


def test_the_side_of_a_seed_is_shown_once() -> None:
    """Of the two labels that a seed makes, tables and summaries show the seed's alone, and say so."""
    counts = {(f, {"uk": "seed", "fr": "rest"}[label]): count for (f, label), count in SURE.items()}
    whole = of(counts)
    ranking = replace(whole, words=replace(whole.words, seed="seed"))
    text = text_of(lines_of(ranking), 200)
    assert "seed: 2 of 2 pairs are clear" in text
    assert "rest:" not in text
    assert "the side of seed alone" in text
    assert "rest:" not in ranking.summary()
    assert "rest:" in text_of(lines_of(whole), 200)
    assert "rest:" in text_of(lines_of(ranking.label("rest")), 200)


def test_an_empty_ranking_has_no_rows() -> None:
    """Its text is the guarantee and the number of pairs."""
    release = private_release(SURE)
    empty = rank(type(release)(**{**vars(release), "pairs": release.pairs.slice(0, 0)}))
    assert empty.to_text().splitlines()[1] == "0 pairs"
    assert text_of(lines_of(empty), 80).splitlines()[1] == "0 of 0 pairs"
    assert len(empty.summary().splitlines()) == 1


def test_hostile_names_are_escaped_in_sections_and_summaries() -> None:
    """Terminal codes in labels and features do not reach the terminal."""
    ranking = of({(f"\x1b[31m{f}", f"\u202e{label}"): count for (f, label), count in SURE.items()})
    for text in (text_of(lines_of(ranking), 100), ranking.summary()):
        assert not {"\x1b", "\u202e"} & set(text)
