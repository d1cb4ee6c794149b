"""What Spark reads, and what it is refused to read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddpmi
from ddpmi import Bounds, Budget, EngineError, InputError, Ledger, Plan, SchemaError
from ddpmi.curator.drawing import summed_by
from ddpmi.engines.spark import source
from ddpmi.errors import InputNotFound
from ddpmi.pipeline.dialects import SPARK
from ddpmi.pipeline.steps import table
from tests.support.reader_contract import adopted
from tests.support.release_fixtures import states, two_groups
from tests.support.spark_local import make_connect, make_either  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLAN = Plan(budget=Budget(8, 1e-4), bounds=Bounds(pairs=3), row_local=True)


def test_a_place_that_tasks_cannot_reach_costs_nothing(
    spark: SparkSession, ledger: Ledger, tmp_path: Path, monkeypatch
) -> None:
    """What the tasks write is looked for before the charge."""
    obs = ddpmi.observe(spark.createDataFrame(two_groups(2000)))
    elsewhere = source.Staging(tmp_path)
    monkeypatch.setattr(source.Staging, "new", lambda _: elsewhere.folder / "nowhere" / ".." / "x")
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    with pytest.raises(EngineError, match="cannot be seen here"):
        obs.prepared(None)
    monkeypatch.undo()
    (tmp_path / "[odd]").mkdir()
    with pytest.raises(InputError, match="pattern"):
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "[odd]" / "out")
    assert states(ledger) == []


def test_a_query_needs_the_owners_word_and_files_do_not(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame that is the reading of files is a table; anything else may hide a LIMIT."""
    pq.write_table(two_groups(2000), tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    read = spark.read.parquet(path)
    assert ddpmi.observe(read).source.query is None
    assert ddpmi.observe(path, engine="spark").source.query is None
    for frame in (read.limit(5), read.where("label = 'a'"), spark.createDataFrame(two_groups(2000))):
        assert ddpmi.observe(frame).source.query == "Spark DataFrame"
    with pytest.raises(InputError, match="may hide a LIMIT"):
        ddpmi.release(ddpmi.observe(read.limit(5)), Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=3)), ledger=None)


def test_tables_and_views_of_the_catalog(spark: SparkSession) -> None:
    """A table is data, a view is a query, and a name that is neither is reported as missing."""
    spark.createDataFrame(two_groups(20)).write.saveAsTable("visits")
    spark.sql("CREATE VIEW few AS SELECT * FROM visits LIMIT 3")
    try:
        assert ddpmi.observe(table("visits"), engine="spark").source.query is None
        assert ddpmi.observe(table("few"), engine="spark").source.query == "view of Spark's catalog"
        assert ddpmi.exact(ddpmi.observe(table("visits"), engine="spark")).total == 20  # units
        with pytest.raises(InputNotFound, match="no such table"):
            ddpmi.observe(table("no_such_table"), engine="spark")
    finally:
        spark.sql("DROP VIEW few")
        spark.sql("DROP TABLE visits")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("1.5D AS unit, 'f' AS feature, 'l' AS label", "has type double"),
        ("CAST(1.5 AS DECIMAL(5, 2)) AS unit, 'f' AS feature, 'l' AS label", r"has type decimal\(5,2\)"),
        ("X'00' AS unit, 'f' AS feature, 'l' AS label", "has type binary"),
        ("current_timestamp() AS unit, 'f' AS feature, 'l' AS label", "has type timestamp"),
        ("'u' COLLATE UTF8_LCASE AS unit, 'f' AS feature, 'l' AS label", "collate"),
        ("'u' AS unit, 'U' AS Unit, 'f' AS feature, 'l' AS label", "more than one column"),
        ("'u' AS unit, 'f' AS feature", "for the label"),
    ],
)
def test_columns_that_are_no_keys_are_refused(spark: SparkSession, sql: str, message: str) -> None:
    """What has no one text cannot be a key."""
    with pytest.raises(SchemaError, match=message):
        ddpmi.exact(ddpmi.observe(spark.sql(f"SELECT {sql}")))


