"""Names of steps in the text of a step, replaced by the names of an engine's own tables and views."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

#: Finds where the text of a step reads another step; quoted names and texts are skipped.
_READ = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^']*'|(?P<verb>FROM|JOIN) (?P<name>\w+)(?P<alias> AS \w+)?")


def renamed(sql: str, prefix: str, names: Container[str]) -> str:
    """Put a prefix before the names of steps where they are read, and keep the old name as the alias.

    Args:
        sql: The text of a step.
        prefix: Begins the name of each table and view of the engine.
        names: The steps that the engine holds.

    >>> renamed("SELECT * FROM pairs JOIN units AS u ON x = 'FROM pairs'", "t1_", {"pairs", "units"})
    "SELECT * FROM t1_pairs AS pairs JOIN t1_units AS u ON x = 'FROM pairs'"
    """

    def replaced(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or name not in names:
            return found[0]
        return f"{found['verb']} {prefix}{name}{found['alias'] or f' AS {name}'}"

    return _READ.sub(replaced, sql)
