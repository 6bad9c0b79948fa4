"""Bounds in the types of the table's columns; what a column cannot hold is unknown."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.index.format.index_layout import Leaf
from delta_sidecar.values.comparison import INTEGERS, TIMESTAMPS
from delta_sidecar.values.stats_text import shortest
from delta_sidecar.values.types import PrimitiveType
from delta_sidecar.values.widening import Side, converted, within_precision

SIDES: Final = {"min": Side.MINIMUM, "max": Side.MAXIMUM}


def native_typed(array: pa.Array, kind: str, leaf: Leaf) -> pa.Array | None:
    """A typed leaf in the present type of the column; None if its older type does not widen to that."""
    if kind == "null_count":
        return non_negative(array.cast(pa.int64())) if pa.types.is_signed_integer(array.type) else None
    if leaf.bound is None or pa.types.is_nested(array.type):
        return None
    if array.type == leaf.bound:
        return within_precision(array) if pa.types.is_decimal(array.type) else _without_nan(array)
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns" and array.type.tz is None:
        return None
    if leaf.type in (PrimitiveType("boolean"), PrimitiveType("binary")):
        return None
    if pa.types.is_float32(array.type) and leaf.type == PrimitiveType("double"):
        return _without_nan(shortest(array))
    return native(converted(array, leaf.type, SIDES[kind]), leaf)


def native(bounds: pa.Array, leaf: Leaf) -> pa.Array:
    """Bounds in the comparison type as the column's own; what the column cannot hold is null."""
    assert leaf.bound is not None
    match leaf.type:
        case PrimitiveType(name) if name in INTEGERS:
            return _narrowed(bounds, INTEGERS[name]).cast(leaf.bound)
        case PrimitiveType("date"):
            return _narrowed(bounds, 32).cast(pa.int32()).view(leaf.bound)
        case PrimitiveType(name) if name in TIMESTAMPS:
            return bounds.view(leaf.bound)
        case PrimitiveType("float"):
            return _within_float(bounds, _without_nan(bounds.cast(leaf.bound, safe=False)))
        case PrimitiveType("string"):
            return bounds.cast(leaf.bound)
    return _without_nan(bounds)


def _narrowed(bounds: pa.Int64Array, bits: int) -> pa.Int64Array:
    if bits == 64:
        return bounds
    low, high = arrays.int64s([-(1 << bits - 1), (1 << bits - 1) - 1])
    fits = pc.and_(pc.greater_equal(bounds, low), pc.less_equal(bounds, high))
    return pc.if_else(fits, bounds, arrays.int64s([None])[0])


def _within_float(doubles: pa.Array, floats: pa.Array) -> pa.Array:
    """A value that is infinite only as a float is beyond the range of floats."""
    return pc.if_else(pc.and_(pc.is_inf(floats), pc.is_finite(doubles)), pa.nulls(1, floats.type)[0], floats)


def _without_nan(bounds: pa.Array) -> pa.Array:
    if not pa.types.is_floating(bounds.type):
        return bounds
    return pc.if_else(pc.is_nan(bounds), pa.nulls(1, bounds.type)[0], bounds)


def non_negative(counts: pa.Int64Array) -> pa.Int64Array:
    """Counts; one below zero is unknown."""
    return pc.if_else(pc.greater_equal(counts, arrays.int64s([0])[0]), counts, arrays.int64s([None])[0])
