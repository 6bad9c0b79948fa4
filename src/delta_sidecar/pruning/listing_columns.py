"""The columns of a listing: which are requested, what must be read for them, and how rows are converted to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import OptionError, UnknownColumnError, did_you_mean
from delta_sidecar.log.checkpoint_rows import STATS_PARSED, FileColumns
from delta_sidecar.log.file_schema import DEFAULT_COLUMNS, FILE_SCHEMA

if TYPE_CHECKING:
    from delta_sidecar.pruning.file_pruner import FilePruner


def output_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of a listing, as requested. `UnknownColumnError` for one that no listing has; `OptionError` for
    none at all."""
    if columns is None:
        return DEFAULT_COLUMNS
    if not columns:
        raise OptionError("the listing has no columns; name at least one, or leave `columns` out")
    unknown = [name for name in columns if name not in FILE_SCHEMA.names]
    if unknown:
        near = did_you_mean(unknown[0], FILE_SCHEMA.names)
        raise UnknownColumnError(f"a listing has no column {unknown[0]!r}{near}; it has {', '.join(FILE_SCHEMA.names)}")
    return tuple(dict.fromkeys(columns))


def source_columns(output: Sequence[str], pruner: FilePruner | None, stats_are_settled: bool = False) -> FileColumns:
    """What a scan must read to give `output`: keys always, stats only where something needs them."""
    names = {"path", "deletion_vector", *output} - {"num_records"}
    stats = [] if pruner is None or stats_are_settled else pruner.stats_columns
    needs_partition_values = pruner is not None and pruner.needs_partition_values
    if needs_partition_values:
        names.add("partition_values")
    if stats or "num_records" in output:
        names.add("stats")
    return FileColumns(
        names=tuple(name for name in FILE_SCHEMA.names if name in names),
        stats_paths=tuple(column.physical_path for column in stats),
        all_stats="stats" in output,
        typed_partition=needs_partition_values,
    )


def project(rows: pa.RecordBatch, output: Sequence[str]) -> pa.RecordBatch:
    """The columns of the listing, in order and with one schema, whatever the rows came from."""
    parsed = rows.column(STATS_PARSED) if STATS_PARSED in rows.schema.names else None
    columns = [_column(rows, name, parsed) for name in output]
    return pa.RecordBatch.from_arrays(columns, schema=output_schema(output))


def output_schema(output: Sequence[str]) -> pa.Schema:
    return pa.schema([FILE_SCHEMA.field(name) for name in output])


def _column(rows: pa.RecordBatch, name: str, parsed: pa.StructArray | None) -> pa.Array:
    if name == "num_records":
        from delta_sidecar.pruning.file_bounds import num_records

        return num_records(rows.column("stats"), parsed)
    if name == "stats" and parsed is not None:
        from delta_sidecar.values.stats_text import stats_text

        return stats_text(rows.column("stats"), parsed)
    return rows.column(name)
