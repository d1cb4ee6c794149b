"""Cascades: several releases, called folds, on one ledger; a fold may label units by the best features of an earlier one.

A `Cascade` describes all folds, their plans and their total cost before any row is read; it may come from a TOML file.
`cascade` runs the folds in order, and repeats them as long as they find something new, if that is asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.applications.expansion import made_folder, seed_plan
from ddpmi.curator.door import as_ledger, check_fit, release
from ddpmi.errors import BudgetExceeded, InputError, ReleaseError, check_count
from ddpmi.pipeline.bounds import Bounds, dataset_name
from ddpmi.pipeline.seeds import SEED, Seed, check_reachable, seed_names, top_features
from ddpmi.pipeline.steps import Expression
from ddpmi.planning.forecasts import units_needed
from ddpmi.planning.plan import Plan
from ddpmi.privacy.accounting import Limit, Total, admits
from ddpmi.privacy.budget import Budget, shortest
from ddpmi.rankings.ranking import rank
from ddpmi.text import read_toml, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ddpmi._typing import Progress, Target
    from ddpmi.curator.observations import Observations
    from ddpmi.ledger.ledger import Ledger
    from ddpmi.rankings.ranking import Ranking
    from ddpmi.releases.release import Release


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,48}")
_ADDRESS = re.compile(r"[a-z0-9]+://")
_ROLES = ("unit", "feature", "label", "value", "seed_column")
_BOUNDS = tuple(entry.name for entry in fields(Bounds))
_PLAN = tuple(entry.name for entry in fields(Plan) if entry.name not in ("budget", "bounds"))
_BUDGET = ("epsilon", "delta")
_USE = ("seed", "from", "of", "top", "at_least", "keep_seed", "within")
_OWN = ("name", "data", "where", "encoding", "dataset", *_USE, *_ROLES)
_LOOKUP = ("data", "unit", "feature", "where", "encoding")
_HEAD = ("id", "ledger", "output", "common_person", "repeat", "defaults", "fold")
#: Epsilons add up only among Laplace releases. Together with Gaussian ones a Laplace release is charged in zCDP, which costs
#: more.
MIXED = (
    "Laplace and Gaussian folds together cost more than this in a ledger: mechanism = 'gaussian' for all costs less."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A table in which a seed is looked up, and which no fold ranks."""

    data: Any = field(repr=False)
    """The data, as for `observe`."""
    unit: str | Expression | None = None
    """The column that names the same units as the unit of the fold."""
    feature: str | Expression | None = None
    """The column in which the seed is looked for."""
    where: str | None = None
    """As for `observe`."""
    encoding: str | None = None
    """The encoding of text files; None for UTF-8."""

    def observe(self, dataset: str) -> Observations:
        """Return the observations of the table, in the fold's dataset. Reads the schema and no row."""
        from ddpmi.curator.observations import observe

        return observe(
            self.data,
            unit=self.unit,
            feature=self.feature,
            where=self.where,
            encoding=self.encoding,
            dataset=dataset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One release of a cascade: a table, where its labels come from, and a plan."""

    name: str
    """Letters, digits, dashes and underscores: part of the release's id, and the name of its folder."""
    data: Any = field(repr=False)
    """The data, as for `observe`."""
    plan: Plan
    """The plan of the fold; the two labels of a seed are added to it."""
    unit: str | Expression | None = None
    """As for `observe`."""
    feature: str | Expression | None = None
    """As for `observe`."""
    label: str | Expression | None = None
    """A column of labels; None where a seed gives them."""
    value: str | Expression | None = None
    """As for `observe`."""
    where: str | None = None
    """As for `observe`."""
    encoding: str | None = None
    """The encoding of text files; None for UTF-8."""
    dataset: str = "default"
    """The dataset whose budget the fold spends."""
    seed: Iterable[str] | None = None
    """Features whose units are labelled "seed"."""
    after: str | None = None
    """The earlier fold whose best features are the seed; called ``from`` in files."""
    of: str | None = None
    """The label of the earlier fold whose features are taken; None as in `label_by`."""
    top: int = 10
    """How many of its features are taken."""
    at_least: int = 1
    """How many different features of the seed a unit must show."""
    keep_seed: bool = False
    """Rank the seed's own features too."""
    seed_column: str | Expression | None = None
    """The column that holds the seed's features; None for the feature column."""
    within: str | Lookup | None = None
    """The table in which the seed is looked up by the unit: a fold's name for that fold's table, or a table of its own."""

    def __post_init__(self) -> None:
        _check_name("The name of a fold", self.name)
        self._check_types()
        for name in ("top", "at_least"):
            check_count(name, getattr(self, name))
        if sum(given is not None for given in (self.label, self.seed, self.after)) > 1:
            raise InputError(
                f"Fold {self.name!r} takes its labels from more than one place.",
                hint="give one of label (a column), seed (features) and from (an earlier fold)",
            )
        used = self.seed_column is not None or self.at_least != 1 or self.keep_seed or self.within is not None
        if not self.seeded and used:
            raise InputError(
                f"Fold {self.name!r} has settings for a seed, but no seed.",
                hint="seed = ['ReactJS'], or leave them out",
            )
        if self.seed is not None:
            object.__setattr__(self, "seed", seed_names(self.seed, None, None))
        # Refused now, not after an earlier fold was charged.
        if self.seed is not None:
            Seed(features=self.names(), at_least=self.at_least)
        elif self.after is not None:
            check_reachable(self.at_least, self.top)
        if self.seeded:
            object.__setattr__(self, "plan", seed_plan(self.plan))

    def _check_types(self) -> None:
        """Refuse settings of another type: a file may hold any."""
        object.__setattr__(self, "dataset", dataset_name(self.dataset))
        kinds: dict[str, tuple[tuple[type, ...], str]] = {
            **dict.fromkeys(("where", "encoding", "after", "of"), ((str,), "a text")),
            **dict.fromkeys(_ROLES, ((str, Expression), "a column or {sql = '...'}")),
            "keep_seed": ((bool,), "true or false"),
            "within": ((str, Lookup), "the name of a fold or {data = '...', unit = '...', feature = '...'}"),
        }
        for name, (types, words) in kinds.items():
            if (given := getattr(self, name)) is not None and not isinstance(given, types):
                shown = "from" if name == "after" else name
                raise InputError(
                    f"{shown} of fold {self.name!r} must be {words}, got {shortened(given)}.", hint=f"{shown} = ..."
                )

    @property
    def seeded(self) -> bool:
        """Whether a seed gives the labels."""
        return self.seed is not None or self.after is not None

    def names(self) -> tuple[str, ...]:
        """Return the given seed; empty where a column or an earlier fold gives the labels."""
        return () if self.seed is None else tuple(self.seed)

    def labels(self) -> str:
        """Return in words where the labels come from."""
        return self._who() + self._where()

    def _where(self) -> str:
        if self.within is None:
            return ""
        table = f"the table of fold {self.within!r}" if isinstance(self.within, str) else "another table"
        return f"; the seed is looked up in {table}"

    def _who(self) -> str:
        if self.after is not None:
            source = f"the {self.top} best features of fold {self.after!r}"
            return f"those who show at least {self.at_least} of {source}, against the rest"
        if self.seed is not None:
            names = self.names()
            listed = ", ".join(map(repr, names))
            many = "" if len(names) == 1 else f"at least {self.at_least} of "
            return f"those who show {many}{listed}, against the rest"
        return "a column" if self.label is None else f"{self.label!r}"

    def observe(self) -> Observations:
        """Return the fold's observations, not yet labelled by a seed. Reads the schema and no row."""
        from ddpmi.curator.observations import observe

        roles = {role: getattr(self, role) for role in ("unit", "feature", "label", "value")}
        return observe(self.data, **roles, where=self.where, encoding=self.encoding, dataset=self.dataset)

    def labelled(self, obs: Observations, names: Iterable[str], second: Observations | None = None) -> Observations:
        """Label the data by the seed, if there is one.

        Args:
            obs: The fold's data.
            names: The features of the seed.
            second: The table in which the seed is looked up; None for the fold's own.
        """
        if not self.seeded:
            return obs
        looked = obs if second is None else second
        # To look in the feature column is what happens without a column; then the seed's own rows are dropped.
        column = None if (self.seed_column, False) == looked.feature_role else self.seed_column
        return obs.label_by(
            feature=names, at_least=self.at_least, keep_seed=self.keep_seed, column=column, within=second
        )

    def check_common_unit(self, obs: Observations, second: Observations, *, declared: bool) -> None:
        """Refuse a second table with another unit column, unless the owner declares that both name the same people.

        Args:
            obs: The fold's data.
            second: The table in which the seed is looked up.
            declared: Whether the owner does.
        """
        # proof: label-by.linked
        if not declared and obs.unit_role != second.unit_role:
            raise InputError(
                f"Fold {self.name!r} ranks units by {obs.unit_name} and looks its seed up by {second.unit_name}.",
                hint="common_person = true for the cascade, if these columns name the same people",
            )

    def check_seed_column(self, looked: Observations, earlier: Observations, *, same_table: bool) -> None:
        """Refuse a seed that cannot occur: it is looked for in another column or table than its features come from.

        Args:
            looked: The data in which the seed is looked for.
            earlier: The data of the fold that the seed comes from.
            same_table: Whether both are of one table, or the owner has named the table.
        """
        if self.seed_column is not None or (same_table and looked.feature_role == earlier.feature_role):
            return
        here, there = (
            repr(name) if not made else "an expression" for name, made in (looked.feature_role, earlier.feature_role)
        )
        name, made = earlier.feature_role
        column = "{sql = '...'}, which gives the seed's features" if made else repr(name)
        if not same_table:
            raise InputError(
                f"Fold {self.name!r} starts from fold {self.after!r}, which ranks {there} of another table: "
                f"it does not say in which table the seed is looked up.",
                hint=f"within = {self.after!r}, or seed_column = {column} where this table has it",
            )
        raise InputError(
            f"Fold {self.name!r} looks for its seed in {here}, but starts from fold {self.after!r}, which ranks {there}: "
            f"no unit would show the seed.",
            hint=f"seed_column = {column}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Folds in order, each of which may start from the result of an earlier one."""

    id: str
    """A name given by the owner; the id of a release is made of it and of the fold's name."""
    folds: tuple[Fold, ...]
    """The folds, in the order of their run."""
    common_person: bool = False
    """Whether the owner declares that the unit columns of all folds name the same people."""
    ledger: Path | None = None
    """The ledger of all folds; None where it is given later."""
    output: Path | None = None
    """The folder of all releases; None where it is given later."""
    repeat: int = 1
    """The most rounds. In a later round a fold with a given seed starts from the last fold of the round before."""

    def __post_init__(self) -> None:
        _check_name("The id of a cascade", self.id)
        object.__setattr__(self, "folds", tuple(self.folds))
        if not self.folds:
            raise InputError("A cascade needs at least one fold.", hint="[[fold]]")
        check_count("repeat", self.repeat)
        self._check_names()
        if self.repeat > 1:
            self._check_repeatable()

    def _check_names(self) -> None:
        """Refuse names that stand for nothing, or for two folds."""
        names, seen = {fold.name for fold in self.folds}, set[str]()
        for fold in self.folds:
            if fold.name in seen:
                raise InputError(f"Two folds are called {fold.name!r}.", hint="give each fold its own name")
            if fold.after is not None and fold.after not in seen:
                raise InputError(
                    f"Fold {fold.name!r} starts from {fold.after!r}, which is no earlier fold.",
                    hint=f"from = {min(seen)!r}" if seen else "seed = ['ReactJS']",
                )
            if isinstance(fold.within, str) and fold.within not in names:
                raise InputError(
                    f"Fold {fold.name!r} looks its seed up in the table of {fold.within!r}, which is no fold.",
                    hint=f"within = {min(names)!r}, or within = {{data = '...', unit = '...', feature = '...'}}",
                )
            seen.add(fold.name)

    def _check_repeatable(self) -> None:
        """Refuse folds that a second round would release unchanged, and names that it would use twice."""
        for fold in self.folds:
            if not fold.seeded:
                raise InputError(
                    f"Fold {fold.name!r} takes its labels from a column, so each round would release the same again.",
                    hint="repeat = 1, or a seed for each fold",
                )
        later = [fold.name for number in range(1, self.repeat + 1) for fold in self.round(number)]
        twice = next((name for name in later if later.count(name) > 1), None)
        if twice is not None:
            raise InputError(
                f"A fold is called {twice!r}, as a fold of a later round would be.", hint="give it another name"
            )

    def round(self, number: int) -> tuple[Fold, ...]:
        """Return the folds of a round; those of later rounds have its number behind their names.

        Args:
            number: The number of the round, from 1.

        >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=1))
        >>> spec = Cascade(id="iot", folds=(Fold(name="words", data="a.csv", plan=plan, seed="iot"),), repeat=2)
        >>> [(fold.name, fold.after) for fold in spec.round(2)]
        [('words-2', 'words')]
        """
        return tuple(self._again(fold, number) for fold in self.folds) if number > 1 else self.folds

    def _again(self, fold: Fold, number: int) -> Fold:
        name = f"{fold.name}-{number}"
        if fold.after is not None:
            return replace(fold, name=name, after=f"{fold.after}-{number}")
        last = self.folds[-1]
        before = last.name if number == 2 else f"{last.name}-{number - 1}"  # noqa: PLR2004 - the first has no number
        own = _identity(fold.data) == _identity(last.data) and fold.feature == last.feature
        return replace(fold, name=name, seed=None, after=before, seed_column=None, within=None if own else last.name)

    def release_id(self, fold: Fold) -> str:
        """Return the id of a fold's release, from given names alone.

        >>> plan = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=1))
        >>> spec = Cascade(id="iot", folds=(Fold(name="words", data="a.csv", plan=plan),))
        >>> spec.release_id(spec.folds[0])
        'iot.words'
        """
        return f"{self.id}.{fold.name}"

    @classmethod
    def load(cls, path: str | Path) -> Cascade:
        """Read a TOML file; paths in it are relative to its folder.

        Raises:
            InputNotFound: The file does not exist.
            InputError: The file does not describe a cascade.
        """
        file = Path(path)
        given = read_toml(file, what="The cascade")
        _check_keys("the cascade", given, _HEAD)
        folds, common = given.get("fold"), given.get("defaults", {})
        if not isinstance(folds, list) or not isinstance(common, dict) or "id" not in given:
            raise InputError(f"{file} needs an id and folds.", hint="id = 'my-cascade', then [[fold]] for each fold")
        _check_head(given)
        places = {key: file.parent / given[key] for key in ("ledger", "output") if key in given}
        return cls(
            id=given["id"],
            folds=tuple(_fold(common | fold, file.parent) for fold in folds),
            common_person=given.get("common_person", False),
            repeat=given.get("repeat", 1),
            **places,
        )

    def observe(self) -> list[Observations]:
        """Return the observations of the folds of one round, checked against all plans. Reads schemas and no row.

        Raises:
            InputError: A fold cannot run, or folds that protect different columns share a dataset.
        """
        found = [fold.observe() for fold in self.folds]
        for number in range(1, min(self.repeat, 2) + 1):
            for fold, obs in zip(self.round(number), found, strict=True):
                self._check_fold(fold, obs, found)
        # proof: label-by.folds
        units = [(obs.dataset, str(obs.columns.unit)) for obs in found]
        self._check_datasets(units)
        if len(set(units)) == 1:
            return found
        return [replace(obs, notes=(*obs.notes, self._note(obs.unit_name))) for obs in found]

    def second(self, fold: Fold, found: Sequence[Observations]) -> Observations | None:
        """Return the table in which a fold's seed is looked up; None for its own.

        Args:
            fold: The fold.
            found: The observations of the folds of one round.
        """
        if isinstance(fold.within, str):
            return found[[one.name for one in self.folds].index(fold.within)]
        return None if fold.within is None else fold.within.observe(fold.dataset)

    def _check_fold(self, fold: Fold, obs: Observations, found: Sequence[Observations]) -> None:
        """Refuse a fold that cannot work. Before the run, one invented feature replaces those of an earlier fold."""
        second = self.second(fold, found)
        if second is not None:
            fold.check_common_unit(obs, second, declared=self.common_person)
        if fold.after is None:
            check_fit(fold.labelled(obs, fold.names(), second), fold.plan)
            return
        check_fit(replace(fold, at_least=1).labelled(obs, ("a stand-in",), second), fold.plan)
        place = self.place(fold.after)
        same = second is not None or _identity(fold.data) == _identity(self.folds[place].data)
        fold.check_seed_column(obs if second is None else second, found[place], same_table=same)

    def place(self, name: str) -> int:
        """Return the place in a round of a fold of any round."""
        rounds = (self.round(number) for number in range(1, self.repeat + 1))
        return next(place for folds in rounds for place, fold in enumerate(folds) if fold.name == name)

    def _check_datasets(self, units: list[tuple[str, str]]) -> None:
        """Refuse one dataset for different unit columns, and two datasets for one table."""
        accounts = {
            (_identity(table), unit, dataset)
            for fold, (dataset, unit) in zip(self.folds, units, strict=True)
            for table in (fold.data, *([fold.within.data] if isinstance(fold.within, Lookup) else []))
        }
        if self.common_person:
            if len({dataset for dataset, _ in units}) > 1:
                raise InputError(
                    "Folds about the same people spend one budget, but they name several datasets.",
                    hint="give all folds the same dataset",
                )
            return
        if len({dataset for dataset, _ in units}) < len(set(units)):
            raise InputError(
                "Folds with different unit columns share a dataset, so the ledger could not tell whose budget they spend.",
                hint="dataset = '...' for each, or common_person = true if these columns name the same people",
            )
        if len(accounts) > len({(place, unit) for place, unit, _ in accounts}):
            raise InputError(
                "One table is under two datasets, so its units would be charged in separate accounts.",
                hint="give folds over one table and one unit the same dataset",
            )

    def _note(self, unit: str) -> str:
        if self.common_person:
            return "The owner declares that the unit columns of all folds of this cascade name the same people."
        return (
            f"The promise is per unit column: this fold protects {unit}. Folds of this cascade under other datasets "
            f"protect other columns. Their budgets add up only for a person whom the owner declares common to them."
        )

    def explain(self) -> str:
        """Describe all folds and what they cost together. Reads nothing."""
        rounds = "" if self.repeat == 1 else f" in at most {self.repeat} rounds"
        lines = [f"Cascade {self.id}: {len(self.folds)} {'fold' if len(self.folds) == 1 else 'folds'}{rounds}"]
        totals: dict[str, list[Budget]] = {}
        for number, fold in enumerate(self.folds, start=1):
            budget = fold.plan.budget
            totals.setdefault(fold.dataset, []).append(budget)
            needed = " and ".join(
                f"a {table.removesuffix('s')} needs {units}" for table, units in units_needed(fold.plan).items()
            )
            lines += [
                f"  {number} {fold.name}: epsilon={shortest(budget.epsilon)}, delta={shortest(budget.delta)} of dataset {fold.dataset!r}",
                f"    labels: {fold.labels()}",
                f"    noise: {fold.plan.mechanism_name}, {needed or 'every listed pair is released'}; release id {self.release_id(fold)}",
            ]
        if self.repeat > 1:
            first = next(fold.name for fold in self.folds if fold.after is None)
            lines += [
                f"  Later rounds: {first!r} starts from what {self.folds[-1].name!r} found in the round before.",
                "  A seed then has all features found so far. The rounds end when one finds nothing new that is clear of",
                "  the noise, or when the ledger cannot cover the next one.",
            ]
        most = "" if self.repeat == 1 else f"At most, for {self.repeat} rounds: "
        for dataset, parts in totals.items():
            epsilon = sum((part.epsilon for part in parts), Fraction(0)) * self.repeat
            delta = sum((part.delta for part in parts), Fraction(0)) * self.repeat
            lines.append(f"{most}Total of dataset {dataset!r}: epsilon={shortest(epsilon)}, delta={shortest(delta)}")
            if len({fold.plan.mechanism_name for fold in self.folds if fold.dataset == dataset}) > 1:
                lines.append(MIXED)
        if len(totals) > 1:
            lines.append("The promise is per unit column: each dataset is charged by itself.")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The result of one fold."""

    fold: Fold
    """The fold."""
    release: Release
    """Its release."""
    ranking: Ranking
    """Its ranking."""
    resumed: bool
    """Whether the release was made by an earlier run; then nothing was charged or read."""


def cascade(
    spec: Cascade | Target,
    *,
    ledger: Ledger | Target | None = None,
    to: Target | None = None,
    who: str = "",
    why: str = "",
    progress: Progress | None = None,
) -> list[Folded]:
    """Run the folds of a cascade in order. The release of a fold that was finished before is read from its folder.

    Args:
        spec: A `Cascade`, or the path of a TOML file that describes one.
        ledger: The ledger of all folds, or the path of its file; by default the one that the cascade's file names.
        to: Folder with one release for each fold; by default the one that the file names.
        who: As for `release`.
        why: As for `release`.
        progress: As for `release`.

    Raises:
        BudgetExceeded: The folds together cost more than is left; nothing was charged.
        InputError: A fold cannot run as it is given; nothing was charged.
        ReleaseError: A fold was charged before and left no release.
    """
    return list(each_fold(spec, ledger=ledger, to=to, who=who, why=why, progress=progress))


def each_fold(
    spec: Cascade | Target,
    *,
    ledger: Ledger | Target | None = None,
    to: Target | None = None,
    who: str = "",
    why: str = "",
    progress: Progress | None = None,
) -> Iterator[Folded]:
    """Yield the folds of `cascade` as they are done; the parameters are the same."""
    whole = _loaded(spec)
    observed = whole.observe()
    account = _ledger(whole, ledger)
    check_affordable(whole, account)
    place = whole.output if to is None else Path(to)
    if place is None:
        raise InputError("The cascade names no folder for its releases.", hint="output = 'iot.cascade' in its file")
    folder, found = made_folder(place), _Found(spec=whole)

    def made(fold: Fold, obs: Observations) -> Folded:
        resumed = _is_done(whole, fold, account, folder)
        try:
            # proof: label-by.adaptive
            names = fold.names() if fold.after is None else found.seed(fold)
            drawn = release(
                fold.labelled(obs, names, whole.second(fold, observed)),
                fold.plan,
                ledger=account,
                to=folder / fold.name,
                release_id=whole.release_id(fold),
                who=who,
                why=why,
                progress=progress,
            )
        except Exception as error:
            error.add_note(
                f"This was fold {fold.name!r}; the releases of earlier folds stay usable, and are not charged again."
            )
            raise
        return Folded(fold=fold, release=drawn, ranking=rank(drawn), resumed=resumed)

    for number in range(1, whole.repeat + 1):
        if number > 1 and not (found.something_new() and is_affordable(whole, account, number=number)):
            return
        for fold, obs in zip(whole.round(number), observed, strict=True):
            done = made(fold, obs)
            found.add(done)
            yield done


@dataclass(slots=True, kw_only=True)
class _Found:
    """What the folds of a cascade have found so far."""

    spec: Cascade
    rankings: dict[int, list[Ranking]] = field(default_factory=dict)
    """Place of a fold in its round -> its ranking in each round so far."""

    def add(self, done: Folded) -> None:
        """Take note of a fold that is done."""
        self.rankings.setdefault(self.spec.place(done.fold.name), []).append(done.ranking)

    def seed(self, fold: Fold) -> list[str]:
        """Return the features from which a fold starts.

        Raises:
            InputError: Too few were released.
        """
        after = str(fold.after)
        place = self.spec.place(after)
        if self.spec.repeat == 1:
            names = top_features(self.rankings[place][0], fold.top, label=fold.of)
        else:
            # A fold that starts from itself keeps the seed it was given.
            own = self.spec.folds[place].names() if place == self.spec.place(fold.name) else ()
            names = list(dict.fromkeys((*own, *_clear(self.rankings[place], fold))))
        if len(names) < fold.at_least:
            raise InputError(
                f"Fold {after!r} released {len(names)} features that stand out by presence, too few for {fold.name!r}.",
                hint=f"start {fold.name!r} from a seed, or raise the epsilon of {after!r}",
            )
        return names

    def something_new(self) -> bool:
        """Tell whether the last round found a feature, for a fold to start from, that no earlier round had found."""
        for fold in self.spec.round(2):
            rankings = self.rankings[self.spec.place(str(fold.after))]
            if set(_clear(rankings, fold)) - set(_clear(rankings[:-1], fold)):
                return True
        return False


def _clear(rankings: Sequence[Ranking], fold: Fold) -> list[str]:
    """Return the features of all rounds that a repeated fold starts from: the best that are clear of the noise."""
    label = SEED if fold.of is None else fold.of
    found: dict[str, None] = {}
    for ranking in rankings:
        rows = ranking.top(fold.top, per="label", direction="presence").to_dicts()
        found |= dict.fromkeys(str(row["feature"]) for row in rows if row["label"] == label and row["clear"])
    return list(found)


def is_affordable(spec: Cascade, ledger: Ledger, *, number: int) -> bool:
    """Tell whether the ledger can cover a round in full."""
    try:
        check_affordable(spec, ledger, number=number)
    except BudgetExceeded:
        return False
    return True


def check_affordable(spec: Cascade, ledger: Ledger, *, number: int = 1) -> None:
    """Refuse a round whose folds together cost more than is left, before the first is charged.

    Args:
        spec: The cascade.
        ledger: The ledger of all folds.
        number: The number of the round.

    Raises:
        BudgetExceeded: They cost more.
    """
    limit, folds = Limit.of(ledger.limit), spec.round(number)
    for dataset in dict.fromkeys(fold.dataset for fold in folds):
        total = Total()
        for entry in ledger.status(dataset).entries:
            total = total.plus(entry.cost)
        for fold in folds:
            if fold.dataset != dataset or ledger.find(spec.release_id(fold)) is not None:
                continue
            if not admits(limit, total, fold.plan.cost):
                raise BudgetExceeded(
                    f"The folds up to {fold.name!r} cost more than dataset {dataset!r} has left in {ledger.path.name}.",
                    hint=f"lower their epsilon or delta, or give all the same mechanism: ddpmi ledger show {ledger.path}",
                )
            total = total.plus(fold.plan.cost)


def _loaded(spec: Cascade | Target) -> Cascade:
    if isinstance(spec, Cascade):
        return spec
    if not isinstance(spec, str | PathLike):
        raise InputError(
            f"A cascade is a Cascade or the path of its file, got {type(spec).__name__}.", hint="cascade('survey.toml')"
        )
    return Cascade.load(Path(spec))


def _ledger(spec: Cascade, given: Ledger | Target | None) -> Ledger:
    found = spec.ledger if given is None else given
    if found is None:
        raise InputError("The cascade names no ledger.", hint="ledger = 'visits.ledger' in its file")
    return as_ledger(found)


def _is_done(spec: Cascade, fold: Fold, ledger: Ledger, folder: Path) -> bool:
    """Return whether a fold was finished before; refuse one that was charged and whose release is missing."""
    if ledger.find(spec.release_id(fold)) is None:
        return False
    if not (folder / fold.name / "receipt.json").is_file():
        raise ReleaseError(
            f"Fold {fold.name!r} was charged before and left no release in {folder}.",
            hint="name the folder that holds it, or give the fold a new name: it is then charged again",
        )
    return True


def _check_head(given: Mapping[str, Any]) -> None:
    """Refuse settings of the whole cascade that have another type."""
    for key in ("ledger", "output"):
        if not isinstance(given.get(key, ""), str):
            raise InputError(
                f"{key} of the cascade must be a path, got {shortened(given[key])}.", hint=f"{key} = 'iot'"
            )
    if not isinstance(given.get("common_person", False), bool):
        shown = shortened(given["common_person"])
        raise InputError(f"common_person must be true or false, got {shown}.", hint="common_person = true")
    if not all(isinstance(fold, dict) for fold in given["fold"]):
        raise InputError("A fold is a table of settings.", hint="[[fold]] and then name = 'words'")


def _fold(given: Mapping[str, Any], folder: Path) -> Fold:
    _check_keys(f"fold {given.get('name', '')!r}", given, (*_OWN, *_BUDGET, *_BOUNDS, *_PLAN))
    missing = [key for key in ("name", "data", *_BUDGET, "pairs") if key not in given]
    if missing:
        raise InputError(
            f"Fold {given.get('name', '')!r} lacks {missing[0]}.",
            hint=f"{missing[0]} = ... in the fold or in [defaults]",
        )
    if "cap" in given:
        check_count("cap", given["cap"])  # in Python 0 leaves it out; in a file it is a mistake
    plan = Plan(
        budget=Budget(given["epsilon"], given["delta"]),
        bounds=Bounds(**{key: given[key] for key in _BOUNDS if key in given}),
        **{key: given[key] for key in _PLAN if key in given},
    )
    rest = {key: given[key] for key in _OWN if key in given and key not in ("data", "from", "within", *_ROLES)}
    roles = {key: _role(given[key]) for key in _ROLES if key in given}
    within = _lookup(given.get("within"), folder)
    return Fold(plan=plan, data=_placed(given["data"], folder), after=given.get("from"), within=within, **roles, **rest)


def _lookup(given: Any, folder: Path) -> Any:
    """Return a table in which a seed is looked up, or the name of a fold as it is."""
    if not isinstance(given, dict):
        return given
    _check_keys("within", given, _LOOKUP)
    if "data" not in given:
        raise InputError("The table of a seed lacks data.", hint="within = {data = 'papers.parquet', unit = 'author'}")
    for key in ("where", "encoding"):
        if not isinstance(given.get(key, ""), str):
            raise InputError(f"{key} of within must be a text, got {shortened(given[key])}.", hint=f"{key} = '...'")
    roles = {key: _role(given[key]) for key in ("unit", "feature") if key in given}
    rest = {key: given[key] for key in ("where", "encoding") if key in given}
    return Lookup(data=_placed(given["data"], folder), **roles, **rest)


def _role(given: Any) -> Any:
    return Expression(given["sql"]) if isinstance(given, dict) and set(given) == {"sql"} else given


def _placed(data: Any, folder: Path) -> Any:
    """Make paths relative to the folder of the file that names them; addresses stay."""
    if isinstance(data, list):
        return [_placed(item, folder) for item in data]
    if not isinstance(data, str):
        raise InputError(
            f"data must be a path, an address or a list of them, got {shortened(data)}.", hint="data = 'a.csv'"
        )
    return data if _ADDRESS.match(data) else str(folder / data)


def _identity(data: Any) -> str:
    """Return a text that identifies a table: files by their paths, frames by their identity."""
    items = data if isinstance(data, list | tuple) else [data]
    return "\n".join(str(item) if isinstance(item, str | Path) else str(id(item)) for item in items)


def _check_keys(where: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(f"There is no setting {unknown[0]!r} in {where}.", hint=f"one of {', '.join(sorted(known))}")


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{what} must be 1 to 49 letters, digits, dashes or underscores, got {name!r}.", hint="'technologies'"
        )
