"""Documents stay true: their code runs, their links and labels resolve, and their words are plain."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ddpmi

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PROOFS = DOCS / "proofs"
FOLDERS = {"tutorial", "how-to", "reference", "explanation", "proofs", "decisions"}
LONGEST_LINE = 160
BUILT = {".git", ".venv", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", "__pycache__", "dist"}

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
SHELLS = {"sh", "bash", "shell", "console"}
WAITS_FOREVER = re.compile(r"\bddpmi\s+explore\b")
CITED = re.compile(r"#\s*proof:\s*([^\n]+)")
LABEL = re.compile(r"\b([a-z][a-z0-9-]*)\.([A-Za-z][A-Za-z0-9-]*)")
DEFINED = re.compile(r"(?<![\w\]])\[([A-Za-z][A-Za-z0-9-]*)\](?![(\[:])")
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
TABLE_ROW = re.compile(r"^\s*\|")
UNPLAIN = re.compile(r"\b(?:whatever|so\s+many|by\s+then|is\s+told|stands|settl\w*)\b", re.IGNORECASE)
PUBLIC_MODULES = {"datasets", "sklearn", "testing"}
PUBLIC = {*ddpmi.__all__, *PUBLIC_MODULES, "InputNotFound", "MissingExtra"}
FILE = re.compile(r"`((?:src|tests|bench|docs|scripts|examples)/[\w./-]+\.(?:py|md|json|toml))`")
MACHINE = re.compile(
    r"(?<![\w.~/-])/(?:work|root|opt|tmp|home/\w+|Users/\w+|var/folders)/"
    r"|\b(?:artifactory|devpi|nexus\d?)\.|--(?:extra-)?index-url|PIP_INDEX_URL"
)


@cache
def files() -> tuple[Path, ...]:
    """Return all files of the project that are not made by a tool."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
        found = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        found = [p for p in ROOT.rglob("*") if not BUILT & set(p.relative_to(ROOT).parts)]
    return tuple(sorted(p for p in found if p.is_file()))


def name_of(path: Path) -> str:
    """Return a file's name for test ids and messages."""
    return path.relative_to(ROOT).as_posix()


def shell_commands(block: str, kind: str) -> list[str]:
    """Return the lines of a shell block that start ddpmi, continued lines joined."""
    lines = re.sub(r"\s*\\\n\s*", " ", block).splitlines()
    if kind == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.startswith("ddpmi ") and not WAITS_FOREVER.search(line)]


def runnable(path: Path) -> list[tuple[str, str]]:
    """Return the Python blocks and ddpmi commands of a page, in order, except those whose fence says `no-run`."""
    found = []
    for info, block in FENCE.findall(path.read_text(encoding="utf-8")):
        kind, *more = info.split() or [""]
        if "no-run" in more:
            continue
        if kind == "python":
            found.append(("python", block))
        if kind in SHELLS:
            found += [("shell", line) for line in shell_commands(block, kind)]
    return found


def pages_that_run() -> list[Path]:
    """Return the README and all pages for users that have something to run."""
    folders = ("tutorial", "how-to", "explanation")
    for_users = [ROOT / "README.md", *(page for name in folders for page in (DOCS / name).glob("*.md"))]
    return sorted(page for page in for_users if runnable(page))


