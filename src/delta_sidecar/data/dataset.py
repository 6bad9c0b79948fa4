"""A table's files as a pyarrow dataset, for tables whose rows are exactly the rows of their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs as pa_fs

from delta_sidecar.data.filesystem import StoreHandler
from delta_sidecar.data.request import refuse_unsupported_changes
from delta_sidecar.errors import UnsupportedTableError
from delta_sidecar.log.schema import StructType, arrow_type
from delta_sidecar.scan.expression import Column
from delta_sidecar.storage import Store, parse_location, resolve_log_path
from delta_sidecar.storage.store import is_local
from delta_sidecar.values.partition_values import partition_array


class DeltaDataset(pds.FileSystemDataset):  # type: ignore[misc]
    """A `FileSystemDataset` whose fragments are a list: `len(dataset.get_fragments())` is the number of files."""

    def get_fragments(self, filter: pds.Expression | None = None) -> list[pds.Fragment]:  # noqa: A002
        return list(super().get_fragments(filter))


def make_dataset(
    files: Iterable[pa.RecordBatch],
    schema: StructType,
    partition_columns: Sequence[str],
    mapping_mode: str,
    store: Store,
    partition_timezone: str,
    format_options: dict[str, Any] | None = None,
) -> DeltaDataset:
    """A dataset of the files of a listing; refused where files alone do not give the rows."""
    if mapping_mode != "none":
        raise UnsupportedTableError(
            f"the table maps its columns by {mapping_mode}, which a pyarrow dataset cannot follow; "
            "use to_batches, to_pyarrow_table or to_pandas"
        )
    refuse_unsupported_changes(schema)
    places = _Places(store)
    parquet = pds.ParquetFileFormat(**(format_options or {}))
    columns = [Column((schema.resolve([name])[0],), is_partition=True) for name in partition_columns]
    fragments: list[pds.Fragment] = []
    for batch in files:
        _refuse_deletion_vectors(batch)
        expressions = _partition_expressions(batch, columns, partition_timezone)
        for path, expression in zip(batch.column("path").to_pylist(), expressions, strict=True):
            fragments.append(parquet.make_fragment(places.path(path), places.filesystem, expression))
    return DeltaDataset(fragments, schema.to_arrow(), parquet, places.filesystem)


class _Places:
    """Where files lie, as a pyarrow file system and paths in it."""

    def __init__(self, store: Store) -> None:
        self._table = parse_location(store.root_uri)
        self._local = is_local(store)
        handler = None if self._local else StoreHandler(store)
        self.filesystem: pa_fs.FileSystem = pa_fs.LocalFileSystem() if handler is None else pa_fs.PyFileSystem(handler)

    def path(self, log_path: str) -> str:
        place = resolve_log_path(self._table, log_path)
        if self._local and place.scheme == "file":
            return place.path
        inside = self._table.relative(place)
        if inside is None:
            raise UnsupportedTableError(
                f"the file {log_path!r} lies outside of the table, where a pyarrow dataset cannot follow; "
                "use to_batches, to_pyarrow_table or to_pandas"
            )
        return inside


def _refuse_deletion_vectors(batch: pa.RecordBatch) -> None:
    vectors = batch.column("deletion_vector")
    if vectors.null_count < len(vectors):
        raise UnsupportedTableError(
            "some files have deletion vectors, which a pyarrow dataset cannot apply; "
            "use to_batches, to_pyarrow_table or to_pandas"
        )


def _partition_expressions(
    batch: pa.RecordBatch, columns: Sequence[Column], timezone: str
) -> list[pds.Expression | None]:
    """What is known of every row of each file."""
    if not columns:
        return [None] * batch.num_rows
    typed = [partition_array(batch.column("partition_values"), c.fields[0], timezone, strict=True) for c in columns]
    return [
        _conjunction([_equals(c, values[row]) for c, values in zip(columns, typed, strict=True)])
        for row in range(batch.num_rows)
    ]


def _equals(column: Column, value: pa.Scalar) -> pds.Expression:
    field = pds.field(str(column))
    return field == pds.scalar(value.cast(arrow_type(column.type))) if value.is_valid else field.is_null()


def _conjunction(terms: Sequence[pds.Expression]) -> pds.Expression:
    whole = terms[0]
    for term in terms[1:]:
        whole = whole & term
    return whole
