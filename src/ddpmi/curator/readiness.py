"""Readiness: everything that can be known before the charge, so that no budget is spent on a release that cannot work.

The place must be free and writable, the packages must be there, and the plan runs once over a few made-up rows with the
real settings. No row of the data is read.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from ddpmi.curator.drawing import Reading, measure, summed_by
from ddpmi.curator.looking import looked
from ddpmi.errors import EngineError, InputError, MissingExtra
from ddpmi.releases.reservations import check_target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ddpmi.curator.observations import Observations
    from ddpmi.planning.auto import AutoPlan
    from ddpmi.planning.plan import Plan

#: What writing a release loads.
_WRITERS = ("pyarrow", "pyarrow.parquet")
_CODEC = "zstd"
#: Keys of a public list that a rehearsal draws: a list may have millions.
_FEW = 3
#: Made-up rows are no secret.
_SALT = "00"


def check_place(target: Path) -> None:
    """Refuse a folder that a release cannot be written to, as far as that can be known.

    Args:
        target: The folder.

    Raises:
        ReleaseError: It exists, has a name that no folder can have, or there is no room for it.

    >>> from pathlib import Path
    >>> check_place(Path("visits.release"))
    """
    check_target(target)
    _check_writers()


def _check_writers() -> None:
    """Load what is needed to write a release; a package that is missing must not be noticed after the charge."""
    try:
        loaded = [import_module(name) for name in _WRITERS]
    except ImportError as error:
        raise MissingExtra(
            f"A release cannot be written without {error.name or 'pyarrow'}.", hint="pip install --upgrade ddpmi"
        ) from None
    if not loaded[0].Codec.is_available(_CODEC):
        raise MissingExtra(
            f"This pyarrow was built without {_CODEC}, in which releases are written.", hint="pip install pyarrow"
        )


def rehearse(obs: Observations, plans: Sequence[Plan]) -> None:
    """Run all steps and draws of the plans over a few made-up rows, with the settings of the data's engine.

    What fails here would have failed after the charge: a setting that cannot work, a package that is missing, an
    expression that does not fit. An engine that starts slowly checks itself in `Observations.prepared` instead.

    Args:
        obs: The data, of which only the columns and the settings are used.
        plans: The plans, with equal sums.

    Raises:
        InputError: The settings cannot work.
    """
    made_up = obs.rehearsal()
    if made_up is None:
        return
    try:
        with summed_by(made_up, plans[0], salt=_SALT) as engine:
            for reading in _different(plans):
                measure(engine, reading)
    except EngineError as error:
        raise InputError(f"A rehearsal on made-up rows failed. {error.message}", hint=error.advice) from None


def rehearse_look(obs: Observations, auto: AutoPlan) -> None:
    """Rehearse a look, and the plans that may follow from it, as `rehearse` does.

    Args:
        obs: The data, of which only the columns and the settings are used.
        auto: What is declared.

    Raises:
        InputError: The settings cannot work.
    """
    made_up = obs.rehearsal()
    if made_up is None:
        return
    try:
        with looked(made_up, auto, salt=_SALT):
            pass
    except EngineError as error:
        raise InputError(f"A rehearsal on made-up rows failed. {error.message}", hint=error.advice) from None
    for name in auto.possible:
        rehearse(obs, [auto.example(name)])


def _different(plans: Sequence[Plan]) -> list[Reading]:
    """Return one reading for each way to draw, with short lists of keys."""
    found: dict[tuple[bool, ...], Reading] = {}
    for plan in plans:
        reading = Reading.of(plan)
        few = replace(reading, features=_few(reading.features), labels=_few(reading.labels))
        ways = (reading.grid, reading.other, reading.units, reading.every, reading.complete)
        found.setdefault(ways, few)
    return list(found.values())


def _few(keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
    # Some databases cannot store a null character, so keys with one are among the few.
    return None if keys is None else tuple(sorted(keys, key=lambda key: "\0" not in key)[:_FEW])
