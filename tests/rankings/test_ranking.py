"""Ranking against the paper's loop, order and ranks against brute force, and all that leaves a ranking."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi.errors import InputError, InputNotFound, ReleaseError
from ddpmi.rankings.cells import COLUMNS, NUMBERS, places_in_groups, round_significant
from ddpmi.rankings.ranking import Direction, Per, Ranking, rank
from ddpmi.releases.receipts import Origin, exact_receipt
from ddpmi.releases.release import Release
from ddpmi.releases.tables import MemoryTables
from tests.information.test_mi import calc_mi
from tests.support.fake_release import Counts, exact_release, keyed, margins, private_release

if TYPE_CHECKING:
    from pathlib import Path

TEA: Counts = {
    ("tea", "uk"): 60,
    ("tea", "fr"): 10,
    ("coffee", "uk"): 30,
    ("coffee", "fr"): 70,
    ("milk", "uk"): 20,
    ("milk", "fr"): 21,
    ("cider", "uk"): 15,
}
NAMES = st.sampled_from(["a", "B", "b", "é", "z", "日本", "=x", "ab", "a b", "\U0001d54f"])
COUNTS = st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 40), min_size=1, max_size=40)


def algorithm_1(counts: Counts) -> dict[tuple[str, str], tuple[float, str]]:
    """Transcribe the paper's algorithm 1: mutual information and direction of each pair."""
    features, labels, total = margins(counts)
    found = {}
    for (feature, label), count in counts.items():
        pxy, px, py = count / total, features[feature] / total, labels[label] / total
        delta = px - pxy
        x = pxy / py
        y = delta / (1 - py) if py < 1 else 0.0
        found[feature, label] = (calc_mi(pxy, px, py), "presence" if x > y else "absence")
    return found


def by_key(ranking: Ranking) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["feature"], row["label"]): row for row in ranking.to_dicts()}


@given(COUNTS)
@settings(max_examples=60, deadline=None)
def test_paper_method_is_the_paper(counts: Counts) -> None:
    """Method "paper" gives the numbers and directions of algorithms 1 to 3 written as loops."""
    rows = by_key(rank(exact_release(counts), method="paper"))
    expected = algorithm_1(counts)
    assert rows.keys() == expected.keys()
    for key, (mi, direction) in expected.items():
        assert rows[key]["mi"] == pytest.approx(mi, abs=1e-12)
        # Where a feature is independent of the label its direction is the toss of a rounding error.
        if mi > 1e-12:
            assert rows[key]["direction"] == direction


@given(COUNTS)
@settings(max_examples=60, deadline=None)
def test_order_and_ranks_are_those_of_brute_force(counts: Counts) -> None:
    """Pairs stand by mi to 12 digits, joint, feature bytes, label bytes; ranks count along that order."""
    rows = rank(exact_release(counts)).to_dicts()
    rounded = round_significant(np.array([row["mi"] for row in rows]))
    keys = [
        (-mi, -row["joint"], row["feature"].encode(), row["label"].encode())
        for mi, row in zip(rounded, rows, strict=True)
    ]
    assert keys == sorted(keys)
    in_label: dict[str, int] = defaultdict(int)
    in_feature: dict[str, int] = defaultdict(int)
    for at, row in enumerate(rows):
        in_label[row["label"]] += 1
        in_feature[row["feature"]] += 1
        expected = (at + 1, in_label[row["label"]], in_feature[row["feature"]])
        assert (row["rank"], row["rank_in_label"], row["rank_in_feature"]) == expected


def test_columns_and_types() -> None:
    """A ranking has the columns of the interface, in order: text, ranks, numbers."""
    table = rank(private_release(TEA)).to_arrow()
    assert tuple(table.column_names) == COLUMNS
    kinds = {name: str(table.schema.field(name).type) for name in COLUMNS}
    assert {kinds[name] for name in ("label", "feature", "direction")} == {"string"}
    assert {kinds[name] for name in ("rank", "rank_in_label", "rank_in_feature")} == {"int64"}
    assert {kinds[name] for name in NUMBERS} == {"double"}
    assert (kinds["clear"], kinds["note"]) == ("bool", "string")


