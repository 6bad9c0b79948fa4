"""DuckDB's SQL for our types, values and predicates, with our meaning.

DuckDB has NaN equal to itself and above all numbers; we follow IEEE. It takes the zone of a session for times, the
collation of a session for texts, and has no escape in LIKE by default: all three are spelled out here.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

import pyarrow as pa

from delta_sidecar.engines.engine_plan import NotTranslatedError
from delta_sidecar.predicates.expression import (
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Expression,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Value,
)
from delta_sidecar.predicates.known_values import physical
from delta_sidecar.predicates.like import backslash_pattern, like_tokens
from delta_sidecar.values.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

_TYPES: Final = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "void": '"NULL"',
    "null": '"NULL"',
}
_FLOATS: Final = (PrimitiveType("float"), PrimitiveType("double"))
_INTEGERS: Final = tuple(PrimitiveType(name) for name in ("byte", "short", "integer", "long"))
_STRING: Final = PrimitiveType("string")


_FARTHEST: Final = {"date": 2_000_000_000, "timestamp": 9 * 10**18, "timestamp_ntz": 9 * 10**18}
"""Days and microseconds that DuckDB takes: a little more is infinite there, or an error."""


def duckdb_type(data_type: DataType) -> str:
    """The type's name in SQL."""
    match data_type:
        case DecimalType(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ArrayType(element):
            return f"{duckdb_type(element)}[]"
        case MapType(key, value):
            return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
        case StructType(fields):
            return f"STRUCT({', '.join(f'{quoted(f.name)} {duckdb_type(f.type)}' for f in fields)})"
        case PrimitiveType(name) if name in _TYPES:
            return _TYPES[name]
    raise NotTranslatedError(f"DuckDB has no type for {data_type}")


def quoted(name: str) -> str:
    """A name in SQL."""
    if not name:
        raise NotTranslatedError("a column name is empty, which SQL does not allow")
    if "\0" in name:
        raise NotTranslatedError(f"the name {name!r} holds a zero byte")
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text in SQL."""
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise NotTranslatedError(f"{value!r} is not UTF-8 text") from None
    if b"\0" in encoded:
        return f"decode(from_hex('{encoded.hex()}'))"
    return "'" + value.replace("'", "''") + "'"


def literal(value: Value | None, data_type: DataType) -> str:
    """A value, in the form in which predicates hold it, as SQL of exactly its type."""
    if value is None:
        return f"CAST(NULL AS {duckdb_type(data_type)})"
    match data_type:
        case PrimitiveType("string"):
            return text(str(value))
        case PrimitiveType("binary"):
            assert isinstance(value, bytes)
            return f"from_hex('{value.hex()}')"
        case PrimitiveType("boolean"):
            return "TRUE" if value else "FALSE"
        case PrimitiveType("float" | "double"):
            return f"CAST('{_float(float(value))}' AS {duckdb_type(data_type)})"
        case DecimalType():
            assert isinstance(value, Decimal)
            return f"CAST('{value:f}' AS {duckdb_type(data_type)})"
        case PrimitiveType(name) if isinstance(value, int):
            return _whole(value, name)
    raise NotTranslatedError(f"a {data_type} has no literal")


def _whole(value: int, name: str) -> str:
    """A value that is held as a whole number."""
    if abs(value) > _FARTHEST.get(name, abs(value)):
        raise NotTranslatedError(f"{value} is out of the range of a {name} in DuckDB")
    match name:
        case "date":
            return f"(DATE '1970-01-01' + CAST({value} AS INTEGER))"
        case "timestamp":
            return f"make_timestamptz(CAST({value} AS BIGINT))"
        case "timestamp_ntz":
            return f"make_timestamp(CAST({value} AS BIGINT))"
    return f"CAST({value} AS {_TYPES[name]})"


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def scalar_literal(scalar: pa.Scalar, data_type: DataType) -> str:
    """A partition value as SQL."""
    return literal(physical(scalar), data_type)


class PredicateSql:
    """Writes predicates over the columns of a relation. `has_collation`: texts do not compare as bytes by default."""

    def __init__(self, has_collation: bool = False) -> None:
        self._has_collation = has_collation

    def write(self, expression: Expression) -> str:
        """The predicate as SQL: true, false and null as we have it."""
        match expression:
            case And(terms):
                return f"({' AND '.join(map(self.write, terms))})"
            case Or(terms):
                return f"({' OR '.join(map(self.write, terms))})"
            case Not(term):
                return f"(NOT {self.write(term)})"
            case Constant(value):
                return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[value]
            case IsNull(column):
                return f"({self._name(column)} IS NULL)"
            case Compare(column, op, value):
                return self._compare(column, op, value)
            case CompareColumns(left, op, right):
                return self._compare_columns(left, op, right)
            case In(column, values):
                return f"({self._values(column)} IN ({', '.join(literal(v, column.type) for v in values)}))"
            case Like(column, pattern, escape):
                return self._like(column, pattern, escape)

    def _name(self, column: Column) -> str:
        top, *inner = column.path
        name = quoted(top)
        for part in inner:
            name = f"struct_extract({name}, {text(part)})"
        return name

    def _values(self, column: Column) -> str:
        """The column, to be compared as we do."""
        name = self._name(column)
        return f'{name} COLLATE "binary"' if self._has_collation and column.type == _STRING else name

    def _compare(self, column: Column, op: Operator, value: Value) -> str:
        compared = f"{self._values(column)} {_op(op)} {literal(value, column.type)}"
        if column.type in _FLOATS and op in (">", ">="):
            return f"({compared} AND NOT isnan({self._name(column)}))"
        return f"({compared})"

    def _compare_columns(self, left: Column, op: Operator, right: Column) -> str:
        compared = f"{self._values(left)} {_op(op)} {self._values(right)}"
        if left.type in _FLOATS or right.type in _FLOATS:
            return self._compare_floats(left, op, right)
        if left.type == right.type or (left.type in _INTEGERS and right.type in _INTEGERS):
            return f"({compared})"
        raise NotTranslatedError(f"DuckDB compares {left.type} with {right.type} in its own way")

    def _compare_floats(self, left: Column, op: Operator, right: Column) -> str:
        if isinstance(left.type, DecimalType) or isinstance(right.type, DecimalType):
            raise NotTranslatedError(f"DuckDB compares {left.type} with {right.type} in its own way")
        one, other = (f"CAST({self._name(column)} AS DOUBLE)" for column in (left, right))
        either = "TRUE" if op == "!=" else "FALSE"
        return (
            f"(CASE WHEN {one} IS NULL OR {other} IS NULL THEN NULL WHEN isnan({one}) OR isnan({other}) THEN {either} "
            f"ELSE {one} {_op(op)} {other} END)"
        )

    def _like(self, column: Column, pattern: str, escape: str) -> str:
        tokens = like_tokens(pattern, escape)
        name = self._name(column)
        if all(not wildcard for wildcard, _ in tokens):
            whole = "".join(part for _, part in tokens)
            return f"({self._values(column)} = {text(whole)})"
        return f"({name} LIKE {text(backslash_pattern(tokens))} ESCAPE '\\')"


def _op(op: Operator) -> str:
    return "<>" if op == "!=" else op
