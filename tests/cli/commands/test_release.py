"""`ddpmi release` charges, reads and writes once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ddpmi.curator import door
from ddpmi.ledger.ledger import Ledger
from ddpmi.releases.release import Release
from tests.support.cli_fixtures import BUDGET, CANARY, PAIRS, Place, refused_clearly, visits

if TYPE_CHECKING:
    import pytest

COLUMNS = [
    *("label", "feature", "rank", "rank_in_label", "rank_in_feature", "direction", "mi", "mi_low", "mi_high"),
    *("joint", "feature_total", "label_total", "share_in", "share_in_low", "share_in_high"),
    *("share_out", "share_out_low", "share_out_high", "lift", "lift_low", "lift_high", "false_sign", "clear", "note"),
]


def test_release_and_rank(place: Place) -> None:
    """A release is written and charged, says so on stderr alone, and its ranking finds the planted features."""
    ran = place.release()
    assert (ran.code, ran.out, place.charges()) == (0, "", ["released"])
    assert "Released 4 pairs to visits.release." in ran.err
    ranked = place.run("rank", "visits.release", "--format", "json")
    rows = json.loads(ranked.out)
    assert (ranked.code, ranked.err, list(rows[0])) == (0, "", COLUMNS)
    best = {(row["label"], row["feature"]) for row in rows if row["rank_in_label"] == 1}
    assert best == {("north", "only north"), ("south", "only south")}


def test_several_files_and_settings(place: Place) -> None:
    """Several paths are one relation, and the engine's settings are passed on."""
    place.write("more.csv", visits())
    conf = ("--conf", "threads=1", "--conf", "memory_limit=1GB", "--conf", f"temp_directory={place.folder}")
    ran = place.run("release", "visits.csv", "more.csv", *BUDGET, *PAIRS, *place.paid("two.release"), *conf)
    assert (ran.code, place.names() & {"two.release"}) == (0, {"two.release"})


def test_a_retry_returns_the_stored_release(place: Place) -> None:
    """The same release id is charged once, and the second call draws nothing."""
    assert place.release("--release-id", "monday").code == 0
    before = Path("visits.release/pairs/part-0.parquet").read_bytes()
    ran = place.release("--release-id", "monday")
    assert (ran.code, place.charges()) == (0, ["released"])
    assert "nothing was charged" in ran.err
    assert Path("visits.release/pairs/part-0.parquet").read_bytes() == before


def test_an_empty_release_warns(place: Place) -> None:
    """Nothing to show is no error: exit 0, one warning with the threshold in units, a hint, and the charge.

    A single unit passes the threshold with a probability of at most half of delta, 5e-7.
    """
    place.write("one.csv", [(f"{CANARY}-1", "a", "x")])
    ran = place.release(data="one.csv")
    assert (ran.code, place.charges()) == (0, ["released"])
    assert ran.err.count("Warning:") == 1
    assert "units" in ran.err
    assert "Hint: raise --epsilon" in ran.err
    ranked = place.run("rank", "visits.release", "--format", "json")
    assert (ranked.code, json.loads(ranked.out)) == (0, [])
    assert "Warning:" in ranked.err


def test_rows_never_raise(place: Place) -> None:
    """NULL, NaN, infinite, negative and huge values, and NULL keys, are released like any other."""
    odd = ["", "nan", "inf", "-inf", "-5", "1e300", "text", "3"]
    rows: list[tuple[object, ...]] = [(unit, "a", "x", odd[unit % len(odd)]) for unit in range(2000)]
    rows += [("", "a", "x", 1), (1, "", "x", 1), (1, "a", "", 1)]
    place.write("odd.csv", rows, head="unit,feature,label,value")
    ran = place.release("--value", "value", "--clip", "10", data="odd.csv")
    assert (ran.code, "Error" in ran.err) == (0, False)
    assert Release.load("visits.release").pairs.column("feature").to_pylist() == ["a"]


