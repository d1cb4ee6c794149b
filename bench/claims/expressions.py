"""Can one row break an expression? Every function an expression may call runs on hostile cells, in processes that may die.

    python bench/claims/expressions.py [--only NAME ...]

Runs every form of every listed function, macro, operator and cast of DuckDB's catalog, with columns of hostile cells and with
hostile constants. No form may raise an error through TRY, take five seconds, or give a result far larger than its cells.
A form that the product refuses before it sees a row counts as refused.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb

import expression_compositions
from ddpmi.engines.duckdb import expressions
from hostile_cells import CELLS, CONCRETE

OUT = Path(__file__).parents[1] / "results" / "expression-sweep.json"
#: Types of the catalog that no column of an expression can have.
_OTHER = {"BIT", "BIGNUM", "UNION", "VARIANT", "GEOMETRY", "TIME_NS", "TIMESTAMPTZ_NS", "TIME WITH TIME ZONE", "LAMBDA"}
_PATHS = {"VARCHAR": ["'$.a'", "'$.*'", "'a'", "'/a/0'"], "VARCHAR[]": ["['$.a', '$[0]']"], "BIGINT": ["0", "-1"]}
_REGEX = {"VARCHAR": ["'(a*)*b'", "''"], "VARCHAR[]": ["['x', 'y']"], "INTEGER": ["1"]}
_LIKE = {1: ["'%a_%'", "'*a?[b-d]*'", "'%a%b'"]}
_ESCAPED = {1: ["'%a!_'", "'a'"], 2: ["'!'"]}
_PARTS = {0: [f"'{part}'" for part in sorted(expressions.PARTS)]}
#: Valid constants for arguments that must be constants.
_GOOD: dict[str, dict[int, list[str]]] = {
    **dict.fromkeys(("~~", "!~~", "~~*", "!~~*", "~~~"), _LIKE),
    **dict.fromkeys(("like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape"), _ESCAPED),
    **dict.fromkeys(expressions.PARTED, _PARTS),
    **{name: {1: ["'%Y-%m-%d'", "['%Y', '%s']"]} for name in ("strptime", "try_strptime")},
    **{name: {1: ["5", "1000"]} for name in expressions.LENGTHS},
    "regexp_replace": {1: ["'a*'", "'(.)'"], 2: ["'xx'", r"'\1\1'"], 3: ["'g'"]},
    "replace": {2: ["''", "'xy'"]},
    "timezone": {0: ["'Europe/Berlin'", "'UTC'"]},
    "time_bucket": {0: ["INTERVAL '7 days'", "INTERVAL 1 MONTH", "INTERVAL '1 microsecond'"]},
    "struct_extract": {1: ["'a'", "1"]},
}
_SIMPLE = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
SWEPT_TYPES = [type_ for type_ in CELLS if type_ not in _OTHER and not type_.startswith("UNION")]


def _constants(name: str, types: list[str]) -> dict[int, list[str]]:
    if name == "strftime":
        return {types.index("VARCHAR"): ["'%Y-%m'", "'%A %c %j %U %z'"]}
    if name in _GOOD:
        return {place: values for place, values in _GOOD[name].items() if place < len(types)}
    places = [place for place in expressions.CONSTANTS.get(name, ()) if place < len(types)]
    kind = _PATHS if name in expressions.PATHS else _REGEX
    return {place: kind[types[place]] if place == 1 or types[place] != "VARCHAR" else ["'i'"] for place in places}


def of_functions() -> list[dict[str, Any]]:
    """Return every overload of every listed function."""
    found = duckdb.connect().execute(
        "SELECT lower(function_name), parameter_types, varargs FROM duckdb_functions() WHERE function_type = 'scalar' ORDER BY ALL"
    )
    forms = []
    for name, parameters, varargs in found.fetchall():
        types = [*parameters, *([varargs] * 2 if varargs else [])]
        if name not in expressions.FUNCTIONS or _OTHER & set(types):
            continue
        choices = [CONCRETE.get(type_, [type_]) for type_ in types]
        for turn in range(max([len(choice) for choice in choices], default=1)):
            chosen = [choice[turn % len(choice)] for choice in choices]
            places = ", ".join(f"{{{place}}}" for place in range(len(chosen)))
            forms.append(_form(name, f'"{name}"({places})', chosen, _constants(name, chosen)))
    return forms


def _form(name: str, text: str, types: list[str], constants: dict[int, list[str]] | None = None) -> dict[str, Any]:
    return {"name": name, "text": text, "types": types or ["BIGINT"], "constants": constants or {}}


def of_syntax() -> list[dict[str, Any]]:
    """Return operators, CASE, IN, extracts, slices, lambdas and macros."""
    forms = [_form(sign, f"{{0}} {sign} {{1}}", [type_, type_]) for sign in _SIMPLE for type_ in SWEPT_TYPES]
    for type_ in SWEPT_TYPES:
        forms.append(_form("BETWEEN", "{0} BETWEEN {1} AND {1}", [type_, type_]))
        forms.append(_form("IN", "{0} IN ({1}, NULL)", [type_, type_]))
        forms.append(_form("CASE", "CASE WHEN {0} IS NULL THEN {1} ELSE coalesce({0}, {1}) END", [type_, type_]))
        forms.append(_form("nullif", "nullif({0}, {1})", [type_, type_]))
        forms.append(_form("if", "if({0}, {1}, {1})", ["BOOLEAN", type_]))
    for type_ in ("VARCHAR", "JSON", "BIGINT[]", "VARCHAR[]", "VARCHAR[][]", "DOUBLE[3]", "BLOB"):
        forms += [
            _form("extract", "{0}[{1}]", [type_, "BIGINT"]),
            _form("slice", "{0}[{1}:{2}]", [type_, "BIGINT", "BIGINT"]),
        ]
        forms.append(_form("slice", "{0}[{1}:{2}:{3}]", [type_, "BIGINT", "BIGINT", "BIGINT"]))
    forms += [
        _form("extract", "{0}[{1}]", ["MAP(VARCHAR, BIGINT)", "VARCHAR"]),
        _form("cardinality", "cardinality({0})", ["MAP(VARCHAR, BIGINT)"]),
        _form("member", "{0}.a", ["STRUCT(a BIGINT, b VARCHAR)"]),
        _form("arrow", "{0} -> {1}", ["JSON", "VARCHAR"], {1: _PATHS["VARCHAR"]}),
        _form("arrow", "{0} -> {1}", ["VARCHAR", "VARCHAR"], {1: _PATHS["VARCHAR"]}),
        _form("AND", "{0} AND NOT {1} OR {0} IS NULL", ["BOOLEAN", "BOOLEAN"]),
        _form("struct_pack", "{{'a': {0}, 'b': [{1}]}}", ["VARCHAR", "DATE"]),
        _form("SIMILAR TO", "{0} SIMILAR TO {1}", ["VARCHAR", "VARCHAR"], {1: ["'(a|b)*c'"]}),
        _form("split_part", "split_part({0}, {1}, {2})", ["VARCHAR", "VARCHAR", "BIGINT"]),
        _form("array_to_string", "array_to_string({0}, {1})", ["VARCHAR[]", "VARCHAR"], {1: ["', '"]}),
        _form("if", "if({0} > 1, {1}, 'x')", ["BIGINT", "VARCHAR"]),
    ]
    forms += [_form("date_add", "date_add({0}, {1})", [type_, "INTERVAL"]) for type_ in ("DATE", "TIMESTAMP")]
    forms += [_form("days_in_month", "days_in_month({0})", [type_]) for type_ in ("DATE", "TIMESTAMP")]
    forms += [_form(name, f"{name}({{0}}, {{1}})", ["DOUBLE", "DOUBLE"]) for name in ("fdiv", "fmod")]
    lists = ("BIGINT[]", "VARCHAR[]", "DOUBLE[]", "VARCHAR[][]")
    for name in sorted(expressions.MACROS):
        if name in ("list_append", "list_prepend"):
            order = "{0}, {1}" if name == "list_append" else "{1}, {0}"
            forms += [
                _form(name, f"{name}({order})", [type_, type_.removesuffix("[]")])
                for type_ in lists
                if type_ != "VARCHAR[][]"
            ]
        elif name.startswith("list_"):
            forms += [_form(name, f"{name}({{0}})", [type_]) for type_ in lists]
    return forms + of_lambdas()


def of_lambdas() -> list[dict[str, Any]]:
    """Return lambdas whose bodies fail for some items."""
    bodies = [
        "i",
        "i + 1",
        "CAST(i AS TINYINT)",
        "chr(CAST(i AS INTEGER))",
        "1 / i",
        "CAST(i AS DATE)",
        "i || 'x'",
        "i > {1}",
        "TRY(i // 0)",
    ]
    names = [
        "list_transform",
        "array_transform",
        "list_apply",
        "array_apply",
        "apply",
        "list_filter",
        "array_filter",
        "filter",
    ]
    return [
        _form(name, f"{name}({{0}}, lambda i: {body})", [type_, "BIGINT"])
        for name in names
        for body in bodies
        for type_ in ("BIGINT[]", "VARCHAR[]")
    ]


def of_casts() -> list[dict[str, Any]]:
    """Return the casts from each type to each other type."""
    return [
        _form("CAST", f"CAST({{0}} AS {target.replace('{', '{{')})", [type_])
        for type_ in SWEPT_TYPES
        for target in SWEPT_TYPES
        if type_ != target
    ] + [_form("TRY_CAST", f"TRY_CAST({{0}} AS {target})", ["VARCHAR"]) for target in SWEPT_TYPES]


def of_compositions(count: int = 1200) -> list[dict[str, Any]]:
    """Return compositions of several steps."""
    return [_form("composition", text, [type_]) for text, type_ in expression_compositions.drawn(count)]


class Process:
    """A worker process, started again after it died or did not answer."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[str] | None = None

    def ask(self, form: dict[str, Any], seconds: float = 300.0) -> dict[str, Any]:
        """Return its answer. A form that ends the process or exceeds the time has failed."""
        if self._worker is None:
            path = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]
            self._worker = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("expression_worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            )
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(form) + "\n")
        self._worker.stdin.flush()
        ready, _, _ = select.select([self._worker.stdout], [], [], seconds)
        line = self._worker.stdout.readline() if ready else ""
        if not line:
            self.close()
            return {"outcome": "failed", "why": "the process died" if ready else "no end", "tried": 1}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.communicate()
            self._worker = None


