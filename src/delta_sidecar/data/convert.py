"""Convert columns from the types in a Parquet file to those of the table's schema, one column at a time.

Files of one table differ: they are older than a rename or a widened type, or come from writers with their own
names for list elements, their own string layouts and timestamp units. A converter is chosen once per file
schema; None means that the stored array needs no change.

Only legal changes are made. Arrow's own casts would go further (text to number). They are refused: if a file stores
another type than the table has, we do not guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from delta_sidecar.arrays import booleans, to_numpy_bool
from delta_sidecar.data.match import FieldMatch
from delta_sidecar.errors import UnsupportedTypeError
from delta_sidecar.values.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, arrow_type

Converter: TypeAlias = Callable[[pa.Array], pa.Array]

_VARIANT = StructType(
    (
        StructField("metadata", PrimitiveType("binary"), nullable=False, physical_name="metadata"),
        StructField("value", PrimitiveType("binary"), nullable=False, physical_name="value"),
    )
)


class StoredTypeError(Exception):
    """A stored type that cannot legally become the wanted one."""


def converter(stored: pa.DataType, wanted: DataType, match: FieldMatch) -> Converter | None:
    """How an array of the stored type becomes one of the wanted type; None if it already is."""
    if isinstance(stored, pa.BaseExtensionType):
        return _then(lambda array: array.storage, converter(stored.storage_type, wanted, match))
    if pat.is_dictionary(stored):
        return _then(lambda array: array.dictionary_decode(), converter(stored.value_type, wanted, match))
    if pat.is_null(stored) or wanted in (PrimitiveType("void"), PrimitiveType("null")):
        return _to_nulls(arrow_type(wanted))
    match wanted:
        case StructType():
            return _struct_converter(stored, wanted, match)
        case ArrayType():
            return _list_converter(stored, wanted, match)
        case MapType():
            return _map_converter(stored, wanted, match)
        case PrimitiveType("variant"):
            return _variant_converter(stored)
        case _:
            return leaf_converter(stored, arrow_type(wanted))


def _then(first: Converter, second: Converter | None) -> Converter:
    return first if second is None else lambda array: second(first(array))


def _to_nulls(target: pa.DataType) -> Converter:
    return lambda array: pa.nulls(len(array), target)


def apply(convert: Converter | None, array: pa.Array) -> pa.Array:
    return array if convert is None else convert(array)


def _struct_converter(stored: pa.DataType, wanted: StructType, match: FieldMatch) -> Converter | None:
    if not pat.is_struct(stored):
        raise StoredTypeError
    stored_fields = list(stored)
    places = [match(stored_fields, f) for f in wanted.fields]
    converters = [
        None if place is None else converter(stored_fields[place].type, f.type, match)
        for place, f in zip(places, wanted.fields, strict=True)
    ]
    target = arrow_type(wanted)
    if stored == target and places == list(range(len(places))) and not any(converters):
        return None
    return _struct_rebuilder(target, places, converters)


def _struct_rebuilder(
    target: pa.StructType, places: Sequence[int | None], converters: Sequence[Converter | None]
) -> Converter:
    def rebuild(array: pa.StructArray) -> pa.StructArray:
        children = [
            pa.nulls(len(array), field.type) if place is None else apply(convert, array.field(place))
            for place, convert, field in zip(places, converters, target, strict=True)
        ]
        if not children:
            return pa.Array.from_buffers(target, len(array), [_validity(array)])
        return pa.StructArray.from_arrays(children, fields=list(target), mask=_null_mask(array))

    return rebuild


def _list_converter(stored: pa.DataType, wanted: ArrayType, match: FieldMatch) -> Converter | None:
    if not (pat.is_list(stored) or pat.is_large_list(stored) or pat.is_fixed_size_list(stored)):
        raise StoredTypeError
    values = converter(stored.value_type, wanted.element, match)
    target = arrow_type(wanted)
    if stored == target and values is None:
        return None

    def rebuild(array: pa.Array) -> pa.ListArray:
        lists = array if pat.is_list(array.type) else array.cast(pa.list_(array.type.value_field))
        return pa.ListArray.from_arrays(
            _offsets(lists), apply(values, lists.values), type=target, mask=_null_mask(lists)
        )

    return rebuild


def _map_converter(stored: pa.DataType, wanted: MapType, match: FieldMatch) -> Converter | None:
    if not pat.is_map(stored):
        raise StoredTypeError
    keys = converter(stored.key_type, wanted.key, match)
    items = converter(stored.item_type, wanted.value, match)
    target = arrow_type(wanted)
    if stored == target and keys is None and items is None:
        return None

    def rebuild(array: pa.MapArray) -> pa.MapArray:
        return pa.MapArray.from_arrays(
            _offsets(array), apply(keys, array.keys), apply(items, array.items), type=target, mask=_null_mask(array)
        )

    return rebuild


def _variant_converter(stored: pa.DataType) -> Converter | None:
    if pat.is_struct(stored) and stored.get_field_index("typed_value") >= 0:
        raise UnsupportedTypeError("is a shredded variant, which cannot be read as rows")

    def by_name(fields: Sequence[pa.Field], wanted: StructField) -> int | None:
        return next((i for i, f in enumerate(fields) if f.name == wanted.name), None)

    return _struct_converter(stored, _VARIANT, by_name)


def _null_mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    return booleans(to_numpy_bool(array.is_valid())).buffers()[1]


def _offsets(array: pa.Array) -> pa.Int32Array:
    """The offsets of a list or map array. A mask cannot be combined with offsets that are a slice."""
    offsets = array.offsets
    return offsets if offsets.offset == 0 else pc.add(offsets, _ZERO)


_ZERO = pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(b"\0\0\0\0")])[0]


def leaf_converter(stored: pa.DataType, target: pa.DataType) -> Converter | None:
    """The conversion of a column without children."""
    if stored == target:
        return None
    if pat.is_timestamp(target):
        return _timestamp_converter(stored, target)
    if pat.is_decimal(target) and pat.is_integer(stored):
        wide = pa.decimal128(38, target.scale)
        return lambda array: array.cast(wide).cast(target)
    if _is_legal(stored, target):
        return lambda array: array.cast(target)
    raise StoredTypeError


def _is_legal(stored: pa.DataType, target: pa.DataType) -> bool:
    if pat.is_integer(target):
        return bool(pat.is_integer(stored))
    if pat.is_floating(target):
        narrower = pat.is_floating(stored) and stored.bit_width <= target.bit_width
        return bool(narrower or (pat.is_integer(stored) and pat.is_float64(target)))
    if pat.is_decimal(target):
        return bool(pat.is_decimal(stored))
    if pat.is_date(target):
        return bool(pat.is_date(stored))
    return _is_bytes(target) and _is_bytes(stored)


def _is_bytes(data_type: pa.DataType) -> bool:
    tests = (
        pat.is_string,
        pat.is_large_string,
        pat.is_string_view,
        pat.is_binary,
        pat.is_large_binary,
        pat.is_binary_view,
        pat.is_fixed_size_binary,
    )
    return any(test(data_type) for test in tests)


def _timestamp_converter(stored: pa.DataType, target: pa.DataType) -> Converter:
    """Instants and wall clocks are both microseconds since 1970 (in UTC), so the zone is only a label."""
    if pat.is_date(stored) and target.tz is None:
        return lambda array: array.cast(target)
    if not pat.is_timestamp(stored):
        raise StoredTypeError
    microseconds = pa.timestamp("us", stored.tz)
    if stored.unit == "us":
        return lambda array: array.view(target)
    if stored.unit == "ns":
        return lambda array: pc.floor_temporal(array, unit="microsecond").cast(microseconds).view(target)
    return lambda array: array.cast(microseconds).view(target)
