"""Which SQL expressions are functions of one row: an allow-list over the parsed tree.

A row's unit, feature, label, value and whether it is kept must depend on that row alone. Everything that could look
further (subqueries, windows, aggregates), change between two readings (clocks, random numbers) or reach out of the
data (settings, variables) is refused. So is what one cell could make fail or grow: `functions` lists what may be called.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ddpmi.engines import functions
from ddpmi.errors import InputError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection

_CLASSES = frozenset(
    {"COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE", "CAST", "BETWEEN", "FUNCTION"}
    | {"LAMBDA", "TYPE"}
)
_OPERATORS = frozenset(
    {f"OPERATOR_{name}" for name in ("NOT", "IS_NULL", "IS_NOT_NULL", "COALESCE", "NULLIF", "TRY")}
    | {"COMPARE_IN", "COMPARE_NOT_IN", "ARRAY_EXTRACT", "ARRAY_SLICE", "ARRAY_CONSTRUCTOR", "STRUCT_EXTRACT"}
)
#: How a lambda with the keyword is marked; DuckDB 1.5 marks none, and then every one is read as an arrow.
_LAMBDAS = frozenset({"LAMBDA_KEYWORD"})
_HINT = 'use columns, constants, comparisons, CASE, CAST and scalar functions: label=sql("year(visited)")'


def guarded(text: str) -> str:
    r"""Write an expression so that an error in one row is NULL. The line ends keep a comment inside.

    >>> guarded("year(visited)")
    'TRY(\nyear(visited)\n)'
    """
    return f"TRY(\n{text}\n)"


def statement(text: str) -> str:
    """The statement that is parsed: what is checked is what will run."""
    return f"SELECT {guarded(text)} FROM source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that is tried on made-up cells before anything is charged."""

    name: str
    arguments: tuple[Any, ...]
    """Trees of the arguments."""
    constants: tuple[int, ...]
    """Which of them are constants."""
    inside: bool
    """Whether it is inside a lambda, where types are not known."""


