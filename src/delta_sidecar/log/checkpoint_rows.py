"""Convert checkpoint rows to rows of `FILE_SCHEMA`: which leaves to read, and how to combine their arrays.

Writers differ in string types, in fields they leave out, and in whether the row of another action has a null
struct or a struct of nulls. What comes out is always the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from delta_sidecar.arrays import nulls, streaming_pool
from delta_sidecar.log.file_schema import DELETION_VECTOR, FILE_SCHEMA

STATS_PARSED = "stats_parsed"
"""The column of a batch that holds a checkpoint's typed stats, as it has them."""

TYPED_PARTITION = "partition"
"""The column of a batch that holds typed partition values by physical name, where all of them are known."""

_SOURCES = {
    "path": "path",
    "size": "size",
    "modification_time": "modificationTime",
    "partition_values": "partitionValues",
    "deletion_vector": "deletionVector",
    "stats": "stats",
    "tags": "tags",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "clustering_provider": "clusteringProvider",
}


class FileColumns(Struct, frozen=True):
    """Which columns of file rows a scan needs from its sources."""

    names: tuple[str, ...]
    """Columns of `FILE_SCHEMA`, without `num_records`, which the stats hold."""
    stats_paths: tuple[tuple[str, ...], ...] = ()
    """Physical paths of the leaves whose typed bounds are wanted, where a checkpoint has them."""
    all_stats: bool = False
    """All typed stats are wanted, to give the stats back as JSON."""
    typed_partition: bool = False
    """Typed partition values are wanted, where the source has them."""

    def leaves(self, available: Sequence[str]) -> list[str]:
        """The Parquet leaves of a checkpoint to read."""
        prefixes = [f"add.{_SOURCES[name]}" for name in self.names if name != "deletion_vector"]
        if "deletion_vector" in self.names:
            prefixes += [f"add.deletionVector.{f.name}" for f in DELETION_VECTOR]
        prefixes += self._stats_prefixes()
        return [leaf for leaf in available if any(leaf == p or leaf.startswith(p + ".") for p in prefixes)]

    def typed_leaves(self) -> list[str]:
        """The typed leaves that together make the text of the stats needless; empty where it is wanted itself."""
        if self.all_stats or "stats" not in self.names:
            return []
        return [leaf for leaf in self._stats_prefixes() if not leaf.endswith(".tightBounds")]

    def _stats_prefixes(self) -> list[str]:
        if self.all_stats:
            return ["add.stats_parsed"]
        if "stats" not in self.names:
            return []
        tops = ["add.stats_parsed.numRecords", "add.stats_parsed.tightBounds"]
        kinds = ("minValues", "maxValues", "nullCount")
        return tops + [f"add.stats_parsed.{kind}.{'.'.join(path)}" for path in self.stats_paths for kind in kinds]


def rows_of_checkpoint(batch: pa.RecordBatch, columns: FileColumns) -> pa.RecordBatch:
    """The adds of a checkpoint batch as rows of the asked-for columns (and `stats_parsed`, where it was read)."""
    add = batch.column("add")
    flat = add.flatten(memory_pool=streaming_pool()) if add.null_count else [add.field(i) for i in range(len(add.type))]
    fields = dict(zip((f.name for f in add.type), flat, strict=True))
    names = list(columns.names)
    columns_read = [normal(fields.get(_SOURCES[name]), name, len(add)) for name in names]
    if STATS_PARSED in fields:
        names.append(STATS_PARSED)
        columns_read.append(_plain(fields[STATS_PARSED]))
    rows = pa.RecordBatch.from_arrays(columns_read, names=names)
    path = rows.column("path")
    check_text(path)
    return rows.filter(path.is_valid()) if path.null_count else rows


def check_text(paths: pa.StringArray) -> None:
    """Paths must be UTF-8, which only bytes beyond ASCII can break."""
    data = paths.buffers()[2]
    if data is not None and data.size and np.frombuffer(data, np.int8).min() < 0:
        paths.validate(full=True)


def _plain(array: pa.Array) -> pa.Array:
    """The array without views and dictionaries, which not every kernel takes."""
    plain = _plain_type(array.type)
    return array if plain == array.type else array.cast(plain)


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([f.with_type(_plain_type(f.type)) for f in data_type])
    if pa.types.is_dictionary(data_type):
        return _plain_type(data_type.value_type)
    if pa.types.is_string_view(data_type) or pa.types.is_large_string(data_type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(data_type) else data_type


def normal(array: pa.Array | None, name: str, count: int) -> pa.Array:
    """A column of a source in the type of `FILE_SCHEMA`; nulls where the source has none."""
    target = FILE_SCHEMA.field(name).type
    if array is None:
        return nulls(count, target)
    if name == "deletion_vector":
        return _deletion_vectors(array)
    return array if array.type == target else array.cast(target)


def _deletion_vectors(array: pa.StructArray) -> pa.StructArray:
    if array.null_count == len(array):
        return nulls(len(array), DELETION_VECTOR)
    parts = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    if "storageType" not in parts or parts["storageType"].null_count == len(array):
        return nulls(len(array), DELETION_VECTOR)
    children = [
        parts[f.name].cast(f.type) if f.name in parts else pa.nulls(len(array), f.type) for f in DELETION_VECTOR
    ]
    return pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR), mask=parts["storageType"].is_null())
