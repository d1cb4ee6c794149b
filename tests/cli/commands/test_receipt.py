"""`ddpmi receipt` prints what is in the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ddpmi.rankings import ranking

if TYPE_CHECKING:
    import pytest

    from tests.support.cli_fixtures import Place


def test_receipt(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt is printed for people, or as the JSON of the folder. The release is not ranked."""
    place.release()
    monkeypatch.setattr(ranking, "rank", None)
    text = place.run("receipt", "visits.release")
    assert (text.code, "epsilon=1, delta=1e-06" in text.out) == (0, True)
    printed = json.loads(place.run("receipt", "visits.release", "--format", "json").out)
    assert printed == json.loads(Path("visits.release/receipt.json").read_text(encoding="utf-8"))
