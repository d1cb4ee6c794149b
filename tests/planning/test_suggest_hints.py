"""Declared shapes: how hints are read, and what data they describe."""

from __future__ import annotations

import numpy as np
import pytest

from ddpmi.errors import InputError
from ddpmi.planning.suggest import Hints


def test_hints_are_read_from_text() -> None:
    """Numbers may be written with exponents; the number of features is guessed from the number of pairs."""
    assert Hints.parse("units=10e6, zipf=1.1,labels=22") == Hints(units=10_000_000, zipf=1.1, labels=22)
    assert Hints.parse("units=5000,pairs_per_unit=100").features == 10_100
    assert Hints.parse("units=5000,lean=0.2") == Hints(units=5000, lean=0.2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Hints are"),
        ("zipf=1", "units is missing"),
        ("units", "got 'units'"),
        ("units=many", "needs a number"),
        ("units=nan", "needs a number"),
        ("units=0", "units must be"),
        ("units=1.5", "units must be"),
        ("units=1e6,labels=0", "labels must be"),
        ("units=1e6,labels=1e9", "labels must be"),
        ("units=1e6,pairs_per_unit=0", "pairs_per_unit must be"),
        ("units=1e6,units=2", "twice"),
        ("units=1e6,zipf=-1", "zipf must be"),
        ("units=1e6,lean=1.5", "lean must be"),
        ("units=1e6,colour=2", "got 'colour=2'"),
    ],
)
def test_wrong_hints_are_refused(text: str, said: str) -> None:
    """The error names the hint, and the hint below it is an example."""
    with pytest.raises(InputError, match=said) as caught:
        Hints.parse(text)
    assert "units=1e6" in str(caught.value.hint)


def test_cells_are_the_pairs_of_each_feature() -> None:
    """They add up to what features have; each feature leans to its home as far as is declared, beside the label's own share."""
    hints = Hints(units=10_000, labels=4, features=100, zipf=1.2, lean=0.3)
    expected, shares = hints.expected(), hints.shares()
    assert expected.sum() == pytest.approx(10_000)
    assert shares.sum() == pytest.approx(1)
    assert np.all(np.diff(expected) < 0)
    home = np.arange(100) % 4
    cells = hints.cells(expected, home)
    np.testing.assert_allclose(cells.sum(axis=1), expected)
    np.testing.assert_allclose(cells[np.arange(100), home] / expected, 0.3 + 0.7 * shares[home])
