"""Releases that a stranger edited: refused with our error, or equal in meaning. Never another exception, never a full memory."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi import (
    Bounds,
    Budget,
    DdpmiError,
    Ledger,
    Plan,
    Release,
    ReleaseError,
    compare,
    exact,
    observe,
    rank,
    release,
)
from ddpmi._typing import KEYS
from ddpmi.errors import OldReleaseWarning
from ddpmi.releases.digests import digests_of
from ddpmi.releases.receipts import describe
from tests.support.edits import edited_bytes, edited_receipt, edited_table, write_receipt
from tests.support.release_fixtures import two_groups

if TYPE_CHECKING:
    from ddpmi._typing import TableName

QUICK, FULL = 40, 500


@pytest.fixture(scope="module", name="private")
def make_private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a private release."""
    folder = tmp_path_factory.mktemp("private")
    ledger = Ledger(folder / "test.ledger", limit=Budget(1000, 1e-2))
    plan = Plan(budget=Budget(5, 1e-6), bounds=Bounds(pairs=3))
    release(observe(two_groups(4000)), plan, ledger=ledger, to=folder / "out")
    return folder / "out"


@pytest.fixture(scope="module", name="exact_one")
def make_exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the exact sums of the same data."""
    return exact(observe(two_groups(4000))).save(tmp_path_factory.mktemp("exact") / "out")


def use(folder: Path) -> list[object]:
    """Read all of a release, rank it and describe it."""
    found = Release.load(folder)
    json.dumps(found.receipt, allow_nan=False)
    describe(found.receipt)
    ranking = rank(found)
    json.dumps(ranking.to_dicts(), allow_nan=False)
    json.dumps(compare(found, found).to_dict(), allow_nan=False)
    return [found.pairs.to_pylist(), found.features.to_pylist(), found.labels.to_pylist(), found.total]


def sealed(folder: Path) -> None:
    """Let the receipt list the files as they are now, as a stranger can who writes both."""
    files = sorted(path for name in KEYS for path in (folder / name).glob("*.parquet"))
    digests = {name: digest.to_dict() for name, digest in digests_of(folder, files).items()}
    write_receipt(folder, json.loads((folder / "receipt.json").read_text("utf-8")) | {"files": digests})


def check_receipts(folder: Path, tmp_path: Path, count: int, seed: int) -> Counter[str]:
    """Edit receipts: all are refused that say something else, by the ledger's digest and without it."""
    whole, source, seen = Release.load(folder), random.Random(seed), Counter[str]()
    raw = (folder / "receipt.json").read_bytes()
    place = shutil.copytree(folder, tmp_path / "copy")
    while seen.total() < count:
        edited = edited_receipt(raw, source)
        if edited == raw:
            continue
        (place / "receipt.json").write_bytes(edited)
        with pytest.raises(DdpmiError):
            Release.load(place, receipt_digest=whole.receipt_digest)
        try:
            use(place)
        except (DdpmiError, OldReleaseWarning):  # the format may have become 1
            seen["refused"] += 1
        else:
            assert json.dumps(Release.load(place).receipt) == json.dumps(whole.receipt)
            seen["same"] += 1
    return seen


def check_resealed(folder: Path, tmp_path: Path, count: int, seed: int) -> Counter[str]:
    """Edit values of receipts, and their digests with them: our errors alone, and what is accepted can be used."""
    source, seen = random.Random(seed), Counter[str]()
    raw = (folder / "receipt.json").read_bytes()
    place = shutil.copytree(folder, tmp_path / "resealed")
    while seen.total() < count:
        try:
            receipt = json.loads(edited_receipt(raw, source))
            write_receipt(place, receipt)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # no digest can be computed
        try:
            use(place)
        except DdpmiError:
            seen["refused"] += 1
        else:
            seen["valid"] += 1
    return seen


def check_bytes(folder: Path, tmp_path: Path, count: int, seed: int) -> int:
    """Edit the bytes of table files: all are refused by their digests. Return how many."""
    source, refused = random.Random(seed), 0
    place = shutil.copytree(folder, tmp_path / "copy")
    files = sorted(place.rglob("*.parquet"))
    for _ in range(count):
        file = source.choice(files)
        raw = file.read_bytes()
        edited = edited_bytes(raw, source)
        file.write_bytes(edited)
        if edited != raw:
            with pytest.raises(ReleaseError):
                use(place)
            refused += 1
        file.write_bytes(raw)
    return refused


