"""``ddpmi segment``: a rule for the units of a label, from a release; and, for the owner alone, the units that meet it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - the command line reads these hints when it runs
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ddpmi.cli import paths
from ddpmi.cli.options import ReleaseFolder, settings_of
from ddpmi.cli.output import Progress, example, put, say
from ddpmi.errors import InputError
from ddpmi.text import write_new

if TYPE_CHECKING:
    from cyclopts import App

    from ddpmi.applications.segments import Segment
    from ddpmi.curator.observations import Observations


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """Which features make the rule."""

    label: Annotated[str, Parameter(metavar="NAME")]
    """Label of the segment, for example a country, or seed."""
    top: Annotated[int, Parameter(metavar="N")] = 20
    """Features of the rule: the best ones of the label by presence."""
    at_least: Annotated[int, Parameter(metavar="N")] = 3
    """How many different ones of them a unit must show."""
    clear: bool = False
    """Leave out features that are not clear of the noise."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Where the rows are: for the text of the rule, and for --members."""

    unit: Annotated[str | None, Parameter(name=["--unit", "--id"], metavar="NAME")] = None
    """Column of the unit. The default is unit in the rule's text; for --members a column called unit or id."""
    feature: Annotated[str | None, Parameter(metavar="NAME")] = None
    """Column of the features. The default is feature."""
    source: Annotated[str, Parameter(name="--from", metavar="TABLE")] = "rows"
    """Table in the rule's text, for example shop.visits."""
    dialect: Literal["duckdb", "spark"] = "duckdb"
    """Spelling of the rule's text: standard SQL as DuckDB and PostgreSQL read it, or Spark's."""
    members: Annotated[tuple[str, ...], Parameter(metavar="DATA", show_default=False)] = ()
    """Data whose units are tested: files, folders or globs. Their ids are written to FILE. NOT PRIVATE. May be repeated."""
    where: Annotated[str | None, Parameter(metavar="SQL")] = None
    """For --members: keep only the rows for which this expression is true."""
    encoding: Annotated[str | None, Parameter(metavar="NAME")] = None
    """For --members: text encoding of CSV and JSON lines files. The default is utf-8."""
    conf: Annotated[tuple[str, ...], Parameter(metavar="KEY=VALUE", show_default=False)] = ()
    """For --members: setting of the engine, for example threads=2. May be repeated."""

    def text(self, rule: Segment) -> str:
        """Return the rule as SQL."""
        from ddpmi.pipeline.dialects import DUCKDB, SPARK

        return rule.to_sql(
            table=self.source,
            unit=self.unit or "unit",
            feature=self.feature or "feature",
            dialect=SPARK if self.dialect == "spark" else DUCKDB,
        )

    def observe(self) -> Observations:
        """Observe the data of --members: read the schema and no row."""
        from ddpmi.curator.observations import observe

        return observe(
            list(self.members),
            unit=self.unit,
            feature=self.feature,
            where=self.where,
            encoding=self.encoding,
            conf=settings_of("--conf", self.conf, "threads=2"),
        )

    def check(self) -> None:
        """Refuse options that only --members reads, without it."""
        for option, given in (("--where", self.where), ("--encoding", self.encoding), ("--conf", self.conf)):
            if given and not self.members:
                raise InputError(f"{option} is for --members, which was not given.", hint=f"leave {option} out")


def segment(
    folder: ReleaseFolder,
    /,
    *,
    rule: RuleOptions,
    place: PlaceOptions = PlaceOptions(),
    format: Literal["sql", "json"] | None = None,  # noqa: A002 - the option's name
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], metavar="FILE")] = None,
) -> None:
    """Write the rule of a segment: units that show enough of a label's best features. Free, and as private as the release.

    With --members the units of DATA that meet the rule are written to FILE. That file is NOT PRIVATE: it names units, and no
    budget covers it. Keep it where the data is.

    Args:
        folder: The release.
        rule: Which features make the rule.
        place: Where the rows are.
        format: Write the rule as SQL (the default), or as JSON.
        output: File to write instead of printing. It must not exist. With --members: Parquet file of ids.
    """
    from ddpmi.applications.segments import segment as made_of
    from ddpmi.releases.release import Release

    place.check()
    if place.members and (output is None or format is not None):
        raise InputError("--members needs -o, and takes no --format.", hint="-o ids.parquet")
    if output is not None:
        paths.check_new_file(output)
    found = made_of(Release.load(folder), label=rule.label, top=rule.top, at_least=rule.at_least, clear=rule.clear)
    if found.unclear:
        say(f"{found.unclear} of {len(found.features)} features are not clear of the noise: --clear leaves them out.")
    if place.members and output is not None:
        _write_members(found, place, output)
        return
    text = found.to_json() if format == "json" else place.text(found) + ";\n"
    if output is None:
        put(text)
    else:
        write_new(output, lambda draft: _write_text(draft, text))
        say(f"Wrote the rule {output}.")


def _write_members(found: Segment, place: PlaceOptions, output: Path) -> None:
    from ddpmi.applications.segments import MEMBERS_NOTICE

    obs = place.observe()
    with Progress() as progress:
        found.members(obs, to=output, progress=progress)
    say(f"Wrote {output}. {MEMBERS_NOTICE}")


def _write_text(draft: Path, text: str) -> None:
    draft.write_bytes(text.encode("utf-8"))


def register(app: App) -> None:
    """Add the command."""
    app.command(
        segment,
        help_epilogue=example(
            "ddpmi segment devices.release --label teacher --top 20 --at-least 3 --from devices --unit device --feature app",
            "ddpmi segment devices.release --label teacher --members devices.parquet -o teachers.parquet",
        ),
    )
