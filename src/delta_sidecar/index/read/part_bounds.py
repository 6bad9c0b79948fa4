"""Which parts of an index, and which of their row groups, may hold a matching file.

Parts have bounds in the manifest, row groups have statistics in the footer: of the typed partition values and of the
time column's bounds. Stored bounds ignore unknown values, so nothing is skipped if a row has an unknown value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar import arrays
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.part_entries import KeyValue, PartList
from delta_sidecar.index.format.sort_keys import UNFIT, key_array
from delta_sidecar.index.read.part_file import PartFile
from delta_sidecar.predicates.expression import Column
from delta_sidecar.pruning.file_bounds import Bounds, is_prunable
from delta_sidecar.pruning.row_group_bounds import chunk_bounds, statistics_of
from delta_sidecar.values.comparison import has_bounds, is_float
from delta_sidecar.values.types import PrimitiveType
from delta_sidecar.values.widening import Side, was_float, widened

_TIMESTAMP: Final = PrimitiveType("timestamp")


class PartBounds:
    """Bounds of each part, from the manifest."""

    def __init__(self, parts: PartList, layout: IndexLayout, timezone: str) -> None:
        self._parts = parts
        self._layout = layout
        self._timezone = timezone

    def bounds(self, column: Column) -> Bounds | None:
        """What is known of a column; None if nothing is."""
        parts, sort, time = self._parts, self._layout.sort, self._layout.time
        if column.is_partition:
            is_key = sort.kind == "partition" and sort.path == column.physical_path
            if not is_key or not _is_typed_partition(column, self._layout, self._timezone):
                return None
            return self._between(column, parts.key_min, parts.key_max, parts.key_unknown)
        if time is not None and time.path == column.physical_path and time.type == column.type:
            return self._between(column, parts.time_min, parts.time_max, parts.time_unknown)
        if sort.kind == "min" and sort.path == column.physical_path and sort.type == column.type:
            return self._between(column, parts.key_min, [None] * len(parts), parts.key_unknown)
        return None

    def _between(
        self, column: Column, low: Sequence[KeyValue], high: Sequence[KeyValue], unknown: Sequence[int]
    ) -> Bounds | None:
        if not is_prunable(column) or not (column.is_partition or has_bounds(column.type)):
            return None
        try:
            minimum, maximum = (key_array(_known(values, unknown), column.type) for values in (low, high))
        except UNFIT:
            return None
        return _stored(column, minimum, maximum, len(unknown))


def _known(values: Sequence[KeyValue], unknown: Sequence[int]) -> Sequence[KeyValue]:
    """The values of parts; None for a part that also has rows with unknown values."""
    if not any(unknown):
        return values
    return [value if not count else None for value, count in zip(values, unknown, strict=True)]


class GroupBounds:
    """Bounds of each row group of a part's core, from its footer."""

    def __init__(self, core: PartFile, layout: IndexLayout, timezone: str) -> None:
        self._core = core
        self._layout = layout
        self._timezone = timezone
        self._count = core.metadata.num_row_groups

    def bounds(self, column: Column) -> Bounds | None:
        """What is known of a column; None if nothing is."""
        time = self._layout.time
        if not is_prunable(column):
            return None
        if column.is_partition:
            if not _is_typed_partition(column, self._layout, self._timezone):
                return None
            leaf = ("partition", *column.physical_path)
            return self._between(column, leaf, leaf)
        if time is not None and time.path == column.physical_path and time.type == column.type:
            return self._between(column, ("time_min",), ("time_max",))
        return None

    def _between(self, column: Column, low: tuple[str, ...], high: tuple[str, ...]) -> Bounds | None:
        if low not in self._core.leaves or high not in self._core.leaves:
            return None
        return _stored(
            column, self._bound(column, low, Side.MINIMUM), self._bound(column, high, Side.MAXIMUM), self._count
        )

    def _bound(self, column: Column, leaf: tuple[str, ...], side: Side) -> pa.Array:
        position = self._core.leaves[leaf][0]
        chunks = [self._core.metadata.row_group(i).column(position) for i in range(self._count)]
        statistics = [_if_full(statistics_of(chunk)) for chunk in chunks]
        kind: pa.DataType = self._core.schema.field(leaf[0]).type
        for name in leaf[1:]:
            kind = kind.field(kind.get_field_index(name)).type
        return chunk_bounds(chunks, statistics, kind, column, side)


def _is_typed_partition(column: Column, layout: IndexLayout, timezone: str) -> bool:
    """Whether the index has the values of a partition column as this reader understands them."""
    field = next((f for f in layout.partition if (f.physical_name,) == column.physical_path), None)
    if field is None or field.type != column.type:
        return False
    return timezone == "UTC" or column.type != _TIMESTAMP


def _if_full(statistics: pq.Statistics | None) -> pq.Statistics | None:
    """The statistics of a chunk, if every row has a value."""
    full = statistics is not None and statistics.has_null_count and statistics.null_count == 0
    return statistics if full else None


def _stored(column: Column, minimum: pa.Array, maximum: pa.Array, count: int) -> Bounds:
    """Bounds as they are stored: those of stats are widened, those of partition values are exact, unless they may have
    been floats when they were stored. How many rows are null is not known."""
    if not column.is_partition or was_float(column.fields[-1]):
        minimum = widened(minimum, column.fields[-1], Side.MINIMUM)
        maximum = widened(maximum, column.fields[-1], Side.MAXIMUM)
    unknown = arrays.nulls(count, pa.int64())
    return Bounds(minimum, maximum, unknown, unknown, may_hold_nan=is_float(column.type))
