"""A data file as the log describes it, out of the rows of a listing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa

from delta_sidecar.data.deletion_vectors import Descriptor


@dataclass(frozen=True, slots=True)
class DataFile:
    """One live file of the table."""

    path: str
    """The log's own text."""
    size: int
    partition_values: Mapping[str, str | None]
    """By physical name."""
    deletion_vector: Descriptor | None = None
    num_records: int | None = None
    """The rows in the file, deleted ones included, where the log says."""

    @property
    def live_records(self) -> int | None:
        """The rows that are not deleted, where the log says."""
        if self.num_records is None:
            return None
        return self.num_records - (self.deletion_vector.cardinality if self.deletion_vector else 0)


def data_files(batches: Iterator[pa.RecordBatch]) -> Iterator[DataFile]:
    """The files of a listing, one by one. `num_records` may be left out of the batches."""
    for batch in batches:
        rows = zip(
            batch.column("path").to_pylist(),
            batch.column("size").to_pylist(),
            batch.column("partition_values").to_pylist(),
            _optional(batch, "deletion_vector"),
            _optional(batch, "num_records"),
            strict=False,
        )
        for path, size, values, vector, records in rows:
            descriptor = None if vector is None else Descriptor.from_row(vector)
            yield DataFile(path, size or 0, dict(values or ()), descriptor, records)


def _optional(batch: pa.RecordBatch, name: str) -> Iterator[Any]:
    if name not in batch.schema.names:
        return repeat(None)
    return iter(batch.column(name).to_pylist())