def test_numbers_of_one_row_by_hand() -> None:
    """Sums, shares and lift of tea in the United Kingdom are those a pencil gives."""
    row = by_key(rank(exact_release(TEA)))["tea", "uk"]
    assert (row["joint"], row["feature_total"], row["label_total"]) == (60, 70, 125)
    assert (row["share_in"], row["share_out"]) == (60 / 125, 10 / 101)
    assert row["lift"] == (60 * 226) / (70 * 125)
    assert row["mi"] == row["mi_low"] == row["mi_high"]
    assert row["mi"] == pytest.approx(calc_mi(60 / 226, 70 / 226, 125 / 226), rel=1e-12)


def test_base_changes_the_unit_and_not_the_order() -> None:
    """Bits are nats over ln 2."""
    nats, bits = rank(private_release(TEA)), rank(private_release(TEA), base=2)
    assert nats.table["feature"] == bits.table["feature"]
    for name in ("mi", "mi_low", "mi_high"):
        expected = nats.table[name].to_numpy() / math.log(2)
        assert bits.table[name].to_numpy() == pytest.approx(expected, rel=1e-15)
    assert (nats.unit_of_mi, bits.unit_of_mi, rank(private_release(TEA), base=10).unit_of_mi) == (
        "nats",
        "bits",
        "log base 10",
    )


@pytest.mark.parametrize("base", [0, 1, -2, float("nan"), float("inf")])
def test_wrong_base_is_refused(base: float) -> None:
    """A base that gives no unit is refused."""
    with pytest.raises(InputError, match="base"):
        rank(exact_release(TEA), base=base)


def test_sums_are_shown_in_the_users_units() -> None:
    """A grid of steps of 0.1 on 2^8 gives 3 steps back as 0.3, without a rounding tail."""
    release = private_release({("a", "x"): 3 * 256, ("a", "y"): 256, ("b", "y"): 256}, g=8, step="0.1")
    row = by_key(rank(release))["a", "x"]
    assert (row["joint"], row["feature_total"], row["label_total"]) == (0.3, 0.4, 0.3)


def test_units_space_counts_labels_on_grid_one() -> None:
    """In units space p_xy = J/(2^g N) while p_y = L/N."""
    counts = {("a", "x"): 30, ("a", "y"): 10, ("b", "y"): 60}
    plain = exact_release(counts)
    scaled = exact_release({key: 256 * count for key, count in counts.items()})
    units = replace(
        scaled,
        labels=plain.labels,
        total=plain.total,
        receipt=scaled.receipt | {"grid": {"step": 1, "g": 8}, "plan": {"space": "units"}},
    )
    assert rank(units).to_dicts() == rank(plain).to_dicts()


def test_intervals_of_private_rankings_hold_the_number() -> None:
    """Noise gives 0 <= low <= mi <= high, wider for Laplace noise of the same deviation."""
    widths = {}
    for mechanism in ("discrete_gaussian", "discrete_laplace"):
        table = rank(private_release(TEA, mechanism=mechanism)).table
        low, mi, high = (table[name].to_numpy() for name in ("mi_low", "mi", "mi_high"))
        assert np.all((low >= 0) & (low <= mi) & (mi < high))
        widths[mechanism] = high - low
    assert np.all(widths["discrete_laplace"] > widths["discrete_gaussian"])


def test_near_the_threshold_intervals_are_wider() -> None:
    """A pair kept by a hair may owe it to its noise."""
    far, near = (rank(private_release(TEA, threshold=t)) for t in (1, 59))
    row_far, row_near = (by_key(ranking)["tea", "uk"] for ranking in (far, near))
    assert row_near["mi_low"] < row_far["mi_low"]
    assert row_near["mi"] == row_far["mi"]


