"""Rank intervals and stable tops: by hand, in general, and counted over seeded noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi.errors import InputError
from ddpmi.information.mi import mutual_information
from ddpmi.rankings import certainty
from ddpmi.rankings.ranking import RANK_BOUNDS, Ranking, rank
from tests.support.fake_release import Counts, FakeRelease, exact_release, keyed, private_release

LABELS, FEATURES = 5, 40
SCALE = 1000


def truth(features: int = FEATURES) -> Counts:
    """Make counts of features that lean to one label each, some common and some rare."""
    rng = np.random.default_rng(5)
    size = 4000 / np.arange(1, features + 1)
    shares = rng.dirichlet(np.ones(LABELS), features)
    return {
        (f"f{f:02d}", f"l{label}"): int(SCALE * (1 + size[f] * shares[f, label]))
        for f in range(features)
        for label in range(LABELS)
    }


def noisy_release(
    counts: Counts, seed: int, *, threshold: int | None, part: float = 1.0, kind: str = "gaussian"
) -> FakeRelease:
    """Add noise to all sums, normal unless it is to be Laplace, and keep pairs that reach the threshold."""
    rng = np.random.default_rng(seed)
    exact = exact_release(counts)
    sds = {"pairs": 3_000 * part, "features": 4_000 * part, "labels": 6_000 * part, "total": 9_000 * part}

    def draw(name: str, count: int) -> np.ndarray:
        noise = rng.normal(0, 1, count) if kind == "gaussian" else rng.laplace(0, np.sqrt(0.5), count)
        return np.rint(sds[name] * noise).astype(np.int64)

    pairs = {key: counts[key] + int(z) for key, z in zip(sorted(counts), draw("pairs", len(counts)), strict=True)}
    pairs = {key: value for key, value in pairs.items() if threshold is None or value >= threshold}

    def margin(table: Any, key: str, at: int) -> Any:
        noise = draw(f"{key}s", table.num_rows)
        sums = dict(zip(table[key].to_pylist(), (table["sum"].to_numpy() + noise).tolist(), strict=True))
        return keyed((key,), {name: sums[name] for name in {pair[at] for pair in pairs}})

    base = private_release(counts)
    tables = {name: {"mechanism": f"discrete_{kind}", "sd_user": sd, "threshold": None} for name, sd in sds.items()}
    tables["pairs"]["threshold"] = threshold
    return replace(
        base,
        pairs=keyed(("feature", "label"), pairs),
        features=margin(exact.features, "feature", 0),
        labels=margin(exact.labels, "label", 1),
        total=exact.total + int(draw("total", 1)[0]),
        receipt=base.receipt | {"tables": tables},
    )


def keys(ranking: Ranking) -> list[tuple[str, str]]:
    """Return the pairs in order."""
    return list(zip(ranking.table["feature"].to_pylist(), ranking.table["label"].to_pylist(), strict=True))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5)), min_size=1))
@settings(deadline=None)
def test_rank_bounds_hold_the_rank(rows: list[tuple[float, float, float]]) -> None:
    """The rank lies between both bounds, which lie between 1 and the number of pairs."""
    mi = np.array([row[0] for row in rows])
    low, high = mi - [row[1] for row in rows], mi + [row[2] for row in rows]
    best, worst = certainty.rank_bounds(mi, low, high, low)
    assert np.all(certainty.rank_bounds(mi, low, high, low - 0.1)[0] <= best)
    ranks = np.empty(len(mi), int)
    ranks[np.argsort(-mi, kind="stable")] = np.arange(1, len(mi) + 1)
    assert np.all((best >= 1) & (best <= ranks) & (ranks <= worst) & (worst <= len(mi)))


def test_rank_intervals_cover_the_true_ranks() -> None:
    """Over 40 seeded releases 93% of the true ranks among released pairs lie inside, in the head and in the tail."""
    counts = truth()
    place = {key: at for at, key in enumerate(keys(rank(exact_release(counts))))}
    inside: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(40):
        table = rank(noisy_release(counts, seed, threshold=20_000), rank_intervals=True).table
        found = list(zip(table["feature"].to_pylist(), table["label"].to_pylist(), strict=True))
        order = sorted(found, key=place.__getitem__)
        true = {key: at for at, key in enumerate(order, start=1)}
        for key, low, high in zip(found, *(table[name].to_pylist() for name in RANK_BOUNDS), strict=True):
            inside[true[key] <= 10].append(low <= true[key] <= high)
    assert all(np.mean(part) >= 0.93 for part in inside.values())
    assert all(len(part) >= 400 for part in inside.values())


def test_rank_intervals_hold_among_many_pairs() -> None:
    """Of 10,000 pairs noise lifts some over the best; with one interval at a time the best ranks are then missed."""
    counts = {(f"f{f:03d}", f"l{label:02d}"): 100_000 for f in range(400) for label in range(25)}
    best = [(f"f{at:03d}", f"l{at:02d}") for at in range(5)]
    counts |= {key: 104_000 - 100 * at for at, key in enumerate(best)}
    inside: dict[str, list[bool]] = {"all at once": [], "one at a time": []}
    for seed in range(8):
        ranking = rank(noisy_release(counts, seed, threshold=None, kind="laplace"), rank_intervals=True)
        table = ranking.table
        alone = certainty.rank_bounds(*(table[name].to_numpy() for name in ("mi", "mi_low", "mi_high", "mi_low")))
        rows = {key: at for at, key in enumerate(keys(ranking))}
        for place, key in enumerate(best, start=1):
            low, high = (table[name][rows[key]].as_py() for name in RANK_BOUNDS)
            inside["all at once"].append(low <= place <= high)
            inside["one at a time"].append(bool(alone[0][rows[key]] <= place <= alone[1][rows[key]]))
    assert np.mean(inside["all at once"]) >= 0.95
    assert np.mean(inside["one at a time"]) < 0.8


@pytest.mark.parametrize("threshold", [None, 20_000])
def test_the_stable_top_is_right(threshold: int | None) -> None:
    """Over 30 seeded releases at most 10% of the stable tops differ from the true set; most are not empty."""
    counts = truth()
    order = keys(rank(exact_release(counts)))
    by_label = {label: [key for key in order if key[1] == label] for label in {key[1] for key in order}}
    wrong, places, wrong_labels = 0, 0, 0
    for seed in range(30):
        ranking = rank(noisy_release(counts, seed, threshold=threshold))
        stable, released = ranking.stable_top(0.9), keys(ranking)
        wrong += set(released[:stable]) != set(order[:stable])
        places += stable
        tops = ranking.stable_tops(0.9)
        for label, count in tops.items():
            own = [key for key in released if key[1] == label]
            wrong_labels += set(own[:count]) != set(by_label[label][:count])
    assert max(wrong, wrong_labels) <= 3
    assert places >= 30


def test_more_confidence_gives_no_longer_top() -> None:
    """The stable top shrinks with the confidence, and hidden pairs can only shorten it."""
    ranking = rank(noisy_release(truth(), 3, threshold=20_000))
    tops = [ranking.stable_top(confidence) for confidence in (0.5, 0.9, 0.95, 0.999)]
    assert tops == sorted(tops, reverse=True)
    assert ranking.stable_top() <= ranking.stable_top(among="released")


def test_exact_sums_are_all_sure() -> None:
    """Without noise every place is right, and every rank is its own interval."""
    counts = truth()
    ranking = rank(exact_release(counts), rank_intervals=True)
    assert ranking.stable_top() == len(counts)
    assert sum(ranking.stable_tops().values()) == len(counts)
    assert ranking.table["rank_low"].equals(ranking.table["rank"])
    assert ranking.table["rank_high"].equals(ranking.table["rank"])
    assert ranking.stability == ""


def test_an_empty_release_is_sure_of_nothing() -> None:
    """No pairs, no stable top."""
    empty = noisy_release(truth(), 1, threshold=10**12)
    assert rank(empty).stable_top() == 0
    assert rank(empty).stable_tops() == {}


def test_hidden_pairs_bound_the_top() -> None:
    """What was not released cannot exceed its bound; where nothing is hidden the bound is 0."""
    counts = truth()
    exact = rank(exact_release(counts))
    for seed in range(10):
        ranking = rank(noisy_release(counts, seed, threshold=100_000))
        most = float(np.max(certainty.hidden_most(ranking.source, ranking.source.noise_model, 0.95)))
        hidden = set(keys(exact)) - set(keys(ranking))
        table = exact.table.to_pylist()
        assert hidden
        assert max(row["mi"] for row in table if (row["feature"], row["label"]) in hidden) <= most
    open_release = rank(noisy_release(counts, 0, threshold=None))
    assert certainty.hidden_most(open_release.source, open_release.source.noise_model, 0.95).max() == 0


def test_a_long_tail_needs_no_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of features too rare to reach the head are passed over, with the same answer."""
    rare = {(f"r{at:03d}", "l0"): 20 for at in range(500)}
    ranking = rank(noisy_release(truth() | rare, 2, threshold=None, part=0.01))
    whole = ranking.stable_top()
    seen: list[int] = []
    plain = certainty.bounds_of

    def counted(pairs: Any, rows: Any, level: float) -> Any:
        seen.append(len(rows))
        return plain(pairs, rows, level)

    monkeypatch.setattr(certainty, "bounds_of", counted)
    monkeypatch.setattr(certainty, "_HEAD", 40)
    assert ranking.stable_top() == whole
    assert 0 < max(seen) < len(ranking)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 2.0, float("nan")])
