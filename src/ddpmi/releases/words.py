"""Words: what a release counts, in the names of the data's own columns, and what its bounds changed.

receipt -> Words, and one sentence on the bounds
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from ddpmi.pipeline.seeds import SEED, SEED_LABELS
from ddpmi.privacy.budget import shortest
from ddpmi.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = ("unit", "feature", "label", "value")
"""The roles of columns, as a receipt names them."""
#: What a receipt says in place of the unit's column.
NO_COLUMN = ("an expression", "one counted unit")
_IDENTIFIER = re.compile(r"(?:[ _-]+[iI][dD]|(?<=[a-z])I[dD])$")
_PLAIN = re.compile(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The names of the columns of a release. A role without a column of its own has its general name.

    >>> words = Words(unit="customer_id", label="country")
    >>> words.feature, words.units, words.counted
    ('feature', 'customers', 'customers')
    """

    unit: str = "unit"
    """The column of the unit."""
    feature: str = "feature"
    """The column of the features."""
    label: str = "label"
    """The column of the labels."""
    value: str | None = None
    """The column of the values; None where there is none."""
    space: Literal["events", "units"] = "units"
    """Whether units or events are counted."""
    seed: str | None = None
    """The label of the units with a seed, where labels were made by one; the other label is the rest."""

    @classmethod
    def of(cls, receipt: Mapping[str, Any]) -> Words:
        """Read the names from a receipt. Those of formats 1 and 2 know the unit alone.

        >>> Words.of({"guarantee": {"unit": "visitor"}, "space": "units"}).units
        'visitors'
        """
        unit = (receipt.get("guarantee") or {}).get("unit")
        known = {} if unit in (None, *NO_COLUMN) else {"unit": str(unit)}
        named = {role: name for role, name in (receipt.get("columns") or {}).items() if name is not None}
        space = receipt.get("space") or (receipt.get("plan") or {}).get("space")
        plan = receipt.get("plan") or {}
        seeded = list(plan.get("public_labels") or ()) == list(SEED_LABELS)
        seed = SEED if seeded else None
        return cls(space="units" if space == "units" else "events", seed=seed, **(known | named))

    @property
    def one_unit(self) -> str:
        """The unit as a noun: "customer" for a column ``CustomerID``."""
        return _noun(self.unit)

    @property
    def units(self) -> str:
        """Several units: "customers" for a column ``CustomerID``."""
        return _plural(self.one_unit)

    @property
    def features(self) -> str:
        """Several features: "products" for a column ``product``."""
        return _plural(_noun(self.feature))

    @property
    def labels(self) -> str:
        """Several labels: "countries" for a column ``country``."""
        return _plural(_noun(self.label))

    @property
    def counted(self) -> str:
        """What sums and shares count: units, the value, or pairs where neither is counted."""
        if self.space == "units":
            return self.units
        return "pairs" if self.value is None else printable(self.value)


def bounding_note(receipt: Mapping[str, Any]) -> str:
    """Say in one sentence which units count less than they have; empty where none does, or where no plan says so.

    >>> bounds = {"pairs": 18, "labels": 1, "clip": None}
    >>> columns = {"unit": "customer", "label": "country"}
    >>> bounding_note({"plan": {"bounds": bounds, "distinct": False}, "columns": columns})
    'A customer with more than 18 pairs or in more than 1 country counts less: intervals cover the noise, not this.'
    """
    plan = receipt.get("plan") or {}
    bounds, words = plan.get("bounds"), Words.of(receipt)
    if bounds is None:
        return ""
    parts = []
    if plan["distinct"] != "units":
        parts.append(f"with more than {_several(bounds['pairs'], 'pair')}")
        if list(plan.get("public_labels") or ()) != list(SEED_LABELS):
            parts.append(f"in more than {_several(bounds['labels'], _noun(words.label))}")
    if bounds["clip"] is not None:
        of = "" if words.value is None else f" of {printable(words.value)}"
        parts.append(f"with more than {shortest(Fraction(bounds['clip']))}{of} in a pair")
    if not parts:
        return ""
    listed = " or ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)
    one = words.one_unit
    return f"{'An' if one[:1].lower() in tuple('aeio') else 'A'} {one} {listed} counts less: intervals cover the noise, not this."


def _noun(name: str) -> str:
    """Return a column's name as a noun, if it is made of words; otherwise the name itself."""
    word = _IDENTIFIER.sub("", name)
    if word.lower() == "id":
        return "unit"
    if not _PLAIN.fullmatch(word):
        return printable(name)
    word = word.replace("_", " ")
    return word.lower() if word.istitle() or word.isupper() else word


def _plural(noun: str) -> str:
    """Return the plural of a noun; a name that is no word stays as it is."""
    if not _PLAIN.fullmatch(noun) or noun.endswith("s"):
        return noun
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("ch", "sh", "x", "z")) else "s")


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else _plural(noun)}"
