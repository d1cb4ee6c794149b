"""Validation: a receipt from anybody becomes plain values whose types, ranges and agreement were checked, or an error.

bytes of receipt.json -> receipt
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ddpmi._typing import KEYS, TABLES
from ddpmi.errors import DdpmiError, ReleaseError
from ddpmi.pipeline.looks import BUCKETS, largest_of
from ddpmi.planning.auto import AutoPlan
from ddpmi.planning.plan import Plan
from ddpmi.releases.digests import Digest
from ddpmi.releases.words import ROLES
from ddpmi.text import NOT_PRIVATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RELEASE_FORMAT = 3
"""The format that this version writes. It also reads format 1, which had no list of files, and 2, which had no digest of its own,
named no columns, and counted a unit once in the sums of labels and of everything, without its weight."""
_FORMATS = (1, 2, RELEASE_FORMAT)
LARGEST_RECEIPT = 64 << 20
"""The most bytes of a receipt. Lists of public keys are part of it."""
#: Each bracket may become an object of 72 bytes in memory, from three bytes of text.
_MOST_BRACKETS = 2_000_000
_LONGEST_TEXT = 10_000
_LARGEST_GRID = 62
#: The fields that older formats do not have, with the format that brought them.
_SINCE = {"files": 2, "filtered": 2, "columns": 3, "weighted": 3, "digest": 3}
_MECHANISMS = ("none", "discrete_laplace", "discrete_gaussian")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(rf"({'|'.join(KEYS)})/[^/\\\0._][^/\\\0]*\.parquet")
_DAMAGED = "the file is damaged or was edited; use a copy"


class _Wrong(ValueError):  # noqa: N818 - its text ends a sentence
    """A value that a receipt cannot have."""


def read_receipt(file: Path) -> bytes:
    """Read the bytes of a receipt, if they are not too many.

    Raises:
        ReleaseError: The file is too large or cannot be read.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST_RECEIPT + 1)
    except OSError as error:
        raise ReleaseError(f"{file} cannot be read ({error.strerror}).", hint="check permissions") from error
    if len(raw) > LARGEST_RECEIPT:
        raise ReleaseError(f"{file} is larger than {LARGEST_RECEIPT >> 20} MiB.", hint=_DAMAGED)
    return raw


def parse_receipt(raw: bytes, folder: Path) -> dict[str, Any]:
    """Read a receipt and check everything in it that is read later.

    Args:
        raw: The bytes of ``receipt.json``.
        folder: The folder of the release, for messages.

    Returns:
        The receipt.

    Raises:
        ReleaseError: It is no JSON, has another format, or a value in it is missing, wrong or contradicts another one.
    """
    try:
        receipt = _parse(raw)
    except (ValueError, RecursionError) as error:  # also UnicodeDecodeError
        raise ReleaseError(f"The receipt of {folder} cannot be read.", hint=_DAMAGED) from error
    found = receipt.get("format") if isinstance(receipt, dict) else None
    if isinstance(found, bool) or not isinstance(found, int):
        raise ReleaseError(f"The receipt of {folder} cannot be read.", hint=_DAMAGED)
    if found not in _FORMATS:
        shown = found if abs(found) < _LONGEST_TEXT else "too large a number"
        raise ReleaseError(
            f"{folder} has format {shown}, this version reads 1 to {RELEASE_FORMAT}.",
            hint="pip install --upgrade ddpmi",
        )
    try:
        _check(receipt)
    except (_Wrong, KeyError) as error:
        what = str(error) if isinstance(error, _Wrong) else f"{error.args[0]!r} is missing"
        raise ReleaseError(f"The receipt of {folder} is not valid: {what}.", hint=_DAMAGED) from error
    return dict(receipt)


def _parse(raw: bytes) -> Any:
    if raw.count(b"[") + raw.count(b"{") > _MOST_BRACKETS:
        raise _Wrong("too many values")
    text = raw.decode("utf-8")
    found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    # A lone surrogate, written as an escape, is no Unicode and could not be printed or stored again.
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return found


