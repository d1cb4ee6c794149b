"""Releases: `release`, with `release_many` and `exact`, is the only function that crosses the border from rows to a release.

It reserves the folder's name, rehearses, charges the ledger, reads rows, draws noise and publishes once, in this order.
"""

from __future__ import annotations

import re
import secrets
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.curator.drawing import Reading, measure, origin_of, summed, summed_by
from ddpmi.curator.looking import looked
from ddpmi.curator.observations import Observations
from ddpmi.curator.readiness import check_place, rehearse, rehearse_look
from ddpmi.errors import Hint, InputError, InputNotFound, LedgerError, ReleaseError
from ddpmi.ledger.entries import Charge
from ddpmi.ledger.ledger import Ledger
from ddpmi.pipeline import aggregates, contributions
from ddpmi.pipeline.bounds import check_clip
from ddpmi.pipeline.seeds import SEED_LABELS
from ddpmi.planning.auto import AutoPlan
from ddpmi.planning.plan import Plan, check_counting, check_counts
from ddpmi.releases.receipts import exact_receipt, private_receipt
from ddpmi.releases.release import Release
from ddpmi.releases.reservations import reserve
from ddpmi.releases.tables import FolderTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ddpmi._typing import Progress, Target
    from ddpmi.curator.looking import Looked
    from ddpmi.ledger.entries import Entry
    from ddpmi.pipeline.bounds import Bounds
    from ddpmi.privacy.accounting import Cost
    from ddpmi.privacy.budget import Budget
    from ddpmi.releases.reservations import Reservation


_SALT_BYTES = 32
_NEW_ID = Hint(python="choose a new release_id for a new release", cli="choose a new --release-id for a new release")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Exact sums of decimal values keep six digits after the point unless bounds give a step.
_EXACT_STEP = Fraction(1, 10**6)


def release(
    obs: Observations,
    plan: Plan | AutoPlan,
    *,
    ledger: Ledger | Target,
    to: Target | None = None,
    release_id: str | None = None,
    who: str = "",
    why: str = "",
    progress: Progress | None = None,
) -> Release:
    """Release differentially private sums, after charging the ledger for them.

    Before the charge the folder's name is reserved, and the plan runs over a few made-up rows. What fails there costs
    nothing. What can still fail later is listed in docs/reference/after-the-charge.md.

    Args:
        obs: What `observe` returned.
        plan: What will be done and what it costs. An `AutoPlan` is two charges: a look chooses the bounds first.
        ledger: Is charged first; a `Ledger`, or the path of its file. If it refuses, nothing is read.
        to: Folder to write; without it the release lives in memory only.
        release_id: A name for retries; random by default. An id that was charged before is never drawn again: the
            release stored in the folder is returned, or an error is raised.
        who: Who asks for the release. The ledger keeps it with the entry.
        why: What the release is for. The ledger keeps it with the entry.
        progress: Called with the name of the stage and its fraction done, or None.

    Raises:
        BudgetExceeded: The ledger has too little left; nothing was read.
        InputError: The plan does not fit the data's columns, or its settings cannot work.
        ReleaseError: The folder exists, another release is about to write it, or the id was charged and its release is
            not in the folder. Or a look found too few units for any pair to show; then only the look was charged.
    """
    chosen, target = _release_id(release_id), _target(to)
    check_given(obs, plan)
    if isinstance(plan, AutoPlan):
        auto = replace(plan, labels=1) if obs.seed is not None and plan.labels is None else plan
        check_fit(obs, auto.example(auto.possible[0]))
        asked = _LookOrder(obs=obs, auto=auto, id=chosen, target=target, who=who, why=why)
        return _released_after_look(asked, as_ledger(ledger), progress, retried=release_id is not None)
    check_fit(obs, plan)
    account = as_ledger(ledger)
    if release_id is not None and (entry := account.find(chosen)) is not None:
        return _stored(account, entry, obs, plan, target)
    order = _Order(obs=obs, plans=(plan,), ids=(chosen,), targets=(target,), who=who, why=why)
    return _charged(order, account, progress)[0]


