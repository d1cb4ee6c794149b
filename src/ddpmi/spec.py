"""What the caller declares: which columns hold what, and how much one unit may change."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.budget import exact_decimal
from ddpmi.errors import InputError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

Strategy = Literal["scale", "sample"]

#: The most of anything that is counted one by one: features of a seed, rounds, pairs of a unit.
LARGEST_COUNT = 1_000_000
#: The largest cap: 32 pairs for each of the largest number of pairs.
_LARGEST_CAP = 32 * LARGEST_COUNT
#: What only cuts a list may be as large as any list.
LONGEST_LIST = 2**53
#: Longer numbers are not printed.
_LONGEST_NUMBER = 10**30

#: Clip and step are divided as doubles; this far from both ends of their range the quotient is right.
_SMALLEST_STEP, _LARGEST_CLIP = Fraction(1, 10**30), Fraction(10**30)

#: Characters that show nothing although Python calls them printable: joiners, fillers, selectors, the empty Braille cell.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)

#: Names recognised without a flag: ours first, then the paper's.
KNOWN_NAMES = {
    "unit": ("unit", "id"),
    "feature": ("feature",),
    "label": ("label", "partition"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The four roles and the source's column, or SQL expression, for each.

    >>> Columns(unit="user_id", feature="site", label="country")
    Columns(unit='user_id', feature='site', label='country', value=None)
    """

    unit: str | None
    """The one whose privacy is protected; None where the data holds counts of units."""
    feature: str
    """What is ranked."""
    label: str | None
    """The group; None where a seed will make the labels."""
    value: str | None = None
    """A number per row; without it every (unit, feature, label) counts 1."""
    expressions: frozenset[str] = field(default=frozenset(), repr=False)
    """The roles that are given by an expression."""

    def __post_init__(self) -> None:
        keys = [name for role, name in self.named().items() if role != "value"]
        if len(set(keys)) < len(keys):
            raise SchemaError(
                f"unit, feature and label must be three columns, got {', '.join(map(repr, keys))}.",
                hint="name one column for each: observe(data, unit='user_id', feature='site', label='country')",
            )

    def named(self) -> dict[str, str]:
        """Return role -> column or expression of the roles in use."""
        roles = {"unit": self.unit, "feature": self.feature, "label": self.label, "value": self.value}
        return {role: name for role, name in roles.items() if name is not None}


def find_columns(
    given: Mapping[str, str | None],
    available: Iterable[str],
    *,
    expressions: frozenset[str] = frozenset(),
    counted: bool = False,
) -> Columns:
    """Complete the given roles by name and check that each column exists.

    Args:
        given: role -> column name, or None to recognise it.
        available: The source's column names.
        expressions: The roles whose name is an expression, which has been checked before.
        counted: The data holds counts of units, so there is no unit to find, and a label is needed.

    Raises:
        SchemaError: A column is missing, or a role other than the label was neither given nor recognised.

    >>> find_columns({"unit": None, "feature": None, "label": "country"}, ["id", "feature", "country"])
    Columns(unit='id', feature='feature', label='country', value=None)
    """
    names = list(available)
    roles = [role for role in KNOWN_NAMES if role != "unit" or not counted]
    found = {role: given.get(role) or _recognise(role, names) for role in roles if role != "label" or counted}
    if not counted and (label := given.get("label") or _known("label", names)):
        found["label"] = label
    if given.get("value"):
        found["value"] = str(given["value"])
    missing = [name for role, name in found.items() if role not in expressions and name not in names]
    if missing:
        raise SchemaError(
            f"The data has no column {missing[0]!r}; it has {_listing(names)}.",
            hint="column names are case-sensitive; pass them as unit=, feature=, label=, value=",
        )
    return Columns(
        unit=found.get("unit"),
        feature=found["feature"],
        label=found.get("label"),
        value=found.get("value"),
        expressions=expressions,
    )


def _known(role: str, names: list[str]) -> str | None:
    return next((known for known in KNOWN_NAMES[role] if known in names), None)


def _recognise(role: str, names: list[str]) -> str:
    if (known := _known(role, names)) is not None:
        return known
    raise SchemaError(
        f"No column was named for the {role}, and none of {_listing(names)} is called "
        f"{' or '.join(map(repr, KNOWN_NAMES[role]))}.",
        hint=f"say which column holds it: {role}='...' in Python, --{role} NAME on the command line",
    )


