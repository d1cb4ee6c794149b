"""For tests and audits: seeded noise, generated data, and checks of the guarantee over any engine.

Nothing made here is private. Releases with seeded noise are stamped NOT PRIVATE.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.aggregates import every_key, margin_source
from ddpmi.calibration import Sensitivity, sensitivities
from ddpmi.engines.draws import in_key_order
from ddpmi.measurements import Reading, measure, origin_of, summed_by
from ddpmi.randomness import Keystream
from ddpmi.receipts import private_receipt
from ddpmi.releases import NOT_PRIVATE, Release
from ddpmi.selection import WEIGHT_SQUARED, weight
from ddpmi.statistics import binomial_tail, chi_square_tail, expected_counts
from ddpmi.tables import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from hypothesis.strategies import SearchStrategy

    from ddpmi.calibration import Mechanism
    from ddpmi.engines import Engine
    from ddpmi.observations import Observations
    from ddpmi.plan import Plan

__all__ = [
    "Moved",
    "Rate",
    "exact_sums",
    "hostile_rows",
    "moved_between",
    "sampler_check",
    "seeded_release",
    "sensitivity_replay",
    "threshold_check",
    "vocabularies",
]

#: Where labels are hidden: the features of all labels.
_ALL_FEATURES = "all features"


def _salt(seed: int | str) -> str:
    return hashlib.sha256(f"salt {seed}".encode()).hexdigest()


def _source(seed: int | str) -> Keystream:
    return Keystream(hashlib.sha256(f"noise {seed}".encode()).digest())


def seeded_release(obs: Observations, plan: Plan, *, seed: int | str) -> Release:
    """Release with noise and salt from a seed: the same every time, charged to nobody, NOT PRIVATE."""
    source = _source(seed)
    with summed_by(obs, plan, salt=_salt(seed), source=source) as engine:
        tables = measure(engine, Reading.of(plan), source=source)
        origin = origin_of(obs, engine)
    receipt = private_receipt(plan, origin, release_id=f"seeded-{seed}", ledger={})
    stamp = {"private": False, "notice": f"{NOT_PRIVATE}: the noise came from a seed", "ledger": None}
    return Release(receipt=receipt | stamp, tables=tables)


def exact_sums(
    obs: Observations, plan: Plan, *, seed: int | str = 0, replay: Sequence[Sequence[str]] | None = None
) -> dict[str, pa.Table]:
    """Return the sums that noise would be added to, for every key that occurs. Left of the border.

    Where `labels_only` hides labels, ``all features`` has the features of hidden labels too: another unit's listed label
    would make their sums known.

    Args:
        obs: The data.
        plan: What is summed.
        seed: Chooses the salt, and the noise of the vocabulary where the plan selects features.
        replay: Features that each round of the selection released, to be taken instead of drawn.
    """
    exact = replace(Reading.of(plan), noises=None, grid=False, other=False, complete=False)
    with summed_by(obs, plan, salt=_salt(seed), source=_source(seed), replay=replay) as engine:
        tables = measure(engine, exact)
        more = {
            f"selection {n}": _features(engine, f"SELECT feature, sum FROM weights_{n}")
            for n in range(1, len(plan.calibration.selection) + 1)
        }
        if plan.labels_only is not None:
            source = margin_source("feature", plan.calibration.bounding, units=plan.space == "units")
            more[_ALL_FEATURES] = _features(engine, every_key("feature", source, engine.dialect))
    return {name: tables.scan(name) for name in KEYS} | more


def vocabularies(obs: Observations, plan: Plan, *, seed: int | str = 0) -> list[list[str]]:
    """Draw the features that each round of a plan's selection releases, with noise from a seed. NOT PRIVATE."""
    found: list[list[str]] = []
    with summed_by(obs, plan, salt=_salt(seed), source=_source(seed)) as engine:
        for number in range(1, len(plan.calibration.selection) + 1):
            batches = engine.batches(f"SELECT feature FROM released_{number}")
            known = {feature for batch in batches for feature in batch.column(0).to_pylist()}
            found.append(sorted(known.difference(*found)))
    return found


def _features(engine: Engine, sql: str) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([("feature", pa.string()), ("sum", pa.int64())])
    batches = engine.batches(in_key_order(sql, ["feature"]))
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """How far one unit moved a table, beside what the plan declares, as exact integers."""

    table: str
    linf: int
    l1: int
    l2_squared: int
    allowed_linf: int
    allowed_l1: int | None
    allowed_l2_squared: int | None

    @property
    def within(self) -> bool:
        """Whether every declared bound holds."""
        return (
            self.linf <= self.allowed_linf
            and (self.allowed_l1 is None or self.l1 <= self.allowed_l1)
            and (self.allowed_l2_squared is None or self.l2_squared <= self.allowed_l2_squared)
        )


def sensitivity_replay(
    with_unit: Observations, without_unit: Observations, plan: Plan, *, seed: int | str = 0
) -> list[Moved]:
    """Compute the sums with and without one unit, on the same salt and vocabulary, and compare them with the plan.

    Args:
        with_unit: The data.
        without_unit: The same data without all rows of one unit.
        plan: Declares how far the sums may move.
        seed: Chooses the salt, and the vocabulary where the plan selects features.
    """
    replay = vocabularies(with_unit, plan, seed=seed) if plan.selection is not None else None
    before, after = (exact_sums(obs, plan, seed=seed, replay=replay) for obs in (with_unit, without_unit))
    return moved_between(before, after, plan)


