"""What a cascade will do, decided before any row is read: folds, their plans and their total cost."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.budget import Budget, shortest
from ddpmi.errors import InputError, InputNotFound
from ddpmi.plan import Plan
from ddpmi.seeds import SEED_LABELS, Seed, check_reachable, seed_names
from ddpmi.spec import Bounds, check_count
from ddpmi.statements import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddpmi.observations import Observations

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,48}")
_ADDRESS = re.compile(r"[a-z0-9]+://")
_ROLES = ("unit", "feature", "label", "value", "seed_column")
_BOUNDS = tuple(entry.name for entry in fields(Bounds))
_PLAN = tuple(entry.name for entry in fields(Plan) if entry.name not in ("budget", "bounds"))
_BUDGET = ("epsilon", "delta")
_HEAD = ("id", "ledger", "output", "common_person", "defaults", "fold")
#: Pure epsilons add only to pure ones, and a Laplace release is dear in the currency of Gaussian noise.
MIXED = "Laplace and Gaussian folds add up to more than this in a ledger: mechanism = 'gaussian' for all is cheaper."


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One release of a cascade: a table, where its labels come from, and a plan."""

    name: str
    """Letters, digits, dashes and underscores: part of the release's id, and its folder."""
    data: Any = field(repr=False)
    """What `observe` takes."""
    plan: Plan
    """What the fold will do and cost; a seed adds its two labels by itself."""
    unit: str | Expression | None = None
    feature: str | Expression | None = None
    label: str | Expression | None = None
    """A column of labels; left out where a seed makes them."""
    value: str | Expression | None = None
    where: str | None = None
    encoding: str | None = None
    """How the bytes of text files are read; None for UTF-8."""
    dataset: str = "default"
    """Whose budget the fold spends."""
    seed: Iterable[str] | None = None
    """Features whose units are labelled "seed"."""
    after: str | None = None
    """The earlier fold whose best features are the seed; called ``from`` in files."""
    of: str | None = None
    """Which label of the earlier fold; None as in `label_by`."""
    top: int = 10
    """How many of its features."""
    at_least: int = 1
    """How many different features of the seed a unit must show."""
    keep_seed: bool = False
    """Rank the seed's own features too."""
    seed_column: str | Expression | None = None
    """Column that shows the seed, where it is not the feature's."""

    def __post_init__(self) -> None:
        _check_name("The name of a fold", self.name)
        for name in ("top", "at_least"):
            check_count(name, getattr(self, name))
        if sum(given is not None for given in (self.label, self.seed, self.after)) > 1:
            raise InputError(
                f"Fold {self.name!r} takes its labels from more than one place.",
                hint="give one of label (a column), seed (features) and from (an earlier fold)",
            )
        if not self.seeded and (self.seed_column is not None or self.at_least != 1 or self.keep_seed):
            raise InputError(
                f"Fold {self.name!r} has no seed, but says how it is shown.", hint="seed = ['ReactJS'], or leave it out"
            )
        if self.seed is not None:
            object.__setattr__(self, "seed", seed_names(self.seed, None, None))
        # Refused now, not after an earlier fold was paid for.
        if self.seed is not None:
            Seed(features=self.names(), at_least=self.at_least)
        elif self.after is not None:
            check_reachable(self.at_least, self.top)
        if self.seeded:
            object.__setattr__(self, "plan", seed_plan(self.plan))

    @property
    def seeded(self) -> bool:
        """Whether a seed makes the labels."""
        return self.seed is not None or self.after is not None

    def names(self) -> tuple[str, ...]:
        """Return the given seed; nothing where a column or an earlier fold gives the labels."""
        return () if self.seed is None else tuple(self.seed)

    def labels(self) -> str:
        """Say where labels come from."""
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
        """Name the fold's data, not yet labelled by a seed. Reads the schema and no row."""
        from ddpmi.observations import observe

        roles = {role: getattr(self, role) for role in ("unit", "feature", "label", "value")}
        return observe(self.data, **roles, where=self.where, encoding=self.encoding, dataset=self.dataset)

    def labelled(self, obs: Observations, names: Iterable[str]) -> Observations:
        """Label the data by the seed, if there is one."""
        if not self.seeded:
            return obs
        return obs.label_by(feature=names, at_least=self.at_least, keep_seed=self.keep_seed, column=self.seed_column)

    def foreseen(self, obs: Observations) -> Observations:
        """Label the data as far as checks need it: one feature takes the place of those that an earlier fold will give."""
        if self.after is None:
            return self.labelled(obs, self.names())
        return obs.label_by(feature="a stand-in", keep_seed=self.keep_seed, column=self.seed_column)

    def check_shown(self, obs: Observations, earlier: Observations) -> None:
        """Refuse a seed that cannot occur: features of one column, looked for in another that nobody named for them.

        Args:
            obs: The fold's data.
            earlier: The data of the fold that gives the seed.
        """
        if self.seed_column is not None or obs.feature_role == earlier.feature_role:
            return
        here, there = (
            repr(name) if not made else "an expression" for name, made in (obs.feature_role, earlier.feature_role)
        )
        name, made = earlier.feature_role
        raise InputError(
            f"Fold {self.name!r} ranks {here}, but starts from fold {self.after!r}, which ranks {there}: "
            f"nobody would show the seed.",
            hint=f"seed_column = {name!r}"
            if not made
            else "seed_column = {sql = '...'}, which shows the seed's features",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Folds in order, each of which may start from the result of an earlier one."""

    id: str
    """A name given by the owner; with the fold's name it makes the release's id."""
    folds: tuple[Fold, ...]
    common_person: bool = False
    """The owner's word that the unit columns of all folds name the same people."""
    ledger: Path | None = None
    """The ledger of all folds; None where it is given later."""
    output: Path | None = None
    """The folder of all releases; None where it is given later."""

    def __post_init__(self) -> None:
        _check_name("The id of a cascade", self.id)
        object.__setattr__(self, "folds", tuple(self.folds))
        if not self.folds:
            raise InputError("A cascade needs at least one fold.", hint="[[fold]]")
        seen: set[str] = set()
        for fold in self.folds:
            if fold.name in seen:
                raise InputError(f"Two folds are called {fold.name!r}.", hint="give each fold its own name")
            if fold.after is not None and fold.after not in seen:
                raise InputError(
                    f"Fold {fold.name!r} starts from {fold.after!r}, which is no earlier fold.",
                    hint=f"from = {min(seen)!r}" if seen else "seed = ['ReactJS']",
                )
            seen.add(fold.name)

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
        """Read a TOML file; paths in it start from its own folder.

        Raises:
            InputNotFound: There is no such file.
            InputError: It is no cascade.
        """
        file = Path(path)
        try:
            told = tomllib.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            raise InputNotFound(f"The cascade {file} does not exist.", hint="ddpmi cascade SPEC.toml") from None
        except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
            raise InputError(f"{file} is not TOML: {error}.", hint="see https://toml.io") from None
        _check_keys("the cascade", told, _HEAD)
        folds, common = told.get("fold"), told.get("defaults", {})
        if not isinstance(folds, list) or not isinstance(common, dict) or "id" not in told:
            raise InputError(f"{file} needs an id and folds.", hint="id = 'my-cascade', then [[fold]] for each fold")
        places = {key: file.parent / str(told[key]) for key in ("ledger", "output") if key in told}
        return cls(
            id=told["id"],
            folds=tuple(_fold(common | fold, file.parent) for fold in folds),
            common_person=told.get("common_person", False) is True,
            **places,
        )

    def observe(self) -> list[Observations]:
        """Name the data of all folds and check them against their plans. Reads schemas and no row.

        Raises:
            InputError: A fold cannot run, or folds that protect different columns share a dataset.
        """
        from ddpmi.curator import check_fit

        found = [fold.observe() for fold in self.folds]
        for fold, obs in zip(self.folds, found, strict=True):
            check_fit(fold.foreseen(obs), fold.plan)
        places = {fold.name: obs for fold, obs in zip(self.folds, found, strict=True)}
        for fold in self.folds:
            if fold.after is not None:
                fold.check_shown(places[fold.name], places[fold.after])
        # proof: label-by.folds
        units = [(obs.dataset, str(obs.columns.unit)) for obs in found]
        told = ["an expression" if obs.unit_is_expression else repr(obs.columns.unit) for obs in found]
        if len(set(units)) == 1:
            return found
        self._check_datasets(units)
        return [replace(obs, notes=(*obs.notes, self._note(unit))) for obs, unit in zip(found, told, strict=True)]

    def _check_datasets(self, units: list[tuple[str, str]]) -> None:
        """Refuse one account for different columns, and two accounts for one table."""
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
        accounts = {(_place(fold.data), unit, dataset) for fold, (dataset, unit) in zip(self.folds, units, strict=True)}
        if len(accounts) > len({(place, unit) for place, unit, _ in accounts}):
            raise InputError(
                "One table stands under two datasets, so its units would be charged twice apart.",
                hint="give folds over one table and one unit the same dataset",
            )

    def _note(self, unit: str) -> str:
        if self.common_person:
            return "The owner declares that the unit columns of all folds of this cascade name the same people."
        return (
            f"The promise is per unit column: this fold protects {unit}. Folds of this cascade under other datasets "
            f"protect others, and add up only for a person that the owner declares to be common to them."
        )

    def explain(self) -> str:
        """Describe all folds and what they cost together. Reads nothing."""
        lines = [f"Cascade {self.id}: {len(self.folds)} {'fold' if len(self.folds) == 1 else 'folds'}"]
        totals: dict[str, list[Budget]] = {}
        for number, fold in enumerate(self.folds, start=1):
            budget = fold.plan.budget
            totals.setdefault(fold.dataset, []).append(budget)
            units = fold.plan.calibration
            seen = (
                "every listed pair shows"
                if not units.units_to_show
                else f"{units.threshold_in_units:.0f} units to be seen"
            )
            lines += [
                f"  {number} {fold.name}: epsilon={shortest(budget.epsilon)}, delta={shortest(budget.delta)} of dataset {fold.dataset!r}",
                f"    labels: {fold.labels()}",
                f"    noise: {fold.plan.mechanism_name}, {seen}; release id {self.release_id(fold)}",
            ]
        for dataset, parts in totals.items():
            epsilon = sum((part.epsilon for part in parts), Fraction(0))
            delta = sum((part.delta for part in parts), Fraction(0))
            lines.append(f"Total of dataset {dataset!r}: epsilon={shortest(epsilon)}, delta={shortest(delta)}")
            if len({fold.plan.mechanism_name for fold in self.folds if fold.dataset == dataset}) > 1:
                lines.append(MIXED)
        if len(totals) > 1:
            lines.append("The promise is per unit column: datasets are charged apart.")
        return "\n".join(lines) + "\n"


def seed_plan(plan: Plan) -> Plan:
    """Return the plan with the two labels of a seed, unless it lists labels itself."""
    return plan if plan.known_labels is not None else replace(plan, public_labels=SEED_LABELS)


def _fold(told: Mapping[str, Any], folder: Path) -> Fold:
    own = (
        "name",
        "data",
        "where",
        "encoding",
        "dataset",
        "seed",
        "from",
        "of",
        "top",
        "at_least",
        "keep_seed",
        *_ROLES,
    )
    _check_keys(f"fold {told.get('name', '')!r}", told, (*own, *_BUDGET, *_BOUNDS, *_PLAN))
    missing = [key for key in ("name", "data", *_BUDGET, "pairs") if key not in told]
    if missing:
        raise InputError(
            f"Fold {told.get('name', '')!r} lacks {missing[0]}.",
            hint=f"{missing[0]} = ... in the fold or in [defaults]",
        )
    plan = Plan(
        budget=Budget(told["epsilon"], told["delta"]),
        bounds=Bounds(**{key: told[key] for key in _BOUNDS if key in told}),
        **{key: told[key] for key in _PLAN if key in told},
    )
    given = {key: told[key] for key in own if key in told and key not in ("data", "from", *_ROLES)}
    roles = {key: _role(told[key]) for key in _ROLES if key in told}
    return Fold(plan=plan, data=_placed(told["data"], folder), after=told.get("from"), **roles, **given)


def _role(told: Any) -> Any:
    return Expression(told["sql"]) if isinstance(told, dict) and set(told) == {"sql"} else told


def _placed(data: Any, folder: Path) -> Any:
    """Paths start from the folder of the file that names them."""
    if isinstance(data, list):
        return [_placed(item, folder) for item in data]
    return data if not isinstance(data, str) or _ADDRESS.match(data) else str(folder / data)


def _place(data: Any) -> str:
    """Tell tables apart: files by their paths, frames by themselves."""
    items = data if isinstance(data, list | tuple) else [data]
    return "\n".join(str(item) if isinstance(item, str | Path) else str(id(item)) for item in items)


def _check_keys(where: str, told: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(set(told) - set(known))
    if unknown:
        raise InputError(f"There is no setting {unknown[0]!r} in {where}.", hint=f"one of {', '.join(sorted(known))}")


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{what} must be 1 to 49 letters, digits, dashes or underscores, got {name!r}.", hint="'technologies'"
        )
