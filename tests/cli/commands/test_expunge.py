"""`ddpmi expunge` removes a release and never gives its budget back."""

from __future__ import annotations

from tests.support.cli_fixtures import Place, refused_clearly


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
