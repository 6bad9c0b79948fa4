"""The typed columns of a checkpoint, `stats_parsed` and `partitionValues_parsed`, from the log's text.

This shares no code with the library's own parsing of stats, so tests compare two ways of reading one text.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_BOUNDLESS = ("boolean", "binary")


def table_fields(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns of a `metaData` body."""
    fields: list[dict[str, Any]] = json.loads(metadata["schemaString"])["fields"]
    return fields


def stats_type(metadata: Mapping[str, Any]) -> pa.StructType:
    """The type of `stats_parsed`: counts, and a struct each of minima, maxima and null counts."""
    columns = [f for f in table_fields(metadata) if f["name"] not in metadata["partitionColumns"]]
    bounds, counts = _struct(columns, counting=False), _struct(columns, counting=True)
    fields = [pa.field("numRecords", pa.int64()), pa.field("tightBounds", pa.bool_())]
    fields += [pa.field(name, bounds) for name in ("minValues", "maxValues") if bounds is not None]
    return pa.struct(fields + ([pa.field("nullCount", counts)] if counts is not None else []))


def partition_type(metadata: Mapping[str, Any]) -> pa.StructType | None:
    """The type of `partitionValues_parsed`, or nothing for a table without partitions."""
    fields = [_leaf(f) for f in table_fields(metadata) if f["name"] in metadata["partitionColumns"]]
    known = [f for f in fields if f is not None]
    return pa.struct(known) if known else None


def typed_stats(text: str | None, target: pa.StructType) -> dict[str, Any] | None:
    """A row of `stats_parsed`; stats that are not JSON, and values that do not fit, are null."""
    try:
        parsed = json.loads(text or "null", parse_float=Decimal)
    except ValueError:
        return None
    return _typed(parsed, target) if isinstance(parsed, dict) else None


def typed_partition(values: Mapping[str, str | None], target: pa.StructType) -> dict[str, Any]:
    """A row of `partitionValues_parsed`."""
    return {f.name: _scalar(values.get(f.name) or None, f.type) for f in target}


def physical_name(field: Mapping[str, Any]) -> str:
    name: str = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
    return name


def _struct(columns: Sequence[Mapping[str, Any]], counting: bool) -> pa.StructType | None:
    fields = [f for f in (_leaf(c, counting) for c in columns) if f is not None]
    return pa.struct(fields) if fields else None


def _leaf(column: Mapping[str, Any], counting: bool | None = None) -> pa.Field | None:
    """The field of a column: its own type (`None`), its bounds' (`False`) or its null count's (`True`)."""
    kind = column["type"]
    if isinstance(kind, dict) and kind["type"] == "struct":
        inner = _struct(kind["fields"], bool(counting))
        return pa.field(physical_name(column), inner) if inner is not None else None
    if counting:
        return pa.field(physical_name(column), pa.int64())
    arrow = _arrow(kind) if isinstance(kind, str) else None
    if arrow is None or (counting is False and kind in _BOUNDLESS):
        return None
    return pa.field(physical_name(column), arrow)


def _arrow(name: str) -> pa.DataType | None:
    if match := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name):
        return pa.decimal128(int(match[1]), int(match[2]))
    return _ARROW.get(name)


def _typed(value: Any, target: pa.DataType) -> Any:
    if not pa.types.is_struct(target):
        return _scalar(value, target)
    return {f.name: _typed(value.get(f.name), f.type) for f in target} if isinstance(value, dict) else None


def _scalar(value: Any, target: pa.DataType) -> Any:
    if value is None:
        return None
    try:
        return pa.scalar(_python(value, target), target).as_py()
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        return None


def _python(value: Any, target: pa.DataType) -> Any:
    if pa.types.is_timestamp(target):
        stamp = dt.datetime.fromisoformat(value)
        return stamp if stamp.tzinfo or target.tz is None else stamp.replace(tzinfo=dt.UTC)
    if pa.types.is_date32(target):
        return dt.date.fromisoformat(value)
    if pa.types.is_decimal(target):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-target.scale))
    if pa.types.is_floating(target):
        return float(value)
    if pa.types.is_integer(target):
        return int(value)
    if pa.types.is_boolean(target):
        return value if isinstance(value, bool) else {"true": True, "false": False}[value]
    return value.encode() if pa.types.is_binary(target) else value
