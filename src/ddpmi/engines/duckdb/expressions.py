"""Expressions: which SQL of the caller is a function of one row that no cell can make fail. Imports no engine.

DuckDB's TRY turns most errors of a cell into NULL, but not all. So an expression may call only the functions listed here.
Every one of them passed the sweep of `bench/claims/expressions.py`: hostile cells of every type raise no error that TRY
does not catch, and no cell decides how large a result is. A function of a newer DuckDB is refused until it is swept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ddpmi.errors import Hint, InputError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection


_OPERATORS = """+ - * / // % ** ^ & | << >> ~ || ~~ !~~ ~~* !~~* ~~~ ^@ && @> <@ ->> @ like_escape ilike_escape not_like_escape
not_ilike_escape"""
_NUMBERS = """add subtract multiply divide mod power pow xor abs acos acosh asin asinh atan atan2 atanh cbrt ceil ceiling cos cosh
cot degrees even exp floor gamma lgamma ln log log10 log2 pi radians round round_even sign signbit sin sinh sqrt tan
tanh trunc isfinite isinf isnan greatest least gcd greatest_common_divisor lcm least_common_multiple bit_count
factorial"""
_TIMES = """year month day decade century millennium quarter week weekofyear weekday dayofweek dayofmonth dayofyear isodow
isoyear yearweek hour minute second millisecond microsecond era epoch epoch_ms epoch_us epoch_ns julian dayname
monthname last_day date_part datepart date_trunc datetrunc date_diff datediff date_sub datesub make_date make_time
make_timestamp to_timestamp to_microseconds to_milliseconds to_seconds to_minutes to_hours to_days to_weeks
to_months to_quarters to_years to_decades to_centuries to_millennia strftime strptime try_strptime timezone
time_bucket"""
_TEXTS = """lower lcase upper ucase length len strlen char_length character_length length_grapheme octet_length bit_length left
right left_grapheme right_grapheme substr substring substring_grapheme trim ltrim rtrim replace reverse starts_with
ends_with prefix suffix contains position strpos instr split string_split str_split string_to_array
string_split_regex str_split_regex regexp_split_to_array regexp_matches regexp_full_match regexp_extract
regexp_extract_all regexp_replace regexp_escape concat lpad rpad ascii unicode ord chr md5 sha1 sha256 hash
translate strip_accents nfc_normalize url_decode url_encode overlay to_base64 base64 from_base64 hex to_hex unhex
from_hex encode decode parse_filename parse_path parse_dirname parse_dirpath typeof"""
_JSONS = """json_extract json_extract_path json_extract_string json_extract_path_text json_value json_exists json_type
json_valid json_array_length json_keys"""
_LISTS = """list_contains array_contains list_has array_has list_has_any list_has_all array_has_any array_has_all list_position
list_indexof array_position array_indexof list_distinct array_distinct list_unique array_unique list_sort array_sort
list_reverse_sort array_reverse_sort list_slice array_slice list_extract array_extract list_element list_concat
array_concat list_cat array_cat list_value list_pack list_filter array_filter filter list_transform array_transform
list_apply array_apply apply flatten list_intersect array_intersect cardinality map_keys map_values map_extract
map_extract_value element_at map_contains struct_extract struct_pack row"""
#: Built-in macros that expand to such functions of only their arguments.
MACROS = frozenset(
    {"nullif", "if", "split_part", "date_add", "days_in_month", "fdiv", "fmod", "array_to_string"}
    | {"list_append", "list_prepend", "list_reverse", "list_first", "list_last"}
    | {"list_min", "list_max", "list_sum", "list_avg", "list_count"}
)
FUNCTIONS = frozenset(f"{_OPERATORS} {_NUMBERS} {_TIMES} {_TEXTS} {_JSONS} {_LISTS}".split()) | MACROS

_PATTERN = dict.fromkeys(["~~", "!~~", "~~*", "!~~*", "~~~"], (1,))
_ESCAPED = dict.fromkeys(["like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape"], (1, 2))
_REGEX = dict.fromkeys(["regexp_matches", "regexp_full_match", "regexp_split_to_array"], (1, 2))
_REGEXES = dict.fromkeys(["string_split_regex", "str_split_regex"], (1, 2))
_GROUPS = dict.fromkeys(["regexp_extract", "regexp_extract_all"], (1, 2, 3))
_PARTS = dict.fromkeys(
    ["date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff", "date_sub", "datesub"], (0,)
)
#: Functions that take the name of a part of a date.
PARTED = frozenset(_PARTS)
_NAMED = """year month day decade century millennium quarter week yearweek isoyear isodow dow weekday dayofweek doy dayofyear
hour minute second millisecond milliseconds microsecond microseconds era epoch julian"""
#: The parts of a date that may be named.
PARTS = frozenset(_NAMED.split())
#: JSON functions with a path -> the path's place. The path ".." searches all depths: its cost grows with the square of a cell.
PATHS = dict.fromkeys([name for name in [*_JSONS.split(), "->>"] if name != "json_valid"], (1,))
#: Functions whose result has the length that an argument gives -> the argument's place, and the largest length.
LENGTHS = {"lpad": (1,), "rpad": (1,)}
LONGEST = 1000
#: Function -> arguments that must be constants. A cell there could raise an error that TRY misses, or cost more than its length.
CONSTANTS: dict[str, tuple[int, ...]] = {
    **_PATTERN,
    **_ESCAPED,
    **_REGEX,
    **_REGEXES,
    **_GROUPS,
    **_PARTS,
    **PATHS,
    **LENGTHS,
    "regexp_replace": (1, 2, 3),
    "replace": (2,),
    "array_to_string": (1,),
    "timezone": (0,),
    "time_bucket": (0,),
}
#: Function -> the only number of arguments that is allowed.
ARGUMENTS = {"timezone": 2, "time_bucket": 2, "make_timestamp": 6}
#: Functions that raise an error for every cell of a type they do not take. They are tried on a made-up cell of that type.
TYPED = frozenset(
    {*_PARTS, "timezone", "time_bucket"}
    | {"isoyear", "weekday", "dayofweek", "dayofyear", "isodow", "week", "weekofyear", "yearweek", "era"}
)
#: A made-up cell for each type, as SQL.
CELLS = {
    "DATE": "DATE '2001-02-03'",
    "TIME": "TIME '04:05:06'",
    "TIMESTAMP": "TIMESTAMP '2001-02-03 04:05:06'",
    "TIMESTAMP_S": "TIMESTAMP_S '2001-02-03 04:05:06'",
    "TIMESTAMP_MS": "TIMESTAMP_MS '2001-02-03 04:05:06'",
    "TIMESTAMP_NS": "TIMESTAMP_NS '2001-02-03 04:05:06'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2001-02-03 04:05:06+00'",
    "INTERVAL": "INTERVAL '1 day'",
}
_SCALARS = """boolean tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint float double decimal
varchar blob date time timestamp timestamp_s timestamp_ms timestamp_ns interval uuid enum null"""
#: Types that columns and casts may have, as DuckDB's types name themselves.
TYPES = frozenset({*_SCALARS.split(), "timestamp with time zone", "list", "array", "struct", "map"})
#: Types that columns may have. Reading times of day and intervals beyond their range fails.
COLUMNS = TYPES - {"time", "interval"}
#: Types whose cells DuckDB cannot write as text beyond a range. TRY misses this error, so such cells are read as NULL.
STAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
#: Types whose cells have one size.
SIZED = TYPES - {"varchar", "blob", "list", "array", "struct", "map"}
_OTHER_NAMES = """json int1 int2 int4 int8 int16 int32 int64 int128 uint8 uint16 uint32 uint64 uint128 short int integral signed
long bool logical dec numeric float4 real float8 bytea binary varbinary text string char bpchar nvarchar datetime timestamp_us
timestamptz row guid"""
#: Other names of these types.
ALIASES = frozenset(_OTHER_NAMES.split())

#: What a parsed expression may hold.
_CLASSES = frozenset(
    {"COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE", "CAST", "BETWEEN", "FUNCTION"}
    | {"LAMBDA", "TYPE"}
)
_OPERATOR_TYPES = frozenset(
    {f"OPERATOR_{name}" for name in ("NOT", "IS_NULL", "IS_NOT_NULL", "COALESCE", "NULLIF", "TRY")}
    | {"COMPARE_IN", "COMPARE_NOT_IN", "ARRAY_EXTRACT", "ARRAY_SLICE", "ARRAY_CONSTRUCTOR", "STRUCT_EXTRACT"}
)
#: The mark of a lambda with the keyword. DuckDB 1.5 sets no mark; there every lambda is read as an arrow.
_LAMBDAS = frozenset({"LAMBDA_KEYWORD"})
_HINT = Hint(
    do="use columns, constants, comparisons, CASE, CAST and scalar functions",
    python='label=sql("year(visited)")',
    cli='--label-sql "year(visited)"',
)


def is_known(type_: Any, *, inside: bool = False) -> bool:
    """Tell whether a column may have a type of DuckDB: the type and all types inside it are in the list."""
    if inside and str(type_) in STAMPS:
        return False
    inner = type_.children if type_.id in ("list", "array", "struct", "map") else []
    return type_.id in COLUMNS and all(is_known(child, inside=True) for name, child in inner if name != "size")


def guarded(text: str) -> str:
    r"""Write an expression so that its result is NULL where it fails on a row. The line ends keep a comment inside.

    >>> guarded("year(visited)")
    'TRY(\nyear(visited)\n)'
    """
    return f"TRY(\n{text}\n)"


def statement(text: str) -> str:
    """Return the statement that is parsed. It holds the same text that will run."""
    return f"SELECT {guarded(text)} FROM source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function call, which is tried on made-up cells before anything is charged."""

    name: str
    arguments: tuple[Any, ...]
    """Trees of the arguments."""
    constants: tuple[int, ...]
    """Which of them are constants."""
    inside: bool
    """Whether it is inside a lambda, where types are unknown."""


