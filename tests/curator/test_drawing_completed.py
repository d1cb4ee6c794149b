"""Releases that are completed: which pairs show beside those above the threshold, and with what noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import ddpmi
from ddpmi import Bounds, Budget, Plan
from ddpmi.curator import drawing
from ddpmi.releases.receipts import describe
from ddpmi.testing import chi_square_tail, exact_sums, expected_counts, seeded_release, threshold_check
from tests.support.release_fixtures import THREE_LABELS as LABELS
from tests.support.release_fixtures import table
from tests.support.release_fixtures import three_groups as groups

if TYPE_CHECKING:
    from pathlib import Path

    from ddpmi import Release


def plan(**options: object) -> Plan:
    given = {"budget": Budget(2, 1e-4), "bounds": Bounds(pairs=3), "complete": True}
    return Plan(**(given | options))


def sums_of(release: Release) -> dict[tuple[str, str], int]:
    return {(row["feature"], row["label"]): row["sum"] for row in release.pairs.to_pylist()}


def keys(release: Release, name: str) -> list[str]:
    return [row[name[:-1]] for row in getattr(release, name).to_pylist()]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_pairs_above_the_threshold_stay_as_they_are_and_all_others_of_their_keys_join_them(mechanism: str) -> None:
    """With the same noise the plain release is a part of the completed one, and every pair of its keys is there."""
    rows = [*groups(), *((f"u{n}", f"rare-{n % 40}", LABELS[n % 3]) for n in range(900))]
    obs = ddpmi.observe(table(rows))
    plain, whole = (seeded_release(obs, plan(mechanism=mechanism, complete=c), seed=3) for c in (False, True))
    shown, completed = sums_of(plain), sums_of(whole)
    assert shown == {key: completed[key] for key in shown}
    assert list(completed) == [(f, label) for f in keys(plain, "features") for label in keys(plain, "labels")]
    assert [keys(whole, name) for name in ("features", "labels")] == [
        keys(plain, name) for name in ("features", "labels")
    ]
    assert len(completed) > len(shown)


def test_a_completed_release_costs_what_the_plain_one_costs() -> None:
    """Budget, noise and thresholds do not depend on it."""
    plain, whole = plan(complete=False), plan()
    assert whole.cost == plain.cost
    assert whole.calibration == plain.calibration
    assert whole.digest != plain.digest


def test_a_true_zero_is_found() -> None:
    """The feature that everybody has but group c is ranked as an absence of c; a feature of one unit is not shown."""
    rows = [*groups(6000), ("u0", "SECRET", "a"), ("lone", "common", "SECRET")]
    found = seeded_release(ddpmi.observe(table(rows)), plan(), seed=1)
    assert keys(found, "features") == ["common", "never-c"]
    assert keys(found, "labels") == list(LABELS)
    assert ("never-c", "absence") in {
        (row["feature"], row["direction"]) for row in ddpmi.rank(found).to_dicts() if row["label"] == "c"
    }


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_pair_has_the_noise_that_was_paid_for(mechanism: str) -> None:
    """Sums near the threshold, of which some reach it, and empty ones: all are off by the whole law of the noise.

    4,000 features are known by label a. What noise does to their pairs of b, which occur, and of c, which do not, is compared
    with the exact mass function by chi-square (false alarm 1e-7 each). At this delta Gaussian noise has no bound, so that empty
    pairs reach the threshold, too.
    """
    made = plan(mechanism=mechanism, budget=Budget("0.3", 0.5), bounds=Bounds(pairs=1), distinct="units")
    noise = made.calibration.tables["pairs"]
    assert (noise.mechanism.bound is None) == (mechanism == "gaussian")
    near = max(int(noise.threshold or 0) - 1, 1)
    sizes = {"a": 80, "b": near}
    cells = [(f"f{n}", label) for n in range(4000) for label, size in sizes.items() for _ in range(size)]
    cells += [("f0", "c")] * 80
    rows = [(str(unit), feature, label) for unit, (feature, label) in enumerate(cells)]
    found = sums_of(seeded_release(ddpmi.observe(table(rows)), made, seed=5))
    edges, expected = expected_counts(noise.mechanism, 3999)
    reached = 0
    for label, exact in (("b", near), ("c", 0)):
        off = np.array([found[f"f{n}", label] - exact for n in range(1, 4000)])
        observed = np.bincount(np.searchsorted(edges, off, side="right"), minlength=len(expected))
        statistic = float(((observed - expected) ** 2 / expected).sum())
        assert chi_square_tail(statistic, len(expected) - 1) > 1e-7, label
        reached += int(np.sum(off + exact >= (noise.threshold or 0)))
    assert reached > 400  # so that the condition below the threshold was put to the test


def test_lone_units_show_no_more_often_than_delta() -> None:
    """Over 20,000 lone units a pair of theirs shows within delta/2 = 2e-3, and now and then (false alarm below 1e-7)."""
    for mechanism in ("laplace", "gaussian"):
        made = plan(budget=Budget(1, 0.004), bounds=Bounds(pairs=2), mechanism=mechanism)
        rate = threshold_check(ddpmi.observe, made, pairs=10, units=20_000)
        assert rate.p_value > 1e-7
        assert rate.events > 2  # 34 and more are expected


def test_listed_keys_are_completed_for_all_data() -> None:
    """Keys of lists, of ranked labels and of a vocabulary are known, so all of their pairs show."""
    obs = ddpmi.observe(table([*groups(6000), ("lone", "SECRET", "SECRET")]))
    seen = ("common", "never-c")
    for options, features, labels in (
        ({"public_labels": ("a", "zz")}, seen, ("a", "zz")),
        ({"public_features": ("common", "nowhere")}, ("common", "nowhere"), LABELS),
        ({"labels_only": ("c", "zz")}, ("common",), ("c", "zz")),  # other labels are summed, and show no feature
        ({"selection": "set_union"}, seen, LABELS),
        ({"space": "units"}, seen, LABELS),
        ({"sample_rate": "0.9"}, seen, LABELS),
    ):
        found = seeded_release(obs, plan(**options), seed=1)
        assert list(sums_of(found)) == [(f, label) for f in features for label in labels], options


def test_nothing_to_complete_is_empty() -> None:
    """Where no pair reaches the threshold nothing is known and nothing shows, but for listed labels in their margin."""
    for rows in ([], [(f"u{n}", "common", f"own{n}") for n in range(2000)]):
        found = seeded_release(ddpmi.observe(table(rows)), plan(public_labels=("a",)), seed=1)
        assert (sums_of(found), keys(found, "labels")) == ({}, ["a"])


def test_a_receipt_says_that_noise_is_held_within_a_bound() -> None:
    """The bound is in the table and in words, as in the plan; the paper's plan has none and says nothing."""
    obs = ddpmi.observe(table(groups(90)))
    ours = plan()
    paper = ddpmi.Plan.paper(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2))
    for made, held in ((ours, True), (paper, False)):
        receipt = seeded_release(obs, made, seed=1).receipt
        assert receipt["tables"]["pairs"].get("bound") == made.calibration.tables["pairs"].mechanism.bound
        assert ("noise of pairs is held within" in describe(receipt)) is held
        assert ("Noise of pairs is held below the threshold" in made.explain()) is held


