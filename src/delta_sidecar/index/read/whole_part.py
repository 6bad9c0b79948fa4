"""All rows of a part at once, for builders and checks: fetched, checked against their checksums, decoded."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.format.index_columns import (
    KINDS,
    PARTITION,
    column,
    one_array,
    path_of,
)
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.part_format import (
    PARTITION_VALUES,
    RENAMED,
    guarded,
    leaf_arrays,
    read_checked,
)
from delta_sidecar.index.format.partition_map import partition_map
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.storage.store import Buffer, Store


def read_part(store: Store, directory: str, entry: PartEntry, layout: IndexLayout) -> pa.Table:
    """All rows of a part, checked against their checksums, in the flat form of `index.stats.index_rows`."""
    return decoded_part(part_files(store, directory, entry), entry, layout)


def part_files(store: Store, directory: str, entry: PartEntry) -> dict[str, Buffer]:
    """The bytes of a part's files by their names, checked."""
    files = zip(entry.names, (entry.core, entry.stats), strict=False)
    return {name: read_checked(store, f"{directory}/{name}", file) for name, file in files if file is not None}


def decoded_part(files: Mapping[str, Buffer], entry: PartEntry, layout: IndexLayout) -> pa.Table:
    """The rows of a part that has been fetched."""
    tables = [_flat(_decoded(data, name, entry), layout) for name, data in files.items()]
    return pa.table({name: table.column(name) for table in tables for name in table.column_names})


def _decoded(data: Buffer, name: str, entry: PartEntry) -> pa.Table:
    with guarded(name):
        file = pq.ParquetFile(pa.BufferReader(data))
        rows, row_groups = file.metadata.num_rows, file.metadata.num_row_groups
        table = file.read(use_threads=False)
    if rows != entry.rows or (name == entry.core_name and row_groups != entry.row_groups):
        shape = f"{entry.rows} rows in {entry.row_groups} row groups"
        raise CorruptIndexError(f"{name} does not hold the {shape} that its manifest says; build the index again")
    return table


def _flat(table: pa.Table, layout: IndexLayout) -> pa.Table:
    """The flat form of a file's columns."""
    columns: dict[str, pa.Array] = {}
    back = {new: old for old, new in RENAMED.items()}
    for name in table.column_names:
        array = one_array(table.column(name))
        if name in (*KINDS, PARTITION):
            columns |= {column(name, path): leaf for path, leaf in leaf_arrays(array, ())}
        elif name in ("time_min", "time_max") and layout.time is not None:
            columns[column(name.removeprefix("time_"), layout.time.path)] = array
        else:
            columns[back.get(name, name)] = array
    if "path" in columns and PARTITION_VALUES not in columns:
        typed = {path_of(name)[1]: array for name, array in columns.items() if path_of(name)[0] == PARTITION}
        columns[PARTITION_VALUES] = partition_map(typed, table.num_rows)
    return pa.table(columns)


def completed(rows: pa.Table) -> pa.Table:
    """Rows with every column of an `add`; a column that the part lacks is null."""
    missing = {
        field.name: pa.nulls(rows.num_rows, field.type)
        for field in FILE_SCHEMA
        if field.name != "stats" and field.name not in rows.column_names
    }
    return pa.table({**{name: rows.column(name) for name in rows.column_names}, **missing}) if missing else rows
