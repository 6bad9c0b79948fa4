"""The deletion vectors of a table as masks: for each file that has one, which of its rows are not deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from delta_sidecar.arrays import booleans
from delta_sidecar.data.data_files import FILE_COLUMNS, DataFile, DataFileList
from delta_sidecar.data.deletion_vectors import deleted_rows_of
from delta_sidecar.data.file_bytes import Sources, open_parquet
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage.uri import Location, parse_location, resolve_log_path

COUNTED_FILE_COLUMNS: Final = (*FILE_COLUMNS, "num_records")
"""What the listing must have."""

_MASK: Final = pa.list_(pa.field("item", pa.bool_(), nullable=False))
_SCHEMA: Final = pa.schema(
    [pa.field("filepath", pa.large_string(), nullable=False), pa.field("selection_vector", _MASK, nullable=False)]
)
_PLAIN_IN_URIS: Final = "/!$&'()*+,;=:@~"


def deletion_masks(scan: FileScan, sources: Sources) -> pa.RecordBatchReader:
    """One batch for each file with a deletion vector: its URI, percent-encoded, and a mask of all its rows in which
    False is a deleted one. Vectors are read as the reader goes on."""
    return pa.RecordBatchReader.from_batches(_SCHEMA, _batches(scan, sources))


def _batches(scan: FileScan, sources: Sources) -> Iterator[pa.RecordBatch]:
    table = parse_location(sources.table.root_uri)
    with scan:
        marked = (batch.filter(batch.column("deletion_vector").is_valid()) for batch in scan)
        for file in DataFileList(marked, (), "UTC"):
            uri = pa.array([_encoded(resolve_log_path(table, file.path))], pa.large_string())
            yield pa.RecordBatch.from_arrays([uri, _mask(file, sources)], schema=_SCHEMA)


def _mask(file: DataFile, sources: Sources) -> pa.ListArray:
    count = _row_count(file, sources)
    deleted = deleted_rows_of(file.deletion_vector, sources)
    kept = None if deleted is None else deleted.kept(0, count)
    flags = booleans(np.ones(count, np.bool_) if kept is None else kept)
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), flags, type=_MASK)


def _row_count(file: DataFile, sources: Sources) -> int:
    """The rows in the file, deleted ones included."""
    if file.num_records is not None:
        return file.num_records
    with open_parquet(sources, file.path, file.size) as source:
        return int(source.parquet.metadata.num_rows)


def _encoded(place: Location) -> str:
    uri = place.uri
    return uri[: len(uri) - len(place.path)] + quote(place.path, safe=_PLAIN_IN_URIS)
