"""Rank the features that set each group apart, computed from differentially private sums only.

`run` releases and ranks in one call. Functions, in the order of use: `observe` names the data, `simulate` tries a plan
without data, `release` spends budget and draws the noise, `rank` orders the released pairs, `compare` and `report` show the
result. `release_many`, `expand` and `cascade` make several releases. `segment` makes a rule of one.
`exact` is for public data.
Values: `Budget`, `Bounds`, `Plan`, `AutoPlan`, `Ledger`, `Release`, `Ranking`.
Every name is imported on first use, so that ``import ddpmi`` loads no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddpmi.applications.cascades import cascade
    from ddpmi.applications.expansion import expand
    from ddpmi.applications.runs import run
    from ddpmi.applications.segments import segment
    from ddpmi.applications.simulation import simulate
    from ddpmi.curator.door import exact, release, release_many
    from ddpmi.curator.observations import Observations, observe, observe_counts
    from ddpmi.errors import (
        BudgetExceeded,
        DdpmiError,
        EngineError,
        InputError,
        InputNotFound,
        LedgerError,
        MissingExtra,
        ReleaseError,
        SchemaError,
    )
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.pipeline.bounds import Bounds
    from ddpmi.pipeline.steps import sql, table
    from ddpmi.planning.auto import AutoPlan
    from ddpmi.planning.plan import Plan
    from ddpmi.privacy.budget import Budget
    from ddpmi.rankings.comparisons import compare
    from ddpmi.rankings.groups import group_features
    from ddpmi.rankings.ranking import Ranking, rank
    from ddpmi.rankings.spark import SparkRanking, rank_on_spark
    from ddpmi.releases.release import Release
    from ddpmi.reports.page import report

__all__ = [
    "AutoPlan",
    "Bounds",
    "Budget",
    "BudgetExceeded",
    "DdpmiError",
    "EngineError",
    "InputError",
    "InputNotFound",
    "Ledger",
    "LedgerError",
    "MissingExtra",
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
    "group_features",
    "observe",
    "observe_counts",
    "rank",
    "rank_on_spark",
    "release",
    "release_many",
    "report",
    "run",
    "segment",
    "simulate",
    "sql",
    "table",
]

_HOMES = {
    "AutoPlan": "planning.auto",
    "Bounds": "pipeline.bounds",
    "Budget": "privacy.budget",
    "Ledger": "ledger.ledger",
    "Observations": "curator.observations",
    "Plan": "planning.plan",
    "Ranking": "rankings.ranking",
    "Release": "releases.release",
    "SparkRanking": "rankings.spark",
    "cascade": "applications.cascades",
    "compare": "rankings.comparisons",
    "exact": "curator.door",
    "expand": "applications.expansion",
    "group_features": "rankings.groups",
    "observe": "curator.observations",
    "observe_counts": "curator.observations",
    "rank": "rankings.ranking",
    "rank_on_spark": "rankings.spark",
    "release": "curator.door",
    "release_many": "curator.door",
    "report": "reports.page",
    "run": "applications.runs",
    "segment": "applications.segments",
    "simulate": "applications.simulation",
    "sql": "pipeline.steps",
    "table": "pipeline.steps",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ddpmi' has no attribute {name!r}")
    value = getattr(import_module(f"ddpmi.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
