"""Import of texts: a table with one text per row, or the AMiner citation network, becomes a file of rows of words.

An import is no release. Its file holds the words of each text, as private as the texts were. A row of the result depends on one
record alone: records that cannot be read are skipped, and none of them is an error.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ddpmi.curator.observations import observe
from ddpmi.datasets.words import PARTS, Words
from ddpmi.errors import Hint, InputError, InputNotFound
from ddpmi.pipeline.dialects import quote
from ddpmi.pipeline.steps import Expression
from ddpmi.text import shortened, write_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ddpmi._typing import Progress, Target

_TEXTS = 4096  # texts that are split together
_BLOCK = 1 << 22  # bytes that are read at once
_LONGEST_LINE = 16 << 20
_ROW_GROUP = 1 << 20
AMINER_TEXTS: Final = ("title", "abstract", "venue")
"""The fields of a record that may be split into words."""
_CONVERT = r"sed -E 's/NumberInt\(([0-9]+)\)/\1/g' dblpv13.json | jq -c '.[]' > dblpv13.jsonl"
_YEAR = re.compile(r"[0-9]{1,4}")


def import_text(  # noqa: PLR0913 - keywords, most of them as for observe
    data: Any,
    *,
    to: Target,
    unit: str | Expression,
    text: str | Iterable[str],
    label: str | Expression | None = None,
    where: str | None = None,
    words: Words = Words(),  # noqa: B008 - a frozen value
    encoding: str | None = None,
    conf: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the words of texts as rows of (unit, feature, label, value): a word and how often its text has it.

    Args:
        data: What `observe` reads, on this machine: files, a frame, an Arrow table. One row has one text.
        to: The Parquet file to write.
        unit: Column of the unit, whose privacy will be protected: the document, or its author.
        text: Column of the text, or several; words of different columns are no neighbours.
        label: Column of the label; without one the rows have none, and labels come from a seed.
        where: As for `observe`.
        words: How a text becomes words.
        encoding: As for `observe`.
        conf: As for `observe`.
        overwrite: Replace a file that exists.
        progress: Called with the name of the stage and its fraction done, or None.

    Returns:
        The path of the file.

    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> texts = pa.table({"id": [1], "text": ["Noise hides one; noise sums to zero."], "year": [2006]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = import_text(texts, to=f"{folder}/rows.parquet", unit="id", text="text", label="year")
    ...     pq.read_table(made).to_pylist()[0]
    {'unit': 1, 'feature': 'noise', 'label': 2006, 'value': 2}
    """
    place = _checked(to, overwrite=overwrite)
    obs = observe(
        data,
        unit=unit,
        feature=_joined(text),
        # Rows need a label to be read; this one is not written.
        label=Expression("''") if label is None else label,
        where=where,
        encoding=encoding,
        conf=conf,
    )
    roles = ["unit", "feature", *([] if label is None else ["label"])]

    def batches() -> Iterator[pa.RecordBatch]:
        with obs.open() as engine:
            engine.run(obs.rows(engine))
            for batch in engine.batches(f"SELECT {', '.join(roles)} FROM rows", rows=_TEXTS):
                if progress is not None:
                    progress("split texts into words", None)
                yield batch

    return _written(batches(), place, words, roles=roles, overwrite=overwrite)


