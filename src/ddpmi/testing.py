"""Tools for tests and audits of the guarantee, on any engine: seeded releases, and statistical checks of the noise.

Nothing that these tools return is private. Releases with seeded noise are marked NOT PRIVATE.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ddpmi._typing import KEYS
from ddpmi.curator.drawing import Reading, measure, origin_of, summed_by
from ddpmi.engines.noising import in_key_order
from ddpmi.pipeline.aggregates import every_key, margin_source
from ddpmi.pipeline.selection import WEIGHT_SQUARED, weight
from ddpmi.planning.calibration import Sensitivity
from ddpmi.privacy.noise import DiscreteLaplace
from ddpmi.privacy.randomness import Keystream
from ddpmi.releases.receipts import private_receipt
from ddpmi.releases.release import Release
from ddpmi.text import NOT_PRIVATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from hypothesis.strategies import SearchStrategy
    from numpy.typing import NDArray

    from ddpmi.curator.observations import Observations
    from ddpmi.engines import Engine
    from ddpmi.planning.plan import Plan
    from ddpmi.privacy.noise import Mechanism


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

_ALL_FEATURES = "all features"  # name of a table: the features of all labels, suppressed ones included
_ITERATIONS = 10_000  # most terms of a series
_TINY = 1e-300  # replaces a zero denominator
_BINS = 60  # most bins of a chi-square test


def seeded_release(obs: Observations, plan: Plan, *, seed: int | str) -> Release:
    """Release with noise and salt from a seed: the same every time, and no ledger is charged. NOT PRIVATE."""
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
    """Return the exact sums before noise, for every key that occurs. NOT PRIVATE.

    Where `labels_only` excludes labels, the table ``all features`` has the features of excluded labels too: their sums
    would be released if another unit had the feature in a listed label.

    Args:
        obs: The data.
        plan: The plan whose sums are computed.
        seed: Chooses the salt, and the noise of the vocabulary where the plan selects features.
        replay: The features that each round of the selection released; they are used instead of drawing new ones.
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
    """Return the features that each round of a plan's selection releases, with noise from a seed. NOT PRIVATE."""
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


def _salt(seed: int | str) -> str:
    return hashlib.sha256(f"salt {seed}".encode()).hexdigest()


