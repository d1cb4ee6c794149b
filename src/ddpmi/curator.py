"""The one door through the border: pay, read rows, draw noise, publish once."""

from __future__ import annotations

import re
import secrets
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi import aggregates, contributions
from ddpmi.errors import InputError, LedgerError, ReleaseError
from ddpmi.ledger_entries import Charge
from ddpmi.noise import add_noise
from ddpmi.receipts import exact_receipt, private_receipt
from ddpmi.releases import Release, check_target
from ddpmi.tables import MemoryTables

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ddpmi.calibration import TableNoise
    from ddpmi.engines import Engine
    from ddpmi.ledger import Ledger
    from ddpmi.ledger_entries import Entry
    from ddpmi.observations import Observations
    from ddpmi.plan import Plan
    from ddpmi.randomness import Source
    from ddpmi.spec import Bounds
    from ddpmi.sql import Step

    Progress = Callable[[str, float | None], None]
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
    _check_fit(obs, plan)
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
        plans: Plans that bound contributions alike: same bounds, same kind of noise, same declarations.
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
    if len({plan.calibration.bounding for plan in plans}) > 1:
        raise InputError(
            "The plans bound contributions differently, so one pass cannot serve them all.",
            hint="give them equal bounds and the same mechanism, for example mechanism='gaussian'",
        )
    if to is not None and len(to) != len(plans):
        raise InputError(
            f"to must name a folder for each of the {len(plans)} plans, got {len(to)}.",
            hint="to=['a.release', 'b.release']",
        )
    for plan in plans:
        _check_fit(obs, plan)
    targets = [None] * len(plans) if to is None else [Path(path) for path in to]
    return _charged(obs, plans, ledger, [_release_id(None) for _ in plans], targets, progress)


def exact(
    obs: Observations, *, bounds: Bounds | None = None, to: Target | None = None, progress: Progress | None = None
) -> Release:
    """Sum exactly, with no privacy: for public data and for evaluation. Stamped NOT PRIVATE everywhere.

    Args:
        obs: What `observe` returned.
        bounds: Bound contributions as a Laplace release would; by default nothing is bounded.
        to: Folder to write.
        progress: As for `release`.
    """
    if to is not None:
        check_target(Path(to))
    bounding = _exact_bounding(obs, bounds)
    steps = [*contributions.steps(bounding, obs.source.dialect), aggregates.joint(bounding, obs.source.dialect)]
    with summed(obs, steps, salt=secrets.token_hex(_SALT_BYTES), progress=progress) as engine:
        tables = measure(engine, noises=None)
        told = {"name": obs.source.engine, "version": engine.version}
    receipt = exact_receipt(
        release_id=_release_id(None),
        dataset=obs.dataset,
        unit=obs.columns.unit,
        engine=told,
        grid=(bounding.step, bounding.g),
    )
    return _published(Release(receipt=receipt, tables=tables), None if to is None else Path(to))


def _exact_bounding(obs: Observations, bounds: Bounds | None) -> contributions.Bounding:
    valued = obs.columns.value is not None
    if bounds is None:
        whole = not valued or obs.schema[str(obs.columns.value)][0] in ("integer", "boolean")
        return contributions.Bounding(bounds=None, valued=valued, step=Fraction(1) if whole else _EXACT_STEP)
    _check_value(obs, bounds)
    g = 0 if bounds.strategy == "sample" else 8
    return contributions.Bounding(bounds=bounds, g=g, valued=valued, step=bounds.step)


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
    charges = [_charge(obs, plan, release_id) for plan, release_id in zip(plans, ids, strict=True)]
    entries = ledger.charge_many(charges)
    try:
        status = ledger.status(obs.dataset)
        found = _drawn(
            obs, plans, entries, targets, progress, {"spent": status.spent.to_dict(), "left": status.left.to_dict()}
        )
    except BaseException as error:
        for release_id in ids:
            ledger.mark(release_id, "abandoned")
        error.add_note(
            f"The ledger was charged before the data was read, and the charge stays (release id {', '.join(ids)})."
        )
        raise
    for release_id in ids:
        ledger.mark(release_id, "released")
    return found


