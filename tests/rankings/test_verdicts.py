"""Verdicts: the stated probability of a wrong direction, the clear pairs, and intervals of shares and lift."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ddpmi import rank
from ddpmi.rankings import verdicts
from ddpmi.rankings.cells import read
from ddpmi.rankings.noise_model import NoiseModel
from ddpmi.rankings.pairs import NOTES
from tests.support.fake_release import FakeRelease, exact_release, keyed, private_release

LAWS = ("discrete_gaussian", "discrete_laplace")
SDS = {"pairs": 20.0, "features": 20.0, "labels": 300.0, "total": 300.0}
FEATURES, LABELS = 300, 12


@lru_cache(maxsize=4)
def truth(seed: int) -> np.ndarray[Any, Any]:
    """Make sums of features by labels: most lifts are near 1, and some are not."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(6.5, 1.2, (FEATURES, 1))) * np.exp(rng.normal(0, 1, LABELS))
    lean = rng.laplace(0, 0.3, (FEATURES, LABELS)) * (rng.random((FEATURES, LABELS)) < 0.7)
    return np.rint(np.maximum(size * (1 + lean), 0)).astype(np.int64)


def noise(rng: np.random.Generator, law: str, sd: float, shape: Any) -> np.ndarray[Any, Any]:
    """Draw noise, rounded to the grid."""
    drawn = rng.normal(0, sd, shape) if law == LAWS[0] else rng.laplace(0, sd / math.sqrt(2), shape)
    return np.rint(drawn).astype(np.int64)


def released(
    seed: int, law: str, *, threshold: int | None = None, wide: float = 1.0, shift: float = 0.0
) -> FakeRelease:
    """Release `truth` with noise; ``shift`` moves the first label's total by some deviations."""
    rng, sums = np.random.default_rng((seed, 7)), truth(seed)
    sds = {name: sd * wide for name, sd in SDS.items()}
    joint = sums + noise(rng, law, sds["pairs"], sums.shape)
    features = sums.sum(axis=1) + noise(rng, law, sds["features"], FEATURES)
    labels = sums.sum(axis=0) + noise(rng, law, sds["labels"], LABELS)
    labels[0] += round(shift * sds["labels"])
    f, l = [f"f{at:04}" for at in range(FEATURES)], [f"l{at:02}" for at in range(LABELS)]  # noqa: E741
    pairs = {
        (a, b): int(joint[i, j])
        for i, a in enumerate(f)
        for j, b in enumerate(l)
        if threshold is None or joint[i, j] >= threshold
    }
    receipt = private_release({("f", "l"): 1}, mechanism=law, threshold=threshold).receipt
    for name, entry in receipt["tables"].items():
        entry.update(sd_user=sds[name], scale=sds[name])
    return FakeRelease(
        pairs=keyed(("feature", "label"), pairs),
        features=keyed(("feature",), dict(zip(f, features.tolist(), strict=True))),
        labels=keyed(("label",), dict(zip(l, labels.tolist(), strict=True))),
        total=int(sums.sum() + noise(rng, law, sds["total"], ())),
        receipt=receipt,
    )


def wrong_of(table: pa.Table, seed: int) -> np.ndarray[Any, Any]:
    """Return which rows point in a direction other than that of the sums before noise."""
    sums = truth(seed)
    row = np.array([int(name[1:]) for name in table["feature"].to_pylist()])
    column = np.array([int(name[1:]) for name in table["label"].to_pylist()])
    distance = sums * sums.sum() - sums.sum(axis=1)[:, None] * sums.sum(axis=0).astype(np.float64)
    presence = np.asarray(pc.equal(table["direction"], "presence").to_numpy(), np.bool_)
    return np.where(presence, distance[row, column] <= 0, distance[row, column] >= 0)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("threshold", [None, 150])
def test_the_stated_probability_is_about_the_observed_one(law: str, threshold: int | None) -> None:
    """In every tenth of false_sign about as many directions are wrong as it says, and of the clear rows at most 5%."""
    stated, wrong, clear = [], [], []
    for seed in range(4):
        table = rank(released(seed, law, threshold=threshold), order="estimate").table
        stated.append(table["false_sign"].to_numpy())
        clear.append(np.asarray(table["clear"].to_numpy(), np.bool_))
        wrong.append(wrong_of(table, seed))
    said, missed, sure = (np.concatenate(parts) for parts in (stated, wrong, clear))
    assert missed[sure].mean() <= 0.05
    assert sure.mean() > 0.2
    for tenth in np.arange(10) / 10:
        rows = (said >= tenth) & (said < tenth + 0.1)
        if rows.sum() >= 500:
            assert -0.2 <= missed[rows].mean() - said[rows].mean() <= 0.05


