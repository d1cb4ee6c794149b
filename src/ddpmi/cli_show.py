"""How the command line speaks: data on stdout, talk on stderr, no row and no traceback anywhere.

Names in a release are hostile text: they are printed literally, control characters as escapes.
"""

from __future__ import annotations

import io
import math
import re
import shutil
import sys
import tempfile
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ddpmi.errors import BudgetExceeded, DdpmiError, InputError
from ddpmi.show import NOT_PRIVATE, cells_of, heads_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from rich.progress import Progress as RichProgress

    from ddpmi.ledger_entries import Status
    from ddpmi.plan import Plan
    from ddpmi.rankings import Ranking
    from ddpmi.releases import Release
    from ddpmi.statements import Step

FAILED, WRONG_USAGE, REFUSED, INTERRUPTED = 1, 2, 3, 130

_PIPE_WIDTH = 120
_WIDE = 110  # narrower terminals show fewer columns, so that names stay whole
_PATIENCE = 1.0  # seconds before a bar appears: short runs stay quiet
_ONLY_WIDE = ("interval", "share_out")
_WORDS = ("direction", "state", "mechanism", "time")

COMPARED_EXACT = f"{NOT_PRIVATE}: at least one side was computed from exact sums."

_SETTINGS = ("memory_limit", "threads", "temp_directory")
_OPTIONS = (
    *("unit", "feature", "label", "value", "dataset", "pairs", "clip", "step", "labels", "cap", "strategy"),
    *("epsilon", "delta", "mechanism", "distinct", "release_id", "top", "base", "method", "score", "by"),
    *("where", "count", "space", "engine", "grid", "complete", "marginals"),
    *("public_labels", "public_features", "labels_only"),
)
_FILES = ("public_labels", "public_features")
_CALL = re.compile(r"\b(?:Budget|Bounds|observe|observe_counts)\(([^()]*)\)")
_EXPRESSION = re.compile(r"""\b(unit|feature|label|value)=sql\(('[^']*'|"[^"]*")\)""")
_OUT = re.compile(r"\bleave (grid|complete|marginals|clip|cap|distinct) out\b")
_KEYWORD = re.compile(
    # Not inside what is an option's value already.
    rf"(?<![-,\w])(?<!--shares )(?<!--conf )"
    rf"(?:(shares|conf)=\{{([^{{}}]*)\}}"
    rf"|({'|'.join((*_OPTIONS, *_SETTINGS))})=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^\s,;)]*))"
)


