"""Options of a plan that contradict each other, refused with a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from ddpmi.plan import Plan


def check_combination(plan: Plan) -> None:
    """Refuse options that contradict each other."""
    bounds, units = plan.bounds, plan.space == "units"
    one_row = f"distinct='units' means one row per unit, got pairs={bounds.pairs}, labels={bounds.labels}."
    both = "labels_only keeps everybody else in the totals; public_labels drops them: choose one"
    wrong = {
        (one_row, "Bounds(pairs=1)"): plan.distinct == "units" and (bounds.pairs, bounds.labels) != (1, 1),
        ("labels_only and public_labels were both given.", both): None not in (plan.labels_only, plan.public_labels),
        (
            "grid=True selects features and labels by their totals, but both are known beforehand.",
            "leave grid out: every pair of known keys is released",
        ): plan.grid and not plan.unknown,
        (
            "grid=True measures the margins themselves, so marginals='other' has nothing to add.",
            "leave marginals out",
        ): plan.grid and plan.marginals == "other",
        (
            "marginals='other' sums events, so it does not go with space='units'.",
            "leave marginals out",
        ): units and plan.marginals == "other",
        ("space='units' ignores values, but clip was given.", "leave clip out"): units and bounds.clip is not None,
        (
            "thresholds='every' drops features and labels, so it goes with no list, grid, selection or marginals='other'.",
            "leave thresholds out: keys that are known need no threshold",
        ): plan.thresholds == "every" and _knows_keys(plan),
        **_wrong_completion(plan),
        **_wrong_selection(plan),
    }
    for (message, hint), is_wrong in wrong.items():
        if is_wrong:
            raise InputError(message, hint=hint)


def _knows_keys(plan: Plan) -> bool:
    lists = (plan.public_labels, plan.public_features, plan.labels_only, plan.selection)
    return plan.grid or plan.marginals == "other" or any(given is not None for given in lists)


def _wrong_completion(plan: Plan) -> dict[tuple[str, str], bool]:
    return {
        (
            "complete=True shows pairs of features and labels that thresholds='every' drops.",
            "leave complete out",
        ): plan.complete and plan.thresholds == "every",
        (
            "complete=True shows what marginals='other' would add up.",
            "leave marginals out",
        ): plan.complete and plan.marginals == "other",
        (
            "complete=True adds to the pairs above a threshold, and pairs of this plan have none.",
            "leave complete out: every pair of such keys is released",
        ): plan.complete and "pairs" not in plan.thresholded,
    }


def _wrong_selection(plan: Plan) -> dict[tuple[str, str], bool]:
    chosen = plan.selection is not None
    return {
        (
            f"selection={plan.selection!r} adds Gaussian noise, got mechanism='laplace'.",
            "leave mechanism out",
        ): chosen and plan.mechanism == "laplace",
        (
            f"selection={plan.selection!r} finds the features, but public_features already lists them.",
            "leave selection out: listed features need no budget",
        ): chosen and plan.public_features is not None,
    }
