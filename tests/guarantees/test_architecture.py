"""ARCHITECTURE.md is true: its tree and its table name what exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<what>[^|]+) \| `(?P<file>src/[^`|]+)` \| (?P<names>[^|]+) \|$", re.MULTILINE)
ROWS = [match.groupdict() for match in ROW.finditer(PAGE)]
TREE = PAGE.partition("## The tree")[2].partition("```\n")[2].partition("```")[0]


def defined(file: Path) -> set[str]:
    """Return the names that a module or a script defines at its top."""
    if file.suffix == ".js":
        return set(re.findall(r"^(?:class|const) (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_the_table_is_long_enough() -> None:
    """A newcomer finds at least forty behaviours in it, each once."""
    assert len({row["what"] for row in ROWS}) == len(ROWS)
    assert len(ROWS) >= 40


@pytest.mark.parametrize("row", ROWS, ids=[row["what"] for row in ROWS])
def test_every_file_and_name_of_the_table_exists(row: dict[str, str]) -> None:
    """The file is there and defines the names beside it."""
    names = set(re.findall(r"`(\w+)`", row["names"]))
    assert names
    assert names - defined(ROOT / row["file"]) == set()


def test_the_table_names_every_package() -> None:
    """No package of the product is left out."""
    packages = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "src" / "ddpmi").glob("*/__init__.py")}
    named = {"/".join(row["file"].split("/")[:3]) for row in ROWS}
    assert packages - named <= {"src/ddpmi/datasets"}


def test_the_tree_shows_every_entry() -> None:
    """Each package and module at the top has its line in the tree, and each line leads somewhere."""
    shown = set(re.findall(r"^  (\w+(?:\.py|/))", TREE, re.MULTILINE))
    there = {f"{p.name}/" if p.is_dir() else p.name for p in (ROOT / "src" / "ddpmi").iterdir()}
    assert shown == there - {"__pycache__/", "__init__.py", "__main__.py", "py.typed"}
    assert all((ROOT / name).is_dir() for name in re.findall(r"^(\w+)/", TREE, re.MULTILINE))
