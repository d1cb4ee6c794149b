"""The error tree."""

from __future__ import annotations

import inspect

import pytest

from ddpmi import errors


@pytest.mark.parametrize("kind", [k for _, k in inspect.getmembers(errors, inspect.isclass)])
def test_every_error_is_a_ddpmi_error_with_a_hint(kind: type[errors.DdpmiError]) -> None:
    """One base catches them all, and the hint is part of the text."""
    error = kind("It failed.", hint="do this")
    assert isinstance(error, errors.DdpmiError)
    assert (error.message, error.hint, str(error)) == ("It failed.", "do this", "It failed.\n\nHint: do this")


def test_the_tree_in_the_docstring_names_every_error() -> None:
    """The drawing is complete."""
    assert all(name in (errors.__doc__ or "") for name, _ in inspect.getmembers(errors, inspect.isclass))


def test_errors_are_the_builtins_that_callers_expect() -> None:
    """ValueError, FileNotFoundError and ImportError catch what they should."""
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.InputNotFound, FileNotFoundError)
    assert issubclass(errors.MissingExtra, ImportError)
