"""A ledger never exceeds its limit, never forgets, and never opens what it cannot trust."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import stat
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ddpmi.errors import BudgetExceeded, InputError, LedgerError
from ddpmi.ledger import storage
from ddpmi.ledger.ledger import Charge, Ledger
from ddpmi.privacy.accounting import RHO_GRID, Cost, Limit
from ddpmi.privacy.budget import Budget
from tests.support.ledger_fixtures import gaussian, laplace


def test_a_missing_file_is_refused_and_not_made(path: Path) -> None:
    """Without a limit nothing is created, and the hint says how to."""
    with pytest.raises(LedgerError, match="does not exist") as caught:
        Ledger(path)
    assert "ddpmi ledger create" in str(caught.value)
    assert not path.exists()


def test_a_limit_creates_and_reopens(path: Path) -> None:
    """The same limit opens the file again, whichever way it is written; another one is refused."""
    Ledger(path, limit=Budget(4, 1e-6))
    assert Ledger(path, limit=Budget("4", Fraction(1, 10**6))).limit == Ledger(str(path)).limit == Budget(4, 1e-6)
    with pytest.raises(LedgerError, match="has limit"):
        Ledger(path, limit=Budget(5, 1e-6))
    with pytest.raises(InputError, match="Budget"):
        Ledger(path, limit=4)  # type: ignore[arg-type]


def test_a_new_ledger_is_private_to_its_owner(path: Path) -> None:
    """The file has mode 0600, and nothing else stays in its folder."""
    Ledger(path, limit=Budget(1)).charge_many([laplace("a")])
    assert sorted(path.parent.iterdir()) == [path, path.with_name("visits.ledger.head")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_creation_needs_its_folder(path: Path) -> None:
    """A missing folder is an error with a hint, not a new folder."""
    with pytest.raises(LedgerError, match="folder does not exist"):
        Ledger(path.parent / "no" / "visits.ledger", limit=Budget(1))


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000])
def test_impossible_paths_are_ledger_errors(tmp_path: Path, name: str) -> None:
    """Paths that the system itself refuses do not end in its own exception."""
    with pytest.raises(LedgerError, match="cannot be read"):
        Ledger(tmp_path / name)
    with pytest.raises(LedgerError, match="cannot be created"):
        Ledger(tmp_path / name, limit=Budget(1))


def test_creation_leaves_nothing_half_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When filling or naming the file fails, no ledger and no other file appears."""

    def no_link(*_: Any) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(LedgerError, match="cannot be created"):
        Ledger(path, limit=Budget(1))
    monkeypatch.setattr(storage, "schema", lambda: "CREATE TABLE broken")
    with pytest.raises(LedgerError, match="cannot be created"):
        Ledger(path, limit=Budget(1))
    assert not list(path.parent.iterdir())


def test_the_faster_creator_wins(path: Path) -> None:
    """Creating over an existing ledger leaves that ledger as it is."""
    ledger = Ledger(path, limit=Budget(1))
    ledger.charge_many([laplace("a")])
    storage.create(path, Limit.of(Budget(9)))
    slower = path.with_name("slower")
    storage.create(slower, Limit.of(Budget(9)))
    storage._publish(slower, path)
    assert Ledger(path).limit == Budget(1)
    assert ledger.find("a") is not None


def test_status_is_the_json_of_the_contract(path: Path) -> None:
    """Names, order and numbers are those of the interface."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    ledger.charge_many([laplace("a", "0.5", delta=Fraction(1, 10**8))])
    ledger.mark("a", "released")
    status = ledger.status().to_dict()
    (entry,) = status.pop("entries")
    assert status == {
        "dataset": "default",
        "limit": {"epsilon": 4.0, "delta": 1e-6},
        "spent": {"epsilon": 0.5, "delta": 5e-9},
        "left": {"epsilon": 3.5, "delta": 9.95e-7},
    }
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "id": 1,
        "release_id": "a",
        "state": "released",
        "mechanism": "laplace",
        "epsilon": 0.5,
        "delta": 1e-8,
        "rho": 0.125,
        "tag": "",
        "who": "",
        "why": "",
        "folder": "",
        "receipt_digest": None,
        "plan_digest": "plan",
    }
    assert json.loads(json.dumps(status)) == status


def test_an_entry_is_given_back_as_it_was_charged(path: Path) -> None:
    """Find and charge return the same entry, with exact cost and guarantee."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    asked = gaussian("Ж'; DROP TABLE charges; --", 1, 1e-7)
    entry = ledger.charge(
        cost=asked.cost,
        guarantee=asked.guarantee,
        release_id=asked.release_id,
        dataset=asked.dataset,
        mechanism=asked.mechanism,
        plan_digest=asked.plan_digest,
        columns_digest=asked.columns_digest,
        tag=asked.tag,
    )
    assert entry == ledger.find(asked.release_id) == ledger.status().entries[0]
    assert (entry.cost, entry.guarantee, entry.tag) == (asked.cost, asked.guarantee, "weekly")
    assert ledger.find("other") is None


