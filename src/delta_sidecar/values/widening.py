"""Make bounds safe: widen bounds that writers rounded, and convert bounds that were written as an older type.

A minimum may only move down and a maximum only up. A bound that cannot be converted exactly is unknown (null).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.values.calendar import MICROS_PER_DAY
from delta_sidecar.values.comparison import (
    INTEGERS,
    TIMESTAMPS,
    comparison_type,
    decimals,
    power_of_ten,
    unscaled_integers,
    valid,
)
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType, StructField

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

MILLISECOND: Final = 1000
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_EXACT_DIGITS: Final = 15
"""Decimal digits that survive a binary double."""
_UNIT_MICROS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
_MAX_DIGITS: Final = 80
"""Digits beyond which a decimal's text cannot be a bound of any column."""


class Side(Enum):
    MINIMUM = "minimum"
    MAXIMUM = "maximum"


def widened(bounds: pa.Array, field: StructField, side: Side) -> pa.Array:
    """Bounds from a log, in the comparison type, moved outwards by as much as writers round."""
    match field.type:
        case PrimitiveType(name) if name in TIMESTAMPS:
            return _widened_timestamps(bounds, side)
        case PrimitiveType("float"):
            return _nearest_floats(bounds)
        case PrimitiveType("double"):
            return _around_floats(bounds, side) if was_float(field) else without_nan(bounds)
        case DecimalType(precision) as data_type if precision > _EXACT_DIGITS:
            return decimals([widened_decimal(v, data_type, side) for v in unscaled_integers(bounds)], bounds.type)
    return bounds


def was_float(field: StructField) -> bool:
    """Whether files of a double column may have been written when it was a float."""
    changes = field.metadata.get("delta.typeChanges")
    if not isinstance(changes, list):
        return changes is not None
    return any(not isinstance(change, dict) or change.get("fromType") == "float" for change in changes)


def without_nan(bounds: pa.Array) -> pa.Array:
    """A NaN bound says nothing."""
    return _floats(_float_values(bounds), valid(bounds))


def _widened_timestamps(bounds: pa.Array, side: Side) -> pa.Array:
    """Cut to milliseconds: a maximum lost up to one; so did a minimum, where the cut went towards 1970."""
    values = _int_values(bounds)
    if side is Side.MAXIMUM:
        moved = np.minimum(values, _INT64_MAX - MILLISECOND) + MILLISECOND
    else:
        moved = np.where(values <= 0, np.maximum(values, _INT64_MIN + MILLISECOND) - MILLISECOND, values)
    return _ints(moved, valid(bounds))


def _nearest_floats(bounds: pa.Array) -> pa.Array:
    """The float32 that each text stands for, as typed stats and an index have it; null beyond the type's range."""
    values = _float_values(bounds)
    nearest = _singles(values).astype(np.float64)
    return _floats(nearest, valid(bounds) & (np.isfinite(nearest) | np.isinf(values)))


def _around_floats(bounds: pa.Array, side: Side) -> pa.Array:
    """One float32 outwards of the nearest: the text may stand for that float or for a double that rounds to it, and a
    typed bound of either kind gives the same. What no float32 holds was a double."""
    values = _float_values(bounds)
    nearest = _singles(values)
    with np.errstate(over="ignore", under="ignore"):
        moved = np.nextafter(nearest, np.float32(-np.inf if side is Side.MINIMUM else np.inf)).astype(np.float64)
    return _floats(np.where(np.isfinite(nearest), moved, values), valid(bounds))


def _singles(values: Floats) -> np.ndarray[Any, np.dtype[np.float32]]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(np.float32)


def widened_decimal(value: int | None, data_type: DecimalType, side: Side) -> int | None:
    """Moved by 2⁻⁵⁰ of its size, since some writers pass decimals through a double and round several times. Some write
    the end of the 64-bit integers for whatever is beyond it: such a bound moves to the end of the type."""
    if value is None:
        return None
    step = (abs(value) >> 50) + 1
    top = power_of_ten(data_type.precision) - 1
    if side is Side.MINIMUM:
        return -top if value == _INT64_MIN * power_of_ten(data_type.scale) else max(value - step, -top)
    return top if value == _INT64_MAX * power_of_ten(data_type.scale) else min(value + step, top)


def rounded_decimal(value: Decimal | None, data_type: DecimalType, side: Side) -> int | None:
    """The unscaled integer of a bound's exact text, rounded outwards; None if the type cannot hold it."""
    if value is None or not value.is_finite() or not -_MAX_DIGITS < value.adjusted() < _MAX_DIGITS:
        return 0 if value is not None and value.is_zero() else None
    numerator, denominator = value.as_integer_ratio()
    scaled = numerator * power_of_ten(data_type.scale)
    rounded = scaled // denominator if side is Side.MINIMUM else -(-scaled // denominator)
    return rounded if abs(rounded) < power_of_ten(data_type.precision) else None