def sweep(forms: list[dict[str, Any]], workers: int = 2) -> list[dict[str, Any]]:
    """Run every form, on a few processes."""

    def part(number: int) -> list[dict[str, Any]]:
        process = Process()
        done = []
        for form in forms[number::workers]:
            done.append({**form, **process.ask(form)})
            if len(done) % 100 == 0:
                print(len(done) * workers, "of", len(forms), file=sys.stderr, flush=True)
            if done[-1]["outcome"] == "failed":
                print(done[-1]["text"], done[-1]["types"], done[-1]["why"], file=sys.stderr, flush=True)
        process.close()
        return done

    with ThreadPoolExecutor(workers) as pool:
        return [answer for answers in pool.map(part, range(workers)) for answer in answers]


def main() -> None:
    """Sweep, print a table and write the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[])
    only = parser.parse_args().only
    groups = {
        "functions": of_functions(),
        "syntax": of_syntax(),
        "casts": of_casts(),
        "compositions": of_compositions(),
    }
    found: dict[str, Any] = {"duckdb": duckdb.__version__, "listed": len(expressions.FUNCTIONS)}
    failed = []
    for group, forms in groups.items():
        started = time.perf_counter()
        answers = sweep([form for form in forms if not only or form["name"] in only])
        counts = Counter(answer["outcome"] for answer in answers)
        queries = sum(answer["tried"] for answer in answers)
        found[group] = {
            "forms": len(answers),
            **{name: counts[name] for name in ("passed", "refused", "failed")},
            "queries": queries,
        }
        print(f"{group:10} {found[group]} in {time.perf_counter() - started:.0f} s", flush=True)
        failed += [
            {key: answer[key] for key in ("name", "text", "types", "why")}
            for answer in answers
            if answer["outcome"] == "failed"
        ]
        names = {answer["name"] for answer in answers} - {
            answer["name"] for answer in answers if answer["outcome"] != "refused"
        }
        print("never taken:", *sorted(names))
    for answer in failed:
        print(answer)
    found["failed"] = failed
    if not only:
        OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
