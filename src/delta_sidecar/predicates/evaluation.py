"""Which rows of an Arrow batch fulfil a predicate: exact, vectorised, in SQL's three-valued logic.

The answer is null where SQL's is unknown; `RecordBatch.filter` leaves such rows out. NaN follows IEEE: it is
equal to nothing and in no order, so only `!=` and negations match it. Strings compare as UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
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
from delta_sidecar.predicates.like import matching_like
from delta_sidecar.values.types import DecimalType, arrow_type

_WIDE = Context(prec=100)
_COMPARE: dict[Operator, Callable[[Any, Any], pa.BooleanArray]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matching(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """True for the rows that match; false or null for the others. The batch has the table's logical names."""
    match expression:
        case And(terms):
            return reduce(pc.and_kleene, (matching(term, batch) for term in terms))
        case Or(terms):
            return reduce(pc.or_kleene, (matching(term, batch) for term in terms))
        case Not(term):
            return pc.invert(matching(term, batch))
        case Constant(value):
            return _constant(value, batch.num_rows)
        case IsNull(column):
            return pc.is_null(_values(column, batch))
        case Compare(column, op, value):
            return _compare(_values(column, batch), op, column, value)
        case CompareColumns(left, op, right):
            return _COMPARE[op](*_alike(_values(left, batch), _values(right, batch)))
        case In(column, values):
            return _in(_values(column, batch), column, values)
        case Like(column, pattern, escape):
            return matching_like(_values(column, batch), pattern, escape)


def _values(column: Column, batch: pa.RecordBatch) -> pa.Array:
    """The column's values; null wherever a struct around them is."""
    top, *inner = column.path
    array = batch.column(top)
    for name in inner:
        array = pc.struct_field(array, [array.type.get_field_index(name)])
    return array


def _constant(value: bool | None, rows: int) -> pa.BooleanArray:
    return pa.nulls(rows, pa.bool_()) if value is None else arrays.booleans(np.full(rows, value, np.bool_))


def _compare(array: pa.Array, op: Operator, column: Column, value: Value) -> pa.BooleanArray:
    return _COMPARE[op](array, literal_array([value], column)[0])


def _in(array: pa.Array, column: Column, values: Sequence[Value]) -> pa.BooleanArray:
    """Null for null, which `is_in` alone calls false."""
    if 0.0 in values and pa.types.is_floating(array.type):
        values = (*values, 0.0, -0.0)  # equal, but hashed apart
    flags = pc.is_in(array, value_set=literal_array(values, column))
    return pc.if_else(pc.is_valid(array), flags, pa.nulls(1, pa.bool_())[0])


def literal_array(values: Sequence[Value], column: Column) -> pa.Array:
    """Literals as an array of the column's type."""
    data_type = arrow_type(column.type)
    if isinstance(column.type, DecimalType):
        return _decimals(values, data_type, column.type.scale)
    if pa.types.is_string(data_type):
        return arrays.strings(values)  # type: ignore[arg-type]
    if pa.types.is_binary(data_type):
        return arrays.binaries(values)  # type: ignore[arg-type]
    if pa.types.is_boolean(data_type):
        return arrays.booleans(np.array(values, np.bool_))
    kind = "f" if pa.types.is_floating(data_type) else "i"
    return arrays.primitives(values, data_type, f"<{kind}{data_type.bit_width // 8}")


def _decimals(values: Sequence[Any], data_type: pa.DataType, scale: int) -> pa.Array:
    """Arrow's decimal128: the unscaled integers in 16 bytes."""
    unscaled = (_unscaled(value, scale).to_bytes(16, "little", signed=True) for value in values)
    return pa.Array.from_buffers(data_type, len(values), [None, pa.py_buffer(b"".join(unscaled))])


def _unscaled(value: Decimal, scale: int) -> int:
    return int(value.scaleb(scale, context=_WIDE))


def _alike(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both columns as one type that holds the values of both: doubles, wide decimals, or UTC microseconds."""
    if left.type == right.type:
        return left, right
    types = (left.type, right.type)
    if any(map(pa.types.is_floating, types)):
        common = pa.float64()
    elif any(map(pa.types.is_decimal, types)):
        common = pa.decimal256(76, max(t.scale for t in types if pa.types.is_decimal(t)))
    elif any(map(pa.types.is_integer, types)):
        common = pa.int64()
    else:
        common = pa.timestamp("us")
    return left.cast(common), right.cast(common)
