"""The table types of Arrow columns: what `types.arrow_type` gives, the other way round."""

from __future__ import annotations

import pyarrow as pa

from delta_sidecar.errors import UnsupportedTypeError
from delta_sidecar.values.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType

_INTEGERS = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.uint8(): "short",
    pa.int32(): "integer",
    pa.uint16(): "integer",
    pa.int64(): "long",
    pa.uint32(): "long",
}
_SIMPLE = {
    **_INTEGERS,
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.null(): "void",
}


def table_schema(schema: pa.Schema) -> StructType:
    """The columns of an Arrow schema as a table has them.

    Raises:
        UnsupportedTypeError: A column has a type that tables do not have, such as whole numbers of 64 bits without a
            sign.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.values.arrow_types import table_schema
        >>> str(table_schema(pa.schema({"id": pa.int64(), "body": pa.large_string()})))
        'struct<id:long,body:string>'
    """
    return StructType(tuple(_field(field) for field in schema))


def _field(field: pa.Field) -> StructField:
    return StructField(field.name, _type(field.type, field.name), field.nullable, physical_name=field.name)


def _type(arrow: pa.DataType, column: str) -> DataType:
    types = pa.types
    if arrow in _SIMPLE:
        return PrimitiveType(_SIMPLE[arrow])
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return PrimitiveType("string")
    is_binary = types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow)
    if is_binary or types.is_fixed_size_binary(arrow):
        return PrimitiveType("binary")
    if types.is_timestamp(arrow):
        return PrimitiveType("timestamp_ntz" if arrow.tz is None else "timestamp")
    if types.is_decimal128(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if types.is_dictionary(arrow):
        return _type(arrow.value_type, column)
    if types.is_list(arrow) or types.is_large_list(arrow):
        return ArrayType(_type(arrow.value_type, column), arrow.value_field.nullable)
    if types.is_map(arrow):
        return MapType(_type(arrow.key_type, column), _type(arrow.item_type, column), arrow.item_field.nullable)
    if types.is_struct(arrow):
        return StructType(tuple(_field(child) for child in arrow.fields))
    raise UnsupportedTypeError(f"the column {column} has the Arrow type {arrow}, which tables do not have; cast it")