@given(st.lists(st.integers(-50, 50), min_size=8, max_size=8), st.integers(-20, 60))
@settings(max_examples=60, deadline=None)
def test_sums_that_disagree_still_rank(noise: list[int], total: int) -> None:
    """Negative sums, joints above margins and totals of zero give finite numbers and NULLs, never NaN."""
    release = replace(
        private_release(TEA),
        pairs=keyed(("feature", "label"), {("a", "x"): noise[0], ("a", "y"): noise[1], ("b", "x"): noise[2]}),
        features=keyed(("feature",), {"a": noise[3], "b": noise[4]}),
        labels=keyed(("label",), {"x": noise[5], "y": noise[6], "z": noise[7]}),
        total=total,
    )
    rows = rank(release).to_dicts()
    assert len(rows) == 3
    for row in rows:
        assert all(value is None or isinstance(value, str) or math.isfinite(value) for value in row.values())
        assert 0 <= row["mi_low"] <= row["mi"] <= row["mi_high"]


def test_empty_release_ranks_to_nothing() -> None:
    """A release without pairs gives an empty ranking with the same columns and types."""
    release = private_release(TEA)
    empty = rank(
        replace(
            release,
            pairs=release.pairs.slice(0, 0),
            features=release.features.slice(0, 0),
            labels=release.labels.slice(0, 0),
            total=-3,
        )
    )
    assert len(empty) == 0
    assert empty.table.schema.equals(rank(release).table.schema)
    assert len(empty.top(3)) == len(empty.top(3, per="all")) == 0
    assert "0 pairs" in empty.to_text()


def test_layout_of_the_tables_does_not_matter() -> None:
    """Chunks, unsorted rows and "other" cells without a key change nothing."""
    release = exact_release(TEA)
    expected = rank(release).table
    backwards = {
        name: getattr(release, name).take(list(range(getattr(release, name).num_rows))[::-1])
        for name in ("pairs", "features", "labels")
    }
    other = pa.table({"feature": pa.array([None], pa.string()), "sum": pa.array([5], pa.int64())})
    backwards["features"] = pa.concat_tables([backwards["features"], other])
    backwards["pairs"] = pa.concat_tables([backwards["pairs"].slice(0, 2), backwards["pairs"].slice(2)])
    assert rank(replace(release, **backwards)).table == expected


def test_damaged_tables_are_refused() -> None:
    """A pair without its feature's sum, and keys that come twice, are not a release."""
    release = exact_release(TEA)
    with pytest.raises(ReleaseError, match="without a released sum"):
        rank(replace(release, features=release.features.slice(1)))
    with pytest.raises(ReleaseError, match="feature twice"):
        rank(replace(release, features=pa.concat_tables([release.features, release.features])))
    with pytest.raises(ReleaseError, match="pair twice"):
        rank(replace(release, pairs=pa.concat_tables([release.pairs, release.pairs])))


@given(
    COUNTS,
    st.integers(1, 4),
    st.sampled_from(["label", "feature", "all"]),
    st.sampled_from(["both", "presence"]),
)
@settings(max_examples=60, deadline=None)
def test_top_is_that_of_brute_force(counts: Counts, n: int, per: Per, direction: Direction) -> None:
    """The best n of each group come grouped by name bytes, in rank order, with the ranks they had."""
    ranking = rank(exact_release(counts))
    rows = [row for row in ranking.to_dicts() if direction in ("both", row["direction"])]
    groups: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[b"" if per == "all" else row[per].encode()].append(row)
    expected = [row for name in sorted(groups) for row in groups[name][:n]]
    got = ranking.top(n, per=per, direction=direction)
    assert got.to_dicts() == expected
    assert got.top(n, per=per).to_dicts() == expected


def test_wrong_top_is_refused() -> None:
    """A count below 1 and unknown words raise."""
    ranking = rank(exact_release(TEA))
    for n in (0, -1, True, 1.5):
        with pytest.raises(InputError, match="whole number"):
            ranking.top(n)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="got 'user'"):
        ranking.top(1, per="user")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="got 'up'"):
        ranking.top(1, direction="up")  # type: ignore[arg-type]