def test_a_thousand_tenths_end_exactly_at_a_hundred(path: Path) -> None:
    """No digit is lost on the way, and the next tenth is refused."""
    ledger = Ledger(path, limit=Budget(100))
    for hundred in range(10):
        ledger.charge_many([laplace(f"{hundred}-{number}", 0.1) for number in range(100)])
    assert ledger.status().to_dict()["spent"] == {"epsilon": 100.0, "delta": 0.0}
    assert ledger.status().left.epsilon == 0
    with pytest.raises(BudgetExceeded):
        ledger.charge_many([laplace("one more", "1e-9")])
    assert len(ledger.status().entries) == 1000
    ledger.verify()


@pytest.mark.parametrize("charge", [laplace("a", 4, delta=Fraction(1, 10**6)), gaussian("a", 4, 1e-6)])
def test_the_whole_limit_may_be_spent_at_once(path: Path, charge: Charge) -> None:
    """A release as large as the limit fits an empty ledger, and the smallest one after it does not."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    ledger.charge_many([charge])
    with pytest.raises(BudgetExceeded):
        ledger.charge_many([laplace("b", "1e-9", delta=Fraction(2, 10**18))])
    assert ledger.status().spent.epsilon <= 4


def test_the_refusal_says_what_is_needed_and_what_is_left(path: Path) -> None:
    """The message has both pairs of numbers, the file's name, and a way out; nothing is written."""
    ledger = Ledger(path, limit=Budget(1, 1e-6))
    ledger.charge_many([laplace("a", "0.75", delta=Fraction(1, 10**7))])
    before = path.read_bytes()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge_many([laplace("b", 1, delta=Fraction(1, 10**7))])
    assert caught.value.message == (
        "this release needs epsilon=1, delta=1e-07; visits.ledger has epsilon=0.25, delta=9e-07 left."
    )
    assert "ddpmi ledger show" in str(caught.value.hint)
    assert path.read_bytes() == before


def test_many_are_charged_together_or_not_at_all(path: Path) -> None:
    """Three that do not fit together leave no trace, though each would fit alone."""
    ledger = Ledger(path, limit=Budget(1))
    with pytest.raises(BudgetExceeded, match=r"these 3 releases need epsilon=1\.2"):
        ledger.charge_many([laplace(name, "0.4") for name in "abc"])
    with pytest.raises(LedgerError, match="already charged"):
        ledger.charge_many([laplace("a", "0.1"), laplace("a", "0.1")])
    assert ledger.status().entries == ()
    entries = ledger.charge_many([laplace("b", "0.4"), laplace("a", "0.4")])
    assert [(entry.id, entry.release_id) for entry in entries] == [(1, "b"), (2, "a")]
    assert ledger.charge_many([]) == []


@pytest.mark.parametrize("name", ["default ", "de\u200bfault", "Zu\u0308rich"])
def test_names_that_look_alike_are_no_second_budget(path: Path, name: str) -> None:
    """The ledger itself refuses them, where a charge is made and where a dataset is asked for."""
    ledger = Ledger(path, limit=Budget(1))
    with pytest.raises(InputError, match="dataset must be a name"):
        laplace("a", dataset=name)
    with pytest.raises(InputError, match="dataset must be a name"):
        ledger.status(name)
    assert ledger.datasets() == []


def test_old_names_that_look_alike_are_still_shown(path: Path) -> None:
    """A ledger from before this rule opens, verifies, and shows what each of its names spent; nothing is added."""
    ledger = Ledger(path, limit=Budget(1))
    old = laplace("a")
    object.__setattr__(old, "dataset", "default ")
    ledger.charge_many([old])
    again = Ledger(path)
    again.verify()
    assert again.datasets() == ["default "]
    assert [entry.release_id for entry in again.status("default ").entries] == ["a"]
    assert (again.find("a"), again.status().entries) == (again.status("default ").entries[0], ())