def _source(seed: int | str) -> Keystream:
    return Keystream(hashlib.sha256(f"noise {seed}".encode()).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """How far one unit moved a table, and how far the plan allows it, as exact integers."""

    table: str
    """The name of the table."""
    linf: int
    """The largest change of one sum."""
    l1: int
    """The sum of all absolute changes."""
    l2_squared: int
    """The sum of all squared changes."""
    allowed_linf: int
    """The bound of ``linf``."""
    allowed_l1: int | None
    """The bound of ``l1``; None where the plan does not use it."""
    allowed_l2_squared: int | None
    """The bound of ``l2_squared``; None where the plan does not use it."""

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
        plan: The plan, which declares how far the sums may move.
        seed: Chooses the salt, and the vocabulary where the plan selects features.
    """
    replay = vocabularies(with_unit, plan, seed=seed) if plan.selection is not None else None
    before, after = (exact_sums(obs, plan, seed=seed, replay=replay) for obs in (with_unit, without_unit))
    return moved_between(before, after, plan)


def moved_between(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table], plan: Plan) -> list[Moved]:
    """Compare the change between two results of `exact_sums` that differ by one unit with what the plan declares."""
    declared = plan.calibration.sensitivities
    rounds = [f"selection {n}" for n in range(1, len(plan.calibration.selection) + 1)]
    all_keys = {str(table): keys for table, keys in KEYS.items()}
    all_keys |= dict.fromkeys(rounds, ("feature",))
    declared |= dict.fromkeys(rounds, Sensitivity(linf=weight(1), l1=None, l2_squared=WEIGHT_SQUARED))
    found = []
    for table, keys in all_keys.items():
        # A feature may be released on one side only, though both sides have a sum for it in excluded labels.
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
    """How often an event occurred, and the largest probability that it may have."""

    events: int
    """How often it occurred."""
    trials: int
    """How often it could have occurred."""
    allowed: float
    """The largest probability of one event."""

    @property
    def p_value(self) -> float:
        """The probability of at least this many events, if one event has exactly the allowed probability."""
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
        observe: Returns observations of a table with columns unit, feature, label on the engine under test.
        plan: The plan under test, preferably with a large delta.
        pairs: The number of pairs of each unit.
        units: The number of units; each is one independent trial.
        alone_in: Whether each unit has its own features, or its own label.
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
    drawn = mechanism.sample(size, None if seed is None else _source(seed))
    edges, expected = expected_counts(mechanism, size)
    observed = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(expected))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, len(expected) - 1)


def hostile_rows(
    *, units: int = 6, features: int = 5, labels: int = 3, valued: bool = False
) -> SearchStrategy[list[tuple[Any, ...]]]:
    """Return a Hypothesis strategy for rows (unit, feature, label[, value]) with the defects of real data.

    Keys are often equal, sometimes NULL, empty, not ASCII, or similar to code. Values may be NULL, NaN, infinite, negative
    or huge.
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


def binomial_tail(events: int, trials: int, probability: float) -> float:
    """Return P[Binomial(trials, probability) >= events].

    >>> round(binomial_tail(2, 3, 0.5), 6)
    0.5
    """
    if events <= 0:
        return 1.0
    log_p, log_q = math.log(probability), math.log1p(-probability)
    largest = math.lgamma(trials + 1)
    terms = [
        largest - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_p + (trials - k) * log_q
        for k in range(events, trials + 1)
    ]
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Return the probability that a chi-square variable is at least as large.

    The regularised upper incomplete gamma function: series below the mean, continued fraction above.

    >>> round(chi_square_tail(3.841458820694124, 1), 9)
    0.05
    """
    a, x = degrees / 2, statistic / 2
    if x <= 0:
        return 1.0
    front = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, _ITERATIONS):
            term *= x / (a + n)
            total += term
            if term < total * 1e-16:
                break
        return max(0.0, 1 - front * total)
    return front * _continued_fraction(a, x)


def _continued_fraction(a: float, x: float) -> float:
    """Lentz's method for the upper incomplete gamma function."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    h = d
    for n in range(1, _ITERATIONS):
        step = -n * (n - a)
        b += 2
        d = 1 / ((step * d + b) or _TINY)
        c = (b + step / c) or _TINY
        h *= d * c
        if abs(d * c - 1) < 1e-16:  # noqa: PLR2004 - a double cannot do better
            break
    return h


def expected_counts(mechanism: Mechanism, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Divide the integers into bins of exactly known probability, each with at least 20 expected draws.

    Returns:
        The first integer of every bin but the first, and the expected count of each bin.
    """
    reach = max(1, round(3.5 * mechanism.sd))
    width = max(1, -(-2 * reach // _BINS))
    cuts = np.arange(-reach, reach + 1, width, dtype=np.int64)
    below = np.array([_below(mechanism, int(cut)) for cut in cuts])
    chances = np.diff(np.concatenate([[0.0], below, [1.0]]))
    keep = np.ones(len(chances), dtype=bool)
    while (chances[keep] * size).min() < 20 and keep.sum() > 2:  # noqa: PLR2004 - the usual rule for chi-square
        place = int(np.flatnonzero(keep)[np.argmin(chances[keep])])
        kept = np.flatnonzero(keep)
        at = int(np.searchsorted(kept, place))
        neighbour = kept[at - 1] if at > 0 else kept[at + 1]
        chances[max(place, neighbour)] += chances[min(place, neighbour)]
        keep[min(place, neighbour)] = False
    return cuts[np.flatnonzero(keep)[:-1]], chances[keep] * size


def _below(mechanism: Mechanism, cut: int) -> float:
    """Return P[Z < cut]."""
    if mechanism.bound is not None:
        free = replace(mechanism, bound=None)
        least, most = (_below(free, edge) for edge in (-mechanism.bound, mechanism.bound + 1))
        return min(max((_below(free, cut) - least) / (most - least), 0.0), 1.0)
    if isinstance(mechanism, DiscreteLaplace):
        q = math.exp(-1 / mechanism.scale)
        return q ** (1 - cut) / (1 + q) if cut <= 0 else 1 - q**cut / (1 + q)
    variance = float(mechanism.variance)
    if variance > 1e6:  # noqa: PLR2004 - there the sum of the mass and the integral agree to all digits of a double
        return 0.5 * math.erfc(-(cut - 0.5) / math.sqrt(2 * variance))
    reach = int(12 * math.sqrt(variance)) + 2
    z = np.arange(-reach, reach + 1)
    mass = np.exp(-(z.astype(float) ** 2) / (2 * variance))
    return float(mass[z < cut].sum() / mass.sum())
