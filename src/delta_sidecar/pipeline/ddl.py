"""Arrow types in Spark's words, for the schemas of `mapInArrow`."""

from __future__ import annotations

import pyarrow as pa

_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}


def column_ddl(data_type: pa.DataType | None) -> str:
    """The DDL of a type of the index; nothing else comes here."""
    if data_type is None:
        return "bigint"
    if pa.types.is_struct(data_type):
        return f"struct<{','.join(f'{_quoted(f.name)}:{column_ddl(f.type)}' for f in data_type)}>"
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_timestamp(data_type):
        return "timestamp_ntz" if data_type.tz is None else "timestamp"
    return _NAMES[data_type]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
