"""Sessions end as they must: clear errors, no password and no row in them, nothing half-written, nothing left to run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from adbc_driver_manager import OperationalError

import ddpmi
from ddpmi import Bounds, Budget, EngineError, InputError, Plan
from ddpmi.engines.postgres.sessions import has_password, own_errors

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres_server import Server

PLAN = Plan(budget=Budget(1, 1e-5), bounds=Bounds(pairs=3), row_local=True)
CANARY = "canary-7f3a"
#: Every row takes a tenth of a second.
SLOW = "SELECT unit, feature, label FROM visits, LATERAL (SELECT pg_sleep(0.1 + length(unit) * 0)) AS s"


@pytest.fixture(autouse=True, name="visits")
def make_visits(postgres: Server) -> None:
    """A table with a row that no message may show."""
    rows = [(f"u{n}", f"f{n % 3}", CANARY if n == 7 else "x") for n in range(300)]
    columns = zip(*rows, strict=True)
    postgres.fill("visits", pa.table(dict(zip(("unit", "feature", "label"), columns, strict=True))))


def refused(error: BaseException, server: Server, message: str) -> None:
    """The error is ours, says what happened, and shows neither a row nor the password."""
    text = f"{error} {error.__cause__} {error.__context__ if not error.__suppress_context__ else ''}"
    assert message in text
    assert CANARY not in text
    assert server.password not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"password": "wr:ong@s3cret/x?"}, "cannot be reached"),
        ({"password": "wrong"}, "does not accept the user or the password"),
        ({"user": "nobody_here"}, "does not accept the user or the password"),
        ({"database": "no_such_db"}, "no such database"),
    ],
)
def test_a_refused_connection_says_why(postgres: Server, change: dict[str, str], message: str) -> None:
    """What the server refuses is said without a part of the address."""
    with pytest.raises(EngineError) as caught:
        ddpmi.observe(postgres.address(**change), table="visits")
    refused(caught.value, postgres, message)
    assert change.get("password", "@") not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_nothing_answers(postgres: Server) -> None:
    """A port without a server is said to be one."""
    with pytest.raises(EngineError, match="Nothing answers"):
        ddpmi.observe("postgresql://127.0.0.1:9/db", table="visits")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"table": "no_such"}, ddpmi.InputNotFound, "no table 'no_such'"),
        ({"table": "VISITS"}, ddpmi.InputNotFound, "case-sensitive"),
        ({"query": "SELECT * FROM no_such"}, EngineError, "a table that does not exist"),
        ({"query": "SELECT nothing FROM visits"}, EngineError, "a column that does not exist"),
        ({"query": "SELEKT 1"}, EngineError, "does not understand"),
        ({"query": "SELECT 1; SELECT 2"}, EngineError, "does not understand"),
        ({"query": "SELECT unit, unit FROM visits"}, ddpmi.SchemaError, "more than one column 'unit'"),
        ({}, InputError, "holds many tables"),
        ({"table": "visits", "query": "SELECT 1"}, InputError, "a table or a query"),
        ({"table": "visits", "conf": {"threads": "2"}}, InputError, "no setting 'threads'"),
        ({"table": "visits", "conf": {"work_mem": "lots"}}, InputError, "work_mem='lots'"),
        ({"table": "visits", "conf": {"stream": "maybe"}}, InputError, "yes or no"),
        ({"table": "visits", "where": "unit = 'u1'"}, InputError, "write it into the query"),
        ({"table": "visits", "encoding": "latin-1"}, InputError, "An encoding is for CSV"),
        ({"table": "visits", "engine": "spark"}, InputError, "engine='spark' cannot read"),
    ],
)
def test_what_cannot_be_read_is_refused(
    postgres: Server, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """Each mistake has its own sentence."""
    with pytest.raises(kind) as caught:
        ddpmi.observe(postgres.address(), **options)
    refused(caught.value, postgres, message)


def test_a_lock_and_a_slow_query_have_limits(postgres: Server) -> None:
    """A table that another session locks, and a query that takes too long, end with a sentence that says what to set."""
    held = ddpmi.observe(postgres.address(), table="visits", conf={"lock_timeout": "100ms"})
    with postgres.connected() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE visits IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(EngineError) as caught, held.open():
            pass
        cursor.execute("ROLLBACK")
    refused(caught.value, postgres, "holds a lock")
    slow = ddpmi.observe(postgres.address(), query=SLOW, conf={"statement_timeout": "200ms"})
    with pytest.raises(EngineError) as caught:
        ddpmi.exact(slow)
    refused(caught.value, postgres, "longer than statement_timeout")
    streamed = ddpmi.observe(postgres.address(), query=SLOW, conf={"statement_timeout": "200ms", "stream": "yes"})
    with pytest.raises(EngineError) as caught:
        ddpmi.exact(streamed)
    refused(caught.value, postgres, "longer than statement_timeout")


def test_an_error_of_a_row_does_not_show_it(postgres: Server) -> None:
    """The owner's query fails at one row, and the message does not quote it."""
    obs = ddpmi.observe(
        postgres.address(), query="SELECT unit, feature, CAST(CAST(label AS INTEGER) AS TEXT) AS label FROM visits"
    )
    with pytest.raises(EngineError) as caught:
        ddpmi.exact(obs)
    refused(caught.value, postgres, "Its message may quote rows")


