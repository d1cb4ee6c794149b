"""SQL that bounds the contributions of each unit.

In: ``rows`` (unit, feature, label[, value]), keys not NULL. Out: ``bounded`` (unit, feature, label, x), x a positive
integer. A unit's contributions depend only on that unit's rows and the salt, and satisfy the bound that `Bounding` declares.
Rows of counts have no unit: one row counts many units of one pair each.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Literal

from ddpmi.pipeline.steps import Step
from ddpmi.privacy.accounting import coin_bound

if TYPE_CHECKING:
    from ddpmi.pipeline.bounds import Bounds
    from ddpmi.pipeline.dialects import Dialect

Norm = Literal["l1", "l2"]
Distinct = Literal[False, True, "units"]

#: A double has 53 bits and the weight takes four operations, so 2^-40 is more than their rounding error.
_MARGIN = 1 - 2.0**-40
#: Larger rounded values are not exact in a double. Only public data without a clip can have such values.
_LARGEST_LEVEL = 2**52


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounding:
    """Everything that the SQL needs to know about the bound of one unit's contributions."""

    bounds: Bounds | None
    """The declared bounds; None means no bound, for public data."""
    norm: Norm = "l1"
    """The norm of a unit's contributions that is bounded: l1 for Laplace noise, l2 for Gaussian noise."""
    g: int = 0
    """Weights are integers up to 2^g."""
    distinct: Distinct = False
    """True: rows are distinct per (unit, feature, label). "units": at most one row per unit."""
    valued: bool = False
    """Whether rows have a value."""
    step: Fraction = Fraction(1)
    """The grid of values."""
    public: tuple[str, ...] = ()
    """Keys with a public list, of feature and label; rows with other keys are dropped before anything is counted."""
    counted: bool = False
    """Whether rows are counts (feature, label, value) of units with one row each."""
    sample_rate: Fraction | None = None
    """The probability that a unit takes part; None means that every unit does."""
    rounds: int = 0
    """Rounds of a private set union; rows with features that it did not release are dropped before anything is counted."""

    @property
    def one_pair(self) -> bool:
        """Whether no unit can have more than one pair."""
        return self.counted or self.distinct == "units"

    @property
    def members(self) -> str:
        """The name of the step with the rows that take part: those on the public lists and of sampled units."""
        if self.sample_rate is not None:
            return "sampled"
        return "listed" if self.public else "rows"

    @property
    def most_pairs(self) -> int:
        """The most pairs that one unit keeps."""
        if self.one_pair:
            return 1
        return self.bounds.cap if self.bounds is not None else 2**62

    @property
    def largest(self) -> int | None:
        """The largest contribution of one pair; None where there is no limit."""
        if self.counted or (self.valued and self.bounds is None):
            return None
        return int(2**self.g) * (self.bounds.levels if self.valued and self.bounds is not None else 1)

    @property
    def uniform(self) -> int | None:
        """The contribution of every pair, if all are the same and no unit needs a weight; otherwise None."""
        if self.valued or self.counted or (self.bounds is not None and not self.one_pair):
            return None
        return int(2**self.g)


