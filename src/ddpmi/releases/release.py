"""A release: noisy tables, and the receipt that says how they were made. Using it costs no budget.

On disk it is a folder with ``pairs``, ``features``, ``labels`` and ``total`` in Parquet and ``receipt.json``. The receipt
lists the digests of all other files and is written last: a folder without it is not a release.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi._typing import KEYS, TableName
from ddpmi.errors import Hint, InputNotFound, OldReleaseWarning, ReleaseError
from ddpmi.planning.plan import Plan
from ddpmi.releases.digests import check_files, digests_of
from ddpmi.releases.reservations import Reservation, check_target, reserve
from ddpmi.releases.tables import FolderTables, Tables, open_folder
from ddpmi.releases.validation import RELEASE_FORMAT, listed_files, own_digest, parse_receipt, read_receipt
from ddpmi.releases.words import ROLES
from ddpmi.text import NOT_PRIVATE, html_lines, html_table, printable, sync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

__all__ = ["RELEASE_FORMAT", "Release", "check_target", "expunge"]

_ROW_GROUP = 1 << 20
_RECEIPT = "receipt.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Released tables with their receipt. Reading them again costs no budget."""

    receipt: Mapping[str, Any]
    """How the tables were made and what is promised, as plain values."""
    tables: Tables = field(repr=False)
    """The released tables."""
    receipt_digest: str | None = field(default=None, repr=False, compare=False)
    """The SHA-256 of the bytes of ``receipt.json``, which the ledger stores; None in memory."""

    def __repr__(self) -> str:
        stamp = "" if self.private else f"{NOT_PRIVATE}, "
        return f"Release({stamp}id={self.release_id!r}, dataset={self.receipt['dataset']!r}, pairs={self.tables.count('pairs')})"

    def _repr_html_(self) -> str:
        from ddpmi.releases.receipts import describe

        counts = [f"{self.tables.count(name):,}" for name in ("pairs", "features", "labels")]
        table = html_table(("pairs", "features", "labels"), [counts], caption="Released")
        return f"<div>{table}{html_lines(describe(self.receipt))}</div>"

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
        """Write the release as a folder: complete and on the disk, or not at all.

        Args:
            path: The folder to write. It must not exist.
            reservation: The reservation of this path; without one the name is reserved while the release is written.

        Returns:
            The path.

        Raises:
            ReleaseError: The path exists, cannot be written, or is reserved by another process.
        """
        target = Path(path)
        if reservation is None:
            with reserve(target) as own:
                return self.save(target, reservation=own)
        reservation.check(target)
        # The rename is atomic, and a crash leaves nothing that loads as a release.
        unfinished = reservation.folder / "release"
        try:
            unfinished.mkdir()
            for name in KEYS:
                _write_table(self.tables, name, unfinished / name)
            _write_receipt(self.receipt, unfinished)
            reservation.publish(unfinished)
        except FileExistsError:
            raise ReleaseError(
                f"{target} exists already; a release never overwrites.", hint="choose another name, or remove it first"
            ) from None
        except OSError as error:
            raise ReleaseError(
                f"The release could not be written to {target} ({error.strerror}).", hint="check room and permissions"
            ) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = True, receipt_digest: str | None = None) -> Release:
        """Open a release folder.

        Args:
            path: The folder.
            verify: Compare the files with the digests in the receipt. Without it the names of the files are compared alone.
            receipt_digest: The digest that the receipt must have, from the ledger's entry.

        Raises:
            InputNotFound: The folder is not a release.
            ReleaseError: The release is damaged, incomplete or edited, or a newer version wrote it.
        """
        folder = Path(path)
        _check_is_release(folder)
        raw = read_receipt(folder / _RECEIPT)
        digest = hashlib.sha256(raw).hexdigest()
        if receipt_digest is not None and receipt_digest != digest:
            raise ReleaseError(
                f"The receipt of {folder} is not the one that the ledger knows.",
                hint="it was edited after the release; use a copy that was not",
            )
        receipt = parse_receipt(raw, folder)
        tables = open_folder(folder)
        if receipt["format"] == 1:
            text = f"{printable(str(folder))} has the old format 1: nothing shows whether its tables were changed."
            warnings.warn(text, OldReleaseWarning, stacklevel=2)
        else:
            tables = _checked(tables, receipt, verify=verify)
        return cls(receipt=receipt, tables=tables, receipt_digest=digest)