def test_odd_names_and_broken_texts(either: SparkSession) -> None:
    """Names are quoted, bytes that are no text become U+FFFD in their own cell, and nothing raises."""
    frame = either.sql(
        "SELECT * FROM VALUES ('u1', 'f', 'x', 1.0D), ('u2', CAST(X'ff61' AS STRING), 'x', 2.0D), ('u3', 'f', 'y', NULL) "
        "AS t(`a``b FROM source`, `feature`, `la.bel`, `v'w`)"
    )
    obs = ddpmi.observe(frame, unit="a`b FROM source", label="la.bel", value="v'w")
    found = ddpmi.exact(obs)
    assert [(row["feature"], row["label"]) for row in found.pairs.to_pylist()] == [("f", "x"), ("\ufffda", "x")]
    seeded = obs.label_by(feature="\ufffda", column="feature")
    assert {row[:3] for row in adopted(seeded)} == {("u1", "f", "rest"), ("u2", "\ufffda", "seed"), ("u3", "f", "rest")}


def test_bytes_become_the_text_that_python_makes_of_them(spark: SparkSession) -> None:
    """A valid text is unchanged and any other one is what decoding with replacement gives, for every pair of bytes."""
    cells = [bytes([a, b, *tail]) for a in range(256) for b in range(256) for tail in (b"", b"\x80z")]
    cells += [
        bytes.fromhex(text) for text in ("eda080", "edb080", "f4908080", "f0808080", "c080", "e08080", "f0908080")
    ]
    frame = (
        spark.createDataFrame(pa.table({"cell": cells}))
        .selectExpr("cell", "CAST(cell AS STRING) AS text")
        .selectExpr("cell", f"{SPARK.clean_text.format(m='text')} AS text")
    )
    found = frame.toArrow()
    assert found["text"].to_pylist() == [cell.decode(errors="replace") for cell in found["cell"].to_pylist()]


@pytest.mark.parametrize(("kind", "sign"), [("delta", "_delta_log/0.json"), ("iceberg", "metadata/v1.metadata.json")])
def test_a_lake_needs_its_package(spark: SparkSession, tmp_path: Path, kind: str, sign: str) -> None:
    """The format is recognised by its folder, and a Spark that cannot read it says what would."""
    file = tmp_path / "lake" / sign
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(EngineError, match=f"could not read {kind} files") as caught:
        ddpmi.observe(tmp_path / "lake", engine="spark")
    assert f"start Spark with the package of {kind}" in str(caught.value.hint)


def test_expressions_and_other_data_are_refused(spark: SparkSession) -> None:
    """What only the embedded engine can check, or Spark would guess, is refused with a way out."""
    frame = spark.createDataFrame(two_groups(5))
    for options in ({"where": "label = 'a'"}, {"label": ddpmi.sql("upper(label)")}):
        with pytest.raises(InputError, match="not read on Spark"):
            ddpmi.observe(frame, **options)
    with pytest.raises(InputError, match="random numbers"):
        ddpmi.observe(frame.selectExpr("unit", "feature", "CAST(rand() > 0.5 AS STRING) AS label"))
    with pytest.raises(ddpmi.ReleaseError, match="is an address"):
        ddpmi.exact(ddpmi.observe(frame), to="hdfs://name/out")
    with pytest.raises(InputError, match="guess types"):
        ddpmi.observe("rows.csv", engine="spark")
    with pytest.raises(InputError, match="cannot be observed on Spark"):
        ddpmi.observe(two_groups(5), engine="spark")
    with pytest.raises(InputError, match="catalog"):
        ddpmi.observe(table("visits"))
    with pytest.raises(InputError, match="cannot read these data"):
        ddpmi.observe(frame, engine="duckdb")
    with pytest.raises(InputError, match="no setting 'threads'"):
        ddpmi.observe(frame, conf={"threads": 2})


def _write_rows(folder: Path, session: SparkSession, kind: str) -> str:
    session.createDataFrame([("u", "f", "l")], "unit string, feature string, label string").write.format(kind).save(
        str(folder / kind)
    )
    return str(folder / kind)


