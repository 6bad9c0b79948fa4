"""The table's columns as Spark has them, and rows of the reader in the Arrow types that Spark expects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import types as spark_types

from delta_sidecar.errors import UnsupportedTypeError
from delta_sidecar.values.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, UnknownType

_PRIVATE: Final = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""Keys of a column's metadata that are the writer's business; delta-spark does not show them either."""
CHAR_OR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
COLLATIONS: Final = "__COLLATIONS"


def spark_schema(fields: Sequence[StructField]) -> spark_types.StructType:
    """Spark's schema of the columns; a type that cannot be read is refused by name."""
    for field in fields:
        _refuse_unreadable(field)
    wire = {"type": "struct", "fields": [json.loads(field.to_json()) for field in fields]}
    return spark_types.StructType.fromJson(_without_private(wire))


def arrow_schema(schema: spark_types.StructType) -> pa.Schema:
    """The Arrow schema in which Spark takes rows from Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the table's reader in the schema that Spark expects; nothing is copied unless there is a variant."""
    arrays = [_as_type(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def is_plain_text(field: StructField) -> bool:
    """Whether a string column compares by its bytes in Spark: it has no collation, and is neither CHAR nor VARCHAR."""
    return not {CHAR_OR_VARCHAR, COLLATIONS} & field.metadata.keys()


def _as_type(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array with the fields of its structs in the target's order: Spark has the two halves of a variant swapped."""
    if array.type == target or not pat.is_struct(target):
        return array
    children = [_as_type(array.field(array.type.get_field_index(f.name)), f.type) for f in target]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _refuse_unreadable(field: StructField) -> None:
    found = _unreadable(field.type)
    if found is not None:
        raise UnsupportedTypeError(
            f"column {field.name!r} is {found}, which cannot be read as rows; name the "
            "other columns with the option columns"
        )


def _unreadable(data_type: DataType, listed: bool = False) -> str | None:
    """What of a type cannot be read. `listed`: it is the element of an array, or in a map."""
    match data_type:
        case UnknownType(name):
            return f"of the unknown type {name!r}"
        case PrimitiveType("variant") if listed:
            return "an array or map of variants"
        case StructType(fields):
            return next((found for f in fields if (found := _unreadable(f.type, listed)) is not None), None)
        case ArrayType(element):
            return _unreadable(element, True)
        case MapType(key, value):
            return _unreadable(key, True) or _unreadable(value, True)
    return None


def _without_private(wire: Any) -> Any:
    """A schema in JSON without the metadata that is the writer's, at any depth."""
    if isinstance(wire, list):
        return [_without_private(part) for part in wire]
    if not isinstance(wire, Mapping):
        return wire
    return {key: _shown(value) if key == "metadata" else _without_private(value) for key, value in wire.items()}


def _shown(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if not key.startswith(_PRIVATE)}
