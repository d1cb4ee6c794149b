"""The command line ``ddpmi``: options in, text and exit codes out. The library does the work.

- app: the program, `main` and the exit codes
- commands: one module for each command
- options: the options that several commands share
- keys: lists of public keys in files
- paths: checks of the files and folders that a command names
- output: how text, tables and progress are printed
"""

from ddpmi.cli.app import main

__all__ = ["main"]