def test_only_typed_files_are_more_than_a_query(either: SparkSession, tmp_path: Path) -> None:
    """One text cell makes a column of numbers text where types are inferred, and nobody tells whether they were."""
    for kind in ("csv", "json", "text"):
        path = tmp_path / f"rows.{kind}"
        path.write_text(
            "unit,feature,label\n01,f,l\n" if kind == "csv" else '{"unit": 1, "feature": "f", "label": "l"}'
        )
        frame = either.read.format(kind).options(inferSchema=True, header=True).load(str(path))
        assert source.frame_source(frame, {}).query == "Spark DataFrame", kind
        if kind != "text":
            typed = either.read.schema("unit int, feature string, label string").format(kind).load(str(path))
            assert source.frame_source(typed, {}).query == "Spark DataFrame", kind
    for kind in ("parquet", "orc"):
        folder = _write_rows(tmp_path, either, kind)
        for options in ({}, {"mergeSchema": "true"}, {"pathGlobFilter": "*"}, {"recursiveFileLookup": "true"}):
            assert ddpmi.observe(either.read.format(kind).options(**options).load(folder)).source.query is None
        assert ddpmi.observe(folder if kind == "parquet" else f"{folder}/*.orc", engine="spark").source.query is None


def test_types_of_folder_names_are_not_inferred(either: SparkSession, tmp_path: Path) -> None:
    """Folders' names are text for paths; a frame whose reader looked at all names to find a type is a query."""
    for unit in ("01", "1"):
        (tmp_path / "rows" / f"unit={unit}").mkdir(parents=True)
        pq.write_table(two_groups(1).select(["feature", "label"]), tmp_path / "rows" / f"unit={unit}" / "a.parquet")
    either.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "true")
    try:
        obs = ddpmi.observe(str(tmp_path / "rows"), engine="spark")
        assert ddpmi.observe(either.read.parquet(str(tmp_path / "rows"))).source.query == "Spark DataFrame"
        assert either.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == "true"
        assert {row[0] for row in adopted(obs)} == {"01", "1"}
    finally:
        either.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")


def test_no_collated_or_padded_text_is_a_key(either: SparkSession) -> None:
    """Texts that a collation makes equal would be one key, written as whichever row came first."""
    odd = ["VARCHAR(5) COLLATE UTF8_LCASE", "STRING COLLATE UNICODE_CI", "CHAR(3)", "CHAR(3) COLLATE UTF8_LCASE"]
    plain = ["STRING", "STRING COLLATE UTF8_BINARY", "VARCHAR(9)", "VARCHAR(9) COLLATE UTF8_BINARY"]
    listed = ", ".join(f"c{place} {type_}" for place, type_ in enumerate([*odd, *plain]))
    either.sql(f"CREATE TABLE collated ({listed}, feature STRING, label STRING) USING parquet")
    try:
        for preserved in ("false", "true"):
            either.conf.set("spark.sql.preserveCharVarcharTypeInfo", preserved)
            for data in (table("collated"), either.table("collated").withColumnRenamed("x", "y")):
                kinds = ddpmi.observe(data, unit="c4", engine="spark").source.schema()
                assert [kinds[f"c{place}"][0] for place in range(8)] == ["other"] * 4 + ["text"] * 4
        with pytest.raises(SchemaError, match="no one way to be written"):
            ddpmi.observe(table("collated"), unit="c0", engine="spark")
        with pytest.raises(SchemaError, match="is no key"):
            ddpmi.observe(table("collated"), unit="c4", engine="spark").label_by(feature="f", column="c0")
    finally:
        either.conf.unset("spark.sql.preserveCharVarcharTypeInfo")
        either.sql("DROP TABLE collated")


def test_default_collations_are_seen_and_do_not_reach_the_steps(either: SparkSession) -> None:
    """A default collation makes a table's columns collated, which the schema tells, and no cast or literal of the steps."""
    either.conf.set("spark.sql.collation.schemaLevel.enabled", "true")
    either.sql(
        "CREATE TABLE folded (unit STRING, feature STRING, label STRING) USING parquet DEFAULT COLLATION UTF8_LCASE"
    )
    either.sql("CREATE SCHEMA folding DEFAULT COLLATION UNICODE_CI")
    either.sql("CREATE TABLE folding.inside (unit STRING, feature STRING, label VARCHAR(5)) USING parquet")
    try:
        for name in ("folded", "folding.inside"):
            with pytest.raises(SchemaError, match="no one way to be written"):
                ddpmi.observe(table(name), engine="spark")
        either.sql("USE folding")
        rows = [(n, "wW"[n % 2], "l") for n in range(4)]
        obs = ddpmi.observe(either.createDataFrame(rows, "unit int, feature string, label string"))
        found = adopted(obs.label_by(feature="W", keep_seed=True))
        assert set(found) == {("0", "w", "rest"), ("1", "W", "seed"), ("2", "w", "rest"), ("3", "W", "seed")}
        with summed_by(obs, PLAN, salt="s") as opened:
            sums = [row["feature"] for batch in opened.batches("SELECT * FROM joint") for row in batch.to_pylist()]
        assert sorted(sums) == ["W", "w"]
    finally:
        either.sql("USE default")
        either.sql("DROP TABLE folded")
        either.sql("DROP SCHEMA folding CASCADE")
        either.conf.unset("spark.sql.collation.schemaLevel.enabled")


