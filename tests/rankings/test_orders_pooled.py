"""The pooled order: rows of features with common patterns, read through noise."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from ddpmi.information.mi import clip_sums, direction, feasible, mutual_information
from ddpmi.rankings import orders, patterns
from ddpmi.rankings.noise_model import Noise
from ddpmi.rankings.orders import shrunk

SILENT = Noise(joint=0.0, feature=0.0, label=0.0, total=0.0)
FEATURES, LABELS = 200, 12


def read(sums: Any, codes: Any, noise: Noise, features: int = FEATURES, labels: int = LABELS) -> orders.Pooled:
    """Read pairs whose features and labels have numbers for names."""
    names = tuple(pa.array([f"{number:06d}" for number in range(count)]) for count in (features, labels))
    return orders.pooled(sums, codes, names, noise)


def pooled(sums: Any, codes: Any, noise: Noise) -> np.ndarray:
    """The values of pairs."""
    return read(sums, codes, noise).value


def grown(seed: int) -> np.ndarray:
    """Sums of features by labels, where features rise and fall along the labels in two ways."""
    draw = np.random.default_rng(seed)
    times = np.linspace(-1, 1, LABELS)
    trends = draw.normal(0, 0.4, (FEATURES, 1)) * times + draw.normal(0, 0.3, (FEATURES, 1)) * (times**2 - 0.4)
    sizes = 400_000 / np.arange(1, FEATURES + 1)
    return np.rint(sizes[:, None] * np.exp(trends) / LABELS).astype(np.int64)


def pairs_of(sums: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]:
    """All pairs with their margins, and their codes."""
    feature, label = (codes.ravel() for codes in np.indices(sums.shape))
    return (sums.ravel(), sums.sum(1)[feature], sums.sum(0)[label], int(sums.sum())), (feature, label)


def noisy(sums: np.ndarray, sd: float, seed: int) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, int], Noise]:
    """The same pairs with noise on each joint sum."""
    (joint, feature, label, total), _ = pairs_of(sums)
    more = np.rint(np.random.default_rng(seed).normal(0, sd, len(joint))).astype(np.int64)
    return (joint + more, feature, label, total), Noise(joint=sd / total, feature=0.0, label=0.0, total=0.0)


def overlap_of_labels(true: np.ndarray, found: np.ndarray) -> float:
    """The mean overlap of the best 20 features of each label."""
    best = [np.argsort(-values.reshape(FEATURES, LABELS), axis=0)[:20].T for values in (true, found)]
    return float(np.mean([len(set(a) & set(b)) / 20 for a, b in zip(*best, strict=True)]))


@pytest.mark.parametrize("seed", range(3))
def test_a_row_tells_about_each_of_its_pairs(seed: int) -> None:
    """Where features have common patterns, both the values and the best of each label come nearer to the truth."""
    sums = grown(seed)
    exact, codes = pairs_of(sums)
    true = mutual_information(*feasible(*exact))
    seen, noise = noisy(sums, 300.0, seed + 100)
    together, alone = pooled(seen, codes, noise), shrunk(seen, noise)
    assert overlap_of_labels(true, together) > overlap_of_labels(true, alone) + 0.1
    assert np.sum((together - true) ** 2) < 0.7 * np.sum((alone - true) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_values_are_the_mutual_information_to_be_expected(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many pairs values are as large as the truth; at the expected lift alone they would be far too small."""
    sums = grown(seed)
    exact, codes = pairs_of(sums)
    seen, noise = noisy(sums, 300.0, seed + 100)
    true = mutual_information(*feasible(*exact))
    rare = codes[0] > 20
    assert 0.8 < np.sum(pooled(seen, codes, noise)[rare]) / np.sum(true[rare]) < 1.25
    monkeypatch.setattr(orders, "_POINTS", ((0.0, 1.0),))
    assert np.sum(pooled(seen, codes, noise)[rare]) / np.sum(true[rare]) < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_rows_know_directions_better_than_their_pairs(seed: int) -> None:
    """Noise turns many pairs round, and their rows turn most of those back."""
    sums = grown(seed)
    exact, codes = pairs_of(sums)
    seen, noise = noisy(sums, 300.0, seed + 100)
    true, alone = direction(*exact), direction(*clip_sums(*seen))
    together = read(seen, codes, noise).presence
    assert np.mean(together != true) < 0.8 * np.mean(alone != true)
    clear = np.abs(seen[0] - exact[1] * exact[2] / exact[3]) > 8 * 300
    np.testing.assert_array_equal(together[clear], true[clear])


def test_pairs_behind_a_threshold_are_read_too() -> None:
    """Rows may have gaps; those that were not released say nothing."""
    sums = grown(1)
    exact, codes = pairs_of(sums)
    seen, noise = noisy(sums, 100.0, 7)
    kept = seen[0] > 530
    some = (*(part[kept] for part in seen[:3]), seen[3])
    true = mutual_information(*feasible(*exact))[kept]
    found = pooled(some, (codes[0][kept], codes[1][kept]), noise)
    assert 500 < kept.sum() < 1000
    assert np.sum((found - true) ** 2) < 0.7 * np.sum((mutual_information(*feasible(*some)) - true) ** 2)