def _no_constant(name: str) -> None:
    raise _Wrong(f"{name} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Wrong("a name twice in one object")
    return found


def own_digest(receipt: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all fields of a receipt but ``digest``, as JSON with sorted names and without spaces.

    >>> own_digest({"b": 1, "a": "ä"}) == own_digest({"a": "ä", "b": 1, "digest": "0" * 64})
    True
    """
    fields = {name: value for name, value in receipt.items() if name != "digest"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _check(receipt: Mapping[str, Any]) -> None:
    for name in ("release_id", "dataset", "engine"):
        _text(receipt[name], name)
    _time(receipt["created"])
    versions = _of(dict, receipt["versions"], "versions")
    for name in ("ddpmi", *versions):
        _text(versions[name], "a version")
    _of(bool, receipt["private"], "private")
    _choice(receipt["space"], ("events", "units"), "space")
    _choice(receipt["marginals"], ("measured", "other"), "marginals")
    for text in _of(list, receipt["relies_on"], "relies_on"):
        _text(text, "an entry of relies_on")
    if receipt["sample_rate"] is not None:
        _number(receipt["sample_rate"], "sample_rate", most=1, positive=True)
    _check_noise(receipt)
    _check_ledger(receipt["ledger"])
    _check_promise(receipt)
    _check_since(receipt)


def _check_since(receipt: Mapping[str, Any]) -> None:
    """Check the fields that came after format 1."""
    for name, since in _SINCE.items():
        if name in receipt and receipt["format"] < since:
            raise _Wrong(f"format {receipt['format']} has no {name}")
    if receipt["format"] == 1:
        return
    if receipt["filtered"] is not None:
        _of(bool, receipt["filtered"], "filtered")
    listed_files(receipt)
    if receipt["format"] == _SINCE["files"]:
        return
    _of(bool, receipt["weighted"], "weighted")
    _check_columns(receipt["columns"])
    if receipt["digest"] != own_digest(receipt):
        raise _Wrong("it was changed after it was written: it does not have its own digest")


def _check_columns(columns: object) -> None:
    if set(_of(dict, columns, "columns")) != set(ROLES):
        raise _Wrong("columns does not name the four roles")
    for role, name in columns.items():  # type: ignore[attr-defined]
        if name is not None:
            _text(name, f"the column of the {role}")


def listed_files(receipt: Mapping[str, Any]) -> dict[str, Digest]:
    """Return the digests of a receipt by the names of the files.

    >>> entry = {"bytes": 7, "sha256": "0" * 64}
    >>> len(listed_files({"files": {f"{name}/part-0.parquet": entry for name in TABLES}}))
    4
    """
    found = {}
    for name, entry in _of(dict, receipt["files"], "files").items():
        if len(name) > _LONGEST_TEXT or _FILE.fullmatch(name) is None:
            raise _Wrong("files names a file that is not of a table")
        _of(dict, entry, "an entry of files")
        size = _whole(entry["bytes"], "the size of a file")
        if not isinstance(entry["sha256"], str) or _SHA256.fullmatch(entry["sha256"]) is None:
            raise _Wrong("a digest of files is no SHA-256")
        found[name] = Digest(size=size, sha256=entry["sha256"])
    if {name.partition("/")[0] for name in found} != set(KEYS):
        raise _Wrong("files does not list the four tables")
    return found


def _check_noise(receipt: Mapping[str, Any]) -> None:
    grid, tables = _of(dict, receipt["grid"], "grid"), _of(dict, receipt["tables"], "tables")
    _number(grid["step"], "the step of the grid", positive=True)
    _whole(grid["g"], "g of the grid", most=_LARGEST_GRID)
    if set(tables) != set(TABLES):
        raise _Wrong("tables does not describe the four tables")
    for entry in tables.values():
        _of(dict, entry, "an entry of tables")
        _choice(entry["mechanism"], _MECHANISMS, "a mechanism")
        _number(entry["scale"], "a scale")
        _number(entry["sd_user"], "a standard deviation")
        for name in ("threshold", "bound"):
            if entry[name] is not None if name == "threshold" else entry.get(name) is not None:
                _whole(entry[name], f"a {name}")


def _check_ledger(ledger: object) -> None:
    if ledger is None or ledger == {}:
        return
    entry = _of(dict, ledger, "ledger")
    _whole(entry["entry"], "the entry of the ledger")
    for name in ("spent", "left"):
        for part in ("epsilon", "delta"):
            _number(_of(dict, entry[name], name)[part], f"{part} {name}")


def _check_promise(receipt: Mapping[str, Any]) -> None:
    """Check that guarantee, plan, noise and notice tell the same story."""
    promise, plan = _of(dict, receipt["guarantee"], "guarantee"), _restored(receipt)
    _text(promise["unit"], "the unit")
    _text(promise["neighbours"], "the neighbours")
    if promise["rho"] is not None:
        _number(promise["rho"], "rho")
    if "complete" in receipt and (receipt["complete"] is not False or plan is None or not plan.complete):
        raise _Wrong("complete contradicts its plan")
    auto = None if plan is None else _check_look(receipt, plan)
    whole = plan if auto is None else auto
    wanted = {"epsilon": None, "delta": None} if whole is None else whole.budget.to_dict()
    if {name: promise[name] for name in wanted} != wanted:
        raise _Wrong("the guarantee is not the budget of the plan")
    if receipt["private"]:
        if plan is None or receipt["notice"] is not None or receipt["ledger"] is None:
            raise _Wrong("it says private without a plan and a charge")
    elif not isinstance(receipt["notice"], str) or not receipt["notice"].startswith(NOT_PRIVATE):
        raise _Wrong(f"exact sums without the notice {NOT_PRIVATE}")
    if plan is not None:
        _check_plan(receipt, plan)
    elif any(entry["mechanism"] != "none" or entry["threshold"] for entry in receipt["tables"].values()):
        raise _Wrong("noise without a plan")


def _check_look(receipt: Mapping[str, Any], plan: Plan) -> AutoPlan | None:
    """Check the look that chose the bounds of a plan, if there was one, and return what was declared for it."""
    if "look" not in receipt:
        return None
    look = _of(dict, receipt["look"], "look")
    try:
        auto = AutoPlan.from_dict(_of(dict, look["declared"], "the declaration of the look"))
        known = auto.digest == look["digest"] and plan.mechanism_name in auto.possible
        same = known and plan.budget == auto.rest(plan.mechanism_name)
    except (DdpmiError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise _Wrong("the declaration of the look cannot be restored") from error
    if not same or look["epsilon"] != float(auto.look_epsilon) or look["scale"] != auto.look_noise.mechanism.width:
        raise _Wrong("the look does not belong to its plan")
    if look["buckets"] != [largest_of(bucket) for bucket in range(len(BUCKETS))]:
        raise _Wrong("the look has other buckets")
    for name in ("labels", "pairs"):
        counts = look[name]
        if counts is None and name == "labels" and auto.labels is not None:
            continue
        whole = _of(list, counts, "a histogram")
        if len(whole) != len(BUCKETS) or any(type(n) is not int or abs(n) >= 1 << 63 for n in whole):
            raise _Wrong("a histogram of the look is none")
    return auto


def _check_plan(receipt: Mapping[str, Any], plan: Plan) -> None:
    rate = None if plan.sample_rate is None else float(plan.sample_rate)
    wanted = {"space": plan.space, "marginals": plan.marginals, "sample_rate": rate, "weighted": bool(plan.weighted)}
    if any(receipt.get(name, False) != value for name, value in wanted.items()):
        raise _Wrong("it does not agree with its plan")
    if receipt["grid"]["step"] != float(plan.bounds.step):
        raise _Wrong("the grid is not that of its plan")
    for name, noise in plan.calibration.tables.items():
        entry = receipt["tables"][name]
        if entry["mechanism"] != noise.mechanism.name or (entry["threshold"] is None) != (noise.threshold is None):
            raise _Wrong(f"the noise of {name} is not that of its plan")


def _restored(receipt: Mapping[str, Any]) -> Plan | None:
    """Return the plan of a receipt. Its values must be those that a plan writes, and its digest that of the receipt."""
    if receipt["plan"] is None:
        if receipt["plan_digest"] is not None:
            raise _Wrong("a digest of a plan without the plan")
        return None
    given = _of(dict, receipt["plan"], "plan")
    try:
        plan = Plan.from_dict(given)
        values = plan.to_dict()
        same = _canonical({name: values[name] for name in given}) == _canonical(given)
    except DdpmiError as error:
        raise _Wrong("the plan cannot be restored") from error
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        # A plan checks what a user may pass; the values of a stranger may be of any type.
        raise _Wrong("the plan cannot be restored") from error
    if not same or receipt["plan_digest"] != plan.digest:
        raise _Wrong("the plan does not match its digest")
    return plan


def _canonical(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _of(kind: type, value: object, name: str) -> Any:
    if type(value) is not kind:
        raise _Wrong(f"{name} has the wrong type")
    return value


def _text(value: object, name: str) -> None:
    if not isinstance(value, str) or not value or len(value) > _LONGEST_TEXT:
        raise _Wrong(f"{name} must be a text of at most {_LONGEST_TEXT} characters")


def _time(value: object) -> None:
    try:
        known = isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise _Wrong("created must be a time with its zone")


def _choice(value: object, choices: tuple[str, ...], name: str) -> None:
    if not isinstance(value, str) or value not in choices:
        raise _Wrong(f"{name} must be one of {', '.join(choices)}")


def _number(value: object, name: str, *, most: float = math.inf, positive: bool = False) -> None:
    known = not isinstance(value, bool) and isinstance(value, int | float)
    try:
        fits = known and math.isfinite(float(value)) and 0 <= value <= most  # type: ignore[arg-type, operator]
    except OverflowError:
        fits = False
    if not fits or (positive and value == 0):
        raise _Wrong(f"{name} must be a finite number, {'more than' if positive else 'at least'} 0")


def _whole(value: object, name: str, *, most: int = (1 << 63) - 1) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise _Wrong(f"{name} must be a whole number from 0 to {most}")
    return value
