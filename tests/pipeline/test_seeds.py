"""Labels from a seed: they equal a computation in Python on any rows, and depend on one unit's rows alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpmi import Bounds, Budget, InputError, Plan, SchemaError, exact, observe, observe_counts, rank, sql
from ddpmi.pipeline.seeds import SEED_LABELS, Seed, top_features
from ddpmi.testing import _salt, exact_sums, hostile_rows, sensitivity_replay
from tests.support.reference import joint

SETTINGS = settings(max_examples=12, deadline=None)
SEEDS = ["f0", "f1", "ß", "q'q", ""]


def table(rows: list[tuple[object, ...]], *, valued: bool = False) -> pa.Table:
    names = ["unit", "feature", "label", "value"][: 3 + valued]
    types = [pa.string(), pa.string(), pa.string(), pa.float64()]
    return pa.table({name: pa.array([row[place] for row in rows], types[place]) for place, name in enumerate(names)})


def plan_of(**more: object) -> Plan:
    given = {"pairs": 2, "cap": 3} | more
    return Plan(budget=Budget(1, 1e-6), bounds=Bounds(**given), public_labels=SEED_LABELS)


def relabelled(rows: list[tuple[object, ...]], seed: Seed) -> list[tuple[object, ...]]:
    """Label rows in plain Python: all valid rows of the unit decide, former labels do not."""
    valid = [row for row in rows if None not in row[:2]]
    shown = {unit: {row[1] for row in valid if row[0] == unit} & set(seed.features) for unit, *_ in valid}
    return [
        (unit, feature, "seed" if len(shown[unit]) >= seed.at_least else "rest", *value)
        for unit, feature, _, *value in valid
        if seed.keep or feature not in seed.features
    ]


@st.composite
def seeds(draw: st.DrawFn) -> Seed:
    features = draw(st.lists(st.sampled_from(SEEDS), min_size=1, unique=True))
    return Seed(features=tuple(features), at_least=draw(st.integers(1, len(features))), keep=draw(st.booleans()))


def observed(rows: list[tuple[object, ...]], seed: Seed, *, valued: bool = False):
    obs = observe(table(rows, valued=valued), value="value" if valued else None)
    return obs.label_by(feature=seed.features, at_least=seed.at_least, keep_seed=seed.keep)


def sums(obs, plan: Plan) -> dict[tuple[str, str], int]:
    return {(row["feature"], row["label"]): row["sum"] for row in exact_sums(obs, plan)["pairs"].to_pylist()}


@SETTINGS
@given(rows=hostile_rows(), seed=seeds())
def test_labels_equal_the_reference(rows: list[tuple[object, ...]], seed: Seed) -> None:
    """The SQL labels, drops and bounds as plain Python does."""
    plan = plan_of()
    expected = joint(relabelled(rows, seed), plan.calibration.bounding, _salt(0))
    assert sums(observed(rows, seed), plan) == expected


@SETTINGS
@given(rows=hostile_rows(valued=True), seed=seeds())
def test_labels_with_values_equal_the_reference(rows: list[tuple[object, ...]], seed: Seed) -> None:
    """Values of one pair under several former labels are added before they are clipped."""
    plan = plan_of(clip=5)
    expected = joint(relabelled(rows, seed), plan.calibration.bounding, _salt(0))
    assert sums(observed(rows, seed, valued=True), plan) == expected


@SETTINGS
@given(rows=hostile_rows(), seed=seeds(), mechanism=st.sampled_from(["laplace", "gaussian"]), data=st.data())
def test_one_unit_moves_sums_no_further_than_declared(rows, seed: Seed, mechanism, data: st.DataObject) -> None:
    """Removing any unit, also the only one that shows the seed, keeps every table within the declared norms."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2, cap=3), mechanism=mechanism, public_labels=SEED_LABELS)
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    assert all(moved.within for moved in sensitivity_replay(observed(rows, seed), observed(rest, seed), plan))


