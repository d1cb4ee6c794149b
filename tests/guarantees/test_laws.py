"""The laws of the packages, read from the syntax trees of the sources. ARCHITECTURE.md says why they hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SRC = Path(__file__).resolve().parents[2] / "src"
PACKAGE = SRC / "ddpmi"

# Law 1. An entry of src/ddpmi imports only from its own row or from a row above it.
# `audit` and `verify` are planned.
ROWS = """
    errors text _typing
    privacy information
    pipeline
    planning
    releases
    ledger engines
    curator
    rankings
    reports
    applications datasets testing sklearn audit verify
    cli
    __init__ __main__
"""
ROW_OF = {entry: number for number, row in enumerate(ROWS.strip().splitlines()) for entry in row.split()}
MOST_ENTRIES = 22

# Law 2. What works on released numbers may import these entries and no others.
ALLOWED = {
    "rankings": {"errors", "text", "_typing", "information", "releases", "rankings"},
    "reports": {"errors", "text", "_typing", "information", "releases", "rankings", "reports"},
}

# Law 3. Each library of an engine, and the only modules that may import it.
DRIVERS = {
    "duckdb": r"engines\.duckdb\..*",
    "_duckdb": r"engines\.duckdb\..*",
    "pyspark": r"engines\.spark\..*|rankings\.spark",
    "py4j": r"engines\.spark\..*",
    "psycopg": r"engines\.postgres\..*",
    "psycopg2": r"engines\.postgres\..*",
    "adbc_driver_manager": r"engines\.postgres\..*",
    "adbc_driver_postgresql": r"engines\.postgres\..*",
    "sqlalchemy": r"engines\..*",
    "python_calamine": r"engines\.workbooks",
    "deltalake": r"engines\.lakes",
    "pyiceberg": r"engines\.lakes",
}
ENGINES = re.compile(r"engines\.(duckdb|spark|postgres|sqlite)\b")
NAMES_ENGINES = re.compile(r"engines\b|cli\b|pipeline\.dialects$|rankings\.spark$")

LOADERS = {"__import__", "import_module", "importlib.import_module"}
LARGEST_MODULE = 800
LONGEST_BODY = 40
# Generated data, seeded tests, and the simulation of public hints: none of them draws the noise of a release.
SEEDED = re.compile(r"testing$|datasets\b|applications\.simulation$")
SAMPLERS = {"laplace", "normal", "standard_normal", "gauss", "normalvariate", "geometric", "expovariate"}
ENGINE_RANDOMNESS = re.compile(r"\b(random|rand|randn|setseed|uuid|gen_random_uuid|tablesample)\s*\(", re.IGNORECASE)


@cache
def modules() -> dict[str, ast.Module]:
    """Return the tree of every module by its dotted name below ddpmi."""
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def name_of(path: Path) -> str:
    """Return the dotted name of a module; a package has the name of its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def path_of(module: str) -> Path:
    """Return the file of a module."""
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for other in node.orelse:
                yield other
                yield from run_time_nodes(other)
            continue
        yield node
        yield from run_time_nodes(node)


def imports(module: str, tree: ast.Module, *, types: bool = True) -> Iterator[str]:
    """Yield the absolute names that a module imports: at the top, in functions, by import_module, and for types."""
    inside = ["ddpmi", *module.split(".")]
    package = inside if path_of(module).name == "__init__.py" else inside[:-1]
    for node in ast.walk(tree) if types else run_time_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{start}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in LOADERS:
            yield from (str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant))


def own(name: str) -> str | None:
    """Return the module of ddpmi that an imported name leads to, or None for another package."""
    parts = name.split(".")
    if parts[0] != "ddpmi":
        return None
    for length in range(len(parts), 1, -1):
        if ".".join(parts[1:length]) in modules():
            return ".".join(parts[1:length])
    return "__init__"


def entry_of(module: str) -> str:
    """Return the entry of src/ddpmi that a module lies in."""
    return module.split(".", maxsplit=1)[0]


def broken(module: str, imported: str) -> str | None:
    """Return which law an import of ddpmi breaks, or None."""
    target = own(imported)
    if target is None:
        return None
    here, there = entry_of(module), entry_of(target)
    if ROW_OF[there] > ROW_OF[here]:
        return "1: a later row"
    if here in ALLOWED and there not in ALLOWED[here]:
        return "2: across the border"
    if ENGINES.match(target) and not NAMES_ENGINES.match(module):
        return "3: names an engine"
    if here == "engines" and there == "planning":
        return "4: engines import no planning"
    return None


def foreign(module: str, imported: str) -> str | None:
    """Return the library of an engine that a module must not import, or None."""
    root = imported.split(".", maxsplit=1)[0]
    return root if root in DRIVERS and not re.fullmatch(DRIVERS[root], module) else None


@cache
def graph(*, types: bool) -> dict[str, frozenset[str]]:
    """Return which modules of ddpmi each module imports."""
    return {
        name: frozenset(t for i in imports(name, tree, types=types) if (t := own(i)) is not None) - {name}
        for name, tree in modules().items()
    }


