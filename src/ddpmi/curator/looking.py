"""The private look: two noisy histograms over rows, from which the bounds of a release are chosen.

The look reads what its charge in the ledger pays for. What it computed is kept in the engine, so that the release that
follows it need not read the source again.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ddpmi.curator.drawing import Done, summed
from ddpmi.engines.noising import in_key_order
from ddpmi.pipeline import contributions, looks
from ddpmi.planning.auto import Histogram, Look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpmi._typing import Progress
    from ddpmi.curator.observations import Observations
    from ddpmi.engines import Engine
    from ddpmi.pipeline.contributions import Bounding
    from ddpmi.planning.auto import AutoPlan
    from ddpmi.privacy.randomness import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look found, and what it leaves for the release."""

    look: Look
    """The noisy histograms, which are released."""
    done: Done
    """The engine with the steps that it has run. These are not private."""


@contextmanager
def looked(
    obs: Observations, auto: AutoPlan, *, salt: str, progress: Progress | None = None, source: Source | None = None
) -> Iterator[Looked]:
    """Draw the histograms of a look, and yield them with the engine.

    Args:
        obs: The data.
        auto: What is declared, and what the look costs.
        salt: The key of the hashes, also of the release that follows.
        progress: Called with the name of a stage and its fraction done.
        source: Random words, for tests; the process's cryptographic source by default.
    """
    bounding = bounding_of(obs, auto)
    steps = [*contributions.counted_steps(bounding, obs.source.dialect), looks.counted_units()]
    lists = {"feature": auto.options.get("public_features"), "label": auto.options.get("public_labels")}
    given = {key: keys for key, keys in lists.items() if keys is not None}
    with summed(obs, steps, salt=salt, lists=given, progress=progress) as engine:
        _put_buckets(engine)
        labels = None
        if auto.labels is None:
            engine.run(looks.label_step(), salt=salt)
            labels = _drawn(engine, "label_look", auto, source)
        cap = auto.labels or (1 if labels is None else auto.label_cap(labels))
        # proof: look.label-cap
        engine.run(looks.pair_step(cap, engine.dialect), salt=salt)
        found = Look(labels=labels, pairs=_drawn(engine, "pair_look", auto, source))
        yield Looked(look=found, done=Done(engine=engine, steps=(obs.rows(engine), *steps), salt=salt))


def bounding_of(obs: Observations, auto: AutoPlan) -> Bounding:
    """Return what the SQL of a look needs to know: everything of the plans that may follow, but for their bounds."""
    bounding = auto.example(auto.possible[0]).calibration.bounding
    merged = obs.merges_keys and bounding.distinct is True
    if obs.enforced and not bounding.distinct:
        # The release that follows has the same steps.
        # proof: bounding.enforced
        return replace(bounding, distinct=True)
    return replace(bounding, distinct=False) if merged else bounding


def exact_look(obs: Observations, auto: AutoPlan, *, salt: str, labels: int) -> dict[str, dict[str, int]]:
    """Return the exact histograms, which are not private: for tests of their sensitivity.

    Args:
        obs: The data.
        auto: What is declared.
        salt: The key of the hashes.
        labels: How many labels of a unit are kept, in place of what a noisy histogram would choose.
    """
    steps = [*contributions.counted_steps(bounding_of(obs, auto), obs.source.dialect), looks.counted_units()]
    lists = {"feature": auto.options.get("public_features"), "label": auto.options.get("public_labels")}
    with summed(obs, steps, salt=salt, lists={key: keys for key, keys in lists.items() if keys}) as engine:
        _put_buckets(engine)
        engine.run(looks.label_step(), salt=salt)
        engine.run(looks.pair_step(labels, engine.dialect), salt=salt)
        return {name: _read(engine, name) for name in ("label_look", "pair_look")}


def _put_buckets(engine: Engine) -> None:
    import pyarrow as pa

    engine.put(looks.BUCKET_TABLE, pa.table({"bucket": pa.array(looks.BUCKETS, pa.string())}))


def _drawn(engine: Engine, name: str, auto: AutoPlan, source: Source | None) -> Histogram:
    """Draw one histogram once. Every bucket gets noise, also the empty ones, and none is suppressed."""
    # proof: look.histogram
    noise = auto.look_noise
    engine.draw(f"drawn_{name}", f"SELECT bucket, sum FROM {name}", ["bucket"], noise, source)
    counts = _read(engine, f"drawn_{name}")
    return Histogram(counts=tuple(counts[bucket] for bucket in looks.BUCKETS), scale=noise.mechanism.width)


def _read(engine: Engine, name: str) -> dict[str, int]:
    batches = engine.batches(in_key_order(f"SELECT bucket, sum FROM {name}", ["bucket"]))
    return {row["bucket"]: int(row["sum"]) for batch in batches for row in batch.to_pylist()}
