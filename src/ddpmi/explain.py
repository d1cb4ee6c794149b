"""A plan in words, for people who decide whether to run it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ddpmi.budget import shortest
from ddpmi.calibration import TABLES
from ddpmi.noise import DiscreteLaplace

if TYPE_CHECKING:
    from ddpmi.plan import Plan
    from ddpmi.sql import Dialect


def explain(plan: Plan, dialect: Dialect) -> str:
    """Describe a plan; the same text appears on the command line, in reports and beside a receipt."""
    parts = [
        ("Guarantee", guarantee(plan)),
        ("Contribution bounds", _bounds(plan)),
        (f"Noise: discrete {plan.mechanism_name.capitalize()}", _noise(plan)),
        ("What will be visible", visible(plan)),
        ("Cost", _cost(plan)),
    ]
    if plan.relies_on:
        parts.append(("Relies on", "\n".join(plan.relies_on)))
    parts.append(
        (f"SQL ({dialect.name}), from the observed rows to the sums that noise is added to", plan.sql(dialect))
    )
    return "\n\n".join(f"{title}\n{_indent(text)}" for title, text in parts) + "\n"


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
    """Say how many units a pair needs."""
    units = plan.calibration.threshold_in_units
    value = "" if plan.bounds.clip is None else f" at the full value of {shortest(plan.bounds.clip)}"
    return (
        f"A pair needs about {math.ceil(units)} units{value} to be seen"
        f" (threshold {plan.calibration.tables['pairs'].threshold} on the noisy sum);\n"
        f"units with more than {plan.bounds.pairs} pairs count for less than one."
    )


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
    for name in TABLES:
        noise = plan.calibration.tables[name]
        mechanism = noise.mechanism
        scale = float(mechanism.scale) if isinstance(mechanism, DiscreteLaplace) else math.sqrt(mechanism.variance)
        shown = "-" if noise.threshold is None else f"{float(noise.threshold * plan.grid):.6g}"
        lines.append(
            f"{name:<10}{shortest(noise.share):>8}{scale:>18.6g}{mechanism.sd * float(plan.grid):>16.6g}{shown:>14}"
        )
    lines.append(
        f"One count is {1 / plan.grid} grid steps; sd and threshold are in counts (units of the value column where there is one)."
    )
    return "\n".join(lines)


def _cost(plan: Plan) -> str:
    cost = plan.cost
    if cost.epsilon is not None:
        return (
            f"The ledger is charged epsilon={shortest(cost.epsilon)} (rho={float(cost.rho):.6g}), "
            f"and delta={shortest(cost.delta)} for the threshold."
        )
    return (
        f"The ledger is charged rho={float(cost.rho):.6g} (zCDP), and delta={shortest(cost.delta)} for the threshold."
    )


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else line for line in text.splitlines())
