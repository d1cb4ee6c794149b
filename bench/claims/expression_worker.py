"""Runs forms of expressions on hostile cells, in a process that may die. `expressions.py` starts it.

Each line of the input is a form as JSON. Each line of the output is its outcome. A form is a text with {0}, {1}, ... for its
arguments, and the types of these. It runs with a column for every argument, and with each argument as a constant.
"""

from __future__ import annotations

import itertools
import json
import random
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

import duckdb

from ddpmi.engines.duckdb import expressions
from ddpmi.engines.duckdb.engine import DuckDBEngine
from ddpmi.engines.duckdb.source import DuckDBSource
from ddpmi.errors import InputError
from hostile_cells import CELLS, LONG, USUAL

#: The rows of one table, and the largest number of bytes of a result of short cells.
ROWS, SHORT = 600, 20_000
#: The largest result of a cell of a megabyte: a list of characters has 16 bytes for each.
GROWN = 64_000_000
SECONDS = 5.0
#: About how many constants are tried for each argument.
CONSTANTS = 24
ADDRESS_SPACE = 4 << 30


class Failed(Exception):  # noqa: N818 - a finding, no error of this program
    """One row can break the form."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """A text with placeholders for arguments."""

    name: str
    text: str
    types: list[str]
    constants: dict[int, list[str]]
    """Arguments that must be constants, and valid constants for each."""
    checked: bool = True
    """Whether the product's own check decides what is allowed."""


class Worker:
    """One database, and one engine whose check is used."""

    def __init__(self, memory: str = "1500MB") -> None:
        self.engine = DuckDBEngine(
            DuckDBSource(query=None, frame=_empty(), settings={"memory_limit": memory}), columns=None
        )
        self.con = self.engine._connection  # noqa: SLF001 - the settings of the product
        self.tried = self.public = 0

    def taken(self, text: str, types: list[str], *, checked: bool) -> bool:
        """Return whether the product accepts the text, which it must decide before it sees a row."""
        names = [f"c{place}" for place in range(len(types))]
        self.engine.relation = "shape"
        try:
            reader = self.engine.read(text, what="it", columns=names, open_names=False) if checked else None
            # The allowed types of columns are not checked: other functions give intervals and times of day.
            self.engine.type_of(text, names, "it")
            if reader is not None:
                self.engine.check_calls(reader)
        except InputError:
            self.public += 1
            return False
        return True

    def table(self, types: list[str], cells: list[list[str]], rows: int = ROWS) -> None:
        """Make a table of all combinations of cells, or a sample of them, and some ordinary rows."""
        usual = [itertools.cycle(USUAL.get(type_, CELLS[type_][:2])) for type_ in types]
        count = 1
        for values in cells:
            count *= len(values)
        made = list(itertools.product(*cells)) if count <= rows else _some(cells, rows)
        made += [tuple(next(values) for values in usual) for _ in range(20)]
        listed = ", ".join(
            "(" + ", ".join(f"CAST({cell} AS {type_})" for cell, type_ in zip(row, types, strict=True)) + ")"
            for row in made
        )
        names = ", ".join(f"c{place}" for place in range(len(types)))
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE cells AS SELECT * FROM (VALUES {listed}) AS v({names})")

    def run(self, text: str, limit: int) -> None:
        """Compute the text on all rows. It must not raise, the results must stay small, and every text must be valid."""
        self.tried += 1
        started = time.process_time()
        guarded = expressions.guarded(text)
        sql = f"SELECT TRY(CAST({guarded} AS VARCHAR)) AS result FROM cells"
        try:
            found = self.con.sql(sql).to_arrow_table()
            self.con.execute(f"SELECT count(*) FROM cells WHERE {guarded} IS NOT NULL").fetchall()
            if (
                str(
                    self.con.execute(f"SELECT typeof(x) FROM (SELECT {guarded} AS x FROM cells LIMIT 1)").fetchall()[0][
                        0
                    ]
                )
                == "BOOLEAN"
            ):
                self.con.execute(f"SELECT count(*) FROM cells WHERE {guarded}").fetchall()
        except duckdb.Error as error:
            raise Failed(f"{type(error).__name__}: {str(error)[:120]}") from None
        except (RuntimeError, ValueError) as error:
            raise Failed(f"{type(error).__name__}: {str(error)[:120]}") from None
        found.validate(full=True)
        largest = max((len(cell.as_buffer()) for cell in found["result"] if cell.is_valid), default=0)
        if largest > limit:
            raise Failed(f"grows to {largest} bytes")
        if time.process_time() - started > SECONDS:
            raise Failed("takes more than 5 seconds of processor time")


