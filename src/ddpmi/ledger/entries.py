"""Entries of a ledger: charges, entries and the status of a dataset, as values and as rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from ddpmi.errors import Hint, InputError
from ddpmi.pipeline.bounds import dataset_name
from ddpmi.privacy.accounting import RHO_GRID, Amount, Cost, Total
from ddpmi.privacy.budget import DELTA_GRID, EPSILON_GRID, Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

State = Literal["charged", "released", "abandoned", "expunged"]

_LARGEST_EPSILON = 10**6

CHARGE_COLUMNS = (
    "id",
    "release_id",
    "dataset",
    "mechanism",
    "epsilon",
    "rho",
    "delta",
    "guarantee_epsilon",
    "guarantee_delta",
    "plan_digest",
    "columns_digest",
    "tag",
)
"""The columns of ``charges``, in the order of the file and of the hash chain."""

# entries : (the columns of charges, time, state)
ENTRIES = f"""SELECT {", ".join(f"c.{name}" for name in CHARGE_COLUMNS)}, first.time,
    (SELECT kind FROM events WHERE charge = c.id ORDER BY seq DESC LIMIT 1)
    FROM charges AS c JOIN events AS first ON first.charge = c.id AND first.kind = 'charged'"""


class ChargeFields(TypedDict):
    """The keywords of ``Ledger.charge``."""

    cost: Cost
    guarantee: Budget
    release_id: str
    dataset: str
    mechanism: str
    plan_digest: str
    columns_digest: str
    tag: NotRequired[str]
    folder: NotRequired[str]
    who: NotRequired[str]
    why: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A release for which a ledger is to be charged."""

    cost: Cost
    """What it adds to the cost of its dataset."""
    guarantee: Budget
    """What it promises by itself."""
    release_id: str
    """Its id. A ledger is charged only once for an id."""
    dataset: str
    """The dataset whose budget it spends."""
    mechanism: str
    """The noise, as text."""
    plan_digest: str
    """Digest of its plan."""
    columns_digest: str
    """Digest of its column mapping."""
    tag: str = ""
    """A note of the user."""
    folder: str = ""
    """Where the release is written, as an absolute path; empty for memory."""
    who: str = ""
    """Who asked for it."""
    why: str = ""
    """What it is for."""

    def __post_init__(self) -> None:
        # Only for new charges: entries that were written before this rule are read as they are.
        dataset_name(self.dataset)
        for name in ("release_id", "mechanism", "plan_digest", "columns_digest", "tag", "folder", "who", "why"):
            _check_text(name, getattr(self, name))
        if not self.release_id:
            raise InputError(
                "release_id must not be empty, got release_id=''.",
                hint=Hint(python="release_id='visits-2026'", cli="--release-id visits-2026"),
            )
        # Larger numbers, which no budget has, would not fit the file's integers.
        if self.cost.delta >= 1 or (self.cost.epsilon or 0) > _LARGEST_EPSILON:
            raise InputError(
                f"a release may cost epsilon of at most 1e6 and delta below 1, got {self.cost}.",
                hint=Hint(python="Budget(epsilon=1, delta=1e-7)", cli="--epsilon 1 --delta 1e-7"),
            )

    def row(self, number: int) -> tuple[str | int | None, ...]:
        """Return the row of ``charges`` for the charge with this number."""
        total = Total.of(self.cost)
        return (
            number,
            self.release_id,
            self.dataset,
            self.mechanism,
            total.epsilon,
            total.rho,
            total.delta,
            floor(self.guarantee.epsilon * EPSILON_GRID),
            floor(self.guarantee.delta * DELTA_GRID),
            self.plan_digest,
            self.columns_digest,
            json.dumps([self.tag, self.folder, self.who, self.why]),
        )


DIGESTS: dict[str, str] = {}


def _notes(text: str) -> dict[str, str]:
    found = json.loads(text) if text.startswith("[") else [text, "", "", ""]
    return dict(zip(("tag", "folder", "who", "why"), found, strict=True))


def budget_of(epsilon: int, delta: int) -> Budget:
    """Read a budget from grid units.

    >>> budget_of(10**12, 10**11)
    Budget(epsilon=1, delta=1e-07)
    """
    return Budget(Fraction(epsilon, EPSILON_GRID), Fraction(delta, DELTA_GRID))


def _check_text(name: str, text: object) -> None:
    """Refuse text that SQLite could not store and return unchanged."""
    if not isinstance(text, str) or "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InputError(f"{name} must be plain text, got {name}={text!r}.", hint=Hint.setting(name, "visits-2026"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One charge in the ledger."""

    id: int
    """Its place in the file, from 1."""
    release_id: str
    """The release it is for."""
    dataset: str
    """The dataset whose budget it spent."""
    time: str
    """When it was charged, in UTC; shown, never compared."""
    state: State
    """Whether the release was published, abandoned, or removed later, as far as is known. In each state it is spent."""
    mechanism: str
    """The noise, as text."""
    guarantee: Budget
    """What the release promises by itself."""
    cost: Cost
    """What it added to the cost of its dataset, rounded up."""
    plan_digest: str
    """Digest of its plan."""
    columns_digest: str
    """Digest of its column mapping."""
    tag: str
    """A note of the user."""
    folder: str = ""
    """Where the release was written."""
    who: str = ""
    """Who asked for it."""
    why: str = ""
    """What it is for."""
    receipt_digest: str | None = None
    """Digest of its receipt."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Entry:
        """Read a row of ``ENTRIES``."""
        columns = dict(zip(CHARGE_COLUMNS, row, strict=False))
        epsilon = columns["epsilon"]
        return cls(
            id=columns["id"],
            release_id=columns["release_id"],
            dataset=columns["dataset"],
            time=row[-2],
            state=cast("State", row[-1]),
            mechanism=columns["mechanism"],
            guarantee=budget_of(columns["guarantee_epsilon"], columns["guarantee_delta"]),
            cost=Cost(
                epsilon=None if epsilon is None else Fraction(epsilon, EPSILON_GRID),
                rho=Fraction(columns["rho"], RHO_GRID),
                delta=Fraction(columns["delta"], DELTA_GRID),
            ),
            plan_digest=columns["plan_digest"],
            columns_digest=columns["columns_digest"],
            **_notes(columns["tag"]),
            receipt_digest=DIGESTS.get(columns["release_id"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as ``ddpmi ledger show`` prints it in JSON."""
        return {
            "id": self.id,
            "release_id": self.release_id,
            "time": self.time,
            "state": self.state,
            "mechanism": self.mechanism,
            **self.guarantee.to_dict(),
            "rho": float(self.cost.rho),
            "tag": self.tag,
            "who": self.who,
            "why": self.why,
            "plan_digest": self.plan_digest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What one dataset may spend, has spent and has left."""

    dataset: str
    """The dataset's name."""
    limit: Budget
    """The limit of the ledger, for each dataset in it."""
    spent: Amount
    """The guarantee of all its releases together."""
    left: Amount
    """Limit minus spent. Costs add up more slowly than epsilons, so a release that needs more than this may still fit."""
    entries: tuple[Entry, ...]
    """Its charges, oldest first."""

    def to_dict(self) -> dict[str, Any]:
        """Return the status as ``ddpmi ledger show`` prints it in JSON."""
        return {
            "dataset": self.dataset,
            "limit": self.limit.to_dict(),
            "spent": self.spent.to_dict(),
            "left": self.left.to_dict(),
            "entries": [entry.to_dict() for entry in self.entries],
        }