# Damaged files run in a process of their own: a crash of the reader would end all tests.
SEALED = """import random, shutil, sys
from collections import Counter
from pathlib import Path
from ddpmi import DdpmiError
from ddpmi._typing import KEYS
from tests.releases.test_edits import sealed, use
from tests.support.edits import edited_bytes, edited_table
folder, place, count, source, seen = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), random.Random(int(sys.argv[4])), Counter()
whole = use(folder)
for _ in range(count):
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    name = source.choice(list(KEYS))
    file = place / name / "part-0.parquet"
    if source.random() < 0.5:
        file.write_bytes(edited_bytes(file.read_bytes(), source))
    else:
        edited_table(file, name, source)
    sealed(place)
    try:
        seen["same" if use(place) == whole else "other sums"] += 1
    except DdpmiError:
        seen["refused"] += 1
print(dict(seen))"""


def check_sealed(folder: Path, tmp_path: Path, count: int, seed: int) -> dict[str, int]:
    """Edit table files and the receipt's digests with them. Only another sum can be accepted: nothing else can show it."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SEALED, str(folder), str(tmp_path / "sealed"), str(count), str(seed)],
        env={"PYTHONPATH": f"{root / 'src'}:{root}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.replace("'", '"'))
    return found


def test_edited_receipts(private: Path, exact_one: Path, tmp_path: Path) -> None:
    """40 edited receipts are refused, or say the same; 40 with a new digest give our errors alone."""
    for number, folder in enumerate((private, exact_one)):
        seen = check_receipts(folder, tmp_path / str(number), QUICK // 2, seed=number)
        assert seen["refused"] > QUICK // 2 - 4
        seen = check_resealed(folder, tmp_path / str(number), QUICK // 2, seed=number)
        assert seen["refused"] > QUICK // 8


def test_edited_table_files(private: Path, tmp_path: Path) -> None:
    """40 edited files are refused by their digests, and 40 with a new receipt give our errors alone."""
    assert check_bytes(private, tmp_path, QUICK, seed=1) >= QUICK - 4
    assert check_sealed(private, tmp_path, QUICK, seed=2)["refused"] > QUICK // 2


@pytest.mark.full
def test_five_hundred_edits(private: Path, exact_one: Path, tmp_path: Path) -> None:
    """500 edited receipts and 500 edited files: none is accepted with changed meaning. The same with new digests: our errors."""
    seen = check_receipts(private, tmp_path / "1", FULL // 2, seed=11)
    seen += check_receipts(exact_one, tmp_path / "2", FULL // 2, seed=12)
    resealed = check_resealed(private, tmp_path / "1", FULL // 2, seed=15)
    resealed += check_resealed(exact_one, tmp_path / "2", FULL // 2, seed=16)
    files = check_bytes(private, tmp_path / "3", FULL, seed=13)
    both = check_sealed(private, tmp_path, FULL, seed=14)
    print(f"receipts {dict(seen)}, with a new digest {dict(resealed)}")  # noqa: T201 - for the record of long checks
    print(f"files refused {files}, files with their digests {both}")  # noqa: T201 - for the record of long checks
    assert seen["refused"] > FULL * 3 // 4
    assert resealed["refused"] > FULL // 2
    assert files > FULL * 9 // 10
    assert both["refused"] > FULL // 2


def test_exact_tables_under_a_private_receipt_are_refused(private: Path, exact_one: Path, tmp_path: Path) -> None:
    """The tables of another release do not match the digests: they are not ranked, reported or compared as private."""
    mixed = shutil.copytree(exact_one, tmp_path / "mixed")
    shutil.copyfile(private / "receipt.json", mixed / "receipt.json")
    for read in (Release.load, rank, lambda path: compare(exact_one, path)):
        with pytest.raises(ReleaseError, match="does not match its receipt"):
            read(mixed)


def test_a_file_that_is_added_or_lost_is_refused(private: Path, tmp_path: Path) -> None:
    """The folder has exactly the listed files; hidden files of an engine are not read and do not matter."""
    place = shutil.copytree(private, tmp_path / "copy")
    (place / "pairs" / "_SUCCESS").touch()
    (place / "pairs" / ".part-0.parquet.crc").touch()
    Release.load(place)
    shutil.copyfile(place / "pairs" / "part-0.parquet", place / "pairs" / "part-1.parquet")
    for verify in (True, False):
        with pytest.raises(ReleaseError, match=r"not listed|not those of its receipt"):
            Release.load(place, verify=verify)
    (place / "pairs" / "part-0.parquet").unlink()
    with pytest.raises(ReleaseError, match="is missing"):
        Release.load(place)


def test_a_file_that_changes_after_the_check_is_refused(private: Path, tmp_path: Path) -> None:
    """A table that is replaced between loading and reading is not read."""
    place = shutil.copytree(private, tmp_path / "copy")
    found = Release.load(place)
    other = tmp_path / "other.parquet"
    shutil.copyfile(place / "pairs" / "part-0.parquet", other)
    other.replace(place / "pairs" / "part-0.parquet")
    with pytest.raises(ReleaseError, match="changed while the release was in use"):
        rank(found)
    Release.load(place)


def test_the_ledgers_digest_protects_the_receipt(private: Path, tmp_path: Path) -> None:
    """A receipt with one more space is valid by itself, and refused by the digest that the ledger keeps."""
    place = shutil.copytree(private, tmp_path / "copy")
    known = Release.load(place).receipt_digest
    assert Release.load(place, receipt_digest=known).receipt_digest == known
    with (place / "receipt.json").open("a") as file:
        file.write(" ")
    assert Release.load(place).receipt_digest != known
    with pytest.raises(ReleaseError, match="not the one that the ledger knows"):
        Release.load(place, receipt_digest=known)


def aged(folder: Path, number: int) -> Path:
    """Make a release of events, and write its receipt as an older version did."""
    plan = Plan(budget=Budget(5, 1e-6), bounds=Bounds(pairs=3), space="events")
    ledger = Ledger(folder / "test.ledger", limit=Budget(1000, 1e-2))
    release(observe(two_groups(4000)), plan, ledger=ledger, to=folder / "old")
    receipt = json.loads((folder / "old" / "receipt.json").read_text("utf-8"))
    newer = {"columns", "weighted", "digest"} | ({"files", "filtered"} if number == 1 else set())
    kept = {name: value for name, value in receipt.items() if name not in newer}
    write_receipt(folder / "old", kept | {"format": number})
    return folder / "old"


def test_a_release_of_format_1_opens_with_a_warning(tmp_path: Path) -> None:
    """It has no digests, so the warning says that nothing shows a change. Saved again, it has the new format."""
    with pytest.warns(OldReleaseWarning, match="old format 1"):
        found = Release.load(aged(tmp_path, 1))
    again = Release.load(found.save(tmp_path / "again"))
    assert (again.receipt["format"], again.receipt["filtered"], len(again.receipt["files"])) == (3, None, 4)
    assert again.pairs.equals(found.pairs)


def test_a_release_of_format_2_opens(tmp_path: Path) -> None:
    """It has the digests of its files, and neither its own digest nor names of columns. Saved again, it has the new format."""
    found = Release.load(aged(tmp_path, 2))
    again = Release.load(found.save(tmp_path / "again"))
    assert (again.receipt["format"], again.receipt["weighted"]) == (3, False)
    assert again.receipt["columns"] == dict.fromkeys(("unit", "feature", "label", "value"))
    assert again.pairs.equals(found.pairs)


@pytest.mark.parametrize(("number", "name"), [(1, "files"), (1, "digest"), (2, "digest"), (2, "weighted")])
def test_an_older_format_has_no_newer_fields(tmp_path: Path, number: int, name: str) -> None:
    """So a new receipt cannot be passed off as an old one by its format alone."""
    place = aged(tmp_path, number)
    receipt = json.loads((place / "receipt.json").read_text("utf-8"))
    write_receipt(place, receipt | {name: False})
    with pytest.raises(ReleaseError, match=f"format {number} has no {name}"):
        Release.load(place)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("guarantee", "epsilon"), 0.001),
        (("guarantee", "delta"), float("nan")),
        (("plan", "budget", "epsilon"), "0.001"),
        (("plan_digest",), "0" * 64),
        (("private",), 1),
        (("notice",), "NOT PRIVATE"),
        (("tables", "pairs", "mechanism"), "none"),
        (("tables", "pairs", "sd_user"), -1.0),
        (("tables", "pairs", "threshold"), None),
        (("grid", "g"), 4000),
        (("grid", "step"), 0),
        (("space",), "events"),
        (("weighted",), False),
        (("weighted",), 1),
        (("columns",), {"unit": "unit"}),
        (("columns", "label"), 7),
        (("created",), "yesterday"),
        (("ledger", "left", "epsilon"), float("inf")),
        (("files", "pairs/part-0.parquet", "bytes"), True),
        (("versions",), []),
    ],
)
def test_values_that_contradict_are_refused(
    private: Path, tmp_path: Path, path: tuple[str, ...], value: object
) -> None:
    """A type, a range or a contradiction to the plan: the receipt is not valid."""
    place = shutil.copytree(private, tmp_path / "copy")
    receipt = json.loads((place / "receipt.json").read_text("utf-8"))
    holder = receipt
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    if value == value and value != float("inf"):  # noqa: PLR0124 - NaN has no digest
        write_receipt(place, receipt)
    else:
        (place / "receipt.json").write_text(json.dumps(receipt), "utf-8")
    with pytest.raises(ReleaseError, match="receipt"):
        Release.load(place)


def memory_of_rank(folder: Path) -> tuple[int, str]:
    """Rank a folder in a process of its own; return its peak of memory in bytes, and its error."""
    code = """import sys
