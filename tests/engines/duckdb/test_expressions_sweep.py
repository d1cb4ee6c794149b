"""The sweep of expressions over hostile cells: a part of it always, all of it among the long counts."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pytest

from ddpmi.engines.duckdb.expressions import FUNCTIONS, MACROS

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "claims"))
import expression_worker
import expressions as sweep

#: Names whose forms run in every test run: short ones from each group, and all that need a constant.
QUICK = {"time_bucket", "lpad", "make_date", "unhex", "isoyear", "chr"}


def test_every_listed_function_is_scalar_and_consistent_in_the_catalog() -> None:
    """A name of the list that the engine does not know, or knows as something else too, was not swept."""
    known = duckdb.sql("""SELECT function_name FROM duckdb_functions() WHERE function_type <> 'pragma'
        GROUP BY function_name HAVING bool_and(function_type = 'scalar' AND stability = 'CONSISTENT')""").fetchall()
    assert {str(name).lower() for (name,) in known} >= FUNCTIONS - MACROS
    macros = duckdb.sql("SELECT function_name FROM duckdb_functions() WHERE function_type = 'macro'").fetchall()
    assert {name for (name,) in macros} | {"if", "nullif"} >= MACROS


def test_every_listed_function_has_a_form_in_the_sweep() -> None:
    """What an expression may call is what is swept."""
    swept = {form["name"] for form in [*sweep.of_functions(), *sweep.of_syntax()]}
    assert swept >= FUNCTIONS


def test_no_short_form_is_broken_by_a_cell() -> None:
    """The quick part: hostile columns and constants raise nothing through TRY, and nothing grows."""
    worker = expression_worker.Worker()
    outcomes = {}
    for given in sweep.of_functions():
        if given["name"] in QUICK:
            outcomes[given["name"]] = expression_worker.check(worker, expression_worker.Form(**given), long=False)
    assert set(outcomes) == QUICK


def test_no_short_composition_is_broken_by_a_cell() -> None:
    """Compositions of several steps, some of them repeated."""
    worker = expression_worker.Worker()
    forms = [expression_worker.Form(**given) for given in sweep.of_compositions(60)]
    outcomes = [expression_worker.check(worker, form, long=False) for form in forms]
    assert {"passed", "refused"} == set(outcomes)


def test_the_sweep_finds_what_a_cell_breaks() -> None:
    """Without the list, the form that started all this is found."""
    form = expression_worker.Form(
        name="timezone", text="timezone({0}, {1})", types=["VARCHAR", "TIMESTAMP"], constants={}, checked=False
    )
    with pytest.raises(expression_worker.Failed, match="NotImplemented"):
        expression_worker.check(expression_worker.Worker(), form, long=False)


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_no_form_is_broken_by_a_cell() -> None:
    """Every overload, operator and cast, with cells of a megabyte too."""
    forms = [*sweep.of_functions(), *sweep.of_syntax(), *sweep.of_casts()]
    forms += sweep.of_compositions()
    assert [answer for answer in sweep.sweep(forms) if answer["outcome"] == "failed"] == []
