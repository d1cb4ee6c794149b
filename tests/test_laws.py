"""The laws of the house, read from the syntax trees of the sources; ARCHITECTURE.md says why they hold."""

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

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SRC / "ddpmi"

# Imports go to the same line or to an earlier one. A module that stands in no line fails the suite.
LAYERS = {
    "words": "errors spec budget show",
    "maths": """noise noise_samplers noise_tables noise_tails randomness
                accounting amplification certainty doubts measures mi orders patterns pooling profiles scores scoring stability statistics
                uncertainty views""",
    "text": "statements seeds contributions aggregates selection thresholds calibration shares combinations plan hints suggestions explain",
    "border": "tables tables_arrow tables_duckdb tables_spark receipts releases",
    "io": """engines engines.cells engines.counts engines.draws engines.expressions engines.functions engines.files
             engines.frames engines.lakes engines.progress engines.texts engines.duckdb engines.duckdb_sources
             engines.spark engines.spark_sessions engines.spark_sources engines.postgres
             ledger ledger_entries ledger_file ledger_schema""",
    "inside": "roles observations measurements curator",
    "outside": "ranking_files ranking_tables rankings rankings_spark comparisons charts reports explorer",
    "doors": """cascade_specs cascades cli cli_columns cli_expand cli_keys cli_ledger cli_options cli_rank cli_show cli_steps
                demo simulation testing datasets __init__ __main__""",
}
LAYER_OF = {module: line for line, modules in enumerate(LAYERS.values()) for module in modules.split()}
NUMBER_OF_DOORS = len(LAYERS) - 1
PRIVATE = re.compile(r"(engines|ledger|observations|curator)\b|ledger_")

# Law 4: each library of an engine, and the only modules that may import it.
DRIVERS = {
    "duckdb": r"(engines\.|tables_)duckdb\w*",
    "_duckdb": r"(engines\.|tables_)duckdb\w*",
    "pyspark": r"(engines\.|tables_)spark\w*",
    "py4j": r"engines\.spark\w*",
    "psycopg": r"engines\.postgres",
    "psycopg2": r"engines\.postgres",
    "adbc_driver_manager": r"engines\.postgres",
    "adbc_driver_postgresql": r"engines\.postgres",
    "sqlalchemy": r"engines\.\w+",
    "deltalake": r"engines\.lakes",
    "pyiceberg": r"engines\.lakes",
}
LOADERS = {"__import__", "import_module", "importlib.import_module"}
# Generated data, seeded tests, and the simulation of public hints: none of them draws the noise of a release.
SEEDED = {"testing", "datasets", "simulation"}
SAMPLERS = {"laplace", "normal", "standard_normal", "gauss", "normalvariate", "geometric", "expovariate"}
ENGINE_RANDOMNESS = re.compile(r"\b(random|rand|randn|setseed|uuid|gen_random_uuid|tablesample)\s*\(", re.IGNORECASE)


@cache
def modules() -> dict[str, ast.Module]:
    """Return the tree of every module by its dotted name below ddpmi."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


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


def imports(module: str, tree: ast.Module) -> Iterator[str]:
    """Yield the absolute names that a module imports, at the top, in functions, or by import_module."""
    inside = ["ddpmi", *module.split(".")]
    package = inside if path_of(module).name == "__init__.py" else inside[:-1]
    for node in run_time_nodes(tree):
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


@cache
def graph() -> dict[str, frozenset[str]]:
    """Return which modules of ddpmi each module imports."""
    return {
        name: frozenset(target for i in imports(name, tree) if (target := own(i)) is not None) - {name}
        for name, tree in modules().items()
    }


def reach(start: str) -> set[str]:
    """Return all modules that one module reaches, itself included."""
    seen, open_ = {start}, [start]
    while open_:
        new = graph().get(open_.pop(), frozenset()) - seen
        seen |= new
        open_ += new
    return seen


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


def test_every_module_stands_in_a_layer() -> None:
    """A new module must be given its place before it can be merged."""
    assert sorted(set(modules()) - set(LAYER_OF)) == []


def test_law_1_imports_point_up() -> None:
    """No module imports from a later layer."""
    wrong = [
        f"{name} imports {target}"
        for name, targets in graph().items()
        for target in targets
        if LAYER_OF.get(target, NUMBER_OF_DOORS) > LAYER_OF.get(name, 0)
    ]
    assert sorted(wrong) == []


def test_law_1_has_no_cycles() -> None:
    """No module reaches itself."""
    assert [name for name in modules() if any(name in reach(target) for target in graph()[name])] == []


def test_law_2_the_outside_never_reaches_the_inside() -> None:
    """What ranks and reports cannot reach rows, engines or the ledger, not even through another module."""
    for name in LAYERS["outside"].split():
        if name in modules():
            assert [m for m in sorted(reach(name)) if PRIVATE.match(m)] == [], name


def test_law_3_names_of_users_are_quoted_in_one_file() -> None:
    """Doubling of quotation marks, the heart of quoting an identifier, is written in statements.py alone."""
    doubling = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "replace"
        and [ast.unparse(a) for a in node.args] == ["'\"'", "'\"\"'"]
    }
    assert doubling <= {"statements"}


def test_law_3_later_sql_knows_only_the_canonical_columns() -> None:
    """The stages after observations import neither the user's column names nor the quoting of them."""
    for name in ("contributions", "aggregates"):
        if name in modules():
            used = {i.removeprefix("ddpmi.") for i in imports(name, modules()[name])}
            assert used & {"spec.Columns", "statements.quote"} == set(), name