def test_each_dataset_has_the_whole_limit(path: Path) -> None:
    """Datasets of one file do not share, and an unknown one has spent nothing."""
    ledger = Ledger(path, limit=Budget(1))
    ledger.charge_many([laplace("a", 1, dataset="west"), laplace("b", 1, dataset="east")])
    with pytest.raises(BudgetExceeded):
        ledger.charge_many([laplace("c", "0.1", dataset="south"), laplace("d", "0.1", dataset="west")])
    assert ledger.datasets() == ["west", "east"]
    assert ledger.status("west").left.epsilon == 0
    assert ledger.status("south").to_dict()["spent"] == {"epsilon": 0.0, "delta": 0.0}


def test_a_release_is_charged_once(path: Path) -> None:
    """An id that exists is refused for every cost, dataset and state."""
    ledger = Ledger(path, limit=Budget(1))
    ledger.charge_many([laplace("a", "0.1")])
    for again in (laplace("a", "0.1"), laplace("a", "0.2", dataset="other"), laplace("a", 5)):
        with pytest.raises(LedgerError, match="already charged"):
            ledger.charge_many([again])
    ledger.mark("a", "abandoned")
    with pytest.raises(LedgerError, match="already charged"):
        ledger.charge_many([laplace("a", "0.1")])


def test_marks_are_final_and_refund_nothing(path: Path) -> None:
    """A release ends once; ending it again the same way is harmless, another way is refused."""
    ledger = Ledger(path, limit=Budget(1))
    ledger.charge_many([laplace("a", "0.5"), laplace("b", "0.5")])
    assert ledger.mark("a", "abandoned").state == ledger.mark("a", "abandoned").state == "abandoned"
    assert ledger.mark("b", "released").state == "released"
    with pytest.raises(LedgerError, match="already abandoned"):
        ledger.mark("a", "released")
    with pytest.raises(LedgerError, match="never charged"):
        ledger.mark("c", "released")
    with pytest.raises(InputError, match="state"):
        ledger.mark("a", "refunded")  # type: ignore[arg-type]
    assert ledger.status().left.epsilon == 0
    assert len(ledger.export()) == 5


@pytest.mark.parametrize("text", ["", "a\0b", "\ud800", None, 7])
def test_names_are_plain_text(text: Any) -> None:
    """What SQLite would not give back unchanged is refused before it is charged."""
    with pytest.raises(InputError, match="release_id"):
        laplace(text)


def test_a_charge_fits_the_files_integers() -> None:
    """A cost beyond every budget is refused before it is charged."""
    with pytest.raises(InputError, match="at most 1e6"):
        Charge(**{**fields(laplace("a")), "cost": Cost.of_laplace([10**7])})
    with pytest.raises(InputError, match="delta below 1"):
        Charge(**{**fields(laplace("a")), "cost": Cost.of_gaussian(1, 1)})


def fields(charge: Charge) -> dict[str, Any]:
    """The keywords that make a charge."""
    return {name: getattr(charge, name) for name in Charge.__dataclass_fields__}


def test_a_clock_that_runs_back_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, states and sums follow the sequence, not the time."""
    ledger = Ledger(path, limit=Budget(1))
    times = iter(["2030-01-01T00:00:00+00:00", "1999-01-01T00:00:00+00:00", "1970-01-01T00:00:00+00:00"])
    monkeypatch.setattr("ddpmi.ledger.ledger.now", lambda: next(times))
    ledger.charge_many([laplace("a"), laplace("b")])
    ledger.mark("a", "released")
    states = [(entry.release_id, entry.state) for entry in ledger.status().entries]
    assert states == [("a", "released"), ("b", "charged")]
    Ledger(path).verify()


def test_huge_rhos_do_not_overflow(path: Path) -> None:
    """Large pure releases add up by epsilon although their rhos exceed the file's integers."""
    ledger = Ledger(path, limit=Budget(10**6, 0.1))
    ledger.charge_many([laplace(str(number), 10**5) for number in range(10)])
    with pytest.raises(BudgetExceeded):
        ledger.charge_many([laplace("more", 1)])
    ledger.verify()
    assert ledger.status().spent.epsilon == 10**6


def test_a_ledger_travels_between_processes(path: Path) -> None:
    """It holds no connection, so it can be pickled and copied."""
    ledger = Ledger(path, limit=Budget(1))
    for twin in (pickle.loads(pickle.dumps(ledger)), copy.deepcopy(ledger)):
        twin.charge_many([laplace(str(id(twin)), "0.5")])
    assert ledger.status().left.epsilon == 0
    assert repr(ledger) == f"Ledger({str(path)!r}, limit=Budget(epsilon=1, delta=0))"