def test_a_table_of_the_catalog_without_typed_files_is_a_query(
    spark: SparkSession, either: SparkSession, tmp_path: Path
) -> None:
    """A table may be a query of another system, or files whose types were guessed; only typed files are rows."""
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    expected = {"parquet": None, "orc": None}
    other = "table of Spark's catalog without typed files"
    for provider in ("parquet", "orc", "csv", "json"):
        either.sql(f"CREATE TABLE kept_{provider} USING {provider} AS SELECT 'u' AS unit, 'f' AS feature, 'l' AS label")
    either.sql(
        "CREATE TABLE kept_jdbc USING jdbc OPTIONS (url 'jdbc:derby:memory:rows;create=true', "
        "query 'SELECT * FROM (VALUES (''u'', ''f'', ''l'')) AS t(unit, feature, label)', "
        "driver 'org.apache.derby.iapi.jdbc.AutoloadedDriver')"
    )
    try:
        for provider in ("parquet", "orc", "csv", "json", "jdbc"):
            found = source.table_source(f"kept_{provider}", {})
            assert found.query == expected.get(provider, other), provider
    finally:
        for provider in ("parquet", "orc", "csv", "json", "jdbc"):
            either.sql(f"DROP TABLE kept_{provider}")


@pytest.mark.parametrize(
    ("facts", "parent", "plain"),
    [
        ([("Provider", "delta")], False, True),
        ([("Provider", "iceberg")], False, True),
        ([("Provider", "iceberg")], True, False),
        ([("Provider", "iceberg")], None, False),
        ([("Provider", "hive"), ("Serde Library", "org.apache.hadoop.hive.ql.io.orc.OrcSerde")], False, True),
        ([("Provider", "hive"), ("Serde Library", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")], False, False),
        ([("Provider", "hive")], False, False),
        ([], False, False),
    ],
)
def test_what_other_catalogs_tell_of_a_table(facts: list[tuple[str, str]], *, parent: bool | None, plain: bool) -> None:
    """Lakes and Hive's typed files are rows; a table about another table's files, or one that says nothing, is a query."""

    def exists(name: str) -> bool:
        assert name == "`cat`.`db`.`visits`"
        if parent is None:
            raise EngineError("no answer", hint="")
        return parent

    session = SimpleNamespace(catalog=SimpleNamespace(tableExists=exists))
    found = SimpleNamespace(catalog="cat", namespace=["db", "visits"])
    described = [
        ("Provider", "parquet", None),
        ("# Detailed Table Information", "", ""),
        *((*fact, "") for fact in facts),
    ]
    assert source._is_plain(session, found, described) is plain


#: Each is a pattern that Spark would match with other names, or could not read at all.
ODD_NAMES = [
    "x[12]",
    "q?",
    "st*r",
    "{a,b}",
    "back\\slash",
    "\\[a]",
    "[!a]",
    "**",
    "a]b",
    "tr\\",
    "{a/b}",
    "a b%20#",
]


def test_a_name_that_exists_is_read_as_it_is(either: SparkSession, tmp_path: Path) -> None:
    """Names that are patterns to Spark mean themselves, as files and as folders, and not the files they would match."""
    neighbours = ["x1", "qa", "star", "a", "b", "backslash", "[a]", "c", "ab", "tr", "anything"]
    for each in (*neighbours, *ODD_NAMES):
        for file in (tmp_path / f"{each}.parquet", tmp_path / "inside" / each / "rows.parquet"):
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"unit": [each], "feature": ["f"], "label": ["l"]}), file)
    expected = {(name, "f", "l"): 2 for name in ODD_NAMES}
    files, folders = [f"{tmp_path}/{name}.parquet" for name in ODD_NAMES], [f"{tmp_path}/inside/{n}" for n in ODD_NAMES]
    assert adopted(ddpmi.observe([*files, *folders], engine="spark")) == expected
    deep = [f"file:{folder}/rows.parquet" for folder in folders]
    assert adopted(ddpmi.observe([*(f"file://{file}" for file in files), *deep], engine="spark")) == expected


