"""The errors of ddpmi, as one tree, and the hints that say what to do about them.

::

    DdpmiError
    |-- InputError (ValueError)            a parameter, plan or file that cannot be used as given
    |   |-- SchemaError                    a column that is missing or has the wrong type
    |   `-- InputNotFound (FileNotFoundError)
    |-- BudgetExceeded                     the ledger refuses: the release costs more than is left
    |-- LedgerError                        a ledger file that is missing, damaged or no ledger
    |-- ReleaseError                       a release folder that exists, is incomplete or no release
    |-- EngineError                        the engine failed; its own message may quote rows, so it is left out
    `-- MissingExtra (ImportError)         an optional package is not installed

`OldReleaseWarning` is a warning: the release is read.

Every message says what is wrong and what was given. ``hint`` says what to do, with code to paste.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What to do about an error: the advice, and the code to type in Python and on the command line.

    >>> hint = Hint(do="choose another noise", python="mechanism='laplace'", cli="--mechanism laplace")
    >>> hint.in_python, hint.in_shell
    ("choose another noise: mechanism='laplace'", 'choose another noise: --mechanism laplace')
    """

    do: str = ""
    """What to do, in words that fit Python and the command line; empty where the code alone says it."""
    python: str = ""
    """What to type in Python."""
    cli: str = ""
    """What to type on the command line."""

    @classmethod
    def without(cls, name: str, why: str = "") -> Hint:
        """Advise to leave a parameter out.

        Args:
            name: The parameter, as Python spells it.
            why: A reason, added after a colon.

        >>> Hint.without("grid").in_shell
        'leave --grid out'
        """
        more = f": {why}" if why else ""
        return cls(python=f"leave {name} out{more}", cli=f"leave --{name.replace('_', '-')} out{more}")

    @classmethod
    def setting(cls, name: str, value: object, more: str = "") -> Hint:
        """Advise a value of a parameter.

        Args:
            name: The parameter, as Python spells it.
            value: The value.
            more: Text that follows it.

        >>> Hint.setting("top", 10).in_python, Hint.setting("release_id", "visits").in_shell
        ('top=10', '--release-id visits')
        """
        return cls(python=f"{name}={value!r}{more}", cli=f"--{name.replace('_', '-')} {value}{more}")

    @property
    def in_python(self) -> str:
        """The hint as a user of the library reads it."""
        return ": ".join(part for part in (self.do, self.python) if part)

    @property
    def in_shell(self) -> str:
        """The hint as a user of the command line reads it."""
        return ": ".join(part for part in (self.do, self.cli) if part)


class DdpmiError(Exception):
    """Base of all errors that ddpmi raises on purpose.

    >>> print(DdpmiError("epsilon must be positive, got epsilon=0.", hint="Budget(epsilon=1, delta=1e-7)"))
    epsilon must be positive, got epsilon=0.
    <BLANKLINE>
    Hint: Budget(epsilon=1, delta=1e-7)
    """

    def __init__(self, message: str, *, hint: Hint | str | None = None) -> None:
        advice = Hint(do=hint) if isinstance(hint, str) else hint
        self.message = message
        self.advice = advice
        self.hint = None if advice is None else advice.in_python
        super().__init__(message if advice is None else f"{message}\n\nHint: {advice.in_python}")


class InputError(DdpmiError, ValueError):
    """A parameter, plan or file that cannot be used as given."""


class SchemaError(InputError):
    """A column that is missing or has the wrong type."""


class InputNotFound(InputError, FileNotFoundError):  # noqa: N818 - named after FileNotFoundError
    """A path where there is no data."""

    def __str__(self) -> str:
        return str(self.args[0])


class BudgetExceeded(DdpmiError):  # noqa: N818
    """The ledger refuses: the release costs more than is left."""


class LedgerError(DdpmiError):
    """A ledger file that is missing, damaged or no ledger."""


class ReleaseError(DdpmiError):
    """A release folder that exists already, is incomplete or is not a release."""


class EngineError(DdpmiError):
    """The engine failed. Its own message may quote rows, so it is left out."""


class MissingExtra(DdpmiError, ImportError):  # noqa: N818
    """An optional package is not installed."""


class OldReleaseWarning(UserWarning):
    """A release of an old format is read, which has no digests of its tables."""


LARGEST_COUNT = 1_000_000
"""The largest count of a parameter: features of a seed, rounds, pairs of a unit."""
LONGEST_LIST = 2**53
"""The largest length of a list that a parameter cuts."""
#: Numbers from here on are not printed.
_LONGEST_NUMBER = 10**30


def check_count(name: str, value: object, *, most: int = LARGEST_COUNT, hint: Hint | str | None = None) -> None:
    """Check that a value is a whole number from 1 to ``most``.

    Args:
        name: The name of the parameter.
        value: The value to check.
        most: The largest count that is accepted.
        hint: What to type instead; by default a count of 1.

    Raises:
        InputError: It is not such a number.

    >>> check_count("top", 10)
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        long = isinstance(value, int) and abs(value) >= _LONGEST_NUMBER
        got = "a number of more than 30 digits" if long else f"{name}={value!r}"
        raise InputError(
            f"{name} must be a whole number from 1 to {most}, got {got}.", hint=hint or Hint.setting(name, 1)
        )
