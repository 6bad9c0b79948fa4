"""Rows of an index written as a part, whole and checksummed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_sidecar import arrays
from delta_sidecar.index.format.index_columns import (
    KINDS,
    NUM_RECORDS,
    PARTITION,
    STATS_JSON,
    TIGHT_BOUNDS,
    column,
    one_array,
    path_of,
)
from delta_sidecar.index.format.index_layout import IndexLayout, Path
from delta_sidecar.index.format.part_entries import FileEntry, KeyValue, PartEntry, cut_path
from delta_sidecar.index.format.part_format import (
    ALWAYS,
    PART_KEY,
    PARTITION_VALUES,
    RENAMED,
    file_entry,
    nested,
)
from delta_sidecar.index.format.partition_map import is_told_by
from delta_sidecar.index.format.seals import sealed, with_chunk_checksums
from delta_sidecar.index.stats.index_rows import off_bucket, sort_key
from delta_sidecar.log.file_keys import all_plain
from delta_sidecar.storage.store import Store
from delta_sidecar.values.comparison import comparable, unscaled_integers

_CORE_NAMES: Final = (
    *ALWAYS,
    PARTITION,
    NUM_RECORDS,
    TIGHT_BOUNDS,
    "dv",
    "time_min",
    "time_max",
    "tags",
    "base_row_id",
    "default_row_commit_version",
    "clustering_provider",
)


_STATS_NAMES: Final = (*KINDS, STATS_JSON)


def write_part(
    store: Store,
    directory: str,
    part: str,
    rows: pa.Table,
    layout: IndexLayout,
    row_group_rows: int,
    single: bool = False,
    metadata: Mapping[bytes, bytes] | None = None,
) -> PartEntry:
    """Write sorted rows as a part by put-if-absent; `single` puts core and stats into one file."""
    columns = _file_columns(rows, layout)
    core: dict[str, pa.Array] = {name: columns[name] for name in _CORE_NAMES if name in columns}
    stats: dict[str, pa.Array] = {name: columns[name] for name in _STATS_NAMES if name in columns}
    entry = msgspec.structs.replace(_described(part, rows, layout), row_groups=-(-rows.num_rows // row_group_rows))
    if single:
        data = sealed(_encoded(core | stats, layout, row_group_rows, metadata))
        store.put_if_absent(f"{directory}/{part}.parquet", data)
        return msgspec.structs.replace(entry, core=file_entry(data))
    if not stats:
        stats = {STATS_JSON: arrays.nulls(rows.num_rows, pa.string())}
    named = {**(metadata or {}), PART_KEY: part.encode()}
    core_data = with_chunk_checksums(_encoded(core, layout, row_group_rows, named))
    stats_data = with_chunk_checksums(_encoded(stats, layout, rows.num_rows, named))
    entry = msgspec.structs.replace(entry, core=file_entry(core_data), stats=file_entry(stats_data))
    store.put_if_absent(f"{directory}/{entry.stats_name}", stats_data)
    store.put_if_absent(f"{directory}/{entry.core_name}", core_data)
    return entry


# Nested columns of the file, out of flat ones and back.


def _file_columns(rows: pa.Table, layout: IndexLayout) -> dict[str, pa.Array]:
    """The columns of the files, without those that are null in every row."""
    flat = {name: one_array(rows.column(name)) for name in rows.column_names}
    trees: dict[str, dict[Path, pa.Array]] = {}
    columns: dict[str, pa.Array] = {}
    for name, array in flat.items():
        kind, *path = path_of(name)
        if array.null_count == len(array) and name not in ALWAYS and kind != PARTITION:
            continue
        if path and kind in ("min", "max") and layout.time is not None and tuple(path) == layout.time.path:
            columns[f"time_{kind}"] = array
        elif path:
            trees.setdefault(kind, {})[tuple(path)] = array
        else:
            columns[RENAMED.get(name, name)] = array
    typed = {path[0]: array for path, array in trees.get(PARTITION, {}).items()}
    if is_told_by(columns[PARTITION_VALUES], typed):
        del columns[PARTITION_VALUES]
    return columns | {kind: nested(tree) for kind, tree in trees.items()}


# Encoding.


def _encoded(
    columns: Mapping[str, pa.Array], layout: IndexLayout, row_group: int, metadata: Mapping[bytes, bytes] | None
) -> pa.Buffer:
    fields = [pa.field(name, array.type, nullable=_is_optional(array)) for name, array in columns.items()]
    table = pa.table(list(columns.values()), schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **_options(table.schema, layout)) as writer:
        writer.write_table(table, row_group_size=max(row_group, 1))
        if metadata:
            # Not by the schema's metadata: without the Arrow schema that is left out of the file.
            writer.add_key_value_metadata(dict(metadata))
    return sink.getvalue()


def _is_optional(array: pa.Array) -> bool:
    """Whether a column is written as nullable; one that is not is decoded faster."""
    return bool(array.null_count > 0 or pa.types.is_nested(array.type))


def _options(schema: pa.Schema, layout: IndexLayout) -> dict[str, Any]:
    """Plain paths, packed integers, dictionaries only where values repeat, statistics only on what is searched by.

    Packed integers and dictionaries hardly shrink any more, and every compressed chunk costs a reader a decompressor.
    """
    leaves = list(_leaf_columns(schema))
    repeated = [
        path for path, _ in leaves if path.split(".")[0] in (PARTITION, "partition_values", "clustering_provider")
    ]
    packed = [path for path, kind in leaves if _is_packed(kind) and path not in repeated]
    searched = [
        path for path, _ in leaves if path == "path" or path.split(".")[0] in (PARTITION, "time_min", "time_max")
    ]
    bare = {path for path in (*packed, *repeated) if path.split(".")[0] in _CORE_NAMES}
    if layout.sort.kind == "modification_time":
        searched.append("modification_time")
    return {
        "compression": {path: "none" if path in bare else "zstd" for path, _ in leaves},
        "compression_level": {path: 1 for path, _ in leaves if path not in bare},
        "use_dictionary": repeated or False,
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED") or None,
        "write_statistics": [path for path in searched if path in dict(leaves)] or False,
        "write_page_checksum": True,
        "store_schema": False,
        "version": "2.6",
    }


def _leaf_columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    leaves: list[tuple[str, pa.DataType]] = []
    for field in schema:
        leaves += _below(field.name, field.type)
    return leaves


def _below(path: str, kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _below(f"{path}.{field.name}", field.type)]
    if pa.types.is_map(kind):
        return [(f"{path}.key_value.key", kind.key_type), (f"{path}.key_value.value", kind.item_type)]
    return [(path, kind)]


def _is_packed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _described(part: str, rows: pa.Table, layout: IndexLayout) -> PartEntry:
    records = one_array(rows.column(NUM_RECORDS)) if NUM_RECORDS in rows.column_names else pa.nulls(rows.num_rows)
    key = sort_key(rows, layout.sort)
    times = [_time(rows, layout, kind) for kind in ("min", "max")]
    unknown = sum(~_valid(t) for t in times) if layout.time is not None else np.zeros(rows.num_rows)
    vectors = rows.column("deletion_vector")
    return PartEntry(
        id=part,
        rows=rows.num_rows,
        bytes=int(pc.sum(rows.column("size")).as_py() or 0),
        core=FileEntry(0, 0, 0, 0),
        records=None if records.null_count else int(pc.sum(records).as_py() or 0),
        key=(_least(key), _greatest(key)),
        key_unknown=key.null_count,
        time=(_least(times[0]), _greatest(times[1])),
        time_unknown=int(np.count_nonzero(unknown)),
        path=_path_ends(one_array(rows.column("path"))),
        vectors=rows.num_rows - vectors.null_count,
        off_bucket=int(np.count_nonzero(off_bucket(rows, layout))),
    )


def _valid(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return arrays.to_numpy_bool(array.is_valid())


def _time(rows: pa.Table, layout: IndexLayout, kind: str) -> pa.Array:
    name = column(kind, layout.time.path) if layout.time is not None else ""
    return one_array(rows.column(name)) if name in rows.column_names else pa.nulls(rows.num_rows, pa.int64())


def _path_ends(paths: pa.StringArray) -> tuple[str, str] | None:
    """The beginnings of the smallest and the greatest path; None where one may have two spellings, or ends in what
    looks like the id of a deletion vector."""
    if not len(paths) or not all_plain(paths) or pc.any(pc.match_substring(paths, "\0")).as_py():
        return None
    ends = pc.min_max(paths.view(pa.binary()))
    return cut_path(ends["min"].as_py()), cut_path(ends["max"].as_py())


def _least(values: pa.Array) -> KeyValue:
    return _extreme(values, "min")


def _greatest(values: pa.Array) -> KeyValue:
    return _extreme(values, "max")


def _extreme(values: pa.Array, which: str) -> KeyValue:
    known = comparable(values.drop_null())
    if pa.types.is_floating(known.type):
        known = known.filter(pc.invert(pc.is_nan(known)))
    if not len(known):
        return None
    value = pc.min_max(known)[which]
    if pa.types.is_decimal(known.type):
        unscaled = unscaled_integers(known.filter(pc.equal(known, value)).slice(0, 1))[0]
        return f"{unscaled}e-{known.type.scale}"
    return _key_value(value.as_py(), values.type)


def _key_value(value: Any, kind: pa.DataType) -> KeyValue:
    if isinstance(value, float) and np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass") if pa.types.is_string(kind) else value.hex()
    return value  # type: ignore[no-any-return]
