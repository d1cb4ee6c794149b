"""Rules of the whole suite: no silent skips in continuous integration, and a summary of the long counts."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings

from tests.support.browser import open_browser  # noqa: F401
from tests.support.cli_fixtures import make_empty_ledger, make_place, make_ranked  # noqa: F401
from tests.support.postgres_server import make_postgres  # noqa: F401

# Fixtures that tests of several modules ask for by name.
from tests.support.reader_contract import share_databases  # noqa: F401
from tests.support.release_fixtures import make_ledger  # noqa: F401
from tests.support.spark_local import make_spark  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Generator

IN_CI = os.environ.get("CI", "").lower() == "true"

# For mutants: a failure is all that is asked, and the smallest example may take minutes to find.
settings.register_profile("no-shrinking", phases=[Phase.explicit, Phase.reuse, Phase.generate])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --summary FILE: where to write counts and the durations of the long checks, as JSON."""
    parser.addoption("--summary", metavar="FILE", help="write counts and long checks' durations as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the summary in the main process only; its workers report to it."""
    path = config.getoption("--summary")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Summary(Path(path)), "ddpmi-summary")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the long counts an hour; all others have the limit of the configuration."""
    for item in items:
        if item.get_closest_marker("full") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Turn a skip into a failure in continuous integration: what is not run there is run nowhere."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped in CI. {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Do the same for a whole module that skips itself."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} may not be skipped in CI."
    return report


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test's ledger lives."""
    return tmp_path / "visits.ledger"


class _Summary:
    """Counts of outcomes, and how long each test marked `full` took."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start = time.monotonic()
        self.outcomes: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.long: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of set-up, call and tear-down."""
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if self.outcomes.get(name) != "failed" and (report.when == "call" or not report.passed):
            self.outcomes[name] = report.outcome
        if "full" in report.keywords:
            self.long.add(name)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        checks = [
            {"test": name, "outcome": self.outcomes[name], "seconds": round(self.seconds[name], 1)}
            for name in sorted(self.long)
        ]
        summary = {
            "python": platform.python_version(),
            "seconds": round(time.monotonic() - self.start, 1),
            "counts": dict(sorted(Counter(self.outcomes.values()).items())),
            "long_checks": checks,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
