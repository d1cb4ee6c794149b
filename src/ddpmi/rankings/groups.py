"""Groups: the found features of each label under the groups that a public list gives them, such as the industry of a firm.

The list comes from outside and the ranking from a release, so this is free. A feature without a group comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.errors import Hint, InputError, check_count
from ddpmi.rankings import display
from ddpmi.rankings.ranking import Ranking

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import pyarrow as pa

    from ddpmi.rankings.pairs import Direction

NO_GROUP = "no group"
"""What tables and pages show for features that the list does not name."""
_KEPT = ("rank_in_label", "direction", "mi", "mi_low", "mi_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The found features of one label that belong to one group."""

    label: str
    """The label."""
    group: str | None
    """The group; None for features without one."""
    features: tuple[str, ...]
    """The features, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """The found features of all labels, by group. Made by `group_features`."""

    rows: tuple[Mapping[str, Any], ...]
    """One row for each label and feature, with its group; groups of a label in the order of their best feature."""
    private: bool
    """Whether the sums were noisy."""
    promise: str
    """What the release promises."""

    @property
    def groups(self) -> list[Group]:
        """The groups of each label, in the order of the rows."""
        found: dict[tuple[str, str | None], list[str]] = {}
        for row in self.rows:
            found.setdefault((row["label"], row["group"]), []).append(row["feature"])
        return [Group(label=label, group=group, features=tuple(names)) for (label, group), names in found.items()]

    @property
    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        numbers = (("mi", pa.float64()), ("mi_low", pa.float64()), ("mi_high", pa.float64()))
        texts = (("label", pa.string()), ("group", pa.string()), ("feature", pa.string()))
        schema = pa.schema([*texts, ("rank_in_label", pa.int64()), ("direction", pa.string()), *numbers])
        return pa.Table.from_pylist([dict(row) for row in self.rows], schema=schema)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the rows as CSV, JSON or Parquet, by the suffix of the path."""
        return display.save(lambda: self.table, path, overwrite=overwrite)


def group_features(
    ranking: Ranking,
    groups: Mapping[str, str],
    *,
    top: int = 20,
    direction: Literal["presence", "absence", "both"] = "presence",
) -> Grouped:
    """Put the best features of each label under the groups of a public list. Free.

    Args:
        ranking: The ranking.
        groups: Feature -> group. It must be public knowledge, never taken from the data.
        top: How many features of each label.
        direction: Features that are more frequent with the label, less frequent, or both.

    >>> import pyarrow as pa
    >>> from ddpmi import exact, observe, rank
    >>> rows = pa.table({"unit": range(8), "feature": ["tea", "mate", "pen", "ink"] * 2, "label": ["x", "x", "y", "y"] * 2})
    >>> found = group_features(rank(exact(observe(rows))), {"tea": "drinks", "mate": "drinks", "pen": "tools"})
    >>> [(group.label, group.group, sorted(group.features)) for group in found.groups]
    [('x', 'drinks', ['mate', 'tea']), ('y', 'tools', ['pen']), ('y', None, ['ink'])]
    """
    check_count("top", top)
    check_groups(ranking, groups)
    chosen: Direction = direction
    best: dict[str, dict[str | None, list[dict[str, Any]]]] = {}
    for row in ranking.top(top, per="label", direction=chosen).to_dicts():
        best.setdefault(row["label"], {}).setdefault(groups.get(row["feature"]), []).append(row)
    rows = []
    for label, parts in best.items():
        # Groups keep the order of their first feature; those without a group come last.
        for group in sorted(parts, key=lambda name: name is None):
            rows += [
                {"label": label, "group": group, "feature": row["feature"], **{name: row[name] for name in _KEPT}}
                for row in parts[group]
            ]
    return Grouped(rows=tuple(rows), private=ranking.private, promise=ranking.promise)


def check_groups(ranking: object, groups: object) -> None:
    """Refuse what is no ranking, or no list of groups.

    Raises:
        InputError: One of them is something else.
    """
    if not isinstance(ranking, Ranking):
        raise InputError(
            f"Features of a ranking are grouped, got {type(ranking).__name__}.",
            hint="group_features(rank('visits.release'), groups)",
        )
    fits = isinstance(groups, Mapping) and all(isinstance(name, str) for pair in groups.items() for name in pair)
    if not fits:
        raise InputError(
            f"groups must map the name of a feature to the name of its group, got {type(groups).__name__}.",
            hint=Hint(python="groups={'irctc.co.in': 'travel'}", cli="--groups groups.csv"),
        )
