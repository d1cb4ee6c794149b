"""Labels from a seed: units that have its features against all others, as SQL over the rows of each unit.

In: rows (unit, feature[, value][, shown]), unit not NULL, and maybe rows (unit, shown) of a second table, in which the seed
is then looked up. Out: (unit, feature, label[, value]), keys not NULL, label "seed" or "rest".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ddpmi.errors import Hint, InputError, check_count
from ddpmi.pipeline.bounds import key_list
from ddpmi.pipeline.steps import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from ddpmi.pipeline.dialects import Dialect

SEED, REST = "seed", "rest"
SEED_LABELS = (REST, SEED)
"""Both labels, sorted by bytes. They are known before any row is read."""
SHOWN = "shown"
"""The column in which the seed is looked for, if it is not the feature column."""


class RankedFeatures(Protocol):
    """The part of a ranking from which a seed is taken."""

    @property
    def table(self) -> pa.Table:
        """Rows with ``rank``, ``feature`` and ``label``."""

    def top(
        self,
        n: int,
        *,
        per: Literal["label", "feature", "all"] = ...,
        direction: Literal["both", "presence", "absence"] = ...,
    ) -> RankedFeatures:
        """Keep the best n of each group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The features that a unit must have to be labelled "seed".

    >>> Seed(features=("b", "a"), at_least=2).features
    ('a', 'b')
    """

    features: tuple[str, ...]
    """Names of the features, as text."""
    at_least: int = 1
    """How many different ones of them a unit must have."""
    keep: bool = False
    """Whether rows with the seed's own features are ranked too."""
    column: str | Expression | None = None
    """The column in which the features are looked for; None for the feature column, of the second table if there is one."""

    def __post_init__(self) -> None:
        listed = key_list(self.features, "feature") or ()
        object.__setattr__(self, "features", listed)
        check_count("at_least", self.at_least)
        check_reachable(self.at_least, len(listed))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for digests."""
        column = self.column.text if isinstance(self.column, Expression) else self.column
        return {
            "features": list(self.features),
            "at_least": self.at_least,
            "keep": self.keep,
            "column": column,
            "expression": isinstance(self.column, Expression),
        }

    def labelled(
        self, named: str, dialect: Dialect, *, valued: bool, read_once: bool, beside: str | None = None
    ) -> str:
        """Return the SELECT of labelled rows. Rows without a feature count for the seed too, and are dropped afterwards.

        Args:
            named: The SELECT of the rows.
            dialect: The engine's spelling.
            valued: Whether rows have a value.
            read_once: Whether the data can be read only once; two parts of this SELECT need it.
            beside: The SELECT of rows (unit as text, shown) of a second table, in which the seed is looked up instead.
        """
        listed = ", ".join(dialect.literal(name) for name in self.features)
        shown = dialect.as_text("feature" if self.column is None and beside is None else SHOWN)
        # A row with a feature of the seed only repeats its unit's label. In a second table the features are others.
        # proof: label-by.drop
        own = self.column is None and beside is None and not self.keep
        rest = f" AND {dialect.as_text('n.feature')} NOT IN ({listed})" if own else ""
        # Without the WITH clause the engine reads the data twice, which is faster than storing all of it.
        stored = read_once and beside is None
        head = f"WITH named AS MATERIALIZED (\n{named}\n)\n" if stored else ""
        source = "named" if stored else f"(\n{named}\n)"
        looked = source if beside is None else f"(\n{beside}\n)"
        # Units of two tables are compared as text: types may differ, and a cast of text to a number would fail at one row.
        # proof: label-by.linked
        unit = "n.unit" if beside is None else dialect.as_text("n.unit")
        # proof: label-by.local
        return (
            f"{head}SELECT n.unit, n.feature, CASE WHEN s.unit IS NULL THEN '{REST}' ELSE '{SEED}' END AS label"
            f"{', n.value' if valued else ''}\nFROM {source} AS n LEFT JOIN (\n"
            f"SELECT unit FROM {looked} AS n WHERE {shown} IN ({listed})\n"
            f"GROUP BY unit HAVING COUNT(DISTINCT {shown}) >= {self.at_least}\n"
            f") AS s ON {unit} = s.unit\nWHERE n.feature IS NOT NULL{rest}"
        )


def check_reachable(at_least: int, features: int) -> None:
    """Refuse a seed that no unit could have.

    Args:
        at_least: How many different features a unit must have.
        features: How many features the seed has.

    >>> check_reachable(2, 10)
    """
    if at_least > features:
        raise InputError(
            f"at_least={at_least} can never be reached: the seed has {features} features.",
            hint=f"at_least={features}",
        )


def seed_names(feature: str | Iterable[str] | None, ranking: RankedFeatures | None, top: int | None) -> tuple[str, ...]:
    """Return the seed's features: the given ones, or the best ones of a ranking.

    Args:
        feature: One name or several.
        ranking: A ranking to take them from.
        top: How many to take.
    """
    if (feature is None) == (ranking is None):
        raise InputError(
            "A seed is either a list of features or a ranking with its top.",
            hint=Hint(
                python="label_by(feature='azure iot') or label_by(ranking=ranking, top=10)", cli="--seed 'azure iot'"
            ),
        )
    if ranking is None:
        if top is not None:
            raise InputError("top needs a ranking, but none was given.", hint="label_by(ranking=ranking, top=10)")
        return key_list((feature,) if isinstance(feature, str) else feature, "feature") or ()
    if top is None:
        raise InputError("A seed from a ranking needs top.", hint="label_by(ranking=ranking, top=10)")
    names = tuple(top_features(ranking, top))
    if not names:
        raise InputError(
            "The ranking has no feature that is more frequent with its label than without it.",
            hint=Hint(do="name the seed", python="label_by(feature='azure iot')", cli="--seed 'azure iot'"),
        )
    return names


def top_features(ranking: RankedFeatures, top: int, *, label: str | None = None) -> list[str]:
    """Return the best features of a ranking by presence, best first. It costs no budget.

    Args:
        ranking: The ranking.
        top: How many, at least 1.
        label: The label whose features are taken. None means "seed" if the ranking came from a seed, and otherwise the
            best label of each feature.
    """
    check_count("top", top)
    labels = set(ranking.top(1, per="label").table["label"].to_pylist())
    if label is None and labels and labels <= set(SEED_LABELS):
        label = SEED
    if label is None:
        rows = ranking.top(1, per="feature", direction="presence").table.to_pylist()
        best = sorted(rows, key=lambda row: int(row["rank"]))
    else:
        rows = ranking.top(top, per="label", direction="presence").table.to_pylist()
        best = [row for row in rows if row["label"] == label]
    return [str(row["feature"]) for row in best[:top]]
