"""A ledger: the durable record of the budget spent, one SQLite file that only grows.

A release is checked and charged, durably, before a row is read. After a crash the budget stays spent: nothing is
refunded. Processes that charge at the same time cannot overspend together.
"""

from __future__ import annotations

from contextlib import contextmanager
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ddpmi.errors import BudgetExceeded, Hint, InputError, LedgerError
from ddpmi.ledger.entries import CHARGE_COLUMNS, DIGESTS, ENTRIES, Charge, ChargeFields, Entry, State, Status, budget_of
from ddpmi.ledger.storage import (
    SCHEMA_VERSION,
    TOTALS,
    chained,
    create,
    damaged,
    expected_schema,
    now,
    opened,
    schema_of,
    upgrade,
    version_of,
)
from ddpmi.pipeline.bounds import dataset_name
from ddpmi.privacy.accounting import Amount, Cost, Limit, Total, admits, room, spent
from ddpmi.privacy.budget import Budget, shortest

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Charge", "Entry", "Ledger", "Status", "upgrade_ledger"]

_NOTHING = Cost.of_laplace([])
#: New state -> states that it may follow. After a crash a published release may still be "charged".
_BEFORE: dict[str, tuple[State, ...]] = {
    "released": ("charged",),
    "abandoned": ("charged",),
    "expunged": ("charged", "released"),
}


