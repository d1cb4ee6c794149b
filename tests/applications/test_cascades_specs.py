"""A cascade as a file: everything is checked and added up before anything runs."""

from __future__ import annotations

import random
import tomllib
import tracemalloc
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddpmi import Bounds, Budget, InputError, Plan, sql
from ddpmi.applications.cascades import MIXED, Cascade, Fold, Lookup
from ddpmi.errors import DdpmiError, InputNotFound

ROOT = Path(__file__).resolve().parents[2]
SPEC = """
id = "c1"
ledger = "my.ledger"
output = "out"
[defaults]
data = "rows.parquet"
dataset = "visits"
epsilon = 0.1
delta = 1e-7
pairs = 3
[[fold]]
name = "words"
seed = "tea"
mechanism = "laplace"
[[fold]]
name = "years"
label = {sql = "year(seen)"}
epsilon = 2
mechanism = "gaussian"
cap = 9
public_labels = ["1999", "2000"]
"""
VALUES = (
    *(
        "true",
        "-1",
        "0",
        "3",
        "1e400",
        "nan",
        "-inf",
        "9" * 5000,
        '""',
        '"x"',
        '"\\u0000"',
        '"../x"',
        "[]",
        "[[]]",
        "{}",
    ),
    *(
        '["a", "a"]',
        "{sql = 3}",
        '{sql = "a"}',
        "1979-05-27",
        "07:32:00",
        '"gaussian"',
        "0x7fffffffffffffff",
        '"' + "a" * 9000 + '"',
    ),
)
PLAN = Plan(budget=Budget(1, 1e-7), bounds=Bounds(pairs=1))


def written(folder: Path, text: str) -> Path:
    (folder / "spec.toml").write_text(text, encoding="utf-8")
    return folder / "spec.toml"


def test_a_file_becomes_folds(tmp_path: Path) -> None:
    """Defaults hold unless a fold says otherwise, numbers are exact, paths start from the file."""
    spec = Cascade.load(written(tmp_path, SPEC))
    words, years = spec.folds
    assert (spec.id, spec.ledger, spec.output) == ("c1", tmp_path / "my.ledger", tmp_path / "out")
    assert words == Fold(
        name="words",
        data=str(tmp_path / "rows.parquet"),
        dataset="visits",
        seed="tea",
        plan=Plan(budget=Budget("0.1", "1e-7"), bounds=Bounds(pairs=3), mechanism="laplace"),
    )
    assert (words.seed, words.plan.public_labels) == (("tea",), ("rest", "seed"))
    assert (years.label, years.plan.bounds.cap, years.plan.public_labels) == (sql("year(seen)"), 9, ("1999", "2000"))


def test_the_whole_cost_is_told(tmp_path: Path) -> None:
    """It has each fold, the sum of each dataset, and what makes the sum larger; nothing is read."""
    text = Cascade.load(written(tmp_path, SPEC)).explain()
    assert "Total of dataset 'visits': epsilon=2.1, delta=2e-07\n" in text
    assert "those who show 'tea', against the rest" in text
    assert "release id c1.years" in text
    assert MIXED in text
    apart = Cascade.load(written(tmp_path, SPEC.replace("label = {", 'dataset = "b"\nlabel = {'))).explain()
    assert "Total of dataset 'b': epsilon=2, delta=1e-07\nThe promise is per unit column" in apart


