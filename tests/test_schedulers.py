"""The files of `examples/schedulers` work: the script runs, the DAG's command runs, and the model's rows can be released."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "examples" / "schedulers"
WEEK = "2026-W10"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the script, a week of visits and a ledger, and a ddpmi command in front of the PATH."""
    shutil.copy(FILES / "weekly.sh", tmp_path)
    rows = [
        (f"{c}{n}", site, c)
        for c, own in (("IN", "irctc"), ("CN", "bili"))
        for n in range(1000)
        for site in (own, "wiki")
    ]
    table = pa.table(dict(zip(("user_id", "site", "country"), zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / f"visits-{WEEK}.parquet")
    ddpmi.Ledger(tmp_path / "visits.ledger", limit=ddpmi.Budget(1, 1e-6))
    program = tmp_path / "bin" / "ddpmi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ddpmi "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a shell as a scheduler does."""
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "HOME": str(place), "VISITS": str(place)}
    return subprocess.run(["bash", "-c", command], cwd=place, env=env, capture_output=True, text=True, check=False)


def test_cron_calls_the_script_and_a_retry_costs_nothing(place: Path) -> None:
    """The line of the crontab names the script; a second run of a week ends well and charges nothing, another week is refused."""
    line = next(line for line in (FILES / "crontab").read_text().splitlines() if line and not line.startswith("#"))
    times, command = line.split()[:5], line.split(maxsplit=5)[5]
    assert all(re.fullmatch(r"[\d*,/-]+", part) for part in times)
    assert command == 'cd "$HOME/visits" && ./weekly.sh 2>> weekly.log'
    assert "%" not in line
    first = run(f"./weekly.sh {WEEK}", place)
    assert first.returncode == 0, first.stderr
    assert (place / f"visits-{WEEK}.html").is_file()
    (place / f"visits-{WEEK}.html").unlink()
    assert run(f"./weekly.sh {WEEK}", place).returncode == 0
    assert [entry.release_id for entry in ddpmi.Ledger(place / "visits.ledger").status().entries] == [f"visits-{WEEK}"]
    shutil.copy(place / f"visits-{WEEK}.parquet", place / "visits-2026-W11.parquet")
    assert run("./weekly.sh 2026-W11", place).returncode == 3


def test_the_dag_runs_the_script(place: Path) -> None:
    """Its command, with the week that Airflow fills in, releases; a refusal is not tried again, a failure is."""
    tree = ast.parse((FILES / "airflow_dag.py").read_text())
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    command, filled = re.subn(r"\{\{ data_interval_start\.strftime\('%G-W%V'\) \}\}", WEEK, str(constants["COMMAND"]))
    assert filled == 1
    done = run(command, place)
    assert done.returncode == 0, done.stderr
    assert (place / f"visits-{WEEK}.release" / "receipt.json").is_file()
    (place / "weekly.sh").write_text("#!/bin/sh\nexit 3\n")
    assert run(command, place).returncode == 99
    (place / "weekly.sh").write_text("#!/bin/sh\nexit 1\n")
    assert run(command, place).returncode == 1


def test_the_model_makes_rows_of_one_user_each(place: Path) -> None:
    """Its SQL, with dbt's names filled in, gives distinct rows that can be observed."""
    text = (FILES / "dbt" / "models" / "ddpmi_rows.sql").read_text()
    text = text.replace("{{ source('web', 'visits') }}", "visits").replace(
        """{{ "date '" ~ var('week_start') ~ "'" }}""", "date '2026-03-02'"
    )
    assert "{{" not in text
    assert not re.search(r"\b(limit|over|having|join)\b", re.sub(r"--.*", "", text), re.IGNORECASE)
    connection = duckdb.connect()
    connection.sql(
        "CREATE TABLE visits AS SELECT 1 AS user_id, 'A.com' AS site, 'NZ' AS country, date '2026-03-03' AS visited"
    )
    connection.sql("INSERT INTO visits SELECT * FROM visits UNION ALL SELECT 1, 'a.com', 'NZ', date '2026-01-01'")
    rows = connection.sql(text).to_arrow_table()
    assert rows.to_pylist() == [{"user_id": 1, "site": "a.com", "country": "NZ"}]
    assert ddpmi.observe(rows, unit="user_id", feature="site", label="country").labelled
    assert "model-paths" in (FILES / "dbt" / "dbt_project.yml").read_text()
