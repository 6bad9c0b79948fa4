"""A data file as the log describes it, from the rows of a listing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.data.deletion_vectors import Descriptor
from delta_sidecar.data.file_column import is_file_column
from delta_sidecar.errors import CorruptDataError
from delta_sidecar.predicates.expression import Column
from delta_sidecar.storage.uri import Location, resolve_log_path
from delta_sidecar.values.partition_values import PartitionColumn, partition_column
from delta_sidecar.values.types import StructField

FILE_COLUMNS: Final = ("path", "size", "partition_values", "deletion_vector")
"""What a listing must say of files to read rows from them."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of the table, and which of its rows are wanted."""

    path: str
    """The log's own text."""
    size: int | None
    """None where the log does not say."""
    partition_values: Mapping[str, pa.Scalar | None]
    """Typed, by logical name, of the columns that are needed; None where the log's text cannot be read."""
    deletion_vector: Descriptor | None = None
    only_in: Descriptor | None = None
    """Of the rows that are not deleted, only those of this vector; None for all of them."""
    num_records: int | None = None
    """The rows in the file, deleted ones included, where the log says."""

    @property
    def live_records(self) -> int | None:
        """The rows that are not deleted, where the log says."""
        if self.num_records is None or self.only_in is not None:
            return None
        return self.num_records - (self.deletion_vector.cardinality if self.deletion_vector else 0)

    def constants(self) -> dict[str, pa.Scalar]:
        """The partition values; one that cannot be read is an error."""
        for name, value in self.partition_values.items():
            if value is None:
                raise CorruptDataError(
                    f"data file {self.path!r}: the value of partition column {name!r} cannot be read as its type; "
                    "leave the column out of `columns` or fix the file's entry in the log"
                )
        return dict(self.partition_values)


class DataFileList:
    """The files of a listing, one by one; closing it closes the listing. `num_records` may be left out of it."""

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        partition_fields: Sequence[StructField],
        partition_timezone: str,
        table: Location | None = None,
    ) -> None:
        """Where the table is must be given if one of the fields is a file column."""
        self._batches = iter(batches)
        self._partition = [Column((f,), is_partition=True) for f in partition_fields if not is_file_column(f)]
        self._file_columns = [f.name for f in partition_fields if is_file_column(f)]
        self._table = table
        self._timezone = partition_timezone
        self._rows: Iterator[DataFile] = iter(())

    def __iter__(self) -> DataFileList:
        return self

    def __next__(self) -> DataFile:
        while (file := next(self._rows, None)) is None:
            self._rows = self._files_of(next(self._batches))
        return file

    def close(self) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()

    def _files_of(self, batch: pa.RecordBatch) -> Iterator[DataFile]:
        rows = zip(
            batch.column("path").to_pylist(),
            batch.column("size").to_pylist(),
            self._partition_values(batch),
            _optional(batch, "deletion_vector"),
            _optional(batch, "num_records"),
            strict=False,
        )
        for path, size, values, vector, records in rows:
            descriptor = None if vector is None else Descriptor.from_row(vector)
            for name in self._file_columns:
                values[name] = self._place(path)
            yield DataFile(path, size, values, descriptor, num_records=records)

    def _place(self, path: str) -> pa.Scalar:
        """Where a file is, as `DeltaTable.file_uris` says it."""
        assert self._table is not None
        return arrays.strings([resolve_log_path(self._table, path).text])[0]

    def _partition_values(self, batch: pa.RecordBatch) -> Iterator[dict[str, pa.Scalar | None]]:
        maps = batch.column("partition_values")
        columns = {str(c): partition_column(maps, c.fields[0], self._timezone) for c in self._partition}
        for row in range(batch.num_rows):
            yield {name: _value(column, row) for name, column in columns.items()}


def _value(column: PartitionColumn, row: int) -> pa.Scalar | None:
    return column.values[row] if column.known[row].as_py() else None


def _optional(batch: pa.RecordBatch, name: str) -> Iterator[Any]:
    if name not in batch.schema.names:
        return repeat(None)
    return iter(batch.column(name).to_pylist())
