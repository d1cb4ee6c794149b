"""Bounds of contributions, and names of datasets."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ddpmi import Bounds, InputError
from ddpmi.pipeline.bounds import check_clip, dataset_name


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": 0},
        {"pairs": True},
        {"pairs": 2.0},
        {"pairs": 2, "labels": 0},
        {"pairs": 2, "cap": 1},
        {"pairs": 2, "cap": -1},
        {"pairs": 2, "strategy": "reservoir"},
        {"pairs": 2, "strategy": "sample", "cap": 5},
        {"pairs": 2, "step": 2},
        {"pairs": 2, "clip": 0},
        {"pairs": 2, "clip": -1},
        {"pairs": 2, "clip": float("nan")},
        {"pairs": 2, "clip": float("inf")},
        {"pairs": 2, "clip": 1, "step": 0},
        {"pairs": 2, "clip": 1, "step": 0.3},
        {"pairs": 2, "clip": "1e-400", "step": "1e-400"},
        {"pairs": 2, "clip": "1e399", "step": "1e399"},
        {"pairs": 1, "clip": "730e-324", "step": "7.3e-324"},
    ],
)
def test_bounds_that_make_no_sense_are_refused_with_a_hint(wrong: dict[str, object]) -> None:
    """Each wrong bound is an InputError that says what to do."""
    with pytest.raises(InputError, match="Hint:"):
        Bounds(**wrong)


def test_decimals_are_exact() -> None:
    """0.3 with step 0.1 is three levels, which floats would not say."""
    assert Bounds(pairs=1, clip=0.3, step=0.1).levels == 3
    assert Bounds(pairs=1, clip=0.3, step=0.1).clip == Fraction(3, 10)


def test_bounds_survive_a_round_trip() -> None:
    """from_dict restores what to_dict wrote."""
    bounds = Bounds(pairs=7, clip="2.5", step="0.5", labels=3, cap=40)
    assert Bounds.from_dict(bounds.to_dict()) == bounds


@pytest.mark.parametrize("name", ["default", "visits 2026", "Besuche-Zürich", "日本", "a/b:c", "👍"])
def test_a_dataset_has_a_plain_name(name: str) -> None:
    """What is seen is what is meant: letters of any script, digits, signs, and spaces between them."""
    assert dataset_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "default ", " default", "default\n", "\tdefault", "a\tb", "a\x00b", "\ud800"),
        *("de\u200bfault", "default\u200d", "\ufeffdefault", "de\u00adfault", "a\u202eb", "a\u00a0b", "a\u3000b"),
        *("Zu\u0308rich", "\u212b", "a\ufe0f", "a\u034fb", "a\u3164b", "a\u2800b", "a\U000e0101", "a\ue000"),
        *(None, 7, b"default", ["default"]),
    ],
)
def test_names_that_look_alike_are_refused(name: object) -> None:
    """White space around a name, what nobody sees in it, and other ways to write it would each be a budget of its own."""
    with pytest.raises(InputError, match="dataset must be a name") as caught:
        dataset_name(name)
    assert "dataset=" in str(caught.value.hint)
    assert str(caught.value).replace("\n", " ").isprintable()


@pytest.mark.parametrize("name", ["pairs", "labels", "cap"])
def test_bounds_are_within_a_limit(name: str) -> None:
    """No plan could be made of larger ones, and none tries."""
    for count in (10**8, 99999999999999999999, 10**5000):
        with pytest.raises(InputError, match=f"{name} must be a whole number from 1 to"):
            Bounds(**({"pairs": 1} | {name: count}))


@pytest.mark.parametrize(
    ("clip", "units", "value", "message"),
    [
        (5, True, None, "Counting units ignores values"),
        (5, True, "minutes", "Counting units ignores values"),
        (None, False, "minutes", "'minutes' needs a clip"),
        (5, False, None, "no value column is named"),
    ],
)
def test_a_clip_goes_with_values_alone(clip: int | None, *, units: bool, value: str | None, message: str) -> None:
    """Values need a clip, and a clip that would be ignored is refused; the hint fits the command line too."""
    with pytest.raises(InputError, match=message) as caught:
        check_clip(clip, units=units, value=value)
    assert caught.value.advice is not None
    assert "--clip" in caught.value.advice.in_shell


def test_a_clip_that_fits_is_accepted() -> None:
    """A value with a clip, no value without one, and ignored values without one."""
    check_clip(5, units=False, value="minutes")
    check_clip(None, units=False, value=None)
    check_clip(None, units=True, value="minutes")
