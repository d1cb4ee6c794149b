"""``ddpmi exact``: exact sums, which are NOT PRIVATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpmi.cli import paths
from ddpmi.cli.options import BoundOptions, ColumnOptions, Data, NewFolder, ReadingOptions
from ddpmi.cli.output import Progress, example, say, warn_if_empty
from ddpmi.text import NOT_PRIVATE

if TYPE_CHECKING:
    from cyclopts import App


def exact(
    data: Data = None,
    /,
    *,
    output: NewFolder,
    columns: ColumnOptions = ColumnOptions(),  # noqa: B008 - a frozen value
    bounds: BoundOptions = BoundOptions(),  # noqa: B008
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008
) -> None:
    """Compute exact sums. NOT PRIVATE: for public data and for evaluation.

    Args:
        data: The rows.
        output: Folder to write. It must not exist.
        columns: Which column holds what.
        bounds: How much one unit may change. Nothing is bounded unless an option of this group is given.
        reading: How the data is read.
    """
    from ddpmi.curator.door import exact as sum_exactly

    checked = bounds.bounds(columns) if bounds.given() else None
    keywords = reading.keywords()
    obs = columns.observe(reading.data(data), **keywords)
    paths.check_new_folder(output)
    with Progress() as progress:
        found = sum_exactly(obs, bounds=checked, space=columns.space, to=output, progress=progress)
    say(f"{NOT_PRIVATE}: these are exact sums, and they may expose the people in the data.")
    pairs = found.tables.count("pairs")
    say(f"Wrote {pairs} pairs to {output}.")
    warn_if_empty(found, pairs)


def register(app: App) -> None:
    """Add the command."""
    app.command(
        exact,
        help_epilogue=example(
            "ddpmi exact abstracts.parquet --unit paper --feature word --label year -o abstracts.exact"
        ),
    )
