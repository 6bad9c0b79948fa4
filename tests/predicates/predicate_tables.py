"""Schemas and a dumb evaluator, shared by the tests of predicates."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from delta_sidecar.predicates.expression import (
    And,
    Compare,
    CompareColumns,
    Constant,
    Expression,
    In,
    IsNull,
    Like,
    Not,
    Or,
)
from delta_sidecar.predicates.like import like_tokens
from delta_sidecar.values.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType

Row = dict[str, Any]


def field(name: str, data_type: DataType | str, **metadata: str) -> StructField:
    parsed = PrimitiveType(data_type) if isinstance(data_type, str) else data_type
    return StructField(name, parsed, metadata=metadata, physical_name=f"col-{name}")


def struct(*fields: StructField) -> StructType:
    return StructType(fields)


ALL_TYPES = struct(
    *(field(name, name) for name in ("byte", "short", "integer", "long", "float", "double", "boolean", "string")),
    *(field(name, name) for name in ("binary", "date", "timestamp", "timestamp_ntz", "void", "variant")),
    field("decimal", DecimalType(10, 2)),
    field("array", ArrayType(PrimitiveType("long"))),
    field("map", MapType(PrimitiveType("string"), PrimitiveType("long"))),
    field("event", struct(field("inner", struct(field("leaf", "long"))), field("dotted.name", "string"))),
    field("with space", "integer"),
    field("year", "integer"),
    field("part", "string"),
)
PARTITIONS = ["year", "part"]


def evaluate(expression: Expression, row: Row) -> bool | None:
    """The expression over one row of Python values, in the simplest way."""
    match expression:
        case Constant(value):
            return value
        case And(terms):
            results = [evaluate(term, row) for term in terms]
            return False if False in results else None if None in results else True
        case Or(terms):
            results = [evaluate(term, row) for term in terms]
            return True if True in results else None if None in results else False
        case Not(term):
            result = evaluate(term, row)
            return None if result is None else not result
        case IsNull(column):
            return _get(row, column.path) is None
        case Compare(column, op, value):
            return _compare(_get(row, column.path), op, value)
        case CompareColumns(left, op, right):
            return _compare(_get(row, left.path), op, _get(row, right.path))
        case In(column, values):
            found = _get(row, column.path)
            return None if found is None else any(found == value for value in values)
        case Like(column, pattern, escape):
            text = _get(row, column.path)
            return None if text is None else re.fullmatch(_regex(pattern, escape), text, re.DOTALL) is not None


def _get(row: Row, path: tuple[str, ...]) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


def _compare(left: Any, op: str, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return bool(
        {
            "=": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[op]
    )


def _regex(pattern: str, escape: str) -> str:
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(wildcard) or re.escape(text) for wildcard, text in like_tokens(pattern, escape))


def batch(schema: StructType, rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema.to_arrow())
