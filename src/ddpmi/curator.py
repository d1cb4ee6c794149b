"""The one door through the border: pay, read rows, draw noise, publish once."""

from __future__ import annotations

import re
import secrets
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpmi import aggregates, contributions
from ddpmi.errors import InputError, LedgerError, ReleaseError
from ddpmi.ledger_entries import Charge
from ddpmi.measurements import Reading, measure, origin_of, summed, summed_by
from ddpmi.receipts import exact_receipt, private_receipt
from ddpmi.releases import Release, check_target
from ddpmi.seeds import SEED_LABELS
from ddpmi.tables_arrow import FolderTables

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from ddpmi.ledger import Ledger
    from ddpmi.ledger_entries import Entry
    from ddpmi.measurements import Progress
    from ddpmi.observations import Observations
    from ddpmi.plan import Plan
    from ddpmi.spec import Bounds

    Target = str | os.PathLike[str]

_SALT_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Public decimal values keep six digits after the point where nobody says otherwise.
_EXACT_STEP = Fraction(1, 10**6)


def release(
    obs: Observations,
    plan: Plan,
    *,
    ledger: Ledger,
    to: Target | None = None,
    release_id: str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Release differentially private sums, after charging the ledger for them.

    Args:
        obs: What `observe` returned.
        plan: What will be done and what it costs.
        ledger: Pays first; a refusal reads nothing.
        to: Folder to write; without it the release lives in memory only.
        release_id: A name for retries: an id that was charged before returns the stored folder or refuses, and never
            draws again. Random by default.
        progress: Called with the name of the stage and its fraction done, or None.

    Raises:
        BudgetExceeded: The ledger has too little left; nothing was read.
        InputError: The plan does not fit the data's columns.
        ReleaseError: The folder exists, or the id was charged and its folder is not there.
    """
    chosen = _release_id(release_id)
    check_fit(obs, plan)
    if release_id is not None and (entry := ledger.find(chosen)) is not None:
        return _stored(entry, obs, plan, to)
    targets = [None if to is None else Path(to)]
    return _charged(obs, [plan], ledger, [chosen], targets, progress)[0]


def release_many(
    obs: Observations,
    plans: Sequence[Plan],
    *,
    ledger: Ledger,
    to: Sequence[Target] | None = None,
    progress: Progress | None = None,
) -> list[Release]:
    """Release several plans with equal bounds from one pass over the data. The sum of their costs is charged first.

    Args:
        obs: What `observe` returned.
        plans: Plans that sum alike: same bounds, same kind of noise, same lists and declarations.
        ledger: Pays for all of them or none.
        to: One folder for each plan.
        progress: As for `release`.

    Raises:
        InputError: The plans bound contributions differently.
    """
    if not plans:
        raise InputError(
            "release_many needs at least one plan.", hint="release_many(obs, [plan_a, plan_b], ledger=ledger)"
        )
    if len({plan.sums for plan in plans}) > 1:
        raise InputError(
            "The plans sum differently, or sample or select for themselves, so one pass cannot serve them all.",
            hint="give them equal bounds and lists and the same mechanism, without sample_rate and selection",
        )
    if to is not None and len(to) != len(plans):
        raise InputError(
            f"to must name a folder for each of the {len(plans)} plans, got {len(to)}.",
            hint="to=['a.release', 'b.release']",
        )
    for plan in plans:
        check_fit(obs, plan)
    targets = [None] * len(plans) if to is None else [Path(path) for path in to]
    return _charged(obs, plans, ledger, [_release_id(None) for _ in plans], targets, progress)


def exact(
    obs: Observations,
    *,
    bounds: Bounds | None = None,
    space: Literal["events", "units"] = "events",
    to: Target | None = None,
    progress: Progress | None = None,
) -> Release:
    """Sum exactly, with no privacy: for public data and for evaluation. Stamped NOT PRIVATE everywhere.

    Args:
        obs: What `observe` returned.
        bounds: Bound contributions as a Laplace release would; by default nothing is bounded.
        space: Count events, or units.
        to: Folder to write.
        progress: As for `release`.
    """
    obs.check_labelled()
    if to is not None:
        check_target(Path(to))
    obs = obs.prepared(None if to is None else Path(to))
    bounding, dialect = _exact_bounding(obs, bounds, units=space == "units"), obs.source.dialect
    steps = [*contributions.steps(bounding, dialect), aggregates.joint(bounding, dialect)]
    if space == "units":
        steps += aggregates.unit_counts(bounding, dialect)
    with summed(obs, steps, salt=secrets.token_hex(_SALT_BYTES), progress=progress) as engine:
        tables = measure(engine, Reading(bounding=bounding, units=space == "units"))
        origin = origin_of(obs, engine)
    receipt = exact_receipt(origin, release_id=_release_id(None), grid=(bounding.step, bounding.g), space=space)
    return _published(Release(receipt=receipt, tables=tables), None if to is None else Path(to))


def _exact_bounding(obs: Observations, bounds: Bounds | None, *, units: bool) -> contributions.Bounding:
    valued = obs.columns.value is not None and not units and not obs.counted
    if bounds is None:
        whole = not valued or obs.schema[str(obs.columns.value)][0] in ("integer", "boolean")
        return contributions.Bounding(
            bounds=None, valued=valued, counted=obs.counted, step=Fraction(1) if whole else _EXACT_STEP
        )
    _check_value(obs, bounds, units=units)
    g = 0 if bounds.strategy == "sample" else 8
    return contributions.Bounding(bounds=bounds, g=g, valued=valued, counted=obs.counted, step=bounds.step)


def _charged(
    obs: Observations,
    plans: Sequence[Plan],
    ledger: Ledger,
    ids: Sequence[str],
    targets: Sequence[Path | None],
    progress: Progress | None,
) -> list[Release]:
    """Charge durably, then read and publish; whatever happens after the charge, it stays spent."""
    for target in targets:
        if target is not None:
            check_target(target)
    obs = obs.prepared(targets[0])
    charges = [_charge(obs, plan, release_id) for plan, release_id in zip(plans, ids, strict=True)]
    entries = ledger.charge_many(charges)
    found: list[Release] = []
    try:
        status = ledger.status(obs.dataset)
        standing = {"spent": status.spent.to_dict(), "left": status.left.to_dict()}
        for one in _drawn(obs, plans, entries, targets, progress, standing):
            ledger.mark(one.release_id, "released")
            found.append(one)
    except BaseException as error:
        for release_id in ids[len(found) :]:
            ledger.mark(release_id, "abandoned")
        error.add_note(
            f"The ledger was charged before the data was read, and the charge stays (release id {', '.join(ids)})."
        )
        raise
    return found


def _drawn(
    obs: Observations,
    plans: Sequence[Plan],
    entries: Sequence[Entry],
    targets: Sequence[Path | None],
    progress: Progress | None,
    standing: Mapping[str, Any],
) -> Iterator[Release]:
    """Sum once, then draw and publish one release after the other."""
    with summed_by(obs, plans[0], salt=secrets.token_hex(_SALT_BYTES), progress=progress) as engine:
        origin = origin_of(obs, engine)
        for plan, entry, target in zip(plans, entries, targets, strict=True):
            if progress is not None:
                progress("draw noise", None)
            tables = measure(engine, Reading.of(plan))
            paid = {"entry": entry.id, **standing}
            receipt = private_receipt(plan, origin, release_id=entry.release_id, ledger=paid)
            yield _published(Release(receipt=receipt, tables=tables), target)


def _published(found: Release, target: Path | None) -> Release:
    """Write a release, and read it from there if it lay in files already."""
    if target is None:
        return found
    found.save(target)
    return Release.load(target) if isinstance(found.tables, FolderTables) else found


def _charge(obs: Observations, plan: Plan, release_id: str) -> Charge:
    return Charge(
        cost=plan.cost,
        guarantee=plan.budget,
        release_id=release_id,
        dataset=obs.dataset,
        mechanism=plan.mechanism_name,
        plan_digest=plan.digest,
        columns_digest=obs.columns_digest,
    )


def _release_id(given: str | None) -> str:
    """A random id, or the given one; never derived from rows, files, sizes or times."""
    if given is None:
        return secrets.token_hex(16)
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise InputError(
            f"release_id must be 1 to 100 letters, digits, dots, dashes or underscores, got release_id={given!r}.",
            hint="release_id='visits-2026-11'",
        )
    return given


def check_fit(obs: Observations, plan: Plan) -> None:
    """Refuse a plan that does not fit the data's columns. Reads and charges nothing.

    Raises:
        InputError: The plan does not fit.
    """
    obs.check_labelled()
    if obs.seed is not None:
        _check_seed(plan)
    _check_value(obs, plan.bounds, units=plan.space == "units")
    if obs.source.query is not None and not plan.row_local:
        raise InputError(
            f"The data is a {obs.source.query}, which may hide a LIMIT, a window or a join across units.",
            hint="if each row depends on one unit's records alone, say so: Plan(..., row_local=True)",
        )
    if obs.counted and plan.distinct != "units":
        raise InputError(
            "Counts that were summed beforehand are of units with one row each, and the plan must say so.",
            hint="Plan(..., bounds=Bounds(pairs=1), distinct='units')",
        )
    if obs.counted and (plan.sample_rate is not None or plan.selection is not None):
        raise InputError(
            "Counts that were summed beforehand have no units to sample or to select by.",
            hint="leave sample_rate and selection out, or observe the rows themselves",
        )
    if obs.unit_is_expression and plan.distinct:
        raise InputError(
            "The unit comes from an expression, which may merge units that were declared distinct.",
            hint="leave distinct out",
        )


def _check_seed(plan: Plan) -> None:
    """Demand what is known beforehand: the two labels, one for each unit."""
    # proof: label-by.one-label
    if plan.bounds.labels != 1:
        raise InputError(
            f"A seed gives each unit one label, got labels={plan.bounds.labels}.", hint="leave it out, or labels=1"
        )
    if plan.public_labels != SEED_LABELS and not (plan.labels_only and set(plan.labels_only) <= set(SEED_LABELS)):
        raise InputError(
            "The labels of a seed are 'rest' and 'seed', and the plan must say so.",
            hint="Plan(..., public_labels=('rest', 'seed'))",
        )


def _check_value(obs: Observations, bounds: Bounds, *, units: bool) -> None:
    if units and bounds.clip is not None:
        raise InputError("space='units' ignores values, but clip was given.", hint="leave clip out")
    valued = obs.columns.value is not None and not obs.counted
    if valued and bounds.clip is None and not units:
        raise InputError(
            f"The value column {obs.columns.value!r} needs a clip: the largest value that one pair may count.",
            hint="Bounds(pairs=50, clip=100), or --clip 100",
        )
    if not valued and bounds.clip is not None:
        raise InputError(
            "clip was given, but no value column is named.", hint="observe(..., value='minutes'), or leave clip out"
        )


def _stored(entry: Entry, obs: Observations, plan: Plan, to: Target | None) -> Release:
    """Return the folder of an id that was charged before, if it is the same release; never draw again."""
    if entry.plan_digest != plan.digest or entry.columns_digest != obs.columns_digest:
        raise LedgerError(
            f"The release id {entry.release_id!r} was charged for another plan, other columns or another dataset.",
            hint="choose a new release_id for a new release",
        )
    if to is None:
        raise ReleaseError(
            f"The release id {entry.release_id!r} was charged before and lived in memory only.",
            hint="choose a new release_id; it will be charged",
        )
    found = Release.load(to)
    if found.release_id != entry.release_id or found.receipt["plan_digest"] != plan.digest:
        raise ReleaseError(
            f"{to} holds another release than {entry.release_id!r}.", hint="name the folder that it was written to"
        )
    return found
