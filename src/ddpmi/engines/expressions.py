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
    "COLUMN_REF CONSTANT COMPARISON CONJUNCTION OPERATOR CASE CAST BETWEEN FUNCTION LAMBDA TYPE".split()
)
_OPERATORS = frozenset(
    """OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_NULLIF OPERATOR_TRY COMPARE_IN
    COMPARE_NOT_IN ARRAY_EXTRACT ARRAY_SLICE ARRAY_CONSTRUCTOR STRUCT_EXTRACT""".split()
)
#: Built-in macros that expand to functions of their arguments alone.
_MACROS = frozenset(
    """nullif if split_part date_add days_in_month fdiv fmod array_to_string list_append list_prepend list_reverse
    list_first list_last list_min list_max list_sum list_avg list_count""".split()
)
#: Scalar by the catalog's word, yet they read a clock, plan a query, or make one cell as large as another one says.
_REFUSED = frozenset(
    """age current_localtime current_localtimestamp version json_serialize_plan json_serialize_sql json_deserialize_sql
    finalize combine to_aggregate_state repeat range generate_series list_resize array_resize""".split()
)
#: The catalog's question: which names are scalar and consistent in every form.
FUNCTIONS = """SELECT function_name FROM duckdb_functions() WHERE function_type <> 'pragma'
GROUP BY function_name HAVING bool_and(function_type = 'scalar' AND stability = 'CONSISTENT')"""
_HINT = "use columns, constants, comparisons, CASE, CAST and scalar functions: label=expr(\"year(visited)\")"


def guarded(text: str) -> str:
    """Write an expression so that an error in one row is NULL. The line ends keep a comment inside.

    >>> guarded("year(visited)")
    'TRY(\\nyear(visited)\\n)'
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
        if isinstance(node, list):
            for item in node:
                self._walk(item, bound)
        if not isinstance(node, dict):
            return
        kind = node.get("class")
        if node.get("orders") or str(node.get("type", "")).endswith("_NODE"):
            self._refuse("holds a subquery or an ORDER BY")
        if kind is not None and kind not in _CLASSES:
            self._refuse(f"holds a {str(kind).lower().replace('_', ' ')}, which may see more than its own row")
        if kind == "CONSTANT":
            return
        if kind == "COLUMN_REF":
            self._column(node["column_names"], bound)
            return
        if kind == "OPERATOR" and node.get("type") not in _OPERATORS:
            self._refuse(f"holds {str(node.get('type')).lower()}")
        if kind == "FUNCTION":
            self._function(node)
        if kind == "LAMBDA":
            self._lambda(node, bound)
            return
        for child in node.values():
            self._walk(child, bound)

    def _lambda(self, node: dict[str, Any], bound: frozenset[str]) -> None:
        names = list(_names(node["lhs"]))
        for name in names:
            # A single arrow also takes a member out of a JSON column; then its left side is that column.
            if (found := self._find(name)) is not None:
                self.reads[found] = None
        self._walk(node["expr"], bound | {name.lower() for name in names})

    def _column(self, path: list[str], bound: frozenset[str]) -> None:
        name = path[0]
        if name.lower() in bound:
            return
        found = self._find(name) or (name if self.open_names else None)
        if found is None:
            raise SchemaError(
                f"The data has no column {name!r}, which {self.what} names.",
                hint="columns are named bare, or in double quotes; texts stand in single quotes",
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


def _names(node: Any) -> list[str]:
    """The parameters of a lambda: a name, or a row of them."""
    if isinstance(node, list):
        return [name for item in node for name in _names(item)]
    if not isinstance(node, dict):
        return []
    if node.get("class") == "COLUMN_REF":
        return [str(node["column_names"][0])]
    return [name for child in node.values() for name in _names(child)]


def _bare(node: Any) -> Any:
    """A tree without the places in the text."""
    if isinstance(node, dict):
        return {key: _bare(value) for key, value in node.items() if not key.startswith("query_location")}
    return [_bare(item) for item in node] if isinstance(node, list) else node