def cycles(edges: dict[str, frozenset[str]]) -> list[str]:
    """Return what reaches itself."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = edges.get(waiting.pop(), frozenset()) - seen
            seen |= new
            waiting += new
        return seen

    return sorted(name for name in edges if name in reached(name))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions and methods."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the string constants that are not docstrings or bare strings."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def test_every_entry_has_a_row() -> None:
    """A new package or module at the top needs a place in the rows, and there are few of them."""
    entries = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()} - {"__pycache__", "py.typed"}
    assert sorted(entries - set(ROW_OF)) == []
    assert len(entries) <= MOST_ENTRIES


def test_no_package_has_the_name_of_a_public_function() -> None:
    """`import ddpmi.report` would hide the function `ddpmi.report`."""
    import ddpmi

    assert {path.name.removesuffix(".py") for path in PACKAGE.iterdir()} & set(ddpmi.__all__) == set()


def test_the_laws_of_imports() -> None:
    """Imports go up the rows, cross the border by the list alone, and name engines in few places; types included."""
    wrong = [
        f"{name} imports {imported}: law {law}"
        for name, tree in modules().items()
        for imported in imports(name, tree)
        if (law := broken(name, imported)) is not None
    ]
    assert sorted(wrong) == []


def test_law_1_has_no_cycles() -> None:
    """No package reaches itself, types included; no module reaches itself when it runs."""
    packages: dict[str, set[str]] = {}
    for name, targets in graph(types=True).items():
        packages.setdefault(entry_of(name), set()).update(entry_of(target) for target in targets)
    assert cycles({name: frozenset(targets - {name}) for name, targets in packages.items()}) == []
    assert cycles(graph(types=False)) == []


def test_law_3_libraries_of_engines_are_imported_in_their_folders() -> None:
    """The library of an engine appears only in the engine's folder, and that of Spark in rankings/spark.py too."""
    wrong = [
        f"{name} imports {library}"
        for name, tree in modules().items()
        for imported in imports(name, tree)
        if (library := foreign(name, imported)) is not None
    ]
    assert sorted(wrong) == []


@pytest.mark.parametrize(
    ("module", "imported", "law"),
    [
        ("privacy.noise", "ddpmi.planning.plan.Plan", "1"),
        ("pipeline.seeds", "ddpmi.rankings.ranking.Ranking", "1"),
        ("rankings.ranking", "ddpmi.curator.door.release", "2"),
        ("rankings.cells", "ddpmi.curator.columns", "2"),
        ("rankings.orders", "ddpmi.planning.plan.Plan", "2"),
        ("rankings.spark", "ddpmi.engines.spark.sessions", "2"),
        ("reports.page", "ddpmi.privacy.noise", "2"),
        ("reports.page", "ddpmi.ledger.ledger.Ledger", "2"),
        ("curator.observations", "ddpmi.engines.duckdb.source", "3"),
        ("applications.simulation", "ddpmi.engines.spark.engine", "3"),
        ("engines.noising", "ddpmi.planning.calibration", "4"),
        ("engines.spark.engine", "ddpmi.planning.plan.Plan", "4"),
    ],
)
def test_a_forbidden_import_is_found(module: str, imported: str, law: str) -> None:
    """The laws can fail: each of these imports would."""
    assert (broken(module, imported) or "").startswith(law)


@pytest.mark.parametrize(
    ("module", "imported"),
    [("curator.door", "duckdb"), ("rankings.display", "pyspark.sql"), ("engines.duckdb.engine", "pyspark")],
)
def test_a_forbidden_library_is_found(module: str, imported: str) -> None:
    """Libraries of engines are refused elsewhere."""
    assert foreign(module, imported) is not None


def test_engines_have_the_same_file_names() -> None:
    """Each engine's folder has engine.py and source.py."""
    folders = [path for path in (PACKAGE / "engines").iterdir() if (path / "__init__.py").is_file()]
    assert folders
    assert {folder.name: {"engine.py", "source.py"} - {p.name for p in folder.iterdir()} for folder in folders} == {
        folder.name: set() for folder in folders
    }


def test_names_of_users_are_quoted_in_one_file() -> None:
    """Doubling of quotation marks, the heart of quoting an identifier, is written in dialects.py alone."""
    doubling = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "replace"
        and [ast.unparse(a) for a in node.args] == ["'\"'", "'\"\"'"]
    }
    assert doubling <= {"pipeline.dialects"}


def test_later_sql_knows_only_the_canonical_columns() -> None:
    """The stages after observations import neither the user's column names nor the quoting of them."""
    for name in ("pipeline.contributions", "pipeline.aggregates"):
        used = set(imports(name, modules()[name]))
        assert used & {"ddpmi.curator.columns.Columns", "ddpmi.pipeline.dialects.quote"} == set(), name


