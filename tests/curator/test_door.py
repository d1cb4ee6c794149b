"""The one door: it charges first, reads once, publishes once, and leaks nothing on the way."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import ddpmi
from ddpmi import (
    Bounds,
    Budget,
    BudgetExceeded,
    EngineError,
    InputError,
    Ledger,
    LedgerError,
    Plan,
    Release,
    ReleaseError,
)
from ddpmi.curator import door
from ddpmi.curator.drawing import Reading, measure, summed_by
from ddpmi.engines.duckdb.engine import DuckDBEngine
from ddpmi.testing import exact_sums, seeded_release
from tests.support.release_fixtures import states, two_groups

if TYPE_CHECKING:
    from collections.abc import Callable

PLAN = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3))


def data(units: int = 400) -> pa.Table:
    """Two groups, a secret feature, and a secret label."""
    secret = {"unit": ["u1"], "feature": ["common"], "label": ["SECRET-LABEL"]}
    return pa.concat_tables([two_groups(units), pa.table(secret)])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "test.ledger", limit=Budget(10, 1e-2))


def test_a_release_finds_what_sets_groups_apart(ledger: Ledger) -> None:
    """The planted features come first in their group and rare keys do not appear."""
    plan = Plan(
        budget=Budget(8, 1e-4), bounds=Bounds(pairs=3)
    )  # noise of a few units against thousands: no chance decides
    found = ddpmi.release(ddpmi.observe(data(4000)), plan, ledger=ledger)
    ranking = ddpmi.rank(found).top(1, direction="presence")
    assert {(row["label"], row["feature"]) for row in ranking.to_dicts()} == {("a", "own-a"), ("b", "own-b")}
    assert "SECRET" not in str(found.pairs.to_pylist())


def opened_data(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Call a function when the engine is opened over the data, and not over the made-up rows of a rehearsal."""
    opened = DuckDBEngine.__init__

    def spy(self, source, columns, **more: object) -> None:
        if not source.made_up:
            then()
        opened(self, source, columns, **more)

    monkeypatch.setattr(DuckDBEngine, "__init__", spy)


