"""Found features by the groups of a public list: nothing is lost, and names stay names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi import InputError, exact, group_features, observe, rank
from ddpmi.rankings.groups import Group

if TYPE_CHECKING:
    from pathlib import Path

FIRMS = {"Bolts": "industry", "Wires": "industry", "Books": "=trade", "nobody": "x"}


def ranking():
    """Two labels: x has Bolts most, then Books, then Wires and a firm of no group."""
    many = {
        ("Bolts", "x"): 90,
        ("Books", "x"): 60,
        ("Wires", "x"): 40,
        ("<b>", "x"): 30,
        ("Pages", "y"): 50,
        ("Bolts", "y"): 2,
    }
    rows = [(f"{f}{u}{n}", f, u) for (f, u), count in many.items() for n in range(count)]
    return rank(exact(observe(pa.table(dict(zip(("unit", "feature", "label"), zip(*rows, strict=True), strict=True))))))


def test_groups_are_in_the_order_of_their_best_feature() -> None:
    """Within a group features are best first; those without a group come last; groups that nobody has are left out."""
    assert group_features(ranking(), FIRMS).groups == [
        Group(label="x", group="industry", features=("Bolts", "Wires")),
        Group(label="x", group="=trade", features=("Books",)),
        Group(label="x", group=None, features=("<b>",)),
        Group(label="y", group=None, features=("Pages",)),
    ]


def test_every_listed_row_of_the_ranking_is_in_one_group() -> None:
    """Grouping keeps each row, with its numbers."""
    whole = ranking()
    for direction in ("presence", "absence", "both"):
        best = {
            (row["label"], row["feature"]): row for row in whole.top(3, per="label", direction=direction).to_dicts()
        }
        found = group_features(whole, FIRMS, top=3, direction=direction).rows
        assert {(row["label"], row["feature"]) for row in found} == set(best)
        assert len(found) == len(best)
        assert all(row["mi"] == best[row["label"], row["feature"]]["mi"] for row in found)


def test_groups_are_saved(tmp_path: Path) -> None:
    """As CSV that starts no formula, as JSON and as Parquet."""
    found = group_features(ranking(), FIRMS)
    assert "'=trade" in found.save(tmp_path / "a.csv").read_text()
    assert json.loads(found.save(tmp_path / "a.json").read_text())[0]["group"] == "industry"
    assert pq.read_table(found.save(tmp_path / "a.parquet")).equals(found.table)
    assert group_features(ranking(), {}).table.column("group").null_count == len(group_features(ranking(), {}).rows)


@pytest.mark.parametrize(
    "wrong", [{"groups": ["a"]}, {"groups": {"a": 1}}, {"groups": {1: "a"}}, {"top": 0}, {"ranking": 3}]
)
def test_wrong_arguments_are_refused(wrong: dict[str, object]) -> None:
    """A clear error with a hint."""
    with pytest.raises(InputError, match="Hint:"):
        group_features(**{"ranking": ranking(), "groups": FIRMS} | wrong)  # type: ignore[arg-type]