def test_wrong_confidence_is_refused(confidence: float) -> None:
    """A confidence lies between 0 and 1."""
    ranking = rank(private_release({("a", "x"): 10}))
    for ask in (ranking.stable_top, ranking.stable_tops):
        with pytest.raises(InputError, match="confidence="):
            ask(confidence)


def test_other_scores_have_no_stable_top() -> None:
    """Intervals are of mutual information: other orders are refused with a hint, and their text says nothing."""
    release = private_release({("a", "x"): 100, ("b", "y"): 50})
    with pytest.raises(InputError, match="by mutual information"):
        rank(release, score="chi2").stable_top()
    with pytest.raises(InputError, match="Rank intervals"):
        rank(release, score="chi2", rank_intervals=True)
    with pytest.raises(InputError, match="among"):
        rank(release).stable_top(among="some")
    assert "Stable" not in rank(release, score="chi2").to_text()
    scored = rank(release, rank_intervals=True).score("chi2")
    assert RANK_BOUNDS[0] not in scored.table.column_names


def test_rank_intervals_are_columns() -> None:
    """They follow the other columns, stay in a top list, and are shown in the text."""
    ranking = rank(noisy_release(truth(), 4, threshold=20_000), rank_intervals=True)
    assert ranking.table.column_names[-2:] == list(RANK_BOUNDS)
    row = ranking.top(2, per="all").to_dicts()[0]
    assert row["rank_low"] <= row["rank"] <= row["rank_high"]
    assert f"{row['rank_low']} to {row['rank_high']}" in ranking.to_text()