@dataclass(slots=True, kw_only=True)
class Reader:
    """Walks a parsed expression and collects the columns it reads."""

    what: str
    """How messages call the expression."""
    columns: Collection[str]
    """Columns that exist."""
    open_names: bool
    """Whether further columns may exist, as in JSON lines."""
    reads: dict[str, None] = field(default_factory=dict)
    repeated: dict[str, None] = field(default_factory=dict)
    """Columns that a lambda reads once for each item of a list."""
    calls: list[Call] = field(default_factory=list)
    inside: bool = False

    def read(self, serialized: str, empty: str) -> tuple[str, ...]:
        """Check the tree and return the columns it reads.

        Args:
            serialized: `json_serialize_sql` of `statement(text)`.
            empty: The same of a constant; all but the expression must be equal.
        """
        tree, template = json.loads(serialized), json.loads(empty)
        if tree.get("error") or len(tree["statements"]) != 1:
            self._refuse("is not one SQL expression")
        node, expected = tree["statements"][0]["node"], template["statements"][0]["node"]
        selected = node.pop("select_list", [])
        expected.pop("select_list")
        if _bare(node) != _bare(expected) or len(selected) != 1:
            self._refuse("is not one SQL expression")
        top = selected[0]
        if top.get("type") != "OPERATOR_TRY" or len(top.get("children", [])) != 1 or top.get("alias"):
            self._refuse("is not one SQL expression")
        self._walk(top["children"][0], frozenset())
        return tuple(self.reads)

    def _walk(self, node: Any, bound: frozenset[str]) -> None:
        for item in node if isinstance(node, list) else ():
            self._walk(item, bound)
        if not isinstance(node, dict):
            return
        self._check(node)
        kind = node.get("class")
        if kind == "COLUMN_REF":
            self._column(node["column_names"], bound)
        elif kind == "TYPE":
            self._type(node)
        elif kind == "LAMBDA":
            self._lambda(node, bound)
        elif kind != "CONSTANT":
            for child in node.values():
                self._walk(child, bound)

    def _check(self, node: dict[str, Any]) -> None:
        kind, type_ = node.get("class"), str(node.get("type", ""))
        if node.get("orders") or type_.endswith("_NODE"):
            self._refuse("holds a subquery or an ORDER BY")
        if kind is not None and kind not in _CLASSES:
            self._refuse(f"holds a {str(kind).lower().replace('_', ' ')}, which is not taken here")
        if kind == "OPERATOR" and type_ not in _OPERATORS:
            self._refuse(f"holds {type_.lower()}, which is not taken here")
        if kind == "FUNCTION":
            self._function(node)

    def _lambda(self, node: dict[str, Any], bound: frozenset[str]) -> None:
        if node.get("syntax_type") not in _LAMBDAS:
            # The arrow takes a member out of a JSON column; as a lambda it cannot be told from that before binding.
            self._walk(node["lhs"], bound)
            self._walk(node["expr"], bound)
            self._path("->", node["expr"])
            self.calls.append(
                Call(name="->>", arguments=(node["lhs"], node["expr"]), constants=(1,), inside=self.inside)
            )
            return
        # A lambda that read another one's parameters, or long cells, would grow with the square of a row.
        before, self.inside = self.inside, True
        self._walk(node["expr"], self._parameters(node["lhs"]))
        self.inside = before

    def _parameters(self, node: dict[str, Any]) -> frozenset[str]:
        """The names that a lambda binds: one, or a row of them."""
        if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
            return frozenset({str(node["column_names"][0]).lower()})
        if node.get("class") != "FUNCTION" or node.get("function_name") != "row":
            self._refuse("holds a lambda whose parameters are no names")
        parts = [part.get("expression", part) for part in node.get("arguments") or node.get("children") or []]
        return frozenset().union(*(self._parameters(part) for part in parts))

    def _column(self, path: list[str], bound: frozenset[str]) -> None:
        name = path[0]
        if name.lower() in bound:
            return
        found = self._find(name) or (name if self.open_names else None)
        if found is None:
            raise SchemaError(
                f"The data has no column {name!r}, which {self.what} names.",
                hint="texts stand in single quotes, columns bare or in double quotes, lambdas as lambda x: x + 1",
            )
        self.reads[found] = None
        if self.inside:
            self.repeated[found] = None

    def _find(self, name: str) -> str | None:
        if name in self.columns:
            return name
        return next((column for column in [*self.columns, *self.reads] if column.lower() == name.lower()), None)

    def _function(self, node: dict[str, Any]) -> None:
        name = str(node["function_name"]).lower()
        path = (node.get("qualified_name") or {}).get("path") or [name]
        if node.get("distinct") or node.get("filter") or node.get("schema") or node.get("catalog") or len(path) > 1:
            self._refuse(f"calls {name!r} with DISTINCT, FILTER or a schema")
        # proof: row-local.expressions
        if name not in functions.FUNCTIONS:
            self._refuse(
                f"calls {name!r}, which is not known to be a function of one row's columns that no cell can break"
            )
        self._arguments(name, node.get("arguments") or [])

    def _arguments(self, name: str, given: list[dict[str, Any]]) -> None:
        places = functions.CONSTANTS.get(name, ())
        if functions.ARGUMENTS.get(name, len(given)) != len(given):
            self._refuse(f"calls {name!r} in a form that is not taken here")
        if not places and name not in functions.TYPED:
            return
        if any(item.get("name") for item in given):
            self._refuse(f"calls {name!r} with names of arguments")
        nodes = tuple(item["expression"] for item in given)
        constants = tuple(place for place in places if place < len(nodes))
        for place in constants:
            # proof: row-local.expressions
            if not _is_constant(nodes[place]):
                self._refuse(f"calls {name!r} with a column where only a constant is safe (argument {place + 1})")
            if name in functions.PATHS:
                self._path(name, nodes[place])
            if (
                name in functions.PARTED
                and not {text.lower() for text in _texts(nodes[place]) or ["?"]} <= functions.PARTS
            ):
                self._refuse(f"calls {name!r} with a part of a date that is not taken here")
            if name in functions.LENGTHS and not _number(nodes[place]) <= functions.LONGEST:
                self._refuse(f"calls {name!r} with a length that is no whole number up to {functions.LONGEST}")
        self.calls.append(Call(name=name, arguments=nodes, constants=constants, inside=self.inside))

    def _path(self, name: str, node: Any) -> None:
        texts = _texts(node)
        if texts is None or any(".." in text or "**" in text for text in texts):
            self._refuse(f"calls {name!r} with a path that is no plain constant or searches all depths")

    def _type(self, node: dict[str, Any]) -> None:
        name = str(node.get("type_name", "")).lower()
        path = (node.get("qualified_name") or {}).get("path") or [name]
        if name not in functions.TYPES | functions.ALIASES or len(path) > 1:
            self._refuse(f"casts to {name!r}, which cannot be computed here")
        self._walk(node.get("children") or [], frozenset())

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"{self.what[0].upper()}{self.what[1:]} {why}.", hint=_HINT)


def _bare(node: Any) -> Any:
    """A tree without the places in the text."""
    if isinstance(node, dict):
        return {key: _bare(value) for key, value in node.items() if not key.startswith("query_location")}
    return [_bare(item) for item in node] if isinstance(node, list) else node


def _is_constant(node: Any) -> bool:
    """Whether a tree names no column and no parameter of a lambda."""
    if isinstance(node, list):
        return all(_is_constant(item) for item in node)
    if not isinstance(node, dict):
        return True
    return node.get("class") not in ("COLUMN_REF", "LAMBDA") and all(_is_constant(child) for child in node.values())


def _texts(node: Any) -> list[str] | None:
    """The literals of a constant or of a list of constants; None of anything else."""
    if node.get("class") == "CONSTANT":
        return [str((node.get("literal") or {}).get("text", node.get("value")))]
    if node.get("type") == "ARRAY_CONSTRUCTOR":
        items = node.get("children") or []
    elif node.get("function_name") == "list_value":
        items = [item["expression"] for item in node.get("arguments") or []]
    else:
        return None
    found = [_texts(item) for item in items]
    return None if None in found else [text for texts in found for text in texts or []]


def _number(node: Any) -> float:
    """A whole number that is written as such; infinity for anything else."""
    literal = node.get("literal") or {}
    return int(literal["text"]) if literal.get("kind") == "INTEGER" else float("inf")