def release_many(
    obs: Observations,
    plans: Sequence[Plan],
    *,
    ledger: Ledger | Target,
    to: Sequence[Target] | None = None,
    who: str = "",
    why: str = "",
    progress: Progress | None = None,
) -> list[Release]:
    """Release several plans with equal bounds from one pass over the data. The sum of their costs is charged first.

    Args:
        obs: What `observe` returned.
        plans: Plans with the same bounds, the same kind of noise, and the same lists and declarations.
        ledger: Is charged for all of them or for none; a `Ledger`, or the path of its file.
        to: One folder for each plan.
        who: As for `release`.
        why: As for `release`.
        progress: As for `release`.

    Raises:
        InputError: The plans bound contributions differently.
    """
    check_given(obs, *(plans := _listed(plans)))
    if any(isinstance(plan, AutoPlan) for plan in plans):
        raise InputError(
            "release_many makes plans whose bounds are known.",
            hint="make one release with the AutoPlan first, and take the bounds of its plan: release.plan.bounds",
        )
    if len({plan.sums for plan in plans}) > 1:
        raise InputError(
            "The plans sum differently, or sample or select for themselves, so one pass cannot serve them all.",
            hint="give them equal bounds and lists and the same mechanism, without sample_rate and selection",
        )
    targets = _targets(to, len(plans))
    for plan in plans:
        check_fit(obs, plan)
    account = as_ledger(ledger)
    ids = tuple(_release_id(None) for _ in plans)
    return _charged(_Order(obs=obs, plans=plans, ids=ids, targets=targets, who=who, why=why), account, progress)


def as_ledger(given: Ledger | Target) -> Ledger:
    """Return the ledger, or open the one at a path.

    Raises:
        InputError: It is neither.
        LedgerError: There is no ledger at the path, or it cannot be used.

    >>> as_ledger(3)
    Traceback (most recent call last):
    ddpmi.errors.InputError: ledger must be a Ledger or the path of one, got int.
    <BLANKLINE>
    Hint: ledger='visits.ledger'
    """
    if isinstance(given, Ledger):
        return given
    if isinstance(given, str | PathLike):
        return Ledger(given)
    raise InputError(
        f"ledger must be a Ledger or the path of one, got {type(given).__name__}.",
        hint=Hint(python="ledger='visits.ledger'", cli="--ledger visits.ledger"),
    )


def check_given(obs: object, *plans: object) -> None:
    """Refuse what is neither observations nor a plan.

    Raises:
        InputError: Something else was given.

    >>> check_given(3)
    Traceback (most recent call last):
    ddpmi.errors.InputError: The data must be what observe returns, got int.
    <BLANKLINE>
    Hint: release(observe('visits.parquet'), plan, ledger='visits.ledger')
    """
    example = "release(observe('visits.parquet'), plan, ledger='visits.ledger')"
    if not isinstance(obs, Observations):
        raise InputError(f"The data must be what observe returns, got {type(obs).__name__}.", hint=example)
    for plan in plans:
        if not isinstance(plan, Plan | AutoPlan):
            raise InputError(
                f"The plan must be a Plan, got {type(plan).__name__}.",
                hint="plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=50))",
            )


