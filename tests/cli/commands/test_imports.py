"""`ddpmi import`: texts become rows that the next command reads without naming columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from tests.support.cli_fixtures import Place


def features(place: Place, name: str = "rows.parquet") -> set[str]:
    """Return the words of an import."""
    return set(pq.read_table(place.folder / name).column("feature").to_pylist())


def test_texts_are_imported_and_planned(seen: Place) -> None:
    """The file has the names that other commands know; the message says that it is private and what is in it."""
    (seen.folder / "texts.csv").write_text("id,text,year\n1,The noise of tea,2001\n2,Tea time,2002\n")
    ran = seen.run(
        "import", "text", "texts.csv", "--id", "id", "--text", "text", "--label", "year", "-o", "rows.parquet"
    )
    assert (ran.code, ran.out, "NOT PRIVATE" in ran.err) == (0, "", True), ran.err
    assert features(seen) == {"noise", "tea", "time"}
    ran = seen.run(
        "plan", "rows.parquet", "--value", "value", "--clip", "5", "--epsilon", "1", "--delta", "1e-6", "--pairs", "9"
    )
    assert ran.code == 0, ran.err


def test_the_options_reach_the_words(seen: Place) -> None:
    """A stop list, a shortest length, pairs of words, an expression, and overwriting."""
    (seen.folder / "texts.csv").write_text("id,text\n1,The big noise of tea\n")
    (seen.folder / "stop.txt").write_text("\n Noise \n\n")
    words = [
        "import",
        "text",
        "texts.csv",
        "--unit",
        "id",
        "--text",
        "text",
        "-o",
        "rows.parquet",
        "--stop",
        "stop.txt",
    ]
    assert seen.run(*words, "--min-length", "3", "--ngrams", "2", "--label-sql", "length(text)").code == 0
    assert features(seen) == {"the", "big", "tea", "the big", "big tea"}
    assert (seen.run(*words).code, seen.run(*words, "--overwrite").code) == (2, 0)


def test_papers_are_imported(seen: Place) -> None:
    """The version is named."""
    (seen.folder / "dblp.json").write_text(
        json.dumps({"id": "p", "title": "T words", "abstract": "Noise", "year": 2006})
    )
    ran = seen.run("import", "aminer", "dblp.json", "--text", "title", "--text", "abstract", "-o", "rows.parquet")
    assert (ran.code, "dblp.json is AMiner V10 or V11." in ran.err) == (0, True), ran.err
    assert features(seen) == {"words", "noise"}


@pytest.mark.parametrize(
    "words",
    [
        ("text", "texts.csv", "--unit", "id", "--text", "text", "--label", "x", "--label-sql", "1", "-o", "a.parquet"),
        ("text", "--unit", "id", "--text", "text", "-o", "a.parquet"),
        ("text", "texts.csv", "--unit", "", "--text", "text", "-o", "a.parquet"),
        ("text", "texts.csv", "--unit", "id", "--text", "nowhere", "-o", "a.parquet"),
        ("text", "texts.csv", "--unit", "id", "--text", "text", "-o", "a.txt"),
        ("text", "texts.csv", "--unit", "id", "--text", "text", "-o", "a.parquet", "--stop", "no.txt"),
        ("text", "texts.csv", "--unit", "id", "--text", "text", "-o", "a.parquet", "--ngrams", "0"),
        ("aminer", "-o", "a.parquet"),
        ("aminer", "texts.csv", "-o", "a.parquet"),
    ],
)
def test_wrong_words_of_an_import(seen: Place, words: tuple[str, ...]) -> None:
    """Wrong usage is refused with a hint, and nothing is written."""
    (seen.folder / "texts.csv").write_text("id,text\n1,tea\n")
    ran = seen.run("import", *words)
    assert (ran.code, ran.out, "Hint: " in ran.err) == (2, "", True), ran.err
    assert not (seen.folder / "a.parquet").exists()
