"""Typed partition values from the log's map of strings.

The same values for pruning and for rows. A table has few distinct ones and many files, so the texts of one
key are gathered with array arithmetic, and each distinct text is parsed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.errors import CorruptDataError, OptionError
from delta_sidecar.values import temporal
from delta_sidecar.values.comparison import INTEGERS, decimals
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType, StructField, arrow_type
from delta_sidecar.values.widening import Side, rounded_decimal

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?Infinity|NaN|-?inf|nan", re.ASCII)
"""Spark writes `Infinity` and `NaN`, `deltalake` `inf` and `NaN`, its older versions `nan`."""
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}
_NUMPY: Final = {"byte": np.int8, "short": np.int16, "integer": np.int32, "long": np.int64}


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """One partition column of many files."""

    values: pa.Array
    """In the column's Arrow type; null for a null value and for one that cannot be read."""
    known: pa.BooleanArray
    """False where the text cannot be read as the column's type."""


def partition_array(
    partition_values: pa.MapArray, field: StructField, partition_timezone: str = "UTC", strict: bool = True
) -> pa.Array:
    """The values of a partition column in its Arrow type; an unreadable one is an error if `strict`, else null."""
    texts = partition_texts(partition_values, field.physical_name)
    column = _typed(texts, field, partition_timezone)
    if strict and pc.any(pc.invert(column.known)).as_py():
        text = texts.filter(pc.invert(column.known))[0].as_py()
        raise CorruptDataError(
            f"the value {text!r} of partition column {field.name!r} is not a {field.type}; leave the column out of "
            "`columns` or fix the file's entry in the log"
        )
    return column.values


def partition_column(
    partition_values: pa.MapArray, field: StructField, partition_timezone: str = "UTC"
) -> PartitionColumn:
    """The values of a partition column and whether each could be read."""
    return _typed(partition_texts(partition_values, field.physical_name), field, partition_timezone)


def partition_texts(partition_values: pa.MapArray, physical_name: str) -> pa.StringArray:
    """The text of one key in each map; a missing key, a null and an empty text are all null."""
    offsets = _offsets(partition_values)
    first, last = int(offsets[0]), int(offsets[-1])
    keys = partition_values.keys.slice(first, last - first)
    items = partition_values.items.slice(first, last - first)
    hits = arrays.to_numpy_bool(pc.equal(keys, arrays.strings([physical_name])[0]))
    rows = np.repeat(np.arange(len(partition_values)), np.diff(offsets))
    positions = np.flatnonzero(hits)
    entry = np.full(len(partition_values), -1, dtype=np.int64)
    entry[rows[positions]] = positions
    return _non_empty(items.take(_indices(entry, partition_values)))


def _offsets(maps: pa.MapArray) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.frombuffer(maps.buffers()[1], np.int32)[maps.offset : maps.offset + len(maps) + 1]


def _indices(entry: np.ndarray[Any, np.dtype[np.int64]], maps: pa.MapArray) -> pa.Int64Array:
    present = (entry >= 0) & arrays.to_numpy_bool(maps.is_valid())
    return pa.Array.from_buffers(pa.int64(), len(entry), [arrays.bitmap(present), pa.py_buffer(entry)])


def _non_empty(texts: pa.StringArray) -> pa.StringArray:
    empty = pc.equal(texts, arrays.strings([""])[0])
    return pc.if_else(empty, arrays.strings([None])[0], texts) if pc.any(empty).as_py() else texts


def _typed(texts: pa.StringArray, field: StructField, partition_timezone: str) -> PartitionColumn:
    if len(texts) == 1 and not texts.null_count:
        values, known = _parsed(texts.to_pylist(), field.type, zone_of(partition_timezone))
        return PartitionColumn(values, arrays.booleans(known))
    encoded = texts.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    values, known = _parsed(distinct, field.type, zone_of(partition_timezone))
    readable = pc.take(arrays.booleans(known), encoded.indices)
    return PartitionColumn(values.take(encoded.indices), pc.or_kleene(readable, readable.is_null()))


def zone_of(name: str) -> tzinfo:
    """The time zone of that name."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise OptionError(f"no time zone {name!r}; set `partition_timezone` to a name like 'Europe/Berlin'") from None


def _parsed(
    texts: Sequence[str], data_type: DataType, zone: tzinfo
) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Distinct texts as values, and which of them could be read."""
    if data_type == PrimitiveType("string"):
        return arrays.strings(texts), np.ones(len(texts), dtype=np.bool_)
    parse = _parser(data_type, zone)
    values = [None if parse is None else parse(text) for text in texts]
    known = np.fromiter((v is not None for v in values), dtype=np.bool_, count=len(values))
    return _array(values, data_type), known


def _parser(data_type: DataType, zone: tzinfo) -> Callable[[str], Any] | None:
    """Text to Arrow's physical value, or None; no function for a type that partition values cannot have."""
    match data_type:
        case DecimalType():
            return lambda text: _decimal(text, data_type)
        case PrimitiveType(name) if name in INTEGERS:
            return lambda text: _integer(text, INTEGERS[name])
        case PrimitiveType("float" | "double"):
            return lambda text: float(text) if _FLOAT.fullmatch(text) else None
        case PrimitiveType("boolean"):
            return lambda text: _BOOLEANS.get(text.lower())
        case PrimitiveType("binary"):
            return lambda text: text.encode("utf-8", "surrogatepass")
        case PrimitiveType("date"):
            return temporal.parse_days
        case PrimitiveType("timestamp"):
            return lambda text: temporal.micros_in_zone(text, zone)
        case PrimitiveType("timestamp_ntz"):
            return _wall_clock
    return None


def _integer(text: str, bits: int) -> int | None:
    value = int(text) if _INTEGER.fullmatch(text) and len(text) < 100 else None
    return value if value is not None and -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _decimal(text: str, data_type: DecimalType) -> int | None:
    """The unscaled integer; None unless the type holds the value exactly."""
    if not _DECIMAL.fullmatch(text):
        return None
    low = rounded_decimal(Decimal(text), data_type, Side.MINIMUM)
    return low if low == rounded_decimal(Decimal(text), data_type, Side.MAXIMUM) else None


def _wall_clock(text: str) -> int | None:
    moment = temporal.parse_moment(text)
    return moment.micros if moment is not None and moment.exact and not moment.offset else None


def _array(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Physical values as an array of the column's Arrow type."""
    match data_type:
        case DecimalType():
            return decimals(values, arrow_type(data_type))
        case PrimitiveType(name) if name in INTEGERS:
            return arrays.primitives(values, arrow_type(data_type), _NUMPY[name])
        case PrimitiveType("float"):
            return _float32s(values)
        case PrimitiveType("double"):
            return arrays.primitives(values, pa.float64(), np.float64)
        case PrimitiveType("boolean"):
            return arrays.primitives(values, pa.int8(), np.int8).cast(pa.bool_())
        case PrimitiveType("binary"):
            return arrays.binaries(values)
        case PrimitiveType("date"):
            return arrays.primitives(values, pa.date32(), np.int32)
        case PrimitiveType("timestamp" | "timestamp_ntz"):
            return arrays.primitives(values, arrow_type(data_type), np.int64)
    return pa.nulls(len(values), arrow_type(data_type))


def _float32s(values: Sequence[float | None]) -> pa.FloatArray:
    """Rounded as a cast does: beyond float32's range is infinite."""
    with np.errstate(over="ignore"):
        return arrays.primitives(values, pa.float64(), np.float64).cast(pa.float32(), safe=False)
