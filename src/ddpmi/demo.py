"""The demo: which destinations set airlines apart, on public flights, with real noise and a fresh ledger.

The unit is the airplane. An airplane flies for one airline, so it has one label; airlines send an airplane to a
handful of cities from New York, so five pairs count in full. The data are public, so trying other bounds on them is fine.
Delta is far below one over the few thousand airplanes that airlines have.
"""

from __future__ import annotations

import csv
import gzip
import math
import shutil
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from ddpmi import datasets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ddpmi.plan import Plan
    from ddpmi.rankings import Ranking
    from ddpmi.releases import Release

    Progress = Callable[[str, float | None], None]

EPSILON, DELTA, PAIRS = "1", "1e-6", 5
"""What the demo promises each airplane, and how many (destination, airline) pairs of it count in full."""
LIMIT = ("4", "1e-5")
"""Epsilon and delta of the demo's ledger: room for a few more releases."""
TOP = 3
"""Destinations shown for each airline."""


def run_demo(output: Path, *, progress: Progress | None = None) -> tuple[str, Ranking]:
    """Release and rank the flights, and write ledger, release and report into a new folder.

    Args:
        output: The folder; if it holds something already, one beside it with a number is made.
        progress: Called with the name of the stage and its fraction done, or None.

    Returns:
        What there is to say about it, and the best destinations of each airline.

    Raises:
        MissingExtra: The ``demo`` extra is not installed.
    """
    from ddpmi.budget import Budget
    from ddpmi.curator import exact, release
    from ddpmi.ledger import Ledger
    from ddpmi.observations import observe
    from ddpmi.plan import Plan
    from ddpmi.rankings import rank
    from ddpmi.reports import report
    from ddpmi.spec import Bounds

    source = datasets.flights()
    plan = Plan(budget=Budget(EPSILON, DELTA), bounds=Bounds(pairs=PAIRS, labels=1))
    folder = new_folder(output)
    ledger = Ledger(folder / "flights.ledger", limit=Budget(*LIMIT))
    with _unpacked(source, folder) as file:
        obs = observe(file, unit="tailnum", feature="dest", label="carrier", dataset="flights")
        noisy = release(obs, plan, ledger=ledger, to=folder / "flights.release", progress=progress)
        truth = exact(obs, progress=progress)
    ranking = readable(rank(noisy), _names(source, "airlines"), _names(source, "airports"))
    report(ranking, folder / "demo-report.html", title="Which destinations set airlines apart")
    return _told(folder, plan, noisy, truth), ranking.top(TOP, direction="presence")


def new_folder(output: Path) -> Path:
    """Make the folder, or the first free one of ``output-2``, ``output-3`` and so on.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as place:
    ...     [new_folder(Path(place) / "demo").name for _ in range(3)]
    ['demo', 'demo-2', 'demo-3']
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = output if number == 1 else output.with_name(f"{output.name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError  # count never ends


def readable(ranking: Ranking, labels: Mapping[str, str], features: Mapping[str, str]) -> Ranking:
    """Put public names beside the codes of a ranking; its order and its numbers stay.

    Args:
        ranking: The ranking.
        labels: Code -> name.
        features: Code -> name.
    """
    import pyarrow as pa

    table = ranking.table
    for column, names in (("label", labels), ("feature", features)):
        codes = table.column(column).to_pylist()
        texts = pa.array([f"{code} {names[code]}" if code in names else code for code in codes], pa.string())
        table = table.set_column(table.column_names.index(column), column, texts)
    return replace(ranking, table=table)


@contextmanager
def _unpacked(source: Path, folder: Path) -> Iterator[Path]:
    """Give a plain CSV file; a packed one is unpacked into the folder for the time of the demo."""
    if source.suffix == ".csv":
        yield source
        return
    plain = folder / ".flights.csv"
    try:
        with plain.open("wb") as file:
            if source.suffix == ".zip":
                with zipfile.ZipFile(source) as packed, packed.open("flights.csv") as rows:
                    shutil.copyfileobj(rows, file)
            else:
                with gzip.open(source) as rows:
                    shutil.copyfileobj(rows, file)
        yield plain
    finally:
        plain.unlink(missing_ok=True)


def _names(source: Path, table: str) -> dict[str, str]:
    """Read code -> name from a public table beside the flights; without it codes stay bare."""
    file = source.with_name(f"{table}.csv")
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8", newline="") as rows:
        return {row[0]: row[1] for row in csv.reader(rows)}


def _told(folder: Path, plan: Plan, noisy: Release, truth: Release) -> str:
    """Say what was protected and, because these data are public, what the noise did to them."""
    from ddpmi.rankings import rank

    units = math.ceil(plan.calibration.threshold_in_units)
    spread = plan.calibration.tables["pairs"].mechanism.sd * float(plan.step)
    best, right = (_best(rank(found)) for found in (noisy, truth))
    shown = sum(len(names) for names in best.values())
    agree = sum(len(names & right.get(label, set())) for label, names in best.items())
    seen, all_ = ((found.pairs.num_rows, found.labels.num_rows) for found in (noisy, truth))
    return f"""These are public data, all flights that left New York in 2013, treated as if they were secret.
Protected is each airplane (column tailnum): epsilon={EPSILON}, delta={DELTA}, pairs={PAIRS}.

What the noise did
  Each pair of destination and airline was counted with noise of {spread:.3g} airplanes (standard deviation).
  Pairs with about {units} airplanes are shown: {seen[0]} of {all_[0]}, from {seen[1]} of {all_[1]} airlines.
  {agree} of the {shown} destinations shown are in the exact top {TOP} of their airline, too.
  We may say so because the data are public; a private release never tells what it left out.

Next
  open {folder / "demo-report.html"}
  ddpmi rank {folder / "flights.release"} --top 5
  ddpmi receipt {folder / "flights.release"}
  ddpmi ledger show {folder / "flights.ledger"}
"""


def _best(ranking: Ranking) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in ranking.top(TOP, direction="presence").table.select(["label", "feature"]).to_pylist():
        found.setdefault(row["label"], set()).add(row["feature"])
    return found
