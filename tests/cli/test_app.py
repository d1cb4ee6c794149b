"""The program: help, exit codes, errors, streams and pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ddpmi
from ddpmi import Release
from ddpmi.cli import main
from ddpmi.curator.door import check_fit
from ddpmi.errors import InputError
from ddpmi.information.scores import check_name
from tests.support.cli_fixtures import BUDGET, CANARY, PAIRS, SRC, Place, hint_of, in_its_own_process, refused_clearly
from tests.support.make_cli_reference import REFERENCE, commands, help_of, reference


@pytest.mark.parametrize("command", commands(), ids=lambda name: name or "ddpmi")
def test_help_has_an_example(command: str) -> None:
    """Every command says what it does, with an example to paste."""
    text = help_of(command)
    assert "Example:" in text
    assert f"ddpmi {command}".strip() in text.split("Example:")[1]


def test_the_reference_is_up_to_date() -> None:
    """docs/reference/cli.md is what `python -m tests.support.make_cli_reference` writes."""
    assert REFERENCE.read_text(encoding="utf-8") == reference()


def test_no_command_is_help(place: Place) -> None:
    """The bare program prints its help."""
    ran = place.run()
    assert (ran.code, "Usage: ddpmi" in ran.out) == (0, True)


def test_main_reads_the_words_of_the_process(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments `main` takes those of the process."""
    monkeypatch.setattr(sys, "argv", ["ddpmi", "rank", "nowhere"])
    assert main() == 2


def test_distinct_takes_no_word(place: Place) -> None:
    """The bare flag before a path does not take the path as its value."""
    ran = place.run("plan", "--distinct", "visits.csv", *BUDGET, *PAIRS, "--format", "json")
    assert (ran.code, json.loads(ran.out)["distinct"]) == (0, True)


def test_did_you_mean(place: Place) -> None:
    """A misspelt word is answered with the right one."""
    assert "Did you mean --epsilon?" in place.run("plan", "--epsilonn", "1").err
    assert 'Did you mean "release"?' in place.run("relase").err


def test_unexpected_errors_show_no_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error shows its type alone. DDPMI_DEBUG=1 shows the traceback."""

    def fails(*_: object) -> None:
        raise TypeError(CANARY)

    monkeypatch.setattr(Release, "load", fails)
    ran = place.run("rank", "visits.release")
    assert (ran.code, CANARY in ran.err) == (1, False)
    assert "internal error: TypeError" in ran.err
    monkeypatch.setenv("DDPMI_DEBUG", "1")
    assert CANARY in place.run("rank", "visits.release").err


def test_errors_of_the_disk_are_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the operating system is printed in its words."""

    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "visits.release")

    monkeypatch.setattr(Release, "load", fails)
    ran = place.run("rank", "visits.release")
    assert (ran.code, refused_clearly(ran)) == (1, True)
    assert "Permission denied: visits.release" in ran.err


def test_help_is_light() -> None:
    """Help and version load no engine, no frames and no numbers."""
    heavy = ["duckdb", "pyarrow", "numpy", "pandas", "polars", "pyspark", "cryptography"]
    program = f"""import sys
from ddpmi.cli import main
main(sys.argv[1:])
print("LOADED", *sorted(set({heavy}) & set(sys.modules)), file=sys.stderr)"""
    pages = (["--help"], ["release", "--help"], ["ledger", "--help"], ["rank", "--help"], ["compare", "--help"])
    for words in (*pages, ["--version"]):
        ran = in_its_own_process(Path.cwd(), *words, python=("-c", program))
        assert (ran.code, ran.err.split()) == (0, ["LOADED"]), words


def test_python_m_ddpmi(place: Place) -> None:
    """The package runs as a module, with the same exit codes."""
    from importlib.metadata import version

    ran = in_its_own_process(place.folder, "--version")
    assert (ran.code, ran.out.strip()) == (0, version("ddpmi"))
    assert in_its_own_process(place.folder, "rank", "nowhere").code == 2


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_closed_pipe_is_silent(ranked: Place) -> None:
    """A reader that closes the pipe early gets no error."""
    command = [sys.executable, "-m", "ddpmi", "ledger", "export", "visits.ledger"]
    # A pipe whose reader has gone before the first byte.
    reader, writer = os.pipe()
    os.close(reader)
    env = os.environ | {"PYTHONPATH": str(SRC)}
    for words in (command, [*command[:3], "rank", "names", "--format", "csv"], [*command[:3], "--help"]):
        done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, env=env, check=False)
        complaints = [line for line in done.stderr.decode().splitlines() if not line.startswith("NOT PRIVATE")]
        assert (done.returncode, complaints) == (0, [])
    os.close(writer)


