"""The file of settings in the current folder, ``ddpmi.toml``: data, columns, ledger and delta that need not be typed again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.errors import InputError
from ddpmi.text import read_toml, write_new

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.cli.options import BoundOptions, ColumnOptions, PrivacyOptions

SETTINGS = "ddpmi.toml"
"""The name of the file."""
ROLES = ("unit", "feature", "label", "value")
"""The roles that a file may name columns for."""
_KNOWN = {
    "data": ("files", *ROLES, "clip"),
    "privacy": ("delta",),
    "ledger": ("file", "expect_head"),
}
_EXAMPLE = "ddpmi init visits.csv writes such a file: [data] unit = 'user_id', [ledger] file = 'visits.ledger'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the file says. An option of the command line comes before it.

    >>> Settings(columns={"unit": "user_id"}).columns
    {'unit': 'user_id'}
    """

    files: tuple[str, ...] = ()
    """The data, where a command names none."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Role -> column."""
    clip: str | None = None
    """The largest value of one pair, where there is a value."""
    delta: str | None = None
    """The delta of a release."""
    ledger: str | None = None
    """The ledger."""
    expect_head: str | None = None
    """A head that the ledger must contain."""

    def with_columns(self, options: ColumnOptions) -> ColumnOptions:
        """Fill in the columns that were not given."""
        wanted = ["feature", "label"] if options.count is not None else list(ROLES)
        if options.space == "units" and "value" in wanted:
            wanted.remove("value")
        given = {role for role in ROLES if getattr(options, role) is not None}
        given |= {role for role in ROLES if getattr(options, f"{role}_sql") is not None}
        filled: dict[str, Any] = {role: name for role, name in self.columns.items() if role in {*wanted} - given}
        return replace(options, **filled)

    def with_clip(self, bounds: BoundOptions, columns: ColumnOptions) -> BoundOptions:
        """Fill in the clip of the value of the settings, if that is the value in use."""
        same = columns.value is not None and columns.value == self.columns.get("value")
        return replace(bounds, clip=self.clip) if same and bounds.clip is None else bounds

    def with_delta(self, privacy: PrivacyOptions) -> PrivacyOptions:
        """Fill in the delta if none was given."""
        return privacy if privacy.delta is not None or self.delta is None else replace(privacy, delta=self.delta)

    def head_of(self, ledger: Path) -> str | None:
        """Return the head that the file keeps for a ledger, if any."""
        from ddpmi.ledger.heads import Head

        if self.expect_head is None:
            return None
        head = str(Head.read(self.expect_head))
        return head if self.ledger is None or os.path.realpath(self.ledger) == os.path.realpath(ledger) else None

    def to_toml(self) -> str:
        """Write the settings as TOML.

        >>> print(Settings(columns={"unit": "user_id"}, ledger="visits.ledger").to_toml(), end="")
        [data]
        unit = "user_id"
        <BLANKLINE>
        [ledger]
        file = "visits.ledger"
        """
        parts: dict[str, dict[str, Any]] = {
            "data": {"files": list(self.files), **self.columns, "clip": self.clip},
            "privacy": {"delta": self.delta},
            "ledger": {"file": self.ledger, "expect_head": self.expect_head},
        }
        texts = []
        for name, values in parts.items():
            lines = [f"{key} = {_toml(value)}" for key, value in values.items() if value]
            if lines:
                texts.append("\n".join([f"[{name}]", *lines]) + "\n")
        return "\n".join(texts)

    def save(self, file: Path) -> Path:
        """Write a new file."""
        return write_new(file, lambda place: _write(place, self.to_toml()))


def _write(place: Path, text: str) -> None:
    place.write_text(text, encoding="utf-8")


def _toml(value: str | list[str]) -> str:
    """Write a text, or a list of texts, for TOML. Its escapes are those of JSON, and DEL needs one too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_settings() -> Settings:
    """Read ``ddpmi.toml`` in the current folder; without the file nothing is set.

    Raises:
        InputError: The file is not valid; the message names the setting.
    """
    file = Path(SETTINGS)
    if not os.path.lexists(file):
        return Settings()
    given = read_toml(file, what="The file of settings")
    if unknown := sorted(set(given) - set(_KNOWN)):
        raise InputError(f"There is no setting {unknown[0]!r} in {SETTINGS}.", hint=_EXAMPLE)
    parts = {name: _part(name, given.get(name, {})) for name in _KNOWN}
    data, ledger = parts["data"], parts["ledger"]
    return Settings(
        files=tuple(data.get("files", ())),
        columns={role: data[role] for role in ROLES if role in data},
        clip=data.get("clip"),
        delta=parts["privacy"].get("delta"),
        ledger=ledger.get("file"),
        expect_head=ledger.get("expect_head"),
    )


def _part(name: str, given: Any) -> dict[str, Any]:
    """Check one table of the file. All its values are texts, and the files are a list of texts."""
    if not isinstance(given, dict):
        raise InputError(f"{name} in {SETTINGS} must be a table.", hint=f"[{name}]")
    if unknown := sorted(set(given) - set(_KNOWN[name])):
        raise InputError(f"There is no setting {unknown[0]!r} in {SETTINGS}.", hint=_EXAMPLE)
    for key, value in given.items():
        texts = value if key == "files" and isinstance(value, list) else [value]
        if not all(isinstance(text, str) and text for text in texts) or (key == "files" and texts != value):
            kind = "a list of texts" if key == "files" else "a text"
            raise InputError(f"{key} in {SETTINGS} must be {kind}, and not empty.", hint=_EXAMPLE)
    return given
