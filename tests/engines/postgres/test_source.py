"""Tables, views and queries of PostgreSQL: names that try to break out, types, roles, and what the catalog says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ddpmi
from ddpmi import Bounds, Budget, EngineError, Plan
from ddpmi.engines.postgres.source import _readings
from tests.engines.test_contract import plan, sums
from tests.support.reader_contract import adopted

if TYPE_CHECKING:
    from tests.support.postgres_server import Server

ROWS = [("a", "f", "x"), ("a", "g", "y"), ("b", "f", "x"), ("b", "f", "x"), ("c", None, "x")]
NAMES = [
    'vi"sits',
    "x; DROP TABLE canary; --",
    "select",
    "häuser 🏠",
    "back\\slash",
    "a.b",
    "O'Hara",
    "  spaces  ",
    "MixedCase",
    "$1",
    "/* */",
    "pairs",
    "source",
]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(autouse=True, name="canary")
def make_canary(postgres: Server) -> None:
    postgres.run("DROP TABLE IF EXISTS canary CASCADE", "CREATE TABLE canary (unit text, feature text, label text)")
    listed = ", ".join("(" + ", ".join("NULL" if c is None else f"'{c}'" for c in row) + ")" for row in ROWS)
    postgres.run(f"INSERT INTO canary VALUES {listed}")


@pytest.mark.parametrize("name", NAMES)
def test_names_of_tables_and_columns_never_execute(postgres: Server, name: str) -> None:
    """A table and columns with such names are read, and nothing else happens."""
    postgres.run(
        f"DROP TABLE IF EXISTS {quoted(name)}",
        f"CREATE TABLE {quoted(name)} AS SELECT unit, feature AS {quoted(name)}, label AS {quoted(name + '2')} FROM canary",
    )
    obs = ddpmi.observe(postgres.address(), table=name, unit="unit", feature=name, label=name + "2")
    assert sums(obs, plan())["joint"] == sums(ddpmi.observe(postgres.address(), table="canary"), plan())["joint"]
    assert postgres.run("SELECT count(*) FROM canary") == [(5,)]
    postgres.run(f"DROP TABLE {quoted(name)}")


def test_names_of_databases_and_schemas(postgres: Server) -> None:
    """A database and a schema with odd names are found, and a schema may be named in three ways."""
    name = 'da"ta; x'
    postgres.run(f"DROP DATABASE IF EXISTS {quoted(name)}", f"CREATE DATABASE {quoted(name)}")
    postgres.run(
        'CREATE SCHEMA "My Schema"',
        'CREATE TABLE "My Schema"."v.1" (unit int, feature int, label int)',
        database="da%22ta%3B%20x",
    )
    for table in ("My Schema.v.1", '"My Schema"."v.1"'):
        obs = ddpmi.observe(postgres.address(database="da%22ta%3B%20x"), table=table)
        assert obs.columns.unit == "unit"
    postgres.run(f"DROP DATABASE {quoted(name)}")


def test_a_name_has_few_readings() -> None:
    """A name is taken as it is, at each dot, or as SQL spells it."""
    assert _readings("visits") == [("", "visits"), ("", "visits")]
    assert _readings('"a""b".c')[-1] == ('a"b', "c")


HOSTILE = [
    "SELECT 1) AS a; DROP TABLE canary; SELECT * FROM (SELECT 1",
    "SELECT * FROM canary; DELETE FROM canary",
    "DELETE FROM canary RETURNING *",
    "WITH gone AS (DELETE FROM canary RETURNING *) SELECT * FROM gone",
    "SELECT unit, feature, label FROM canary) AS a, (SELECT 1",
    "SELECT * INTO stolen FROM canary",
    "COPY canary TO STDOUT",
    "SELECT 1 /*",
    "DO $$ BEGIN DELETE FROM canary; END $$",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_query_is_refused(postgres: Server, text: str) -> None:
    """What is not one SELECT never runs."""
    with pytest.raises(EngineError), ddpmi.observe(postgres.address(), query=text).open():
        pass
    assert postgres.run("SELECT count(*) FROM canary") == [(5,)]


@pytest.mark.parametrize(
    "inside",
    [
        "DELETE FROM canary",
        "PERFORM set_config('transaction_read_only', 'off', false); DELETE FROM canary",
        "PERFORM set_config('default_transaction_read_only', 'off', false); CREATE TABLE stolen AS SELECT * FROM canary",
        "PERFORM nextval('counter')",
    ],
)
def test_a_function_in_a_query_cannot_write(postgres: Server, inside: str) -> None:
    """Queries run in a read-only transaction, which a function that they call cannot leave."""
    postgres.run(
        "CREATE SEQUENCE IF NOT EXISTS counter",
        f"CREATE OR REPLACE FUNCTION hidden() RETURNS text LANGUAGE plpgsql AS $f$ BEGIN {inside}; RETURN 'x'; END $f$",
    )
    obs = ddpmi.observe(postgres.address(), query="SELECT unit, feature, label || hidden() AS label FROM canary")
    with pytest.raises(EngineError):
        sums(obs, plan())
    assert postgres.run("SELECT count(*) FROM canary") == [(5,)]
    assert postgres.run("SELECT count(*) FROM pg_class WHERE relname = 'stolen'") == [(0,)]


def test_queries_and_views_need_a_declaration(postgres: Server, ledger: ddpmi.Ledger) -> None:
    """One of their rows may depend on several units; a table's cannot."""
    postgres.run(
        "CREATE OR REPLACE VIEW shown AS SELECT * FROM canary LIMIT 2",
        "DROP TABLE IF EXISTS secured",
        "CREATE TABLE secured AS SELECT * FROM canary",
        "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE secured FORCE ROW LEVEL SECURITY",
    )
    address = postgres.address()
    bare = Plan(budget=Budget(1, 1e-6), bounds=Bounds(pairs=2))
    kinds = {"shown": "view", "canary": None}
    for table, kind in kinds.items():
        assert ddpmi.observe(address, table=table).source.query == kind
    with pytest.raises(ddpmi.InputError, match="row_local=True"):
        ddpmi.release(ddpmi.observe(address, query="SELECT * FROM canary -- all;"), bare, ledger=ledger)
    assert ledger.status("default").entries == ()


