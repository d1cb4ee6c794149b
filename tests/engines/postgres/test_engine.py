"""Steps inside a PostgreSQL server give the same exact sums as the embedded engine, bit by bit."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ddpmi
from ddpmi import AutoPlan, Budget
from ddpmi.curator.looking import exact_look
from ddpmi.pipeline.seeds import SEED_LABELS
from ddpmi.testing import _salt, seeded_release
from tests.engines.test_contract import CASES, SEED, VOCABULARIES, distinct, fitting, hostile, plan, sums, table

if TYPE_CHECKING:
    from ddpmi import Observations
    from tests.support.postgres_server import Server


def rows() -> list[tuple[Any, ...]]:
    """The hostile rows of the contract that a database can hold: PostgreSQL has no text with a null character."""
    return [row for row in hostile() if not any(isinstance(cell, str) and "\0" in cell for cell in row)]


def both(server: Server, data: pa.Table, **options: Any) -> tuple[Observations, Observations]:
    """The same data in memory and in the server."""
    server.fill("contract", data)
    return ddpmi.observe(data, **options), ddpmi.observe(server.address(), table="contract", **options)


@pytest.mark.parametrize("name", CASES)
def test_exact_sums_are_those_of_the_embedded_engine(postgres: Server, name: str) -> None:
    """For the same salt every sum is equal, with every option and with hostile rows."""
    options = CASES[name]
    data = fitting(options, rows())
    made = plan(**options)
    here, there = both(postgres, table(data), value="minutes" if "clip" in options.get("bounds", {}) else None)
    replay = VOCABULARIES.get(made.selection)
    expected = sums(here, made, replay)
    assert sums(there, made, replay) == expected
    assert expected["joint"]


def test_no_rows_give_no_sums(postgres: Server) -> None:
    """An empty table is data like any other."""
    here, there = both(postgres, table([]))
    found = sums(there, plan())
    assert found == sums(here, plan())
    assert found["joint"] == []


def test_typed_keys_have_the_same_text(postgres: Server) -> None:
    """Whole numbers, booleans and days become the same keys, and the hashes over them the same choice."""
    days = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 2, 28), dt.date(9999, 12, 31), None]
    data = pa.table(
        {
            "unit": pa.array([n % 7 - 3 for n in range(200)], pa.int64()),
            "feature": pa.array([days[n % 5] for n in range(200)], pa.date32()),
            "label": pa.array([n % 3 == 0 for n in range(200)], pa.bool_()),
            "on": pa.array([n % 4 == 0 for n in range(200)], pa.bool_()),
        }
    )
    here, there = both(postgres, data, value="on")
    made = plan(bounds={"labels": 1, "cap": 3, "clip": 2})
    found = sums(there, made)
    assert found == sums(here, made)
    assert {row[1] for row in found["joint"]} <= {"true", "false"}


def test_labels_by_a_seed_are_the_same(postgres: Server) -> None:
    """Units that show the seed are the same ones."""
    made = plan(public_labels=SEED_LABELS)
    here, there = (
        sums(obs.label_by(feature=["common", "back\\slash", "it's"], at_least=2), made)
        for obs in both(postgres, table(rows()))
    )
    assert there == here
    assert {row[1] for row in here["joint"]} == set(SEED_LABELS)


def test_counts_are_summed_alike_and_never_overflow(postgres: Server) -> None:
    """Counts near the largest integer are clamped, added in wide integers and clamped again."""
    counts = [2**63 - 1, 2**62, 7, 0, None, 3]
    data = pa.table(
        {"feature": [f"f{n % 2}" for n in range(6)], "label": ["x"] * 6, "count": pa.array(counts, pa.int64())}
    )
    postgres.fill("counts", data)
    made = plan(bounds={"pairs": 1}, distinct="units")
    there = sums(ddpmi.observe_counts(postgres.address(), table="counts"), made)
    assert there == sums(ddpmi.observe_counts(data), made)
    assert max(row[2] for row in there["joint"]) == 2**61


@pytest.mark.parametrize(
    "options",
    [
        {"grid": True, "budget": Budget(100, 1e-2)},
        {"complete": True, "budget": Budget(100, 1e-2)},
        {"marginals": "other", "bounds": {"labels": 2}, "budget": Budget(20, 1e-3)},
        {"selection": "sips", "public_labels": ["l0", "l1"], "budget": Budget(20, 1e-3)},
        {"thresholds": "every", "mechanism": "laplace", "bounds": {"pairs": 1}, "budget": Budget(100, 1e-2)},
    ],
    ids=["grid", "complete", "other", "sips", "every"],
)
def test_the_same_noise_gives_the_same_release(postgres: Server, options: dict[str, Any]) -> None:
    """Tables and receipt do not tell which engine made them, but where they say so."""
    made = plan(**options)
    here, there = (seeded_release(obs, made, seed=SEED) for obs in both(postgres, table(rows())))
    for name in ("pairs", "features", "labels"):
        assert getattr(there, name).to_pylist() == getattr(here, name).to_pylist(), name
    assert there.total == here.total
    own = ("created", "engine", "versions", "relies_on")
    assert {k: v for k, v in there.receipt.items() if k not in own} == {
        k: v for k, v in here.receipt.items() if k not in own
    }
    assert here.features.num_rows > 0


def test_streamed_columns_give_the_same_sums(postgres: Server) -> None:
    """Where rows leave the server, the embedded engine computes the same sums."""
    made = plan(bounds={"clip": 5, "step": 0.5, "labels": 2}, mechanism="gaussian")
    here, there = both(postgres, table(rows()), value="minutes")
    streamed = ddpmi.observe(postgres.address(), table="contract", value="minutes", conf={"stream": "yes"})
    assert (streamed.source.engine, there.source.engine) == ("duckdb", "postgres")
    assert sums(streamed, made) == sums(there, made) == sums(here, made)


def test_the_salt_is_in_no_statement(postgres: Server) -> None:
    """The server's log shows every statement and parameter of a session, and none contains the salt."""
    _, there = both(postgres, table(rows()))
    sums(there, plan(bounds={"cap": 3}))
    assert "ddpmi_" in postgres.log
    assert _salt(SEED) not in postgres.log


