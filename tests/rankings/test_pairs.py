"""Pairs in order: partial lists and ranks agree with the whole order, also with many ties."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi._typing import SCORES
from ddpmi.rankings import pairs as ranked
from ddpmi.rankings.pairs import best_of, order_of, places_of
from ddpmi.rankings.ranking import Ranking, rank
from tests.support.fake_release import Counts, FakeRelease, exact_release, private_release

KEYS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=1, max_size=60)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([key for key, _ in pairs], float), np.array([joint for _, joint in pairs])


def brute(pairs: list[tuple[int, int]], rows: list[int]) -> list[int]:
    return sorted(rows, key=lambda row: (pairs[row][0], -pairs[row][1], row))


@given(KEYS)
@settings(deadline=None)
def test_order_is_that_of_brute_force(pairs: list[tuple[int, int]]) -> None:
    """Keys ascend, joint sums descend among equal keys, then the order given, for integers and floats."""
    key, joint = columns(pairs)
    expected = brute(pairs, list(range(len(pairs))))
    assert order_of(key, joint).tolist() == expected
    assert order_of(key, joint.astype(float)).tolist() == expected


def test_order_takes_the_smallest_integer() -> None:
    """The sum that has no negative in 64 bits comes last among equals."""
    joint = np.array([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max])
    assert order_of(np.zeros(3), joint).tolist() == [2, 1, 0]


@given(KEYS, st.integers(1, 10), st.data())
@settings(deadline=None)
def test_best_and_places_are_cut_from_the_order(pairs: list[tuple[int, int]], n: int, data: Any) -> None:
    """The best n of some rows, and the places of any of them, agree with sorting all."""
    key, joint = columns(pairs)
    rows = sorted(data.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=1)))
    expected = brute(pairs, rows)
    assert best_of(key, joint, np.array(rows), n).tolist() == expected[:n]
    chosen = data.draw(st.permutations(rows))[: data.draw(st.integers(1, len(rows)))]
    got = places_of(key, joint, np.array(rows), np.array(chosen))
    assert got.tolist() == [expected.index(row) + 1 for row in chosen]


def ties(seed: int = 3) -> Counts:
    """Draw counts of which many are equal."""
    rng = np.random.default_rng(seed)
    pairs = itertools.product((f"f{i:03d}" for i in range(150)), "wxyz")
    return {pair: int(rng.integers(1, 4)) for pair in pairs if rng.random() < 0.8}


@pytest.mark.parametrize("score", [None, "lift"])
@pytest.mark.parametrize("direction", ["both", "presence", "absence"])
@pytest.mark.parametrize(("n", "per"), [(1, "label"), (4, "label"), (9, "all"), (2, "feature"), (200, "all")])
def test_a_short_list_is_the_head_of_the_whole(n: int, per: Any, direction: Any, score: Any) -> None:
    """`top` of scored pairs makes no table, and gives the rows, ranks and numbers that `top` of the table's rows gives."""
    release = private_release(ties(), threshold=1)
    lazy, whole = rank(release, score=score), rank(release, score=score)
    listed = replace(whole, table=whole.table)
    got = lazy.top(n, per=per, direction=direction)
    assert "table" not in vars(lazy)
    for made in (whole, listed):
        assert got.table.equals(made.top(n, per=per, direction=direction).table)


def test_a_list_by_feature_is_short_where_features_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few features with many labels are selected one by one, with the same rows."""
    release = exact_release({(label, feature): count for (feature, label), count in ties().items()})
    with monkeypatch.context() as patch:
        patch.setattr(ranked.ScoredPairs, "_whole_top", None)
        got = rank(release).top(3, per="feature").to_dicts()
    with monkeypatch.context() as patch:
        patch.setattr(ranked.ScoredPairs, "_short_top", None)
        patch.setattr(ranked, "_LOOP", 0)
        assert rank(release).top(3, per="feature").to_dicts() == got


def test_a_top_list_never_sorts_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text and the best of each label are made without the whole order or the table."""
    ranking = rank(private_release(ties()))

    def fail(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ranked.ScoredPairs, "order", property(fail))
    monkeypatch.setattr(ranked.ScoredPairs, "table", fail)
    assert len(ranking.top(5)) == 20
    assert f"{len(ranking)} pairs, 20 shown" in ranking.to_text()


