"""How the command line prints: data to stdout, messages to stderr, never a row or a traceback.

Names in a release may come from anybody. They are printed literally, and control characters as escapes.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

from ddpmi.cli import log
from ddpmi.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from rich.progress import Progress as RichProgress

    from ddpmi.ledger.entries import Status
    from ddpmi.rankings.display import Line
    from ddpmi.rankings.ranking import Ranking
    from ddpmi.releases.release import Release

_PIPE_WIDTH, _PIPE_HEIGHT = 120, 40
_DIM, _NORMAL = "\x1b[2m", "\x1b[0m"
_WIDE = 110  # narrower terminals show fewer columns of a ledger, so that names stay whole
_LEFT_ALIGNED = ("direction", "verdict", "state", "mechanism", "time")
#: Why a release may be empty. The same list is printed for every empty release: no row may choose from it.
EMPTY_CAUSES = (
    "too few units for this epsilon, delta and --pairs",
    "files with a header and no rows",
    "a column of the unit, the feature or the label that is empty (NULL) in all rows",
    "a --where that no row meets, or a --labels-only that is no label of the data",
    "columns in each other's place: look at --unit, --feature and --label",
)
_PATIENCE = 1.0  # seconds before a bar appears: short runs print none


def example(*lines: str) -> str:
    r"""Write the end of a command's help.

    >>> example("ddpmi demo")
    'Example:\n\n    ddpmi demo'
    """
    return "Example:\n\n" + "\n".join(f"    {line}" for line in lines)


def program() -> str:
    """Return how this program is called, such that the words work in a shell of this machine and in every folder."""
    started = Path(sys.argv[0]) if sys.argv else Path()
    found = shutil.which("ddpmi")
    if found is not None and (started.name != "ddpmi" or os.path.realpath(found) == os.path.realpath(started)):
        return "ddpmi"
    if started.name == "ddpmi" and started.is_file():
        return shlex.quote(str(started.absolute()))
    return f"{shlex.quote(sys.executable)} -m ddpmi"


def say(text: str) -> None:
    """Print a message to stderr. If nobody can read it, the command goes on: its exit code says how it ended."""
    if log.is_on():
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def put(text: str) -> None:
    """Print data to stdout. Characters that the terminal's encoding lacks become escapes."""
    encoding = _encoding()
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def put_kept(text: str) -> None:
    """Print what a charged release shows. It is kept in its folder, so a full disk at stdout is no failure.

    A script that saw a failure would try again, and pay again.
    """
    try:
        put(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        say(f"Warning: the result could not be printed ({error.strerror}). Its release is complete: ddpmi rank --help")


def silence(stream: TextIO) -> None:
    """Send what a stream still holds to nowhere: the interpreter writes it out once more at its end."""
    with suppress(OSError, ValueError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of the library as one line."""
    log.put_event("warning", text=printable(str(message)))
    say(f"Warning: {printable(str(message))}")


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each warning as one line. Warnings of this package are always printed."""
    from ddpmi.errors import OldReleaseWarning

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning, module=r"ddpmi\b")
        warnings.simplefilter("always", OldReleaseWarning)
        warnings.showwarning = show_warning
        yield


def say_error(message: str, hint: str | None = None, notes: Iterable[str] = ()) -> None:
    """Print what went wrong, notes about the budget, and what to do."""
    log.put_event("error", text=message, hint=hint, notes=list(notes := tuple(notes)))
    lines = [f"Error: {message}", *notes]
    if hint is not None:
        lines.append(f"Hint: {hint}")
    say("\n".join(printable(line) for text in lines for line in text.splitlines()))


def rich_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, names: Sequence[str] = ()) -> str:
    """Lay out a table for stdout. Cells are literal text.

    Args:
        heads: Heads of the columns.
        rows: The cells of each row.
        names: The columns that hold names. They are aligned left, and long names take several lines.

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
            table.add_column(head, justify="left" if head in _LEFT_ALIGNED else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    # Drawn in memory, so that only `put` writes to stdout and can meet a closed pipe.
    page = io.StringIO()
    Console(file=page, force_terminal=sys.stdout.isatty(), width=_width(), highlight=False).print(table)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH


def ranking_table(ranking: Ranking, part: Ranking, *, by_label: bool = True) -> str:
    """Write some rows of a ranking as a table, below what the whole ranking promises.

    Args:
        ranking: The whole ranking.
        part: The rows to show.
        by_label: Whether rows are shown label by label; otherwise in the order given.
    """
    from ddpmi.rankings import views

    if by_label:
        return _drawn(views.sections(ranking, part, width=_width()))
    return _drawn(views.flat(ranking, part.table.to_pylist(), width=_width()))


def ranking_summary(ranking: Ranking, more: Sequence[str]) -> str:
    """Write the clear findings of each label, at most a screen, and how to see more."""
    from ddpmi.rankings import views

    height = shutil.get_terminal_size().lines - 1 if sys.stdout.isatty() else _PIPE_HEIGHT
    return _drawn(views.summary(ranking, width=_width(), height=height, more=more))


def _drawn(lines: Iterable[Line]) -> str:
    """Join lines; on a terminal those that may be noise are dim, and long sentences are broken between words."""
    from ddpmi.rankings.display import broken

    terminal = sys.stdout.isatty()
    dim = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    # The guarantee stays in one line where a program may read it.
    texts = (
        (broken(line.text, _width()) if terminal or at else line.text, line.dim and dim)
        for at, line in enumerate(lines)
    )
    return "".join(f"{_DIM}{text}{_NORMAL}\n" if pale else f"{text}\n" for text, pale in texts)


def column_head(name: str, ranking: Ranking) -> str:
    """Return the head of a ranking's column, with the unit of mutual information."""
    from ddpmi.rankings.views import look_of

    return look_of(ranking).head(name)


