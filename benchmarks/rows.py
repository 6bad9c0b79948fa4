"""A table with real rows: many Parquet files of about 1 MB, several column types, a log written by hand.

`id` grows from file to file, so a range of it is clustered; `bucket` is drawn anew in every row, so no file can be
left out for it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.specs import START, RowsSpec

BUCKETS = 100
TYPES = {
    "id": "long",
    "ts": "timestamp",
    "day": "date",
    "bucket": "integer",
    "price": "double",
    "amount": "decimal(12,2)",
    "device": "string",
    "payload": "string",
    "flag": "boolean",
}
WITH_BOUNDS = ("id", "ts", "day", "bucket", "price", "device")
_DEVICES = pa.array([f"device-{number:04d}" for number in range(1000)])


def write_table(spec: RowsSpec, table: Path) -> None:
    """Write the data files and one commit that adds them."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    with (log / f"{0:020d}.json").open("w") as out:
        for action in _table_actions():
            out.write(json.dumps(action) + "\n")
        for number in range(spec.files):
            out.write(json.dumps({"add": _write_file(spec, table, number)}) + "\n")


def file_rows(spec: RowsSpec, number: int) -> pa.Table:
    """The rows of one file."""
    count = spec.rows_per_file
    random = np.random.default_rng(number)
    ids = np.arange(number * count, (number + 1) * count)
    micros = int(START.timestamp() * 1_000_000) + ids * 40_000
    cents = pa.array(random.integers(0, 10_000_000, count)).cast(pa.decimal128(20, 0))
    columns = {
        "id": pa.array(ids),
        "ts": pa.array(micros).cast(pa.timestamp("us", "UTC")),
        "day": pa.array((micros // 86_400_000_000).astype(np.int32)).cast(pa.date32()),
        "bucket": pa.array(random.integers(0, BUCKETS, count, dtype=np.int32)),
        "price": pa.array(random.random(count) * 1000),
        "amount": pc.multiply(cents, pa.scalar("0.01").cast(pa.decimal128(3, 2))).cast(pa.decimal128(12, 2)),
        "device": _DEVICES.take(pa.array(random.integers(0, len(_DEVICES), count))),
        "payload": _payload(random, count),
        "flag": pa.array(random.random(count) < 0.5),
    }
    return pa.table(columns)


def _payload(random: np.random.Generator, count: int) -> pa.Array:
    """Text of 24 characters a row that does not compress."""
    letters = random.integers(ord("a"), ord("z") + 1, (count, 24), dtype=np.uint8)
    offsets = np.arange(0, (count + 1) * 24, 24, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


def _write_file(spec: RowsSpec, table: Path, number: int) -> dict[str, Any]:
    rows = file_rows(spec, number)
    name = f"part-{number:05d}-c000.snappy.parquet"
    pq.write_table(rows, table / name, compression="snappy")
    return {
        "path": name,
        "partitionValues": {},
        "size": (table / name).stat().st_size,
        "modificationTime": int(START.timestamp() * 1000) + number,
        "dataChange": True,
        "stats": json.dumps(_stats(rows)),
    }


def _stats(rows: pa.Table) -> dict[str, Any]:
    bounds = {name: pc.min_max(rows[name]).as_py() for name in WITH_BOUNDS}
    return {
        "numRecords": len(rows),
        "minValues": {name: _json_value(bound["min"]) for name, bound in bounds.items()},
        "maxValues": {name: _json_value(bound["max"]) for name, bound in bounds.items()},
        "nullCount": dict.fromkeys(TYPES, 0),
    }


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return value.isoformat() if hasattr(value, "isoformat") else value


def _table_actions() -> list[dict[str, Any]]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in TYPES.items()]
    metadata = {
        "id": "0b7a1c52-6a3f-4a53-8a4e-6a3d1d6f4c11",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": int(START.timestamp() * 1000),
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
