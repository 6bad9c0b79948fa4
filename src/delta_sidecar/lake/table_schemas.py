"""The schema of a table that is to be made or checked: from Spark's, DDL, Arrow's or a DataFrame's, to SQL and back.

Delta's types decide. A type that it does not have is refused, or widened where the caller says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from delta_sidecar.errors import InputError, UnsupportedTypeError
from delta_sidecar.values.bucket_columns import literal, quoted
from delta_sidecar.values.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    UnknownType,
    parse_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType as SparkStruct

    GivenSchema: TypeAlias = SparkStruct | DataFrame | pa.Schema | StructType | str

Unsigned: TypeAlias = Literal["refuse", "widen"]
_LARGEST_PRECISION: Final = 38
_SQL_NAMES: Final = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}
_COMMENT: Final = "comment"


def schema_of_table(given: GivenSchema, unsigned: Unsigned = "refuse") -> StructType:
    """The schema that a table is to have.

    Raises:
        InputError: The schema cannot be read, or a column says something that a table cannot keep.
        UnsupportedTypeError: Delta has no such type.
    """
    if isinstance(given, StructType):
        return given
    if isinstance(given, pa.Schema):
        return StructType(tuple(_field(part, unsigned, part.name) for part in given))
    from pyspark.sql.types import StructType as Struct

    from delta_sidecar.pipeline.contract import schema_of

    if isinstance(given, str | Struct):
        return _checked(parse_schema(schema_of(given).json()))
    # What a frame says of nulls is about its rows, not about the table.
    nullable: StructType = _nullable(parse_schema(given.schema.json()))
    return nullable


def _checked(schema: StructType) -> StructType:
    for path, column in _fields(schema):
        if isinstance(column.type, UnknownType):
            raise UnsupportedTypeError(f"column {path} is {column.type}, which is not a Delta type")
        if unknown := [name for name in column.metadata if name != _COMMENT]:
            raise InputError(f"column {path} has {unknown[0]} in its metadata, which CREATE TABLE would lose")
    return schema


def _nullable(kind: Any) -> Any:
    if isinstance(kind, StructType):
        return StructType(tuple(StructField(f.name, _nullable(f.type), physical_name=f.name) for f in kind.fields))
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.element))
    return MapType(_nullable(kind.key), _nullable(kind.value)) if isinstance(kind, MapType) else kind


def _fields(schema: StructType, above: str = "") -> Iterator[tuple[str, StructField]]:
    for column in schema.fields:
        yield above + column.name, column
        if isinstance(column.type, StructType):
            yield from _fields(column.type, f"{above}{column.name}.")


# Arrow's types.


def _field(part: pa.Field, unsigned: Unsigned, path: str) -> StructField:
    return StructField(part.name, _of_arrow(part.type, unsigned, path), part.nullable, physical_name=part.name)


def _of_arrow(kind: pa.DataType, unsigned: Unsigned, path: str) -> DataType:
    """Delta's type of a column of Arrow's."""
    is_a = pa.types
    if is_a.is_struct(kind):
        return StructType(tuple(_field(part, unsigned, f"{path}.{part.name}") for part in kind))
    if is_a.is_dictionary(kind):
        return _of_arrow(kind.value_type, unsigned, path)
    if isinstance(kind, _LISTS):
        return ArrayType(_of_arrow(kind.value_type, unsigned, f"{path}.element"), kind.value_field.nullable)
    if is_a.is_map(kind):
        key = _of_arrow(kind.key_type, unsigned, f"{path}.key")
        return MapType(key, _of_arrow(kind.item_type, unsigned, f"{path}.value"), kind.item_field.nullable)
    if is_a.is_decimal(kind):
        return _decimal(kind, path)
    if is_a.is_timestamp(kind):
        return _timestamp(kind, path)
    if is_a.is_unsigned_integer(kind):
        return _unsigned(kind, unsigned, path)
    name = next((name for test, name in _ARROW if test(kind)), None)
    if name is None:
        raise UnsupportedTypeError(f"column {path} is Arrow's {kind}, which Delta has no type for; cast it")
    return PrimitiveType(name)


_LISTS: Final = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
_ARROW: Final = (
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_binary_view, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "byte"),
    (pa.types.is_int16, "short"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_date, "date"),
)


def _decimal(kind: pa.DataType, path: str) -> DecimalType:
    if kind.precision > _LARGEST_PRECISION or not 0 <= kind.scale <= kind.precision:
        raise UnsupportedTypeError(
            f"column {path} is {kind}; a Delta decimal has at most {_LARGEST_PRECISION} digits in all"
        )
    return DecimalType(kind.precision, kind.scale)


def _timestamp(kind: pa.DataType, path: str) -> PrimitiveType:
    if kind.unit == "ns":
        raise UnsupportedTypeError(f"column {path} is {kind}; Delta keeps microseconds: cast it to timestamp('us')")
    return PrimitiveType("timestamp_ntz" if kind.tz is None else "timestamp")


def _unsigned(kind: pa.DataType, unsigned: Unsigned, path: str) -> DataType:
    if unsigned != "widen":
        raise UnsupportedTypeError(f'column {path} is {kind}, and Delta has no unsigned numbers; pass unsigned="widen"')
    wider = {8: PrimitiveType("short"), 16: PrimitiveType("integer"), 32: PrimitiveType("long")}
    return wider.get(kind.bit_width) or DecimalType(20, 0)


# As SQL.


def column_list(schema: StructType) -> str:
    """The columns of a CREATE TABLE."""
    return ", ".join(map(_column, schema.fields))


def _column(column: StructField) -> str:
    comment = column.metadata.get(_COMMENT)
    remark = "" if comment is None else f" COMMENT {literal(str(comment))}"
    return f"{quoted(column.name)} {sql_type(column.type)}{'' if column.nullable else ' NOT NULL'}{remark}"


def sql_type(kind: DataType) -> str:
    """A type as SQL."""
    match kind:
        case StructType(fields):
            parts = [f"{quoted(f.name)}: {sql_type(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in fields]
            return f"STRUCT<{', '.join(parts)}>"
        case ArrayType(element):
            return f"ARRAY<{sql_type(element)}>"
        case MapType(key, value):
            return f"MAP<{sql_type(key)}, {sql_type(value)}>"
        case _:
            return _SQL_NAMES.get(str(kind), str(kind).upper())


# Differences.


def differences(
    expected: StructType, actual: StructType, was: str = "expected", now: str = "in the table"
) -> list[str]:
    """What is not the same in two schemas, a line for each column; the order of columns does not count."""
    return list(_differences(expected, actual, was, now, ""))


def _differences(expected: StructType, actual: StructType, was: str, now: str, above: str) -> Iterator[str]:
    known = {column.name: column for column in actual.fields}
    for column in expected.fields:
        path, there = above + column.name, known.pop(column.name, None)
        if there is None:
            yield f"column {path}: {sql_type(column.type)} {was}, none {now}"
        elif isinstance(column.type, StructType) and isinstance(there.type, StructType):
            yield from _differences(column.type, there.type, was, now, f"{path}.")
        elif sql_type(column.type) != sql_type(there.type):
            yield f"column {path}: {sql_type(column.type)} {was}, {sql_type(there.type)} {now}"
        if there is not None and column.nullable != there.nullable:
            yield f"column {path}: {_nulls(column)} {was}, {_nulls(there)} {now}"
    for column in known.values():
        yield f"column {above + column.name}: none {was}, {sql_type(column.type)} {now}"


def _nulls(column: StructField) -> str:
    return "nullable" if column.nullable else "NOT NULL"


def changes(
    before: StructType, after: StructType, partitions_before: Sequence[str], partitions_after: Sequence[str]
) -> list[str]:
    """What another writer changed in schema and partitioning, in words."""
    found = differences(before, after, "before", "now")
    if [*partitions_before] != [*partitions_after]:
        was, now = (", ".join(names) or "nothing" for names in (partitions_before, partitions_after))
        found.append(f"partitioned by {was} before, by {now} now")
    return found


def some(lines: Sequence[str], most: int = 5) -> str:
    """The first of some lines, for a message."""
    more = f", and {len(lines) - most} more" if len(lines) > most else ""
    return "; ".join(lines[:most]) + more
