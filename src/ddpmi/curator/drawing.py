"""Drawing: each table of a release is drawn once, in the order that keeps unknown keys private.

Pairs are drawn first, with their threshold. Then come the sums of features, of labels and of everything, over the keys
released so far. With a grid, features and labels are drawn before pairs. Exact sums take the same steps without noise.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpmi._typing import KEYS
from ddpmi.pipeline import aggregates
from ddpmi.pipeline.contributions import vocabulary
from ddpmi.pipeline.steps import Step
from ddpmi.releases.receipts import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ddpmi._typing import Progress, TableName
    from ddpmi.curator.observations import Observations
    from ddpmi.engines import Engine
    from ddpmi.pipeline.contributions import Bounding
    from ddpmi.planning.plan import Plan
    from ddpmi.privacy.noise import TableNoise
    from ddpmi.privacy.randomness import Source
    from ddpmi.releases.tables import Tables


MOST_COMPLETED = 20_000_000
"""A release with more pairs of known features and labels than this is not completed: one machine could not rank them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which tables are drawn from exact sums, and how."""

    bounding: Bounding
    """How contributions were bounded."""
    noises: Mapping[str, TableNoise] | None = None
    """Noise of each table; None gives exact sums."""
    labels: tuple[str, ...] | None = None
    """Labels released even if no row has them."""
    features: tuple[str, ...] | None = None
    """Features released even if no row has them."""
    grid: bool = False
    """Whether features and labels are selected by their own sums, before pairs are drawn."""
    other: bool = False
    """Whether sums of features and labels are released pairs plus the measured remainder."""
    units: bool = False
    """Whether each unit adds its weight once to each of its features, labels and the total."""
    every: bool = False
    """Whether features and labels have thresholds too; pairs of suppressed ones are then dropped."""
    complete: bool = False
    """Whether all other pairs of the known features and labels are released too."""

    @property
    def lists(self) -> dict[str, tuple[str, ...] | None]:
        """The keys released even if no row has them, by column."""
        return {"feature": self.features, "label": self.labels}

    @classmethod
    def of(cls, plan: Plan) -> Reading:
        """Read all fields from a plan."""
        return cls(
            bounding=plan.calibration.bounding,
            noises=plan.calibration.tables,
            labels=plan.known_labels,
            features=plan.public_features,
            grid=plan.grid,
            other=plan.marginals == "other",
            units=plan.space == "units",
            every=plan.thresholds == "every",
            complete=plan.complete,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An engine in which the first steps of a release were run before, on the same data."""

    engine: Engine
    steps: tuple[Step, ...]
    """The steps, in order."""
    salt: str
    """The key of their hashes."""

    def rest(self, steps: Sequence[Step]) -> list[Step]:
        """Return the steps that are still to be run: all from the first one that differs."""
        # proof: look.salt
        same = 0
        while same < min(len(steps), len(self.steps)) and steps[same] == self.steps[same]:
            same += 1
        return list(steps[same:])


@contextmanager
def summed(
    obs: Observations,
    steps: Sequence[Step],
    *,
    salt: str,
    lists: Mapping[str, tuple[str, ...]] | None = None,
    progress: Progress | None = None,
    done: Done | None = None,
) -> Iterator[Engine]:
    """Run the steps, and yield the engine that holds the exact sums. These are not private.

    Args:
        obs: The data.
        steps: From ``rows`` to the sums.
        salt: The key of the hashes.
        lists: Public lists of keys by the name of their column.
        progress: Called with the name of a stage and its fraction done.
        done: An engine in which the first steps were run before; it stays open.
    """
    if done is not None:
        _run(done.engine, done.rest([obs.rows(done.engine), *steps]), done.salt, progress)
        yield done.engine
        return
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
    done: Done | None = None,
) -> Iterator[Engine]:
    """Run the steps of a plan. If it selects features, draw the vocabulary of each round in between.

    Args:
        obs: The data.
        plan: What is to be summed.
        salt: The key of the hashes.
        progress: As for `summed`.
        source: Random words of the selection; the process's cryptographic source by default.
        replay: For tests: features of each round, used instead of drawn ones.
        done: As for `summed`.
    """
    first, *later = plan.phases(
        obs.source.dialect, merged_keys=obs.merges_keys, counted=obs.counted, enforced=obs.enforced
    )
    lists = {"feature": plan.public_features, "label": plan.public_labels}
    given = {key: keys for key, keys in lists.items() if keys is not None}
    with summed(obs, first, salt=salt, lists=given, progress=progress, done=done) as engine:
        for place, (noise, steps) in enumerate(zip(plan.calibration.selection, later, strict=True)):
            number = place + 1
            # proof: set-union.vocabulary
            if replay is None:
                weights = f"SELECT feature, sum FROM weights_{number}"
                engine.draw(f"selected_{number}", weights, ["feature"], noise, source)
            else:
                engine.put(f"selected_{number}", _keys("feature", replay[place]))
            earlier = f"SELECT feature FROM released_{place} UNION ALL " if place else ""
            known = f"{earlier}SELECT feature FROM selected_{number}"
            released = Step(name=f"released_{number}", shape="(feature), public", sql=known, freeze=True)
            _run(engine, [released, *steps], salt, progress)
        yield engine


