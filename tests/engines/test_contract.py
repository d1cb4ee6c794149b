"""What every engine must agree on: exact sums bit by bit, and with chosen noise the same release and ranking."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ddpmi
from ddpmi import Bounds, Budget, InputError, Observations, Plan
from ddpmi.curator.drawing import summed_by
from ddpmi.pipeline.seeds import SEED_LABELS
from ddpmi.testing import _salt, seeded_release
from tests.support import reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEED = 5
ODD = [
    "",
    " ",
    "a,b",
    'q"q',
    "it's",
    "back\\slash",
    "`tick`",
    "ß",
    "ﬁ",
    "\u202e",
    "🤦🏼‍♂️",
    "<b>",
    "${x}",
    "a:1",
    "\x00",
    "Å",
    "Å",
]
VALUES = [
    None,
    float("nan"),
    float("inf"),
    float("-inf"),
    -1.0,
    -0.0,
    0.0,
    0.25,
    0.5,
    2.5,
    1e308,
    5e-324,
    3.0,
    1.0,
    7.5,
]


def hostile(rows: int = 500, seed: int = 1) -> list[tuple[Any, ...]]:
    """Rows with NULLs, odd texts, duplicates, values of all kinds, one unit with most labels and one with most pairs."""
    chance = random.Random(seed)

    def key(role: str, count: int) -> str | None:
        return chance.choice([None, *ODD, *(f"{role}{n}" for n in range(count))])

    made = [(key("u", 30), key("f", 20), key("l", 4), chance.choice(VALUES)) for _ in range(rows)]
    made += [("crowded", f"f{n}", f"l{n % 3}", 2.0) for n in range(40)]
    return made + [(f"u{n}", "common", "l0", 1.0) for n in range(30)]


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(4)]
    types = [pa.string(), pa.string(), pa.string(), pa.float64()]
    names = ("unit", "feature", "label", "minutes")
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


def both(spark: SparkSession, data: pa.Table, *, value: str | None = None) -> tuple[Observations, Observations]:
    """The same data on DuckDB and on Spark, there in several partitions."""
    return ddpmi.observe(data, value=value), ddpmi.observe(spark.createDataFrame(data).repartition(3), value=value)


def plan(**options: Any) -> Plan:
    bounds = Bounds(**{"pairs": 3} | options.pop("bounds", {}))
    return Plan(budget=options.pop("budget", Budget(2, 1e-4)), bounds=bounds, row_local=True, **options)


def sums(obs: Observations, made: Plan, replay: list[list[str]] | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """Every exact sum that a plan adds noise to."""
    rounds = [f"weights_{n}" for n in range(1, len(made.calibration.selection) + 1)]
    units = made.space == "units" and made.distinct != "units"
    names = ["joint", *rounds, *(["label_units", "all_units"] if units else [])]
    if units and made.bounds.labels > 1:
        names.append("feature_units")
    with summed_by(obs, made, salt=_salt(SEED), replay=replay) as engine:
        found = {
            n: [tuple(r.values()) for b in engine.batches(f"SELECT * FROM {n}") for r in b.to_pylist()] for n in names
        }
    return {n: sorted(rows, key=lambda row: [str(k).encode() for k in row]) for n, rows in found.items()}


def distinct(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list({row[:3]: row for row in rows}.values())


def fitting(options: dict[str, Any], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows for which the declarations of a case are true."""
    if options.get("distinct") == "units":
        return list({row[0]: row for row in rows}.values())
    return distinct(rows) if options.get("distinct") else rows


