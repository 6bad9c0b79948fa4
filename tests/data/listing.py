"""The live files of a small table by a plain forward replay: the rows' tests must not depend on ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.data.row_scan import read_rows
from delta_sidecar.data.row_stream import RowStream
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.storage import Store, open_store
from delta_sidecar.values.types import StructType, parse_schema

COLUMNS = ("path", "size", "partition_values", "deletion_vector", "num_records")
LISTING = pa.schema([FILE_SCHEMA.field(name) for name in COLUMNS])


@dataclass(frozen=True)
class Listing:
    """A table's live files and what is needed to read their rows."""

    root: str
    rows: list[dict[str, Any]]
    schema: StructType
    partition_columns: list[str]
    mapping_mode: str

    def batches(self, size: int = 3) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.rows), size):
            yield pa.RecordBatch.from_pylist(self.rows[start : start + size], LISTING)

    def read(self, where: str | None = None, *, store: Store | None = None, **options: Any) -> RowStream:
        predicate = bind_predicate(where, self.schema, self.partition_columns)
        return read_rows(
            self.batches(),
            store or open_store(self.root),
            self.schema,
            self.partition_columns,
            mapping_mode=self.mapping_mode,
            predicate=predicate,
            open_other=open_store,
            **options,
        )

    def table(self, where: str | None = None, **options: Any) -> pa.Table:
        with self.read(where, **options) as stream:
            return pa.Table.from_batches(list(stream), stream.schema)


def listing_of(root: Path | str) -> Listing:
    """The newest version of a table with JSON commits, or with a classic checkpoint and commits after it."""
    log = Path(root) / "_delta_log"
    live: dict[tuple[str, str], dict[str, Any]] = {}
    metadata: dict[str, Any] = {}
    for action in _actions(log):
        if removed := action.get("remove"):
            live.pop(_key(removed), None)
        if added := action.get("add"):
            live[_key(added)] = added
        metadata = action.get("metaData") or metadata
    mode = dict(metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    schema = parse_schema(metadata["schemaString"], mode)
    return Listing(str(root), [_row(a) for a in live.values()], schema, list(metadata["partitionColumns"]), mode)


def _actions(log: Path) -> Iterator[dict[str, Any]]:
    checkpoints = sorted(p for p in log.iterdir() if re.fullmatch(r"\d{20}\.checkpoint(\.\d+\.\d+)?\.parquet", p.name))
    newest = checkpoints[-1].name[:20] if checkpoints else ""
    for path in checkpoints:
        if path.name[:20] == newest:
            yield from pq.read_table(path).to_pylist(maps_as_pydicts="strict")
    for path in sorted(log.glob("*.json")):
        if re.fullmatch(r"\d{20}\.json", path.name) and path.name[:20] > newest:
            yield from map(json.loads, path.read_text().splitlines())


def _key(action: dict[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"


def _row(add: dict[str, Any]) -> dict[str, Any]:
    stats = json.loads(add.get("stats") or "{}")
    return {
        "path": add["path"],
        "size": add["size"],
        "partition_values": list((add.get("partitionValues") or {}).items()),
        "deletion_vector": add.get("deletionVector"),
        "num_records": stats.get("numRecords"),
    }


def sorted_rows(table: pa.Table, columns: Sequence[str] | None = None) -> list[str]:
    """Rows in an order that does not depend on files, comparable whatever they hold."""
    names = list(columns or table.column_names)
    return sorted(repr([row[name] for name in names]) for row in table.to_pylist())