def test_a_killed_session_fails_clearly_and_keeps_the_charge(
    postgres: Server, ledger: ddpmi.Ledger, tmp_path: Path
) -> None:
    """The server ends the session in the middle of a query: the charge stays, and no folder is left."""
    obs = ddpmi.observe(postgres.address(), query=SLOW)

    def kill() -> None:
        ask = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO ddpmi%'"
        for _ in range(200):
            time.sleep(0.05)
            # The rehearsal runs the same statements over made-up rows, and before the charge.
            if len(ledger.status("default").entries) and postgres.run(ask):
                return

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(EngineError) as caught:
        ddpmi.release(obs, PLAN, ledger=ledger, to=tmp_path / "x.release")
    killer.join()
    refused(caught.value, postgres, "connection to the server was lost")
    assert "the charge stays" in " ".join(caught.value.__notes__)
    assert [entry.state for entry in ledger.status("default").entries] == ["abandoned"]
    assert not (tmp_path / "x.release").exists()


def test_ctrl_c_cancels_the_query_in_the_server(postgres: Server) -> None:
    """After Ctrl-C no query of this program runs in the server."""
    program = (
        "import ddpmi, sys\n"
        "obs = ddpmi.observe(sys.argv[1], query=sys.argv[2])\n"
        "print('ready', flush=True)\n"
        "try:\n    ddpmi.exact(obs)\nexcept KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    ran = subprocess.Popen(
        [sys.executable, "-c", program, postgres.address(), SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.stdout.readline() == "ready\n"
    running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO ddpmi%' AND state = 'active'"
    while postgres.run(running) == [(0,)]:
        assert ran.poll() is None
        time.sleep(0.05)
    os.kill(ran.pid, signal.SIGINT)
    out, err = ran.communicate(timeout=60)
    assert (out, err) == ("interrupted\n", "")
    assert postgres.run(running) == [(0,)]


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("postgresql://ann:secret@host/db", True),
        ("postgresql://host/db?user=ann&password=secret", True),
        ("postgresql://ann:@host", True),
        ("postgresql://ann:se/cret@host", True),
        ("postgresql://ann:pw@[::1]:5432/db", True),
        ("postgresql://[::1]:5432/db", False),
        ("postgresql://a:5432,b:5433/db", False),
        ("postgresql://host:5432", False),
        ("postgresql://host:5432/db?application_name=a:b@c", False),
        ("postgresql://ann@host/db", False),
        ("postgresql:///?service=visits", False),
        ("data/a:b@c.parquet", False),
    ],
)
def test_passwords_in_addresses_are_found(address: str, *, found: bool) -> None:
    """The command line refuses an address with a password, and no other."""
    assert has_password(address) is found


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("53100", "disk is full"),
        ("53400", "limit for temporary files"),
        ("53200", "ran out of memory"),
        ("57P01", "shut down"),
        ("08006", "connection to the server was lost"),
        ("55P03", "holds a lock"),
        ("22P02", "SQLSTATE 22P02"),
    ],
)
def test_every_code_of_the_server_has_its_sentence(state: str, message: str) -> None:
    """The code alone decides what a user reads, also where an error comes as text from the middle of a stream."""
    errors = [
        OperationalError(f"{CANARY} 'secret'", status_code=9, sqlstate=state),
        OSError(f"{CANARY} SQLSTATE: {state}"),
    ]
    for error in errors:
        with pytest.raises(EngineError, match=message) as caught, own_errors("try"):
            raise error
        assert CANARY not in str(caught.value)