def import_aminer(
    files: Target | Iterable[Target],
    *,
    to: Target,
    text: str | Iterable[str] = "abstract",
    words: Words = Words(),  # noqa: B008 - a frozen value
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the words of the AMiner citation network as rows of (unit, feature, label, value): paper, word, year, count.

    Versions 10 to 12 are read as they are, also packed (``.gz``, ``.zst``). A paper without a year, an id or one of these
    texts is skipped, and so is a line that is no record.

    Args:
        files: The files, for example ``dblp-ref-0.json`` to ``dblp-ref-3.json``.
        to: The Parquet file to write.
        text: "title", "abstract", "venue", or several of them.
        words: How a text becomes words.
        overwrite: Replace a file that exists.
        progress: Called with the name of the stage and its fraction done.

    Returns:
        The path of the file.

    Raises:
        InputNotFound: There is no file.
        InputError: A file is of a version that has another form.
    """
    place = _checked(to, overwrite=overwrite)
    fields = tuple([text] if isinstance(text, str) else text)
    unknown = [name for name in fields if name not in AMINER_TEXTS]
    if unknown or not fields:
        given = shortened(unknown[0]) if unknown else "nothing"
        raise InputError(f"A record has the texts {', '.join(AMINER_TEXTS)}, got {given}.", hint="text='abstract'")
    paths = [Path(os.fspath(file)) for file in ([files] if isinstance(files, str | os.PathLike) else files)]
    if not paths:
        raise InputNotFound("The list of files is empty.", hint="dblp-ref-0.json dblp-ref-1.json")
    for path in paths:
        aminer_version(path)
    roles = ["unit", "feature", "label"]
    return _written(_papers(paths, fields, progress), place, words, roles=roles, overwrite=overwrite)


def _checked(to: Target, *, overwrite: bool) -> Path:
    place = Path(os.fspath(to))
    if place.suffix.lower() != ".parquet":
        raise InputError(f"Rows are written as Parquet, got the name {place.name!r}.", hint="rows.parquet")
    if place.is_dir() or (place.exists() and not overwrite):
        raise InputError(f"{place.name} exists already.", hint=Hint(python="overwrite=True", cli="--overwrite"))
    return place


def _joined(text: str | Iterable[str]) -> str | Expression:
    """Return the column of the text, or an expression that joins several so that their words are no neighbours."""
    names = [text] if isinstance(text, str) else list(text)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InputError("text must be the name of a column, or several.", hint="text='abstract'")
    if len(names) == 1:
        return names[0]
    quoted = [quote(name) for name in names]
    return Expression(f" || '{PARTS}' || ".join(f"coalesce(CAST({name} AS VARCHAR), '')" for name in quoted))


def _written(
    batches: Iterable[pa.RecordBatch], place: Path, words: Words, *, roles: Sequence[str], overwrite: bool
) -> Path:
    """Write the rows of words of all texts to one file, which appears when it is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(draft: Path) -> None:
        writer: pq.ParquetWriter | None = None
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(words.rows(batch, packed=True))
            if writer is None:
                # Dictionaries are how cells are written; the columns are plain text and numbers.
                writer = pq.ParquetWriter(draft, held[0].schema, compression="zstd", store_schema=False)
            if sum(part.num_rows for part in held) >= _ROW_GROUP:
                writer.write_table(pa.Table.from_batches(held))
                held.clear()
        if writer is None:
            # Without a text there are no types; that is no error, because rows never are one.
            fields = [(role, pa.int64() if role == "value" else pa.string()) for role in (*roles, "value")]
            pq.write_table(pa.schema(fields).empty_table(), draft)
            return
        if held:
            writer.write_table(pa.Table.from_batches(held))
        writer.close()

    return write_new(place, write, overwrite=overwrite)


@dataclass(frozen=True, slots=True)
class _Version:
    """A form of the files, by the first bytes that are no white space."""

    name: str
    start: re.Pattern[bytes]
    refusal: str = ""
    hint: str = ""


_VERSIONS = (
    _Version(
        "V9 or older",
        re.compile(rb"#"),
        "lines of tagged text, which are not read",
        "take V10 or newer, or make a table of id, text and year and use ddpmi import text",
    ),
    _Version(
        "V13 or newer",
        re.compile(rb"\[?\s*\{\s*[\r\n]"),
        "one document over many lines",
        f"write one record per line first: {_CONVERT}",
    ),
    _Version("V12", re.compile(rb"\[")),
    _Version("V10 or V11", re.compile(rb"\{|$")),
)


def aminer_version(path: Target) -> str:
    """Return which version of the AMiner citation network a file is, by the form of its start.

    Raises:
        InputNotFound: There is no such file.
        InputError: The version is not read, or the file is none of them.
    """
    place = Path(os.fspath(path))
    if not place.is_file():
        raise InputNotFound(f"No file is at {place}.", hint="check the path")
    with _opened(place) as (stream, _):
        start = bytes(stream.read(1 << 16)).removeprefix(b"\xef\xbb\xbf").lstrip()
    found = next((version for version in _VERSIONS if version.start.match(start)), None)
    if found is None:
        raise InputError(f"{place} is no file of the AMiner citation network.", hint="one JSON record per line")
    if found.refusal:
        raise InputError(f"{place} is AMiner {found.name}: {found.refusal}.", hint=found.hint)
    return found.name


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """Open a file that may be packed; yield what it holds, and the file itself, whose place tells how much is done."""
    import pyarrow as pa

    packed = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}.get(path.suffix.lower())
    with pa.OSFile(str(path)) as raw:
        if packed is None:
            yield raw, raw
            return
        with pa.CompressedInputStream(raw, packed) as stream:
            yield stream, raw