def test_the_charge_comes_before_the_first_row(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the engine is opened over the data the ledger already holds the charge."""
    seen = []
    obs = ddpmi.observe(data())
    opened_data(monkeypatch, lambda: seen.append(states(ledger)))
    ddpmi.release(obs, PLAN, ledger=ledger)
    assert (seen, states(ledger)) == ([["charged"]], ["released"])


def test_a_refused_release_reads_nothing_and_leaves_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little budget stops before the data is opened, and the reserved name is free again."""
    ledger = Ledger(tmp_path / "small.ledger", limit=Budget(0.5, 1e-3))
    obs = ddpmi.observe(data())
    opened_data(monkeypatch, lambda: pytest.fail("the data was opened"))
    with pytest.raises(BudgetExceeded, match="Hint:"):
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out")
    assert (states(ledger), [path.name for path in tmp_path.iterdir()]) == ([], ["small.ledger"])


@pytest.mark.parametrize("error", [EngineError("it failed"), KeyboardInterrupt(), MemoryError()])
def test_a_failure_after_the_charge_keeps_it_and_leaves_nothing_behind(ledger, tmp_path, monkeypatch, error) -> None:
    """Budget stays spent, no folder appears, and the error says so."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(door, "measure", fail)
    with pytest.raises(type(error)) as caught:
        ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger, to=tmp_path / "out")
    assert "charge stays" in caught.value.__notes__[0]
    assert states(ledger) == ["abandoned"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.ledger", "test.ledger.head"]


def test_an_existing_folder_is_refused_before_anything_is_spent(ledger: Ledger, tmp_path: Path) -> None:
    """A release never overwrites."""
    (tmp_path / "out").mkdir()
    with pytest.raises(ReleaseError, match="exists already"):
        ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger, to=tmp_path / "out")
    assert states(ledger) == []


def test_a_charged_id_returns_the_stored_release_without_opening_the_data(ledger, tmp_path, monkeypatch) -> None:
    """A retry gives the same bytes and costs nothing."""
    obs = ddpmi.observe(data())
    first = ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out", release_id="monday")
    monkeypatch.setattr(DuckDBEngine, "__init__", lambda *_: pytest.fail("the data was opened"))
    again = ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out", release_id="monday")
    assert again.pairs.equals(first.pairs)
    assert len(states(ledger)) == 1


def test_a_charged_id_is_never_drawn_again(ledger: Ledger, tmp_path: Path) -> None:
    """Another plan, other columns, another folder or none at all: refused."""
    obs = ddpmi.observe(data())
    ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out", release_id="monday")
    other = Plan(budget=Budget(2, 1e-4), bounds=Bounds(pairs=3))
    with pytest.raises(LedgerError, match="another plan"):
        ddpmi.release(obs, other, ledger=ledger, to=tmp_path / "out", release_id="monday")
    renamed = ddpmi.observe(data().rename_columns(["id", "feature", "label"]))
    with pytest.raises(LedgerError, match="other columns"):
        ddpmi.release(renamed, PLAN, ledger=ledger, to=tmp_path / "out", release_id="monday")
    with pytest.raises(ReleaseError, match="not a release"):
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "elsewhere", release_id="monday")
    with pytest.raises(ReleaseError, match="no folder was named"):
        ddpmi.release(obs, PLAN, ledger=ledger, release_id="monday")
    assert len(states(ledger)) == 1
    ddpmi.release(obs, PLAN, ledger=ledger, release_id="tuesday")
    with pytest.raises(ReleaseError, match="memory only"):
        ddpmi.release(obs, PLAN, ledger=ledger, release_id="tuesday")


def test_two_releases_have_different_noise(ledger: Ledger) -> None:
    """Fresh noise every time: four equal totals would mean a fixed key (false alarm below 1e-9)."""
    obs = ddpmi.observe(data())
    plan = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3, labels=2))
    assert len({ddpmi.release(obs, plan, ledger=ledger).total for _ in range(4)}) > 1


def test_a_release_is_materialised_once(ledger: Ledger, tmp_path: Path) -> None:
    """Memory, a second look and the folder hold the same bytes."""
    found = ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger, to=tmp_path / "out")
    stored = Release.load(tmp_path / "out")
    for name in ("pairs", "features", "labels"):
        assert getattr(found, name).equals(getattr(stored, name))
    assert (found.total, found.receipt) == (stored.total, stored.receipt)


def test_rows_are_sorted_by_key_bytes(ledger: Ledger) -> None:
    """The order of released rows says nothing about the order of input."""
    found = ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger)
    keys = [(row["feature"].encode(), row["label"].encode()) for row in found.pairs.to_pylist()]
    assert keys == sorted(keys)


def test_shuffled_rows_give_the_same_release_for_the_same_noise() -> None:
    """With one seed, input order changes no key that is shown and no order of rows."""
    table = data()
    turned = table.take(list(range(table.num_rows - 1, -1, -1)))
    one, two = (seeded_release(ddpmi.observe(rows), PLAN, seed=1) for rows in (table, turned))
    assert one.pairs.column("feature").to_pylist() == two.pairs.column("feature").to_pylist()


def test_several_plans_share_one_pass(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six epsilons read the data once, are charged together, and differ in noise."""
    count = []
    opened = door.summed_by
    monkeypatch.setattr(door, "summed_by", lambda *a, **k: count.append(1) or opened(*a, **k))
    plans = [Plan(budget=Budget(e, 1e-4), bounds=Bounds(pairs=3), mechanism="gaussian") for e in (0.5, 1, 2)]
    targets = [tmp_path / f"r{n}" for n in range(3)]
    found = ddpmi.release_many(ddpmi.observe(data()), plans, ledger=ledger, to=targets)
    assert (len(count), states(ledger)) == (1, ["released"] * 3)
    assert [Release.load(path).plan.budget.epsilon for path in targets] == [plan.budget.epsilon for plan in plans]
    assert len({release.total for release in found}) > 1


def test_a_failure_between_releases_keeps_those_that_are_out(ledger: Ledger, tmp_path: Path, monkeypatch) -> None:
    """The published one stays released, the others are abandoned, and all are charged."""
    drawn = door.measure

    def fail_second(engine, reading):
        if any(tmp_path.glob("r*")):
            raise EngineError("it failed")
        return drawn(engine, reading)

    monkeypatch.setattr(door, "measure", fail_second)
    plans = [Plan(budget=Budget(e, 1e-4), bounds=Bounds(pairs=3), mechanism="gaussian") for e in (0.5, 1, 2)]
    with pytest.raises(EngineError):
        ddpmi.release_many(ddpmi.observe(data()), plans, ledger=ledger, to=[tmp_path / f"r{n}" for n in range(3)])
    assert states(ledger) == ["released", "abandoned", "abandoned"]
    assert Release.load(tmp_path / "r0").pairs.num_rows > 0


def test_several_plans_are_charged_all_or_none(tmp_path: Path) -> None:
    """When the sum does not fit, nothing is spent."""
    ledger = Ledger(tmp_path / "small.ledger", limit=Budget(1, 2e-4))
    plans = [Plan(budget=Budget(e, 1e-4), bounds=Bounds(pairs=3), mechanism="gaussian") for e in (0.9, 0.9)]
    with pytest.raises(BudgetExceeded):
        ddpmi.release_many(ddpmi.observe(data()), plans, ledger=ledger)
    assert states(ledger) == []


@pytest.mark.parametrize(
    "plans",
    [
        [],
        [PLAN, Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=4))],
        [PLAN, Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), distinct=True)],
        [PLAN, Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), space="events")],
        [PLAN, Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), labels_only=["a"])],
        [Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), public_labels=names) for names in (["a"], ["b"])],
    ],
)
def test_plans_that_cannot_share_a_pass_are_refused(ledger: Ledger, plans: list[Plan]) -> None:
    """Different bounds need different sums."""
    with pytest.raises(InputError, match="Hint:"):
        ddpmi.release_many(ddpmi.observe(data()), plans, ledger=ledger)
    assert states(ledger) == []


