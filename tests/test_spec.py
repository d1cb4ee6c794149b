"""Declared columns and bounds."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ddpmi import Bounds, InputError, SchemaError
from ddpmi.spec import LARGEST_COUNT, Columns, check_count, dataset_name, find_columns


def test_our_names_and_the_papers_names_are_recognised() -> None:
    """unit/feature/label and id/feature/partition need no flags."""
    assert find_columns({}, ["label", "unit", "feature"]).named() == {
        "unit": "unit",
        "feature": "feature",
        "label": "label",
    }
    assert find_columns({}, ["id", "partition", "feature", "observation"]).named() == {
        "unit": "id",
        "feature": "feature",
        "label": "partition",
    }


def test_a_value_column_is_used_only_when_named() -> None:
    """A column called value or observation is ignored until the caller asks for it."""
    assert find_columns({}, ["unit", "feature", "label", "value"]).value is None


def test_a_missing_column_is_named_with_what_there_is() -> None:
    """The error says which column is missing and lists those that exist."""
    with pytest.raises(SchemaError, match=r"no column 'user'.*'id'"):
        find_columns({"unit": "user"}, ["id", "feature", "label"])


def test_an_unrecognised_role_asks_for_its_flag() -> None:
    """A role that is neither named nor recognised says how to name it."""
    with pytest.raises(SchemaError, match="--feature NAME"):
        find_columns({}, ["unit", "site", "country"])


def test_a_label_may_be_missing_unless_units_were_counted() -> None:
    """A seed can label units later; counts have no units that could show one."""
    assert find_columns({}, ["unit", "feature", "country"]).label is None
    with pytest.raises(SchemaError, match="--label NAME"):
        find_columns({}, ["feature", "country"], counted=True)


def test_one_column_cannot_play_two_roles() -> None:
    """unit, feature and label must differ."""
    with pytest.raises(SchemaError, match="three columns"):
        Columns(unit="a", feature="a", label="b")


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


@pytest.mark.parametrize(
    "count", [0, -1, True, 1.0, "7", None, LARGEST_COUNT + 1, 10**20, pytest.param(10**5000, id="long")]
)
def test_a_count_is_a_whole_number_within_a_limit(count: object) -> None:
    """A number that no machine could serve is refused as it is read, and its digits are not printed for pages."""
    with pytest.raises(InputError, match="top must be a whole number from 1 to 1000000") as caught:
        check_count("top", count)
    assert len(str(caught.value)) < 200
    check_count("top", LARGEST_COUNT)


@pytest.mark.parametrize("name", ["pairs", "labels", "cap"])
def test_bounds_are_within_a_limit(name: str) -> None:
    """No plan could be made of larger ones, and none tries."""
    for count in (10**8, 99999999999999999999, 10**5000):
        with pytest.raises(InputError, match=f"{name} must be a whole number from 1 to"):
            Bounds(**({"pairs": 1} | {name: count}))