def test_a_release_leaves_nothing_in_the_server(postgres: Server, ledger: ddpmi.Ledger) -> None:
    """Temporary tables are gone, no session is left, and the receipt names the engine and not the address."""
    _, there = both(postgres, table(rows()))
    released = ddpmi.release(there, plan(budget=Budget(1, 1e-5)), ledger=ledger)
    assert released.receipt["engine"] == "postgres"
    assert postgres.password not in repr(there) + str(released.receipt) + repr(there.source)
    left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'ddpmi%'"
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ddpmi'"
    assert (postgres.run(left), postgres.run(sessions)) == ([(0,)], [(0,)])


def test_a_private_look_counts_the_same(postgres: Server) -> None:
    """The histograms that choose the bounds are equal before noise, also where a unique index keeps rows distinct."""
    for data in (rows(), distinct([row for row in rows() if None not in row[:3]])):
        here, there = both(postgres, table(data))
        looks = [
            exact_look(obs, AutoPlan.of(epsilon=1, delta=1e-6), salt=_salt(SEED), labels=2) for obs in (here, there)
        ]
        assert looks[0] == looks[1]
    postgres.run("ALTER TABLE contract ADD PRIMARY KEY (unit, feature, label)")
    keyed = ddpmi.observe(postgres.address(), table="contract")
    assert keyed.enforced
    assert exact_look(keyed, AutoPlan.of(epsilon=1, delta=1e-6), salt=_salt(SEED), labels=2) == looks[0]


def test_a_release_after_a_look_works(postgres: Server, ledger: ddpmi.Ledger) -> None:
    """A look chooses the bounds, and the release that follows goes on in the same session."""
    units, pairs = range(600), range(2)
    data = pa.table(
        {
            "unit": [f"u{n}" for n in units for _ in pairs],
            "feature": [f"f{m}" for _ in units for m in pairs],
            "label": [f"l{n % 2}" for n in units for _ in pairs],
        }
    )
    postgres.fill("looked", data)
    postgres.run("ALTER TABLE looked ADD PRIMARY KEY (unit, feature, label)")
    obs = ddpmi.observe(postgres.address(), table="looked")
    released = ddpmi.release(obs, AutoPlan.of(epsilon=4, delta=1e-4), ledger=ledger)
    assert (released.receipt["engine"], released.pairs.num_rows) == ("postgres", 4)