def _papers(paths: list[Path], fields: tuple[str, ...], progress: Progress | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = pa.schema([("unit", pa.string()), ("feature", pa.string()), ("label", pa.int64())])
    whole, before = max(1, sum(path.stat().st_size for path in paths)), 0
    held: list[tuple[str, str, int]] = []

    def batch() -> pa.RecordBatch:
        columns = zip(*held, strict=True) if held else ((), (), ())
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        held.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    yield batch()  # the columns, also where no paper can be read
    for path in paths:
        with _opened(path) as (stream, raw):
            for line in _lines(stream):
                paper = _paper(line, fields)
                if paper is None:
                    continue
                held.append(paper)
                if len(held) == _TEXTS:
                    if progress is not None:
                        progress("split abstracts into words", min(1.0, (before + raw.tell()) / whole))
                    yield batch()
        before += path.stat().st_size
    yield batch()


def _lines(stream: Any) -> Iterator[bytes]:
    """Split a stream at its line ends alone. A line that is too long is left out."""
    rest, too_long = b"", False
    while block := stream.read(_BLOCK):
        first, *others = bytes(block).split(b"\n")
        rest = b"" if too_long else rest + first
        if not others:
            too_long = too_long or len(rest) > _LONGEST_LINE
            continue
        if not too_long:
            yield rest
        yield from others[:-1]
        rest, too_long = others[-1], False
    if not too_long:
        yield rest


def _paper(line: bytes, fields: tuple[str, ...]) -> tuple[str, str, int] | None:
    """Return the id, the texts and the year of a record; None for anything else. It never fails."""
    # V12 is one array: its lines start with a comma or a bracket, or end with one.
    plain = line.strip().strip(b",[]").strip()
    if not plain.startswith(b"{"):
        return None
    try:
        record = json.loads(plain.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    unit, year = _key(record.get("id", record.get("_id"))), _year(record.get("year"))
    texts = [found for name in fields if (found := _text(record, name))]
    if unit is None or year is None or not texts:
        return None
    return unit, PARTS.join(texts), year


def _key(given: object) -> str | None:
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return _valid(given) if isinstance(given, str) and given else None


def _year(given: object) -> int | None:
    if isinstance(given, str):
        return int(given) if _YEAR.fullmatch(given) else None
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 < given <= 9999 else None  # noqa: PLR2004


def _text(record: Mapping[str, Any], name: str) -> str | None:
    """Return a text of a record. V11 has lists of places in place of the abstract; a venue may be an object."""
    given = record.get(name)
    if isinstance(given, dict):
        given = given.get("raw")
    if given is None and name == "abstract":
        given = _from_index(record.get("indexed_abstract"))
    return _valid(given) if isinstance(given, str) else None


def _from_index(given: object) -> str | None:
    """Return an abstract from its inverted index: each word with its places."""
    index = given.get("InvertedIndex") if isinstance(given, dict) else None
    if not isinstance(index, dict):
        return None
    placed = [(at, word) for word, places in index.items() if isinstance(places, list) for at in places]
    if len(placed) > _LONGEST_LINE or not all(isinstance(at, int) for at, _ in placed):
        return None
    return " ".join(word for _, word in sorted(placed))


def _valid(text: str) -> str:
    """Replace halves of characters, which JSON may hold and no file of text can."""
    return text.encode("utf-8", "replace").decode("utf-8")
