"""What type a column has when nobody says: the narrowest that holds every value of it exactly.

Types are Arrow's, with three that exist only while inference is under way: null (no value yet), uint64 (integers that
a double may not hold), a struct without fields (only empty objects yet). `settled` turns them into what a table has.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from delta_sidecar.pipeline.records import conversion
from delta_sidecar.pipeline.records.conversion import EXACT_IN_DOUBLE, Misfit, Number, Object
from delta_sidecar.values.column_names import folded

NOTHING: Final = pa.null()
SMALL: Final = pa.int64()
WIDE: Final = pa.uint64()
HUGE: Final = pa.decimal128(38, 0)
_INTEGERS: Final = (SMALL, WIDE, HUGE)
_PLAIN_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_PLAIN_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def type_of(value: Any) -> pa.DataType:
    """The type of one JSON value."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, Number):
        return _number(value)
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, Object):
        return struct_of(value)
    element = NOTHING
    for item in value:
        element = merged(element, type_of(item))
    return pa.list_(element)


def struct_of(record: Object) -> pa.StructType:
    """The struct of one object; fields whose names differ in case alone are one."""
    fields: dict[str, pa.Field] = {}
    for name, value in record:
        known = fields.get(folded(name))
        kind = type_of(value)
        fields[folded(name)] = pa.field(name, kind) if known is None else _field(known, kind)
    return pa.struct(list(fields.values()))


def _field(known: pa.Field, kind: pa.DataType) -> pa.Field:
    return pa.field(known.name, merged(known.type, kind))


def _number(text: str) -> pa.DataType:
    try:
        if _PLAIN_INTEGER.fullmatch(text):
            value = int(text)
            if abs(value) <= EXACT_IN_DOUBLE:
                return SMALL
            if -(1 << 63) <= value < 1 << 63:
                return WIDE
            return HUGE if abs(value) < 10**38 else pa.string()
        conversion.double(text)
    except (Misfit, ValueError):
        return pa.string()
    return pa.float64()


def type_of_text(text: str | None) -> pa.DataType:
    """The type of one text of CSV: a number only if it is written as one, without zeros or a sign before it."""
    if not text:
        return NOTHING
    if text in ("true", "false"):
        return pa.bool_()
    return _number(text) if _PLAIN_NUMBER.fullmatch(text) and text != "-0" else pa.string()


def merged(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The narrowest type that holds the values of both; text where there is no other."""
    if a == b or b == NOTHING:
        return a
    if a == NOTHING:
        return b
    if a in _INTEGERS and b in _INTEGERS:
        return max(a, b, key=_INTEGERS.index)
    if {a, b} == {SMALL, pa.float64()}:
        return pa.float64()
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return merged_structs(a, b)
    if pa.types.is_list(a) and pa.types.is_list(b):
        return pa.list_(merged(a.value_type, b.value_type))
    return pa.string()


def merged_structs(a: pa.StructType, b: pa.StructType) -> pa.StructType:
    """The fields of both, by name whatever its case, in the order they came."""
    fields = {folded(field.name): field for field in a}
    for field in b:
        known = fields.get(folded(field.name))
        fields[folded(field.name)] = field if known is None else _field(known, field.type)
    return pa.struct(list(fields.values()))


def settled(kind: pa.DataType) -> pa.DataType:
    """The type a table has for it."""
    if kind == NOTHING or (pa.types.is_struct(kind) and kind.num_fields == 0):
        return pa.string()
    if kind == WIDE:
        return SMALL
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, settled(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(settled(kind.value_type))
    return kind
