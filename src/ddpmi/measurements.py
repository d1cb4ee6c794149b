"""Draw the tables of a release once, in the order that keeps unknown keys private.

Pairs first, behind their threshold; then sums over features, labels and all, over keys that are known by then. With a
grid, features come first. Exact sums take the same way without noise.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ddpmi import aggregates
from ddpmi.contributions import vocabulary
from ddpmi.noise import OUTPUT_LIMIT, add_noise
from ddpmi.receipts import Origin
from ddpmi.tables import MemoryTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ddpmi.calibration import TableNoise
    from ddpmi.contributions import Bounding
    from ddpmi.engines import Engine
    from ddpmi.observations import Observations
    from ddpmi.plan import Plan
    from ddpmi.randomness import Source
    from ddpmi.statements import Step

    Progress = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is to be drawn."""

    bounding: Bounding
    noises: Mapping[str, TableNoise] | None = None
    """Noise of each table; None gives exact sums."""
    labels: tuple[str, ...] | None = None
    """Labels that appear whatever the data."""
    features: tuple[str, ...] | None = None
    """Features that appear whatever the data."""
    grid: bool = False
    other: bool = False
    units: bool = False

    @classmethod
    def of(cls, plan: Plan) -> Reading:
        """Take everything from a plan."""
        return cls(
            bounding=plan.calibration.bounding,
            noises=plan.calibration.tables,
            labels=plan.known_labels,
            features=plan.public_features,
            grid=plan.grid,
            other=plan.marginals == "other",
            units=plan.space == "units",
        )


@contextmanager
def summed(
    obs: Observations,
    steps: Sequence[Step],
    *,
    salt: str,
    lists: Mapping[str, tuple[str, ...]] | None = None,
    progress: Progress | None = None,
) -> Iterator[Engine]:
    """Run the steps, and give the engine that holds the exact sums. Left of the border.

    Args:
        obs: The data.
        steps: From ``rows`` to the sums.
        salt: Keys the hashes.
        lists: Public lists of keys by the name of their column.
        progress: Called with the name of a stage and its fraction done.
    """
    with obs.open() as engine:
        for key, keys in (lists or {}).items():
            engine.put(f"public_{key}s", _keys(key, keys))
        _run(engine, [obs.rows(engine), *steps], salt, progress)
        yield engine


def _run(engine: Engine, steps: Sequence[Step], salt: str, progress: Progress | None) -> None:
    for step in steps:
        engine.run(step, salt=salt, progress=None if progress is None else _stage(progress, step.name))


@contextmanager
def summed_by(
    obs: Observations,
    plan: Plan,
    *,
    salt: str,
    progress: Progress | None = None,
    source: Source | None = None,
    replay: Sequence[Sequence[str]] | None = None,
) -> Iterator[Engine]:
    """Run the steps of a plan; where it selects features, draw each round's vocabulary on the way.

    Args:
        obs: The data.
        plan: What is to be summed.
        salt: Keys the hashes.
        progress: As for `summed`.
        source: Random words of the selection; the process's cryptographic source by default.
        replay: Features that each round released, to be taken instead of drawn. For tests.
    """
    first, *later = plan.phases(obs.source.dialect, merged_keys=obs.merges_keys, counted=obs.counted)
    lists = {"feature": plan.public_features, "label": plan.public_labels}
    given = {key: keys for key, keys in lists.items() if keys is not None}
    with summed(obs, first, salt=salt, lists=given, progress=progress) as engine:
        known: list[str] = []
        for place, (noise, steps) in enumerate(zip(plan.calibration.selection, later, strict=True)):
            # proof: set-union.vocabulary
            known += _selected(engine, place + 1, noise, source) if replay is None else replay[place]
            engine.put(f"released_{place + 1}", _keys("feature", sorted(known, key=str.encode)))
            _run(engine, steps, salt, progress)
        yield engine


def _selected(engine: Engine, number: int, noise: TableNoise, source: Source | None) -> list[str]:
    """Draw the features that one round releases; their noisy sums end here."""
    drawn = noised(engine, f"SELECT feature, sum FROM weights_{number}", ["feature"], noise=noise, source=source)
    return [str(feature) for feature in drawn.column("feature").to_pylist()]


def origin_of(obs: Observations, engine: Engine) -> Origin:
    """Say where sums come from, without a path or the text of an expression."""
    unit = "one counted unit" if obs.counted else str(obs.columns.unit)
    return Origin(
        dataset=obs.dataset,
        unit="an expression" if obs.unit_is_expression else unit,
        engine=obs.source.engine,
        version=engine.version,
        relies_on=tuple(obs.relies_on),
    )


def _stage(progress: Progress, name: str) -> Callable[[float], None]:
    return lambda fraction: progress(f"sum {name}", fraction)