def _drawn(
    obs: Observations,
    plans: Sequence[Plan],
    entries: Sequence[Entry],
    targets: Sequence[Path | None],
    progress: Progress | None,
    standing: Mapping[str, Any],
) -> list[Release]:
    releases = []
    with summed(
        obs, plans[0].steps(obs.source.dialect), salt=secrets.token_hex(_SALT_BYTES), progress=progress
    ) as engine:
        told = {"name": obs.source.engine, "version": engine.version}
        for plan, entry, target in zip(plans, entries, targets, strict=True):
            if progress is not None:
                progress("draw noise", None)
            tables = measure(engine, noises=plan.calibration.tables)
            receipt = private_receipt(
                plan,
                release_id=entry.release_id,
                dataset=obs.dataset,
                unit=obs.columns.unit,
                engine=told,
                ledger={"entry": entry.id, **standing},
            )
            releases.append(_published(Release(receipt=receipt, tables=tables), target))
    return releases


def _published(found: Release, target: Path | None) -> Release:
    if target is not None:
        found.save(target)
    return found


@contextmanager
def summed(
    obs: Observations, steps: Sequence[Step], *, salt: str, progress: Progress | None = None
) -> Iterator[Engine]:
    """Run the steps, and give the engine in which ``joint`` holds the exact sums. Left of the border."""
    with obs.open() as engine:
        for step in [obs.rows(engine), *steps]:
            engine.run(step, salt=salt, progress=None if progress is None else _stage(progress, step.name))
        yield engine


def _stage(progress: Progress, name: str) -> Callable[[float], None]:
    return lambda fraction: progress(f"sum {name}", fraction)


def measure(engine: Engine, *, noises: Mapping[str, TableNoise] | None, source: Source | None = None) -> MemoryTables:
    """Draw every table once: pairs above the threshold first, then margins over the keys that are now public.

    Args:
        engine: Holds ``joint``.
        noises: Noise of each table; None gives exact sums.
        source: Random words; the process's cryptographic source by default.
    """
    import pyarrow.compute as pc

    def noise(table: str) -> TableNoise | None:
        return None if noises is None else noises[table]

    pairs = _noisy(engine, "SELECT feature, label, sum FROM joint", ["feature", "label"], noise("pairs"), source)
    pairs = pairs.sort_by([("feature", "ascending"), ("label", "ascending")])
    margins = {}
    # proof: threshold.known-keys
    for table, key in (("features", "feature"), ("labels", "label")):
        known = pc.unique(pairs.column(key))
        engine.put(f"known_{table}", known_keys(key, known))
        sums = _noisy(engine, aggregates.margin(key, f"known_{table}"), [key], noise(table), source)
        margins[table] = sums.sort_by(key)
    total = _noisy(engine, aggregates.total(), [], noise("total"), source)
    return MemoryTables(pairs=pairs, features=margins["features"], labels=margins["labels"], total=total)


def known_keys(key: str, values: pa.Array) -> pa.Table:
    """Make a table of one column of released keys."""
    import pyarrow as pa

    return pa.table({key: values})


def _noisy(engine: Engine, sql: str, keys: list[str], noise: TableNoise | None, source: Source | None) -> pa.Table:
    """Stream exact sums, add noise batch by batch and keep what reaches the threshold: the rest never leaves here."""
    import pyarrow as pa

    schema = pa.schema([*((key, pa.string()) for key in keys), ("sum", pa.int64())])
    kept = []
    for batch in engine.batches(sql):
        exact_batch = batch.cast(schema)
        if noise is None:
            kept.append(exact_batch)
            continue
        noisy = add_noise(exact_batch.column("sum").to_numpy(), noise.mechanism, source)
        drawn = exact_batch.set_column(len(keys), "sum", pa.array(noisy))
        kept.append(drawn if noise.threshold is None else drawn.filter(pa.array(noisy >= noise.threshold)))
    return pa.Table.from_batches(kept, schema=schema)


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


def _check_fit(obs: Observations, plan: Plan) -> None:
    _check_value(obs, plan.bounds)
    if obs.source.query is not None and not plan.row_local:
        raise InputError(
            f"The data is a {obs.source.query}, which may hide a LIMIT, a window or a join across units.",
            hint="if each row depends on one unit's records alone, say so: Plan(..., row_local=True)",
        )


def _check_value(obs: Observations, bounds: Bounds) -> None:
    if obs.columns.value is not None and bounds.clip is None:
        raise InputError(
            f"The value column {obs.columns.value!r} needs a clip: the largest value that one pair may count.",
            hint="Bounds(pairs=50, clip=100), or --clip 100",
        )
    if obs.columns.value is None and bounds.clip is not None:
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
