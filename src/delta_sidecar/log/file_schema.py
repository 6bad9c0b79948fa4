"""The rows of a file listing: one Arrow schema, whatever the source."""

from __future__ import annotations

import pyarrow as pa

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

FILE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modification_time", pa.int64()),
        ("partition_values", STRING_MAP),
        ("deletion_vector", DELETION_VECTOR),
        ("num_records", pa.int64()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("base_row_id", pa.int64()),
        ("default_row_commit_version", pa.int64()),
        ("clustering_provider", pa.string()),
    ]
)
"""Every column a listing can have, in order."""

DEFAULT_COLUMNS = ("path", "size", "modification_time", "partition_values", "deletion_vector")
"""The default columns of a listing: those that cost little in every kind of checkpoint."""