def test_an_empty_release_is_a_release(ledger: Ledger, tmp_path: Path) -> None:
    """Too few units: charged, saved, empty, and still rankable."""
    found = ddpmi.release(ddpmi.observe(data(3)), PLAN, ledger=ledger, to=tmp_path / "out")
    assert (found.pairs.num_rows, found.features.num_rows, found.labels.num_rows) == (0, 0, 0)
    assert len(ddpmi.rank(Release.load(tmp_path / "out"))) == 0
    assert states(ledger) == ["released"]


def test_no_rows_at_all_is_a_release_too(ledger: Ledger) -> None:
    """No error reveals whether a table is empty or has few rows."""
    empty = data(1).slice(0, 0)
    assert ddpmi.release(ddpmi.observe(empty), PLAN, ledger=ledger).pairs.num_rows == 0


@pytest.mark.parametrize(
    ("value", "bounds"),
    [("value", Bounds(pairs=3)), (None, Bounds(pairs=3, clip=5))],
)
def test_value_and_clip_come_together(ledger: Ledger, value: str | None, bounds: Bounds) -> None:
    """A value without a clip, or a clip without a value, is refused before anything is spent."""
    table = data().append_column("value", pa.array([1.0] * data().num_rows))
    with pytest.raises(InputError, match="clip"):
        ddpmi.release(ddpmi.observe(table, value=value), Plan(budget=Budget(1, 1e-4), bounds=bounds), ledger=ledger)
    assert states(ledger) == []