@dataclass(slots=True, kw_only=True)
class Reader:
    """Walks a parsed expression and collects the columns it reads."""

    what: str
    """The name of the expression in messages."""
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
        if kind == "OPERATOR" and type_ not in _OPERATOR_TYPES:
            self._refuse(f"holds {type_.lower()}, which is not taken here")
        if kind == "FUNCTION":
            self._function(node)

    def _lambda(self, node: dict[str, Any], bound: frozenset[str]) -> None:
        if node.get("syntax_type") not in _LAMBDAS:
            # Before binding, an arrow may be a lambda or the operator that takes a member of a JSON column.
            self._walk(node["lhs"], bound)
            self._walk(node["expr"], bound)
            self._path("->", node["expr"])
            self.calls.append(
                Call(name="->>", arguments=(node["lhs"], node["expr"]), constants=(1,), inside=self.inside)
            )
            return
        # The cost of a lambda that reads another one's parameters, or long cells, grows with the square of a row.
        before, self.inside = self.inside, True
        self._walk(node["expr"], self._parameters(node["lhs"]))
        self.inside = before

    def _parameters(self, node: dict[str, Any]) -> frozenset[str]:
        """Return the names that a lambda binds: one, or a row of them."""
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
                hint="write texts in single quotes, columns bare or in double quotes, lambdas as lambda x: x + 1",
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
        if name not in FUNCTIONS:
            self._refuse(
                f"calls {name!r}, which is not known to be a function of one row's columns that no cell can break"
            )
        self._arguments(name, node.get("arguments") or [])

    def _arguments(self, name: str, given: list[dict[str, Any]]) -> None:
        places = CONSTANTS.get(name, ())
        if ARGUMENTS.get(name, len(given)) != len(given):
            self._refuse(f"calls {name!r} in a form that is not taken here")
        if not places and name not in TYPED:
            return
        if any(item.get("name") for item in given):
            self._refuse(f"calls {name!r} with names of arguments")
        nodes = tuple(item["expression"] for item in given)
        constants = tuple(place for place in places if place < len(nodes))
        for place in constants:
            # proof: row-local.expressions
            if not _is_constant(nodes[place]):
                self._refuse(f"calls {name!r} with a column where only a constant is safe (argument {place + 1})")
            if name in PATHS:
                self._path(name, nodes[place])
            if name in PARTED and not {text.lower() for text in _texts(nodes[place]) or ["?"]} <= PARTS:
                self._refuse(f"calls {name!r} with a part of a date that is not taken here")
            if name in LENGTHS and not _number(nodes[place]) <= LONGEST:
                self._refuse(f"calls {name!r} with a length that is no whole number up to {LONGEST}")
        self.calls.append(Call(name=name, arguments=nodes, constants=constants, inside=self.inside))

    def _path(self, name: str, node: Any) -> None:
        texts = _texts(node)
        if texts is None or any(".." in text or "**" in text for text in texts):
            self._refuse(f"calls {name!r} with a path that is no plain constant or searches all depths")

    def _type(self, node: dict[str, Any]) -> None:
        name = str(node.get("type_name", "")).lower()
        path = (node.get("qualified_name") or {}).get("path") or [name]
        if name not in TYPES | ALIASES or len(path) > 1:
            self._refuse(f"casts to {name!r}, which cannot be computed here")
        self._walk(node.get("children") or [], frozenset())

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"{self.what[0].upper()}{self.what[1:]} {why}.", hint=_HINT)


def _bare(node: Any) -> Any:
    """Return a tree without its positions in the text."""
    if isinstance(node, dict):
        return {key: _bare(value) for key, value in node.items() if not key.startswith("query_location")}
    return [_bare(item) for item in node] if isinstance(node, list) else node


def _is_constant(node: Any) -> bool:
    """Tell whether a tree names no column and no parameter of a lambda."""
    if isinstance(node, list):
        return all(_is_constant(item) for item in node)
    if not isinstance(node, dict):
        return True
    return node.get("class") not in ("COLUMN_REF", "LAMBDA") and all(_is_constant(child) for child in node.values())


def _texts(node: Any) -> list[str] | None:
    """Return the literals of a constant or of a list of constants; None for anything else."""
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
    """Return a whole number that is written as digits; infinity for anything else."""
    literal = node.get("literal") or {}
    return int(literal["text"]) if literal.get("kind") == "INTEGER" else float("inf")
