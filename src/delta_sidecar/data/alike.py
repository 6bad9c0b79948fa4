"""Whether pyarrow's dataset, which matches columns by exact name and casts as it likes, reads a file as we do."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat

from delta_sidecar.data.convert import StoredTypeError, leaf_converter
from delta_sidecar.data.match import field_match
from delta_sidecar.errors import UnsupportedTypeError
from delta_sidecar.values.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, arrow_type

_match = field_match("none")


def reads_alike(stored: pa.DataType, wanted: DataType) -> bool:
    """Whether values of a stored type become those of the wanted one in pyarrow's way, too."""
    match wanted:
        case StructType():
            return pat.is_struct(stored) and all(_has_alike(list(stored), field) for field in wanted)
        case ArrayType(element):
            return (pat.is_list(stored) or pat.is_large_list(stored)) and reads_alike(stored.value_type, element)
        case MapType(key, value):
            return pat.is_map(stored) and reads_alike(stored.key_type, key) and reads_alike(stored.item_type, value)
        case PrimitiveType("variant"):
            return False
    return pat.is_null(stored) or _is_cast_alike(stored, wanted)


def _has_alike(stored: list[pa.Field], wanted: StructField) -> bool:
    place = _match(stored, wanted)
    return place is None or (stored[place].name == wanted.name and reads_alike(stored[place].type, wanted.type))


def _is_cast_alike(stored: pa.DataType, wanted: DataType) -> bool:
    """Arrow refuses to cut nanoseconds, and to make decimals of whole numbers that might have more digits."""
    if pat.is_dictionary(stored):
        return _is_cast_alike(stored.value_type, wanted)
    if pat.is_timestamp(stored) and stored.unit == "ns":
        return False
    try:
        target = arrow_type(wanted)
        leaf_converter(stored, target)
    except (StoredTypeError, UnsupportedTypeError):
        return False
    return not (pat.is_integer(stored) and pat.is_decimal(target))
