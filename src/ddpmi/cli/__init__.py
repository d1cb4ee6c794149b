"""The command line ``ddpmi``: options in, text and exit codes out. The library does the work.

- app: the program, and the exit code of each way to end
- interrupts: Ctrl-C, from the first line of the program to its last
- commands: one module for each command
- options: the options that several commands share
- keys: lists of public keys in files
- paths: checks of the files and folders that a command names
- output: how text, tables and progress are printed
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ddpmi.cli import interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def _open_streams() -> None:
    """Open what the shell closed (``>&-``): a ledger must not get the number of a stream, nor an answer be an error."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - kept to the end
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words after ``ddpmi``; those of this process by default.

    Returns:
        The exit code.

    >>> main(["ledger", "show", "no.ledger"])
    2
    """
    if arguments is None:
        _open_streams()
    with interrupts.at_start(program=arguments is None):
        from ddpmi.cli import app  # takes a third of a second
    with interrupts.noticed():
        code = app.execute(arguments)
    if arguments is None and code == interrupts.EXIT_CODE:
        interrupts.end_process()
    return code
