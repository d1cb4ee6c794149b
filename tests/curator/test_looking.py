"""A release after a look: two charges in order, one budget, and nothing read before its charge."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from scipy import stats

import ddpmi
from ddpmi import AutoPlan, Budget, BudgetExceeded, InputError, Ledger, LedgerError, Plan, Release, ReleaseError
from ddpmi.curator import door
from ddpmi.curator.drawing import Done
from ddpmi.curator.looking import exact_look, looked
from ddpmi.engines.duckdb.engine import DuckDBEngine
from ddpmi.pipeline.looks import BUCKETS
from ddpmi.releases.receipts import describe, look_of
from ddpmi.testing import _salt, _source
from tests.support.release_fixtures import states, table, two_groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

AUTO = AutoPlan.of(epsilon=4, delta=1e-5)


def data(units: int = 3000) -> pa.Table:
    """Two groups, in which a unit has two pairs; noise has a deviation of 14 units."""
    return two_groups(units)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "test.ledger", limit=Budget(10, 1e-2))


def opened_data(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Call a function when the engine is opened over the data, and not over the made-up rows of a rehearsal."""
    opened = DuckDBEngine.__init__

    def spy(self, source, columns, **more: object) -> None:
        if not source.made_up:
            then()
        opened(self, source, columns, **more)

    monkeypatch.setattr(DuckDBEngine, "__init__", spy)


def test_a_look_chooses_the_bounds(ledger: Ledger, tmp_path: Path) -> None:
    """The look finds two pairs per unit and one label, and the release follows from it and finds what was planted."""
    found = ddpmi.release(ddpmi.observe(data()), AUTO, ledger=ledger, to=tmp_path / "out")
    plan, look = found.plan, look_of(found.receipt)
    assert (plan.bounds.pairs, plan.bounds.labels, look.pairs.usual) == (1, 1, 2)
    assert abs(look.pairs.counts[1] - 2999) < 20 * look.pairs.sd
    best = ddpmi.rank(found).top(1, direction="presence").to_dicts()
    assert {(row["label"], row["feature"]) for row in best} == {("a", "own-a"), ("b", "own-b")}
    assert Release.load(tmp_path / "out").receipt["look"] == found.receipt["look"]
    assert "A private look chose the bounds" in describe(found.receipt)


