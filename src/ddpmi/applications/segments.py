"""Segments: the units that show enough of the features that a release found for a label.

The rule comes from released numbers alone: it is as private as the release, and free. Who meets the rule is read from the rows,
and is not private at all.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpmi.errors import Hint, InputError, check_count
from ddpmi.pipeline.bounds import key_list
from ddpmi.pipeline.dialects import DUCKDB
from ddpmi.pipeline.seeds import SEED, check_reachable
from ddpmi.rankings.ranking import rank
from ddpmi.releases.release import Release
from ddpmi.text import NOT_PRIVATE, printable, write_new

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from ddpmi._typing import Progress, Target
    from ddpmi.curator.observations import Observations
    from ddpmi.pipeline.dialects import Dialect
    from ddpmi.rankings.ranking import Ranking

MEMBERS_NOTICE = f"{NOT_PRIVATE}: this file names units of the data. It is no release, and no budget covers it."
"""What a file of members says of itself."""
_RECEIPT = "receipt.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A rule: a unit belongs to the segment if it shows at least a number of these features.

    >>> Segment(features=("smartink", "gradebook"), at_least=2, label="teacher").at_least
    2
    """

    features: tuple[str, ...]
    """The features, best first."""
    at_least: int
    """How many different ones of them a unit must show."""
    label: str
    """The label whose features these are."""
    dataset: str = "default"
    """The dataset of the release."""
    release_id: str | None = None
    """The release; None where a ranking was given."""
    private: bool = True
    """Whether the features come from a private release."""
    guarantee: Mapping[str, Any] | None = None
    """What the release promises."""
    unclear: int = 0
    """How many of the features are not clear of the noise."""

    def __post_init__(self) -> None:
        key_list(self.features, "feature")
        check_count("at_least", self.at_least)
        check_reachable(self.at_least, len(self.features))

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        found = asdict(self)
        return found | {
            "features": list(self.features),
            "guarantee": None if self.guarantee is None else dict(self.guarantee),
        }

    def to_json(self) -> str:
        """Return the rule as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_sql(
        self, *, table: str = "rows", unit: str = "unit", feature: str = "feature", dialect: Dialect = DUCKDB
    ) -> str:
        """Return the rule as a SELECT of units, for the owner's own database.

        Args:
            table: The table of rows; parts of its name are parted by dots.
            unit: The column of the unit.
            feature: The column of the feature.
            dialect: How the database spells names and text.

        >>> segment = Segment(features=("smartink", "it's"), at_least=2, label="teacher")
        >>> print(segment.to_sql(table="devices", unit="device", feature="app"))
        -- Units that show at least 2 of 2 features of the label teacher.
        SELECT "device" AS unit
        FROM "devices"
        WHERE CAST("app" AS VARCHAR) IN (
            'smartink',
            'it''s'
        )
        GROUP BY "device"
        HAVING COUNT(DISTINCT CAST("app" AS VARCHAR)) >= 2
        """
        for name, given in (("table", table), ("unit", unit), ("feature", feature)):
            if not isinstance(given, str) or not given:
                raise InputError(f"{name} must be a name, got {given!r}.", hint=f"{name}='...'")
        shown, key = dialect.as_text(dialect.quote(feature)), dialect.quote(unit)
        listed = ",\n".join(f"    {dialect.literal(name)}" for name in self.features)
        place = ".".join(dialect.quote(part) for part in table.split("."))
        return (
            f"-- Units that show at least {self.at_least} of {len(self.features)} features of the label {_plain(self.label)}.\n"
            f"SELECT {key} AS unit\nFROM {place}\nWHERE {shown} IN (\n{listed}\n)\n"
            f"GROUP BY {key}\nHAVING COUNT(DISTINCT {shown}) >= {self.at_least}"
        )

    def members(self, obs: Observations, *, to: Target, progress: Progress | None = None) -> Path:
        """Write the units that meet the rule. NOT PRIVATE: for the owner of the data, and for nobody else.

        No budget is spent, because nothing is promised: the file names units. It is readable by its owner alone, and says what
        it is in its metadata. It is never written into the folder of a release.

        Args:
            obs: The data, from `observe`. Its label, if any, is not read.
            to: The Parquet file to write.
            progress: Called with the name of the stage and its fraction done, or None.

        Returns:
            The path of the file.
        """
        place = _checked(Path(to))
        labelled = obs.label_by(feature=self.features, at_least=self.at_least, keep_seed=True)
        with labelled.open() as engine:
            if progress is not None:
                progress("find the members", None)
            engine.run(labelled.rows(engine))
            found = engine.batches(f"SELECT unit FROM rows WHERE label = '{SEED}' GROUP BY unit")
            return write_new(place, lambda draft: _write(found, draft))


def segment(found: Release | Ranking, *, label: str, top: int = 20, at_least: int = 3, clear: bool = False) -> Segment:
    """Make a rule from the features that set a label apart by presence. Free.

    Args:
        found: A release, or a ranking of one.
        label: The label.
        top: How many of its best features.
        at_least: How many different ones of them a unit must show.
        clear: Leave out features that are not clear of the noise.

    Raises:
        InputError: The label is not in the release, or it has too few such features.
    """
    check_count("top", top)
    check_count("at_least", at_least)
    release = found if isinstance(found, Release) else None
    ranking = rank(found) if isinstance(found, Release) else found
    rows = [row for row in ranking.top(top, per="label", direction="presence").to_dicts() if row["label"] == label]
    if not rows:
        raise InputError(
            f"The ranking has no feature that is more frequent with the label {label!r} than without it.",
            hint=Hint(do="name a label of the ranking", python="ranking.top(3, per='label')", cli="ddpmi rank DIR"),
        )
    kept = [row for row in rows if row["clear"] or not clear]
    if len(kept) < at_least:
        raise InputError(
            f"The label {label!r} has {len(kept)} {'clear ' if clear else ''}features, and {at_least} are needed.",
            hint=f"at_least={max(1, len(kept))}, or a larger top",
        )
    return Segment(
        features=tuple(str(row["feature"]) for row in kept),
        at_least=at_least,
        label=label,
        dataset=ranking.dataset,
        release_id=None if release is None else release.release_id,
        private=ranking.private,
        guarantee=ranking.guarantee,
        unclear=sum(not row["clear"] for row in kept),
    )


def _plain(name: str) -> str:
    """Return a name that cannot end a comment of SQL."""
    return printable(name)


def _checked(place: Path) -> Path:
    """Refuse a place that exists, that is no Parquet file, or that is inside a release."""
    if place.suffix.lower() != ".parquet":
        raise InputError(f"Members are written as Parquet, got the name {place.name!r}.", hint="ids.parquet")
    inside = next((parent for parent in place.absolute().parents if (parent / _RECEIPT).exists()), None)
    if inside is not None:
        raise InputError(
            f"{inside.name} is a release, which may be shown to others. Names of units do not belong there.",
            hint="choose another folder",
        )
    if place.exists():
        raise InputError(f"{place.name} exists already.", hint="choose another name, or remove it first")
    return place


def _write(batches: Iterator[pa.RecordBatch], draft: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    draft.touch(mode=0o600)
    writer: pq.ParquetWriter | None = None
    stamp = {"notice": MEMBERS_NOTICE}
    for batch in batches:
        if writer is None:
            writer = pq.ParquetWriter(draft, batch.schema.with_metadata(stamp), compression="zstd")
        writer.write_table(pa.Table.from_batches([batch]).replace_schema_metadata(stamp))
    if writer is None:
        pq.write_table(pa.schema([("unit", pa.string())], metadata=stamp).empty_table(), draft)
        return
    writer.close()
