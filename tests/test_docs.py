"""Documents cannot rot: their code runs, their labels and links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "docs" / "proofs"
BUILT = {".git", ".venv", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", "__pycache__", "dist"}

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
SHELLS = {"sh", "bash", "shell", "console"}
WAITS_FOREVER = re.compile(r"\bddpmi\s+explore\b")
CITED = re.compile(r"#\s*proof:\s*([^\n]+)")
LABEL = re.compile(r"\b([a-z][a-z0-9-]*)\.([A-Za-z][A-Za-z0-9-]*)")
DEFINED = re.compile(r"(?<![\w\]])\[([A-Za-z][A-Za-z0-9-]*)\](?![(\[:])")
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
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


@pytest.mark.parametrize("page", ["README.md", "docs/accuracy.md", "docs/applications.md"])
def test_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block of the page runs, in order and together, and so does every ddpmi command in it.

    A block whose fence says `no-run` after its language is shown only.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program_folder(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    names: dict[str, object] = {"__name__": "page"}
    ran = 0
    for info, block in FENCE.findall((ROOT / page).read_text(encoding="utf-8")):
        kind, *more = info.split() or [""]
        if "no-run" in more:
            continue
        if kind == "python":
            exec(compile(block, page, "exec"), names)
            ran += 1
        for line in shell_commands(block, kind) if kind in SHELLS else ():
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            ran += 1
    assert ran >= 2


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
    for folder in (PROOFS, ROOT / "docs" / "decisions"):
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
    """No path of somebody's machine and no private package index stands in any file."""
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name_of(path)}: {match.group()}" for match in MACHINE.finditer(text)]
    # The pattern itself stands in this file.
    assert [line for line in found if not line.startswith(name_of(Path(__file__)))] == []