@pytest.mark.parametrize("law", LAWS)
def test_intervals_of_shares_and_lift_hold(law: str) -> None:
    """Shares and lift before noise lie in their 95% intervals in at least 93% of rows."""
    held: dict[str, list[Any]] = {"share_in": [], "share_out": [], "lift": []}
    for seed in range(4):
        sums, table = truth(seed).astype(np.float64), rank(released(seed, law), order="estimate").table
        row, column = (np.array([int(name[1:]) for name in table[key].to_pylist()]) for key in ("feature", "label"))
        joint, feature, label = sums[row, column], sums.sum(axis=1)[row], sums.sum(axis=0)[column]
        exact = {
            "share_in": joint / label,
            "share_out": (feature - joint) / (sums.sum() - label),
            "lift": joint * sums.sum() / (feature * label),
        }
        for name, value in exact.items():
            low, at, high = (table[f"{name}{end}"].to_numpy() for end in ("_low", "", "_high"))
            there = ~np.isnan(at)
            assert np.all((low <= at)[there] & (at <= high)[there])
            held[name].append(((low <= value) & (value <= high))[there])
    for parts in held.values():
        assert np.concatenate(parts).mean() >= 0.93


def test_exact_rows_are_clear_and_certain() -> None:
    """Sums without noise have intervals of one point, no doubt and no note."""
    table = rank(exact_release({("tea", "uk"): 60, ("tea", "fr"): 10, ("wine", "uk"): 65, ("wine", "fr"): 91})).table
    assert pc.all(table["clear"]).as_py()
    assert set(table["false_sign"].to_pylist()) == {0.0}
    assert table["note"].null_count == len(table)
    for name in ("mi", "share_in", "share_out", "lift"):
        assert table[f"{name}_low"].equals(table[name])
        assert table[f"{name}_high"].equals(table[name])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("counts", [{}, {("a", "x"): 9}, {("a", "x"): 900}, {("a", "x"): 900, ("b", "x"): 3000}])
def test_a_few_pairs_or_one_label_say_nothing_certain(law: str, counts: dict[Any, int]) -> None:
    """Where there is nothing to compare a pair with, no row is clear."""
    ranking = rank(private_release(counts, mechanism=law))
    assert ranking.clear_count == len(ranking.clear()) == 0
    assert all(0 <= row["false_sign"] <= 1 for row in ranking.to_dicts())


@pytest.mark.parametrize("law", LAWS)
def test_noise_alone_is_not_clear(law: str) -> None:
    """Where the noise exceeds all sums, next to nothing is clear, and shares of unclear labels are NULL with a reason."""
    ranking = rank(released(0, law, wide=300.0), order="estimate")
    assert ranking.clear_count <= len(ranking) // 500
    without = [row for row in ranking.to_dicts() if row["note"] == NOTES[0]]
    assert without
    for row in without:
        assert row["share_in"] is row["share_in_low"] is row["share_in_high"] is row["lift"] is None
        assert row["false_sign"] == 0.5
        assert not row["clear"]


def test_a_label_without_an_outside_has_no_share_outside() -> None:
    """Where one label is nearly all there is, the share outside of it is NULL, and the note says why."""
    rows = rank(private_release({("a", "x"): 900, ("b", "x"): 3000})).to_dicts()
    assert [(row["share_out"], row["note"]) for row in rows] == [(None, NOTES[1])] * 2
    assert all(row["share_in"] is not None for row in rows)


def test_noise_of_a_total_does_not_make_its_rows_clear() -> None:
    """A label's total that is too high turns all of its rows towards absence: they say so together, and few wrong ones are clear."""
    still, moved = (rank(released(1, LAWS[0], shift=shift), order="estimate").table for shift in (0.0, 3.5))
    for table in (still, moved):
        mine = np.asarray(pc.equal(table["label"], "l00").to_numpy(), np.bool_)
        clear = mine & np.asarray(table["clear"].to_numpy(), np.bool_)
        assert clear.sum() > 20
        assert wrong_of(table, 1)[clear].mean() <= 0.1


def test_clear_rows_are_the_largest_set_whose_mean_is_small() -> None:
    """One more level would bring the mean of false_sign above 5%, or is doubtful, and clear rows are those of the lowest levels."""
    table = rank(released(2, LAWS[0]), order="estimate").table
    false_sign, clear = table["false_sign"].to_numpy(), np.asarray(table["clear"].to_numpy(), np.bool_)
    assert false_sign[clear].max() < false_sign[~clear].min()
    assert false_sign[clear].mean() <= 0.05
    level = verdicts.level_of(false_sign[~clear]).min()
    more = clear | (verdicts.level_of(false_sign) <= level)
    too_many = verdicts.level_of(false_sign[more]).mean() > verdicts.WRONG * (verdicts.LEVELS - 1)
    assert too_many or false_sign[~clear].min() > verdicts.DOUBTFUL


