"""Tables with a change feed, made by hand, and their changes in short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.data.row_stream import RowStream
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.settings import Settings
from delta_sidecar.storage import Store, open_store
from delta_sidecar.table_access import TableAccess
from delta_sidecar.testing.actions import AddFile, DeletionVector, RemoveFile, cdc
from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.model import Action
from delta_sidecar.testing.table_builder import LogBuilder
from tests.data.test_reader import inline_vector

FEED = {"delta.enableChangeDataFeed": "true"}
COLUMNS = {"k": "long", "s": "string"}


def feed_table(root: Path, columns: Any = None, partition_by: Sequence[str] = (), **configuration: str) -> LogBuilder:
    """A log whose first commit has the feed on."""
    return LogBuilder(root).metadata(columns or COLUMNS, partition_by, FEED | configuration)


def keyed(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"s{key}" for key in keys]})


def written(root: Path, path: str, rows: pa.Table | Sequence[int], **more: Any) -> AddFile:
    """A data file and its add."""
    return write_data_file(root, path, rows if isinstance(rows, pa.Table) else keyed(*rows), **more)


def removed(file: AddFile, dv: DeletionVector | None = None, **more: Any) -> RemoveFile:
    """The remove of a file, with a vector."""
    return RemoveFile(file.path, dv, extended=True, partition=file.partition, size=file.size, **more)


def vector(*positions: int) -> DeletionVector:
    wire = inline_vector(*positions)
    return DeletionVector(wire["pathOrInlineDv"], "i", None, wire["sizeInBytes"], wire["cardinality"])


def recorded(
    root: Path, path: str, rows: pa.Table, types: Sequence[str], partition: Mapping[str, str | None] | None = None
) -> Action:
    """A file of changed rows and its `cdc` action."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.append_column("_change_type", pa.array(types)), target)
    return cdc(path, target.stat().st_size, partition)


def access(store: Store, version: int | None = None, settings: Settings | None = None) -> TableAccess:
    """An open table on a store of a test."""
    settings = settings or Settings()
    snapshot = load_snapshot(store, version, settings.commit_limits)
    return TableAccess(snapshot, settings, store, open_store, None, None, False)


def in_short(stream: RowStream) -> list[tuple[int, str, int]]:
    """Version, kind and key of each change, sorted within a version."""
    rows = [row for batch in stream for row in batch.to_pylist()]
    short = [(row["_commit_version"], row["_change_type"], row["k"]) for row in rows]
    assert [version for version, *_ in short] == sorted(version for version, *_ in short)
    return sorted(short)
