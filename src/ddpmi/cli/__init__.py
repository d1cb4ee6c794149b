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

from typing import TYPE_CHECKING

from ddpmi.cli import interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words after ``ddpmi``; those of this process by default.

    Returns:
        The exit code.

    >>> main(["ledger", "show", "no.ledger"])
    2
    """
    with interrupts.at_start(program=arguments is None):
        from ddpmi.cli import app  # takes a third of a second
    with interrupts.noticed():
        code = app.execute(arguments)
    if arguments is None and code == interrupts.EXIT_CODE:
        interrupts.end_process()
    return code
