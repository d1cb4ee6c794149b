"""What the command line refuses: a message, a hint, an exit code, and never a row or a traceback."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli_fixtures import BUDGET, CANARY, PAIRS, Place, refused_clearly

PLAIN = ("visits.csv", *BUDGET, *PAIRS)
REFUSED = {
    "missing file": ("nowhere.csv", *BUDGET, *PAIRS),
    "empty file": ("empty.csv", *BUDGET, *PAIRS),
    "unknown ending": ("data.xlsx", *BUDGET, *PAIRS),
    "missing column": (*PLAIN, "--unit", "who"),
    "column not recognised": ("other.csv", *BUDGET, *PAIRS),
    "same column twice": (*PLAIN, "--feature", "label"),
    "text as value": ("keys.parquet", *BUDGET, *PAIRS, "--unit", "n", "--value", "text", "--clip", "1"),
    "float keys": ("keys.parquet", *BUDGET, *PAIRS),
    "list keys": ("keys.parquet", *BUDGET, *PAIRS, "--unit", "n", "--feature", "list"),
    "epsilon 0": ("visits.csv", "--epsilon", "0", "--delta", "1e-6", *PAIRS),
    "epsilon nan": ("visits.csv", "--epsilon", "nan", "--delta", "1e-6", *PAIRS),
    "epsilon -1": ("visits.csv", "--epsilon", "-1", "--delta", "1e-6", *PAIRS),
    "epsilon subnormal": ("visits.csv", "--epsilon", "1e-320", "--delta", "1e-6", *PAIRS),
    "epsilon inf": ("visits.csv", "--epsilon", "inf", "--delta", "1e-6", *PAIRS),
    "epsilon text": ("visits.csv", "--epsilon", "one", "--delta", "1e-6", *PAIRS),
    "delta 0": ("visits.csv", "--epsilon", "1", "--delta", "0", *PAIRS),
    "delta 1": ("visits.csv", "--epsilon", "1", "--delta", "1", *PAIRS),
    "delta nan": ("visits.csv", "--epsilon", "1", "--delta", "nan", *PAIRS),
    "pairs 0": ("visits.csv", *BUDGET, "--pairs", "0"),
    "pairs text": ("visits.csv", *BUDGET, "--pairs", "two"),
    "pairs with one row per unit": (*PLAIN, "--distinct=units"),
    "cap below pairs": (*PLAIN, "--cap", "1"),
    "unknown strategy": (*PLAIN, "--strategy", "magic"),
    "unknown mechanism": (*PLAIN, "--mechanism", "magic"),
    "unknown distinct": (*PLAIN, "--distinct=rows"),
    "value without clip": (*PLAIN, "--value", "value"),
    "clip without value": (*PLAIN, "--clip", "5"),
    "step without clip": (*PLAIN, "--step", "5"),
    "clip off the grid": (*PLAIN, "--value", "value", "--clip", "1", "--step", "0.3"),
    "shares that lack a table": (*PLAIN, "--shares", "pairs=1"),
    "shares that do not sum to 1": (*PLAIN, "--shares", "pairs=0.7,features=0.2,labels=0.06,total=0.01"),
    "shares without numbers": (*PLAIN, "--shares", "pairs,features"),
    "the paper's way with other noise": (*PLAIN, "--paper", "--mechanism", "gaussian"),
    "the paper's way with other shares": (
        *PLAIN,
        "--paper",
        "--shares",
        "pairs=0.7,features=0.2,labels=0.06,total=0.04",
    ),
    "the paper's way without sampling": (*PLAIN, "--paper", "--strategy", "scale"),
    "the paper's way with a cap": (*PLAIN, "--paper", "--cap", "9"),
    "the paper's way completed": (*PLAIN, "--paper", "--complete"),
    "hints without units": (*PLAIN, "--suggest", "labels=3"),
    "hints without numbers": (*PLAIN, "--suggest", "units=many"),
    "unknown hints": (*PLAIN, "--suggest", "units=100,zipf=1"),
    "hints named twice": (*PLAIN, "--suggest", "units=100,units=200"),
    "hints of too many units for delta": (*PLAIN, "--suggest", "units=1e12"),
    "hints against one row per unit": (
        "visits.csv",
        *BUDGET,
        "--distinct=units",
        "--suggest",
        "units=100,pairs_per_unit=5",
    ),
    "hints with the paper's way": (*PLAIN, "--paper", "--suggest", "units=100"),
    "unknown setting": (*PLAIN, "--conf", "secret=1"),
    "setting without value": (*PLAIN, "--conf", "threads"),
    "setting named twice": (*PLAIN, "--conf", "threads=1", "--conf", "threads=2"),
    "share named twice": (*PLAIN, "--shares", "pairs=0.5,pairs=0.5"),
    "bad setting": (*PLAIN, "--conf", "memory_limit=lots"),
    "bad release id": (*PLAIN, "--release-id", "a b"),
    "empty dataset": (*PLAIN, "--dataset", " "),
    "unknown option": (*PLAIN, "--epsilonn", "1"),
}


@pytest.fixture
def odd_files(place: Place) -> Place:
    """Add files that cannot be used as they are."""
    (place.folder / "empty.csv").touch()
    (place.folder / "data.xlsx").write_bytes(b"PK")
    place.write("other.csv", [(CANARY, CANARY, CANARY)], head="who,what,where")
    table = {"unit": [1.5], "n": [1], "feature": [CANARY], "label": [CANARY], "text": [CANARY], "list": [[CANARY]]}
    pq.write_table(pa.table(table), place.folder / "keys.parquet")
    return place


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_wrong_usage(odd_files: Place, words: tuple[str, ...]) -> None:
    """What cannot be used as given ends with exit 2, one message, a hint, no file and no charge."""
    before = odd_files.names()
    ran = odd_files.run("release", *words, *odd_files.paid("visits.release"))
    assert (ran.code, refused_clearly(ran)) == (2, True), ran.err
    assert (odd_files.names(), odd_files.charges()) == (before, [])


OTHERS = {
    "no such command": ("relase",),
    "no such ledger command": ("ledger", "shwo", "visits.ledger"),
    "plan without data but with columns": ("plan", *BUDGET, *PAIRS, "--unit", "who"),
    "plan of a missing column": ("plan", "visits.csv", *BUDGET, *PAIRS, "--unit", "who"),
    "epsilon missing": ("run", "visits.csv"),
    "epsilon without a number": ("run", "visits.csv", "--epsilon"),
    "two ledgers": ("run", *PLAIN, "--ledger", "a.ledger", "--ledger"),
    "pairs missing with a cap": ("release", "visits.csv", *BUDGET, "--cap", "5"),
    "missing ledger": ("release", *PLAIN, "--ledger", "no.ledger", "-o", "new"),
    "existing folder": ("release", *PLAIN, "--ledger", "visits.ledger", "-o", "taken"),
    "folder in no folder": ("release", *PLAIN, "--ledger", "visits.ledger", "-o", "no/new"),
    "run onto an existing page": ("run", *PLAIN, "--ledger", "visits.ledger", "-o", "new", "--report", "visits.csv"),
    "run with too many rows": ("run", *PLAIN, "--ledger", "visits.ledger", "-o", "new", "--top", "101"),
    "exact into an existing folder": ("exact", "visits.csv", "-o", "taken"),
    "exact with half of the bounds": ("exact", "visits.csv", "-o", "new", "--labels", "1"),
    "exact takes no epsilon": ("exact", "visits.csv", "-o", "new", "--epsilon", "1"),
    "rank of nothing": ("rank", "nowhere"),
    "rank of no release": ("rank", "taken"),
    "receipt of no release": ("receipt", "taken"),
    "existing ledger": ("ledger", "create", "visits.ledger", "--epsilon", "4", "--delta", "1e-5"),
    "ledger in no folder": ("ledger", "create", "no/a.ledger", "--epsilon", "4", "--delta", "1e-5"),
    "ledger without limit": ("ledger", "create", "a.ledger"),
    "ledger with a bad limit": ("ledger", "create", "a.ledger", "--epsilon", "0", "--delta", "1e-5"),
    "show of a missing ledger": ("ledger", "show", "no.ledger"),
    "verify of a missing ledger": ("ledger", "verify", "no.ledger"),
    "export of a missing ledger": ("ledger", "export", "no.ledger"),
}


@pytest.mark.parametrize("words", OTHERS.values(), ids=OTHERS)
def test_wrong_usage_elsewhere(place: Place, words: tuple[str, ...]) -> None:
    """The other commands refuse in the same way."""
    (place.folder / "taken").mkdir()
    before = place.names()
    ran = place.run(*words)
    assert (ran.code, refused_clearly(ran)) == (2, True), ran.err
    assert (place.names(), place.charges()) == (before, [])


def test_budget_refused(place: Place) -> None:
    """A release that costs too much ends with exit 3, reads nothing, writes nothing and charges nothing."""
    ran = place.run("release", "visits.csv", "--epsilon", "9", "--delta", "1e-6", *PAIRS, *place.paid("new"))
    assert (ran.code, refused_clearly(ran), place.charges()) == (3, True, [])
    assert "needs epsilon=9" in ran.err
    assert "The ledger was not charged." in ran.err
    assert "new" not in place.names()


@pytest.mark.parametrize("damage", ["foreign", "cut", "folder"])
def test_a_ledger_that_cannot_be_used(place: Place, damage: str) -> None:
    """A foreign or damaged ledger fails with exit 1 before anything is read."""
    file = place.folder / "bad.ledger"
    whole = (place.folder / "visits.ledger").read_bytes()
    if damage == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"not a ledger" * 100 if damage == "foreign" else whole[: len(whole) // 2])
    ran = place.run("release", *PLAIN, "--ledger", "bad.ledger", "-o", "new")
    assert (ran.code, refused_clearly(ran)) == (1, True), ran.err
    assert "new" not in place.names()


def test_a_read_only_ledger(place: Place) -> None:
    """A ledger that cannot be written to cannot be charged."""
    (place.folder / "visits.ledger").chmod(0o444)
    ran = place.release()
    assert (ran.code, refused_clearly(ran), place.charges()) == (1, True, [])
    assert "visits.release" not in place.names()
