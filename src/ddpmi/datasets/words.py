"""Words: texts become rows of (unit, feature, label, value), where a feature is a word and a value how often the text has it.

One function splits texts, in this process and in tasks of a cluster, so the same text gives the same rows everywhere. Each
text is read by itself: no vocabulary, frequency or language is taken from other texts.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ddpmi.errors import InputError, check_count
from ddpmi.pipeline.dialects import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

_STOP = """a about above after again all also an and any are as at be because been before being below between both but by can cannot
could did do does doing down during each for from further had has have having he her here hers him his how however i if in into
is it its itself me more most must my nor not of off on once only or other our out over own same shall she should so some such
than that the their them then there these they this those through thus to too under until up upon very via was we were what
when where whether which while who whom why will with within without would you your"""
STOP_WORDS = frozenset(_STOP.split())
"""English words without a subject of their own. They are left out unless another list is given."""
PARTS = "\x1e"
"""Is put between texts whose words are no neighbours."""
_MOST_NGRAMS = 5
_MOST_LETTERS = 100
#: Letters and digits of any script, with an apostrophe between them: don't is one word, and k-means are two.
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
#: The same for ASCII text, which is faster.
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_DROPPED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How a text becomes words: casefolded, without stop words and words without a letter, not stemmed.

    >>> Words(ngrams=2).count(["The k-means of 10 K-Means' clusters"])[0]
    {'means': 2, 'clusters': 1, 'means means': 1, 'means clusters': 1}
    """

    stop: frozenset[str] = STOP_WORDS
    """Words that are left out, compared after casefolding."""
    shortest: int = 2
    """The fewest characters of a word."""
    ngrams: int = 1
    """The largest number of neighbouring words that make a feature; stop words do not count as neighbours."""
    longest: int = field(default=_MOST_LETTERS, repr=False)
    """The most characters of a word; longer ones are no words, and left out."""

    def __post_init__(self) -> None:
        for name, most in (("shortest", _MOST_LETTERS), ("ngrams", _MOST_NGRAMS), ("longest", _MOST_LETTERS)):
            given = getattr(self, name)
            check_count(name, given)
            if given > most:
                raise InputError(f"{name} must be at most {most}, got {given}.", hint=f"{name}={most}")
        listed: Any = self.stop
        if isinstance(listed, str) or not all(isinstance(word, str) for word in listed):
            raise InputError("stop must be a set of words.", hint="stop=frozenset({'the', 'of'})")
        object.__setattr__(self, "stop", frozenset(folded(word) for word in self.stop))

    def keeps(self, word: str) -> bool:
        """Tell whether a casefolded word is a feature."""
        long_enough = self.shortest <= len(word) <= self.longest
        return long_enough and word not in self.stop and any(map(str.isalpha, word))

    def count(self, texts: Iterable[str | None]) -> list[dict[str, int]]:
        """Return the words of each text and how often it has them."""
        listed = list(texts)
        places, words, names, counts = self._counted(listed)
        found: list[dict[str, int]] = [{} for _ in listed]
        for place, word, count in zip(places.tolist(), words.tolist(), counts.tolist(), strict=True):
            found[place][names[word]] = count
        return found

    def rows(self, batch: pa.RecordBatch, *, packed: bool = False) -> pa.RecordBatch:
        """Return rows with ``feature`` and ``value`` in place of the texts in ``feature``; other columns are repeated.

        Args:
            batch: The texts.
            packed: Whether repeated cells are dictionaries, which are written faster.
        """
        import pyarrow as pa

        places, words, names, counts = self._counted(batch.column("feature").to_pylist())

        def repeated(cells: pa.Array, at: NDArray[np.int64]) -> pa.Array:
            if packed:
                return pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32)), cells)
            return cells.take(pa.array(at))

        kept = {name: repeated(batch.column(name), places) for name in batch.schema.names if name != "feature"}
        made = {"feature": repeated(pa.array(names, pa.string()), words), "value": pa.array(counts)}
        columns = kept | made
        ordered = [name for name in ("unit", "feature", "label", "value") if name in columns]
        return pa.RecordBatch.from_arrays([columns[name] for name in ordered], names=ordered)

    def _counted(
        self, texts: Sequence[str | None]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str], NDArray[np.int64]]:
        """Return the place of the text, the number of the word, the words' names, and how often: for each text and word."""
        known = _Numbers(self.keeps)
        sizes, listed = np.zeros(len(texts), np.int64), list[int]()
        for place, text in enumerate(texts):
            if not text:
                continue
            before = len(listed)
            for part in text.split(PARTS) if self.ngrams > 1 else (text,):
                listed += self._numbered(split(part), known)
            sizes[place] = len(listed) - before
        places, words = np.repeat(np.arange(len(texts)), sizes), np.array(listed, dtype=np.int64)
        seen = words != _DROPPED
        places, words = places[seen], words[seen]
        many = max(1, len(known))
        keys, counts = np.unique(places * many + words, return_counts=True)
        return keys // many, keys % many, known.names, counts.astype(np.int64)

    def _numbered(self, words: list[str], known: _Numbers) -> list[int]:
        """Return the numbers of a text's words, and then of its pairs of words, and so on."""
        numbers = list(map(known.__getitem__, words))
        if self.ngrams == 1:
            return numbers
        kept = [word for word, number in zip(words, numbers, strict=True) if number != _DROPPED]
        grams = (" ".join(kept[at : at + n]) for n in range(2, self.ngrams + 1) for at in range(len(kept) - n + 1))
        return numbers + [known.number(gram) for gram in grams]