def test_many_certain_pairs_do_not_make_a_doubtful_one_clear() -> None:
    """The mean alone would let any pair in; the limit of a single pair does not."""
    counts = np.zeros(verdicts.LEVELS, np.int64)
    counts[[0, 410, 2048]] = 10**6, 5, 1
    assert 410 < verdicts.cut(counts) < 2048
    assert verdicts.cut(np.zeros(verdicts.LEVELS, np.int64)) > 0


def test_clear_and_top_agree() -> None:
    """Verdicts are over all pairs: a top list keeps those of the whole ranking, and ranks stay."""
    ranking = rank(released(2, LAWS[0]))
    clear = ranking.clear()
    assert clear.clear_count == len(clear) == ranking.clear_count > 0
    assert clear.table.equals(ranking.table.filter(ranking.table["clear"]))
    assert ranking.top(7, per="all").clear().table.equals(ranking.top(7, per="all").table.filter(pc.field("clear")))
    assert rank(released(2, LAWS[0])).table.equals(ranking.table)


def test_other_scores_keep_verdicts_of_the_same_direction() -> None:
    """Another score changes no verdict unless it changes the direction; then the row is not clear."""
    listed = rank(released(2, LAWS[0])).top(10**6, per="all")
    before = {(row["feature"], row["label"]): row for row in listed.to_dicts()}
    for row in listed.score("lift").to_dicts():
        old = before[row["feature"], row["label"]]
        same = row["direction"] == old["direction"]
        assert row["clear"] == (old["clear"] and same)
        assert row["false_sign"] == (old["false_sign"] if same else 1 - old["false_sign"])


def test_a_pooled_direction_against_a_pair_is_doubtful() -> None:
    """Where the direction shown is not that of the pair's own sums, it is wrong with probability 0.5 or more."""
    rows = [row for row in rank(released(3, LAWS[0], wide=3.0), order="pooled").to_dicts() if row["lift"] is not None]
    against = [row for row in rows if (row["direction"] == "presence") != (row["lift"] > 1)]
    assert against
    assert all(row["false_sign"] >= 0.5 and not row["clear"] for row in against)


@pytest.mark.parametrize("law", LAWS)
def test_what_is_learned_does_not_depend_on_the_order(law: str) -> None:
    """Readings and what pairs say of their labels are integers: their sums over any parts are those of the whole."""
    release = released(0, law)
    cells = read(release)
    model = NoiseModel.of(cells, release.receipt)
    assert model is not None
    sums = cells.joint, cells.feature_sums[cells.feature_code], cells.label_sums[cells.label_code]
    codes = cells.feature_code, cells.label_code
    part = np.random.default_rng(1).integers(0, 3, len(cells.joint))

    def of(rows: Any) -> tuple[Any, Any]:
        return tuple(s[rows] for s in sums), tuple(c[rows] for c in codes)

    tally = verdicts.tallied(model, sums, codes)
    assert np.array_equal(tally, sum(verdicts.tallied(model, *of(part == at)) for at in range(3)))
    prior = verdicts.Prior.fitted(tally, heavy=model.noise.heavy)
    said = verdicts.gathered(prior, model, sums, codes, LABELS)
    assert np.array_equal(said, sum(verdicts.gathered(prior, model, *of(part == at), LABELS) for at in range(3)))
    assert said.any()


@pytest.mark.parametrize("heavy", [False, True])
def test_laws_have_the_deviation_that_is_named(*, heavy: bool) -> None:
    """The tail of each law is that of a symmetric law with the deviations of its two parts."""
    at = np.linspace(-40, 40, 16_001)
    for number, (first, second) in enumerate(verdicts._LAWS):
        tail = verdicts._tail(at, number, heavy=heavy)
        density = -np.diff(tail)
        middle = (at[1:] + at[:-1]) / 2
        assert np.sum(density) == pytest.approx(1, abs=1e-6)
        assert np.sum(density * middle**2) == pytest.approx(first**2 + second**2, rel=1e-3)
        assert np.abs(tail[::-1] - (1 - tail)).max() < 1e-5


def test_a_receipt_with_more_noise_makes_fewer_rows_clear() -> None:
    """The same sums are less clear where the receipt says that their noise is wider."""
    narrow = released(1, LAWS[0])
    tables = {name: entry | {"sd_user": 3 * entry["sd_user"]} for name, entry in narrow.receipt["tables"].items()}
    wide = replace(narrow, receipt=narrow.receipt | {"tables": tables})
    assert rank(wide, order="estimate").clear_count < rank(narrow, order="estimate").clear_count
