"""The error tree."""

from __future__ import annotations

import inspect

import pytest

from ddpmi import errors

CLASSES = [k for _, k in inspect.getmembers(errors, inspect.isclass)]
KINDS = [k for k in CLASSES if issubclass(k, Exception) and not issubclass(k, Warning)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_ddpmi_error_with_a_hint(kind: type[errors.DdpmiError]) -> None:
    """One base catches them all, and the hint is part of the text."""
    error = kind("It failed.", hint="do this")
    assert isinstance(error, errors.DdpmiError)
    assert (error.message, error.hint, str(error)) == ("It failed.", "do this", "It failed.\n\nHint: do this")


def test_the_tree_in_the_docstring_names_every_error() -> None:
    """The drawing is complete."""
    assert all(kind.__name__ in (errors.__doc__ or "") for kind in KINDS)


def test_a_hint_speaks_python_and_options() -> None:
    """One hint has both forms; a text alone is the same in both."""
    hint = errors.Hint(do="choose another noise", python="mechanism='laplace'", cli="--mechanism laplace")
    error = errors.InputError("It failed.", hint=hint)
    assert str(error).endswith("Hint: choose another noise: mechanism='laplace'")
    assert error.advice is not None
    assert error.advice.in_shell == "choose another noise: --mechanism laplace"
    assert errors.Hint(do="wait").in_python == errors.Hint(do="wait").in_shell == "wait"


def test_a_count_is_a_whole_number_within_its_limit() -> None:
    """The one check of a count refuses bool, float, 0 and what is too large."""
    errors.check_count("top", 1)
    for wrong in (0, True, 1.0, "1", errors.LARGEST_COUNT + 1, 10**40):
        with pytest.raises(errors.InputError, match="whole number from 1 to"):
            errors.check_count("top", wrong)


def test_errors_are_the_builtins_that_callers_expect() -> None:
    """ValueError, FileNotFoundError and ImportError catch what they should."""
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.InputNotFound, FileNotFoundError)
    assert issubclass(errors.MissingExtra, ImportError)


@pytest.mark.parametrize(
    "count", [0, -1, True, 1.0, "7", None, errors.LARGEST_COUNT + 1, 10**20, pytest.param(10**5000, id="long")]
)
def test_a_count_is_a_whole_number_within_a_limit(count: object) -> None:
    """A number that no machine could serve is refused as it is read, and its digits are not printed for pages."""
    with pytest.raises(errors.InputError, match="top must be a whole number from 1 to 1000000") as caught:
        errors.check_count("top", count)
    assert len(str(caught.value)) < 200
    errors.check_count("top", errors.LARGEST_COUNT)
