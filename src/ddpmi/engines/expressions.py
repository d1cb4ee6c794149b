"""Which SQL expressions are functions of one row: an allow-list over the parsed tree.

A row's unit, feature, label, value and whether it is kept must depend on that row alone. Everything that could look
further (subqueries, windows, aggregates), change between two readings (clocks, random numbers) or reach out of the
data (settings, variables) is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

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
#: Built-in macros that expand to functions of their arguments alone.
_MACROS = frozenset(
    {"nullif", "if", "split_part", "date_add", "days_in_month", "fdiv", "fmod", "array_to_string"}
    | {"list_append", "list_prepend", "list_reverse", "list_first", "list_last"}
    | {"list_min", "list_max", "list_sum", "list_avg", "list_count"}
)
#: Scalar by the catalog's word, yet they read a clock, plan a query, or make one cell as large as another one says.
_REFUSED = frozenset(
    {"age", "current_localtime", "current_localtimestamp", "version", "current_setting", "getvariable", "vector_type"}
    | {"json_serialize_plan", "json_serialize_sql", "json_deserialize_sql"}
    | {"finalize", "combine", "to_aggregate_state"}
    | {"repeat", "range", "generate_series", "list_resize", "array_resize"}
)
#: The catalog's question: which names are scalar and consistent in every form.
FUNCTIONS = """SELECT function_name FROM duckdb_functions() WHERE function_type <> 'pragma'
GROUP BY function_name HAVING bool_and(function_type = 'scalar' AND stability = 'CONSISTENT')"""
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


@dataclass(slots=True, kw_only=True)
class Reader:
    """Walks a parsed expression and collects the columns it reads."""

    what: str
    """How messages call the expression."""
    columns: Collection[str]
    """Columns that exist."""
    open_names: bool
    """Whether further columns may exist, as in JSON lines."""
    functions: Collection[str]
    """Names of scalar functions."""
    reads: dict[str, None] = field(default_factory=dict)

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
            return
        self._walk(node["expr"], bound | self._parameters(node["lhs"]))

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

    def _find(self, name: str) -> str | None:
        if name in self.columns:
            return name
        return next((column for column in [*self.columns, *self.reads] if column.lower() == name.lower()), None)

    def _function(self, node: dict[str, Any]) -> None:
        name = str(node["function_name"]).lower()
        if node.get("distinct") or node.get("filter") or node.get("schema") or node.get("catalog"):
            self._refuse(f"calls {name!r} with DISTINCT, FILTER or a schema")
        if name in _MACROS:
            return
        if name in _REFUSED or name.startswith("__") or name not in self.functions:
            self._refuse(f"calls {name!r}, which is no function of one row's columns alone")

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"{self.what[0].upper()}{self.what[1:]} {why}.", hint=_HINT)


def _bare(node: Any) -> Any:
    """A tree without the places in the text."""
    if isinstance(node, dict):
        return {key: _bare(value) for key, value in node.items() if not key.startswith("query_location")}
    return [_bare(item) for item in node] if isinstance(node, list) else node
