"""Rank what sets each group apart, computed only from differentially private sums.

Verbs: `observe`, `release` (the only one that spends budget), `rank`, `compare`, `report`; `expand` and `cascade`, which
release several times; `exact` for public data.
Before anything is spent: `simulate`.
Values: `Budget`, `Bounds`, `Plan`, `Ledger`, `Release`, `Ranking`.
Every name is imported on first use, so that ``import ddpmi`` loads no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddpmi.budget import Budget
    from ddpmi.cascades import cascade, expand
    from ddpmi.comparisons import compare
    from ddpmi.curator import exact, release, release_many
    from ddpmi.errors import BudgetExceeded, DdpmiError, EngineError, InputError, LedgerError, ReleaseError, SchemaError
    from ddpmi.ledger import Ledger
    from ddpmi.observations import Observations, observe, observe_counts
    from ddpmi.plan import Plan
    from ddpmi.rankings import Ranking, rank
    from ddpmi.rankings_spark import SparkRanking, rank_on_spark
    from ddpmi.releases import Release
    from ddpmi.reports import report
    from ddpmi.simulation import simulate
    from ddpmi.spec import Bounds
    from ddpmi.statements import sql, table

__all__ = [
    "Bounds",
    "Budget",
    "BudgetExceeded",
    "DdpmiError",
    "EngineError",
    "InputError",
    "Ledger",
    "LedgerError",
    "Observations",
    "Plan",
    "Ranking",
    "Release",
    "ReleaseError",
    "SchemaError",
    "SparkRanking",
    "cascade",
    "compare",
    "exact",
    "expand",
    "observe",
    "observe_counts",
    "rank",
    "rank_on_spark",
    "release",
    "release_many",
    "report",
    "simulate",
    "sql",
    "table",
]

_HOMES = {
    "Bounds": "spec",
    "Budget": "budget",
    "Ledger": "ledger",
    "Observations": "observations",
    "Plan": "plan",
    "Ranking": "rankings",
    "Release": "releases",
    "SparkRanking": "rankings_spark",
    "cascade": "cascades",
    "compare": "comparisons",
    "exact": "curator",
    "expand": "cascades",
    "observe": "observations",
    "observe_counts": "observations",
    "rank": "rankings",
    "rank_on_spark": "rankings_spark",
    "release": "curator",
    "release_many": "curator",
    "report": "reports",
    "simulate": "simulation",
    "sql": "statements",
    "table": "statements",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ddpmi' has no attribute {name!r}")
    value = getattr(import_module(f"ddpmi.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
