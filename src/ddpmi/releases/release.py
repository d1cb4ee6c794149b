"""A release: noisy tables, and the receipt that says how they were made. Using it costs no budget.

On disk it is a folder with ``pairs``, ``features``, ``labels`` and ``total`` in Parquet and ``receipt.json``. The receipt
is written last: a folder without it is not a release.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi._typing import KEYS, TableName
from ddpmi.errors import Hint, InputNotFound, ReleaseError
from ddpmi.planning.plan import Plan
from ddpmi.releases.tables import FolderTables, Tables, open_folder
from ddpmi.text import NOT_PRIVATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from ddpmi.releases.reservations import Reservation

RELEASE_FORMAT = 1
_ROW_GROUP = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Released tables with their receipt. Reading them again costs no budget."""

    receipt: Mapping[str, Any]
    """How the tables were made and what is promised, as plain values."""
    tables: Tables = field(repr=False)
    """The released tables."""
    receipt_digest: str | None = field(default=None, repr=False)
    """The sha256 of the bytes of ``receipt.json``; None in memory."""

    def __repr__(self) -> str:
        stamp = "" if self.private else f"{NOT_PRIVATE}, "
        return f"Release({stamp}id={self.release_id!r}, dataset={self.receipt['dataset']!r}, pairs={self.tables.count('pairs')})"

    @property
    def release_id(self) -> str:
        """The id of this release in the ledger."""
        return str(self.receipt["release_id"])

    @property
    def private(self) -> bool:
        """Whether the tables have noise from the cryptographic source, and the ledger was charged for them."""
        return bool(self.receipt["private"])

    @property
    def plan(self) -> Plan | None:
        """The plan; None for exact sums."""
        plan = self.receipt["plan"]
        return None if plan is None else Plan.from_dict(plan)

    @property
    def pairs(self) -> pa.Table:
        """feature, label, sum."""
        return self.tables.scan("pairs")

    @property
    def features(self) -> pa.Table:
        """feature, sum."""
        return self.tables.scan("features")

    @property
    def labels(self) -> pa.Table:
        """label, sum."""
        return self.tables.scan("labels")

    @property
    def total(self) -> int:
        """The released sum of everything."""
        return int(self.tables.scan("total").column("sum")[0].as_py())

    def save(self, path: str | os.PathLike[str], *, reservation: Reservation | None = None) -> Path:
        """Write the release as a folder.

        Raises:
            ReleaseError: The path exists, or its parent does not.
        """
        target = Path(path)
        if reservation is None:
            check_target(target)
        # A sibling folder with a random name: the rename is atomic, and a crash leaves nothing that loads as a release.
        partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
        try:
            partial.mkdir()
            for name in KEYS:
                _write_table(self.tables, name, partial / name)
            _write_receipt(self.receipt, partial)
            partial.rename(target)
        except OSError as error:
            raise ReleaseError(
                f"The release could not be written to {target} ({error.strerror}).", hint="check room and permissions"
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = True, receipt_digest: str | None = None) -> Release:
        """Open a release folder.

        Args:
            path: The folder.
            verify: Whether the files are compared with the receipt.
            receipt_digest: The digest that the receipt must have.

        Raises:
            InputNotFound: The folder is not a release.
            ReleaseError: The release is damaged or incomplete, or a newer version wrote it.
        """
        folder = Path(path)
        file = folder / "receipt.json"
        if not file.is_file():
            raise InputNotFound(
                f"{folder} is not a release: it has no receipt.json.",
                hint=Hint(
                    python="release(obs, plan, ledger=ledger, to='DIR') writes one",
                    cli="ddpmi release DATA --ledger FILE -o DIR writes one",
                ),
            )
        try:
            del verify
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            if receipt_digest not in (None, digest):
                raise ReleaseError(f"The receipt of {folder} was edited.", hint="use a copy")
            receipt = json.loads(file.read_text("utf-8"))
            known = receipt["format"] == RELEASE_FORMAT
        except (ValueError, KeyError, TypeError) as error:
            raise ReleaseError(
                f"The receipt of {folder} cannot be read.", hint="the file is damaged; use a copy"
            ) from error
        if not known:
            raise ReleaseError(
                f"{folder} has format {receipt['format']!r}, this version reads {RELEASE_FORMAT}.",
                hint="pip install --upgrade ddpmi",
            )
        return cls(receipt=receipt, tables=open_folder(folder), receipt_digest=digest)


def expunge(path: str | os.PathLike[str]) -> None:
    """Remove a release folder; its charge stays in the ledger.

    Raises:
        InputNotFound: The folder is not a release.
        ReleaseError: The folder holds more than a release, or cannot be removed.
    """
    folder = Path(path)
    Release.load(folder)
    more = {entry.name for entry in folder.iterdir()} - {*KEYS, "receipt.json"}
    if folder.is_symlink() or more:
        raise ReleaseError(
            f"{folder} holds more than a release, so it is left alone.", hint="move the other files away first"
        )
    try:
        # The receipt goes first: if a later step fails, what is left is no release.
        (folder / "receipt.json").unlink()
        shutil.rmtree(folder)
    except OSError as error:
        raise ReleaseError(f"{folder} could not be removed ({error.strerror}).", hint="check permissions") from error


def check_target(target: Path) -> None:
    """Refuse a folder that exists or cannot be made, before anything is charged."""
    if target.parts and target.parts[0].endswith(":") and len(target.parts[0]) > len("C:"):
        raise ReleaseError(
            f"A release is written to a folder, and {target.parts[0]}// is an address.",
            hint="write it to a folder that all machines share, and copy it from there",
        )
    if target.exists() or target.is_symlink():
        raise ReleaseError(
            f"{target} exists already; a release never overwrites.", hint="choose another name, or remove it first"
        )
    if not target.parent.is_dir():
        raise ReleaseError(f"The folder {target.parent} does not exist.", hint=f"mkdir -p {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise ReleaseError(f"The folder {target.parent} cannot be written to.", hint="choose another place")


def _write_table(tables: Tables, name: TableName, folder: Path) -> None:
    import pyarrow.parquet as pq

    folder.mkdir()
    if isinstance(tables, FolderTables):
        for file in tables.files(name):
            _copy(file, folder / file.name, temporary=tables.owner is not None)
        return
    table, file = tables.scan(name), folder / "part-0.parquet"
    # Fixed row groups and no metadata of pandas: the layout depends only on the released rows.
    pq.write_table(
        table,
        file,
        compression="zstd",
        row_group_size=_ROW_GROUP,
        use_dictionary=["label"] if "label" in table.column_names else False,
    )
    _sync(file)


def _copy(file: Path, to: Path, *, temporary: bool) -> None:
    """Copy a file of released rows; a temporary file is linked instead, if the disk supports links."""
    try:
        if not temporary:
            raise OSError  # noqa: TRY301 - two folders of the user must not share a file
        os.link(file, to)
    except OSError:
        shutil.copyfile(file, to)
    _sync(to)


def _write_receipt(receipt: Mapping[str, Any], folder: Path) -> None:
    unfinished = folder / ".receipt.json"
    unfinished.write_text(json.dumps(receipt, indent=2, ensure_ascii=False) + "\n", "utf-8")
    _sync(unfinished)
    unfinished.rename(folder / "receipt.json")


def _sync(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