class _Numbers(dict[str, int]):
    """Word -> its number in one batch, or -1 if it is left out."""

    def __init__(self, keeps: Callable[[str], bool]) -> None:
        super().__init__()
        self.names: list[str] = []
        self._keeps = keeps

    def __missing__(self, word: str) -> int:
        if self._keeps(word):
            return self.number(word)
        self[word] = _DROPPED
        return _DROPPED

    def number(self, name: str) -> int:
        """Return the number of a feature that is not left out."""
        # A number of words has a space in it, so it is never a word.
        found = self.get(name)
        if found is None:
            found = self[name] = len(self.names)
            self.names.append(name)
        return found


def folded(text: str) -> str:
    """Return text in composed form without differences of case; a typographic apostrophe becomes the plain one.

    >>> folded("Straße DON’T")
    "strasse don't"
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).replace("\u2019", "'")


def split(text: str) -> list[str]:
    """Return the words of a text in their order, casefolded.

    >>> split("State-of-the-art: don't!")
    ['state', 'of', 'the', 'art', "don't"]
    """
    plain = folded(text)
    return (_ASCII_WORD if plain.isascii() else _WORD).findall(plain)


def words_of(frame: Any, *, unit: str, text: str, label: str | None = None, words: Words = Words()) -> Any:
    """Return a Spark DataFrame of (unit, feature, label, value) with the words of texts, split in the tasks.

    Args:
        frame: A Spark DataFrame with one text per row.
        unit: Column of the unit.
        text: Column of the text.
        label: Column of the label; without one, labels come from a seed.
        words: How a text becomes words.
    """
    chosen = {"unit": unit, "feature": text, **({} if label is None else {"label": label})}
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    missing = [name for name in chosen.values() if name not in types]
    if missing:
        raise InputError(f"The DataFrame has no column {missing[0]!r}.", hint="names are case-sensitive")
    if not types[text].startswith(("string", "varchar")):
        raise InputError(f"The column {text!r} has type {types[text]}, which is no text.", hint="cast it to text first")
    narrow = frame.selectExpr(*(f"{SPARK.quote(name)} AS {role}" for role, name in chosen.items()))
    made = {"unit": types[unit], "feature": "string"} | ({} if label is None else {"label": types[label]})
    schema = ", ".join(f"{role} {type_}" for role, type_ in (made | {"value": "bigint"}).items())
    return narrow.mapInArrow(partial(_mapped, words=words), schema)


def _mapped(batches: Iterable[pa.RecordBatch], *, words: Words) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield words.rows(batch)
