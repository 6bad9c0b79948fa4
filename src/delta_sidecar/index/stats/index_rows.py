"""File rows of the log as index rows: typed, flat, sorted.

Index rows are a table of flat columns (see `index_columns`): the columns of an `add`, `partition` values, `min`, `max`
and `null_count` by physical path. `part_format` gives them their nested form in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.index.format.index_columns import PARTITION, column, one_array, path_of
from delta_sidecar.index.format.index_layout import IndexLayout, SortKey
from delta_sidecar.index.format.sort_keys import without_nan
from delta_sidecar.index.stats.native_types import native_typed
from delta_sidecar.index.stats.typed_stats import one_minimum, typed_stats
from delta_sidecar.log.checkpoint_rows import STATS_PARSED, FileColumns
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.values.comparison import comparable
from delta_sidecar.values.partition_values import partition_column
from delta_sidecar.values.time_buckets import contradicted

ADD_COLUMNS: Final = tuple(name for name in FILE_SCHEMA.names if name not in ("num_records", "stats"))
"""Columns of an `add` that the index holds unchanged."""
SOURCE_COLUMNS: Final = FileColumns(names=(*ADD_COLUMNS, "stats"), all_stats=True)
"""The columns that a builder reads."""


def index_rows(files: pa.RecordBatch, layout: IndexLayout) -> pa.Table:
    """The index rows of file rows, in the same order."""
    columns = {name: files.column(name) for name in ADD_COLUMNS}
    for field in layout.partition:
        values = partition_column(files.column("partition_values"), field).values
        columns[column(PARTITION, (field.physical_name,))] = values
    parsed = files.column(STATS_PARSED) if STATS_PARSED in files.schema.names else None
    stats = typed_stats(files.column("stats"), parsed, layout.leaves)
    columns |= {name: stats.column(name) for name in stats.column_names}
    return pa.table(columns)


def sort_key_of_files(files: pa.RecordBatch, layout: IndexLayout) -> pa.Array:
    """The sort key of file rows, without typing the rest of their stats; null where it is unknown."""
    sort = layout.sort
    if sort.kind == "modification_time":
        return files.column("modification_time")
    if sort.kind == "partition":
        field = next(f for f in layout.partition if (f.physical_name,) == sort.path)
        return without_nan(partition_column(files.column("partition_values"), field).values)
    leaf = next(leaf for leaf in layout.leaves if leaf.path == sort.path)
    parsed = files.column(STATS_PARSED) if STATS_PARSED in files.schema.names else None
    return one_minimum(files.column("stats"), parsed, leaf)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of several tables in one, whatever columns each has."""
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def sort_key(rows: pa.Table, sort: SortKey) -> pa.Array:
    """The key of each row; null where it is unknown."""
    if sort.kind == "modification_time":
        return _array(rows, "modification_time", pa.int64())
    kind = PARTITION if sort.kind == "partition" else "min"
    return without_nan(_array(rows, column(kind, sort.path), pa.int64()))


def _array(rows: pa.Table, name: str, absent: pa.DataType) -> pa.Array:
    if name not in rows.column_names:
        return arrays.nulls(rows.num_rows, absent)
    return one_array(rows.column(name))


def sorted_rows(rows: pa.Table, layout: IndexLayout) -> pa.Table:
    """Rows in the order of the index."""
    # Without rows every column is null throughout, and there is nothing to sort by.
    return rows.take(order_of(order_columns(rows, layout))) if rows.num_rows else rows


def order_columns(rows: pa.Table, layout: IndexLayout) -> list[pa.Array]:
    """What rows are ordered by, descending: the key, within it the time column's minimum, then the path.

    Files of one bucket that were written one after the other have neighbouring times, ids and counters: in the order
    of time these pack into half the bytes they take in that of random names, and row groups have narrow time ranges.
    """
    columns = [sort_key(rows, layout.sort)]
    if layout.time is not None and layout.sort.path != layout.time.path:
        columns.append(_array(rows, column("min", layout.time.path), pa.int64()))
    return [*columns, one_array(rows.column("path"))]


def order_key(rows: pa.Table, layout: IndexLayout) -> pa.Table:
    """The columns that `order_columns` reads; rows with these alone have the same order."""
    sort, time = layout.sort.path, () if layout.time is None else layout.time.path
    names = {"modification_time", column(PARTITION, sort), column("min", sort), column("min", time), "path"}
    return rows.select([name for name in rows.column_names if name in names])


def order_of(columns: Sequence[pa.Array]) -> pa.UInt64Array:
    """The order of an index: by these columns, descending, nulls last, texts by their bytes. So the files that come
    first are the newest, and those without a key come after all others."""
    table = {str(number): array for number, array in enumerate(columns) if array.null_count < len(array)}
    if not table:
        return pa.array(range(len(columns[0])), pa.uint64())
    by = [(name, "descending") for name in table]
    return pc.sort_indices(pa.table(table), sort_keys=by)


def off_bucket(rows: pa.Table, layout: IndexLayout) -> NDArray[np.bool_]:
    """The rows whose own time bounds contradict a time bucket of theirs."""
    flags = np.zeros(rows.num_rows, np.bool_)
    typed = {field.physical_name for field in layout.partition}
    leaves = {leaf.path: leaf for leaf in layout.leaves}
    for bucket in layout.buckets:
        if bucket.time not in leaves or not typed.issuperset(bucket.columns):
            continue
        values = [comparable(_array(rows, column(PARTITION, (name,)), pa.string())) for name in bucket.columns]
        low, high = (_array(rows, column(kind, bucket.time), pa.timestamp("us")) for kind in ("min", "max"))
        nulls = _array(rows, column("null_count", bucket.time), pa.int64())
        flags |= contradicted(bucket, values, comparable(low), comparable(high), nulls)
    return flags


def conformed(rows: pa.Table, layout: IndexLayout) -> pa.Table:
    """Rows of an older part with bounds in the types that columns have now; what has no legal way there is unknown."""
    leaves = {leaf.path: leaf for leaf in layout.leaves}
    for index, name in enumerate(rows.column_names):
        kind, *path = path_of(name)
        leaf = leaves.get(tuple(path))
        if (
            kind not in ("min", "max")
            or leaf is None
            or leaf.bound is None
            or rows.schema.field(index).type == leaf.bound
        ):
            continue
        array = native_typed(one_array(rows.column(index)), kind, leaf)
        rows = rows.set_column(index, name, pa.nulls(len(rows), leaf.bound) if array is None else array)
    return rows