CASES: dict[str, dict[str, Any]] = {
    "laplace": {"mechanism": "laplace"},
    "gaussian": {"mechanism": "gaussian", "bounds": {"cap": 12}},
    "sample": {"bounds": {"strategy": "sample", "labels": 2}},
    "labels and cap": {"bounds": {"labels": 3, "cap": 4}},
    "values": {"bounds": {"clip": 5, "step": 0.5, "labels": 2}, "mechanism": "gaussian"},
    "large values": {"bounds": {"clip": 2**20, "step": 1, "cap": 8}, "mechanism": "laplace"},
    "distinct": {"distinct": True, "bounds": {"labels": 2}},
    "distinct values": {"distinct": True, "bounds": {"clip": 5, "step": 0.5}},
    "one row each": {"distinct": "units", "bounds": {"pairs": 1}},
    "public labels": {"public_labels": ["l0", "it's", "nowhere"]},
    "public lists": {"public_labels": ["l0", ""], "public_features": ["common", "back\\slash"]},
    "labels only": {"labels_only": ["l1", "back\\slash", "${x}", "it's"]},
    "several labels": {"bounds": {"labels": 2}, "mechanism": "gaussian"},
    "events": {"space": "events", "bounds": {"labels": 2}},
    "sampled": {"sample_rate": 0.5},
    "set union": {"selection": "set_union", "bounds": {"cap": 5}},
    "sips": {"selection": "sips", "bounds": {"cap": 5, "labels": 2}, "public_labels": ["l0", "l1"]},
}

# What each round releases, as if drawn.
VOCABULARIES = {"set_union": [["common", "f1", "ß"]], "sips": [["common"], ["f0", "it's"], ["f1", "back\\slash"]]}


@pytest.mark.parametrize("name", CASES)
def test_exact_sums_are_those_of_the_embedded_engine(spark: SparkSession, name: str) -> None:
    """For the same salt every sum is equal, with every option and with hostile rows."""
    options = CASES[name]
    rows = fitting(options, hostile())
    made = plan(**options)
    here, there = both(spark, table(rows), value="minutes" if "clip" in options.get("bounds", {}) else None)
    replay = VOCABULARIES.get(made.selection)
    expected = sums(here, made, replay)
    assert sums(there, made, replay) == expected
    assert expected["joint"]
    if not made.selection and made.public_labels is None and made.labels_only is None:
        plainly = reference.joint(rows, made.calibration.bounding, _salt(SEED))
        assert {row[:2]: row[2] for row in expected["joint"]} == plainly
    if "label_units" in expected and not made.selection and made.public_labels is None:
        _, labels, total = reference.population(rows, made.calibration.bounding, _salt(SEED))
        assert (dict(expected["label_units"]), expected["all_units"]) == (labels, [(total,)])


def test_no_rows_give_no_sums(spark: SparkSession) -> None:
    """An empty table is data like any other."""
    here, there = both(spark, table([]))
    assert sums(there, plan()) == sums(here, plan()) == {"joint": [], "label_units": [], "all_units": [(None,)]}


def test_typed_keys_have_the_same_text(spark: SparkSession) -> None:
    """Whole numbers, booleans and dates become the same keys, and the hashes over them the same choice."""
    import datetime as dt

    days = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 2, 28), dt.date(9999, 12, 31), None]
    data = pa.table(
        {
            "unit": pa.array([n % 7 - 3 for n in range(200)], pa.int64()),
            "feature": pa.array([days[n % 5] for n in range(200)], pa.date32()),
            "label": pa.array([n % 3 == 0 for n in range(200)], pa.bool_()),
        }
    )
    here, there = both(spark, data)
    made = plan(bounds={"labels": 1, "cap": 3})
    found = sums(there, made)
    assert found == sums(here, made)
    assert {row[1] for row in found["joint"]} <= {"true", "false"}


def test_labels_by_a_seed_are_the_same(spark: SparkSession) -> None:
    """Units that show the seed are the same ones."""
    made = plan(public_labels=SEED_LABELS)
    here, there = (
        sums(obs.label_by(feature=["common", "back\\slash", "it's"], at_least=2), made)
        for obs in both(spark, table(hostile()))
    )
    assert there == here
    assert {row[1] for row in here["joint"]} == set(SEED_LABELS)