def test_tables_with_foreign_parts_need_a_declaration(postgres: Server) -> None:
    """What another program reads may fail at one row, also where it is a part of a table."""
    postgres.run(
        "CREATE EXTENSION IF NOT EXISTS postgres_fdw",
        "CREATE SERVER IF NOT EXISTS elsewhere FOREIGN DATA WRAPPER postgres_fdw",
        "DROP TABLE IF EXISTS parted, parent CASCADE",
        "CREATE TABLE parted (unit text, feature text, label text) PARTITION BY LIST (label)",
        "CREATE TABLE parted_x PARTITION OF parted FOR VALUES IN ('x')",
        "CREATE TABLE parent (unit text, feature text, label text)",
        "CREATE FOREIGN TABLE foreign_heir () INHERITS (parent) SERVER elsewhere",
    )
    asked = {table: ddpmi.observe(postgres.address(), table=table) for table in ("parted", "parent")}
    assert [obs.source.query for obs in asked.values()] == [None, "table with a foreign part"]
    postgres.run("CREATE FOREIGN TABLE parted_y PARTITION OF parted FOR VALUES IN ('y') SERVER elsewhere")
    assert ddpmi.observe(postgres.address(), table="parted").source.query == "table with a foreign part"
    postgres.run("DROP TABLE parted, parent CASCADE")


@pytest.mark.parametrize("stream", ["no", "yes"])
def test_values_of_single_precision_are_read(postgres: Server, ledger: ddpmi.Ledger, stream: str) -> None:
    """The limits of other numbers are beyond single precision; infinities, NaN and tiny cells are read like doubles."""
    postgres.run(
        "DROP TABLE IF EXISTS single",
        "CREATE TABLE single (unit int, feature text, label text, value real)",
        "INSERT INTO single SELECT i, 'f', 'x', 2 FROM generate_series(1, 5000) AS i",
        "INSERT INTO single VALUES (0, 'g', 'x', 'Infinity'), (0, 'h', 'x', 'NaN'), (0, 'i', 'x', 1e-45)",
    )
    obs = ddpmi.observe(postgres.address(), table="single", value="value", conf={"stream": stream})
    once = Plan(budget=Budget(8, 1e-6), bounds=Bounds(pairs=1, clip=4))
    assert ddpmi.release(obs, once, ledger=ledger).tables.count("pairs") == 1


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE heir () INHERITS (named)",
        "ALTER TABLE named RENAME TO former; CREATE VIEW named AS SELECT former.* FROM former, generate_series(1, 9)",
        "ALTER TABLE named RENAME TO former; CREATE TABLE named AS SELECT * FROM former",
    ],
)
def test_a_table_that_was_replaced_is_noticed(postgres: Server, change: str) -> None:
    """What the catalog said of a table holds for no other relation that has its name now."""
    postgres.run(
        "DROP VIEW IF EXISTS named",
        "DROP TABLE IF EXISTS former CASCADE",
        "DROP TABLE IF EXISTS named CASCADE",
        "CREATE TABLE named (unit text, feature text, label text, UNIQUE (unit, feature, label))",
    )
    both = [ddpmi.observe(postgres.address(), table="named", conf={"stream": stream}) for stream in ("no", "yes")]
    postgres.run(*change.split("; "))
    for obs in both:
        with pytest.raises(EngineError, match="replaced"), obs.open():
            pass
    postgres.run("DROP TABLE IF EXISTS former CASCADE", "DROP TABLE IF EXISTS named CASCADE")


