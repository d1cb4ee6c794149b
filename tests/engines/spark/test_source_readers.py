"""Readers of Spark, classic and Connect: what is adopted from all units is the union of what is adopted from each alone.

A case is a generated list of records of up to three units. Spark takes a second to read anything, so all cases of a
test are written into one frame, texts of units under names of their own; it is read once whole and once for each third of its units,
and each case has its units in different thirds. Odd records that are the first, the last or the only one of all are
read in frames of their own.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import ddpmi
from ddpmi import Bounds, Budget, Plan, SchemaError
from ddpmi.engines.spark import source
from ddpmi.pipeline.steps import table
from ddpmi.testing import exact_sums
from tests.support.reader_contract import adopted, check_row_local
from tests.support.spark_local import make_connect, make_either  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hypothesis.strategies import SearchStrategy
    from pyspark.sql import SparkSession

    from ddpmi import Observations

    Record = tuple[Any, ...]
    Case = list[tuple[int, Record]]
    Read = Callable[[list[Record]], Observations]

pytestmark = pytest.mark.spark

THIRDS = 3
NAMES = ("unit", "feature", "label", "value")
#: Text as bytes, because some of it is none.
TEXTS = [
    *(b"", b" ", b"1", b"01", b"1.0", b"+1", b"true", b"TRUE", b"w", b"W", b"w ", b"\x00", b"a\x00b", b"null", b"NaN"),
    *(
        b"\xff",
        b"a\xffb",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
        b"\xe2\x82",
        b"2026-01-01",
        b"1e5",
        b"'\"`",
    ),
    *("ß ﬁ Å Å 🤦🏼‍♂️ \u202e \ufeff \ufffd \u0130 \uffff \U0010ffff".encode().split(b" ")),
]
DAYS = [-(2**31), 2**31 - 1, -719_163, -719_162, 2_932_896, 2_932_897, -141_428, -1, 0, 20_000]
NINES = (9,) * 38
WIDE = [Decimal((sign, NINES, -10)) for sign in (0, 1)] + [Decimal(0), Decimal("0.5"), Decimal("1e-10")]
DOUBLES = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, 1.5, 5e-324, 1.7976931348623157e308, -1.0]

_text = st.none() | st.sampled_from(TEXTS) | st.binary(max_size=6) | st.text(max_size=6).map(str.encode)
_long = st.none() | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 7, 10]) | st.integers(-(2**63), 2**63 - 1)
SCHEMAS: dict[str, tuple[list[pa.DataType], list[SearchStrategy[Any]]]] = {
    "text": (
        [pa.string()] * 3 + [pa.float64()],
        [_text, _text, _text, st.none() | st.sampled_from(DOUBLES) | st.floats()],
    ),
    "typed": (
        [pa.int64(), pa.date32(), pa.int8(), pa.decimal128(38, 10)],
        [
            _long,
            st.none() | st.sampled_from(DAYS),
            st.none() | st.integers(-128, 127),
            st.none() | st.sampled_from(WIDE),
        ],
    ),
    "narrow": (
        [pa.int16(), pa.bool_(), pa.int32(), pa.float32()],
        [
            st.none() | st.integers(-(2**15), 2**15 - 1),
            st.none() | st.booleans(),
            st.none() | st.sampled_from([0, 1, -(2**31), 2**31 - 1]),
            st.none() | st.sampled_from(DOUBLES[:7]) | st.floats(width=32),
        ],
    ),
}
#: Labels that stand in folders' names, each of which another type could be read from.
FOLDERS = ["01", "1", "1.0", "true", "2026-01-01", "2026-01-01 00:00:00", "x", "x y", "-0", "1e5", "null", None]


def column(cells: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Make a column without a look at whether its cells are valid."""
    if type_ == pa.string():
        return pa.array(cells, pa.binary()).view(type_)
    return pa.array(cells, pa.int32()).view(type_) if type_ == pa.date32() else pa.array(cells, type_)


def rows(records: list[Record], schema: str) -> pa.Table:
    types, _ = SCHEMAS[schema]
    cells = [[record[place] for record in records] for place in range(4)]
    return pa.table({name: column(*given) for name, *given in zip(NAMES, cells, types, strict=True)})


def cases(schema: str, count: int, labels: SearchStrategy[Any] | None = None) -> list[Case]:
    """Generate cases, the same ones in each run."""
    strategies = list(SCHEMAS[schema][1])
    strategies[2] = strategies[2] if labels is None else labels
    record = st.tuples(st.integers(0, THIRDS - 1), st.tuples(*strategies))
    found: list[Case] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(record, min_size=1, max_size=6))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


