"""Comparison against loops over dictionaries of ranks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.errors import InputError, InputNotFound
from ddpmi.rankings.comparisons import compare
from ddpmi.rankings.ranking import Ranking, rank
from tests.support.fake_release import Counts, exact_release, private_release

if TYPE_CHECKING:
    from pathlib import Path

FEATURES = st.sampled_from([f"f{i}" for i in range(30)] + ["é", "日本"])
COUNTS = st.dictionaries(
    st.tuples(FEATURES, st.sampled_from(["x", "y", "z"])), st.integers(1, 60), min_size=1, max_size=70
)
KEYS = [
    "top",
    "pairs",
    "kept",
    "percentiles",
    "cut_kept",
    "cut_percentiles",
    "overlap",
    "label_overlap_20",
    "rbo",
    "direction_error",
    "bands",
    "labels",
    "changes",
]


def words(features: int, seed: int, scale: float) -> Counts:
    """Draw counts of features in three labels; the same seed keeps the features' sizes."""
    sizes = np.random.default_rng(7).pareto(1.0, (features, 3)) * 100 + 5
    noise = np.random.default_rng(seed).normal(0, scale, (features, 3)) if scale else np.zeros((features, 3))
    sums = np.maximum(np.rint(sizes + noise), 0).astype(int)
    return {(f"w{i:04d}", "xyz"[j]): int(sums[i, j]) for i in range(features) for j in range(3) if sums[i, j] > 10}


def places(ranking: Ranking) -> dict[tuple[str, str], int]:
    return {(row["feature"], row["label"]): at + 1 for at, row in enumerate(ranking.to_dicts())}


def directions(ranking: Ranking) -> dict[tuple[str, str], str]:
    return {(row["feature"], row["label"]): row["direction"] for row in ranking.to_dicts()}


def by_hand(a: Ranking, b: Ranking, top: int, by: str, *, cut: bool) -> dict[str, Any]:
    """Compare with dictionaries: counts, errors, overlaps and directions."""
    one, two = ({key: at for key, at in places(side).items() if at <= top or not cut} for side in (a, b))
    first, second = (one, two) if by == "reference" else (two, one)
    listed = [key for key, at in first.items() if at <= top]
    errors = [abs(first[key] - second.get(key, max(top, len(second)) + 1)) for key in listed]
    both = [key for key in listed if key in second]
    turned = [directions(a)[key] != directions(b)[key] for key in both]
    return {
        "pairs": {"a": len(one), "b": len(two), "common": len(one.keys() & two.keys())},
        "kept": len(both) / len(listed),
        "percentiles": {str(p): float(np.percentile(errors, p)) for p in (10, 25, 50, 75, 90)},
        "overlap": {
            str(d): len([k for k, at in one.items() if at <= d and two.get(k, d + 1) <= d]) / d
            for d in (10, 100, 1000, 10_000)
            if d <= len(one)
        },
        "direction_error": sum(turned) / len(both) if both else None,
    }


@given(one=COUNTS, two=COUNTS, top=st.integers(1, 40), by=st.sampled_from(["reference", "private"]), cut=st.booleans())
@settings(max_examples=60, deadline=None)
def test_numbers_are_those_of_brute_force(one: Counts, two: Counts, top: int, by: Any, *, cut: bool) -> None:
    """Errors, kept parts, overlaps and directions are those of loops over dictionaries."""
    a, b = rank(exact_release(one)), rank(private_release(two))
    expected = by_hand(rank(exact_release(one)), rank(private_release(two)), top, by, cut=cut)
    got = compare(a, b, top=top, by=by, cut=cut).to_dict()
    assert {name: got[name] for name in expected} == expected
    ending = by_hand(rank(exact_release(one)), rank(private_release(two)), top, by, cut=True)
    assert (got["cut_kept"], got["cut_percentiles"]) == (ending["kept"], ending["percentiles"])


