"""`ddpmi expunge` removes a release and never gives its budget back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from tests.support.cli_fixtures import Place, refused_clearly
from tests.support.edits import write_receipt


def test_expunge_removes_the_folder_and_keeps_the_charge(place: Place) -> None:
    """The release is gone, its entry is not, and its id is never drawn again."""
    assert place.release("--release-id", "monday").code == 0
    ran = place.run("expunge", "visits.release")
    assert (ran.code, (place.folder / "visits.release").exists()) == (0, False)
    assert "charge stays" in ran.err
    assert place.charges() == ["released"]
    assert place.release("--release-id", "monday").code != 0
    assert place.run("expunge", "visits.release").code == 2


def test_expunge_marks_the_entry(place: Place) -> None:
    """With --ledger the removal is recorded there. Another ledger is refused before anything is removed."""
    assert place.release().code == 0
    assert place.run("ledger", "create", "other.ledger", "--epsilon", "1", "--delta", "1e-6").code == 0
    ran = place.run("expunge", "visits.release", "--ledger", "other.ledger")
    assert (ran.code, refused_clearly(ran), (place.folder / "visits.release").exists()) == (2, True, True)
    assert place.run("expunge", "visits.release", "--ledger", "visits.ledger").code == 0
    assert ((place.folder / "visits.release").exists(), place.charges()) == (False, ["expunged"])
    assert place.run("ledger", "verify", "visits.ledger").code == 0


def test_expunge_removes_what_the_release_wrote_and_nothing_else(place: Place) -> None:
    """A folder with a file of the user is left alone, whole; without it, the release is removed."""
    assert place.release().code == 0
    mine = place.folder / "visits.release" / "pairs" / "notes.txt"
    mine.write_text("mine")
    before = sorted(path.name for path in (place.folder / "visits.release").rglob("*"))
    ran = place.run("expunge", "visits.release")
    assert (ran.code, refused_clearly(ran), "notes.txt" in ran.err) == (1, True, True)
    assert sorted(path.name for path in (place.folder / "visits.release").rglob("*")) == before
    mine.unlink()
    assert (place.run("expunge", "visits.release").code, (place.folder / "visits.release").exists()) == (0, False)


def test_expunge_follows_no_link(place: Place) -> None:
    """A link to a release is not the release: neither is removed."""
    assert place.release().code == 0
    (place.folder / "link").symlink_to("visits.release")
    ran = place.run("expunge", "link")
    assert (ran.code, refused_clearly(ran)) == (1, True)
    assert (place.folder / "visits.release" / "receipt.json").exists()


def test_expunge_older_than(place: Place) -> None:
    """Only releases past the age are removed; several folders may be named."""
    for name in ("old", "new"):
        assert place.release(output=name).code == 0
    kept = json.loads((place.folder / "old" / "receipt.json").read_text("utf-8"))
    made = datetime.now(UTC) - timedelta(days=91)
    write_receipt(place.folder / "old", kept | {"created": made.isoformat(timespec="seconds")})
    ran = place.run("expunge", "old", "new", "--older-than", "90d", "--ledger", "visits.ledger")
    assert (ran.code, (place.folder / "old").exists(), (place.folder / "new").exists()) == (0, False, True), ran.err
    assert ("Kept the release" in ran.err, place.charges()) == (True, ["expunged", "released"])
    wrong = place.run("expunge", "new", "--older-than", "soon")
    assert (wrong.code, refused_clearly(wrong), (place.folder / "new").exists()) == (2, True, True)
