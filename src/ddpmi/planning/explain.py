"""A plan as text, for people who decide whether to run it, and as plain numbers, for programs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ddpmi._typing import TABLES
from ddpmi.pipeline.selection import weight
from ddpmi.pipeline.steps import render
from ddpmi.planning.forecasts import units_needed, units_to_show, what_is_assumed
from ddpmi.privacy.budget import shortest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ddpmi.pipeline.dialects import Dialect
    from ddpmi.pipeline.steps import Step
    from ddpmi.planning.plan import Plan
    from ddpmi.privacy.budget import Budget

#: No measurement speaks for a selection: docs/decisions/set-union.md.
_SELECTION_ADVICE = (
    "It finds more features. On words by years the top ranks did not improve, because pairs decide them.",
    "grid=True selects about as many features and needs no share of its own.",
)
#: Measured: docs/decisions/completion-and-grid.md.
_COMPLETE_ADVICE = (
    "Pairs have to reach a threshold. complete=True also releases all other pairs of their features and labels, at no cost: on",
    "public data sets lists came much nearer to the truth. grid=True finds features by their totals instead:",
    "docs/how-to/choose-a-plan.md.",
)
#: Likewise.
_ONE_PAIR_ADVICE = (
    "Pairs have to reach a threshold. If it suppresses many of the best pairs, finding features by their totals may release more:",
    "suggest decides this from public hints (docs/how-to/choose-a-plan.md).",
)


def explain(
    plan: Plan,
    dialect: Dialect,
    *,
    steps: Sequence[Step] | None = None,
    encoding: str | None = "",
    pairs_per_unit: float | None = None,
    data_relies_on: Sequence[str] = (),
) -> str:
    """Describe a plan; the same text appears on the command line, in reports and beside a receipt.

    Args:
        plan: The plan.
        dialect: The engine's spelling.
        steps: The SQL that will run, if it is to be shown. Counts and expressions have other steps than plain columns.
        encoding: How text files are read; None for data that has no encoding to choose, empty if no data is named.
        pairs_per_unit: How many pairs a usual unit has, from public knowledge: what will be visible depends on it.
        data_relies_on: What a release of the named data relies on besides.
    """
    parts = [
        ("Guarantee", guarantee(plan.budget)),
        ("Contribution bounds", _bounds(plan)),
        (f"Noise: discrete {plan.mechanism_name.capitalize()}", _noise(plan)),
        ("What will be visible", "\n".join(part for part in (_selected(plan), visible(plan, pairs_per_unit)) if part)),
        ("Options", _options(plan)),
        ("Cost", _cost(plan)),
        ("Text files", text_files(encoding)),
        ("Relies on", "\n".join([*plan.relies_on, *data_relies_on])),
        (
            f"SQL ({dialect.name}), from the observed rows to the sums that noise is added to",
            "" if steps is None else render(list(steps)),
        ),
    ]
    return page(parts)


def plan_numbers(plan: Plan, *, pairs_per_unit: float | None = None) -> dict[str, Any]:
    """Return the parameters of a plan and all numbers that follow from them, as plain values.

    Args:
        plan: The plan.
        pairs_per_unit: How many pairs a usual unit has; None where that is unknown.
    """
    cost = plan.cost
    tables = {}
    for name, noise in plan.calibration.tables.items():
        described = noise.describe(plan.step_of(name))
        tables[name] = {"mechanism": described["mechanism"], "share": float(noise.share), **described}
    return {
        **plan.to_dict(),
        "plan_digest": plan.digest,
        "tables": tables,
        "threshold_in_units": plan.calibration.threshold_in_units,
        "units_to_show": {"pairs_per_unit": pairs_per_unit} | units_to_show(plan, pairs_per_unit),
        "resolution": {"step": float(plan.bounds.step), "g": plan.calibration.bounding.g},
        "cost": {
            "epsilon": None if cost.epsilon is None else float(cost.epsilon),
            "rho": float(cost.rho),
            "delta": float(cost.delta),
        },
        "relies_on": plan.relies_on,
    }


def guarantee(budget: Budget) -> str:
    """Say the guarantee in words."""
    epsilon, delta = budget.epsilon, budget.delta
    odds = f"{math.exp(epsilon):.4g}" if epsilon < 100 else f"e^{shortest(epsilon)}"  # noqa: PLR2004 - larger factors are unreadable
    return (
        f"Adding or removing all rows of one unit changes the probability of any result by at most a factor of {odds},\n"
        f"up to an additional probability of {shortest(delta)} (epsilon={shortest(epsilon)}, delta={shortest(delta)}; "
        f"replacing a unit costs twice the epsilon)."
    )


def visible(plan: Plan, pairs_per_unit: float | None = None) -> str:
    """Say which pairs are released, and how many usual units a key needs for that."""
    needed = units_needed(plan, pairs_per_unit)
    if not needed:
        if plan.selection is not None:
            return "Every pair of a selected feature and a known label is released, zeros too; pairs have no threshold."
        return "Every pair of the public lists is released, zeros too (with noise); there is no threshold."
    lines = [
        f"A {table.removesuffix('s')} needs {units} to be released"
        f" (threshold {plan.calibration.tables[table].threshold} on the noisy sum)."
        for table, units in needed.items()
    ]
    if assumed := what_is_assumed(plan, pairs_per_unit):
        lines.append(assumed)
    if plan.grid or plan.complete:
        such = "such features and labels" if plan.grid else "features and labels that have such a pair"
        lines.append(f"Then every pair of {such}, or of listed ones, is released, zeros too.")
    return "\n".join(lines)


def _selected(plan: Plan) -> str:
    """Say how many units a feature needs to be selected."""
    if not plan.calibration.selection:
        return ""
    size = min(plan.bounds.pairs, plan.calibration.bounding.most_pairs)
    last = plan.calibration.selection[-1]
    units = math.ceil((last.threshold or 0) / weight(size) / float(plan.sample_rate or 1))
    having = "one feature" if size == 1 else f"{size} features"
    return f"A feature needs about {units} units that have {having} each to be selected."


def _options(plan: Plan) -> str:
    """Write lines for each option that is not the default, and advice on the threshold of pairs."""
    lines = [*_sampling(plan), *_selecting(plan), *keys_in_words(plan)]
    if plan.thresholds == "every":
        lines.append("thresholds: features and labels have thresholds too; pairs of those below are dropped.")
    if plan.marginals == "other":
        lines.append("marginals: the sum of suppressed pairs is measured and added to the released pairs.")
    if plan.space == "units":
        lines.extend(_counting_units(plan))
    several = plan.public_labels is not None or plan.bounds.pairs > 1
    only_pairs = plan.thresholded == ("pairs",) and not plan.complete and plan.marginals == "measured"
    if only_pairs and plan.selection is None:
        lines.extend(_COMPLETE_ADVICE if several else _ONE_PAIR_ADVICE)
    return "\n".join(lines)


def _counting_units(plan: Plan) -> list[str]:
    """Say what a heavy unit counts. With one pair for each unit, units and events are the same."""
    if plan.distinct == "units":
        return []
    lines = [
        "space: units are counted, each once for each of its features and labels and once in all; values are ignored."
    ]
    if not plan.weighted:
        return [
            *lines,
            "An older version made this plan: a unit with more than `pairs` pairs counts 1 in labels and in all, less elsewhere.",
        ]
    if plan.bounds.strategy == "sample":
        return [
            *lines,
            "A unit keeps `pairs` of its pairs and counts 1 in its labels and in all: shares of heavy units are too low.",
        ]
    return [*lines, "A unit with more than `pairs` pairs counts less than one, in pairs and in all totals alike."]


def _sampling(plan: Plan) -> list[str]:
    if plan.sample_rate is None:
        return []
    inner, rate = plan.inner_budget, shortest(plan.sample_rate)
    return [
        f"sample_rate: each unit takes part with probability {rate}, by one secret coin; counts are divided by {rate} afterwards.",
        f"The noise of the sample is made for epsilon={shortest(inner.epsilon)}, delta={shortest(inner.delta)}.",
    ]


def _selecting(plan: Plan) -> list[str]:
    if plan.selection is None:
        return []
    rounds = len(plan.calibration.selection)
    share = shortest(sum((noise.share for noise in plan.calibration.selection), Fraction(0)))
    times = f"{rounds} round{'s' if rounds > 1 else ''}"
    found = (
        f"selection: features are found by a private set union in {times} with a share of {share}; others are dropped."
    )
    return [found, *_SELECTION_ADVICE]


def keys_in_words(plan: Plan) -> list[str]:
    """Write a line for each option that decides which keys and pairs are released."""
    lines = []
    for name in ("public_labels", "public_features"):
        keys = getattr(plan, name)
        if keys is not None:
            what = name.removeprefix("public_")
            lines.append(
                f"{name}: {len(keys)} {what} are known beforehand; all are released, rows of others are dropped."
            )
    if plan.labels_only is not None:
        lines.append(f"labels_only: {len(plan.labels_only)} labels are ranked, each against everybody else.")
    if plan.grid:
        lines.append(f"grid: {' and '.join(plan.unknown)} are selected by their totals, then every pair is released.")
    if plan.complete:
        lines.append(
            "complete: all other pairs of features and labels that have a pair above the threshold are released too, at no cost:"
            " one row for each feature and label, unless there are too many."
        )
    return lines


def _bounds(plan: Plan) -> str:
    bounds = plan.bounds
    heavy = (
        "keeps all of them at a lower weight"
        if bounds.strategy == "scale"
        else f"keeps {bounds.pairs} of them, picked by a keyed hash"
    )
    several = "s" if bounds.labels > 1 else ""
    lines = [
        f"A unit with up to pairs={bounds.pairs} pairs counts in full; a heavier one {heavy}; at most cap={bounds.cap} pairs are read.",
        f"A unit appears under at most labels={bounds.labels} label{several}; its other labels are dropped.",
    ]
    if bounds.clip is not None:
        lines.append(
            f"Values of one pair are summed, clipped to 0..{shortest(bounds.clip)} and counted in steps of {shortest(bounds.step)}."
        )
    else:
        lines.append("Each (unit, feature, label) counts 1, no matter how many rows it has.")
    if plan.distinct == "units":
        lines.append('distinct="units": no step per unit runs.')
    elif plan.distinct:
        lines.append("distinct=True: rows are taken as distinct pairs; the largest group-by is skipped.")
    return "\n".join(lines)


def _noise(plan: Plan) -> str:
    scale_name = "scale b" if plan.mechanism_name == "laplace" else "sigma"
    lines = [f"{'table':<10}{'share':>8}{scale_name + ' (grid)':>18}{'sd (counts)':>16}{'threshold':>14}"]
    for number, noise in enumerate(plan.calibration.selection, start=1):
        sigma, unit = noise.mechanism.sd, weight(1) * float(plan.sample_rate or 1)
        of_one = [sigma / unit, (noise.threshold or 0) / unit]
        shown_share = f"{float(noise.share):.4g}"
        lines.append(f"{f'round {number}':<10}{shown_share:>8}{sigma:>18.6g}{of_one[0]:>16.6g}{of_one[1]:>14.6g}")
    for name in TABLES:
        noise, step = plan.calibration.tables[name], plan.step_of(name)
        numbers = noise.describe(step)
        threshold = "-" if noise.threshold is None else f"{float(noise.threshold * step):.6g}"
        lines.append(
            f"{name:<10}{shortest(noise.share):>8}{numbers['scale']:>18.6g}{numbers['sd_user']:>16.6g}{threshold:>14}"
        )
    lines.append(
        f"One count is {1 / plan.step} grid steps; sd and threshold are in counts (units of the value column where there is one)."
    )
    held = [name for name in TABLES if plan.calibration.tables[name].mechanism.bound is not None]
    if held:
        lines.append(
            f"Noise of {' and '.join(held)} is held below the threshold, so that empty ones are never released."
        )
    return "\n".join(lines)


def _cost(plan: Plan) -> str:
    cost = plan.cost
    if cost.epsilon is not None:
        return (
            f"The ledger is charged epsilon={shortest(cost.epsilon)} (rho={float(cost.rho):.6g}), "
            f"and delta={shortest(cost.delta)} {'for thresholds' if plan.sample_rate is None else 'in all'}."
        )
    return f"The ledger is charged rho={float(cost.rho):.6g} (zCDP), and delta={shortest(cost.delta)} for thresholds."


def text_files(encoding: str | None) -> str:
    """Say how text files are read; empty for data that has no encoding to choose."""
    if encoding is None:
        return ""
    read = f"The files are read as {encoding}" if encoding else "CSV and JSON lines files are read as utf-8"
    guess = ", because no encoding is named; it is not guessed" if encoding in ("", "utf-8") else ""
    return f"{read}{guess}. Bytes that do not decode become U+FFFD."


def page(parts: Iterable[tuple[str, str]]) -> str:
    """Write titles with their texts; parts without a text are left out.

    >>> print(page([("Cost", "free"), ("Options", "")]), end="")
    Cost
      free
    """
    return "\n\n".join(f"{title}\n{_indent(text)}" for title, text in parts if text) + "\n"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else line for line in text.splitlines())
