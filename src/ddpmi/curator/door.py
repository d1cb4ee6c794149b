"""Releases: `release`, with `release_many` and `exact`, is the only function that crosses the border from rows to a release.

It charges the ledger, reads rows, draws noise and publishes once, in this order.
"""

from __future__ import annotations

import re
import secrets
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.curator.drawing import Reading, measure, origin_of, summed, summed_by
from ddpmi.errors import Hint, InputError, InputNotFound, LedgerError, ReleaseError
from ddpmi.ledger.entries import Charge
from ddpmi.pipeline import aggregates, contributions
from ddpmi.pipeline.bounds import check_clip
from ddpmi.pipeline.seeds import SEED_LABELS
from ddpmi.planning.plan import check_counts
from ddpmi.releases.receipts import exact_receipt, private_receipt
from ddpmi.releases.release import Release, check_target
from ddpmi.releases.tables import FolderTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ddpmi._typing import Progress, Target
    from ddpmi.curator.observations import Observations
    from ddpmi.ledger.entries import Entry
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.pipeline.bounds import Bounds
    from ddpmi.planning.plan import Plan


_SALT_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Exact sums of decimal values keep six digits after the point unless bounds give a step.
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
        ledger: Is charged first. If it refuses, nothing is read.
        to: Folder to write; without it the release lives in memory only.
        release_id: A name for retries; random by default. An id that was charged before is never drawn again: the
            release stored in the folder is returned, or an error is raised.
        progress: Called with the name of the stage and its fraction done, or None.

    Raises:
        BudgetExceeded: The ledger has too little left; nothing was read.
        InputError: The plan does not fit the data's columns.
        ReleaseError: The folder exists, or the id was charged and its release is not in the folder.
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
        plans: Plans with the same bounds, the same kind of noise, and the same lists and declarations.
        ledger: Is charged for all of them or for none.
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
    """Sum exactly, without privacy: for public data and for evaluation. Everything made of it says NOT PRIVATE.

    Args:
        obs: What `observe` returned.
        bounds: Bound contributions as a release with Laplace noise does; by default nothing is bounded.
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
    receipt = exact_receipt(origin, release_id=_release_id(None), step=bounding.step, g=bounding.g, space=space)
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
    """Charge durably, then read and publish. The charge stays spent even if a later step fails."""
    for target in targets:
        if target is not None:
            check_target(target)
    obs = obs.prepared(targets[0])
    charges = [_charge(obs, plan, release_id) for plan, release_id in zip(plans, ids, strict=True)]
    entries = ledger.charge_many(charges)
    found: list[Release] = []
    try:
        status = ledger.status(obs.dataset)
        balance = {"spent": status.spent.to_dict(), "left": status.left.to_dict()}
        for one in _drawn(obs, plans, entries, targets, progress, balance):
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
    balance: Mapping[str, Any],
) -> Iterator[Release]:
    """Sum once, then draw and publish one release after the other."""
    with summed_by(obs, plans[0], salt=secrets.token_hex(_SALT_BYTES), progress=progress) as engine:
        origin = origin_of(obs, engine)
        for plan, entry, target in zip(plans, entries, targets, strict=True):
            if progress is not None:
                progress("draw noise", None)
            tables = measure(engine, Reading.of(plan))
            charged = {"entry": entry.id, **balance}
            receipt = private_receipt(plan, origin, release_id=entry.release_id, ledger=charged)
            yield _published(Release(receipt=receipt, tables=tables), target)


def _published(found: Release, target: Path | None) -> Release:
    """Write a release; if its tables were in temporary files, read it from its folder from now on."""
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
    """Return the given id or a random one. It never depends on rows, files, sizes or times."""
    if given is None:
        return secrets.token_hex(16)
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise InputError(
            f"release_id must be 1 to 100 letters, digits, dots, dashes or underscores, got release_id={given!r}.",
            hint=Hint(python="release_id='visits-2026-11'", cli="--release-id visits-2026-11"),
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
            hint=Hint(
                do="if each row depends on one unit's records alone, say so",
                python="Plan(..., row_local=True)",
                cli="--row-local",
            ),
        )
    if obs.counted:
        check_counts(plan)
    check_distinct(plan.distinct, unit_is_expression=obs.unit_is_expression)


def check_distinct(distinct: bool | Literal["units"], *, unit_is_expression: bool) -> None:  # noqa: FBT001 - as in a plan
    """Refuse the declaration of distinct rows for a unit that an expression makes.

    Raises:
        InputError: Both are given.
    """
    if unit_is_expression and distinct:
        raise InputError(
            "The unit comes from an expression, which may merge units that were declared distinct.",
            hint=Hint.without("distinct"),
        )


def _check_seed(plan: Plan) -> None:
    """Refuse a plan that does not list the two labels of a seed, or allows a unit more than one of them."""
    # proof: label-by.one-label
    if plan.bounds.labels != 1:
        raise InputError(
            f"A seed gives each unit one label, got labels={plan.bounds.labels}.",
            hint=Hint(python="leave it out, or labels=1", cli="leave it out, or --labels 1"),
        )
    if plan.public_labels != SEED_LABELS and not (plan.labels_only and set(plan.labels_only) <= set(SEED_LABELS)):
        raise InputError(
            "The labels of a seed are 'rest' and 'seed', and the plan must list them.",
            hint=Hint(
                python="Plan(..., public_labels=('rest', 'seed'))",
                cli="leave --public-labels out, or list rest and seed in its file",
            ),
        )


def _check_value(obs: Observations, bounds: Bounds, *, units: bool) -> None:
    check_clip(bounds.clip, units=units, value=None if obs.counted else obs.columns.value)


def _stored(entry: Entry, obs: Observations, plan: Plan, to: Target | None) -> Release:
    """Return the stored release of an id that was charged before; refuse if it is another one. Never draws."""
    if entry.plan_digest != plan.digest or entry.columns_digest != obs.columns_digest:
        raise LedgerError(
            f"The release id {entry.release_id!r} was charged for another plan, other columns or another dataset.",
            hint=Hint(
                python="choose a new release_id for a new release", cli="choose a new --release-id for a new release"
            ),
        )
    if to is None:
        raise ReleaseError(
            f"The release id {entry.release_id!r} was charged before and lived in memory only.",
            hint=Hint(
                python="choose a new release_id; it will be charged",
                cli="choose a new --release-id; it will be charged",
            ),
        )
    elsewhere = "name the folder that it was written to"
    try:
        found = Release.load(to)
    except InputNotFound as error:
        raise ReleaseError(error.message, hint=elsewhere) from None
    if found.release_id != entry.release_id or found.receipt["plan_digest"] != plan.digest:
        raise ReleaseError(f"{to} holds another release than {entry.release_id!r}.", hint=elsewhere)
    return found
