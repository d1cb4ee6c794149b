"""A ledger: the durable record of the budget spent, one SQLite file that only grows.

A release is checked and charged, durably, before a row is read. After a crash the budget stays spent: nothing is
refunded. Processes that charge at the same time cannot overspend together.
"""

from __future__ import annotations

import operator
import re
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ddpmi.errors import BudgetExceeded, Hint, InputError, LedgerError, check_count
from ddpmi.ledger.entries import (
    ENTRIES,
    HALF_OF_DELTA,
    ORIGIN_COLUMNS,
    TERMS_COLUMNS,
    Charge,
    ChargeFields,
    Entry,
    Outlook,
    State,
    Status,
    Terms,
    budget_of,
    rounded_down,
)
from ddpmi.ledger.heads import Head, check_kept, keep, kept
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
from ddpmi.privacy.accounting import Amount, Cost, Limit, Total, admits, largest_epsilon, rho_for, room, spent
from ddpmi.privacy.budget import DELTA_GRID, Budget, shortest
from ddpmi.text import html_table

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from ddpmi._typing import Number

__all__ = ["Charge", "Entry", "Ledger", "Status", "upgrade_ledger"]

_NOTHING = Cost.of_laplace([])
_DIGEST = re.compile("[0-9a-f]{64}")
#: Columns that schema 3 added.
_LATER = {*ORIGIN_COLUMNS, *TERMS_COLUMNS, "receipt_digest"}
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
        self,
        path: str | os.PathLike[str],
        limit: Budget | None = None,
        *,
        datasets: Iterable[str] | None = None,
        max_epsilon: Number | None = None,
        expect_head: str | None = None,
    ) -> None:
        """Open a ledger, or create it where a limit is given and the file is missing.

        Args:
            path: The file.
            limit: The limit of a new ledger; an existing one must have exactly this limit.
            datasets: The only datasets that a new ledger accepts; an existing one must have exactly these.
            max_epsilon: The largest epsilon of one release; an existing ledger must have exactly this one.
            expect_head: What `head` returned before. A ledger without that event is refused.

        Raises:
            LedgerError: The file is missing (without a limit), foreign, damaged, older than expected, or has other terms.
            InputError: The limit is not a Budget, or a term is not valid.
        """
        self.path = Path(path)
        if limit is not None and not isinstance(limit, Budget):
            raise InputError(
                f"limit must be a Budget, got limit={limit!r}.",
                hint=Hint(python="limit=Budget(4, 1e-6)", cli="--epsilon 4 --delta 1e-6"),
            )
        asked = Terms.of(datasets, max_epsilon)
        expected = None if expect_head is None else Head.read(expect_head)
        if limit is not None:
            create(self.path, Limit.of(limit), asked)
        # Before the ledger is read: a head that is written meanwhile could be newer than what is read.
        beside = kept(self.path)
        with opened(self.path) as connection:
            self._limit, self.terms = _read_limit(self.path, connection)
            _check_rows(self.path, connection, self._limit)
            self._id = _ledger_id(connection)
            check_kept(self.path, beside, self._id, _hash_of(connection, beside))
            if expected is not None:
                expected.check(self.path, self._id, _hash_of(connection, expected))
            self._seen = _last_event(connection)
        self.limit = budget_of(self._limit.epsilon, 2 * self._limit.delta)
        self._check_same(limit, asked)

    def _check_same(self, limit: Budget | None, asked: Terms) -> None:
        """Refuse a limit or terms that were given and are not those of the file."""
        hint = f"open it as it is with Ledger({str(self.path)!r}); a limit never changes."
        if limit is not None and limit != self.limit:
            raise LedgerError(f"{self.path} has limit {self.limit}, got limit {limit}.", hint=hint)
        if asked.datasets is not None and set(asked.datasets) != set(self.terms.datasets or ()):
            raise LedgerError(
                f"{self.path} accepts {listed(self.terms.datasets)}, got datasets {listed(asked.datasets)}.", hint=hint
            )
        if asked.max_epsilon is not None and asked.max_epsilon != self.terms.max_epsilon:
            kept = "no largest epsilon" if self.terms.max_epsilon is None else shortest(self.terms.max_epsilon)
            raise LedgerError(
                f"{self.path} has max_epsilon {kept}, got max_epsilon {shortest(asked.max_epsilon)}.", hint=hint
            )

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, limit={self.limit})"

    def _repr_html_(self) -> str:
        def written(amount: Amount | Budget) -> str:
            return f"epsilon={float(amount.epsilon):.6g}, delta={float(amount.delta):.6g}"

        found = [self.status(name) for name in self.datasets()]
        rows = [[one.dataset, written(one.spent), written(one.left), str(len(one.entries))] for one in found]
        caption = f"Ledger {self.path.name}: {written(self.limit)} for each dataset"
        return html_table(("dataset", "spent", "left", "releases"), rows, caption=caption)

    def head(self) -> str:
        """Return one short line that names the newest event, to be kept elsewhere and given as ``expect_head`` later.

        It holds the ledger's id, the number of the event, and the first 128 bits of its hash.
        """
        with self._open() as connection:
            return str(Head.of(self._id, *_last_event(connection)))

    def check_head(self, head: str) -> None:
        """Refuse a ledger that does not contain the event of a head.

        Args:
            head: What `head` returned before.

        Raises:
            LedgerError: An older copy or another ledger was put in its place.
            InputError: It is no head.
        """
        expected = Head.read(head)
        with self._open() as connection:
            expected.check(self.path, self._id, _hash_of(connection, expected))

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
            BudgetExceeded: Together they do not fit, or one has a larger epsilon than the ledger allows; nothing is written.
            InputError: The ledger does not accept a dataset; nothing is written.
            LedgerError: A release id was charged before, or the file cannot be used.
        """
        charges = list(charges)
        for charge in charges:
            self._check_terms(charge)
        with self._open(write=True) as connection:
            self._check_new(connection, charges)
            for dataset in dict.fromkeys(charge.dataset for charge in charges):
                self._check_fits(connection, [charge for charge in charges if charge.dataset == dataset])
            for charge in charges:
                _write_charge(connection, charge)
            return [self._entry(connection, charge.release_id) for charge in charges]

    def check(self, charges: Iterable[Charge]) -> None:
        """Check that each of several charges would be accepted by itself. Nothing is written, and another may come first.

        Args:
            charges: The charges, of which at most one will be made.

        Raises:
            BudgetExceeded: One does not fit.
            InputError: The ledger does not accept a dataset.
            LedgerError: A release id was charged before, or the file cannot be used.
        """
        for charge in charges:
            self._check_terms(charge)
            with self._open() as connection:
                self._check_new(connection, [charge])
                self._check_fits(connection, [charge])

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
            receipt_digest: The sha256 of the receipt of a released one, in hex.

        Returns:
            The entry.

        Raises:
            LedgerError: The release was never charged, ended in another state, or was released with another receipt.
        """
        if state not in _BEFORE:
            raise InputError(f"state must be one of {', '.join(_BEFORE)}, got state={state!r}.", hint="'released'")
        _check_digest(state, receipt_digest)
        with self._open(write=True) as connection:
            entry = self._entry(connection, release_id)
            if entry.state == state and receipt_digest in (None, entry.receipt_digest):
                return entry
            if entry.state not in _BEFORE[state]:
                raise LedgerError(
                    f"release {release_id!r} is already {entry.state}.",
                    hint="make a new release with a new id.",
                )
            _write_event(connection, state, entry.id, receipt_digest=receipt_digest)
            return self._entry(connection, release_id)

    def find(self, release_id: str) -> Entry | None:
        """Find the entry of a release.

        Args:
            release_id: The release.

        Returns:
            Its entry, or None if it was never charged here.
        """
        with self._open() as connection:
            rows = _entries(self.path, connection, "WHERE c.release_id = ?", release_id)
            return rows[0] if rows else None

    def status(self, dataset: str = "default") -> Status:
        """Report what one dataset has spent and has left.

        Args:
            dataset: Its name; a dataset that was never charged has spent nothing.

        Returns:
            Limit, spent, left and entries, all read at the same time.

        Raises:
            InputError: No dataset can have this name, or the ledger does not accept it; and none has it.
        """
        with self._open() as connection:
            if dataset not in _datasets(connection):
                self._check_dataset(dataset)
                dataset_name(dataset)
            entries = _entries(self.path, connection, "WHERE c.dataset = ? ORDER BY c.id", dataset)
            used = spent(self._limit, _total(connection, dataset))
        left = Amount(
            epsilon=max(Fraction(0), self.limit.epsilon - used.epsilon),
            delta=max(Fraction(0), self.limit.delta - used.delta),
        )
        return Status(dataset=dataset, limit=self.limit, spent=used, left=left, entries=tuple(entries))

    def plan(self, releases: int, *, dataset: str = "default", delta: Number | None = None) -> Outlook:
        """Say how large each of several further releases may be, so that all of them fit. Charges nothing.

        Args:
            releases: How many releases.
            dataset: Its name.
            delta: The delta of each; by default an equal part of what is left.

        Returns:
            The largest epsilon of each release, for both kinds of noise.

        Raises:
            InputError: A number is out of range, or the ledger does not accept the dataset.
        """
        check_count("releases", releases, hint=Hint.setting("releases", 52))
        with self._open() as connection:
            self._check_dataset(dataset)
            if dataset not in _datasets(connection):
                dataset_name(dataset)
            total = _total(connection, dataset)
        if delta is None:
            part = Fraction(max(0, self._limit.delta - total.delta) // releases, DELTA_GRID)
            # As it is printed, so that what is printed fits.
            each = Budget(1, rounded_down(2 * part)) if part else Budget(1)
        else:
            each = Budget(1, delta)
        half = each.delta / 2
        kinds = {"laplace": Cost.of_laplace([1], half)}
        if half:
            kinds["gaussian"] = Cost.of_gaussian(rho_for(each.epsilon, half), half)
        found = {
            name: self._capped(largest_epsilon(self._limit, total, cost, each, releases=releases))
            for name, cost in kinds.items()
        }
        gaussian = found.get("gaussian", Fraction(0))
        return Outlook(
            dataset=dataset, releases=releases, delta=each.delta, laplace=found["laplace"], gaussian=gaussian
        )

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
        with opened(self.path, write=write, known=True) as connection:
            seq, digest = self._seen
            found = connection.execute("SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone()
            if found != (digest,) or _read_limit(self.path, connection) != (self._limit, self.terms):
                raise damaged(self.path, "an older copy or another ledger was put in its place")
            yield connection
            last = _last_event(connection)
        # After the commit: events that were not committed do not count as seen.
        changed, self._seen = last != self._seen, last
        if write and changed:
            keep(self.path, Head.of(self._id, *last))

    def _entry(self, connection: sqlite3.Connection, release_id: str) -> Entry:
        rows = _entries(self.path, connection, "WHERE c.release_id = ?", release_id)
        if not rows:
            raise LedgerError(f"release {release_id!r} was never charged to {self.path}.", hint="charge it first.")
        return rows[0]

    def _check_dataset(self, dataset: str) -> None:
        """Refuse a dataset that the ledger does not accept: a new name would be a new budget."""
        names = self.terms.datasets
        if names is not None and dataset not in names:
            raise InputError(
                f"{self.path.name} does not accept dataset {dataset!r}: it was created for {listed(names)}.",
                hint=Hint(python=f"dataset={names[0]!r}", cli=f"--dataset {names[0]!r}"),
            )

    def _check_terms(self, charge: Charge) -> None:
        """Refuse a charge that the ledger would not accept even with all of its budget left."""
        self._check_dataset(charge.dataset)
        most = self.terms.max_epsilon
        if most is not None and charge.guarantee.epsilon > most:
            raise BudgetExceeded(
                f"this release needs epsilon={shortest(charge.guarantee.epsilon)}; {self.path.name} allows at most "
                f"epsilon={shortest(most)} for one release.",
                hint=Hint(python=f"Budget(epsilon={shortest(most)}, ...)", cli=f"--epsilon {shortest(most)}"),
            )

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
            f"epsilon={rounded_down(self._capped(left.epsilon))}, delta={rounded_down(left.delta)} left.",
            hint=f"{self._what_fits(before, charges, left)}, or rank an earlier release again, it is free: "
            f"ddpmi ledger show {self.path}",
        )

    def _what_fits(self, total: Total, charges: Sequence[Charge], left: Amount) -> str:
        """Say how large releases of the same kind may be, or why none fits."""
        first = charges[0]
        thresholds = total.delta + sum(Total.of(charge.cost).delta for charge in charges)
        if thresholds > self._limit.delta:
            less = (
                f"a delta of at most {rounded_down(left.delta)} fits"
                if left.delta
                else "nothing fits, delta is used up"
            )
            return f"{less}. {HALF_OF_DELTA} Lower delta"
        if any((charge.cost, charge.guarantee) != (first.cost, first.guarantee) for charge in charges):
            return "lower their epsilons"
        most = self._capped(
            largest_epsilon(self._limit, total, first.cost, first.guarantee, releases=len(charges)),
        )
        if not most:
            return "no release of this kind fits, epsilon is used up: make none"
        each = "" if len(charges) == 1 else "each with "
        return (
            f"what fits is {each}epsilon={rounded_down(most)} at delta={shortest(first.guarantee.delta)}: lower epsilon"
        )

    def _capped(self, epsilon: Fraction) -> Fraction:
        """Hold an epsilon within the largest one of a release."""
        return epsilon if self.terms.max_epsilon is None else min(epsilon, self.terms.max_epsilon)


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
    (3, 3)
    """
    path = Path(path)
    with opened(path, write=True, older=True) as connection:
        found = version_of(connection)
        limit, _ = _read_limit(path, connection)
        _check_rows(path, connection, limit)
        for version in range(found, SCHEMA_VERSION):
            for statement in upgrade(version):
                connection.execute(statement)
        if schema_of(connection) != expected_schema():
            raise damaged(path, "it cannot be upgraded")
        _check_rows(path, connection, limit)
    return found, SCHEMA_VERSION


def _check_digest(state: str, digest: str | None) -> None:
    if digest is not None and (state != "released" or not isinstance(digest, str) or not _DIGEST.fullmatch(digest)):
        raise InputError(
            f"receipt_digest must be a sha256 in hex, of a released release; got {digest!r} with state={state!r}.",
            hint="mark(release_id, 'released', receipt_digest=release.receipt_digest)",
        )


def listed(names: Iterable[str] | None) -> str:
    """Write names of datasets in a row.

    >>> listed(["visits", "orders"]), listed(None)
    ("'visits', 'orders'", 'every dataset')
    """
    return "every dataset" if names is None else ", ".join(map(repr, names))


def _read_limit(path: Path, connection: sqlite3.Connection) -> tuple[Limit, Terms]:
    """Read the limit and the terms; a ledger of an older version has none."""
    row = connection.execute("SELECT * FROM limits").fetchone()
    if row is None:
        raise damaged(path, "its limit is missing")
    _, _, epsilon, rho, delta, *terms = row
    try:
        budget_of(epsilon, 2 * delta)
        return Limit(epsilon=epsilon, rho=operator.index(rho), delta=delta), Terms.from_row(
            *terms
        ) if terms else Terms()
    except (AttributeError, TypeError, ValueError, ArithmeticError):  # an InputError is a ValueError
        raise damaged(path, "its limit is none") from None


def _last_event(connection: sqlite3.Connection) -> tuple[int, str]:
    """Return the number and the hash of the newest event."""
    seq, digest = connection.execute("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    return seq, digest


def _ledger_id(connection: sqlite3.Connection) -> str:
    (found,) = connection.execute("SELECT ledger_id FROM limits").fetchone()
    return str(found)


def _hash_of(connection: sqlite3.Connection, head: Head | None) -> str | None:
    """Return the hash of the event that a head names, if there is one of its number."""
    found = connection.execute("SELECT hash FROM events WHERE seq = ?", (head.seq if head else 0,)).fetchone()
    return None if found is None else str(found[0])


def _total(connection: sqlite3.Connection, dataset: str) -> Total:
    epsilon, rho, delta = connection.execute(f"{TOTALS} ?", (dataset,)).fetchone()
    return Total(epsilon=epsilon, rho=rho, delta=delta)


def _datasets(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT dataset FROM charges GROUP BY dataset ORDER BY min(id)").fetchall()
    return [name for (name,) in rows]


def _entries(path: Path, connection: sqlite3.Connection, where: str, value: str) -> list[Entry]:
    rows = connection.execute(f"{ENTRIES} {where}", (value,)).fetchall()
    try:
        return [Entry.from_row(row) for row in rows]
    except (TypeError, ValueError, ArithmeticError):  # an InputError is a ValueError
        raise damaged(path, "an entry has numbers that no charge has") from None


def _write_charge(connection: sqlite3.Connection, charge: Charge) -> None:
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM charges").fetchone()
    row = charge.row(number)
    connection.execute(f"INSERT INTO charges VALUES ({', '.join('?' * len(row))})", row)
    _write_event(connection, "charged", number, row)


def _write_event(
    connection: sqlite3.Connection,
    kind: str,
    number: int,
    row: Sequence[str | int | None] = (),
    *,
    receipt_digest: str | None = None,
) -> None:
    seq, previous = _last_event(connection)
    event = (seq + 1, kind, number, now())
    more = row if receipt_digest is None else (receipt_digest,)
    values = (*event, chained(previous, *event, *more), receipt_digest)
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", values)


def _events(
    connection: sqlite3.Connection,
) -> Iterator[tuple[tuple[int, str, int | None, str], str, list[tuple[str, Any]]]]:
    """Yield each event, its hash, and the named columns that it added: those of its row, or the digest of a receipt.

    Columns of later versions that are NULL are left out, so rows of older versions keep their hashes.
    """
    # Closed also by an error: while a cursor lives, in the traceback of an error, the file stays locked.
    with closing(connection.execute("SELECT * FROM limits")) as limit:
        names = [column[0] for column in limit.description]
        created = _hashed(zip(names, limit.fetchone(), strict=True))
    with closing(
        connection.execute(
            "SELECT e.*, c.* FROM events AS e LEFT JOIN charges AS c ON c.id = e.charge AND e.kind = 'charged' "
            "ORDER BY e.seq"
        )
    ) as events:
        names = [column[0] for column in events.description]
        charges = names.index("id")
        for row in events:
            seq, kind, charge, time, digest, *receipt = row[:charges]
            added = zip(names[5:charges], receipt, strict=True)
            if kind != "released":
                added = (
                    zip(names[charges:], row[charges:], strict=True) if kind == "charged" else zip((), (), strict=True)
                )
            yield (seq, kind, charge, time), digest, created if kind == "created" else _hashed(added)


def _hashed(columns: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in columns if value is not None or name not in _LATER]


def _check_rows(path: Path, connection: sqlite3.Connection, limit: Limit) -> None:
    """Refuse a file whose pages, hash chain or sums do not hold."""
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        raise damaged(path, "its pages do not fit together")
    previous, charged, number = "", 0, 0
    for number, (event, digest, row) in enumerate(_events(connection), start=1):
        charged += event[1] == "charged"
        try:
            previous = chained(previous, *event, *(value for _, value in row))
        except TypeError:  # bytes
            raise damaged(path, f"event {number} holds bytes") from None
        wrong_place = event[0] != number or (event[1] == "charged" and event[2] != charged)
        if wrong_place or previous != digest:
            raise damaged(path, f"event {event[0]} was edited, removed or moved")
    if number == 0 or connection.execute("SELECT count(*) FROM charges").fetchone() != (charged,):
        raise damaged(path, "charges and events do not belong together")
    for dataset in _datasets(connection):
        if not admits(limit, _total(connection, dataset), _NOTHING):
            raise damaged(path, f"dataset {dataset!r} spent more than its limit")