def escape_lines(text: str) -> str:
    """Escape what could steer a terminal, in each line of a text."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n")).removesuffix("\n")


def status_table(status: Status) -> str:
    """Write the limit of a dataset, what it has spent and has left, and its charges."""
    kinds = (("limit", status.limit), ("spent", status.spent), ("left", status.left))
    amounts = [(name, f"{float(amount.epsilon):.6g}", f"{float(amount.delta):.6g}") for name, amount in kinds]
    title = f"dataset {status.dataset!r}"
    budget = rich_table((title, "epsilon", "delta"), amounts, names=(title,))
    if not status.entries:
        return f"{budget}No release was charged yet.\n"
    columns = ["id", "release_id", "state", "epsilon", "delta", "rho"]
    if _width() >= _WIDE:
        columns[2:2] = ["time", "mechanism"]
    columns += [name for name in ("who", "why") if any(getattr(entry, name) for entry in status.entries)]
    entries = (entry.to_dict() for entry in status.entries)
    rows = ([f"{e[name]:.6g}" if isinstance(e[name], float) else str(e[name]) for name in columns] for e in entries)
    heads = [name.replace("_", " ") for name in columns]
    return f"{budget}\n{rich_table(heads, rows, names=('release id', 'who', 'why'))}"


def warn_if_empty(release: Release, pairs: int) -> None:
    """Print why a release has no pairs. The reason comes from its parameters alone."""
    if pairs:
        return
    if (plan := release.plan) is None:
        say("Warning: the data has no pair: no row has a unit, a feature and a label.")
        return
    from ddpmi.planning.forecasts import units_needed

    needed = [
        f"no {table.removesuffix('s')} reached the threshold of {units}" for table, units in units_needed(plan).items()
    ]
    say(f"Warning: nothing was released, because {' or '.join(needed) or 'no feature was selected'}.")
    say("It was charged all the same: a refund would tell whether there are rows. The cause may be one of these:")
    for cause in EMPTY_CAUSES:
        say(f"  - {cause}")
    say("Hint: raise --epsilon or --delta, lower --pairs, or merge labels; plans are free: ddpmi plan --help")


class Progress:
    """A bar on stderr that appears after a second and is erased at the end. Without a terminal nothing is printed."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._bar: RichProgress | None = None
        self._stage = ""
        self._quiet = not sys.stderr.isatty()
        self._stages = log.Stages()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stages.end()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, fraction: float | None) -> None:
        """Show the stage and how much of it is done."""
        self._stages.enter(stage)
        if log.is_on() or self._quiet or time.monotonic() - self._start < _PATIENCE:
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
    """Show a bar without a percentage while work goes on whose progress is not known."""
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