def _listed(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    example = "release_many(obs, [plan_a, plan_b], ledger=ledger)"
    if not isinstance(plans, list | tuple):
        raise InputError(f"release_many needs a list of plans, got {type(plans).__name__}.", hint=example)
    if not plans:
        raise InputError("release_many needs at least one plan.", hint=example)
    return tuple(plans)


def _target(given: Target | None) -> Path | None:
    if given is None:
        return None
    if not isinstance(given, str | PathLike):
        raise InputError(f"to must be the path of a folder, got {type(given).__name__}.", hint="to='visits.release'")
    return Path(given)


def _targets(to: Sequence[Target] | None, plans: int) -> tuple[Path | None, ...]:
    """Return one folder for each plan, all different."""
    if to is None:
        return (None,) * plans
    example = "to=['a.release', 'b.release']"
    if not isinstance(to, list | tuple):
        raise InputError(f"to must be a list of folders, got {type(to).__name__}.", hint=example)
    if len(to) != plans:
        raise InputError(f"to must name a folder for each of the {plans} plans, got {len(to)}.", hint=example)
    found = tuple(_target(path) for path in to)
    if len({str(path and path.absolute()) for path in found}) < plans:
        raise InputError("to names a folder twice.", hint=example)
    return found


def exact(
    obs: Observations,
    *,
    bounds: Bounds | None = None,
    space: Literal["events", "units"] | None = None,
    to: Target | None = None,
    progress: Progress | None = None,
) -> Release:
    """Sum exactly, without privacy: for public data and for evaluation. Everything made of it says NOT PRIVATE.

    Args:
        obs: What `observe` returned.
        bounds: Bound contributions as a release with Laplace noise does; by default nothing is bounded.
        space: Count units, each by one weight, or events. None counts events where a value column is named, and units otherwise.
        to: Folder to write.
        progress: As for `release`.
    """
    check_given(obs)
    obs.check_labelled()
    space = space or ("units" if obs.counted or obs.columns.value is None else "events")
    if (target := _target(to)) is not None:
        check_place(target)
    obs = obs.prepared(target)
    bounding, dialect = _exact_bounding(obs, bounds, units=space == "units"), obs.source.dialect
    steps = [*contributions.steps(bounding, dialect), aggregates.joint(bounding, dialect)]
    if space == "units":
        steps += aggregates.unit_sums(bounding, dialect)
    with summed(obs, steps, salt=secrets.token_hex(_SALT_BYTES), progress=progress) as engine:
        tables = measure(engine, Reading(bounding=bounding, units=space == "units"))
        origin = origin_of(obs, engine)
    receipt = exact_receipt(origin, release_id=_release_id(None), step=bounding.step, g=bounding.g, space=space)
    return _published(Release(receipt=receipt, tables=tables), target)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """Releases that are charged together."""

    obs: Observations
    plans: tuple[Plan, ...]
    ids: tuple[str, ...]
    targets: tuple[Path | None, ...]
    who: str
    why: str
    looked: Looked | None = None
    """What a look found, and left in the engine."""
    auto: AutoPlan | None = None
    """What was declared for the look."""

    def charges(self) -> list[Charge]:
        """Return what the ledger is charged for."""
        return [
            Charge(
                cost=plan.cost,
                guarantee=plan.budget,
                release_id=release_id,
                dataset=self.obs.dataset,
                mechanism=plan.mechanism_name,
                plan_digest=plan.digest,
                columns_digest=self.obs.columns_digest,
                folder="" if target is None else str(target.absolute()),
                who=self.who,
                why=self.why,
            )
            for plan, release_id, target in zip(self.plans, self.ids, self.targets, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookOrder:
    """A release whose bounds a look will choose."""

    obs: Observations
    auto: AutoPlan
    id: str
    target: Path | None
    who: str
    why: str

    @property
    def look_id(self) -> str:
        """The id under which the look is charged."""
        return look_id(self.id)

    def charge(self) -> Charge:
        """Return what the ledger is charged for the look."""
        return self._charge(self.auto.look_cost, self.auto.look_budget, self.look_id)

    def whole(self) -> list[Charge]:
        """Return what look and release may cost together: one charge for each kind of noise. They are never written."""
        return [self._charge(cost, self.auto.budget, self.id) for cost in self.auto.costs]

    def _charge(self, cost: Cost, guarantee: Budget, release_id: str) -> Charge:
        return Charge(
            cost=cost,
            guarantee=guarantee,
            release_id=release_id,
            dataset=self.obs.dataset,
            mechanism="laplace",
            plan_digest=self.auto.digest,
            columns_digest=self.obs.columns_digest,
            who=self.who,
            why=self.why,
        )

    def order(self, found: Looked) -> _Order:
        """Return the release that follows from the look."""
        plan = self.auto.resolve(found.look)
        return _Order(
            obs=self.obs,
            plans=(plan,),
            ids=(self.id,),
            targets=(self.target,),
            who=self.who,
            why=self.why,
            looked=found,
            auto=self.auto,
        )


def look_id(release_id: str) -> str:
    """Return the id under which the look of a release is charged.

    >>> look_id("visits-2026")
    'visits-2026.look'
    """
    return f"{release_id}.look"


def _released_after_look(asked: _LookOrder, ledger: Ledger, progress: Progress | None, *, retried: bool) -> Release:
    """Charge the look and draw it, then charge the release that follows from it and draw that."""
    if retried and (found := _stored_after_look(asked, ledger)) is not None:
        return found
    with ExitStack() as held:
        reserved: list[Reservation | None] = [None]
        if asked.target is not None:
            check_place(asked.target)
            reserved = [held.enter_context(reserve(asked.target))]
        asked = replace(asked, obs=asked.obs.prepared(asked.target))
        rehearse_look(asked.obs, asked.auto)
        # proof: look.charges
        ledger.check(asked.whole())
        ledger.charge_many([asked.charge()])
        try:
            salt = secrets.token_hex(_SALT_BYTES)
            found_by_look = held.enter_context(looked(asked.obs, asked.auto, salt=salt, progress=progress))
            order = asked.order(found_by_look)
            _mark_looked(ledger, asked)
            _check_shows(asked, order)
            entries = ledger.charge_many(order.charges())
        except BaseException as error:
            with suppress(LedgerError):
                ledger.mark(asked.look_id, "abandoned")
            error.add_note(f"The ledger was charged for the look alone, and that charge stays ({asked.look_id}).")
            raise
        return _released(order, ledger, entries, reserved, progress)[0]


def _mark_looked(ledger: Ledger, asked: _LookOrder) -> None:
    """Record that the look is out."""
    with suppress(LedgerError):
        ledger.mark(asked.look_id, "released")


def _check_shows(asked: _LookOrder, order: _Order) -> None:
    """Stop if the look says that nothing would show. This is decided by released numbers alone."""
    # proof: look.stop
    look, plan = order.looked.look if order.looked is not None else None, order.plans[0]
    if look is None or asked.auto.shows(look, plan):
        return
    examples = (asked.auto.example(name) for name in asked.auto.possible)
    needed = ceil(min(example.calibration.threshold_in_units for example in examples))
    sure = ceil(look.pairs.certain)
    raise ReleaseError(
        f"A private look sees {sure} units or more that have about as many pairs, and saw none. A pair needs at least "
        f"{needed} units to show, so the release was not made.",
        hint=Hint(
            do="spend more, list the keys that are publicly known, or join groups",
            python="AutoPlan.of(epsilon=2, public_labels=[...])",
            cli="--epsilon 2, or --public-labels FILE",
        ),
    )


def _stored_after_look(asked: _LookOrder, ledger: Ledger) -> Release | None:
    """Return the stored release of an id whose look was charged before; refuse another one. Never draws."""
    look, entry = ledger.find(asked.look_id), ledger.find(asked.id)
    if look is None and entry is None:
        return None
    same = look is not None and (look.plan_digest, look.columns_digest) == (asked.auto.digest, asked.obs.columns_digest)
    if not same:
        raise LedgerError(
            f"The release id {asked.id!r} was charged for another plan, other columns or another dataset.",
            hint=_NEW_ID,
        )
    if entry is None:
        raise ReleaseError(
            f"Only the look of the release id {asked.id!r} was charged; its release was not made.", hint=_NEW_ID
        )
    return _found(ledger, entry, asked.target)


def _charged(order: _Order, ledger: Ledger, progress: Progress | None) -> list[Release]:
    """Reserve the names, rehearse, charge durably, then read and publish. The charge stays even if a later step fails."""
    with ExitStack() as held:
        reserved: list[Reservation | None] = []
        for target in order.targets:
            if target is not None:
                check_place(target)
            reserved.append(None if target is None else held.enter_context(reserve(target)))
        order = replace(order, obs=order.obs.prepared(order.targets[0]))
        charges = order.charges()
        rehearse(order.obs, order.plans)
        entries = ledger.charge_many(charges)
        return _released(order, ledger, entries, reserved, progress)


def _released(
    order: _Order,
    ledger: Ledger,
    entries: Sequence[Entry],
    reserved: Sequence[Reservation | None],
    progress: Progress | None,
) -> list[Release]:
    """Read, draw and publish what was charged, and record how each release ended."""
    found: list[Release] = []
    try:
        status = ledger.status(order.obs.dataset)
        balance = {"spent": status.spent.to_dict(), "left": status.left.to_dict()}
        for one in _drawn(order, entries, reserved, progress, balance):
            _mark_released(ledger, one)
            found.append(one)
    except BaseException as error:
        for release_id, target in list(zip(order.ids, order.targets, strict=True))[len(found) :]:
            _mark_abandoned(ledger, release_id, target)
        error.add_note(
            f"The ledger was charged before the data was read, and the charge stays (release id {', '.join(order.ids)})."
        )
        raise
    return found


def _mark_released(ledger: Ledger, found: Release) -> None:
    """Record that a release is out. If the ledger has gone since the charge, warn: the release is complete and charged."""
    try:
        ledger.mark(found.release_id, "released", receipt_digest=found.receipt_digest)
    except LedgerError as error:
        # stacklevel: the caller of release, behind _released and _charged.
        warnings.warn(
            f"The release {found.release_id!r} is complete and was charged, but the ledger could not record its end: "
            f"{error.message} Keep the ledger file that was charged, and use it again.",
            stacklevel=5,
        )


def _mark_abandoned(ledger: Ledger, release_id: str, target: Path | None) -> None:
    """Record that a release failed, unless its folder is complete: then its next retry records that it is out."""
    if target is not None and (target / "receipt.json").is_file():
        return
    # The error that ended the release is the one to show, not that of a ledger that has gone.
    with suppress(LedgerError):
        ledger.mark(release_id, "abandoned")


def _drawn(
    order: _Order,
    entries: Sequence[Entry],
    reserved: Sequence[Reservation | None],
    progress: Progress | None,
    balance: Mapping[str, Any],
) -> Iterator[Release]:
    """Sum once, then draw and publish one release after the other."""
    done = None if order.looked is None else order.looked.done
    salt = secrets.token_hex(_SALT_BYTES)
    with summed_by(order.obs, order.plans[0], salt=salt, progress=progress, done=done) as engine:
        origin = origin_of(order.obs, engine)
        for plan, entry, target, name in zip(order.plans, entries, order.targets, reserved, strict=True):
            if progress is not None:
                progress("draw noise", None)
            tables = measure(engine, Reading.of(plan))
            charged = {"entry": entry.id, **balance}
            look = None if order.looked is None or order.auto is None else (order.auto, order.looked.look)
            whole = plan.complete and tables.count("pairs") == tables.count("features") * tables.count("labels")
            receipt = private_receipt(
                plan, origin, release_id=entry.release_id, ledger=charged, look=look, completed=whole
            )
            yield _published(Release(receipt=receipt, tables=tables), target, name)


def _published(found: Release, target: Path | None, reservation: Reservation | None = None) -> Release:
    """Write a release, and return it with the receipt that was written; tables in temporary files are read from there."""
    if target is None:
        return found
    found.save(target, reservation=reservation)
    stored = Release.load(target, verify=False)
    return stored if isinstance(found.tables, FolderTables) else replace(stored, tables=found.tables)


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
    check_counting(plan)
    _check_value(obs, plan.bounds, units=plan.ignores_values)
    if obs.query is not None and not plan.row_local:
        raise InputError(
            f"The data is a {obs.query}, which may hide a LIMIT, a window or a join across units, or fail at one row.",
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


def _stored(ledger: Ledger, entry: Entry, obs: Observations, plan: Plan, to: Path | None) -> Release:
    """Return the stored release of an id that was charged before; refuse if it is another one. Never draws."""
    if entry.plan_digest != plan.digest or entry.columns_digest != obs.columns_digest:
        raise LedgerError(
            f"The release id {entry.release_id!r} was charged for another plan, other columns or another dataset.",
            hint=_NEW_ID,
        )
    return _found(ledger, entry, to)


def _found(ledger: Ledger, entry: Entry, to: Path | None) -> Release:
    """Return the release of an entry from its folder."""
    if to is None:
        raise _not_here(entry, "and no folder was named now")
    try:
        named = Release.load(to, verify=False)
    except InputNotFound:
        raise _not_here(entry, f"and {to} is not a release") from None
    if named.release_id != entry.release_id or named.receipt["plan_digest"] != entry.plan_digest:
        raise _not_here(entry, f"and {to} holds another release")
    found = Release.load(to, receipt_digest=entry.receipt_digest)
    if entry.state == "charged":
        # A crash came after the folder was complete, and before this was recorded.
        _mark_released(ledger, found)
    return found


def _not_here(entry: Entry, why: str) -> ReleaseError:
    """Say where the release of an id that was charged before is, or that there is none."""
    again = Hint(
        do="a charged id is never drawn again",
        python="choose a new release_id; it will be charged",
        cli="choose a new --release-id; it will be charged",
    )
    charged = f"The release id {entry.release_id!r} was charged before"
    if entry.state == "expunged":
        return ReleaseError(f"{charged}, and its release was removed.", hint=again)
    if not entry.folder:
        memory = " and lived in memory only" if entry.state == "released" else ""
        return ReleaseError(f"{charged}{memory}, {why}.", hint=again)
    if not (Path(entry.folder) / "receipt.json").is_file():
        return ReleaseError(
            f"{charged} to be written to {entry.folder}, which holds no release now, {why}.", hint=again
        )
    return ReleaseError(
        f"{charged} and written to {entry.folder}, {why}.",
        hint=Hint(do="name that folder", python=f"to={entry.folder!r}", cli=f"-o '{entry.folder}'"),
    )
