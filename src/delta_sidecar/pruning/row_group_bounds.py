"""Bounds of the row groups of a data file, from its Parquet footer.

The same questions as for files, one level down. Parquet's statistics are exact or cut outwards, so they
are not widened; they leave NaN out, and INT96 has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar import arrays
from delta_sidecar.predicates.expression import Column
from delta_sidecar.pruning.file_bounds import Bounds, is_prunable
from delta_sidecar.values.comparison import comparison_type, decimals, has_bounds, is_float
from delta_sidecar.values.widening import Side, converted, without_nan

_FIELD_ID: Final = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf column of a Parquet file, by its position among all leaves."""

    index: int
    type: pa.DataType


def find_leaf(schema: pa.Schema, column: Column, by_id: bool = False) -> Leaf | None:
    """The leaf that holds a column, by physical names or field ids; None if there is none, or it repeats."""
    index = 0
    level: Sequence[pa.Field] = list(schema)
    kind: pa.DataType = pa.struct(level)
    for step in column.fields:
        names = [_field_id(f) if by_id else f.name for f in level]
        wanted = step.field_id if by_id else step.physical_name
        if wanted is None or names.count(wanted) != 1:
            return None
        position = names.index(wanted)
        index += sum(_leaf_count(f.type) for f in level[:position])
        kind = level[position].type
        level = _children(kind) if pa.types.is_struct(kind) else ()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return None if pa.types.is_nested(kind) else Leaf(index, kind)


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(_FIELD_ID)
    return None if text is None else int(text)


def _children(data_type: pa.DataType) -> list[pa.Field]:
    return [data_type.field(i) for i in range(data_type.num_fields)]


def _leaf_count(data_type: pa.DataType) -> int:
    if isinstance(data_type, pa.BaseExtensionType):
        return _leaf_count(data_type.storage_type)
    return sum(_leaf_count(f.type) for f in _children(data_type)) if pa.types.is_nested(data_type) else 1


class RowGroupBounds:
    """Bounds of each row group; nothing is known of partition columns, nor of columns the file does not have."""

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema, by_id: bool = False) -> None:
        """`schema` is the file's own Arrow schema; `by_id` looks columns up by field id instead of physical name."""
        self._groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        self._schema = schema
        self._by_id = by_id
        self._is_aligned = sum(_leaf_count(f.type) for f in schema) == metadata.num_columns
        self._bounds: dict[Column, Bounds | None] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def bounds(self, column: Column) -> Bounds | None:
        """What is known of a column; None if nothing is."""
        if column not in self._bounds:
            self._bounds[column] = self._find(column)
        return self._bounds[column]

    def _find(self, column: Column) -> Bounds | None:
        if column.is_partition or not self._is_aligned or not is_prunable(column):
            return None
        leaf = find_leaf(self._schema, column, self._by_id)
        return None if leaf is None else self._leaf_bounds(leaf, column)

    def _leaf_bounds(self, leaf: Leaf, column: Column) -> Bounds:
        chunks = [group.column(leaf.index) for group in self._groups]
        statistics = [statistics_of(chunk) for chunk in chunks]
        return Bounds(
            chunk_bounds(chunks, statistics, leaf.type, column, Side.MINIMUM),
            chunk_bounds(chunks, statistics, leaf.type, column, Side.MAXIMUM),
            arrays.int64s([s.null_count if s is not None and s.has_null_count else None for s in statistics]),
            arrays.int64s([group.num_rows for group in self._groups]),
            may_hold_nan=is_float(column.type),
        )


def statistics_of(chunk: pq.ColumnChunkMetaData) -> pq.Statistics | None:
    """The statistics of a chunk. Of a type Parquet does not have (a broken footer), they would end the process."""
    return chunk.statistics if chunk.physical_type != "UNKNOWN" and chunk.is_stats_set else None


def chunk_bounds(
    chunks: Sequence[pq.ColumnChunkMetaData],
    statistics: Sequence[pq.Statistics | None],
    leaf_type: pa.DataType,
    column: Column,
    side: Side,
) -> pa.Array:
    """One bound of each chunk in the column's comparison type."""
    target = comparison_type(column.type)
    assert target is not None
    values = [_raw(s, chunk.physical_type, side) for chunk, s in zip(chunks, statistics, strict=True)]
    typed = _typed(values, leaf_type) if has_bounds(column.type) else None
    if typed is None:
        return arrays.nulls(len(chunks), target)
    bounds = converted(typed, column.type, side)
    return without_nan(bounds) if pa.types.is_float64(target) else bounds


def _raw(statistics: pq.Statistics | None, physical_type: str, side: Side) -> Any:
    """The bound as Parquet stores it."""
    if statistics is None or not statistics.has_min_max or physical_type == "INT96":
        return None
    return statistics.min_raw if side is Side.MINIMUM else statistics.max_raw


def _typed(values: Sequence[Any], leaf_type: pa.DataType) -> pa.Array | None:
    """Stored bounds as an array of the file's Arrow type; None for a type without usable bounds."""
    if pa.types.is_decimal128(leaf_type):
        return decimals([_unscaled(v) for v in values], leaf_type)
    if pa.types.is_string(leaf_type) or pa.types.is_large_string(leaf_type):
        return arrays.binaries([_bytes(v) for v in values]).view(pa.string())
    if pa.types.is_signed_integer(leaf_type) or pa.types.is_date32(leaf_type):
        width = np.dtype(f"i{leaf_type.bit_width // 8}")
        return arrays.primitives(values, leaf_type, width)
    if pa.types.is_timestamp(leaf_type):
        return arrays.primitives(values, leaf_type, np.int64)
    if leaf_type in (pa.float32(), pa.float64()):
        return arrays.primitives(values, leaf_type, np.dtype(f"f{leaf_type.bit_width // 8}"))
    return None


def _unscaled(value: int | bytes | None) -> int | None:
    """A decimal's integer, stored as such or as big-endian bytes."""
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