def test_the_highest_threshold_counts() -> None:
    """Where features or labels were dropped too, hidden pairs may be as large as those."""
    release = noisy_release(truth(), 0, threshold=20_000)
    plain = rank(release).source
    tables = {name: dict(entry) for name, entry in release.receipt["tables"].items()}
    tables["labels"]["threshold"] = 90_000
    every = rank(replace(release, receipt=release.receipt | {"tables": tables})).source
    assert {plain.noise_model.hides.pairs.threshold, plain.noise_model.hides.labels.threshold} == {20_000}
    # A label that was dropped takes its pairs with it; those of the others are hidden by their own threshold alone.
    assert (every.noise_model.hides.pairs.threshold, every.noise_model.hides.labels.threshold) == (20_000, 90_000)
    tables["features"]["threshold"] = 50_000
    both = rank(replace(release, receipt=release.receipt | {"tables": tables})).source
    assert (both.noise_model.hides.pairs.threshold, both.noise_model.hides.labels.threshold) == (50_000, 90_000)
    least, most = (certainty.hidden_most(pairs, pairs.noise_model, 0.95)[:-1].min() for pairs in (plain, both))
    assert 0 < least < most


def test_a_grid_of_found_labels_hides_labels() -> None:
    """What a dropped label tells is bounded by the threshold of labels, what a dropped feature tells by that of features."""
    release = noisy_release(truth(), 0, threshold=None)
    tables = {name: dict(entry) for name, entry in release.receipt["tables"].items()}
    bounds = []
    for features, labels in ((None, 90_000), (50_000, 90_000), (50_000, None)):
        tables["features"]["threshold"], tables["labels"]["threshold"] = features, labels
        pairs = rank(replace(release, receipt=release.receipt | {"tables": tables})).source
        bounds.append(certainty.hidden_most(pairs, pairs.noise_model, 0.95))
    assert np.all(bounds[0][:-1] == 0)
    assert bounds[0][-1] > 0
    assert np.all(bounds[1][:-1] > 0)
    # Two things may go wrong instead of one, so each has half the chance.
    assert bounds[1][:-1] == pytest.approx(bounds[2][:-1], rel=0.1)


