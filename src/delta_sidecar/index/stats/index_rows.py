"""File rows of the log as index rows: typed, flat, sorted.

Index rows are a table of flat columns (see `index_columns`): the columns of an `add`, `partition` values, `min`, `max`
and `null_count` by physical path. `part_format` gives them their nested form in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.index.format.index_columns import PARTITION, STATS_JSON, column, one_array, stats_table
from delta_sidecar.index.format.index_layout import IndexLayout, Leaf, SortKey
from delta_sidecar.index.format.sort_keys import without_nan
from delta_sidecar.index.stats.native_types import SIDES, native_typed
from delta_sidecar.index.stats.stats_texts import from_texts
from delta_sidecar.index.stats.typed_stats import one_minimum, typed_stats
from delta_sidecar.log.checkpoint_rows import STATS_PARSED, FileColumns
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.values.comparison import comparable
from delta_sidecar.values.partition_values import partition_column
from delta_sidecar.values.time_buckets import contradicted
from delta_sidecar.values.types import arrow_type

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
    """Rows of an older part in the types that columns have now; a bound that has no legal way there is unknown.

    Texts that a part keeps are read again: the wider type may hold more of what they say.
    """
    columns = {name: one_array(rows.column(name)) for name in rows.column_names}
    changed = [leaf for leaf in layout.leaves if _is_of_other_type(columns, leaf)]
    texts = columns.get(STATS_JSON)
    reread = stats_table({}, rows.num_rows) if texts is None or not changed else from_texts(texts, tuple(changed))
    for leaf in changed:
        for kind in SIDES:
            name = column(kind, leaf.path)
            native = native_typed(columns[name], kind, leaf) if name in columns else None
            known = [one_array(reread.column(name))] if name in reread.column_names else []
            known += [] if native is None else [native]
            if known or name in columns:
                columns[name] = pc.coalesce(*known) if known else pa.nulls(rows.num_rows, leaf.bound)
    return pa.table(columns | _retyped_partition(columns, layout))


def _is_of_other_type(columns: Mapping[str, pa.Array], leaf: Leaf) -> bool:
    """Whether a part has bounds of a leaf in another type than it has now, or none where another type may be why."""
    if leaf.bound is None:
        return False
    there = [columns[name].type for name in (column(kind, leaf.path) for kind in SIDES) if name in columns]
    return any(kind != leaf.bound for kind in there) or (leaf.had_other_type and len(there) < len(SIDES))


def _retyped_partition(columns: Mapping[str, pa.Array], layout: IndexLayout) -> dict[str, pa.Array]:
    """The partition values whose type in the part is not that of now. Their texts say what they are: as a double,
    0.1 is another number than the float 0.1."""
    retyped: dict[str, pa.Array] = {}
    for field in layout.partition:
        name = column(PARTITION, (field.physical_name,))
        if name not in columns or columns[name].type != arrow_type(field.type):
            retyped[name] = partition_column(columns["partition_values"], field).values
    return retyped
