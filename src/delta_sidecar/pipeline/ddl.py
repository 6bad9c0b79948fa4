"""Arrow types in Spark's words, for the schemas of `mapInArrow`."""

from __future__ import annotations

import pyarrow as pa

_NAMES = {pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}


def column_ddl(data_type: pa.DataType) -> str:
    """The DDL of a type that values are compared in."""
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    return _NAMES[data_type]