def steps(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return the steps from ``rows`` to ``bounded``."""
    return [*member_steps(bounding, dialect), *bounded_steps(bounding, dialect)]


def member_steps(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return the steps from ``rows`` to the rows that take part."""
    return [*_listed(bounding, dialect), *_sampled(bounding, dialect)]


def bounded_steps(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return the steps from the rows that take part to ``bounded``."""
    found = [*_chosen(bounding, dialect), _pairs(bounding, dialect)]
    v = "v" if bounding.valued or bounding.counted else "1"
    if bounding.bounds is None or bounding.one_pair:
        # A unit with one pair meets every bound at full weight, so no per-unit step runs.
        x = str(2**bounding.g) if v == "1" else f"v * {2**bounding.g}"
        unit = "" if bounding.counted else "unit, "
        sql = f"SELECT {unit}feature, label, {x} AS x FROM pairs"
        return [*found, Step(name="bounded", shape=f"({unit}feature, label, x)", sql=sql)]
    return [
        *found,
        *_units(bounding, bounding.bounds, dialect),
        *_crowded(bounding, bounding.bounds, dialect),
        _bounded(bounding, dialect, v),
    ]


def counted_steps(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return the steps from ``rows`` to ``unit_labels``, the pairs of each unit under each of its labels.

    They depend on the bounds only by the grid of values, so what they computed serves every number of pairs.
    """
    if bounding.bounds is None:
        return []
    found = [*member_steps(bounding, dialect), *_chosen(bounding, dialect), _pairs(bounding, dialect)]
    return [*found, _units(bounding, bounding.bounds, dialect)[0]]


def _listed(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return ``listed``, the rows whose keys are on the public lists."""
    # proof: public.lists
    if not bounding.public:
        return []
    on_lists = [f"{dialect.as_text(key)} IN (SELECT {key} FROM public_{key}s)" for key in bounding.public]
    sql = f"SELECT * FROM rows WHERE {' AND '.join(on_lists)}"
    return [Step(name="listed", shape="as rows, keys on the public lists", sql=sql)]


def _sampled(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return ``sampled``, the rows of units that take part by a secret coin, tossed once per unit and release."""
    # proof: amplification.coin
    if bounding.sample_rate is None:
        return []
    source, shape = "listed" if bounding.public else "rows", "as rows, of sampled units"
    # Hex numbers of equal length compare as text in the order of the numbers.
    lands = f"SUBSTR({dialect.keyed_hash('coin', 'unit')}, 1, 16) < '{coin_bound(bounding.sample_rate):016x}'"
    if bounding.one_pair:
        return [Step(name="sampled", shape=shape, sql=f"SELECT * FROM {source} WHERE {lands}", freeze=True)]
    units = f"SELECT unit FROM (SELECT DISTINCT unit FROM {source}) AS everybody WHERE {lands}"
    sql = f"SELECT * FROM {source} WHERE unit IN (SELECT unit FROM coins)"
    return [
        Step(name="coins", shape="(unit), the sampled units", sql=units, freeze=True),
        Step(name="sampled", shape=shape, sql=sql),
    ]


def vocabulary(bounding: Bounding) -> str:
    """Return the name of the table of all features that a private set union released."""
    return f"released_{bounding.rounds}"


def _chosen(bounding: Bounding, dialect: Dialect) -> list[Step]:
    """Return ``chosen``, the rows whose feature was released by the private set union."""
    # proof: set-union.vocabulary
    if not bounding.rounds:
        return []
    listed = f"{dialect.as_text('feature')} IN (SELECT feature FROM {vocabulary(bounding)})"
    sql = f"SELECT * FROM {bounding.members} WHERE {listed}"
    return [Step(name="chosen", shape="as rows, features of the released vocabulary", sql=sql)]


def _pairs(bounding: Bounding, dialect: Dialect) -> Step:
    """Return ``pairs`` (unit, feature, label[, v]), one row per unit and pair, v in 1..levels."""
    source = "chosen" if bounding.rounds else bounding.members
    if bounding.counted:
        sql = f"SELECT feature, label, CAST(value AS {dialect.wide}) AS v FROM {source} WHERE value > 0"
        return Step(name="pairs", shape="(feature, label, v)", sql=sql)
    keys = "unit, feature, label"
    frozen = bounding.bounds is not None and not bounding.distinct
    if not bounding.valued:
        sql = f"SELECT {keys} FROM {source}"
        if not bounding.distinct:
            together = f"(SELECT {dialect.by_unit}{keys} FROM {source}) AS together" if dialect.by_unit else source
            sql = f"SELECT DISTINCT {keys} FROM {together}"
        return Step(name="pairs", shape=f"({keys})", sql=sql, freeze=frozen)
    by_unit = "" if bounding.distinct else dialect.by_unit
    quantised = f"FROM (SELECT {by_unit}{keys}, {_level(bounding, dialect)} AS q FROM {source}) AS quantised"
    if bounding.distinct:
        sql = f"SELECT {keys}, q AS v\n{quantised}\nWHERE q > 0"
    else:
        most = None if bounding.bounds is None else bounding.bounds.levels
        total = dialect.sum("q", most)
        v = total if most is None else f"CAST(LEAST({total}, {most}) AS BIGINT)"
        sql = f"SELECT {keys}, {v} AS v\n{quantised}\nGROUP BY {keys}\nHAVING {total} > 0"
    return Step(name="pairs", shape=f"({keys}, v)", sql=sql, freeze=frozen)


def _level(bounding: Bounding, dialect: Dialect) -> str:
    """Return the value in grid steps, NULL for NULL and NaN. NaN is tested first because it compares above all numbers."""
    # proof: bounding.quantise
    clip = bounding.bounds.clip if bounding.bounds is not None else None
    top = _LARGEST_LEVEL * bounding.step if clip is None else clip
    value = f"CAST(value AS {dialect.double})"
    clipped = f"LEAST(GREATEST({value}, {_double(0.0, dialect)}), {_double(float(top), dialect)})"
    level = f"FLOOR({clipped} / {_double(float(bounding.step), dialect)} + {_double(0.5, dialect)})"
    return f"CASE WHEN {dialect.holds_number(value)} THEN CAST({level} AS BIGINT) END"


def _units(bounding: Bounding, bounds: Bounds, dialect: Dialect) -> list[Step]:
    """Return ``unit_labels`` and ``units``: how many labels and pairs each unit has, and whether it exceeds a cap."""
    sums = f", {_squares(bounds, dialect)}" if bounding.valued else ""
    totals = f", {dialect.sum('s')} AS s, {dialect.sum('ss')} AS ss" if bounding.valued else ""
    light = f"labels <= {bounds.labels} AND t <= {bounds.cap}"
    return [
        Step(
            name="unit_labels",
            shape=f"(unit, label, t{', s, ss' if sums else ''}), t pairs of the unit under the label",
            sql=f"SELECT unit, label, COUNT(*) AS t{sums} FROM pairs GROUP BY unit, label",
            freeze=True,
        ),
        Step(
            name="units",
            shape=f"(unit, labels, t{', s, ss' if sums else ''}, light)",
            sql=(
                f"SELECT *, {light} AS light\n"
                f"FROM (SELECT unit, COUNT(*) AS labels, SUM(t) AS t{totals} FROM unit_labels GROUP BY unit) AS u"
            ),
            freeze=True,
        ),
    ]


def _squares(bounds: Bounds, dialect: Dialect) -> str:
    """Return the sum of values and of their squares, from which the weight of a unit is computed."""
    return f"{dialect.sum('v', bounds.levels)} AS s, {dialect.sum('v * v', bounds.levels**2)} AS ss"


def _crowded(bounding: Bounding, bounds: Bounds, dialect: Dialect) -> list[Step]:
    """Return what units beyond the label or pair cap keep, picked by a keyed hash; all other units are not hashed."""
    # proof: bounding.caps
    v = ", v" if bounding.valued else ""
    label, feature = dialect.as_text("p.label"), dialect.as_text("p.feature")
    by_label = f"{dialect.keyed_hash('label', 'p.unit', 'p.label')}, {label}"
    by_pair = f"{dialect.keyed_hash('pair', 'p.unit', 'p.feature', 'p.label')}, {feature}, {label}"
    return [
        Step(
            name="kept_labels",
            shape="(unit, label), at most `labels` of each unit that is beyond a cap",
            sql=(
                f"SELECT unit, label\nFROM (SELECT p.unit, p.label, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY {by_label}) AS n\n"
                f"      FROM unit_labels AS p JOIN units AS u ON p.unit = u.unit WHERE NOT u.light) AS ordered\nWHERE n <= {bounds.labels}"
            ),
            freeze=True,
        ),
        Step(
            name="kept_pairs",
            shape=f"(unit, feature, label{v}), at most `cap` of each such unit",
            sql=(
                f"SELECT unit, feature, label{v}\nFROM (SELECT p.*, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY {by_pair}) AS n\n"
                f"      FROM pairs AS p JOIN kept_labels AS k ON p.unit = k.unit AND p.label = k.label) AS ordered\nWHERE n <= {bounds.cap}"
            ),
            freeze=True,
        ),
    ]


def _bounded(bounding: Bounding, dialect: Dialect, v: str) -> Step:
    """Return ``bounded`` (unit, feature, label, x), x = v times the unit's weight."""
    light, crowded = weights(bounding, dialect)
    x = "w" if v == "1" else "v * w"
    sql = (
        f"SELECT p.unit, feature, label, {x} AS x\n"
        f"FROM pairs AS p JOIN ({light}) AS a ON p.unit = a.unit\n"
        f"UNION ALL\n"
        f"SELECT p.unit, feature, label, {x} AS x\n"
        f"FROM kept_pairs AS p JOIN (\n  {crowded}\n) AS b ON p.unit = b.unit"
    )
    return Step(name="bounded", shape="(unit, feature, label, x)", sql=sql)


def weights(bounding: Bounding, dialect: Dialect) -> tuple[str, str]:
    """Return the queries for the weight (unit, w) of each unit within the caps, and of each unit beyond a cap."""
    weight = _weight(bounding, dialect)
    squares = f", {_squares(bounding.bounds, dialect)}" if bounding.valued and bounding.bounds is not None else ""
    kept = f"SELECT unit, COUNT(*) AS t{squares} FROM kept_pairs GROUP BY unit"
    return f"SELECT unit, {weight} AS w FROM units WHERE light", f"SELECT unit, {weight} AS w FROM ({kept}) AS k"


def _weight(bounding: Bounding, dialect: Dialect) -> str:
    """Return the largest integer weight, at most 2^g, that satisfies the bound for certain."""
    # proof: bounding.weight
    bounds = bounding.bounds
    if bounds is None or bounds.strategy == "sample":
        return "1"
    s, ss = ("s", "ss") if bounding.valued else ("t", "t")
    k, levels, full = bounds.pairs, bounds.levels, 2**bounding.g
    if bounding.norm == "l1":
        light = f"{s} <= {k * levels}"
        most = f"{_double(float(k * levels * full), dialect)} / {s}"
    else:
        light = f"{ss} <= {k * levels**2} AND {s} <= {2 * k * levels}"
        root = f"SQRT({_double(float(k * levels**2 * full**2), dialect)} / {ss})"
        most = f"LEAST({root}, {_double(float(2 * k * levels * full), dialect)} / {s})"
    # A weight is at most 2^8; a narrow type makes the largest sum faster.
    return f"CAST(CASE WHEN {light} THEN {full} ELSE FLOOR({most} * {_double(_MARGIN, dialect)}) END AS SMALLINT)"


def _double(number: float, dialect: Dialect) -> str:
    """Write a double so that every engine reads the same bits."""
    return f"CAST({number:.17e} AS {dialect.double})"


def weight_of_equal_pairs(bounding: Bounding, pairs: int) -> int:
    """Return the weight of a unit with that number of pairs of equal full value, in exact integers.

    The weight in SQL is this or one less, never more.
    """
    bounds = bounding.bounds
    if bounds is None or bounds.strategy == "sample":
        return 1
    full, k = int(2**bounding.g), bounds.pairs
    if pairs <= k:
        return full
    if bounding.norm == "l1":
        return k * full // pairs
    return min(isqrt(k * full * full // pairs), 2 * k * full // pairs)


def most_equal_pairs(bounding: Bounding, weight: int) -> int:
    """Return the largest number of pairs of equal full value of a scaled unit with at least this weight, below 2^g.

    The inverse of `weight_of_equal_pairs`, in exact integers.
    """
    if bounding.bounds is None:
        return bounding.most_pairs
    full, k = int(2**bounding.g), bounding.bounds.pairs
    if bounding.norm == "l1":
        return k * full // weight
    return min(k * full * full // (weight * weight), 2 * k * full // weight)
