"""One call from data to a ranking: name the columns and an epsilon, and a private look chooses the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddpmi.curator.door import release
from ddpmi.curator.observations import observe
from ddpmi.errors import Hint, InputError
from ddpmi.planning.auto import AutoPlan
from ddpmi.planning.plan import DEFAULT_DELTA, Plan
from ddpmi.rankings.ranking import rank

if TYPE_CHECKING:
    from ddpmi._typing import Progress, Target
    from ddpmi.curator.columns import Role
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.pipeline.steps import Expression
    from ddpmi.rankings.ranking import Ranking

#: Options that belong to a plan whose number of pairs is known.
_KNOWN_BOUNDS = ("cap",)


def run(  # noqa: PLR0913 - each is a choice that a first call may make
    data: Any,
    *,
    epsilon: Any = None,
    ledger: Ledger | Target | None = None,
    unit: Role = None,
    feature: Role = None,
    label: Role = None,
    value: Role = None,
    where: str | Expression | None = None,
    delta: Any = DEFAULT_DELTA,
    pairs: int | None = None,
    dataset: str = "default",
    to: Target | None = None,
    release_id: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Ranking:
    """Release data and rank it: `observe`, `release` and `rank` in one call. Each call spends epsilon.

    Without ``pairs`` a private look, which is part of the same epsilon, first measures how many pairs units have.

    Args:
        data: As for `observe`.
        epsilon: The privacy loss that this call may spend. 1 is a usual choice.
        ledger: Is charged first; a `Ledger`, or the path of its file.
        unit: Column of the unit, whose privacy is protected.
        feature: Column of the feature, which is ranked.
        label: Column of the label, the group of a row.
        value: Column with a number per row. It needs a ``clip``.
        where: Keep the rows for which this expression is true.
        delta: The probability that the promise fails. It should be far below 1 divided by the number of units.
        pairs: How many pairs of a unit count in full, if that is known.
        dataset: Name under which the ledger counts.
        to: Folder of the release; without it the release lives in memory only.
        release_id: As for `release`.
        progress: As for `release`.
        options: Further options of `Plan`, and ``labels``, ``clip`` and, with pairs, ``cap``.

    Raises:
        BudgetExceeded: The ledger has too little left; nothing was read.
        InputError: Something does not fit; nothing was charged.
        ReleaseError: The look found that nothing would show; the look alone was charged.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from ddpmi import Budget, Ledger
    >>> rows = [(n, f, "ab"[n % 2]) for n in range(4000) for f in ("all", f"own-{'ab'[n % 2]}")]
    >>> visits = pa.table(dict(zip(("unit", "feature", "label"), zip(*rows))))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/visits.ledger", limit=Budget(4, 1e-6))
    ...     sorted(run(visits, epsilon=4, ledger=ledger).top(1, direction="presence").table["feature"].to_pylist())
    ['own-a', 'own-b']
    """
    if epsilon is None or ledger is None:
        missing = "epsilon, how much privacy this call may spend," if epsilon is None else "the ledger"
        raise InputError(
            f"{missing[0].upper()}{missing[1:]} is missing.",
            hint=Hint(
                do="a ledger records what was spent, and is made once: Ledger('visits.ledger', limit=Budget(4, 1e-6))",
                python="run(data, epsilon=1, ledger='visits.ledger')",
            ),
        )
    obs = observe(data, unit=unit, feature=feature, label=label, value=value, where=where, dataset=dataset)
    obs.check_labelled()
    plan: Plan | AutoPlan
    if pairs is None and options.get("distinct") != "units":
        if given := [name for name in _KNOWN_BOUNDS if name in options]:
            raise InputError(f"{given[0]} was given without pairs.", hint=Hint(python="run(..., pairs=50, cap=500)"))
        plan = AutoPlan.of(epsilon=epsilon, delta=delta, **options)
    else:
        plan = Plan(epsilon=epsilon, delta=delta, pairs=1 if pairs is None else pairs, **options)
    return rank(release(obs, plan, ledger=ledger, to=to, release_id=release_id, progress=progress))