def test_rows_without_a_feature_label_their_unit_the_same(spark: SparkSession) -> None:
    """Where another column shows the seed, a row without a feature shows it too, on every engine."""
    made = plan(public_labels=SEED_LABELS)
    rows = [("a", "f", None, 1.0), ("a", None, "s", 1.0), ("b", "f", "t", 1.0), (None, "f", "s", 1.0)]
    for data, shown in ((rows, {("f", "seed"), ("f", "rest")}), (rows + hostile(), None)):
        obs = both(spark, table(data))
        here, there = (sums(one.label_by(feature=["s", "back\\slash"], column="label"), made) for one in obs)
        assert here == there
        assert shown is None or {row[:2] for row in here["joint"]} == shown


def test_seeds_of_a_second_table_are_looked_up_the_same(spark: SparkSession) -> None:
    """Units of a second table label the rows alike on every engine, also where ids have different types."""
    made = plan(public_labels=SEED_LABELS)
    rows, second = both(spark, table(hostile())), both(spark, table([*hostile(), ("7", "s", "x", 1.0)]))
    here, there = (
        sums(obs.label_by(feature=["common", "back\\slash"], within=within), made)
        for obs, within in zip(rows, second, strict=True)
    )
    assert there == here
    assert {row[1] for row in here["joint"]} == set(SEED_LABELS)
    numbered = pa.table({"unit": pa.array([7, 8]), "feature": ["f", "f"], "label": ["x", "x"]})
    for obs, within in zip(both(spark, numbered), second, strict=True):
        labelled = obs.label_by(feature="s", within=within)
        assert {row[:2] for row in sums(labelled, made)["joint"]} == {("f", "seed"), ("f", "rest")}
    with pytest.raises(InputError, match="engine"):
        rows[0].label_by(feature="s", within=second[1])
    with pytest.raises(InputError, match="engine"):
        rows[1].label_by(feature="s", within=second[0])


def test_counts_are_summed_alike_and_never_overflow(spark: SparkSession) -> None:
    """Counts near the largest integer are clamped, added in wide integers and clamped again."""
    counts = [2**63 - 1, 2**62, 7, 0, None, 3]
    data = pa.table(
        {"feature": [f"f{n % 2}" for n in range(6)], "label": ["x"] * 6, "count": pa.array(counts, pa.int64())}
    )
    made = plan(bounds={"pairs": 1}, distinct="units", space="units")
    here, there = (sums(ddpmi.observe_counts(d), made) for d in (data, spark.createDataFrame(data)))
    assert there == here
    assert max(row[2] for row in here["joint"]) == 2**61


@pytest.mark.parametrize(
    "options",
    [
        {"budget": Budget(20, 1e-3)},
        {"grid": True, "public_labels": ["l0", "l1", "zz"], "budget": Budget(20, 1e-3)},
        {"grid": True, "budget": Budget(100, 1e-2)},
        {"complete": True, "budget": Budget(20, 1e-3)},
        {"marginals": "other", "bounds": {"labels": 2}, "budget": Budget(20, 1e-3)},
        {"selection": "sips", "public_labels": ["l0", "l1"], "budget": Budget(20, 1e-3)},
        {"space": "events", "budget": Budget(20, 1e-3)},
        # Two features pass, and of their pairs one, because the other's label does not.
        {"thresholds": "every", "mechanism": "laplace", "bounds": {"pairs": 1}, "budget": Budget(100, 1e-2)},
    ],
    ids=["plain", "grid", "found", "complete", "other", "sips", "events", "every"],
)
def test_the_same_noise_gives_the_same_release(spark: SparkSession, options: dict[str, Any]) -> None:
    """Tables, receipt and ranking do not tell which engine made them, but where they say so."""
    made = plan(**options)
    here, there = (seeded_release(obs, made, seed=SEED) for obs in both(spark, table(hostile())))
    for name in ("pairs", "features", "labels"):
        assert getattr(there, name).to_pylist() == getattr(here, name).to_pylist(), name
    assert there.total == here.total
    # Arrow tables are handed over in memory, which the owner vouches for; a frame of Spark is a query.
    own = ("created", "engine", "versions", "relies_on")
    assert {k: v for k, v in there.receipt.items() if k not in own} == {
        k: v for k, v in here.receipt.items() if k not in own
    }
    assert ddpmi.rank(there).table.equals(ddpmi.rank(here).table)
    assert here.features.num_rows > 0
