"""``ddpmi import``: texts become rows of words. An import is no release: its file is as private as the texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from ddpmi.cli.options import Data, settings_of
from ddpmi.cli.output import Progress, example, say
from ddpmi.errors import InputError, InputNotFound
from ddpmi.text import NOT_PRIVATE

if TYPE_CHECKING:
    from ddpmi.datasets.words import Words

Rows = Annotated[Path, Parameter(name=["--output", "-o"], metavar="FILE")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WordOptions:
    """How a text becomes words."""

    stop: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """Words that are left out: UTF-8 text, one word per line. The default is a short English list; an empty file is none."""
    min_length: Annotated[int, Parameter(metavar="N")] = 2
    """Fewest characters of a word."""
    ngrams: Annotated[int, Parameter(metavar="N")] = 1
    """Largest number of neighbouring words that make a feature: with 2 also "neural network"."""

    def words(self) -> Words:
        """Return what the library calls it."""
        from ddpmi.datasets.words import STOP_WORDS, Words

        return Words(
            stop=STOP_WORDS if self.stop is None else _stop_words(self.stop),
            shortest=self.min_length,
            ngrams=self.ngrams,
        )


def _stop_words(file: Path) -> frozenset[str]:
    if not file.exists() or file.is_dir():
        raise InputNotFound(f"--stop: there is no file {file}.", hint="a text file with one word per line")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except ValueError:
        raise InputError(f"--stop: {file} is not UTF-8 text.", hint="a text file with one word per line") from None
    return frozenset(word for line in lines if (word := line.strip()))


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Which column holds what, and how the texts are read."""

    unit: Annotated[str, Parameter(name=["--unit", "--id"], metavar="NAME")]
    """Column of the unit, whose privacy will be protected: the document, or its author."""
    text: Annotated[tuple[str, ...], Parameter(metavar="NAME")]
    """Column of the text. May be repeated."""
    label: Annotated[str | None, Parameter(name=["--label", "--partition"], metavar="NAME")] = None
    """Column of the label. Without one, labels come from a seed."""
    label_sql: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Instead of --label: an expression over the columns of one row, for example "year(CAST(written AS DATE))"."""
    where: Annotated[str | None, Parameter(metavar="SQL")] = None
    """Keep only the rows for which this expression is true."""
    encoding: Annotated[str | None, Parameter(metavar="NAME")] = None
    """Text encoding of CSV and JSON lines files. The default is utf-8."""
    conf: Annotated[tuple[str, ...], Parameter(metavar="KEY=VALUE", show_default=False)] = ()
    """Setting of the engine, for example threads=2. May be repeated."""

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `import_text`. Options that contradict each other are refused."""
        from ddpmi.pipeline.steps import sql

        if self.label is not None and self.label_sql is not None:
            raise InputError("--label and --label-sql were both given.", hint="name a column or an expression")
        given = [("--unit", self.unit), ("--label", self.label), *(("--text", name) for name in self.text)]
        for option, name in given:
            if name == "":
                raise InputError(f"{option} is empty.", hint=f"{option} NAME")
        return {
            "unit": self.unit,
            "text": self.text,
            "label": self.label if self.label_sql is None else sql(self.label_sql),
            "where": self.where,
            "encoding": self.encoding,
            "conf": settings_of("--conf", self.conf, "threads=2"),
        }


def import_text(
    data: Data = None,
    /,
    *,
    texts: TextOptions,
    output: Rows,
    words: WordOptions = WordOptions(),
    overwrite: bool = False,
) -> None:
    """Write the words of texts as rows: unit, feature (a word), label, value (how often the text has it).

    Words are casefolded and not stemmed. Each text is read by itself.

    Args:
        data: The texts, one in each row.
        texts: Which column holds what, and how the texts are read.
        output: Parquet file to write.
        words: How a text becomes words.
        overwrite: Replace a file that exists.
    """
    from ddpmi.datasets import texts as library

    if not data:
        raise InputError("There is no DATA.", hint="name files of texts")
    keywords = texts.keywords()
    with Progress() as progress:
        library.import_text(data, to=output, **keywords, words=words.words(), overwrite=overwrite, progress=progress)
    _say_next(output, labelled=keywords["label"] is not None)


def import_aminer(
    files: Annotated[list[Path] | None, Parameter(metavar="FILES")] = None,
    /,
    *,
    output: Rows,
    text: tuple[Literal["title", "abstract", "venue"], ...] = ("abstract",),
    words: WordOptions = WordOptions(),
    overwrite: bool = False,
) -> None:
    """Write the words of the AMiner citation network as rows: the paper, a word, the year, how often the paper has it.

    Versions 10 to 12 are read as they are, also packed. Papers without a text or a year are skipped.

    Args:
        files: The files of records, for example dblp-ref-0.json to dblp-ref-3.json.
        output: Parquet file to write.
        text: Text of a paper. May be repeated.
        words: How a text becomes words.
        overwrite: Replace a file that exists.
    """
    from ddpmi.datasets import texts

    if not files:
        raise InputError("There are no FILES.", hint="ddpmi import aminer dblp-ref-*.json -o rows.parquet")
    for file in files:
        say(f"{file} is AMiner {texts.aminer_version(file)}.")
    with Progress() as progress:
        texts.import_aminer(files, to=output, text=text, words=words.words(), overwrite=overwrite, progress=progress)
    _say_next(output, labelled=True)


def _say_next(output: Path, *, labelled: bool) -> None:
    columns = "unit, feature, label and value" if labelled else "unit, feature and value"
    say(f"Wrote {output} with the columns {columns}. {NOT_PRIVATE}: it holds the words of each text.")
    say("Its columns have the names that ddpmi knows, so no option has to name them; --value value counts frequencies.")


def register(app: App) -> None:
    """Add the commands."""
    group = App(
        name="import",
        help="Turn texts into rows of words.",
        help_epilogue=example(
            "ddpmi import text abstracts.csv --id paper --text abstract --label year -o rows.parquet"
        ),
    )
    group.command(
        import_text,
        name="text",
        help_epilogue=example(
            "ddpmi import text abstracts.jsonl --id paper --text title --text abstract \\",
            "    --label year -o rows.parquet",
        ),
    )
    group.command(
        import_aminer,
        name="aminer",
        help_epilogue=example("ddpmi import aminer dblp-ref-*.json -o rows.parquet"),
    )
    app.command(group)
