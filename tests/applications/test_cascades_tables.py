"""Cascades over two tables, and repeated ones. 4,000 people with features of their own kind: no chance decides (below 1e-9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi import Bounds, Budget, InputError, Ledger
from ddpmi.applications.cascades import Cascade, Fold, Lookup, cascade
from tests.support.drinks import PLAN, states

#: Sensors are written about by people of kind 0, edge computing by kind 1, and kinds 2 and 3 write of poems.
WORDS = [("iot", "sensor"), ("sensor", "edge"), ("poem", "verse"), ("verse", "rhyme")]
#: People of kinds 0 and 1 work where people of their kind do.
FIRMS = ["Bolts", "Wires", "Books", "Pages"]


def tables(people: int = 4000) -> tuple[pa.Table, pa.Table]:
    """Words that authors used, and firms that persons work for; the ids are text in one table and numbers in the other."""
    words = [(str(n), word) for n in range(people) for word in (*WORDS[n % 4], "the")]
    firms = [(n, FIRMS[n % 4] if n % 8 < 4 else FIRMS[(n % 4) // 2 * 2]) for n in range(people)]
    named = (("author", "feature"), words), (("person", "feature"), firms)
    return tuple(pa.table(dict(zip(keys, zip(*rows, strict=True), strict=True))) for keys, rows in named)  # type: ignore[return-value]


def spec(**more: object) -> Cascade:
    words, firms = tables()
    home = replace(PLAN, bounds=Bounds(pairs=1))
    return Cascade(
        id="iot",
        common_person=True,
        folds=(
            Fold(name="words", data=words, plan=PLAN, unit="author", seed="iot", top=2),
            Fold(name="firms", data=firms, plan=home, unit="person", after="words", within="words", top=1),
        ),
        **more,
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "test.ledger", limit=Budget(16, 1e-4))


def found(folded: ddpmi.Ranking, label: str = "seed") -> set[str]:
    """Return the features that are more frequent with a label than without it, beyond the noise."""
    rows = folded.top(9, per="label", direction="presence").to_dicts()
    return {row["feature"] for row in rows if row["label"] == label and row["mi_low"] > 0}


def test_words_of_one_table_lead_to_firms_of_another(ledger: Ledger, tmp_path: Path) -> None:
    """The planted link is found, both folds are of one account, and the receipt names both unit columns."""
    done = cascade(spec(), ledger=ledger, to=tmp_path / "out")
    assert found(done[1].ranking) == {"Bolts", "Wires"}
    assert states(ledger) == ["released", "released"]
    said = " ".join(done[1].release.receipt["relies_on"])
    assert "('person')" in said
    assert "('author')" in said
    assert [one.resumed for one in cascade(spec(), ledger=ledger, to=tmp_path / "out")] == [True, True]


def test_two_tables_from_one_file(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TOML file names the fold's table, or a table that no fold ranks."""
    monkeypatch.chdir(tmp_path)
    for name, table in zip(("words", "firms"), tables(), strict=True):
        pq.write_table(table, f"{name}.parquet")
    text = """
        id = "iot"
        common_person = true
        [defaults]
        epsilon = 2
        delta = 1e-6
        mechanism = "gaussian"
        space = "units"
        pairs = 3
        [[fold]]
        name = "words"
        data = "words.parquet"
        unit = "author"
        seed = "iot"
        [[fold]]
        name = "firms"
        data = "firms.parquet"
        unit = "person"
        from = "words"
        within = "words"
        [[fold]]
        name = "edges"
        data = "firms.parquet"
        unit = "person"
        seed = "edge"
        within = {data = "words.parquet", unit = "author", feature = "feature", where = "feature <> 'the'"}
        """
    Path("iot.toml").write_text(text)
    loaded = Cascade.load("iot.toml")
    assert loaded.folds[1].within == "words"
    assert isinstance(loaded.folds[2].within, Lookup)
    assert "looked up in the table of fold 'words'" in loaded.explain()
    done = cascade(loaded, ledger=ledger, to="out")
    assert found(done[1].ranking) == {"Bolts", "Wires"}
    assert "Wires" in found(done[2].ranking)
    for wrong, told in [
        ('within = "words"', "within = 3"),
        ('within = "words"', 'within = {unit = "author"}'),
        ('within = "words"', 'within = {data = "words.parquet", label = "x"}'),
        ('within = "words"', 'within = {data = "words.parquet", where = 3}'),
        ('seed = "iot"', 'label = "feature"\nwithin = "words"'),
        ("common_person = true", "common_person = false"),
    ]:
        Path("wrong.toml").write_text(text.replace(wrong, told))
        with pytest.raises(InputError, match="Hint:"):
            Cascade.load("wrong.toml").observe()


