"""``ddpmi demo``: which destinations set airlines apart, on public flights, with real noise and a new ledger.

The unit is the airplane. An airplane flies for one airline, so it has one label. How many destinations it usually has is
found by a private look, as in `run`. Delta is far below 1 divided by the number of airplanes, which is a few thousand.
"""

from __future__ import annotations

import math
import shlex
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.cli.options import NewFolder  # noqa: TC001 - the command line reads these hints when it runs
from ddpmi.cli.output import Progress, example, program, put_kept, rich_table
from ddpmi.cli.settings import SETTINGS, Settings
from ddpmi.rankings.display import cells_of

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi._typing import Progress as ProgressCall
    from ddpmi.rankings.ranking import Ranking
    from ddpmi.releases.release import Release

EPSILON, DELTA = "1", "1e-6"
"""What the demo promises each airplane."""
COLUMNS: dict[str, Any] = {"unit": "airplane", "feature": "destination", "label": "airline"}
"""The columns of the flights."""
LEDGER = "flights.ledger"
LIMIT = ("4", "1e-5")
"""Epsilon and delta of the demo's ledger, enough for a few more releases."""
TOP = 3
"""Destinations shown for each airline."""


def demo(*, output: NewFolder = Path("demo")) -> None:
    """Run an example on public flights with a new ledger: rank the destinations that set airlines apart.

    Args:
        output: Folder for the ledger, the release and the report. If it exists, a number is added to its name.
    """
    with Progress() as progress:
        summary, best = run_demo(output, progress=progress)
    heads = ("airline", "destination", "of the airline", "of the others", "times", "verdict")
    cells = (
        [found[name] for name in ("label", "feature", "share_in", "share_out", "lift", "verdict")]
        for found in map(cells_of, best.table.to_pylist())
    )
    put_kept(f"{rich_table(heads, cells, names=heads[:2])}\n{summary}")


def run_demo(output: Path, *, progress: ProgressCall | None = None) -> tuple[str, Ranking]:
    """Release and rank the flights, and write ledger, release and report into a new folder.

    Args:
        output: The folder. If it exists, a folder beside it with a number is made.
        progress: Called with the name of the stage and its fraction done, or None.

    Returns:
        The text to print after the table, and the best destinations of each airline.

    Raises:
        MissingExtra: The ``demo`` extra is not installed.
    """
    from ddpmi.curator.door import exact, release
    from ddpmi.curator.observations import observe
    from ddpmi.datasets import nycflights
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.planning.auto import AutoPlan
    from ddpmi.privacy.budget import Budget
    from ddpmi.rankings.ranking import rank
    from ddpmi.reports.page import report

    nycflights.flights()
    plan = AutoPlan.of(epsilon=EPSILON, delta=DELTA, labels=1)
    folder = new_folder(output)
    file = nycflights.flights_by_code(folder / "flights.parquet")
    Settings(files=(file.name,), columns=COLUMNS, delta=DELTA, ledger=LEDGER).save(folder / SETTINGS)
    ledger = Ledger(folder / LEDGER, limit=Budget(*LIMIT))
    obs = observe(file, **COLUMNS)
    noisy = release(obs, plan, ledger=ledger, to=folder / "flights.release", progress=progress)
    truth = exact(obs, progress=progress)
    ranking = rank(noisy)
    report(ranking, folder / "demo-report.html", title="Which destinations set airlines apart")
    return _summary(folder, noisy, truth), ranking.top(TOP, direction="presence")


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


def _summary(folder: Path, noisy: Release, truth: Release) -> str:
    """Describe what was protected and what the noise did, which may be compared because these data are public."""
    from ddpmi.rankings.ranking import rank
    from ddpmi.releases.receipts import look_of

    plan, look = noisy.plan, look_of(noisy.receipt)
    if plan is None or look is None:
        raise AssertionError  # the demo made a private release after a look
    units = math.ceil(plan.calibration.threshold_for(look.pairs.usual))
    spread = plan.calibration.tables["pairs"].mechanism.sd * float(plan.step)
    best, right = (_best(rank(found)) for found in (noisy, truth))
    shown = sum(len(names) for names in best.values())
    agree = sum(len(names & right.get(label, set())) for label, names in best.items())
    seen, all_ = ((found.pairs.num_rows, found.labels.num_rows) for found in (noisy, truth))
    return f"""These are public data, all flights that left New York in 2013, treated as if they were secret.
Each airplane (column airplane) is protected: epsilon={EPSILON}, delta={DELTA}.

What the noise did
  A private look, part of the same epsilon, found {look.in_words("airplanes")}.
  Each pair of destination and airline was counted with noise of {spread:.3g} airplanes (standard deviation).
  A pair needs about {units} usual airplanes to show by itself. {seen[0]} pairs of {seen[1]} airlines were released;
  the data have {all_[0]} pairs of {all_[1]} airlines.
  {agree} of the {shown} destinations shown are also in the exact top {TOP} of their airline.
  These numbers may be shown because the data are public. A private release never shows what it left out.

Next
  Open the report {folder / "demo-report.html"} in a browser.
  Release and rank the same flights again; the folder holds the settings, and the ledger has budget left:
  cd {shlex.quote(str(folder))} && {program()} run --epsilon 1
"""


def _best(ranking: Ranking) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in ranking.top(TOP, direction="presence").table.select(["label", "feature"]).to_pylist():
        found.setdefault(row["label"], set()).add(row["feature"])
    return found


def register(app: App) -> None:
    """Add the command."""
    app.command(demo, help_epilogue=example("ddpmi demo -o flights"))
