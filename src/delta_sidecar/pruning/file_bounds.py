"""What is known of a column in each file: bounds, null count, row count, from partition values or stats.

Three-valued throughout: null means unknown, and the unknown keeps the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.log.checkpoint_rows import TYPED_PARTITION
from delta_sidecar.predicates.expression import Column
from delta_sidecar.values.comparison import comparable, comparison_type, has_bounds, integers, is_float, valid
from delta_sidecar.values.partition_values import PartitionColumn, partition_column
from delta_sidecar.values.stats_json import LeafDecoder, Path, to_bounds, wire_type
from delta_sidecar.values.type_changes import is_changed_otherwise
from delta_sidecar.values.types import DataType, PrimitiveType, arrow_type
from delta_sidecar.values.widening import Side, converted, was_float, widened, without_nan

NUM_RECORDS: Final[Path] = ("numRecords",)
_KEYS: Final = {Side.MINIMUM: "minValues", Side.MAXIMUM: "maxValues"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """One column in each of many files or row groups; null is unknown."""

    minimum: pa.Array
    """No value is below it. In the column's comparison type, as `maximum`."""
    maximum: pa.Array
    null_count: pa.Int64Array
    num_records: pa.Int64Array
    """Rows that `null_count` counts among. A partition value counts as one row."""
    may_hold_nan: bool = False
    """Whether a column may hold NaN although its bounds are known."""
    are_values: bool = False
    """Whether the bounds are the value of every row: a file's partition value."""


class BoundsSource(Protocol):
    """Where pruning finds bounds: files of a listing, or row groups of a file."""

    def bounds(self, column: Column) -> Bounds | None:
        """What is known of a column; None if nothing ever is."""
        ...


def is_prunable(column: Column) -> bool:
    """Whether a column can have bounds. A struct, a map or an unknown type cannot, nor can a column whose older bounds
    are of a type that does not widen to its own."""
    return comparison_type(column.type) is not None and not is_changed_otherwise(column.fields[-1])


def num_records(stats: pa.Array, stats_parsed: pa.StructArray | None = None) -> pa.Int64Array:
    """The row count of each file, typed where there is one, else from the text; null is unknown."""
    leaf = None if stats_parsed is None else _leaf(stats_parsed, NUM_RECORDS)
    if leaf is None:
        return _text_num_records(stats)
    typed = _counts(leaf)
    missing = typed.is_null()
    return pc.replace_with_mask(typed, missing, _text_num_records(stats.filter(missing)))


def _text_num_records(stats: pa.Array) -> pa.Int64Array:
    return _non_negative(integers(_decoder(()).read(stats)[NUM_RECORDS]))


class FileBounds:
    """Bounds of the columns of a predicate, over a batch of file rows.

    Reads `partition_values` only for partition columns, and `stats_parsed` and `stats` (both may be
    absent) only for the others; the text only in rows where a typed leaf is missing.
    """

    def __init__(
        self,
        batch: pa.RecordBatch | None,
        columns: Sequence[Column],
        partition_timezone: str = "UTC",
        widen: bool = True,
        texts: Sequence[str | None] | None = None,
    ) -> None:
        """Without `widen`, bounds are as written: for display, and for checking time buckets. `texts` are the stats if
        the batch has no such column; the batch may be None if only the stats are needed."""
        self._batch = batch
        self._texts = texts
        self._rows = len(texts if batch is None else batch)  # type: ignore[arg-type]
        self._widen = widen
        self._timezone = partition_timezone
        self._columns = tuple(dict.fromkeys(c for c in columns if not c.is_partition and is_prunable(c)))

    def bounds(self, column: Column) -> Bounds | None:
        """What is known of a column; None if nothing ever is."""
        if column.is_partition and is_prunable(column):
            return self._partition(column)
        return self._data(column) if column in self._columns else None

    def _partition(self, column: Column) -> Bounds | None:
        typed = self._typed_partition(column)
        if typed is not None:
            return _exact(PartitionColumn(typed, arrays.booleans(np.ones(len(typed), np.bool_))))
        maps = self._column("partition_values")
        return None if maps is None else _exact(partition_column(maps, column.fields[0], self._timezone))

    def _typed_partition(self, column: Column) -> pa.Array | None:
        """The typed values of an index; None if it has none, or if the texts may say otherwise: this reader has another
        time zone, or the values may have been floats."""
        parsed = self._column(TYPED_PARTITION)
        if parsed is None or (column.type == PrimitiveType("timestamp") and self._timezone != "UTC"):
            return None
        if column.type == PrimitiveType("double") and was_float(column.fields[0]):
            return None
        index = parsed.type.get_field_index(column.fields[0].physical_name)
        return parsed.field(index) if index >= 0 and parsed.field(index).type == arrow_type(column.type) else None

    def _data(self, column: Column) -> Bounds:
        path = column.physical_path
        return Bounds(
            self._bound(column, Side.MINIMUM),
            self._bound(column, Side.MAXIMUM),
            self._count(("nullCount", *path)),
            self._count(NUM_RECORDS),
            may_hold_nan=is_float(column.type),
        )

    def _bound(self, column: Column, side: Side) -> pa.Array:
        target = comparison_type(column.type)
        assert target is not None
        if not has_bounds(column.type):
            return arrays.nulls(self._rows, target)
        path = (_KEYS[side], *column.physical_path)
        bound = self._coalesced(path, target, lambda values: to_bounds(values, column.type, side))
        return widened(bound, column.fields[-1], side) if self._widen else bound

    def _count(self, path: Path) -> pa.Int64Array:
        return self._coalesced(path, pa.int64(), lambda values: _non_negative(integers(values)))

    def _coalesced(self, path: Path, target: pa.DataType, build: Callable[[Sequence[Any]], pa.Array]) -> pa.Array:
        """The typed leaf where it is known, else the one of the text."""
        typed = self._typed.get(path)
        if self._json is None:
            return typed if typed is not None else arrays.nulls(self._rows, target)
        rows, values = self._json
        texts = build(values[path])
        if rows is not None:
            texts = pc.replace_with_mask(arrays.nulls(self._rows, target), rows, texts)
        return texts if typed is None else pc.coalesce(typed, texts)

    @cached_property
    def _typed(self) -> dict[Path, pa.Array]:
        """The leaves of `stats_parsed`, each in its comparison type; without those that are missing or unusable."""
        parsed = self._column("stats_parsed")
        if parsed is None:
            return {}
        leaves = {path: (_leaf(parsed, path), build) for path, build in self._builders().items()}
        return {path: build(leaf) for path, (leaf, build) in leaves.items() if leaf is not None}

    def _builders(self) -> dict[Path, Callable[[pa.Array], pa.Array]]:
        """How each leaf of typed stats is brought into its comparison type."""
        builders: dict[Path, Callable[[pa.Array], pa.Array]] = {NUM_RECORDS: _counts}
        for column in self._columns:
            builders["nullCount", *column.physical_path] = _counts
            for side, key in _KEYS.items() if has_bounds(column.type) else ():
                builders[key, *column.physical_path] = partial(_typed_bound, data_type=column.type, side=side)
        return builders

    @cached_property
    def _json(self) -> tuple[pa.BooleanArray | None, dict[Path, list[Any]]] | None:
        """The rows whose text was needed (None: all) and their leaves; None if there is no text or no need."""
        if self._texts is not None:
            return (None, _decoder(self._columns).read_texts(self._texts)) if self._columns else None
        stats = self._column("stats")
        if stats is None or not self._columns or stats.null_count == len(stats):
            return None
        complete = self._complete()
        decoder = _decoder(self._columns)
        if complete is None:
            return None, decoder.read(stats)
        if complete.all():
            return None
        rows = arrays.booleans(~complete)
        return rows, decoder.read(stats.filter(rows))

    def _complete(self) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """The rows where every leaf is typed and known; None if some leaf is typed nowhere."""
        complete = np.ones(self._rows, dtype=np.bool_)
        for path in _leaves(self._columns):
            leaf = self._typed.get(path)
            if leaf is None:
                return None
            complete &= valid(leaf)
        return complete

    def _column(self, name: str) -> pa.Array | None:
        index = -1 if self._batch is None else self._batch.schema.get_field_index(name)
        return None if self._batch is None or index < 0 else self._batch.column(index)