def test_an_id_of_another_plan(place: Place) -> None:
    """A release id belongs to one plan: another one is refused without a charge."""
    place.release("--release-id", "monday")
    ran = place.release("--release-id", "monday", "--labels", "2", output="other")
    assert (ran.code, refused_clearly(ran), place.charges()) == (1, True, ["released"])
    assert "other" not in place.names()


def test_a_data_file_that_breaks_after_the_charge(place: Place) -> None:
    """When reading fails the charge stays, the error says so, and nothing is half written."""
    table = pa.table({name: [f"{CANARY}-{n}" for n in range(50_000)] for name in ("unit", "feature", "label")})
    pq.write_table(table, place.folder / "broken.parquet", compression="none", use_dictionary=False)
    whole = bytearray((place.folder / "broken.parquet").read_bytes())
    whole[4:200_000] = b"\xff" * (200_000 - 4)
    (place.folder / "broken.parquet").write_bytes(whole)
    before = place.names()
    ran = place.release(data="broken.parquet")
    assert (ran.code, refused_clearly(ran), place.charges()) == (1, True, ["abandoned"]), ran.err
    assert "The ledger was charged" in ran.err
    assert place.names() == before


CAUSES = (
    "header and no rows",
    "(NULL) in all rows",
    "--where that no row meets",
    "--labels-only",
    "each other's place",
)


def test_an_empty_release_names_its_causes(place: Place) -> None:
    """All empty releases print the same causes, whichever of them it is."""
    place.write("head.csv", [])
    place.write("null.csv", [(unit, "", "x") for unit in range(50)])
    swapped = ("--unit", "label", "--label", "unit")
    said = [
        place.release(data="head.csv", output="a"),
        place.release(data="null.csv", output="b"),
        place.release("--where", "feature = 'nothing'", output="c"),
        place.release(*swapped, output="d"),
    ]
    texts = {ran.err.partition("Warning: ")[2] for ran in said}
    assert ([ran.code for ran in said], len(texts)) == ([0] * 4, 1)
    assert [cause for cause in CAUSES if cause not in min(texts)] == []
    only = place.run(
        "release", "visits.csv", *BUDGET, *PAIRS, "--labels-only", "nowhere", "--dataset", "x", *place.paid("e")
    )
    assert (only.code, CAUSES[3] in only.err) == (0, True)


def test_who_and_why_are_kept(place: Place) -> None:
    """--who and --why are in the ledger's entry."""
    assert place.release("--who", "Ada", "--why", "weekly report").code == 0
    (entry,) = Ledger(place.folder / "visits.ledger").status().entries
    assert (entry.who, entry.why, entry.folder) == ("Ada", "weekly report", str(place.folder / "visits.release"))


def test_an_unexpected_head_is_refused(place: Place) -> None:
    """A ledger that does not contain the head is not charged."""
    ran = place.release("--expect-head", "0" * 64)
    assert (ran.code != 0, refused_clearly(ran), place.charges()) == (True, True, [])


def test_a_release_that_cannot_work_is_not_charged(place: Place) -> None:
    """Too long a name, a NUL, too little memory: exit 2, one message, one hint, and no charge."""
    for words in (("-o", "x" * 256), ("-o", "a\0b"), ("-o", "out", "--conf", "memory_limit=1MB")):
        ran = place.run("release", "visits.csv", *BUDGET, *PAIRS, "--ledger", "visits.ledger", *words)
        assert (ran.code, refused_clearly(ran), place.charges()) == (2, True, [])
    assert place.names() == {"visits.csv", "visits.ledger"}


def test_a_ledger_that_is_moved_away_is_a_warning(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release is complete and charged: exit 0, a warning, and no advice to create a ledger."""
    drawn = door.measure

    def then_move(*words: object):
        found = drawn(*words)
        (place.folder / "visits.ledger").rename(place.folder / "moved.ledger")
        return found

    monkeypatch.setattr(door, "measure", then_move)
    ran = place.release()
    assert (ran.code, ran.err.count("Warning: ")) == (0, 1)
    assert "complete and was charged" in ran.err
    assert "ledger create" not in ran.err
    assert Ledger(place.folder / "moved.ledger").status().entries[0].state == "charged"
