"""Query expansion: from a few features, the seed, to the features that set apart the units that show one of them.

Each round is a release of its own, charged before it reads rows. The seed of the next round comes from released numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.curator.door import as_ledger, check_fit, check_given, release
from ddpmi.errors import BudgetExceeded, Hint, InputError, check_count
from ddpmi.pipeline.seeds import SEED, SEED_LABELS, seed_names, top_features
from ddpmi.planning.auto import AutoPlan
from ddpmi.rankings.ranking import rank
from ddpmi.releases.room import check_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddpmi._typing import Progress, Target
    from ddpmi.curator.observations import Observations
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.planning.plan import Plan
    from ddpmi.rankings.ranking import Ranking
    from ddpmi.releases.release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of an expansion."""

    number: int
    """The number of the round, from 1."""
    seed: tuple[str, ...]
    """The features that labelled the units of this round."""
    release: Release
    """The release of this round."""
    ranking: Ranking
    """Its ranking."""
    found: tuple[str, ...]
    """The best new features of the units with the seed, by presence, best first; the next round adds them to the seed."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the ranking for the found features, each with the number of the round."""
        best = self.ranking.top(max(1, len(self.found)), per="label", direction="presence").to_dicts()
        found = set(self.found)
        return [{"round": self.number, **row} for row in best if row["label"] == SEED and row["feature"] in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The result of an expansion."""

    rounds: tuple[Round, ...]
    """The rounds that were done, at least one."""
    stopped: Literal["rounds", "novelty", "budget"]
    """Why it ended: all rounds were done, nothing new was found, or the ledger refused the next round."""
    refusal: str | None = None
    """The message of the ledger, where it refused the next round."""

    @property
    def seed(self) -> tuple[str, ...]:
        """The seed of the first round."""
        return self.rounds[0].seed

    @property
    def features(self) -> tuple[str, ...]:
        """The found features, round by round, best first."""
        return tuple(name for found in self.rounds for name in found.found)


def expand(  # noqa: PLR0913 - keywords, most of them as for release
    obs: Observations,
    *,
    seed: str | Iterable[str],
    plan: Plan,
    ledger: Ledger | Target,
    rounds: int = 1,
    top: int = 10,
    to: Target | None = None,
    who: str = "",
    why: str = "",
    progress: Progress | None = None,
    on_round: Callable[[Round], None] | None = None,
) -> Expansion:
    """Find the features that set apart the units that show a seed; each round adds them to the seed of the next.

    Args:
        obs: The data, from `observe`; its label, if any, is replaced.
        seed: One feature or several; a unit that shows any of them belongs to the seed.
        plan: The plan of each round.
        ledger: The ledger that is charged for each round, or the path of its file.
        rounds: The most rounds.
        top: How many features each round adds at most.
        to: Folder for the releases ``round-1``, ``round-2`` and so on; without it they are kept in memory only.
        who: As for `release`.
        why: As for `release`.
        progress: As for `release`.
        on_round: Called with each round when it is done. What was charged is then known even if a later round fails.

    Raises:
        BudgetExceeded: The ledger refuses the first round. If it refuses a later one, the expansion ends there.

    >>> import pyarrow as pa, tempfile
    >>> from ddpmi import Bounds, Budget, Ledger, Plan, observe
    >>> shown = [("tea", "milk") if unit % 2 else ("coffee", "sugar") for unit in range(4000)]
    >>> table = pa.table({"unit": [u for u in range(4000) for _ in "12"], "feature": [f for both in shown for f in both]})
    >>> plan = Plan(budget=Budget(2, 1e-6), bounds=Bounds(pairs=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/test.ledger", limit=Budget(4, 1e-5))
    ...     expand(observe(table), seed="tea", plan=plan, ledger=ledger, top=1).features
    ('milk',)
    """
    for name, value in (("rounds", rounds), ("top", top)):
        check_count(name, value)
    check_given(obs, plan)
    names, plan = seed_names(seed, None, None), seed_plan(plan)
    check_fit(obs.label_by(feature=names), plan)
    account = as_ledger(ledger)
    folder = None if to is None else made_folder(to)
    done: list[Round] = []
    while len(done) < rounds and (not done or done[-1].found):
        number = len(done) + 1
        place = None if folder is None else folder / f"round-{number}"
        # proof: label-by.adaptive
        labelled = obs.label_by(feature=names)
        try:
            drawn = release(labelled, plan, ledger=account, to=place, who=who, why=why, progress=progress)
        except BudgetExceeded as error:
            if not done:
                raise
            return Expansion(rounds=tuple(done), stopped="budget", refusal=error.message)
        ranking = rank(drawn)
        found = tuple(name for name in top_features(ranking, top, label=SEED) if name not in names)
        done.append(Round(number=number, seed=names, release=drawn, ranking=ranking, found=found))
        if on_round is not None:
            on_round(done[-1])
        names = (*names, *found)
    return Expansion(rounds=tuple(done), stopped="rounds" if done[-1].found else "novelty")


def seed_plan(plan: Plan) -> Plan:
    """Return the plan with the two labels of a seed, unless it lists labels itself. Refuse one without bounds.

    Raises:
        InputError: Its bounds are to be chosen by a look.
    """
    if isinstance(plan, AutoPlan):
        raise InputError(
            "Several releases share one plan here, whose bounds must be known.",
            hint=Hint(
                do="make one release with the AutoPlan first, and take the plan that it chose",
                python="release.plan",
                cli="--pairs 50",
            ),
        )
    return plan if plan.known_labels is not None else replace(plan, public_labels=SEED_LABELS)


def made_folder(path: Target) -> Path:
    """Create the folder of the releases, unless it exists."""
    folder = Path(path)
    check_path(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder {folder} cannot be made ({error.strerror}).", hint=f"mkdir -p '{folder.parent}'"
        ) from None
    return folder
