"""What a known mistake of privacy code is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One changed line, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str
