"""Receipts: the promise, the parameters and the noise of a release; never a row, a path or an exact count."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ddpmi._typing import TABLES
from ddpmi.pipeline.looks import BUCKETS, largest_of
from ddpmi.planning.auto import Histogram, Look
from ddpmi.releases.validation import RELEASE_FORMAT
from ddpmi.releases.words import ROLES, Words, bounding_note
from ddpmi.text import NOT_PRIVATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from ddpmi.planning.auto import AutoPlan
    from ddpmi.planning.plan import Plan
    from ddpmi.privacy.noise import TableNoise

NEIGHBOURS = "add or remove one unit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where released sums come from, as far as a receipt may say it."""

    dataset: str
    unit: str
    """The column of the unit, or words in place of its name."""
    engine: str
    version: str
    relies_on: tuple[str, ...] = ()
    """The owner's declarations about the data."""
    filtered: bool = False
    """Whether a filter chose rows. Its text is not kept: it may name people."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The names of the columns in use by their role; a role that an expression or a seed fills has none."""


def private_receipt(
    plan: Plan,
    origin: Origin,
    *,
    release_id: str,
    ledger: Mapping[str, Any],
    look: tuple[AutoPlan, Look] | None = None,
    completed: bool = True,
) -> dict[str, Any]:
    """Write the receipt of a private release.

    Args:
        plan: The plan of the release.
        origin: Where the sums come from.
        release_id: The id of the release.
        ledger: The entry of the ledger, and what was spent and left then.
        look: The look that chose the bounds. The guarantee is then that of both together.
        completed: Whether a release that was to be completed had few enough keys for it.
    """
    concentrated = plan.cost.epsilon is None
    budget, cost = (plan.budget, plan.cost) if look is None else (look[0].budget, look[0].look_cost + plan.cost)
    return {
        **_common(release_id, origin),
        "private": True,
        "notice": None,
        "guarantee": {
            **budget.to_dict(),
            "rho": float(cost.rho) if concentrated else None,
            "unit": origin.unit,
            "neighbours": NEIGHBOURS,
        },
        "plan": plan.to_dict(),
        "plan_digest": plan.digest,
        "space": plan.space,
        "weighted": bool(plan.weighted),
        "marginals": plan.marginals,
        "tables": {name: _noise(noise, plan.step_of(name)) for name, noise in plan.calibration.tables.items()},
        "grid": {"step": float(plan.bounds.step), "g": plan.calibration.bounding.g},
        "sample_rate": None if plan.sample_rate is None else float(plan.sample_rate),
        "relies_on": [*plan.relies_on, *origin.relies_on],
        "ledger": dict(ledger),
        **({} if look is None else {"look": _look(*look)}),
        **({"complete": False} if plan.complete and not completed else {}),
    }


def _look(auto: AutoPlan, look: Look) -> dict[str, Any]:
    """Write what a look was asked and found."""
    return {
        "declared": auto.to_dict(),
        "digest": auto.digest,
        "epsilon": float(auto.look_epsilon),
        "scale": look.pairs.scale,
        "buckets": [largest_of(bucket) for bucket in range(len(BUCKETS))],
        "labels": None if look.labels is None else list(look.labels.counts),
        "pairs": list(look.pairs.counts),
    }


def look_of(receipt: Mapping[str, Any]) -> Look | None:
    """Return the look of a receipt; None where bounds were declared."""
    found = receipt.get("look")
    if not found:
        return None
    labels, pairs = (
        None if found[name] is None else Histogram(counts=tuple(found[name]), scale=found["scale"])
        for name in ("labels", "pairs")
    )
    return None if pairs is None else Look(labels=labels, pairs=pairs)


def exact_receipt(origin: Origin, *, release_id: str, step: Fraction, g: int, space: str) -> dict[str, Any]:
    """Write the receipt of exact sums, which promise nothing."""
    no_noise = {"mechanism": "none", "scale": 0.0, "sd_user": 0.0, "threshold": None}
    return {
        **_common(release_id, origin),
        "private": False,
        "notice": NOT_PRIVATE,
        "guarantee": {"epsilon": None, "delta": None, "rho": None, "unit": origin.unit, "neighbours": NEIGHBOURS},
        "plan": None,
        "plan_digest": None,
        "space": space,
        "weighted": space == "units",
        "marginals": "measured",
        "tables": {name: dict(no_noise) for name in TABLES},
        "grid": {"step": float(step), "g": g},
        "sample_rate": None,
        "relies_on": list(origin.relies_on),
        "ledger": None,
    }