@pytest.mark.parametrize("name", SCORES)
def test_scores_give_the_order(name: Any) -> None:
    """Ranks follow the score to 12 digits, joint and names; mi, direction and the sums stay."""
    release = exact_release(ties())
    plain = {(row["feature"], row["label"]): row for row in rank(release).to_dicts()}
    rows = rank(release, score=name).to_dicts()
    keys = [
        (-float(f"{row['score']:.11e}"), -row["joint"], row["feature"].encode(), row["label"].encode()) for row in rows
    ]
    assert keys == sorted(keys)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        same = plain[row["feature"], row["label"]]
        kept = [key for key in same if not key.startswith("rank")]
        assert {key: row[key] for key in kept} == {key: same[key] for key in kept}


@pytest.mark.parametrize("name", SCORES)
def test_a_ranking_is_scored_from_its_own_columns(name: Any) -> None:
    """Re-ordering pairs, or the rows of a table, gives what ranking by that score gives."""
    release = private_release(ties(), g=3, step="0.5")
    expected = rank(release, score=name).table
    lazy, made = rank(release), rank(release, base=2)
    assert lazy.score(name).table.equals(expected)
    table = made.table
    again = replace(made, table=table).score(name)
    assert made.table is table
    assert again.table.select(["feature", "label", "rank", "rank_in_label", "rank_in_feature"]).equals(
        expected.select(["feature", "label", "rank", "rank_in_label", "rank_in_feature"])
    )
    assert np.allclose(again.table["score"], expected["score"], rtol=1e-12)
    assert again.score("lift").table.column_names == expected.column_names


def test_scoring_a_part_counts_its_own_ranks() -> None:
    """The best rows of a ranking are re-ordered among themselves."""
    part = rank(exact_release(ties())).top(3).score("chi2")
    assert part.table["rank"].to_pylist() == list(range(1, 13))
    assert part.scored_by == "chi2"
    assert part.table["score"].to_pylist() == sorted(part.table["score"].to_pylist(), reverse=True)


def test_blocks_do_not_show() -> None:
    """Rankings of more pairs than a block holds are those of one block."""
    counts = ties()
    release = private_release(counts, threshold=1)
    whole = rank(release, score="npmi").table
    for size in (1, 7, 64):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranked, "_BLOCK", size)
            patch.setattr(ranked, "_TAKE", size)
            assert rank(release, score="npmi").table.equals(whole)


def grown(release: FakeRelease, chunks: int) -> FakeRelease:
    """Cut the released pairs into chunks."""
    size = -(-release.pairs.num_rows // chunks)
    parts = [release.pairs.slice(at, size) for at in range(0, release.pairs.num_rows, size)]
    return replace(release, pairs=pa.concat_tables(parts))


@pytest.mark.parametrize("chunks", [2, 7, 100])
def test_runs_may_go_on_in_the_next_chunk(chunks: int) -> None:
    """Names are looked up once for each run, also where a file ends within one."""
    release = private_release(ties())
    cut = grown(release, chunks)
    assert cut.pairs["feature"].num_chunks > 1
    assert rank(cut).table.equals(rank(release).table)


def test_a_made_ranking_can_be_replaced() -> None:
    """A ranking is a frozen value: a changed table gives a new one with the same promise."""
    ranking = rank(private_release(ties()))
    table = ranking.table.slice(0, 5)
    part = replace(ranking, table=table)
    assert isinstance(part, Ranking)
    assert (len(part), part.promise, len(ranking)) == (5, ranking.promise, len(ties()))
    assert replace(ranking, dataset="other").table.equals(ranking.table)
    with pytest.raises(AttributeError):
        ranking.private = False  # type: ignore[misc]


def test_a_direction_that_no_pair_has_gives_an_empty_list() -> None:
    """A ranking of absences alone has no best presence, and says so with no row."""
    assert places_of(np.zeros(3), np.zeros(3, np.int64), np.arange(3), np.empty(0, np.int64)).tolist() == []
    release = exact_release({("tea", "uk"): 5, ("milk", "uk"): 5})
    (way,) = {row["direction"] for row in rank(release).to_dicts()}
    ranking = rank(release)  # anew: its table was not made yet
    other = {"presence": "absence", "absence": "presence"}[way]
    assert [len(ranking.top(3, per=per, direction=other)) for per in ("label", "feature", "all")] == [0, 0, 0]
