"""Seeds in a second table: labels equal a computation in Python, and depend on one unit's rows in both tables alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import Bounds, Budget, InputError, Ledger, Plan, SchemaError, exact, observe, observe_counts, release, sql
from ddpmi.pipeline.seeds import SEED_LABELS
from ddpmi.testing import _salt, exact_sums, hostile_rows, sensitivity_replay
from tests.support.reference import joint

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = settings(max_examples=10, deadline=None)
PLAN = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, cap=3), public_labels=SEED_LABELS)
SEEDS = ["l0", "l1", "ß", ""]


def rows_table(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))[:2] if rows else [(), ()]
    return pa.table({"unit": pa.array(columns[0], pa.string()), "feature": pa.array(columns[1], pa.string())})


def second_table(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table({"who": pa.array(columns[0], pa.string()), "word": pa.array(columns[2], pa.string())})


def linked(rows: list[tuple[object, ...]], second: list[tuple[object, ...]], features: list[str], at_least: int = 1):
    within = observe(second_table(second), unit="who", feature="word")
    return observe(rows_table(rows)).label_by(feature=features, at_least=at_least, within=within)


def relabelled(rows, second, features: list[str], at_least: int) -> list[tuple[object, ...]]:
    """Label rows in plain Python by the valid rows of the second table."""
    shown: dict[object, set[object]] = {}
    for unit, _, word in second:
        if unit is not None:
            shown.setdefault(unit, set()).add(word)
    return [
        (unit, feature, "seed" if len(shown.get(unit, set()) & set(features)) >= at_least else "rest")
        for unit, feature, *_ in rows
        if None not in (unit, feature)
    ]


def sums(obs, plan: Plan = PLAN) -> dict[tuple[str, str], int]:
    return {(row["feature"], row["label"]): row["sum"] for row in exact_sums(obs, plan)["pairs"].to_pylist()}


@SETTINGS
@given(rows=hostile_rows(), second=hostile_rows(), features=st.lists(st.sampled_from(SEEDS), min_size=1, unique=True))
def test_linked_labels_equal_the_reference(rows, second, features: list[str]) -> None:
    """The SQL labels as plain Python does, for units in one table, in both, and with rows that cannot be ranked."""
    at_least = max(1, len(features) - 1)
    expected = joint(relabelled(rows, second, features, at_least), PLAN.calibration.bounding, _salt(0))
    assert sums(linked(rows, second, features, at_least)) == expected


@SETTINGS
@given(
    rows=hostile_rows(),
    second=hostile_rows(),
    features=st.lists(st.sampled_from(SEEDS), min_size=1, unique=True),
    mechanism=st.sampled_from(["laplace", "gaussian"]),
    data=st.data(),
)
def test_one_unit_of_both_tables_moves_sums_no_further_than_declared(rows, second, features, mechanism, data) -> None:
    """Removing all rows of a unit, which may be in one table or in both, keeps every table within the declared norms."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, cap=3), mechanism=mechanism, public_labels=SEED_LABELS)
    unit = data.draw(st.sampled_from([row[0] for row in (*rows, *second)] or [None]))
    here, there = ([row for row in some if row[0] != unit] for some in (rows, second))
    moved = sensitivity_replay(linked(rows, second, features), linked(here, there, features), plan)
    assert all(one.within for one in moved)