def _common(release_id: str, origin: Origin) -> dict[str, Any]:
    versions = {"ddpmi": metadata.version("ddpmi"), "python": platform.python_version(), origin.engine: origin.version}
    return {
        "format": RELEASE_FORMAT,
        "release_id": release_id,
        "dataset": origin.dataset,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": origin.engine,
        "versions": versions,
        "filtered": origin.filtered,
        "columns": {role: origin.columns.get(role) for role in ROLES},
    }


def _noise(noise: TableNoise, grid: Fraction) -> dict[str, Any]:
    found, bound = noise.describe(grid), noise.mechanism.bound
    return found if bound is None else found | {"bound": bound}


def describe(receipt: Mapping[str, Any]) -> str:
    """Write a receipt as text for people."""
    promise = receipt["guarantee"]
    made_by = f"ddpmi {receipt['versions']['ddpmi']} on {receipt['engine']}"
    lines = [
        f"Release {receipt['release_id']} of dataset {receipt['dataset']!r}, made {receipt['created']} with {made_by}"
    ]
    if not receipt["private"]:
        lines += [
            "",
            f"{receipt['notice']}: these sums carry no guarantee. Use them for public data and evaluation only.",
        ]
    else:
        lines += [
            "",
            "Promise",
            f"  epsilon={promise['epsilon']:g}, delta={promise['delta']:g} for every unit (column {promise['unit']!r})",
            f"  neighbours: {promise['neighbours']}",
        ]
        if promise["rho"] is not None:
            lines.append(f"  from rho={promise['rho']:g} (zero-concentrated)")
        lines += _look_lines(receipt)
    lines += ["", *_noise_lines(receipt)]
    if note := bounding_note(receipt):
        lines += ["", f"Bounds: {note}"]
    if receipt.get("filtered"):
        lines += ["", "A filter chose the rows. Its text is not kept."]
    if receipt["relies_on"]:
        lines += ["", "Relies on", *(f"  {text}" for text in receipt["relies_on"])]
    if receipt["ledger"]:
        spent, left = receipt["ledger"]["spent"], receipt["ledger"]["left"]
        lines += [
            "",
            f"Ledger entry {receipt['ledger']['entry']}",
            f"  spent then: epsilon={spent['epsilon']:g}, delta={spent['delta']:g}",
            f"  left then:  epsilon={left['epsilon']:g}, delta={left['delta']:g}",
        ]
    return "\n".join(lines) + "\n"


def _look_lines(receipt: Mapping[str, Any]) -> list[str]:
    """Describe the look that chose the bounds, in words and numbers."""
    look, bounds = look_of(receipt), (receipt.get("plan") or {}).get("bounds", {})
    if look is None:
        return []
    lines = [
        "",
        "A private look chose the bounds",
        f"  it found {look.in_words(Words.of(receipt).units)}",
        f"  each histogram had epsilon={receipt['look']['epsilon']:g}, part of the promise above",
        f"  so pairs={bounds.get('pairs')}, labels={bounds.get('labels')}, cap={bounds.get('cap')}",
    ]
    heads = [str(largest) for largest in receipt["look"]["buckets"]]
    for name, histogram in (("labels", look.labels), ("pairs", look.pairs)):
        if histogram is not None:
            held = max((place for place, count in enumerate(histogram.filled) if count), default=0) + 1
            shown = [f"{head}: {count}" for head, count in zip(heads[:held], histogram.counts, strict=False)]
            lines.append(
                f"  units by their number of {name}, up to and with noise of sd {histogram.sd:.3g}: {', '.join(shown)}"
            )
    return lines


def _noise_lines(receipt: Mapping[str, Any]) -> list[str]:
    lines = ["Noise", f"  {'table':<10}{'mechanism':<20}{'scale':>14}{'sd':>14}{'threshold':>12}"]
    for name, noise in receipt["tables"].items():
        shown = "-" if noise["threshold"] is None else noise["threshold"]
        lines.append(f"  {name:<10}{noise['mechanism']:<20}{noise['scale']:>14.6g}{noise['sd_user']:>14.6g}{shown:>12}")
    lines.append(
        f"  scale and threshold in grid steps of {receipt['grid']['step']:g}/2^{receipt['grid']['g']}, sd in the user's units"
    )
    lines += [
        f"  noise of {name} is held within {noise['bound']}, so that {name} without units never reach the threshold"
        for name, noise in receipt["tables"].items()
        if noise.get("bound") is not None
    ]
    if receipt.get("complete") is False:
        lines.append(
            "  there were too many features and labels to release their other pairs, so only pairs above it are here"
        )
    elif (receipt.get("plan") or {}).get("complete"):
        lines.append(
            "  pairs below the threshold are released too, if their feature and their label each have a pair above it"
        )
    if receipt.get("sample_rate"):
        lines.append(
            f"  each unit took part with probability {receipt['sample_rate']:g}; divide a sum by it to estimate the count"
        )
    return lines