def _empty() -> Any:
    import pyarrow as pa

    return pa.table({"c0": pa.array([], pa.int64())})


def _some(cells: list[list[str]], count: int) -> list[tuple[str, ...]]:
    seeded = random.Random(7)
    every = max(len(values) for values in cells)
    rows = [
        tuple(values[(start + shift * place) % len(values)] for place, values in enumerate(cells))
        for start in range(every)
        for shift in (0, 1, 5)
    ]
    return rows + [tuple(seeded.choice(values) for values in cells) for _ in range(count - len(rows))]


def check(worker: Worker, form: Form, *, long: bool = True) -> str:
    """Run a form in all ways; return whether it was accepted at all.

    Raises:
        Failed: One row breaks it.
    """
    shape = ", ".join(f"CAST(NULL AS {type_}) AS c{place}" for place, type_ in enumerate(form.types)) or "1 AS c0"
    worker.con.execute(f"CREATE OR REPLACE TEMP TABLE shape AS SELECT {shape}")
    hostile = [[*CELLS[type_], f"CAST(NULL AS {type_})"] for type_ in form.types]
    columns = [f"c{place}" for place in range(len(form.types))]
    fixed = [dict(zip(form.constants, values, strict=True)) for values in itertools.product(*form.constants.values())]
    taken = False
    for constants in fixed:
        text = form.text.format(*(constants.get(place, name) for place, name in enumerate(columns)))
        if not worker.taken(text, form.types, checked=form.checked):
            continue
        worker.table(form.types, hostile)
        worker.run(text, SHORT)
        _by_statistics(worker, form, text, hostile)
        if long:
            _with_long_cells(worker, form, text)
        if not taken:
            _with_constants(worker, form, constants)
        taken = True
    return "passed" if taken else "refused"


def _by_statistics(worker: Worker, form: Form, text: str, hostile: list[list[str]]) -> None:
    """Run with each extreme cell alone among ordinary rows: the optimizer computes with the least and the largest cell."""
    for place, type_ in enumerate(form.types):
        if type_ in ("VARCHAR", "JSON"):
            continue
        for cell in hostile[place][:4]:
            usual = [USUAL.get(other, CELLS[other][:1])[:1] for other in form.types]
            usual[place] = [cell]
            worker.table(form.types, usual)
            worker.run(text, SHORT)


def _with_constants(worker: Worker, form: Form, constants: dict[int, str]) -> None:
    """Run with constants: an engine folds them, which raises other errors. An error before any row is public."""
    hostile = [[*CELLS[type_], f"CAST(NULL AS {type_})"] for type_ in form.types]
    worker.table(form.types, hostile, rows=120)
    for place in range(len(form.types)):
        for cell in hostile[place][:: 1 + len(hostile[place]) // CONSTANTS]:
            given = {**constants, place: cell}
            text = form.text.format(*(given.get(other, f"c{other}") for other in range(len(form.types))))
            if worker.taken(text, form.types, checked=form.checked):
                worker.run(text, SHORT)


def _with_long_cells(worker: Worker, form: Form, text: str) -> None:
    """Run with one cell of a megabyte, and with all cells of a megabyte."""
    if not any(type_ in LONG for type_ in form.types):
        return
    usual = [USUAL.get(type_, CELLS[type_][:1])[:1] for type_ in form.types]
    long = [LONG.get(type_, usual[place]) for place, type_ in enumerate(form.types)]
    cases = [
        [*usual[:place], [cell], *usual[place + 1 :]]
        for place, cells in enumerate(long)
        for cell in cells
        if cells != usual[place]
    ]
    cases += [
        [[cells[(start + shift * place) % len(cells)]] for place, cells in enumerate(long)]
        for start in range(10)
        for shift in (0, 1)
    ]
    seen: list[list[list[str]]] = []
    for case in cases:
        if case in seen:
            continue
        seen.append(case)
        worker.table(form.types, case)
        worker.run(text, GROWN)


def main() -> None:
    """Answer line by line."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    worker = Worker()
    for line in sys.stdin:
        given = json.loads(line)
        given["constants"] = {int(place): values for place, values in given["constants"].items()}
        worker.tried = worker.public = 0
        answer: dict[str, Any] = {}
        try:
            answer["outcome"] = check(worker, Form(**given))
        except Failed as failed:
            answer.update(outcome="failed", why=str(failed))
            worker = Worker()  # an internal error ends a database
        except MemoryError:
            answer.update(outcome="failed", why="out of memory")
        answer["tried"] = worker.tried
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