def test_a_receipt_says_which_pairs_are_released() -> None:
    """Below its table of noise, and only for completed releases."""
    obs = ddpmi.observe(table(groups(90)))
    texts = [describe(seeded_release(obs, plan(complete=c), seed=1).receipt) for c in (False, True)]
    assert ["pairs below the threshold are released too" in text for text in texts] == [False, True]


def test_exact_sums_behind_a_completed_release_are_those_of_the_plain_one() -> None:
    """The sums that get noise do not depend on which pairs are released."""
    obs = ddpmi.observe(table(groups(90)))
    plain, whole = (exact_sums(obs, plan(complete=c)) for c in (False, True))
    assert {name: sums.to_pylist() for name, sums in whole.items()} == {
        name: sums.to_pylist() for name, sums in plain.items()
    }


def test_one_pass_serves_plain_and_completed_plans_in_any_order(ledger: ddpmi.Ledger) -> None:
    """Each release follows its own plan; earlier draws from the same sums change nothing."""
    obs = ddpmi.observe(table(groups(6000)))
    wanted = (False, True, False, True)
    found = ddpmi.release_many(obs, [plan(budget=Budget(1, 1e-6), complete=c) for c in wanted], ledger=ledger)
    assert [("never-c", "c") in sums_of(one) for one in found] == list(wanted)
    assert [one.receipt["plan"]["complete"] for one in found] == list(wanted)


def test_too_many_keys_are_not_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of known keys decides; the receipt says so, and the ranking knows that pairs were suppressed."""
    ledger = ddpmi.Ledger(tmp_path / "a.ledger", limit=Budget(50, 1e-2))
    obs = ddpmi.observe(table(groups()))
    whole = ddpmi.release(obs, plan(), ledger=ledger)
    known = whole.features.num_rows * whole.labels.num_rows
    assert (whole.pairs.num_rows, "complete" in whole.receipt) == (known, False)
    monkeypatch.setattr(drawing, "MOST_COMPLETED", known - 1)
    cut = ddpmi.release(obs, plan(), ledger=ledger, to=tmp_path / "cut.release")
    assert cut.receipt["complete"] is False
    assert cut.pairs.num_rows < known
    loaded = ddpmi.Release.load(tmp_path / "cut.release")
    assert (ddpmi.rank(loaded).order, ddpmi.rank(whole).order) == ("estimate", "pooled")
    assert "too many features and labels" in describe(loaded.receipt)
    monkeypatch.setattr(drawing, "MOST_COMPLETED", known)
    assert "complete" not in ddpmi.release(obs, plan(), ledger=ledger).receipt