def _check_is_release(folder: Path) -> None:
    try:
        known = (folder / _RECEIPT).is_file() and not (folder / _RECEIPT).is_symlink()
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        known = False
    if not known:
        raise InputNotFound(
            f"{folder} is not a release: it has no receipt.json.",
            hint=Hint(
                python="release(obs, plan, ledger=ledger, to='DIR') writes one",
                cli="ddpmi release DATA --ledger FILE -o DIR writes one",
            ),
        )


def _checked(tables: FolderTables, receipt: Mapping[str, Any], *, verify: bool) -> FolderTables:
    """Compare files with the receipt; the result reads no file that changes later."""
    listed, files = listed_files(receipt), _all_files(tables)
    if verify:
        return FolderTables(folder=tables.folder, known=check_files(tables.folder, files, listed))
    names = {file.relative_to(tables.folder).as_posix() for file in files}
    if names != set(listed):
        raise ReleaseError(
            f"The files of the release {tables.folder} are not those of its receipt.",
            hint="the folder was changed after it was released; use a copy that was not",
        )
    return tables


def _all_files(tables: FolderTables) -> list[Path]:
    return [file for name in KEYS for file in tables.files(name)]


def expunge(path: str | os.PathLike[str]) -> None:
    """Remove the files that a release wrote, and nothing else; its charge stays in the ledger.

    Raises:
        InputNotFound: The folder is not a release.
        ReleaseError: The folder holds more than a release, or cannot be removed.
    """
    folder = Path(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OldReleaseWarning)  # an old release is removed like any other
        found = Release.load(folder, verify=False)
    files = _all_files(FolderTables(folder=folder))
    if folder.is_symlink() or (more := _others(folder, files)):
        which = "is a link" if folder.is_symlink() else f"holds more than a release ({printable(more[0])})"
        raise ReleaseError(f"{folder} {which}, so it is left alone.", hint="move the other files away first")
    try:
        # The receipt goes first: if a later step fails, what is left is no release.
        (folder / _RECEIPT).unlink()
        sync(folder)
        for file in files:
            file.unlink()
        for name in KEYS:
            (folder / name).rmdir()
        folder.rmdir()
        sync(folder.absolute().parent)
    except OSError as error:
        raise ReleaseError(
            f"The release {found.release_id} in {folder} could not be removed ({error.strerror}).",
            hint="check permissions",
        ) from error


def _others(folder: Path, files: Sequence[Path]) -> list[str]:
    """List what lies in a release folder and was not written by the release."""
    ours = {*files, folder / _RECEIPT, *(folder / name for name in KEYS)}
    return sorted(str(entry.relative_to(folder)) for entry in folder.rglob("*") if entry not in ours)


def _write_table(tables: Tables, name: TableName, folder: Path) -> None:
    import pyarrow.parquet as pq

    folder.mkdir()
    if isinstance(tables, FolderTables):
        for file in tables.files(name):
            _copy(file, folder / file.name, temporary=tables.owner is not None)
        sync(folder)
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
    sync(file)
    sync(folder)


def _copy(file: Path, to: Path, *, temporary: bool) -> None:
    """Copy a file of released rows; a temporary file is linked instead, if the disk supports links."""
    try:
        if not temporary:
            raise OSError  # noqa: TRY301 - two folders of the user must not share a file
        os.link(file, to)
    except OSError:
        shutil.copyfile(file, to)
    sync(to)


def _write_receipt(receipt: Mapping[str, Any], folder: Path) -> None:
    """Write the receipt with the digests of all other files, and its own."""
    digests = digests_of(folder, _all_files(FolderTables(folder=folder)))
    # A release of an old format that is saved again gets the format of this version.
    columns = receipt.get("columns", dict.fromkeys(ROLES))
    more = {"format": RELEASE_FORMAT, "filtered": receipt.get("filtered"), "columns": columns}
    more["weighted"] = receipt.get("weighted", False)
    whole = {**receipt, **more, "files": {name: digest.to_dict() for name, digest in digests.items()}}
    whole["digest"] = own_digest(whole)
    unfinished = folder / f".{_RECEIPT}"
    unfinished.write_text(json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    sync(unfinished)
    unfinished.rename(folder / _RECEIPT)
    sync(folder)
