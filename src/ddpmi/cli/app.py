"""The program ``ddpmi``: its commands, and the exit code of each way to end.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 budget refused, 130 interrupted. With ``--log json`` every command writes events
to stderr instead of messages.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter

from ddpmi.cli import interrupts, log
from ddpmi.cli.commands import (
    cascade,
    compare,
    demo,
    exact,
    expand,
    expunge,
    imports,
    init,
    ledger,
    plan,
    rank,
    receipt,
    release,
    report,
    run,
    segment,
)
from ddpmi.cli.output import example, plain_warnings, say_error, silence
from ddpmi.errors import BudgetExceeded, DdpmiError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Argument

FAILED, WRONG_USAGE, REFUSED, INTERRUPTED = 1, 2, 3, interrupts.EXIT_CODE


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
        "ddpmi init visits.csv",
        "ddpmi run --epsilon 1",
        "ddpmi rank --top 5",
    ),
    default_parameter=Parameter(negative=""),
    suppress_keyboard_interrupt=False,
)
for _command in (
    *(demo, init, imports, run, plan, release, exact, expunge),
    *(rank, compare, report, receipt, expand, cascade, segment, ledger),
):
    _command.register(app)


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words after ``ddpmi``; those of this process by default.

    Returns:
        The exit code.

    >>> execute(["ledger", "show", "no.ledger"])
    2
    """
    code = _code_of(list(sys.argv[1:] if arguments is None else arguments))
    log.put_end(code)
    return code


def _code_of(words: list[str]) -> int:
    """Run one command, print how it failed, and return the exit code."""
    if not logging.root.handlers:
        # Libraries may log rows, and Spark's gateway logs tracebacks at Ctrl-C. Errors are printed below.
        logging.root.addHandler(logging.NullHandler())
    try:
        return _run(log.take_option(words))
    except BaseException as error:  # noqa: BLE001 - a traceback may quote rows
        if interrupts.was_interrupted(error):
            say_error("Interrupted.", notes=_notes_of(error))
            return INTERRUPTED
        return _end(error)


def _end(error: BaseException) -> int:
    """Print an error, and return its exit code."""
    if isinstance(error, CycloptsError):
        missing = error.argument if isinstance(error, MissingArgumentError) else None
        if missing is None:
            say_error(str(error), f"{_command_of(error)} --help")
        else:
            say_error(_missing(missing, str(error)), f"{_usage(missing)}; see {_command_of(error)} --help")
        return WRONG_USAGE
    if isinstance(error, DdpmiError):
        return _end_refused(error)
    if isinstance(error, (BrokenPipeError, SystemExit)):
        # Cyclopts raises SystemExit when it prints help to a closed pipe.
        return _end_closed_pipe()
    if isinstance(error, OSError):
        return _end_os_error(error)
    return _end_unexpected(error)


def _missing(argument: Argument, message: str) -> str:
    """Say what is missing, and the spelling that Cyclopts suggests where a word looks like it."""
    guess = message.partition("Did you mean")[2]
    return f"{argument.name} is missing or has no value.{' Did you mean' if guess else ''}{guess}"


def _usage(argument: Argument) -> str:
    """Return how an option is typed."""
    shown = argument.parameter.metavar
    value = str(shown[0] if isinstance(shown, tuple) else shown or "VALUE")
    return f"{argument.name} {value}" if argument.name.startswith("-") else argument.name


def _run(words: list[str]) -> int:
    with plain_warnings():
        app(_plain_distinct(words), exit_on_error=False, print_error=False, result_action="return_value")
    sys.stdout.flush()
    return 0


def _plain_distinct(words: list[str]) -> list[str]:
    """Write the bare flag --distinct in full, so that it never takes the word after it."""
    end = words.index("--") if "--" in words else len(words)
    return ["--distinct=true" if word == "--distinct" and at < end else word for at, word in enumerate(words)]


def _command_of(error: CycloptsError) -> str:
    return " ".join(("ddpmi", *(error.command_chain or ())))


def _notes_of(error: BaseException) -> Sequence[str]:
    return getattr(error, "__notes__", ())


def _end_refused(error: DdpmiError) -> int:
    """Print an error that the library raised on purpose, with its hint for the command line."""
    say_error(error.message, None if error.advice is None else error.advice.in_shell, _notes_of(error))
    if isinstance(error, BudgetExceeded):
        return REFUSED
    return WRONG_USAGE if isinstance(error, InputError) else FAILED


def _end_closed_pipe() -> int:
    """Succeed: the reader of stdout has closed it. The interpreter flushes again at exit, so send that to nowhere."""
    silence(sys.stdout)
    return 0


def _end_os_error(error: OSError) -> int:
    where = "" if error.filename is None else f": {error.filename}"
    say_error(
        f"{error.strerror or type(error).__name__}{where}.",
        "check the path, the free space and the permissions",
        _notes_of(error),
    )
    return FAILED


def _end_unexpected(error: BaseException) -> int:
    """Print the type of an error alone, because its message may quote rows."""
    if os.environ.get("DDPMI_DEBUG") == "1":
        traceback.print_exception(error)
        return FAILED
    say_error(
        f"internal error: {type(error).__name__}. Please report it.",
        "run again with DDPMI_DEBUG=1 for the traceback, which may quote rows of the data",
        _notes_of(error),
    )
    return FAILED