def measure(engine: Engine, reading: Reading, *, source: Source | None = None) -> MemoryTables:
    """Draw every table once.

    Args:
        engine: Holds the exact sums.
        reading: What is to be drawn.
        source: Random words; the process's cryptographic source by default.
    """
    if reading.bounding.rounds:
        reading = replace(reading, features=_vocabulary(engine, reading.bounding))
    draw = _Drawing(engine, reading, source)
    features = draw.selected_features() if reading.grid else None
    if features is not None:
        draw.know("feature", features.column("feature"))
    pairs = draw.pairs(every=features is not None or None not in (reading.labels, reading.features))
    # proof: threshold.known-keys
    if features is None:
        draw.know("feature", _keys("feature", reading.features or pairs.column("feature").unique()).column("feature"))
    draw.know("label", _keys("label", reading.labels or pairs.column("label").unique()).column("label"))
    if reading.other:
        engine.put("kept", pairs.select(["feature", "label"]))
    return MemoryTables(
        pairs=pairs,
        features=features if features is not None else draw.margin("feature", pairs),
        labels=draw.margin("label", pairs),
        total=draw.noisy(aggregates.total("all_units" if reading.units else "joint"), [], "total"),
    )


class _Drawing:
    """One pass of noise over an engine's exact sums."""

    def __init__(self, engine: Engine, reading: Reading, source: Source | None) -> None:
        self.engine, self.reading, self.source = engine, reading, source

    def know(self, key: str, keys: pa.ChunkedArray) -> None:
        """From here on these keys are public."""
        self.engine.put(f"known_{key}s", _keys(key, keys))

    def selected_features(self) -> pa.Table:
        """Features whose noisy sum reaches the threshold."""
        # proof: grid.selection
        origin = aggregates.margin_source("feature", self.reading.bounding, units=self.reading.units)
        return self.noisy(aggregates.all_features(origin), ["feature"], "features").sort_by("feature")

    def pairs(self, *, every: bool) -> pa.Table:
        """Pairs that occur and reach the threshold, or every pair of known keys."""
        if every:
            if self.reading.features is not None:
                self.engine.put("known_features", _keys("feature", self.reading.features))
            self.engine.put("known_labels", _keys("label", self.reading.labels or ()))
        drawn = self.noisy(aggregates.pairs(every=every), ["feature", "label"], "pairs")
        return drawn.sort_by([("feature", "ascending"), ("label", "ascending")])

    def margin(self, key: str, pairs: pa.Table) -> pa.Table:
        """Sums over one key for every known key."""
        if self.reading.other:
            rest = self.noisy(aggregates.remainder(key), [key], f"{key}s")
            return _plus_released(rest, pairs, key)
        origin = aggregates.margin_source(key, self.reading.bounding, units=self.reading.units)
        return self.noisy(aggregates.margin(key, origin), [key], f"{key}s").sort_by(key)

    def noisy(self, sql: str, keys: list[str], table: str) -> pa.Table:
        """Draw one table."""
        noise = None if self.reading.noises is None else self.reading.noises[table]
        return noised(self.engine, sql, keys, noise=noise, source=self.source)


def noised(
    engine: Engine, sql: str, keys: list[str], *, noise: TableNoise | None, source: Source | None = None
) -> pa.Table:
    """Stream exact sums, add noise batch by batch and keep what reaches the threshold: the rest never leaves here.

    Args:
        engine: Holds the exact sums.
        sql: Gives the keys and then the sum.
        keys: Names of the keys.
        noise: What is added; None keeps the sums exact.
        source: Random words; the process's cryptographic source by default.
    """
    import pyarrow as pa

    schema = pa.schema([*((key, pa.string()) for key in keys), ("sum", pa.int64())])
    if source is not None and keys:
        # Chosen noise is for tests: the order makes it fall on the same keys on every engine.
        sql = f"SELECT * FROM ({sql}) AS sums ORDER BY {', '.join(keys)}"
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


def _vocabulary(engine: Engine, bounding: Bounding) -> tuple[str, ...]:
    """Read back the features that a private set union released, which are public."""
    batches = engine.batches(f"SELECT feature FROM {vocabulary(bounding)}")
    return tuple(sorted((str(key) for batch in batches for key in batch.column(0).to_pylist()), key=str.encode))


def _keys(key: str, values: object) -> pa.Table:
    import pyarrow as pa

    column = values if isinstance(values, pa.ChunkedArray | pa.Array) else pa.array(values, pa.string())
    return pa.table({key: column})


def _plus_released(rest: pa.Table, pairs: pa.Table, key: str) -> pa.Table:
    """Add the released pairs of each key to its noisy remainder. Post-processing: nothing is read."""
    # proof: other.remainder
    import pyarrow as pa

    place = {name: number for number, name in enumerate(rest.column(key).to_pylist())}
    sums = rest.column("sum").to_numpy().astype(np.float64)
    codes = pairs.column(key).combine_chunks().dictionary_encode()
    rows = np.array([place[name] for name in codes.dictionary.to_pylist()], dtype=np.int64)
    released = np.bincount(codes.indices.to_numpy(), pairs.column("sum").to_numpy(), minlength=len(rows))
    np.add.at(sums, rows, released)
    whole = np.clip(sums, -float(OUTPUT_LIMIT // 2), float(OUTPUT_LIMIT // 2)).astype(np.int64)
    return rest.set_column(1, "sum", pa.array(whole)).sort_by([(key, "ascending")])
