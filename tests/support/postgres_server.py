"""A PostgreSQL server of its own for tests: on the loopback address, in a temporary folder, with a random password."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

#: Where Debian puts the programs of a server, newest first.
DEBIAN = Path("/usr/lib/postgresql")
#: Nothing here survives a crash of the machine, and nothing needs to.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "log_statement": "all",
    "log_parameter_max_length": "-1",
    "log_parameter_max_length_on_error": "-1",
    "log_min_error_statement": "debug5",
    "max_connections": "30",
    "lc_messages": "C",
}


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server, its superuser and its log."""

    port: int
    password: str
    folder: Path
    programs: Path

    def address(self, user: str = "postgres", database: str = "postgres", password: str | None = None) -> str:
        secret = self.password if password is None else password
        return f"postgresql://{user}:{secret}@127.0.0.1:{self.port}/{database}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements as the superuser, and return the rows of the last one."""
        with self.connected(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def connected(self, database: str = "postgres") -> Iterator[Any]:
        from adbc_driver_postgresql import dbapi

        with contextlib.closing(dbapi.connect(self.address(database=database), autocommit=True)) as connection:
            yield connection

    def fill(self, name: str, table: pa.Table) -> None:
        """Replace a table."""
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="replace")

    def control(self, *arguments: str) -> None:
        _as_user([str(self.programs / "pg_ctl"), "-D", str(self.folder / "data"), "-w", *arguments])

    def start(self) -> None:
        settings = SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self.control("-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        self.control("-m", "fast", "stop")


def _programs() -> Path:
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]), reverse=True)
    if found:
        return found[0].parent
    known = shutil.which("initdb")
    if known is None:
        pytest.skip("a test server needs PostgreSQL's initdb: apt-get install postgresql")
    return Path(known).parent


def _user() -> str | None:
    """The server refuses to run as root, so it runs as a user without rights."""
    return None if os.geteuid() else next(name for name in ("postgres", "nobody") if _exists(name))


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _as_user(command: list[str]) -> None:
    user = _user()
    # Without PG* variables of the caller, and with output to nowhere: a server that stays would keep a pipe open.
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    subprocess.run(
        command, check=True, user=user, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session", name="postgres")
def make_postgres() -> Iterator[Server]:
    """Start a server once for all tests of this process."""
    pytest.importorskip("adbc_driver_postgresql", reason="pip install 'ddpmi[postgres]'")
    # Not in pytest's folder, which other users may not enter: the server runs as one.
    with tempfile.TemporaryDirectory(prefix="ddpmi-postgres-") as made:
        yield from _served(Path(made))


def _served(folder: Path) -> Iterator[Server]:
    server = Server(port=_free_port(), password=secrets.token_hex(8), folder=folder, programs=_programs())
    if user := _user():
        shutil.chown(folder, user)
    secret = folder / "password"
    secret.write_text(server.password)
    secret.chmod(0o644)
    flags = ["-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8", "--locale", "C.UTF-8"]
    _as_user([str(server.programs / "initdb"), "-D", str(folder / "data"), "--no-sync", *flags])
    secret.unlink()
    server.start()
    try:
        yield server
    finally:
        server.stop()