@pytest.mark.parametrize(
    ("change", "by"),
    [
        ('id = "c1"', ""),
        ('id = "c1"', "id = 3"),
        ('id = "c1"', 'id = "a/b"'),
        ('id = "c1"', 'id = "c1'),
        ('ledger = "my.ledger"', 'leger = "my.ledger"'),
        ("[[fold]]", "[[folds]]"),
        ('name = "words"', 'name = "../words"'),
        ('name = "words"', ""),
        ('name = "words"', 'name = "years"'),
        ('seed = "tea"', 'seed = "tea"\nlabel = "x"'),
        ('seed = "tea"', "seed = []"),
        ('seed = "tea"', 'seed = "tea"\nat_least = 2'),
        ('seed = "tea"', 'from = "years"'),
        ('seed = "tea"', 'from = "words"'),
        ('seed = "tea"', "at_least = 2"),
        ('seed = "tea"', "top = 0"),
        ('seed = "tea"', 'seeds = "tea"'),
        ("pairs = 3", ""),
        ("epsilon = 0.1", ""),
        ("epsilon = 0.1", "epsilon = -1"),
        ("cap = 9", "cap = 1"),
    ],
)
def test_files_that_are_no_cascade_are_refused(change: str, by: str, tmp_path: Path) -> None:
    """What is missing, unknown or contradicts itself is a clear error."""
    assert change in SPEC
    with pytest.raises(InputError, match="Hint:"):
        Cascade.load(written(tmp_path, SPEC.replace(change, by)))


def edited_spec(source: random.Random) -> bytes:
    """Change a spec: a value, a line, some bytes, or its depth."""
    lines, kind = SPEC.splitlines(), source.choice(["value", "value", "value", "line", "twice", "bytes", "deep"])
    at = source.randrange(1, len(lines))
    if kind == "value":
        name = lines[at].partition(" = ")[0]
        lines[at] = f"{name} = {source.choice(VALUES)}"
    elif kind == "line":
        del lines[at]
    elif kind == "twice":
        lines.insert(source.randrange(len(lines)), lines[at])
    elif kind == "deep":
        depth = source.choice([20, 2_000, 20_000])
        lines[at] = f"{source.choice(['label', 'more', 'pairs'])} = " + "[" * depth + "]" * depth
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    place = source.randrange(len(raw))
    return raw[:place] + source.randbytes(source.randrange(1, 5)) + raw[place + 1 :] if kind == "bytes" else raw


def said(value: object) -> object:
    """Return what a value of a spec says, read without this package; true is no number, and 0.1 is a tenth."""
    if isinstance(value, dict):
        return sql(value["sql"])
    return tuple(value) if isinstance(value, list) else value


def meant(fold: Fold, name: str) -> object:
    """Return what a loaded fold does for a setting."""
    plan, bounds = fold.plan, fold.plan.bounds
    if name in ("epsilon", "delta"):
        return Decimal(str(float(getattr(plan.budget, name))))
    if name == "mechanism":
        return plan.mechanism
    if name == "public_labels":
        return plan.public_labels
    return getattr(bounds, name) if name in ("pairs", "cap") else getattr(fold, name)


def check_meaning(spec: Cascade, file: Path) -> None:
    """A spec that was accepted does what the file says, and gives each value the type that was written."""
    given = tomllib.loads(file.read_text("utf-8"), parse_float=Decimal)
    places = {"ledger": spec.ledger, "output": spec.output}
    assert all(places[name] == (file.parent / given[name] if name in given else None) for name in places)
    assert (given["id"], len(given["fold"])) == (spec.id, len(spec.folds))
    for written_fold, fold in zip(given["fold"], spec.folds, strict=True):
        for name, value in (given.get("defaults", {}) | written_fold).items():
            expected, found = said(value), meant(fold, name)
            if name == "data":
                expected = str(file.parent / value)
            elif name == "cap" and value == 0:
                expected = 10 * fold.plan.bounds.pairs  # 0 is the default
            elif name == "seed":
                expected = (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))
            elif name in ("epsilon", "delta"):
                expected = Decimal(value) if type(value) is int else value
            assert (type(found), found) == (type(expected), expected), name


def check_specs(folder: Path, count: int, seed: int) -> Counter[str]:
    """Edit specs: each is refused with our error, or is a cascade that does what the file says."""
    source, seen = random.Random(seed), Counter[str]()
    file = folder / "spec.toml"
    for _ in range(count):
        file.write_bytes(edited_spec(source))
        try:
            spec = Cascade.load(file)
            spec.explain()
        except DdpmiError:
            seen["refused"] += 1
        else:
            check_meaning(spec, file)
            seen["valid"] += 1
    return seen


