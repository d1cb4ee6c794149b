"""Release folders of strangers: an edited one is refused with a ReleaseError, or is a valid release by itself."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import ddpmi
from ddpmi.errors import DdpmiError, ReleaseError
from ddpmi.releases.receipts import describe
from ddpmi.releases.release import Release
from tests.support.release_fixtures import two_groups

if TYPE_CHECKING:
    from pathlib import Path

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**63, 10**400, 1.5, -0.0, 1e308, 5e-324, "", "x", "NaN", "\x1b[31m", "\ud800"),
    *([], {}, [[]], {"a": {}}, [None] * 3, "gaussian", "laplace", "units", "9" * 5000),
)
QUICK, MANY = 40, 500


@pytest.fixture(name="stored")
def make_stored(tmp_path: Path) -> Path:
    """A private release of two groups, on disk."""
    plan = ddpmi.Plan(budget=ddpmi.Budget(4, 1e-4), bounds=ddpmi.Bounds(pairs=2))
    ledger = ddpmi.Ledger(tmp_path / "a.ledger", limit=ddpmi.Budget(9, 1e-3))
    ddpmi.release(ddpmi.observe(two_groups(400)), plan, ledger=ledger, to=tmp_path / "a.release")
    return tmp_path / "a.release"


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as its container and its key."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [found for key in keys for found in places(value[key])]


def edited_receipt(text: str, dice: random.Random) -> bytes:
    """The receipt with one value replaced, removed or added, or with a few bytes changed."""
    if dice.random() < 0.25:
        raw = bytearray(text.encode())
        for _ in range(dice.randint(1, 4)):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        return bytes(raw[: dice.randrange(len(raw))] if dice.random() < 0.2 else raw)
    receipt = json.loads(text)
    container, key = dice.choice(places(receipt))
    way = dice.randrange(4)
    if way == 0:
        del container[key]
    elif way == 1 and isinstance(container, dict):
        container[f"{key}x"] = container.pop(key)
    else:
        container[key] = dice.choice(VALUES)
    return json.dumps(receipt, indent=2).encode("utf-8", "surrogatepass")


def used(folder: Path) -> None:
    """Do with a release what commands do."""
    found = Release.load(folder)
    describe(found.receipt)
    json.dumps(dict(found.receipt), allow_nan=False)
    ranking = ddpmi.rank(found)
    str(ranking)
    json.dumps(ranking.top(3).to_dicts(), allow_nan=False)


def check_receipts(stored: Path, count: int) -> None:
    """Edit the receipt: it is refused with our error, or valid; with the ledger's digest it is always refused."""
    file, dice = stored / "receipt.json", random.Random(20)
    text = file.read_text("utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    used(stored)
    for _ in range(count):
        raw = edited_receipt(text, dice)
        if raw == text.encode():
            continue
        file.write_bytes(raw)
        with pytest.raises(ReleaseError):
            Release.load(stored, receipt_digest=digest)
        try:
            used(stored)
        except DdpmiError:
            continue


def edited_table(raw: bytes, dice: random.Random) -> bytes:
    """A file with some bytes changed, cut off or repeated."""
    found = bytearray(raw)
    way = dice.randrange(4)
    if way == 0:
        return bytes(found[: dice.randrange(len(found))])
    if way == 1:
        at = dice.randrange(len(found))
        return bytes(found[:at] + found[at // 2 :])
    # Half of the edits go to the footer, which says how the pages are read.
    start = 0 if way == 2 else max(0, len(found) - 400)
    for _ in range(dice.randint(1, 6)):
        found[dice.randrange(start, len(found))] = dice.randrange(256)
    return bytes(found)


def check_tables(stored: Path, count: int) -> None:
    """Edit a table: it is refused; also where the stranger has written its digest into the receipt, or it is a valid table."""
    receipt, dice = json.loads((stored / "receipt.json").read_text("utf-8")), random.Random(21)
    whole = (stored / "receipt.json").read_bytes()
    for _ in range(count):
        name = dice.choice(sorted(receipt["files"]))
        file = stored / name
        raw = file.read_bytes()
        edited = edited_table(raw, dice)
        if edited != raw:
            file.write_bytes(edited)
            with pytest.raises(ReleaseError):
                used(stored)
            known = {"bytes": len(edited), "sha256": hashlib.sha256(edited).hexdigest()}
            changed = receipt | {"files": receipt["files"] | {name: known}}
            (stored / "receipt.json").write_text(json.dumps(changed), "utf-8")
            try:
                used(stored)
            except DdpmiError:
                pass
            finally:
                (stored / "receipt.json").write_bytes(whole)
                file.write_bytes(raw)
    used(stored)


def test_edited_receipts(stored: Path) -> None:
    """An edited receipt gives no error of another kind, and never passes the ledger's digest."""
    check_receipts(stored, QUICK)


@pytest.mark.full
def test_many_edited_receipts(stored: Path) -> None:
    """The same for many edits."""
    check_receipts(stored, MANY)


def test_edited_tables(stored: Path) -> None:
    """An edited table is never accepted under the receipt it was released with."""
    check_tables(stored, QUICK)


@pytest.mark.full
def test_many_edited_tables(stored: Path) -> None:
    """The same for many edits."""
    check_tables(stored, MANY)


def test_exact_tables_under_a_private_receipt_are_refused(stored: Path, tmp_path: Path) -> None:
    """The receipt of a release does not vouch for other tables."""
    exact = ddpmi.exact(ddpmi.observe(two_groups(400)), to=tmp_path / "exact.release")
    shutil.rmtree(stored / "pairs")
    shutil.copytree(tmp_path / "exact.release" / "pairs", stored / "pairs")
    assert not exact.private
    for use in (lambda: Release.load(stored), lambda: ddpmi.rank(stored), lambda: ddpmi.compare(stored, stored)):
        with pytest.raises(ReleaseError):
            use()


def test_a_retried_id_refuses_an_edited_folder(stored: Path, tmp_path: Path) -> None:
    """A retry compares the folder with the digest that the ledger keeps, and never returns an edited one."""
    plan = ddpmi.Plan(budget=ddpmi.Budget(2, 1e-4), bounds=ddpmi.Bounds(pairs=2))
    order = {"ledger": tmp_path / "a.ledger", "to": tmp_path / "b.release", "release_id": "monday"}
    first = ddpmi.release(ddpmi.observe(two_groups(400)), plan, **order)
    again = ddpmi.release(ddpmi.observe(two_groups(400)), plan, **order)
    assert again.pairs.equals(first.pairs)
    receipt = tmp_path / "b.release" / "receipt.json"
    receipt.write_text(receipt.read_text("utf-8") + " ", "utf-8")
    with pytest.raises(ReleaseError, match="not the one that the ledger knows"):
        ddpmi.release(ddpmi.observe(two_groups(400)), plan, **order)
    assert stored.is_dir()