@pytest.mark.parametrize("page", pages_that_run(), ids=name_of)
def test_pages_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block of the page runs, in order and together, and so does every ddpmi command in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program_folder(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    names: dict[str, object] = {"__name__": "page"}
    for kind, text in runnable(page):
        if kind == "python":
            exec(compile(text, name_of(page), "exec"), names)
        else:
            done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"


def test_pages_to_run_are_found() -> None:
    """The README, the tutorial and at least one page of each other folder for users have code that runs."""
    folders = {page.parent.name for page in pages_that_run() if page.parent != ROOT}
    assert ROOT / "README.md" in pages_that_run()
    assert folders == {"tutorial", "how-to", "explanation"}


def program_folder(folder: Path) -> Path:
    """Make a folder with a ddpmi command that runs these sources, installed or not."""
    program = folder / ".bin" / "ddpmi"
    program.parent.mkdir()
    start = "import sys; from ddpmi.cli import main; sys.argv[0] = 'ddpmi'; sys.exit(main())"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n')
    program.chmod(0o755)
    return program.parent


@pytest.mark.parametrize(
    ("block", "kind", "expected"),
    [
        ("pip install ddpmi\nddpmi rank a \\\n  --top 3\n", "sh", ["ddpmi rank a --top 3"]),
        ("$ ddpmi demo\nddpmi says hello\n", "console", ["ddpmi demo"]),
        ("ddpmi explore visits.release\n", "sh", []),
    ],
)
def test_commands_are_found_in_blocks(block: str, kind: str, expected: list[str]) -> None:
    """Continued lines are joined, printed output and servers are left out."""
    assert shell_commands(block, kind) == expected


def cited() -> set[tuple[str, str]]:
    """Return the (proof, label) pairs that comments in the sources name."""
    return {
        label
        for path in (ROOT / "src").rglob("*.py")
        for comment in CITED.findall(path.read_text(encoding="utf-8"))
        for label in LABEL.findall(comment)
    }


def defined() -> set[tuple[str, str]]:
    """Return the (proof, label) pairs that the proofs hold."""
    return {
        (path.stem, label)
        for path in PROOFS.glob("*.md")
        if path.stem != "README"
        for label in DEFINED.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    }


def test_each_cited_label_is_proved() -> None:
    """A comment `# proof: name.label` leads to `[label]` in docs/proofs/name.md."""
    assert sorted(cited() - defined()) == []


def test_each_proved_label_is_cited() -> None:
    """A step of a proof that no line of code rests on is dead, or the code lost its comment."""
    assert sorted(defined() - cited()) == []


def test_proofs_are_listed() -> None:
    """The index of the proofs, and that of the decisions, name every file beside them."""
    for folder in (PROOFS, DOCS / "decisions"):
        index = (folder / "README.md").read_text(encoding="utf-8")
        assert [p.name for p in folder.glob("*.md") if p.name != "README.md" and f"({p.name})" not in index] == []


def anchors(path: Path) -> set[str]:
    """Return the fragments that the headings of a document make."""
    headings = re.findall(r"^#+\s+(.+?)\s*$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("path", [p for p in files() if p.suffix == ".md"], ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    """Relative links name files of the project, and their fragments name headings."""
    broken = []
    for pair in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        link = pair[0] or pair[1]
        target, _, fragment = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        place = (path.parent / target).resolve() if target else path
        known = place.exists() and place.is_relative_to(ROOT)
        if not known or (fragment and place.suffix == ".md" and fragment not in anchors(place)):
            broken.append(link)
    assert broken == []


def test_no_file_speaks_of_a_machine() -> None:
    """No path of somebody's machine and no private package index is in any file."""
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name_of(path)}: {match.group()}" for match in MACHINE.finditer(text)]
    # The pattern itself is in this file.
    assert [line for line in found if not line.startswith(name_of(Path(__file__)))] == []


def test_pages_are_in_their_folders() -> None:
    """docs/ has an index, six folders of pages, one of pictures, and no loose pages."""
    assert {path.name for path in DOCS.iterdir()} == {"README.md", "images", *FOLDERS}
    assert not list((DOCS / "images").rglob("*.md"))


def pages(*roots: str) -> list[Path]:
    """Return these pages of the root and all of docs/."""
    return [*(ROOT / name for name in roots), *sorted(DOCS.rglob("*.md"))]


def long_lines(text: str) -> list[str]:
    """Return the first words of each line of prose that is too long; tables and code may be wider."""
    lines = FENCE.sub("", text).splitlines()
    return [line[:60] for line in lines if len(line) > LONGEST_LINE and not TABLE_ROW.match(line)]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in pages("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
        if path != DOCS / "reference" / "cli.md"
    ],
    ids=name_of,
)
def test_lines_of_prose_are_short(path: Path) -> None:
    """No line of prose is over 160 characters."""
    assert long_lines(path.read_text(encoding="utf-8")) == []


def test_long_lines_are_found() -> None:
    """Prose counts; table rows and code do not."""
    wide = "x" * (LONGEST_LINE + 1)
    assert long_lines(f"{wide}\n\n| {wide} |\n\n```text\n{wide}\n```\n") == [wide[:60]]


@pytest.mark.parametrize(
    "path",
    [*pages("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"), *sorted((ROOT / "src").rglob("*.py"))],
    ids=name_of,
)
def test_words_are_plain(path: Path) -> None:
    """Six words that made sentences hard to read do not occur."""
    assert [match.group() for match in UNPLAIN.finditer(path.read_text(encoding="utf-8"))] == []


def names_used(tree: ast.AST) -> Iterator[str]:
    """Give the names of ddpmi that code uses: imported ones, and attributes of the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("ddpmi.") for alias in node.names if alias.name.startswith("ddpmi."))
        elif isinstance(node, ast.ImportFrom) and node.module == "ddpmi":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ddpmi."):
            yield (node.module or "").removeprefix("ddpmi.")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ddpmi":
            yield node.attr


def python_of(path: Path) -> list[str]:
    """Return the Python of a document: all blocks of a page, shown or run, or a whole script."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [text]
    return [block for info, block in FENCE.findall(text) if info.split()[:1] == ["python"]]


@pytest.mark.parametrize("path", [*pages("README.md"), *sorted((ROOT / "examples").glob("*.py"))], ids=name_of)
def test_documents_use_public_names(path: Path) -> None:
    """Code that users copy imports public names alone."""
    used = {name for block in python_of(path) for name in names_used(ast.parse(block))}
    assert sorted(used - PUBLIC) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from ddpmi.curator import exact", {"curator"}),
        ("import ddpmi.engines.duckdb", {"engines.duckdb"}),
        ("import ddpmi\nddpmi.rank(ddpmi.demo.x)", {"rank", "demo"}),
        ("from ddpmi import Plan", {"Plan"}),
        ("from ddpmi.datasets import flights", {"datasets"}),
    ],
)
def test_names_are_found_in_code(code: str, expected: set[str]) -> None:
    """Imports of every form and attributes of the package count."""
    assert set(names_used(ast.parse(code))) == expected


@pytest.mark.parametrize("path", [p for p in files() if p.suffix == ".md"], ids=name_of)
def test_named_files_exist(path: Path) -> None:
    """A path in a code span leads to a file, unless the text says which commit holds it."""
    text = re.sub(r"`[^`]+`\s+at\s+commit\s+[0-9a-f]{7,40}", "", path.read_text(encoding="utf-8"))
    assert [name for name in FILE.findall(text) if not (ROOT / name).is_file()] == []