PLAIN = ("visits.csv", *BUDGET, *PAIRS)
HINTS = {
    "bounds": (("visits.csv", *BUDGET, "--pairs", "0"), "--pairs 50 --labels 1"),
    "a clip": (("visits.csv", *BUDGET, *PAIRS, "--value", "v"), "choose it by what is publicly known: --clip 100"),
    "a step": ((*PLAIN, "--step", "5"), "--pairs 50 --clip 100 --step 1"),
    "a budget": (("visits.csv", "--epsilon", "0", "--delta", "1e-6", *PAIRS), "--epsilon 1 --delta 1e-7"),
    "shares": (
        (*PLAIN, "--shares", "pairs=1"),
        "--shares pairs=0.85,features=0.1,labels=0.04,total=0.01, or leave --shares out",
    ),
    "shares on the command line": (
        (*PLAIN, "--shares", "pairs"),
        "--shares pairs=0.7,features=0.23,labels=0.06,total=0.01",
    ),
    "columns": (
        (*PLAIN, "--unit", "who"),
        "column names are case-sensitive; pass them as --unit, --feature, --label, --value",
    ),
    "a release id": ((*PLAIN, "--release-id", "a b"), "--release-id visits-2026-11"),
    "settings": ((*PLAIN, "--conf", "memory_limit=lots"), "--conf memory_limit=4GB, --conf threads=2"),
    "a folder": (PLAIN, "mkdir -p 'no'"),
    "an expression": (
        (*PLAIN, "--label-sql", "first(label) OVER ()"),
        'use columns, constants, comparisons, CASE, CAST and scalar functions: --label-sql "year(visited)"',
    ),
    "an empty expression": ((*PLAIN, "--label-sql", " "), '--label-sql "year(visited)"'),
    "rows": ((*PLAIN, "--where", "length(label)"), "--where \"country = 'NZ'\""),
    "a grid": (
        (*PLAIN, "--grid", "--public-labels", "labels.txt", "--public-features", "features.txt"),
        "leave --grid out: every pair of known keys is released",
    ),
}


@pytest.mark.parametrize(("words", "hint"), HINTS.values(), ids=HINTS)
def test_hints_name_options(lists: Place, words: tuple[str, ...], hint: str) -> None:
    """Errors of the library show what can be typed on the command line."""
    folder = "no/new" if hint.startswith("mkdir") else "new"
    ran = lists.run("release", *words, *lists.paid(folder))
    assert (ran.code, hint_of(ran)) == (2, hint), ran.err


def plan(**more: Any) -> ddpmi.Plan:
    return ddpmi.Plan(budget=ddpmi.Budget(1, 1e-7), bounds=ddpmi.Bounds(pairs=2), **more)


ONE_COUNT = pa.table({"feature": ["tea"], "label": ["uk"], "units": [9]})
ADVICE: dict[str, tuple[Callable[[], object], str]] = {
    "a list that is no list": (lambda: plan(public_labels="a"), "--public-labels FILE"),
    "an empty list": (lambda: plan(public_labels=[]), "--public-labels FILE, or leave it out"),
    "a space": (lambda: plan(space="rows"), "leave it out for the default: --space units"),
    "a score": (lambda: check_name("magic"), "--score chi2"),
    "counts": (
        lambda: check_fit(ddpmi.observe_counts(ONE_COUNT, count="units"), plan()),
        "--pairs 1 --distinct=units",
    ),
}


@pytest.mark.parametrize(("call", "hint"), ADVICE.values(), ids=ADVICE)
def test_hints_of_the_library_name_options(call: Callable[[], object], hint: str) -> None:
    """Errors that the command line checks earlier have a hint with options, too."""
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.advice is not None
    assert caught.value.advice.in_shell == hint