def test_edited_specs(tmp_path: Path) -> None:
    """40 edited files give our errors, or cascades that do what the files say."""
    assert check_specs(tmp_path, 40, seed=1)["refused"] > 20


@pytest.mark.full
def test_five_hundred_edited_specs(tmp_path: Path) -> None:
    """The same for 500."""
    seen = check_specs(tmp_path, 500, seed=2)
    print(f"specs {dict(seen)}")  # noqa: T201 - for the record of long checks
    assert seen["refused"] > 250


def test_a_file_that_is_nested_deeply_is_refused(tmp_path: Path) -> None:
    """20,000 levels are no internal error."""
    with pytest.raises(InputError, match=r"nested too deeply|not TOML"):
        Cascade.load(written(tmp_path, "id = " + "[" * 20_000 + "]" * 20_000))
    with pytest.raises(InputError, match=r"nested too deeply|not TOML"):
        Cascade.load(written(tmp_path, ".".join("a" * 20_000) + " = 1"))


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    """It is not an empty cascade."""
    with pytest.raises(InputNotFound, match="does not exist"):
        Cascade.load(tmp_path / "nowhere.toml")
    with pytest.raises(InputError, match="at least one fold"):
        Cascade(id="c", folds=())


def test_addresses_and_lists_of_paths_are_kept(tmp_path: Path) -> None:
    """Only paths start from the file's folder."""
    text = SPEC.replace('"rows.parquet"', '["a.csv", "/b.csv", "s3://c/d.parquet"]')
    assert Cascade.load(written(tmp_path, text)).folds[0].data == [
        str(tmp_path / "a.csv"),
        "/b.csv",
        "s3://c/d.parquet",
    ]


def test_an_expression_is_not_told(tmp_path: Path) -> None:
    """Receipts never hold the text of an expression, also not where unit columns differ."""
    pq.write_table(pa.table({"unit": ["u"], "feature": ["f"], "label": ["l"]}), tmp_path / "rows.parquet")
    data = str(tmp_path / "rows.parquet")
    folds = (
        Fold(name="a", data=data, plan=PLAN),
        Fold(name="b", data=data, plan=PLAN, unit=sql("upper('SECRET' || unit)"), dataset="b"),
    )
    said = " ".join(text for obs in Cascade(id="c", folds=folds).observe() for text in obs.relies_on)
    assert ("SECRET" in said, "protects an expression" in said) == (False, True)


def test_the_example_is_a_cascade() -> None:
    """The file in examples loads, and spends epsilon 4 in all."""
    spec = Cascade.load(ROOT / "examples" / "so2016-cascade.toml")
    assert [fold.name for fold in spec.folds] == ["technologies", "occupations"]
    assert "Total of dataset 'so2016': epsilon=4, delta=2e-07" in spec.explain()
    assert MIXED not in spec.explain()


HUGE = "99999999999999999999"


@pytest.mark.parametrize("setting", ["top", "at_least", "pairs", "labels", "cap"])
@pytest.mark.parametrize("number", [HUGE, "1000000000", "9" * 5000])
def test_huge_counts_are_refused_at_once(setting: str, number: str, tmp_path: Path) -> None:
    """A count beyond its limit is an error of the file; no list of that length is ever made."""
    start = 'name = "next"\nfrom = "words"\n' + ("pairs = 3\n" if setting != "pairs" else "")
    text = (
        SPEC.replace("pairs = 3\n", "")
        .replace('seed = "tea"', 'seed = "tea"\npairs = 3')
        .replace("cap = 9", "pairs = 3")
    )
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="Hint:"):
            Cascade.load(written(tmp_path, f"{text}[[fold]]\n{start}{setting} = {number}\n"))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_long_list_from_an_earlier_fold_is_not_made_beforehand(tmp_path: Path) -> None:
    """The largest counts that are allowed are checked without stand-ins for their features."""
    pq.write_table(pa.table({"unit": ["u"], "feature": ["f"]}), tmp_path / "rows.parquet")
    data = str(tmp_path / "rows.parquet")
    first = Fold(name="a", data=data, plan=PLAN, seed="f")
    tracemalloc.start()
    try:
        last = Fold(name="b", data=data, plan=PLAN, after="a", top=10**6, at_least=10**6)
        Cascade(id="c", folds=(first, last)).observe()
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(InputError, match="at_least=11 can never be reached"):
        Fold(name="b", data=data, plan=PLAN, after="a", top=10, at_least=11)


