"""The classic checkpoint of a generated log, written a row group at a time, so memory does not grow with the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import synthetic
from benchmarks.specs import BUCKET, LogSpec
from benchmarks.synthetic import START_MILLIS, Ints, Layout
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression

STRING_MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
    ]
)
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
# Dictionaries only where values repeat: elsewhere the writer would try, give up, and cost minutes at 10 M rows.
DICTIONARY = ["add.partitionValues.key_value.key", "add.partitionValues.key_value.value"]
TABLE_ID = "5f1c6f2e-0d6b-4c7e-9f5e-2b8f3c1d7a90"
PROTOCOL_ACTION = {"minReaderVersion": 1, "minWriterVersion": 4}


def write_checkpoint(spec: LogSpec, path: Path) -> int:
    """Write the classic checkpoint, one row group at a time; gives the bytes of all files in it."""
    layout, total = layout_of(spec), 0
    schema = checkpoint_schema(spec)
    options: dict[str, Any] = {"compression": spec.compression, "use_dictionary": DICTIONARY}
    with pq.ParquetWriter(path, schema, **options) as writer:
        for files in _file_numbers(spec):
            table = pa.Table.from_batches([_add_rows(spec, layout, files, schema)])
            if total == 0:
                table = pa.concat_tables([_head_rows(layout, schema), table])
            writer.write_table(table, row_group_size=len(table))
            total += int(synthetic.sizes(files).sum())
    return total


def checkpoint_schema(spec: LogSpec) -> pa.Schema:
    """The columns of the checkpoint, named and ordered as Spark writes them."""
    return pa.schema(
        [("txn", TXN), ("add", _add_type(spec)), ("remove", REMOVE), ("metaData", METADATA), ("protocol", PROTOCOL)]
    )


def layout_of(spec: LogSpec) -> Layout:
    """The part of a spec that shapes single files."""
    return Layout(spec.files_per_hour, spec.stat_columns, spec.partitioned)


def metadata_action(layout: Layout) -> dict[str, Any]:
    """The table's `metaData` action."""
    names = [(column.name, column.type) for column in layout.columns]
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in names]
    if layout.partitioned:
        # As the pipeline makes its tables: the bucket is generated, so that a range of time is one of buckets.
        generated = {GENERATION_EXPRESSION: bucket_expression("ts", "hour")} if ("ts", "timestamp") in names else {}
        fields.append({"name": BUCKET, "type": "string", "nullable": True, "metadata": generated})
    return {
        "id": TABLE_ID,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [BUCKET] if layout.partitioned else [],
        "configuration": {"delta.dataSkippingNumIndexedCols": str(max(32, layout.stat_columns))},
        "createdTime": START_MILLIS,
    }


def batches(count: int, size: int) -> Iterator[Ints]:
    """File numbers from 0, a batch at a time."""
    for start in range(0, count, size):
        yield np.arange(start, min(count, start + size))


def _file_numbers(spec: LogSpec) -> Iterator[Ints]:
    """The files in the checkpoint's order: by time, or in a fixed order that scatters every hour over it."""
    stride = _coprime_stride(spec.files) if spec.shuffled else 1
    for batch in batches(spec.files, spec.row_group_rows):
        yield batch * stride % spec.files


def _coprime_stride(count: int) -> int:
    stride = int(count * 0.618) | 1
    while np.gcd(stride, count) != 1:
        stride += 2
    return stride


def _add_type(spec: LogSpec) -> pa.DataType:
    fields: list[tuple[str, pa.DataType]] = [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
    if spec.stats != "parsed":
        fields.append(("stats", pa.string()))
    if spec.stats != "json":
        fields.append(("stats_parsed", synthetic.stats_typed(layout_of(spec), np.arange(1)).type))
        fields += [("partitionValues_parsed", pa.struct([(BUCKET, pa.string())]))] if spec.partitioned else []
    return pa.struct(fields)


def _add_rows(spec: LogSpec, layout: Layout, files: Ints, schema: pa.Schema) -> pa.RecordBatch:
    makers: dict[str, Callable[[], pa.Array]] = {
        "path": lambda: synthetic.paths(layout, files),
        "partitionValues": lambda: partition_map(layout, files),
        "size": lambda: pa.array(synthetic.sizes(files)),
        "modificationTime": lambda: pa.array(synthetic.modification_times(layout, files)),
        "dataChange": lambda: pa.array(np.zeros(len(files), np.bool_)),
        "stats": lambda: synthetic.stats_json(layout, files),
        "stats_parsed": lambda: synthetic.stats_typed(layout, files),
        "partitionValues_parsed": lambda: pa.StructArray.from_arrays([synthetic.hour_values(layout, files)], [BUCKET]),
    }
    fields = list(schema.field("add").type)
    arrays = [makers[field.name]() if field.name in makers else pa.nulls(len(files), field.type) for field in fields]
    adds = pa.StructArray.from_arrays(arrays, fields=fields)
    columns = [adds if field.name == "add" else pa.nulls(len(files), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _head_rows(layout: Layout, schema: pa.Schema) -> pa.Table:
    metadata = metadata_action(layout)
    metadata["configuration"] = list(metadata["configuration"].items())
    metadata["format"] = {"provider": "parquet", "options": []}
    return pa.Table.from_pylist([{"protocol": PROTOCOL_ACTION}, {"metaData": metadata}], schema=schema)


def partition_map(layout: Layout, files: Ints) -> pa.Array:
    """`partitionValues` of each file."""
    if not layout.partitioned:
        return pa.MapArray.from_arrays(np.zeros(len(files) + 1, np.int32), pa.nulls(0, "string"), pa.nulls(0, "string"))
    keys = pa.DictionaryArray.from_arrays(np.zeros(len(files), np.int32), [BUCKET]).cast(pa.string())
    return pa.MapArray.from_arrays(
        np.arange(len(files) + 1, dtype=np.int32), keys, synthetic.hour_values(layout, files)
    )