@SETTINGS
@given(
    rows=hostile_rows(features=12),
    seed=seeds(),
    rate=st.sampled_from([None, "0.7"]),
    kind=st.sampled_from([None, "set_union", "sips"]),
    data=st.data(),
)
def test_seeds_go_with_coins_and_vocabularies(rows, seed: Seed, rate, kind, data: st.DataObject) -> None:
    """Labels come first, then the coin, then the vocabulary: sums equal plain Python's, and one unit moves them as declared."""
    plan = Plan(
        budget=Budget(50, 0.1),
        bounds=Bounds(pairs=2, cap=3),
        mechanism="gaussian",
        public_labels=SEED_LABELS,
        sample_rate=rate,
        selection=kind,
    )
    replay = [["f1", "f2"], ["ß"], ["f3"]][: len(plan.calibration.selection)]
    known = {name for names in replay for name in names}
    labelled = [row for row in relabelled(rows, seed) if not replay or row[1] in known]
    found = exact_sums(observed(rows, seed), plan, replay=replay)["pairs"].to_pylist()
    expected = joint(labelled, plan.calibration.bounding, _salt(0))
    # With a vocabulary every known pair is there, also where it is zero.
    assert {(row["feature"], row["label"]): row["sum"] for row in found if row["sum"]} == expected
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    assert all(moved.within for moved in sensitivity_replay(observed(rows, seed), observed(rest, seed), plan))


def test_the_only_unit_that_shows_the_seed_labels_nobody_else() -> None:
    """Without it every other unit keeps its label, so no sum moves further than one unit may move it."""
    others = [(f"u{n}", "f", "x") for n in range(50)]
    seed = Seed(features=("s",))
    with_unit, without = observed([("lone", "s", "x"), ("lone", "f", "x"), *others], seed), observed(others, seed)
    assert sums(with_unit, plan_of()) == {("f", "seed"): 256, ("f", "rest"): 50 * 256}
    assert all(moved.within for moved in sensitivity_replay(with_unit, without, plan_of()))


def test_different_features_are_counted_not_rows() -> None:
    """A feature that a unit shows twice is one of the seed's features."""
    rows = [("u", "s", "x"), ("u", "s", "y"), ("u", "f", "x"), ("v", "s", "x"), ("v", "t", "x"), ("v", "g", "x")]
    obs = observed(rows, Seed(features=("s", "t"), at_least=2))
    assert set(sums(obs, plan_of())) == {("f", "rest"), ("g", "seed")}


def test_all_rows_decide_also_beyond_the_caps() -> None:
    """A unit with a thousand features is labelled by the one that matters, though the cap keeps three."""
    rows = [("heavy", f"f{n}", "x") for n in range(1000)] + [("heavy", "the seed", "x"), ("light", "f1", "x")]
    found = sums(observe(table(rows)).label_by(feature="the seed"), plan_of())
    assert sum(label == "seed" for _, label in found) == 3
    assert [key for key in found if key[1] == "rest"] == [("f1", "rest")]


def test_rows_that_where_drops_do_not_decide() -> None:
    """`where` defines the data, so what it drops shows nothing."""
    rows = pa.table({"unit": [1, 1, 2], "feature": ["s", "a", "a"], "year": [1999, 2000, 2000]})
    obs = observe(rows, where="year = 2000").label_by(feature="s")
    assert set(sums(obs, plan_of())) == {("a", "rest")}
    assert set(sums(observe(rows).label_by(feature="s"), plan_of())) == {("a", "rest"), ("a", "seed")}


def test_a_seed_that_nobody_shows_is_no_error() -> None:
    """Everybody is the rest; an error would tell that nobody shows it."""
    obs = observe(table([("u", "f", "x")])).label_by(feature="nobody\x00 has $salt 'this'")
    assert set(sums(obs, plan_of())) == {("f", "rest")}


def test_equal_rows_of_former_labels_are_merged_though_declared_distinct() -> None:
    """The declaration spoke of rows with their labels, which are gone."""
    rows = [("u", "f", "x"), ("u", "f", "y"), ("u", "s", "x")]
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2), distinct=True, public_labels=SEED_LABELS)
    obs = observe(table(rows)).label_by(feature="s")
    assert obs.merges_keys
    assert sums(obs, plan) == {("f", "seed"): 256}