def test_a_query_needs_the_owners_word(ledger: Ledger) -> None:
    """A relation that may hide a LIMIT is refused until the owner attests it, and the receipt keeps the word."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("rows", data())
        obs = ddpmi.observe(connection.sql("SELECT * FROM rows LIMIT 10"))
        with pytest.raises(InputError, match="row_local=True"):
            ddpmi.release(obs, PLAN, ledger=ledger)
        attested = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), row_local=True)
        assert "depends on one unit" in ddpmi.release(obs, attested, ledger=ledger).receipt["relies_on"][0]


@pytest.mark.parametrize("wrong", ["", "a b", "../x", "-x", "x" * 101, 7])
def test_release_ids_are_plain(ledger: Ledger, wrong: object) -> None:
    """An id that could be a path, a flag or a sentence is refused."""
    with pytest.raises(InputError, match="release_id"):
        ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger, release_id=wrong)


def test_the_receipt_has_every_field_and_no_secret(ledger: Ledger, tmp_path: Path) -> None:
    """Section by section as documented; no path, salt, row or exact count."""
    found = ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger, to=tmp_path / "out")
    fields = "format release_id dataset created private notice guarantee plan plan_digest tables grid relies_on engine versions ledger "
    fields += "space weighted marginals sample_rate filtered columns"
    assert set(found.receipt) - {"files", "digest"} == set(fields.split())
    text = json.dumps(found.receipt)
    assert str(tmp_path) not in text
    assert "SECRET" not in text
    assert "salt" not in text
    assert Plan.from_dict(found.receipt["plan"]) == PLAN
    assert set(found.receipt["ledger"]) == {"entry", "spent", "left"}


def test_exact_is_stamped_and_charges_nothing(tmp_path: Path) -> None:
    """Exact sums say NOT PRIVATE in the receipt and count each unit once per pair."""
    found = ddpmi.exact(ddpmi.observe(data()), to=tmp_path / "out")
    assert (found.private, found.receipt["notice"], found.receipt["ledger"]) == (False, "NOT PRIVATE", None)
    sums = {(row["feature"], row["label"]): row["sum"] for row in found.pairs.to_pylist()}
    assert sums["common", "a"] == 200
    assert sums["SECRET-FEATURE", "a"] == 1
    assert found.total == 400


def test_rows_without_a_unit_count_nowhere() -> None:
    """A missing unit is neither one giant unit nor many small ones, also where no join would drop it."""
    rows = pa.table({"unit": ["u", None, None], "feature": ["f", "f", "g"], "label": ["x"] * 3})
    assert ddpmi.exact(ddpmi.observe(rows)).pairs.to_pylist() == [{"feature": "f", "label": "x", "sum": 1}]
    plan = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=1), distinct="units")
    assert exact_sums(ddpmi.observe(rows), plan)["pairs"].num_rows == 1


def test_exact_sums_decimal_values_on_a_fine_grid() -> None:
    """Unclipped decimals keep six digits; integers stay whole."""
    table = pa.table(
        {"unit": ["u", "u", "v"], "feature": ["f"] * 3, "label": ["l"] * 3, "value": [0.25, 0.5, float("nan")]}
    )
    found = ddpmi.exact(ddpmi.observe(table, value="value"))
    assert found.total * found.receipt["grid"]["step"] == 0.75


def test_exact_with_bounds_gives_the_sums_that_noise_would_be_added_to() -> None:
    """Bounded exact sums are those of a Laplace plan with the same bounds."""
    obs = ddpmi.observe(data())
    plan = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=2, labels=2), mechanism="laplace")
    exact = ddpmi.exact(obs, bounds=Bounds(pairs=2, labels=2)).pairs
    bounded = exact_sums(obs, plan)["pairs"].sort_by([("feature", "ascending"), ("label", "ascending")])
    assert exact.to_pylist() == bounded.to_pylist()


def test_nothing_temporary_outlives_a_release(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spill folders are private to the user and gone after the run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []
    opened = DuckDBEngine.run

    def spy(self, *args: object, **kwargs: object) -> None:
        seen.append(stat.S_IMODE(os.stat(self._spill.folder).st_mode))
        opened(self, *args, **kwargs)

    monkeypatch.setattr(DuckDBEngine, "run", spy)
    ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger)
    assert set(seen) == {0o700}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.ledger", "test.ledger.head"]


def test_an_engine_failure_shows_no_row(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion error that quotes a cell is replaced by one that does not."""
    obs = ddpmi.observe(data())
    plan_phases = Plan.phases

    def broken(self, dialect, **options: object):
        from ddpmi.pipeline.steps import Step

        boom = Step(name="boom", sql="SELECT CAST(feature AS INTEGER) FROM rows", shape="", freeze=True)
        return [[*phase, boom] for phase in plan_phases(self, dialect, **options)]

    monkeypatch.setattr(Plan, "phases", broken)
    monkeypatch.setattr(door, "rehearse", lambda *_: None)
    with pytest.raises(EngineError) as caught:
        ddpmi.release(obs, PLAN, ledger=ledger)
    assert "common" not in "".join([str(caught.value), *caught.value.__notes__])
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_progress_names_stages(ledger: Ledger) -> None:
    """The callback hears at least of the noise, and never of a count."""
    heard = []
    ddpmi.release(
        ddpmi.observe(data()), PLAN, ledger=ledger, progress=lambda stage, fraction: heard.append((stage, fraction))
    )
    assert ("draw noise", None) in heard


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_table_carries_noise_of_the_declared_width(mechanism: str) -> None:
    """Over 400 draws the spread of each table is its declared sd to 25 percent (false alarm below 1e-7), centred at 0."""
    rows = pa.table(
        {"unit": [str(n) for n in range(3000)], "feature": ["f", "g", "h"] * 1000, "label": ["x", "y"] * 1500}
    )
    plan = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3), mechanism=mechanism)
    obs = ddpmi.observe(rows)
    truth = {name: table.to_pylist() for name, table in exact_sums(obs, plan).items()}
    errors: dict[str, list[int]] = {name: [] for name in truth}
    with summed_by(obs, plan, salt="s") as engine:
        for _ in range(400):
            drawn = measure(engine, Reading.of(plan))
            for name, exact_rows in truth.items():
                sums = {tuple(row.values())[:-1]: row["sum"] for row in drawn.scan(name).to_pylist()}
                errors[name] += [sums[tuple(row.values())[:-1]] - row["sum"] for row in exact_rows]
    for name, noise in plan.calibration.tables.items():
        spread = (sum(e * e for e in errors[name]) / len(errors[name])) ** 0.5
        assert 0.75 < spread / noise.mechanism.sd < 1.25, name
        assert abs(sum(errors[name])) < 6 * noise.mechanism.sd * len(errors[name]) ** 0.5, name


