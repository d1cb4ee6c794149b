"""Options of a plan that contradict each other."""

from __future__ import annotations

import pytest

from ddpmi import Bounds, Budget, InputError, Plan
from ddpmi.planning.plan import check_counts


@pytest.mark.parametrize(
    "wrong",
    [
        {"public_labels": []},
        {"public_labels": "abc"},
        {"public_labels": [1]},
        {"public_features": ["\ud800"]},
        {"grid": True, "public_labels": ["a"], "public_features": ["f"]},
        {"grid": True, "public_labels": ["a"], "selection": "sips"},
        {"grid": True, "thresholds": "every"},
        {"complete": True, "grid": True},
        {"complete": True, "thresholds": "every"},
        {"complete": True, "marginals": "other"},
        {"complete": True, "public_labels": ["a"], "public_features": ["f"]},
        {"grid": True, "public_labels": ["a"], "marginals": "other"},
        {"space": "units", "marginals": "other"},
        {"space": "units", "bounds": Bounds(pairs=2, clip=5)},
        {"labels_only": ["a"], "public_labels": ["a"]},
        {"space": "people"},
        {"thresholds": "none"},
        {"thresholds": "every", "public_labels": ["a"]},
        {"thresholds": "every", "public_features": ["f"]},
        {"thresholds": "every", "labels_only": ["a"]},
        {"thresholds": "every", "marginals": "other"},
        {"thresholds": "every", "grid": True, "public_labels": ["a"]},
        {"thresholds": "every", "selection": "set_union"},
        {"marginals": "none"},
    ],
)
def test_options_that_contradict_each_other_are_refused(wrong: dict[str, object]) -> None:
    """Each is an InputError with a hint, before anything is spent."""
    with pytest.raises(InputError, match="Hint:"):
        Plan(**({"budget": Budget(2, 1e-4), "bounds": Bounds(pairs=3)} | wrong))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one row each"),
        ({"distinct": True}, "one row each"),
        ({"distinct": "units", "sample_rate": 0.5}, "no units to sample"),
        ({"distinct": "units", "selection": "sips", "public_labels": ["a"]}, "no units to sample"),
    ],
)
def test_counts_need_one_row_per_unit_and_have_no_units(options: dict[str, object], message: str) -> None:
    """One rule serves the SQL of a plan and the check before a release."""
    plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=1), **options)
    for refused in (check_counts, lambda plan: plan.steps(counted=True)):
        with pytest.raises(InputError, match=message):
            refused(plan)
