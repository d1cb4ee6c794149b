"""Fixtures that tests of several commands ask for by name."""

from __future__ import annotations

from tests.support.cli_fixtures import make_lists, make_pair, make_seen, make_two_releases  # noqa: F401