def test_the_entry_keeps_the_folder_and_who_and_why(ledger: Ledger, tmp_path: Path) -> None:
    """The ledger knows where a release is, who asked for it and what for; in memory there is no folder."""
    obs = ddpmi.observe(data())
    found = ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out", who="Ada", why="weekly report")
    ddpmi.release_many(obs, [PLAN], ledger=ledger, who="Bo", why="a test")
    one, two = ledger.status().entries
    assert (one.folder, one.who, one.why) == (str((tmp_path / "out").absolute()), "Ada", "weekly report")
    assert (two.folder, two.who, two.why) == ("", "Bo", "a test")
    assert one.receipt_digest == found.receipt_digest == Release.load(tmp_path / "out").receipt_digest


@pytest.mark.parametrize("where", [None, "feature <> 'secret word'"])
def test_the_receipt_says_whether_a_filter_was_used(ledger: Ledger, where: str | None) -> None:
    """The receipt tells that rows were chosen, and never how."""
    found = ddpmi.release(ddpmi.observe(data(), where=where), PLAN, ledger=ledger)
    assert found.receipt["filtered"] is (where is not None)
    assert "secret word" not in json.dumps(found.receipt)


def test_the_path_of_a_ledger_opens_it(ledger: Ledger, tmp_path: Path) -> None:
    """A text or a path in place of a ledger is opened; a missing file is an error of ours."""
    obs = ddpmi.observe(data())
    ddpmi.release(obs, PLAN, ledger=str(ledger.path))
    ddpmi.release_many(obs, [PLAN], ledger=ledger.path)
    assert states(ledger) == ["released"] * 2
    with pytest.raises(LedgerError):
        ddpmi.release(obs, PLAN, ledger=tmp_path / "no.ledger")


