"""A plan in words, for people who decide whether to run it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from ddpmi.budget import shortest
from ddpmi.calibration import TABLES
from ddpmi.noise import DiscreteLaplace
from ddpmi.selection import weight

if TYPE_CHECKING:
    from ddpmi.plan import Plan
    from ddpmi.statements import Dialect

#: Nothing recommends a selection: see docs/decisions/set-union.md.
_ADVICE = (
    "It names more features; on words by years it did not improve the top ranks, which pairs decide.",
    "grid=True selects about as many features and needs no share of its own.",
)
#: Measured: docs/decisions/accuracy.md.
_COMPLETE_ADVICE = (
    "Pairs have to reach a threshold. complete=True shows all other pairs of their features and labels too, for nothing: on",
    "public sets lists came much nearer to the truth. grid=True finds features by their totals instead (docs/accuracy.md).",
)
#: Likewise.
_ONE_PAIR_ADVICE = (
    "Pairs have to reach a threshold. Where it hides many of the best, finding features by their totals may show more: suggest",
    "tells from public hints (docs/accuracy.md).",
)


def explain(plan: Plan, dialect: Dialect, encoding: str | None = "") -> str:
    """Describe a plan; the same text appears on the command line, in reports and beside a receipt.

    Args:
        plan: The plan.
        dialect: The engine's spelling.
        encoding: How text files are read; None for data that says so itself, empty where no data is named.
    """
    parts = [
        ("Guarantee", guarantee(plan)),
        ("Contribution bounds", _bounds(plan)),
        (f"Noise: discrete {plan.mechanism_name.capitalize()}", _noise(plan)),
        ("What will be visible", "\n".join(part for part in (_selected(plan), visible(plan)) if part)),
        ("Options", _options(plan)),
        ("Cost", _cost(plan)),
        ("Text files", _text_files(encoding)),
    ]
    if plan.relies_on:
        parts.append(("Relies on", "\n".join(plan.relies_on)))
    parts.append(
        (f"SQL ({dialect.name}), from the observed rows to the sums that noise is added to", plan.sql(dialect))
    )
    return "\n\n".join(f"{title}\n{_indent(text)}" for title, text in parts if text) + "\n"


def _text_files(encoding: str | None) -> str:
    if encoding is None:
        return ""
    read = f"The files are read as {encoding}" if encoding else "CSV and JSON lines files are read as utf-8"
    guess = ", because no encoding is named; it is not guessed" if encoding in ("", "utf-8") else ""
    return f"{read}{guess}. Bytes that do not decode show as U+FFFD."


def guarantee(plan: Plan) -> str:
    """Say the promise in words."""
    epsilon, delta = plan.budget.epsilon, plan.budget.delta
    odds = f"{math.exp(epsilon):.4g}" if epsilon < 100 else f"e^{shortest(epsilon)}"  # noqa: PLR2004 - beyond it the power says more
    return (
        f"Adding or removing all rows of one unit changes the probability of any result by at most a factor of {odds},\n"
        f"up to an additional probability of {shortest(delta)} (epsilon={shortest(epsilon)}, delta={shortest(delta)}; "
        f"replacing a unit costs twice the epsilon)."
    )


def visible(plan: Plan) -> str:
    """Say how many units it takes to be seen."""
    needed = units_needed(plan)
    if not needed:
        if plan.selection is not None:
            return (
                "Every pair of a selected feature with a known label is released, zeros too; pairs have no threshold."
            )
        return "Every pair of the public lists is released, with noise on zeros too; nothing is thresholded."
    lines = [
        f"A {table.removesuffix('s')} needs {units} to be seen (threshold {plan.calibration.tables[table].threshold} on the noisy sum);"
        for table, units in needed.items()
    ]
    lines.append(f"units with more than {plan.bounds.pairs} pairs count for less than one.")
    if plan.grid or plan.complete:
        such = "such features and labels" if plan.grid else "features and labels that have such a pair"
        lines.append(f"Every pair of {such}, or of listed ones, is then released, zeros too.")
    return "\n".join(lines)


def units_needed(plan: Plan) -> dict[str, str]:
    """Say for each table with a threshold how many units it takes to reach it."""
    value = "" if plan.bounds.clip is None else f" at the full value of {shortest(plan.bounds.clip)}"
    several = f" with {plan.bounds.pairs} pairs each" if plan.space == "events" and plan.bounds.pairs > 1 else ""
    return {
        table: f"about {math.ceil(units)} units{several if table == 'labels' else ''}{value}"
        for table, units in plan.calibration.units_to_show.items()
    }


def _selected(plan: Plan) -> str:
    """Say how many units it takes to be in the vocabulary."""
    if not plan.calibration.selection:
        return ""
    size = min(plan.bounds.pairs, plan.calibration.bounding.most_pairs)
    last = plan.calibration.selection[-1]
    units = math.ceil((last.threshold or 0) / weight(size) / float(plan.sample_rate or 1))
    having = "one feature" if size == 1 else f"{size} features"
    return f"A feature needs about {units} units that have {having} each to be selected."


def _sampling(plan: Plan) -> list[str]:
    if plan.sample_rate is None:
        return []
    inner, rate = plan.inner_budget, shortest(plan.sample_rate)
    return [
        f"sample_rate: each unit takes part with probability {rate}, by one secret coin; counts are divided by {rate} afterwards.",
        f"For those who take part the noise is made for epsilon={shortest(inner.epsilon)}, delta={shortest(inner.delta)}.",
    ]


def _selecting(plan: Plan) -> list[str]:
    if plan.selection is None:
        return []
    rounds = len(plan.calibration.selection)
    share = shortest(sum((noise.share for noise in plan.calibration.selection), Fraction(0)))
    times = f"{rounds} round{'s' if rounds > 1 else ''}"
    found = f"selection: features are found by a private set union in {times} with a share of {share}; others vanish."
    return [found, *_ADVICE]


def _options(plan: Plan) -> str:
    """One line for each option that is not the default."""
    lines = [*_sampling(plan), *_selecting(plan)]
    for name in ("public_labels", "public_features"):
        keys = getattr(plan, name)
        if keys is not None:
            what = name.removeprefix("public_")
            lines.append(f"{name}: {len(keys)} {what} are known beforehand; all appear, rows of others vanish.")
    if plan.labels_only is not None:
        lines.append(f"labels_only: {len(plan.labels_only)} labels are ranked, each against everybody else.")
    if plan.grid:
        lines.append(f"grid: {' and '.join(plan.unknown)} are selected by their totals, then every pair is released.")
    if plan.complete:
        lines.append(
            "complete: all other pairs of features and labels that have a pair above the threshold show too, for nothing:"
            " one row for each feature and label."
        )
    if plan.thresholds == "every":
        lines.append("thresholds: features and labels have to reach a threshold too, and take their pairs with them.")
    if plan.marginals == "other":
        lines.append("marginals: what was dropped is measured and added to the released pairs.")
    if plan.space == "units":
        lines.append("space: units are counted, each once in its label and in the total; values are ignored.")
        lines.append("Units with more than `pairs` pairs count less than one in pairs and features: a known bias.")
    several = plan.public_labels is not None or plan.bounds.pairs > 1
    behind = plan.thresholded == ("pairs",) and not plan.complete and plan.marginals == "measured"
    if behind and plan.selection is None:
        lines.extend(_COMPLETE_ADVICE if several else _ONE_PAIR_ADVICE)
    return "\n".join(lines)


def _bounds(plan: Plan) -> str:
    bounds = plan.bounds
    heavy = (
        "keeps all of them at a lower weight"
        if bounds.strategy == "scale"
        else f"keeps {bounds.pairs} of them, picked by a keyed hash"
    )
    lines = [
        f"A unit with up to pairs={bounds.pairs} pairs counts in full; a heavier one {heavy}; at most cap={bounds.cap} pairs are read.",
        f"A unit appears under at most labels={bounds.labels} label{'s' if bounds.labels > 1 else ''}.",
    ]
    if bounds.clip is not None:
        lines.append(
            f"Values of one pair are summed, clipped to 0..{shortest(bounds.clip)} and counted in steps of {shortest(bounds.step)}."
        )
    else:
        lines.append("Each (unit, feature, label) counts 1 however many rows it has.")
    if plan.distinct == "units":
        lines.append('distinct="units": no step per unit runs.')
    elif plan.distinct:
        lines.append("distinct=True: rows are taken as distinct pairs; the widest group-by is skipped.")
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
        noise = plan.calibration.tables[name]
        mechanism = noise.mechanism
        scale = float(mechanism.scale) if isinstance(mechanism, DiscreteLaplace) else math.sqrt(mechanism.variance)
        step = plan.step_of(name)
        shown = "-" if noise.threshold is None else f"{float(noise.threshold * step):.6g}"
        lines.append(
            f"{name:<10}{shortest(noise.share):>8}{scale:>18.6g}{mechanism.sd * float(step):>16.6g}{shown:>14}"
        )
    lines.append(
        f"One count is {1 / plan.step} grid steps; sd and threshold are in counts (units of the value column where there is one)."
    )
    held = [name for name in TABLES if plan.calibration.tables[name].mechanism.bound is not None]
    if held:
        lines.append(f"Noise of {' and '.join(held)} is held below the threshold, so that what nobody has never shows.")
    return "\n".join(lines)


def _cost(plan: Plan) -> str:
    cost = plan.cost
    if cost.epsilon is not None:
        return (
            f"The ledger is charged epsilon={shortest(cost.epsilon)} (rho={float(cost.rho):.6g}), "
            f"and delta={shortest(cost.delta)} {'for thresholds' if plan.sample_rate is None else 'in all'}."
        )
    return f"The ledger is charged rho={float(cost.rho):.6g} (zCDP), and delta={shortest(cost.delta)} for thresholds."


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else line for line in text.splitlines())