def test_without_noise_nothing_moves() -> None:
    """Exact sums give the estimate itself."""
    exact, codes = pairs_of(grown(2))
    found = read(exact, codes, SILENT)
    np.testing.assert_allclose(found.value, mutual_information(*feasible(*exact)), rtol=1e-6)
    np.testing.assert_array_equal(found.presence, direction(*exact))


def test_a_wrong_total_of_a_label_is_no_information() -> None:
    """Noise on the total of a small label moves all its pairs alike: none of them may lead."""
    draw = np.random.default_rng(5)
    sums = grown(3)
    sums[:, 0] = sums[:, 0] // 100
    (joint, feature, label, total), codes = pairs_of(sums)
    truth = mutual_information(*feasible(joint, feature, label, total))
    small = codes[1] == 0
    # Four deviations too large.
    wrong = np.where(small, label + 20_000, label)
    noise = Noise(joint=100 / total, feature=0.0, label=5_000 / total, total=0.0)
    joint = joint + np.rint(draw.normal(0, 100, len(joint))).astype(np.int64)
    found = pooled((joint, feature, wrong, total), codes, noise)
    first = np.argsort(-found)[:50]
    assert np.sum(small[np.argsort(-mutual_information(*feasible(joint, feature, wrong, total)))[:50]]) > 5
    assert not np.any(small[first])
    assert len(set(first) & set(np.argsort(-truth)[:50])) > 40


def test_blocks_and_order_of_labels_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features are read a few at a time, by several threads, and labels have no order."""
    sums = grown(4)
    codes = pairs_of(sums)[1]
    seen, noise = noisy(sums, 100.0, 9)
    whole = pooled(seen, codes, noise)
    other = np.random.default_rng(1).permutation(LABELS)
    by_label = np.lexsort((other[codes[1]], codes[0]))
    moved = pooled((*(part[by_label] for part in seen[:3]), seen[3]), (codes[0], other[codes[1]][by_label]), noise)
    np.testing.assert_allclose(moved, whole[by_label], rtol=1e-6)
    monkeypatch.setattr(orders, "_CELLS", 7 * LABELS)
    np.testing.assert_allclose(pooled(seen, codes, noise), whole, rtol=1e-9)
    model = orders.fitted(seen, codes, noise, LABELS)
    alone, together = (orders.estimated(model, seen, codes, noise, workers=workers) for workers in (1, 4))
    np.testing.assert_array_equal(alone.value, together.value)
    np.testing.assert_array_equal(alone.presence, together.presence)


def test_the_fit_takes_some_features_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of those whose names have the smallest CRC-32, and the rest is read with what they taught."""
    sums = grown(5)
    codes = pairs_of(sums)[1]
    seen, noise = noisy(sums, 100.0, 3)
    whole = pooled(seen, codes, noise)
    monkeypatch.setattr(orders, "_FEATURES", 40)
    some = sorted(range(FEATURES), key=lambda number: zlib.crc32(f"{number:06d}".encode()))[:40]
    taken = np.isin(codes[0], some)
    model = orders.fitted(
        (*(part[taken] for part in seen[:3]), seen[3]), (codes[0][taken], codes[1][taken]), noise, LABELS
    )
    expected = orders.estimated(model, seen, codes, noise).value
    found = pooled(seen, codes, noise)
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(found, whole)
    np.testing.assert_allclose(np.sum((found - whole) ** 2), 0, atol=0.1 * np.sum(whole**2))


def test_small_products_stay_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, or in many tasks at once, threads would wait for each other; afterwards all is as before."""
    threads: list[list[int]] = []
    plain = patterns._read

    def watched(*given: Any) -> Any:
        threads.append(blas_threads())
        return plain(*given)

    before = blas_threads()
    exact, codes = pairs_of(grown(6))
    monkeypatch.setattr(patterns, "_read", watched)
    pooled(exact, codes, Noise(joint=1e-4, feature=0.0, label=0.0, total=0.0))
    assert len(threads) == sum(rounds for _, rounds in patterns.STAGES) + 1
    assert {number for numbers in threads for number in numbers} == {1}
    assert blas_threads() == before


def blas_threads() -> list[int]:
    """How many threads each library of linear algebra would use now."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_few_features_are_all_fitted_to() -> None:
    """A hash is asked only where there are more."""
    feature = np.repeat([2, 5, 9], [2, 1, 3])
    names = pa.array([str(number) for number in range(10)])
    assert orders._sampled(feature, names, 3) == slice(None)
    kept = orders._sampled(feature, names, 2)
    assert len(set(feature[kept])) == 2


hostile = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), *(st.integers(-(10**12), 10**12) for _ in range(3))),
    unique_by=lambda row: row[:2],
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(hostile, st.integers(-5, 10**12), st.sampled_from([0.0, 1e-9, 1e-3, 10.0]))
def test_any_released_numbers_have_a_value(rows: list[tuple[int, ...]], total: int, sd: float) -> None:
    """Sums that noise made negative, larger than the total or empty: no warning, nothing below zero, nothing undefined."""
    rows = sorted(rows)
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(5)]
    noise = Noise(joint=sd, feature=sd, label=sd, total=sd)
    found = read((*columns[2:], total), (columns[0], columns[1]), noise, 4, 4)
    assert found.value.shape == found.presence.shape == (len(rows),)
    assert np.all(np.isfinite(found.value))
    assert np.all(found.value >= 0)
