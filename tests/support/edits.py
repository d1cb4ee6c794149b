"""Edits of a stranger: changed copies of receipts and of table files, with a fixed seed."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ddpmi.releases.validation import own_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ddpmi._typing import TableName

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**400, 0.5, -0.5, 1e308, 1e-308, float("nan"), float("inf")),
    *("", "x", "NaN", "1e999999999", "1/0", "\ud800", "\x1b[31m", "a" * 20_000, "../x", "none", "units", "other"),
    *([], [1], [[]], {}, {"epsilon": 1}, ["a", "b"], {"a": None}),
]
BYTES = [b"\x00", b"\xff", b'"', b"{", b"}", b"[", b",", b":", b"NaN", b"1e9999", b"\\ud800", b"-", b"9" * 5000]


def write_receipt(folder: Path, receipt: dict[str, Any]) -> None:
    """Write a changed receipt with a new digest of its own, as a stranger can."""
    if receipt["format"] not in (1, 2):
        receipt = receipt | {"digest": own_digest(receipt)}
    (folder / "receipt.json").write_text(json.dumps(receipt), "utf-8")


def paths_of(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*before, key)
        yield from paths_of(inner, (*before, key))


def edited_receipt(raw: bytes, source: random.Random) -> bytes:
    """Change a receipt: one value, one name, or some bytes."""
    kind = source.choice(["value", "value", "value", "number", "remove", "add", "bytes", "cut", "deep"])
    if kind == "bytes":
        at = source.randrange(len(raw))
        return raw[:at] + source.choice(BYTES) + raw[at + source.randrange(3) :]
    if kind == "cut":
        return raw[: source.randrange(len(raw))]
    if kind == "deep":
        depth = source.choice([10, 2_000, 100_000])
        return raw.replace(b'"plan":', b'"more": ' + b"[" * depth + b"]" * depth + b', "plan":', 1)
    receipt = json.loads(raw)
    return json.dumps(changed(receipt, kind, source)).encode()


def changed(receipt: Any, kind: str, source: random.Random) -> Any:
    """Change one value of a receipt."""
    found = copy.deepcopy(receipt)
    places = list(paths_of(found))
    if kind == "number":
        places = [path for path in places if isinstance(at(found, path), int | float)] or places
    path = source.choice(places)
    holder, last = at(found, path[:-1]), path[-1]
    if kind == "remove":
        del holder[last]
    elif kind == "add":
        (holder.insert(last, "x") if isinstance(holder, list) else holder.update({f"{last}x": holder.pop(last)}))
    elif kind == "number" and isinstance(holder[last], int | float):
        holder[last] = source.choice([-1, 1.1, 0, 1e300]) * holder[last] + source.choice([0, 1])
    else:
        holder[last] = source.choice(VALUES)
    return found


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a path."""
    for key in path:
        value = value[key]
    return value


def edited_bytes(raw: bytes, source: random.Random) -> bytes:
    """Change some bytes of a file: in the footer, in a page, at its ends, or its length."""
    kind = source.choice(["footer", "footer", "page", "page", "cut", "swap", "grow"])
    found = bytearray(raw)
    footer = max(4, len(raw) - 8 - int.from_bytes(raw[-8:-4], "little"))
    if kind == "cut":
        return raw[: source.randrange(len(raw))]
    if kind == "grow":
        place = source.randrange(len(raw))
        return raw[:place] + source.randbytes(source.randrange(1, 40)) + raw[place:]
    low, high = {"footer": (footer, len(raw)), "page": (0, footer), "swap": (0, len(raw))}[kind]
    for _ in range(source.choice([1, 1, 2, 8])):
        found[source.randrange(low, high)] = source.randrange(256)
    return bytes(found)


def edited_table(file: Path, name: TableName, source: random.Random) -> None:
    """Write a table again with changed rows: other sums, keys twice, keys lost, other types, or other columns."""
    table = pq.read_table(file, partitioning=None)
    rows, keys = table.num_rows, [key for key in table.column_names if key != "sum"]
    kind = source.choice(["sum", "null", "twice", "order", "drop", "type", "column", "bytes"])
    at_row = source.randrange(rows)
    if kind == "sum":
        sums = table["sum"].to_pylist()
        sums[at_row] += source.choice([1, -1, 1000])
        table = table.set_column(len(keys), "sum", pa.array(sums, pa.int64()))
    elif kind == "null":
        column = source.choice([*keys, "sum"])
        values = table[column].to_pylist()
        values[at_row] = None
        table = table.set_column(table.column_names.index(column), column, pa.array(values, table[column].type))
    elif kind == "twice":
        table = pa.concat_tables([table, table.slice(at_row, 1)])
    elif kind == "order":
        table = table.take(pa.array(list(reversed(range(rows))))) if rows > 1 else table.slice(0, 0)
    elif kind == "drop":
        table = pa.concat_tables([table.slice(0, at_row), table.slice(at_row + 1)])
    elif kind == "type":
        table = table.set_column(len(keys), "sum", table["sum"].cast(pa.float64()))
    elif kind == "column" or not keys:
        table = table.append_column("more", table["sum"])
    else:
        raw = pa.array([b"\xff\xfe" if row == at_row else b"a" for row in range(rows)], pa.binary())
        table = table.set_column(0, keys[0], raw.view(pa.string()))
    pq.write_table(table, file)