def _listing(names: list[str], most: int = 20) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one unit may change. Declared, never computed from the data.

    >>> Bounds(pairs=50).cap
    500
    >>> Bounds(pairs=30, clip=100, step="0.5").levels
    200
    """

    pairs: int
    """K: a unit with up to K (feature, label) pairs counts in full."""
    clip: Fraction | None = None
    """C: the largest value of one pair, in the value's own units; None where there is no value column."""
    step: Fraction = Fraction(1)
    """The grid on which values are counted; clip is a multiple of it."""
    labels: int = 1
    """m: how many labels one unit may appear in."""
    cap: int = 0
    """Hard limit of pairs per unit; 0 means the default, 10 K (K itself under "sample")."""
    strategy: Strategy = "scale"
    """"scale" keeps all pairs of a heavy unit at a lower weight; "sample" keeps K of them, the paper's way."""

    def __post_init__(self) -> None:
        for name in ("pairs", "labels"):
            check_count(name, getattr(self, name), hint="Bounds(pairs=50, labels=1)")
        if self.strategy not in ("scale", "sample"):
            raise InputError(
                f"strategy must be 'scale' or 'sample', got strategy={self.strategy!r}.",
                hint="'scale' is the default; 'sample' is the paper's reservoir sampling",
            )
        self._settle_cap()
        self._settle_grid()

    def _settle_cap(self) -> None:
        default = self.pairs if self.strategy == "sample" else 10 * self.pairs
        if self.cap == 0 and not isinstance(self.cap, bool):
            object.__setattr__(self, "cap", default)
        check_count("cap", self.cap, most=_LARGEST_CAP, hint=f"cap={default}")
        if self.strategy == "sample" and self.cap != self.pairs:
            raise InputError(
                f"strategy='sample' keeps exactly pairs={self.pairs}, got cap={self.cap}.",
                hint="leave cap out, or use strategy='scale'",
            )
        if self.cap < self.pairs:
            raise InputError(f"cap must be at least pairs={self.pairs}, got cap={self.cap}.", hint=f"cap={default}")

    def _settle_grid(self) -> None:
        object.__setattr__(self, "step", exact_decimal(self.step, "step"))
        # proof: bounding.quantise
        if not _SMALLEST_STEP <= self.step <= _LARGEST_CLIP:
            raise InputError(f"step must be between 1e-30 and 1e30, got step={_short(self.step)}.", hint="step=1")
        if self.clip is None:
            if self.step != 1:
                raise InputError(
                    f"step={float(self.step):g} needs a value column and its clip.",
                    hint="Bounds(pairs=50, clip=100, step=1)",
                )
            return
        object.__setattr__(self, "clip", exact_decimal(self.clip, "clip"))
        if not 0 < self.clip <= _LARGEST_CLIP or (self.clip / self.step).denominator != 1:
            raise InputError(
                f"clip must be a positive multiple of step={_short(self.step)}, at most 1e30, got clip={_short(self.clip)}.",
                hint="for values below 1 choose a finer grid, for example clip=1, step='0.01'",
            )

    @property
    def levels(self) -> int:
        """Cq = clip / step: the largest count of one pair on the grid."""
        return 1 if self.clip is None else int(self.clip / self.step)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` restores exactly."""
        return {
            "pairs": self.pairs,
            "clip": None if self.clip is None else str(self.clip),
            "step": str(self.step),
            "labels": self.labels,
            "cap": self.cap,
            "strategy": self.strategy,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Bounds:
        """Restore what `to_dict` returned."""
        clip = values["clip"]
        rest = {name: values[name] for name in ("pairs", "labels", "cap", "strategy")}
        return cls(clip=None if clip is None else Fraction(clip), step=Fraction(values["step"]), **rest)


def dataset_name(name: object) -> str:
    """Check the name of a dataset, whose budget the ledger keeps. Two names that look alike would be two budgets.

    Args:
        name: Its name: visible text in its normal form (NFC), without white space around it.

    Raises:
        InputError: It is no such text; the hint gives the plain one.

    >>> dataset_name("visits 2026")
    'visits 2026'
    """
    text = name if isinstance(name, str) else ""
    seen = "".join(sign for sign in text if sign.isprintable() or sign.isspace())
    plain = unicodedata.normalize("NFC", " ".join(_UNSEEN.sub("", seen).split()))
    # isprintable refuses control and format characters, and every space but the plain one.
    if not text or not text.isprintable() or _UNSEEN.search(text) or text != unicodedata.normalize("NFC", text.strip()):
        raise InputError(
            f"dataset must be a name in visible characters and normal form (NFC), without white space around it, "
            f"got dataset={name!a}.",
            hint=f"dataset={plain or 'visits'!r}",
        )
    return text


def key_list(keys: object, name: str) -> tuple[str, ...] | None:
    """Check a public list of keys and put it in the order of bytes.

    >>> key_list(["b", "a"], "public_labels")
    ('a', 'b')
    """
    if keys is None:
        return None
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InputError(f"{name} must be a list of texts, got {name}={keys!r}.", hint=f"{name}=['a', 'b']")
    listed = list(keys)
    if not listed:
        raise InputError(f"{name} is empty, so nothing could be released.", hint=f"{name}=['a', 'b'], or leave it out")
    if not all(isinstance(key, str) for key in listed):
        raise InputError(f"{name} must hold texts only.", hint=f"{name}=[str(key) for key in keys]")
    try:
        return tuple(sorted(set(listed), key=str.encode))
    except UnicodeEncodeError:
        raise InputError(f"{name} holds a text that is not Unicode.", hint="check how the list was read") from None


def _short(number: Fraction) -> str:
    try:
        return f"{float(number):g}"
    except OverflowError:
        return "more than 1e308"


def check_count(name: str, value: object, *, most: int = LARGEST_COUNT, hint: str | None = None) -> None:
    """Refuse what is no whole number from 1 to the most that can be served.

    Args:
        name: What is counted, as the caller calls it.
        value: The count.
        most: The largest one.
        hint: What to write instead; by default a count of 1.

    >>> check_count("top", 10)
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        long = isinstance(value, int) and abs(value) >= _LONGEST_NUMBER
        got = "a number of more than 30 digits" if long else f"{name}={value!r}"
        raise InputError(f"{name} must be a whole number from 1 to {most}, got {got}.", hint=hint or f"{name}=1")