def converted(bounds: pa.Array, data_type: DataType, side: Side) -> pa.Array:
    """Typed bounds, perhaps of the type a column had before, in its comparison type; null where there is no legal way.

    A timestamp of nanoseconds is cut outwards to microseconds.
    """
    target = comparison_type(data_type)
    assert target is not None
    given = bounds.type
    match data_type:
        case PrimitiveType(name) if name in INTEGERS and pa.types.is_signed_integer(given):
            return bounds.cast(target)
        case PrimitiveType("date") if pa.types.is_date32(given):
            return bounds.view(pa.int32()).cast(target)
        case PrimitiveType(name) if name in TIMESTAMPS and pa.types.is_timestamp(given):
            return _micros(bounds, name, side)
        case PrimitiveType("timestamp_ntz") if pa.types.is_date32(given):
            return _scaled(bounds.view(pa.int32()).cast(target), MICROS_PER_DAY)
        case PrimitiveType("float") if given == pa.float32():
            return bounds.cast(target)
        case PrimitiveType("double") if given in (pa.float64(), pa.float32(), pa.int8(), pa.int16(), pa.int32()):
            return bounds.cast(target)
        case PrimitiveType("string") if pa.types.is_string(given):
            return bounds.view(target)
        case PrimitiveType("string") if pa.types.is_large_string(given):
            return bounds.cast(target)
        case DecimalType():
            return _decimals(bounds, data_type)
    return pa.nulls(len(bounds), target)


def _micros(bounds: pa.Array, name: str, side: Side) -> pa.Array:
    """An instant may be stored without zone (INT96 is); a wall clock may not be stored with one."""
    if name == "timestamp_ntz" and bounds.type.tz is not None:
        return pa.nulls(len(bounds), pa.int64())
    if bounds.type.unit == "ns":
        values = _int_values(bounds.view(pa.int64()))
        return _ints(values // 1000 if side is Side.MINIMUM else -(-values // 1000), valid(bounds))
    return _scaled(bounds.view(pa.int64()), _UNIT_MICROS[bounds.type.unit])


def _scaled(bounds: pa.Int64Array, factor: int) -> pa.Int64Array:
    """A multiple of each; null where it leaves int64."""
    values = _int_values(bounds)
    fits = (values <= _INT64_MAX // factor) & (values >= -(_INT64_MAX // factor))
    return _ints(np.where(fits, values, 0) * factor, valid(bounds) & fits)


def _decimals(bounds: pa.Array, data_type: DecimalType) -> pa.Array:
    target = comparison_type(data_type)
    assert target is not None
    if bounds.type == target:
        return within_precision(bounds)
    if pa.types.is_signed_integer(bounds.type):
        values: Sequence[int | None] = _optional(bounds.cast(pa.int64()))
        shift = data_type.scale
    elif pa.types.is_decimal128(bounds.type) and bounds.type.scale <= data_type.scale:
        values, shift = unscaled_integers(bounds), data_type.scale - bounds.type.scale
    else:
        return pa.nulls(len(bounds), target)
    top = power_of_ten(data_type.precision)
    scaled = [None if v is None else v * power_of_ten(shift) for v in values]
    return decimals([v if v is not None and abs(v) < top else None for v in scaled], target)


def within_precision(values: pa.Decimal128Array) -> pa.Decimal128Array:
    """Decimals of no more digits than their type has; null for others, which Arrow's parsers let through."""
    greatest = decimals([power_of_ten(values.type.precision) - 1], values.type)[0]
    fits = pc.less_equal(pc.abs(values), greatest)
    return pc.if_else(fits, values, pa.nulls(1, values.type)[0]) if pc.any(pc.invert(fits)).as_py() else values


def _optional(bounds: pa.Int64Array) -> list[int | None]:
    return [v if ok else None for v, ok in zip(_int_values(bounds).tolist(), valid(bounds).tolist(), strict=True)]


def _int_values(array: pa.Array) -> Integers:
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]


def _float_values(array: pa.Array) -> Floats:
    return np.frombuffer(array.buffers()[1], np.float64)[array.offset : array.offset + len(array)]


def _ints(values: Integers, known: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    data = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(data), [arrays.bitmap(known), pa.py_buffer(data)])


def _floats(values: Floats, known: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    data = np.ascontiguousarray(values, dtype=np.float64)
    return pa.Array.from_buffers(pa.float64(), len(data), [arrays.bitmap(known & ~np.isnan(data)), pa.py_buffer(data)])