def linked(tmp_path: Path, **second: object) -> Cascade:
    """Two tables: who shows which word, and who buys which item at which shop; the second starts from the first."""
    pq.write_table(pa.table({"unit": ["u"], "word": ["f"], "place": ["p"]}), tmp_path / "words.parquet")
    pq.write_table(pa.table({"unit": ["u"], "item": ["i"], "word": ["f"], "price": [1.0]}), tmp_path / "items.parquet")
    words = Fold(name="words", data=str(tmp_path / "words.parquet"), plan=PLAN, feature="word", seed="f")
    given = {"data": str(tmp_path / "items.parquet"), "feature": "item"} | second
    return Cascade(id="c", folds=(words, Fold(name="next", plan=PLAN, after="words", **given)))


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({}, "which table the seed is looked up"),
        ({"feature": "word"}, "which table the seed is looked up"),
        ({"within": "nowhere"}, "which is no fold"),
        ({"within": "words", "seed_column": "nowhere"}, "no column 'nowhere'"),
        ({"within": Lookup(data="words.parquet", unit="unit", feature="place")}, "no unit would show the seed"),
        ({"within": Lookup(data="words.parquet", unit="place", feature="word")}, "common_person = true"),
        ({"data": "words.parquet", "feature": "place"}, "no unit would show the seed"),
        ({"data": "words.parquet", "feature": sql("lower(word)")}, "no unit would show the seed"),
        ({"data": "words.parquet", "feature": sql("word")}, "no unit would show the seed"),
        ({"seed_column": "nowhere"}, "no column 'nowhere'"),
        ({"seed_column": "price"}, "which is no key"),
    ],
)
def test_a_fold_that_cannot_show_its_seed_is_refused(
    second: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is features of an earlier fold: a fold that ranks another column must say which column shows them."""
    monkeypatch.chdir(tmp_path)
    placed = second | ({"data": str(tmp_path / "words.parquet")} if "data" in second else {})
    with pytest.raises(InputError, match=told):
        linked(tmp_path, **placed).observe()


@pytest.mark.parametrize(
    "second",
    [
        {"feature": "word", "seed_column": "word"},
        {"within": "words"},
        {"within": "words", "seed_column": "place"},
        {"within": Lookup(data="words.parquet", unit="unit", feature="word")},
        {"seed_column": "word"},
        {"seed_column": "item"},
        {"seed_column": sql("lower(item)")},
    ],
)
def test_a_fold_that_says_what_shows_its_seed_is_taken(
    second: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the earlier fold ranks another table, the owner names the table or the column that shows the seed."""
    monkeypatch.chdir(tmp_path)
    assert len(linked(tmp_path, **second).observe()) == 2


def test_the_hint_names_the_column_that_shows_the_seed(tmp_path: Path) -> None:
    """Where this table has the earlier fold's column, the hint can be pasted; an expression is not repeated."""
    with pytest.raises(InputError, match="starts from fold 'words', which ranks 'word' of another table") as caught:
        linked(tmp_path).observe()
    assert caught.value.hint == "within = 'words', or seed_column = 'word' where this table has it"
    with pytest.raises(InputError, match="seed in 'place', but starts from fold 'words', which ranks 'word'") as caught:
        linked(tmp_path, data=str(tmp_path / "words.parquet"), feature="place").observe()
    assert caught.value.hint == "seed_column = 'word'"
    with pytest.raises(InputError, match="an expression") as caught:
        linked(tmp_path, data=str(tmp_path / "words.parquet"), feature=sql("lower('SECRET')")).observe()
    assert "SECRET" not in str(caught.value)
