"""Words of texts: the same from every engine, and each text by itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import InputError
from ddpmi.datasets import STOP_WORDS, Words, words_of
from ddpmi.datasets.words import folded, split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = settings(max_examples=60, deadline=None)
ODD = [
    "",
    None,
    "The the THE",
    "k-means' K-MEANS",
    "İstanbul ΣΊΣΥΦΟΣ straße ﬁ",
    "e\u0301te\u0301 été",
    "2019 3d 1'2",
    "_a__b_",
]
TEXTS = st.lists(st.one_of(st.none(), st.sampled_from(ODD), st.text(max_size=40)), max_size=8)


def plainly(text: str | None, words: Words) -> Counter[str]:
    """Count words the slow way."""
    found = [w for w in split(text or "") if len(w) >= words.shortest and w not in words.stop]
    kept = [w for w in found if len(w) <= words.longest and any(map(str.isalpha, w))]
    grams = [" ".join(kept[at : at + n]) for n in range(1, words.ngrams + 1) for at in range(len(kept) - n + 1)]
    return Counter(grams)


@SETTINGS
@given(texts=TEXTS, shortest=st.integers(1, 4), ngrams=st.integers(1, 3))
def test_words_equal_the_reference(texts: list[str | None], shortest: int, ngrams: int) -> None:
    """Counts of any texts are those of plain Python."""
    words = Words(shortest=shortest, ngrams=ngrams)
    assert words.count(texts) == [dict(plainly(text, words)) for text in texts]


@SETTINGS
@given(texts=TEXTS)
def test_each_text_is_read_by_itself(texts: list[str | None]) -> None:
    """The rows of many texts are the rows of each: an import is row-local."""
    words = Words(ngrams=2)
    whole = words.count(texts)
    assert whole == [words.count([text])[0] for text in texts]
    batch = pa.record_batch({"unit": list(range(len(texts))), "feature": pa.array(texts, pa.string())})
    rows = words.rows(batch).to_pylist()
    assert [(row["unit"], row["feature"], row["value"]) for row in rows] == [
        (place, word, count) for place, found in enumerate(whole) for word, count in sorted_like(rows, place, found)
    ]
    packed = words.rows(batch, packed=True)
    assert packed.to_pylist() == rows


def sorted_like(rows: list[dict[str, object]], place: int, found: dict[str, int]) -> list[tuple[str, int]]:
    """Return the words of a text in the order of its rows."""
    order = [str(row["feature"]) for row in rows if row["unit"] == place]
    return sorted(found.items(), key=lambda item: order.index(item[0]))


def test_what_a_word_is() -> None:
    """Letters and digits of any script, apostrophes inside, casefolded and composed; underscores and hyphens part words."""
    assert split("State-of-the-art, DON\u2019T stop_now") == ["state", "of", "the", "art", "don't", "stop", "now"]
    assert folded("Straße E\u0301") == "strasse é"
    assert split("Σίσυφος ΣΊΣΥΦΟΣ") == ["σίσυφοσ", "σίσυφοσ"]
    assert Words(shortest=1).count(["2019 3d x 1'2"]) == [{"3d": 1, "x": 1}]
    assert Words().count(["a" * 101 + " ok"]) == [{"ok": 1}]


def test_the_stop_list_can_be_replaced() -> None:
    """Stop words are compared casefolded; an empty list leaves nothing out."""
    assert Words().count(["The noise"]) == [{"noise": 1}]
    assert Words(stop=frozenset()).count(["The noise"]) == [{"the": 1, "noise": 1}]
    assert Words(stop=frozenset({"NOISE"})).count(["The noise"]) == [{"the": 1}]
    assert {word for word in STOP_WORDS if folded(word) != word} == set()


@pytest.mark.parametrize(
    "wrong", [{"shortest": 0}, {"shortest": 101}, {"ngrams": 6}, {"ngrams": True}, {"stop": "the"}, {"stop": {1}}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    """A clear error with a hint."""
    with pytest.raises(InputError, match="Hint:"):
        Words(**wrong)  # type: ignore[arg-type]


@pytest.mark.spark
def test_a_cluster_splits_texts_the_same(spark: SparkSession) -> None:
    """Tasks run the same function, so rows are equal for texts of all kinds, with and without a label."""
    texts = [*ODD, *(chr(code) * 2 + " " + chr(code + 1) for code in range(0x20, 0xD7F0, 97)), "neural network " * 9]
    words = Words(shortest=1, ngrams=2)
    table = pa.table({"id": range(len(texts)), "text": pa.array(texts, pa.string()), "year": [1] * len(texts)})
    frame = spark.createDataFrame(table)
    found = words_of(frame, unit="id", text="text", label="year", words=words).collect()
    here = [
        (place, word, 1, count) for place, counts in enumerate(words.count(texts)) for word, count in counts.items()
    ]
    assert sorted(tuple(row) for row in found) == sorted(here)
    assert words_of(frame, unit="id", text="text").columns == ["unit", "feature", "value"]
    for wrong in ({"unit": "nowhere", "text": "text"}, {"unit": "id", "text": "year"}):
        with pytest.raises(InputError, match="Hint:"):
            words_of(frame, **wrong)
