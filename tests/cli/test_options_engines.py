"""The options that choose an engine and its data."""

from __future__ import annotations

import pytest

from tests.support.cli_fixtures import BUDGET, PAIRS, Place, refused_clearly
from tests.support.spark_local import need_spark

SPARK = ("--engine", "spark")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--master", "local[2]"), "--master is for Spark"),
        (("--table", "visits"), "the data is no database"),
        (("--query", "SELECT 1"), "the data is no database"),
        ((*SPARK, "--query", "SELECT 1"), "--query is for databases"),
        ((*SPARK, "--table", "visits", "--master", ""), "both given"),
        ((*SPARK, "--master", "local[2]", "--conf", "master=local[2]"), "both given"),
        ((*SPARK, "--conf", "threads=2"), "no setting 'threads'"),
        (("--conf", "spark.driver.memory=1g"), "spark.driver.memory"),
    ],
)
def test_options_that_contradict_are_refused(place: Place, words: tuple[str, ...], message: str) -> None:
    """Nothing is charged, and the message names what is wrong."""
    if SPARK[0] in words:
        need_spark()
    ran = place.release(*words)
    assert (ran.code, message in ran.err, refused_clearly(ran)) == (2, True, True), ran.err
    assert place.charges() == []


@pytest.mark.parametrize("command", ["release", "run", "exact"])
def test_data_or_a_table_is_needed(place: Place, command: str) -> None:
    """A command without data says what to name."""
    paid = ("-o", "x") if command == "exact" else (*BUDGET, *PAIRS, *place.paid("x"))
    ran = place.run(command, *paid)
    assert (ran.code, "There is no DATA" in ran.err, refused_clearly(ran)) == (2, True, True)