def moved_between(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table], plan: Plan) -> list[Moved]:
    """Compare two results of `exact_sums` that differ by one unit with what the plan declares."""
    declared = sensitivities(plan.calibration.bounding, units=plan.space == "units")
    rounds = [f"selection {n}" for n in range(1, len(plan.calibration.selection) + 1)]
    all_keys = {str(table): keys for table, keys in KEYS.items()}
    all_keys |= dict.fromkeys(rounds, ("feature",))
    declared |= dict.fromkeys(rounds, Sensitivity(linf=weight(1), l1=None, l2_squared=WEIGHT_SQUARED))
    found = []
    for table, keys in all_keys.items():
        # A feature may be known on one side only, though both have a sum for it under labels that are hidden.
        # proof: public.only
        name = _ALL_FEATURES if table == "features" and _ALL_FEATURES in before else table
        changes = _changes(before[name], after[name], list(keys))
        allowed = declared[table]
        found.append(
            Moved(
                table=table,
                linf=max(map(abs, changes), default=0),
                l1=sum(map(abs, changes)),
                l2_squared=sum(change * change for change in changes),
                allowed_linf=allowed.linf,
                allowed_l1=allowed.l1,
                allowed_l2_squared=allowed.l2_squared,
            )
        )
    return found


def _changes(before: pa.Table, after: pa.Table, keys: list[str]) -> list[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    negated = after.set_column(len(keys), "sum", pc.negate(after.column("sum")))
    both = pa.concat_tables([before, negated])
    sums = both.group_by(keys).aggregate([("sum", "sum")]).column("sum_sum")
    return [change for change in sums.to_pylist() if change]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often something happened, beside the largest probability it may have."""

    events: int
    trials: int
    allowed: float

    @property
    def p_value(self) -> float:
        """Probability of at least so many events if the true rate were exactly the allowed one."""
        return binomial_tail(self.events, self.trials, self.allowed)


def threshold_check(
    observe: Callable[[pa.Table], Observations],
    plan: Plan,
    *,
    pairs: int,
    units: int,
    alone_in: Literal["feature", "label"] = "feature",
    seed: int | str | None = None,
) -> Rate:
    """Count how often a unit that is alone in all its pairs has any of them released.

    Args:
        observe: Makes observations of a table with columns unit, feature, label on the engine under test.
        plan: The plan under test, best with a large delta.
        pairs: Pairs of each lone unit.
        units: Number of lone units; each is one independent trial.
        alone_in: What no two of them share: each has features of its own, or a label.
        seed: Seeds the noise; None uses the cryptographic source.
    """
    import pyarrow as pa

    lone = [(f"u{number}", f"{place}") for number in range(units) for place in range(pairs)]
    own = alone_in == "feature"
    rows = pa.table(
        {
            "unit": [unit for unit, _ in lone],
            "feature": [f"{unit}-{place}" if own else place for unit, place in lone],
            "label": ["x" if own else unit for unit, _ in lone],
        }
    )
    obs = observe(rows)
    source = None if seed is None else _source(seed)
    with summed_by(obs, plan, salt=_salt(seed or 0), source=source) as engine:
        tables = measure(engine, Reading.of(plan), source=source)
    shown = tables.scan("features" if plan.selection is not None else "pairs")
    seen = {key.split("-", 1)[0] for key in shown.column(alone_in).to_pylist()}
    return Rate(events=len(seen), trials=units, allowed=float(plan.threshold_delta))


def sampler_check(mechanism: Mechanism, *, size: int, seed: int | str | None = None) -> float:
    """Draw noise and return the p-value of a chi-square test against the exact mass function."""
    import numpy as np

    drawn = mechanism.sample(size, None if seed is None else _source(seed))
    edges, expected = expected_counts(mechanism, size)
    observed = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(expected))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, len(expected) - 1)


def hostile_rows(
    *, units: int = 6, features: int = 5, labels: int = 3, valued: bool = False
) -> SearchStrategy[list[tuple[Any, ...]]]:
    """Hypothesis strategy for rows (unit, feature, label[, value]) with everything that real data does wrong.

    Keys are often equal, sometimes NULL, empty, not ASCII or look like code; values are NULL, NaN, infinite, negative or huge.
    """
    from hypothesis import strategies as st

    odd = ["", " ", "a,b", 'q"q', "ß", "\u202e", "<b>", "=1+1", "a:1"]
    keys = [
        st.sampled_from([None, *odd, *(f"{role}{n}" for n in range(count))])
        for role, count in (("u", units), ("f", features), ("l", labels))
    ]
    if valued:
        edge = st.sampled_from([None, float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 0.5, 1e308, 5e-324])
        keys.append(st.one_of(edge, st.floats(0, 20), st.integers(0, 9).map(float)))
    return st.lists(st.tuples(*keys), max_size=60)