def test_a_pattern_is_written_out_once(either: SparkSession, tmp_path: Path) -> None:
    """A match whose own name is a pattern is read, and what that pattern would match is not."""
    for each in ("ya[12]", "yb[1]", "ya1", "yb1", "_yc", "z"):
        pq.write_table(pa.table({"unit": [each], "feature": ["f"], "label": ["l"]}), tmp_path / f"{each}.parquet")
    found = adopted(ddpmi.observe(str(tmp_path / "*].parquet"), engine="spark"))
    assert {unit for unit, *_ in found} == {"ya[12]", "yb[1]"}
    assert sum(adopted(ddpmi.observe(str(tmp_path / "*.parquet"), engine="spark")).values()) == 5


def test_a_file_of_several_names_counts_once(either: SparkSession, tmp_path: Path, monkeypatch) -> None:
    """Relative, absolute and linked names of one file are one file, and a folder beside a file in it is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table({"unit": ["u"], "feature": ["f"], "label": ["l"]}), tmp_path / "folder" / "a.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "folder" / "a.parquet")
    (tmp_path / "linked").symlink_to(tmp_path / "folder")
    names = ["folder/a.parquet", "./folder/a.parquet", "folder/../folder/a.parquet", "linked/a.parquet", "link.parquet"]
    for more in (
        [str(tmp_path / "folder" / "a.parquet")],
        ["folder/*.parquet"],
        ["linked/a?parquet", "linked/a.parquet"],
    ):
        assert adopted(ddpmi.observe([*names, *more], engine="spark")) == {("u", "f", "l"): 1}
    assert adopted(ddpmi.observe(["folder", "linked", "folder/"], engine="spark")) == {("u", "f", "l"): 1}
    for both in (["folder", "folder/a.parquet"], ["link.parquet", "linked"], ["**"]):
        with pytest.raises(InputError, match="would be read twice"):
            ddpmi.observe(both, engine="spark")
    with pytest.raises(InputError, match="not found here"):
        ddpmi.observe(["folder", "hdfs://nowhere/a.parquet"], engine="spark")
    (tmp_path / "lake[1]" / "_delta_log").mkdir(parents=True)
    with pytest.raises(InputError, match="for a pattern of names"):
        ddpmi.observe("lake[1]", engine="spark")


def test_every_role_and_filter_of_sql_is_refused_and_costs_nothing(either: SparkSession, ledger: Ledger) -> None:
    """No part of Spark's SQL is checked to be a function of one row, so none is read, and nothing is charged."""
    frame = either.createDataFrame([("u", "f", "l", 1.0)], "unit string, feature string, label string, v double")
    expression = ddpmi.sql("upper(label)")
    for role in ("unit", "feature", "label", "value", "where"):
        for given in (expression, *(["label = 'l'"] if role == "where" else [])):
            with pytest.raises(InputError, match="not read on Spark"):
                ddpmi.release(ddpmi.observe(frame, **{role: given}), PLAN, ledger=ledger)
    with pytest.raises(InputError, match="not read on Spark"):
        ddpmi.release(ddpmi.observe(frame).label_by(feature="f", column=expression), PLAN, ledger=ledger)
    for role in ("feature", "label", "count"):
        with pytest.raises(InputError, match="not read on Spark"):
            ddpmi.observe_counts(frame, **{"count": "v", role: expression})
    assert states(ledger) == []


def test_what_only_duckdb_reads_is_refused() -> None:
    """Expressions and counts in text have no form here; asking for one is an error of ours."""
    named = source.SparkSource(frame=None)
    for ask in (lambda: named.check("a + 1", what="the filter", columns=["a"]), lambda: named.guarded("a + 1")):
        with pytest.raises(InputError, match="which is not read on Spark"):
            ask()
    with pytest.raises(SchemaError, match="holds text"):
        named.text_count("`n`", 100)
