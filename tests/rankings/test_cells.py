"""Reading of releases: spaces, summed margins, noise on zeros, and names that stand in odd places."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ddpmi.errors import ReleaseError
from ddpmi.information.mi import feasible, mutual_information
from ddpmi.rankings.cells import read
from ddpmi.rankings.intervals import interval
from ddpmi.rankings.noise_model import Noise, NoiseModel
from ddpmi.rankings.ranking import rank
from tests.support.fake_release import SD, Counts, FakeRelease, exact_release, keyed, private_release

COUNTS: Counts = {("a", "x"): 300, ("a", "y"): 100, ("b", "y"): 600, ("b", "x"): 20, ("c", "y"): 50}

NOISY = [f"{name}_{end}" for name in ("mi", "share_in", "share_out", "lift") for end in ("low", "high")]
NOISY += ["false_sign", "clear"]
"""The columns that depend on how wide the noise is."""


def units_release(*, private: bool, receipt: dict[str, Any]) -> FakeRelease:
    """Release the same counts in units space: pairs and features on 2^-8, labels and total on grid 1."""
    plain = exact_release(COUNTS)
    scaled = {key: 256 * count for key, count in COUNTS.items()}
    base = private_release(scaled, g=8) if private else exact_release(scaled)
    return replace(
        base,
        labels=plain.labels,
        total=plain.total,
        receipt=base.receipt | {"grid": {"step": 1, "g": 8}} | receipt,
    )


@pytest.mark.parametrize("receipt", [{"space": "units"}, {"plan": {"space": "units"}}], ids=["receipt", "plan"])
@pytest.mark.parametrize("private", [True, False])
def test_units_space_has_the_numbers_of_plain_counts(receipt: dict[str, Any], *, private: bool) -> None:
    """p_xy = J/(2^g N), p_x = F/(2^g N), p_y = L/N, totals in units, and deviations as the receipt states them."""
    release = units_release(private=private, receipt=receipt)
    plain = private_release(COUNTS) if private else exact_release(COUNTS)
    got, expected = rank(release), rank(plain)
    assert got.table.drop_columns(NOISY).equals(expected.table.drop_columns(NOISY))
    for name in NOISY[:-1]:
        # The finer grid of pairs and features makes their noise a little smoother.
        assert got.table[name].to_pylist() == pytest.approx(expected.table[name].to_pylist(), rel=0.1, abs=2e-3)
    assert got.total == expected.total == 1070
    scored = (rank(made, score="g2").table.drop_columns(NOISY) for made in (release, plain))
    assert next(scored).equals(next(scored))


def test_events_space_is_the_default() -> None:
    """Where the receipt names no space, all sums have the same grid, for any plan."""
    release = private_release({key: 256 * count for key, count in COUNTS.items()}, g=8)
    named = replace(release, receipt=release.receipt | {"space": "events", "plan": {"space": "events"}})
    assert rank(named).to_dicts() == rank(release).to_dicts()
    assert rank(named).total == 1070


def other_release() -> FakeRelease:
    """Release margins as sums of released pairs and a noisy rest, with cells for unknown keys."""
    release = private_release(COUNTS)
    rest = pa.array([None], pa.string()), pa.array([77], pa.int64())
    return replace(
        release,
        features=pa.concat_tables([release.features, pa.table({"feature": rest[0], "sum": rest[1]})]),
        labels=pa.concat_tables([release.labels, pa.table({"label": rest[0], "sum": rest[1]})]),
        receipt=release.receipt | {"marginals": "other"},
    )


def test_summed_margins_change_only_the_intervals() -> None:
    """Cells without a key are left out; numbers stay, and intervals use the correlated noise."""
    direct, other = rank(private_release(COUNTS)).table, rank(other_release()).table
    assert other.drop_columns(NOISY).equals(direct.drop_columns(NOISY))
    row = other.to_pylist()[0]
    key = row["feature"], row["label"]
    joint, feature, label = (np.array([int(row[name])]) for name in ("joint", "feature_total", "label_total"))
    table = feasible(joint, feature, label, 1070)
    names = zip(("joint", "feature", "label", "total"), SD, strict=True)
    noise = Noise(**{name: math.sqrt(SD[of] ** 2 + 0.4) / 1070 for name, of in names})
    held = tuple(np.array([float(sum(pair[at] == key[at] for pair in COUNTS))]) for at in (0, 1))
    low, high = interval(mutual_information(*table), (table, table), noise, summed=held)
    assert (row["mi_low"], row["mi_high"]) == (pytest.approx(low[0]), pytest.approx(high[0]))
    assert not math.isclose(row["mi_high"], direct.to_pylist()[0]["mi_high"])


def test_summed_margins_may_be_named_by_the_plan() -> None:
    """A receipt whose plan alone names the margins is read alike."""
    other = other_release()
    receipt = {key: value for key, value in other.receipt.items() if key != "marginals"}
    planned = replace(other, receipt=receipt | {"plan": {"marginals": "other"}})
    assert rank(planned).table.equals(rank(other).table)


def test_doubt_is_read_from_the_receipt() -> None:
    """Exact sums have none; private ones have deviations as parts of the total, and count pairs where needed."""
    assert NoiseModel.of(read(exact_release(COUNTS)), exact_release(COUNTS).receipt) is None
    other = other_release()
    noise_model = NoiseModel.of(read(other), other.receipt)
    assert noise_model is not None
    # Noise of about a step is rough, so its variance is taken a little larger.
    assert noise_model.noise.joint == pytest.approx(math.sqrt(SD["pairs"] ** 2 + 0.4) / 1070)
    assert noise_model.pairs_of_feature.tolist() == [2, 2, 1]
    assert noise_model.pairs_of_label.tolist() == [2, 3]


def test_noise_on_zeros_ranks() -> None:
    """Zero and negative joint sums of public keys rank; a true zero of a common feature is an absence."""
    pairs = {("common", "x"): 0, ("common", "y"): 40_000, ("rare", "x"): -12, ("rare", "y"): 9}
    release = replace(
        private_release(COUNTS),
        pairs=keyed(("feature", "label"), pairs),
        features=keyed(("feature",), {"common": 40_010, "rare": -4}),
        labels=keyed(("label",), {"x": 50_000, "y": 50_020}),
        total=100_000,
    )
    rows = {(row["feature"], row["label"]): row for row in rank(release).to_dicts()}
    assert rows["common", "x"]["direction"] == "absence"
    assert rows["common", "x"]["mi"] > 0.1
    assert rows["common", "x"]["share_in"] == 0.0
    assert rows["rare", "x"]["mi"] == 0.0
    assert rows["rare", "x"]["joint"] == -12
    top = rank(release, score="npmi").to_dicts()
    assert {(row["feature"], row["label"]): row["score"] for row in top}["common", "x"] == -1.0


def test_unreleased_names_are_refused() -> None:
    """A pair whose label or feature has no sum, or no name, is no release."""
    release = exact_release(COUNTS)
    nameless = pa.table(
        {"feature": pa.array(["a"]), "label": pa.array([None], pa.string()), "sum": pa.array([1], pa.int64())}
    )
    for damaged in ({"labels": release.labels.slice(1)}, {"pairs": pa.concat_tables([release.pairs, nameless])}):
        with pytest.raises(ReleaseError, match="without a released sum"):
            read(replace(release, **damaged))


def test_features_without_a_pair_are_no_trouble() -> None:
    """Public features that no kept pair has leave the codes of the others in place."""
    release = exact_release(COUNTS)
    more = keyed(("feature",), {"a": 400, "aa": 3, "b": 620, "c": 50, "z": 1})
    cells = read(replace(release, features=more))
    names = np.array(cells.features.to_pylist())[cells.feature_code].tolist()
    assert names == release.pairs["feature"].to_pylist()
    assert rank(replace(release, features=more)).table.equals(rank(release).table)


def test_many_labels_have_codes() -> None:
    """More labels than 16 bits can number are read right."""
    count = 70_000
    names = pa.array([f"l{at:06d}" for at in range(count)])
    sums = pa.array(np.arange(1, count + 1))
    release = FakeRelease(
        pairs=pa.table({"feature": pa.array(["a"] * count), "label": names, "sum": sums}),
        features=pa.table({"feature": ["a"], "sum": pa.array([10**10], pa.int64())}),
        labels=pa.table({"label": names, "sum": sums}),
        total=10**11,
        receipt={"private": False, "grid": {"step": 1, "g": 0}},
    )
    cells = read(release)
    assert cells.label_code.tolist() == list(range(count))
    best = rank(release).top(2, per="all").to_dicts()
    assert [(row["label"], row["joint"], row["rank_in_label"]) for row in best] == [
        ("l069999", 70_000, 1),
        ("l069998", 69_999, 1),
    ]
