"""Orders of pairs: what noise alone can make must not lead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, InputError, Plan
from ddpmi.cli.commands.rank import RankOptions
from ddpmi.cli.output import ranking_table
from ddpmi.information.mi import feasible, mutual_information
from ddpmi.rankings.noise_model import Noise
from ddpmi.rankings.orders import IN_WORDS, Order, Pooled, check_order, default_order, shrunk
from ddpmi.rankings.ranking import rank
from tests.curator.test_drawing import groups, table

SMALL = Noise(joint=1e-3, feature=1e-3, label=2e-3, total=0.0)


def released(**options: object) -> ddpmi.Release:
    """Release three groups of units in memory."""
    made = Plan(budget=Budget(2, 1e-4), bounds=Bounds(pairs=3), **options)
    found = ddpmi.testing.seeded_release(ddpmi.observe(table(groups())), made, seed=1)
    # The noise is from a seed, but it is noise: what a receipt of a private release says holds for it.
    return ddpmi.Release(receipt=dict(found.receipt) | {"private": True}, tables=found.tables)


tables = st.tuples(*(st.integers(-100, 10_000) for _ in range(3)))


@given(st.lists(tables, min_size=1, max_size=20), st.floats(0, 20))
def test_shrinking_never_raises_an_estimate(sums: list[tuple[int, int, int]], strength: float) -> None:
    """The joint sum moves towards independence, so mutual information only falls; nothing is negative or NaN."""
    joint, feature, label = (np.array(column) for column in zip(*sums, strict=True))
    plain = mutual_information(*feasible(joint, feature, label, 10_000))
    found = shrunk((joint, feature, label, 10_000), SMALL, strength)
    assert np.all(found >= 0)
    assert np.all(found <= plain * (1 + 1e-9) + 1e-15)


@given(st.lists(tables, min_size=1, max_size=20))
def test_without_noise_or_strength_nothing_moves(sums: list[tuple[int, int, int]]) -> None:
    """Exact sums, or strength 0, give the estimate itself."""
    joint, feature, label = (np.array(column) for column in zip(*sums, strict=True))
    plain = mutual_information(*feasible(joint, feature, label, 10_000))
    silent = Noise(joint=0.0, feature=0.0, label=0.0, total=0.0)
    for found in (shrunk((joint, feature, label, 10_000), silent), shrunk((joint, feature, label, 10_000), SMALL, 0.0)):
        np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-15)


def test_a_total_that_is_not_positive_says_nothing() -> None:
    """There mutual information is 0 for all sums."""
    some = np.array([5])
    assert shrunk((some, some, some, -3), SMALL).tolist() == [0.0]


def test_a_rare_pair_made_by_noise_falls_behind_a_certain_one() -> None:
    """Three deviations on a rare feature look like much information, and shrink to less than a solid pair has."""
    noise = Noise(joint=1e-4, feature=1e-4, label=1e-4, total=0.0)
    joint, feature = np.array([300, 21_000]), np.array([300, 100_000])
    sums = (joint, feature, np.array([200_000, 200_000]), 1_000_000)
    plain = mutual_information(*feasible(*sums))
    kept = shrunk(sums, noise)
    assert plain[0] > plain[1]
    assert kept[0] < kept[1]


def test_the_default_is_the_estimate_behind_a_threshold_and_pooled_where_every_pair_shows() -> None:
    """A receipt alone decides, and exact sums are never shrunk."""
    assert default_order(None) == "estimate"
    for options, expected in (
        ({}, "estimate"),
        ({"grid": True, "public_labels": ("a", "b", "c")}, "pooled"),
        ({"complete": True}, "pooled"),
        ({"public_labels": ("a", "b", "c"), "public_features": ("common", "never-c")}, "pooled"),
    ):
        ranking = rank(released(**options))
        assert ranking.source.ranked_by == expected
        chosen = rank(released(**options), order=expected)
        assert chosen.table.equals(ranking.table)
        assert default_order(ranking.source.noise_model) == expected


@pytest.mark.parametrize("order", ["estimate", "lower", "shrunk", "pooled"])
def test_an_order_changes_ranks_alone(order: str) -> None:
    """Every number of a pair stays; ranks follow what was asked for."""
    made = released(grid=True, public_labels=("a", "b", "c"))
    names = ("feature", "label", "mi", "mi_low", "mi_high", "joint")
    found = rank(made, order=order).to_dicts()
    assert [row["rank"] for row in found] == list(range(1, len(found) + 1))
    assert {tuple(row[name] for name in names) for row in found} == {
        tuple(row[name] for name in names) for row in rank(made, order="estimate").to_dicts()
    }
    leading = {"estimate": "mi", "lower": "mi_low"}.get(order)
    if leading:
        values = [row[leading] for row in found]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("order", ["estimate", "lower", "shrunk", "pooled"])
def test_readers_are_told_when_rows_do_not_follow_mi(order: str, tmp_path: Path) -> None:
    """The table of the command line and the page say it; nothing is said of the plain order, of scores, or of exact sums."""
    ranking = rank(released(grid=True, public_labels=("a", "b", "c")), order=order)
    page = ddpmi.report(ranking, tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (ranking_table(ranking, ranking.top(2)), page):
        assert ("Ordered by" in text) == (order != "estimate")
    assert rank(released(), order=order, score="lift").order_in_words == ""
    exact = ddpmi.exact(ddpmi.observe(table(groups())))
    assert rank(exact, order=order).order_in_words == ""


def test_directions_follow_the_pooled_reading_wherever_they_are_shown() -> None:
    """In the table, in lists of one direction and for comparisons; another score or order has those of the released sums."""
    made = released(grid=True, public_labels=("a", "b", "c"))
    ranking, plain = rank(made, order="pooled"), rank(made, order="estimate")
    assert ranking.source
    assert plain.source
    turned = ~plain.source.presence
    pairs = replace(ranking.source, pooled=Pooled(value=ranking.source.mi, presence=turned))
    ranking = replace(ranking, table=pairs, source=pairs)
    opposite = {"presence": "absence", "absence": "presence"}
    found = {(row["feature"], row["label"]): row["direction"] for row in ranking.to_dicts()}
    kept = {(row["feature"], row["label"]): row["direction"] for row in plain.to_dicts()}
    assert found == {pair: opposite[kind] for pair, kind in kept.items()}
    listed = ranking.top(99, direction="presence").to_dicts()
    assert {(row["feature"], row["label"]) for row in listed} == {
        pair for pair, kind in kept.items() if kind == "absence"
    }
    assert ddpmi.compare(plain, ranking).direction_error == 1.0
    for scored in (ranking.score("lift"), ranking.top(99).score("lift")):
        assert {(row["feature"], row["label"]): row["direction"] for row in scored.to_dicts()} == kept


def test_another_score_takes_precedence() -> None:
    """Where a score is given, pairs are ordered by it, for every order of mutual information."""
    made = released()
    assert rank(made, score="lift", order="shrunk").table.equals(rank(made, score="lift").table)


def test_the_command_line_offers_every_order() -> None:
    """Its list is written out, so that help loads no numbers; it is the same list."""
    offered = get_type_hints(RankOptions)["order"]
    assert get_args(get_args(offered)[0]) == get_args(Order)
    assert set(IN_WORDS) == set(get_args(Order))


def test_an_unknown_order_is_refused() -> None:
    """The message lists the orders."""
    with pytest.raises(InputError, match="estimate"):
        check_order("best")