def test_a_release_id_belongs_to_one_query(postgres: Server) -> None:
    """The same columns of another query are other rows."""
    texts = ("SELECT * FROM canary", "SELECT * FROM canary WHERE unit <> 'a'")
    first, second = (ddpmi.observe(postgres.address(), query=text) for text in texts)
    assert first.columns_digest != second.columns_digest
    assert texts[0] not in repr(first)


def test_typed_cells_are_read_one_by_one(postgres: Server) -> None:
    """Numbers that no double has, NaN, padding, case and domains: no cell fails, and no cell changes another one."""
    postgres.run(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "DROP TABLE IF EXISTS odd",
        "DROP TYPE IF EXISTS mood CASCADE",
        "DROP DOMAIN IF EXISTS name_of CASCADE",
        "CREATE TYPE mood AS ENUM ('happy', 'sad')",
        "CREATE DOMAIN name_of AS citext CHECK (value <> 'nobody')",
        'CREATE TABLE odd (id name_of, site char(4), mood mood, ci text COLLATE "en-x-icu", n numeric, r real, k uuid)',
        "INSERT INTO odd SELECT u, s, 'sad', 'x', n::numeric, 1e-45, '00000000-0000-0000-0000-000000000007' FROM (VALUES "
        "('Ann', 'ab', 'NaN'), ('ann', 'ab  ', 'Infinity'), ('ann', 'AB', '1e400'), ('ann', 'ab', '1e-400'), "
        "('Bob', 'ab', '-1e400'), ('bob', 'x', '2.5')) AS v(u, s, n)",
    )
    obs = ddpmi.observe(postgres.address(), table="odd", unit="id", feature="site", label="mood", value="n")
    assert {name: kind for name, (kind, _) in obs.schema.items()} == {
        "id": "text",
        "site": "text",
        "mood": "text",
        "n": "number",
    }
    found = adopted(obs)
    assert {row[:2] for row in found} == {("Ann", "ab"), ("ann", "ab"), ("ann", "AB"), ("Bob", "ab"), ("bob", "x")}
    made = plan(bounds={"clip": 4, "step": 2, "cap": 3}, mechanism="laplace")
    joint = {row[:2]: row[2] for row in sums(obs, made)["joint"]}
    full = 2**made.calibration.bounding.g
    assert joint == {("ab", "sad"): 2 * full, ("AB", "sad"): 2 * full, ("x", "sad"): full}
    for feature in ("ci", "k"):
        assert sums(ddpmi.observe(postgres.address(), table="odd", unit="id", feature=feature, label="mood"), plan())


def test_types_without_one_text_are_refused(postgres: Server) -> None:
    """Times, floats and nested types are no keys, and the schema says so."""
    postgres.run(
        "DROP TABLE IF EXISTS times", "CREATE TABLE times (unit int, feature timestamptz, label text, f real, j json)"
    )
    for feature in ("feature", "f", "j"):
        with pytest.raises(ddpmi.SchemaError):
            ddpmi.observe(postgres.address(), table="times", feature=feature)