@given(one=COUNTS, two=COUNTS, top=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_no_list_gets_worse_by_ending_after_the_places_compared(one: Counts, two: Counts, top: int) -> None:
    """By the rule for missing pairs whole lists pay for their length alone: ended after ``top`` places, none has a larger error."""
    truth, other = rank(exact_release(one)), rank(private_release(two))
    whole, ended = compare(truth, other, top=top), compare(truth, other.top(top, per="all"), top=top)
    assert ended.percentiles == whole.cut_percentiles
    for percentile, error in ended.percentiles.items():
        most = whole.percentiles[percentile]
        assert error is not None
        assert most is not None
        assert error <= most


def top_of(ranking: Ranking, label: str, *, presence: bool) -> set[str]:
    rows = [
        row["feature"]
        for row in ranking.to_dicts()
        if row["label"] == label and (not presence or row["direction"] == "presence")
    ]
    return set(rows[:20])


@pytest.mark.parametrize("presence", [False, True])
def test_labels_are_compared_by_their_best_20(*, presence: bool) -> None:
    """Each label's overlap is that of two sets of at most 20 features; the mean is over labels."""
    a, b = rank(exact_release(words(60, 1, 0))), rank(exact_release(words(60, 2, 40)))
    got = compare(a, b)
    assert {label["label"] for label in got.labels} == {"x", "y", "z"}
    sizes = [label["total"] for label in got.labels]
    assert sizes == sorted(sizes, reverse=True)
    for label in got.labels:
        mine, theirs = (top_of(side, label["label"], presence=presence) for side in (a, b))
        expected = len(mine & theirs) / len(mine)
        assert label["presence_overlap_20" if presence else "overlap_20"] == expected
        assert 0 < expected < 1
    assert got.label_overlap_20 == pytest.approx(np.mean([label["overlap_20"] for label in got.labels]))


def test_bands_follow_the_reference() -> None:
    """Bands hold the reference's ranks, and all pairs of the first thousand stand in one of them."""
    a, b = rank(exact_release(words(400, 1, 0))), rank(exact_release(words(400, 2, 30)))
    one, two = places(a), places(b)
    bands = compare(a, b, top=5000).bands
    assert [(band["from"], band["to"]) for band in bands] == [(1, 10), (11, 100), (101, 1000), (1001, 10_000)][
        : len(bands)
    ]
    assert sum(band["n"] for band in bands) == len(one)
    for band in bands:
        keys = [key for key, at in one.items() if band["from"] <= at <= band["to"]]
        errors = [abs(one[key] - two.get(key, 5001)) for key in keys]
        assert band["n"] == len(keys)
        assert band["kept"] == pytest.approx(sum(key in two for key in keys) / len(keys))
        assert band["percentiles"] == {str(p): float(np.percentile(errors, p)) for p in (10, 25, 50, 75, 90)}


def test_a_ranking_agrees_with_itself() -> None:
    """Nothing is lost, moved or turned, and every overlap is 1."""
    ranking = rank(private_release(words(100, 1, 0)))
    got = compare(ranking, ranking)
    assert (got.kept, got.label_overlap_20, got.direction_error) == (1.0, 1.0, 0.0)
    assert got.rbo == pytest.approx(1.0)
    assert set(got.percentiles.values()) == {0.0}
    assert set(got.overlap.values()) == {1.0}


def test_json_has_the_keys_of_the_interface() -> None:
    """The dict goes to JSON as it is; NOT PRIVATE comes first where either side is exact."""
    counts = words(50, 1, 0)
    sides = {True: private_release(counts), False: exact_release(counts)}
    for a in (True, False):
        for b in (True, False):
            got = compare(sides[a], sides[b])
            found = json.loads(json.dumps(got.to_dict(), allow_nan=False))
            assert list(found) == ([] if a and b else ["notice"]) + KEYS
            assert got.to_text().startswith("Pairs: " if a and b else "NOT PRIVATE: ")


def test_tables_and_pairs_compare_alike() -> None:
    """A ranking of a table's rows gives the same as one of scored pairs."""
    one, two = words(80, 1, 0), words(80, 2, 40)
    lazy = compare(rank(exact_release(one)), rank(exact_release(two))).to_dict()
    made = tuple(replace(ranking, table=ranking.table) for ranking in map(rank, map(exact_release, (one, two))))
    assert compare(*made).to_dict() == lazy
    assert compare(made[0].top(5), made[1].top(5), top=15).pairs["a"] == 15


def test_an_empty_side_is_no_error() -> None:
    """A release without pairs keeps nothing; an empty reference has nothing to keep."""
    full = rank(exact_release(words(30, 1, 0)))
    release = private_release({("a", "x"): 5})
    empty = rank(type(release)(**{**vars(release), "pairs": release.pairs.slice(0, 0)}))
    lost, nothing = compare(full, empty), compare(empty, full)
    assert (lost.kept, lost.rbo, lost.direction_error) == (0.0, 0.0, None)
    assert lost.percentiles["50"] > 0
    assert (nothing.kept, nothing.percentiles["50"], nothing.overlap, nothing.bands) == (None, None, {}, ())
    assert "- kept" in nothing.to_text()


def test_hostile_labels_are_tamed_in_text() -> None:
    """Terminal codes in a label are shown escaped."""
    release = exact_release({("a", "x\x1b[31m"): 5, ("b", "y"): 4})
    assert "\x1b" not in compare(release, release).to_text()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """A top below 1, an unknown side and a folder that is no release raise."""
    release = exact_release({("a", "x"): 5})
    for top in (0, True, 1.5):
        with pytest.raises(InputError, match="whole number"):
            compare(release, release, top=top)
    with pytest.raises(InputError, match="'b'"):
        compare(release, release, by="b")
    with pytest.raises(InputNotFound, match="receipt"):
        compare(tmp_path, release)


def test_labels_carry_the_errors_of_their_best_pairs() -> None:
    """Of the reference's best pairs each label has its own number, kept part and percentiles; together they are all."""
    a, b = rank(exact_release(words(400, 1, 0))), rank(exact_release(words(400, 2, 30)))
    one, two = places(a), places(b)
    found = compare(a, b, top=300)
    assert sum(label["best"] for label in found.labels) == 300
    for label in found.labels:
        keys = [key for key, at in one.items() if at <= 300 and key[1] == label["label"]]
        errors = [abs(one[key] - two.get(key, max(300, len(two)) + 1)) for key in keys]
        assert label["best"] == len(keys)
        assert label["kept"] == pytest.approx(sum(key in two for key in keys) / len(keys))
        assert label["percentiles"] == {str(p): float(np.percentile(errors, p)) for p in (50, 90)}