@pytest.mark.parametrize("private", [True, False])
def test_files_give_the_rows_back(tmp_path: Path, *, private: bool) -> None:
    """CSV, JSON and Parquet hold all rows with round-trip numbers; exact ones are stamped first."""
    ranking = rank(private_release(TEA) if private else exact_release(TEA))
    rows = ranking.to_dicts()
    assert list(rows[0]) == ([] if private else ["notice"]) + list(COLUMNS)
    assert {row.get("notice") for row in rows} == {None if private else "NOT PRIVATE"}
    assert json.loads(ranking.save(tmp_path / "r.json").read_text(encoding="utf-8")) == rows
    table = pq.read_table(ranking.save(tmp_path / "r.parquet"))
    assert table.to_pylist() == rows
    assert table.schema.metadata[b"ddpmi.private"] == (b"true" if private else b"false")
    with ranking.save(tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    typed = [
        {name: typed_as(value, line[name]) for name, value in row.items()} for row, line in zip(rows, read, strict=True)
    ]
    assert typed == rows


def typed_as(value: Any, written: str) -> Any:
    """Read a cell of a CSV file as the type of the value that was written."""
    if value is None or isinstance(value, bool):
        return {"": None, "true": True, "false": False}[written]
    return type(value)(written)


def test_scores_leave_in_every_form(tmp_path: Path) -> None:
    """Files, text, page and frame of a scored ranking have the column score, and Arrow says which it is."""
    ranking = rank(exact_release(TEA), score="chi2")
    rows = ranking.to_dicts()
    assert list(rows[0]) == ["notice", *COLUMNS, "score"]
    assert json.loads(ranking.save(tmp_path / "r.json").read_text(encoding="utf-8")) == rows
    assert ranking.to_arrow().schema.metadata[b"ddpmi.score"] == b"chi2"
    assert tuple(ranking.to_pandas().columns) == (*COLUMNS, "score")
    heads = next(line.split() for line in ranking.to_text().splitlines() if line.startswith("feature"))
    assert heads == ["feature", "label", "inside", "outside", "times", "score", "rank", "mi", "(nats)"]
    assert '<th scope="col">score</th>' in ranking._repr_html_()
    assert f"{rows[0]['score']:.3g}" in ranking.to_text()


def test_wrong_scores_are_refused() -> None:
    """Unknown scores, and a ranking that does not know its total, raise."""
    with pytest.raises(InputError, match="score must be one of mi, nmi"):
        rank(exact_release(TEA), score="tfidf")  # type: ignore[arg-type]
    ranking = rank(exact_release(TEA))
    with pytest.raises(InputError, match="score must be one of"):
        ranking.score("tfidf")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="total"):
        replace(ranking.top(1), total=None).score("chi2")


def test_saving_takes_care_of_what_is_there(tmp_path: Path) -> None:
    """A file is replaced only when asked to; unknown suffixes and missing folders are refused."""
    ranking = rank(exact_release(TEA))
    path = tmp_path / "r.json"
    path.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        ranking.save(path)
    assert path.read_text() == "mine"
    assert ranking.save(path, overwrite=True) == path
    assert json.loads(path.read_text()) == ranking.to_dicts()
    with pytest.raises(InputError, match="suffix"):
        ranking.save(tmp_path / "r.xls")
    with pytest.raises(InputError, match="folder"):
        ranking.save(tmp_path / "none" / "r.csv")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.json"]


def test_frames_of_other_libraries_agree() -> None:
    """Frames of pandas and polars get the columns of the interface, and pandas the promise."""
    ranking = rank(exact_release(TEA))
    frame = ranking.to_pandas()
    assert tuple(frame.columns) == tuple(ranking.to_polars().columns) == COLUMNS
    plain = [{name: row[name] for name in COLUMNS} for row in ranking.to_dicts()]
    assert frame.to_dict("records") == ranking.to_polars().to_dicts() == plain
    assert frame.attrs["promise"].startswith("NOT PRIVATE")


