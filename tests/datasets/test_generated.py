"""Generated rows have the shape that is documented."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ddpmi.datasets import generated
from ddpmi.errors import InputError
from ddpmi.planning import suggest

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 120_000


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three chunks of a small shape, with the chunk made small enough that there are several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generated, "_CHUNK", 50_000)
        path = generated.paper_shape(ROWS, 3000, 5, tmp_path_factory.mktemp("rows") / "r.parquet", 11)
    assert pq.ParquetFile(path).num_row_groups == 3
    return pq.read_table(path)


def test_columns_are_unit_feature_label(rows: Any) -> None:
    """Readers see an int64 and two plain string columns without NULLs."""
    assert [(f.name, str(f.type)) for f in rows.schema] == [
        ("unit", "int64"),
        ("feature", "string"),
        ("label", "string"),
    ]
    assert [column.null_count for column in rows.columns] == [0, 0, 0]


def test_each_unit_has_one_row(rows: Any) -> None:
    """All units are different and none is negative."""
    assert rows.num_rows == ROWS
    assert pc.count_distinct(rows["unit"]).as_py() == ROWS
    assert pc.min(rows["unit"]).as_py() >= 0


def test_names_come_from_the_two_lists(rows: Any) -> None:
    """Features and labels are numbered from 1 to the length of their list, with leading zeros."""
    features = sorted(rows["feature"].unique().to_pylist())
    assert features[0] == "feature-0000001"
    assert set(features) <= {f"feature-{i:07d}" for i in range(1, 3001)}
    assert set(rows["label"].unique().to_pylist()) == {f"label-{i:02d}" for i in range(1, 6)}


def test_features_follow_zipf(rows: Any) -> None:
    """The counts of the first ten features lie within 8 standard deviations of their exact probabilities.

    A normal deviate passes 8 with probability 1.3e-15; ten of them stay far below 1e-6.
    """
    counts = dict(zip(*(c.to_pylist() for c in rows["feature"].value_counts().flatten()), strict=True))
    shift = generated._ZIPF_SHIFT
    for f in range(1, 11):
        p = math.log((f + shift) / (f - 1 + shift)) / math.log((3000 + shift) / shift)
        assert abs(counts[f"feature-{f:07d}"] - ROWS * p) < 8 * math.sqrt(ROWS * p)
        assert p == pytest.approx(1 / f / sum(1 / i for i in range(1, 3001)), rel=0.05)


def test_labels_are_skewed_and_depend_on_the_feature(rows: Any) -> None:
    """The first label is the largest, and the common features' labels are far from independent.

    Chi-square over 20 features and 5 labels has 76 degrees of freedom; it passes 1000 by chance with
    probability below 1e-150.
    """
    label = pc.utf8_slice_codeunits(rows["label"], 6).cast("int32").to_numpy() - 1
    feature = pc.utf8_slice_codeunits(rows["feature"], 8).cast("int32").to_numpy() - 1
    assert np.bincount(label).argmax() == 0
    table = np.zeros((20, 5))
    common = feature < 20
    np.add.at(table, (feature[common], label[common]), 1)
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    assert ((table - expected) ** 2 / expected).sum() > 1000


def _leans(path: Path, skew: float) -> list[float]:
    """How much each of the ten most common of 50 features leans to one of five labels."""
    shares = np.arange(1, 6) ** -skew
    shares /= shares.sum()
    found = pq.read_table(path).group_by(["feature", "label"]).aggregate([("unit", "count")]).to_pydict()
    leans = []
    for name in (f"feature-{at:07d}" for at in range(1, 11)):
        counts = np.zeros(5)
        for feature, label, count in zip(*(found[key] for key in ("feature", "label", "unit_count")), strict=True):
            if feature == name:
                counts[int(label[-1]) - 1] = count
        assert counts.sum() >= 5000
        parts = counts / counts.sum()
        best = int(np.argmax(parts - shares))
        leans.append(float((parts[best] - shares[best]) / (1 - shares[best])))
    return leans


def test_features_lean_alike(tmp_path: Path) -> None:
    """Each common feature has a label of its own with the same part of its rows, and the rest by shares.

    The part is a mean of at least 5,000 rows: it is off by 0.05 with probability below 3e-11 (Hoeffding). A share of the
    rest is at most 0.44, which makes that 0.09 of the lean.
    """
    path = generated.paper_shape(300_000, 50, 5, tmp_path / "lean.parquet", 3)
    assert _leans(path, suggest.SKEW) == pytest.approx([suggest.LEAN] * 10, abs=0.09)


def test_features_may_lean_each_by_its_own_part(tmp_path: Path) -> None:
    """The parts differ, and none is more than a half."""
    path = generated.paper_shape(300_000, 50, 5, tmp_path / "lean.parquet", 3, varied=True)
    leans = _leans(path, generated._VARIED_SKEW)
    assert min(leans) < 0.2
    assert 0.3 < max(leans) < 0.5 + 0.09


def test_the_shape_has_as_many_pairs_as_it_is_known_for() -> None:
    """Among 100 million units 18.2 million pairs are expected.

    A pair occurs with probability 1 - exp(-expected count). One feature in a hundred is computed, and counts for its neighbours too.
    """
    labels, units, features = generated.PAPER_LABELS, 100_000_000, generated.PAPER_FEATURES
    shares = np.arange(1, labels + 1) ** -suggest.SKEW
    shares /= shares.sum()
    place = np.arange(50, features, 100)
    expected = units / (place * math.log((features + generated._ZIPF_SHIFT) / generated._ZIPF_SHIFT))
    pairs = 0.0
    for share in shares * (1 - suggest.LEAN):
        away, home = (-np.expm1(-expected * part).sum() * 100 for part in (share, share + suggest.LEAN))
        pairs += away * (labels - 1) / labels + home / labels
    assert pairs == pytest.approx(18.2e6, rel=0.005)


def test_the_seed_gives_the_rows(tmp_path: Path) -> None:
    """Equal seeds write equal bytes; another seed writes other rows."""
    a, b, c = (generated.paper_shape(3000, 100, 3, tmp_path / name, s) for name, s in (("a", 5), ("b", 5), ("c", 6)))
    assert a.read_bytes() == b.read_bytes()
    assert not pq.read_table(a)["feature"].equals(pq.read_table(c)["feature"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("features", [1, 2, 9, 12_345_678])
def test_edges_of_the_feature_list(features: int) -> None:
    """The least and the greatest uniform give the first and the last feature."""
    ends = np.array([0.0, np.nextafter(1.0, 0.0)])
    assert generated._zipf(ends, features).tolist() == [0, features - 1]
    assert generated._names(np.array([1, features]), features).to_pylist() == [
        f"feature-{1:0{max(7, len(str(features)))}d}",
        f"feature-{features:0{max(7, len(str(features)))}d}",
    ]


def test_one_of_everything(tmp_path: Path) -> None:
    """The smallest shape is one row."""
    path = generated.paper_shape(1, 1, 1, tmp_path / "one.parquet", 0)
    assert pq.read_table(path).to_pylist() == [{"unit": 0, "feature": "feature-0000001", "label": "label-01"}]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("units", 0),
        ("units", 1.5),
        ("features", -1),
        ("features", 10**9),
        ("labels", True),
        ("seed", -1),
    ],
)
def test_bad_numbers_are_refused(tmp_path: Path, name: str, bad: Any) -> None:
    """The error names the parameter and what was given, and no file appears."""
    good: dict[str, Any] = {"units": 10, "features": 5, "labels": 2, "seed": 1}
    with pytest.raises(InputError, match=rf"{name} must .*got {name}="):
        generated.paper_shape(**{**good, name: bad}, path=tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    """A path that exists, or whose folder does not, is refused."""
    path = tmp_path / "kept.parquet"
    path.write_text("kept")
    with pytest.raises(InputError, match="exists already"):
        generated.paper_shape(10, 5, 2, path, 1)
    assert path.read_text() == "kept"
    with pytest.raises(InputError, match="does not exist"):
        generated.paper_shape(10, 5, 2, tmp_path / "no" / "x.parquet", 1)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing breaks off, neither the file nor its temporary twin stays."""

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(generated, "_write", broken)
    with pytest.raises(OSError, match="disk full"):
        generated.paper_shape(10, 5, 2, tmp_path / "x.parquet", 1)
    assert list(tmp_path.iterdir()) == []
