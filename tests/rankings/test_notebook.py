"""Notebooks: what Jupyter shows of a plan, a ledger, a release, a ranking, a comparison and a plot."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CELLS = (
    """
import pandas as pd, ddpmi
from ddpmi import Bounds, Budget, Ledger, Plan, observe, rank, release
rows = [(f"u{at}", d, "uk <b>" if at % 2 else "fr") for at in range(900) for d in ("tea", "milk", "cola")[at % 3 :]]
data = pd.DataFrame(rows, columns=["user", "drink", "country"])
plan = Plan(budget=Budget("4", "1e-6"), bounds=Bounds(pairs=3, labels=1)); plan
""",
    "ledger = Ledger('drinks.ledger', limit=Budget('8', '1e-5')); ledger",
    """
obs = observe(data, unit="user", feature="drink", label="country", dataset="drinks")
found = release(obs, plan, ledger=ledger); found
""",
    "ranking = rank(found); ranking",
    "ddpmi.compare(found, ddpmi.exact(obs))",
    "import altair; altair.renderers.enable('svg'); ranking.plot(kind='shares', label='fr')",
    "ledger",
)


@pytest.mark.filterwarnings("ignore")  # Jupyter's own libraries warn about each other
def test_a_notebook_shows_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real kernel runs the cells without an error, and every object has its HTML, in which names are text."""
    nbformat, nbconvert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    from nbconvert.preprocessors import ExecutePreprocessor

    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    kernels = tmp_path / "jupyter" / "kernels" / "here"
    kernels.mkdir(parents=True)
    start = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    (kernels / "kernel.json").write_text(f'{{"argv": {start}, "display_name": "here", "language": "python"}}')
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    ExecutePreprocessor(timeout=120, kernel_name="here").preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    shown = [
        "".join(output.get("data", {}).get("text/html", "") for output in cell["outputs"]) for cell in notebook["cells"]
    ]
    wanted = ("Guarantee", "drinks.ledger", "Released", "Differentially private", "NOT PRIVATE", None, "epsilon=4")
    for html, text in zip(shown, wanted, strict=True):
        assert text is None or text in html
    assert "What sets fr apart" in notebook["cells"][5]["outputs"][0]["data"]["image/svg+xml"]
    assert "uk &lt;b&gt;" in shown[3]
    assert not any("uk <b>" in html for html in shown[:5])
    page = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(notebook)[0]
    assert "Traceback" not in page
    (tmp_path / "notebook.html").write_text(page, encoding="utf-8")