class Ledger:
    """A ledger file, with one limit for each dataset in it.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/visits.ledger", limit=Budget(1))
    >>> cost = Cost.of_laplace(["0.25"])
    >>> names = {"dataset": "default", "mechanism": "laplace", "plan_digest": "", "columns_digest": ""}
    >>> ledger.charge(cost=cost, guarantee=Budget(0.25), release_id="monday", **names).state
    'charged'
    >>> ledger.mark("monday", "released").state
    'released'
    >>> ledger.status().left.to_dict()
    {'epsilon': 0.75, 'delta': 0.0}
    >>> ledger.verify()
    >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], limit: Budget | None = None, *, expect_head: str | None = None
    ) -> None:
        """Open a ledger, or create it where a limit is given and the file is missing.

        Args:
            path: The file.
            limit: The limit of a new ledger; an existing one must have exactly this limit.
            expect_head: A line of ``ddpmi ledger head`` that the ledger must contain.

        Raises:
            LedgerError: The file is missing (without a limit), foreign, damaged, or has another limit.
            InputError: The limit is not a Budget.
        """
        self.path = Path(path)
        if limit is not None and not isinstance(limit, Budget):
            raise InputError(
                f"limit must be a Budget, got limit={limit!r}.",
                hint=Hint(python="limit=Budget(4, 1e-6)", cli="--epsilon 4 --delta 1e-6"),
            )
        if limit is not None:
            create(self.path, Limit.of(limit))
        with opened(self.path) as connection:
            self._limit = _read_limit(self.path, connection)
            _check_rows(self.path, connection, self._limit)
            self._seen = _last_event(connection)
            if expect_head is not None and not any(e["hash"].startswith(expect_head) for e in self.export()):
                raise LedgerError(f"{path} does not contain the head {expect_head!r}.", hint="use the newest copy")
        self.limit = budget_of(self._limit.epsilon, 2 * self._limit.delta)
        if limit is not None and limit != self.limit:
            raise LedgerError(
                f"{path} has limit {self.limit}, got limit {limit}.",
                hint=f"open it as it is with Ledger({str(path)!r}); a limit never changes.",
            )

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, limit={self.limit})"

    def charge(self, **fields: Unpack[ChargeFields]) -> Entry:
        """Charge one release, durably, before any row is read.

        Args:
            **fields: The fields of ``Charge``.

        Returns:
            The entry, safe on disk.

        Raises:
            BudgetExceeded: It does not fit; nothing is written.
            LedgerError: The release id was charged before, or the file cannot be used.
        """
        return self.charge_many([Charge(**fields)])[0]

    def charge_many(self, charges: Iterable[Charge]) -> list[Entry]:
        """Charge several releases, all or none.

        Args:
            charges: The releases.

        Returns:
            Their entries, in the same order.

        Raises:
            BudgetExceeded: Together they do not fit; nothing is written.
            LedgerError: A release id was charged before, or the file cannot be used.
        """
        charges = list(charges)
        with self._open(write=True) as connection:
            self._check_new(connection, charges)
            for dataset in dict.fromkeys(charge.dataset for charge in charges):
                self._check_fits(connection, [charge for charge in charges if charge.dataset == dataset])
            for charge in charges:
                _write_charge(connection, charge)
            return [self._entry(connection, charge.release_id) for charge in charges]

    def mark(
        self,
        release_id: str,
        state: Literal["released", "abandoned", "expunged"],
        *,
        receipt_digest: str | None = None,
    ) -> Entry:
        """Record what became of a charged release. Its cost stays spent in every state.

        Args:
            release_id: The release.
            state: Its new state. The same state again changes nothing. An abandoned release is never expunged.
            receipt_digest: Digest of the receipt of a released one.

        Returns:
            The entry.

        Raises:
            LedgerError: The release was never charged, or ended in another state.
        """
        if state not in _BEFORE:
            raise InputError(f"state must be one of {', '.join(_BEFORE)}, got state={state!r}.", hint="'released'")
        with self._open(write=True) as connection:
            entry = self._entry(connection, release_id)
            if entry.state == state:
                return entry
            if entry.state not in _BEFORE[state]:
                raise LedgerError(
                    f"release {release_id!r} is already {entry.state}.",
                    hint="make a new release with a new id.",
                )
            _write_event(connection, state, entry.id)
            if receipt_digest is not None:
                DIGESTS[release_id] = receipt_digest
            return self._entry(connection, release_id)

    def find(self, release_id: str) -> Entry | None:
        """Find the entry of a release.

        Args:
            release_id: The release.

        Returns:
            Its entry, or None if it was never charged here.
        """
        with self._open() as connection:
            rows = _entries(connection, "WHERE c.release_id = ?", release_id)
            return rows[0] if rows else None

    def status(self, dataset: str = "default") -> Status:
        """Report what one dataset has spent and has left.

        Args:
            dataset: Its name; a dataset that was never charged has spent nothing.

        Returns:
            Limit, spent, left and entries, all read at the same time.

        Raises:
            InputError: No dataset can have this name, and none has.
        """
        with self._open() as connection:
            if dataset not in _datasets(connection):
                dataset_name(dataset)
            entries = _entries(connection, "WHERE c.dataset = ? ORDER BY c.id", dataset)
            used = spent(self._limit, _total(connection, dataset))
        left = Amount(
            epsilon=max(Fraction(0), self.limit.epsilon - used.epsilon),
            delta=max(Fraction(0), self.limit.delta - used.delta),
        )
        return Status(dataset=dataset, limit=self.limit, spent=used, left=left, entries=tuple(entries))

    def datasets(self) -> list[str]:
        """List the datasets that were charged, in the order of their first charge."""
        with self._open() as connection:
            return _datasets(connection)

    def verify(self) -> None:
        """Check every page, every hash and every sum of the file.

        Raises:
            LedgerError: Something does not fit; the message says what to do.
        """
        with self._open() as connection:
            _check_rows(self.path, connection, self._limit)

    def export(self) -> list[dict[str, Any]]:
        """List every event with the row it added, in grid units: enough to recompute the hash chain."""
        with self._open() as connection:
            return [
                {"seq": seq, "kind": kind, "charge": charge, "time": time, "hash": digest, "row": dict(row)}
                for (seq, kind, charge, time), digest, row in _events(connection)
            ]

    @contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file and check that it still holds the newest event this object has seen."""
        with opened(self.path, write=write) as connection:
            seq, digest = self._seen
            found = connection.execute("SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone()
            if found != (digest,) or _read_limit(self.path, connection) != self._limit:
                raise damaged(self.path, "an older copy or another ledger was put in its place")
            yield connection
            last = _last_event(connection)
        # After the commit: events that were not committed do not count as seen.
        self._seen = last

    def _entry(self, connection: sqlite3.Connection, release_id: str) -> Entry:
        rows = _entries(connection, "WHERE c.release_id = ?", release_id)
        if not rows:
            raise LedgerError(f"release {release_id!r} was never charged to {self.path}.", hint="charge it first.")
        return rows[0]

    def _check_new(self, connection: sqlite3.Connection, charges: Sequence[Charge]) -> None:
        seen: set[str] = set()
        for charge in charges:
            known = connection.execute("SELECT 1 FROM charges WHERE release_id = ?", (charge.release_id,))
            if charge.release_id in seen or known.fetchone():
                raise LedgerError(
                    f"release {charge.release_id!r} is already charged to {self.path}.",
                    hint=Hint(
                        python="leave release_id out, or give a new one; a release is never drawn twice.",
                        cli="leave --release-id out, or give a new one; a release is never drawn twice.",
                    ),
                )
            seen.add(charge.release_id)

    def _check_fits(self, connection: sqlite3.Connection, charges: Sequence[Charge]) -> None:
        """Refuse the charges of one dataset unless all of them fit together."""
        before = total = _total(connection, charges[0].dataset)
        for charge in charges[:-1]:
            total = total.plus(charge.cost)
        # proof: composition.rule, totals are compared, not increments
        if admits(self._limit, total, charges[-1].cost):
            return
        cost = sum((charge.cost for charge in charges), _NOTHING)
        needs = Amount(
            epsilon=sum((charge.guarantee.epsilon for charge in charges), Fraction(0)),
            delta=sum((charge.guarantee.delta for charge in charges), Fraction(0)),
        )
        left = room(self._limit, before, cost, needs)
        who = "this release needs" if len(charges) == 1 else f"these {len(charges)} releases need"
        raise BudgetExceeded(
            f"{who} epsilon={shortest(needs.epsilon)}, delta={shortest(needs.delta)}; {self.path.name} has "
            f"epsilon={_rounded_down(left.epsilon)}, delta={_rounded_down(left.delta)} left.",
            hint=f"rank an earlier release again, it is free: ddpmi ledger show {self.path}",
        )


def upgrade_ledger(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Bring a ledger of an older version of ddpmi to the newest schema, in one transaction. Nothing in it changes.

    Older versions of ddpmi refuse the file from then on.

    Args:
        path: The file.

    Returns:
        The version it had, and the version it has.

    Raises:
        LedgerError: It is missing, foreign, damaged, busy, read-only, or newer than this ddpmi; it was left as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = Ledger(f"{folder}/visits.ledger", limit=Budget(1))
    ...     upgrade_ledger(made.path)
    (2, 2)
    """
    path = Path(path)
    with opened(path, write=True, older=True) as connection:
        found = version_of(connection)
        limit = _read_limit(path, connection)
        _check_rows(path, connection, limit)
        for version in range(found, SCHEMA_VERSION):
            for statement in upgrade(version):
                connection.execute(statement)
        if schema_of(connection) != expected_schema():
            raise damaged(path, "it cannot be upgraded")
        _check_rows(path, connection, limit)
    return found, SCHEMA_VERSION


def _rounded_down(value: Fraction) -> str:
    """Print six digits, rounded down: never more than is left."""
    context = Context(prec=6, rounding=ROUND_DOWN)
    return shortest(Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator))))


def _read_limit(path: Path, connection: sqlite3.Connection) -> Limit:
    row = connection.execute("SELECT epsilon, rho, delta FROM limits").fetchone()
    if row is None:
        raise damaged(path, "its limit is missing")
    epsilon, rho, delta = row
    return Limit(epsilon=epsilon, rho=rho, delta=delta)


def _last_event(connection: sqlite3.Connection) -> tuple[int, str]:
    """Return the number and the hash of the newest event."""
    seq, digest = connection.execute("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    return seq, digest


def _total(connection: sqlite3.Connection, dataset: str) -> Total:
    epsilon, rho, delta = connection.execute(f"{TOTALS} ?", (dataset,)).fetchone()
    return Total(epsilon=epsilon, rho=rho, delta=delta)


def _datasets(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT dataset FROM charges GROUP BY dataset ORDER BY min(id)")]


def _entries(connection: sqlite3.Connection, where: str, value: str) -> list[Entry]:
    return [Entry.from_row(row) for row in connection.execute(f"{ENTRIES} {where}", (value,))]


def _write_charge(connection: sqlite3.Connection, charge: Charge) -> None:
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM charges").fetchone()
    row = charge.row(number)
    connection.execute(f"INSERT INTO charges VALUES ({', '.join('?' * len(row))})", row)
    _write_event(connection, "charged", number, row)


def _write_event(connection: sqlite3.Connection, kind: str, number: int, row: Sequence[str | int | None] = ()) -> None:
    seq, previous = _last_event(connection)
    event = (seq + 1, kind, number, now())
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (*event, chained(previous, *event, *row)))


def _events(
    connection: sqlite3.Connection,
) -> Iterator[tuple[tuple[int, str, int | None, str], str, list[tuple[str, Any]]]]:
    """Yield each event, its hash, and the named columns of the row that it added."""
    limit = connection.execute("SELECT * FROM limits")
    names = [column[0] for column in limit.description]
    created = list(zip(names, limit.fetchone(), strict=True))
    events = connection.execute(
        "SELECT e.seq, e.kind, e.charge, e.time, e.hash, c.* FROM events AS e "
        "LEFT JOIN charges AS c ON c.id = e.charge AND e.kind = 'charged' ORDER BY e.seq"
    )
    for seq, kind, charge, time, digest, *columns in events:
        charged = list(zip(CHARGE_COLUMNS, columns, strict=True)) if kind == "charged" else []
        yield (seq, kind, charge, time), digest, created if kind == "created" else charged


def _check_rows(path: Path, connection: sqlite3.Connection, limit: Limit) -> None:
    """Refuse a file whose pages, hash chain or sums do not hold."""
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        raise damaged(path, "its pages do not fit together")
    previous, charged, number = "", 0, 0
    for number, (event, digest, row) in enumerate(_events(connection), start=1):
        charged += event[1] == "charged"
        previous = chained(previous, *event, *(value for _, value in row))
        wrong_place = event[0] != number or (event[1] == "charged" and event[2] != charged)
        if wrong_place or previous != digest:
            raise damaged(path, f"event {event[0]} was edited, removed or moved")
    if number == 0 or connection.execute("SELECT count(*) FROM charges").fetchone() != (charged,):
        raise damaged(path, "charges and events do not belong together")
    for dataset in _datasets(connection):
        if not admits(limit, _total(connection, dataset), _NOTHING):
            raise damaged(path, f"dataset {dataset!r} spent more than its limit")
