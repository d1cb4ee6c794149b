"""The command line: arguments in, exit code out. What it does is done by the library.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 budget refused, 130 interrupted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from ddpmi import cli_expand, cli_ledger, cli_rank
from ddpmi import cli_show as show
from ddpmi import cli_steps as steps
from ddpmi.cli_columns import DATA_HELP, ColumnOptions
from ddpmi.cli_options import (
    BoundOptions,
    EngineOptions,
    KeyOptions,
    PlanOptions,
    PrivacyOptions,
    ReadingOptions,
    ReleaseOptions,
    example,
)
from ddpmi.errors import DdpmiError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Data = Annotated[list[str] | None, Parameter(metavar="DATA", help=DATA_HELP)]
Folder = Annotated[Path, Parameter(name=["--output", "-o"], metavar="DIR")]


def _version() -> str:
    from importlib import metadata

    return metadata.version("ddpmi")


app = App(
    name="ddpmi",
    version=_version,
    help="Rank what sets each group apart, computed only from differentially private sums.",
    help_format="plaintext",
    help_epilogue=example(
        "ddpmi demo",
        "ddpmi ledger create visits.ledger --epsilon 4 --delta 1e-6",
        "ddpmi run visits.parquet --unit user_id --feature site --label country \\",
        "    --epsilon 1 --delta 1e-7 --pairs 50 \\",
        "    --ledger visits.ledger -o visits.release",
    ),
    default_parameter=Parameter(negative=""),
    suppress_keyboard_interrupt=False,
)


@app.command(help_epilogue=example("ddpmi demo -o flights"))
def demo(*, output: Folder = Path("demo")) -> None:
    """Rank the destinations that set airlines apart, on public flights, with a fresh ledger.

    Args:
        output: Folder for the ledger, the release and the report; a taken name gets a number.
    """
    from ddpmi.demo import run_demo

    with show.Progress() as progress:
        told, best = run_demo(output, progress=progress)
    heads = ("airline", "destination", "of the airline", "of the others", "lift")
    rows = best.table.to_pylist()
    shares = [[f"{row[name] or 0:.1%}" for name in ("share_in", "share_out")] for row in rows]
    cells = (
        [row["label"], row["feature"], *part, f"{row['lift']:.3g}"] for row, part in zip(rows, shares, strict=True)
    )
    show.put(f"{show.rich_table(heads, cells, names=heads[:2])}\n{told}")


@app.command(
    help_epilogue=example(
        "ddpmi plan visits.parquet --unit user_id --feature site --label country \\",
        "    --epsilon 1 --delta 1e-7 --pairs 50",
        "ddpmi plan visits.parquet --unit user_id --feature site \\",
        '    --label-sql "year(visited)" --where "country = \'NZ\'" \\',
        "    --public-labels years.txt --grid --epsilon 1 --delta 1e-7 --pairs 50",
        "ddpmi plan --suggest units=10e6,labels=22 --epsilon 0.5 --delta 1e-8 --distinct=units",
        "ddpmi plan --simulate units=10e6,zipf=1.1,labels=22 --epsilon 1 --delta 1e-7 --pairs 1",
    )
)
def plan(  # noqa: PLR0913 - the options of a command
    data: Annotated[
        list[str] | None,
        Parameter(
            metavar="DATA",
            help=f"{DATA_HELP} At most the schema is read, to check the columns.",
        ),
    ] = None,
    /,
    *,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008 - a frozen value
    privacy: PrivacyOptions,
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    keys: KeyOptions = KeyOptions(),  # noqa: B008
    reading: EngineOptions = EngineOptions(),  # noqa: B008
    simulate: Annotated[str | None, Parameter(metavar="HINTS")] = None,
    format: Literal["text", "json"] = "text",  # noqa: A002 - the option's name
) -> None:
    """Print what a release would do and cost: shares, noise, thresholds and SQL. Free.

    Args:
        data: The rows.
        columns: Which column holds what.
        privacy: What is promised.
        bounds: How much one unit may change.
        keys: What can appear.
        reading: Who reads the data.
        simulate: Print instead what to expect over epsilons from 0.1 to 8, from public hints alone: units=N and, if known,
            labels=N, features=N, pairs_per_unit=N, zipf=S (the k-th feature is as common as k to the power of -S), lean=P
            (the part of each feature's pairs that has its own label).
        format: Text for people, or JSON.
    """
    from ddpmi.statements import DUCKDB, SPARK

    settled = PlanOptions(columns=columns, privacy=privacy, bounds=bounds, keys=keys).plan()
    named = reading.named()
    encoding: str | None = ""
    if data or reading.table is not None:
        encoding = columns.observe(reading.data(data), **named).source.encoding
    elif columns.need_data:
        raise InputError(
            "Columns or rows are named, but there is no DATA to check them in.",
            hint="ddpmi plan DATA --unit NAME ..., or leave them out",
        )
    if simulate is not None:
        steps.put_simulation(settled, simulate, json_=format == "json")
    elif format == "json":
        more = {"encoding": encoding} if encoding else {}
        show.put(json.dumps(show.plan_numbers(settled) | more, indent=2) + "\n")
    else:
        dialect = SPARK if reading.engine == "spark" else DUCKDB
        show.put(show.plan_text(settled, columns.sql_of(settled, dialect), dialect.name, encoding))


@app.command(
    help_epilogue=example(
        "ddpmi release visits.parquet --unit user_id --feature site --label country \\",
        "    --epsilon 1 --delta 1e-7 --pairs 50 \\",
        "    --ledger visits.ledger -o visits.release",
        "ddpmi release counts.csv --count devices --feature app --label segment \\",
        "    --epsilon 1 --delta 1e-7 --ledger apps.ledger -o apps.release",
    )
)
def release(  # noqa: PLR0913 - the options of a command
    data: Data = None,
    /,
    *,
    to: ReleaseOptions,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008
    privacy: PrivacyOptions,
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    keys: KeyOptions = KeyOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """Charge the ledger, read the data and write a differentially private release.

    Args:
        data: The rows.
        to: Who pays and where the release goes.
        columns: Which column holds what.
        privacy: What is promised.
        bounds: How much one unit may change.
        keys: What can appear.
        reading: How the data is read.
    """
    asked = PlanOptions(columns=columns, privacy=privacy, bounds=bounds, keys=keys)
    steps.make_release(data, to, asked, reading)


@app.command(
    help_epilogue=example(
        "ddpmi run visits.parquet --unit user_id --feature site --label country \\",
        "    --epsilon 1 --delta 1e-7 --pairs 50 \\",
        "    --ledger visits.ledger -o visits.release",
    )
)
def run(  # noqa: PLR0913
    data: Data = None,
    /,
    *,
    to: ReleaseOptions,
    report: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    top: Annotated[int, Parameter(metavar="N")] = cli_rank.USUAL_TOP,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008
    privacy: PrivacyOptions,
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    keys: KeyOptions = KeyOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """Release, rank and report in one go.

    Args:
        data: The rows.
        to: Who pays and where the release goes.
        report: Page to write; DIR.html if it is not named.
        top: Pairs shown for each label, at most 100.
        columns: Which column holds what.
        privacy: What is promised.
        bounds: How much one unit may change.
        keys: What can appear.
        reading: How the data is read.
    """
    from ddpmi.rankings import rank as rank_release
    from ddpmi.reports import report as write_report

    steps.check_top_of_page(top)
    page = to.output.with_name(f"{to.output.name}.html") if report is None else report
    steps.check_new_file(page)
    asked = PlanOptions(columns=columns, privacy=privacy, bounds=bounds, keys=keys)
    released = steps.make_release(data, to, asked, reading)
    with show.working("ranking"):
        ranking = rank_release(released)
        write_report(ranking, page, top=top)
        text = show.ranking_table(ranking, ranking.top(top))
    show.say(f"Wrote the report {page}.")
    show.put(text)


@app.command(
    help_epilogue=example("ddpmi exact abstracts.parquet --unit paper --feature word --label year -o abstracts.exact")
)
def exact(
    data: Data = None,
    /,
    *,
    output: Folder,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """Sum exactly, NOT PRIVATE: for public data and for evaluation.

    Args:
        data: The rows.
        output: Folder to write; it must not exist.
        columns: Which column holds what.
        bounds: How much one unit may change; nothing is bounded unless something is given here.
        reading: How the data is read.
    """
    from ddpmi.curator import exact as sum_exactly

    settled = bounds.bounds(columns) if bounds.given() else None
    named = reading.named()
    obs = columns.observe(reading.data(data), **named)
    steps.check_new_folder(output)
    with show.Progress() as progress:
        found = sum_exactly(obs, bounds=settled, space=columns.counts, to=output, progress=progress)
    show.say("NOT PRIVATE: these are exact sums, and they may expose the people in the data.")
    pairs = found.tables.count("pairs")
    show.say(f"Wrote {pairs} pairs to {output}.")
    show.warn_if_empty(found, pairs)


cli_rank.add_to(app)
cli_expand.register(app)
app.command(cli_ledger.app)


def main(arguments: Sequence[str] | None = None) -> int:  # noqa: PLR0911 - one for each way to end
    """Run one command.

    Args:
        arguments: The words after ``ddpmi``; those of this process by default.

    Returns:
        The exit code.

    >>> main(["ledger", "show", "no.ledger"])
    2
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not logging.root.handlers:
        # Libraries may log rows, and Spark's gateway logs tracebacks at Ctrl-C: what a user must know is said below.
        logging.root.addHandler(logging.NullHandler())
    try:
        return _run(words)
    except CycloptsError as error:
        show.say_error(str(error), f"{_called(error)} --help")
        return show.WRONG_USAGE
    except DdpmiError as error:
        return show.say_known_error(error)
    except KeyboardInterrupt as error:
        return _say_interrupted(error)
    except (BrokenPipeError, SystemExit):
        # The second is how the help of the command line meets a closed pipe.
        return _stop_talking()
    except OSError as error:
        where = "" if error.filename is None else f": {error.filename}"
        show.say_error(
            f"{error.strerror or type(error).__name__}{where}.",
            "check the path, the room and the permissions",
            getattr(error, "__notes__", ()),
        )
        return show.FAILED
    except Exception as error:  # noqa: BLE001 - a traceback may quote rows
        return _say_unexpected(error)


def _run(words: list[str]) -> int:
    app(_plain_distinct(words), exit_on_error=False, print_error=False, result_action="return_value")
    sys.stdout.flush()
    return 0


def _plain_distinct(words: list[str]) -> list[str]:
    """Write the bare flag --distinct in full, so that it never takes the word after it."""
    end = words.index("--") if "--" in words else len(words)
    return ["--distinct=true" if word == "--distinct" and at < end else word for at, word in enumerate(words)]


def _called(error: CycloptsError) -> str:
    return " ".join(("ddpmi", *(error.command_chain or ())))


def _stop_talking() -> int:
    """Whoever read stdout has seen enough. The interpreter flushes once more at exit; let that go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _say_interrupted(error: BaseException) -> int:
    show.say_error("Interrupted.", notes=getattr(error, "__notes__", ()))
    return show.INTERRUPTED


def _say_unexpected(error: Exception) -> int:
    if os.environ.get("DDPMI_DEBUG") == "1":
        traceback.print_exception(error)
        return show.FAILED
    show.say_error(
        f"internal error: {type(error).__name__}. Please report it.",
        "run again with DDPMI_DEBUG=1 for the traceback, which may quote rows of the data",
        getattr(error, "__notes__", ()),
    )
    return show.FAILED
