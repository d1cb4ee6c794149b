"""What each role of the data is: its columns, its types, and what cannot be a key or a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpmi.errors import InputError, SchemaError
from ddpmi.spec import KNOWN_NAMES, Columns, find_columns
from ddpmi.statements import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddpmi.engines import Kind, Source

    Schema = Mapping[str, tuple[Kind, str]]
    Role = str | Expression | None

_KEY_KINDS = ("text", "untyped", "integer", "boolean", "date")
_VALUE_KINDS = ("number", "integer", "boolean", "untyped")
_COUNT_KINDS = ("integer", "untyped")


def named_roles(
    source: Source, roles: Mapping[str, Role]
) -> tuple[Columns, dict[str, tuple[Kind, str]], dict[str, None]]:
    """Settle what each role is: the columns, their types, and the source's columns that they read."""
    for role, given in roles.items():
        if not isinstance(given, str | Expression | None):
            raise InputError(
                f"The {role} must be the name of a column or an expression, got {type(given).__name__}.",
                hint=f"{role}='...' or {role}=sql('...')",
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
    """Demand names where only rows could tell them; a label may be missing, since a seed can make it."""
    for role, given in roles.items():
        needed = role in ("unit", "feature") or (role == "label" and "unit" not in roles)
        if given is None and needed and not set(KNOWN_NAMES[role]) & set(folders):
            raise SchemaError(
                f"No key was named for the {role}. JSON lines have no header, and a look at a record must not decide.",
                hint=f"name the key of the records that holds it: {role}='...'",
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


def check_types(columns: Columns, schema: Schema, *, counted: bool = False) -> None:
    """Refuse keys that have no one text, and values that are no numbers."""
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
                hint="cast it to text, a whole number or a date first",
            )