def test_both_tables_spend_one_account() -> None:
    """A table that a fold of another dataset ranks cannot label this fold's rows, nor be hidden as a table of no fold."""
    whole = spec()
    words, firms = whole.folds
    apart = replace(whole, folds=(words, replace(firms, dataset="firms")))
    with pytest.raises(InputError, match="dataset"):
        apart.observe()
    renamed = replace(firms, data=firms.data.rename_columns(["author", "feature"]), unit="author", dataset="firms")
    hidden = replace(renamed, within=Lookup(data=words.data, unit="author"), after=None, seed="iot")
    with pytest.raises(InputError, match="under two datasets"):
        Cascade(id="c", folds=(words, hidden)).observe()


def test_steps_alternate_until_nothing_new_is_found(ledger: Ledger, tmp_path: Path) -> None:
    """Words lead to firms, firms to the words of their people, and so on; the last round adds nothing."""
    done = cascade(spec(repeat=5), ledger=ledger, to=tmp_path / "out")
    names = [one.fold.name for one in done]
    assert names[:4] == ["words", "firms", "words-2", "firms-2"]
    assert len(names) < 10
    second = next(one for one in done if one.fold.name == "words-2")
    # People of both firms use one word that nobody else uses; the seed's own word is ranked now, too.
    assert {"sensor", "iot", "edge"} == found(second.ranking)
    again = cascade(spec(repeat=5), ledger=ledger, to=tmp_path / "out")
    assert [(one.fold.name, one.resumed) for one in again] == [(name, True) for name in names]


def test_rounds_end_with_the_budget(tmp_path: Path) -> None:
    """A round that the ledger cannot cover in full is not begun; the first one is refused."""
    ledger = Ledger(tmp_path / "small.ledger", limit=Budget(6, 1e-4))
    done = cascade(spec(repeat=5), ledger=ledger, to=tmp_path / "out")
    assert len(done) % 2 == 0
    assert 2 <= len(done) < 10
    assert set(states(ledger)) == {"released"}
    poor = Ledger(tmp_path / "poor.ledger", limit=Budget(2, 1e-6))
    with pytest.raises(ddpmi.BudgetExceeded):
        cascade(spec(repeat=5), ledger=poor, to=tmp_path / "none")
    assert states(poor) == []


def test_one_repeated_fold_is_an_expansion(ledger: Ledger, tmp_path: Path) -> None:
    """A fold that starts from itself looks in its own table, and its seed keeps the features it was given."""
    words, _ = tables()
    fold = Fold(name="words", data=words, plan=PLAN, unit="author", seed="iot", top=1)
    done = cascade(Cascade(id="c", folds=(fold,), repeat=3), ledger=ledger, to=tmp_path / "out")
    assert found(done[0].ranking) == {"sensor"}
    assert found(done[1].ranking) == {"edge"}
    assert done[1].fold.after == "words"


def test_what_a_repetition_would_do_is_said_and_checked() -> None:
    """The plan shows the cost of all rounds; labels of a column, names of later rounds and odd counts are refused."""
    whole = spec(repeat=3)
    assert "Total of dataset 'default': epsilon=12" in whole.explain()
    assert "in at most 3 rounds" in whole.explain()
    words, firms = whole.folds
    with pytest.raises(InputError, match="same again"):
        Cascade(id="c", folds=(replace(words, seed=None, label="author"),), repeat=2)
    with pytest.raises(InputError, match="words-2"):
        Cascade(id="c", folds=(words, replace(words, name="words-2"), firms), repeat=2)
    for wrong in (0, 1.5, True, "2"):
        with pytest.raises(InputError, match="repeat"):
            Cascade(id="c", folds=(words,), repeat=wrong)  # type: ignore[arg-type]