def test_both_parts_are_charged_in_order(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """When rows are read the look is charged, and the release is charged before its sums are computed."""
    seen = []
    obs = ddpmi.observe(data())
    opened_data(monkeypatch, lambda: seen.append([entry.release_id for entry in ledger.status().entries]))
    summed_by = door.summed_by

    def spy(*given: object, **more: object) -> object:
        seen.append([entry.release_id for entry in ledger.status().entries])
        return summed_by(*given, **more)

    monkeypatch.setattr(door, "summed_by", spy)
    ddpmi.release(obs, AUTO, ledger=ledger, release_id="monday")
    assert seen == [["monday.look"], ["monday.look", "monday"]]
    assert states(ledger) == ["released", "released"]


def test_the_source_is_read_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the look computed is used by the release: pairs of units are not computed again."""
    names: list[str] = []
    run = DuckDBEngine.run

    def spy(self, step, **more: object) -> None:
        names.append(step.name)
        run(self, step, **more)

    obs = ddpmi.observe(data())
    monkeypatch.setattr(door, "rehearse_look", lambda *_: None)
    monkeypatch.setattr(DuckDBEngine, "run", spy)
    ddpmi.release(obs, AUTO, ledger=ledger)
    assert [names.count(name) for name in ("rows", "pairs", "unit_labels", "units", "joint")] == [1] * 5


def test_the_receipt_promises_the_whole_budget(ledger: Ledger) -> None:
    """The guarantee is that of both parts, the plan has the rest of the budget, and the ledger spent no more."""
    found = ddpmi.release(ddpmi.observe(data()), AUTO, ledger=ledger)
    promise = found.receipt["guarantee"]
    assert (promise["epsilon"], promise["delta"]) == (4, 1e-5)
    assert found.plan.budget == AUTO.rest(found.plan.mechanism_name)
    spent = ledger.status().spent
    assert spent.epsilon <= 4 or found.plan.mechanism_name == "gaussian"
    assert found.receipt["look"]["epsilon"] == 0.1


def test_a_ledger_with_exactly_the_budget_admits_both(tmp_path: Path) -> None:
    """A limit of epsilon 1 is enough for a release of epsilon 1 after a look, with each kind of noise."""
    for name in ("laplace", "gaussian"):
        ledger = Ledger(tmp_path / f"{name}.ledger", limit=Budget(4, 1e-5))
        auto = AutoPlan.of(epsilon=4, delta=1e-5, mechanism=name)
        assert ddpmi.release(ddpmi.observe(data()), auto, ledger=ledger).plan.mechanism_name == name
        with pytest.raises(BudgetExceeded):
            ddpmi.release(ddpmi.observe(data()), AutoPlan.of(epsilon="0.01", delta=1e-9), ledger=ledger)
        assert states(ledger) == ["released", "released"]


def test_nothing_is_charged_if_the_rest_would_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look would fit, the release would not: nothing is read, and nothing is charged."""
    ledger = Ledger(tmp_path / "small.ledger", limit=Budget(3, 1e-5))
    obs = ddpmi.observe(data())
    opened_data(monkeypatch, lambda: pytest.fail("the data was opened"))
    with pytest.raises(BudgetExceeded, match="needs epsilon=4"):
        ddpmi.release(obs, AUTO, ledger=ledger)
    assert states(ledger) == []


def test_the_largest_epsilon_of_a_release_holds_for_both_parts(tmp_path: Path) -> None:
    """A ledger that allows an epsilon of 3 for one release refuses a look and a rest of 4 together."""
    ledger = Ledger(tmp_path / "capped.ledger", limit=Budget(100, 1e-3), max_epsilon=3)
    with pytest.raises(BudgetExceeded, match="at most epsilon=3"):
        ddpmi.release(ddpmi.observe(data()), AUTO, ledger=ledger)
    assert states(ledger) == []


@pytest.mark.parametrize("error", [RuntimeError("it failed"), KeyboardInterrupt()])
def test_a_failure_in_the_look_leaves_the_look_charged(ledger, monkeypatch, tmp_path, error) -> None:
    """The release is not charged, no folder appears, the error says so, and the id draws nothing again."""

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(door, "looked", fail)
        with pytest.raises(type(error)) as caught:
            ddpmi.release(ddpmi.observe(data()), AUTO, ledger=ledger, to=tmp_path / "out", release_id="monday")
    assert "charged for the look alone" in caught.value.__notes__[0]
    assert states(ledger) == ["abandoned"]
    with pytest.raises(ReleaseError, match="Only the look"):
        ddpmi.release(ddpmi.observe(data()), AUTO, ledger=ledger, to=tmp_path / "out", release_id="monday")
    assert (states(ledger), (tmp_path / "out").exists()) == (["abandoned"], False)


def test_a_failure_after_the_look_leaves_both_charged(ledger, monkeypatch, tmp_path) -> None:
    """As for any release: the charge stays, and no folder appears."""
    monkeypatch.setattr(door, "measure", lambda *_, **__: pytest.fail("stop here"))
    with pytest.raises(BaseException, match="stop here"):
        ddpmi.release(ddpmi.observe(data()), AUTO, ledger=ledger, to=tmp_path / "out")
    assert (states(ledger), (tmp_path / "out").exists()) == (["released", "abandoned"], False)


def test_another_process_may_spend_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the budget has gone after the look the release is refused, and never drawn."""
    ledger = Ledger(tmp_path / "test.ledger", limit=Budget(4, 1e-5))
    obs = ddpmi.observe(data())
    drawn = door.looked

    def spends(*given: object, **more: object) -> object:
        other = Ledger(tmp_path / "test.ledger")
        ddpmi.release(ddpmi.observe(data()), Plan(epsilon=2, pairs=2), ledger=other)
        return drawn(*given, **more)

    monkeypatch.setattr(door, "looked", spends)
    with pytest.raises(BudgetExceeded):
        ddpmi.release(obs, AUTO, ledger=ledger)
    assert states(Ledger(tmp_path / "test.ledger")) == ["released", "released"]


def test_a_retry_returns_the_release(ledger: Ledger, tmp_path: Path) -> None:
    """The same id with the same declaration returns what is stored; with another one it is refused."""
    obs, to = ddpmi.observe(data()), tmp_path / "out"
    first = ddpmi.release(obs, AUTO, ledger=ledger, to=to, release_id="monday")
    again = ddpmi.release(obs, AUTO, ledger=ledger, to=to, release_id="monday")
    assert (again.receipt, states(ledger)) == (first.receipt, ["released", "released"])
    for plan in (AutoPlan.of(epsilon=3, delta=1e-5), Plan(epsilon=4, delta=1e-5, pairs=2)):
        with pytest.raises(LedgerError, match="another plan"):
            ddpmi.release(obs, plan, ledger=ledger, to=to, release_id="monday")
    assert len(states(ledger)) == 2


def test_an_id_of_a_plain_release_is_not_looked_at_again(ledger: Ledger, tmp_path: Path) -> None:
    """An id that was charged without a look is refused for a release with one."""
    obs, to = ddpmi.observe(data()), tmp_path / "out"
    ddpmi.release(obs, Plan(epsilon=4, delta=1e-5, pairs=2), ledger=ledger, to=to, release_id="monday")
    with pytest.raises(LedgerError, match="another plan"):
        ddpmi.release(obs, AUTO, ledger=ledger, to=to, release_id="monday")
    assert states(ledger) == ["released"]


def test_nearly_no_units_stop_after_the_look(ledger: Ledger, tmp_path: Path) -> None:
    """Where nothing would show the second charge is not made, and the message says so.

    Of looks at two units more than nine tenths stop. That twenty of them go on has a probability below 1e-20.
    """
    few = ddpmi.observe(table([("a", "x", "l"), ("b", "y", "l")]))
    stopped: list[ReleaseError] = []
    while not stopped and len(states(ledger)) < 40:
        try:
            to = tmp_path / f"out-{len(states(ledger))}"
            ddpmi.release(few, AutoPlan.of(epsilon=1e-3), ledger=ledger, to=to)
        except ReleaseError as error:
            stopped.append(error)
    assert "was not made" in stopped[0].message
    assert "charged for the look alone" in stopped[0].__notes__[0]
    assert (states(ledger)[-1], len(states(ledger)) % 2, to.exists()) == ("released", 1, False)


def test_a_seed_gives_one_label(ledger: Ledger) -> None:
    """With labels from a seed only pairs are looked for."""
    obs = ddpmi.observe(data(), label=None).label_by(feature="common")
    auto = AutoPlan.of(epsilon=4, delta=1e-5, public_labels=("rest", "seed"))
    found = ddpmi.release(obs, auto, ledger=ledger)
    assert (found.receipt["look"]["labels"], found.plan.bounds.labels) == (None, 1)


def test_many_releases_need_known_bounds(ledger: Ledger) -> None:
    """release_many refuses a plan without bounds before anything is charged."""
    with pytest.raises(InputError, match="bounds are known"):
        ddpmi.release_many(ddpmi.observe(data()), [AUTO], ledger=ledger)  # type: ignore[list-item]
    assert states(ledger) == []


def test_the_rest_runs_everything_after_the_first_step_that_differs() -> None:
    """Steps are shared only up to the first difference: a later one with equal text may read another table."""
    steps = AUTO.steps()
    done = Done(engine=None, steps=tuple(steps), salt="")
    changed = [steps[1], *steps[1:]]
    assert (done.rest(steps), done.rest(changed), done.rest(steps[:2])) == ([], changed, [])


@pytest.mark.parametrize("part", ["epsilon", "scale", "buckets", "pairs", "labels", "digest", "declared"])
def test_an_edited_look_is_refused(ledger: Ledger, tmp_path: Path, part: str) -> None:
    """A receipt whose look does not belong to its plan is not read."""
    ddpmi.release(ddpmi.observe(data(400)), AUTO, ledger=ledger, to=tmp_path / "out")
    file = tmp_path / "out" / "receipt.json"
    receipt = json.loads(file.read_text("utf-8"))
    wrong = {"epsilon": 1, "scale": 1.0, "buckets": [1], "pairs": [1], "labels": None, "digest": "", "declared": {}}
    receipt["look"][part] = wrong[part]
    file.write_text(json.dumps(receipt), "utf-8")
    with pytest.raises(ReleaseError, match="look"):
        Release.load(tmp_path / "out")


def test_a_lone_unit_is_hidden_by_the_look() -> None:
    """Seen or not, a unit alone in its bucket changes the odds by e^epsilon at most: 4,000 draws, epsilon 1/4.

    Clopper-Pearson at 1e-7 on both sides: a false alarm has a probability below 2e-7.
    """
    auto = AutoPlan.of(epsilon=10, delta=1e-4, labels=1)
    rows = [(f"u{n}", f"f{m}", "l") for n in range(5) for m in range(2)]
    lone = [("lone", f"f{m}", "l") for m in range(40)]
    seen = []
    for present in (True, False):
        obs = ddpmi.observe(table(rows + lone * present))
        exact = exact_look(obs, auto, salt=_salt(0), labels=1)["pair_look"]
        assert (exact["06"], exact["01"]) == (int(present), 5)
        with looked(obs, auto, salt=_salt(0)) as found:
            engine, noise, hits = found.done.engine, auto.look_noise, 0
            source = _source(int(present))
            for _ in range(4000 // len(BUCKETS) + 1):
                # Each bucket becomes the lone unit's, so that one draw of a histogram counts as many.
                sql = "SELECT b.bucket, j.sum FROM look_buckets AS b, (SELECT sum FROM pair_look WHERE bucket = '06') AS j"
                engine.draw("many", sql, ["bucket"], noise, source)
                sums = [row for batch in engine.batches("SELECT sum FROM many") for row in batch.column(0).to_pylist()]
                hits += sum(value >= 1 for value in sums)
        seen.append((hits, (4000 // len(BUCKETS) + 1) * len(BUCKETS)))
    (with_, trials), (without, _) = seen
    low = stats.beta.ppf(1e-7, with_, trials - with_ + 1)
    high = stats.beta.ppf(1 - 1e-7, without + 1, trials - without)
    assert low <= math.exp(0.25) * high
    assert (with_ > without, trials) == (True, 4011)


def test_of_two_releases_at_a_time_one_is_refused_before_its_second_charge(tmp_path: Path) -> None:
    """Two threads with budget for one: the limit holds, no release is without its look, and at most one comes out."""
    path = tmp_path / "test.ledger"
    Ledger(path, limit=Budget(5, 1e-5))
    ended: list[Release | BudgetExceeded] = []

    def one() -> None:
        try:
            ended.append(ddpmi.release(ddpmi.observe(data(400)), AUTO, ledger=path))
        except BudgetExceeded as error:
            ended.append(error)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    charged = [entry.release_id for entry in Ledger(path).status().entries]
    assert len(ended) == 2
    assert len([found for found in ended if isinstance(found, Release)]) == 1
    for place, name in enumerate(charged):
        assert name.endswith(".look") or f"{name}.look" in charged[:place]
    assert Ledger(path).status().spent.epsilon <= 5
    Ledger(path).verify()


@pytest.mark.parametrize("stop", ["before the look is read", "after the look", "before the release is drawn"])
def test_a_killed_process_leaves_what_it_charged(tmp_path: Path, stop: str) -> None:
    """Killed anywhere, the look is charged before rows are read, the release only after it, and no folder appears."""
    code = KILLED.replace("STOP", stop).replace("PLACE", str(tmp_path))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 9, ran.stderr
    found = Ledger(tmp_path / "a.ledger").status().entries
    names = [entry.release_id for entry in found]
    assert names == (["monday.look", "monday"] if "drawn" in stop else ["monday.look"])
    assert {entry.state for entry in found} <= {"charged", "released"}
    assert not (tmp_path / "out").exists()
    with pytest.raises(ReleaseError):
        ddpmi.release(
            ddpmi.observe(data(400)), AUTO, ledger=tmp_path / "a.ledger", to=tmp_path / "out", release_id="monday"
        )
    assert [entry.release_id for entry in Ledger(tmp_path / "a.ledger").status().entries] == names


KILLED = """
import os
import ddpmi
from ddpmi import AutoPlan, Budget, Ledger
from ddpmi.curator import door
from tests.support.release_fixtures import two_groups

stop = "STOP"
def die(*given, **more):
    os._exit(9)
if stop == "before the look is read":
    door.looked = die
elif stop == "after the look":
    door._mark_looked = die
else:
    door.measure = die
ledger = Ledger("PLACE/a.ledger", limit=Budget(10, 1e-2))
plan = AutoPlan.of(epsilon=4, delta=1e-5)
ddpmi.release(ddpmi.observe(two_groups(400)), plan, ledger=ledger, to="PLACE/out", release_id="monday")
"""
