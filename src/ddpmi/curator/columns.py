"""Columns: the column or expression of each role, and which types can be a key or a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ddpmi.errors import Hint, InputError, SchemaError
from ddpmi.pipeline.dialects import quote
from ddpmi.pipeline.steps import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddpmi.engines import Kind, Source

    Schema = Mapping[str, tuple[Kind, str]]
    Role = str | Expression | None

#: Names of columns that are recognised: ours, the paper's, and those that name people. If a table has several of the later
#: ones, none is chosen: only the owner knows whose privacy is at stake.
KNOWN_NAMES = {
    "unit": ("unit", "id", "user_id", "person_id", "customer_id", "patient_id", "respondent_id", "device_id"),
    "feature": ("feature", "item"),
    "label": ("label", "partition", "group", "segment"),
}
_KEY_KINDS = ("text", "untyped", "integer", "boolean", "date")
_VALUE_KINDS = ("number", "integer", "boolean", "untyped")
_COUNT_KINDS = ("integer", "untyped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The four roles and the source's column, or SQL expression, for each.

    >>> Columns(unit="user_id", feature="site", label="country")
    Columns(unit='user_id', feature='site', label='country', value=None)
    """

    unit: str | None
    """The unit, whose privacy is protected; None if the data holds counts of units."""
    feature: str
    """The feature, which is ranked."""
    label: str | None
    """The label (group); None if a seed makes the labels."""
    value: str | None = None
    """A number per row; without it every (unit, feature, label) counts 1."""
    expressions: frozenset[str] = field(default=frozenset(), repr=False)
    """The roles whose entry is an expression."""

    def __post_init__(self) -> None:
        keys = [name for role, name in self.named().items() if role != "value"]
        if len(set(keys)) < len(keys):
            raise SchemaError(
                f"unit, feature and label must be three columns, got {', '.join(map(repr, keys))}.",
                hint=Hint(
                    do="name one column for each",
                    python="observe(data, unit='user_id', feature='site', label='country')",
                    cli="--unit user_id --feature site --label country",
                ),
            )

    def named(self) -> dict[str, str]:
        """Return role -> column or expression of the roles in use."""
        roles = {"unit": self.unit, "feature": self.feature, "label": self.label, "value": self.value}
        return {role: name for role, name in roles.items() if name is not None}


def named_roles(
    source: Source, roles: Mapping[str, Role]
) -> tuple[Columns, dict[str, tuple[Kind, str]], dict[str, None]]:
    """Return the columns of all roles, their types, and the source's columns that they read."""
    for role, given in roles.items():
        if not isinstance(given, str | Expression | None):
            raise InputError(
                f"The {role} must be the name of a column or an expression, got {type(given).__name__}.",
                hint=Hint(python=f"{role}='...' or {role}=sql('...')", cli=f"--{role} NAME or --{role}-sql SQL"),
            )
    available: dict[str, tuple[Kind, str]] = dict(source.schema())
    if source.open_names:
        # proof: row-local.json
        _check_named(roles, available)
        named = [given for given in roles.values() if isinstance(given, str) and given]
        available |= {name: ("untyped", "VARCHAR") for name in named if name not in available}
    schema: dict[str, tuple[Kind, str]] = {}
    reads: dict[str, None] = {}
    texts = {role: given.text for role, given in roles.items() if isinstance(given, Expression)}
    for role, text in texts.items():
        more, kind, type_ = source.check(text, what=f"the expression for the {role}", columns=available)
        reads |= dict.fromkeys(more)
        schema[text] = (kind, type_)
    names = {role: given.text if isinstance(given, Expression) else given for role, given in roles.items()}
    columns = find_columns(names, available, expressions=frozenset(texts), counted="unit" not in roles)
    plain = {name for role, name in columns.named().items() if role not in texts}
    schema |= {name: available[name] for name in plain}
    return columns, schema, reads | dict.fromkeys(sorted(plain))


def _check_named(roles: Mapping[str, Role], folders: Iterable[str]) -> None:
    """Refuse roles without a name: only rows could give it. A label may be missing, since a seed can make it."""
    for role, given in roles.items():
        needed = role in ("unit", "feature") or (role == "label" and "unit" not in roles)
        if given is None and needed and not set(KNOWN_NAMES[role]) & set(folders):
            raise SchemaError(
                f"No key was named for the {role}. JSON lines have no header, and a record must not decide.",
                hint=Hint(do="name the key of the records that holds it", python=f"{role}='...'", cli=f"--{role} NAME"),
            )


def checked_key(source: Source, given: str | Expression) -> tuple[str, ...]:
    """Check that a column or expression can be a key, and return the columns it reads."""
    available = source.schema()
    if isinstance(given, Expression):
        reads, kind, type_ = source.check(given.text, what="the expression for the seed", columns=available)
    elif given in available:
        reads, (kind, type_) = (given,), available[given]
    elif source.open_names and isinstance(given, str) and given:
        return (given,)
    else:
        raise SchemaError(
            f"The data has no column {given!r}.", hint="column names are case-sensitive; pass it as column='...'"
        )
    if kind not in _KEY_KINDS:
        raise SchemaError(f"The seed's column has type {type_}, which is no key.", hint="cast it to text first")
    return tuple(reads)


