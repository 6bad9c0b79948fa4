"""Which columns the index of a table has: the leaves with stats, the typed partition, the time column, the sort key.

Everything is keyed by physical names, as in the log. A column of an unknown type has no bounds and cannot be a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa
from msgspec import Struct

from delta_sidecar.errors import InputError
from delta_sidecar.values.bucket_columns import Granularity, bucket_columns
from delta_sidecar.values.comparison import comparison_type
from delta_sidecar.values.time_buckets import TimeBucket, time_buckets
from delta_sidecar.values.types import (
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_type,
)

Path: TypeAlias = tuple[str, ...]
"""Physical names from the top of the schema down to a leaf."""
SortKind: TypeAlias = Literal["partition", "min", "modification_time"]

_TIMES = ("timestamp", "timestamp_ntz", "date")


class Leaf(Struct, frozen=True):
    """A leaf column that files may have stats of."""

    path: Path
    type: DataType
    bound: pa.DataType | None
    """The native type of its bounds; None if it can have none."""
    had_other_type: bool = False


class SortKey(Struct, frozen=True):
    """What rows are sorted by, before their path. The greatest come first, rows whose key is null or unknown last."""

    kind: SortKind
    path: Path = ()
    type: DataType | None = None


class IndexLayout(Struct, frozen=True):
    """The columns of one table's index."""

    leaves: tuple[Leaf, ...]
    partition: tuple[StructField, ...]
    """Partition columns that have typed values."""
    time: Leaf | None
    """The column whose bounds are in the core."""
    sort: SortKey
    granularity: Granularity | None = None
    """Of the time bucket, if the sort key is one of ours."""
    buckets: tuple[TimeBucket, ...] = ()
    """Partition columns generated from a time column. The builder checks each file against them."""

    @classmethod
    def of(
        cls,
        schema: StructType,
        partition_columns: Sequence[str],
        sort_column: str | None = None,
        time_column: str | None = None,
    ) -> IndexLayout:
        """The layout of a table; columns by their logical names, chosen by what the schema tells where not given."""
        partition = tuple(f for f in schema if f.name in partition_columns and is_sortable(f.type) and _is_nameable(f))
        leaves = tuple(_leaves([f for f in schema if f.name not in partition_columns], ()))
        bucket = next((candidate for candidate in bucket_columns(schema) if candidate.field in partition), None)
        time = _time_leaf(schema, leaves, time_column, bucket.time.name if bucket else None)
        sort = _sort_key(schema, leaves, partition, sort_column, bucket.field if bucket else None, time)
        ours = bucket is not None and sort.path == (bucket.field.physical_name,)
        granularity = bucket.granularity if bucket and ours else None
        return cls(leaves, partition, time, sort, granularity, time_buckets(schema, partition_columns))


def is_sortable(data_type: DataType) -> bool:
    """Whether values of a type compare, so that they can be partition values and keys of an index."""
    return comparison_type(data_type) is not None


def is_time(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name in _TIMES


def _is_nameable(field: StructField) -> bool:
    """Whether a field can be a column of an index: NUL separates the names of flat columns, and ends those of Arrow."""
    return "\0" not in field.physical_name


def _leaves(fields: Sequence[StructField], above: Path) -> Iterator[Leaf]:
    for field in filter(_is_nameable, fields):
        path = (*above, field.physical_name)
        if isinstance(field.type, StructType):
            yield from _leaves(field.type.fields, path)
        else:
            yield Leaf(path, field.type, bound_type(field.type), field.metadata.get("delta.typeChanges") is not None)


def bound_type(data_type: DataType) -> pa.DataType | None:
    """The type of a column's bounds in the index. Binary bounds are texts in the log, and stay texts."""
    match data_type:
        case PrimitiveType("binary"):
            return pa.string()
        case PrimitiveType() | DecimalType() if is_sortable(data_type):
            return arrow_type(data_type)
    return None


def _time_leaf(schema: StructType, leaves: Sequence[Leaf], chosen: str | None, of_bucket: str | None) -> Leaf | None:
    """The chosen time column, the one our bucket is made from, or the first of the schema."""
    name = chosen or of_bucket
    if name is not None:
        leaf = _leaf_of(schema, leaves, name)
        if leaf is None or not is_time(leaf.type):
            raise InputError(f"column {name!r} is not a date or timestamp with stats; choose another --time-column")
        return leaf
    tops = [leaf for leaf in leaves if len(leaf.path) == 1]
    return next((leaf for kind in _TIMES for leaf in tops if leaf.type == PrimitiveType(kind)), None)


def _leaf_of(schema: StructType, leaves: Sequence[Leaf], name: str) -> Leaf | None:
    path = tuple(f.physical_name for f in schema.resolve(_parts(schema, name)))
    return next((leaf for leaf in leaves if leaf.path == path), None)


def _parts(schema: StructType, name: str) -> list[str]:
    return [name] if schema.find(name) is not None else name.split(".")


def _sort_key(
    schema: StructType,
    leaves: Sequence[Leaf],
    partition: Sequence[StructField],
    chosen: str | None,
    bucket: StructField | None,
    time: Leaf | None,
) -> SortKey:
    if chosen is not None:
        return _chosen_key(schema, leaves, partition, chosen)
    by_time = next((f for f in partition if is_time(f.type)), None)
    field = bucket or by_time or next(iter(partition), None)
    if field is not None:
        return SortKey("partition", (field.physical_name,), field.type)
    return SortKey("modification_time") if time is None else SortKey("min", time.path, time.type)


def _chosen_key(schema: StructType, leaves: Sequence[Leaf], partition: Sequence[StructField], chosen: str) -> SortKey:
    if chosen == "modification_time" and schema.find(chosen) is None:
        return SortKey("modification_time")
    field = schema.resolve(_parts(schema, chosen))[0]
    if field in partition:
        return SortKey("partition", (field.physical_name,), field.type)
    leaf = _leaf_of(schema, leaves, chosen)
    if leaf is None or leaf.bound is None or pa.types.is_boolean(leaf.bound):
        raise InputError(f"an index cannot be sorted by column {chosen!r}; choose another --sort-column")
    return SortKey("min", leaf.path, leaf.type)