def check_thirds(found: list[Case], schema: str, read: Read) -> int:
    """Assert the contract for all cases at once, and return how many there were."""
    records: list[tuple[int, Record]] = []
    for number, case in enumerate(found):
        for third, (unit, *rest) in case:
            if schema == "text" and unit is not None:
                unit = b"%d:%d:" % (number, third) + unit  # noqa: PLW2901 - nobody else's
            records.append((third, (unit, *rest)))
    together = adopted(read([record for _, record in records]))
    alone: Counter[Record] = sum(
        (adopted(read([r for t, r in records if t == third])) for third in range(THIRDS)), Counter()
    )
    assert together == alone
    assert sum(together.values()) > len(found) // 4
    return len(found)


class Reader:
    """Writes records where one kind of reader finds them, and observes them."""

    def __init__(self, session: SparkSession, folder: Path, kind: str, schema: str) -> None:
        self.session, self.folder, self.kind, self.schema = session, folder, kind, schema
        self.count = itertools.count()
        self.tables: list[str] = []

    def __call__(self, records: list[Record]) -> Observations:
        place = self.folder / f"{self.kind}-{next(self.count)}"
        place.mkdir()
        data: Any = getattr(self, f"_{self.kind}")(
            rows(records, self.schema) if self.kind != "folder" else records, place
        )
        return ddpmi.observe(data, value="value", engine="spark")

    def _frame(self, data: pa.Table, _: Path) -> Any:
        return self.session.createDataFrame(data)

    def _parquet(self, data: pa.Table, place: Path) -> str:
        pq.write_table(data.slice(0, 5), place / "a.parquet")
        pq.write_table(data.slice(5), place / "b[ab].parquet")
        return str(place / "*.parquet")

    def _orc(self, data: pa.Table, place: Path) -> str:
        po.write_table(data, place / "rows.orc")
        return str(place / "rows.orc")

    def _catalog(self, data: pa.Table, place: Path) -> Any:
        pq.write_table(data, place / "rows.parquet")
        self.tables.append(f"adopted_{self.folder.name}_{next(self.count)}")
        self.session.sql(f"CREATE TABLE {self.tables[-1]} USING parquet LOCATION 'file://{place}'")
        return table(self.tables[-1])

    def _folder(self, records: list[Record], place: Path) -> str:
        for label in {record[2] for record in records}:
            name = "__HIVE_DEFAULT_PARTITION__" if label is None else label.replace(":", "%3A")
            (place / f"label={name}").mkdir()
            inside = [(*record[:2], None, record[3]) for record in records if record[2] == label]
            pq.write_table(rows(inside, self.schema).drop_columns("label"), place / f"label={name}" / "rows.parquet")
        return str(place)

    def close(self) -> None:
        for name in self.tables:
            self.session.sql(f"DROP TABLE {name}")


@pytest.fixture
def reader(either: SparkSession, tmp_path: Path) -> Iterator[Callable[[str, str], Reader]]:
    made: list[Reader] = []

    def make(kind: str, schema: str) -> Reader:
        folder = tmp_path / f"{kind}_{schema}"
        folder.mkdir()
        made.append(Reader(either, folder, kind, schema))
        return made[-1]

    yield make
    for each in made:
        each.close()


def check(reader: Callable[[str, str], Reader], kind: str, schema: str, count: int) -> None:
    labels = st.sampled_from(FOLDERS) if kind == "folder" else None
    assert check_thirds(cases(schema, count, labels), schema, reader(kind, schema)) >= count


KINDS = ["frame", "parquet", "orc", "catalog", "folder"]


@pytest.mark.parametrize("kind", ["parquet", "folder"])
def test_readers_adopt_each_unit_as_if_it_were_alone(reader: Callable[[str, str], Reader], kind: str) -> None:
    """Texts of all kinds, bytes that are no text and NULLs: no cell changes what another unit's cells are read as."""
    check(reader, kind, "text", 60)


@pytest.mark.full
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("kind", KINDS)
def test_readers_adopt_each_unit_as_if_it_were_alone_in_many_cases(
    reader: Callable[[str, str], Reader], kind: str, schema: str
) -> None:
    """The same for 2,000 generated cases of each reader and each set of types."""
    check(reader, kind, schema, 2000)


@pytest.mark.parametrize("kind", ["frame", pytest.param("parquet", marks=pytest.mark.full)])
def test_an_odd_record_may_be_the_first_the_last_or_the_only_one(
    reader: Callable[[str, str], Reader], kind: str
) -> None:
    """A text of ten million bytes, bytes that are no text and NaN are read alike wherever they stand."""
    huge = b"x" * 9_999_999 + b"\xff"
    records = [
        ("first", (b"a", b"\xff", b"01", float("nan"))),
        ("plain", (b"1", b"f", b"1", 1.0)),
        ("last", (huge, b"", b"\x00", None)),
    ]
    found = check_row_local(records, reader(kind, "text"))
    assert {len(unit) for unit, *_ in found} == {1, 10_000_000}
    assert sum(found.values()) == 3


