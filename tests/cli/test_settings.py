"""ddpmi.toml: what it fills in, what comes before it, and what it may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpmi.cli.options import BoundOptions, ColumnOptions, PrivacyOptions
from ddpmi.cli.settings import SETTINGS, Settings, read_settings
from ddpmi.errors import InputError
from tests.support.cli_fixtures import Place, refused_clearly

WHOLE = Settings(
    files=("visits 2026.csv", 'a"b\\c\x7f.csv'),
    columns={"unit": "user id", "feature": "site", "label": "country", "value": "minutes"},
    clip="100",
    delta="1e-9",
    ledger="visits.ledger",
)


def test_settings_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with quotes, backslashes and control characters come back; without a file nothing is set."""
    monkeypatch.chdir(tmp_path)
    assert read_settings() == Settings()
    WHOLE.save(Path(SETTINGS))
    assert read_settings() == WHOLE


def test_options_come_first() -> None:
    """A column, an expression or a delta that is given is kept; a value brings its clip."""
    filled = WHOLE.with_columns(ColumnOptions(unit="person", label_sql="year(seen)"))
    assert (filled.unit, filled.feature, filled.label, filled.value) == ("person", "site", None, "minutes")
    assert WHOLE.with_columns(ColumnOptions(space="units")).value is None
    counts = WHOLE.with_columns(ColumnOptions(count="n"))
    assert (counts.unit, counts.feature, counts.value) == (None, "site", None)
    assert WHOLE.with_clip(BoundOptions(), filled).clip == "100"
    assert WHOLE.with_clip(BoundOptions(clip="5"), filled).clip == "5"
    assert WHOLE.with_clip(BoundOptions(), ColumnOptions(value="other")).clip is None
    assert (WHOLE.with_delta(PrivacyOptions()).delta, WHOLE.with_delta(PrivacyOptions(delta="1e-6")).delta) == (
        "1e-9",
        "1e-6",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[dta]\nunit = 'a'", "'dta'"),
        ("[data]\nunits = 'a'", "'units'"),
        ("[data]\nunit = 3", "unit in ddpmi.toml must be a text"),
        ("[data]\nunit = ''", "not empty"),
        ("[data]\nfiles = 'a.csv'", "files in ddpmi.toml must be a list"),
        ("[data]\nfiles = [1]", "files in ddpmi.toml must be a list"),
        ("data = 3", "data in ddpmi.toml must be a table"),
        ("[privacy]\nepsilon = 1", "'epsilon'"),
        ("[ledger", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused(place: Place, text: str, said: str) -> None:
    """The message names the setting; nothing is read or charged."""
    (place.folder / SETTINGS).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        read_settings()
    ran = place.run("run", "visits.csv", "--epsilon", "1")
    assert (ran.code, refused_clearly(ran), place.charges()) == (2, True, [])


def test_commands_read_the_settings(place: Place) -> None:
    """With data, columns and ledger in the file, run needs an epsilon alone, and rank nothing."""
    place.write("odd.csv", [(f"u{n}", f"own-{n % 2}", n % 2) for n in range(4000)], head="who,what,where")
    columns = {"unit": "who", "feature": "what", "label": "where"}
    Settings(files=("odd.csv",), columns=columns, ledger="visits.ledger", delta="1e-7").save(Path(SETTINGS))
    ran = place.run("run", "--epsilon", "1", "--top", "1")
    assert (ran.code, place.charges()) == (0, ["released", "released"])
    assert {"odd.release", "odd.release.html"} <= place.names()
    assert "delta=1e-07" in ran.out
    ranked = place.run("rank", "--top", "1")
    assert (ranked.code, "own-0" in ranked.out) == (0, True)
    assert "Ranking" in ranked.err
    assert place.run("plan", "--epsilon", "1").code == 0
    assert place.run("release", "--epsilon", "0.5").code == 0
    assert "odd-2.release" in place.names()
    # A misspelt column in the file is noticed before anything is charged.
    (place.folder / SETTINGS).write_text(
        "[data]\nfiles = ['odd.csv']\nunit = 'woh'\nfeature = 'what'\nlabel = 'where'\n"
    )
    wrong = place.run("run", "--epsilon", "1")
    assert (wrong.code, "Did you mean 'who'?" in wrong.err, len(place.charges())) == (2, True, 4)