@pytest.mark.parametrize(
    "call",
    [
        lambda obs, ledger: ddpmi.release(3, PLAN, ledger=ledger),
        lambda obs, ledger: ddpmi.release(obs, 3, ledger=ledger),
        lambda obs, ledger: ddpmi.release(obs, PLAN, ledger=3),
        lambda obs, ledger: ddpmi.release(obs, PLAN, ledger=None),
        lambda obs, ledger: ddpmi.release(obs, PLAN, ledger=ledger, to=3),
        lambda obs, ledger: ddpmi.release(obs, PLAN, ledger=ledger, who=3),
        lambda obs, ledger: ddpmi.release(obs, PLAN, ledger=ledger, why=b"x"),
        lambda obs, ledger: ddpmi.release_many(obs, PLAN, ledger=ledger),
        lambda obs, ledger: ddpmi.release_many(obs, [3], ledger=ledger),  # type: ignore[list-item]
        lambda obs, ledger: ddpmi.release_many(obs, [PLAN], ledger=ledger, to="out"),
        lambda obs, ledger: ddpmi.release_many(obs, [PLAN], ledger=ledger, to=[3]),  # type: ignore[list-item]
        lambda obs, ledger: ddpmi.exact(3),
        lambda obs, ledger: ddpmi.observe(3),
        lambda obs, ledger: ddpmi.observe(None),
        lambda obs, ledger: ddpmi.observe([]),
        lambda obs, ledger: ddpmi.observe([3]),
        lambda obs, ledger: ddpmi.observe_counts(3),
        lambda obs, ledger: ddpmi.observe(data(), conf=3),
        lambda obs, ledger: ddpmi.observe(data(), where=3),
        lambda obs, ledger: ddpmi.observe(data(), dataset=3),
        lambda obs, ledger: ddpmi.observe(data(), unit=3),
        lambda obs, ledger: ddpmi.expand(3, seed="a", plan=PLAN, ledger=ledger),
        lambda obs, ledger: ddpmi.expand(obs, seed="a", plan=3, ledger=ledger),
        lambda obs, ledger: ddpmi.expand(obs, seed="a", plan=PLAN, ledger=3),
        lambda obs, ledger: ddpmi.expand(obs, seed="a", plan=PLAN, ledger=ledger, to="a\0b"),
        lambda obs, ledger: ddpmi.cascade(3),
        lambda obs, ledger: ddpmi.rank(3),
        lambda obs, ledger: ddpmi.rank(data().to_pandas()),
        lambda obs, ledger: ddpmi.rank(data()),
        lambda obs, ledger: ddpmi.compare(1, 2),
        lambda obs, ledger: ddpmi.report(3, "page.html"),
        lambda obs, ledger: ddpmi.report("a.release", "page.html"),
        lambda obs, ledger: ddpmi.rank_on_spark(3),
    ],
)
def test_arguments_of_a_wrong_type_give_our_errors(ledger: Ledger, call: Callable[[object, Ledger], object]) -> None:
    """A number or a frame in the wrong place is a sentence with a hint, and charges nothing."""
    with pytest.raises(InputError, match="Hint:"):
        call(ddpmi.observe(data(3)), ledger)
    assert states(ledger) == []


def test_a_known_id_with_another_folder_names_the_folder(ledger: Ledger, tmp_path: Path) -> None:
    """The ledger knows where the release was written, and says it."""
    obs = ddpmi.observe(data())
    ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "first", release_id="monday")
    ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "second")
    for other in ("elsewhere", "second"):
        with pytest.raises(ReleaseError, match=str(tmp_path / "first")):
            ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / other, release_id="monday")
    with pytest.raises(ReleaseError, match=str(tmp_path / "first")):
        ddpmi.release(obs, PLAN, ledger=ledger, release_id="monday")
    (tmp_path / "first").rename(tmp_path / "moved")
    assert ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "moved", release_id="monday").release_id == "monday"
    with pytest.raises(ReleaseError, match="holds no release now"):
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "elsewhere", release_id="monday")


def test_an_edited_folder_is_refused_at_a_retry(ledger: Ledger, tmp_path: Path) -> None:
    """The ledger keeps the digest of the receipt, so a retried id never returns an edited release."""
    obs = ddpmi.observe(data())
    ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out", release_id="monday")
    file = tmp_path / "out" / "receipt.json"
    file.write_text(file.read_text() + " ")  # valid by itself: only the ledger can tell
    with pytest.raises(ReleaseError, match="not the one that the ledger knows"):
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "out", release_id="monday")