ALL_TYPES = {
    "float": "CAST(1 AS FLOAT)",
    "double": "1.0D",
    "decimal": "CAST(1 AS DECIMAL(38, 0))",
    "timestamp": "TIMESTAMP'2026-01-01 00:00:00'",
    "ntz": "TIMESTAMP_NTZ'2026-01-01 00:00:00'",
    "binary": "X'00'",
    "void": "NULL",
    "days": "INTERVAL '1' DAY",
    "months": "INTERVAL '1' MONTH",
    "calendar": "make_interval(1)",
    "variant": "parse_json('1')",
    "array": "array('a')",
    "map": "map('a', 'b')",
    "struct": "struct('a')",
    "collated": "'a' COLLATE UNICODE",
}


def test_only_text_whole_numbers_booleans_and_dates_are_keys(either: SparkSession) -> None:
    """Every other type is refused by the schema, as a key of each role and, unless it is a number, as a value."""
    listed = ", ".join(f"{sql} AS {name}" for name, sql in ALL_TYPES.items())
    frame = either.sql(
        f"SELECT 'u' AS unit, 'f' AS feature, 'l' AS label, true AS flag, DATE'2026-01-01' AS day, {listed}"
    )
    for name in ALL_TYPES:
        for role in ("unit", "feature", "label"):
            with pytest.raises(SchemaError, match="has type"):
                ddpmi.observe(frame, **{role: name})
        with pytest.raises(SchemaError, match="is no key"):
            ddpmi.observe(frame).label_by(feature="f", column=name)
    for name in (*ALL_TYPES, "feature", "day"):
        if name not in ("float", "double", "decimal"):
            with pytest.raises(SchemaError, match="must hold numbers"):
                ddpmi.observe(frame, value=name)
    assert ddpmi.observe(frame, unit="flag", label="day").columns.unit == "flag"


def test_a_type_of_a_user_is_no_key_under_any_name(spark: SparkSession) -> None:
    """The class of a type tells what it is; metadata that belongs to text tells nothing about other columns."""
    del spark
    from pyspark.sql import types

    class String(types.UserDefinedType):  # type: ignore[misc]
        @classmethod
        def sqlType(cls) -> types.DataType:  # noqa: N802 - Spark's name
            return types.StringType()

        def simpleString(self) -> str:  # noqa: N802 - Spark's name
            return "string"

    declared = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}
    assert source._kind(types.StructField("c", String())) == ("other", "string")
    assert source._kind(types.StructField("c", types.DoubleType(), metadata=declared)) == ("number", "double")
    folded = types.StructField("c", types.StringType("UTF8_LCASE"), metadata=declared)
    assert source._kind(folded) == ("other", "string collate UTF8_LCASE")


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (pa.int8(), [-128, 127, 0, None]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "float": (pa.float32(), [float("nan"), float("inf"), float("-inf"), 3.4e38, 1e-45, None]),
    "double": (pa.float64(), [*DOUBLES, None]),
    "decimal(38,0)": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(3), None]),
    "decimal(38,38)": (pa.decimal128(38, 38), [Decimal((0, NINES, -38)), Decimal((0, (1,), -38)), None]),
}


@pytest.mark.parametrize(
    "name",
    [n if n == "decimal(38,0)" else pytest.param(n, marks=pytest.mark.full) for n in VALUES],
)
def test_the_largest_and_smallest_values_of_each_type_raise_nothing(spark: SparkSession, name: str) -> None:
    """Values beyond every bound are clipped as the embedded engine clips them, with overflow an error in Spark's mode."""
    plan = Plan(budget=Budget(1, 1e-4), bounds=Bounds(pairs=99, clip=5, step=0.5), mechanism="gaussian", row_local=True)
    type_, cells = VALUES[name]
    keys = [str(place) for place in range(len(cells))]
    data = pa.table({"unit": ["u"] * len(cells), "feature": keys, "label": keys, "value": pa.array(cells, type_)})
    here, there = (
        exact_sums(ddpmi.observe(each, value="value"), plan)["pairs"].to_pylist()
        for each in (data, spark.createDataFrame(data))
    )
    assert there == here
    assert here


def test_dates_of_any_year_are_keys_and_raise_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Dates that Python cannot hold have texts of their own, also in a session that refuses dates before 1582."""
    days = pa.array(DAYS, pa.int32()).view(pa.date32())
    places = pa.array(range(len(DAYS)), pa.int64())
    pq.write_table(
        pa.table({"unit": places, "feature": days, "label": pa.array([True] * len(DAYS))}), tmp_path / "d.parquet"
    )
    name = "spark.sql.parquet.datetimeRebaseModeInRead"
    spark.conf.set(name, "EXCEPTION")
    try:
        obs = ddpmi.observe(str(tmp_path / "d.parquet"), engine="spark")
        found = adopted(obs)
        assert spark.conf.get(name) == "EXCEPTION"
    finally:
        spark.conf.unset(name)
    keys = {day for _, day, _ in found}
    assert len(keys) == len(DAYS)
    assert {"0001-01-01", "9999-12-31", "+10000-01-01", dt.date(2024, 10, 4).isoformat()} < keys
