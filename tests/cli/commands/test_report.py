"""`ddpmi report` writes the page of the library."""

from __future__ import annotations

from pathlib import Path

import pytest

import ddpmi
from ddpmi.releases.release import Release
from tests.support.cli_fixtures import Place, refused_clearly


def test_report(pair: Place) -> None:
    """The page is that of the library, stamped on stderr too."""
    ran = pair.run("report", "a", "-o", "page.html", "--top", "3", "--title", "Drinks <by> day")
    assert (ran.code, ran.out, "NOT PRIVATE" in ran.err) == (0, "", True)
    ddpmi.report(ddpmi.rank(Release.load("a")), "other.html", top=3, title="Drinks <by> day")
    assert Path("page.html").read_bytes() == Path("other.html").read_bytes()


@pytest.mark.parametrize(
    "words",
    [("-o", "visits.csv"), ("-o", "no/page.html"), ("-o", "new.html", "--top", "0"), ("-o", "x", "--top", "101")],
)
def test_report_refuses(pair: Place, words: tuple[str, ...]) -> None:
    """A taken name, a missing folder and more rows than a page shows end with exit 2 and write nothing."""
    before = pair.names()
    ran = pair.run("report", "a", *words)
    assert (ran.code, refused_clearly(ran), pair.names()) == (2, True, before), ran.err
