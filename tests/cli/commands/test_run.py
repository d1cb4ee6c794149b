"""`ddpmi run` releases, ranks and reports."""

from __future__ import annotations

import json
import shlex

from tests.support.cli_fixtures import BUDGET, PAIRS, Place, refused_clearly

RUN = ("run", "visits.csv", *BUDGET, *PAIRS, "--ledger", "visits.ledger")


def test_run_does_it_all(place: Place) -> None:
    """`run` releases, ranks and reports, prints the findings of each label, and how to see more."""
    ran = place.run("run", "visits.csv", *BUDGET, *PAIRS, *place.paid("visits.release"), "--top", "1")
    assert (ran.code, place.charges()) == (0, ["released"])
    assert {"visits.release", "visits.release.html"} <= place.names()
    assert "only north" in ran.out
    assert ran.out.splitlines()[-1].startswith("More: ddpmi rank visits.release or ddpmi rank visits.release --label ")
    more = ran.out.splitlines()[-1].removeprefix("More: ").split(" or ")
    for command in more:
        assert place.run(*shlex.split(command)[1:]).code == 0


def test_run_takes_another_page(place: Place) -> None:
    """--report names the page."""
    words = (*BUDGET, *PAIRS, *place.paid("visits.release"), "--report", "page.html")
    assert place.run("run", "visits.csv", *words).code == 0
    assert "page.html" in place.names()


def test_run_with_a_known_id_returns_the_release_and_writes_the_page_again(place: Place) -> None:
    """A retry charges nothing, writes the same page and exits 0."""
    words = (*RUN, "-o", "visits.release", "--release-id", "monday")
    first = place.run(*words)
    page = place.folder / "visits.release.html"
    before = page.read_text("utf-8")
    page.write_text(before + "<!-- cut short -->", "utf-8")
    again = place.run(*words)
    assert (first.code, again.code, again.out) == (0, 0, first.out)
    assert (page.read_text("utf-8"), place.charges()) == (before, ["released"])
    page.unlink()
    assert (place.run(*words).code, page.read_text("utf-8")) == (0, before)


def test_run_overwrites_no_other_page(place: Place) -> None:
    """A file that is no report stays, also for a known id; and so does a report without a known id."""
    words = (*RUN, "-o", "visits.release", "--release-id", "monday")
    assert place.run(*words).code == 0
    other = place.run(*RUN, "-o", "other.release", "--release-id", "new", "--report", "visits.release.html")
    assert (other.code, refused_clearly(other)) == (2, True)
    (place.folder / "visits.release.html").write_text("my notes")
    ran = place.run(*words)
    assert (ran.code, refused_clearly(ran), place.charges()) == (2, True, ["released"])
    assert (place.folder / "visits.release.html").read_text() == "my notes"


def test_a_known_id_with_another_folder_names_the_folder(place: Place) -> None:
    """The error says where the release was written, and nothing is charged."""
    assert place.run(*RUN, "-o", "visits.release", "--release-id", "monday").code == 0
    ran = place.run(*RUN, "-o", "other.release", "--release-id", "monday")
    assert (ran.code, refused_clearly(ran), place.charges()) == (1, True, ["released"])
    assert f"-o '{place.folder / 'visits.release'}'" in ran.err


def test_run_needs_an_epsilon_alone(place: Place) -> None:
    """Columns are recognised, delta is 1e-8, the only ledger of the folder is charged, and a look chooses the bounds."""
    ran = place.run("run", "visits.csv", "--epsilon", "1", "--top", "1")
    assert (ran.code, place.charges()) == (0, ["released", "released"])
    assert "delta=1e-08" in ran.out
    assert "only north" in ran.out
    assert "A private look found about" in ran.err
    assert {"visits.release", "visits.release.html"} <= place.names()
    assert place.run("run", "visits.csv", "--epsilon", "1").code == 0
    assert "visits-2.release" in place.names()


def test_run_without_a_ledger_says_which_lines_to_type(place: Place) -> None:
    """The two lines are a command that makes a ledger, and the same command again; both work."""
    for name in ("visits.ledger", "visits.ledger.head"):
        (place.folder / name).unlink(missing_ok=True)
    ran = place.run("run", "visits.csv", "--epsilon", "1")
    assert (ran.code, refused_clearly(ran)) == (2, True)
    lines = [line.split()[1:] for line in ran.err.splitlines() if line.startswith("    ddpmi ")]
    assert [line[0] for line in lines] == ["ledger", "run"]
    assert [place.run(*line).code for line in lines] == [0, 0]


def test_run_asks_which_of_several_ledgers(place: Place) -> None:
    """Two ledgers in the folder are two budgets, and none is chosen."""
    (place.folder / "other.ledger").write_bytes((place.folder / "visits.ledger").read_bytes())
    ran = place.run("run", "visits.csv", "--epsilon", "1")
    assert (ran.code, refused_clearly(ran), "other.ledger, visits.ledger" in ran.err) == (2, True, True)
    assert place.run("run", "visits.csv", "--epsilon", "1", "--ledger", "visits.ledger").code == 0


def test_run_prints_csv_and_json(place: Place) -> None:
    """--format prints the best pairs for other programs, and nothing else on stdout."""
    ran = place.run(*RUN, "-o", "a.release", "--format", "json", "--top", "1")
    assert {row["label"] for row in json.loads(ran.out)} == {"north", "south"}
    ran = place.run(*RUN, "-o", "b.release", "--format", "csv", "--top", "1")
    assert [line.split(",")[0] for line in ran.out.splitlines()] == ['"label"', '"north"', '"south"']


def test_an_id_names_the_folder(place: Place) -> None:
    """A retry finds its release without -o, also after a look."""
    words = ("run", "visits.csv", "--epsilon", "1", "--release-id", "monday")
    first, again = place.run(*words), place.run(*words)
    assert (first.code, again.code, again.out == first.out) == (0, 0, True)
    assert ("monday.release" in place.names(), place.charges()) == (True, ["released", "released"])


def test_columns_that_are_not_recognised_are_asked_for(place: Place) -> None:
    """The error lists the columns of the data, and nothing is charged."""
    place.write("odd.csv", [("a", "b", "c")], head="who,what,where")
    ran = place.run("run", "odd.csv", "--epsilon", "1")
    assert (ran.code, refused_clearly(ran), place.charges()) == (2, True, [])
    assert "'who', 'what', 'where'" in ran.err
    ran = place.run("run", "odd.csv", "--epsilon", "1", "--unit", "who", "--feature", "what")
    assert (ran.code, "none of 'who', 'what', 'where' is called 'label'" in ran.err) == (2, True)


def test_a_page_in_the_folder_of_the_release_is_refused(place: Place) -> None:
    """It could not be written after the charge, so nothing is charged."""
    for page in ("visits.release", "./visits.release", "x/../visits.release", "visits.release/page.html"):
        ran = place.run(*RUN, "-o", "visits.release", "--report", page)
        assert (ran.code, refused_clearly(ran), place.charges()) == (2, True, [])
    assert place.names() == {"visits.csv", "visits.ledger"}
