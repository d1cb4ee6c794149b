"""Functions that an expression may call: a list, because DuckDB's TRY lets some errors of single cells through.

Every name passed the sweep of `bench/check_expressions.py`: hostile cells of every type raise nothing that TRY does not turn
into NULL, and no cell says how large a result is. A function that a newer DuckDB brings is refused until it is swept.
"""

from __future__ import annotations

from typing import Any

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
#: Built-in macros that expand to such functions of their arguments alone.
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
#: Functions of a part of a date, and the parts.
PARTED = frozenset(_PARTS)
_NAMED = """year month day decade century millennium quarter week yearweek isoyear isodow dow weekday dayofweek doy dayofyear
hour minute second millisecond milliseconds microsecond microseconds era epoch julian"""
PARTS = frozenset(_NAMED.split())
#: Functions of JSON whose path is given. "..", which finds every member of a member again, grows with the square of a cell.
PATHS = dict.fromkeys([name for name in [*_JSONS.split(), "->>"] if name != "json_valid"], (1,))
#: Functions whose result is as long as a number says.
LENGTHS = {"lpad": (1,), "rpad": (1,)}
LONGEST = 1000
#: Function -> places that take a constant alone. A cell there raises what TRY does not catch, or costs more than its length.
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
#: How many arguments, where other forms are refused.
ARGUMENTS = {"timezone": 2, "time_bucket": 2, "make_timestamp": 6}
#: Functions that raise, for every cell, where they do not take the type: they are tried on a made-up cell of that type.
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
#: Types that columns and casts may have, as DuckDB's types name themselves.
TYPES = frozenset(
    {
        "boolean",
        "tinyint",
        "smallint",
        "integer",
        "bigint",
        "hugeint",
        "utinyint",
        "usmallint",
        "uinteger",
        "ubigint",
        "uhugeint",
    }
    | {
        "float",
        "double",
        "decimal",
        "varchar",
        "blob",
        "date",
        "time",
        "timestamp",
        "timestamp_s",
        "timestamp_ms",
        "timestamp_ns",
    }
    | {"timestamp with time zone", "interval", "uuid", "enum", "list", "array", "struct", "map", "null"}
)
#: Types that columns may have. Readers themselves fail for times of day and intervals beyond their range.
COLUMNS = TYPES - {"time", "interval"}
#: Types whose cells DuckDB cannot write as text beyond a range: it raises through TRY, so such cells are read as NULL.
STAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
#: Types whose cells have one size.
SIZED = TYPES - {"varchar", "blob", "list", "array", "struct", "map"}
#: Other names of these types.
ALIASES = frozenset(
    {
        "json",
        "int1",
        "int2",
        "int4",
        "int8",
        "int16",
        "int32",
        "int64",
        "int128",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "uint128",
    }
    | {
        "short",
        "int",
        "integral",
        "signed",
        "long",
        "bool",
        "logical",
        "dec",
        "numeric",
        "float4",
        "real",
        "float8",
        "bytea",
        "binary",
    }
    | {
        "varbinary",
        "text",
        "string",
        "char",
        "bpchar",
        "nvarchar",
        "datetime",
        "timestamp_us",
        "timestamptz",
        "row",
        "guid",
    }
)


def is_known(type_: Any, *, inside: bool = False) -> bool:
    """Whether a column may have a type of DuckDB: it, and all inside it, is in the list."""
    if inside and str(type_) in STAMPS:
        return False
    inner = type_.children if type_.id in ("list", "array", "struct", "map") else []
    return type_.id in COLUMNS and all(is_known(child, inside=True) for name, child in inner if name != "size")
