"""Statistics of chosen files, typed, as the log has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.log.file_keys import all_plain
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.predicates.expression import Column
from delta_sidecar.pruning.file_bounds import FileBounds, is_prunable, num_records
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.settings import Settings
from delta_sidecar.storage.uri import Location, has_scheme, parse_location, resolve_log_path
from delta_sidecar.values.types import PrimitiveType, StructField, StructType, arrow_type


def stats_columns(schema: StructType, names: Sequence[str] | None) -> list[Column]:
    """The leaves whose stats are wanted, by dotted logical name; all leaves that can have any if none is named. A
    column whose own name has dots is found by it."""
    if names is not None:
        return [Column(schema.resolve(name.split(".") if schema.find(name) is None else [name])) for name in names]
    return [column for column in struct_leaves(schema) if is_prunable(column)]


def struct_leaves(schema: StructType, above: tuple[StructField, ...] = ()) -> Iterator[Column]:
    """The columns of a schema that are not structs, at any depth; lists and maps are leaves."""
    for field in schema:
        if isinstance(field.type, StructType):
            yield from struct_leaves(field.type, (*above, field))
        else:
            yield Column((*above, field))


def file_stats(
    snapshot: Snapshot, settings: Settings, paths: Sequence[str], columns: Sequence[Column]
) -> pa.RecordBatch:
    """One row for each live file among `paths`: its row count and each column's bounds and null count.

    A path is the log's own, or says where the file is: a local path or URI, decoded or percent-encoded.
    """
    wanted = _WantedFiles(paths, parse_location(snapshot.store.root_uri))
    batches: list[pa.RecordBatch] = []
    with FileScan(snapshot, settings, columns=["path", "stats"]) as scan:
        for batch in scan:
            rows = batch.filter(wanted.among(batch.column("path")))
            if rows.num_rows:
                batches.append(typed_stats(rows, columns))
    schema = stats_schema(columns)
    return pa.Table.from_batches(batches, schema).combine_chunks().to_batches()[0] if batches else _empty(schema)


class _WantedFiles:
    """Files that are asked for, by the log's text or by their place."""

    def __init__(self, paths: Sequence[str], table: Location) -> None:
        self._table = table
        self._texts = arrays.strings(list(paths))
        self._places = {place.text for path in paths for place in _places(path, table)}
        below = [table.relative(place) for path in paths for place in _places(path, table)]
        self._below = arrays.strings([path for path in below if path is not None])

    def among(self, paths: pa.StringArray) -> pa.BooleanArray:
        """Which of some paths of the log are asked for."""
        by_text = pc.is_in(paths, value_set=self._texts)
        if all_plain(paths):
            return pc.or_(by_text, pc.is_in(paths, value_set=self._below))
        places = (resolve_log_path(self._table, path).text in self._places for path in paths.to_pylist())
        return pc.or_(by_text, arrays.booleans(np.fromiter(places, np.bool_, len(paths))))


def _places(path: str, table: Location) -> Iterator[Location]:
    """The places that a path may name: as the log writes it, percent-encoded, and as `file_uris` does, decoded."""
    yield resolve_log_path(table, path)
    if has_scheme(path) or (path.startswith("/") and table.scheme == "file"):
        yield parse_location(path)
    else:
        yield table.join(path)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def stats_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns of `typed_stats`."""
    fields = [pa.field("path", pa.string()), pa.field("num_records", pa.int64())]
    for column in columns:
        bound = arrow_type(column.type)
        fields += [pa.field(f"min.{column}", bound), pa.field(f"max.{column}", bound)]
        fields.append(pa.field(f"null_count.{column}", pa.int64()))
    return pa.schema(fields)


def typed_stats(rows: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Row counts, bounds and null counts of files of a listing that has `path` and `stats`."""
    source = FileBounds(rows, columns, widen=False)
    filled = [rows.column("path"), num_records(rows.column("stats"))]
    for column in columns:
        target = arrow_type(column.type)
        bounds = source.bounds(column)
        if bounds is None:
            filled += [pa.nulls(rows.num_rows, target)] * 2 + [pa.nulls(rows.num_rows, pa.int64())]
        else:
            filled += [presented(bounds.minimum, column, target), presented(bounds.maximum, column, target)]
            filled.append(bounds.null_count)
    return pa.RecordBatch.from_arrays(filled, schema=stats_schema(columns))


def presented(bounds: pa.Array, column: Column, target: pa.DataType) -> pa.Array:
    """Bounds from their comparison type back into the column's."""
    if bounds.null_count == len(bounds):
        return pa.nulls(len(bounds), target)
    if column.type == PrimitiveType("date"):
        return bounds.cast(pa.int32()).view(target)
    if pa.types.is_timestamp(target):
        return bounds.view(target)
    return bounds.cast(target, safe=False)