@lru_cache(maxsize=32)
def _decoder(columns: tuple[Column, ...]) -> LeafDecoder:
    """Kept between batches: making its struct costs as much as decoding hundreds of rows."""
    return LeafDecoder(_leaves(columns))


def _leaves(columns: Sequence[Column]) -> dict[Path, Any]:
    """The leaves of the stats object that these columns need, with their Python types."""
    leaves: dict[Path, Any] = {NUM_RECORDS: int}
    for column in columns:
        path = column.physical_path
        if has_bounds(column.type):
            leaves |= {(key, *path): wire_type(column.type) for key in _KEYS.values()}
        leaves["nullCount", *path] = int
    return leaves


def _leaf(parsed: pa.StructArray, path: Path) -> pa.Array | None:
    """A leaf of typed stats, null where any level above it is; None if the struct has no such leaf."""
    level: pa.Array = parsed
    for key in path:
        index = level.type.get_field_index(key) if pa.types.is_struct(level.type) else -1
        if index < 0:
            return None
        level = pc.struct_field(level, [index])
    return level


def _typed_bound(leaf: pa.Array, data_type: DataType, side: Side) -> pa.Array:
    """A bound of typed stats. Nanoseconds without zone may be INT96, which wraps around outside 1677 to 2262."""
    if pa.types.is_timestamp(leaf.type) and leaf.type.unit == "ns" and leaf.type.tz is None:
        return arrays.nulls(len(leaf), pa.int64())
    return _without_nan(converted(leaf, data_type, side))


def _without_nan(bounds: pa.Array) -> pa.Array:
    return without_nan(bounds) if pa.types.is_float64(bounds.type) else bounds


def _counts(leaf: pa.Array) -> pa.Int64Array:
    if not pa.types.is_signed_integer(leaf.type):
        return arrays.nulls(len(leaf), pa.int64())
    return _non_negative(leaf.cast(pa.int64()))


def _non_negative(counts: pa.Int64Array) -> pa.Int64Array:
    negative = pc.less(counts, arrays.int64s([0])[0])
    return pc.if_else(negative, arrays.int64s([None])[0], counts) if pc.any(negative).as_py() else counts


def _exact(partition: PartitionColumn) -> Bounds:
    """A partition value bounds itself; a NaN is left unknown, so that what is known is free of it."""
    values = _without_nan(comparable(partition.values))
    null = np.ascontiguousarray(~valid(partition.values), np.int64)
    known = arrays.bitmap(arrays.to_numpy_bool(partition.known))
    null_count = pa.Array.from_buffers(pa.int64(), len(values), [known, pa.py_buffer(null)])
    ones = pa.py_buffer(np.ones(len(values), dtype=np.int64))
    one_row = pa.Array.from_buffers(pa.int64(), len(values), [None, ones])
    return Bounds(values, values, null_count, one_row, are_values=True)