def test_rankings_are_arrow_streams() -> None:
    """Libraries that read Arrow streams take a ranking as it is; one of exact sums says so in its rows."""
    rows = {"unit": [1, 1, 2], "feature": ["a", "b", "c"], "label": ["x", "x", "y"]}
    ranking = ddpmi.rank(ddpmi.exact(ddpmi.observe(pa.table(rows))))
    frame = pl.DataFrame(ranking)
    assert frame.to_dicts() == ranking.to_dicts()
    assert pa.table(ranking).to_pylist() == ranking.to_dicts()
    assert set(frame["notice"]) == {"NOT PRIVATE"}


def test_hostile_names_are_tamed_wherever_they_are_shown(tmp_path: Path) -> None:
    """Markup, terminal codes and formulas stay text in HTML, terminal and CSV; JSON keeps the name."""
    names = [
        "<script>alert(1)</script>",
        "red\x1b[31m",
        "=HYPERLINK(1)",
        "@x",
        "over\u202eride",
        'say "hi",\nyou',
    ]
    ranking = rank(exact_release({(name, "x"): 5 + at for at, name in enumerate(names)} | {("b", "y"): 3}))
    page, text = ranking._repr_html_(), ranking.to_text(200)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for shown in (page, text, repr(ranking)):
        assert shown.startswith(("<div><p><strong>NOT PRIVATE", "NOT PRIVATE"))
        assert not {"\x1b", "\u202e"} & set(shown)
    assert "red\\x1b[31m" in text
    with ranking.save(tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        read = {row["feature"] for row in csv.DictReader(file)}
    safe = {"red\x1b[31m": r"red\x1b[31m", "=HYPERLINK(1)": "'=HYPERLINK(1)", "@x": "'@x"}
    assert read == {safe.get(name, name) for name in (*names, "b")}
    saved = json.loads(ranking.save(tmp_path / "r.json").read_text(encoding="utf-8"))
    assert {row["feature"] for row in saved} == {*names, "b"}


def test_text_names_the_promise_and_fits() -> None:
    """The text starts with the guarantee, keeps within its width, and says how many rows it left out."""
    text = rank(private_release({(f"feature number {i} with a long name", "x"): i + 1 for i in range(30)})).to_text(100)
    lines = text.splitlines()
    assert lines[0].startswith("Differentially private: epsilon=1, delta=1e-07")
    assert all(len(line) <= 100 for line in lines[1:])
    assert "30 pairs, 20 shown" in lines
    assert lines[-1].startswith("Stable top, 95% sure: ")


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-200, 1.0)), min_size=1))
@settings(deadline=None)
def test_rounding_keeps_twelve_digits(values: list[float]) -> None:
    """Rounded numbers are those of the decimal notation with 12 significant digits."""
    expected = [float(f"{value:.11e}") for value in values]
    assert round_significant(np.array(values)).tolist() == pytest.approx(expected, rel=1e-15, abs=0)


@given(st.lists(st.integers(0, 5)))
@settings(deadline=None)
def test_places_count_within_groups(groups: list[int]) -> None:
    """Each group counts 1, 2, 3 in the order given."""
    expected = [groups[: at + 1].count(group) for at, group in enumerate(groups)]
    assert places_in_groups(np.array(groups, np.int64)).tolist() == expected


def test_a_ranking_checks_its_columns() -> None:
    """A table with other columns is no ranking."""
    with pytest.raises(InputError, match="columns"):
        Ranking(table=pa.table({"x": [1]}), private=True, guarantee=None, dataset="tea")


def test_a_path_is_ranked_as_its_release(tmp_path: Path) -> None:
    """`rank` takes the path of a release's folder, as text or as a path; another path is refused."""
    sums = exact_release(TEA)
    tables = MemoryTables(
        pairs=sums.pairs,
        features=sums.features,
        labels=sums.labels,
        total=pa.table({"sum": pa.array([sums.total], pa.int64())}),
    )
    origin = Origin(dataset="tea", unit="unit", engine="-", version="-")
    receipt = exact_receipt(origin, release_id="tea", step=Fraction(1), g=0, space="events")
    folder = Release(receipt=receipt, tables=tables).save(tmp_path / "tea.release")
    for path in (folder, str(folder)):
        assert rank(path).table.equals(rank(sums).table)
    with pytest.raises(InputNotFound, match="not a release"):
        rank(tmp_path)