def test_one_row_per_unit_stays_so() -> None:
    """With one row each, those who show the seed show nothing else, unless the seed is kept."""
    plan = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=1), distinct="units", public_labels=SEED_LABELS)
    obs = observe(table([("u", "s", "x"), ("v", "f", "x")]))
    assert set(sums(obs.label_by(feature="s"), plan)) == {("f", "rest")}
    assert set(sums(obs.label_by(feature="s", keep_seed=True), plan)) == {("f", "rest"), ("s", "seed")}


def test_the_column_of_labels_is_not_read() -> None:
    """A missing label drops no row, and a label of a type that cannot be a key is left alone."""
    rows = pa.table({"unit": [1, 1], "feature": ["s", "f"], "label": pa.array([None, None], pa.string())})
    assert set(sums(observe(rows).label_by(feature="s"), plan_of())) == {("f", "seed")}


def test_a_reader_is_read_once() -> None:
    """The labels and the rows come from one reading."""
    rows = table([("u", "s", "x"), ("u", "f", "x"), ("v", "f", "x")])
    obs = observe(rows.to_reader(max_chunksize=1)).label_by(feature="s")
    assert set(sums(obs, plan_of())) == {("f", "seed"), ("f", "rest")}


def test_another_column_may_show_the_seed() -> None:
    """Then the ranked features are not the seed's, and no row is dropped."""
    rows = pa.table({"unit": [1, 1, 2], "tool": ["s", "t", "t"], "job": ["a", "a", "b"]})
    obs = observe(rows, unit="unit", feature="job")
    for column in ("tool", sql("lower(upper(tool))")):
        assert set(sums(obs.label_by(feature="s", column=column), plan_of())) == {("a", "seed"), ("b", "rest")}


#: Unit 1 shows the seed in a row without a feature, unit 2 in a row that can be ranked, unit 3 in none; nobody has the rest.
BESIDE = pa.table(
    {
        "unit": ["1", "1", "2", "3", None, "4"],
        "tool": ["s", "t", "s", None, "s", "s"],
        "job": [None, "a", "b", "c", "d", None],
        "seen": [True, True, True, True, True, True],
    }
)


@pytest.mark.parametrize("read", ["table", "reader"])
def test_rows_without_a_feature_show_the_seed_too(read: str) -> None:
    """A unit's label comes from all its rows that `where` keeps; a row that cannot be ranked is dropped only then."""

    def found(rows: pa.Table, **more: object) -> set[tuple[str, str]]:
        data = rows.to_reader(max_chunksize=1) if read == "reader" else rows
        obs = observe(data, unit="unit", feature="job", **more)
        return set(sums(obs.label_by(feature="s", column="tool"), plan_of()))

    assert found(BESIDE) == {("a", "seed"), ("b", "seed"), ("c", "rest")}
    assert found(BESIDE, where="tool <> 's' OR unit <> '1'") == {("a", "rest"), ("b", "seed"), ("c", "rest")}
    expression = observe(BESIDE, unit="unit", feature=sql("lower(job)")).label_by(
        feature="s", column=sql("lower(tool)")
    )
    assert set(sums(expression, plan_of())) == {("a", "seed"), ("b", "seed"), ("c", "rest")}


@SETTINGS
@given(rows=hostile_rows(), seed=seeds(), data=st.data())
def test_rows_without_a_feature_label_their_own_unit_alone(rows, seed: Seed, data: st.DataObject) -> None:
    """Where another column shows the seed, sums equal plain Python's, and one unit moves them as declared."""

    def shown_beside(some: list[tuple[object, ...]]):
        return observe(table(some)).label_by(feature=names, at_least=seed.at_least, column="label")

    names = [name.replace("f", "l") for name in seed.features]
    seen = {unit: {row[2] for row in rows if row[0] == unit} & set(names) for unit, *_ in rows}
    ranked = [
        (unit, feature, "seed" if len(seen[unit]) >= seed.at_least else "rest")
        for unit, feature, _ in rows
        if None not in (unit, feature)
    ]
    plan = plan_of()
    assert sums(shown_beside(rows), plan) == joint(ranked, plan.calibration.bounding, _salt(0))
    unit = data.draw(st.sampled_from([row[0] for row in rows] or [None]))
    rest = [row for row in rows if row[0] != unit]
    assert all(moved.within for moved in sensitivity_replay(shown_beside(rows), shown_beside(rest), plan))


