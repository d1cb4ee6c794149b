"""Labels made from a seed: units that show it against the rest, as SQL over the rows of each unit.

In: rows (unit, feature[, value][, shown]), unit not NULL. Out: (unit, feature, label[, value]), keys not NULL, label
"seed" or "rest".
Nothing here runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpmi.errors import InputError
from ddpmi.spec import check_count, key_list
from ddpmi.statements import Dialect, Expression

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddpmi.rankings import Ranking

SEED, REST = "seed", "rest"
#: Both labels, known before any row is read, in the order of their bytes.
SEED_LABELS = (REST, SEED)
#: The column beside the four roles that shows the seed, where it is not the feature's.
SHOWN = "shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """What a unit must show to be labelled "seed".

    >>> Seed(features=("b", "a"), at_least=2).features
    ('a', 'b')
    """

    features: tuple[str, ...]
    """Names of the seed's features, as text."""
    at_least: int = 1
    """How many different ones of them a unit must show."""
    keep: bool = False
    """Whether the seed's own rows stay among the ranked ones."""
    column: str | Expression | None = None
    """Where the seed is shown; None for the feature's own column."""

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

    def labelled(self, named: str, dialect: Dialect, *, valued: bool, read_once: bool) -> str:
        """Return the SELECT of labelled rows. Rows without a feature show the seed too, and are dropped afterwards.

        Args:
            named: The SELECT of the rows.
            dialect: The engine's spelling.
            valued: Whether rows carry a value.
            read_once: Whether the data can be read only once, though two parts of this text need it.
        """
        listed = ", ".join(dialect.literal(name) for name in self.features)
        shown = dialect.as_text("feature" if self.column is None else SHOWN)
        # The seed's rows tell their unit's label, which is known already.
        # proof: label-by.drop
        own = self.column is None and not self.keep
        rest = f" AND {dialect.as_text('n.feature')} NOT IN ({listed})" if own else ""
        # Without the name the engine reads the data twice, which is faster than keeping all of it.
        head = f"WITH named AS MATERIALIZED (\n{named}\n)\n" if read_once else ""
        source = "named" if read_once else f"(\n{named}\n)"
        # proof: label-by.local
        return (
            f"{head}SELECT n.unit, n.feature, CASE WHEN s.unit IS NULL THEN '{REST}' ELSE '{SEED}' END AS label"
            f"{', n.value' if valued else ''}\nFROM {source} AS n LEFT JOIN (\n"
            f"SELECT unit FROM {source} AS n WHERE {shown} IN ({listed})\n"
            f"GROUP BY unit HAVING COUNT(DISTINCT {shown}) >= {self.at_least}\n"
            f") AS s ON n.unit = s.unit\nWHERE n.feature IS NOT NULL{rest}"
        )


def check_reachable(at_least: int, features: int) -> None:
    """Refuse a seed that nobody could show.

    >>> check_reachable(2, 10)
    """
    if at_least > features:
        raise InputError(
            f"at_least={at_least} can never be reached: the seed has {features} features.", hint=f"at_least={features}"
        )


def seed_names(feature: str | Iterable[str] | None, ranking: Ranking | None, top: int | None) -> tuple[str, ...]:
    """Settle the seed's features: as given, or the best ones of a ranking.

    Args:
        feature: One name or several.
        ranking: A ranking to take them from.
        top: How many of it.
    """
    if (feature is None) == (ranking is None):
        raise InputError(
            "A seed is either features or a ranking with its top.",
            hint="label_by(feature='azure iot') or label_by(ranking=ranking, top=10)",
        )
    if ranking is None:
        if top is not None:
            raise InputError("top belongs to a ranking, but none was given.", hint="label_by(ranking=ranking, top=10)")
        return key_list((feature,) if isinstance(feature, str) else feature, "feature") or ()
    if top is None:
        raise InputError("How many features of the ranking?", hint="label_by(ranking=ranking, top=10)")
    names = tuple(top_features(ranking, top))
    if not names:
        raise InputError(
            "The ranking has no feature that stands out by presence.",
            hint="name the seed: label_by(feature='azure iot')",
        )
    return names


def top_features(ranking: Ranking, top: int, *, label: str | None = None) -> list[str]:
    """Return the best features of a ranking by presence, best first. Free: the ranking was released.

    Args:
        ranking: The ranking.
        top: How many, at least 1.
        label: Of which label; None for "seed" where the ranking came from a seed, else each feature's best label.
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
