"""What the caller declares: how much one unit may change, and the checks of names and lists of keys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.errors import LARGEST_COUNT, Hint, InputError, check_count
from ddpmi.privacy.budget import exact_decimal

if TYPE_CHECKING:
    from collections.abc import Mapping

Strategy = Literal["scale", "sample"]

#: The largest cap: 32 times the largest number of pairs.
_LARGEST_CAP = 32 * LARGEST_COUNT

#: SQL divides clip and step as doubles; within this range the quotient is correct.
_SMALLEST_STEP, _LARGEST_CLIP = Fraction(1, 10**30), Fraction(10**30)

#: Invisible characters that Python calls printable: joiners, fillers, selectors, the empty Braille cell.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one unit may change. Declared, or chosen by a private look; never computed from the data without a charge.

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
    """The grid to which values are rounded; clip is a multiple of it."""
    labels: int = 1
    """m: how many labels one unit may appear in."""
    cap: int = 0
    """Hard limit of pairs per unit; 0 means the default, 10 K (K itself with "sample")."""
    strategy: Strategy = "scale"
    """"scale" keeps all pairs of a heavy unit at a lower weight; "sample" keeps K of them, as the paper does."""

    def __post_init__(self) -> None:
        for name in ("pairs", "labels"):
            check_count(
                name, getattr(self, name), hint=Hint(python="Bounds(pairs=50, labels=1)", cli="--pairs 50 --labels 1")
            )
        if self.strategy not in ("scale", "sample"):
            raise InputError(
                f"strategy must be 'scale' or 'sample', got strategy={self.strategy!r}.",
                hint="'scale' is the default; 'sample' is the paper's reservoir sampling",
            )
        self._set_cap()
        self._set_grid()

    def _set_cap(self) -> None:
        default = self.pairs if self.strategy == "sample" else 10 * self.pairs
        if self.cap == 0 and not isinstance(self.cap, bool):
            object.__setattr__(self, "cap", default)
        check_count("cap", self.cap, most=_LARGEST_CAP, hint=Hint.setting("cap", default))
        if self.strategy == "sample" and self.cap != self.pairs:
            raise InputError(
                f"strategy='sample' keeps exactly pairs={self.pairs}, got cap={self.cap}.",
                hint=Hint(
                    python="leave cap out, or use strategy='scale'", cli="leave --cap out, or use --strategy scale"
                ),
            )
        if self.cap < self.pairs:
            raise InputError(
                f"cap must be at least pairs={self.pairs}, got cap={self.cap}.", hint=Hint.setting("cap", default)
            )

    def _set_grid(self) -> None:
        object.__setattr__(self, "step", exact_decimal(self.step, "step"))
        # proof: bounding.quantise
        if not _SMALLEST_STEP <= self.step <= _LARGEST_CLIP:
            raise InputError(
                f"step must be between 1e-30 and 1e30, got step={_short(self.step)}.", hint=Hint.setting("step", 1)
            )
        if self.clip is None:
            if self.step != 1:
                raise InputError(
                    f"step={float(self.step):g} needs a value column and its clip.",
                    hint=Hint(python="Bounds(pairs=50, clip=100, step=1)", cli="--pairs 50 --clip 100 --step 1"),
                )
            return
        object.__setattr__(self, "clip", exact_decimal(self.clip, "clip"))
        if not 0 < self.clip <= _LARGEST_CLIP or (self.clip / self.step).denominator != 1:
            raise InputError(
                f"clip must be a positive multiple of step={_short(self.step)}, at most 1e30, got clip={_short(self.clip)}.",
                hint=Hint(
                    do="for values below 1 choose a finer grid",
                    python="clip=1, step='0.01'",
                    cli="--clip 1 --step 0.01",
                ),
            )

    @property
    def levels(self) -> int:
        """Cq = clip / step: the largest count of one pair, in grid steps."""
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


def check_units_clip(clip: object, *, units: bool) -> None:
    """Refuse a clip where units are counted, because values are ignored there.

    Args:
        clip: The largest value of one pair; None where none is given.
        units: Whether units are counted instead of events.

    >>> check_units_clip(None, units=True)
    """
    if units and clip is not None:
        raise InputError("Counting units ignores values, but a clip was given.", hint=Hint.without("clip"))


def check_clip(clip: object, *, units: bool, value: str | None) -> None:
    """Check that a clip is given exactly where values are counted.

    Args:
        clip: The largest value of one pair; None where none is given.
        units: Whether units are counted instead of events.
        value: The name of the value column, or its expression; None where rows have no value.

    Raises:
        InputError: A clip is missing, or it is given and would be ignored.

    >>> check_clip(100, units=False, value="minutes")
    """
    check_units_clip(clip, units=units)
    if value is not None and clip is None and not units:
        raise InputError(
            f"The value {value!r} needs a clip: the largest value that one pair may count.",
            hint=Hint(do="choose it by what is publicly known", python="Bounds(pairs=50, clip=100)", cli="--clip 100"),
        )
    if value is None and clip is not None:
        raise InputError(
            "A clip was given, but no value column is named.",
            hint=Hint(
                python="observe(..., value='minutes'), or leave clip out", cli="--value minutes, or leave --clip out"
            ),
        )


def dataset_name(name: object) -> str:
    """Check the name of a dataset, under which a ledger counts. Names that look alike would have separate budgets.

    Args:
        name: Visible text in its normal form (NFC), without white space around it.

    Raises:
        InputError: It is no such text; the hint gives the nearest one that is.

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
            hint=Hint(python=f"dataset={plain or 'visits'!r}", cli=f"--dataset {plain or 'visits'!r}"),
        )
    return text


def key_list(keys: object, name: str) -> tuple[str, ...] | None:
    """Check a list of keys and sort it by bytes, without duplicates; None stays None.

    Args:
        keys: The keys, as texts.
        name: The parameter, for the error message.

    Raises:
        InputError: It is no list, empty, or has a key that is no text.

    >>> key_list(["b", "a"], "public_labels")
    ('a', 'b')
    """
    if keys is None:
        return None
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InputError(
            f"{name} must be a list of texts, got {name}={keys!r}.",
            hint=Hint(python=f"{name}=['a', 'b']", cli=f"--{name.replace('_', '-')} FILE"),
        )
    listed = list(keys)
    if not listed:
        raise InputError(
            f"{name} is empty, so nothing could be released.",
            hint=Hint(
                python=f"{name}=['a', 'b'], or leave it out", cli=f"--{name.replace('_', '-')} FILE, or leave it out"
            ),
        )
    if not all(isinstance(key, str) for key in listed):
        raise InputError(
            f"{name} must hold texts only.",
            hint=Hint(python=f"{name}=[str(key) for key in keys]", cli=f"--{name.replace('_', '-')} FILE"),
        )
    try:
        return tuple(sorted(set(listed), key=str.encode))
    except UnicodeEncodeError:
        raise InputError(f"{name} holds a text that is not Unicode.", hint="check how the list was read") from None


def _short(number: Fraction) -> str:
    try:
        return f"{float(number):g}"
    except OverflowError:
        return "more than 1e308"