def test_numbers_are_seeds_as_text() -> None:
    """Keys are compared by their canonical text."""
    rows = pa.table({"unit": [1, 1, 2], "feature": [7, 8, 8]})
    assert set(sums(observe(rows).label_by(feature="7"), plan_of())) == {("8", "seed"), ("8", "rest")}


def test_a_second_seed_replaces_the_first() -> None:
    """Labels are made from the data, never from other labels."""
    obs = observe(table([("u", "s", "x"), ("u", "f", "x")])).label_by(feature="nobody").label_by(feature="s")
    assert set(sums(obs, plan_of())) == {("f", "seed")}


def test_the_digest_and_the_text_know_the_seed() -> None:
    """One release id belongs to one seed; what a notebook prints does not name the seed."""
    obs = observe(table([("u", "f", "x")]))
    ways = [{}, {"at_least": 2}, {"keep_seed": True}, {"column": "label"}, {"column": sql("label")}]
    digests = {obs.label_by(feature=["s", "t"], **way).columns_digest for way in ways}
    assert len(digests | {obs.columns_digest, obs.label_by(feature="s").columns_digest}) == 7
    text = repr(obs.label_by(feature="SECRET"))
    assert ("SECRET" in text, "'seed' or 'rest' by a seed" in text) == (False, True)
    assert obs.label_by(feature="s").relies_on[1:] == [
        "The owner declares that the seed was chosen without looking at these data, except at charged releases."
    ]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"feature": []},
        {"feature": 7},
        {"feature": [7]},
        {"feature": "s", "top": 3},
        {"feature": "s", "at_least": 0},
        {"feature": "s", "at_least": True},
        {"feature": "s", "at_least": 2},
        {"feature": "s", "column": "nowhere"},
        {"feature": "s", "column": sql("random()")},
    ],
)
def test_seeds_that_make_no_sense_are_refused(given: dict[str, object]) -> None:
    """A clear error, before anything is charged."""
    with pytest.raises(InputError, match="Hint:"):
        observe(table([("u", "f", "x")])).label_by(**given)


def test_a_seed_column_must_be_a_key() -> None:
    """As for the other keys, floats have no one text."""
    with pytest.raises(SchemaError, match="no key"):
        observe(table([("u", "f", "x", 1.0)], valued=True)).label_by(feature="s", column="value")


def test_counts_have_no_seed() -> None:
    """Units that were counted already cannot show anything."""
    counts = observe_counts(pa.table({"feature": ["a"], "label": ["x"], "count": [7]}))
    with pytest.raises(InputError, match="no units"):
        counts.label_by(feature="a")


def ranked(*groups: tuple[str, str, int]):
    """Rank exact counts of (feature, label, units)."""
    rows = [(f"{f}{u}{n}", f, u) for f, u, many in groups for n in range(many)]
    return rank(exact(observe(table(rows))))


RANKING = ranked(("a", "x", 90), ("b", "x", 40), ("c", "y", 80), ("d", "y", 5), ("d", "x", 5))


def test_the_best_features_of_a_ranking_are_a_seed() -> None:
    """Presence alone counts; each feature once; a label may be chosen."""
    assert top_features(RANKING, 2) == ["c", "a"]
    assert top_features(RANKING, 9, label="x") == ["a", "b"]
    assert top_features(RANKING, 9, label="nowhere") == []
    assert observe(table([("u", "f", "x")])).label_by(ranking=RANKING, top=2, at_least=2).seed == Seed(
        features=("a", "c"), at_least=2
    )


def test_of_a_ranking_from_a_seed_the_seed_counts() -> None:
    """What sets the rest apart is no more of the seed."""
    ranking = ranked(("a", "seed", 90), ("b", "rest", 95), ("c", "rest", 95))
    assert top_features(ranking, 9) == ["a"]


def test_a_ranking_needs_its_top_and_something_in_it() -> None:
    """How many features is said, and an empty ranking has none."""
    obs = observe(table([("u", "f", "x")]))
    for more in ({}, {"top": 0}, {"top": 1, "feature": "s"}):
        with pytest.raises(InputError, match="Hint:"):
            obs.label_by(ranking=RANKING, **more)
    with pytest.raises(InputError, match="no feature"):
        obs.label_by(ranking=ranked(), top=1)