def say(text: str) -> None:
    """Print talk to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def put(text: str) -> None:
    """Print data to stdout, whatever encoding the terminal has."""
    encoding = _encoding()
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def in_options(hint: str) -> str:
    """Rewrite the keywords of a hint as options.

    >>> in_options("Budget(epsilon=1, delta=1e-7)")
    '--epsilon 1 --delta 1e-7'
    >>> in_options("give it more with conf={'memory_limit': '8GB'}, or set mechanism='laplace'")
    'give it more with --conf memory_limit=8GB, or set --mechanism laplace'
    >>> in_options("public_labels=['a', 'b']")
    '--public-labels FILE'
    """

    def unwrapped(call: re.Match[str]) -> str:
        return " ".join(part for part in call[1].split(", ") if "=" in part)

    def option(match: re.Match[str]) -> str:
        if match[1] is not None:
            return f"--{match[1]} {match[2].replace(': ', '=').replace(', ', ',').replace(chr(39), '')}"
        value = match[4] if " " in match[4] else match[4].strip("'\"")
        if match[3] in _SETTINGS:
            return f"--conf {match[3]}={value}"
        if match[3] in _FILES:
            value = "FILE"
        return f"--{match[3].replace('_', '-')} {value}".rstrip()

    hint = hint.replace("Plan(..., row_local=True)", "--row-local")
    told = _EXPRESSION.sub(r"--\1-sql \2", _CALL.sub(unwrapped, hint))
    return _OUT.sub(r"leave --\1 out", _KEYWORD.sub(option, told)).replace("release_id", "--release-id")


def say_error(message: str, hint: str | None = None, notes: Iterable[str] = ()) -> None:
    """Print what went wrong, what became of the budget, and what to do."""
    lines = [f"Error: {message}", *notes]
    if hint is not None:
        lines.append(f"Hint: {in_options(hint)}")
    say("\n".join(printable(line) for text in lines for line in text.splitlines()))


def say_known_error(error: DdpmiError) -> int:
    """Print an error that was raised on purpose and return the exit code for it."""
    say_error(error.message, error.hint, getattr(error, "__notes__", ()))
    if isinstance(error, BudgetExceeded):
        return REFUSED
    return WRONG_USAGE if isinstance(error, InputError) else FAILED


def rich_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, names: Sequence[str] = ()) -> str:
    """Lay out a table for stdout; cells are literal text.

    Args:
        heads: Names of the columns.
        rows: Their cells.
        names: The columns that hold names: left, and on several lines if need be.

    >>> print(rich_table(["name", "n"], [["[red]tea", "3"]], names=["name"]), end="")
    name      n
    ───────────
    [red]tea  3
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = box.SIMPLE_HEAD if "utf" in _encoding().lower() else box.ASCII2
    table = Table(box=lines, pad_edge=False, show_edge=False, collapse_padding=True)
    for head in heads:
        if head in names:
            table.add_column(head, overflow="fold")
        else:
            table.add_column(head, justify="left" if head in _WORDS else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    # Drawn in memory: a closed pipe is then met in one place only.
    page = io.StringIO()
    Console(file=page, force_terminal=sys.stdout.isatty(), width=_width(), highlight=False).print(table)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH


def ranking_table(ranking: Ranking, shown: Ranking) -> str:
    """Write the rows of a ranking that were asked for under what the whole of it promises."""
    cells = [cells_of(row) for row in shown.table.to_pylist()]
    listed = heads_of(dict.fromkeys(shown.columns))
    columns = [name for name in listed if name not in _ONLY_WIDE or _width() >= _WIDE]
    heads = [f"mi ({ranking.unit_of_mi})" if name == "mi" else name.replace("_", " ") for name in columns]
    rows = ([row[name] for name in columns] for row in cells)
    table = rich_table(heads, rows, names=("label", "feature")) if cells else ""
    told = "".join(f"{line}\n" for line in (ranking.order_in_words, ranking.stability) if line)
    return f"{ranking.promise}\n{table}{len(shown)} of {len(ranking)} pairs\n{told}"


def write_ranking(ranking: Ranking, format_: str, output: Path | None) -> None:
    """Write csv, json or parquet to a file, or stream it to stdout."""
    from ddpmi.show import write_new

    if output is not None and output.suffix.lower() == f".{format_}":
        ranking.save(output)
        return
    with tempfile.TemporaryDirectory() as folder:
        draft = ranking.save(Path(folder) / f"ranking.{format_}")
        if output is not None:
            write_new(output, lambda place: _copy(draft, place))
            return
        sys.stdout.flush()
        with draft.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()


def write_text(output: Path, text: str) -> None:
    """Write a new text file."""
    from ddpmi.show import write_new

    write_new(output, lambda place: _write(place, text))


def _write(place: Path, text: str) -> None:
    place.write_text(text, encoding="utf-8")


def _copy(draft: Path, place: Path) -> None:
    shutil.copyfile(draft, place)


def printed(text: str) -> str:
    """Make each line of a text printable."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n")).removesuffix("\n")


def status_table(status: Status) -> str:
    """Write what a dataset may spend, has spent and has left, and its charges."""
    kinds = (("limit", status.limit), ("spent", status.spent), ("left", status.left))
    told = [(name, f"{float(amount.epsilon):.6g}", f"{float(amount.delta):.6g}") for name, amount in kinds]
    title = f"dataset {status.dataset!r}"
    budget = rich_table((title, "epsilon", "delta"), told, names=(title,))
    if not status.entries:
        return f"{budget}No release was charged yet.\n"
    columns = ["id", "release_id", "state", "epsilon", "delta", "rho"]
    if _width() >= _WIDE:
        columns[2:2] = ["time", "mechanism"]
    entries = (entry.to_dict() for entry in status.entries)
    rows = ([f"{e[name]:.6g}" if isinstance(e[name], float) else str(e[name]) for name in columns] for e in entries)
    heads = [name.replace("_", " ") for name in columns]
    return f"{budget}\n{rich_table(heads, rows, names=('release id',))}"


def plan_text(plan: Plan, steps: list[Step], engine: str, encoding: str | None) -> str:
    """Explain a plan with the SQL that will run: counts, expressions and engines take other steps than plain columns."""
    from ddpmi.statements import render

    usual, actual = (textwrap.indent(text, "  ") for text in (plan.sql(), render(steps)))
    return plan.explain(encoding=encoding).replace(usual, actual).replace("SQL (duckdb)", f"SQL ({engine})")


def plan_numbers(plan: Plan) -> dict[str, Any]:
    """Return a plan with everything that follows from it, as plain values."""
    from ddpmi.noise import DiscreteLaplace

    tables = {}
    for name, noise in plan.calibration.tables.items():
        mechanism = noise.mechanism
        tables[name] = {
            "mechanism": f"discrete_{plan.mechanism_name}",
            "share": float(noise.share),
            "scale": float(mechanism.scale)
            if isinstance(mechanism, DiscreteLaplace)
            else math.sqrt(mechanism.variance),
            "sd_user": mechanism.sd * float(plan.step_of(name)),
            "threshold": noise.threshold,
        }
    cost = plan.cost
    return {
        **plan.to_dict(),
        "plan_digest": plan.digest,
        "tables": tables,
        "threshold_in_units": plan.calibration.threshold_in_units,
        "resolution": {"step": float(plan.bounds.step), "g": plan.calibration.bounding.g},
        "cost": {
            "epsilon": None if cost.epsilon is None else float(cost.epsilon),
            "rho": float(cost.rho),
            "delta": float(cost.delta),
        },
        "relies_on": plan.relies_on,
    }


def warn_if_empty(release: Release, pairs: int) -> None:
    """Say why a release of no pairs shows nothing, from its parameters alone."""
    if pairs:
        return
    if (plan := release.plan) is None:
        say("Warning: the data has no pair: no row has a unit, a feature and a label.")
        return
    from ddpmi.explain import units_needed

    needed = [
        f"no {table.removesuffix('s')} reached the threshold of {units}" for table, units in units_needed(plan).items()
    ]
    say(f"Warning: nothing was released, because {' or '.join(needed) or 'no feature was selected'}.")
    say("Hint: raise --epsilon or --delta, lower --pairs, or merge labels; plans are free: ddpmi plan --help")


class Progress:
    """A bar on stderr that appears after a second and leaves nothing behind; silent where nobody watches."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._bar: RichProgress | None = None
        self._stage = ""
        self._quiet = not sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, fraction: float | None) -> None:
        """Show the stage and how much of it is done."""
        if self._quiet or time.monotonic() - self._start < _PATIENCE:
            return
        if self._bar is None:
            self._bar = _new_bar()
            self._bar.start()
        if stage != self._stage:
            self._stage = stage
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(stage, total=None if fraction is None else 1.0)
        self._bar.update(self._bar.task_ids[0], completed=fraction)


@contextmanager
def working(stage: str) -> Iterator[None]:
    """Show that something is being done which cannot say how far it is."""
    from ddpmi.engines.progress import polled

    with Progress() as bar, polled(lambda: 0.0, lambda _: bar(stage, None)):
        yield


def _new_bar() -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    return RichProgress(*columns, console=Console(stderr=True), transient=True)