def test_export_is_enough_to_recompute_the_chain(path: Path) -> None:
    """Anyone can check the file's history with sha256 alone."""
    ledger = Ledger(path, limit=Budget(4, 1e-6))
    ledger.charge_many([gaussian("a", 1, 1e-7)])
    ledger.mark("a", "released")
    previous = ""
    for event in json.loads(json.dumps(ledger.export())):
        row = [event["seq"], event["kind"], event["charge"], event["time"], *event["row"].values()]
        text = json.dumps(row, separators=(",", ":"))
        previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        assert previous == event["hash"]


class LedgerMachine(RuleBasedStateMachine):
    """Any order of charges, marks and reopenings against a model in exact fractions."""

    @initialize(epsilon=st.sampled_from(["0.5", "1", "4"]), delta=st.sampled_from(["0", "1e-8", "1e-6"]))
    def create(self, epsilon: str, delta: str) -> None:
        """Start with an empty file."""
        self.folder = tempfile.TemporaryDirectory()
        self.limit = Budget(epsilon, delta)
        self.ledger = Ledger(Path(self.folder.name) / "a.ledger", limit=self.limit)
        self.rho_limit = Fraction(Limit.of(self.limit).rho, RHO_GRID)
        self.kept: dict[str, list[Charge]] = {}
        self.states: dict[str, str] = {}

    def fits(self, charges: list[Charge]) -> bool:
        """The rule, in fractions that are on the grid."""
        cost = sum((charge.cost for charge in charges), Cost.of_laplace([]))
        pure = cost.epsilon is not None and cost.epsilon <= self.limit.epsilon
        return cost.delta <= self.limit.delta / 2 and (cost.rho <= self.rho_limit or pure)

    def attempt(self, charges: list[Charge]) -> None:
        """Charge, and see the model agree."""
        dataset = charges[0].dataset
        wanted = self.kept.get(dataset, []) + charges
        if self.fits(wanted):
            entries = self.ledger.charge_many(charges)
            assert [charge.cost for charge in charges] == [entry.cost for entry in entries]
            self.kept[dataset] = wanted
            self.states.update({charge.release_id: "charged" for charge in charges})
        else:
            with pytest.raises(BudgetExceeded):
                self.ledger.charge_many(charges)

    @rule(
        epsilons=st.lists(st.integers(1, 400), min_size=1, max_size=3),
        delta=st.integers(0, 50),
        dataset=st.sampled_from(["east", "west"]),
    )
    def charge_laplace(self, epsilons: list[int], delta: int, dataset: str) -> None:
        """One or several pure releases."""
        first = len(self.states)
        self.attempt(
            [
                laplace(f"{first}-{n}", Fraction(e, 1000), delta=Fraction(delta, 10**9), dataset=dataset)
                for n, e in enumerate(epsilons)
            ]
        )

    @rule(epsilon=st.integers(1, 400), digits=st.integers(6, 9), dataset=st.sampled_from(["east", "west"]))
    def charge_gaussian(self, epsilon: int, digits: int, dataset: str) -> None:
        """One concentrated release."""
        charge = gaussian(f"g{len(self.states)}", Fraction(epsilon, 100), Fraction(1, 10**digits), dataset=dataset)
        self.attempt([charge])

    @rule(pick=st.integers(0, 10**6), state=st.sampled_from(["released", "abandoned"]))
    def end(self, pick: int, state: Any) -> None:
        """End some release, once."""
        if not self.states:
            return
        name = sorted(self.states)[pick % len(self.states)]
        if self.states[name] in {"charged", state}:
            assert self.ledger.mark(name, state).state == state
            self.states[name] = state
        else:
            with pytest.raises(LedgerError):
                self.ledger.mark(name, state)

    @rule()
    def reopen(self) -> None:
        """Forget everything but the file."""
        self.ledger = Ledger(self.ledger.path, limit=self.limit)

    @invariant()
    def holds(self) -> None:
        """The file says what the model says, and never more than the limit."""
        for dataset in ("east", "west"):
            status = self.ledger.status(dataset)
            names = [charge.release_id for charge in self.kept.get(dataset, [])]
            assert [(entry.release_id, entry.state) for entry in status.entries] == [
                (name, self.states[name]) for name in names
            ]
            assert status.spent.epsilon + status.left.epsilon == self.limit.epsilon
            assert status.spent.delta + status.left.delta == self.limit.delta

    def teardown(self) -> None:
        """The whole file still holds."""
        if hasattr(self, "ledger"):
            self.ledger.verify()
            self.folder.cleanup()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