def test_law_4_engines_are_imported_in_their_own_files() -> None:
    """Libraries of engines appear only in the engine's file and in its tables file."""
    wrong = [
        f"{name} imports {root}"
        for name, tree in modules().items()
        for root in {i.split(".")[0] for i in imports(name, tree)} & set(DRIVERS)
        if not re.fullmatch(DRIVERS[root], name)
    ]
    assert sorted(wrong) == []


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


def test_modules_are_short() -> None:
    """No module has 400 lines."""
    lines = {name: len(path_of(name).read_text(encoding="utf-8").splitlines()) for name in modules()}
    assert {name: n for name, n in lines.items() if n >= 400} == {}


def test_function_bodies_are_short() -> None:
    """No function body has 40 lines, its docstring not counted."""
    long = {}
    for name, tree in modules().items():
        for function in functions(tree):
            body = function.body[1:] if ast.get_docstring(function) is not None else function.body
            if body and (function.end_lineno or 0) - body[0].lineno + 1 >= 40:
                long[f"{name}.{function.name}"] = (function.end_lineno or 0) - body[0].lineno + 1
    assert long == {}


def test_parameters_are_few() -> None:
    """Six parameters at most besides `self`; commands are free, and four functions may have more."""
    many = {}
    for name, tree in modules().items():
        for function in functions(tree) if name != "cli" else ():
            given = function.args
            named = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            count = len([a for i, a in enumerate(named) if i > 0 or a not in {"self", "cls"}])
            if count > 6:
                many[f"{name}.{function.name}"] = "PLR0913" in source_line(name, function.lineno)
    assert all(many.values()), many
    assert len(many) <= 4, many


def source_line(module: str, number: int) -> str:
    """Return one line of a module's text."""
    return path_of(module).read_text(encoding="utf-8").splitlines()[number - 1]


def test_no_seeded_randomness() -> None:
    """Only generated data and the test kit, which is stamped NOT PRIVATE, use generators that take a seed."""
    wrong = set()
    for name, tree in modules().items():
        if name in SEEDED:
            continue
        used = {i for i in imports(name, tree) if re.match(r"random\b|numpy\.random\b", i)}
        used |= {
            text
            for node in run_time_nodes(tree)
            if isinstance(node, ast.Attribute) and (text := ast.unparse(node)) in {"np.random", "numpy.random"}
        }
        wrong |= {f"{name}: {text}" for text in used}
    assert sorted(wrong) == []


def test_noise_comes_from_noise_py_alone() -> None:
    """No other module calls a sampler of another library, or asks an engine for random numbers."""
    wrong = set()
    for name, tree in modules().items():
        if name.startswith("noise") or name in SEEDED:
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
        "randomness",
        "contributions",
        "curator",
        "engines.spark",
        "ledger",
        "ledger_file",
        "releases",
        "explorer",
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import duckdb", {"duckdb"}),
        ("def f():\n    from ddpmi.engines import duckdb", {"ddpmi.engines.duckdb"}),
        ("from . import curator", {"ddpmi.curator"}),
        ("from .engines.spark import X", {"ddpmi.engines.spark.X"}),
        ("import importlib\nimportlib.import_module('pyspark.sql')", {"importlib", "pyspark.sql"}),
        ("if TYPE_CHECKING:\n    import duckdb\nelse:\n    import json", {"json"}),
    ],
)
def test_the_reader_of_imports_sees_them_all(code: str, expected: set[str]) -> None:
    """The laws rest on this reader: it finds imports at any depth and of any form, but not for types."""
    assert set(imports("errors", ast.parse(code))) == expected
