"""The form in which bounds and literals are compared: one Arrow type per kind of column.

Integers, dates, timestamps and booleans compare as int64, floats as float64, strings as their UTF-8 bytes,
decimals as themselves: five kernels instead of fifteen, and no conversion that could round.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType

INTEGERS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
"""The integer types and their widths in bits."""
FLOATS: Final = frozenset({"float", "double"})
TIMESTAMPS: Final = frozenset({"timestamp", "timestamp_ntz"})

_AS_INT64: Final = frozenset({*INTEGERS, *TIMESTAMPS, "date", "boolean"})
_AS_BINARY: Final = frozenset({"string", "binary"})
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


def comparison_type(data_type: DataType) -> pa.DataType | None:
    """The type that values of a column compare in; None if they do not compare."""
    match data_type:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale) if 0 <= scale <= precision <= 38 and precision else None
        case PrimitiveType(name) if name in _AS_INT64:
            return pa.int64()
        case PrimitiveType(name) if name in FLOATS:
            return pa.float64()
        case PrimitiveType(name) if name in _AS_BINARY:
            return pa.binary()
    return None


def is_float(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name in FLOATS


def has_bounds(data_type: DataType) -> bool:
    """Whether minimum and maximum of a data column of this type can prune."""
    never = isinstance(data_type, PrimitiveType) and data_type.name in ("boolean", "binary")
    return comparison_type(data_type) is not None and not never


def literals(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Bound literals (see `predicates.expression`) as an array of the column's comparison type."""
    match data_type:
        case DecimalType(_, scale):
            target = comparison_type(data_type)
            assert target is not None
            return decimals([unscaled(v, scale) for v in values], target)
        case PrimitiveType(name) if name in _AS_BINARY:
            return arrays.binaries([v.encode("utf-8", "surrogatepass") if isinstance(v, str) else v for v in values])
        case PrimitiveType(name) if name in FLOATS:
            return float64s(values)
    return arrays.int64s([int(v) for v in values])


def unscaled(value: Decimal, scale: int) -> int:
    """The integer behind a decimal that is exact at this scale."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * power_of_ten(scale) // denominator


def power_of_ten(exponent: int) -> int:
    """10 to a power that is not negative, as the integer it is."""
    return int(10**exponent)


def float64s(values: Sequence[float | None]) -> pa.DoubleArray:
    return arrays.primitives(values, pa.float64(), np.float64)


def integers(values: Sequence[int | None]) -> pa.Int64Array:
    """An int64 array; what does not fit is null."""
    try:
        return arrays.int64s(values)
    except OverflowError:
        return arrays.int64s([v if v is not None and _INT64_MIN <= v <= _INT64_MAX else None for v in values])


def decimals(values: Sequence[int | None], data_type: pa.Decimal128Type) -> pa.Decimal128Array:
    """A decimal array from unscaled integers, which must be within the type's precision."""
    data = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in values)
    valid = np.fromiter((v is not None for v in values), dtype=np.bool_, count=len(values))
    return pa.Array.from_buffers(data_type, len(values), [arrays.bitmap(valid), pa.py_buffer(data)])


def unscaled_integers(array: pa.Decimal128Array) -> list[int | None]:
    """The unscaled integers of a decimal array."""
    data = array.buffers()[1].slice(array.offset * 16, len(array) * 16).to_pybytes()
    known = valid(array).tolist()
    return [
        int.from_bytes(data[i * 16 : i * 16 + 16], "little", signed=True) if ok else None for i, ok in enumerate(known)
    ]


def valid(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where an array is not null."""
    return arrays.to_numpy_bool(array.is_valid())


def comparable(values: pa.Array) -> pa.Array:
    """Typed values of a column, without loss, in the column's comparison type."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.view(pa.int64())
    if pa.types.is_date32(kind):
        return values.view(pa.int32()).cast(pa.int64())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values.cast(pa.int64())
    if pa.types.is_floating(kind):
        return values.cast(pa.float64())
    return values.view(pa.binary()) if pa.types.is_string(kind) else values
