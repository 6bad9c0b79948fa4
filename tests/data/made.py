"""Tables made by hand: Parquet files of any shape, and a listing of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.values.types import DataType, PrimitiveType, StructField, StructType
from tests.data.listing import Listing

writes_early_int96 = pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 23, reason="pyarrow before 23 writes other times than those before 1677"
)


def column(name: str, data_type: DataType | str, physical: str = "", field_id: int | None = None) -> StructField:
    typed = PrimitiveType(data_type) if isinstance(data_type, str) else data_type
    return StructField(name, typed, physical_name=physical or name, field_id=field_id)


def struct(*fields: StructField) -> StructType:
    return StructType(fields)


def made_table(
    root: Path,
    schema: StructType,
    tables: Sequence[pa.Table],
    *,
    mode: str = "none",
    partition_columns: Sequence[str] = (),
    partition_values: Sequence[dict[str, str | None]] = (),
    **writing: Any,
) -> Listing:
    """A listing of one Parquet file for each table."""
    rows = []
    for i, table in enumerate(tables):
        path = root / f"part-{i:05}.parquet"
        pq.write_table(table, path, **writing)
        values = list(partition_values[i].items()) if partition_values else []
        rows.append(file_row(path.name, path.stat().st_size, table.num_rows, values))
    return Listing(str(root), rows, schema, list(partition_columns), mode)


def file_row(
    path: str, size: int, records: int | None, values: Sequence[tuple[str, str | None]] = (), vector: Any = None
) -> dict[str, Any]:
    return {
        "path": path,
        "size": size,
        "partition_values": list(values),
        "deletion_vector": vector,
        "num_records": records,
    }