@pytest.mark.parametrize("heavy", ["rows", "second", "both"])
@pytest.mark.parametrize("space", ["events", "units"])
def test_a_unit_that_is_heavy_in_either_table_stays_within_bounds(heavy: str, space: str) -> None:
    """A thousand rows of one unit in either table move no sum further than declared."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, cap=3), space=space, public_labels=SEED_LABELS)
    rows = [(f"u{n}", f"f{n % 3}", None) for n in range(30)]
    second = [(f"u{n}", None, "s" if n % 2 else "t") for n in range(40)]
    many = 1000
    rows_of = [("heavy", f"f{n}", None) for n in range(many if heavy != "second" else 1)]
    second_of = [("heavy", None, f"w{n}") for n in range(many if heavy != "rows" else 1)] + [("heavy", None, "s")] * 50
    moved = sensitivity_replay(
        linked([*rows, *rows_of], [*second, *second_of], ["s"]), linked(rows, second, ["s"]), plan
    )
    assert all(one.within for one in moved)
    assert any(one.l1 for one in moved)


def test_a_unit_that_shows_the_seed_labels_nobody_else() -> None:
    """Without the only unit of the second table every other unit keeps its label."""
    others = [(f"u{n}", "f", None) for n in range(50)]
    with_unit = linked([("lone", "f", None), *others], [("lone", None, "s")], ["s"])
    assert sums(with_unit) == {("f", "seed"): 256, ("f", "rest"): 50 * 256}
    assert all(moved.within for moved in sensitivity_replay(with_unit, linked(others, [], ["s"]), PLAN))


def test_no_row_of_the_second_table_multiplies_rows() -> None:
    """A unit that shows the seed in many rows is still counted once, also where one row per unit is declared."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=1), distinct="units", public_labels=SEED_LABELS)
    obs = linked([("u", "f", None)], [("u", None, "s"), ("u", None, "t"), ("u", None, "s")], ["s", "t"])
    assert sums(obs, plan) == {("f", "seed"): 1}
    assert sums(obs) == {("f", "seed"): 256}


def test_units_of_the_second_table_alone_are_in_no_table() -> None:
    """They have nothing to rank, so even the total does not count them."""
    obs = linked([("u", "f", None)], [("v", None, "s"), ("w", None, "s")], ["s"])
    found = exact_sums(obs, PLAN)
    assert found["total"].column("sum").to_pylist() == [256]
    assert sums(obs) == {("f", "rest"): 256}


def test_ids_of_different_types_are_compared_as_text(tmp_path: Path) -> None:
    """Digits in a CSV file are the numbers of a Parquet file, and text that is no number fails nothing."""
    (tmp_path / "second.csv").write_text("who,word\n7,s\nno number,s\n,s\n")
    pq.write_table(pa.table({"id": pa.array([7, 8]), "feature": ["f", "f"]}), tmp_path / "rows.parquet")
    within = observe(tmp_path / "second.csv", unit="who", feature="word")
    rows = observe(tmp_path / "rows.parquet")
    assert sums(rows.label_by(feature="s", within=within)) == {("f", "seed"): 256, ("f", "rest"): 256}
    mirrored = observe(tmp_path / "second.csv", unit="who", feature="word").label_by(feature="f", within=rows)
    assert sums(mirrored) == {("s", "seed"): 256, ("s", "rest"): 256}


def test_where_expressions_and_columns_of_the_second_table_apply() -> None:
    """Its own where, its expressions and a column other than its feature are used."""
    second = pa.table({"k": ["U", "V", "W"], "word": ["a", "S", "S"], "tag": ["s", "x", "s"], "y": [1, 1, 2]})
    rows = observe(pa.table({"unit": ["u", "v", "w"], "feature": ["f", "f", "f"]}))
    within = observe(second, unit=sql("lower(k)"), feature=sql("lower(word)"), where="y = 1")
    assert sums(rows.label_by(feature="s", within=within)) == {("f", "seed"): 256, ("f", "rest"): 512}
    by_tag = rows.label_by(feature="s", within=within, column="tag")
    assert sums(by_tag) == {("f", "seed"): 256, ("f", "rest"): 512}
    assert sums(rows.label_by(feature="S", within=within, column=sql("upper(tag)"))) == sums(by_tag)


@pytest.mark.parametrize("streamed", ["rows", "second", "both"])
def test_readers_are_read_once(streamed: str) -> None:
    """Either table may be a stream."""
    rows, second = rows_table([("u", "f"), ("v", "f")]), second_table([("u", None, "s")])
    first = rows.to_reader() if streamed != "second" else rows
    within = second.to_reader() if streamed != "rows" else second
    obs = observe(first).label_by(feature="s", within=observe(within, unit="who", feature="word"))
    assert sums(obs) == {("f", "seed"): 256, ("f", "rest"): 256}


def test_one_reader_is_not_two_tables() -> None:
    """A stream cannot be read for the rows and for the seed."""
    obs = observe(rows_table([("u", "f")]).to_reader())
    with pytest.raises(InputError, match="only once"):
        obs.label_by(feature="s", within=obs)