def origin_of(obs: Observations, engine: Engine) -> Origin:
    """Return where sums come from, without a path or the text of an expression."""
    unit = "one counted unit" if obs.counted else str(obs.columns.unit)
    return Origin(
        dataset=obs.dataset,
        unit="an expression" if obs.unit_is_expression else unit,
        engine=obs.source.engine,
        version=engine.version,
        relies_on=tuple(obs.relies_on),
        filtered=obs.where is not None or (obs.within is not None and obs.within.where is not None),
        columns=obs.column_names,
    )


def _stage(progress: Progress, name: str) -> Callable[[float], None]:
    return lambda fraction: progress(f"sum {name}", fraction)


def measure(engine: Engine, reading: Reading, *, source: Source | None = None) -> Tables:
    """Draw every table once.

    Args:
        engine: Holds the exact sums.
        reading: What is to be drawn.
        source: Random words; the process's cryptographic source by default.
    """
    draw = _Drawing(engine, reading, source)
    known = {key: draw.find_known(key, listed) for key, listed in reading.lists.items()}
    seen = "seen_pairs" if reading.every or reading.complete else "drawn_pairs"
    draw.table("pairs", aggregates.pairs(every=all(known.values())), name=seen)
    # proof: threshold.known-keys
    for key, is_known in known.items():
        if not is_known:
            draw.make_known(key, f"SELECT DISTINCT {key} FROM {seen}")
    if reading.complete and draw.fits():
        draw.complete_pairs(seen)
    elif reading.complete:
        engine.run(
            Step(name="drawn_pairs", shape="(feature, label, sum)", sql=f"SELECT feature, label, sum FROM {seen}")
        )
    if reading.other:
        engine.run(Step(name="kept", shape="(feature, label)", sql="SELECT feature, label FROM drawn_pairs"))
    for key in known:
        if key not in draw.selected:
            draw.margin(key)
    source_of_total = aggregates.total_source(reading.bounding, units=reading.units)
    draw.table("total", aggregates.total(source_of_total, engine.dialect))
    if reading.every:
        # proof: threshold.every
        released = aggregates.of_released_keys(seen)
        engine.run(Step(name="drawn_pairs", shape="(feature, label, sum)", sql=released))
    return engine.released()


class _Drawing:
    """One pass of noise over an engine's exact sums."""

    def __init__(self, engine: Engine, reading: Reading, source: Source | None) -> None:
        self.engine, self.reading, self.source = engine, reading, source
        self.selected: list[str] = []
        """Keys that were selected by their own sums, which are therefore drawn already."""

    def find_known(self, key: str, listed: Sequence[str] | None) -> bool:
        """Keep the features or labels if they are public before pairs are drawn; return whether they are."""
        bounding = self.reading.bounding
        if key == "feature" and bounding.rounds:
            self.make_known(key, f"SELECT feature FROM {vocabulary(bounding)}")
        elif listed is not None:
            self.engine.put(f"known_{key}s", _keys(key, listed))
        elif self.reading.grid:
            # proof: grid.selection, grid.labels
            self.table(_margin(key), aggregates.every_key(key, self._origin(key), self.engine.dialect))
            self.make_known(key, f"SELECT {key} FROM drawn_{key}s")
            self.selected.append(key)
        else:
            return False
        return True

    def make_known(self, key: str, sql: str) -> None:
        """Keep keys that are public from here on."""
        self.engine.run(Step(name=f"known_{key}s", shape=f"({key})", sql=sql, freeze=True))

    def fits(self) -> bool:
        """Return whether the pairs of all known keys are few enough to be released. Their number is public by now."""
        # proof: completion.fits
        count = 1
        for table in ("known_features", "known_labels"):
            batches = self.engine.batches(f"SELECT COUNT(*) AS keys FROM {table}")
            count *= sum(int(number) for batch in batches for number in batch.column(0).to_pylist())
        return count <= MOST_COMPLETED

    def complete_pairs(self, seen: str) -> None:
        """Draw all other pairs of known features and labels, and add them to the pairs drawn before."""
        # proof: completion.redraw
        self.table("pairs", aggregates.unseen_pairs(seen), name="rest_of_pairs", rest=True)
        parts = (f"SELECT feature, label, sum FROM {part}" for part in (seen, "rest_of_pairs"))
        self.engine.run(Step(name="drawn_pairs", shape="(feature, label, sum)", sql=" UNION ALL ".join(parts)))

    def margin(self, key: str) -> None:
        """Draw the sum of every known feature, or of every known label."""
        dialect = self.engine.dialect
        table = _margin(key)
        if not self.reading.other:
            self.table(table, aggregates.margin(key, self._origin(key), dialect))
            return
        self.table(table, aggregates.remainder(key, dialect), name=f"rest_{table}")
        whole = Step(name=f"drawn_{table}", shape=f"({key}, sum)", sql=aggregates.plus_released(key, dialect))
        self.engine.run(whole)

    def _origin(self, key: str) -> str:
        return aggregates.margin_source(key, self.reading.bounding, units=self.reading.units)

    def table(self, table: TableName, sql: str, name: str | None = None, *, rest: bool = False) -> None:
        """Draw one table; with ``rest``, the part of it that was not drawn before."""
        noise = None if self.reading.noises is None else self.reading.noises[table]
        if rest and noise is not None:
            noise = noise.without_threshold
        self.engine.draw(name or f"drawn_{table}", sql, list(KEYS[table]), noise, self.source)


def _margin(key: str) -> TableName:
    return "features" if key == "feature" else "labels"


def _keys(key: str, values: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    return pa.table({key: pa.array(values, pa.string())})
