"""A table that is worth looking at: some days of hours, checkpoints, an index of many parts and row groups, a tail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import AddFile, add, column
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression

BUCKET = "_event_hour"
START = datetime(2026, 2, 7, tzinfo=UTC)
FILES, GROUPS = 128, 8
"""Files an hour, and row groups of its part in the index, at most."""


def moment(hour: int, minutes: int = 0) -> datetime:
    return START + timedelta(hours=hour, minutes=minutes)


def bucket(hour: int) -> str:
    return moment(hour).strftime("%Y%m%d%H")


def _file(hour: int, number: int) -> AddFile:
    """Files of devices: `device` is from ten times its number on."""
    low, high = moment(hour), moment(hour, 59)
    device = 10 * number
    stats: dict[str, Any] = {
        "numRecords": 40_000 + 700 * number,
        "minValues": {"ts": low, "device": device, "value": -1.0},
        "maxValues": {"ts": high, "device": device + 9, "value": 1.0},
        "nullCount": {"ts": 0, "device": 0, "value": 0},
    }
    size = 41_000_000 + 1_000_003 * ((hour * 7 + number * 13) % 23)
    return add(
        f"{BUCKET}={bucket(hour)}/part-{number:03}-c000.snappy.parquet",
        size,
        partition={BUCKET: bucket(hour)},
        stats=stats,
    )


def write_telemetry(root: Path, hours: int, indexed: int, most_files: int = FILES) -> Path:
    """A commit an hour, a checkpoint every thirty, an index of the version `indexed`, and of thirty versions before."""
    generated = {GENERATION_EXPRESSION: bucket_expression("ts", "hour")}
    columns = [
        column("ts", "timestamp"),
        column("device", "long"),
        column("value", "double"),
        column(BUCKET, "string", metadata=generated),
    ]
    limits = BuildLimits(row_group_rows=most_files // GROUPS, part_rows=most_files, single_rows=1, small_rows=1)
    log = LogBuilder(root).protocol(writer=4).metadata(columns, partition_by=[BUCKET], name="telemetry")
    for hour in range(hours):
        files = most_files - most_files // 16 * (hour * 5 % 7)
        info = {
            "operation": "WRITE",
            "engineInfo": "Apache-Spark/4.2.0 Delta-Lake/4.4.0",
            "operationMetrics": {"numFiles": str(files)},
        }
        log.commit(
            *(_file(hour, n) for n in range(files)), info=info, mtime_ms=int(moment(hour, 63).timestamp() * 1000)
        )
        if hour and hour % 30 == 0:
            log.checkpoint()
        if hour in (indexed, indexed - 30):
            build_index(open_store(str(root)), options=BuildOptions(part_rows=most_files, limits=limits))
    return root
