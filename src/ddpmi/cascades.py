"""Rankings that start from the result of another: query expansion from a seed, and n-fold cascades.

Each round and each fold is a release of its own, charged before it reads. What is taken from one to the next was released.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.accounting import Limit, Total, admits
from ddpmi.cascade_specs import Cascade, Fold, seed_plan
from ddpmi.curator import check_fit, release
from ddpmi.errors import BudgetExceeded, InputError, ReleaseError
from ddpmi.rankings import rank
from ddpmi.seeds import SEED, seed_names, top_features
from ddpmi.spec import check_count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from ddpmi.ledger import Ledger
    from ddpmi.measurements import Progress
    from ddpmi.observations import Observations
    from ddpmi.plan import Plan
    from ddpmi.rankings import Ranking
    from ddpmi.releases import Release

    Target = str | os.PathLike[str]

__all__ = ["Cascade", "Expansion", "Fold", "Folded", "Round", "Walk", "cascade", "each_fold", "expand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One step of an expansion."""

    number: int
    """From 1."""
    seed: tuple[str, ...]
    """What labelled the units of this round."""
    release: Release
    ranking: Ranking
    found: tuple[str, ...]
    """The best features of those who show the seed, by presence, best first; they join the seed of the next round."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the ranking's rows of what was found, with the number of the round."""
        best = self.ranking.top(max(1, len(self.found)), per="label", direction="presence").to_dicts()
        found = set(self.found)
        return [{"round": self.number, **row} for row in best if row["label"] == SEED and row["feature"] in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Everything that a seed led to."""

    rounds: tuple[Round, ...]
    stopped: Literal["rounds", "novelty", "budget"]
    """Why it ended: all rounds were done, nothing new was found, or the ledger refused the next round."""

    @property
    def seed(self) -> tuple[str, ...]:
        """What it started from."""
        return self.rounds[0].seed

    @property
    def features(self) -> tuple[str, ...]:
        """What was found, round by round, best first."""
        return tuple(name for found in self.rounds for name in found.found)


def expand(  # noqa: PLR0913 - what a release takes, and how far to go
    obs: Observations,
    *,
    seed: str | Iterable[str],
    plan: Plan,
    ledger: Ledger,
    rounds: int = 1,
    top: int = 10,
    to: Target | None = None,
    progress: Progress | None = None,
) -> Expansion:
    """Find the features that set apart those who show a seed; each round adds them to the seed and looks again.

    Args:
        obs: What `observe` returned; its label, if any, is replaced.
        seed: One feature or several; a unit that shows any of them belongs to the seed.
        plan: What each round does and costs.
        ledger: Pays for each round.
        rounds: Most rounds.
        top: How many features each round adds.
        to: Folder for the releases ``round-1``, ``round-2`` and so on; without it they live in memory only.
        progress: As for `release`.

    Raises:
        BudgetExceeded: The ledger refuses the first round; a refusal of a later one ends the expansion.

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
    done: list[Round] = []
    try:
        for found in Walk(plan=plan, ledger=ledger, rounds=rounds, top=top, to=to, progress=progress).each(obs, seed):
            done = [*done, found]
    except BudgetExceeded:
        if not done:
            raise
        return Expansion(rounds=tuple(done), stopped="budget")
    return Expansion(rounds=tuple(done), stopped="rounds" if done[-1].found else "novelty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How an expansion goes: the fields are the keywords of `expand`."""

    plan: Plan
    ledger: Ledger
    rounds: int = 1
    top: int = 10
    to: Target | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "top"):
            check_count(name, getattr(self, name))

    def each(self, obs: Observations, seed: str | Iterable[str]) -> Iterator[Round]:
        """Yield the rounds as they are done; the last one may have found nothing."""
        names, plan = seed_names(seed, None, None), seed_plan(self.plan)
        check_fit(obs.label_by(feature=names), plan)
        folder = None if self.to is None else _folder(self.to)
        for number in range(1, self.rounds + 1):
            # proof: label-by.adaptive
            labelled = obs.label_by(feature=names)
            place = None if folder is None else folder / f"round-{number}"
            drawn = release(labelled, plan, ledger=self.ledger, to=place, progress=self.progress)
            ranking = rank(drawn)
            found = tuple(name for name in top_features(ranking, self.top, label=SEED) if name not in names)
            yield Round(number=number, seed=names, release=drawn, ranking=ranking, found=found)
            if not found:
                return
            names = (*names, *found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What one fold gave."""

    fold: Fold
    release: Release
    ranking: Ranking
    resumed: bool
    """Whether the release was made before; then nothing was charged or read."""


def cascade(
    spec: Cascade | Target,
    *,
    ledger: Ledger | None = None,
    to: Target | None = None,
    progress: Progress | None = None,
) -> list[Folded]:
    """Run the folds of a cascade in order. A fold that was finished before is taken from its folder.

    Args:
        spec: A `Cascade`, or the path of a TOML file that describes one.
        ledger: Pays for all folds; by default the one that the file names.
        to: Folder with one release for each fold; by default the one that the file names.
        progress: As for `release`.

    Raises:
        BudgetExceeded: The folds together do not fit; nothing was charged.
        InputError: A fold cannot run as it is given; nothing was charged.
        ReleaseError: A fold was charged before and left no release.
    """
    return list(each_fold(spec, ledger=ledger, to=to, progress=progress))


def each_fold(
    spec: Cascade | Target,
    *,
    ledger: Ledger | None = None,
    to: Target | None = None,
    progress: Progress | None = None,
) -> Iterator[Folded]:
    """Yield the folds of `cascade` as they are done. Takes what `cascade` takes."""
    told = spec if isinstance(spec, Cascade) else Cascade.load(Path(spec))
    observed = told.observe()
    paid = _ledger(told, ledger)
    check_affordable(told, paid)
    place = told.output if to is None else Path(to)
    if place is None:
        raise InputError("The cascade names no folder for its releases.", hint="output = 'iot.cascade' in its file")
    folder, rankings = _folder(place), dict[str, Any]()
    for fold, obs in zip(told.folds, observed, strict=True):
        resumed = _is_done(told, fold, paid, folder)
        try:
            # proof: label-by.adaptive
            names = fold.names() if fold.after is None else _best(rankings[fold.after], fold)
            labelled = fold.labelled(obs, names)
            target, known = folder / fold.name, told.release_id(fold)
            drawn = release(labelled, fold.plan, ledger=paid, to=target, release_id=known, progress=progress)
        except Exception as error:
            error.add_note(
                f"This was fold {fold.name!r}; what earlier folds released stays usable, and is not charged again."
            )
            raise
        rankings[fold.name] = rank(drawn)
        yield Folded(fold=fold, release=drawn, ranking=rankings[fold.name], resumed=resumed)


def check_affordable(spec: Cascade, ledger: Ledger) -> None:
    """Refuse a cascade whose folds do not all fit, before the first is charged.

    Raises:
        BudgetExceeded: They do not fit together.
    """
    limit = Limit.of(ledger.limit)
    for dataset in dict.fromkeys(fold.dataset for fold in spec.folds):
        total = Total()
        for entry in ledger.status(dataset).entries:
            total = total.plus(entry.cost)
        for fold in spec.folds:
            if fold.dataset != dataset or ledger.find(spec.release_id(fold)) is not None:
                continue
            if not admits(limit, total, fold.plan.cost):
                raise BudgetExceeded(
                    f"The folds up to {fold.name!r} cost more than dataset {dataset!r} has left in {ledger.path.name}.",
                    hint=f"lower their epsilon or delta, or give all the same mechanism: ddpmi ledger show {ledger.path}",
                )
            total = total.plus(fold.plan.cost)


def _ledger(spec: Cascade, given: Ledger | None) -> Ledger:
    from ddpmi.ledger import Ledger

    if given is not None:
        return given
    if spec.ledger is None:
        raise InputError("The cascade names no ledger.", hint="ledger = 'visits.ledger' in its file")
    return Ledger(spec.ledger)


def _is_done(spec: Cascade, fold: Fold, ledger: Ledger, folder: Path) -> bool:
    """Say whether a fold was finished before; refuse one that was charged and lost."""
    if ledger.find(spec.release_id(fold)) is None:
        return False
    if not (folder / fold.name / "receipt.json").is_file():
        raise ReleaseError(
            f"Fold {fold.name!r} was charged before and left no release in {folder}.",
            hint="name the folder that holds it, or give the fold a new name: it is then charged again",
        )
    return True


def _best(ranking: Ranking, fold: Fold) -> list[str]:
    names = top_features(ranking, fold.top, label=fold.of)
    if len(names) < fold.at_least:
        raise InputError(
            f"Fold {fold.after!r} released {len(names)} features that stand out by presence, too few for {fold.name!r}.",
            hint=f"start {fold.name!r} from a seed, or raise the epsilon of {fold.after!r}",
        )
    return names


def _folder(path: Target) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder {folder} cannot be made ({error.strerror}).", hint=f"mkdir -p '{folder.parent}'"
        ) from None
    return folder
