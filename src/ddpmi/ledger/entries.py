"""Entries of a ledger: charges, entries and the status of a dataset, as values and as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from ddpmi.errors import Hint, InputError
from ddpmi.pipeline.bounds import dataset_name
from ddpmi.privacy.accounting import RHO_GRID, Amount, Cost, Total
from ddpmi.privacy.budget import DELTA_GRID, EPSILON_GRID, Budget, shortest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpmi._typing import Number

State = Literal["charged", "released", "abandoned", "expunged"]

_LARGEST_EPSILON = 10**6
_LONGEST_TEXT = 4096

HALF_OF_DELTA = (
    "Half of the limit's delta goes at the first release that is counted in rho, as all with Gaussian noise are: "
    "it turns the rho of all releases into one epsilon, once. The other half is for thresholds."
)
"""Why half of delta is gone after one release."""

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
ORIGIN_COLUMNS = ("folder", "who", "why")
"""The columns of ``charges`` that follow since schema 3. They are NULL in older rows, and hashed where they are not."""
TERMS_COLUMNS = ("datasets", "max_epsilon")
"""The columns of ``limits`` that follow since schema 3. They are NULL where nothing is asked, and hashed where they are not."""

# entries : (the columns of charges, time, receipt_digest, state)
ENTRIES = f"""SELECT {", ".join(f"c.{name}" for name in (*CHARGE_COLUMNS, *ORIGIN_COLUMNS))}, first.time,
    (SELECT receipt_digest FROM events WHERE charge = c.id AND kind = 'released'),
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
class Terms:
    r"""What a ledger asks of each charge beside its limit. It is given at creation and never changes.

    >>> Terms(datasets=("visits", "orders")).row()
    ('visits\norders', None)
    """

    datasets: tuple[str, ...] | None = None
    """The only datasets it accepts; None accepts every name."""
    max_epsilon: Fraction | None = None
    """The largest epsilon of one release; None asks nothing."""

    @classmethod
    def of(cls, datasets: Iterable[str] | None, max_epsilon: Number | None) -> Terms:
        """Check the terms that a user gave.

        Raises:
            InputError: A dataset can have no such name, or the epsilon is no number from 1e-9 to 1e6.
        """
        names = None if datasets is None else _dataset_names(datasets)
        return cls(datasets=names, max_epsilon=None if max_epsilon is None else _largest(max_epsilon))

    @classmethod
    def from_row(cls, datasets: str | None, max_epsilon: int | None) -> Terms:
        """Read the columns of ``limits``."""
        return cls(
            datasets=None if datasets is None else tuple(datasets.split("\n")),
            max_epsilon=None if max_epsilon is None else Fraction(max_epsilon, EPSILON_GRID),
        )

    def row(self) -> tuple[str | None, int | None]:
        """Return the columns of ``limits``."""
        return (
            None if self.datasets is None else "\n".join(self.datasets),
            None if self.max_epsilon is None else floor(self.max_epsilon * EPSILON_GRID),
        )


def _dataset_names(names: Iterable[str]) -> tuple[str, ...]:
    hint = Hint(python="datasets=['visits', 'orders']", cli="--datasets visits,orders")
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InputError(f"datasets must be a list of names, got datasets={names!r}.", hint=hint)
    listed = tuple(dict.fromkeys(dataset_name(name) for name in names))
    if not listed:
        raise InputError("datasets must name at least one dataset, got none.", hint=hint)
    return listed


def _largest(epsilon: Number) -> Fraction:
    try:
        return Budget(epsilon).epsilon
    except InputError as error:
        hint = Hint.setting("max_epsilon", 1)
        raise InputError(error.message.replace("epsilon", "max_epsilon"), hint=hint) from None


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
    """Where the release is written, as an absolute path; empty in memory."""
    who: str = ""
    """Who asked for it."""
    why: str = ""
    """What it is for."""

    def __post_init__(self) -> None:
        # Only for new charges: entries that were written before this rule are read as they are.
        dataset_name(self.dataset)
        for name in ("release_id", "mechanism", "plan_digest", "columns_digest", "tag", *ORIGIN_COLUMNS):
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
            self.tag,
            self.folder,
            self.who,
            self.why,
        )


def budget_of(epsilon: int, delta: int) -> Budget:
    """Read a budget from grid units.

    >>> budget_of(10**12, 10**11)
    Budget(epsilon=1, delta=1e-07)
    """
    return Budget(Fraction(epsilon, EPSILON_GRID), Fraction(delta, DELTA_GRID))


def _check_text(name: str, text: object) -> None:
    """Refuse text that SQLite could not store and return unchanged, and text longer than a path may be."""
    if not isinstance(text, str) or "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InputError(f"{name} must be plain text, got {name}={text!r}.", hint=Hint.setting(name, "visits-2026"))
    if len(text) > _LONGEST_TEXT:
        raise InputError(
            f"{name} must have at most {_LONGEST_TEXT} characters, got {len(text)}.", hint="say it in fewer words"
        )


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
    folder: str
    """Where the release is written, as an absolute path; empty in memory and for charges before schema 3."""
    who: str
    """Who asked for it."""
    why: str
    """What it is for."""
    receipt_digest: str | None
    """The sha256 of its receipt, in hex; None where it was not recorded."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Entry:
        """Read a row of ``ENTRIES``."""
        columns = dict(zip((*CHARGE_COLUMNS, *ORIGIN_COLUMNS), row, strict=False))
        epsilon = columns["epsilon"]
        return cls(
            id=columns["id"],
            release_id=columns["release_id"],
            dataset=columns["dataset"],
            time=row[-3],
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
            tag=columns["tag"],
            folder=columns["folder"] or "",
            who=columns["who"] or "",
            why=columns["why"] or "",
            receipt_digest=row[-2],
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
            "folder": self.folder,
            "receipt_digest": self.receipt_digest,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """How large each of several further releases may be."""

    dataset: str
    """The dataset's name."""
    releases: int
    """How many releases."""
    delta: Fraction
    """The delta of each."""
    laplace: Fraction
    """The largest epsilon of each with Laplace noise, for every division of the budget among tables; 0 if none fits."""
    gaussian: Fraction
    """The largest epsilon of each with Gaussian noise; 0 if none fits."""

    def to_dict(self) -> dict[str, Any]:
        """Return the outlook as ``ddpmi ledger plan`` prints it in JSON. Floats are rounded down."""
        return {
            "dataset": self.dataset,
            "releases": self.releases,
            "delta": float(rounded_down(self.delta)),
            "epsilon": {
                "laplace": float(rounded_down(self.laplace)),
                "gaussian": float(rounded_down(self.gaussian)),
            },
        }


def rounded_down(value: Fraction) -> str:
    """Print six digits, rounded down: never more than is left.

    >>> rounded_down(Fraction(2, 3))
    '0.666666'
    """
    context = Context(prec=6, rounding=ROUND_DOWN)
    return shortest(Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator))))
