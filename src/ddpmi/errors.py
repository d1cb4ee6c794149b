"""What can go wrong, as one tree.

::

    DdpmiError
    |-- InputError (ValueError)            a parameter, plan or file that cannot be used as given
    |   |-- SchemaError                    a column that is missing or has the wrong type
    |   `-- InputNotFound (FileNotFoundError)
    |-- BudgetExceeded                     the ledger refuses: the release would cost too much
    |-- LedgerError                        a ledger file that is missing, foreign or damaged
    |-- ReleaseError                       a release folder that exists, is incomplete or foreign
    |-- EngineError                        the engine failed; its own words may quote rows, so they are left out
    `-- MissingExtra (ImportError)         an optional package is not installed

Every message is a sentence that says what was wrong and what was got; ``hint`` says what to do, with code to paste.
"""

from __future__ import annotations


class DdpmiError(Exception):
    """Base of all errors that ddpmi raises on purpose.

    >>> print(DdpmiError("epsilon must be positive, got epsilon=0.", hint="Budget(epsilon=1, delta=1e-7)"))
    epsilon must be positive, got epsilon=0.
    <BLANKLINE>
    Hint: Budget(epsilon=1, delta=1e-7)
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message}\n\nHint: {hint}")


class InputError(DdpmiError, ValueError):
    """A parameter, plan or file that cannot be used as given."""


class SchemaError(InputError):
    """A column that is missing or has the wrong type."""


class InputNotFound(InputError, FileNotFoundError):  # noqa: N818 - named for what happened, as FileNotFoundError is
    """A path that leads to no data."""

    def __str__(self) -> str:
        return str(self.args[0])


class BudgetExceeded(DdpmiError):  # noqa: N818
    """The ledger refuses: the release would cost more than is left."""


class LedgerError(DdpmiError):
    """A ledger file that is missing, foreign or damaged."""


class ReleaseError(DdpmiError):
    """A release folder that exists already, is incomplete or is not a release."""


class EngineError(DdpmiError):
    """The engine failed. Its own message may quote rows, so it is not repeated."""


class MissingExtra(DdpmiError, ImportError):  # noqa: N818
    """An optional package is not installed."""