from pathlib import Path
from ddpmi import DdpmiError, rank
try:
    rank(sys.argv[1])
except DdpmiError as error:
    print(error.message)
# Not ru_maxrss, which a new process takes over from the one that started it.
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) << 10, file=sys.stderr)"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env={"PYTHONPATH": f"{root / 'src'}:{root}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]), done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
@pytest.mark.parametrize("bomb", ["dictionary", "zeros", "prefixes", "runs"])
def test_a_small_file_cannot_fill_the_memory(exact_one: Path, tmp_path: Path, bomb: str) -> None:
    """A long name that many rows repeat, zeros that compress well, shared prefixes, and runs are refused before they grow."""
    place = shutil.copytree(exact_one, tmp_path / "copy")
    file = place / "pairs" / "part-0.parquet"
    name = "".join(chr(97 + n % 26) for n in range(1 << 16))
    names = {
        "dictionary": pa.array([name]).take(pa.array([0] * 30_000)),
        "zeros": pa.array(["\0" * (1 << 26) for _ in range(12)]),
        "prefixes": pa.array([name]).take(pa.array([0] * 30_000)),
        "runs": pa.array(["f"]).take(pa.nulls(60_000_000, pa.int32()).fill_null(0)),
    }[bomb]
    table = pa.table({"feature": names, "label": pa.array(["x"]).take(pa.nulls(len(names), pa.int32()).fill_null(0))})
    table = table.append_column("sum", pa.nulls(len(names), pa.int64()).fill_null(1))
    options = {"prefixes": {"use_dictionary": False, "column_encoding": {"feature": "DELTA_BYTE_ARRAY"}}}.get(bomb, {})
    if bomb == "zeros":
        options = {"use_dictionary": False}
    pq.write_table(table, file, compression="zstd", **options)
    assert file.stat().st_size < 1 << 20
    sealed(place)
    peak, message = memory_of_rank(place)
    assert "pairs/part-0.parquet" in message
    assert peak < 400 << 20


@pytest.mark.parametrize("name", list(KEYS))
def test_sums_and_keys_are_checked(exact_one: Path, tmp_path: Path, name: TableName) -> None:
    """A missing sum, a key twice, keys that are not sorted and bytes that are no UTF-8 are refused in every table."""
    for kind in range(12):
        place = shutil.copytree(exact_one, tmp_path / str(kind))
        before = pq.read_table(place / name / "part-0.parquet", partitioning=None)
        edited_table(place / name / "part-0.parquet", name, random.Random(kind))
        after = pq.read_table(place / name / "part-0.parquet", partitioning=None)
        sealed(place)
        changed_sum = after.num_rows == before.num_rows and after.drop(["sum"]).equals(before.drop(["sum"]))
        if changed_sum and after.schema.equals(before.schema) and after["sum"].null_count == 0:
            continue
        if name == "pairs" and after.num_rows < before.num_rows:
            continue  # a pair less is a release too: without the ledger's digest nothing shows it
        with pytest.raises(ReleaseError):
            use(place)