def test_a_grid_hides_features() -> None:
    """Where features had to reach a threshold and all their pairs are shown, the bound speaks of whole features."""
    release = noisy_release(truth(), 0, threshold=None)
    tables = {name: dict(entry) for name, entry in release.receipt["tables"].items()}
    tables["features"]["threshold"] = 50_000
    pairs = rank(
        replace(release, receipt=release.receipt | {"tables": tables, "plan": {"public_labels": ["l0"]}})
    ).source
    assert pairs.noise_model.hides.features == "by totals"
    assert pairs.noise_model.labels_known
    bounds = certainty.hidden_most(pairs, pairs.noise_model, 0.95)
    assert bounds[-1] == 0
    assert bounds[:-1].min() > 0


def completed(release: FakeRelease) -> FakeRelease:
    """Say that all pairs of released features and labels were shown."""
    return replace(release, receipt=release.receipt | {"plan": {"complete": True}})


@pytest.mark.parametrize("whole", [False, True])
def test_an_absence_of_a_feature_that_nobody_saw_is_bounded(*, whole: bool) -> None:
    """A feature just below the threshold in every label but one may be hidden, and tells about that one by its absence."""
    threshold = 20_000
    release = noisy_release(truth(), 0, threshold=threshold, part=0.01)
    pairs = rank(completed(release) if whole else release).source
    hidden = certainty.hidden_most(pairs, pairs.noise_model, 0.95)
    total = pairs.cells.total
    for label in range(len(pairs.cells.labels)):
        px, py = (LABELS - 1) * (threshold - 1) / total, pairs.cells.label_sums[label] / total
        absent = mutual_information(np.zeros(1), np.array([px]), np.array([py]))
        assert absent[0] <= hidden[label]


def test_a_completed_release_hides_whole_features_alone() -> None:
    """No pair of a released feature and label is missing, so no released feature can be absent unseen."""
    release = noisy_release(truth(), 0, threshold=20_000)
    plain, whole = (rank(one).source for one in (release, completed(release)))
    assert (plain.noise_model.hides.features, whole.noise_model.hides.features) == (None, "by pairs")
    assert (plain.noise_model.every_pair, whole.noise_model.every_pair) == (False, True)
    assert np.all(
        certainty.hidden_most(whole, whole.noise_model, 0.95) <= certainty.hidden_most(plain, plain.noise_model, 0.95)
    )


def test_only_pairs_above_the_threshold_were_chosen_by_their_noise() -> None:
    """In a completed release the interval of a pair below it is that of noise alone; at the threshold it is wider."""
    open_release = noisy_release(truth(), 0, threshold=None)
    tables = {name: dict(entry) for name, entry in open_release.receipt["tables"].items()}
    tables["pairs"]["threshold"] = 20_000
    behind = replace(open_release, receipt=open_release.receipt | {"tables": tables, "plan": {"complete": True}})
    free, chosen = (rank(one, order="estimate").source for one in (open_release, behind))
    (low, high), (wide_low, wide_high) = (certainty.bounds_of(p, np.arange(len(p)), 0.95) for p in (free, chosen))
    below = free.cells.joint < 20_000
    same = (low == wide_low) & (high == wide_high)
    assert below.any()
    assert np.all(same[below])
    assert not np.all(same[~below])


def test_a_feature_of_labels_that_are_not_ranked_may_be_absent_from_those_that_are() -> None:
    """With one label ranked alone most of the total lies elsewhere, and a feature that is common there may be hidden here."""
    release = noisy_release(truth(), 0, threshold=20_000, part=0.01)
    one = [row for row in release.pairs.to_pylist() if row["label"] == "l0"]
    alone = replace(
        release,
        pairs=keyed(("feature", "label"), {(row["feature"], "l0"): row["sum"] for row in one}),
        labels=keyed(("label",), {"l0": dict(zip(*release.labels.to_pydict().values(), strict=True))["l0"]}),
        receipt=release.receipt | {"plan": {"labels_only": ["l0"], "complete": True}},
    )
    pairs = rank(alone).source
    py = pairs.cells.label_sums[0] / pairs.cells.total
    everywhere_else = mutual_information(np.zeros(1), np.array([0.9 * (1 - py)]), np.array([py]))
    hidden = certainty.hidden_most(pairs, pairs.noise_model, 0.95)
    assert everywhere_else[0] <= hidden[0]
    assert hidden[-1] == 0