def check_same_units(here: tuple[Kind, str], there: tuple[Kind, str]) -> None:
    """Refuse two types of units that no text has in common.

    Args:
        here: Kind and type of the unit of the rows.
        there: Kind and type of the unit of the second table.

    >>> check_same_units(("integer", "BIGINT"), ("text", "VARCHAR"))
    """
    kinds = {here[0], there[0]}
    if len(kinds) > 1 and not kinds & {"text", "untyped"}:
        raise SchemaError(
            f"The unit of the rows has type {here[1]} and that of the table of the seed {there[1]}: no unit is in both.",
            hint="name columns that hold the same ids in both tables",
        )


def check_types(columns: Columns, schema: Schema, *, counted: bool = False) -> None:
    """Refuse keys of types without one canonical text, and values that are no numbers."""
    for role, name in columns.named().items():
        kind, type_ = schema[name]
        given = f"{'count' if counted and role == 'value' else role} {'expression' if role in columns.expressions else 'column'} {name!r}"
        if role == "value" and counted and kind not in _COUNT_KINDS:
            raise SchemaError(
                f"The {given} must hold whole numbers, got type {type_}.", hint="cast it to a whole number first"
            )
        if role == "value":
            if kind not in _VALUE_KINDS:
                raise SchemaError(f"The {given} must hold numbers, got type {type_}.", hint="cast it to a number first")
        elif kind == "number":
            raise SchemaError(
                f"The {given} has type {type_}; 1 and 1.0 would be two {role}s or one, by chance.",
                hint="cast it to a whole number or to text first",
            )
        elif kind not in _KEY_KINDS:
            raise SchemaError(
                f"The {given} has type {type_}, which has no one way to be written as text.",
                hint=_cast(role, name, type_, is_column=role not in columns.expressions),
            )


def _cast(role: str, name: str, type_: str, *, is_column: bool) -> Hint:
    """Say what to do about a type that cannot be a key. Of a feature or label that is a time, a part is usually meant."""
    if role == "unit" or not (is_column and type_.upper().startswith("TIMESTAMP")):
        return Hint(do="cast it to text, a whole number or a date first")
    quoted = quote(name)
    return Hint(
        do="take the part of the time that is meant",
        python=f"{role}=sql({f'year({quoted})'!r})",
        cli=f"--{role}-sql '{f'year({quoted})'}'",
    )


def find_columns(
    given: Mapping[str, str | None],
    available: Iterable[str],
    *,
    expressions: frozenset[str] = frozenset(),
    counted: bool = False,
) -> Columns:
    """Find the columns of roles without a name, and check that each column exists.

    Args:
        given: role -> column name, or None to recognise it.
        available: The source's column names.
        expressions: The roles whose entry is an expression, which has been checked before.
        counted: Whether the data holds counts of units. Then there is no unit to find, and a label is needed.

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
            f"The data has no column {missing[0]!r}; it has {listing(names)}.{did_you_mean(missing[0], names)}",
            hint=Hint(
                python="column names are case-sensitive; pass them as unit=, feature=, label=, value=",
                cli="column names are case-sensitive; pass them as --unit, --feature, --label, --value",
            ),
        )
    return Columns(
        unit=found.get("unit"),
        feature=found["feature"],
        label=found.get("label"),
        value=found.get("value"),
        expressions=expressions,
    )


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return a question with the name that looks most like a given one; empty if none does.

    Args:
        given: What was typed.
        names: Public names.

    >>> did_you_mean("contry", ["id", "country"]), did_you_mean("x", ["id", "country"])
    (" Did you mean 'country'?", '')
    """
    near = {name.casefold(): name for name in names}
    found = get_close_matches(given.casefold(), near, n=1)
    return f" Did you mean {near[found[0]]!r}?" if found else ""


def _known(role: str, names: list[str]) -> str | None:
    """Return the column that is called like the role, or the only one of the other names that are recognised."""
    first, *others = KNOWN_NAMES[role]
    if first in names:
        return first
    found = [known for known in others if known in names]
    return found[0] if len(found) == 1 else None


def _recognise(role: str, names: list[str]) -> str:
    if (known := _known(role, names)) is not None:
        return known
    several = [known for known in KNOWN_NAMES[role] if known in names]
    why = (
        f"{' and '.join(map(repr, several))} might both be it"
        if several
        else f"none of {listing(names)} is called {' or '.join(map(repr, KNOWN_NAMES[role][:2]))}"
    )
    raise SchemaError(
        f"No column was named for the {role}, and {why}.",
        hint=Hint(do="say which column holds it", python=f"{role}='...'", cli=f"--{role} NAME"),
    )


def listing(names: Iterable[str], most: int = 20) -> str:
    """Write names of columns in a row, the first ones if there are many.

    >>> listing(["id", "site"])
    "'id', 'site'"
    """
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