def role(server: Server, name: str, *grants: str) -> str:
    """Make a role that may do what is granted and nothing else, and return its address."""
    if server.run(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"):
        server.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
    server.run(f"CREATE ROLE {name} LOGIN PASSWORD 'pw-{name}'", "REVOKE ALL ON DATABASE postgres FROM PUBLIC")
    server.run(f"GRANT CONNECT ON DATABASE postgres TO {name}", *(f"GRANT {grant} TO {name}" for grant in grants))
    return server.address(user=name, password=f"pw-{name}")


def test_a_role_with_select_and_temporary_tables_suffices(postgres: Server, ledger: ddpmi.Ledger) -> None:
    """Nothing but SELECT on the columns that are used, and TEMPORARY, is needed."""
    address = role(postgres, "reader", "SELECT (unit, feature, label) ON canary", "TEMPORARY ON DATABASE postgres")
    obs = ddpmi.observe(address, table="canary")
    assert obs.source.engine == "postgres"
    assert ddpmi.release(obs, Plan(budget=Budget(1, 1e-5), bounds=Bounds(pairs=2)), ledger=ledger).receipt


def test_a_role_with_select_alone_streams(postgres: Server) -> None:
    """Where temporary tables are not allowed, the embedded engine computes the same sums."""
    obs = ddpmi.observe(role(postgres, "streamer", "SELECT ON canary"), table="canary")
    assert obs.source.engine == "duckdb"
    assert sums(obs, plan()) == sums(ddpmi.observe(postgres.address(), table="canary"), plan())


def test_a_role_without_select_is_refused_before_the_charge(postgres: Server, ledger: ddpmi.Ledger) -> None:
    """The rehearsal notices a missing permission, and nothing is charged."""
    address = role(postgres, "stranger", "TEMPORARY ON DATABASE postgres")
    obs = ddpmi.observe(address, table="canary")
    with pytest.raises(ddpmi.InputError, match="lacks a permission"):
        ddpmi.release(obs, Plan(budget=Budget(1, 1e-5), bounds=Bounds(pairs=2)), ledger=ledger)
    assert ledger.status("default").entries == ()


INDEXES = {
    "PRIMARY KEY (unit, feature, label)": True,
    "UNIQUE (feature, unit)": True,
    "PRIMARY KEY (unit)": True,
    "UNIQUE (unit, feature, label, day)": False,
    "UNIQUE (unit, feature, label) DEFERRABLE INITIALLY DEFERRED": True,
    "CHECK (day > 0)": False,
}


@pytest.mark.parametrize("rule", INDEXES)
def test_a_constraint_of_the_database_replaces_the_merging_of_rows(postgres: Server, rule: str) -> None:
    """A unique index over keys is relied on, named in the receipt, and gives the same sums."""
    postgres.run(
        "DROP TABLE IF EXISTS ruled",
        f"CREATE TABLE ruled (unit text, feature text, label text, day int, {rule})",
        "INSERT INTO ruled SELECT 'u' || n, 'f' || n % 3, 'x', n + 1 FROM generate_series(1, 20) AS n",
    )
    obs = ddpmi.observe(postgres.address(), table="ruled")
    made = plan()
    assert obs.enforced is INDEXES[rule]
    assert any("unique index" in text for text in obs.relies_on) is INDEXES[rule]
    steps = made.steps(obs.source.dialect, enforced=obs.enforced)
    assert ("DISTINCT" in steps[0].sql) is not INDEXES[rule]
    streamed = ddpmi.observe(postgres.address(), table="ruled", conf={"stream": "yes"})
    assert sums(obs, made) == sums(streamed, made)


def test_partial_indexes_and_inherited_rows_are_not_relied_on(postgres: Server) -> None:
    """A partial index, one over expressions, and one of a table whose rows others inherit say nothing about all rows."""
    postgres.run("DROP TABLE IF EXISTS parted CASCADE", "CREATE TABLE parted (unit text, feature text, label text)")
    postgres.run(
        "CREATE UNIQUE INDEX ON parted (unit) WHERE feature = 'f'", "CREATE UNIQUE INDEX ON parted (lower(unit))"
    )
    assert not ddpmi.observe(postgres.address(), table="parted").enforced
    postgres.run("CREATE UNIQUE INDEX ON parted (unit)")
    assert ddpmi.observe(postgres.address(), table="parted").enforced
    postgres.run("CREATE TABLE child () INHERITS (parted)")
    assert not ddpmi.observe(postgres.address(), table="parted").enforced


def test_a_constraint_that_was_dropped_is_noticed(postgres: Server) -> None:
    """What the catalog said when the data was named must hold when it is read."""
    postgres.run("DROP TABLE IF EXISTS ruled", "CREATE TABLE ruled (unit text PRIMARY KEY, feature text, label text)")
    obs = ddpmi.observe(postgres.address(), table="ruled")
    postgres.run("ALTER TABLE ruled DROP CONSTRAINT ruled_pkey")
    with pytest.raises(EngineError, match="was dropped"), obs.open():
        pass


def test_an_open_connection_gets_a_session_of_its_own(postgres: Server) -> None:
    """The caller's connection and its transaction are left as they are."""
    with postgres.connected() as connection:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
        obs = ddpmi.observe(connection, table="canary")
        assert obs.source.engine == "postgres"
        assert sums(obs, plan()) == sums(ddpmi.observe(postgres.address(), table="canary"), plan())
        with connection.cursor() as cursor:
            cursor.execute("ROLLBACK")


def test_a_release_sees_one_state_of_the_data(postgres: Server) -> None:
    """Rows that others write while a release runs are in none of its sums."""
    obs = ddpmi.observe(postgres.address(), table="canary")
    with obs.open() as engine:
        engine.run(obs.rows(engine))
        before = _count(engine)
        postgres.run("INSERT INTO canary VALUES ('late', 'f', 'x')")
        assert _count(engine) == before


def _count(engine: Any) -> int:
    return sum(batch.num_rows for batch in engine.batches("SELECT unit FROM rows"))


def test_text_of_other_encodings_is_refused(postgres: Server) -> None:
    """A cell that cannot be converted to Unicode would be an error of one row."""
    postgres.run(
        "DROP DATABASE IF EXISTS old", "CREATE DATABASE old TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
    )
    with pytest.raises(ddpmi.InputError, match="SQL_ASCII"):
        ddpmi.observe(postgres.address(database="old"), table="visits")
    postgres.run("DROP DATABASE old")


def test_a_public_key_with_a_null_character_is_refused(postgres: Server) -> None:
    """PostgreSQL has no such text, and a list that holds one is refused with a sentence."""
    obs = ddpmi.observe(postgres.address(), table="canary")
    with pytest.raises(ddpmi.InputError, match="null character"):
        sums(obs, plan(public_labels=["x", "a\0b"]))


def test_frames_of_numbers_reach_the_server_whole(postgres: Server) -> None:
    """Whole numbers are sent and come back as they are."""
    obs = ddpmi.observe(postgres.address(), table="canary")
    sent = pa.table({"feature": pa.array(["a", None]), "sum": pa.array([2**61, -1], pa.int64())})
    with obs.open() as engine:
        engine.put("known", sent)
        got = [row for batch in engine.batches("SELECT * FROM known") for row in batch.to_pylist()]
    assert got == sent.to_pylist()


def test_a_text_that_is_too_long_is_no_key(postgres: Server) -> None:
    """A text beyond 16 MiB could make a hash fail, so its row is dropped by looking at that row alone."""
    postgres.run("INSERT INTO canary VALUES ('long', repeat('x', 16777217), 'x')")
    for conf in ({}, {"stream": "yes"}):
        found = adopted(ddpmi.observe(postgres.address(), table="canary", conf=conf))
        assert sum(found.values()) == 4


CELLS = {
    "text": [None, "", " ", "a", "A", "ß", "🏠", "NaN"],
    "integer": [None, 0, -1, 2**63 - 1, -(2**63)],
    "numbers": [None, "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "0.5", "4"],
}


@pytest.mark.parametrize("stream", ["no", "yes"])
def test_no_cell_changes_how_others_are_read(postgres: Server, stream: str) -> None:
    """What is read of all units is the union of what is read of each, for each type and its odd cells."""
    types = {"text": "text", "padded": "char(3)", "integer": "bigint", "numeric": "numeric", "real": "float8"}
    columns = ", ".join(f"{name} {type_}" for name, type_ in types.items())
    postgres.run("DROP TABLE IF EXISTS cells", f"CREATE TABLE cells (owner int, {columns})")
    rows = [
        (owner, text, text and text[:1], whole, number, "NaN" if number and "e" in number else number)
        for owner in (1, 2)
        for text in CELLS["text"]
        for whole in CELLS["integer"][owner:]
        for number in CELLS["numbers"][owner::2]
    ]
    listed = ", ".join("(" + ", ".join("NULL" if c is None else f"'{c}'" for c in row) + ")" for row in rows)
    postgres.run(f"INSERT INTO cells VALUES {listed}")

    def read(where: str, **roles: str) -> Any:
        query = f"SELECT * FROM cells WHERE {where}"
        return adopted(ddpmi.observe(postgres.address(), query=query, conf={"stream": stream}, **roles))

    for roles in (
        {"unit": "integer", "feature": "text", "label": "padded", "value": "numeric"},
        {"unit": "text", "feature": "integer", "label": "owner", "value": "real"},
    ):
        together = read("true", **roles)
        assert together == read("owner = 1", **roles) + read("owner = 2", **roles)
        assert together