@pytest.mark.parametrize(
    "code",
    [
        "import ddpmi",
        "import sys; sys.argv = ['ddpmi', '--help']; from ddpmi.cli import main; main()",
    ],
    ids=["import", "help"],
)
def test_import_and_help_load_no_engine(code: str) -> None:
    """`import ddpmi` and `ddpmi --help` stay light: no engine and no frame library is loaded."""
    heavy = ["duckdb", "pyspark", "pyarrow", "pandas", "polars"]
    say = f"print('LOADED', *sorted(set({heavy}) & set(sys.modules)), file=sys.stderr)"
    program = f"import atexit, sys\natexit.register(lambda: {say})\n{code}"
    env = {"PYTHONPATH": str(SRC), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (0, ["LOADED"]), done.stderr


def test_public_names_are_sorted_complete_and_present() -> None:
    """`ddpmi.__all__` lists what a user sees, each name once, and each can be had."""
    import ddpmi

    names = list(ddpmi.__all__)
    assert names == sorted(set(names))
    assert [name for name in names if getattr(ddpmi, name, None) is None] == []
    # A submodule becomes an attribute of the package when anything imports it; it is not a public name.
    seen = {name for name in dir(ddpmi) if not name.startswith("_") and name not in {"annotations", "TYPE_CHECKING"}}
    public = {name for name in seen if not isinstance(getattr(ddpmi, name), ModuleType)}
    assert public - set(names) == set()


def test_modules_are_not_too_long() -> None:
    """No module has more than 800 lines; one that needs more needs a reason here."""
    lines = {name: len(path_of(name).read_text(encoding="utf-8").splitlines()) for name in modules()}
    assert {name: n for name, n in lines.items() if n > LARGEST_MODULE} == {}


def test_function_bodies_are_short() -> None:
    """No function body has 40 lines, its docstring not counted."""
    long = {}
    for name, tree in modules().items():
        for function in functions(tree):
            body = function.body[1:] if ast.get_docstring(function) is not None else function.body
            if body and (function.end_lineno or 0) - body[0].lineno + 1 >= LONGEST_BODY:
                long[f"{name}.{function.name}"] = (function.end_lineno or 0) - body[0].lineno + 1
    assert long == {}


def test_tests_lie_in_the_same_folders() -> None:
    """Every package has a folder of tests, and every folder of tests belongs to a package, or is support or guarantees."""
    tests = SRC.parent / "tests"
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*/__init__.py")}
    tested = {path.relative_to(tests).as_posix() for path in tests.rglob("*") if path.is_dir() and path.name[0] != "_"}
    assert tested - folders == {"support", "guarantees"}
    assert folders - tested == set()


def test_no_seeded_randomness() -> None:
    """Only generated data and the test kit, which is stamped NOT PRIVATE, use generators that take a seed."""
    wrong = set()
    for name, tree in modules().items():
        if SEEDED.match(name):
            continue
        used = {i for i in imports(name, tree, types=False) if re.match(r"random\b|numpy\.random\b", i)}
        used |= {
            text
            for node in run_time_nodes(tree)
            if isinstance(node, ast.Attribute) and (text := ast.unparse(node)) in {"np.random", "numpy.random"}
        }
        wrong |= {f"{name}: {text}" for text in used}
    assert sorted(wrong) == []


def test_noise_comes_from_privacy_alone() -> None:
    """No other module calls a sampler of another library, or asks an engine for random numbers."""
    wrong = set()
    for name, tree in modules().items():
        if name in {"privacy.noise", "privacy.samplers"} or SEEDED.match(name):
            continue
        wrong |= {
            f"{name}: {ast.unparse(node.func)}"
            for node in run_time_nodes(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAMPLERS
        }
        wrong |= {f"{name}: {text!r}" for text in texts(tree) if ENGINE_RANDOMNESS.search(text)}
    assert sorted(wrong) == []


def test_the_operating_system_is_asked_for_bits_in_few_places() -> None:
    """Random bits come from randomness.py; ids and salts may come from `secrets` where they are made."""
    asking = {
        name
        for name, tree in modules().items()
        for node in run_time_nodes(tree)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.urandom", "os.getrandom"})
        or (isinstance(node, ast.Import) and any(a.name == "secrets" for a in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "secrets")
    }
    assert asking <= {
        "privacy.randomness",
        "pipeline.contributions",
        "curator.door",
        "engines.spark.engine",
        "engines.temporary",
        "ledger.ledger",
        "ledger.storage",
        "releases.release",
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import duckdb", {"duckdb"}),
        ("def f():\n    from ddpmi.engines import duckdb", {"ddpmi.engines.duckdb"}),
        ("from . import curator", {"ddpmi.curator"}),
        ("from .engines.spark import X", {"ddpmi.engines.spark.X"}),
        ("import importlib\nimportlib.import_module('pyspark.sql')", {"importlib", "pyspark.sql"}),
        ("if TYPE_CHECKING:\n    import duckdb\nelse:\n    import json", {"duckdb", "json"}),
    ],
)
def test_the_reader_of_imports_sees_them_all(code: str, expected: set[str]) -> None:
    """The laws rest on this reader: it finds imports at any depth and of any form, those for types too."""
    assert set(imports("errors", ast.parse(code))) == expected