def test_a_second_table_in_another_encoding_is_read(tmp_path: Path) -> None:
    """Both tables are copied to places of their own where they are not UTF-8."""
    for name, text in {"rows.csv": "unit,feature\nä,f\nb,f\n", "second.csv": "unit,feature\nä,ß\n"}.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    rows, within = (observe(tmp_path / name, encoding="latin-1") for name in ("rows.csv", "second.csv"))
    assert sums(rows.label_by(feature="ß", within=within)) == {("f", "seed"): 256, ("f", "rest"): 256}


def test_tables_that_cannot_be_linked_are_refused() -> None:
    """From the schemas, before any charge."""
    rows = observe(rows_table([("u", "f")]))
    words = pa.table({"who": [1], "day": pa.array([0], pa.date32()), "word": ["s"], "real": [0.5]})
    for type_, second, column, message in [
        (InputError, "papers.parquet", None, "what observe returns"),
        (InputError, observe_counts(pa.table({"feature": ["a"], "label": ["x"], "count": [7]})), None, "no units"),
        (SchemaError, observe(words, unit="who", feature="word"), "nowhere", "nowhere"),
        (SchemaError, observe(words, unit="who", feature="word"), "real", "no key"),
    ]:
        with pytest.raises(type_, match=message):
            rows.label_by(feature="s", within=second, column=column)
    numbered = observe(pa.table({"unit": [1], "feature": ["f"]}))
    with pytest.raises(SchemaError, match="no unit is in both"):
        numbered.label_by(feature="s", within=observe(words, unit="day", feature="word"))


def test_both_tables_are_of_one_dataset() -> None:
    """A release that reads two tables must be in the account of both."""
    rows, within = observe(rows_table([("u", "f")])), observe(rows_table([("u", "s")]), dataset="other")
    with pytest.raises(InputError, match="charged to one of them only"):
        rows.label_by(feature="s", within=within)


def test_a_query_as_the_second_table_needs_the_declaration(tmp_path: Path) -> None:
    """It may hide a LIMIT, as the first may."""
    ledger = Ledger(tmp_path / "a.ledger", limit=Budget(4, 1e-5))
    within = observe(second_table([("u", None, "s")]).to_reader(), unit="who", feature="word")
    obs = observe(rows_table([("u", "f")])).label_by(feature="s", within=within)
    with pytest.raises(InputError, match="Arrow reader"):
        release(obs, PLAN, ledger=ledger)
    assert not ledger.status("default").entries


def test_the_receipt_says_what_the_link_relies_on(tmp_path: Path) -> None:
    """A release over two tables names both unit columns, and the digest knows the second table's columns."""
    ledger = Ledger(tmp_path / "a.ledger", limit=Budget(4, 1e-5))
    rows = [(f"u{n}", f"f{n % 2}", None) for n in range(2000)]
    obs = linked(rows, [(f"u{n}", None, "s") for n in range(0, 2000, 2)], ["s"])
    found = release(obs, PLAN, ledger=ledger, release_id="linked")
    assert any("('unit')" in text and "('who')" in text for text in found.receipt["relies_on"])
    assert "within another table" in repr(obs)
    plain = observe(rows_table(rows)).label_by(feature="s")
    filtered = observe(second_table([("u", None, "s")]), unit="who", feature="word", where="word <> 'x'")
    other = observe(rows_table(rows)).label_by(feature="s", within=filtered)
    assert len({plain.columns_digest, obs.columns_digest, other.columns_digest}) == 3
    assert exact(other).receipt["filtered"]


def test_a_second_seed_forgets_the_second_table() -> None:
    """Labels are made anew, and what the second table was labelled by before plays no part."""
    within = observe(second_table([("u", None, "s")]), unit="who", feature="word").label_by(feature="x")
    obs = observe(rows_table([("u", "f"), ("v", "s")]))
    assert sums(obs.label_by(feature="s", within=within)) == {("f", "seed"): 256, ("s", "rest"): 256}
    assert obs.label_by(feature="s", within=within).label_by(feature="f").within is None