def test_a_crash_after_publishing_is_recorded_at_the_retry(ledger: Ledger, tmp_path: Path, monkeypatch) -> None:
    """A complete folder whose entry is still charged is returned, and its entry is then released."""
    obs = ddpmi.observe(data())
    order = {"ledger": ledger, "to": tmp_path / "out", "release_id": "thursday"}
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "mark", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ddpmi.release(obs, PLAN, **order)
    assert states(ledger) == ["charged"]
    again = ddpmi.release(obs, PLAN, **order)
    assert states(ledger) == ["released"]
    assert ledger.find("thursday").receipt_digest == again.receipt_digest


def test_a_ledger_that_is_moved_away_in_mid_release_is_a_warning(ledger: Ledger, tmp_path: Path, monkeypatch) -> None:
    """The release is complete and was charged, so it is returned; nobody is advised to create a new ledger."""
    drawn = door.measure

    def then_move(*words: object):
        found = drawn(*words)
        ledger.path.rename(tmp_path / "moved.ledger")
        return found

    monkeypatch.setattr(door, "measure", then_move)
    with pytest.warns(UserWarning, match="complete and was charged") as caught:
        found = ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger, to=tmp_path / "out")
    assert Release.load(tmp_path / "out").release_id == found.release_id
    assert caught[0].filename == __file__
    assert not ledger.path.exists()
    assert Ledger(tmp_path / "moved.ledger").find(found.release_id).state == "charged"


def test_a_failure_is_shown_even_if_the_ledger_has_gone(ledger: Ledger, tmp_path: Path, monkeypatch) -> None:
    """The error that ended the release is raised, not that of the ledger."""

    def fail(*_: object) -> None:
        ledger.path.rename(tmp_path / "moved.ledger")
        raise EngineError("it failed")

    monkeypatch.setattr(door, "measure", fail)
    with pytest.raises(EngineError, match="it failed") as caught:
        ddpmi.release(ddpmi.observe(data()), PLAN, ledger=ledger, to=tmp_path / "out")
    assert "charge stays" in caught.value.__notes__[0]


def test_a_value_is_ignored_only_where_units_were_asked_for() -> None:
    """A plan without a clip and without a space is refused for rows with a value, and `exact` sums their values."""
    rows = pa.table({"unit": ["u", "v"], "feature": ["f", "f"], "label": ["x", "x"], "cups": [3, 4]})
    obs, bounds = ddpmi.observe(rows, value="cups"), Bounds(pairs=1)
    with pytest.raises(InputError, match="'cups' needs a clip"):
        ddpmi.release(obs, Plan(budget=Budget(1, 1e-4), bounds=bounds), ledger=None)
    asked = Plan(budget=Budget(1, 1e-4), bounds=bounds, space="units")
    assert exact_sums(obs, asked)["total"].to_pylist() == [{"sum": 2 * 256}]
    assert (ddpmi.exact(obs).total, ddpmi.exact(obs, space="units").total) == (7, 2)
    assert ddpmi.exact(ddpmi.observe(rows)).receipt["space"] == "units"


def test_the_receipt_names_columns_and_no_expression() -> None:
    """Names of columns are public; the text of an expression may name people."""
    rows = pa.table({"customer": ["u"], "item": ["f"], "land": ["x"], "cups": [3]})
    roles = {"unit": "customer", "feature": ddpmi.sql("lower(item)"), "label": "land"}
    found = ddpmi.exact(ddpmi.observe(rows, **roles, value="cups", where=ddpmi.sql("land = 'x'")))
    assert found.receipt["columns"] == {"unit": "customer", "feature": None, "label": "land", "value": "cups"}
    assert "lower" not in json.dumps(found.receipt)
    counts = ddpmi.observe_counts(pa.table({"feature": ["f"], "label": ["x"], "n": [3]}), count="n")
    words = ddpmi.rank(ddpmi.exact(counts)).words
    assert (words.units, words.value, words.space) == ("units", None, "units")
    words = ddpmi.rank(found).words
    assert (words.units, words.feature, words.label, words.counted) == ("customers", "feature", "land", "cups")
